"""Reading answers: JSON with exact numbers, and records taken apart field by field, so that nothing vanishes."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import TypeVar

from catalog.facts import Note
from collectors.base import Drift, Page

T = TypeVar("T")
JsonValue = None | bool | int | Decimal | str | list["JsonValue"] | dict[str, "JsonValue"]


def json_of(page: Page) -> JsonValue:
    """The page's JSON, its numbers exact. Drift for anything else: HTML, a cut body, NaN, an empty body."""
    try:
        value: JsonValue = json.loads(page.body, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        kind = "empty" if not page.body.strip() else "not JSON"
        raise Drift(f"{page.name}: the answer is {kind} ({len(page.body)} bytes)") from error
    return value


def _no_constant(name: str) -> None:
    msg = f"{name} is not a number"
    raise ValueError(msg)


class Record:
    """A JSON object that is read destructively: each field is taken once, and what is left over can be reported.

    `where` names the record in messages. A field of another type than asked for is Drift; so is an absent one, unless
    the reader says `or None`, for which null and absent are the same: not stated.
    """

    def __init__(self, value: JsonValue, where: str) -> None:
        if not isinstance(value, dict):
            raise Drift(f"{where}: an object was expected, not {type(value).__name__}")
        self.where = where
        self._left = dict(value)

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
            try:
                number = Decimal(value)
            except ArithmeticError:
                number = Decimal("NaN")
            if number.is_finite():
                return number
        raise Drift(f"{self.where}: {name} is not a number but {value!r:.40}")

    def number(self, name: str) -> Decimal:
        """A number that must be there."""
        return self._stated(name, self.number_or_none(name))

    def integer_or_none(self, name: str) -> int | None:
        """A whole number."""
        number = self.number_or_none(name)
        if number is not None and number != number.to_integral_value():
            raise Drift(f"{self.where}: {name} is not a whole number but {number}")
        return None if number is None else int(number)

    def integer(self, name: str) -> int:
        """A whole number that must be there."""
        return self._stated(name, self.integer_or_none(name))

    def flag_or_none(self, name: str) -> bool | None:
        """A boolean."""
        return self._take(name, bool)

    def list_or_none(self, name: str) -> list[JsonValue] | None:
        """A list."""
        return self._take(name, list)

    def items(self, name: str) -> list[JsonValue]:
        """A list that must be there: a missing list is never an empty one."""
        return self._stated(name, self.list_or_none(name))

    def record_or_none(self, name: str) -> "Record | None":
        """An object inside this one."""
        value = self._left.pop(name, None)
        return None if value is None else Record(value, f"{self.where}.{name}")

    def record(self, name: str) -> "Record":
        """An object that must be there."""
        return self._stated(name, self.record_or_none(name))

    def records(self, name: str) -> Iterator["Record"]:
        """The objects of a list that must be there."""
        for number, value in enumerate(self.items(name)):
            yield Record(value, f"{self.where}.{name}[{number}]")

    def leftovers(self, ignore: frozenset[str]) -> Iterator[Note]:
        """A note for each field that was neither taken nor is on the ignore list."""
        for name in self._left:
            if name not in ignore:
                yield Note("unknown_field", name)

    def _take(self, name: str, kind: type[T]) -> T | None:
        value = self._left.pop(name, None)
        if value is None or isinstance(value, kind):
            return value
        raise Drift(f"{self.where}: {name} is not a {kind.__name__} but {value!r:.40}")

    def _stated(self, name: str, value: T | None) -> T:
        if value is None:
            raise Drift(f"{self.where}: {name} is missing")
        return value
