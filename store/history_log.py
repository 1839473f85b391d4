"""Writing history: what changed of prices and stock, and when each cell was observed at all."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from operator import itemgetter

from sqlalchemy import Connection, RowMapping, bindparam, case, delete, exists, func, select, update

from catalog.words import Evidence, Level
from store.bulk import upsert
from store.engine import placeholder
from store.rows import MACHINES, PRICES, STOCKS, Key, Kind, Row, series_of
from store.tables import BEATS, LOGS
from store.tables import PRICES as PRICE_ROWS
from store.tables import STOCKS as STOCK_ROWS
from store.times import Instant, micros

WITHDRAWN: Row = (None, None)
"""What the log of prices says where none is stated any more."""
NOT_STATED: Row = (Level.UNKNOWN.value, Evidence.REPORTED.value)
"""What the log of stock says where none is stated any more."""
_TABLES = {PRICES.table: PRICE_ROWS, STOCKS.table: STOCK_ROWS}
_LOGS = {PRICES.table: "price_log", STOCKS.table: "stock_log"}
_LOGGED: Mapping[str, Callable[[Row], Row]] = {
    kind.table: itemgetter(*map(kind.values.index, kind.logged)) for kind in (PRICES, STOCKS)
}


class History:
    """What one answer of a cell adds to the history, written at once by `write`."""

    def __init__(self, cell_id: int, at: datetime) -> None:
        self._cell_id = cell_id
        self._at = micros(at)
        self._series: dict[int, tuple[object, ...]] = {}
        self._points: dict[str, dict[int, tuple[object, ...]]] = {log: {} for log in _LOGS.values()}

    def begins(self, kind: Kind, key: Key, values: Row) -> None:
        """A price or stock is stated for the first time, or again."""
        series = series_of(key)
        self._series.setdefault(series, (self._cell_id, series, *key, values[0], values[1]))
        self._add(kind, series, _LOGGED[kind.table](values))

    def goes_on(self, kind: Kind, key: Key, values: Row, before: Row) -> None:
        """It is stated as something else, or as the same: only a change is kept."""
        said = _LOGGED[kind.table](values)
        if said != before:
            self._add(kind, series_of(key), said)

    def ends(self, kind: Kind, keys: Iterable[Key], said: Row) -> None:
        """It is stated no longer: from now on the log says this."""
        for key in keys:
            self._add(kind, series_of(key), said)

    def _add(self, kind: Kind, series: int, said: Row) -> None:
        self._points[_LOGS[kind.table]][series] = (self._cell_id, series, self._at, *said)

    def write(self, connection: Connection) -> None:
        """Append what was gathered."""
        upsert(connection, "series", ("cell_id", "id"), (*PRICES.key, "zone", "zone_id"), list(self._series.values()))
        for kind in (PRICES, STOCKS):
            log = _LOGS[kind.table]
            upsert(connection, log, ("cell_id", "series", "at"), kind.logged, list(self._points[log].values()))


def beat(connection: Connection, cell: RowMapping, at: datetime) -> None:
    """The cell was observed whole at this time, which counts until the answer goes stale."""
    until = at + timedelta(seconds=cell["fresh_s"])
    if connection.execute(_PROLONG, {"cell": cell["id"], "seen": at, "until": until}).rowcount == 0:
        upsert(connection, "beats", ("cell_id", "start_at"), ("until_at",), [(cell["id"], micros(at), micros(until))])


_OF_CELL = BEATS.c.cell_id == bindparam("cell")
_UNTIL = bindparam("until", type_=Instant)
_PROLONG = (
    update(BEATS)
    .where(
        _OF_CELL,
        BEATS.c.start_at == select(func.max(BEATS.c.start_at)).where(_OF_CELL).scalar_subquery(),
        BEATS.c.until_at >= bindparam("seen", type_=Instant),
    )
    .values(until_at=case((BEATS.c.until_at > _UNTIL, BEATS.c.until_at), else_=_UNTIL))
)
"""The last beat of a cell goes on, where it was seen before that was over."""


def end_all(connection: Connection, cell_id: int, at: datetime) -> None:
    """All that a cell states of prices and stock ends now, since its rows are about to go."""
    history = History(cell_id, at)
    for kind, said in ((PRICES, WITHDRAWN), (STOCKS, NOT_STATED)):
        rows = _TABLES[kind.table]
        keys = connection.execute(select(*(rows.c[name] for name in kind.key)).where(rows.c.cell_id == cell_id))
        history.ends(kind, [tuple(key) for key in keys], said)
    history.write(connection)
    open_beat = update(BEATS).where(BEATS.c.cell_id == cell_id, BEATS.c.until_at > at)
    connection.execute(open_beat.values(until_at=at))


def bring_back(connection: Connection, cell_id: int, at: datetime) -> None:
    """What a clock that was ahead wrote of a cell's future happened now at the latest; its beats did not."""
    for log in LOGS:
        ahead, later = log.c.at > at, log.alias()
        superseded = exists().where(later.c.cell_id == cell_id, later.c.series == log.c.series, later.c.at > log.c.at)
        connection.execute(delete(log).where(log.c.cell_id == cell_id, log.c.at >= at, superseded))
        connection.execute(update(log).where(log.c.cell_id == cell_id, ahead).values(at=at))
    connection.execute(delete(BEATS).where(BEATS.c.cell_id == cell_id, BEATS.c.start_at > at))
    connection.execute(update(BEATS).where(BEATS.c.cell_id == cell_id, BEATS.c.until_at > at).values(until_at=at))


def keep_past_machines(connection: Connection, cell: RowMapping, keys: Iterable[Key], now: datetime) -> None:
    """Keep machines of a cell as they are, before they go."""
    rows = [(cell["provider"], micros(now), cell["id"], *key) for key in sorted(keys)]  # as any other writer's order
    if not rows:
        return
    columns = ", ".join(MACHINES.values)
    changes = ", ".join(f"{name} = excluded.{name}" for name in (*MACHINES.values, "gone_at"))
    mark = placeholder(connection.dialect)
    connection.exec_driver_sql(
        f"INSERT INTO past_machines (provider, region, instance_type, {columns}, gone_at) "  # noqa: S608 - our own names
        f"SELECT {mark}, region, instance_type, {columns}, {mark} FROM machines "
        f"WHERE cell_id = {mark} AND region = {mark} AND instance_type = {mark} "
        f"ON CONFLICT (provider, region, instance_type) DO UPDATE SET {changes}",
        rows,
    )
