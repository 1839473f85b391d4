"""What points and beats say of a window of time. Pure.

A point says what is stated from its time on; a beat, that the cell was observed throughout. Outside of its beats what a
cell stated last is not unchanged but unobserved. Where several cells state one thing, at each moment that statement
counts which is observed, then which says something, then which has the stronger evidence, then which is newer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

from catalog.words import EVIDENCES, Evidence, Level

UNOBSERVED = "unobserved"
SHARES = (Level.IN_STOCK.value, Level.LOW.value, Level.OUT.value, Level.UNKNOWN.value, UNOBSERVED)
"""The names of the shares, in the order in which they are told."""
_MICROSECOND = timedelta(microseconds=1)
_UNITS = 10_000
"""A share has four decimals."""


class Said(Protocol):
    """What a point states."""

    @property
    def weight(self) -> tuple[int, ...]:
        """Of two statements the one that weighs more goes before the other, however old."""
        ...


@dataclass(frozen=True, slots=True)
class PriceSaid:
    """A price in nano-units of its currency, per whole machine and hour; both None where none is stated any more."""

    nanos: int | None
    currency: str | None

    @property
    def weight(self) -> tuple[int, ...]:
        """A price goes before none."""
        return (self.nanos is not None,)


@dataclass(frozen=True, slots=True)
class StockSaid:
    """A stock level and its evidence; `unknown` also where none is stated any more."""

    level: Level
    evidence: Evidence

    @property
    def weight(self) -> tuple[int, ...]:
        """What tells a level goes before what does not, then the stronger evidence."""
        return (self.level is not Level.UNKNOWN, -EVIDENCES.index(self.evidence))


S = TypeVar("S", bound=Said)


@dataclass(frozen=True, slots=True)
class Span:
    """From a time on, until before another. Aware UTC times."""

    start: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Point(Generic[S]):
    """What is stated from a time on."""

    at: datetime
    said: S


@dataclass(frozen=True, slots=True)
class Track(Generic[S]):
    """What one cell said of one thing, and when it was observed. `source` tells tracks apart."""

    source: tuple[int, int]
    points: Sequence[Point[S]]
    beats: Sequence[Span]


@dataclass(frozen=True, slots=True)
class Piece(Generic[S]):
    """A part of a window in which nothing changed. `point` is None before anything was stated."""

    span: Span
    point: Point[S] | None
    observed: bool


def pieces(tracks: Iterable[Track[S]], window: Span, now: datetime) -> list[Piece[S]]:
    """The window in parts, one after the other without a gap. Nothing is observed yet after `now`.

    While nothing is observed, what was said last stands, until somebody says something else.
    """
    runs = sorted((_Run(track, now) for track in tracks), key=lambda run: run.source)
    moments = {window.start}.union(*(run.moments(window) for run in runs))
    held: _Run[S] | None = None
    found = []
    for start, until in pairwise([*sorted(moments), window.until]):
        for run in runs:
            run.go_to(start)
        stated = [run for run in runs if run.point is not None]
        live = [run for run in stated if run.observed]
        if live or held is None:
            held = max(live or stated, key=lambda run: run.rank(), default=None)
        else:
            held = max([held, *(run for run in stated if run.arrived)], key=lambda run: run.rank())
        found.append(Piece(Span(start, until), None if held is None else held.point, bool(live)))
    return found


class _Run(Generic[S]):
    """A track that is gone along."""

    def __init__(self, track: Track[S], now: datetime) -> None:
        self.source = track.source
        self.point: Point[S] | None = None
        self.arrived = False
        self.observed = False
        self._points = sorted(track.points, key=lambda point: point.at)
        clipped = (Span(beat.start, min(beat.until, now)) for beat in track.beats)
        self._beats = sorted((beat for beat in clipped if beat.start < beat.until), key=lambda beat: beat.start)
        self._next_point = self._next_beat = 0
        self._observed_until: datetime | None = None

    def moments(self, window: Span) -> set[datetime]:
        """When anything changes inside a window."""
        times = {point.at for point in self._points}
        times |= {time for beat in self._beats for time in (beat.start, beat.until)}
        return {time for time in times if window.start < time < window.until}

    def go_to(self, moment: datetime) -> None:
        """How things stand from this moment on, which is not before the last one."""
        self.arrived = False
        while self._next_point < len(self._points) and self._points[self._next_point].at <= moment:
            self.point, self.arrived = self._points[self._next_point], True
            self._next_point += 1
        while self._next_beat < len(self._beats) and self._beats[self._next_beat].start <= moment:
            until = self._beats[self._next_beat].until
            self._observed_until = max(self._observed_until or until, until)
            self._next_beat += 1
        self.observed = self._observed_until is not None and moment < self._observed_until

    def rank(self) -> tuple[object, ...]:
        """The greatest counts."""
        assert self.point is not None  # noqa: S101 - only runs with a point are compared
        return (self.point.said.weight, self.point.at, self.source)


def changes(parts: Iterable[Piece[S]]) -> list[Point[S]]:
    """What was stated, where it is another thing than before.

    The first point is what was in force when the window began, under its own time, where anything was.
    """
    found: list[Point[S]] = []
    for part in parts:
        if part.point is None or (found and found[-1].said == part.point.said):
            continue
        found.append(Point(part.span.start, part.point.said) if found else part.point)
    return found


def by_second(points: Iterable[Point[S]]) -> list[Point[S]]:
    """The same for whom times are whole seconds: of several points in one second the last, where that is a change."""
    found: list[Point[S]] = []
    for point in points:
        if found and found[-1].at.replace(microsecond=0) == point.at.replace(microsecond=0):
            found.pop()
        if not found or found[-1].said != point.said:
            found.append(point)
    return found


def observed(parts: Iterable[Piece[S]]) -> list[Span]:
    """When anything stated was observed: the longest spans, in order."""
    found: list[Span] = []
    for part in parts:
        if not part.observed:
            continue
        if found and found[-1].until == part.span.start:
            found[-1] = Span(found[-1].start, part.span.until)
        else:
            found.append(part.span)
    return found


def durations(parts: Iterable[Piece[StockSaid]]) -> dict[str, timedelta]:
    """How long each level held while it was observed, and how long nothing was observed; together the whole window."""
    found = dict.fromkeys(SHARES, timedelta(0))
    for part in parts:
        name = part.point.said.level.value if part.observed and part.point is not None else UNOBSERVED
        found[name] += part.span.until - part.span.start
    return found


def shares(lengths: Mapping[str, timedelta]) -> dict[str, str]:
    """Each length as a share of all of them: decimals of at most four places that add up to exactly 1.

    What happened at all is never told as 0, and so nothing is told as 1 but what was so throughout.
    """
    micros = {name: length // _MICROSECOND for name, length in lengths.items()}  # a timedelta overflows in centuries
    exact = {name: divmod(length * _UNITS, sum(micros.values())) for name, length in micros.items()}
    units = {name: max(floor, int(lengths[name] > timedelta(0))) for name, (floor, _) in exact.items()}
    left = _UNITS - sum(units.values())
    raised = sorted((name for name in exact if units[name] == exact[name][0]), key=lambda name: exact[name][1])
    for name in raised[len(raised) - max(left, 0) :]:
        units[name] += 1
    if left < 0:
        units[max(units, key=lambda name: units[name])] += left
    return {name: _decimal(number) for name, number in units.items()}


def _decimal(units: int) -> str:
    return f"{units // _UNITS}.{units % _UNITS:04d}".rstrip("0").rstrip(".")
