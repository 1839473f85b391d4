"""The join: which offers the facts of a region make, whatever order they come in."""

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.facts import Machine, Window
from catalog.offers import Offer, Place, PriceNow, StockNow
from catalog.words import EVIDENCES, Evidence, Level, Purchase
from store.join import Shelf, Stated, bookable, offers
from tests.support.stored import MINUTE, NANO, T0, machine

HERE = Place(provider="cloud", region="r1", country="DE")
FRESH = 3 * MINUTE
ON_DEMAND, SPOT, BLOCK = Purchase.ON_DEMAND, Purchase.SPOT, Purchase.CAPACITY_BLOCK
CELLS = {"machines": 1, "stock": 2, "prices": 3, "spot": 4, "scores": 5, "snapshot": 6}

Said = tuple[str, str, Stated[Any]]
"""(shelf's field, machine, statement)."""


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


def _stated(feed: str, value: Any, minute: int, changes: dict[str, Any]) -> Stated[Any]:
    return Stated(changes.pop("cell_id", CELLS[feed]), feed, at(minute), FRESH, value, **changes)


def lists(feed: str = "machines", name: str = "m1", minute: int = 0, **changes: Any) -> Said:
    return "machines", name, _stated(feed, machine(name, **changes), minute, {})


def sells(zone: str | None, name: str = "m1", zone_id: str | None = None) -> Said:
    return "offered", name, _stated("machines", None, 0, {"zone": zone, "zone_id": zone_id})


def priced(
    nanos: int = NANO, feed: str = "prices", name: str = "m1", minute: int = 0, source: str = "a list", **changes: Any
) -> Said:
    value = PriceNow(nanos=nanos, currency="USD", source=source, seen_at=at(minute), fresh_for=FRESH)
    return "prices", name, _stated(feed, value, minute, changes)


def stocked(
    level: Level = Level.IN_STOCK,
    feed: str = "stock",
    name: str = "m1",
    minute: int = 0,
    evidence: Evidence = Evidence.REPORTED,
    **changes: Any,
) -> Said:
    value = StockNow(level=level, evidence=evidence, seen_at=at(minute), fresh_for=FRESH)
    return "stocks", name, _stated(feed, value, minute, changes)


def shelf(
    said: Iterable[Said],
    *,
    listed: bool = True,
    zone_ids: dict[str, str] | None = None,
    launches: dict[tuple[str, str, Purchase], StockNow] | None = None,
    machines_at: datetime | None = None,
    stock_lists: frozenset[Purchase] = frozenset(),
) -> Shelf:
    fields: dict[str, dict[str, list[Stated[Any]]]] = {"machines": {}, "offered": {}, "prices": {}, "stocks": {}}
    for field, name, statement in said:
        fields[field].setdefault(name, []).append(statement)
    return Shelf(
        place=HERE,
        listed=listed,
        zone_ids=zone_ids or {},
        launches=launches or {},
        machines_at=machines_at,
        stock_lists=stock_lists,
        **fields,
    )


def joined(*said: Said, **how: Any) -> dict[tuple[str | None, str, str], Offer]:
    """(zone, machine, purchase) -> offer."""
    found = offers(shelf(said, **how))
    keyed = {(one.place.zone, one.machine.instance_type, one.purchase.value): one for one in found}
    assert len(keyed) == len(found)
    return keyed


def nanos(offer: Offer) -> int | None:
    return None if offer.price is None else offer.price.nanos


# --- places


def test_a_machine_without_zones_is_offered_by_the_region() -> None:
    (offer,) = joined(lists(), priced(), stocked()).values()
    assert (offer.place, offer.purchase, nanos(offer), offer.stock.level) == (HERE, ON_DEMAND, NANO, Level.IN_STOCK)


def test_a_regions_price_serves_the_zones_that_have_none_of_their_own() -> None:
    found = joined(lists(), sells("a"), sells("b"), priced(), priced(2 * NANO, zone="b"))
    assert {key[0]: nanos(offer) for key, offer in found.items()} == {"a": NANO, "b": 2 * NANO}


def test_a_regions_stock_serves_the_zones_that_have_none_of_their_own() -> None:
    found = joined(lists(), sells("a"), sells("b"), stocked(Level.OUT), stocked(Level.LOW, zone="b"))
    assert {key[0]: offer.stock.level for key, offer in found.items()} == {"a": Level.OUT, "b": Level.LOW}


