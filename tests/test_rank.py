"""Which offer is the answer."""

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Any

import pytest

from catalog.fx import Rate, Rates
from catalog.money import nanos_text
from catalog.offers import Offer, StockNow
from catalog.words import Evidence, Level
from selector.context import Context
from selector.question import BadQuestion, understand
from selector.rank import rank
from selector.ranking import Ranking, Verdict
from tests.support.offers import FRESH_FOR, NOW, RATES, Here, best_of, cheapest, index_of, listed, offer, unasked

OLD = FRESH_FOR + timedelta(minutes=1)


def machines(ranking: Ranking) -> list[str]:
    """The machines answered, best first."""
    best = [] if ranking.best is None else [ranking.best]
    return [match.offer.machine.instance_type for match in (*best, *ranking.alternatives)]


def price_of(ranking: Ranking) -> str:
    assert ranking.best is not None
    assert ranking.best.nanos is not None
    return nanos_text(ranking.best.nanos)


def test_a_group_means_its_memory_and_a_family_the_cheapest_of_its_models() -> None:
    """T5."""
    offers = (
        offer(gpu="a100-sxm4-40g", instance_type="forty", price="1.00"),
        offer(gpu="a100-sxm4-80g", instance_type="eighty", price="2.00"),
    )
    assert machines(cheapest(*offers, gpu="a100-80g")) == ["eighty"]
    assert best_of(cheapest(*offers, gpu="a100")).machine.gpu == "a100-sxm4-40g"


def test_near_names_are_different_models() -> None:
    """B038: h100-nvl is only the 94 GB card; RTX 6000 Ada and RTX A6000 are not each other."""
    offers = [
        offer(gpu=gpu, instance_type=gpu)
        for gpu in ("rtx-6000-ada", "quadro-rtx-6000", "rtx-a6000", "h100-sxm5-80g", "h100-nvl-94g", "h100-pcie-80g")
    ]
    assert machines(cheapest(*offers, gpu="rtx6000ada")) == ["rtx-6000-ada"]
    assert machines(cheapest(*offers, gpu="a6000")) == ["rtx-a6000"]
    assert machines(cheapest(*offers, gpu="h100-nvl")) == ["h100-nvl-94g"]


def test_a_form_is_asked_for_by_name_or_by_nvlink() -> None:
    """B039."""
    offers = (
        offer(gpu="a100-sxm4-80g", instance_type="p1", price="1.89"),
        offer(gpu="a100-pcie-80g", instance_type="p2", price="1.64"),
        offer(gpu="a100-sxm4-80g", instance_type="p3", price="1.99"),
        offer(gpu="a100-unstated-80g", instance_type="p4", price="1.70"),
    )
    assert machines(cheapest(*offers, gpu="a100-80g")) == ["p2", "p4", "p1", "p3"]
    assert machines(cheapest(*offers, gpu="a100-sxm4-80g")) == ["p1", "p3"]
    assert machines(cheapest(*offers, gpu="a100-80g", nvlink="true")) == ["p1", "p3"]


def test_variants_for_china_are_models_of_their_own() -> None:
    """B041: A800 is no A100, H20 no H200."""
    offers = (
        offer(gpu="a800-sxm4-80g", instance_type="ecs.zz7.8x", count=8),
        offer(gpu="h20-sxm5-96g", instance_type="ecs.zz7e.8x", count=8),
    )
    assert listed(*offers, gpu="a100-80g") == []
    assert listed(*offers, gpu="a800") == [offers[0]]
    assert listed(*offers, gpu="h20") == [offers[1]]
    assert listed(*offers, gpu="h200") == []


def test_a_slice_never_meets_a_whole_gpu_nor_more_memory_than_it_has() -> None:
    """B042, B044."""
    sixth = offer(gpu="a10", count=Fraction(1, 6), instance_type="Standard_NV6ads_A10_v5", price="0.454")
    whole = offer(gpu="a10", instance_type="whole", price="3.00")
    assert machines(cheapest(sixth, whole, gpu="a10", count="1")) == ["whole"]
    assert listed(sixth, gpu="a10", count="1") == []
    assert listed(sixth, gpu="a10", min_vram="24") == []
    assert listed(sixth, gpu="a10") == [sixth]
    assert listed(sixth, gpu="a10", count="0.1667", min_vram="4") == [sixth]
    assert cheapest(sixth, gpu="a10", count="1..").best is None


def test_counts_are_of_the_machine_and_so_is_the_price() -> None:
    """B016: 0.80 for the machine of four, 0.20 per GPU; one GPU is 0.30."""
    offers = (
        offer("vast", "US", instance_type="4x", gpu="rtx3090", count=4, price="0.80", hosting="community"),
        offer("vast", "US", instance_type="1x", gpu="rtx3090", price="0.30", hosting="community"),
    )
    assert machines(cheapest(*offers, gpu="rtx3090", count="1", hosting="any")) == ["1x"]
    assert price_of(cheapest(*offers, gpu="rtx3090", count="4", hosting="any")) == "0.8"
    assert machines(cheapest(*offers, gpu="rtx3090", count="1..", hosting="any", sort="price_per_gpu")) == ["4x", "1x"]


def test_a_price_per_gpu_limit_is_met_by_the_whole_price_over_the_count() -> None:
    """B010: 8.00 for four is 2.00 each, exactly."""
    four = offer(instance_type="n-4gpu", count=4, price="8.00")
    assert best_of(cheapest(four, count="4", max_price_per_gpu="2")) == four
    assert cheapest(four, count="4", max_price_per_gpu="1.999999999").verdict is Verdict.TOO_DEAR


def test_hosting_is_a_data_centre_unless_asked_otherwise() -> None:
    """T10, B025."""
    secure = offer("runpod", "US", instance_type="secure", gpu="rtx-a6000", count=2, price="1.52")
    community = offer(
        "runpod", "US", instance_type="community", gpu="rtx-a6000", count=2, price="0.98", hosting="community"
    )
    assert len(listed(secure, community, gpu="a6000", count="2")) == 2
    assert price_of(cheapest(secure, community, gpu="a6000", count="2")) == "1.52"
    assert price_of(cheapest(secure, community, gpu="a6000", count="2", hosting="community")) == "0.98"
    assert price_of(cheapest(secure, community, gpu="a6000", count="2", hosting="any")) == "0.98"


def test_prices_in_another_currency_are_compared_at_a_dated_rate() -> None:
    """T12."""
    chinese = offer("aws", "cn-northwest-1", price="10.00", currency="CNY", instance_type="cny")
    dearer = offer("aws", "us-east-1", price="1.41", instance_type="usd")
    ranking = cheapest(dearer, chinese)
    assert machines(ranking) == ["cny", "usd"]
    assert price_of(ranking) == "1.4084507"
    assert [(rate.base, rate.quote, rate.rate, rate.date) for rate in ranking.rates] == [
        ("CNY", "USD", Decimal("0.14084507"), date(2026, 11, 28))
    ]
    price = best_of(ranking).price
    assert price is not None
    assert (price.nanos, price.currency) == (10_000_000_000, "CNY")


def test_without_a_rate_a_price_is_not_compared_and_the_reason_is_told() -> None:
    """T12."""
    chinese = offer(price="0.01", currency="CNY")
    ranking = Here(offers=[chinese], rates=Rates([])).cheapest()
    assert (ranking.best, ranking.verdict) == (None, Verdict.NO_SOURCE)
    assert ranking.rejected == {"no_rate": 1}
    assert [str(reason) for reason in ranking.nearest_misses[0].reasons] == ["no CNY/USD rate"]


