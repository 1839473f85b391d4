"""Facts that could lie do not construct."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from catalog.facts import Machine, Note, Offered, Price, Region, Stock, Zone
from catalog.offers import Offer, Place, PriceNow, StockNow
from catalog.words import EVIDENCES, Evidence, Level, Purchase
from tests.support.stored import MINUTE, NANO, T0, machine, offered, price, stock

NEVER_STOCK = (Evidence.SCORED, Evidence.LISTED, Evidence.SNAPSHOT)


@pytest.mark.parametrize("evidence", NEVER_STOCK)
@pytest.mark.parametrize("level", [Level.IN_STOCK, Level.LOW, Level.OUT])
def test_what_is_never_stock_cannot_say_a_level(evidence: Evidence, level: Level) -> None:
    with pytest.raises(ValueError, match="evidence is never stock"):
        stock(level=level, evidence=evidence)
    assert stock(level=Level.UNKNOWN, evidence=evidence).level is Level.UNKNOWN


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("evidence", [Evidence.OBSERVED, Evidence.REPORTED])
def test_what_is_observed_or_reported_can_say_any_level(evidence: Evidence, level: Level) -> None:
    assert stock(level=level, evidence=evidence).level is level


def test_only_observed_and_reported_are_stock_and_the_order_is_the_strength() -> None:
    assert list(EVIDENCES) == [Evidence.OBSERVED, Evidence.REPORTED, *NEVER_STOCK]
    assert [evidence for evidence in Evidence if evidence.is_stock] == [Evidence.OBSERVED, Evidence.REPORTED]


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: price(nanos=0), "a price is positive"),
        (lambda: price(nanos=-1), "a price is positive"),
        (lambda: price(list_nanos=0), "a list price is positive"),
        (lambda: price(upfront_nanos=0, term_months=1), "an up-front amount is positive"),
        (lambda: price(upfront_nanos=NANO), "an up-front amount names its term"),
        (lambda: price(currency="usd"), "ISO 4217"),
        (lambda: price(currency=""), "ISO 4217"),
        (lambda: price(currency="YUAN"), "ISO 4217"),
        (lambda: price(source=""), "a price names its source"),
        (lambda: stock(purchases=frozenset()), "a stock names the purchases it covers"),
        (lambda: machine(region=""), "a machine has a region and a name"),
        (lambda: machine(""), "a machine has a region and a name"),
        (lambda: machine(gpu=None, gpu_count=Fraction(-1)), "not negative"),
        (lambda: machine(gpu_count=Fraction(0)), "a count that is not 0"),
        (lambda: machine(vram_mib=0), "an unknown size is None, never 0"),
        (lambda: machine(vcpus=0), "an unknown size is None, never 0"),
        (lambda: machine(memory_mib=-1), "an unknown size is None, never 0"),
        (lambda: offered(""), "an offering names its zone"),
    ],
)
def test_a_fact_that_would_lie_is_refused(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


def test_what_is_not_stated_is_unknown_and_not_zero_or_false() -> None:
    bare = Machine(region="r", instance_type="m", gpu=None, gpu_count=None)
    assert {f.name for f in fields(bare) if getattr(bare, f.name) is None} == {
        "gpu", "gpu_count", "vram_mib", "vcpus", "memory_mib", "nvlink", "rdma", "bare_metal", "upstream",
    }  # fmt: skip
    assert Region(region="r").enabled is None
    assert Zone(region="r", zone="a").zone_id is None
    assert (stock().quantity, stock().score) == (None, None)


def test_a_machine_without_accelerator_and_one_of_unknown_count_construct() -> None:
    assert machine(gpu=None, gpu_count=Fraction(0)).gpu_count == Fraction(0)
    assert machine(gpu_count=None).gpu == "t4-16g"
    assert machine(gpu_count=Fraction(1, 6)).gpu_count == Fraction(1, 6)


def test_an_offering_may_name_its_zone_by_id_alone() -> None:
    assert Offered(region="r", instance_type="m", zone_id="az1").zone is None


@pytest.mark.parametrize("fact", [machine(), price(), stock(), offered("a")])
def test_facts_do_not_change_and_are_equal_by_what_they_say(fact: Machine | Price | Stock | Offered) -> None:
    with pytest.raises(FrozenInstanceError):
        fact.region = "elsewhere"  # type: ignore[misc]
    assert len({fact, type(fact)(**{f.name: getattr(fact, f.name) for f in fields(fact)})}) == 1


def test_two_notes_of_one_kind_and_value_are_one() -> None:
    assert len({Note("unknown_gpu", "X9"), Note("unknown_gpu", "X9", record=True), Note("unknown_gpu", "X8")}) == 2


# --- what an offer says at a time


def priced_now(**changes: Any) -> PriceNow:
    known: dict[str, Any] = {"nanos": NANO, "currency": "USD", "source": "s", "seen_at": T0, "fresh_for": 3 * MINUTE}
    return PriceNow(**(known | changes))


def stock_now(level: Level, evidence: Evidence = Evidence.REPORTED, **changes: Any) -> StockNow:
    known: dict[str, Any] = {"seen_at": T0, "fresh_for": 3 * MINUTE}
    return StockNow(level=level, evidence=evidence, **(known | changes))


def offer(stock: StockNow, price: PriceNow | None = None, observed: StockNow | None = None) -> Offer:
    return Offer(Place(provider="cloud", region="r1"), machine(), Purchase.ON_DEMAND, price, stock, observed)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("evidence", [*Evidence])
def test_confirmed_is_in_stock_or_low_by_evidence_that_is_stock(level: Level, evidence: Evidence) -> None:
    expected = level in (Level.IN_STOCK, Level.LOW) and evidence in (Evidence.OBSERVED, Evidence.REPORTED)
    assert offer(stock_now(level, evidence), priced_now()).confirmed(T0) is expected


@pytest.mark.parametrize(
    ("stock_age", "price_age", "confirmed"), [(3, 3, True), (4, 0, False), (0, 4, False), (0, None, False)]
)
def test_confirmed_needs_stock_and_price_both_fresh(stock_age: int, price_age: int | None, confirmed: bool) -> None:
    price = None if price_age is None else priced_now(seen_at=T0 - price_age * MINUTE)
    assert offer(stock_now(Level.IN_STOCK, seen_at=T0 - stock_age * MINUTE), price).confirmed(T0) is confirmed


@pytest.mark.parametrize(("age", "max_age", "stale"), [(2, 1, True), (4, 5, False), (1, 1, False), (4, None, True)])
def test_max_age_stands_in_for_the_feeds_own_limit(age: int, max_age: int | None, stale: bool) -> None:
    limit = None if max_age is None else max_age * MINUTE
    assert stock_now(Level.IN_STOCK).stale(T0 + age * MINUTE, limit) is stale
    assert offer(stock_now(Level.IN_STOCK), priced_now(fresh_for=9 * MINUTE)).confirmed(T0 + age * MINUTE, limit) is (
        not stale
    )


@pytest.mark.parametrize(("ahead", "fresh"), [(30, True), (60, True), (61, False), (86400, False)])
def test_a_time_that_is_further_ahead_than_clocks_differ_is_not_fresh(ahead: int, fresh: bool) -> None:
    seen_at = T0 + timedelta(seconds=ahead)
    price, stock = priced_now(seen_at=seen_at), stock_now(Level.IN_STOCK, seen_at=seen_at)
    assert (price.stale(T0), stock.stale(T0), stock.stale(T0, timedelta(days=9))) == (not fresh,) * 3
    assert offer(stock, priced_now()).confirmed(T0) is fresh
    assert offer(stock_now(Level.IN_STOCK), price).confirmed(T0) is fresh
    taught = stock_now(Level.OUT, Evidence.OBSERVED, seen_at=seen_at)
    assert (offer(stock_now(Level.IN_STOCK), observed=taught).stock_at(T0) is taught) is fresh


def test_what_a_launch_taught_holds_until_it_expires() -> None:
    taught = stock_now(Level.OUT, Evidence.OBSERVED, fresh_for=30 * MINUTE)
    stated = stock_now(Level.IN_STOCK, fresh_for=timedelta(days=1))
    one = offer(stated, priced_now(fresh_for=timedelta(days=1)), taught)
    assert (one.stock_at(T0 + 30 * MINUTE), one.stock_at(T0 + 31 * MINUTE)) == (taught, stated)
    assert (one.confirmed(T0 + 30 * MINUTE), one.confirmed(T0 + 31 * MINUTE)) == (False, True)


def test_equals_are_ordered_by_provider_region_zone_machine() -> None:
    places = [("b", "r1", None), ("a", "r2", None), ("a", "r1", "z2"), ("a", "r1", "z1"), ("a", "r1", None)]
    made = [
        Offer(Place(provider=p, region=r, zone=z), machine(n), Purchase.SPOT, None, stock_now(Level.UNKNOWN))
        for p, r, z in places
        for n in ("m2", "m1")
    ]
    found = [one.sort_key()[:4] for one in sorted(made, key=Offer.sort_key)]
    wanted = [("a", "r1", ""), ("a", "r1", "z1"), ("a", "r1", "z2"), ("a", "r2", ""), ("b", "r1", "")]
    assert found == [(*place, name) for place in wanted for name in ("m1", "m2")]
