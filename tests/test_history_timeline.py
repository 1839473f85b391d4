"""What points and beats say of a window of time: examples, and what holds for all of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.words import Evidence, Level
from store.timeline import (
    SHARES,
    UNOBSERVED,
    Piece,
    Point,
    PriceSaid,
    Span,
    StockSaid,
    Track,
    by_second,
    changes,
    durations,
    observed,
    pieces,
    shares,
)

T0 = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
IN, LOW, OUT = (StockSaid(level, Evidence.REPORTED) for level in (Level.IN_STOCK, Level.LOW, Level.OUT))
ENDED = StockSaid(Level.UNKNOWN, Evidence.REPORTED)
SCORED = StockSaid(Level.UNKNOWN, Evidence.SCORED)
FAR = 10_000


def at(minute: float) -> datetime:
    return T0 + timedelta(minutes=minute)


def span(start: float, until: float) -> Span:
    return Span(at(start), at(until))


def track(*points: tuple[float, StockSaid], beats: Sequence[tuple[float, float]], cell: int = 1) -> Track[StockSaid]:
    return Track((cell, 7), [Point(at(minute), said) for minute, said in points], [span(*beat) for beat in beats])


def minutes(*tracks: Track[StockSaid], window: Span, now: float = FAR) -> dict[str, float]:
    """How long each level held, as far as it held at all."""
    found = durations(pieces(tracks, window, at(now)))
    return {name: length / timedelta(minutes=1) for name, length in found.items() if length}


def told(*tracks: Track[StockSaid], window: Span, now: float = FAR) -> list[tuple[float, StockSaid]]:
    found = changes(pieces(tracks, window, at(now)))
    return [((point.at - T0) / timedelta(minutes=1), point.said) for point in found]


def spans(*tracks: Track[StockSaid], window: Span, now: float = FAR) -> list[tuple[float, float]]:
    minute = timedelta(minutes=1)
    return [((one.start - T0) / minute, (one.until - T0) / minute) for one in observed(pieces(tracks, window, at(now)))]


# --- one cell


def test_levels_hold_from_point_to_point_while_the_cell_is_observed() -> None:
    one = track((0, IN), (6, OUT), (8, LOW), beats=[(0, 20)])
    assert minutes(one, window=span(0, 10)) == {"in_stock": 6, "out": 2, "low": 2}
    assert told(one, window=span(0, 10)) == [(0, IN), (6, OUT), (8, LOW)]
    assert spans(one, window=span(0, 10)) == [(0, 10)]


def test_what_was_in_force_when_the_window_began_is_told_under_its_own_time() -> None:
    one = track((-300, IN), (-5, OUT), (5, IN), beats=[(-300, 20)])
    assert told(one, window=span(0, 10)) == [(-5, OUT), (5, IN)]
    assert minutes(one, window=span(0, 10)) == {"out": 5, "in_stock": 5}


def test_a_gap_in_the_polls_is_unobserved_and_no_level() -> None:
    one = track((0, IN), (30, OUT), beats=[(0, 10), (25, 60)])
    assert minutes(one, window=span(0, 40)) == {"in_stock": 15, "unobserved": 15, "out": 10}
    assert spans(one, window=span(0, 40)) == [(0, 10), (25, 40)]
    assert told(one, window=span(0, 40)) == [(0, IN), (30, OUT)]


def test_what_sold_out_in_a_gap_is_out_from_when_it_was_seen() -> None:
    one = track((0, IN), (25, OUT), beats=[(0, 10), (25, 60)])
    assert minutes(one, window=span(0, 40)) == {"in_stock": 10, "unobserved": 15, "out": 15}


def test_before_it_began_nothing_is_observed_though_the_cell_is() -> None:
    one = track((6, IN), beats=[(0, 20)])
    assert minutes(one, window=span(0, 10)) == {"unobserved": 6, "in_stock": 4}
    assert spans(one, window=span(0, 10)) == [(6, 10)]


def test_a_window_without_a_beat_is_unobserved_and_its_points_are_told() -> None:
    one = track((-60, IN), (5, OUT), beats=[])
    assert minutes(one, window=span(0, 10)) == {"unobserved": 10}
    assert told(one, window=span(0, 10)) == [(-60, IN), (5, OUT)]


def test_nothing_is_observed_after_now_however_fresh_the_last_answer_is() -> None:
    one = track((0, IN), beats=[(0, 20)])
    assert minutes(one, window=span(0, 40), now=10) == {"in_stock": 10, "unobserved": 30}
    assert minutes(one, window=span(20, 40), now=10) == {"unobserved": 20}


def test_what_is_stated_no_longer_is_unknown_and_not_out() -> None:
    assert minutes(track((0, IN), (4, ENDED), beats=[(0, 20)]), window=span(0, 10)) == {"in_stock": 4, "unknown": 6}


def test_what_was_said_again_is_no_change() -> None:
    one = track((0, IN), (3, IN), (5, OUT), (6, OUT), beats=[(0, 20)])
    assert told(one, window=span(0, 10)) == [(0, IN), (5, OUT)]


def test_a_series_of_nothing_is_unobserved() -> None:
    assert minutes(window=span(0, 10)) == {"unobserved": 10}
    assert told(window=span(0, 10)) == []


def test_the_end_of_a_window_does_not_belong_to_it() -> None:
    one = track((0, IN), (10, OUT), beats=[(0, 20)])
    assert told(one, window=span(0, 10)) == [(0, IN)]
    assert minutes(one, window=span(10, 20)) == {"out": 10}


# --- several cells


def test_the_stronger_evidence_counts_however_old() -> None:
    reported = track((0, IN), beats=[(0, 20)], cell=1)
    scored = track((5, SCORED), beats=[(0, 20)], cell=2)
    assert told(reported, scored, window=span(0, 10)) == [(0, IN)]
    assert minutes(reported, scored, window=span(0, 10)) == {"in_stock": 10}


def test_of_equal_evidence_the_newer_statement_counts() -> None:
    one, other = track((0, IN), (8, LOW), beats=[(0, 20)], cell=1), track((5, OUT), beats=[(0, 20)], cell=2)
    assert told(one, other, window=span(0, 10)) == [(0, IN), (5, OUT), (8, LOW)]


def test_what_one_cell_states_no_longer_another_still_may() -> None:
    one, other = track((0, IN), (5, ENDED), beats=[(0, 20)], cell=1), track((0, LOW), beats=[(0, 20)], cell=2)
    assert minutes(one, other, window=span(5, 10)) == {"low": 5}


def test_what_is_observed_goes_before_what_is_not() -> None:
    one, other = track((0, IN), beats=[(0, 5)], cell=1), track((0, OUT), beats=[(-5, 0), (3, 20)], cell=2)
    assert minutes(one, other, window=span(0, 10)) == {"in_stock": 3, "out": 7}


def test_when_nobody_observes_it_any_more_nothing_changes() -> None:
    reported, scored = track((0, IN), beats=[(0, 4)], cell=1), track((0, SCORED), beats=[(0, 6)], cell=2)
    assert told(reported, scored, window=span(0, 10)) == [(0, IN), (4, SCORED)]
    assert minutes(reported, scored, window=span(0, 10)) == {"in_stock": 4, "unknown": 2, "unobserved": 4}


def test_a_price_goes_before_none() -> None:
    one: Track[PriceSaid] = Track((1, 7), [Point(at(0), PriceSaid(5, "USD"))], [span(0, 20)])
    other: Track[PriceSaid] = Track((2, 7), [Point(at(5), PriceSaid(None, None))], [span(0, 20)])
    assert changes(pieces([one, other], span(0, 10), at(FAR))) == [Point(at(0), PriceSaid(5, "USD"))]


# --- shares


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ([60, 0, 0, 0, 0], ["1", "0", "0", "0", "0"]),
        ([71, 4, 20, 0, 5], ["0.71", "0.04", "0.2", "0", "0.05"]),
        ([1, 1, 1, 0, 0], ["0.3333", "0.3333", "0.3334", "0", "0"]),
        ([0, 0, 2, 0, 1], ["0", "0", "0.6667", "0", "0.3333"]),
        ([10_000_000, 0, 1, 0, 0], ["0.9999", "0", "0.0001", "0", "0"]),
        ([10_000_000, 1, 1, 1, 1], ["0.9996", "0.0001", "0.0001", "0.0001", "0.0001"]),
    ],
)
def test_shares_are_decimals_and_what_happened_is_never_0(lengths: list[int], found: list[str]) -> None:
    told = shares({name: timedelta(minutes=length) for name, length in zip(SHARES, lengths, strict=True)})
    assert list(told) == list(SHARES)
    told_decimals, found_decimals = [Decimal(text) for text in told.values()], list(map(Decimal, found))
    assert sum(told_decimals) == 1
    assert sorted(told_decimals) == sorted(found_decimals)
    assert [share == 0 for share in told_decimals] == [length == 0 for length in lengths]


# --- what holds for all

MINUTES = st.integers(0, 60)
POINTS = st.lists(st.tuples(MINUTES, st.sampled_from([IN, LOW, OUT, ENDED, SCORED])), max_size=6)
BEATS = st.lists(st.tuples(MINUTES, st.integers(1, 30)), max_size=4)
TRACKS = st.lists(st.tuples(POINTS, BEATS), max_size=3).map(
    lambda cells: [
        track(
            *{minute: (minute, said) for minute, said in points}.values(),
            beats=[(start, start + length) for start, length in beats],
            cell=cell,
        )
        for cell, (points, beats) in enumerate(cells)
    ]
)
WINDOWS = st.tuples(st.integers(-5, 60), st.integers(2, 60)).map(lambda ends: span(ends[0], ends[0] + ends[1]))
NOW = st.integers(0, 70)


@given(TRACKS, WINDOWS, NOW)
def test_pieces_fill_the_window_and_shares_add_up_to_1(tracks: list[Track[StockSaid]], window: Span, now: int) -> None:
    parts = pieces(tracks, window, at(now))
    ends = [part.span for part in parts]
    assert [ends[0].start, *(one.until for one in ends)] == [*(one.start for one in ends), window.until]
    lengths = durations(parts)
    assert sum(lengths.values(), timedelta(0)) == window.until - window.start
    told = [Decimal(text) for text in shares(lengths).values()]
    assert sum(told) == 1
    exact = [length / (window.until - window.start) for length in lengths.values()]
    assert all(abs(float(one) - other) <= 0.0005 for one, other in zip(told, exact, strict=True))


@given(TRACKS, WINDOWS, NOW, st.data())
def test_a_window_is_the_sum_of_its_parts(
    tracks: list[Track[StockSaid]], window: Span, now: int, data: st.DataObject
) -> None:
    length = int((window.until - window.start) / timedelta(minutes=1))
    middle = window.start + timedelta(minutes=data.draw(st.integers(1, length - 1)))
    whole, first, second = (
        durations(pieces(tracks, part, at(now)))
        for part in (window, Span(window.start, middle), Span(middle, window.until))
    )
    assert whole == {name: first[name] + second[name] for name in SHARES}


@given(TRACKS, WINDOWS, NOW, st.randoms(use_true_random=False))
def test_the_order_of_rows_never_matters(
    tracks: list[Track[StockSaid]], window: Span, now: int, shuffle: Random
) -> None:
    mixed = [
        Track(one.source, shuffle.sample(one.points, len(one.points)), shuffle.sample(one.beats, len(one.beats)))
        for one in shuffle.sample(tracks, len(tracks))
    ]
    assert pieces(mixed, window, at(now)) == pieces(tracks, window, at(now))


@given(TRACKS, WINDOWS, NOW)
def test_the_unobserved_is_never_a_level(tracks: list[Track[StockSaid]], window: Span, now: int) -> None:
    """A poll that failed moves no beat: taking all beats away leaves no level, and one beat less none that is new."""
    silent = [Track(one.source, one.points, []) for one in tracks]
    assert durations(pieces(silent, window, at(now)))[UNOBSERVED] == window.until - window.start
    fewer = [Track(one.source, one.points, one.beats[1:]) for one in tracks]
    less, more = (durations(pieces(some, window, at(now)))[UNOBSERVED] for some in (tracks, fewer))
    assert more >= less


@given(TRACKS, WINDOWS, NOW)
def test_a_level_is_only_told_where_somebody_said_it_and_was_observed(
    tracks: list[Track[StockSaid]], window: Span, now: int
) -> None:
    parts: list[Piece[StockSaid]] = pieces(tracks, window, at(now))
    for part in parts:
        if part.observed:
            assert part.point is not None
            assert part.span.until <= at(now)
            assert any(
                beat.start <= part.span.start and part.span.until <= beat.until and part.point in one.points
                for one in tracks
                for beat in _joined(one.beats)
            )


def _joined(beats: Sequence[Span]) -> list[Span]:
    """Beats that overlap as one."""
    found: list[Span] = []
    for beat in sorted(beats, key=lambda one: one.start):
        if found and beat.start <= found[-1].until:
            found[-1] = Span(found[-1].start, max(found[-1].until, beat.until))
        else:
            found.append(beat)
    return found


@given(TRACKS, WINDOWS, NOW)
def test_changes_are_changes_in_order_and_in_the_window(tracks: list[Track[StockSaid]], window: Span, now: int) -> None:
    found = changes(pieces(tracks, window, at(now)))
    assert all(one.said != other.said and one.at < other.at for one, other in pairwise(found))
    assert all(window.start < point.at < window.until for point in found[1:])
    stated = {point for one in tracks for point in one.points}
    assert all(point in stated or point.at >= window.start for point in found)


SECOND = 1 / 60
SAID = st.sampled_from([IN, LOW, OUT, ENDED])


@given(st.lists(st.tuples(st.integers(0, 6_000_000), SAID), max_size=40, unique_by=lambda point: point[0]))
def test_a_second_has_one_point_the_last_of_it_and_neighbours_differ(drawn: list[tuple[int, StockSaid]]) -> None:
    points = [Point(T0 + timedelta(microseconds=after), said) for after, said in sorted(drawn, key=lambda one: one[0])]
    found = by_second(points)
    shown = [point.at.replace(microsecond=0) for point in found]
    assert shown == sorted(set(shown))
    assert all(one.said != other.said for one, other in pairwise(found))
    for second in range(7):
        until = T0 + timedelta(seconds=second + 1)
        stands = [point.said for point in points if point.at < until][-1:]
        assert [point.said for point in found if point.at < until][-1:] == stands


def test_what_is_taken_back_within_a_second_is_no_change() -> None:
    points = [Point(at(0), IN), Point(at(SECOND), OUT), Point(at(SECOND * 1.5), IN), Point(at(SECOND * 1.8), LOW)]
    assert by_second(points[:3]) == points[:1]
    assert by_second(points) == [points[0], points[3]]
