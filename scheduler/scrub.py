"""Taking secrets out of what a provider said, before it is shown, logged or kept. Pure."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import quote, quote_plus

from catalog.facts import Note
from store.record import Answer

MASK = "***"
SHORTEST = 4
"""What is shorter is no secret, and would be found in every other word."""
SHORTEST_PART = 8
"""The shortest beginning of a secret that is known again where a text was cut within it."""
HARMLESS = ("REGION", "PROFILE", "MODE", "FILE", "BUNDLE", "OUTPUT", "PAGER", "DISABLED", "ENDPOINTS")
"""How the names of variables end that hold no secret, but words that a good answer is full of. All others may."""
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""Unicode's controls, its invisible and direction-changing characters, and lone surrogates."""


class Scrubber:
    """Knows the values of a provider's credential variables, each also as JSON, a URL, base64 or Python writes it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        forms = {form for name, value in environ.items() if not name.endswith(HARMLESS) for form in _forms(value)}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        alternatives = "|".join(map(re.escape, self._forms))
        self._text = re.compile(alternatives or r"(?!)")
        self._bytes = re.compile(alternatives.encode() or rb"(?!)")

    def text(self, text: str) -> str:
        """The text with each secret masked, and each control character written out: one line, for any terminal."""
        return _HIDDEN.sub(lambda found: ascii(found[0])[1:-1], self.lines(text))

    def lines(self, text: str) -> str:
        """The text with each secret masked, its lines kept: for a traceback of our own."""
        return self._without_cut(self._text.sub(MASK, text))

    def body(self, body: bytes) -> bytes:
        """A page with each secret masked, otherwise as it came."""
        return self._bytes.sub(MASK.encode(), body)

    def answer(self, answer: Answer) -> Answer:
        """The answer with all that it says beside its facts as `text` makes it."""
        skipped: Counter[str] = Counter()
        for reason, count in answer.skipped.items():
            skipped[self.text(reason)] += count
        notes = [Note(note.kind, self.text(note.value), note.record) for note in answer.notes]
        return replace(answer, notes=notes, skipped=skipped, missing=self.text(answer.missing))

    def _without_cut(self, text: str) -> str:
        """The text without the beginning of a secret that it ends with, where somebody cut it to length."""
        bare = text.rstrip(" .…'\"")
        for form in self._forms:
            start = bare.rfind(form[:SHORTEST_PART])
            if start >= 0 and form.startswith(bare[start:]):
                return bare[:start] + MASK + text[len(bare) :]
        return text


def _forms(value: str) -> Iterator[str]:
    """A secret as it may be written. An adapter sends it without the white space around it."""
    secret = value.strip()
    if len(secret) < SHORTEST:
        return
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (quote(secret), quote(secret, safe=""), quote_plus(secret))
    yield from (repr(secret)[1:-1], ascii(secret)[1:-1])
    # Of base64, the groups that are the same whatever follows it: `key:` of basic authentication, a line's end.
    whole = len(secret.encode()) // 3 * 4
    if whole >= SHORTEST_PART:
        yield from (encode(secret.encode()).decode()[:whole] for encode in (b64encode, urlsafe_b64encode))
