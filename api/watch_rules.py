"""From what a request says of a watch to the watch, or a refusal that names the field."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec import UNSET

from api.guard import MAX_QUERY_BYTES
from api.problems import refused
from api.targets import name_of
from api.watch_shapes import Value, WatchChange
from catalog import durations
from catalog.spec import Spec
from catalog.watches import CHOSEN, EventType, Watch
from selector.question import World, understand
from selector.values import BadQuestion, amount_nanos, member, number_or_zero

MOST_TARGETS = 20
"""Of one watch."""
LONGEST_HOLD = timedelta(hours=24)
SHORTEST_REPEAT = timedelta(minutes=1)
_LONGEST = timedelta(days=3650)
_MOST_CAP = 10_000
_MOST_PERCENT = 1000
_WITHOUT_MEANING = ("limit", "offset", "explain")
"""Parameters of a question that say how it is answered."""
_NONE = timedelta(0)


def changed_watch(watch: Watch, asked: WatchChange, now: datetime) -> Watch:
    """The watch with what is asked for. Problem for what cannot be understood, whatever the spec means here and now."""
    changes: dict[str, Any] = {}
    for field, (attribute, read) in _FIELDS.items():
        said = getattr(asked, field)
        if said is not UNSET:
            changes[attribute] = read(field, said, now)
    after = replace(watch, **changes)
    if EventType.PRICE_BELOW in after.events and after.price_below is None:
        raise refused("price_below", "price_below: say below which price, since events has price.below.")
    return after


def understood(watch: Watch, world: World, defaults: Mapping[str, str]) -> Spec:
    """What the watch's spec means here and now. Raises BadQuestion."""
    return understand(watch.spec, world, defaults, endpoint="cheapest")


def require_understood(watch: Watch, world: World, defaults: Mapping[str, str]) -> Spec:
    """The same; Problem with `spec.gpu` for its parameter where it means nothing."""
    try:
        return understood(watch, world, defaults)
    except BadQuestion as error:
        raise refused(f"spec.{error.parameter}", str(error), error.did_you_mean) from None


def looks_anew(before: Watch, after: Watch, now: datetime) -> bool:
    """Whether what was seen so far says nothing of what the watch is now: its events would compare two things."""
    ended = before.expires_at is not None and before.expires_at <= now
    return (
        _plainly(before.spec) != _plainly(after.spec)
        or (before.paused and not after.paused)
        or (ended and (after.expires_at is None or after.expires_at > now))
    )


def _plainly(spec: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The same for specs that differ in case, blanks or order alone."""
    return {name: sorted(text.strip().casefold() for text in texts) for name, texts in spec.items()}


# --- field by field


def _name(field: str, said: str, _now: datetime) -> str:
    return name_of(field, said)


def _spec(field: str, said: Mapping[str, Value | Sequence[Value]], _now: datetime) -> dict[str, tuple[str, ...]]:
    """The texts that a query string would have."""
    texts = {name: tuple(map(_text, _list(value))) for name, value in said.items()}
    if sum(len(name) + sum(map(len, values)) for name, values in texts.items()) > MAX_QUERY_BYTES:
        raise refused(field, f"{field}: at most {MAX_QUERY_BYTES} characters, as of a question.")
    for name in _WITHOUT_MEANING:
        if name in texts:
            raise refused(f"{field}.{name}", f"{field}.{name} means nothing for a watch: leave it out.")
    return texts


def _list(value: Value | Sequence[Value]) -> Sequence[Value]:
    return value if isinstance(value, (list, tuple)) else [value]  # type: ignore[list-item]


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)


def _notify(field: str, said: Sequence[str], _now: datetime) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(said))
    if not 1 <= len(names) <= MOST_TARGETS:
        raise refused(field, f"{field}: name 1 to {MOST_TARGETS} targets; `POST /targets` makes one.")
    return names


def _events(field: str, said: Sequence[str], _now: datetime) -> frozenset[EventType]:
    if not said:
        raise refused(field, f"{field}: name at least one of {', '.join(CHOSEN)}.")
    return frozenset(member(field, name[:64], CHOSEN) for name in said)


def _price_below(field: str, said: str | float | None, _now: datetime) -> Decimal | None:
    if said is None:
        return None
    text = _text(said)
    amount_nanos(field, text)  # refuses what is no amount
    return Decimal(text)


def _percent(field: str, said: Value, _now: datetime) -> Decimal:
    text = _text(said)
    if number_or_zero(field, text) > _MOST_PERCENT:
        raise refused(field, f"{field}={text}: write a number from 0 to {_MOST_PERCENT}.")
    return Decimal(text)


def _hold(field: str, said: str, _now: datetime) -> timedelta:
    return _length(field, said, _NONE, LONGEST_HOLD)


def _repeat(field: str, said: str | None, _now: datetime) -> timedelta | None:
    return None if said is None else _length(field, said, SHORTEST_REPEAT, _LONGEST)


def _length(field: str, text: str, least: timedelta, most: timedelta) -> timedelta:
    length = _NONE if text == durations.written(_NONE) else durations.duration(text)
    if length is None or not least <= length <= most:
        between = f"from {durations.written(least)} to {durations.written(most)}"
        raise refused(field, f"{field}={text[:64]}: write a duration {between}, such as 90s, 10m or 2h.")
    return length


def _cap(field: str, said: int | None, _now: datetime) -> int | None:
    if said is not None and not 1 <= said <= _MOST_CAP:
        raise refused(field, f"{field}={said}: write a whole number from 1 to {_MOST_CAP}, or null for no cap.")
    return said


def _expires(field: str, said: str | None, now: datetime) -> datetime | None:
    """A time, or so long from now on."""
    if said is None:
        return None
    length = durations.duration(said)
    at = now + length if length is not None else time_of(said)
    if at is None or not now < at <= now + _LONGEST:
        hint = "a time to come with its zone, such as 2026-12-31T12:00:00Z, or a duration, such as 7d"
        raise refused(field, f"{field}={said[:64]}: write {hint}.")
    return at


def time_of(text: str) -> datetime | None:
    """The time that is written, with its zone; None where there is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else _utc(at)


def _utc(at: datetime) -> datetime | None:
    try:
        return at.astimezone(UTC)
    except OverflowError:  # beyond the calendar in another zone
        return None


def _paused(_field: str, said: bool, _now: datetime) -> bool:
    return said


_FIELDS: Mapping[str, tuple[str, Callable[[str, Any, datetime], object]]] = {
    "name": ("name", _name),
    "spec": ("spec", _spec),
    "notify": ("notify", _notify),
    "events": ("events", _events),
    "price_below": ("price_below", _price_below),
    "hold": ("hold", _hold),
    "hold_back": ("hold_back", _hold),
    "remind": ("remind", _repeat),
    "heartbeat": ("heartbeat", _repeat),
    "change_percent": ("change_percent", _percent),
    "daily_cap": ("daily_cap", _cap),
    "expires": ("expires_at", _expires),
    "paused": ("paused", _paused),
}
"""A request's field -> the watch's own, and how it is read."""
