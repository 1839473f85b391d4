"""The outbox: what is to be told, and to whom. A delivery is an event on its way to one target.

What is put here is sent at least once, under the event's id: `store.delivering` says how senders take it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, cast
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, CursorResult, Engine, insert, or_, select, update

from catalog.watches import Event, EventType, Target
from store.engine import in_turn, reading, writing
from store.watch_tables import DELIVERIES, EVENT_WATCHES, EVENTS, TARGETS
from store.watches import WATCHING, KeptTarget, end_pending, targets_in, watches_in

_PRUNING = "prune deliveries"
_NO_TARGET = "there is no target of this name any more"
_MOST_SHOWN = 500
"""Of the words about a failure, in characters."""


class Status(StrEnum):
    """What became of a delivery."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"
    """The receiver does not take it, or nothing may be sent there."""
    DEAD = "dead"
    """Nobody tries any more: the attempts are used up, or its target or its watch is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDelivery:
    """A delivery as it stands. `next_at` is None once it has ended."""

    id: str
    event_id: str
    type: str
    target: str
    status: Status
    attempts: int
    next_at: datetime | None
    last_status: int | None
    last_error: str | None
    at: datetime


class NotRetried(Exception):
    """The delivery cannot be made again. The text is one sentence for people."""


def new_event_id() -> str:
    """An id that no other event has."""
    return f"evt_{uuid4().hex}"


# --- what is to be told


def put(
    connection: Connection,
    event: Event,
    watch_id: str | None,
    targets: Iterable[str],
    now: datetime,
    *,
    watches: Iterable[str] = (),
) -> list[str]:
    """Keep an event and a delivery of it to each target, in the caller's transaction; returns the deliveries' ids.

    One to a target that is dead, or that there is none of, is dead at once. `watches` are those of an event that is
    about several, which has no `watch_id`.
    """
    values = {"id": event.id, "type": event.type.value, "watch_id": watch_id, "at": event.at}
    connection.execute(insert(EVENTS).values(values | {"data": json.dumps(dict(event.data))}))
    if about := [{"watch_id": one, "event_id": event.id} for one in dict.fromkeys(watches)]:
        connection.execute(insert(EVENT_WATCHES), about)
    names = list(dict.fromkeys(targets))
    known = {kept.target.name: _why_not(kept) for kept in targets_in(connection, names)}
    rows = [_delivery(event, watch_id, name, known.get(name, _NO_TARGET), now) for name in names]
    if rows:
        connection.execute(insert(DELIVERIES), rows)
    return [row["id"] for row in rows]


def _why_not(kept: KeptTarget) -> str | None:
    return None if kept.dead_at is None else f"the target is dead: {kept.dead_why}"


def _delivery(event: Event, watch_id: str | None, target: str, why: str | None, now: datetime) -> dict[str, Any]:
    return {
        "id": f"d_{uuid4().hex}",
        "event_id": event.id,
        "watch_id": watch_id,
        "target": target,
        "status": Status.PENDING.value if why is None else Status.DEAD.value,
        "attempts": 0,
        "next_at": now,
        "last_error": why,
        "at": now,
        "ended_at": None if why is None else now,
    }


def test(engine: Engine, target: str, now: datetime, watch_id: str | None = None) -> str:  # noqa: PT028
    """Put a `test` event to a target, of a watch where one is named; returns the delivery's id."""
    with writing(engine) as connection:
        about = [{"id": one.id, "name": one.name} for one in watches_in(connection) if one.id == watch_id]
        data = {"target": target} | ({"watch": about[0]} if about else {})
        (delivery_id,) = put(connection, Event(new_event_id(), EventType.TEST, now, data), watch_id, [target], now)
        return delivery_id