def test_the_answer_may_be_in_another_currency() -> None:
    offers = [
        offer(price="10.00", currency="CNY", instance_type="cny"),
        offer(price="1.26", instance_type="usd"),
    ]
    here = Here(offers=offers, rates=_cny("0.14"))
    assert machines(here.cheapest(currency="CNY")) == ["usd", "cny"]
    assert machines(here.cheapest(currency="CNY", max_price="9")) == ["usd"]
    assert price_of(here.cheapest(currency="CNY")) == "9"


def test_a_new_rate_changes_the_comparison_and_no_stored_price() -> None:
    """B089: 7.00 CNY is 0.98, then 1.05."""
    stored, other = offer(price="7.00", currency="CNY"), offer(price="1.00", instance_type="usd")
    for rate, converted, first in (("0.14", "0.98", stored), ("0.15", "1.05", other)):
        ranking = Here(offers=[stored, other], rates=_cny(rate)).cheapest()
        assert best_of(ranking) == first
        assert converted in [nanos_text(match.nanos or 0) for match in (ranking.best, *ranking.alternatives) if match]


def _cny(rate: str) -> Rates:
    return Rates([Rate("CNY", "USD", Decimal(rate), date(2026, 11, 28), "test")])


def test_no_purchase_inherits_another_s_stock() -> None:
    """T13: on demand sold out, spot for sale."""
    offers = (
        offer(instance_type="GN10Xp", purchase="on_demand", price="8.68", level="out"),
        offer(instance_type="GN10Xp", purchase="spot", price="2.60"),
    )
    assert cheapest(*offers).verdict is Verdict.OUT_OF_STOCK
    for asked in ({"spot": "true"}, {"purchase": "on_demand,spot"}):
        assert best_of(cheapest(*offers, **asked)).purchase == "spot"


def test_a_zone_without_a_spot_price_has_no_spot_market() -> None:
    """T14."""
    offers = (
        offer("aws", "us-east-1", "us-east-1a", instance_type="g", purchase="on_demand"),
        offer("aws", "us-east-1", "us-east-1b", instance_type="g", purchase="spot", price="0.40"),
        offer("aws", "us-east-1", "us-east-1c", instance_type="g", purchase="spot", price="0.41"),
    )
    ranking = cheapest(*offers, spot="true", zone="us-east-1a")
    assert (ranking.best, ranking.verdict) == (None, Verdict.NOT_OFFERED_HERE)
    assert ranking.rejected == {"no_spot_market": 1, "not_here": 2}
    assert "no spot market" in [str(reason) for miss in ranking.nearest_misses for reason in miss.reasons]


def test_each_purchase_has_its_own_cheapest_region() -> None:
    """T15."""
    offers = [
        offer("aws", region, purchase=purchase, price=price)
        for region, purchase, price in (
            ("us-east-1", "on_demand", "2.95"),
            ("us-east-1", "spot", "1.04"),
            ("us-west-2", "on_demand", "3.20"),
            ("us-west-2", "spot", "0.81"),
        )
    ]
    assert (best_of(cheapest(*offers, spot="true")).place.region, price_of(cheapest(*offers, spot="true"))) == (
        "us-west-2",
        "0.81",
    )
    assert best_of(cheapest(*offers)).place.region == "us-east-1"


def test_the_same_data_gives_the_same_answer_and_a_limit_includes_itself() -> None:
    """T16: none above 0.0408, equal allowed, whatever the order of the rows."""
    random = Random(16)
    offers = [offer(instance_type=f"m{number:02}", price=f"0.04{number:02}") for number in range(30)]
    first = cheapest(*offers, max_price="0.0408", limit="100")
    assert machines(first) == [f"m{number:02}" for number in range(9)]
    for _ in range(500):
        random.shuffle(offers)
        assert cheapest(*offers, max_price="0.0408", limit="100") == first


def test_the_only_machine_that_is_too_small_and_sold_out_is_the_nearest_miss() -> None:
    """T17."""
    only = offer(vcpus=6, level="out")
    ranking = cheapest(only, min_vcpus_per_gpu="12")
    assert (ranking.best, ranking.verdict) == (None, Verdict.NO_SUCH_MACHINE)
    (miss,) = ranking.nearest_misses
    assert miss.offer == only
    assert [str(reason) for reason in miss.reasons] == ["vcpus_per_gpu 6 < 12", "out of stock"]
    assert ranking.rejected == {"out_of_stock": 1, "vcpus_per_gpu_too_small": 1}


GUANGZHOU = offer(region="ap-guangzhou", level="out", price="1.00")
NANJING = offer(region="ap-nanjing", price="1.50")
CHONGQING = offer(region="ap-chongqing", price="1.20")
TIERS = {"region": "ap-guangzhou", "fallback": "ap-nanjing,ap-chongqing"}


def test_fallback_is_an_ordered_list_and_not_a_price_contest() -> None:
    """T21."""
    ranking = cheapest(GUANGZHOU, NANJING, CHONGQING, **TIERS)
    assert ranking.best is not None
    assert (ranking.best.offer, ranking.best.tier, ranking.fallback_used) == (NANJING, 1, True)
    assert ranking.tiers[0].passed_over is Verdict.OUT_OF_STOCK
    assert [tier.regions for tier in ranking.tiers] == [("ap-guangzhou",), ("ap-nanjing",), ("ap-chongqing",)]
    first = ranking.tiers[0]
    assert (first.matching, first.confirmed, first.out, first.unknown, first.stale) == (1, 0, 1, 0, 0)
    assert [tier.passed_over for tier in ranking.tiers[1:]] == [None, None]


def test_a_primary_place_that_qualifies_keeps_fallback_out_whatever_it_costs() -> None:
    dear = offer(region="ap-guangzhou", price="9.00")
    ranking = cheapest(dear, NANJING, CHONGQING, **TIERS)
    assert (best_of(ranking), ranking.fallback_used, ranking.alternatives) == (dear, False, ())


def test_with_prefer_a_confirmed_fallback_beats_an_unconfirmed_primary() -> None:
    unsure = offer(region="ap-guangzhou", level="unknown", evidence="listed")
    ranking = cheapest(unsure, NANJING, **TIERS)
    assert best_of(ranking) == NANJING
    assert ranking.tiers[0].passed_over is Verdict.UNCONFIRMED
    assert ranking.unconfirmed is not None
    assert (ranking.unconfirmed.offer, ranking.unconfirmed.tier) == (unsure, 0)


def test_without_a_confirmed_one_the_first_tier_with_an_unconfirmed_answers() -> None:
    unsure = offer(region="ap-nanjing", level="unknown", evidence="listed", price="5")
    cheaper = offer(region="ap-chongqing", level="unknown", evidence="listed", price="1")
    ranking = cheapest(GUANGZHOU, unsure, cheaper, **TIERS)
    assert (best_of(ranking), ranking.verdict) == (unsure, Verdict.UNCONFIRMED)


def test_with_any_the_first_tier_that_is_not_known_to_be_out_answers() -> None:
    unsure = offer(region="ap-guangzhou", level="unknown", evidence="listed")
    assert best_of(cheapest(unsure, NANJING, **TIERS, stock="any")) == unsure
    assert best_of(cheapest(GUANGZHOU, NANJING, **TIERS, stock="any")) == NANJING


