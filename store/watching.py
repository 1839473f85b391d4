"""One evaluation of the watches as it is kept: levels, states and events, in one transaction of whoever is on duty."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, CursorResult, Engine, insert, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from catalog.watches import OfferKey
from catalog.words import Level
from store.bulk import upsert
from store.engine import in_turn, reading, writing
from store.times import micros
from store.watch_tables import DUTIES, SEEN_LEVELS, WATCH_STATES, WATCHES
from store.watches import WATCHING

EVALUATOR = "evaluator"
_KEY = ("provider", "region", "zone_key", "instance_type", "purchase", "upstream")
_AT_A_TIME = 500
Levels = Mapping[OfferKey, Level]


class DutyLost(Exception):
    """Another process is on duty by now: nothing of this evaluation is kept."""


@dataclass(frozen=True, slots=True)
class Duty:
    """Who does what one process at a time does."""

    name: str
    token: str


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What became of a watch."""

    watch_id: str
    memory: str
    last_event: str | None = None
    """Of an event that was told just now; None leaves the one before."""


def new_duty(name: str) -> Duty:
    """A claim on a duty, not taken yet."""
    return Duty(name, uuid4().hex)


def extend(engine: Engine, duty: Duty, now: datetime, lease: timedelta) -> bool:
    """Go on with a duty that is ours without a break; False where it is not."""
    with writing(engine) as connection:
        return _changed(connection, update(DUTIES).where(_ours(duty, now)).values(until=now + lease))


def take(engine: Engine, duty: Duty, now: datetime, lease: timedelta) -> bool:
    """Take a duty that nobody has; False while another process has it."""
    free = or_(DUTIES.c.until <= now, DUTIES.c.until > now + 2 * lease)  # so far ahead a clock wrote it that was wrong
    values = {"token": duty.token, "until": now + lease}
    with writing(engine) as connection:
        if _changed(connection, update(DUTIES).where(DUTIES.c.name == duty.name, free).values(values)):
            return True
    try:
        with writing(engine) as connection:
            if connection.execute(select(DUTIES.c.name).where(DUTIES.c.name == duty.name)).first() is not None:
                return False
            connection.execute(insert(DUTIES).values({"name": duty.name, **values}))
    except IntegrityError:  # another was there in the same moment
        return False
    return True


def _ours(duty: Duty, now: datetime) -> ColumnElement[bool]:
    return (DUTIES.c.name == duty.name) & (DUTIES.c.token == duty.token) & (DUTIES.c.until > now)


def leave(engine: Engine, duty: Duty, now: datetime) -> None:
    """Give a duty back, so that another process need not wait."""
    mine = (DUTIES.c.name == duty.name) & (DUTIES.c.token == duty.token)
    with writing(engine) as connection:
        connection.execute(update(DUTIES).where(mine).values(until=now))


def hold(connection: Connection, duty: Duty, now: datetime) -> None:
    """Make sure in a transaction that the duty is still ours until it ends. Raises DutyLost.

    Who writes watches waits for its turn meanwhile, so that no two wait for each other.
    """
    in_turn(connection, WATCHING)
    if not _changed(connection, update(DUTIES).where(_ours(duty, now)).values(token=duty.token)):
        raise DutyLost(duty.name)


def levels(engine: Engine) -> dict[OfferKey, Level]:
    """The levels that were handled last."""
    query = select(*(SEEN_LEVELS.c[name] for name in _KEY), SEEN_LEVELS.c.level)
    with reading(engine) as connection:
        return {cast("OfferKey", tuple(key)): Level(level) for *key, level in connection.execute(query)}


def keep(connection: Connection, seen: Levels, evaluated: Iterable[Evaluated], now: datetime) -> None:
    """Keep what an evaluation found."""
    _write(connection, seen, now)
    for one in evaluated:
        values = {"memory": one.memory} | ({} if one.last_event is None else {"last_event": one.last_event})
        connection.execute(update(WATCH_STATES).where(WATCH_STATES.c.watch_id == one.watch_id).values(values))


def unchanged(connection: Connection, evaluated: Mapping[str, int]) -> frozenset[str]:
    """Those of these watches that are as they were read; nobody changes one while the transaction has its turn."""
    found = connection.execute(select(WATCHES.c.id, WATCHES.c.revision))
    return frozenset(row.id for row in found if evaluated.get(row.id) == row.revision)


def memories(connection: Connection, watch_ids: Iterable[str]) -> dict[str, str]:
    """What is remembered of these watches, of those that there still are."""
    those = WATCH_STATES.c.watch_id.in_(list(watch_ids))
    return {row.watch_id: row.memory for row in connection.execute(select(WATCH_STATES).where(those))}


def _write(connection: Connection, seen: Levels, now: datetime) -> None:
    rows = [(*key, level.value, micros(now)) for key, level in seen.items()]
    upsert(connection, SEEN_LEVELS.name, _KEY, ("level", "at"), rows)


def forget_levels(engine: Engine, keys: Sequence[OfferKey], before: datetime) -> None:
    """Forget the levels of offers that are gone, unless they changed since."""
    with writing(engine) as connection:
        for start in range(0, len(keys), _AT_A_TIME):
            part = tuple_(*(SEEN_LEVELS.c[name] for name in _KEY)).in_(list(keys[start : start + _AT_A_TIME]))
            connection.execute(SEEN_LEVELS.delete().where(part, SEEN_LEVELS.c.at < before))


def _changed(connection: Connection, statement: Any) -> bool:
    return cast("CursorResult[Any]", connection.execute(statement)).rowcount > 0


def revisions(engine: Engine) -> dict[str, int]:
    """The revision of each watch, by its id."""
    with reading(engine) as connection:
        return {row.id: row.revision for row in connection.execute(select(WATCHES.c.id, WATCHES.c.revision))}