def shown(text: str) -> str:
    """Words about a failure as every database can keep them: no NUL, no half of a character, no end."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()[:_MOST_SHOWN]


# --- targets that are gone


def target_gone(engine: Engine, target: Target, why: str, now: datetime) -> bool:
    """Tell a target nothing more, and tell the others so; whether it was alive until now, at that very address.

    What is pending for it is dead. One `target.dead` goes to the other living targets of the watches that name it, or
    where there are none to all others, however many processes find it dead at the same moment.
    """
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        return gone_in(connection, target, why, now)


def gone_in(connection: Connection, target: Target, why: str, now: datetime) -> bool:
    """The same, in a transaction that has the turn in `WATCHING`."""
    alive = (TARGETS.c.name == target.name) & (TARGETS.c.url == target.url) & TARGETS.c.dead_at.is_(None)
    said = shown(why)
    if not changed(connection, update(TARGETS).where(alive).values(dead_at=now, dead_why=said)):
        return False
    end_pending(connection, DELIVERIES.c.target == target.name, f"the target is dead: {said}", now)
    naming = [watch for watch in watches_in(connection) if target.name in watch.notify]
    about = [{"id": watch.id, "name": watch.name} for watch in naming]
    data = {"target": target.name, "why": said, "watches": about}
    living = set(connection.execute(select(TARGETS.c.name).where(TARGETS.c.dead_at.is_(None))).scalars())
    others = living & {name for watch in naming for name in watch.notify}
    put(connection, Event(new_event_id(), EventType.TARGET_DEAD, now, data), None, sorted(others or living), now)
    return True


# --- what was told


def deliveries(engine: Engine, watch_id: str, limit: int) -> list[KeptDelivery]:
    """Those of a watch, of events about several watches too, newest first."""
    among = select(EVENT_WATCHES.c.event_id).where(EVENT_WATCHES.c.watch_id == watch_id)
    with reading(engine) as connection:
        return _kept(connection, or_(DELIVERIES.c.watch_id == watch_id, DELIVERIES.c.event_id.in_(among)), limit)


def delivery(engine: Engine, delivery_id: str) -> KeptDelivery | None:
    """One; None where there is none of that id."""
    with reading(engine) as connection:
        return next(iter(_kept(connection, DELIVERIES.c.id == delivery_id, 1)), None)


def _kept(connection: Connection, which: ColumnElement[bool], limit: int) -> list[KeptDelivery]:
    same = DELIVERIES.c.event_id == EVENTS.c.id
    query = select(DELIVERIES, EVENTS.c.type).join(EVENTS, same).where(which)
    newest = query.order_by(DELIVERIES.c.at.desc(), DELIVERIES.c.id.desc()).limit(limit)
    return [_delivered(row) for row in connection.execute(newest).mappings()]


def _delivered(row: Mapping[Any, Any]) -> KeptDelivery:
    same = ("id", "event_id", "type", "target", "attempts", "last_status", "last_error", "at")
    status = Status(row["status"])
    next_at = row["next_at"] if status is Status.PENDING else None
    return KeptDelivery(status=status, next_at=next_at, **{name: row[name] for name in same})


def retry(engine: Engine, delivery_id: str, now: datetime) -> KeptDelivery | None:
    """Make a failed or dead delivery due now, its attempts counted anew; None where there is none of that id.

    Raises NotRetried for one that was sent, that is pending, or whose target is dead or gone.
    """
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        found = next(iter(_kept(connection, DELIVERIES.c.id == delivery_id, 1)), None)
        if found is None:
            return None
        _require_retriable(connection, found)
        due = {"status": Status.PENDING.value, "attempts": 0, "next_at": now, "ended_at": None}
        ended = DELIVERIES.c.status.in_([Status.FAILED.value, Status.DEAD.value])
        connection.execute(update(DELIVERIES).where(DELIVERIES.c.id == delivery_id, ended).values(due))
        return replace(found, status=Status.PENDING, attempts=0, next_at=now)


def _require_retriable(connection: Connection, found: KeptDelivery) -> None:
    if found.status is Status.SENT:
        raise NotRetried("It was sent: its receiver took it.")
    if found.status is Status.PENDING:
        raise NotRetried("It is pending: it is tried again by itself.")
    target = next(iter(targets_in(connection, [found.target])), None)
    why = _NO_TARGET if target is None else _why_not(target)
    if why is not None:
        raise NotRetried(f"It cannot be sent to {found.target}: {why}.")


def prune(engine: Engine, before: datetime) -> None:
    """Forget deliveries that ended before a time, and older events of which none is left."""
    with writing(engine) as connection:
        in_turn(connection, _PRUNING)
        connection.execute(DELIVERIES.delete().where(DELIVERIES.c.ended_at < before))
        told = select(DELIVERIES.c.id).where(DELIVERIES.c.event_id == EVENTS.c.id).exists()
        connection.execute(EVENTS.delete().where(EVENTS.c.at < before, ~told))
        there = select(EVENTS.c.id).where(EVENTS.c.id == EVENT_WATCHES.c.event_id).exists()
        connection.execute(EVENT_WATCHES.delete().where(~there))


def changed(connection: Connection, statement: Any) -> int:
    """How many rows a statement changed."""
    return cast("CursorResult[Any]", connection.execute(statement)).rowcount
