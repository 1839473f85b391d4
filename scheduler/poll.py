"""One poll of one cell: ask, read, record. The one place where a provider's error is caught and given its meaning."""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from traceback import format_exception
from typing import TypeVar

import stamina
import structlog
from sqlalchemy import Engine

from catalog.facts import Fact, Note
from collectors.base import (
    AuthFailed,
    ByMachine,
    Cell,
    Drift,
    Feed,
    Limit,
    NotConfigured,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
    Unchanged,
    before_each_call,
)
from scheduler.failures import Failures
from scheduler.outages import patiently
from scheduler.scrub import Scrubber
from store import record, schedule
from store.clock import Clock
from store.record import Answer, Lease, LeaseLost, Result

LEASE = timedelta(minutes=1)
"""How long the cells of a worker that died wait for another; one that lives renews them."""
RENEW_EVERY = timedelta(seconds=15)
"""So often that a lease outlasts three renewals that failed."""
LONGEST_POLL = timedelta(minutes=8)
"""Longer than the slowest whole answer (a price list of 70 MB) and its retries."""
LONGEST_LEASE = LONGEST_POLL + timedelta(minutes=2)
"""For how long after its poll began a cell is kept: the last call's own timeout and the recording come on top of it."""
LIMIT_PATIENCE = timedelta(seconds=10)
"""How long the first call of a poll waits for a slot under a rate limit before other cells go first: while all threads
wait for a slow limit, nothing is polled under the others of their provider.
"""
THROTTLED_PAUSE = timedelta(minutes=1)
"""The pause where a provider throttles without saying for how long: the window that most of them count in."""
NOT_SERVED_PAUSE = timedelta(days=1)
LONGEST_WAIT = timedelta(days=1)
"""The longest that a throttled cell itself is not due: some calls are blocked for a day. Others under its limit pause
for an hour at most.
"""
SPARE = 0.005
"""The least of that spread: workers know the database's time to some milliseconds."""
JITTER = 0.05
"""Due times are spread by up to this part of the interval, later only: no cell is polled twice within its interval."""

log = structlog.get_logger()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """The one retry policy: how often a cell is asked before its poll has failed, and the pauses between."""

    attempts: int = 3
    first_pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(seconds=10)
    budget: timedelta = timedelta(minutes=2)
    database: timedelta = timedelta(seconds=45)
    """How long what a poll has to write waits for a database that does not answer: one that is started anew is back
    within seconds, and less than a lease.
    """


@dataclass(frozen=True, slots=True)
class Polls:
    """What a poll needs beside its cell. `clock` is the database's (`store.clock.clock_of`), except in tests."""

    engine: Engine
    clock: Clock
    sleep: Callable[[float], None] = time.sleep
    patience: Patience = field(default_factory=Patience)
    failures: Failures = field(default_factory=Failures)
    """Whoever polls has them told."""


class LimitBusyError(Exception):
    """No slot under the rate limit is near: the cell goes back, due at `slot`."""

    def __init__(self, slot: datetime) -> None:
        super().__init__(f"the next call may go out at {slot:%H:%M:%S}")
        self.slot = slot


class TooSlow(Unavailable):
    """No whole answer in the time that a poll may take: to ask again would outlast the lease."""


class _Slots:
    """The slots of one poll's calls under a rate limit: `wait` runs right before each call, and nowhere else."""

    def __init__(self, polls: Polls, limit: Limit, started_at: datetime) -> None:
        self._polls = polls
        self._limit = limit
        self._ends_at = started_at + LONGEST_POLL
        self._called = False

    def wait(self) -> None:
        """Wait for the next slot. Raises LimitBusyError where the first is far, and TooSlow where a later one is after
        the poll's end: to give the cell back then would throw away what is in, and need its slots again.
        """
        now, patience, slot = patiently(self._reserve, self._polls.patience.database)
        if slot - now > patience:
            raise _too_slow() if self._called else LimitBusyError(slot)
        self._called = True
        if slot > now:
            self._polls.sleep((slot - now).total_seconds())

    def _reserve(self) -> tuple[datetime, timedelta, datetime]:
        """The time, how long this call may wait, and its slot."""
        now = self._polls.clock()
        patience = self._ends_at - now if self._called else LIMIT_PATIENCE
        slot = schedule.reserve(self._polls.engine, self._limit.key, self._limit.per_second, now, patience)
        return now, patience, slot

    @property
    def over(self) -> bool:
        """Whether the poll has gone on for too long."""
        return self._polls.clock() > self._ends_at


def _too_slow() -> TooSlow:
    """The error of a poll that is not done when it must be."""
    return TooSlow(f"no whole answer within {LONGEST_POLL.total_seconds() / 60:.0f} minutes")


