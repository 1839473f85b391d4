"""Deliveries on their way: whoever sends claims them under a lease, and settles each by the token of its claim.

A claim counts the attempt before it is made, and a lease that was lost in between changes nothing.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, ScalarSelect, func, or_, select, update

from catalog.watches import Event, EventType, Format
from store.engine import in_turn, is_postgresql, reading, writing
from store.outbox import Status, changed, gone_in, shown
from store.times import LONGEST_PAUSE
from store.watch_tables import DELIVERIES, EVENTS, TARGETS
from store.watches import WATCHING, KeptTarget, end_pending, targets_in

CLAIMING = "deliveries"
"""The matter in which senders take turns, so that they count what is under way alike."""
_GONE = "its target is dead or was removed"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that is ours until its lease ends. `attempts` counts this one too."""

    delivery_id: str
    token: str
    attempts: int
    event: Event
    target: KeptTarget
    beside: bool
    """Whether others to its target were under way when it was claimed."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an attempt, to be written. `again_at` is the next one's time where it is still pending."""

    claimed: Claimed
    status: Status
    now: datetime
    last_status: int | None = None
    """The HTTP status, where there was one."""
    last_error: str | None = None
    again_at: datetime | None = None
    paused_until: datetime | None = None
    """Until when the receiver wants to be left alone."""
    gone: bool = False
    """Whether the target is told nothing more."""


# --- claims