def test_a_score_of_a_zone_does_not_hide_the_stock_of_the_region() -> None:
    scored = stocked(Level.UNKNOWN, "scores", minute=9, evidence=Evidence.SCORED, zone="a")
    assert joined(lists(), scored, stocked(Level.OUT))["a", "m1", "on_demand"].stock.level is Level.OUT
    assert joined(lists(), scored)["a", "m1", "on_demand"].stock.evidence is Evidence.SCORED


def scores(zone: str | None, score: str, purchase: Purchase = SPOT) -> Said:
    value = StockNow(level=Level.UNKNOWN, evidence=Evidence.SCORED, seen_at=at(0), fresh_for=FRESH, score=score)
    return "stocks", "m1", _stated("scores", value, 0, {"zone": zone, "purchase": purchase})


def test_a_score_offers_nothing_where_prices_say_where_a_purchase_is_sold() -> None:
    """A region's score is of all its zones, and the zone without a spot price still has no spot machines."""
    said = [lists(purchases=frozenset({SPOT})), sells("a"), sells("b"), priced(zone="a", purchase=SPOT)]
    for score in (scores(None, "low"), scores("b", "3/10")):
        found = joined(*said, score)
        assert {key for key in found if key[2] == "spot"} == {("a", "m1", "spot")}
    assert joined(*said, scores(None, "low"))["a", "m1", "spot"].stock.score == "low"


def test_a_score_alone_shows_that_a_purchase_exists() -> None:
    found = joined(lists(), sells("a"), scores(None, "low"))
    assert found["a", "m1", "spot"].price is None
    assert found["a", "m1", "on_demand"].stock.evidence is Evidence.LISTED


def test_of_a_zones_score_and_its_regions_both_are_shown() -> None:
    for said in ([scores("a", "3/10"), scores(None, "low")], [scores(None, "low"), scores("a", "3/10")]):
        assert joined(lists(), sells("a"), sells("b"), *said)["a", "m1", "spot"].stock.score == "3/10, low"
        assert joined(lists(), sells("a"), sells("b"), *said)["b", "m1", "spot"].stock.score == "low"


@pytest.mark.parametrize("zone", ["a", None])
@pytest.mark.parametrize("level", [Level.IN_STOCK, Level.OUT])
def test_no_score_weakens_what_somebody_states(zone: str | None, level: Level) -> None:
    stated = stocked(level, zone=zone, purchase=SPOT)
    found = joined(lists(), sells("a"), stated, scores("a", "1/10"), scores(None, "low"))["a", "m1", "spot"]
    assert (found.stock.level, found.stock.evidence, found.stock.score) == (level, Evidence.REPORTED, None)


def windowed(begins: int, cell_id: int = 2, **where: Any) -> Said:
    window = Window(at(begins), at(begins + 60))
    value = PriceNow(nanos=NANO, currency="USD", source="x", seen_at=at(0), fresh_for=FRESH, window=window)
    return "prices", "m1", _stated("stock", value, 0, {"cell_id": cell_id, "purchase": BLOCK, **where})


def test_a_window_that_has_begun_takes_the_stock_along_that_its_cell_states_with_it_and_no_other() -> None:
    said = [
        lists(purchases=frozenset({BLOCK})),
        windowed(5, zone="a"),
        stocked(zone="a", purchase=BLOCK),
        windowed(9, zone="b"),
        stocked(zone="b", purchase=BLOCK),
        stocked(zone="a"),
        stocked(zone="a", name="m2", purchase=BLOCK),
    ]
    known = shelf(said)
    assert bookable(known, at(4)) is known
    left = bookable(known, at(5))
    assert [one.zone for one in left.prices["m1"]] == ["b"]
    assert {(one.zone, one.purchase) for one in left.stocks["m1"]} == {("b", BLOCK), ("a", ON_DEMAND)}
    assert left.stocks["m2"] == known.stocks["m2"]
    assert {one.place.zone for one in offers(left) if one.purchase is BLOCK} == {"b"}


