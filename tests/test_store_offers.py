"""Reading offers back: what many polls left in the database."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from catalog.facts import Fact, Region, Zone
from catalog.words import Evidence, Hosting, Level, Purchase
from store import planning, record, schedule, snapshot
from store.offers import load, revisions, shelves_of
from store.record import Result
from tests.support.databases import engine_at
from tests.support.stored import (
    LEASE,
    MINUTE,
    NANO,
    T0,
    Cloud,
    cell,
    machine,
    offered,
    plan,
    planned_cell,
    planned_provider,
    price,
    rows,
    stock,
)

pytestmark = pytest.mark.both_databases


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


def test_an_offer_is_read_as_it_was_stated(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    said = machine(
        "m1",
        gpu="v100-sxm2-32g",
        gpu_count=Fraction(1, 4),
        gpu_raw="Tesla V100",
        vram_mib=8192,
        vcpus=10,
        memory_mib=40960,
        nvlink=False,
        rdma=True,
        bare_metal=None,
        hosting=Hosting.COMMUNITY,
        upstream="elsewhere",
    )
    month = price(
        purchase=Purchase.MONTH, nanos=8_680_000_001, currency="CNY", list_nanos=9 * NANO, upfront_nanos=6336 * NANO,
        term_months=1, estimated=True, zone="a",
    )  # fmt: skip
    level = stock(
        "m1", Level.LOW, purchases=frozenset({Purchase.MONTH}), detail="UnderStock", score="7", quantity=2, zone="a"
    )
    polled.told(at(0), said, month, level)
    offer = polled.offers()["a", "m1", "month"]
    assert offer.machine == said
    assert offer.price is not None
    assert (offer.price.nanos, offer.price.currency, offer.price.list_nanos) == (8_680_000_001, "CNY", 9 * NANO)
    assert (offer.price.upfront_nanos, offer.price.term_months, offer.price.estimated) == (6336 * NANO, 1, True)
    assert (offer.price.seen_at, offer.price.fresh_for) == (at(0), 3 * MINUTE)
    assert (offer.stock.level, offer.stock.detail, offer.stock.score, offer.stock.quantity) == (
        Level.LOW, "UnderStock", "7", 2,
    )  # fmt: skip


def test_an_offer_is_confirmed_while_stock_and_price_are_both_fresh(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("prices", fresh_for=60 * MINUTE))
    polled.told(at(0), machine(), price(), feed="prices")
    polled.told(at(0), stock())
    (offer,) = polled.offers().values()
    assert offer.confirmed(at(3))
    assert not offer.confirmed(at(3) + timedelta(microseconds=1))
    polled.told(at(59), stock())
    (offer,) = polled.offers().values()
    assert offer.confirmed(at(60))
    assert not offer.confirmed(at(61))


def test_a_region_that_times_out_keeps_its_last_level_and_goes_stale(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), machine(), price(), stock())
    polled.failed(at(4))
    (offer,) = polled.offers().values()
    assert (offer.stock.level, at(4) - offer.stock.seen_at) == (Level.IN_STOCK, timedelta(seconds=240))
    assert offer.stock.stale(at(4))
    assert not offer.confirmed(at(4))


def test_a_spot_feed_that_fails_leaves_the_old_spot_price_with_its_age(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("prices"), planned_cell("spot"))
    polled.told(at(0), machine(), price(), feed="prices")
    polled.told(at(0), price(nanos=380_000_000, purchase=Purchase.SPOT), feed="spot")
    polled.told(at(120), machine(), price(), feed="prices")
    polled.failed(at(120), "spot")
    spot = polled.offers()[None, "m1", "spot"].price
    assert spot is not None
    assert (spot.nanos, spot.seen_at, spot.stale(at(120))) == (380_000_000, at(0), True)


# --- places


def test_a_place_is_what_we_know_of_it_else_what_the_provider_says(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock", place=""), planned_cell("stock", place="r2"))
    planning.plan(polled.engine, planned_provider(site="cn"), [planned_cell("stock", place="")], T0)
    polled.told(at(0), Region(region="r1", name="Nanjing", country="CN"), machine(), place="")
    (offer,) = polled.offers().values()
    place = offer.place
    assert (place.site, place.region_name, place.country, place.mainland_china) == ("cn", "Nanjing", "CN", True)
    engine = polled.engine
    plan(engine, planned_cell("stock", provider="tencent"), name="tencent")
    polled.told(at(1), machine(region="ap-nanjing"), Region(region="r1"), machine(region="r9"), place="")
    (unknown,) = polled.offers("r9").values()
    assert (unknown.place.country, unknown.place.mainland_china) == (None, None)


def test_zone_ids_unify_what_feeds_name_differently(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("machines"), planned_cell("prices"), planned_cell("stock"))
    polled.told(at(0), Zone(region="r1", zone="a", zone_id="az6"), machine(), offered("a"), feed="machines")
    polled.told(at(0), price(zone_id="az6"), feed="prices")
    polled.told(at(0), stock(zone="a"))
    (offer,) = polled.offers().values()
    assert (offer.place.zone, offer.place.zone_id, offer.place.zone_key) == ("a", "az6", "az6")
    assert offer.price is not None
    assert offer.stock.level is Level.IN_STOCK


# --- a machines answer that leaves something out


def test_a_machine_gone_from_a_list_of_the_region_is_gone(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("machines"), planned_cell("prices"))
    polled.told(at(0), machine("m1"), machine("m2"), feed="machines")
    polled.told(at(1), machine("m1"), machine("m2"), price("m1"), price("m2"), feed="prices")
    assert {key[1] for key in polled.offers()} == {"m1", "m2"}
    polled.told(at(2), machine("m1"), feed="machines")
    assert {key[1] for key in polled.offers()} == {"m1"}


@pytest.mark.parametrize("parts", [("",), ("a", "b")])
def test_a_machine_that_machines_dropped_is_gone_until_stock_names_it_anew(
    tmp_path: Path, parts: tuple[str, ...]
) -> None:
    cells = [planned_cell("machines", part=part) for part in parts]
    polled = Cloud(tmp_path, *cells, planned_cell("stock"))
    both = (machine("m1"), stock("m1"), machine("m2"), stock("m2"))
    for part in parts:
        polled.told(at(0), machine("m1"), machine("m2"), feed="machines", part=part)
    polled.told(at(1), *both)
    assert {key[1] for key in polled.offers()} == {"m1", "m2"}
    for part in parts:
        assert {key[1] for key in polled.offers()} == {"m1", "m2"}, "not all of the list was read anew"
        polled.told(at(2), machine("m1"), feed="machines", part=part)
    assert {key[1] for key in polled.offers()} == {"m1"}
    polled.failed(at(3))
    assert {key[1] for key in polled.offers()} == {"m1"}
    polled.told(at(4), *both)
    assert {key[1] for key in polled.offers()} == {"m1", "m2"}


def test_a_region_gone_from_a_list_of_the_whole_provider_is_gone(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("machines", place=""), planned_cell("prices", place=""))
    here, there = machine("m1"), machine("m1", region="r2")
    polled.told(at(0), here, there, feed="machines", place="")
    polled.told(at(1), here, there, price(), price(region="r2"), feed="prices", place="")
    polled.told(at(2), here, feed="machines", place="")
    assert len(polled.offers("r1")) == 1
    assert polled.offers("r2") == {}


def test_a_list_of_which_a_part_was_never_read_is_not_whole(tmp_path: Path) -> None:
    polled = Cloud(
        tmp_path, planned_cell("stock", part="hourly"), planned_cell("stock", part="spot"), planned_cell("prices")
    )
    polled.told(at(0), machine("m1"), machine("m2"), price("m1"), price("m2"), feed="prices")
    polled.told(at(1), machine("m1"), stock("m1"), part="hourly")
    assert {key[1] for key in polled.offers()} == {"m1", "m2"}
    polled.told(at(2), part="spot")
    assert {key[1] for key in polled.offers()} == {"m1"}


def test_a_stock_feed_that_names_no_machines_makes_none_gone(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("prices"), planned_cell("stock"))
    polled.told(at(0), machine("m1"), price("m1"), feed="prices")
    polled.told(at(1), stock("m1"))
    assert {key[1] for key in polled.offers()} == {"m1"}


def test_a_partial_machines_answer_makes_nothing_gone(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("machines"), planned_cell("prices"))
    polled.told(at(0), machine("m1"), machine("m2"), price("m1"), price("m2"), feed="prices")
    polled.told(at(1), machine("m1"), feed="machines", missing="page 2")
    assert {key[1] for key in polled.offers()} == {"m1", "m2"}


# --- what changed


def test_revisions_tell_which_cells_to_read_again_and_shelves_where(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("prices", place=""))
    before = revisions(polled.engine)
    polled.told(at(0), machine(), price(), price(region="r2"), feed="prices", place="")
    polled.failed(at(0), "stock")
    changed = {of for of, revision in revisions(polled.engine).items() if before[of] != revision}
    assert changed == {cell(polled.engine, "prices", "")["id"]}
    assert shelves_of(polled.engine, changed) == {changed.pop(): {("cloud", "r1"), ("cloud", "r2")}}
    assert shelves_of(polled.engine, []) == {}


def test_an_empty_answer_about_a_region_is_about_that_region(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock", place="r7"))
    polled.told(at(0), place="r7")
    one = cell(polled.engine, place="r7")["id"]
    assert shelves_of(polled.engine, [one]) == {one: {("cloud", "r7")}}


def test_an_answer_about_no_place_is_about_every_region_of_its_provider(tmp_path: Path) -> None:
    polled = Cloud(
        tmp_path, planned_cell("machines", place=""), planned_cell("prices", place=""), planned_cell("stock")
    )
    plan(polled.engine, planned_cell("stock", provider="other", place="r4"), name="other")
    polled.told(at(0), machine(region="r2"), feed="prices", place="")
    polled.told(at(1), machine(region="r3"), feed="machines", place="")
    one = cell(polled.engine, "machines", "")["id"]
    assert shelves_of(polled.engine, [one]) == {one: {("cloud", "r1"), ("cloud", "r2"), ("cloud", "r3")}}


def test_many_cells_are_looked_up_at_once(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), *(planned_cell("spot", part=str(n)) for n in range(1200)))
    cells = [row["id"] for row in rows(polled.engine, "cells")]
    assert len(cells) == 1201
    assert shelves_of(polled.engine, range(1, max(cells) + 100)) == {key: {("cloud", "r1")} for key in cells}


@pytest.mark.parametrize("change", ["fresh_for", "dropped"])
def test_settings_that_change_what_offers_say_raise_the_revision(tmp_path: Path, change: str) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), stock())
    plan(polled.engine, planned_cell("stock"))
    assert cell(polled.engine)["revision"] == 1
    plan(polled.engine, *([planned_cell("stock", fresh_for=MINUTE)] if change == "fresh_for" else []))
    assert cell(polled.engine)["revision"] == 2


def test_a_list_that_turns_out_not_to_be_served_raises_the_revision_once(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    for minute in (1, 2):
        lease = polled.claimed(at(minute))
        record.failed(polled.engine, lease, record.Result("off", error="not served"), at(minute), at(minute))
    assert cell(polled.engine)["revision"] == 1


# --- several at once


def test_readers_and_writers_at_once_see_whole_answers_and_no_lock_error(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    names = [f"m{number}" for number in range(300)]
    levels = (Level.IN_STOCK, Level.OUT)

    def answer(level: Level) -> list[Fact]:
        return [fact for name in names for fact in (machine(name), stock(name, level))]

    polled.told(at(0), *answer(levels[0]))
    done = threading.Event()

    def read() -> None:
        engine = engine_at(tmp_path)
        try:
            while not done.is_set():
                found = load(engine, ("cloud", "r1"), T0)
                assert len(found) == 300
                assert len({offer.stock.level for offer in found}) == 1
        finally:
            engine.dispose()

    def reserve() -> None:
        engine = engine_at(tmp_path)
        try:
            while not done.is_set():
                schedule.reserve(engine, "key", 1000, T0, timedelta(days=1))
        finally:
            engine.dispose()

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work) for work in (read, read, read, reserve)]
        try:
            for minute in range(1, 15):
                polled.told(at(minute), *answer(levels[minute % 2]))
        finally:
            done.set()
        for one in working:
            one.result()


@pytest.mark.parametrize("feed", ["machines", "prices"])
def test_the_snapshot_steps_back_for_what_was_polled(tmp_path: Path, feed: str) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    snapshot.load_bundled(polled.engine)
    engine, region = polled.engine, ("aws", "us-east-1")
    bundled = {offer.machine.instance_type for offer in load(engine, region, T0)}
    assert len(bundled) > 50
    planning.plan(engine, planned_provider("aws"), [planned_cell(feed, provider="aws", place="us-east-1")], T0)
    (lease,) = [one for one in schedule.claim(engine, T0, LEASE, 10) if one.provider == "aws"]
    said = machine("g4dn.xlarge", region="us-east-1", purchases=frozenset())
    record.record(engine, lease, record.Answer([said]), T0, T0)
    (offer,) = load(engine, region, T0)
    assert offer.stock.evidence is Evidence.LISTED
    assert offer.price is not None
    assert (offer.price.nanos, offer.price.stale(T0), offer.price.source[:8]) == (526_000_000, True, "snapshot")


T4, A10 = "ecs.gn6i-c4g1.xlarge", "ecs.gn7i-c8g1.2xlarge"
PARTS = {"PostPaid": Purchase.ON_DEMAND, "SpotAsPriceGo": Purchase.SPOT}


class Alibaba:
    """Alibaba's bundled prices, and the stock of two regions, a cell for each way to buy, beside a list of hardware."""

    def __init__(self, folder: Path) -> None:
        self.engine = Cloud(folder).engine
        snapshot.load_bundled(self.engine)
        stocks = [("stock", region, part) for region in ("cn-hangzhou", "cn-beijing") for part in PARTS]
        cells = [("machines", "cn-hangzhou", ""), ("machines", "cn-beijing", ""), *stocks]
        planned = [
            planned_cell(feed, provider="alibaba", place=place, part=part, absent=Level.UNKNOWN.value)
            for feed, place, part in cells
        ]
        planning.plan(self.engine, planned_provider("alibaba", site="cn"), planned, T0)
        found = schedule.claim(self.engine, T0, LEASE, 99)
        self._leases = {(one.feed, one.place, one.part): one for one in found}
        for region in ("cn-hangzhou", "cn-beijing"):
            self.told(
                "machines", region, "", *(machine(name, region=region, purchases=frozenset()) for name in (T4, A10))
            )

    def told(self, feed: str, region: str, part: str, *facts: Fact) -> None:
        record.record(self.engine, self._leases[feed, region, part], record.Answer(list(facts)), T0, T0)

    def stock(self, region: str, part: str, *names: str) -> None:
        kinds = frozenset({PARTS[part]})
        self.told("stock", region, part, *(stock(name, region=region, purchases=kinds) for name in names))

    def off(self, region: str, part: str) -> None:
        record.failed(self.engine, self._leases["stock", region, part], Result("off", error="no right"), T0, T0)

    def on_demand(self, region: str = "cn-hangzhou") -> set[str]:
        found = load(self.engine, ("alibaba", region), T0)
        return {one.machine.instance_type for one in found if one.purchase is Purchase.ON_DEMAND}


