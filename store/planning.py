"""What the settings want becomes cells. What was said under other settings is asked anew, or goes."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    and_,
    bindparam,
    case,
    delete,
    insert,
    literal,
    or_,
    select,
    update,
)

from catalog.words import Evidence
from store.engine import in_turn, reading, writing
from store.history_log import end_all, keep_past_machines
from store.join import SNAPSHOT_FEED
from store.record import later
from store.tables import CELLS, DRIFTS, FACTS, MACHINES, NOTES, PROVIDERS, REGIONS, STOCKS
from store.times import Instant


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
    apart: timedelta = timedelta(0)
    """How long after the one before it under its limit a cell that is new or asked anew is due; 0: at once, like it."""


@dataclass(frozen=True, slots=True)
class PlannedProvider:
    """A provider as configured: `off` says of each feed that does not run what to set."""

    name: str
    account: bool
    site: str | None
    evidence: Sequence[str]
    off: dict[str, str]
    fingerprint: str
    """Tells changed settings; what follows its first `.` tells changed credentials alone."""
    feeds: Sequence[str] = ()
    """The feeds that run, also one that has no cell yet."""


SCHEDULE = "schedule"
"""The matter in which transactions that change many cells take turns."""
CellKey = tuple[str, str, str]
"""(feed, place, part) of a provider's cell."""


def plan(
    engine: Engine, provider: PlannedProvider, cells: Iterable[PlannedCell], now: datetime, *, again: bool = False
) -> int:
    """Make the schedule of a provider what its settings say; returns how many cells are new.

    A new cell is due at once, or in its turn where cells stand `apart`, and one whose interval changed is due by the
    new one. A cell that is no longer wanted keeps its facts, which grow old: its region is no longer named, or its feed
    is off. Only where the settings changed does a cell that a running feed no longer wants go with all that it said,
    since others say now what it said. Changed settings also end a pause and make all of the provider's cells due.
    Another site takes out all that was said under the one before, since its prices are in another currency; so do other
    credentials, since those may be another account's, whose prices and stock are others.

    `again` says that this process planned the same settings before, so that another one has changed them meanwhile:
    then only the cells that say nothing are made due, and what is no longer wanted keeps its facts. Two processes with
    different settings would else ask for everything anew, and take out each other's facts, each time that they plan.
    """
    wanted = {(cell.feed, cell.place, cell.part): cell for cell in cells}
    with writing(engine) as connection:
        in_turn(connection, SCHEDULE)
        changed = _plan_provider(connection, provider, now, again=again)
        anew = changed and not again
        known = _polled_cells(connection, provider.name)
        _update(connection, known, wanted, now)
        running = {cell.feed for cell in wanted.values()} if anew else set()
        _drop(connection, [row for key, row in known.items() if key not in wanted], running, now)
        turns = _turns({key: cell for key, cell in wanted.items() if anew or key not in known}, now)
        _delay(connection, {known[key].id: due_at for key, due_at in turns.items() if key in known})
        return _add(connection, {key: cell for key, cell in wanted.items() if key not in known}, turns, now)


def _turns(cells: Mapping[CellKey, PlannedCell], now: datetime) -> dict[CellKey, datetime]:
    """When cells are due that stand `apart`. Due all at once, they would go before the feeds that are polled often, for
    as long as their limit takes to let them through: a claim takes what is due the longest.
    """
    turns: dict[CellKey, datetime] = {}
    following: dict[str, datetime] = {}
    for key, cell in cells.items():
        if cell.apart:
            turns[key] = following.get(cell.limit_key, now)
            following[cell.limit_key] = turns[key] + cell.apart
    return turns


def _delay(connection: Connection, turns: Mapping[int, datetime]) -> None:
    if turns:
        moved = update(CELLS).where(CELLS.c.id == bindparam("cell")).values(due_at=bindparam("at"))
        connection.execute(moved, [{"cell": cell, "at": due_at} for cell, due_at in turns.items()])


def _polled_cells(connection: Connection, provider: str) -> dict[CellKey, Row[Any]]:
    rows = connection.execute(select(CELLS).where(CELLS.c.provider == provider, CELLS.c.feed != SNAPSHOT_FEED))
    return {(row.feed, row.place, row.part): row for row in rows}


def _update(
    connection: Connection, known: Mapping[CellKey, Row[Any]], wanted: Mapping[CellKey, PlannedCell], now: datetime
) -> None:
    for key in known.keys() & wanted.keys():
        row = known[key]._mapping  # noqa: SLF001 - SQLAlchemy's documented accessor
        values = {name: value for name, value in _planned(wanted[key]).items() if row[name] != value}
        if values:
            moved = values | _moved_by(values, now + wanted[key].every)
            connection.execute(update(CELLS).where(CELLS.c.id == row["id"]).values(moved))


