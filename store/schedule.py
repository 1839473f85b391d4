"""The schedule: the table `cells`. A worker claims due cells in one transaction; a lease that runs out is due again."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import Column, ColumnElement, Engine, and_, delete, func, or_, select, update

from store.engine import in_turn, placeholder, reading, writing
from store.join import SNAPSHOT_FEED
from store.planning import SCHEDULE
from store.record import Lease
from store.tables import CELLS, LIMITS, PROVIDERS, SYNCS
from store.times import LONGEST_PAUSE, micros


def _due(now: datetime) -> ColumnElement[bool]:
    return and_(
        CELLS.c.planned,
        CELLS.c.due_at <= now,
        or_(CELLS.c.lease_until.is_(None), CELLS.c.lease_until <= now),
        _over(CELLS.c.paused_until, now),
        CELLS.c.provider.not_in(select(PROVIDERS.c.name).where(PROVIDERS.c.paused.is_not(None))),
    )


def _over(until: "Column[datetime | None]", now: datetime) -> ColumnElement[bool]:
    """Whether a pause holds no more. One further ahead than any that is kept was written by a wrong clock."""
    return or_(until.is_(None), until <= now, until > now + LONGEST_PAUSE)


def providers_due(engine: Engine, now: datetime) -> list[str]:
    """The providers that have a cell to claim, the longest due first."""
    query = select(CELLS.c.provider).where(_due(now)).group_by(CELLS.c.provider).order_by(func.min(CELLS.c.due_at))
    with reading(engine) as connection:
        return list(connection.execute(query).scalars())


def claim(
    engine: Engine,
    now: datetime,
    lease: timedelta,
    most: int,
    *,
    provider: str | None = None,
    fingerprint: str | None = None,
    feeds: Iterable[str] | None = None,
    but_feeds: Iterable[str] = (),
    only: Iterable[int] | None = None,
) -> list[Lease]:
    """Lease up to `most` due cells, longest due first. No cell is leased twice at a time, however many workers ask.

    With a `fingerprint`, only cells of providers that were planned with those settings: what is fetched with others (of
    another site, say) is not to be recorded here.
    """
    due = _due(now)
    if provider is not None:
        due = and_(due, CELLS.c.provider == provider)
    if fingerprint is not None:
        same = select(PROVIDERS.c.name).where(PROVIDERS.c.fingerprint == fingerprint)
        due = and_(due, CELLS.c.provider.in_(same))
    if feeds is not None:
        due = and_(due, CELLS.c.feed.in_(list(feeds)))
    due = and_(due, CELLS.c.feed.not_in(list(but_feeds)))
    if only is not None:
        due = and_(due, CELLS.c.id.in_(list(only)))
    query = select(CELLS).where(due).order_by(CELLS.c.due_at, CELLS.c.id).limit(most)
    with writing(engine) as connection:
        rows = connection.execute(query.with_for_update(skip_locked=True)).all()
        leases = [_lease(row, now) for row in rows]
        for taken in leases:
            values = {"token": taken.token, "lease_until": now + lease}
            connection.execute(update(CELLS).where(CELLS.c.id == taken.cell_id).values(values))
    return leases


def is_planned(engine: Engine, provider: str, fingerprint: str) -> bool:
    """Whether the provider was last planned with those settings."""
    same = (PROVIDERS.c.name == provider) & (PROVIDERS.c.fingerprint == fingerprint)
    with reading(engine) as connection:
        return connection.execute(select(PROVIDERS.c.name).where(same)).first() is not None


def _lease(row: object, now: datetime) -> Lease:
    get = row._mapping  # type: ignore[attr-defined]  # noqa: SLF001 - SQLAlchemy's documented accessor
    return Lease(
        cell_id=get["id"],
        token=uuid4().hex,
        provider=get["provider"],
        feed=get["feed"],
        place=get["place"],
        part=get["part"],
        every=timedelta(seconds=get["every_s"]),
        memo=json.loads(get["memo"]),
        started_at=now,
        failures=get["failures"],
        off=get["error"] if get["status"] == "off" else None,
    )


def renew(engine: Engine, leases: Iterable[Lease], until: datetime) -> None:
    """Keep these cells until then, as far as they are still ours. It waits for none that another transaction has."""
    tokens = {lease.cell_id: lease.token for lease in leases}
    if not tokens:
        return
    mine = CELLS.c.id.in_(tokens) & CELLS.c.token.in_(tokens.values())
    with writing(engine) as connection:
        ids = connection.execute(select(CELLS.c.id).where(mine).with_for_update(skip_locked=True)).scalars().all()
        connection.execute(update(CELLS).where(CELLS.c.id.in_(ids)).values(lease_until=until))


def release(engine: Engine, lease: Lease, due_at: datetime) -> None:
    """Give a cell back without a poll."""
    mine = (CELLS.c.id == lease.cell_id) & (CELLS.c.token == lease.token)
    with writing(engine) as connection:
        connection.execute(update(CELLS).where(mine).values(lease_until=None, token=None, due_at=due_at))


def make_due(engine: Engine, now: datetime, providers: Sequence[str] = (), feeds: Sequence[str] = ()) -> list[int]:
    """Make cells due now and end the pauses of their providers; returns their ids.

    What another worker has, and a pause that a provider's own throttling asked for, stand until their time: `cells`
    tells it, as `lease_until` and `paused_until`. A lease further ahead than any was taken by a wrong clock, and ends.
    """
    chosen = and_(CELLS.c.planned, CELLS.c.feed != SNAPSHOT_FEED)
    if providers:
        chosen = and_(chosen, CELLS.c.provider.in_(providers))
    if feeds:
        chosen = and_(chosen, CELLS.c.feed.in_(feeds))
    with writing(engine) as connection:
        in_turn(connection, SCHEDULE)
        rows = connection.execute(select(CELLS.c.id, CELLS.c.provider).where(chosen)).all()
        connection.execute(update(CELLS).where(chosen).values(due_at=now))
        unreal = and_(chosen, CELLS.c.lease_until > now + LONGEST_PAUSE)
        connection.execute(update(CELLS).where(unreal).values(lease_until=None, token=None))
        woken = {row.provider for row in rows}
        connection.execute(update(PROVIDERS).where(PROVIDERS.c.name.in_(woken)).values(paused=None))
    return [row.id for row in rows]


@dataclass(frozen=True, slots=True)
class CellNow:
    """A cell as it stands."""

    id: int
    provider: str
    feed: str
    place: str
    part: str
    status: str
    facts: int
    error: str | None
    tried_at: datetime | None
    due_at: datetime
    lease_until: datetime | None
    paused_until: datetime | None


def cells(engine: Engine, ids: Iterable[int]) -> list[CellNow]:
    """These cells as they stand."""
    columns = [CELLS.c[name.name] for name in fields(CellNow)]
    with reading(engine) as connection:
        rows = connection.execute(select(*columns).where(CELLS.c.id.in_(list(ids))).order_by(CELLS.c.id)).mappings()
        return [CellNow(**row) for row in rows]


def reserve(engine: Engine, key: str, per_second: float, now: datetime, patience: timedelta) -> datetime:
    """A slot under a shared rate limit: when the call may go out. More workers do not mean more calls.

    A slot further away than `patience` is told but not taken. One further away than the longest pause and a call is
    that of a clock since set back, and now is as good.
    """
    apart = timedelta(seconds=1 / per_second)
    with writing(engine) as connection:
        mark = placeholder(connection.dialect)
        first = f"INSERT INTO limits (key, next_at) VALUES ({mark}, {mark}) ON CONFLICT (key) DO NOTHING"  # noqa: S608
        connection.exec_driver_sql(first, (key, micros(now)))  # another's first call may come between
        known = select(LIMITS.c.next_at).where(LIMITS.c.key == key).with_for_update()
        next_at = connection.execute(known).scalar_one()
        slot = next_at if now < next_at <= now + LONGEST_PAUSE + apart else now
        if slot - now <= patience:
            connection.execute(update(LIMITS).where(LIMITS.c.key == key).values(next_at=slot + apart))
        return slot


def pause_limit(engine: Engine, key: str, pause: timedelta, now: datetime) -> datetime:
    """Pause every cell of a limit, and the calls of polls under way that share its key; returns until when.

    A pause is at most `LONGEST_PAUSE`, whatever a provider asked for, and a shorter one never ends a longer one.
    """
    until = now + min(pause, LONGEST_PAUSE)
    with writing(engine) as connection:
        in_turn(connection, SCHEDULE)
        shorter = _over(CELLS.c.paused_until, now) | (CELLS.c.paused_until < until)
        connection.execute(update(CELLS).where(CELLS.c.limit_key == key, shorter).values(paused_until=until))
        sooner = _over(LIMITS.c.next_at, now) | (LIMITS.c.next_at < until)
        connection.execute(update(LIMITS).where(LIMITS.c.key == key, sooner).values(next_at=until))
    return until


def pause_provider(engine: Engine, provider: str, reason: str) -> bool:
    """Pause a provider until its settings change or a person asks; returns whether it was running until now."""
    running = (PROVIDERS.c.name == provider) & PROVIDERS.c.paused.is_(None)
    with writing(engine) as connection:
        return connection.execute(update(PROVIDERS).where(running).values(paused=reason)).rowcount > 0


def prune_syncs(engine: Engine, before: datetime) -> None:
    """Forget polls that started before a time."""
    with writing(engine) as connection:
        connection.execute(delete(SYNCS).where(SYNCS.c.started_at < before))
