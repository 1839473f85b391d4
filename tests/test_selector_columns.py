"""The answers from columns are those of the rules, asked of each offer one by one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.facts import Machine
from catalog.fx import Rate, Rates
from catalog.money import MOST_NANOS
from catalog.offers import Offer, Place, PriceNow, StockNow, fresh_span, microseconds
from catalog.spec import Accounts, CountRange, Job, Sort, Spec, StockWish
from catalog.words import Evidence, Hosting, Level, Purchase
from selector.columns import among, tally
from selector.context import Context
from selector.demands import tier_of
from selector.index import Index
from selector.job import JobCosts
from selector.kinds import largest_within
from selector.numbering import Numbering
from selector.order import Value, level_order, names, rank_class, sort_value
from selector.rank import best, browse, rank
from selector.ranking import Match, Miss
from selector.reasons import Code
from selector.why_not import Reasons, Standing, standing
from tests.support.offers import NOW, index_of, unasked

RATES = Rates(
    [
        Rate("CNY", "USD", Decimal("0.14084507"), date(2026, 11, 28), "test"),
        Rate("USD", "JPY", Decimal("151.37"), date(2026, 11, 28), "test"),
    ]
)
CONTEXT = Context(now=NOW, rates=RATES, accounts=frozenset({("tencent", "")}))
MINUTE = timedelta(minutes=1)

_places = st.builds(
    lambda provider, region, zone, country: Place(
        provider=provider, region=region, zone=zone and f"{region}-{zone}", zone_id=zone, country=country,
        mainland_china=country and country == "CN",
    ),
    st.sampled_from(["tencent", "aws"]),
    st.sampled_from(["r1", "r2", "r3"]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from(["CN", "US", None]),
)  # fmt: skip
_machines = st.builds(
    lambda name, gpu, count, vram, vcpus, nvlink, hosting, upstream: Machine(
        region="r", instance_type=name, gpu=gpu, gpu_count=count, vram_mib=vram, vcpus=vcpus,
        memory_mib=vcpus and vcpus * 4096, nvlink=nvlink, hosting=hosting,
        upstream=upstream,
    ),
    st.sampled_from(["m1", "m2", "m3"]),
    st.sampled_from(["t4", "a100-sxm4-80g", "a100-unstated-80g", None]),
    st.sampled_from([Fraction(1), Fraction(1), Fraction(2), Fraction(3), Fraction(1, 6), None]),
    st.sampled_from([None, None, 15 * 1024, 8 * 1024]),
    st.sampled_from([None, 8, 16]),
    st.sampled_from([None, True, False]),
    st.sampled_from([Hosting.DATACENTER, Hosting.COMMUNITY]),
    st.sampled_from([None, None, "aws"]),
)  # fmt: skip
_times = st.sampled_from(
    [-2 * MINUTE, -MINUTE, timedelta(0), 2 * MINUTE, 3 * MINUTE, 3 * MINUTE + timedelta(microseconds=1)]
)
_stocks = st.builds(
    lambda said, age: StockNow(
        level=said[0], evidence=said[1], detail=said[2], seen_at=NOW - age, fresh_for=3 * MINUTE
    ),
    st.sampled_from(
        [
            (Level.IN_STOCK, Evidence.REPORTED, ""),
            (Level.LOW, Evidence.REPORTED, "few"),
            (Level.OUT, Evidence.REPORTED, ""),
            (Level.UNKNOWN, Evidence.LISTED, ""),
            (Level.UNKNOWN, Evidence.SCORED, ""),
            (Level.UNKNOWN, Evidence.REPORTED, "restricted: quota"),
        ]
    ),
    _times,
)
_taught = st.builds(
    lambda level, age: StockNow(level=level, evidence=Evidence.OBSERVED, seen_at=NOW - age, fresh_for=3 * MINUTE),
    st.sampled_from([Level.IN_STOCK, Level.OUT, Level.UNKNOWN]),
    _times,
)
_prices = st.builds(
    lambda nanos, currency, age: PriceNow(
        nanos=nanos, currency=currency, source="s", seen_at=NOW - age, fresh_for=3 * MINUTE
    ),
    st.sampled_from([1, 500_000_000, 10**9, 10**9 + 1, 1_500_000_000, 2 * 10**9, 3 * 10**9, 7_100_000_036, MOST_NANOS]),
    st.sampled_from(["USD", "USD", "CNY", "JPY", "ISK"]),
    _times,
)
_offers = st.builds(
    Offer, _places, _machines, st.sampled_from(Purchase), st.none() | _prices, _stocks, st.none() | st.none() | _taught
)


def _shelved(some: Sequence[Offer]) -> list[Offer]:
    """The offers with the machine's region as it is, and no two of one place, machine and purchase."""
    found = {
        (each.place.provider, each.place.region, each.place.zone_id, each.machine.instance_type, each.purchase): each
        for each in some
    }
    return [replace(each, machine=replace(each.machine, region=each.place.region)) for each in found.values()]


