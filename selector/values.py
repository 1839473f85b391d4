"""One parameter's text as an exact value, or a refusal that says what to write instead."""

import difflib
import re
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from catalog.money import NANOS
from catalog.spec import CountRange

_NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?", re.ASCII)
_COUNT = re.compile(r"\d{1,6}(\.\d{1,9})?|\d{1,3}/\d{1,3}", re.ASCII)
_DURATION = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
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


def alike(text: str, names: Iterable[str]) -> list[str]:
    """At most five of these names that look like the text, the likest first."""
    return difflib.get_close_matches(text.casefold()[:64], sorted(set(names)), n=5, cutoff=0.5)


def number(parameter: str, text: str) -> Fraction:
    """A positive decimal number, exact."""
    value = Fraction(text) if _NUMBER.fullmatch(text) else None
    if not value:
        raise BadQuestion(parameter, f"{parameter}={text}: write a number above 0, such as 24 or 0.5.")
    return value


def amount_nanos(parameter: str, text: str) -> int:
    """A limit of money in nano-units, rounded down: prices are whole nano-units, so nothing is lost."""
    nanos = int(number(parameter, text) * NANOS)
    if not nanos:
        raise BadQuestion(parameter, f"{parameter}={text}: the smallest amount is 0.000000001.")
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
    """`60s`, `10m`, `2h`, `1d`; above 0."""
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise BadQuestion(parameter, f"{parameter}={text}: write a duration such as 60s, 10m or 2h.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def count_range(parameter: str, text: str) -> CountRange:
    """`4` exactly, `4..` at least, `2..8` a range, `0.25` or `1/4` that fraction."""
    low, dots, high = (part.strip() for part in text.partition(".."))
    if not _COUNT.fullmatch(low) or (high and not _COUNT.fullmatch(high)):
        raise BadQuestion(parameter, f"{parameter}={text}: write 8, 4.. (at least), 2..8 (a range) or 0.25.")
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


def member(parameter: str, text: str, words: Iterable[_E]) -> _E:
    """The word of an enumeration."""
    known = {str(word): word for word in words}
    word = known.get(text.casefold())
    if word is None:
        raise BadQuestion(parameter, f"{parameter}={text}: write {', '.join(known)}.", alike(text, known) or known)
    return word