def test_one_zone_told_by_name_and_by_id_is_one_zone() -> None:
    said = (lists(), sells("a"), priced(zone_id="az1"), stocked(zone="a", zone_id="az1"))
    for zone_ids in ({"a": "az1"}, {}):
        (offer,) = joined(*said, zone_ids=zone_ids).values()
        assert (offer.place.zone, offer.place.zone_id) == ("a", "az1")
        assert (nanos(offer), offer.stock.level) == (NANO, Level.IN_STOCK)


def test_two_zones_that_share_a_name_stay_two() -> None:
    found = offers(shelf([lists(), priced(zone="a", zone_id="az1"), priced(2 * NANO, zone="a", zone_id="az2")]))
    assert {one.place.zone_id: nanos(one) for one in found} == {"az1": NANO, "az2": 2 * NANO}


@pytest.mark.parametrize(("zone", "zone_id"), [("a", None), (None, "az1"), ("a", "az1")])
def test_a_place_has_the_zones_name_and_id_as_far_as_known(zone: str | None, zone_id: str | None) -> None:
    (offer,) = joined(lists(), priced(zone=zone, zone_id=zone_id)).values()
    assert (offer.place.zone, offer.place.zone_id) == (zone, zone_id)


def test_all_offers_of_a_zone_share_one_place() -> None:
    found = joined(lists(), lists(name="m2"), sells("a"), sells("a", "m2"))
    assert found["a", "m1", "on_demand"].place is found["a", "m2", "on_demand"].place


# --- purchases


def test_a_zone_without_spot_price_has_no_spot_offer_where_others_have() -> None:
    both = frozenset({ON_DEMAND, SPOT})
    zones = [sells(zone) for zone in ("1a", "1b", "1c")]
    spot = [priced(NANO, "spot", zone=zone, purchase=SPOT) for zone in ("1b", "1c")]
    found = joined(lists(purchases=both), *zones, *spot, priced(3 * NANO))
    assert {key for key in found if key[2] == "spot"} == {("1b", "m1", "spot"), ("1c", "m1", "spot")}
    assert {key[0]: nanos(offer) for key, offer in found.items() if key[2] == "on_demand"} == dict.fromkeys(
        ("1a", "1b", "1c"), 3 * NANO
    )


def test_a_spot_price_of_the_region_serves_every_zone() -> None:
    found = joined(lists(), sells("1a"), sells("1b"), priced(zone="1b", purchase=SPOT), priced(2 * NANO, purchase=SPOT))
    assert {key[0]: nanos(offer) for key, offer in found.items() if key[2] == "spot"} == {"1a": 2 * NANO, "1b": NANO}


def test_without_any_spot_price_a_listed_spot_machine_is_unpriced() -> None:
    found = joined(lists(purchases=frozenset({ON_DEMAND, SPOT})), sells("1a"), priced(3 * NANO))
    assert nanos(found["1a", "m1", "spot"]) is None
    assert nanos(found["1a", "m1", "on_demand"]) == 3 * NANO


def test_a_machine_for_capacity_blocks_only_is_visible_and_unpriced() -> None:
    (key,) = (found := joined(lists(purchases=frozenset({BLOCK})), sells("1a")))
    assert key == ("1a", "m1", "capacity_block")
    assert (nanos(found[key]), found[key].stock.level) == (None, Level.UNKNOWN)


def test_no_purchase_inherits_anothers_price_or_stock() -> None:
    found = joined(lists(purchases=frozenset({ON_DEMAND, SPOT})), priced(), stocked(purchase=SPOT))
    on_demand, spot = found[None, "m1", "on_demand"], found[None, "m1", "spot"]
    assert (nanos(on_demand), on_demand.stock.level) == (NANO, Level.UNKNOWN)
    assert (nanos(spot), spot.stock.level) == (None, Level.IN_STOCK)


def test_stock_alone_makes_a_purchase_visible() -> None:
    assert (None, "m1", "month") in joined(lists(), stocked(Level.OUT, purchase=Purchase.MONTH))


# --- machines


def test_a_price_without_a_machine_is_no_offer() -> None:
    assert joined(priced(), stocked()) == {}


def test_a_machine_that_a_whole_list_no_longer_has_is_gone_though_its_price_is_fresh() -> None:
    from_prices = lists("prices", minute=9)
    assert joined(from_prices, priced(minute=9), stocked(minute=9), listed=True) == {}
    assert len(joined(from_prices, priced(minute=9), listed=False)) == 1


