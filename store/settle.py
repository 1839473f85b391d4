"""The facts of an answer become rows: write only what changed, settle what a whole answer did not name."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, delete

from catalog.words import Evidence, Level
from store.bulk import upsert
from store.engine import placeholder
from store.history_log import NOT_STATED, WITHDRAWN, History, keep_past_machines
from store.join import SNAPSHOT_FEED
from store.rows import KINDS, MACHINES, PRICES, STOCKS, Key, Kind, Row, Sorted, Value, hash_of
from store.tables import PRICES as PRICE_ROWS
from store.times import micros

WITHDRAWN_AFTER = 3
"""A price is withdrawn after so many whole answers in a row without it: feeds have left out families for days. That of
a window to book is withdrawn by the first: each is a single thing, which somebody has booked.
"""
GONE = 0
"""The hash of a stock row that a whole answer no longer named: no values have it, so what returns is written again."""
_NO_LONGER: Row = (Level.OUT.value, Evidence.REPORTED.value)

Known = Mapping[Key, tuple[Value, ...]]
"""Key -> (hash, the row's own stamp, the values whose changes are history)."""


def write_facts(connection: Connection, cell: RowMapping, stated: Sorted, *, whole: bool, now: datetime) -> bool:
    """Write what differs from what the cell is known to state, and settle what a whole answer does not name.

    What a polled cell says of prices and stock is kept as history too. Returns whether the rows now say just what this
    answer said: not where it was partial, or left a price to age.
    """
    history = History(cell["id"], now) if cell["feed"] != SNAPSHOT_FEED else None
    settled = [
        _write_kind(connection, kind, cell, stated.rows[kind.table], history, whole=whole, now=now) for kind in KINDS
    ]
    if history is not None:
        history.write(connection)
    return whole and all(settled)


def _write_kind(
    connection: Connection,
    kind: Kind,
    cell: RowMapping,
    stated: Mapping[Key, Row],
    history: History | None,
    *,
    whole: bool,
    now: datetime,
) -> bool:
    stamp = None if whole or not kind.stamped else micros(now)
    tail = _stamp(kind, stamp)
    known = known_rows(connection, kind, cell["id"])
    changed = []
    for key, values in stated.items():
        row_hash = hash_of(values)
        before = known.get(key)
        if before is None or before[:2] != (row_hash, stamp):
            changed.append((cell["id"], *key, *values, row_hash, *tail))
            if history is not None and kind.logged:
                _log(history, kind, key, values, before)
    columns = (*kind.values, "hash", *stamp_columns(kind))
    upsert(connection, kind.table, ("cell_id", *kind.key), columns, changed)
    return whole and _settle(connection, kind, cell, known, stated, history, now)


def _log(history: History, kind: Kind, key: Key, values: Row, before: tuple[Value, ...] | None) -> None:
    if before is None:
        history.begins(kind, key, values)
    else:
        history.goes_on(kind, key, values, before[2:])


def _stamp(kind: Kind, stamp: int | None) -> tuple[int | None, ...]:
    """The columns beside the values: when the row itself was last seen, and how often it was missing since."""
    return (stamp, 0)[: len(stamp_columns(kind))]


def stamp_columns(kind: Kind) -> tuple[str, ...]:
    """The names of those columns."""
    if kind is PRICES:
        return ("seen_at", "missing")
    return ("seen_at",) if kind.stamped else ()


def known_rows(connection: Connection, kind: Kind, cell_id: int) -> Known:
    """All that a cell is known to state."""
    seen = "seen_at" if kind.stamped else "NULL"
    here = f"cell_id = {placeholder(connection.dialect)}"
    columns = ", ".join((*kind.key, "hash", seen, *kind.logged))
    result = connection.exec_driver_sql(f"SELECT {columns} FROM {kind.table} WHERE {here}", (cell_id,))  # noqa: S608
    width = len(kind.key)
    # Straight from the driver: half the time of SQLAlchemy's rows, and no column needs a conversion.
    rows: Sequence[tuple[Any, ...]] = result.cursor.fetchall() if result.cursor is not None else []
    return {row[:width]: row[width:] for row in rows}


def stated_offers(connection: Connection, cell_id: int) -> int:
    """How many offers a cell states a price or stock of by now; of a mere list, how many machines: as `Sorted.offers`
    counts them of a single answer.
    """
    stocks = {key: said for key, said in known_rows(connection, STOCKS, cell_id).items() if said[0] != GONE}
    told = {key for key, (_, _, _, evidence) in stocks.items() if evidence != Evidence.LISTED.value}
    priced = known_rows(connection, PRICES, cell_id).keys() | told
    return len(priced) or len(known_rows(connection, MACHINES, cell_id)) or len(stocks)


def _settle(
    connection: Connection,
    kind: Kind,
    cell: RowMapping,
    known: Known,
    stated: Mapping[Key, Row],
    history: History | None,
    now: datetime,
) -> bool:
    """What a whole answer's silence means for each kind of fact. Returns whether nothing is left to later answers."""
    gone = [key for key in known if key not in stated and known[key][:2] != (GONE, None)]
    if not gone:
        return True
    if kind is PRICES:
        withdrawn = _age_prices(connection, cell, gone)
        _end(history, kind, withdrawn, WITHDRAWN)
        return len(withdrawn) == len(gone)
    if kind is STOCKS and cell["absent"] == Level.OUT:
        _sell_out(connection, kind, cell, gone)
        _end(history, kind, [key for key in gone if known[key][2:] != _NO_LONGER], _NO_LONGER)
        return True
    if kind is MACHINES and history is not None:
        keep_past_machines(connection, cell, gone, now)
    if kind is STOCKS:
        _end(history, kind, gone, NOT_STATED)
    connection.exec_driver_sql(f"DELETE FROM {kind.table} WHERE {_here(connection, kind)}", _keys(cell, gone))  # noqa: S608
    return True


def _end(history: History | None, kind: Kind, keys: Sequence[Key], said: Row) -> None:
    if history is not None:
        history.ends(kind, keys, said)


def _here(connection: Connection, kind: Kind) -> str:
    mark = placeholder(connection.dialect)
    return " AND ".join(f"{name} = {mark}" for name in ("cell_id", *kind.key))


def _keys(cell: RowMapping, keys: Sequence[Key]) -> list[tuple[Value, ...]]:
    return [(cell["id"], *key) for key in keys]


def _sell_out(connection: Connection, kind: Kind, cell: RowMapping, gone: Sequence[Key]) -> None:
    mark = placeholder(connection.dialect)
    values = (*_NO_LONGER, "no longer listed", GONE)
    connection.exec_driver_sql(
        f"UPDATE stocks SET level = {mark}, evidence = {mark}, detail = {mark}, score = NULL, quantity = NULL, "  # noqa: S608
        f"hash = {mark}, seen_at = NULL WHERE {_here(connection, kind)}",
        [(*values, *key) for key in _keys(cell, gone)],
    )


def _age_prices(connection: Connection, cell: RowMapping, gone: Sequence[Key]) -> list[Key]:
    """Count one more answer without these prices; returns those that are withdrawn by it."""
    last_seen = None if cell["seen_at"] is None else micros(cell["seen_at"])
    mark = placeholder(connection.dialect)
    connection.exec_driver_sql(
        f"UPDATE prices SET missing = missing + 1, seen_at = coalesce(seen_at, {mark}) "  # noqa: S608
        f"WHERE {_here(connection, PRICES)}",
        [(last_seen, *key) for key in _keys(cell, gone)],
    )
    missing, window = PRICE_ROWS.c.missing, PRICE_ROWS.c.window_starts_at
    gone_for_good = (missing >= WITHDRAWN_AFTER) | ((missing > 0) & window.is_not(None))
    withdrawn = (PRICE_ROWS.c.cell_id == cell["id"]) & gone_for_good
    keys = (PRICE_ROWS.c[name] for name in PRICES.key)
    return [tuple(row) for row in connection.execute(delete(PRICE_ROWS).where(withdrawn).returning(*keys))]
