"""The thread that evaluates the watches, each second, for as long as the worker runs."""

import threading
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from scheduler.evaluator import Evaluator
from scheduler.outages import Reach, tell

EVERY = timedelta(seconds=1)
"""A hold runs out by the clock, so there is always a next second; what changed is seen by then too."""
STOPPED_WITHIN = timedelta(seconds=2)

log = structlog.get_logger()


class Watching:
    """Evaluates until it is stopped. A database that does not answer is told of once, and asked again."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._reach = Reach()
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, reach: Reach | None = None) -> None:
        """Begin. With a `reach`, one line in the log tells of an outage that others meet too."""
        self._reach = reach or self._reach
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Go on with the duty. SQLAlchemyError where the database does not answer."""
        self._evaluator.renew()

    def see_to_it(self) -> None:
        """Begin anew where it has ended by a fault of its own, whose traceback is on stderr."""
        if self._thread is not None and not self._thread.is_alive() and not self._asked.is_set():
            log.error("evaluating the watches had ended by itself, and is begun anew")
            self._evaluator.forget()
            self.start()

    def stop(self) -> None:
        """End within two seconds, and let another process go on at once."""
        self._asked.set()
        if self._thread is not None:
            self._thread.join(STOPPED_WITHIN.total_seconds())

    def _run(self) -> None:
        while not self._asked.wait(EVERY.total_seconds()):
            self._tick()
        try:
            self._evaluator.leave()
        except SQLAlchemyError as error:
            tell("the database did not answer; another process evaluates the watches once the lease ends", error)

    def _tick(self) -> None:
        try:
            self._evaluator.tick()
        except SQLAlchemyError as error:
            self._reach.lost(error)
        else:
            self._reach.back()
