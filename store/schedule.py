"""The schedule: the table `cells`. A worker claims due cells in one transaction; a lease that runs out is due again."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, delete, func, insert, or_, select, update

from store.engine import reading, writing
from store.join import SNAPSHOT_FEED
from store.record import Lease
from store.tables import CELLS, DRIFTS, FACTS, LIMITS, NOTES, PROVIDERS, REGIONS, SYNCS


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell as its feed and the settings want it."""

    provider: str
    feed: str
    place: str
    part: str
    every: timedelta
    fresh_for: timedelta
    absent: str
    limit_key: str
    limit_per_s: float


@dataclass(frozen=True, slots=True)
class PlannedProvider:
    """A provider as configured: `off` says of each feed that does not run what to set."""

    name: str
    account: bool
    site: str | None
    evidence: Sequence[str]
    off: dict[str, str]
    fingerprint: str


def plan(engine: Engine, provider: PlannedProvider, cells: Iterable[PlannedCell], now: datetime) -> int:
    """Make the schedule of a provider what its settings say; returns how many cells are new.

    A new cell is due at once, and one whose interval changed is due by the new one. A cell that is no longer wanted
    keeps its facts, which grow old: its region is no longer named, or its feed is off. Only where the settings changed
    does a cell that a running feed no longer wants go with all that it said, since others say now what it said.
    Changed settings also end a pause and make all of the provider's cells due.
    """
    wanted = {(cell.feed, cell.place, cell.part): cell for cell in cells}
    with writing(engine) as connection:
        changed = _plan_provider(connection, provider)
        if changed:
            _start_over(connection, provider.name, now)
        known = {
            (row.feed, row.place, row.part): row
            for row in connection.execute(select(CELLS).where(CELLS.c.provider == provider.name))
            if row.feed != SNAPSHOT_FEED
        }
        for key, cell in wanted.items():
            if key in known:
                values = _planned(cell) | _moved_by(known[key], cell, now)
                connection.execute(update(CELLS).where(CELLS.c.id == known[key].id).values(values))
        fresh = [
            {"provider": cell.provider, "feed": cell.feed, "place": cell.place, "part": cell.part, "due_at": now}
            | {"memo": "{}", "revision": 0, "status": "new", "failures": 0, "facts": 0, "offers": 0}
            | _planned(cell)
            for key, cell in wanted.items()
            if key not in known
        ]
        if fresh:
            connection.execute(insert(CELLS), fresh)
        running = {cell.feed for cell in wanted.values()}
        dropped = [row for key, row in known.items() if key not in wanted]
        replaced = [row for row in dropped if changed and row.feed in running]
        _retire(connection, [row.id for row in replaced])
        _silence(connection, [row.id for row in dropped if row not in replaced and row.planned])
        return len(fresh)


def _retire(connection: Connection, cells: Sequence[int]) -> None:
    """Take out cells with all that they said: nobody asks for it, so nothing could ever settle it."""
    for table in (*FACTS, NOTES, DRIFTS):
        connection.execute(delete(table).where(table.c.cell_id.in_(cells)))
    connection.execute(delete(CELLS).where(CELLS.c.id.in_(cells)))


def _silence(connection: Connection, cells: Sequence[int]) -> None:
    values = {"planned": False, "revision": CELLS.c.revision + 1}
    connection.execute(update(CELLS).where(CELLS.c.id.in_(cells)).values(values))


def _start_over(connection: Connection, provider: str, now: datetime) -> None:
    """Ask all cells anew. "Unchanged" would be about what other settings made of the answer (the site decides the
    currency), so there is no memo; and what is being fetched under the old settings is not recorded.
    """
    cells = (CELLS.c.provider == provider) & (CELLS.c.feed != SNAPSHOT_FEED)
    values = {"due_at": now, "memo": "{}", "token": None, "lease_until": None}
    connection.execute(update(CELLS).where(cells).values(values))


def _moved_by(known: Row[Any], cell: PlannedCell, now: datetime) -> dict[str, object]:
    """What a known cell's new settings change of its state: when it is due, and what its offers say."""
    due_at = known.due_at if known.every_s == cell.every.total_seconds() else min(known.due_at, now + cell.every)
    same = known.planned and known.fresh_s == cell.fresh_for.total_seconds()
    return {"due_at": due_at, "revision": known.revision + (not same)}


def _planned(cell: PlannedCell) -> dict[str, object]:
    return {
        "planned": True,
        "every_s": cell.every.total_seconds(),
        "fresh_s": cell.fresh_for.total_seconds(),
        "absent": cell.absent,
        "limit_key": cell.limit_key,
        "limit_per_s": cell.limit_per_s,
    }


def _plan_provider(connection: Connection, provider: PlannedProvider) -> bool:
    """Keep what is configured; returns whether that differs from what was configured last."""
    known = connection.execute(select(PROVIDERS).where(PROVIDERS.c.name == provider.name)).one_or_none()
    values = {
        "account": provider.account,
        "site": provider.site,
        "evidence": ",".join(provider.evidence),
        "off": json.dumps(provider.off),
        "fingerprint": provider.fingerprint,
    }
    if known is None:
        connection.execute(insert(PROVIDERS).values(name=provider.name, **values))
        return True
    changed = bool(known.fingerprint != provider.fingerprint)
    paused = {"paused": None} if changed else {}
    connection.execute(update(PROVIDERS).where(PROVIDERS.c.name == provider.name).values(values | paused))
    return changed


