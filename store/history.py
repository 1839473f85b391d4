"""Reading history: which series there are, and what they say of a window of time."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, and_, exists, select

from catalog.facts import Machine
from catalog.offers import Place
from catalog.words import Evidence, Level, Purchase
from store.engine import is_postgresql, placeholder, reading
from store.offers import machine_of, place_of
from store.rows import PRICES, STOCKS
from store.tables import BEATS, CELLS, LOGS, PAST_MACHINES, REGIONS, SERIES
from store.timeline import Point, PriceSaid, S, Span, StockSaid, Track
from store.times import instant, micros

MOST_POINTS = 200_000
"""What one reading holds at most: some 40 MB."""
_MOST_NAMES = 2_000
"""More names than this are sifted here: a statement's parameters are limited (32,766 on SQLite)."""
_AT_ONCE = 500
"""Series read by one statement."""

MachineKey = tuple[str, str, str]
"""(provider, region, machine)."""
Source = tuple[int, int]
"""(cell, series): what one cell says of one thing."""
_T = TypeVar("_T")


class TooManyPoints(Exception):
    """A window holds more than `MOST_POINTS` changes of the series asked for."""


@dataclass(frozen=True, slots=True)
class Log(Generic[S]):
    """A log and what its points state."""

    table: str
    columns: Sequence[str]
    said: Callable[..., S]


PRICE_POINTS = Log("price_log", PRICES.logged, PriceSaid)
STOCK_POINTS = Log("stock_log", STOCKS.logged, lambda level, evidence: StockSaid(Level(level), Evidence(evidence)))


@dataclass(frozen=True, slots=True)
class Series:
    """A machine at a place under a purchase, as one cell states it: zone or id as that cell names them, or neither."""

    source: Source
    provider: str
    region: str
    zone: str | None
    zone_id: str | None
    instance_type: str
    purchase: Purchase

    @property
    def machine_key(self) -> MachineKey:
        """Which machine it is of."""
        return (self.provider, self.region, self.instance_type)


@dataclass(frozen=True, slots=True)
class PastMachine:
    """A machine that is gone, as it last was, its region, and when it went."""

    place: Place
    machine: Machine
    gone_at: datetime


def past_machines(engine: Engine, providers: Collection[str]) -> list[PastMachine]:
    """The machines of these providers that went. One that came back is among them too."""
    gone = select(PAST_MACHINES).where(PAST_MACHINES.c.provider.in_(providers))
    named = select(CELLS.c.provider, REGIONS).join(REGIONS, REGIONS.c.cell_id == CELLS.c.id)
    with reading(engine) as connection:
        rows = connection.execute(gone).mappings().all()
        regions: dict[tuple[str, str], list[RowMapping]] = defaultdict(list)
        for row in connection.execute(named).mappings() if rows else ():
            regions[row["provider"], row["region"]].append(row)
    keys = {(row["provider"], row["region"]) for row in rows}
    places = {key: place_of(*key, None, regions[key]) for key in keys}
    return [PastMachine(places[row["provider"], row["region"]], machine_of(row), row["gone_at"]) for row in rows]


def zones(engine: Engine, providers: Collection[str]) -> frozenset[tuple[str, str, str | None, str | None]]:
    """(provider, region, zone name, zone id) of each zone that there is a history of."""
    named = select(CELLS.c.provider, SERIES.c.region, SERIES.c.zone, SERIES.c.zone_id)
    query = named.join(CELLS, CELLS.c.id == SERIES.c.cell_id).where(CELLS.c.provider.in_(providers))
    with reading(engine) as connection:
        return frozenset(tuple(row) for row in connection.execute(query.where(SERIES.c.zone_key != "").distinct()))


def series(engine: Engine, log: Log[Any], machines: Collection[MachineKey], until: datetime) -> list[Series]:
    """Every series of these machines that has a point in the log before a time."""
    if not machines:
        return []
    points = next(table for table in LOGS if table.name == log.table)
    same = and_(points.c.cell_id == SERIES.c.cell_id, points.c.series == SERIES.c.id)
    query = select(CELLS.c.provider, SERIES).join(CELLS, CELLS.c.id == SERIES.c.cell_id)
    query = query.where(*_among(machines), exists().where(same, points.c.at < until))
    wanted = frozenset(machines)
    with reading(engine) as connection:
        found = (_series(row) for row in connection.execute(query).mappings())
        return [one for one in found if one.machine_key in wanted]


