"""Reading answers: JSON with exact numbers, and records taken apart field by field, so that nothing vanishes."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from catalog.facts import Note
from catalog.numbers import MOST_DIGITS, decimal_or_none
from collectors.base import Drift, Page

T = TypeVar("T")
Number = TypeVar("Number", Decimal, Fraction)
JsonValue = None | bool | int | Decimal | str | list["JsonValue"] | dict[str, "JsonValue"]
MOST_SIZE = 2**31 - 1
"""More than any machine's vCPUs, MiB or whatever is counted of it."""
MOST_CARDS = 10_000
"""More accelerators than any machine has: the largest that is sold as one has some hundred. What a GPU costs is a
machine's price over this, so that a count which cannot be would be the cheapest of all.
"""
_MAY_BE_HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""Where half of a surrogate pair could stand: json reads one alone, and no database or answer can hold it."""


def json_of(page: Page) -> JsonValue:
    """The page's JSON, its numbers exact. Drift for anything else: HTML, a cut body, NaN, half a character, nothing."""
    try:
        value: JsonValue = json.loads(page.body, parse_float=_exact, parse_constant=_no_constant)
        if _MAY_BE_HALF.search(page.body):
            json.dumps(value, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError) as error:
        kind = "empty" if not page.body.strip() else "not JSON"
        raise Drift(f"{page.name}: the answer is {kind} ({len(page.body)} bytes)", page) from error
    return value


def record_of(page: Page) -> "Record":
    """The page's JSON, which is an object. Every Drift about it carries the page."""
    return Record(json_of(page), page.name, page)


def positive_or_none(number: Number | None, most: int = MOST_SIZE) -> Number | None:
    """The number as a size: None where it is none, as 0, negative or absurdly large."""
    return number if number is not None and 0 < number <= most else None


def whole_or_none(number: Decimal | Fraction | None) -> int | None:
    """A size rounded down; None where nothing is left of it, and where none is so large."""
    return None if number is None or number > MOST_SIZE else int(number) or None


