"""A database that does not answer for a while: what is worth trying again, and one line in the log for all of it."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from typing import TypeVar

import stamina
import structlog
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionError

log = structlog.get_logger()
_T = TypeVar("_T")


def may_pass(error: BaseException) -> bool:
    """Whether the same may work a little later: a lost connection, a server that starts, a deadlock, a lock."""
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return lost or isinstance(error, (OperationalError, NoConnectionError))


def patiently(work: Callable[[], _T], patience: timedelta) -> _T:
    """What the work gives, tried again for about that long while the database does not answer."""
    attempts = stamina.retry_context(
        on=may_pass, attempts=None, timeout=patience, wait_initial=0.2, wait_max=2.0, wait_jitter=0.2
    )
    for attempt in attempts:
        with attempt:
            return work()
    raise AssertionError("unreachable: the last attempt returns or raises")


def tell(event: str, error: SQLAlchemyError, **about: str) -> None:
    """Log in one line what the database said."""
    said = " ".join(str(getattr(error, "orig", error)).split())
    log.error(event, **about, error=f"{type(error).__name__}: {said}")


class Reach:
    """Whether the database answers. Tells when it stops to and when it does again, once each, from any thread."""

    def __init__(self) -> None:
        self._lost_at: float | None = None
        self._lock = Lock()

    def lost(self, error: SQLAlchemyError) -> None:
        """It did not answer."""
        with self._lock:
            if self._lost_at is None:
                self._lost_at = time.monotonic()
                tell("the database did not answer; trying again until it does", error)

    def back(self) -> None:
        """It answered."""
        with self._lock:
            if self._lost_at is not None:
                log.warning("the database answers again", after_s=round(time.monotonic() - self._lost_at, 1))
                self._lost_at = None