def test_provider_and_country_limit_fallback_too() -> None:
    virginia, tiers = (
        offer("aws", "us-east-1", country="US", level="out"),
        {"region": "us-east-1", "fallback": "ap-nanjing"},
    )
    for limit in ({"provider": "aws"}, {"country": "US"}, {"country": "!CN"}):
        assert cheapest(virginia, NANJING, **tiers, **limit).verdict is Verdict.OUT_OF_STOCK
    assert cheapest(virginia, NANJING, **tiers).fallback_used


def test_the_primary_may_be_a_zone_and_its_own_region_the_fallback() -> None:
    offers = (
        offer("aws", "us-east-1", "us-east-1a", level="out"),
        offer("aws", "us-east-1", "us-east-1b"),
    )
    ranking = cheapest(*offers, zone="us-east-1a", fallback="aws:us-east-1")
    assert (best_of(ranking), ranking.fallback_used) == (offers[1], True)


@pytest.mark.parametrize(("stock", "answered"), [("prefer", "sure"), ("confirmed", "sure"), ("any", "unsure")])
def test_stock_says_whether_confirmed_goes_before_cheap(stock: str, answered: str) -> None:
    offers = (
        offer(instance_type="sure", price="2"),
        offer(instance_type="unsure", price="1", level="unknown", evidence="listed"),
        offer(instance_type="gone", price="0.5", level="out"),
    )
    assert machines(cheapest(*offers, stock=stock))[0] == answered


def test_the_cheapest_unconfirmed_match_is_shown_beside_a_confirmed_answer() -> None:
    unsure = offer(instance_type="unsure", price="1", level="unknown", evidence="listed")
    ranking = cheapest(offer(price="2"), unsure)
    assert ranking.unconfirmed is not None
    assert ranking.unconfirmed.offer == unsure
    assert cheapest(unsure).unconfirmed is None
    assert cheapest(offer(price="2"), unsure, stock="confirmed").unconfirmed is None


@pytest.mark.parametrize("evidence", ["listed", "scored", "snapshot"])
def test_what_is_not_stock_is_never_confirmed(evidence: str) -> None:
    ranking = cheapest(offer(level="unknown", evidence=evidence))
    assert ranking.verdict is Verdict.UNCONFIRMED
    assert cheapest(offer(level="unknown", evidence=evidence), stock="confirmed").verdict is Verdict.NO_SOURCE


def test_fresh_goes_before_stale() -> None:
    stale = offer(instance_type="stale", price="1", age=OLD)
    listed_only = offer(instance_type="listed", price="2", level="unknown", evidence="listed")
    assert machines(cheapest(stale, listed_only)) == ["listed", "stale"]
    assert machines(cheapest(stale, listed_only, stock="any")) == ["listed", "stale"]


def test_an_old_score_does_not_put_an_offer_behind_one_that_is_only_listed() -> None:
    """Unless the question asks for a young observation: a score that is old is none of those."""
    scored = offer(instance_type="scored", price="1", level="unknown", evidence="scored", age=OLD)
    listed_only = offer(instance_type="listed", price="2", level="unknown", evidence="listed")
    assert machines(cheapest(scored, listed_only)) == ["scored", "listed"]
    assert cheapest(scored).tiers[0].stale == 0
    assert machines(cheapest(scored, listed_only, max_age="2m")) == ["listed", "scored"]


def test_a_stale_price_is_never_confirmed() -> None:
    """B068: a price a month old; B070: the fresh spot price is best, dearer or not."""
    stale = offer(instance_type="stale", purchase="spot", price="0.90", price_age=timedelta(days=10))
    fresh = offer("gcp", "us-central1", instance_type="fresh", purchase="spot", price="1.20")
    ranking = cheapest(stale, fresh, spot="true")
    assert (machines(ranking), ranking.verdict) == (["fresh", "stale"], Verdict.CONFIRMED)
    assert ranking.unconfirmed is not None
    assert cheapest(stale, spot="true").verdict is Verdict.UNCONFIRMED


def test_offers_of_a_source_that_fails_for_weeks_are_stale_and_not_confirmed() -> None:
    """B071."""
    weeks = timedelta(days=43)
    old = offer(age=weeks, price_age=weeks)
    assert cheapest(old).verdict is Verdict.UNCONFIRMED
    assert cheapest(old, stock="confirmed").verdict is Verdict.STALE


def test_what_was_last_seen_sold_out_is_unconfirmed_once_that_is_stale() -> None:
    """T19: a failed poll leaves the last level with its age: unconfirmed, and no longer known to be out."""
    old = offer(level="out", age=timedelta(minutes=4))
    ranking = cheapest(old)
    assert (machines(ranking), ranking.verdict) == (["M1"], Verdict.UNCONFIRMED)
    ranking = cheapest(old, stock="confirmed")
    assert (ranking.best, ranking.verdict) == (None, Verdict.STALE)
    assert [str(reason) for reason in ranking.nearest_misses[0].reasons] == ["out of stock when last seen 4 min ago"]


def test_max_age_takes_the_place_of_the_feed_s_own_limit() -> None:
    seen = offer(age=timedelta(minutes=2))
    assert cheapest(seen).verdict is Verdict.CONFIRMED
    assert cheapest(seen, max_age="1m").verdict is Verdict.UNCONFIRMED
    assert cheapest(offer(age=timedelta(hours=1)), max_age="2h").verdict is Verdict.CONFIRMED


def test_a_launch_that_failed_makes_the_offer_out_until_that_expires() -> None:
    def taught(age: timedelta) -> StockNow:
        return StockNow(level=Level.OUT, evidence=Evidence.OBSERVED, seen_at=NOW - age, fresh_for=FRESH_FOR)

    assert cheapest(offer(observed=taught(timedelta(minutes=1)))).verdict is Verdict.OUT_OF_STOCK
    assert cheapest(offer(observed=taught(OLD))).verdict is Verdict.CONFIRMED


def test_equal_prices_are_ordered_by_level() -> None:
    """B072: High before Low, null never in stock; B075: in stock before limited, out never."""
    offers = [
        offer("runpod", "US", zone, zone_id=zone, price="0.09", level=level, gpu="rtx-a4000", purchase="spot")
        for zone, level in (("R1", "unknown"), ("R2", "low"), ("R3", "in_stock"), ("R0", "out"))
    ]
    ranking = cheapest(*offers, gpu="a4000", spot="true", hosting="any")
    assert best_of(ranking).place.zone == "R3"
    assert [match.offer.place.zone for match in ranking.alternatives] == ["R2", "R1"]


def test_a_type_valid_in_the_region_is_not_answered_where_its_zone_is_sold_out() -> None:
    """B077, B128: the region's price serves all zones, stock is each zone's own."""
    offers = [
        offer(zone=f"ap-guangzhou-{zone}", level=level, count=8)
        for zone, level in (("1", "out"), ("2", "in_stock"), ("3", "out"))
    ]
    ranking = cheapest(*offers, count="8")
    assert best_of(ranking).place.zone == "ap-guangzhou-2"
    assert ranking.alternatives == ()


def test_the_cheapest_of_the_region_is_no_answer_in_another_zone() -> None:
    """B081: a spot price is not stock."""
    offers = (
        offer(
            "aws",
            "us-east-1",
            "us-east-1c",
            instance_type="zzcg",
            purchase="spot",
            price="0.40",
            level="unknown",
            evidence="listed",
        ),
        offer(
            "aws",
            "us-east-1",
            "us-east-1d",
            instance_type="zz2",
            purchase="spot",
            price="0.70",
            level="unknown",
            evidence="listed",
        ),
    )
    ranking = cheapest(*offers, spot="true", zone="us-east-1d")
    assert (machines(ranking), ranking.verdict) == (["zz2"], Verdict.UNCONFIRMED)