def test_a_bundled_price_of_a_machine_that_is_not_sold_there_ends_with_the_first_whole_stock(tmp_path: Path) -> None:
    cloud = Alibaba(tmp_path)
    assert cloud.on_demand() == {T4, A10}
    cloud.stock("cn-hangzhou", "SpotAsPriceGo", A10, T4)
    assert cloud.on_demand() == {T4, A10}, "what is sold as spot says nothing of what is on demand"
    cloud.stock("cn-hangzhou", "PostPaid", A10)
    assert cloud.on_demand() == {A10}
    assert cloud.on_demand("cn-beijing") == {T4, A10}, "each region has a list of its own"
    cloud.stock("cn-beijing", "PostPaid")
    assert cloud.on_demand("cn-beijing") == set(), "a list that names nothing is one of what its like names elsewhere"


def test_a_stock_that_is_not_served_or_failed_ends_no_bundled_price(tmp_path: Path) -> None:
    cloud = Alibaba(tmp_path)
    cloud.stock("cn-beijing", "PostPaid", A10)
    cloud.stock("cn-hangzhou", "SpotAsPriceGo", A10)
    cloud.off("cn-hangzhou", "PostPaid")
    assert cloud.on_demand() == {T4, A10}
    assert cloud.on_demand("cn-beijing") == {A10}


def test_the_stock_of_capacity_blocks_ends_no_bundled_price_on_demand(tmp_path: Path) -> None:
    engine = Cloud(tmp_path).engine
    snapshot.load_bundled(engine)
    before = {one.machine.instance_type for one in load(engine, ("aws", "us-east-1"), T0)}
    planning.plan(engine, planned_provider("aws"), [planned_cell("stock", provider="aws", place="us-east-1")], T0)
    (lease,) = [one for one in schedule.claim(engine, T0, LEASE, 10) if one.provider == "aws"]
    block = stock("p5.48xlarge", region="us-east-1", purchases=frozenset({Purchase.CAPACITY_BLOCK}))
    record.record(engine, lease, record.Answer([block]), T0, T0)
    found = [one for one in load(engine, ("aws", "us-east-1"), T0) if one.purchase is Purchase.ON_DEMAND]
    assert {one.machine.instance_type for one in found} == before
