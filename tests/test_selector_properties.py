"""What holds of any answer over any offers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from functools import cmp_to_key
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.offers import Offer
from catalog.spec import Spec
from catalog.words import LEVELS, Evidence, Level
from selector.context import Context
from selector.question import understand
from selector.rank import browse, rank
from selector.ranking import Match, Ranking, Verdict
from selector.why_not import why_not
from tests.support.offers import NOW, RATES, Here, index_of, offer, unasked

CONTEXT = Context(now=NOW, rates=RATES, accounts=frozenset({("tencent", "")}))
FRESH, STALE = timedelta(seconds=40), timedelta(minutes=4)

_stocks = st.sampled_from(
    [
        ("in_stock", "reported", ""),
        ("low", "reported", ""),
        ("out", "reported", ""),
        ("unknown", "listed", ""),
        ("unknown", "scored", ""),
        ("unknown", "reported", "restricted: quota"),
    ]
)
_places = st.sampled_from(
    [("tencent", "r1", "a"), ("tencent", "r1", "b"), ("tencent", "r2", "a"), ("tencent", "r3", ""), ("aws", "r1", "a")]
)
_rows = st.builds(
    lambda place, machine, purchase, price, currency, count, stock, age, price_age: offer(
        place[0],
        place[1],
        place[2] or None,
        instance_type=machine,
        gpu={"m1": "t4", "m2": "a100-sxm4-80g", "m3": "t4"}[machine],
        purchase=purchase,
        price=price,
        currency=currency,
        count=count,
        level=stock[0],
        evidence=stock[1],
        detail=stock[2],
        age=age,
        price_age=price_age,
    ),
    _places,
    st.sampled_from(["m1", "m2", "m3"]),
    st.sampled_from(["on_demand", "spot"]),
    st.sampled_from([None, "0.5", "1", "1.0", "1.5", "2"]),
    st.sampled_from(["USD", "USD", "CNY", "ISK"]),
    st.sampled_from([Fraction(1), Fraction(1), Fraction(2), Fraction(1, 4)]),
    _stocks,
    st.sampled_from([FRESH, FRESH, STALE]),
    st.sampled_from([FRESH, FRESH, timedelta(days=9)]),
)


def _identity(each: Offer) -> tuple[str, ...]:
    return (*each.sort_key(), each.place.zone_key)


offers_lists = st.lists(_rows, max_size=14, unique_by=_identity)
questions = st.fixed_dictionaries(
    {},
    optional={
        "stock": st.sampled_from(["prefer", "confirmed", "any"]),
        "region": st.sampled_from(["r1", "tencent:r1", "r1,r2", "!r1", "r*"]),
        "fallback": st.sampled_from(["r3", "r3,tencent:r1"]),
        "gpu": st.sampled_from(["t4", "a100", "t4,a100"]),
        "count": st.sampled_from(["1", "1..", "0.25", "1,2"]),
        "purchase": st.sampled_from(["on_demand,spot", "spot"]),
        "accounts": st.sampled_from(["mine", "all"]),
        "max_price": st.sampled_from(["1", "1.2"]),
        "currency": st.sampled_from(["USD", "CNY"]),
        "sort": st.sampled_from(["price", "price_per_gpu", "price_per_vram"]),
        "limit": st.sampled_from(["1", "2", "100"]),
        "max_age": st.sampled_from(["30s", "1h"]),
        "explain": st.just("true"),
    },
)
WORLD = replace(
    Here(offers=[]).world(),
    accounts=frozenset({("tencent", "")}),
    regions=frozenset({("tencent", "r1"), ("tencent", "r2"), ("tencent", "r3"), ("aws", "r1")}),
)


def spec_of(question: dict[str, str]) -> Spec:
    if question.get("region") == "!r1" and "r1" in question.get("fallback", ""):
        question = {**question, "fallback": "r3"}
    return understand({name: [text] for name, text in question.items()}, WORLD, {}, endpoint="cheapest")


def answer(offers: Sequence[Offer], question: dict[str, str]) -> Ranking:
    return rank(index_of(offers), spec_of(question), CONTEXT, unasked)


def naive(offers: Sequence[Offer], question: dict[str, str]) -> list[Offer]:
    """The answering tier's offers in order, written down again as a plain full sort by comparing two at a time."""
    spec = spec_of(question)
    allowed = [each for each in offers if not why_not(each, spec, CONTEXT)]
    tiers = [[each for each in allowed if _tier(each, question) == n] for n in range(1 + len(spec.fallback))]
    for wanted in (True, False):
        for tier in tiers:
            good = [each for each in tier if _confirmed(each, question)]
            if (good or not wanted) and tier and (wanted is False or question.get("stock", "prefer") == "prefer"):
                return _sorted(tier, question)
    return []