def test_a_region_where_everything_is_sold_out_says_so() -> None:
    """B084: also where nothing has a price."""
    offers = [offer(instance_type=f"t{n}", level="out", price=None) for n in range(40)]
    ranking = cheapest(*offers, region="ap-guangzhou")
    assert (ranking.best, ranking.verdict) == (None, Verdict.OUT_OF_STOCK)
    assert ranking.tiers[0].out == 40


def test_prices_below_a_cent_are_compared_unrounded() -> None:
    """B100."""
    offers = (
        offer(instance_type="a", price="0.0349"),
        offer(instance_type="b", price="0.0346"),
        offer(instance_type="c", price="3.5E-2"),
    )
    ranking = cheapest(*offers)
    assert machines(ranking) == ["b", "a", "c"]
    assert ranking.alternatives[0].nanos == 34_900_000


def test_a_machine_without_a_spot_price_is_listed_and_never_the_answer() -> None:
    """B103, B001: an offer without a price is shown without one."""
    unpriced = offer(purchase="spot", price=None, level="unknown", evidence="listed")
    assert listed(unpriced, purchase="spot") == [unpriced]
    ranking = cheapest(unpriced, spot="true")
    assert (ranking.best, ranking.verdict) == (None, Verdict.NO_SOURCE)
    assert [str(reason) for reason in ranking.nearest_misses[0].reasons] == ["no spot price"]


def test_spot_is_never_served_on_demand() -> None:
    """B104."""
    on_demand = offer(price="3.00")
    ranking = cheapest(on_demand, spot="true")
    assert (ranking.best, ranking.verdict) == (None, Verdict.NOT_OFFERED_HERE)
    assert ranking.rejected == {"no_spot_market": 1}
    assert best_of(cheapest(on_demand, purchase="spot,on_demand")).purchase == "on_demand"


def test_the_next_ones_are_told_in_order() -> None:
    """B126."""
    offers = [
        offer(region=region, instance_type=name, price=price)
        for name, region, price in (("o1", "r1", "0.17"), ("o2", "r1", "0.19"), ("o3", "r2", "0.21"))
    ]
    ranking = cheapest(*offers, limit="3")
    assert (machines(ranking), ranking.fallback_used) == (["o1", "o2", "o3"], False)
    assert ranking.tiers[0].regions == ()
    assert machines(cheapest(*offers, limit="1")) == ["o1", "o2"]
    assert machines(cheapest(*offers, limit="1", offset="1")) == ["o1", "o3"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_ties_are_broken_by_level_then_by_place(order: tuple[int, ...]) -> None:
    """B127: 1.00, 1.0 and 1.000 are equal."""
    rows = (("r2", "1.00", "low"), ("r1", "1.0", "in_stock"), ("r3", "1.000", "in_stock"))
    offers = [offer(region=region, price=price, level=level) for region, price, level in (rows[n] for n in order)]
    here = Here(offers=offers)
    assert best_of(here.cheapest()).place.region == "r1"
    assert [match.offer.place.region for match in here.cheapest().alternatives] == ["r3", "r2"]
    assert [match.offer.place.region for match in here.cheapest(limit="1").alternatives] == ["r3"]


@pytest.mark.parametrize("order", list(permutations("abcd")))
def test_of_many_equals_the_first_by_name_are_kept(order: tuple[str, ...]) -> None:
    offers = [offer(zone=zone) for zone in order]
    ranking = Here(offers=offers).cheapest(limit="1")
    assert [best_of(ranking).place.zone, ranking.alternatives[0].offer.place.zone] == ["a", "b"]


def test_a_place_is_excluded_by_the_question_and_not_by_its_stock() -> None:
    """B129."""
    offers = (offer(region="r1", price="0.5"), offer(region="r2", price="0.6"))
    assert best_of(cheapest(*offers, region="!r1")).place.region == "r2"
    ranking = cheapest(*offers, region="!r1,!r2")
    assert (ranking.best, ranking.verdict) == (None, Verdict.NOT_OFFERED_HERE)
    assert ranking.rejected == {"excluded_place": 2}


def test_each_region_has_its_own_prices() -> None:
    """B130."""
    offers = [
        offer(region=region, instance_type=family, price=price)
        for region, family, price in (
            ("r1", "famA", "1.00"), ("r1", "famB", "0.90"), ("r2", "famA", "0.80"), ("r2", "famB", "0.95")
        )
    ]  # fmt: skip
    assert (machines(cheapest(*offers, region="r1"))[0], price_of(cheapest(*offers, region="r1"))) == ("famB", "0.9")
    assert (machines(cheapest(*offers, region="r2"))[0], price_of(cheapest(*offers, region="r2"))) == ("famA", "0.8")


def test_a_machine_without_a_gpu_never_answers_for_one() -> None:
    """B131."""
    cpu = offer(gpu=None, count=0, instance_type="cpu", price="0.03")
    t4 = offer(gpu="t4", instance_type="t4", price="0.19")
    assert machines(cheapest(cpu, t4, gpu="t4")) == ["t4"]
    assert machines(cheapest(cpu, t4, gpu="t4", count="0..")) == ["t4"]
    assert machines(cheapest(cpu, t4)) == ["t4"]


def test_price_decides_only_among_those_with_enough_memory() -> None:
    """B132."""
    offers = [
        offer("vast", "US", gpu=gpu, instance_type=gpu, price=price, hosting="community")
        for gpu, price in (("t4", "0.08"), ("rtx4090", "0.35"), ("a100-sxm4-80g", "0.32"))
    ]
    assert machines(cheapest(*offers, min_vram="17", hosting="any")) == ["a100-sxm4-80g", "rtx4090"]


def test_price_decides_and_fitting_cpus_better_does_not() -> None:
    """B134."""
    offers = [
        offer(gpu="t4", instance_type=name, count=count, vcpus=vcpus, price=price)
        for name, count, vcpus, price in (
            ("a", 2, 8, "2.0"), ("b", 2, 6, "1.8"), ("c", 2, 32, "1.9"), ("d", 4, 16, "1.95")
        )
    ]  # fmt: skip
    spec = {"gpu": "t4", "min_vcpus_per_gpu": "4"}
    ranking = cheapest(*offers, **spec, count="2", explain="true")
    assert machines(ranking) == ["c", "a"]
    assert [(miss.offer.machine.instance_type, str(miss.reasons[0])) for miss in ranking.nearest_misses][:1] == [
        ("b", "vcpus_per_gpu 3 < 4")
    ]
    assert machines(cheapest(*offers, **spec, count="2..")) == ["c", "d", "a"]
    with pytest.raises(BadQuestion, match="max_vcpus_per_gpu"):
        cheapest(*offers, **spec, count="2", max_vcpus_per_gpu="8")


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("price", ["t4", "a100", "h100"]),
        ("price_per_gpu", ["t4", "a100", "h100"]),
        ("price_per_vram", ["a100", "t4", "h100"]),
        ("price_per_tflop", ["a100", "h100", "t4"]),
    ],
)
def test_sorts_compare_exact_ratios(sort: str, order: list[str]) -> None:
    offers = (
        offer(gpu="t4", instance_type="t4", price="0.50"),
        offer(gpu="a100-sxm4-80g", instance_type="a100", price="1.20"),
        offer(gpu="h100-sxm5-80g", instance_type="h100", price="3.90"),
    )
    assert machines(cheapest(*offers, sort=sort)) == order