_lists = st.lists(_offers, max_size=16).map(_shelved)
_R1, _R2, _R3 = ("tencent", "r1"), ("tencent", "r2"), ("aws", "r3")
_counts = [CountRange(Fraction(1), Fraction(1)), CountRange(Fraction(1), None), CountRange(Fraction(1, 8), Fraction(2))]
_jobs = [Job(Fraction(5, 2)), Job(Fraction(1, 100), Fraction(300)), Job(Fraction(731), Fraction(20_000))]
_specs = st.fixed_dictionaries(
    {},
    optional={
        "gpus": st.sampled_from([frozenset({"t4"}), frozenset({"t4", "a100-sxm4-80g"}), frozenset({"l4"})]),
        "instance_types": st.just(("m[12]",)),
        "not_instance_types": st.just(("m3",)),
        "counts": st.sampled_from([(count,) for count in _counts]),
        "min_vram_mib": st.sampled_from([Fraction(16 * 1024)]),
        "min_vcpus_per_gpu": st.just(Fraction(8)),
        "nvlink": st.booleans(),
        "hosting": st.just(frozenset({Hosting.DATACENTER})),
        "purchases": st.sampled_from(
            [frozenset({Purchase.SPOT}), frozenset({Purchase.MONTH}), frozenset({Purchase.ON_DEMAND, Purchase.SPOT})]
        ),
        "providers": st.just(frozenset({"tencent"})),
        "accounts": st.just(Accounts.MINE),
        "countries": st.just(frozenset({"CN"})),
        "mainland_china": st.booleans(),
        "regions": st.sampled_from([frozenset({_R1}), frozenset({_R1, _R2})]),
        "not_regions": st.just(frozenset({_R2})),
        "zones": st.just(frozenset({("tencent", "r1", "a")})),
        "fallback": st.sampled_from([(frozenset({_R2}),), (frozenset({_R3}), frozenset({_R2}))]),
        "max_price_nanos": st.sampled_from([10**9, 1_500_000_000, 151_370_000_000, MOST_NANOS]),
        "max_price_per_gpu_nanos": st.sampled_from([500_000_000, 10**9, 1_000_000_005]),
        "currency": st.sampled_from(["USD", "CNY", "JPY"]),
        "stock": st.sampled_from([StockWish.PREFER, StockWish.CONFIRMED, StockWish.ANY]),
        "max_age": st.sampled_from([MINUTE, 2 * MINUTE, timedelta.max]),
        "sort": st.sampled_from(Sort),
        "job": st.sampled_from(_jobs),
        "limit": st.sampled_from([1, 2, 100]),
        "offset": st.sampled_from([0, 1, 3]),
    },
).map(lambda said: Spec(**({"job": _jobs[0]} | said)))  # fmt: skip


