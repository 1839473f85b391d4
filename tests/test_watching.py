"""What a watch sees of its primary places: what counts as seen, and what as changed."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

from catalog.offers import Offer
from catalog.spec import RegionKey
from catalog.watches import OfferKey, Sight, State
from catalog.words import Level
from selector.context import Context
from selector.question import understand
from selector.watching import Handled, look, offer_key, use_instead
from tests.support.offers import NOW, RATES, Here, index_of, offer

OLD = timedelta(hours=1)
NOTHING = Handled()
REGION: RegionKey = ("tencent", "ap-guangzhou")


def seen(*offers: Offer, handled: Handled = NOTHING, **params: str) -> Sight:
    here = Here(offers=offers)
    spec = understand({name: [text] for name, text in params.items()}, here.world(), {}, endpoint="cheapest")
    return look(index_of(offers), spec, Context(now=NOW, rates=RATES), handled).sight


def handled(before: dict[Offer, Level], **more: Any) -> Handled:
    return Handled({offer_key(each): level for each, level in before.items()}, **more)


def keys(*offers: Offer) -> frozenset[OfferKey]:
    return frozenset(map(offer_key, offers))


def test_the_state_is_of_fresh_stated_levels_alone() -> None:
    there, gone, old = offer(zone="z1"), offer(zone="z2", level="out"), offer(zone="z3", age=OLD)
    listed = offer(zone="z4", level="unknown", evidence="listed")
    assert seen(there, gone, old).state is State.AVAILABLE
    assert seen(gone, old, listed).state is State.OUT
    assert seen(gone, old).stale == keys(old)
    assert seen(old, listed).state is State.UNKNOWN
    assert seen(offer(level="out", age=OLD)).state is State.UNKNOWN
    assert seen(offer(price=None)).state is State.UNKNOWN, "without a price nothing is confirmed"
    assert seen().state is State.UNKNOWN


def test_only_the_primary_places_and_what_matches_count() -> None:
    here, there = offer(level="out"), offer("tencent", "ap-nanjing")
    assert seen(here, there, region="ap-guangzhou", fallback="ap-nanjing").state is State.OUT
    assert seen(offer(price="3"), max_price="2").state is State.UNKNOWN
    assert seen(offer(price="3"), offer(zone="z2", level="out", price="1"), max_price="2").state is State.OUT


def test_what_was_in_stock_when_it_was_handled_went_out() -> None:
    gone = offer(level="out")
    for before, went in ((Level.IN_STOCK, keys(gone)), (Level.LOW, keys(gone)), (Level.OUT, keys())):
        assert seen(gone, handled=handled({gone: before})).went_out == went
    assert seen(gone).went_out == frozenset()
    other = offer(zone="z2", level="out", price="9")
    assert seen(gone, other, handled=handled({other: Level.IN_STOCK}), max_price="2").went_out == frozenset()


def test_what_does_not_match_by_its_price_alone_is_known_to_be_in_stock() -> None:
    dear, unpriced, out = offer(zone="z1", price="9"), offer(zone="z2", price=None), offer(zone="z3", level="out")
    listed = offer(zone="z4", level="unknown", evidence="listed", price="9")
    sight = seen(dear, unpriced, out, listed, max_price="2")
    assert (sight.unaffordable, sight.state) == (keys(dear, unpriced), State.OUT)
    assert seen(offer(age=OLD, price="9"), max_price="2").unaffordable == frozenset()


def test_what_is_read_for_the_first_time_is_told_from_what_is_new() -> None:
    there, new = offer(zone="z1"), offer(zone="z2")
    assert seen(there, new).first_read == keys(there, new), "nothing was handled yet: this is how things stand"
    assert seen(there, new, handled=handled({there: Level.OUT}, regions={REGION})).first_read == frozenset()


def test_low_is_all_that_is_left() -> None:
    low, there = offer(zone="z1", level="low"), offer(zone="z2")
    before = handled({low: Level.IN_STOCK})
    assert (seen(low, handled=before).only_low, seen(low, handled=before).went_low) == (True, True)
    assert not seen(low, there).only_low


def test_regions_of_which_nearly_everything_changed_are_told_by_the_way_it_did() -> None:
    gone, there = offer(level="out"), offer(zone="z1")
    at_once = Handled(at_once={(REGION, Level.OUT), (("aws", "us-east-1"), Level.IN_STOCK)})
    assert seen(gone, handled=at_once).at_once == {REGION}
    assert seen(gone, there, handled=at_once).at_once == {("aws", "us-east-1")}


def test_each_is_as_new_as_its_own_poll_and_what_a_launch_has_shown_is_seen_now() -> None:
    one, other = offer(zone="z1", age=timedelta(seconds=50)), offer(zone="z2", age=timedelta(seconds=9))
    ages = {offer_key(one): NOW - timedelta(seconds=50), offer_key(other): NOW - timedelta(seconds=9)}
    assert seen(one, other).confirmed == ages
    launched = offer(level="in_stock", observed=offer(level="out", evidence="observed").stock)
    assert seen(launched).out == {offer_key(launched): NOW}


def test_a_provider_is_not_seen_where_its_feeds_fail_and_its_offers_are_old() -> None:
    old, other = offer(age=OLD), offer("alibaba", "cn-hangzhou")
    failing = Handled(failing={"tencent"})
    assert seen(old, other, handled=failing).blind == {"tencent"}
    assert seen(old, other, handled=failing).seeing == {"alibaba"}
    assert seen(old, other).blind == frozenset(), "one that is no longer listed, while the feed is well"
    assert seen(other, handled=failing).blind == frozenset()
    listed = offer(evidence="snapshot", level="unknown", age=OLD, price=None)
    assert seen(listed, handled=failing).blind == frozenset(), "nobody polls a list"
    minute_old = offer(age=timedelta(minutes=1))
    strict = seen(minute_old, handled=failing, max_age="10s")
    assert (strict.stale, strict.blind, strict.seeing) == (keys(minute_old), frozenset[str](), frozenset({"tencent"}))


def test_the_best_is_the_answers_but_never_a_stale_one() -> None:
    confirmed, cheaper = offer(price="3", zone="z1"), offer(price="1", zone="z2", evidence="listed", level="unknown")
    old = offer(price="0.5", zone="z3", age=OLD)
    sight = seen(confirmed, cheaper, old)
    assert (sight.best, sight.value, sight.native_nanos) == (offer_key(confirmed), Fraction(3), 3_000_000_000)
    assert seen(cheaper, old).best == offer_key(cheaper)
    assert seen(cheaper, stock="confirmed").best is None
    assert seen(old).best is None


def test_the_value_is_in_the_unit_of_the_sort_and_the_questions_currency() -> None:
    eight = offer(price="7", count=8, currency="CNY")
    sight = seen(eight, count="8", sort="price_per_gpu", currency="CNY")
    assert (sight.value, sight.native_nanos, sight.native_currency) == (Fraction(7, 8), 7_000_000_000, "CNY")
    assert seen(eight, count="8", currency="USD").value == Fraction("0.98591549")


def test_what_to_use_instead_is_of_the_fallback() -> None:
    gone, there = offer(level="out"), offer("tencent", "ap-nanjing")
    here = Here(offers=[gone, there])
    asked = {"region": ["ap-guangzhou"], "fallback": ["ap-nanjing"]}
    spec = understand(asked, here.world(), {}, endpoint="cheapest")
    index, context = index_of(here.offers), Context(now=NOW, rates=RATES)
    match = use_instead(index, spec, context)
    assert match is not None
    assert (match.offer, match.tier, match.confirmed) == (there, 1, True)
    assert use_instead(index_of([offer(), there]), spec, context) is None
    assert use_instead(index_of([gone]), spec, context) is None
