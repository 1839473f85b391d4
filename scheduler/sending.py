"""Sending: in a worker, a thread of its own tells targets what the outbox holds for them, hundreds at once.

Any number of workers may send: each delivery is leased to one of them, and due again when that one dies.
"""

import asyncio
import logging
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from alerts.guard import Resolve, addresses_of
from alerts.webhook import Sender
from alerts.wire import Outcome, Result
from catalog.watches import Format
from scheduler.attempts import Attempts, SendingRules
from scheduler.outages import Reach, tell
from store import delivering, outbox
from store.clock import Clock
from store.delivering import Claimed, Settled
from store.outbox import Status

STOPPED_WITHIN = timedelta(seconds=2)
_GRACE_S = 1.0
"""How long attempts under way may take to end once sending is told to stop."""
_LAST_WRITE_S = 0.7
_SLICE_S = 0.1
"""How soon it is seen that it is told to stop while the database does not answer."""
_TIDY_EVERY = timedelta(seconds=10)
_HTTP = frozenset(Format) - {Format.EMAIL}
_MAIL = frozenset({Format.EMAIL})

log = structlog.get_logger()


class Sending:
    """Sends what the outbox holds from `start` to `stop`: at least once, under one id, as often as the rules say."""

    def __init__(self, engine: Engine, clock: Clock, rules: SendingRules, *, resolve: Resolve = addresses_of) -> None:
        self._engine, self._clock, self._rules, self._resolve = engine, clock, rules, resolve
        self._reach = Reach()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._asked = Event()
        self._end_by: float | None = None
        self._under_way: dict[asyncio.Task[Settled], Claimed] = {}
        self._settled: list[Settled] = []
        """What is to be written: more comes at its end while what stands there is written."""
        self._tidied_at: datetime | None = None

    def start(self, reach: Reach | None = None) -> None:
        """Begin, in a thread. With a `reach`, one line in the log tells of an outage that others meet too."""
        self._reach = reach or self._reach
        logging.getLogger("httpcore2").setLevel(logging.WARNING)  # below that it tells whole URLs
        self._thread = Thread(target=self._work, name="sending", daemon=True)
        self._thread.start()

    def end_soon(self) -> None:
        """Ask to stop, and do not wait for it."""
        if self._end_by is None:
            self._end_by = time.monotonic() + STOPPED_WITHIN.total_seconds()
        self._asked.set()
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(self._wake.set)

    def stop(self) -> None:
        """Stop, within two seconds of being asked. What is not settled then is due again when its lease ends."""
        self.end_soon()
        if self._thread is not None and self._end_by is not None:
            self._thread.join(max(0.0, self._end_by - time.monotonic()))

    def keep_house(self, now: datetime) -> None:
        """Forget what ended longer ago than is kept; begin anew where sending has ended by a fault of its own."""
        if self._thread is not None and not self._thread.is_alive() and not self._asked.is_set():
            log.error("sending had ended by itself, and is begun anew")
            self.start()
        outbox.prune(self._engine, now - self._rules.keep)

    # --- the thread

    def _work(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        rules = self._rules
        self._wake, self._under_way, self._loop = asyncio.Event(), {}, asyncio.get_running_loop()
        self._books = ThreadPoolExecutor(1, "deliveries")
        mails = ThreadPoolExecutor(rules.mails_at_once, "mail")
        timeout_s = rules.timeout.total_seconds()
        try:
            async with Sender(allow_private=rules.allow_private, timeout_s=timeout_s, resolve=self._resolve) as sender:
                self._attempts = Attempts(rules, self._clock, sender, mails)
                while not self._asked.is_set():
                    await self._go_on()
                await self._end()
        finally:
            self._loop = None
            for pool in (self._books, mails):
                pool.shutdown(wait=False, cancel_futures=True)

    async def _go_on(self) -> None:
        """Write what has ended, begin what is due, and wait until another ends or it is time to look again."""
        self._wake.clear()
        for claimed in await self._turn():
            task = asyncio.ensure_future(self._attempts.make(claimed))
            self._under_way[task] = claimed
            task.add_done_callback(self._ended)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self._rules.look_every.total_seconds())

    async def _end(self) -> None:
        """Give what is under way a moment, and write what came of it."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_GRACE_S)
        left = list(self._under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        writing = asyncio.get_running_loop().run_in_executor(self._books, self._write_last)
        await asyncio.wait({writing}, timeout=_LAST_WRITE_S)
        writing.cancel()

    def _ended(self, task: asyncio.Task[Settled]) -> None:
        claimed = self._under_way.pop(task)
        if not task.cancelled():
            error = task.exception()
            self._settled.append(task.result() if error is None else self._broken(claimed, error))
        self._wake.set()

    def _broken(self, claimed: Claimed, error: BaseException) -> Settled:
        """A fault of ours, for which no other delivery suffers. Its own words may hold what is secret."""
        kind = type(error).__name__
        log.error("an attempt to send broke", **_names(claimed), error=kind, at=_where(error))
        return self._attempts.judged(claimed, Outcome(Result.RETRY, f"a fault of gpufare ({kind})"), None)

    # --- the database, in a thread of its own

    async def _turn(self) -> list[Claimed]:
        """What is ours now. Nothing where the database does not answer: what has ended stays to be written."""
        turn = asyncio.get_running_loop().run_in_executor(self._books, partial(self._keep_books, *self._room()))
        while not turn.done() and not self._asked.is_set():
            await asyncio.wait({turn}, timeout=_SLICE_S)
        if not turn.done():
            turn.cancel()
            return []
        error = turn.exception()
        if error is not None:
            log.error("deliveries could not be claimed", error=type(error).__name__, at=_where(error))
            return []
        return turn.result()

    def _room(self) -> tuple[int, int, int]:
        """How many more may be begun: by HTTP, of these second ones to a target, and by e-mail."""
        lanes = Counter((one.target.target.format is Format.EMAIL, one.beside) for one in self._under_way.values())
        beside, mails = lanes[False, True], lanes[True, False] + lanes[True, True]
        rules = self._rules
        return rules.at_once - lanes[False, False] - beside, rules.beside - beside, rules.mails_at_once - mails

    def _keep_books(self, http: int, beside: int, mails: int) -> list[Claimed]:
        claimed: list[Claimed] = []
        try:
            self._write()
            now = self._clock()
            self._tidy(now)
            claim = partial(delivering.claim, self._engine, now, self._rules.lease, per_target=self._rules.per_target)
            claimed += claim(most=http, beside=beside, formats=_HTTP)
            claimed += claim(most=mails, formats=_MAIL)
        except SQLAlchemyError as error:
            self._reach.lost(error)
        else:
            self._reach.back()
        return claimed

    def _write(self) -> None:
        batch = list(self._settled)
        lost = delivering.settle(self._engine, batch)
        del self._settled[: len(batch)]
        for one in batch:
            _tell(one, lost=one in lost)

    def _write_last(self) -> None:
        try:
            self._write()
        except SQLAlchemyError as error:
            tell("the database did not answer; deliveries are due again when their leases end", error)

    def _tidy(self, now: datetime) -> None:
        if self._tidied_at is None or abs(now - self._tidied_at) >= _TIDY_EVERY:
            delivering.tidy(self._engine, now, 2 * max(self._rules.pauses.longest, timedelta(hours=1)))
            self._tidied_at = now


def _names(claimed: Claimed) -> dict[str, object]:
    return {
        "target": claimed.target.target.name,
        "event_id": claimed.event.id,
        "delivery_id": claimed.delivery_id,
        "attempts": claimed.attempts,
    }


def _tell(settled: Settled, *, lost: bool) -> None:
    about = _names(settled.claimed)
    if lost:
        log.info("a delivery was another's by the time it ended", **about)
    elif settled.gone:
        log.warning("a target is dead: it is told nothing more", **about, why=settled.last_error)
    elif settled.status in (Status.FAILED, Status.DEAD):
        log.warning("a delivery ended unsent", **about, status=settled.status.value, why=settled.last_error)
    elif settled.status is Status.PENDING:
        log.info("not delivered yet", **about, why=settled.last_error, again_at=str(settled.again_at))


def _where(error: BaseException) -> str:
    """The line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
