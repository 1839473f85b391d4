"""Waiting for changes: PostgreSQL calls whoever listens, a SQLite file is looked at again and again."""

import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol, cast

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from store.engine import is_postgresql

CHANNEL = "gpufare"
"""What the triggers of migration 0002 call on."""
LISTENS = 20
"""A listener that hears nothing looks after so many intervals all the same: feeds grow stale by time alone."""
_SLICE_S = 0.25
"""How soon a listener that is told to stop does."""


class Waker(Protocol):
    """Waits for changes, in one thread; `stop` may come from any."""

    def wait(self) -> None:
        """Return when something may have changed, or it is time to look, or at once when stopped."""

    def stop(self) -> None:
        """Let `wait` return, now and from now on."""


def waker_of(engine: Engine, every: timedelta) -> Waker:
    """What wakes a reader of this database, which reads at most once in `every`."""
    return Listener(engine, every) if is_postgresql(engine) else Sleeper(every)


class Sleeper:
    """Lets time pass: a SQLite file tells nobody that it changed, and looking costs little."""

    def __init__(self, every: timedelta) -> None:
        self._every_s = every.total_seconds()
        self._stopped = threading.Event()

    def wait(self) -> None:
        """Wait for one interval."""
        self._stopped.wait(self._every_s)

    def stop(self) -> None:
        """Wait no longer."""
        self._stopped.set()


class Listener:
    """Hears PostgreSQL call. A lost connection is opened again, and counts as a call: one may have been missed."""

    def __init__(self, engine: Engine, every: timedelta) -> None:
        import psycopg

        self._lost = (SQLAlchemyError, psycopg.Error)  # also where all connections are in use
        self._engine = engine
        self._every_s = every.total_seconds()
        self._connection: Connection | None = None
        self._stopped = threading.Event()

    def wait(self) -> None:
        """Wait for a call, for `LISTENS` intervals at the most, and for one at the least."""
        began = time.monotonic()
        try:
            self._hear(began + LISTENS * self._every_s)
        except self._lost:
            self._close()
        if self._stopped.wait(max(0.0, began + self._every_s - time.monotonic())):
            self._close()

    def stop(self) -> None:
        """Wait no longer."""
        self._stopped.set()

    def _hear(self, until: float) -> None:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            self._connection.execute(text(f"LISTEN {CHANNEL}"))
            return
        driver = cast("Any", self._connection.connection.driver_connection)
        while not self._stopped.is_set() and time.monotonic() < until:
            if any(True for _ in driver.notifies(timeout=_SLICE_S, stop_after=1)):
                list(driver.notifies(timeout=0))  # the others of a burst are answered by the same look
                return

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self._lost):
                connection.invalidate()
                connection.close()
