"""The facts of an answer become rows: write only what changed, settle what a whole answer did not name."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, delete

from catalog.words import Evidence, Level
from store.engine import placeholder
from store.rows import KINDS, PRICES, STOCKS, Key, Kind, Row, Sorted, hash_of
from store.tables import PRICES as PRICE_ROWS
from store.times import micros

WITHDRAWN_AFTER = 3
"""A price is withdrawn after so many whole answers in a row without it: feeds have left out families for days."""
GONE = 0
"""The hash of a stock row that a whole answer no longer named: no values have it, so what returns is written again."""


def write_facts(connection: Connection, cell: RowMapping, stated: Sorted, *, whole: bool, now: datetime) -> None:
    """Write what differs from what the cell is known to state, and settle what a whole answer does not name."""
    for kind in KINDS:
        _write_kind(connection, kind, cell, stated.rows[kind.table], whole=whole, now=now)


def _write_kind(
    connection: Connection, kind: Kind, cell: RowMapping, stated: Mapping[Key, Row], *, whole: bool, now: datetime
) -> None:
    stamp = None if whole or not kind.stamped else micros(now)
    known = known_rows(connection, kind, cell["id"])
    changed = []
    for key, values in stated.items():
        row_hash = hash_of(values)
        if known.get(key) != (row_hash, stamp):
            changed.append((cell["id"], *key, *values, row_hash, *_stamp(kind, stamp)))
    _upsert(connection, kind, changed)
    if whole:
        _settle(connection, kind, cell, [key for key in known if key not in stated and known[key] != (GONE, None)])


def _stamp(kind: Kind, stamp: int | None) -> tuple[int | None, ...]:
    """The columns beside the values: when the row itself was last seen, and how often it was missing since."""
    return (stamp, 0)[: len(_stamp_columns(kind))]


def _stamp_columns(kind: Kind) -> tuple[str, ...]:
    if kind is PRICES:
        return ("seen_at", "missing")
    return ("seen_at",) if kind.stamped else ()


def known_rows(connection: Connection, kind: Kind, cell_id: int) -> dict[Key, tuple[int, int | None]]:
    """Key -> (hash, the row's own stamp) of all that a cell is known to state."""
    seen = "seen_at" if kind.stamped else "NULL"
    here = f"cell_id = {placeholder(connection.dialect)}"
    sql = f"SELECT {', '.join(kind.key)}, hash, {seen} FROM {kind.table} WHERE {here}"  # noqa: S608 - our own names
    width = len(kind.key)
    rows = connection.exec_driver_sql(sql, (cell_id,))
    return {tuple(row[:width]): (row[width], row[width + 1]) for row in rows}


def _upsert(connection: Connection, kind: Kind, rows: Sequence[tuple[object, ...]]) -> None:
    if not rows:
        return
    columns = ("cell_id", *kind.key, *kind.values, "hash", *_stamp_columns(kind))
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns[1 + len(kind.key) :])
    values = ", ".join([placeholder(connection.dialect)] * len(columns))
    sql = (
        f"INSERT INTO {kind.table} ({', '.join(columns)}) VALUES ({values}) "  # noqa: S608
        f"ON CONFLICT ({', '.join(('cell_id', *kind.key))}) DO UPDATE SET {changes}"
    )
    connection.exec_driver_sql(sql, list(rows))


def _settle(connection: Connection, kind: Kind, cell: RowMapping, gone: Iterable[Key]) -> None:
    """What a whole answer's silence means for each kind of fact."""
    keys = [(cell["id"], *key) for key in gone]
    if not keys:
        return
    mark = placeholder(connection.dialect)
    where = " AND ".join(f"{name} = {mark}" for name in ("cell_id", *kind.key))
    if kind is PRICES:
        _age_prices(connection, cell, keys, where)
    elif kind is STOCKS and cell["absent"] == Level.OUT:
        values = (Level.OUT.value, Evidence.REPORTED.value, "no longer listed", GONE)
        sql = (
            f"UPDATE stocks SET level = {mark}, evidence = {mark}, detail = {mark}, score = NULL, quantity = NULL, "  # noqa: S608
            f"hash = {mark}, seen_at = NULL WHERE {where}"
        )
        connection.exec_driver_sql(sql, [(*values, *key) for key in keys])
    else:
        connection.exec_driver_sql(f"DELETE FROM {kind.table} WHERE {where}", keys)  # noqa: S608


def _age_prices(connection: Connection, cell: RowMapping, keys: Sequence[tuple[object, ...]], where: str) -> None:
    last_seen = None if cell["seen_at"] is None else micros(cell["seen_at"])
    mark = placeholder(connection.dialect)
    connection.exec_driver_sql(
        f"UPDATE prices SET missing = missing + 1, seen_at = coalesce(seen_at, {mark}) WHERE {where}",  # noqa: S608
        [(last_seen, *key) for key in keys],
    )
    withdrawn = (PRICE_ROWS.c.cell_id == cell["id"]) & (PRICE_ROWS.c.missing >= WITHDRAWN_AFTER)
    connection.execute(delete(PRICE_ROWS).where(withdrawn))