@pytest.mark.parametrize(("minute", "lives"), [(4, False), (5, True), (6, True)])
def test_a_machine_that_the_machines_list_dropped_lives_only_by_a_stock_answer_that_is_not_older(
    minute: int, lives: bool
) -> None:
    said = [lists("stock", minute=minute), lists("prices", minute=9), priced(minute=9), stocked(minute=minute)]
    assert len(joined(*said, machines_at=at(5))) == int(lives)
    assert len(joined(*said, lists("machines"), machines_at=at(5))) == 1
    assert len(joined(*said, machines_at=None)) == 1, "where no machines list was read, stock says which there are"


def test_a_machine_without_accelerator_outlives_its_stock_answer() -> None:
    plain = lists("stock", "c1", gpu=None, gpu_count=Fraction(0))
    assert len(joined(plain, machines_at=at(5))) == 1


@pytest.mark.parametrize("count", [Fraction(1), Fraction(1, 4), None])
def test_a_snapshots_machine_is_gone_once_the_machines_are_listed(count: Fraction | None) -> None:
    old = [lists("snapshot", gpu_count=count), priced(feed="snapshot")]
    assert len(joined(*old, listed=False)) == 1
    assert joined(*old, listed=True) == {}


def test_a_machine_without_accelerator_survives_a_list_of_accelerators_only() -> None:
    plain = lists("prices", "c1", gpu=None, gpu_count=Fraction(0))
    assert set(joined(plain, lists(name="m1"), priced(name="c1"), listed=True)) == {
        (None, "c1", "on_demand"),
        (None, "m1", "on_demand"),
    }


def test_a_snapshots_machine_vanishes_where_live_ones_are() -> None:
    old = [lists("snapshot", "old"), priced(feed="snapshot", name="old")]
    live = lists("prices", "live")
    assert set(joined(*old, live, listed=False)) == {(None, "live", "on_demand")}
    assert set(joined(*old, listed=False)) == {(None, "old", "on_demand")}


def test_of_two_descriptions_the_machines_list_goes_first_and_gaps_are_filled() -> None:
    said = [
        lists("snapshot", vcpus=1, memory_mib=1024, nvlink=True),
        lists("prices", vcpus=2, memory_mib=2048, minute=9),
        lists("stock", vcpus=3, minute=9),
        lists("machines", gpu_raw="T4"),
    ]
    (offer,) = joined(*said).values()
    known = offer.machine
    assert (known.gpu_raw, known.vcpus, known.memory_mib, known.nvlink) == ("T4", 3, 2048, True)


@pytest.mark.parametrize("newer", [0, 1])
def test_of_two_descriptions_of_one_feed_the_newer_stands(newer: int) -> None:
    said = [lists(vcpus=number, minute=9 if number == newer + 1 else 0) for number in (1, 2)]
    (offer,) = joined(*said).values()
    assert offer.machine.vcpus == newer + 1


def test_descriptions_that_do_not_go_together_are_not_mixed() -> None:
    unknown = lists("machines", gpu="t4-16g", gpu_count=None)
    (offer,) = joined(unknown, lists("prices", gpu=None, gpu_count=Fraction(0))).values()
    assert (offer.machine.gpu, offer.machine.gpu_count) == ("t4-16g", None)
    plain = lists("machines", gpu=None, gpu_count=Fraction(0))
    (offer,) = joined(plain, lists("snapshot")).values()
    assert (offer.machine.gpu, offer.machine.gpu_count) == (None, Fraction(0))


# --- a snapshot beside a whole list of stock

HARDWARE: dict[str, Any] = {"purchases": frozenset()}
"""A machine of a list that says nothing of what is for sale."""


def of_snapshot(name: str, purchase: Purchase = ON_DEMAND) -> list[Said]:
    """A machine that a snapshot has a price of, and that the live list of hardware names."""
    old = lists("snapshot", name, purchases=frozenset({purchase}))
    return [lists(name=name, **HARDWARE), old, priced(feed="snapshot", name=name, purchase=purchase)]


def test_a_snapshot_offers_no_machine_that_a_whole_list_of_stock_does_not_name() -> None:
    """Prices that are asked for machine by machine are no list that would say so."""
    said = [*of_snapshot("m1"), *of_snapshot("m2"), stocked(name="m1"), lists(name="m3")]
    assert {key[1] for key in joined(*said, stock_lists=frozenset({ON_DEMAND}))} == {"m1", "m3"}
    assert {key[1] for key in joined(*said)} == {"m1", "m2", "m3"}, "of AWS, say, nobody states any stock on demand"