class Rules:
    """The answer to a question from the rules alone, each offer by itself."""

    def __init__(self, offers: Sequence[Offer], spec: Spec) -> None:
        self.spec, self.reasons = spec, Reasons(spec, CONTEXT)
        self.offers = [each for each in offers if spec.gpus is None or each.machine.gpu in spec.gpus]
        sold = {_machine_at(each) for each in self.offers if self._is_sold(each)}
        self.against = {id(o): self.reasons.of(o, sold_as_asked=_machine_at(o) in sold) for o in self.offers}

    def _is_sold(self, each: Offer) -> bool:
        return self.spec.purchases is not None and each.purchase in self.spec.purchases

    def nanos(self, each: Offer) -> int | None:
        return CONTEXT.nanos(each, self.spec.currency)

    def tier(self, each: Offer) -> int | None:
        """Its tier where machine, place and purchase are as asked."""
        machine, tier = each.machine, tier_of(each.place, self.spec)
        against = [*self.reasons.against_machine(machine), *self.reasons.against_name(machine)]
        against += [*self.reasons.against_place(each.place)]
        against += [why.code for why in self.reasons.of_purchase(each, sold_as_asked=True)]
        return None if against or isinstance(tier, Code) else tier

    def match(self, each: Offer) -> Match:
        tier = self.tier(each)
        assert tier is not None
        return Match(each, tier, self.nanos(each), standing(each, self.spec, CONTEXT) is Standing.CONFIRMED)

    def listed(self) -> list[Match]:
        """Every offer that meets the spec, in order."""
        return [self.match(each) for each in sorted((o for o in self.offers if not self.against[id(o)]), key=self._key)]

    def _key(self, each: Offer) -> tuple[object, ...]:
        stands = standing(each, self.spec, CONTEXT)
        if self.spec.sort is Sort.JOB_COST:
            assert self.spec.job is not None
            value: Value = JobCosts(self.spec.job, self.spec.currency, RATES).nanos(each)
        else:
            value = sort_value(each.machine, CONTEXT.exact(each, self.spec.currency), self.spec.sort)
        price = CONTEXT.exact(each, self.spec.currency)
        unknown = (2, 0) if price is None else (1, price)
        first = (
            self.tier(each),
            rank_class(each, stands, self.spec, CONTEXT),
            *((0, value) if value is not None else unknown),
        )
        return (*first, level_order(each, CONTEXT), each.machine.upstream is not None, names(each))

    def answered(self) -> tuple[list[Match], Match | None]:
        """The answering tier's matches, and the first unconfirmed one up to it beside a confirmed best."""
        found = self.listed()
        tiers = [match.tier for match in found if match.confirmed] if self.spec.stock is StockWish.PREFER else []
        tier = min(tiers or [match.tier for match in found], default=None)
        kept = [match for match in found if match.tier == tier]
        others = [match for match in found if tier is not None and match.tier <= tier and not match.confirmed]
        return kept, next(iter(others), None) if kept and kept[0].confirmed else None

    def counts(self) -> list[Counter[Standing]]:
        """For each tier, the offers that meet every demand but those on stock by how they stand."""
        counted = [Counter[Standing]() for _ in range(1 + len(self.spec.fallback))]
        for each in self.offers:
            stands, tier = standing(each, self.spec, CONTEXT), self.tier(each)
            priced = not self.spec.limits_price or not list(self.reasons.of_price(each, self.nanos(each)))
            if tier is not None and priced and stands is not Standing.RESTRICTED:
                counted[tier][stands] += 1
        return counted

    def rejected(self) -> dict[str, int]:
        codes = (str(code) for why in self.against.values() for code in {reason.code for reason in why})
        return dict(sorted(Counter(codes).items()))

    def misses(self) -> list[Miss]:
        """All, the nearest first."""
        misses = [
            Miss(each, self.nanos(each), self.against[id(each)]) for each in self.offers if self.against[id(each)]
        ]
        return sorted(misses, key=lambda miss: (len(miss.reasons), *self._worth(miss), names(miss.offer)))

    def _worth(self, miss: Miss) -> tuple[int, int | Fraction]:
        """Its price, or the cost of the job where that is compared."""
        price, job = CONTEXT.exact(miss.offer, self.spec.currency), self.spec.job
        value = price
        if self.spec.sort is Sort.JOB_COST and job is not None:
            value = JobCosts(job, self.spec.currency, RATES).nanos(miss.offer)
        if value is not None:
            return 0, value
        return (2, 0) if price is None else (1, price)


def _machine_at(each: Offer) -> tuple[str, ...]:
    return (each.place.provider, each.place.region, each.place.zone_key, each.machine.instance_type)


