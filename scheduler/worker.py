"""A worker: every second it sees what is due, and polls it with a small crew of threads for each provider.

The schedule is in the database, so any number of workers may run; APScheduler only ticks.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from threading import Event

import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from scheduler import plan
from scheduler.crew import Crew, crews
from scheduler.exchange import Exchange
from scheduler.outages import Reach, tell
from scheduler.plan import Configured
from scheduler.poll import RENEW_EVERY, Polls, renew
from scheduler.sending import Sending
from scheduler.watching import Watching
from store import launches, partitions, retention, schedule
from store.clock import read_again
from store.planning import planned_as
from store.record import Lease
from store.sqlite_file import generation
from store.times import utc_now

TICK = timedelta(seconds=1)
PLAN_EVERY = timedelta(minutes=1)
POLLS_AT_ONCE = 4
"""Of each provider."""
STOP_PATIENCE = timedelta(seconds=2)
"""How long polls under way may take to end once the worker is told to stop. `serve` waits 3 s for all of it."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Keep:
    """How long past polls and launches are kept, and the history of prices and stock."""

    syncs: timedelta = timedelta(days=7)
    history: timedelta = timedelta(days=400)


class Worker:
    """Polls what is due until `stop` is called. Each tick that reached the database touches `alive_file`. With an
    `exchange` it sees to the exchange rates too, with a `sending` it tells what the outbox holds, and with a `watching`
    it evaluates the watches.
    """

    def __init__(
        self,
        polls: Polls,
        configured: Iterable[Configured],
        keep: Keep = Keep(),
        at_once: int = POLLS_AT_ONCE,
        alive_file: Path | None = None,
        exchange: Exchange | None = None,
        sending: Sending | None = None,
        watching: Watching | None = None,
    ) -> None:
        self._polls = polls
        self._configured = list(configured)
        self._reach = Reach()
        self._crews = {one.name: crews(polls, one, at_once, self._reach) for one in self._configured}
        self._planned_at: datetime | None = None
        self._file = generation(polls.engine)
        self._others: dict[str, str] = {}
        self._keep = keep
        self._alive_file = alive_file
        self._exchange = exchange
        self._sending, self._watching = sending, watching
        self._stopped = Event()

    @property
    def _engine(self) -> Engine:
        return self._polls.engine

    def run(self) -> None:
        """Tick until stopped. Then the polls under way have `STOP_PATIENCE` to end and be recorded.

        What is left is given back, and whatever still comes of it is not recorded; its threads may outlast this call.
        """
        ticker = _ticker()
        # Apart from the ticks, since planning may have to wait for other workers.
        for job, every in ((self._tick_safely, TICK), (self._renew_safely, RENEW_EVERY)):
            ticker.add_job(job, "interval", seconds=every.total_seconds(), next_run_time=utc_now())
        ticker.start()
        if self._sending is not None:
            self._sending.start(self._reach)
        if self._watching is not None:
            self._watching.start(self._reach)
        while not self._stopped.wait(TICK.total_seconds()):
            _go_on(ticker)
        deadline = time.monotonic() + STOP_PATIENCE.total_seconds()
        if self._sending is not None:
            self._sending.end_soon()
        for crew in self._all_crews():
            crew.close()
        ticker.shutdown(wait=True)
        self._give_back([lease for crew in self._all_crews() for lease in crew.left(deadline)])
        if self._watching is not None:
            self._watching.stop()
        if self._sending is not None:
            self._sending.stop()
        self._polls.failures.tell(everything=True)

    def _give_back(self, leases: Iterable[Lease]) -> None:
        """Make cells due at once, so that another worker need not wait for their leases to run out."""
        try:
            for lease in leases:
                schedule.release(self._engine, lease, self._polls.clock())
        except SQLAlchemyError as error:
            tell("the database did not answer; cells are due again when their leases end", error)

    def stop(self) -> None:
        """Ask `run` to return. Safe in a signal handler."""
        self._stopped.set()

    def under_way(self) -> list[Lease]:
        """The cells that are being polled."""
        return [lease for crew in self._all_crews() for lease in crew.under_way()]

    def _all_crews(self) -> Iterator[Crew]:
        return chain.from_iterable(self._crews.values())

    def renew(self) -> None:
        """Keep the cells that are being polled."""
        renew(self._polls, self.under_way())

    def _renew_safely(self) -> None:
        try:
            self.renew()
            if self._watching is not None:
                self._watching.renew()
        except SQLAlchemyError as error:
            self._reach.lost(error)

    def _tick_safely(self) -> None:
        try:
            self.tick()
        except SQLAlchemyError as error:
            self._reach.lost(error)
        else:
            self._reach.back()
            self._show_alive()
        self._polls.failures.tell()

    def tick(self) -> None:
        """Plan where that is due, then start polls for what is due and has an idle thread."""
        read_again(self._polls.clock)
        now = self._polls.clock()
        due = schedule.providers_due(self._engine, now)
        if self._file != (file := generation(self._engine)):
            self._file, self._planned_at = file, None  # another file has another plan, if any
        planning = self._planned_at is None or abs(now - self._planned_at) >= PLAN_EVERY
        if planning:
            self._plan(now)
            due = schedule.providers_due(self._engine, now)
        for name in due:
            for crew in self._crews.get(name, ()):
                crew.fill()
        if planning:
            self._keep_house(now)
            if self._exchange is not None:
                self._exchange.look()

    def _plan(self, now: datetime) -> None:
        if self._planned_at is None:
            partitions.prepare(self._engine, now)  # before the first answer, which would go to the rest of all months
            plan.plan(self._engine, self._configured, now)
        else:  # another process may poll other providers: to switch them off each time would undo its plan
            for one in self._configured:
                self._warn_of_others(one)
                plan.plan_one(self._engine, one, now, again=True)
        self._planned_at = now

    def _warn_of_others(self, one: Configured) -> None:
        """Tell that another process plans a provider otherwise: once for each way in which it does."""
        found = planned_as(self._engine, one.name)
        if found is None or found in (one.fingerprint(), self._others.get(one.name)):
            return
        self._others[one.name] = found
        log.warning(
            "another process polls this provider with other settings, credentials or another version: they undo each "
            "other's plan; give all of them the same",
            provider=one.name,
        )

    def _keep_house(self, now: datetime) -> None:
        """Make room for what comes, and forget what is older than the settings keep. What fails here is tried again
        when it is next planned, so that polls go on meanwhile.
        """
        partitions.prepare(self._engine, now)
        schedule.prune_syncs(self._engine, now - self._keep.syncs)
        launches.prune(self._engine, now - self._keep.syncs)
        retention.prune(self._engine, now - self._keep.history)
        if self._sending is not None:
            self._sending.keep_house(now)
        if self._watching is not None:
            self._watching.see_to_it()

    def _show_alive(self) -> None:
        if self._alive_file is None:
            return
        try:
            self._alive_file.touch()
        except OSError:
            log.exception("the alive file cannot be written, and grows old", file=str(self._alive_file))
            self._alive_file = None


def _ticker() -> BackgroundScheduler:
    # It would warn each second while one tick waits for the database.
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
    return BackgroundScheduler(job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1})


def _go_on(ticker: BackgroundScheduler) -> None:
    """APScheduler goes by this machine's clock: set back by an hour, it would not tick for an hour."""
    now = utc_now()
    for job in ticker.get_jobs():
        if job.next_run_time > now + 2 * job.trigger.interval:
            job.modify(next_run_time=now)