def test_a_snapshot_still_prices_a_machine_that_the_list_of_stock_names() -> None:
    for level in (Level.IN_STOCK, Level.OUT, Level.UNKNOWN):
        found = joined(*of_snapshot("m1"), stocked(level), stock_lists=frozenset({ON_DEMAND}))
        assert [(nanos(one), one.stock.level) for one in found.values()] == [(NANO, level)]


def test_a_list_of_stock_is_one_of_its_own_purchases_alone() -> None:
    said = [*of_snapshot("m1"), *of_snapshot("m1", SPOT)[1:], *of_snapshot("m1", BLOCK)[1:]]
    assert {key[2] for key in joined(*said, stock_lists=frozenset({SPOT}))} == {"on_demand", "capacity_block"}
    assert {key[2] for key in joined(*said, stocked(), stock_lists=frozenset({ON_DEMAND, BLOCK}))} == {
        "on_demand",
        "spot",
    }


def test_what_is_stated_live_stands_beside_a_list_of_stock_that_does_not_name_it() -> None:
    both = frozenset({ON_DEMAND})
    assert nanos(joined(*of_snapshot("m1"), priced(2 * NANO), stock_lists=both)[None, "m1", "on_demand"]) == 2 * NANO
    assert (
        nanos(joined(lists(purchases=both), priced(feed="snapshot"), stock_lists=both)[None, "m1", "on_demand"]) is None
    )
    assert joined(*of_snapshot("m1", SPOT), scores(None, "low"), stock_lists=frozenset({SPOT})).keys() == {
        (None, "m1", "spot")
    }
    assert joined(*of_snapshot("m1", SPOT), stock_lists=frozenset({SPOT})) == {}


def test_the_stock_of_a_snapshot_offers_nothing_that_a_whole_list_does_not_name() -> None:
    old = [lists("snapshot"), stocked(Level.IN_STOCK, "snapshot", evidence=Evidence.SNAPSHOT)]
    assert joined(*old, listed=False)
    assert joined(*old, listed=False, stock_lists=frozenset({ON_DEMAND})) == {}


# --- lists that do not agree

ONE, QUARTER = Fraction(1), Fraction(1, 4)


def accelerators_of(*said: Said, **how: Any) -> tuple[str | None, Fraction | None]:
    (offer,) = joined(*said, **how).values()
    return offer.machine.gpu, offer.machine.gpu_count


@pytest.mark.parametrize(
    ("machines", "stocked", "known"),
    [
        (("t4", ONE), ("t4", ONE), ("t4", ONE)),
        (("t4", ONE), ("l4", ONE), (None, ONE)),
        (("t4", ONE), ("t4", Fraction(2)), ("t4", None)),
        (("t4", ONE), ("t4", QUARTER), ("t4", None)),
        (("t4", ONE), ("l4", QUARTER), (None, None)),
        (("t4", ONE), (None, None), ("t4", ONE)),
        ((None, None), ("t4", ONE), ("t4", ONE)),
        (("t4", None), (None, ONE), ("t4", ONE)),
        (("t4", ONE), (None, Fraction(0)), (None, None)),
        ((None, Fraction(0)), ("t4", None), (None, None)),
        ((None, Fraction(0)), (None, Fraction(0)), (None, Fraction(0))),
        (("a100-unstated", ONE), ("a100-pcie-40g", ONE), ("a100-pcie-40g", ONE)),
        (("a100-unstated-40g", ONE), ("a100-pcie-40g", ONE), ("a100-pcie-40g", ONE)),
        (("a100-unstated", ONE), ("a100-unstated-80g", ONE), ("a100-unstated-80g", ONE)),
        (("rtx-pro-6000-unstated", ONE), ("rtx-pro-6000-server", ONE), ("rtx-pro-6000-server", ONE)),
        (("a100-unstated-80g", ONE), ("a100-pcie-40g", ONE), (None, ONE)),
        (("a100-pcie-40g", ONE), ("a100-sxm4-40g", ONE), (None, ONE)),
        (("a100-unstated", ONE), ("h100-unstated", ONE), (None, ONE)),
    ],
)
def test_what_two_lists_contradict_each_other_in_is_unknown_and_a_refinement_stands(
    machines: tuple[str | None, Fraction | None],
    stocked: tuple[str | None, Fraction | None],
    known: tuple[str | None, Fraction | None],
) -> None:
    for first, second in ((machines, stocked), (stocked, machines)):
        said = [lists("machines", gpu=first[0], gpu_count=first[1]), lists("stock", gpu=second[0], gpu_count=second[1])]
        assert accelerators_of(*said) == known
        assert accelerators_of(*said, machines_at=at(0)) == known


