"""The peers of the store: the same final rows loaded by the bare drivers, in one transaction for each cell."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

from sqlalchemy import Engine, Table, make_url
from sqlmodel import SQLModel

from bench.databases import driver_url
from bench.rounds import seconds_of
from store.engine import reading
from store.tables import CELLS, SYNCS

Rows = Sequence[tuple[Any, ...]]
CellRows = Mapping[str, Rows]
"""Table -> the rows that a cell has there."""
PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")
"""As `store.engine` opens a file."""


def tables() -> list[Table]:
    """The tables that a recorded answer writes to: the cells, their polls, and all that belongs to a cell."""
    of_cells = [table for table in SQLModel.metadata.sorted_tables if "cell_id" in table.c]
    return [CELLS, *of_cells, SYNCS]


def rows_of(engine: Engine) -> list[CellRows]:
    """What a database holds, cell by cell, in the driver's own types and the order of the columns."""
    found: dict[int, dict[str, list[tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(list))
    with reading(engine) as connection:
        cells = connection.exec_driver_sql("SELECT id, provider, feed, place, part FROM cells")
        ids = {tuple(row[1:]): row[0] for row in cells}
        for table in tables():
            names = [column.name for column in table.c]
            owner = _owner(table, ids)
            for row in connection.exec_driver_sql(f"SELECT {', '.join(names)} FROM {table.name}"):  # noqa: S608
                found[owner(row._asdict())][table.name].append(tuple(row))
    return list(found.values())


def _owner(table: Table, ids: Mapping[tuple[Any, ...], int]) -> Any:
    if table is CELLS:
        return lambda row: row["id"]
    if table is SYNCS:
        return lambda row: ids[row["provider"], row["feed"], row["place"], row["part"]]
    return lambda row: row["cell_id"]


def row_count(cells: Sequence[CellRows]) -> int:
    """How many rows they are in all."""
    return sum(len(rows) for rows in chain.from_iterable(cell.values() for cell in cells))


def load_sqlite(url: str, cells: Sequence[CellRows]) -> float:
    """Seconds that executemany takes, into tables that are there and empty."""
    inserts = {table.name: _insert(table, "?") for table in tables()}
    with closing(sqlite3.connect(str(make_url(url).database), isolation_level=None)) as connection:
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

        def load() -> None:
            for cell in cells:
                connection.execute("BEGIN IMMEDIATE")
                for name, rows in cell.items():
                    connection.executemany(inserts[name], rows)
                connection.execute("COMMIT")

        return seconds_of(load)


def load_postgresql(url: str, cells: Sequence[CellRows]) -> float:
    """Seconds that COPY into a temporary table and a merge of what differs take, into tables that are there."""
    import psycopg

    statements = {table.name: tuple(_merge(table)) for table in tables()}
    with psycopg.connect(driver_url(url)) as connection, connection.cursor() as cursor:

        def load() -> None:
            for prepare, _, _, _ in statements.values():
                cursor.execute(prepare)
            connection.commit()
            for cell in cells:
                for name, rows in cell.items():
                    _, copied, merge, empty = statements[name]
                    with cursor.copy(copied) as copy:
                        for row in rows:
                            copy.write_row(row)
                    cursor.execute(merge)
                    cursor.execute(empty)
                connection.commit()

        return seconds_of(load)


def _insert(table: Table, mark: str) -> str:
    names = [column.name for column in table.c]
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join([mark] * len(names))})"  # noqa: S608


def _merge(table: Table) -> Iterator[bytes]:
    """The temporary table, the COPY into it, the merge out of it, and its emptying."""
    name, columns = table.name, ", ".join(column.name for column in table.c)
    keys = ", ".join(column.name for column in table.primary_key)
    values = [column.name for column in table.c if not column.primary_key]
    yield f"CREATE TEMPORARY TABLE bench_{name} (LIKE {name})".encode()
    yield f"COPY bench_{name} ({columns}) FROM STDIN".encode()
    change = "NOTHING"
    if values:
        changes = ", ".join(f"{value} = excluded.{value}" for value in values)
        old, new = (", ".join(f"{whose}.{value}" for value in values) for whose in (name, "excluded"))
        change = f"UPDATE SET {changes} WHERE ({old}) IS DISTINCT FROM ({new})"
    conflict = f"ON CONFLICT ({keys}) DO {change}"
    yield f"INSERT INTO {name} ({columns}) SELECT {columns} FROM bench_{name} {conflict}".encode()  # noqa: S608
    yield f"TRUNCATE bench_{name}".encode()
