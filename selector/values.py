"""One parameter's text as an exact value, or a refusal that says what to write instead."""

import difflib
import re
import unicodedata
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from catalog import durations
from catalog.money import NANOS
from catalog.spec import CountRange

_NUMBER = re.compile(r"\d{1,15}(\.\d{1,4}0*)?", re.ASCII)  # as answers show it: `number_text` has four decimals
_AMOUNT = re.compile(r"\d{1,15}(\.\d{1,9}0*)?", re.ASCII)
_COUNT = re.compile(r"\d{1,6}(\.\d{1,4}0*)?|\d{1,3}/\d{1,3}", re.ASCII)
_MOST_SLICES = 64  # vGPU profiles cut a card into at most 64 (a 64 GB board into 1 GB slices)

_E = TypeVar("_E", bound=StrEnum)


class BadQuestion(ValueError):
    """A parameter or value that is not understood. Nothing is ever ignored or taken for something near it."""

    def __init__(self, parameter: str, message: str, did_you_mean: Iterable[str] = ()) -> None:
        self.parameter = parameter
        self.did_you_mean = list(did_you_mean)
        self.message = message
        hint = f" Did you mean {' or '.join(self.did_you_mean)}?" if self.did_you_mean else ""
        super().__init__(message + hint)


def has_control(text: str) -> bool:
    """Whether a control character is in it, NUL and line ends too: none belongs into a value, and some stores fail."""
    return any(unicodedata.category(character) == "Cc" for character in text)


def alike(text: str, names: Iterable[str]) -> list[str]:
    """At most five of these names that look like the text, the likest first."""
    return difflib.get_close_matches(text.casefold()[:64], sorted(set(names)), n=5, cutoff=0.5)


def number(parameter: str, text: str) -> Fraction:
    """A positive decimal number, exact, of at most four decimals: what is asked for is shown as it was understood."""
    value = Fraction(text) if _NUMBER.fullmatch(text) else None
    if not value:
        raise BadQuestion(
            parameter, f"{parameter}={text}: write a number above 0, of at most four decimals, such as 24 or 0.5."
        )
    return value


def number_or_zero(parameter: str, text: str) -> Fraction:
    """The same, and 0 besides."""
    return Fraction(0) if _NUMBER.fullmatch(text) and not Fraction(text) else number(parameter, text)


def amount_nanos(parameter: str, text: str) -> int:
    """A limit of money in nano-units, the finest that a price is known to."""
    nanos = int(Fraction(text) * NANOS) if _AMOUNT.fullmatch(text) else 0
    if not nanos:
        raise BadQuestion(
            parameter, f"{parameter}={text}: write an amount above 0, of at most nine decimals, such as 12.50."
        )
    return nanos


def whole(parameter: str, text: str, low: int, high: int) -> int:
    """A whole number between two."""
    value = int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else -1
    if not low <= value <= high:
        raise BadQuestion(parameter, f"{parameter}={text}: write a whole number from {low} to {high}.")
    return value


def truth(parameter: str, text: str) -> bool:
    """`true` or `false`."""
    value = {"true": True, "false": False}.get(text.casefold())
    if value is None:
        raise BadQuestion(parameter, f"{parameter}={text}: write true or false.", ["true", "false"])
    return value


def duration(parameter: str, text: str) -> timedelta:
    """`60s`, `10m`, `2h`, `1d`."""
    length = durations.duration(text)
    if length is None:
        raise BadQuestion(parameter, f"{parameter}={text}: write a duration from 1s to 3650d, such as 60s, 10m or 2h.")
    return length


def count_range(parameter: str, text: str) -> CountRange:
    """`4` exactly, `4..` at least, `2..8` a range, `0.25` or `1/4` that fraction."""
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not _COUNT.fullmatch(low) or (high and not _COUNT.fullmatch(high)):
        raise BadQuestion(
            parameter,
            f"{parameter}={text}: write 8, 4.. (at least), 2..8 (a range), 1/6, or 0.25 (four decimals at most).",
        )
    least = _share(parameter, low)
    most = _share(parameter, high) if high else None if dots else least
    if most is not None and (most < least or not most):
        raise BadQuestion(parameter, f"{parameter}={text}: holds no number of GPUs.")
    return CountRange(least, most)


def _share(parameter: str, text: str) -> Fraction:
    """The number, or the fraction of a card that is shown as it: `0.1667` is how one sixth is written."""
    if text.endswith("/0"):
        raise BadQuestion(parameter, f"{parameter}={text}: nothing is divided by 0.")
    exact = Fraction(text)
    near = exact.limit_denominator(_MOST_SLICES)
    return near if round(near, 4) == exact else exact


def member(parameter: str, text: str, words: Iterable[_E], also: Iterable[str] = ()) -> _E:
    """The word of an enumeration; `also` are words that the parameter takes beside, named in a refusal."""
    known = {str(word): word for word in words}
    word = known.get(text.casefold())
    if word is None:
        names = [*known, *also]
        raise BadQuestion(parameter, f"{parameter}={text}: write {', '.join(names)}.", alike(text, names) or names)
    return word
