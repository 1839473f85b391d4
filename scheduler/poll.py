"""One poll of one cell: ask, read, record. The one place where a provider's error is caught and given its meaning."""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from traceback import format_exception

import stamina
import structlog
from sqlalchemy import Engine

from catalog.facts import Fact, Note
from collectors.base import (
    AuthFailed,
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
from scheduler.scrub import Scrubber
from store import record, schedule
from store.record import Answer, Lease, Result
from store.times import utc_now

LEASE = timedelta(minutes=10)
"""Longer than a poll may take, so that a lease runs out only when its worker died."""
LONGEST_POLL = timedelta(minutes=8)
"""Longer than the slowest whole answer (a price list of 70 MB) and its retries; the rest of the lease is for the last
call's own timeout and for recording.
"""
LIMIT_PATIENCE = timedelta(seconds=30)
"""How long the first call of a poll waits for a slot under a rate limit before other cells go first."""
THROTTLED_PAUSE = timedelta(minutes=1)
"""The pause where a provider throttles without saying for how long: the window that most of them count in."""
NOT_SERVED_PAUSE = timedelta(days=1)
LONGEST_WAIT = timedelta(days=1)
"""The longest that a throttled cell itself is not due: some calls are blocked for a day. Others under its limit pause
for an hour at most.
"""
JITTER = 0.05
"""Due times are spread by up to this part of the interval, later only: no cell is polled twice within its interval."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Patience:
    """The one retry policy: how often a cell is asked before its poll has failed, and the pauses between."""

    attempts: int = 3
    first_pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(seconds=10)
    budget: timedelta = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Polls:
    """What a poll needs beside its cell. `clock` and `sleep` are the machine's, except in tests."""

    engine: Engine
    clock: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = time.sleep
    patience: Patience = field(default_factory=Patience)


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
        now = self._polls.clock()
        patience = self._ends_at - now if self._called else LIMIT_PATIENCE
        slot = schedule.reserve(self._polls.engine, self._limit.key, self._limit.per_second, now, patience)
        if slot - now > patience:
            raise _too_slow() if self._called else LimitBusyError(slot)
        self._called = True
        if slot > now:
            self._polls.sleep((slot - now).total_seconds())

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
        return record.unchanged(polls.engine, lease, polls.clock(), _next_due(lease))
    except LimitBusyError as busy:
        schedule.release(polls.engine, lease, busy.slot)
        return Result("waiting", error=str(busy))
    except ProviderError as error:
        return _failed(polls, feed, lease, error, scrub)
    result = record.record(polls.engine, lease, scrub.answer(answer), polls.clock(), _next_due(lease))
    log.info("polled", **_names(lease), status=result.status, facts=result.facts, notes=result.notes)
    return result


def broken(polls: Polls, lease: Lease, error: BaseException, scrub: Scrubber) -> Result:
    """Commit that a poll ended in a fault of our own: shown like any failure, with nothing that is known changed."""
    log.error("poll broke", **_names(lease), exception=scrub.lines("".join(format_exception(error))))
    now = polls.clock()
    return record.failed(polls.engine, lease, fault(error, scrub), now, now + lease.every)


def fault(error: BaseException, scrub: Scrubber) -> Result:
    """The result of a poll that ended in a fault of our own."""
    said = scrub.text(f"{type(error).__name__}: {error}")
    return Result("failed", error=f"a fault of this program, not of the provider: {said}")


def try_out(polls: Polls, feed: Feed, regions: Iterable[str], scrub: Scrubber) -> ProviderError | None:
    """Ask a feed's first cell for its first page and read it; nothing is recorded. Returns what went wrong, or None.

    Its calls wait for their slots like any other's. What went wrong is told without the provider's credentials.
    """
    cell = next(iter(feed.cells(regions)), None)
    if cell is None:
        return NotConfigured(
            f"{feed.name}: no region is known yet; sync `places` first, or name regions in the settings"
        )
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
    result = record.failed(polls.engine, lease, Result(status, error=said), now, due_at, _drift(error, scrub))
    if isinstance(error, Throttled):
        limit = feed.limit(_cell(lease))
        schedule.pause_limit(polls.engine, limit.pause_key or limit.key, _pause(error, lease), now)
    paused = isinstance(error, AuthFailed) and schedule.pause_provider(polls.engine, lease.provider, said)
    _log_failure(lease, error, said, paused=paused)
    return result


def _drift(error: ProviderError, scrub: Scrubber) -> tuple[str, bytes] | None:
    """The name and the body of the page that could not be read."""
    page = error.page if isinstance(error, Drift) else None
    return None if page is None else (scrub.text(page.name), scrub.body(page.body))


def _log_failure(lease: Lease, error: ProviderError, said: str, *, paused: bool) -> None:
    """Tell a refusal once for all cells that met it, and what is off once for each reason: a person may want it so."""
    if isinstance(error, AuthFailed):
        if paused:
            log.error("provider paused until its settings change", provider=lease.provider, error=said)
    elif isinstance(error, (NotConfigured, NotServed)):
        if said != lease.off:
            log.info("off", **_names(lease), kind=type(error).__name__, error=said)
    else:
        log.warning("poll failed", **_names(lease), kind=type(error).__name__, error=said)


def _pause(error: ProviderError, lease: Lease) -> timedelta:
    """When to ask again: what the provider asked for, a day at most, else growing pauses up to the interval."""
    if isinstance(error, (NotConfigured, NotServed)):
        return max(lease.every, NOT_SERVED_PAUSE)
    if isinstance(error, Throttled):
        return min(error.retry_after or THROTTLED_PAUSE, LONGEST_WAIT)
    growing = timedelta(seconds=30 * (1 << min(lease.failures, 12)))
    return min(lease.every, growing) * random.uniform(1, 1 + JITTER)


def _next_due(lease: Lease) -> datetime:
    """One interval after this poll began, never more than one for a time away: a late poll is caught up once."""
    return lease.started_at + lease.every * random.uniform(1, 1 + JITTER)


def _cell(lease: Lease) -> Cell:
    return Cell(lease.provider, lease.feed, lease.place, lease.part)


def _names(lease: Lease) -> dict[str, str]:
    return {"provider": lease.provider, "feed": lease.feed, "place": lease.place, "part": lease.part}
