"""One pass in the foreground: the same leases, limits and polls as a worker's, with word of each cell as it ends."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler import plan
from scheduler.crew import submit
from scheduler.plan import Configured
from scheduler.poll import LEASE, RENEW_EVERY, Polls, fault, renew
from scheduler.worker import POLLS_AT_ONCE
from store import planning, schedule, status
from store.clock import read_again
from store.record import Lease, LeaseLost, Result
from store.schedule import CellNow

BUSY_PAUSE_S = 0.2
"""How long to wait where every cell left is under a rate limit or in another worker's hands."""
OTHERS_PATIENCE = timedelta(seconds=30)
"""How long to wait for a limit, or for cells that another worker has, before giving the pass up as it is."""


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of a cell in this pass."""

    provider: str
    feed: str
    place: str
    part: str
    result: Result
    seconds: float


def sync(
    polls: Polls,
    configured: Iterable[Configured],
    feeds: Sequence[str] = (),
    on_start: Callable[[int], None] = lambda _cells: None,
    on_end: Callable[[Synced], None] = lambda _one: None,
) -> list[Synced]:
    """Poll every cell of these providers once, places first; returns a row for each, the feeds that are off included.

    Each provider goes from stage to stage by itself: none waits for another's slow feed. `on_start` hears how many
    cells come next, once for each stage of each; `on_end` hears of each cell as it ends.
    """
    providers = list(configured)
    for one in providers:
        plan.plan_one(polls.engine, one, polls.clock())
    rows = [row for one in providers for row in _off(one, feeds)]
    for row in rows:
        on_end(row)
    try:
        return rows + _Pass(polls, providers, feeds).run(on_start, on_end)
    finally:
        polls.failures.tell(everything=True)


def _stages(polls: Polls, one: Configured, feeds: Sequence[str]) -> Iterator[list[str]]:
    """The feeds of a provider to poll together: places first, since they name what the others poll; last what asks
    about the machines that those found.
    """
    if _wants_places(polls, one, feeds):
        yield ["places"]
    for stage in (_by_region, _by_machine):
        if wanted := stage(polls, one, feeds):
            yield sorted(wanted)


def _by_region(polls: Polls, one: Configured, feeds: Sequence[str]) -> set[str]:
    """The stock too, unasked, where feeds are wanted that ask about a machine and no machine is known yet."""
    wanted, asks = _wanted(one, feeds), plan.by_machine(one)
    unasked = {"stock"} if wanted & asks and not plan.machines(polls.engine, one) else set()
    return (wanted | unasked & one.feeds().keys()) - asks - {"places"}


def _by_machine(_polls: Polls, one: Configured, feeds: Sequence[str]) -> set[str]:
    return _wanted(one, feeds) & plan.by_machine(one)


def _wanted(one: Configured, feeds: Sequence[str]) -> set[str]:
    return {name for name in one.feeds() if not feeds or name in feeds}


def _wants_places(polls: Polls, one: Configured, feeds: Sequence[str]) -> bool:
    """Also unasked, where no region is known yet."""
    if "places" in _wanted(one, feeds):
        return True
    known = one.config.regions or planning.known_regions(polls.engine, one.name)
    return bool("places" in one.feeds() and _wanted(one, feeds) and not known)


def _off(one: Configured, feeds: Sequence[str]) -> list[Synced]:
    missing = one.provider.off().items()
    return [
        Synced(one.name, feed, "", "", Result("off", error=why), 0.0)
        for feed, why in missing
        if not feeds or feed in feeds
    ]


class _Pass:
    """A pass over all stages of all providers: `left` are the cells that are due of which nothing has come yet."""

    def __init__(self, polls: Polls, providers: Sequence[Configured], feeds: Sequence[str]) -> None:
        self._polls = polls
        self._providers = {one.name: one for one in providers}
        self._feeds = {one.name: one.feeds() for one in providers}
        self._fingerprints = {one.name: one.fingerprint() for one in providers}
        self._stages = {one.name: _stages(polls, one, feeds) for one in providers}
        self._left: dict[int, str] = {}
        """By cell its provider."""
        self._turns: dict[int, tuple[str, int, int]] = {}
        self._began: dict[str, datetime] = {}
        self._renewed_at = polls.clock()
        self._running: dict[Future[Result], Lease] = {}
        self._patience_ends = polls.clock() + OTHERS_PATIENCE

    def run(self, on_start: Callable[[int], None], on_end: Callable[[Synced], None]) -> list[Synced]:
        rows: list[Synced] = []
        with ThreadPoolExecutor(POLLS_AT_ONCE * max(1, len(self._providers))) as pool:
            while self._go_on(on_start):
                self._renew()
                self._start(pool)
                ended = self._ended() if self._running else self._wait_for_others()
                for row in ended:
                    on_end(row)
                rows += ended
                self._polls.failures.tell()
        return rows

    def _go_on(self, on_start: Callable[[int], None]) -> bool:
        """Make the next stage due of each provider that has ended one; whether anything is left."""
        for name in self._stages.keys() - self._left.values():
            wanted = next(self._stages[name], None)
            if wanted is None:
                del self._stages[name]
            else:
                on_start(self._make_due(name, wanted))
        return bool(self._left or self._stages)

    def _make_due(self, name: str, feeds: Sequence[str]) -> int:
        began = self._began[name] = self._polls.clock()
        ids = schedule.make_due(self._polls.engine, began, [name], feeds)
        self._left |= dict.fromkeys(ids, name)
        self._turns |= _turns(schedule.cells(self._polls.engine, ids))
        self._patience_ends = began + OTHERS_PATIENCE
        return len(ids)

    def _renew(self) -> None:
        if abs(self._polls.clock() - self._renewed_at) >= RENEW_EVERY:
            read_again(self._polls.clock)
            renew(self._polls, self._running.values())
            self._renewed_at = self._polls.clock()

    def _start(self, pool: ThreadPoolExecutor) -> None:
        running = Counter(lease.provider for lease in self._running.values())
        waiting = self._left.keys() - {lease.cell_id for lease in self._running.values()}
        for name, one in self._providers.items():
            free = POLLS_AT_ONCE - running[name]
            if not free or not waiting:
                continue
            for lease in self._claimed(name, free, waiting):
                self._running[submit(pool, self._polls, one, self._feeds[name], lease)] = lease

    def _claimed(self, name: str, most: int, waiting: Collection[int]) -> list[Lease]:
        """The next cells in turn; where one of them cannot be had, any others in its place."""
        found: list[Lease] = []
        in_turn = sorted((cell for cell in waiting if self._turns[cell][0] == name), key=self._turns.__getitem__)
        now, mine = self._polls.clock(), self._fingerprints[name]
        for only in (in_turn[:most], in_turn):
            if len(found) < most:
                found += schedule.claim(
                    self._polls.engine, now, LEASE, most - len(found), provider=name, fingerprint=mine, only=only
                )
        return found

    def _ended(self) -> list[Synced]:
        """What has ended of our own polls. Waits a little for one."""
        rows = []
        for future in wait(self._running, timeout=BUSY_PAUSE_S, return_when=FIRST_COMPLETED).done:
            lease = self._running.pop(future)
            error = future.exception()
            result = fault(error, self._providers[lease.provider].scrubber()) if error else future.result()
            if result.status == "waiting" or isinstance(error, LeaseLost):
                continue
            self._left.pop(lease.cell_id, None)
            seconds = (self._polls.clock() - lease.started_at).total_seconds()
            rows.append(Synced(lease.provider, lease.feed, lease.place, lease.part, result, max(seconds, 0.0)))
        if rows:
            self._patience_ends = self._polls.clock() + OTHERS_PATIENCE
        return rows

    def _wait_for_others(self) -> list[Synced]:
        """What another worker polled meanwhile, what its provider's pause ends, and after a while all that is left."""
        paused = self._paused()
        cells = schedule.cells(self._polls.engine, self._left)
        settled = {cell.id: row for cell in cells if (row := self._settled(cell, paused))}
        self._left = {cell.id: cell.provider for cell in cells if cell.id not in settled}
        if settled:
            self._patience_ends = self._polls.clock() + OTHERS_PATIENCE
        elif self._polls.clock() >= self._patience_ends:
            self._left = {}
            return [_given_up(cell, self._polls.clock()) for cell in cells]
        if self._left:
            self._polls.sleep(BUSY_PAUSE_S)
        return list(settled.values())

    def _paused(self) -> dict[str, str]:
        found = status.provider_statuses(self._polls.engine, self._polls.clock())
        paused = {one.name: f"the provider is paused: {one.paused}" for one in found if one.paused}
        engine, mine = self._polls.engine, self._fingerprints
        others = [name for name in mine if not schedule.is_planned(engine, name, mine[name])]
        return paused | dict.fromkeys(others, "another process polls it with other settings: they must be the same")

    def _settled(self, cell: CellNow, paused: dict[str, str]) -> Synced | None:
        if cell.tried_at and cell.tried_at >= self._began[cell.provider]:
            result = Result(cell.status, cell.facts, 0, cell.error)
        elif cell.provider in paused:
            result = Result("failed", error=f"not polled in this pass: {paused[cell.provider]}")
        else:
            return None
        return Synced(cell.provider, cell.feed, cell.place, cell.part, result, 0.0)