def test_only_providers_with_an_account_count_once_there_is_one() -> None:
    offers = [offer("tencent", price="1"), offer("aws", "us-east-1", price="2")]
    here = Here(offers=offers, accounts=frozenset({("aws", "aws")}))
    assert best_of(here.cheapest()).place.provider == "aws"
    assert best_of(here.cheapest(accounts="all")).place.provider == "tencent"
    assert here.cheapest(explain="true").rejected == {"no_account": 1}
    assert here.cheapest(provider="tencent").verdict is Verdict.NOT_OFFERED_HERE


def test_a_restricted_offer_is_never_best_nor_an_alternative() -> None:
    restricted = offer(level="unknown", detail="restricted: NotAvailableForSubscription", instance_type="no")
    here = Here(offers=[restricted, offer(price="5")])
    assert machines(here.cheapest()) == ["M1"]
    ranking = Here(offers=[restricted]).cheapest()
    assert (ranking.verdict, ranking.rejected) == (Verdict.NOT_OFFERED_HERE, {"restricted": 1})
    assert listed(restricted) == [restricted]
    assert listed(restricted, stock="any") == []


@pytest.mark.parametrize(
    ("offers", "params", "verdict"),
    [
        ([offer()], {}, Verdict.CONFIRMED),
        ([offer(age=OLD)], {}, Verdict.UNCONFIRMED),
        ([offer(level="out")], {}, Verdict.OUT_OF_STOCK),
        ([offer(level="out"), offer(age=OLD, instance_type="M2")], {"stock": "confirmed"}, Verdict.OUT_OF_STOCK),
        ([offer(level="out", age=OLD)], {}, Verdict.UNCONFIRMED),
        ([offer(level="out", age=OLD)], {"stock": "confirmed"}, Verdict.STALE),
        ([offer(age=OLD)], {"stock": "confirmed"}, Verdict.STALE),
        ([offer(price="2"), offer(level="out", price="2", instance_type="M2")], {"max_price": "1"}, Verdict.TOO_DEAR),
        ([offer(level="out"), offer(price="2", instance_type="M2")], {"max_price": "1"}, Verdict.OUT_OF_STOCK),
        ([offer()], {"region": "ap-nanjing"}, Verdict.NOT_OFFERED_HERE),
        ([offer()], {"purchase": "month"}, Verdict.NOT_OFFERED_HERE),
        ([offer()], {"count": "8"}, Verdict.NO_SUCH_MACHINE),
        ([offer()], {"gpu": "h100"}, Verdict.NO_SUCH_MACHINE),
        ([offer()], {"gpu": "h100", "provider": "aws"}, Verdict.NO_SOURCE),
        ([], {}, Verdict.NO_SOURCE),
        ([offer(price=None)], {}, Verdict.NO_SOURCE),
        ([offer(price=None)], {"max_price": "1"}, Verdict.NO_SOURCE),
        ([offer(level="unknown", evidence="listed")], {"stock": "confirmed"}, Verdict.NO_SOURCE),
    ],
)
def test_the_verdict_is_the_first_that_applies(offers: list[Offer], params: dict[str, str], verdict: Verdict) -> None:
    ranking = cheapest(*offers, **params)
    assert ranking.verdict is verdict
    assert (ranking.best is not None) is (verdict in (Verdict.CONFIRMED, Verdict.UNCONFIRMED))


@pytest.mark.parametrize("age", [timedelta(0), OLD, timedelta(days=90)])
@pytest.mark.parametrize("evidence", ["listed", "scored", "snapshot", "reported"])
def test_what_no_source_says_the_stock_of_keeps_its_verdict_as_it_ages(evidence: str, age: timedelta) -> None:
    ranking = cheapest(offer(level="unknown", evidence=evidence, age=age), stock="confirmed")
    assert (ranking.best, ranking.verdict) == (None, Verdict.NO_SOURCE)
    assert ranking.tiers[0].passed_over is Verdict.NO_SOURCE


@pytest.mark.parametrize("age", [timedelta(0), OLD])
def test_what_has_no_price_keeps_its_verdict_as_it_ages(age: timedelta) -> None:
    for stock in ("prefer", "confirmed", "any"):
        assert cheapest(offer(price=None, age=age), stock=stock).verdict is Verdict.NO_SOURCE


def test_what_is_stamped_in_the_future_is_never_confirmed() -> None:
    ahead = offer(age=-timedelta(hours=2))
    assert cheapest(ahead).verdict is Verdict.UNCONFIRMED
    assert cheapest(ahead, stock="confirmed").verdict is Verdict.STALE


@pytest.mark.parametrize("limit", ["max_price", "max_price_per_gpu"])
@pytest.mark.parametrize("level", ["in_stock", "out", "unknown"])
@pytest.mark.parametrize("unknown", [{"price": None}, {"currency": "ISK"}])
def test_what_has_no_comparable_price_matches_no_price_limit(limit: str, level: str, unknown: dict[str, Any]) -> None:
    unpriced = offer(level=level, **unknown)
    ranking = cheapest(unpriced, **{limit: "5"})
    assert (ranking.verdict, ranking.tiers[0].matching, ranking.tiers[0].out) == (Verdict.NO_SOURCE, 0, 0)
    assert cheapest(unpriced).tiers[0].matching == 1


def test_reasons_are_counted_only_when_asked_for_or_when_there_is_no_answer() -> None:
    offers = (offer(), offer(level="out", instance_type="gone"))
    assert (cheapest(*offers).rejected, cheapest(*offers).nearest_misses) == ({}, ())
    explained = cheapest(*offers, explain="true")
    assert explained.rejected == {"out_of_stock": 1}
    assert [miss.offer for miss in explained.nearest_misses] == [offers[1]]


def test_a_tier_counts_each_matching_offer_once() -> None:
    tier = cheapest(
        offer(instance_type="a"),
        offer(instance_type="b", level="out"),
        offer(instance_type="c", age=OLD),
        offer(instance_type="d", level="out", age=OLD),
        offer(instance_type="e", level="unknown", evidence="listed"),
        offer(instance_type="f", gpu="t4", count=2),
    ).tiers[0]
    assert (tier.matching, tier.confirmed, tier.out, tier.unknown, tier.stale) == (5, 1, 1, 1, 2)


def test_offers_lists_all_tiers_in_pages_and_counts_them() -> None:
    offers = [offer(instance_type=f"m{number}", price=str(number)) for number in range(1, 6)]
    offers.append(offer(instance_type="gone", level="out", price=None))
    page, total = Here(offers=offers).listed(limit="2", offset="4")
    assert [match.offer.machine.instance_type for match in page] == ["m5", "gone"]
    assert total == 6


def test_stock_all_chooses_nothing() -> None:
    here = Here(offers=[offer()])
    spec = understand({}, here.world(), {}, endpoint="offers")
    with pytest.raises(ValueError, match="browse"):
        rank(index_of([]), spec, Context(now=NOW, rates=RATES), unasked)


