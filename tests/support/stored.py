"""Small builders for the tests of the store: a database in a folder, cells in it, and polls that say this or that."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select
from sqlmodel import SQLModel

from catalog.facts import Fact, Machine, Note, Offered, Price, Stock
from catalog.offers import Offer
from catalog.words import Evidence, Level, Purchase
from store import planning, record, schedule
from store.engine import migrate, reading, writing
from store.offers import load
from store.planning import PlannedCell, PlannedProvider
from store.record import Answer, Lease, Result
from store.tables import CELLS
from tests.support.databases import engine_at

T0 = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LEASE = timedelta(minutes=10)
REGION = "r1"
NANO = 1_000_000_000


def opened(folder: Path) -> Engine:
    """A new database, or the one that is in the folder."""
    engine = engine_at(folder)
    migrate(engine)
    return engine


def planned_cell(feed: str, **changes: Any) -> PlannedCell:
    """A cell of `cloud` at the region."""
    fields: dict[str, Any] = {
        "provider": "cloud",
        "feed": feed,
        "place": REGION,
        "part": "",
        "every": MINUTE,
        "fresh_for": 3 * MINUTE,
        "absent": Level.OUT.value,
        "limit_key": "cloud",
        "limit_per_s": 10.0,
    }
    return PlannedCell(**(fields | changes))


def planned_provider(name: str = "cloud", fingerprint: str = "one", **changes: Any) -> PlannedProvider:
    fields: dict[str, Any] = {"account": True, "site": None, "evidence": ["reported"], "off": {}}
    return PlannedProvider(name=name, fingerprint=fingerprint, **(fields | changes))


def plan(engine: Engine, *cells: PlannedCell, now: datetime = T0, name: str = "cloud", fingerprint: str = "one") -> int:
    return planning.plan(engine, planned_provider(name, fingerprint), cells, now)


def cell(engine: Engine, feed: str = "stock", place: str = REGION, part: str = "") -> Mapping[str, Any]:
    """The row of a cell of `cloud`."""
    where = (CELLS.c.provider == "cloud") & (CELLS.c.feed == feed) & (CELLS.c.place == place) & (CELLS.c.part == part)
    with reading(engine) as connection:
        return dict(connection.execute(select(CELLS).where(where)).mappings().one())


def rows(engine: Engine, table: str, columns: str = "*") -> list[dict[str, Any]]:
    """A table as the database keeps it, in the order of its key: times are microseconds, flags 0 and 1."""
    keys = [column.name for column in SQLModel.metadata.tables[table].primary_key] if table != "alembic_version" else []
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    with reading(engine) as connection:
        found = connection.exec_driver_sql(f"SELECT {columns} FROM {table}{order}")  # noqa: S608 - test tables
        return [dict(row) for row in found.mappings()]


@contextmanager
def without_syncs(engine: Engine) -> Iterator[None]:
    """A database in which no poll can be told of, and so none be recorded to its end."""
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE syncs RENAME TO hidden")
    try:
        yield
    finally:
        with writing(engine) as connection:
            connection.exec_driver_sql("ALTER TABLE hidden RENAME TO syncs")


class Cloud:
    """A provider `cloud` with its cells in a database. Each poll claims its cell first, as a worker does."""

    def __init__(self, folder: Path, *cells: PlannedCell) -> None:
        self.engine = opened(folder)
        plan(self.engine, *cells)

    def claimed(self, at: datetime, feed: str = "stock", place: str = REGION, part: str = "") -> Lease:
        """The cell's lease, due or not."""
        one = cell(self.engine, feed, place, part)
        schedule.make_due(self.engine, min(at, T0), feeds=[feed])
        (lease,) = schedule.claim(self.engine, max(at, T0), LEASE, 1, only=[one["id"]])
        return lease

    def told(
        self,
        at: datetime,
        *facts: Fact,
        feed: str = "stock",
        place: str = REGION,
        part: str = "",
        missing: str = "",
        notes: Iterable[Note] = (),
        skipped: Mapping[str, int] | None = None,
        memo: Mapping[str, str] | None = None,
    ) -> Result:
        """A poll that was answered with these facts; partial where something is `missing`."""
        lease = self.claimed(at, feed, place, part)
        answer = Answer(facts, list(notes), skipped or {}, memo or {}, missing)
        return record.record(self.engine, lease, answer, at, at + MINUTE)

    def unchanged(self, at: datetime, feed: str = "stock") -> Result:
        return record.unchanged(self.engine, self.claimed(at, feed), at, at + MINUTE)

    def failed(self, at: datetime, feed: str = "stock", drift: tuple[str, bytes] | None = None) -> Result:
        result = Result("failed", error="timed out")
        return record.failed(self.engine, self.claimed(at, feed), result, at, at + MINUTE, drift)

    def offers(self, region: str = REGION, now: datetime = T0) -> dict[tuple[str | None, str, str], Offer]:
        """(zone, machine, purchase) -> offer; no two offers share one."""
        found = load(self.engine, ("cloud", region), now)
        keyed = {(one.place.zone, one.machine.instance_type, one.purchase.value): one for one in found}
        assert len(keyed) == len(found), "two offers of one place, machine and purchase"
        return keyed


def machine(name: str = "m1", **changes: Any) -> Machine:
    fields: dict[str, Any] = {
        "region": REGION,
        "instance_type": name,
        "gpu": "t4-16g",
        "gpu_count": Fraction(1),
        "purchases": frozenset({Purchase.ON_DEMAND}),
    }
    return Machine(**(fields | changes))


def price(name: str = "m1", nanos: int = NANO, **changes: Any) -> Price:
    fields: dict[str, Any] = {"region": REGION, "purchase": Purchase.ON_DEMAND, "currency": "USD", "source": "a list"}
    return Price(instance_type=name, nanos=nanos, **(fields | changes))


def stock(name: str = "m1", level: Level = Level.IN_STOCK, **changes: Any) -> Stock:
    fields: dict[str, Any] = {
        "region": REGION,
        "purchases": frozenset({Purchase.ON_DEMAND}),
        "evidence": Evidence.REPORTED,
    }
    return Stock(instance_type=name, level=level, **(fields | changes))


def offered(zone: str, name: str = "m1", **changes: Any) -> Offered:
    return Offered(region=changes.pop("region", REGION), instance_type=name, zone=zone, **changes)