def _moved_by(changed: Collection[str], due_at: datetime) -> dict[str, Any]:
    """What new settings change of a known cell's state: when it is due, and what its offers say.

    As the database has it by then: another worker may just have recorded an answer.
    """
    moved: dict[str, Any] = {}
    if "every_s" in changed:
        moved["due_at"] = case((CELLS.c.due_at < due_at, CELLS.c.due_at), else_=literal(due_at, Instant))
    if "planned" in changed or "fresh_s" in changed:
        moved["revision"] = CELLS.c.revision + 1
    return moved


def _planned(cell: PlannedCell) -> dict[str, object]:
    return {
        "planned": True,
        "every_s": cell.every.total_seconds(),
        "fresh_s": cell.fresh_for.total_seconds(),
        "absent": cell.absent,
        "limit_key": cell.limit_key,
        "limit_per_s": cell.limit_per_s,
    }


def _add(
    connection: Connection, cells: Mapping[CellKey, PlannedCell], turns: Mapping[CellKey, datetime], now: datetime
) -> int:
    fresh = [
        {"provider": cell.provider, "feed": cell.feed, "place": cell.place, "part": cell.part}
        | {"memo": "{}", "revision": 0, "status": "new", "failures": 0, "facts": 0, "offers": 0}
        | {"due_at": turns.get(key, now)}
        | _planned(cell)
        for key, cell in cells.items()
    ]
    if fresh:
        connection.execute(insert(CELLS), fresh)
    return len(fresh)


def _drop(connection: Connection, dropped: Sequence[Row[Any]], replaced: Collection[str], now: datetime) -> None:
    """Poll these cells no more. All that those of a feed said whose place others take goes: nobody asks for it any
    more, so nothing could ever settle it. The cells themselves stay, since their history does.
    """
    retired = CELLS.c.id.in_([row.id for row in dropped if row.feed in replaced])
    silenced = [row.id for row in dropped if row.feed not in replaced and row.planned]
    _empty(connection, retired, now)
    values = {"planned": False, "revision": CELLS.c.revision + 1}
    connection.execute(update(CELLS).where(retired).values(values | _UNSEEN))
    connection.execute(update(CELLS).where(CELLS.c.id.in_(silenced)).values(values))


_UNSEEN = {"seen_at": None, "status": "new", "error": None, "failures": 0, "facts": 0, "offers": 0, "digest": ""}
"""What a cell is that has said nothing."""


def _empty(connection: Connection, which: ColumnElement[bool], now: datetime) -> None:
    """Take out all that cells said; what machines there were is kept for their history, which ends here.

    The cells are locked first: what is being recorded of them is waited for, and goes too.
    """
    cells = connection.execute(select(CELLS).where(which).order_by(CELLS.c.id).with_for_update()).mappings().all()
    for cell in cells:
        at = later(cell, now)
        named = connection.execute(
            select(MACHINES.c.region, MACHINES.c.instance_type).where(MACHINES.c.cell_id == cell["id"])
        )
        keep_past_machines(connection, cell, [tuple(row) for row in named], at)
        end_all(connection, cell["id"], at)
    ids = [cell["id"] for cell in cells]
    for table in (*FACTS, NOTES, DRIFTS):
        connection.execute(delete(table).where(table.c.cell_id.in_(ids)))


def _plan_provider(connection: Connection, provider: PlannedProvider, now: datetime, *, again: bool) -> bool:
    """Keep what is configured, and start over where that differs from what was configured last; returns whether."""
    known = connection.execute(select(PROVIDERS).where(PROVIDERS.c.name == provider.name)).one_or_none()
    values = {
        "account": provider.account,
        "site": provider.site,
        "evidence": ",".join(provider.evidence),
        "off": json.dumps(provider.off),
        "fingerprint": provider.fingerprint,
        "configured": True,
        "feeds": ",".join(provider.feeds),
    }
    if known is None:
        connection.execute(insert(PROVIDERS).values(name=provider.name, **values))
    elif known.fingerprint == provider.fingerprint:
        connection.execute(update(PROVIDERS).where(PROVIDERS.c.name == provider.name).values(values))
        return False
    else:
        connection.execute(update(PROVIDERS).where(PROVIDERS.c.name == provider.name).values(values | {"paused": None}))
    if known is None or known.site != provider.site or _others_account(known.fingerprint, provider.fingerprint):
        _leave_account(connection, provider.name, now)
    _start_over(connection, provider.name, now, again=again)
    return True