def forget_providers(engine: Engine, but: Iterable[str]) -> None:
    """Switch off all providers but these: their cells are not polled, what they said grows old."""
    names = list(but)
    with writing(engine) as connection:
        others = CELLS.c.provider.not_in(names) & (CELLS.c.feed != SNAPSHOT_FEED)
        connection.execute(update(CELLS).where(others).values(planned=False))
        connection.execute(delete(PROVIDERS).where(PROVIDERS.c.name.not_in(names)))


def known_regions(engine: Engine, provider: str) -> list[str]:
    """The regions that a provider's `places` feed named and this account may use, as far as is known."""
    query = (
        select(REGIONS.c.region)
        .join(CELLS, CELLS.c.id == REGIONS.c.cell_id)
        .where(CELLS.c.provider == provider, or_(REGIONS.c.enabled.is_(None), REGIONS.c.enabled))
        .distinct()
        .order_by(REGIONS.c.region)
    )
    with reading(engine) as connection:
        return list(connection.execute(query).scalars())


def _due(now: datetime) -> ColumnElement[bool]:
    return and_(
        CELLS.c.planned,
        CELLS.c.due_at <= now,
        or_(CELLS.c.lease_until.is_(None), CELLS.c.lease_until <= now),
        or_(CELLS.c.paused_until.is_(None), CELLS.c.paused_until <= now),
        CELLS.c.provider.not_in(select(PROVIDERS.c.name).where(PROVIDERS.c.paused.is_not(None))),
    )


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
    only: Iterable[int] | None = None,
) -> list[Lease]:
    """Lease up to `most` due cells, longest due first. No cell is leased twice at a time, however many workers ask."""
    due = _due(now)
    if provider is not None:
        due = and_(due, CELLS.c.provider == provider)
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
    )


def release(engine: Engine, lease: Lease, due_at: datetime) -> None:
    """Give a cell back without a poll."""
    mine = (CELLS.c.id == lease.cell_id) & (CELLS.c.token == lease.token)
    with writing(engine) as connection:
        connection.execute(update(CELLS).where(mine).values(lease_until=None, token=None, due_at=due_at))


def make_due(engine: Engine, now: datetime, providers: Sequence[str] = (), feeds: Sequence[str] = ()) -> list[int]:
    """Make cells due now and end the pauses of their providers; returns their ids.

    A pause that a provider's own throttling asked for stands.
    """
    chosen = and_(CELLS.c.planned, CELLS.c.feed != SNAPSHOT_FEED)
    if providers:
        chosen = and_(chosen, CELLS.c.provider.in_(providers))
    if feeds:
        chosen = and_(chosen, CELLS.c.feed.in_(feeds))
    with writing(engine) as connection:
        rows = connection.execute(select(CELLS.c.id, CELLS.c.provider).where(chosen)).all()
        connection.execute(update(CELLS).where(chosen).values(due_at=now))
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


def cells(engine: Engine, ids: Iterable[int]) -> list[CellNow]:
    """These cells as they stand."""
    columns = [CELLS.c[name.name] for name in fields(CellNow)]
    with reading(engine) as connection:
        rows = connection.execute(select(*columns).where(CELLS.c.id.in_(list(ids))).order_by(CELLS.c.id)).mappings()
        return [CellNow(**row) for row in rows]


def reserve(engine: Engine, key: str, per_second: float, now: datetime, patience: timedelta) -> datetime:
    """A slot under a shared rate limit: when the call may go out. More workers do not mean more calls.

    A slot further away than `patience` is told but not taken.
    """
    with writing(engine) as connection:
        known = select(LIMITS.c.next_at).where(LIMITS.c.key == key).with_for_update()
        next_at = connection.execute(known).scalar_one_or_none()
        slot = max(now, next_at or now)
        if slot - now > patience:
            return slot
        after = slot + timedelta(seconds=1 / per_second)
        if next_at is None:
            connection.execute(insert(LIMITS).values(key=key, next_at=after))
        else:
            connection.execute(update(LIMITS).where(LIMITS.c.key == key).values(next_at=after))
        return slot


def pause_limit(engine: Engine, key: str, until: datetime) -> None:
    """Pause every cell that shares a limit, and the calls of polls under way; a longer pause stays as it is."""
    shorter = or_(CELLS.c.paused_until.is_(None), CELLS.c.paused_until < until)
    with writing(engine) as connection:
        connection.execute(update(CELLS).where(CELLS.c.limit_key == key, shorter).values(paused_until=until))
        connection.execute(update(LIMITS).where(LIMITS.c.key == key, LIMITS.c.next_at < until).values(next_at=until))


def pause_provider(engine: Engine, provider: str, reason: str) -> bool:
    """Pause a provider until its settings change or a person asks; returns whether it was running until now."""
    running = (PROVIDERS.c.name == provider) & PROVIDERS.c.paused.is_(None)
    with writing(engine) as connection:
        return connection.execute(update(PROVIDERS).where(running).values(paused=reason)).rowcount > 0


def prune_syncs(engine: Engine, before: datetime) -> None:
    """Forget polls that started before a time."""
    with writing(engine) as connection:
        connection.execute(delete(SYNCS).where(SYNCS.c.started_at < before))