def test_two_answers_of_one_feed_that_contradict_each_other_are_no_better() -> None:
    assert accelerators_of(lists("stock", gpu="t4"), lists("stock", gpu="l4")) == (None, ONE)


def test_of_three_lists_the_precise_one_stands_only_where_it_refines_both_others() -> None:
    open_, of_40g = lists(gpu="a100-unstated"), lists("stock", gpu="a100-unstated-40g")
    assert accelerators_of(open_, of_40g, lists("stock", gpu="a100-pcie-40g")) == ("a100-pcie-40g", ONE)
    assert accelerators_of(open_, of_40g, lists("stock", gpu="a100-pcie-80g")) == (None, ONE)


def test_a_contradiction_shows_what_each_list_said_and_no_other_statement_fills_it() -> None:
    said = [
        lists("machines", gpu="t4", gpu_raw="T4", vram_mib=16384),
        lists("stock", gpu="l4", gpu_raw="L4", vram_mib=24576),
        lists("prices", gpu="l4", gpu_raw="L4", vram_mib=24576),
    ]
    (offer,) = joined(*said).values()
    assert (offer.machine.gpu, offer.machine.gpu_raw, offer.machine.vram_mib) == (None, "L4 | T4", None)


def test_prices_and_snapshots_contradict_no_list() -> None:
    other: dict[str, Any] = {"gpu": "l4", "gpu_count": QUARTER}
    assert accelerators_of(lists(gpu="t4"), lists("prices", **other), lists("snapshot", **other)) == ("t4", ONE)


@pytest.mark.parametrize(("minutes", "gpu"), [(3, None), (4, "t4")])
def test_a_stock_answer_that_was_no_longer_fresh_when_the_machines_were_read_contradicts_nothing(
    minutes: int, gpu: str | None
) -> None:
    assert accelerators_of(lists("machines", gpu="t4", minute=minutes), lists("stock", gpu="l4")) == (gpu, ONE)


# --- the snapshot's prices


def test_a_live_machine_carries_the_snapshots_price_until_it_has_its_own() -> None:
    old = [lists("snapshot"), priced(5 * NANO, "snapshot", source="snapshot of x", minute=-999)]
    (offer,) = joined(lists(), *old).values()
    assert offer.price is not None
    assert (offer.price.nanos, offer.price.seen_at) == (5 * NANO, at(-999))
    assert offer.price.source.startswith("snapshot")
    (offer,) = joined(lists(), *old, priced(NANO, minute=-9999)).values()
    assert nanos(offer) == NANO


def test_a_list_that_prices_other_machines_replaces_the_snapshots_prices() -> None:
    old = priced(5 * NANO, "snapshot")
    others = [lists(name="m2"), lists(name="m3"), priced(name="m2"), priced(name="m3")]
    assert nanos(joined(lists(), old, *others)[None, "m1", "on_demand"]) is None
    alone = [lists(name="m2"), priced(name="m2", cell_id=7), lists(name="m3"), priced(name="m3", cell_id=8)]
    assert nanos(joined(lists(), old, *alone)[None, "m1", "on_demand"]) == 5 * NANO


def test_a_list_of_one_purchase_leaves_the_snapshots_price_of_another() -> None:
    both = frozenset({ON_DEMAND, SPOT})
    old = priced(5 * NANO, "snapshot")
    spot = [priced(NANO, "spot", name=name, purchase=SPOT) for name in ("m1", "m2")]
    found = joined(lists(purchases=both), lists(name="m2", purchases=both), old, *spot)
    assert nanos(found[None, "m1", "on_demand"]) == 5 * NANO
    assert nanos(found[None, "m1", "spot"]) == NANO


