"""The time that all processes over one database go by."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, text

from store.engine import is_postgresql, reading
from store.times import utc_now

Clock = Callable[[], datetime]
"""Gives the time, aware, in UTC."""
LOOK_EVERY_S = 1.0


QUICK_LOOK_S = 0.02
"""A look as quick as this tells the time to 10 ms."""
STANDS_S = 60.0
"""How long an earlier look stands where no quick one can be had."""


class DatabaseClock:
    """The time of a database server, so that workers whose own clocks differ agree on what is due and what is fresh.

    Between two looks at the server it goes on by this machine's monotonic clock, which nobody sets.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read: tuple[datetime, float] = (utc_now(), time.monotonic())
        self._looked = False
        self.read()

    def __call__(self) -> datetime:
        """The time."""
        at, mark = self._read
        return at + timedelta(seconds=time.monotonic() - mark)

    @property
    def looked_s_ago(self) -> float:
        """Seconds since it looked at the server's clock."""
        return time.monotonic() - self._read[1]

    def read(self) -> None:
        """Look at the server's clock again. Its time is taken to be that of the middle of the look.

        A look that took long says little of the moment: what was seen before stands, unless that is old.
        """
        with reading(self._engine) as connection:
            connection.execute(text("SELECT 1"))  # the transaction begins before the time is taken
            asked = time.monotonic()
            at = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
            told = time.monotonic()
        if told - asked <= QUICK_LOOK_S or not self._looked or self.looked_s_ago > STANDS_S:
            self._read = (at.astimezone(UTC), (asked + told) / 2)
        self._looked = True


def clock_of(engine: Engine) -> Clock:
    """The clock of a database: its server's on PostgreSQL, this machine's own over a SQLite file."""
    return DatabaseClock(engine) if is_postgresql(engine) else utc_now


def read_again(clock: Clock) -> None:
    """Let a clock that follows another one look at it, where it did not just do so."""
    if isinstance(clock, DatabaseClock) and clock.looked_s_ago >= LOOK_EVERY_S:
        clock.read()