def _among(machines: Collection[MachineKey]) -> Iterator[ColumnElement[bool]]:
    """What narrows the search down to few series beside those of the machines."""
    columns = (CELLS.c.provider, SERIES.c.region, SERIES.c.instance_type)
    for column, names in zip(columns, map(set, zip(*machines, strict=True)), strict=True):
        if len(names) <= _MOST_NAMES:
            yield column.in_(sorted(names))


def _series(row: RowMapping) -> Series:
    return Series(
        source=(row["cell_id"], row["id"]),
        provider=row["provider"],
        region=row["region"],
        zone=row["zone"],
        zone_id=row["zone_id"],
        instance_type=row["instance_type"],
        purchase=Purchase(row["purchase"]),
    )


def tracks(engine: Engine, log: Log[S], sources: Collection[Source], window: Span) -> dict[Source, Track[S]]:
    """What these series say of the window, with what was in force when it began.

    Some statements for any number of series up to 500, which see one state. Raises TooManyPoints.
    """
    points: dict[Source, list[Point[S]]] = {source: [] for source in sources}
    with reading(engine) as connection:
        if is_postgresql(
            connection
        ):  # before it sees any state: a month that is being dropped is waited for, not missed
            connection.exec_driver_sql(f"LOCK TABLE {log.table} IN ACCESS SHARE MODE")
        read = 0
        for some in _chunks(sorted(points)):
            for cell_id, series_id, at, *values in _points(connection, log, some, window, MOST_POINTS + 1 - read):
                points[cell_id, series_id].append(Point(instant(at), log.said(*values)))
                read += 1
            if read > MOST_POINTS:
                raise TooManyPoints
        beats = _beats(connection, sorted({cell_id for cell_id, _ in points}), window)
    return {source: Track(source, of_source, beats[source[0]]) for source, of_source in points.items()}


def _points(
    connection: Connection, log: Log[Any], sources: Sequence[Source], window: Span, most: int
) -> Iterator[tuple[Any, ...]]:
    mark = placeholder(connection.dialect)
    columns = ", ".join(f"log.{name}" for name in ("cell_id", "series", "at", *log.columns))
    pairs = ", ".join([f"({mark}, {mark})"] * len(sources))
    # CROSS JOIN: SQLite then reads the log by its key, series by series, whatever it guesses of the sizes.
    query = (
        f"WITH wanted (cell_id, series) AS (VALUES {pairs}), "  # noqa: S608 - our own names
        "since (cell_id, series, at) AS (SELECT cell_id, series, coalesce((SELECT max(earlier.at) "
        f"FROM {log.table} AS earlier WHERE earlier.cell_id = wanted.cell_id AND earlier.series = wanted.series "
        f"AND earlier.at <= {mark}), {mark}) FROM wanted) "
        f"SELECT {columns} FROM since CROSS JOIN {log.table} AS log WHERE log.cell_id = since.cell_id "
        f"AND log.series = since.series AND log.at >= since.at AND log.at < {mark} LIMIT {mark}"
    )
    start, until = micros(window.start), micros(window.until)
    values = (*(number for source in sources for number in source), start, start, until, most)
    return (tuple(row) for row in connection.exec_driver_sql(query, values))


def _beats(connection: Connection, cells: Sequence[int], window: Span) -> dict[int, list[Span]]:
    found: dict[int, list[Span]] = defaultdict(list)
    inside = (BEATS.c.until_at > window.start) & (BEATS.c.start_at < window.until)
    for some in _chunks(cells):
        for row in connection.execute(select(BEATS).where(BEATS.c.cell_id.in_(some), inside)):
            found[row.cell_id].append(Span(row.start_at, row.until_at))
    return found


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))