def poll(polls: Polls, feed: Feed, lease: Lease, scrub: Scrubber) -> Result:
    """Poll a claimed cell and commit what became of it. Raises LeaseLost where another worker has the cell by now.

    What is recorded and logged of it, facts aside, went through the provider's `scrub` first.
    """
    slots = _Slots(polls, feed.limit(_cell(lease)), lease.started_at)
    try:
        answer = _ask_patiently(polls, feed, lease, slots, scrub)
    except Unchanged:
        now, due_at = polls.clock(), _next_due(lease)
        return _commit(polls, lease, lambda: record.unchanged(polls.engine, lease, now, due_at))
    except LimitBusyError as busy:
        slot = busy.slot
        patiently(lambda: schedule.release(polls.engine, lease, slot), polls.patience.database)
        return Result("waiting", error=str(busy))
    except ProviderError as error:
        return _failed(polls, feed, lease, error, scrub)
    told, now, due_at = scrub.answer(answer), polls.clock(), _next_due(lease)
    result = _commit(polls, lease, lambda: record.record(polls.engine, lease, told, now, due_at))
    log.info("polled", **_names(lease), status=result.status, facts=result.facts, notes=result.notes)
    return result


def broken(polls: Polls, lease: Lease, error: BaseException, scrub: Scrubber) -> Result:
    """Commit that a poll ended in a fault of our own: shown like any failure, with nothing that is known changed."""
    log.error("poll broke", **_names(lease), exception=scrub.lines("".join(format_exception(error))))
    now, result = polls.clock(), fault(error, scrub)
    return _commit(polls, lease, lambda: record.failed(polls.engine, lease, result, now, now + lease.every))


def renew(polls: Polls, leases: Iterable[Lease]) -> None:
    """Keep the cells of polls under way for another lease, unless they have been under way for too long."""
    now = polls.clock()
    schedule.renew(
        polls.engine, [lease for lease in leases if now + LEASE <= lease.started_at + LONGEST_LEASE], now + LEASE
    )


def _commit(polls: Polls, lease: Lease, write: Callable[[], Result]) -> Result:
    """Record what came of a poll, once. A database that does not answer is waited for, while the cell is ours.

    Where the connection was lost in a commit, nobody knows whether that was done. The token does: what recorded the
    poll took it away, so that to record it again raises LeaseLost.
    """
    tries = count(1)

    def once() -> Result:
        first = next(tries) == 1
        try:
            return write()
        except LeaseLost:
            if not first:
                log.info("recorded before the connection was lost, or taken by another worker since", **_names(lease))
            raise

    return patiently(once, polls.patience.database)


def fault(error: BaseException, scrub: Scrubber) -> Result:
    """The result of a poll that ended in a fault of our own."""
    said = scrub.text(f"{type(error).__name__}: {error}")
    return Result("failed", error=f"a fault of this program, not of the provider: {said}")


_WITHOUT = {
    False: "no region is known yet; sync `places` first, or name regions in the settings",
    True: "it asks about the machines that `stock` names, and none is known yet; sync `stock` first",
}
"""Why a feed has no cell, by whether it asks about one machine at a time."""


def try_out(polls: Polls, feed: Feed, cells: Iterable[Cell], scrub: Scrubber) -> ProviderError | None:
    """Ask the first of a feed's cells for its first page and read it; nothing is recorded. Returns what went wrong.

    Its calls wait for their slots like any other's. What went wrong is told without the provider's credentials.
    """
    cell = next(iter(cells), None)
    if cell is None:
        return NotConfigured(f"{feed.name}: {_WITHOUT[isinstance(feed, ByMachine)]}")
    now = polls.clock()
    try:
        with _scrubbing(scrub), before_each_call(_Slots(polls, feed.limit(cell), now).wait):
            for page in feed.fetch(cell, now, {}):
                list(feed.parse(page))
                return None
    except Unchanged:
        return None
    except LimitBusyError as busy:
        return Throttled(f"not tried: other calls under the same rate limit go first, {busy}")
    except ProviderError as error:
        return error
    return None


def met(ask: Callable[[], T]) -> T | ProviderError:
    """What a call gives that is no cell's, or the error that it met."""
    try:
        return ask()
    except ProviderError as error:
        return error


def _ask_patiently(polls: Polls, feed: Feed, lease: Lease, slots: _Slots, scrub: Scrubber) -> Answer:
    patience = polls.patience
    attempts = stamina.retry_context(
        on=lambda error: _worth_another_try(error, patience),
        attempts=patience.attempts,
        timeout=patience.budget,
        wait_initial=patience.first_pause,
        wait_max=patience.longest_pause,
        wait_jitter=patience.first_pause,
    )
    for attempt in attempts:
        with attempt, _scrubbing(scrub):
            return _ask(polls, feed, lease, slots)
    raise AssertionError("unreachable: the last attempt returns or raises")


@contextmanager
def _scrubbing(scrub: Scrubber) -> Iterator[None]:
    """Take the provider's credentials out of an error's text where it is raised, before anybody can log it."""
    try:
        yield
    except ProviderError as error:
        error.args = (scrub.text(str(error)),)
        raise


