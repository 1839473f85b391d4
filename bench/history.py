"""What a month of history takes: 30 days, a poll every ten minutes, each time another price and stock of 1 % of all.

Written through `store.record.record`, poll by poll, over the whole month, for one region in 500: a cell of 200 offers.
Its rows times 500 are those of 100,000 offers. The time of one series is what `store.history` takes for the whole month
of it; its peer is the bare statement on one connection.
"""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from statistics import median

from sqlalchemy import Engine, text

from bench.databases import POSTGRESQL, SQLITE, Kind, missing
from bench.offers import NOW, SEED, Market, Sale, facts_of, market
from bench.rounds import seconds_of
from bench.table import Line, skipped
from bench.writes import claimed, opened, planned, recorded
from catalog.spec import RegionKey
from catalog.words import Evidence, Level
from store.engine import is_postgresql, reading
from store.history import PRICE_POINTS, tracks
from store.partitions import prepare
from store.timeline import Span

NAME = "history"
OFFERS = 100_000
CELLS = 500
EVERY = timedelta(minutes=10)
DAYS = 30
LOGS = ("price_log", "stock_log")
CHANGED = 100
"""Of so many offers one changes."""
READ = 200
"""Series that are read."""


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    days = 0.5 if quick else DAYS
    for kind in (SQLITE, POSTGRESQL):
        why = missing(kind)
        if why is not None:
            yield skipped(f"history, {kind.name}", why)
            continue
        with kind.new() as url, opened(url) as engine:
            polls = int(timedelta(days=days) / EVERY)
            took = seconds_of(partial(lived, engine, polls))
            yield from _of_log(kind, engine, days, polls, took)
            yield from _of_series(kind, engine, polls)


def one_cell() -> tuple[RegionKey, list[Sale]]:
    """The offers of one region, of those that state stock."""
    sold: Market = market(OFFERS // CELLS, regions=1)
    ((key, sales),) = sold.items()
    return key, [replace(sale, evidence=Evidence.REPORTED, level=Level.IN_STOCK) for sale in sales]


def lived(engine: Engine, polls: int) -> None:
    """Record so many polls of the cell, one after the other."""
    key, sales = one_cell()
    planned(engine, [key], NOW, every=EVERY)
    chance = random.Random(SEED)
    gc.freeze()
    for number in range(polls):
        now = NOW + number * EVERY
        if number % 144 == 0:  # once a day, as a worker does far more often
            prepare(engine, now)
        recorded(engine, claimed(engine, now), {key: facts_of(sales)}, now)
        for one in chance.sample(range(len(sales)), len(sales) // CHANGED):
            sales[one] = _changed(sales[one])


def _changed(sale: Sale) -> Sale:
    level = Level.OUT if sale.level is Level.IN_STOCK else Level.IN_STOCK
    return replace(sale, nanos=sale.nanos + 1_000_000, level=level)


def _of_log(kind: Kind, engine: Engine, days: float, polls: int, took: float) -> Iterator[Line]:
    about = f"{polls:,} polls of 1 cell in {CELLS} in {took:.0f} s, times {CELLS}"
    for log in LOGS:
        rows, size = _rows(engine, log), _bytes(engine, log)
        yield Line(
            name=f"{log}, {kind.name}, {days:g} days of {OFFERS:,} offers",
            figure=rows * CELLS / 1e6,
            unit="million rows",
            peer="a row each poll",
            peer_figure=polls * OFFERS / 1e6,
            note=about,
        )
        yield Line(name=f"{log}, {kind.name}, a row", figure=size / rows, unit="bytes")
        yield Line(name=f"{log}, {kind.name}, in all", figure=size * CELLS / 1e6, unit="MB")


def _of_series(kind: Kind, engine: Engine, polls: int) -> Iterator[Line]:
    with reading(engine) as connection:
        query = text(f"SELECT DISTINCT cell_id, series FROM price_log ORDER BY series LIMIT {READ}")  # noqa: S608
        sources = [(row.cell_id, row.series) for row in connection.execute(query)]
    window = Span(NOW, NOW + polls * EVERY)
    ours = [seconds_of(partial(tracks, engine, PRICE_POINTS, [source], window)) for source in sources]
    points = sum(len(track.points) for track in tracks(engine, PRICE_POINTS, sources, window).values())
    yield Line(
        name=f"one series of prices read, {kind.name}",
        figure=median(ours) * 1000,
        unit="ms",
        peer="bare SELECT",
        peer_figure=median(_bare(engine, sources)) * 1000,
        note=f"{points / len(sources):.0f} points",
    )


def _bare(engine: Engine, sources: Sequence[tuple[int, int]]) -> list[float]:
    mark = "%s" if is_postgresql(engine) else "?"
    query = f"SELECT at, nanos, currency FROM price_log WHERE cell_id = {mark} AND series = {mark} ORDER BY at"  # noqa: S608
    with reading(engine) as connection:
        read: Callable[[tuple[int, int]], object] = lambda source: connection.exec_driver_sql(query, source).all()  # noqa: E731
        return [seconds_of(partial(read, source)) for source in sources]


def _rows(engine: Engine, log: str) -> int:
    with reading(engine) as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {log}")).scalar_one())  # noqa: S608


def _bytes(engine: Engine, log: str) -> int:
    """What the log takes on disk, its indexes included."""
    of_partitions = f"SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = '{log}'::regclass"  # noqa: S608
    of_tree = f"SELECT sum(pgsize) FROM dbstat WHERE name = '{log}'"  # noqa: S608
    with reading(engine) as connection:
        return int(connection.exec_driver_sql(of_partitions if is_postgresql(engine) else of_tree).scalar_one())
