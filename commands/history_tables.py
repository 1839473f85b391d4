"""History for a person: what each series came to in the window."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from commands.output import say
from commands.showing import paired_table, place

Json = Mapping[str, Any]
_SERIES = ("provider", "place", "machine", "GPU", "purchase")
_SHARES = ("in_stock", "low", "out", "unknown", "unobserved")


def show(kind: str, answer: Json) -> None:
    """The series of an answer as a table, and how many there are."""
    columns, row = _TABLES[kind]
    paired_table((*_SERIES, *columns), ((*_series(item), *row(item)) for item in answer["items"]))
    window = f"{_minute(answer['from'])} to {_minute(answer['to'])} UTC"
    say(f"{len(answer['items'])} of {answer['total']} series, {window}")


def _series(item: Json) -> tuple[str, ...]:
    gpu = f"{item['gpu_count'] or '?'}x {item['gpu'] or 'unknown'}"
    return (
        item["provider"],
        place(item),
        item["instance_type"],
        gpu,
        item["purchase"],
    )


def _price(item: Json) -> tuple[str, ...]:
    points: Sequence[Json] = item["points"]
    stated = [point for point in points if point["amount"] is not None]
    lowest, highest = _extremes(stated)
    first, last = (_amount(points[end]) if points else "" for end in (0, -1))
    return (first, last, lowest, highest, str(max(len(points) - 1, 0)), _changed(points))


def _extremes(stated: Sequence[Json]) -> tuple[str, str]:
    """The least and the greatest amount; none of either in several currencies, which compare with nothing."""
    if len({point["currency"] for point in stated}) != 1:
        return ("", "")
    ordered = sorted(stated, key=lambda point: Decimal(point["amount"]))
    return _amount(ordered[0]), _amount(ordered[-1])


def _amount(point: Json) -> str:
    return "withdrawn" if point["amount"] is None else f"{point['amount']} {point['currency']}"


def _stock(item: Json) -> tuple[str, ...]:
    points: Sequence[Json] = item["points"]
    now = points[-1]["level"] if points else ""
    return (*(_percent(item["shares"][name]) for name in _SHARES), now, _changed(points))


def _percent(share: str) -> str:
    return f"{(Decimal(share) * 100).normalize():f} %"


def _changed(points: Iterable[Json]) -> str:
    """When it last changed, in or before the window."""
    return max((_minute(point["at"]) for point in points), default="")


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


_TABLES: Mapping[str, tuple[Sequence[str], Callable[[Json], tuple[str, ...]]]] = {
    "prices": (("first", "last", "lowest", "highest", "changes", "since"), _price),
    "stock": ((*(name.replace("_", " ") for name in _SHARES), "last", "since"), _stock),
}
