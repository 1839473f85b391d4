"""Times: the clock, and how the database keeps them: microseconds since 1970 in UTC, the same instant in each."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import BigInteger, Dialect
from sqlalchemy.types import TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LONGEST_PAUSE = timedelta(hours=1)
"""The longest pause that is kept, whatever a provider asks for. A lease, a slot, a time of observation further ahead
than this was written by a clock that has since been set back.
"""


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


def micros(at: datetime) -> int:
    """The column's value of an aware time. A naive one raises TypeError."""
    return (at - EPOCH) // MICROSECOND


def instant(value: int) -> datetime:
    """The aware UTC time of a column's value."""
    return EPOCH + value * MICROSECOND


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime, exact to the microsecond on SQLite and PostgreSQL alike."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002, D102
        return None if value is None else micros(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002, D102
        return None if value is None else instant(value)
