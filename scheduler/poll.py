"""One poll of one cell: ask, read, record. The one place where a provider's error is caught and given its meaning."""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import stamina
import structlog
from sqlalchemy import Engine

from catalog.facts import Fact, Note
from collectors.base import (
    AuthFailed,
    Cell,
    Drift,
    Feed,
    NotConfigured,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
    Unchanged,
)
from store import record, schedule
from store.record import Answer, Lease, Result

LEASE = timedelta(minutes=10)
"""Longer than a poll may take, so that a lease runs out only when its worker died."""
LONGEST_POLL = timedelta(minutes=8)
"""Longer than the slowest whole answer (a price list of 70 MB) and its retries; the rest of the lease is for the last
call's own timeout and for recording.
"""
LIMIT_PATIENCE = timedelta(seconds=30)
"""How long a poll that has nothing yet waits for a slot under a rate limit before other cells go first."""
THROTTLED_PAUSE = timedelta(minutes=1)
"""The pause where a provider throttles without saying for how long: the window that most of them count in."""
NOT_SERVED_PAUSE = timedelta(days=1)
JITTER = 0.05
"""Due times are spread by up to this part of the interval, later only: no cell is polled twice within its interval."""

log = structlog.get_logger()


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


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


class _UnreadPage(Exception):
    """Which page it was that could not be read."""

    def __init__(self, page: Page, error: Drift) -> None:
        super().__init__(str(error))
        self.page = page
        self.error = error


def poll(polls: Polls, feed: Feed, lease: Lease) -> Result:
    """Poll a claimed cell and commit what became of it. Raises LeaseLost where another worker has the cell by now."""
    try:
        answer = _ask_patiently(polls, feed, lease)
    except Unchanged:
        return record.unchanged(polls.engine, lease, polls.clock(), _next_due(lease))
    except LimitBusyError as busy:
        schedule.release(polls.engine, lease, busy.slot)
        return Result("waiting", error=str(busy))
    except _UnreadPage as unread:
        return _failed(polls, feed, lease, unread.error, (unread.page.name, unread.page.body))
    except ProviderError as error:
        return _failed(polls, feed, lease, error)
    result = record.record(polls.engine, lease, answer, polls.clock(), _next_due(lease))
    log.info("polled", **_names(lease), status=result.status, facts=result.facts, notes=result.notes)
    return result


def broken(polls: Polls, lease: Lease, error: BaseException) -> Result:
    """Commit that a poll ended in a fault of our own: shown like any failure, with nothing that is known changed."""
    log.error("poll broke", **_names(lease), exc_info=error)
    result = Result("failed", error=f"a fault of this program, not of the provider: {type(error).__name__}: {error}")
    now = polls.clock()
    return record.failed(polls.engine, lease, result, now, now + lease.every)


def try_out(polls: Polls, feed: Feed, regions: Iterable[str]) -> ProviderError | None:
    """Ask a feed's first cell for its first page and read it; nothing is recorded. Returns what went wrong, or None."""
    cell = next(iter(feed.cells(regions)), None)
    if cell is None:
        return NotConfigured(
            f"{feed.name}: no region is known yet; sync `places` first, or name regions in the settings"
        )
    try:
        for page in feed.fetch(cell, polls.clock(), {}):
            list(feed.parse(page))
            return None
    except Unchanged:
        return None
    except ProviderError as error:
        return error
    return None


def _ask_patiently(polls: Polls, feed: Feed, lease: Lease) -> Answer:
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
        with attempt:
            return _ask(polls, feed, lease)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _worth_another_try(error: Exception, patience: Patience) -> bool | timedelta:
    """Whether to ask again within this poll, or after which pause: never sooner than the provider asked for."""
    if isinstance(error, Throttled) and error.retry_after:
        return error.retry_after if error.retry_after <= patience.longest_pause else False
    return isinstance(error, (Throttled, Unavailable)) and not isinstance(error, TooSlow)