def test_replacing_a_shelf_forgets_what_it_held() -> None:
    index = index_of([offer(gpu="t4"), offer("aws", "us-east-1", price="0.5"), offer("aws", "us-west-2", price="2")])
    assert len(index) == 3
    index.replace(("aws", "us-east-1"), [])
    index.replace(("tencent", "ap-guangzhou"), [offer(price="1"), offer(zone="z1", price="3")])
    assert sorted(each.price.nanos for each in index.candidates(None) if each.price) == [10**9, 2 * 10**9, 3 * 10**9]
    assert list(index.candidates(frozenset({"t4"}))) == []
    assert len(index) == 3
    assert set(index.regions()) == {("tencent", "ap-guangzhou"), ("aws", "us-west-2")}
    assert set(index.zones()) == {("tencent", "ap-guangzhou", "z1", None)}
    assert set(index.countries()) == {"CN"}


@pytest.mark.parametrize(
    ("offers", "params", "words"),
    [
        (
            [offer(zone="ap-guangzhou-3", gpu="v100-sxm2-32g", price="8.68", currency="CNY")],
            {},
            ["M1 at tencent ap-guangzhou-3: 1.2225 USD (8.68 CNY) per hour, on-demand, in stock (reported 40 s ago)."],
        ),
        ([GUANGZHOU, NANJING], TIERS, ["at tencent ap-nanjing: 1.5 USD", "because ap-guangzhou is out of stock"]),
        (
            [offer(level="unknown", evidence="listed")],
            {},
            ["on-demand, unconfirmed: stock unknown (listed 40 s ago)."],
        ),
        (
            [offer(age=timedelta(minutes=4), price_age=timedelta(days=30))],
            {},
            ["unconfirmed: in stock (reported 4 min ago, stale, price stale: 30 d old)"],
        ),
        (
            [offer(age=-timedelta(hours=2), price_age=-timedelta(days=3))],
            {},
            ["unconfirmed: in stock (reported 2 h in the future, stale, price stale: 3 d in the future)"],
        ),
        ([GUANGZHOU], {"gpu": "a100-sxm4-80g"}, ["a100-sxm4-80g is out of stock at ap-guangzhou;", "(out of stock)."]),
        ([offer(level="out", age=OLD)], {"stock": "confirmed"}, ["stale", "out of stock when last seen 4 min ago"]),
        ([offer(price="2")], {"max_price": "1"}, ["above the price limit", "(price 2 > 1)"]),
        ([offer()], {"region": "!ap-guangzhou"}, ["not on the terms or at the places", "excluded by the question"]),
        ([offer()], {"spot": "true"}, ["not on the terms", "no spot market"]),
        ([offer()], {"count": "8"}, ["not sold in a machine", "gpu_count 1 is not 8"]),
        ([], {}, ["has no source here"]),
    ],
)
def test_the_message_says_price_place_evidence_and_age_or_why_there_is_none(
    offers: list[Offer], params: dict[str, str], words: list[str]
) -> None:
    text = Here(offers=offers).said(**params)
    assert [word for word in words if word not in text] == [], text
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (
            {},
            "; count is 1 unless said: with count=8 there is 8 x NVIDIA A100 80GB SXM4, M8 at tencent ap-guangzhou, 9",
        ),
        (
            {"count": "2"},
            "; nearest: 8 x NVIDIA A100 80GB SXM4, M8 at tencent ap-guangzhou, 9 USD per hour (gpu_count 8 is not 2), "
            "an answer with count=8.",
        ),
    ],
)
def test_where_the_count_is_the_obstacle_the_message_says_which_would_do(count: dict[str, str], said: str) -> None:
    offers = [
        offer(price="1"),
        offer(count=8, instance_type="M8", price="9"),
        offer(count=16, instance_type="M16", price="20"),
        offer(count=8, instance_type="gone", price="2", level="out"),
    ]
    assert said in Here(offers=offers).said(min_total_vram="640", **count)


UNREAD_GUANGZHOU = frozenset({("tencent", "ap-guangzhou")})
CHEAP = offer(region="ap-chongqing", price="1.20", gpu="v100-sxm2-32g")
V100 = {"gpu": "v100", "region": "ap-guangzhou"}


@pytest.mark.parametrize(
    ("unread", "offers", "params", "said"),
    [
        ({("tencent", "")}, [], V100, "v100: ap-guangzhou was not read yet, so nothing is known of it there."),
        ({("tencent", "ap-guangzhou")}, [], V100, "v100: ap-guangzhou was not read yet, so nothing"),
        ({("tencent", "")}, [], {"gpu": "v100"}, "v100: tencent was not read yet, so nothing"),
        ({("tencent", "ap-nanjing")}, [offer()], {"gpu": "v100"}, "v100: tencent ap-nanjing was not read yet, so"),
        (
            {("tencent", "ap-guangzhou"), ("tencent", "ap-nanjing")},
            [offer()],
            {"gpu": "v100,t4", "region": "ap-guangzhou,ap-nanjing"},
            "v100, t4: ap-guangzhou, ap-nanjing were not read yet, so",
        ),
    ],
)
def test_what_was_not_read_is_no_source_and_never_said_not_to_be_sold(
    unread: set[tuple[str, str]], offers: list[Offer], params: dict[str, str], said: str
) -> None:
    here = Here(offers=offers, unread=frozenset(unread))
    ranking = here.cheapest(**params)
    assert (ranking.best, ranking.verdict, ranking.tiers[0].passed_over) == (None, Verdict.NO_SOURCE, Verdict.NO_SOURCE)
    assert here.said(**params).startswith(said)


@pytest.mark.parametrize(
    ("unread", "params"),
    [
        (("tencent", "ap-nanjing"), {"region": "ap-guangzhou"}),
        (("tencent", "ap-nanjing"), {"zone": "ap-guangzhou-1"}),
        (("aws", ""), {"region": "ap-guangzhou"}),
        (("aws", "us-east-1"), {"provider": "tencent"}),
        (("aws", "us-east-1"), {"country": "CN"}),
        (("aws", "us-east-1"), {"mainland_china": "true"}),
        (("aws", "us-east-1"), {"region": "!us-east-1"}),
    ],
)
def test_an_unread_place_that_is_not_asked_for_leaves_the_verdict(
    unread: tuple[str, str], params: dict[str, str]
) -> None:
    here = Here(offers=[offer(zone="ap-guangzhou-1", mainland_china=True)], unread=frozenset({unread}))
    assert here.cheapest(gpu="a100", purchase="month", **params).verdict is Verdict.NOT_OFFERED_HERE


def test_an_unread_provider_without_an_account_leaves_the_verdict() -> None:
    here = Here(offers=[offer()], accounts=frozenset({("tencent", "")}), unread=frozenset({("aws", "")}))
    assert here.cheapest(gpu="t4").verdict is Verdict.NO_SUCH_MACHINE
    assert here.cheapest(gpu="t4", accounts="all").verdict is Verdict.NO_SOURCE


def test_an_answer_from_a_fallback_says_that_the_primary_place_was_not_read() -> None:
    here = Here(offers=[CHEAP], unread=UNREAD_GUANGZHOU)
    asked = {**V100, "fallback": "ap-chongqing"}
    ranking = here.cheapest(**asked)
    assert (best_of(ranking), ranking.tiers[0].passed_over) == (CHEAP, Verdict.NO_SOURCE)
    assert here.said(**asked).endswith("; fallback, because ap-guangzhou was not read yet.")