def _sorted(tier: list[Offer], question: dict[str, str]) -> list[Offer]:
    def compare(a: Offer, b: Offer) -> int:
        return _compare(a, b, question)

    return sorted(tier, key=cmp_to_key(compare))


def _tier(each: Offer, question: dict[str, str]) -> int:
    key = (each.place.provider, each.place.region)
    spec = spec_of(question)
    if spec.regions is None or key in spec.regions:
        return 0
    return next(n for n, regions in enumerate(spec.fallback, 1) if key in regions)


def _age_limit(question: dict[str, str]) -> timedelta:
    stated = {"30s": timedelta(seconds=30), "1h": timedelta(hours=1)}
    return stated.get(question.get("max_age", ""), timedelta(minutes=3))


def _fresh(each: Offer, question: dict[str, str]) -> bool:
    assert each.price is not None
    an_old_score_is_no_matter = each.stock.evidence is Evidence.SCORED and "max_age" not in question
    young = an_old_score_is_no_matter or NOW - each.stock.seen_at <= _age_limit(question)
    return young and NOW - each.price.seen_at <= timedelta(days=3)


def _confirmed(each: Offer, question: dict[str, str]) -> bool:
    return each.stock.level in (Level.IN_STOCK, Level.LOW) and _fresh(each, question)


def _value(each: Offer, question: dict[str, str]) -> Fraction:
    assert each.price is not None
    nanos = RATES.exact(each.price.nanos, each.price.currency, question.get("currency", "USD"))
    assert nanos is not None
    count = each.machine.gpu_count
    assert count is not None
    memory = {"t4": 16, "a100-sxm4-80g": 80}[each.machine.gpu or ""]
    over = {"price": Fraction(1), "price_per_gpu": count, "price_per_vram": count * memory}
    return nanos / over[question.get("sort", "price")]


def _compare(a: Offer, b: Offer, question: dict[str, str]) -> int:
    def tell(one: Offer) -> list[object]:
        first = question.get("stock", "prefer") == "prefer" and _confirmed(one, question)
        return [
            not first,
            not _fresh(one, question),
            _value(one, question),
            LEVELS.index(one.stock.level),
            _identity(one),
        ]

    mine, other = tell(a), tell(b)
    return (mine > other) - (mine < other)


@settings(max_examples=300, deadline=None)
@given(offers_lists, questions)
def test_the_walk_equals_a_naive_full_sort(offers: list[Offer], question: dict[str, str]) -> None:
    expected = naive(offers, question)
    limit = int(question.get("limit", "5"))
    ranking = answer(offers, question)
    found = [match.offer for match in (ranking.best, *ranking.alternatives) if match is not None]
    assert found == expected[: 1 + limit]


@settings(max_examples=100, deadline=None)
@given(offers_lists, questions, st.randoms(use_true_random=False))
def test_the_order_of_rows_never_matters(offers: list[Offer], question: dict[str, str], random: Random) -> None:
    shuffled = list(offers)
    random.shuffle(shuffled)
    assert answer(shuffled, question) == answer(offers, question)


@settings(max_examples=200, deadline=None)
@given(offers_lists, questions)
def test_the_best_is_what_it_claims(offers: list[Offer], question: dict[str, str]) -> None:
    ranking = answer(offers, question)
    for match in filter(None, (ranking.best, ranking.unconfirmed, *ranking.alternatives)):
        _assert_answerable(match, question)
    if ranking.best is not None:
        peers = [each for each in ranking.alternatives if _class(each, question) == _class(ranking.best, question)]
        assert all(_value(each.offer, question) >= _value(ranking.best.offer, question) for each in peers)
    assert ranking.fallback_used is (ranking.best is not None and ranking.best.tier > 0)