def _ask(polls: Polls, feed: Feed, lease: Lease) -> Answer:
    """All pages of a whole answer, read. Nothing is recorded before the last one is in."""
    cell = Cell(lease.provider, lease.feed, lease.place, lease.part)
    facts: list[Fact] = []
    notes: list[Note] = []
    skipped: dict[str, int] = {}
    memo: dict[str, str] = {}
    missing: list[str] = []
    asked_at: datetime | None = None
    for page in _pages(polls, feed, cell, lease):
        asked_at = asked_at or page.at
        for item in _read(feed, page):
            (notes if isinstance(item, Note) else facts).append(item)  # type: ignore[arg-type]
        for reason, count in page.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
        memo |= page.memo
        missing += [page.missing] if page.missing else []
    return Answer(facts, notes, skipped, memo, "; ".join(missing), asked_at)


def _pages(polls: Polls, feed: Feed, cell: Cell, lease: Lease) -> Iterator[Page]:
    _wait_for_slot(polls, feed, cell, LIMIT_PATIENCE)
    for page in feed.fetch(cell, polls.clock(), lease.memo):
        yield page
        # The next call's slot: giving the cell back now would throw away what is in, and need its slots again.
        _wait_for_slot(polls, feed, cell, LONGEST_POLL)
        if polls.clock() - lease.started_at > LONGEST_POLL:
            raise TooSlow(f"no whole answer within {LONGEST_POLL.total_seconds() / 60:.0f} minutes")


def _wait_for_slot(polls: Polls, feed: Feed, cell: Cell, patience: timedelta) -> None:
    limit = feed.limit(cell)
    now = polls.clock()
    slot = schedule.reserve(polls.engine, limit.key, limit.per_second, now, patience)
    if slot - now > patience:
        raise LimitBusyError(slot)
    if slot > now:
        polls.sleep((slot - now).total_seconds())


def _read(feed: Feed, page: Page) -> list[Fact | Note]:
    try:
        return list(feed.parse(page))
    except Drift as error:
        raise _UnreadPage(page, error) from error


def _failed(
    polls: Polls, feed: Feed, lease: Lease, error: ProviderError, drift: tuple[str, bytes] | None = None
) -> Result:
    now = polls.clock()
    status = "off" if isinstance(error, (NotConfigured, NotServed)) else "failed"
    due_at = now + _pause(error, lease)
    # First, since it raises where the cell is no longer ours: what old settings met with pauses nothing under new ones.
    result = record.failed(polls.engine, lease, Result(status, error=str(error)), now, due_at, drift)
    if isinstance(error, AuthFailed):
        if schedule.pause_provider(polls.engine, lease.provider, str(error)):
            log.error("provider paused until its settings change", provider=lease.provider, error=str(error))
        return result
    if isinstance(error, Throttled):
        limit = feed.limit(Cell(lease.provider, lease.feed, lease.place, lease.part))
        schedule.pause_limit(polls.engine, limit.key, due_at)
    log.warning("poll failed", **_names(lease), kind=type(error).__name__, error=str(error))
    return result


def _pause(error: ProviderError, lease: Lease) -> timedelta:
    """When to ask again: what the provider asked for, else growing pauses that never exceed the interval."""
    if isinstance(error, (NotConfigured, NotServed)):
        return max(lease.every, NOT_SERVED_PAUSE)
    if isinstance(error, Throttled):
        return error.retry_after or THROTTLED_PAUSE
    growing = timedelta(seconds=30 * (1 << min(lease.failures, 12)))
    return min(lease.every, growing) * random.uniform(1, 1 + JITTER)


def _next_due(lease: Lease) -> datetime:
    """One interval after this poll began, never more than one for a time away: a late poll is caught up once."""
    return lease.started_at + lease.every * random.uniform(1, 1 + JITTER)


def _names(lease: Lease) -> dict[str, str]:
    return {"provider": lease.provider, "feed": lease.feed, "place": lease.place, "part": lease.part}