def assert_as_the_rules_say(index: Index, offers: Sequence[Offer], spec: Spec) -> None:
    rules = Rules(offers, spec)
    kept, unconfirmed = rules.answered()
    ranking = rank(index, replace(spec, explain=True), CONTEXT, unasked)
    assert ranking.best == next(iter(kept), None) == best(index, spec, CONTEXT)
    assert list(ranking.alternatives) == kept[1 + spec.offset : 1 + spec.offset + spec.limit]
    assert ranking.unconfirmed == unconfirmed
    told = [(tier.confirmed, tier.out, tier.unknown, tier.stale) for tier in ranking.tiers]
    order = (Standing.CONFIRMED, Standing.OUT, Standing.UNCONFIRMED, Standing.STALE)
    assert told == [tuple(counts[stands] for stands in order) for counts in rules.counts()]
    assert ranking.rejected == rules.rejected()
    misses = rules.misses()
    assert list(ranking.nearest_misses) == misses[:5]


def assert_listed_as_the_rules_say(index: Index, offers: Sequence[Offer], spec: Spec) -> None:
    found = Rules(offers, spec).listed()
    assert browse(index, spec, CONTEXT) == (found[spec.offset : spec.offset + spec.limit], len(found))


@settings(max_examples=300, deadline=None)
@given(_lists, _specs)
def test_an_answer_from_columns_is_that_of_the_rules(offers: list[Offer], spec: Spec) -> None:
    assert_as_the_rules_say(index_of(offers, RATES), offers, spec)


@settings(max_examples=200, deadline=None)
@given(_lists, _specs, st.sampled_from(StockWish))
def test_a_list_from_columns_is_that_of_the_rules(offers: list[Offer], spec: Spec, stock: StockWish) -> None:
    assert_listed_as_the_rules_say(index_of(offers, RATES), offers, replace(spec, stock=stock))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([_R1, _R2, _R3]), _lists), max_size=8), _specs)
def test_an_index_is_what_its_shelves_were_replaced_with_last(
    steps: list[tuple[tuple[str, str], list[Offer]]], spec: Spec
) -> None:
    index, held = Index(RATES), dict[tuple[str, str], list[Offer]]()
    for (provider, region), some in steps:
        held[provider, region] = _shelved(
            [replace(each, place=replace(each.place, provider=provider, region=region)) for each in some]
        )
        index.replace((provider, region), held[provider, region])
        index.candidates(spec.gpus)
        offers = [each for of_shelf in held.values() for each in of_shelf]
        assert_as_the_rules_say(index, offers, spec)
        assert len(index) == len(offers)
        assert index.count("t4") == sum(each.machine.gpu == "t4" for each in offers)
        assert {key: count for key, _, count in index.shelves()} == {k: len(some) for k, some in held.items() if some}
        assert index.machines() == {each.machine.instance_type: each.machine.instance_type for each in offers}


def test_candidates_stay_as_they_were_when_a_shelf_is_replaced() -> None:
    offers = _many(60)
    index = index_of(offers, RATES)
    before = index.candidates(None)
    index.replace(_R1, [])
    index.replace(_R2, [replace(each, place=replace(each.place, region="r2")) for each in offers[:3]])
    assert set(map(id, before)) == set(map(id, offers))
    assert len(before) == len(offers)


def _many(size: int) -> list[Offer]:
    """Offers by the hundred, of few prices: many tie with the last that is shown."""
    chance = Random(size)
    stock = StockNow(level=Level.LOW, evidence=Evidence.REPORTED, seen_at=NOW, fresh_for=3 * MINUTE)
    made = [
        Offer(
            Place(provider=provider, region=region, site="cn" if provider == "tencent" else None),
            Machine(
                region=region,
                instance_type=f"m{number}",
                gpu=chance.choice(["t4", "t4", "a100-sxm4-80g", "k80"]),
                gpu_count=Fraction(chance.choice([1, 2, 3, 6, 7])),
            ),
            chance.choice([Purchase.ON_DEMAND, Purchase.ON_DEMAND, Purchase.SPOT, Purchase.MONTH]),
            chance.choice([None, *(_price(nanos, currency) for nanos, currency in product(_FEW_PRICES, _CURRENCIES))]),
            replace(
                stock, level=chance.choice([Level.LOW, Level.IN_STOCK]), seen_at=NOW - chance.choice([0, 9]) * MINUTE
            ),
        )
        for number in range(size)
        for provider, region in [chance.choice([_R1, ("tencent", "ap-guangzhou"), ("aws", "us-east-1")])]
    ]
    chance.shuffle(made)
    return made