def _worth_another_try(error: Exception, patience: Patience) -> bool | timedelta:
    """Whether to ask again within this poll, or after which pause: never sooner than the provider asked for."""
    if isinstance(error, Throttled) and error.retry_after:
        return error.retry_after if error.retry_after <= patience.longest_pause else False
    return isinstance(error, (Throttled, Unavailable)) and not isinstance(error, TooSlow)


def _ask(polls: Polls, feed: Feed, lease: Lease, slots: _Slots) -> Answer:
    """All pages of a whole answer, read. Nothing is recorded before the last one is in."""
    facts: list[Fact] = []
    notes: list[Note] = []
    skipped: dict[str, int] = {}
    memo: dict[str, str] = {}
    missing: list[str] = []
    asked_at: datetime | None = None
    late = False
    with before_each_call(slots.wait):
        for page in feed.fetch(_cell(lease), polls.clock(), lease.memo):
            if late:  # another page after the time was up: what is whole by then is never thrown away
                raise _too_slow()
            asked_at = asked_at or page.at
            for item in _read(feed, page):
                (notes if isinstance(item, Note) else facts).append(item)  # type: ignore[arg-type]
            for reason, count in page.skipped.items():
                skipped[reason] = skipped.get(reason, 0) + count
            memo |= page.memo
            missing += [page.missing] if page.missing else []
            late = slots.over
    return Answer(facts, notes, skipped, memo, "; ".join(missing), asked_at)


def _read(feed: Feed, page: Page) -> list[Fact | Note]:
    try:
        return list(feed.parse(page))
    except Drift as error:
        raise Drift(str(error), error.page or page) from error


def _failed(polls: Polls, feed: Feed, lease: Lease, error: ProviderError, scrub: Scrubber) -> Result:
    now = polls.clock()
    said = str(error)
    status = "off" if isinstance(error, (NotConfigured, NotServed)) else "failed"
    due_at = now + _pause(error, lease)
    # First, since it raises where the cell is no longer ours: what old settings met with pauses nothing under new ones.
    met, drift = Result(status, error=said), _drift(error, scrub)
    result = _commit(polls, lease, lambda: record.failed(polls.engine, lease, met, now, due_at, drift))
    paused = patiently(lambda: _pause_others(polls, feed, lease, error, now), polls.patience.database)
    _log_failure(polls, lease, error, said, paused=paused)
    return result


def _pause_others(polls: Polls, feed: Feed, lease: Lease, error: ProviderError, now: datetime) -> bool:
    """Pause what an error is about beside its cell; returns whether that is the whole provider, from now on."""
    if isinstance(error, Throttled):
        limit = feed.limit(_cell(lease))
        schedule.pause_limit(polls.engine, limit.pause_key or limit.key, _asked_for(error), now)
    return isinstance(error, AuthFailed) and schedule.pause_provider(polls.engine, lease.provider, str(error))


def _drift(error: ProviderError, scrub: Scrubber) -> tuple[str, bytes] | None:
    """The name and the body of the page that could not be read."""
    page = error.page if isinstance(error, Drift) else None
    return None if page is None else (scrub.text(page.name), scrub.body(page.body))


def _log_failure(polls: Polls, lease: Lease, error: ProviderError, said: str, *, paused: bool) -> None:
    """Tell a refusal once for all cells that met it, and what is off once for each reason: a person may want it so."""
    if isinstance(error, AuthFailed):
        if paused:
            log.error("provider paused until its settings change", provider=lease.provider, error=said)
    elif isinstance(error, (NotConfigured, NotServed)):
        if said != lease.off:
            log.info("off", **_names(lease), kind=type(error).__name__, error=said)
    else:
        polls.failures.add(lease, type(error).__name__, said)


def _pause(error: ProviderError, lease: Lease) -> timedelta:
    """When to ask again: after growing pauses up to the interval, and never sooner than the provider asked for."""
    if isinstance(error, (NotConfigured, NotServed)):
        return max(lease.every, NOT_SERVED_PAUSE)
    growing = timedelta(seconds=30 * (1 << min(lease.failures, 12)))
    pause = min(lease.every, growing) * random.uniform(1 + SPARE, 1 + JITTER)
    return max(pause, _asked_for(error)) if isinstance(error, Throttled) else pause


def _asked_for(error: Throttled) -> timedelta:
    """The pause that a provider asked for, a day at most; a minute where it did not say."""
    return min(error.retry_after or THROTTLED_PAUSE, LONGEST_WAIT)


def _next_due(lease: Lease) -> datetime:
    """One interval after this poll began, never more than one for a time away: a late poll is caught up once."""
    return lease.started_at + lease.every * random.uniform(1 + SPARE, 1 + JITTER)


def _cell(lease: Lease) -> Cell:
    return Cell(lease.provider, lease.feed, lease.place, lease.part)


def _names(lease: Lease) -> dict[str, str]:
    return {"provider": lease.provider, "feed": lease.feed, "place": lease.place, "part": lease.part}
