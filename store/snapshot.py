"""The bundled snapshot: list prices that answer before anything was polled, evidence `snapshot`, their dates kept."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time
from hashlib import blake2b

from sqlalchemy import Connection, Engine, column, delete, insert, select, table, update

from catalog.facts import Fact, Machine, Price
from catalog.offers import SNAPSHOT
from catalog.snapshot_data import SnapshotRow, snapshot_rows
from catalog.words import Level
from store.engine import in_turn, reading, writing
from store.join import SNAPSHOT_FEED
from store.rows import KINDS, PRICES, sort_facts
from store.settle import write_facts
from store.tables import CELLS, FLAGS
from store.times import EPOCH
from store.version import program_version

FLAG = "snapshot"
_IMPORTED = "imported"
_READING = 2
"""Raised when the same list is loaded otherwise than before."""


def load_bundled(engine: Engine) -> int:
    """Load the bundled snapshot unless this database holds it already, as this version of the program reads it.

    What was imported stands, unless the bundled list is newer than it. Returns how many prices were loaded.
    """
    rows = list(snapshot_rows())
    digest = blake2b(repr((_READING, rows)).encode(), digest_size=8).hexdigest()
    version = f"{program_version()} {digest}"
    with reading(engine) as connection:
        if _stands(connection, version, rows):
            return 0
    with writing(engine) as connection:
        in_turn(connection, FLAG)
        if _stands(connection, version, rows):  # another process was first
            return 0
        clear(connection)
        known = cells(connection)
        for (provider, region), stated in _by_region(rows).items():
            _load_region(connection, known.get((provider, region)), stated)
        _mark(connection, version)
    return len(rows)


def imported_at(connection: Connection) -> datetime | None:
    """When the file was made that the snapshot was imported from; None where it is the bundled one, or none."""
    loaded = connection.execute(select(FLAGS.c.value).where(FLAGS.c.name == FLAG)).scalar_one_or_none()
    kind, _, rest = (loaded or "").partition(" ")
    return datetime.fromisoformat(rest.partition(" ")[0]) if kind == _IMPORTED else None


def mark_imported(connection: Connection, created_at: datetime, digest: str) -> None:
    """Remember which file the snapshot was imported from."""
    _mark(connection, f"{_IMPORTED} {created_at.astimezone(UTC).isoformat()} {digest}")


def _stands(connection: Connection, version: str, rows: Sequence[SnapshotRow]) -> bool:
    loaded = connection.execute(select(FLAGS.c.value).where(FLAGS.c.name == FLAG)).scalar_one_or_none()
    imported = imported_at(connection)
    return loaded == version or (imported is not None and imported >= max(map(_instant, rows)))


def _mark(connection: Connection, value: str) -> None:
    connection.execute(delete(FLAGS).where(FLAGS.c.name == FLAG))
    connection.execute(insert(FLAGS).values(name=FLAG, value=value))


def clear(connection: Connection) -> None:
    """Take out what an earlier snapshot said: a list replaces the one before, without the ageing of polled prices."""
    of_snapshot = CELLS.c.feed == SNAPSHOT_FEED
    for kind in KINDS:
        rows = table(kind.table, column("cell_id"))
        connection.execute(delete(rows).where(rows.c.cell_id.in_(select(CELLS.c.id).where(of_snapshot))))
    emptied = {"revision": CELLS.c.revision + 1, "offers": 0, "memo": "{}"}
    connection.execute(update(CELLS).where(of_snapshot).values(emptied))


def cells(connection: Connection) -> dict[tuple[str, str], int]:
    """(provider, region) -> the id of its cell in the snapshot."""
    rows = connection.execute(select(CELLS.c.provider, CELLS.c.place, CELLS.c.id).where(CELLS.c.feed == SNAPSHOT_FEED))
    return {(row.provider, row.place): row.id for row in rows}


def add_cell(connection: Connection, provider: str, region: str) -> int:
    """A cell for a region that the snapshot had none of; returns its id."""
    added = insert(CELLS).values(_cell(provider, region)).returning(CELLS.c.id)
    return int(connection.execute(added).scalar_one())


def fill_cell(connection: Connection, cell: int, seen_at: datetime, offers: int, site: str | None = None) -> None:
    """Say of a cell when its newest fact was seen, how many offers it states, and which site's prices they are."""
    memo = "{}" if site is None else json.dumps({"site": site})
    stated = {"seen_at": seen_at, "offers": offers, "memo": memo}
    connection.execute(update(CELLS).where(CELLS.c.id == cell).values(stated))


def _by_region(rows: Iterable[SnapshotRow]) -> dict[tuple[str, str], list[SnapshotRow]]:
    found: dict[tuple[str, str], list[SnapshotRow]] = defaultdict(list)
    for row in rows:
        found[row.provider, row.region].append(row)
    return found


def _load_region(connection: Connection, known: int | None, rows: list[SnapshotRow]) -> None:
    as_of = max(map(_instant, rows))
    cell_id = add_cell(connection, rows[0].provider, rows[0].region) if known is None else known
    cell = connection.execute(select(CELLS).where(CELLS.c.id == cell_id)).mappings().one()
    stated = sort_facts(fact for row in rows for fact in _facts(row))
    write_facts(connection, cell, stated, whole=True, now=as_of)
    fill_cell(connection, cell_id, as_of, len(stated.rows[PRICES.table]), rows[0].site)


def _cell(provider: str, region: str) -> dict[str, object]:
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
        "due_at": EPOCH,
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
