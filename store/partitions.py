"""The logs on PostgreSQL: a partition a month, made ahead and dropped whole. On SQLite a log is one tree.

The default partition (`price_log_rest`) takes whatever has no month of its own, so that nothing is ever lost: points of
a month whose partition was not made in time, and what outlives a month that is dropped.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, Engine

from store.engine import in_turn, is_postgresql, reading, writing
from store.tables import LOGS
from store.times import micros

PARTITIONS = "partitions"
"""The matter in which processes that make or drop partitions take turns."""
_NAME = re.compile(r"(\w+)_(\d{4})_(\d{2})")
_LONGEST_MONTH = timedelta(days=31)


def prepare(engine: Engine, now: datetime) -> None:
    """Make the partitions of this month and the next, where they are missing. Cheap where they are not.

    A month of which the default partition holds points already gets none: they stay there.
    """
    if not is_postgresql(engine):
        return
    first = _month(now)
    months = (first, _next(first))
    with reading(engine) as connection:
        missing = [(log, month) for log in _logs() for month in months if _wanted(connection, log, month)]
    for log, month in missing:
        with writing(engine) as connection:
            in_turn(connection, PARTITIONS)
            _make(connection, log, month)


def drop(engine: Engine, before: datetime) -> None:
    """Drop the months that ended by then. What was still in force at that time goes on, in the default partition."""
    if not is_postgresql(engine):
        return
    with reading(engine) as connection:
        old = [(log, name) for log in _logs() for name, month in _months(connection, log) if _next(month) <= before]
    for log, name in old:
        with writing(engine) as connection:
            in_turn(connection, PARTITIONS)
            if _exists(connection, name):
                _drop(connection, log, name, before)


def _logs() -> Iterable[str]:
    return (table.name for table in LOGS)


def _name(log: str, month: datetime) -> str:
    return f"{log}_{month:%Y_%m}"


def _month(at: datetime) -> datetime:
    """When the month of a time began."""
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next(month: datetime) -> datetime:
    return _month(month + _LONGEST_MONTH)


def _exists(connection: Connection, table: str) -> bool:
    return connection.exec_driver_sql("SELECT to_regclass(%s) IS NOT NULL", (table,)).scalar_one() is True


def _months(connection: Connection, log: str) -> Iterator[tuple[str, datetime]]:
    """The partitions of a log that are a month: each one's name, and when it begins."""
    names = connection.exec_driver_sql(
        "SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid "
        "WHERE inhparent = to_regclass(%s) ORDER BY 1",
        (log,),
    )
    for name in names.scalars().all():
        if (found := _NAME.fullmatch(name)) and found[1] == log:
            yield name, datetime(int(found[2]), int(found[3]), 1, tzinfo=UTC)


def _wanted(connection: Connection, log: str, month: datetime) -> bool:
    """Whether a month has no partition, and no points in the default one yet."""
    if _exists(connection, _name(log, month)):
        return False
    start, end = micros(month), micros(_next(month))
    held = connection.exec_driver_sql(
        f"SELECT EXISTS (SELECT 1 FROM {log}_rest WHERE at >= {start} AND at < {end})"  # noqa: S608 - our own names
    )
    return not held.scalar_one()


def _make(connection: Connection, log: str, month: datetime) -> None:
    connection.exec_driver_sql(f"LOCK TABLE {log} IN ACCESS EXCLUSIVE MODE")  # else a point may come after we looked
    name, start, end = _name(log, month), micros(month), micros(_next(month))
    if _wanted(connection, log, month):
        connection.exec_driver_sql(f"CREATE TABLE {name} PARTITION OF {log} FOR VALUES FROM ({start}) TO ({end})")


def _drop(connection: Connection, log: str, name: str, before: datetime) -> None:
    """What goes on is sought before anybody is kept waiting: points of a month that is over change no more."""
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE carried ON COMMIT DROP AS SELECT * FROM {name} AS old WHERE NOT EXISTS ("  # noqa: S608
        f"SELECT 1 FROM {log} AS newer WHERE newer.cell_id = old.cell_id AND newer.series = old.series "
        f"AND newer.at > old.at AND newer.at <= {micros(before)})"
    )
    connection.exec_driver_sql(f"ALTER TABLE {log} DETACH PARTITION {name}")
    connection.exec_driver_sql(f"INSERT INTO {log} SELECT * FROM carried")  # noqa: S608
    connection.exec_driver_sql(f"DROP TABLE {name}")
