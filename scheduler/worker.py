"""A worker: every second it claims what is due and polls it, a small pool of threads for each provider.

The schedule is in the database, so any number of workers may run; APScheduler only ticks.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from threading import Event

import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from collectors.base import Feed
from scheduler import plan
from scheduler.plan import Configured
from scheduler.poll import LEASE, Polls, broken, poll
from store import launches, schedule
from store.record import Lease, LeaseLost, Result

TICK = timedelta(seconds=1)
PLAN_EVERY = timedelta(minutes=1)
POLLS_AT_ONCE = 4
"""Of each provider, so that one that hangs delays no other."""
STOP_PATIENCE = timedelta(seconds=2)
"""How long polls under way may take to end once the worker is told to stop. `serve` waits 3 s for all of it."""

log = structlog.get_logger()


class Worker:
    """Polls what is due until `stop` is called."""

    def __init__(
        self,
        polls: Polls,
        configured: Iterable[Configured],
        keep_syncs: timedelta = timedelta(days=7),
        at_once: int = POLLS_AT_ONCE,
    ) -> None:
        self._polls = polls
        self._configured = {one.name: one for one in configured}
        self._feeds = {name: one.feeds() for name, one in self._configured.items()}
        self._pools = {name: ThreadPoolExecutor(at_once, name) for name in self._configured}
        self._running: dict[str, dict[Future[Result], Lease]] = {name: {} for name in self._configured}
        self._planned_at: datetime | None = None
        self._keep_syncs = keep_syncs
        self._at_once = at_once
        self._stopped = Event()

    @property
    def _engine(self) -> Engine:
        return self._polls.engine

    def run(self) -> None:
        """Tick until stopped. Then the polls under way have `STOP_PATIENCE` to end and be recorded.

        What is left is given back, and whatever still comes of it is not recorded; its threads may outlast this call.
        """
        ticker = BackgroundScheduler()
        ticker.add_job(
            self._tick_safely,
            "interval",
            seconds=TICK.total_seconds(),
            misfire_grace_time=None,
            coalesce=True,
            max_instances=1,
            next_run_time=self._polls.clock(),
        )
        ticker.start()
        self._stopped.wait()
        ticker.shutdown(wait=True)
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        polled = [item for running in self._running.values() for item in running.items()]
        under_way = {future: lease for future, lease in polled if not future.done()}
        left = wait(under_way, STOP_PATIENCE.total_seconds()).not_done
        self._give_back([under_way[future] for future in left])

    def _give_back(self, leases: Iterable[Lease]) -> None:
        """Make cells due at once, so that another worker need not wait for their leases to run out."""
        try:
            for lease in leases:
                schedule.release(self._engine, lease, self._polls.clock())
        except SQLAlchemyError:
            log.exception("the database did not answer; cells are due again when their leases end")

    def stop(self) -> None:
        """Ask `run` to return. Safe in a signal handler."""
        self._stopped.set()

    def _tick_safely(self) -> None:
        try:
            self.tick()
        except SQLAlchemyError as error:
            log.exception("the database did not answer; trying again", error=type(error).__name__)

    def tick(self) -> None:
        """Plan where that is due, then start polls for what is due and has a free thread."""
        now = self._polls.clock()
        if self._planned_at is None or abs(now - self._planned_at) >= PLAN_EVERY:
            self._plan(now)
        for name in schedule.providers_due(self._engine, now):
            if name in self._pools:
                self._start(name, self._polls.clock())

    def _plan(self, now: datetime) -> None:
        if self._planned_at is None:
            plan.plan(self._engine, self._configured.values(), now)
        else:  # another process may poll other providers: to switch them off each time would undo its plan
            for one in self._configured.values():
                plan.plan_one(self._engine, one, now)
        schedule.prune_syncs(self._engine, now - self._keep_syncs)
        launches.prune(self._engine, now - self._keep_syncs)
        self._planned_at = now

    def _start(self, name: str, now: datetime) -> None:
        running = self._running[name]
        for future in [one for one in running if one.done()]:
            del running[future]
        free = self._at_once - len(running)
        if free <= 0:
            return
        for lease in schedule.claim(self._engine, now, LEASE, free, provider=name):
            future = submit(self._pools[name], self._polls, self._configured[name], self._feeds[name], lease)
            running[future] = lease


def submit(
    pool: ThreadPoolExecutor, polls: Polls, one: Configured, feeds: Mapping[str, Feed], lease: Lease
) -> Future[Result]:
    """Poll a claimed cell in a pool. A fault of our own is recorded as the poll's failure, and ends nothing else."""
    future = pool.submit(poll_and_plan, polls, one, feeds, lease)
    future.add_done_callback(lambda done: _ended(polls, one, lease, done))
    return future


def poll_and_plan(polls: Polls, one: Configured, feeds: Mapping[str, Feed], lease: Lease) -> Result:
    """Poll a claimed cell; what a `places` answer names is planned at once."""
    feed = feeds.get(lease.feed)
    if feed is None:
        schedule.release(polls.engine, lease, polls.clock() + lease.every)
        return Result("off")
    result = poll(polls, feed, lease, one.scrubber())
    if lease.feed == "places" and result.status in ("ok", "partial"):
        plan.plan_one(polls.engine, one, polls.clock())
    return result


def _ended(polls: Polls, one: Configured, lease: Lease, done: Future[Result]) -> None:
    error = None if done.cancelled() else done.exception()
    try:
        if done.cancelled():
            schedule.release(polls.engine, lease, polls.clock())
        elif isinstance(error, LeaseLost):
            _lost(error)
        elif error is not None:
            broken(polls, lease, error, one.scrubber())
    except LeaseLost as lost:
        _lost(lost)
    except SQLAlchemyError:
        log.exception("the database did not answer; the cell is due again when its lease ends", cell=lease.cell_id)


def _lost(error: LeaseLost) -> None:
    log.info("not recorded: another worker has the cell by now, or its settings changed", cell=str(error))