_FEW_PRICES = (3 * 10**8, 3 * 10**8 + 1, 6 * 10**8, 7 * 10**8, 21 * 10**8)
_CURRENCIES = ("USD", "CNY", "JPY", "ISK")


def _price(nanos: int, currency: str) -> PriceNow:
    scaled = {"CNY": nanos * 71 // 10, "JPY": nanos * 151}.get(currency, nanos)
    return PriceNow(nanos=scaled, currency=currency, source="s", seen_at=NOW, fresh_for=3 * MINUTE)


@pytest.mark.parametrize("sort", Sort)
@pytest.mark.parametrize("currency", ["USD", "JPY"])
@pytest.mark.parametrize("gpus", [None, frozenset({"t4"})])
def test_of_many_offers_any_page_is_that_of_a_full_sort(sort: Sort, currency: str, gpus: frozenset[str] | None) -> None:
    offers = _many(400)
    index = index_of(offers, RATES)
    for offset, limit, stock in ((0, 5, "any"), (17, 40, "prefer"), (150, 60, "all"), (380, 100, "all")):
        spec = Spec(gpus=gpus, sort=sort, currency=currency, offset=offset, limit=limit, job=_jobs[1])
        assert_listed_as_the_rules_say(index, offers, replace(spec, stock=StockWish(stock)))
    asked = Spec(gpus=gpus, sort=sort, currency=currency, offset=3, limit=20, job=_jobs[2])
    assert_as_the_rules_say(index, offers, asked)


_AMOUNTS = st.integers(0, 2**40) | st.integers(0, MOST_NANOS)


@given(st.decimals(Decimal("0.00001"), Decimal(100_000), places=5), _AMOUNTS, st.integers(-3, 3))
def test_the_largest_amount_within_a_limit_is_exact(rate: Decimal, most: int, near: int) -> None:
    rates = Rates([Rate("AAA", "BBB", rate, date(2026, 11, 28), "test")])
    edge = largest_within(most, "AAA", "BBB", rates)
    for nanos in (edge + near, edge, edge + 1):
        if 0 <= nanos <= MOST_NANOS:
            worth = rates.convert_nanos(nanos, "AAA", "BBB")
            assert worth is not None
            assert (nanos <= edge) is (worth <= most)


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(tzinfo=NOW.tzinfo)),  # noqa: DTZ001
    st.timedeltas(timedelta(0), timedelta(days=9)),
    st.integers(-2, 2),
)
def test_what_is_fresh_between_two_times_is_what_is_not_stale(at: datetime, limit: timedelta, off: int) -> None:
    stock = StockNow(level=Level.LOW, evidence=Evidence.REPORTED, seen_at=at, fresh_for=limit)
    start, end = fresh_span(at, limit)
    for moment in (at - MINUTE, at, at + limit):
        now = moment + timedelta(microseconds=off)
        assert (start <= microseconds(now) <= end) is not stock.stale(now)


def test_a_number_is_given_again_once_nobody_holds_it() -> None:
    numbering = Numbering[str]()
    one, two = numbering.hold({"one": "1", "two": "2"}).values()
    assert numbering.hold({"one": "1"}) == {"one": one}
    numbering.release([one, two])
    assert (len(numbering), numbering[one]) == (1, "1")
    assert numbering.hold({"three": "3"}) == {"three": two}
    numbering.release([one])
    assert numbering.hold({"one": "again", "three": "3"}) == {"one": one, "three": two}
    assert (numbering[one], numbering[two]) == ("again", "3")


@pytest.mark.parametrize("step", [1, 2**30])
def test_numbers_are_counted_and_found_however_large_they_are(step: int) -> None:
    cells: Any = np.array([3, 1, 3, 0]) * step
    counted = tally(cells)
    assert [(number // step, count) for number, count, _ in counted] == [(0, 1), (1, 1), (3, 2)]
    assert all(cells[row] == number for number, _, row in counted)


def test_the_rows_of_some_numbers_are_found_also_beside_larger_ones() -> None:
    assert among(np.array([3, 1, 3, 0, 9]), [1, 3]).tolist() == [0, 1, 2]
