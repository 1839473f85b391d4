"""The bundled snapshot: list prices that answer before anything was polled, evidence `snapshot`, their dates kept."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, time
from hashlib import blake2b

from sqlalchemy import Connection, Engine, column, delete, insert, select, table, update

from catalog.facts import Fact, Machine, Price
from catalog.offers import SNAPSHOT
from catalog.snapshot_data import SnapshotRow, snapshot_rows
from catalog.words import Level
from store.engine import reading, writing
from store.join import SNAPSHOT_FEED
from store.rows import KINDS, sort_facts
from store.settle import write_facts
from store.tables import CELLS, FLAGS
from store.version import program_version

FLAG = "snapshot"


def load_bundled(engine: Engine) -> int:
    """Load the bundled snapshot unless this database holds it already, as this version of the program reads it.

    Returns how many prices were loaded.
    """
    rows = list(snapshot_rows())
    version = f"{program_version()} {blake2b(repr(rows).encode(), digest_size=8).hexdigest()}"
    with reading(engine) as connection:
        if connection.execute(select(FLAGS.c.value).where(FLAGS.c.name == FLAG)).scalar_one_or_none() == version:
            return 0
    with writing(engine) as connection:
        connection.execute(delete(FLAGS).where(FLAGS.c.name == FLAG))
        _clear(connection)
        for (provider, region), stated in _by_region(rows).items():
            _load_region(connection, provider, region, stated)
        connection.execute(insert(FLAGS).values(name=FLAG, value=version))
    return len(rows)


def _clear(connection: Connection) -> None:
    """Take out what an earlier snapshot said: a list replaces the one before, without the ageing of polled prices."""
    cells = CELLS.c.feed == SNAPSHOT_FEED
    for kind in KINDS:
        rows = table(kind.table, column("cell_id"))
        connection.execute(delete(rows).where(rows.c.cell_id.in_(select(CELLS.c.id).where(cells))))
    connection.execute(update(CELLS).where(cells).values(revision=CELLS.c.revision + 1))


def _by_region(rows: Iterable[SnapshotRow]) -> dict[tuple[str, str], list[SnapshotRow]]:
    found: dict[tuple[str, str], list[SnapshotRow]] = defaultdict(list)
    for row in rows:
        found[row.provider, row.region].append(row)
    return found


def _load_region(connection: Connection, provider: str, region: str, rows: list[SnapshotRow]) -> None:
    as_of = max(_instant(row) for row in rows)
    here = (CELLS.c.provider == provider) & (CELLS.c.feed == SNAPSHOT_FEED) & (CELLS.c.place == region)
    if connection.execute(select(CELLS.c.id).where(here)).first() is None:
        connection.execute(insert(CELLS).values(_cell(provider, region, as_of)))
    cell = connection.execute(select(CELLS).where(here)).mappings().one()
    stated = sort_facts(fact for row in rows for fact in _facts(row))
    write_facts(connection, cell, stated, whole=True, now=as_of)
    connection.execute(CELLS.update().where(here).values(seen_at=as_of, revision=cell["revision"] + 1))


def _cell(provider: str, region: str, as_of: datetime) -> dict[str, object]:
    return {
        "provider": provider,
        "feed": SNAPSHOT_FEED,
        "place": region,
        "part": "",
        "every_s": 0.0,
        "fresh_s": 0.0,  # a snapshot is never fresh
        "absent": Level.UNKNOWN.value,
        "limit_key": SNAPSHOT_FEED,
        "limit_per_s": 1.0,
        "planned": False,
        "due_at": as_of,
        "memo": "{}",
        "revision": 0,
        "status": "ok",
        "failures": 0,
        "facts": 0,
        "offers": 0,
    }


def _instant(row: SnapshotRow) -> datetime:
    return datetime.combine(row.as_of, time(), UTC)


def _facts(row: SnapshotRow) -> Iterable[Fact]:
    yield Machine(
        region=row.region,
        instance_type=row.instance_type,
        gpu=row.gpu,
        gpu_count=row.gpu_count,
        vcpus=row.vcpus,
        memory_mib=row.memory_mib,
        purchases=frozenset({row.purchase}),
    )
    yield Price(
        region=row.region,
        instance_type=row.instance_type,
        purchase=row.purchase,
        nanos=row.price_nanos,
        currency=row.currency,
        source=f"{SNAPSHOT} of {row.source}",
        as_of=_instant(row),
    )