def shown(value: JsonValue) -> str:
    """A value for a message or a note, short. What is inside a list or an object is left out, however deep it goes."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r:.40}"


def spelt(value: JsonValue) -> str:
    """The same for a note on a word: a text as it stands."""
    return value if isinstance(value, str) else shown(value)


def _exact(text: str) -> Decimal:
    """ValueError for an exponent that no Decimal can have."""
    try:
        return Decimal(text)
    except ArithmeticError as error:
        raise ValueError(text) from error


def _no_constant(name: str) -> None:
    msg = f"{name} is not a number"
    raise ValueError(msg)


class Record:
    """A JSON object that is read destructively: each field is taken once, and what is left over can be reported.

    `where` names the record in messages. A field of another type than asked for is Drift; so is an absent one, unless
    the reader says `or None`, for which null and absent are the same: not stated.
    """

    def __init__(self, value: JsonValue, where: str, page: Page | None = None, notes: list[Note] | None = None) -> None:
        self.where = where
        self._page = page
        self.notes = [] if notes is None else notes
        """What was odd so far about its fields, and about those of the objects inside it, which share this list."""
        self._told = () if notes is not None else self.notes
        if not isinstance(value, dict):
            raise self.drift(f"an object was expected, not {type(value).__name__}")
        self._left = dict(value)

    def drift(self, said: str) -> Drift:
        """Drift that names this record and carries its page."""
        return Drift(f"{self.where}: {said}", self._page)

    def inside(self, value: JsonValue, where: str) -> "Record":
        """A record of its own within this one: what is odd about it is not noted here."""
        return Record(value, f"{self.where}.{where}", self._page)

    def text(self, name: str) -> str:
        """A string that is not empty."""
        return self._stated(name, self.text_or_none(name))

    def text_or_none(self, name: str) -> str | None:
        """A string without the white space around it; null, absent and empty are None."""
        return (self._take(name, str) or "").strip() or None

    def number_or_none(self, name: str) -> Decimal | None:
        """A number, or a string that holds one."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        if isinstance(value, (int, Decimal, str)) and not isinstance(value, bool):
            number = decimal_or_none(value)
            if number is not None:
                return number
        raise self.drift(f"{name} is not a number but {shown(value)}")

    def number(self, name: str) -> Decimal:
        """A number that must be there."""
        return self._stated(name, self.number_or_none(name))

    def positive_or_none(self, name: str, most: int = MOST_SIZE) -> Decimal | None:
        """A size: a number above 0. One that is stated and cannot be a size is unknown, and noted."""
        number = self.number_or_none(name)
        size = positive_or_none(number, most)
        if number is not None and size is None:
            self._impossible(name, number)
        return size

    def amount_or_none(self, name: str, most: int = MOST_SIZE) -> Decimal | None:
        """A number from 0 up. A negative one is unknown, and noted, as is one beyond all that is counted here."""
        number = self.number_or_none(name)
        if number is not None and not 0 <= number <= most:
            self._impossible(name, number)
            return None
        return number

    def count_or_none(self, name: str, most: int = MOST_SIZE) -> int | None:
        """A whole number from 0 up, under the same limit."""
        return self._whole(name, self.amount_or_none(name, most))

    def size_or_none(self, name: str, most: int = MOST_SIZE) -> int | None:
        """A size that is a whole number."""
        return self._whole(name, self.positive_or_none(name, most))

    def unlimited_or_none(self, name: str) -> int | None:
        """A whole number from 0 up that is no size of anything: a moment, a place in a list, what an account may use,
        where enormous stands for no limit.
        """
        return self.count_or_none(name, most=10**MOST_DIGITS)

    def flag_or_none(self, name: str) -> bool | None:
        """A boolean."""
        return self._take(name, bool)

    def has(self, name: str) -> bool:
        """Whether the field is there, be it null."""
        return name in self._left

    def raw(self, name: str, absent: JsonValue) -> JsonValue:
        """Whatever stands there, where null says something else than nothing at all, which is `absent`."""
        return self._left.pop(name, absent)

    def list_or_none(self, name: str) -> list[JsonValue] | None:
        """A list."""
        return self._take(name, list)

    def items(self, name: str) -> list[JsonValue]:
        """A list that must be there: a missing list is never an empty one."""
        return self._stated(name, self.list_or_none(name))

    def record_or_none(self, name: str) -> "Record | None":
        """An object inside this one."""
        value = self._left.pop(name, None)
        return None if value is None else Record(value, f"{self.where}.{name}", self._page, self.notes)

    def record(self, name: str) -> "Record":
        """An object that must be there."""
        return self._stated(name, self.record_or_none(name))

    def records(self, name: str) -> Iterator["Record"]:
        """The objects of a list that must be there."""
        for number, value in enumerate(self.items(name)):
            yield self.inside(value, f"{name}[{number}]")

    def filled(self, name: str) -> Iterator["Record"]:
        """The same, of a list that no whole answer leaves empty: an empty one is no answer, and never "none left"."""
        found = list(self.records(name))
        if not found:
            raise self.drift(f"{name} is empty, which no whole answer is")
        return iter(found)

    def leftovers(self, ignore: frozenset[str]) -> Iterator[Note]:
        """A note for each field neither taken nor on the ignore list, after an outermost record's `notes`."""
        yield from self._told
        for name in self._left:
            if name not in ignore:
                yield Note("unknown_field", name)

    def _whole(self, name: str, number: Decimal | None) -> int | None:
        if number is not None and number != number.to_integral_value():
            raise self.drift(f"{name} is not a whole number but {number}")
        return None if number is None else int(number)

    def _impossible(self, name: str, number: Decimal) -> None:
        self.notes.append(Note("impossible_size", f"{name} {format(number, 'f'):.40}"))

    def _take(self, name: str, kind: type[T]) -> T | None:
        value = self._left.pop(name, None)
        if value is None or isinstance(value, kind):
            return value
        raise self.drift(f"{name} is not a {kind.__name__} but {shown(value)}")

    def _stated(self, name: str, value: T | None) -> T:
        if value is None:
            raise self.drift(f"{name} is missing")
        return value