def _turns(cells: Iterable[CellNow]) -> dict[int, tuple[str, int, int]]:
    """By cell: its provider, how many of its feed and place come before it, and its id. In this order the cells of one
    place, which share a limit, do not come all together: the threads would wait for it one and all.
    """
    before = Counter[tuple[str, str, str]]()
    turns: dict[int, tuple[str, int, int]] = {}
    for cell in cells:
        of = (cell.provider, cell.feed, cell.place)
        turns[cell.id] = (cell.provider, before[of], cell.id)
        before[of] += 1
    return turns


def _given_up(cell: CellNow, now: datetime) -> Synced:
    seconds = OTHERS_PATIENCE.total_seconds()
    said = f"not polled in this pass: waited {seconds:.0f} s for {_waited_for(cell, now)}"
    return Synced(cell.provider, cell.feed, cell.place, cell.part, Result("failed", error=said), seconds)


def _waited_for(cell: CellNow, now: datetime) -> str:
    """What keeps a cell from being polled, and until when."""
    if cell.lease_until is not None and cell.lease_until > now:
        ends = f"{cell.lease_until:%H:%M:%S} UTC"
        return f"another worker, which polls it; if that was killed, its lease ends at {ends}"
    if cell.paused_until is not None and cell.paused_until > now:
        return f"the pause that its provider asked for, until {cell.paused_until:%H:%M:%S} UTC"
    return f"its rate limit, under which the next call may go out at {cell.due_at:%H:%M:%S} UTC"
