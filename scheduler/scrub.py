"""Taking secrets out of what a provider said, before it is shown, logged or kept. Pure."""

import re
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from html.entities import html5

from catalog.facts import Note
from collectors.credentials import tokens
from store.record import Answer

MASK = "***"
SHORTEST = 4
"""What is shorter is no secret, and would be found in every other word."""
SHORTEST_PART = 8
"""The shortest beginning of a secret that is known again where a text was cut within it."""
HARMLESS = ("REGION", "PROFILE", "MODE", "FILE", "BUNDLE", "OUTPUT", "PAGER", "DISABLED", "ENDPOINTS")
"""How the names of variables end that hold no secret, but words that a good answer is full of. All others may."""
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a"}
_HALF = re.compile(r"(?:\\+[uUx]?|%(?:25)*|&(?:amp;)*#?[xX]?)[0-9A-Za-z]{0,8}")
"""A character's encoding that was cut within it."""
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Unicode's controls, its invisible and direction-changing characters, and lone surrogates."""


class Scrubber:
    """Knows the values of a provider's credential variables, and the tokens that were lately had for such: however
    JSON, a URL, HTML or Python writes them, twice over too, and in base64.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        secrets = {value.strip() for name, value in environ.items() if not name.endswith(HARMLESS)}
        self._own = frozenset(form for secret in secrets for form in (secret, *_in_base64(secret)))

    def _forms(self) -> list[str]:
        """The longest first."""
        known = {form for form in (*self._own, *tokens()) if len(form) >= SHORTEST}
        return sorted(known, key=lambda form: (-len(form), form))

    def text(self, text: str) -> str:
        """The text with each secret masked, and each control character written out: one line, for any terminal."""
        return _HIDDEN.sub(lambda found: ascii(found[0])[1:-1], self.lines(text))

    def lines(self, text: str) -> str:
        """The text with each secret masked, its lines kept: for a traceback of our own."""
        forms = self._forms()
        return _without_cut(_masked(text, forms), forms)

    def body(self, body: bytes) -> bytes:
        """A page with each secret masked, otherwise as it came."""
        return _masked(body.decode(errors="surrogateescape"), self._forms()).encode(errors="surrogateescape")

    def answer(self, answer: Answer) -> Answer:
        """The answer with all that it says beside its facts as `text` makes it."""
        skipped: Counter[str] = Counter()
        for reason, count in answer.skipped.items():
            skipped[self.text(reason)] += count
        notes = [Note(note.kind, self.text(note.value), note.record) for note in answer.notes]
        return replace(answer, notes=notes, skipped=skipped, missing=self.text(answer.missing))


def _masked(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        if _literal(form) in text:
            text = _pattern(form).sub(MASK, text)
    return text


def _without_cut(text: str, forms: Iterable[str]) -> str:
    """The text without the beginning of a secret that it ends with, where somebody cut it to length."""
    bare = text.rstrip(" .…'\"")
    for form in forms:
        *_, begun = (None, *_pattern(form[:SHORTEST_PART]).finditer(bare))
        if begun and _goes_on(bare, begun.end(), form[SHORTEST_PART:]):
            return bare[: begun.start()] + MASK + text[len(bare) :]
    return text


def _goes_on(text: str, at: int, rest: str) -> bool:
    """Whether from there to its end the text is a beginning of the rest, the last character maybe half written."""
    for char in rest:
        if at == len(text) or _HALF.fullmatch(text, at):
            return True
        found = _pattern(char).match(text, at)
        if found is None:
            return False
        at = found.end()
    return at == len(text)


@lru_cache(maxsize=512)
def _literal(form: str) -> str:
    """The longest part of a secret that everybody writes alike: where it is not, the rest need not be looked for."""
    return max(re.split("[^A-Za-z0-9]+", form), key=len)


@lru_cache(maxsize=512)
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile("".join(map(_spellings, form)))


@cache
def _spellings(char: str) -> str:
    """How a character may be written. Nobody encodes the letters and digits of ASCII."""
    if char.isascii() and char.isalnum():
        return char
    code, units = ord(char), char.encode("utf-16-be", "surrogatepass").hex()
    ways = [
        "".join(f"%(?:25)*{_digits(f'{byte:02x}')}" for byte in char.encode(errors="surrogatepass")),
        "".join(rf"\\+u{_digits(units[at : at + 4])}" for at in range(0, len(units), 4)),
        rf"\\+U{_digits(f'{code:08x}')}",
        rf"&(?:amp;)*(?:#0*{code};|#[xX]0*{_digits(f'{code:x}')};|{'|'.join(_entities().get(char, ('#',)))})",
    ]
    ways += [rf"\\+x{_digits(f'{code:02x}')}"] if code < 256 else []
    ways += [rf"\\+{_ESCAPES[char]}"] if char in _ESCAPES else []
    ways += [r"\+"] if char == " " else []
    ways.append(rf"\\*{re.escape(char)}")  # last: `&` is how `&amp;` begins
    return f"(?:{'|'.join(ways)})"


def _digits(number: str) -> str:
    """Hexadecimal digits in either case."""
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in number)


@cache
def _entities() -> Mapping[str, list[str]]:
    """HTML's names by character: `amp;` and what else there is for `&`."""
    names: dict[str, list[str]] = {}
    for name, char in html5.items():
        if name.endswith(";"):
            names.setdefault(char, []).append(name)
    return names


def _in_base64(secret: str) -> Iterator[str]:
    """The characters that are the same whatever stands before and after it: `id:` of basic authentication, a line's
    end. Three ways, by where in a group of three bytes it begins.
    """
    raw = secret.encode(errors="surrogatepass")
    for before in range(3):
        first, last = (0, 2, 3)[before], (before + len(raw)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            form = encode(bytes(before) + raw).decode()[first:last]
            if len(form) >= SHORTEST_PART:
                yield form