def test_what_a_live_list_does_not_sell_on_demand_is_not_priced_so_by_a_snapshot() -> None:
    old = [lists("snapshot"), priced(5 * NANO, "snapshot")]
    assert set(joined(lists(purchases=frozenset({BLOCK})), *old)) == {(None, "m1", "capacity_block")}
    assert set(joined(lists(purchases=frozenset()), *old)) == {(None, "m1", "on_demand")}


# --- which statement wins


def test_stronger_evidence_wins_then_the_newer() -> None:
    in_stock, out = stocked(Level.IN_STOCK, minute=1), stocked(Level.OUT, minute=2)
    scored = stocked(Level.UNKNOWN, "scores", minute=9, evidence=Evidence.SCORED)
    for said in ([in_stock, out, scored], [scored, out, in_stock]):
        assert joined(lists(), *said)[None, "m1", "on_demand"].stock.level is Level.OUT


def test_stale_reported_stock_still_beats_a_fresh_listing() -> None:
    fresh = stocked(Level.UNKNOWN, minute=600, evidence=Evidence.LISTED)
    (offer,) = joined(lists(minute=600), stocked(Level.IN_STOCK), fresh).values()
    now = at(600)
    assert (offer.stock.level, offer.stock.stale(now), offer.confirmed(now)) == (Level.IN_STOCK, True, False)


def test_what_a_list_says_of_a_whole_region_offers_nothing_and_is_no_stock() -> None:
    """How much of a quota is used says neither that a machine is sold so, nor in which zones."""
    of_list: Any = {"level": Level.UNKNOWN, "feed": "machines", "evidence": Evidence.LISTED}
    quotas = [stocked(**of_list, purchase=purchase) for purchase in (ON_DEMAND, SPOT)]
    assert set(joined(lists(), sells("a"), *quotas)) == {("a", "m1", "on_demand")}
    spot_in_a = [sells("a"), sells("b"), priced(feed="spot", purchase=SPOT, zone="a")]
    found = joined(lists(purchases=frozenset({ON_DEMAND, SPOT})), *spot_in_a, *quotas)
    assert set(found) == {("a", "m1", "on_demand"), ("b", "m1", "on_demand"), ("a", "m1", "spot")}
    assert {one.stock.evidence for one in found.values()} == {Evidence.LISTED}
    scored = stocked(Level.UNKNOWN, "scores", evidence=Evidence.SCORED, purchase=SPOT, zone="a")
    assert joined(lists(), *spot_in_a, *quotas, scored)["a", "m1", "spot"].stock.evidence is Evidence.SCORED
    reported = stocked(Level.OUT, zone="a")
    assert joined(lists(), *spot_in_a, *quotas, reported)["a", "m1", "on_demand"].stock.level is Level.OUT


@pytest.mark.parametrize(("feed", "evidence"), [("machines", Evidence.LISTED), ("snapshot", Evidence.SNAPSHOT)])
def test_unstated_stock_is_unknown_by_the_list_that_names_the_machine(feed: str, evidence: Evidence) -> None:
    (offer,) = joined(lists(feed, minute=4), listed=feed != "snapshot").values()
    assert (offer.stock.level, offer.stock.evidence, offer.stock.seen_at) == (Level.UNKNOWN, evidence, at(4))


def test_the_newer_price_wins() -> None:
    assert [nanos(one) for one in joined(lists(), priced(NANO, minute=1), priced(9 * NANO)).values()] == [NANO]


# --- launches


def taught(minute: int, level: Level = Level.OUT) -> StockNow:
    return StockNow(level=level, evidence=Evidence.OBSERVED, seen_at=at(minute), fresh_for=timedelta(minutes=30))


def test_a_launch_teaches_of_exactly_its_zone_machine_and_purchase() -> None:
    both = frozenset({ON_DEMAND, SPOT})
    said = [lists(purchases=both), lists(name="m2"), *(sells(z, n) for z in ("a", "b") for n in ("m1", "m2"))]
    found = joined(*said, launches={("a", "m1", SPOT): taught(0)})
    assert {key for key, offer in found.items() if offer.observed is not None} == {("a", "m1", "spot")}


