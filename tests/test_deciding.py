"""What is told of a watch: the table of docs/alerts.md row by row, and random lives of watches by hypothesis."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.deciding import Telling, decide, due_at, first
from alerts.memory import Memory
from catalog.watches import CHOSEN, EventType, OfferKey, Sight, State, Watch

START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
A: OfferKey = ("tencent", "ap-guangzhou", "ap-guangzhou-3", "GN10Xp.2XLARGE40", "on_demand", "")
B: OfferKey = ("alibaba", "cn-guangzhou", "cn-guangzhou-a", "ecs.gn6v", "on_demand", "")
OUT, LOW, BACK = EventType.STOCK_OUT, EventType.STOCK_LOW, EventType.STOCK_BACK


def watch(**more: Any) -> Watch:
    rules: dict[str, Any] = {"events": frozenset(CHOSEN)}
    return Watch(id="w", name="w", spec={"gpu": ("v100",)}, notify=("ops",), created_at=START, **(rules | more))


def at(minute: float, *, polled: float | None = None, **more: Any) -> Sight:
    """What is seen so many minutes after the start, by a poll of that moment or of another."""
    now, seen = (START + timedelta(minutes=one) for one in (minute, minute if polled is None else polled))
    for name in ("confirmed", "out"):
        more[name] = dict.fromkeys(more.get(name, ()), seen)
    return Sight(now=now, **({"intervals": POLLED} | more))


POLLED = {"tencent": timedelta(minutes=1), "alibaba": timedelta(minutes=1)}


def in_stock(minute: float, *keys: OfferKey, low: bool = False, **more: Any) -> Sight:
    return at(minute, confirmed=keys or (A,), only_low=low, **more)


def out(minute: float, *keys: OfferKey, went: bool = False, **more: Any) -> Sight:
    gone = keys or (A,)
    return at(minute, out=gone, went_out=frozenset(gone if went else ()), **more)


def unseen(minute: float, **more: Any) -> Sight:
    return at(minute, **more)


def lived(rules: Watch, sights: Iterable[Sight]) -> tuple[Memory, list[tuple[EventType, float]]]:
    """What is told, each with its minute, of a watch that is made at the first sight."""
    found: list[tuple[EventType, float]] = []
    memory: Memory | None = None
    for sight in sights:
        if memory is None:
            memory = first(rules, sight)
            continue
        memory, tellings = decide(rules, Memory.read(memory.written()), sight)
        found += [(one.type, (sight.now - START) / timedelta(minutes=1)) for one in tellings]
    assert memory is not None
    return memory, found


def told(rules: Watch, *sights: Sight) -> list[tuple[EventType, float]]:
    return lived(rules, sights)[1]


# --- stock: the table


DEAR = frozenset({A})
TABLE: Mapping[str, tuple[Sequence[Sight], Sequence[tuple[EventType, float]]]] = {
    "seen to sell out": ([in_stock(0), out(1, went=True)], [(OUT, 1)]),
    "told once": ([in_stock(0), out(1, went=True), out(2)], [(OUT, 1)]),
    "out by a price, a filter or what failed beside it": ([in_stock(0), out(1)], []),
    "nothing seen": ([in_stock(0), unseen(1)], []),
    "out, with what was in stock unseen": ([in_stock(0), unseen(1), out(2, B)], []),
    "sold out while nobody looked": ([in_stock(0), unseen(1), out(2, went=True)], [(OUT, 2)]),
    "a price went up and down before it sold out": (
        [in_stock(0), out(1, B), in_stock(2), out(3, went=True)],
        [(OUT, 3)],
    ),
    "seen to come back": ([out(0), in_stock(1)], [(BACK, 1)]),
    "another came back": ([out(0), in_stock(1, B)], [(BACK, 1)]),
    "in stock all along, and now cheap enough": ([out(0, B, unaffordable=DEAR), in_stock(1)], []),
    "the same, once it was out meanwhile": (
        [out(0, B, unaffordable=DEAR), out(1, A, B), in_stock(2)],
        [(BACK, 2)],
    ),
    "came back too dear, and is cheap enough later": (
        [out(0), at(1, unaffordable=DEAR), in_stock(2)],
        [(BACK, 2)],
    ),
    "back while nobody looked": ([out(0), unseen(1), in_stock(2)], [(BACK, 2)]),
    "matching by a price first, then restocked": (
        [out(0, B, unaffordable=DEAR), in_stock(1), in_stock(2, A, B)],
        [(BACK, 2)],
    ),
    "matching by a price, then sold out: nobody was told that it is back": (
        [out(0, B, unaffordable=DEAR), in_stock(1), out(2, went=True)],
        [],
    ),
    "a region that is read for the first time": (
        [out(0), in_stock(1, B, first_read=frozenset({B})), in_stock(2, B)],
        [],
    ),
    "each change is told": (
        [in_stock(0), out(1, went=True), in_stock(2), out(3, went=True)],
        [(OUT, 1), (BACK, 2), (OUT, 3)],
    ),
    "the first known state is what there was": ([unseen(0), in_stock(1)], []),
    "the first known state may be out": ([unseen(0), out(1, went=True)], []),
    "and is what is compared with": ([unseen(0), out(1), in_stock(2)], [(BACK, 2)]),
    "all that is left is low": ([in_stock(0), in_stock(1, low=True, went_low=True)], [(LOW, 1)]),
    "low by a price or a filter": ([in_stock(0), in_stock(1, low=True)], []),
    "the others sold out, and what is left is low": (
        [in_stock(0, A, B), in_stock(1, low=True, out=(B,), went_out=frozenset({B}))],
        [(LOW, 1)],
    ),
    "low from the start": ([in_stock(0, low=True), in_stock(1, low=True, went_low=True)], []),
    "low is told once": ([in_stock(0), in_stock(1, low=True, went_low=True), in_stock(2, low=True)], [(LOW, 1)]),
    "and again after it was in stock": (
        [in_stock(0), in_stock(1, low=True, went_low=True), in_stock(2), in_stock(3, low=True, went_low=True)],
        [(LOW, 1), (LOW, 3)],
    ),
    "low, then out": ([in_stock(0), in_stock(1, low=True, went_low=True), out(2, went=True)], [(LOW, 1), (OUT, 2)]),
}


@pytest.mark.parametrize(("sights", "expected"), TABLE.values(), ids=TABLE)
def test_the_table(sights: Sequence[Sight], expected: list[tuple[EventType, float]]) -> None:
    assert told(watch(), *sights) == expected


def test_the_state_is_the_last_known_one_and_what_was_seen_last_stands_beside() -> None:
    memory, _ = lived(watch(), [in_stock(0), unseen(5)])
    assert (memory.state, memory.seen, memory.since) == (State.AVAILABLE, State.UNKNOWN, START)
    memory, found = lived(watch(), [in_stock(0), out(5)])
    assert (memory.state, memory.since, found) == (State.OUT, START + timedelta(minutes=5), [])


# --- holds


def test_flapping_inside_the_hold_tells_nothing_and_what_lasts_is_told_once() -> None:
    """Polls in, out, in, out within a minute, hold 2m; then out held."""
    rules = watch(hold=timedelta(minutes=2))
    flapping = [in_stock(0), out(0.25, went=True), in_stock(0.5), out(0.75, went=True)]
    lasting = [out(minute) for minute in (1.75, 2.74, 2.75, 3.75, 4.75)]
    back = [in_stock(6), in_stock(7)]
    assert told(rules, *flapping) == []
    assert told(rules, *flapping, *lasting, *back) == [(OUT, 2.75), (BACK, 6)]


def test_both_holds_and_a_second_poll() -> None:
    """One sample a minute: out, in, out, in, out, in, in, in; both holds a minute: back at the seventh."""
    rules = watch(hold=timedelta(minutes=1), hold_back=timedelta(minutes=1))
    there = [False, True, False, True, False, True, True, True]
    assert told(rules, *(in_stock(n) if one else out(n, went=True) for n, one in enumerate(there))) == [(BACK, 6)]


def test_without_holds_every_change_is_told_when_it_is_seen() -> None:
    samples = [out(0), in_stock(1), in_stock(2), out(3, went=True), in_stock(4)]
    assert told(watch(), *samples) == [(BACK, 1), (OUT, 3), (BACK, 4)]


def test_a_hold_runs_out_by_the_clock() -> None:
    """Where the feed is polled too seldom for a second poll in it, and nothing new is seen."""
    rules, seldom = watch(hold=timedelta(minutes=2)), {"tencent": timedelta(minutes=5)}
    memory, found = lived(rules, [in_stock(0), out(1, went=True, intervals=seldom)])
    assert due_at(rules, memory) == START + timedelta(minutes=3)
    later = out(3, polled=1, intervals=seldom)
    assert (found, [one.type for one in decide(rules, memory, later)[1]]) == ([], [OUT])


def test_two_polls_must_see_what_is_polled_at_least_twice_in_the_hold() -> None:
    rules = watch(hold=timedelta(minutes=2))
    once, again = out(1, went=True), out(4, polled=1)
    assert told(rules, in_stock(0), once, again) == []
    assert told(rules, in_stock(0), once, again, out(5)) == [(OUT, 5)]


def test_the_second_poll_is_of_what_changed_and_not_of_what_was_out_before() -> None:
    rules = watch(hold=timedelta(minutes=2))
    began = START + timedelta(minutes=1)
    first_seen = Sight(now=began, out={A: began, B: began}, went_out=frozenset({A}), intervals=POLLED)
    other = Sight(now=START + timedelta(minutes=4), out={A: began, B: START + timedelta(minutes=4)}, intervals=POLLED)
    assert told(rules, in_stock(0, A), first_seen, other) == []
    gone = Sight(now=START + timedelta(minutes=4), out={B: START + timedelta(minutes=4)}, intervals=POLLED)
    memory, found = lived(rules, [in_stock(0, A), first_seen, gone])
    assert (found, memory.going_out) == ([], None), "what changed is not listed any more"


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    rules = watch(hold=timedelta(minutes=2), remind=timedelta(minutes=10))
    memory, _ = lived(rules, [in_stock(60), out(61, went=True)])
    memory, found = decide(rules, memory, out(1))
    assert found == []
    memory, (one,) = decide(rules, memory, out(3))
    assert one.type is OUT
    assert [each.type for each in decide(rules, memory, out(13))[1]] == [EventType.REMINDER]


def test_a_hold_begins_anew_while_nobody_sees() -> None:
    rules = watch(hold=timedelta(minutes=2))
    assert told(rules, in_stock(0), out(1, went=True), unseen(2.5), out(3), out(4)) == []
    assert told(rules, in_stock(0), out(1, went=True), unseen(2.5), out(3), out(4.5)) == [(OUT, 4.5)]


def test_a_telling_says_since_when_and_between_which_states() -> None:
    rules = watch(hold=timedelta(minutes=2))
    memory, _ = lived(rules, [in_stock(0), out(1, went=True, at_once=frozenset({A[:2]}))])
    _, (one,) = decide(rules, memory, out(3))
    since = START + timedelta(minutes=1)
    assert one == Telling(type=OUT, since=since, states=(State.AVAILABLE, State.OUT), at_once="tencent")


def test_only_what_was_chosen_is_told_and_all_is_remembered() -> None:
    rules = watch(events=frozenset({BACK}))
    assert told(rules, in_stock(0), out(1, went=True), in_stock(2)) == [(BACK, 2)]


# --- prices


def priced(minute: float, value: str | None, *, best: OfferKey = A, currency: str = "CNY", **more: Any) -> Sight:
    amount = None if value is None else Fraction(value)
    nanos = None if amount is None else int(amount * 10**9)
    return in_stock(minute, best=best, value=amount, native_nanos=nanos, native_currency=currency, **more)


BELOW, CHANGED, BEST = EventType.PRICE_BELOW, EventType.PRICE_CHANGED, EventType.BEST_CHANGED


def test_below_the_limit_is_told_once_and_again_after_it_was_above() -> None:
    rules = watch(events=frozenset({BELOW}), price_below=Decimal("1.80"))
    values = ["2", "1.80", "1.79", "1.70", None, "1.75", "1.80", "1.79"]
    sights = [priced(minute, value) for minute, value in enumerate(values)]
    assert told(rules, *sights) == [(BELOW, 2), (BELOW, 7)]
    assert told(rules, priced(0, "1.5"), priced(1, "1.4")) == []
    assert told(rules, unseen(0), priced(1, "1.5")) == [(BELOW, 1)], "without a price it was not below"


def test_below_another_limit_is_no_news() -> None:
    rules = watch(events=frozenset({BELOW}), price_below=Decimal("1.5"))
    memory, _ = lived(rules, [priced(0, "1.8"), priced(1, "1.8")])
    other = replace(rules, price_below=Decimal("2.0"))
    memory, found = decide(other, memory, priced(2, "1.8"))
    assert found == []
    assert [one.type for one in decide(other, decide(other, memory, priced(3, "2"))[0], priced(4, "1.9"))[1]] == [BELOW]


def test_a_price_is_told_as_changed_from_one_percent_on_of_what_was_told_last() -> None:
    rules = watch(events=frozenset({CHANGED}))
    values = ["10", "10.0000000000001", "10.05", "10.09", "10.10", "10.19", "10.19", "9"]
    sights = [priced(minute, value) for minute, value in enumerate(values)]
    assert told(rules, *sights) == [(CHANGED, 4), (CHANGED, 7)]
    exact = watch(events=frozenset({CHANGED}), change_percent=Decimal(0))
    assert told(exact, priced(0, "10"), priced(1, "10"), priced(2, "10.000001")) == [(CHANGED, 2)]


def test_another_offer_or_currency_is_no_changed_price() -> None:
    rules = watch(events=frozenset({CHANGED, BEST}))
    assert told(rules, priced(0, "10"), priced(1, "20", best=B), priced(2, "20", best=B)) == [(BEST, 1)]
    assert told(rules, priced(0, "10"), priced(1, "1.4", currency="USD")) == []
    assert told(rules, priced(0, "10"), in_stock(1), priced(2, "10")) == []


# --- sources, the clock, the cap


def test_a_source_is_told_once_to_be_stale_and_once_to_be_back() -> None:
    stale, back = EventType.SOURCE_STALE, EventType.SOURCE_BACK
    of = {"blind": frozenset({"tencent"}), "lapsed": frozenset({"tencent"}), "stale": frozenset({A})}
    gone = [unseen(minute, **of) for minute in (1, 30, 60)]
    sights = [
        in_stock(0),
        *gone,
        unseen(61, lapsed=frozenset({"tencent"})),
        in_stock(62, seeing=frozenset({"tencent"})),
    ]
    assert told(watch(), *sights) == [(stale, 1), (back, 62)]
    assert told(watch(), gone[0], gone[1]) == []
    unlisted = [in_stock(0), gone[0], in_stock(2, B), unseen(3, **of)]
    assert told(watch(), *unlisted) == [(stale, 1), (stale, 3)], "what left the list meanwhile is told of anew"


def test_still_out_is_told_again_and_again() -> None:
    rules = watch(remind=timedelta(minutes=10))
    sights = [in_stock(0), out(1, went=True), *(out(minute) for minute in range(2, 33))]
    reminder = EventType.REMINDER
    there = out(0, B, unaffordable=DEAR), in_stock(20)
    assert told(rules, *there) == [], "not while it can be had, though by its price alone"
    assert told(rules, *sights) == [(OUT, 1), (reminder, 11), (reminder, 21), (reminder, 31)]


def test_a_heartbeat_comes_whatever_is_seen() -> None:
    rules = watch(heartbeat=timedelta(hours=1))
    assert told(rules, in_stock(0), unseen(59), unseen(60), unseen(90), in_stock(120)) == [
        (EventType.HEARTBEAT, 60),
        (EventType.HEARTBEAT, 120),
    ]


def test_a_watch_that_expires_says_so_once_and_nothing_more() -> None:
    rules = watch(expires_at=START + timedelta(minutes=5), heartbeat=timedelta(minutes=1))
    found = told(rules, in_stock(0), in_stock(5), out(6, went=True))
    assert found == [(EventType.EXPIRED, 5)]
    capped = replace(rules, daily_cap=1, heartbeat=None)
    flips = [in_stock(0), out(1, went=True), in_stock(2), in_stock(5)]
    assert told(capped, *flips) == [(OUT, 1), (EventType.SUMMARY, 5), (EventType.EXPIRED, 5)]


def test_the_daily_cap_holds_back_and_tells_how_much_on_the_next_day() -> None:
    rules = watch(daily_cap=2)
    changes = (out(minute, went=True) if minute % 2 else in_stock(minute) for minute in range(1, 6))
    flips = [in_stock(0), *changes]
    midnight = 16 * 60
    memory, found = lived(rules, [*flips, out(midnight - 1)])
    assert found == [(OUT, 1), (BACK, 2)]
    assert due_at(rules, memory) == START + timedelta(minutes=midnight)
    memory, (summary,) = decide(rules, memory, out(midnight))
    assert (summary.type, summary.held) == (EventType.SUMMARY, {"stock.out": 2, "stock.back": 1})
    assert [one.type for one in decide(rules, memory, in_stock(midnight + 1))[1]] == [BACK]


# --- random lives


@st.composite
def lives(draw: st.DrawFn) -> list[Sight]:
    """Two offers that sell out, come back, are not seen for a while, and stop or begin to match by their price."""
    kept: dict[OfferKey, bool] = {}
    sights: list[Sight] = []
    minute = 0.0
    for _ in range(draw(st.integers(1, 25))):
        minute += draw(st.sampled_from([0.1, 0.5, 1, 2, 5]))
        there = {key: draw(st.booleans()) for key in (A, B) if draw(st.sampled_from([True, True, True, False]))}
        fits = {key for key in (A, B) if draw(st.sampled_from([True, True, True, False]))}
        gone = {key for key in fits if there.get(key) is False}
        sights.append(
            at(
                minute,
                confirmed=tuple(key for key in fits if there.get(key)),
                out=tuple(gone),
                stale=frozenset(fits - there.keys()),
                unaffordable=frozenset(key for key in (A, B) if there.get(key) and key not in fits),
                went_out=frozenset(key for key in gone if kept.get(key)),
            )
        )
        kept |= there
    return sights


@given(lives(), st.sampled_from([0, 1, 3]), st.sampled_from([0, 2]))
def test_whatever_happens_out_and_back_take_turns_and_rest_on_what_is_seen(
    sights: list[Sight], hold: float, hold_back: float
) -> None:
    rules = watch(hold=timedelta(minutes=hold), hold_back=timedelta(minutes=hold_back))
    memory = first(rules, sights[0])
    believed = memory.told
    for sight in sights[1:]:
        memory, tellings = decide(rules, Memory.read(memory.written()), sight)
        if believed is State.UNKNOWN:
            assert not tellings
            believed = memory.told
        for telling in tellings:
            assert telling.states == (believed, sight.state), "from what is believed to what is seen"
            assert sight.state is not believed
            assert sight.now - telling.since >= (rules.hold if telling.type is OUT else rules.hold_back)
            believed = sight.state
        assert memory.told is believed


@given(lives())
def test_without_holds_what_is_seen_to_sell_out_is_told_at_once_and_what_was_out_is_told_back(
    sights: list[Sight],
) -> None:
    memory = first(watch(), sights[0])
    seen_out: set[OfferKey] = set()
    for sight in sights[1:]:
        before = memory.told
        seen_out = (seen_out | sight.out.keys()) if before is State.OUT else set(sight.out)
        memory, tellings = decide(watch(), memory, sight)
        kinds = [one.type for one in tellings]
        if before is State.AVAILABLE and sight.state is State.OUT:
            assert kinds == ([OUT] if sight.went_out else [])
        elif before is State.OUT and seen_out & sight.confirmed.keys():
            assert kinds == [BACK]
        elif sight.state is State.UNKNOWN or before is sight.state:
            assert kinds == []


@given(lives(), st.sampled_from([0, 1, 3]))
def test_a_look_that_is_repeated_tells_nothing_again(sights: list[Sight], hold: float) -> None:
    """As after a restart: nothing is lost, since the memory is what it was, and nothing is told twice."""
    rules = watch(hold=timedelta(minutes=hold))
    memory = first(rules, sights[0])
    for sight in sights[1:]:
        memory, _ = decide(rules, memory, sight)
        handled = replace(sight, went_out=frozenset(), went_low=False)
        again, tellings = decide(rules, memory, handled)
        assert (again, tellings) == (memory, [])
