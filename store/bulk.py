"""Writing many rows at once: executemany on SQLite, COPY and a merge on PostgreSQL."""

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from store.engine import is_postgresql, placeholder

FEW = 50
"""Up to so many rows a COPY into a table of its own costs more than it saves."""

Rows = Sequence[tuple[object, ...]]


def upsert(connection: Connection, table: str, key: Sequence[str], values: Sequence[str], rows: Rows) -> None:
    """Insert rows (the columns of `key`, then those of `values`); one whose key is there replaces its values.

    No key may stand in `rows` twice. The names are our own, and never come from outside.
    """
    if not rows:
        return
    columns = ", ".join((*key, *values))
    changes = ", ".join(f"{name} = excluded.{name}" for name in values)
    on_conflict = f"ON CONFLICT ({', '.join(key)}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
    if is_postgresql(connection) and len(rows) > FEW:
        _copy(connection, table, columns, rows)
        connection.exec_driver_sql(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM new_{table} {on_conflict}")  # noqa: S608
        connection.exec_driver_sql(f"TRUNCATE new_{table}")
    else:
        marks = ", ".join([placeholder(connection.dialect)] * len(rows[0]))
        connection.exec_driver_sql(f"INSERT INTO {table} ({columns}) VALUES ({marks}) {on_conflict}", list(rows))  # noqa: S608


def _copy(connection: Connection, table: str, columns: str, rows: Rows) -> None:
    """COPY the rows into a temporary table of the connection's own, which each transaction leaves empty."""
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS new_{table} ON COMMIT DELETE ROWS AS "  # noqa: S608
        f"SELECT {columns} FROM {table} WITH NO DATA"
    )
    import psycopg

    driver, sql = cast("Any", connection.connection.driver_connection), f"COPY new_{table} ({columns}) FROM STDIN"
    try:
        with driver.cursor() as cursor, cursor.copy(sql) as copy:
            for row in rows:
                copy.write_row(row)
    except psycopg.Error as error:  # as SQLAlchemy raises it of every other statement
        lost, dialect = bool(driver.closed), connection.dialect
        raise DBAPIError.instance(
            sql, None, error, psycopg.Error, connection_invalidated=lost, dialect=dialect
        ) from error
