"""What recording an answer costs: a first load, the same answers again, and answers of which 1 % changed.

Each cell is a region of about a thousand offers, claimed before the clock runs; what runs is `store.record.record`,
from facts to the commit. The peer of a first load is the bare driver: the rows that `record` left, ready-made, loaded
into the same empty tables (`bench.raw`). They are read back table by table, so the peer always loads the same rows.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Engine

from bench.databases import POSTGRESQL, SQLITE, Kind, missing
from bench.offers import FRESH_FOR, NOW, Market, Sale, facts_of, market
from bench.raw import CellRows, load_postgresql, load_sqlite, row_count, rows_of
from bench.rounds import Pairs, no_collection, seconds_of
from bench.table import Line, at_least, skipped
from catalog.facts import Fact
from catalog.spec import RegionKey
from catalog.words import Level
from store.engine import migrate, open_engine
from store.partitions import prepare
from store.planning import PlannedCell, PlannedProvider, plan
from store.record import Answer, Lease, record
from store.schedule import claim

NAME = "writes"
CELLS = 200
EVERY = timedelta(minutes=5)
LEASE = timedelta(minutes=10)
FEED = "stock"
CHANGED = 100
"""Of so many offers one changes."""
PEERS = {SQLITE.name: ("raw executemany", load_sqlite, 0.4), POSTGRESQL.name: ("COPY + merge", load_postgresql, 0.6)}

Answers = Mapping[RegionKey, Sequence[Fact]]


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    size, cells, rounds = (5_000, 10, 1) if quick else (200_000, CELLS, 2)
    with no_collection():
        sold = market(size, regions=cells)
        answers, changed = stated(sold), stated(with_changes(sold))
    gc.freeze()  # half a million facts, which nobody need search for garbage
    for kind in (SQLITE, POSTGRESQL):
        why = missing(kind)
        if why is not None:
            yield skipped(f"writes, {kind.name}", why)
            continue
        yield from _on(kind, [_Round(kind, answers, changed) for _ in range(rounds)], size)


def stated(sold: Market) -> Answers:
    """What each region's cell is answered."""
    return {key: facts_of(sales) for key, sales in sold.items()}


def with_changes(sold: Market) -> Market:
    """The same market a poll later: the price and the stock of one offer in a hundred are other ones."""
    return {
        key: [_changed(sale) if number % CHANGED == 0 else sale for number, sale in enumerate(sales)]
        for key, sales in sold.items()
    }


def _changed(sale: Sale) -> Sale:
    level = {Level.IN_STOCK: Level.OUT, Level.OUT: Level.IN_STOCK}.get(sale.level, sale.level)
    return replace(sale, nanos=sale.nanos + sale.nanos // 50, level=level)


def planned(engine: Engine, keys: Sequence[RegionKey], now: datetime = NOW, every: timedelta = EVERY) -> None:
    """Make a cell for each region, due at once."""
    for name in sorted({provider for provider, _ in keys}):
        cells = [
            PlannedCell(name, FEED, place, "", every, FRESH_FOR, Level.OUT.value, name, 10.0)
            for provider, place in keys
            if provider == name
        ]
        plan(engine, PlannedProvider(name, True, None, ["reported"], {}, fingerprint="bench"), cells, now)


def claimed(engine: Engine, now: datetime) -> list[Lease]:
    """The leases of all that is due."""
    return claim(engine, now, LEASE, most=100_000)


def recorded(engine: Engine, leases: Sequence[Lease], answers: Answers, now: datetime) -> None:
    """Record the answer of each leased cell."""
    for lease in leases:
        answer = Answer(answers[lease.provider, lease.place])
        result = record(engine, lease, answer, now, now + lease.every)
        if result.status != "ok":
            raise AssertionError(f"{lease.provider} {lease.place}: {result}")


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """A database with our tables, ready for the months of the bench."""
    engine = open_engine(url)
    try:
        migrate(engine)
        prepare(engine, NOW)
        yield engine
    finally:
        engine.dispose()


@dataclass(frozen=True, slots=True)
class _Times:
    """The seconds of a round."""

    first: float
    again: float
    changed: float
    raw: float


@dataclass(slots=True)
class _Round:
    """Ours and the peer's work, each in a database of its own."""

    kind: Kind
    answers: Answers
    changed: Answers

    def times(self, rows: list[CellRows]) -> _Times:
        """The seconds of all; `rows` is filled where it is empty, and loaded by the peer."""
        with self.kind.new() as url, opened(url) as engine:
            planned(engine, list(self.answers))
            first = self._recording(engine, self.answers, NOW)
            if not rows:
                rows += rows_of(engine)
            again = self._recording(engine, self.answers, NOW + EVERY)
            changed = self._recording(engine, self.changed, NOW + 2 * EVERY)
        with self.kind.new() as url:
            with opened(url):
                pass
            return _Times(first, again, changed, PEERS[self.kind.name][1](url, rows))

    def _recording(self, engine: Engine, answers: Answers, now: datetime) -> float:
        leases = claimed(engine, now)
        return seconds_of(lambda: recorded(engine, leases, answers, now))


def _on(kind: Kind, rounds: Sequence[_Round], size: int) -> Iterator[Line]:
    rows: list[CellRows] = []
    times = [one.times(rows) for one in rounds]
    peer, _, limit = PEERS[kind.name]
    rates = {name: [size / getattr(one, name) for one in times] for name in ("first", "again", "changed", "raw")}
    first, own = Pairs(rates["raw"], rates["first"]), f"{kind.name}'s first load"
    note = f"{row_count(rows):,} rows in {len(rows)} cells"
    yield _line(f"writes, {kind.name}, first load of {size:,} offers", first, peer, limit, note)
    yield _line(f"writes, {kind.name}, the same again", Pairs(rates["first"], rates["again"]), own, 5)
    yield _line(f"writes, {kind.name}, 1 % changed", Pairs(rates["first"], rates["changed"]), own, None)


def _line(name: str, found: Pairs, peer: str, limit: float | None, note: str = "") -> Line:
    return Line(
        name=name,
        figure=found.figure,
        unit="offers/s",
        peer=peer,
        peer_figure=found.peer_figure,
        ratio=found.ratio,
        limit=None if limit is None else at_least(limit),
        note=note,
    )