def test_a_place_that_is_out_does_not_hide_one_that_was_not_read() -> None:
    out = offer(region="ap-nanjing", level="out", gpu="v100-sxm2-32g")
    here = Here(offers=[out], unread=UNREAD_GUANGZHOU)
    asked = {"gpu": "v100", "region": "ap-guangzhou,ap-nanjing"}
    assert here.cheapest(**asked).verdict is Verdict.OUT_OF_STOCK
    assert here.said(**asked).startswith("v100 is out of stock at ap-nanjing; ap-guangzhou was not read yet; nearest:")


def test_the_message_names_only_the_regions_of_which_it_is_true() -> None:
    gone = [offer(region=f"ap-{name}", level="out") for name in ("guangzhou", "nanjing", "beijing", "shanghai")]
    here = Here(offers=[*gone[:1], CHEAP, NANJING])
    many = "ap-guangzhou,ap-beijing,ap-shanghai,ap-chongqing"
    told = here.said(gpu="a100", region=many, fallback="ap-nanjing")
    assert told.endswith("; fallback, because ap-guangzhou is out of stock.")
    told = here.said(gpu="v100", region="ap-guangzhou", fallback="ap-chongqing")
    assert told.endswith("; fallback, because no primary place offers it.")
    told = here.said(gpu="v100", region="ap-guangzhou", fallback="ap-nanjing,ap-chongqing")
    assert told.endswith("; fallback, because no primary place offers it; ap-nanjing does not offer it.")
    told = Here(offers=gone).said(gpu="a100", region="ap-*")
    assert told.startswith("a100 is out of stock at ap-beijing, ap-guangzhou, ap-nanjing and 1 more; nearest:")


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ("v100", "v100 is sold, but not"),
        ("NVIDIA V100", "NVIDIA V100 is sold, but not"),
        ("V100,t4", "V100, t4 are sold, but not"),
        ("v100,t4,l4,a10,!a10g", "v100, t4, l4 and 1 more are sold, but not"),
    ],
)
def test_the_message_calls_it_what_the_question_called_it(gpu: str, said: str) -> None:
    assert Here(offers=[CHEAP]).said(gpu=gpu, purchase="month").startswith(said)


def test_a_fallback_region_that_is_primary_already_is_no_tier_of_its_own() -> None:
    ranking = cheapest(GUANGZHOU, NANJING, region="ap-guangzhou", fallback="ap-guangzhou,ap-nanjing,ap-nanjing")
    assert [tier.regions for tier in ranking.tiers] == [("ap-guangzhou",), ("ap-nanjing",)]
    assert len(cheapest(GUANGZHOU, NANJING, fallback="ap-nanjing").tiers) == 1


@pytest.mark.parametrize("resold", ["1.00", "0.99"])
def test_of_equal_offers_the_providers_own_goes_before_one_that_is_sold_on_and_both_are_shown(resold: str) -> None:
    direct = offer("tencent", "ap-guangzhou", price="1.00")
    through = offer("aggregator", "ap-guangzhou", price=resold)
    through = replace(through, machine=replace(through.machine, upstream="tencent"))
    ranking = cheapest(through, direct)
    order = [match.offer for match in (ranking.best, *ranking.alternatives) if match is not None]
    assert order == ([direct, through] if resold == "1.00" else [through, direct])


TENCENT_OFF = {"tencent": "set TENCENTCLOUD_SECRET_ID"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"region": "ap-guangzhou"}, "v100: nothing is known of ap-guangzhou: tencent is off there (set TENCENTCLOUD_"),
        ({"zone": "ap-guangzhou-3"}, "v100: nothing is known of ap-guangzhou: tencent is off there (set TENCENTCLOUD_"),
        (
            {"provider": "tencent"},
            "v100: nothing is known of tencent: it is off (set TENCENTCLOUD_SECRET_ID); nearest:",
        ),
        ({"provider": "Tencent,aws"}, "v100: nothing is known of tencent: it is off (set TENCENTCLOUD_SECRET_ID)"),
        ({"region": "ap-guangzhou,ap-nanjing"}, "v100: nothing is known of ap-guangzhou, ap-nanjing: tencent is off"),
    ],
)
def test_a_place_asked_for_of_a_provider_that_is_off_is_as_good_as_unread(params: dict[str, str], said: str) -> None:
    known = offer("aws", "us-east-1", gpu="v100-sxm2-32g", purchase="month")
    here = Here(offers=[known], off=TENCENT_OFF)
    assert here.cheapest(gpu="v100", **params).verdict is Verdict.NO_SOURCE
    assert here.said(gpu="v100", **params).startswith(said)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"provider": "!azure"},
        {"mainland_china": "true"},
        {"region": "aws:us-east-1"},
        {"region": "ap-nanjing"},
        {"provider": "aws", "region": "*"},
    ],
)
def test_a_provider_that_is_off_leaves_the_verdict_where_it_is_not_asked_for(params: dict[str, str]) -> None:
    """Where nothing restricts places the providers that are read answer for all; Nanjing was read while it was on."""
    known = [offer("aws", "us-east-1", country="US"), offer(region="ap-nanjing")]
    here = Here(offers=known, off=TENCENT_OFF)
    assert here.cheapest(gpu="a100", purchase="month", **params).verdict is Verdict.NOT_OFFERED_HERE


def test_a_place_that_was_read_and_has_nothing_is_no_place_of_which_nothing_is_known() -> None:
    here = Here(offers=[offer()], off=TENCENT_OFF, read=frozenset({("tencent", "ap-nanjing")}))
    assert here.cheapest(gpu="a100", region="ap-nanjing").verdict is Verdict.NOT_OFFERED_HERE
    whole = Here(offers=[offer()], off=TENCENT_OFF, read=frozenset({("tencent", "")}))
    assert whole.cheapest(gpu="a100", region="ap-nanjing").verdict is Verdict.NOT_OFFERED_HERE


def test_an_answer_from_a_fallback_says_that_the_primary_place_is_off() -> None:
    known = offer("aws", "us-east-1", gpu="v100-sxm2-32g")
    here = Here(offers=[known], off=TENCENT_OFF)
    asked = {"gpu": "v100", "region": "ap-guangzhou", "fallback": "aws:us-east-1"}
    ranking = here.cheapest(**asked)
    assert (best_of(ranking), ranking.tiers[0].passed_over) == (known, Verdict.NO_SOURCE)
    assert here.said(**asked).endswith("; fallback, because ap-guangzhou was not read, being off.")


@pytest.mark.parametrize("params", [{"region": "ap-guangzhou"}, {"provider": "tencent"}])
def test_it_is_said_too_where_another_provider_has_an_account(params: dict[str, str]) -> None:
    here = Here(offers=[offer("aws", "us-east-1")], off=TENCENT_OFF, accounts=frozenset({("aws", "aws")}))
    assert here.cheapest(**params).verdict is Verdict.NO_SOURCE
    assert "tencent" in here.said(**params)


def test_among_providers_with_an_account_here_one_that_is_off_and_has_none_counts_not() -> None:
    known = offer("aws", "us-east-1", gpu="v100-sxm2-32g")
    here = Here(offers=[known], off={"alibaba": "set KEYS"}, accounts=frozenset({("aws", "aws")}))
    assert here.cheapest(gpu="t4", region="us-east-1").verdict is Verdict.NO_SUCH_MACHINE
    assert here.cheapest(gpu="t4", region="us-east-1", accounts="all").verdict is Verdict.NO_SOURCE


