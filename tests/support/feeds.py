"""Scripted providers: a feed whose fetch and parse give what the test says, and clocks that move by hand."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from catalog.facts import Fact, Note
from catalog.words import Evidence, Level
from collectors.base import Cell, Config, Feed, Limit, Page, Provider, calling
from scheduler.plan import Configured
from scheduler.poll import Patience

MINUTE = timedelta(minutes=1)
AT_ONCE = Patience(first_pause=timedelta(0), longest_pause=timedelta(0))
"""Retries without a pause."""


class HandClock:
    """A clock that moves only when it is told to, or when somebody sleeps by it."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self.slept: list[float] = []

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)


class SharedClock:
    """A clock for several threads: who sleeps by it wakes when the test has moved it far enough."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._moved = threading.Condition()
        self.sleepers = 0

    def __call__(self) -> datetime:
        with self._moved:
            return self._now

    def move(self, by: timedelta) -> None:
        with self._moved:
            self._now += by
            self._moved.notify_all()

    def sleep(self, seconds: float) -> None:
        with self._moved:
            until = self._now + timedelta(seconds=seconds)
            self.sleepers += 1
            woken = self._moved.wait_for(lambda: self._now >= until, timeout=60)
            self.sleepers -= 1
        assert woken, "the test ended without moving the clock this far"


class OwnClocks:
    """A clock of its own for each thread, all from one start: who sleeps delays nobody else, as in real time."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._own = threading.local()

    def __call__(self) -> datetime:
        return cast("datetime", getattr(self._own, "now", self._start))

    def sleep(self, seconds: float) -> None:
        self._own.now = self() + timedelta(seconds=seconds)


@dataclass(slots=True)
class Says:
    """A whole answer: its pages, each a list of facts and notes; an error in place of a page is raised there."""

    pages: Sequence[Iterable[Fact | Note] | Exception] = ((),)
    memo: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)


def says(*items: Fact | Note, **changes: Any) -> Says:
    """An answer of one page."""
    return Says([items], **changes)


def fails(error: Exception) -> Says:
    """A fetch that fails before its first page."""
    return Says([error])


@dataclass(slots=True)
class Unreadable:
    """An answer that is fetched, and that parse cannot read."""

    error: Exception
    body: bytes = b"<html>"


Answers = Says | Unreadable
Script = Callable[[Cell, int], Answers]
"""What is answered to a cell that is asked for the n-th time (from 1)."""


def always(answer: Answers) -> Script:
    """The same answer to everything."""
    return lambda _cell, _time: answer


def in_turn(*answers: Answers) -> Script:
    """One answer after the other, the last one for ever."""
    return lambda _cell, time: answers[min(time, len(answers)) - 1]


@dataclass(slots=True)
class ScriptedFeed:
    """A feed that answers by its script, a call for each page. `asked` is every fetch that got to its first call, with
    its memo; `calls` the time of every page.
    """

    provider: str = "cloud"
    name: str = "stock"
    script: Script = field(default_factory=lambda: always(says()))
    every: timedelta = MINUTE
    fresh_for: timedelta = 3 * MINUTE
    absent: Level = Level.OUT
    places: tuple[str, ...] | None = ("r1",)
    """Its cells; None: one for each region it is told."""
    limit_key: str = ""
    pauses_by_place: bool = False
    per_second: float = 1e9
    clock: Callable[[], datetime] | None = None
    before: Callable[[Cell], None] = lambda _cell: None
    """Runs at the start of each fetch, in its thread."""
    asked: list[tuple[Cell, Mapping[str, str]]] = field(default_factory=list)
    calls: list[datetime] = field(default_factory=list)
    most_at_once: int = 0
    """The most fetches of one cell that were ever under way together."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _under_way: dict[Cell, int] = field(default_factory=dict)
    _answers: dict[str, Sequence[Fact | Note] | Exception] = field(default_factory=dict)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        return [Cell(self.provider, self.name, place) for place in (regions if self.places is None else self.places)]

    def limit(self, cell: Cell) -> Limit:
        pause_key = f"{cell.provider}:{cell.place}" if self.pauses_by_place else ""
        return Limit(self.limit_key or f"{cell.provider}:{cell.place}", self.per_second, pause_key)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        calling()
        with self._lock:
            self.asked.append((cell, dict(memo)))
            time = sum(asked == cell for asked, _ in self.asked)
            self._under_way[cell] = self._under_way.get(cell, 0) + 1
            self.most_at_once = max(self.most_at_once, self._under_way[cell])
        try:
            self.before(cell)
            yield from self._pages(cell, now, time)
        finally:
            with self._lock:
                self._under_way[cell] -= 1

    def _pages(self, cell: Cell, now: datetime, time: int) -> Iterator[Page]:
        answer = self.script(cell, time)
        if isinstance(answer, Unreadable):
            name = f"{cell.place} {time}"
            self._answers[name] = answer.error
            yield Page(name, answer.body, now, cell.place, cell.part)
            return
        for number, page in enumerate(answer.pages):
            if number:
                calling()
            with self._lock:
                self.calls.append(self.clock() if self.clock else now)
            if isinstance(page, Exception):
                raise page
            name = f"{cell.place} {time} {number}"
            self._answers[name] = list(page)
            yield Page(name, b"{}", now, cell.place, cell.part, answer.skipped, answer.memo, answer.missing)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        answer = self._answers[page.name]
        if isinstance(answer, Exception):
            raise answer
        return iter(answer)


def as_feed(feed: ScriptedFeed) -> Feed:
    """The same, for the type checker: a script's name and intervals are its own, a Feed's are its class's."""
    return cast("Feed", feed)


@dataclass(slots=True)
class ScriptedProvider:
    """A provider of scripted feeds; `missing` are the feeds that are off, with what to set."""

    name: str
    running: Sequence[ScriptedFeed]
    missing: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = (Evidence.REPORTED,)
    account: bool = True

    def feeds(self) -> Iterable[Feed]:
        return [as_feed(feed) for feed in self.running]

    def off(self) -> Mapping[str, str]:
        return self.missing


def configured(
    *feeds: ScriptedFeed,
    off: Mapping[str, str] | None = None,
    intervals: Mapping[str, timedelta] | None = None,
    name: str = "cloud",
    **config: Any,
) -> Configured:
    """A provider of these feeds, with settings of its own."""
    built = ScriptedProvider(feeds[0].provider if feeds else name, feeds, off or {})
    return Configured(cast("Provider", built), Config(**config), intervals or {})