def _assert_answerable(match: Match, question: dict[str, str]) -> None:
    assert match.nanos is not None
    assert match.offer.stock.level is not Level.OUT or match.offer.stock.stale(NOW, _age_limit(question))
    assert not match.offer.stock.detail
    assert match.confirmed is _confirmed(match.offer, question)
    assert match.offer.machine.gpu_count is not None
    assert match.offer.machine.gpu_count >= 1 or question.get("count") == "0.25"


def _class(match: Match, question: dict[str, str]) -> tuple[bool, bool]:
    return (match.confirmed and question.get("stock", "prefer") == "prefer", _fresh(match.offer, question))


@settings(max_examples=200, deadline=None)
@given(offers_lists, _rows, questions)
def test_one_more_offer_never_makes_the_best_dearer(offers: list[Offer], more: Offer, question: dict[str, str]) -> None:
    others = [each for each in offers if _identity(each) != _identity(more)]
    before, after = answer(others, question).best, answer([*others, more], question).best
    if before is None:
        return
    assert after is not None
    if after.tier == before.tier and _class(after, question) == _class(before, question):
        assert _value(after.offer, question) <= _value(before.offer, question)


_tighter = st.sampled_from(
    [
        {"max_price": "1"},
        {"min_vram": "40"},
        {"region": "tencent:r2"},
        {"provider": "tencent"},
        {"nvlink": "true"},
        {"stock": "confirmed"},
        {"count": "2"},
        {"country": "!CN"},
    ]
)


@settings(max_examples=200, deadline=None)
@given(offers_lists, questions, _tighter)
def test_a_tighter_filter_never_adds_an_offer(
    offers: list[Offer], question: dict[str, str], more: dict[str, str]
) -> None:
    loose = {
        name: text for name, text in question.items() if name not in ({"fallback", "count", "stock"} | more.keys())
    }
    assert _browsed(offers, {**loose, **more}) <= _browsed(offers, loose)


def _browsed(offers: Sequence[Offer], question: dict[str, str]) -> set[tuple[str, ...]]:
    wide = {name: [text] for name, text in question.items()} | {"limit": ["10000"]}
    spec = understand(wide, WORLD, {}, endpoint="offers")
    items, total = browse(index_of(offers), spec, CONTEXT)
    assert len(items) == total
    return {_identity(match.offer) for match in items}


@settings(max_examples=100, deadline=None)
@given(offers_lists, questions)
def test_every_offer_is_answered_counted_or_rejected(offers: list[Offer], question: dict[str, str]) -> None:
    spec = spec_of({**question, "explain": "true", "limit": "100"})
    ranking = rank(index_of(offers), spec, CONTEXT, unasked)
    asked = [each for each in offers if spec.gpus is None or each.machine.gpu in spec.gpus]
    against = [why_not(each, spec, CONTEXT) for each in asked]
    assert len(ranking.nearest_misses) == min(5, sum(map(bool, against)))
    assert max(ranking.rejected.values(), default=0) <= sum(map(bool, against))
    for tier in ranking.tiers:
        assert tier.matching == tier.confirmed + tier.out + tier.unknown + tier.stale


_unread = st.frozensets(st.sampled_from([("tencent", ""), ("tencent", "r1"), ("tencent", "r3"), ("aws", "r1")]))


@given(offers=offers_lists, question=questions, unread=_unread)
def test_what_is_unread_changes_no_answer_and_is_never_said_not_to_be_sold(
    offers: list[Offer], question: dict[str, str], unread: frozenset[tuple[str, str]]
) -> None:
    read = answer(offers, question)
    ranking = rank(index_of(offers), spec_of(question), replace(CONTEXT, unread=unread), unasked)
    assert (ranking.best, ranking.unconfirmed, ranking.alternatives) == (
        read.best,
        read.unconfirmed,
        read.alternatives,
    )
    if ranking.verdict in (Verdict.NOT_OFFERED_HERE, Verdict.NO_SUCH_MACHINE):
        assert [tier.unread for tier in ranking.tiers] == [()] * len(ranking.tiers)
    elif ranking.verdict is not read.verdict:
        assert (ranking.verdict, any(tier.unread for tier in ranking.tiers)) == (Verdict.NO_SOURCE, True)