def test_a_stale_offer_that_was_out_keeps_its_tiers_place_before_a_later_tier() -> None:
    """Nobody knows how either stands now: the order of places decides, and the message says what was seen."""
    was_out = offer(region="ap-guangzhou", level="out", price="1", age=2 * FRESH_FOR)
    was_in = offer(region="ap-nanjing", price="1", age=2 * FRESH_FOR)
    here = Here(offers=[was_out, was_in])
    asked = {"gpu": "a100", "region": "ap-guangzhou", "fallback": "ap-nanjing"}
    assert best_of(here.cheapest(**asked)) == was_out
    assert "unconfirmed: out of stock when last seen" in here.said(**asked)
    assert best_of(here.cheapest(gpu="a100")) == was_in, "inside a tier the level decides between equal prices"


# --- what the sentence may not leave out


def test_out_of_stock_is_said_of_what_is_out_alone() -> None:
    out, unknown = offer(zone="z1", level="out"), offer(zone="z2", level="unknown", evidence="listed")
    asked = {"gpu": "a100-80g", "stock": "confirmed"}
    assert (
        Here(offers=[out, unknown])
        .said(**asked)
        .startswith(
            "a100-80g is out of stock at ap-guangzhou (1 of 2 offers; of the others none is confirmed); nearest: "
        )
    )
    assert Here(offers=[out]).said(**asked).startswith("a100-80g is out of stock at ap-guangzhou; nearest: ")
    fallback = [out, unknown, offer("tencent", "ap-nanjing")]
    said = Here(offers=fallback).said(**asked, region="ap-guangzhou", fallback="ap-nanjing")
    assert said.endswith("; fallback, because ap-guangzhou is out of stock in part, and has nothing confirmed.")


def test_an_answer_tells_which_of_its_places_were_not_read() -> None:
    here = Here(offers=[offer()], unread=frozenset({("aws", "us-east-1"), ("tencent", "ap-beijing")}))
    ranking = here.cheapest(gpu="a100-80g")
    assert (best_of(ranking), ranking.tiers[0].unread) == (offer(), ("aws us-east-1", "tencent ap-beijing"))
    assert here.said(gpu="a100-80g").endswith("; aws us-east-1, tencent ap-beijing were not read yet.")
    assert "not read" not in here.said(gpu="a100-80g", region="ap-guangzhou")


def test_what_holds_of_every_place_holds_of_the_only_one() -> None:
    ranking = cheapest(offer(gpu="t4"), gpu="t4", count="8")
    assert (ranking.verdict, ranking.tiers[0].passed_over) == (Verdict.NO_SUCH_MACHINE, Verdict.NO_SUCH_MACHINE)
    elsewhere = Here(offers=[offer(gpu="t4", count=8)]).cheapest(gpu="t4", count="8", min_vcpus="9", explain="true")
    assert elsewhere.tiers[0].passed_over is elsewhere.verdict is Verdict.NO_SUCH_MACHINE


# --- changes that give an answer, as the question so changed is answered


def test_a_change_is_told_with_the_answer_of_the_tier_that_answers_then() -> None:
    spot: dict[str, Any] = {"purchase": "spot", "gpu": "v100-sxm2-16g"}
    here = Here(
        offers=[
            offer(region="ap-guangzhou", zone="ap-guangzhou-3", price="0.3571", **spot),
            offer(region="ap-chongqing", zone="ap-chongqing-1", price="0.3464", **spot),
        ]
    )
    fix = here.cheapest(gpu="v100", region="ap-guangzhou", fallback="ap-chongqing", max_price="1.7").fix
    assert fix is not None
    assert (str(fix.change), fix.match.offer.place.region, fix.match.tier) == ("with purchase=spot", "ap-guangzhou", 0)


def test_a_change_is_told_with_a_fresh_answer_before_an_old_cheaper_one_and_an_old_one_with_its_age() -> None:
    old = offer(price="1", vcpus=32, evidence="snapshot", level="unknown", age=timedelta(days=432), instance_type="OLD")
    fresh = offer(price="9", vcpus=32, evidence="listed", level="unknown", instance_type="FRESH")
    asked = {"gpu": "a100-80g", "stock": "any", "min_vcpus": "64"}
    fix = Here(offers=[old, fresh]).cheapest(**asked).fix
    assert fix is not None
    assert (str(fix.change), fix.match.offer) == ("with min_vcpus=32", fresh)
    assert (
        Here(offers=[old])
        .said(**asked)
        .endswith(", an answer with min_vcpus=32, unconfirmed: stock unknown (snapshot 432 d ago, stale).")
    )


def test_a_change_is_told_by_what_the_question_compares() -> None:
    small = offer(price="1", gpu="t4", memory_gib=8, instance_type="SMALL")
    large = offer(price="2", gpu="a100-sxm4-80g", memory_gib=40, instance_type="LARGE")
    asked = {"min_memory_per_vram": "3", "sort": "price_per_vram"}
    fix = Here(offers=[small, large]).cheapest(**asked).fix
    assert fix is not None
    assert fix.match.offer == large


def test_a_change_is_no_looser_than_its_own_answer_needs() -> None:
    one = offer(price="1.5459", instance_type="ONE")
    eight = offer(price="9.7352", count=8, instance_type="EIGHT")
    fix = Here(offers=[one, eight]).cheapest(gpu="a100-80g", count="1..8", max_price="0.7").fix
    assert fix is not None
    assert (str(fix.change), fix.match.offer) == ("with max_price=1.5459", one)


def test_the_order_of_two_prices_is_the_same_in_each_currency() -> None:
    """Ties per GPU are ties in every currency: a price that is converted is not rounded before it is divided."""
    sizes = {count: offer(price=f"{count}.7", currency="CNY", count=1, instance_type=f"M{count}") for count in (1,)}
    sizes |= {
        count: offer(price=str(Decimal("1.7") * count), currency="CNY", count=count, instance_type=f"M{count}")
        for count in (3, 7)
    }
    here = Here(offers=list(sizes.values()))
    for currency in ("CNY", "USD"):
        asked = {"gpu": "a100-80g", "count": "1..", "sort": "price_per_gpu", "currency": currency}
        assert best_of(here.cheapest(**asked)) == sizes[1], "of equals the first name"


def test_a_question_for_a_zone_is_answered_of_the_zone() -> None:
    gone, there = (
        offer("runpod", "US", "US-TX-3", country="US", level="out"),
        offer("runpod", "US", "US-KS-2", country="US"),
    )
    here = Here(offers=[gone, there])
    assert here.said(gpu="a100-80g", zone="US-TX-3").startswith("a100-80g is out of stock at US-TX-3; nearest: ")
    said = here.said(gpu="a100-80g", zone="US-TX-3", fallback="runpod:US")
    assert said.endswith("; fallback, because US-TX-3 is out of stock.")
    azure = offer("azure", "eastus", "1", country="US", level="out")
    assert "is out of stock at eastus 1; " in Here(offers=[azure]).said(gpu="a100-80g", zone="azure:1")


def test_asking_more_strictly_makes_nothing_answerable_that_is_out() -> None:
    out = offer(level="out", age=timedelta(seconds=40))
    for stock in ("prefer", "any"):
        assert cheapest(out, stock=stock, max_age="1s").verdict is Verdict.OUT_OF_STOCK
    hour_old = offer(level="out", age=timedelta(hours=1))
    assert cheapest(hour_old, max_age="2h").verdict is Verdict.OUT_OF_STOCK
    assert cheapest(hour_old).verdict is Verdict.UNCONFIRMED