def claim(
    engine: Engine,
    now: datetime,
    lease: timedelta,
    most: int,
    per_target: int,
    *,
    beside: int | None = None,
    formats: Collection[Format] = tuple(Format),
) -> list[Claimed]:
    """Lease up to `most` due deliveries, oldest first, however many processes ask: none is leased twice at a time.

    At most `per_target` are under way to one target, and what comes first to each goes before the rest. Of those to
    targets that have one under way already at most `beside` are leased (None: any number), so that there is room for
    others.
    """

    def chosen(connection: Connection) -> list["_Waiting"]:
        return _chosen(_waiting(connection, now, per_target, formats), most, most if beside is None else beside)

    if most <= 0:
        return []
    if not is_postgresql(engine):
        with reading(engine) as connection:
            if not chosen(connection):  # on SQLite no writer waits for a look
                return []
    with writing(engine) as connection:
        in_turn(connection, CLAIMING)
        waiting = {one.delivery_id: one for one in chosen(connection)}
        free = select(DELIVERIES.c.id).where(DELIVERIES.c.id.in_(waiting), _due(now)).with_for_update(skip_locked=True)
        ids, token = connection.execute(free).scalars().all(), uuid4().hex
        leased = {"token": token, "lease_until": now + lease, "attempts": DELIVERIES.c.attempts + 1}
        connection.execute(update(DELIVERIES).where(DELIVERIES.c.id.in_(ids)).values(leased))
        return _claimed(connection, token, [one for one in waiting.values() if one.delivery_id in set(ids)])


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A due delivery. `rank` is how many to its target go before it, those under way among them."""

    rank: int
    next_at: datetime
    delivery_id: str


def _due(now: datetime) -> ColumnElement[bool]:
    lease = DELIVERIES.c.lease_until  # one further ahead than any was taken by a wrong clock
    over = or_(lease.is_(None), lease <= now, lease > now + LONGEST_PAUSE)
    return (DELIVERIES.c.status == Status.PENDING.value) & (DELIVERIES.c.next_at <= now) & over


def _waiting(connection: Connection, now: datetime, per_target: int, formats: Iterable[Format]) -> list[_Waiting]:
    """The first due ones to each target, as many as may go: by the index of each target, not through what is kept."""
    loads = _loads(connection, now)
    full = [name for name, load in loads.items() if load >= per_target]
    paused = TARGETS.c.paused_until
    awake = or_(paused.is_(None), paused <= now, paused > now + LONGEST_PAUSE)
    columns = [_nth(name, rank, now) for rank in range(per_target) for name in ("next_at", "id")]
    query = select(TARGETS.c.name, *columns).where(
        TARGETS.c.dead_at.is_(None), awake, TARGETS.c.format.in_(list(formats)), TARGETS.c.name.not_in(full)
    )
    found: list[_Waiting] = []
    for name, *values in connection.execute(query):
        load, pairs = loads.get(name, 0), zip(values[::2], values[1::2], strict=True)
        due = [_Waiting(load + rank, at, one) for rank, (at, one) in enumerate(pairs) if one is not None]
        found += due[: per_target - load]
    return found


def _loads(connection: Connection, now: datetime) -> dict[str, int]:
    """How many are under way to each target, by any process."""
    held = (DELIVERIES.c.lease_until > now) & (DELIVERIES.c.lease_until <= now + LONGEST_PAUSE)
    query = select(DELIVERIES.c.target, func.count().label("load")).where(held).group_by(DELIVERIES.c.target)
    return {row.target: row.load for row in connection.execute(query)}


def _nth(column: str, rank: int, now: datetime) -> ScalarSelect[Any]:
    oldest = DELIVERIES.c.next_at, DELIVERIES.c.id
    to_target = select(DELIVERIES.c[column]).where(_due(now), DELIVERIES.c.target == TARGETS.c.name)
    return to_target.order_by(*oldest).limit(1).offset(rank).scalar_subquery()


def _chosen(waiting: Iterable[_Waiting], most: int, beside: int) -> list[_Waiting]:
    chosen: list[_Waiting] = []
    for one in sorted(waiting, key=lambda one: (one.rank, one.next_at, one.delivery_id)):
        if len(chosen) == most or (one.rank and beside <= 0):
            break
        chosen.append(one)
        beside -= one.rank > 0
    return chosen


def _claimed(connection: Connection, token: str, waiting: Sequence[_Waiting]) -> list[Claimed]:
    taken = DELIVERIES.c.id.in_([one.delivery_id for one in waiting])
    rows = {row.id: row for row in connection.execute(select(DELIVERIES).where(taken))}
    about = select(EVENTS).where(EVENTS.c.id.in_({row.event_id for row in rows.values()}))
    known = set(EventType)  # what a newer version tells is left to it
    events = {row["id"]: _event(row) for row in connection.execute(about).mappings() if row["type"] in known}
    targets = {kept.target.name: kept for kept in targets_in(connection, {row.target for row in rows.values()})}
    return [
        Claimed(row.id, token, row.attempts, events[row.event_id], targets[row.target], one.rank > 0)
        for one in waiting
        for row in [rows[one.delivery_id]]
        if row.event_id in events
    ]


def _event(row: RowMapping) -> Event:
    return Event(row["id"], EventType(row["type"]), row["at"], json.loads(row["data"]))


# --- what became of them


def sent(claimed: Claimed, now: datetime, last_status: int | None = None) -> Settled:
    """It was taken."""
    return Settled(claimed, Status.SENT, now, last_status)


def again(claimed: Claimed, now: datetime, pause: timedelta, why: str, last_status: int | None = None) -> Settled:
    """It is to be tried again after a pause."""
    return Settled(claimed, Status.PENDING, now, last_status, why, again_at=now + pause)


def failed(claimed: Claimed, now: datetime, why: str, last_status: int | None = None) -> Settled:
    """It was refused, and would be again."""
    return Settled(claimed, Status.FAILED, now, last_status, why)


def dead(claimed: Claimed, now: datetime, why: str, last_status: int | None = None, *, gone: bool = False) -> Settled:
    """Nobody tries it any more; `gone`: nor anything else to its target."""
    return Settled(claimed, Status.DEAD, now, last_status, why, gone=gone)


def paused(settled: Settled, pause: timedelta | None) -> Settled:
    """The same, and nothing else is sent to its target for so long either: what the receiver asked for."""
    return settled if pause is None else replace(settled, paused_until=settled.now + min(pause, LONGEST_PAUSE))


def settle(engine: Engine, settled: Sequence[Settled]) -> list[Settled]:
    """Write what became of attempts; returns those whose lease was lost, which changed nothing of their delivery.

    What another transaction holds is waited for alone, so that no two wait for each other.
    """
    if not settled:
        return []
    _pause_targets(engine, settled)
    alike = [one.claimed.delivery_id for one in settled if not one.gone]
    free = select(DELIVERIES.c.id).where(DELIVERIES.c.id.in_(alike)).with_for_update(skip_locked=True)
    with writing(engine) as connection:
        ids = set(connection.execute(free).scalars())
        together = [one for one in settled if one.claimed.delivery_id in ids and not one.gone]
        lost = [one for one in together if not _settle(connection, one)]
    for one in settled:
        if one not in together:
            with writing(engine) as connection:
                lost += [] if _settle_alone(connection, one) else [one]
    return lost


def _settle_alone(connection: Connection, settled: Settled) -> bool:
    if settled.gone:
        in_turn(connection, WATCHING)
    kept = _settle(connection, settled)
    if settled.gone:
        gone_in(connection, settled.claimed.target.target, settled.last_error or "", settled.now)
    return kept


def _settle(connection: Connection, settled: Settled) -> bool:
    ended = settled.status is not Status.PENDING
    values = {
        "status": settled.status.value,
        "last_status": settled.last_status,
        "last_error": None if settled.last_error is None else shown(settled.last_error),
        "token": None,
        "lease_until": None,
        "ended_at": settled.now if ended else None,
    } | ({} if settled.again_at is None else {"next_at": settled.again_at})
    mine = (DELIVERIES.c.id == settled.claimed.delivery_id) & (DELIVERIES.c.token == settled.claimed.token)
    return changed(connection, update(DELIVERIES).where(mine).values(values)) > 0


def _pause_targets(engine: Engine, settled: Iterable[Settled]) -> None:
    for one in settled:
        if one.paused_until is not None:
            until, furthest = TARGETS.c.paused_until, one.now + LONGEST_PAUSE
            sooner = or_(until.is_(None), until < one.paused_until, until > furthest)
            asked = (TARGETS.c.name == one.claimed.target.target.name) & sooner
            with writing(engine) as connection:
                connection.execute(update(TARGETS).where(asked).values(paused_until=one.paused_until))


def tidy(engine: Engine, now: datetime, longest: timedelta) -> None:
    """End what waits for a target that is gone by now, and make due what waits longer than the `longest` pause: it was
    put off by a clock that has since been set back.
    """
    pending = DELIVERIES.c.status == Status.PENDING.value
    with reading(engine) as connection:
        living = list(connection.execute(select(TARGETS.c.name).where(TARGETS.c.dead_at.is_(None))).scalars())
        astray = pending & or_(DELIVERIES.c.target.not_in(living), DELIVERIES.c.next_at > now + longest)
        if connection.execute(select(DELIVERIES.c.id).where(astray).limit(1)).first() is None:
            return
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        gone = DELIVERIES.c.target.not_in(select(TARGETS.c.name).where(TARGETS.c.dead_at.is_(None)))
        end_pending(connection, gone, _GONE, now)
        connection.execute(update(DELIVERIES).where(pending, DELIVERIES.c.next_at > now + longest).values(next_at=now))
