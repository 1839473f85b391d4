"""Bringing a file of `gpufare snapshot export` into the database: all of it, in the place of the snapshot before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Engine

from catalog.words import Evidence
from store import snapshot
from store.archive import STATE, AnyLine, MachineLine, OfferLine, RegionLine
from store.archive_reading import opened
from store.bulk import upsert
from store.engine import in_turn, writing
from store.rows import KINDS, MACHINES, PRICES, REGIONS, STOCKS, Key, Kind, Row, hash_of
from store.settle import stamp_columns
from store.times import micros

BATCH = 5000
"""Rows that are written at once, and kept in memory until then."""


@dataclass(slots=True)
class Loaded:
    """What was loaded of a provider, when the oldest and the newest of it were seen, and the site it is of."""

    site: str | None
    offers: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None

    def add(self, line: OfferLine) -> None:
        """Count an offer."""
        times = (*line.times(), *filter(None, (self.oldest, self.newest)))
        self.offers, self.oldest, self.newest = self.offers + 1, min(times), max(times)


@dataclass(frozen=True, slots=True)
class Imported:
    """What was loaded, by provider, and when its file was made."""

    created_at: datetime
    providers: Mapping[str, Loaded]


def import_file(engine: Engine, file: Path, now: datetime) -> Imported:
    """Replace the snapshot in the database, bundled or imported, by the file's; what was polled here stands.

    The file is read twice: once to check all of it, and only then to write it, in one transaction. Raises ArchiveError
    for a file that does not hold, and then nothing was changed.
    """
    with opened(file, now) as archive:
        for _ in archive.lines():
            pass
        with writing(engine) as connection:
            in_turn(connection, snapshot.FLAG)
            snapshot.clear(connection)
            loading = _Loading(connection, snapshot.cells(connection), archive.manifest.created_at)
            for line in archive.lines():
                loading.take(line)
            loading.finish()
            snapshot.mark_imported(connection, archive.manifest.created_at, archive.manifest.members[STATE].sha256)
        return Imported(archive.manifest.created_at, loading.providers)


@dataclass(slots=True)
class _Loading:
    """Writes lines as they come, a cell for each region."""

    connection: Connection
    known: dict[tuple[str, str], int]
    created_at: datetime
    providers: dict[str, Loaded] = field(default_factory=dict)
    _region: RegionLine | None = None
    _cell: int = 0
    _seen: Loaded = field(default_factory=lambda: Loaded(None))
    _rows: dict[str, list[tuple[object, ...]]] = field(default_factory=lambda: {kind.table: [] for kind in KINDS})

    def take(self, line: AnyLine) -> None:
        """Write a line, or keep it for the next batch."""
        if isinstance(line, RegionLine):
            self._begin(line)
        elif isinstance(line, MachineLine):
            self._add(MACHINES, MACHINES.rows(line.fact()), (None,))
        else:
            self._offer(line)

    def finish(self) -> None:
        """Write what is left."""
        self._end_region()
        for kind in KINDS:
            self._write(kind)

    def _begin(self, line: RegionLine) -> None:
        self._end_region()
        self._region, self._seen = line, Loaded(line.site)
        key = (line.provider, line.region)
        if key not in self.known:
            self.known[key] = snapshot.add_cell(self.connection, *key)
        self._cell = self.known[key]
        self.providers.setdefault(line.provider, Loaded(line.site))
        self._add(REGIONS, [((line.region,), (line.name, line.country, None))], ())

    def _end_region(self) -> None:
        if self._region is not None:
            seen_at = self._seen.newest or self.created_at
            snapshot.fill_cell(self.connection, self._cell, seen_at, self._seen.offers, self._seen.site)

    def _offer(self, line: OfferLine) -> None:
        self._seen.add(line)
        self.providers[line.provider].add(line)
        price = line.price_fact()
        if price is not None:
            self._add(PRICES, PRICES.rows(price), (None, 0))
        stock = line.stock
        key: Key = (line.region, line.zone_key, line.instance_type, line.purchase.value)
        said = (stock.level.value, Evidence.SNAPSHOT.value, stock.detail, stock.score, stock.quantity)
        self._add(STOCKS, [(key, (line.zone, line.zone_id, *said))], (micros(stock.seen_at),))

    def _add(self, kind: Kind, rows: Iterable[tuple[Key, Row]], stamp: tuple[int | None, ...]) -> None:
        waiting = self._rows[kind.table]
        waiting.extend((self._cell, *key, *values, hash_of(values), *stamp) for key, values in rows)
        if len(waiting) >= BATCH:
            self._write(kind)

    def _write(self, kind: Kind) -> None:
        columns = (*kind.values, "hash", *stamp_columns(kind))
        upsert(self.connection, kind.table, ("cell_id", *kind.key), columns, self._rows[kind.table])
        self._rows[kind.table].clear()
