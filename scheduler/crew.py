"""The threads that poll one provider: one that has ended a poll takes the next due cell at once."""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Condition

import structlog
from sqlalchemy.exc import SQLAlchemyError

from collectors.base import Feed
from scheduler import plan
from scheduler.outages import Reach, may_pass, patiently, tell
from scheduler.plan import Configured
from scheduler.poll import LEASE, Polls, broken, poll
from store import schedule
from store.record import Lease, LeaseLost, Result

log = structlog.get_logger()


def crews(polls: Polls, one: Configured, at_once: int, reach: Reach) -> "list[Crew]":
    """Who polls a provider. Feeds that ask about one machine at a time have threads of their own: while hundreds of
    their cells wait for slots under slow limits, stock is polled when it is due.
    """
    slow = plan.by_machine(one)
    crew = Crew(polls, one, at_once, reach, but=slow)
    return [crew, Crew(polls, one, at_once, reach, only=slow)] if slow else [crew]


class Crew:
    """At most `at_once` polls of a provider, of some of its feeds, so that one that hangs delays no other."""

    def __init__(
        self,
        polls: Polls,
        one: Configured,
        at_once: int,
        reach: Reach,
        *,
        only: Collection[str] | None = None,
        but: Collection[str] = (),
    ) -> None:
        self._polls = polls
        self._one = one
        self._feeds = one.feeds()
        self._only, self._but = only, but
        self._fingerprint = one.fingerprint()
        self._at_once = at_once
        self._reach = reach
        self._pool = ThreadPoolExecutor(at_once, one.name)
        self._under_way: dict[str, Lease] = {}
        self._changed = Condition()
        self._closed = False

    def under_way(self) -> list[Lease]:
        """The cells that are being polled."""
        with self._changed:
            return list(self._under_way.values())

    def fill(self) -> None:
        """Poll what is due, as far as threads are idle."""
        idle = self._at_once - len(self.under_way())
        if idle > 0:
            self._take(idle)

    def close(self) -> None:
        """Take nothing more."""
        with self._changed:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def left(self, deadline: float) -> list[Lease]:
        """The cells whose polls have not ended by then, a time of the monotonic clock."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, max(0.0, deadline - time.monotonic()))
        return self.under_way()

    def _take(self, most: int) -> None:
        engine, now = self._polls.engine, self._polls.clock()
        mine = partial(schedule.claim, provider=self._one.name, fingerprint=self._fingerprint)
        for lease in mine(engine, now, LEASE, most, feeds=self._only, but_feeds=self._but):
            if not self._begin(lease):
                schedule.release(self._polls.engine, lease, self._polls.clock())

    def _begin(self, lease: Lease) -> bool:
        with self._changed:
            if self._closed:
                return False
            self._under_way[lease.token] = lease
            future = submit(self._pool, self._polls, self._one, self._feeds, lease)
        future.add_done_callback(lambda done: self._ended(lease, done))
        return True

    def _ended(self, lease: Lease, done: Future[Result]) -> None:
        try:
            if not self._closed and _more_at_once(done):
                self._take(1)
        except SQLAlchemyError as error:
            self._reach.lost(error)
        finally:
            with self._changed:
                del self._under_way[lease.token]
                self._changed.notify_all()


def _more_at_once(done: Future[Result]) -> bool:
    """Whether the thread goes on. Where a limit has no slot, or the database is away, it would only turn in circles:
    the next tick is soon enough.
    """
    return not done.cancelled() and done.exception() is None and done.result().status != "waiting"


def submit(
    pool: ThreadPoolExecutor, polls: Polls, one: Configured, feeds: Mapping[str, Feed], lease: Lease
) -> Future[Result]:
    """Poll a claimed cell in a pool. A fault of our own is recorded as the poll's failure, and ends nothing else."""
    future = pool.submit(poll_and_plan, polls, one, feeds, lease)
    future.add_done_callback(lambda done: _settle(polls, one, lease, done))
    return future


def poll_and_plan(polls: Polls, one: Configured, feeds: Mapping[str, Feed], lease: Lease) -> Result:
    """Poll a claimed cell; what its answer names to poll beside it is planned at once."""
    feed = feeds.get(lease.feed)
    if feed is None:
        schedule.release(polls.engine, lease, polls.clock() + lease.every)
        return Result("off")
    result = poll(polls, feed, lease, one.scrubber())
    if result.status in ("ok", "partial"):
        try:
            patiently(lambda: _plan_more(polls, one, lease.feed), polls.patience.database)
        except SQLAlchemyError as error:  # the poll is recorded all the same
            tell("the database did not answer; what was named is polled once it is planned", error, provider=one.name)
    return result


def _plan_more(polls: Polls, one: Configured, feed: str) -> None:
    if plan.names_more(polls.engine, one, feed):
        plan.plan_one(polls.engine, one, polls.clock(), again=True)


def _settle(polls: Polls, one: Configured, lease: Lease, done: Future[Result]) -> None:
    """See to a poll that did not end as it should."""
    error = None if done.cancelled() else done.exception()
    try:
        if done.cancelled():
            schedule.release(polls.engine, lease, polls.clock())
        elif isinstance(error, LeaseLost):
            _lost(error)
        elif isinstance(error, SQLAlchemyError) and may_pass(error):
            _unrecorded(lease, error)
        elif error is not None:
            broken(polls, lease, error, one.scrubber())
    except LeaseLost as lost:
        _lost(lost)
    except SQLAlchemyError as away:
        _unrecorded(lease, away)


def _lost(error: LeaseLost) -> None:
    log.info("not recorded: another worker has the cell by now, or its settings changed", cell=str(error))


def _unrecorded(lease: Lease, error: SQLAlchemyError) -> None:
    cell = f"{lease.provider} {lease.feed} {lease.place} {lease.part}".strip()
    tell("the database did not answer; the cell is due again when its lease ends", error, cell=cell)