def test_a_launch_told_by_name_is_about_the_zone_with_that_id() -> None:
    known = {"a": "az1"}
    (offer,) = joined(lists(), sells("a"), zone_ids=known, launches={("a", "m1", ON_DEMAND): taught(0)}).values()
    assert offer.observed == taught(0)
    both = {("az1", "m1", ON_DEMAND): taught(1, Level.IN_STOCK), ("a", "m1", ON_DEMAND): taught(0)}
    (offer,) = joined(lists(), sells("a"), zone_ids=known, launches=both).values()
    assert offer.observed == taught(1, Level.IN_STOCK)


# --- whatever is said, in whatever order

_NAMES = st.sampled_from(["m1", "m2"])
_FEEDS = st.sampled_from(sorted(CELLS))
_MINUTES = st.integers(0, 3)
_ZONES = st.sampled_from(
    [(None, None), ("a", None), (None, "az1"), ("a", "az1"), ("b", "az2"), ("b", None), ("a", "az3")]
)
_PURCHASES = st.sampled_from([ON_DEMAND, SPOT])


@st.composite
def _machines(draw: st.DrawFn) -> Said:
    count = draw(st.sampled_from([Fraction(0), Fraction(1), None]))
    gpu = None if count == 0 else draw(st.sampled_from(["t4-16g", None]))
    held = draw(st.frozensets(_PURCHASES))
    return lists(draw(_FEEDS), draw(_NAMES), draw(_MINUTES), gpu=gpu, gpu_count=count, purchases=held)


@st.composite
def _others(draw: st.DrawFn) -> Said:
    zone, zone_id = draw(_ZONES)
    name, minute, purchase = draw(_NAMES), draw(_MINUTES), draw(_PURCHASES)
    where: dict[str, Any] = {"zone": zone, "zone_id": zone_id, "purchase": purchase}
    match draw(st.sampled_from(["offered", "prices", "stocks"])):
        case "offered":
            return sells(zone or "a", name, zone_id)
        case "prices":
            return priced(draw(st.integers(1, 3)), draw(_FEEDS), name, minute, **where)
        case _:
            evidence = draw(st.sampled_from(EVIDENCES[1:]))
            level = draw(st.sampled_from(Level)) if evidence.is_stock else Level.UNKNOWN
            return stocked(level, draw(_FEEDS), name, minute, evidence, **where)


_SAID = st.lists(st.one_of(_machines(), _others()), max_size=14)


def _facts_of(found: Iterable[Offer]) -> list[str]:
    return sorted(map(repr, found))


@given(_SAID, st.booleans(), st.sampled_from([{}, {"a": "az1"}]), st.randoms(use_true_random=False))
def test_the_order_of_facts_never_matters(
    said: list[Said], listed: bool, zone_ids: dict[str, str], shuffled: random.Random
) -> None:
    before = offers(shelf(said, listed=listed, zone_ids=zone_ids))
    shuffled.shuffle(said)
    assert _facts_of(offers(shelf(said, listed=listed, zone_ids=zone_ids))) == _facts_of(before)


@given(_SAID, st.booleans(), st.sampled_from([{}, {"a": "az1"}]))
def test_no_two_offers_share_place_machine_and_purchase(
    said: list[Said], listed: bool, zone_ids: dict[str, str]
) -> None:
    found = offers(shelf(said, listed=listed, zone_ids=zone_ids))
    keys = [(one.place.zone_key, one.machine.instance_type, one.purchase) for one in found]
    assert len(keys) == len(set(keys))


@given(_SAID, st.booleans())
def test_every_offer_has_a_machine_and_a_price_and_stock_that_somebody_stated(said: list[Said], listed: bool) -> None:
    stated = {(field, name, repr(one.value)) for field, name, one in said}
    names = {name for field, name, _ in said if field == "machines"}
    for offer in offers(shelf(said, listed=listed)):
        name = offer.machine.instance_type
        assert name in names
        assert offer.price is None or ("prices", name, repr(offer.price)) in stated
        if offer.stock.level is not Level.UNKNOWN:
            assert ("stocks", name, repr(offer.stock)) in stated


def test_a_machine_is_built_as_it_was_stated() -> None:
    (offer,) = joined(lists(vcpus=4)).values()
    assert offer.machine == Machine(
        region="r1",
        instance_type="m1",
        gpu="t4-16g",
        gpu_count=Fraction(1),
        vcpus=4,
        purchases=frozenset({ON_DEMAND}),
    )