def _others_account(before: str, now: str) -> bool:
    """Whether the credentials may be another account's. One fingerprint that does not tell them is no proof that they
    are the same: versions before this one kept none.
    """
    return before.partition(".")[2] != now.partition(".")[2]


def _start_over(connection: Connection, provider: str, now: datetime, *, again: bool) -> None:
    """Ask all cells anew, or those alone that say nothing. "Unchanged" would be about what other settings made of the
    answer, so there is no memo; what is being fetched under the old settings is not recorded; and how much other
    settings were told is no measure of a shrink.
    """
    held = {"held": None, "held_at": None, "digest": ""}
    values = {"memo": "{}", "token": None, "lease_until": None, "facts": 0} | held
    connection.execute(update(CELLS).where(_of(provider)).values(values))
    due = _of(provider) & (CELLS.c.status == _UNSEEN["status"]) if again else _of(provider)
    connection.execute(update(CELLS).where(due).values(due_at=now))


def _leave_account(connection: Connection, provider: str, now: datetime) -> None:
    """Take out all that was said under another site or other credentials: nothing of it may stand under these, however
    fresh.
    """
    _empty(connection, _of(provider), now)
    values = _UNSEEN | {"revision": CELLS.c.revision + 1}
    connection.execute(update(CELLS).where(_of(provider)).values(values))


def _of(provider: str) -> Any:
    """The cells of a provider that are polled, or were."""
    return (CELLS.c.provider == provider) & (CELLS.c.feed != SNAPSHOT_FEED)


def forget_providers(engine: Engine, but: Iterable[str]) -> None:
    """Switch off all providers but these: their cells are not polled, what they said grows old.

    They are marked and not deleted: one that comes back under the same settings goes on where it was, paused or not.
    """
    names = list(but)
    with writing(engine) as connection:
        in_turn(connection, SCHEDULE)
        others = CELLS.c.provider.not_in(names) & CELLS.c.planned
        connection.execute(update(CELLS).where(others).values(planned=False, revision=CELLS.c.revision + 1))
        connection.execute(update(PROVIDERS).where(PROVIDERS.c.name.not_in(names)).values(configured=False))


def planned_as(engine: Engine, provider: str) -> str | None:
    """The fingerprint that a provider was last planned with; None where it never was."""
    with reading(engine) as connection:
        query = select(PROVIDERS.c.fingerprint).where(PROVIDERS.c.name == provider)
        return connection.execute(query).scalar_one_or_none()


def known_regions(engine: Engine, provider: str) -> list[str]:
    """The regions that a provider's `places` feed named and this account may use, as far as is known."""
    query = (
        select(REGIONS.c.region)
        .join(CELLS, CELLS.c.id == REGIONS.c.cell_id)
        .where(_of(provider), or_(REGIONS.c.enabled.is_(None), REGIONS.c.enabled))
        .distinct()
        .order_by(REGIONS.c.region)
    )
    with reading(engine) as connection:
        return list(connection.execute(query).scalars())


def known_machines(engine: Engine, provider: str, regions: Collection[str]) -> dict[str, list[str]]:
    """The instance types by region, of these, whose stock a provider states, be they sold out."""
    query = (
        select(STOCKS.c.region, STOCKS.c.instance_type)
        .join(CELLS, CELLS.c.id == STOCKS.c.cell_id)
        .where(_states_stock(provider, regions))
        .distinct()
        .order_by(STOCKS.c.region, STOCKS.c.instance_type)
    )
    known: dict[str, list[str]] = {}
    with reading(engine) as connection:
        for region, instance_type in connection.execute(query):
            known.setdefault(region, []).append(instance_type)
    return known


def planned_cells(engine: Engine, provider: str) -> set[CellKey]:
    """The cells of a provider that are polled."""
    query = select(CELLS.c.feed, CELLS.c.place, CELLS.c.part).where(CELLS.c.provider == provider, CELLS.c.planned)
    with reading(engine) as connection:
        return {(row.feed, row.place, row.part) for row in connection.execute(query)}


def _states_stock(provider: str, regions: Collection[str]) -> ColumnElement[bool]:
    """The rows of its stock in regions that are polled. A likelihood is none, and neither is being listed."""
    stated = STOCKS.c.evidence.in_([one.value for one in Evidence if one.is_stock])
    return and_(_of(provider), STOCKS.c.region.in_(regions), stated)
