"""The answer in one sentence for a person."""

from collections.abc import Mapping

from catalog.money import money_text
from catalog.offers import Offer
from catalog.spec import Spec, number_text
from catalog.words import Level
from selector.ages import age_text
from selector.context import Context
from selector.measures import accelerator_of
from selector.ranking import Match, Miss, Ranking, Verdict

_DECIMALS = 4
_PASSED_OVER: Mapping[Verdict, str] = {
    Verdict.UNCONFIRMED: "has nothing confirmed",
    Verdict.OUT_OF_STOCK: "is out of stock",
    Verdict.STALE: "has stale data only",
    Verdict.TOO_DEAR: "is above the price limit",
    Verdict.NOT_OFFERED_HERE: "does not offer it",
    Verdict.NO_SOURCE: "has no comparable price or stock",
}
_NOTHING: Mapping[Verdict, str] = {
    Verdict.OUT_OF_STOCK: "is out of stock everywhere asked for",
    Verdict.STALE: "was not seen in stock lately: what is known of it is stale",
    Verdict.TOO_DEAR: "is above the price limit everywhere asked for",
    Verdict.NOT_OFFERED_HERE: "is sold, but not on the terms or at the places asked for",
    Verdict.NO_SUCH_MACHINE: "is not sold in a machine that meets these demands",
    Verdict.NO_SOURCE: "has no source here that states a comparable price and stock",
}
_LEVELS: Mapping[Level, str] = {
    Level.IN_STOCK: "in stock",
    Level.LOW: "low stock",
    Level.UNKNOWN: "stock unknown",
    Level.OUT: "out of stock when last seen",
}


def message(ranking: Ranking, spec: Spec, context: Context) -> str:
    """One sentence: what, where, the price, the evidence and its age; or why nothing, and what comes nearest."""
    best = ranking.best
    if best is None:
        return f"{_subject(spec)} {_NOTHING[ranking.verdict]}{_nearest(ranking, spec)}."
    return f"{_what(best.offer)}: {_price(best, spec)}, {_stock(best, spec, context)}{_tiers(ranking)}."


def place_text(offer: Offer) -> str:
    """Provider and finest place."""
    place = offer.place
    return f"{place.provider} {place.zone or place.zone_id or place.region}"


def _what(offer: Offer) -> str:
    row = accelerator_of(offer.machine)
    count = offer.machine.gpu_count
    name = row.name if row is not None else offer.machine.gpu_raw
    prefix = "" if count is None or not name else f"{number_text(count)} x {name}, "
    return f"{prefix}{offer.machine.instance_type} at {_place_and_region(offer)}"


def _place_and_region(offer: Offer) -> str:
    place = offer.place
    zone = place.zone or place.zone_id
    return place_text(offer) if zone is None or place.region in zone else f"{place.provider} {place.region} {zone}"


def _price(match: Match, spec: Spec) -> str:
    price = match.offer.price
    if price is None or match.nanos is None:
        return "price unknown"
    native = "" if price.currency == spec.currency else f" ({money_text(price.nanos, _DECIMALS)} {price.currency})"
    amount = f"{money_text(match.nanos, _DECIMALS)} {spec.currency}{native}"
    return f"{amount} per hour, {match.offer.purchase.replace('_', '-')}"


def _stock(match: Match, spec: Spec, context: Context) -> str:
    now = context.now
    stock, price = match.offer.stock_at(now), match.offer.price
    level = _LEVELS[stock.level]
    score = f" {stock.score}" if stock.score else ""
    old = ", stale" if stock.stale(now, spec.max_age) else ""
    if price is not None and price.stale(now):
        old += f", price stale: {age_text(now - price.seen_at)} old"
    doubt = "" if match.confirmed else "unconfirmed: "
    return f"{doubt}{level} ({stock.evidence}{score} {age_text(now - stock.seen_at)} ago{old})"


def _tiers(ranking: Ranking) -> str:
    passed = [tier for tier in ranking.tiers if tier.passed_over is not None]
    texts = (
        f"{', '.join(tier.regions) or 'every primary place'} {_PASSED_OVER[tier.passed_over]}"
        for tier in passed
        if tier.passed_over is not None
    )
    told = "; ".join(texts)
    return f"; fallback, because {told}" if told else ""


def _subject(spec: Spec) -> str:
    if not spec.gpus:
        return "What is asked for"
    names = sorted(spec.gpus)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _nearest(ranking: Ranking, spec: Spec) -> str:
    if not ranking.nearest_misses:
        return ""
    miss = ranking.nearest_misses[0]
    return f"; nearest: {_what(miss.offer)}{_miss_price(miss, spec)} ({', '.join(map(str, miss.reasons))})"


def _miss_price(miss: Miss, spec: Spec) -> str:
    return "" if miss.nanos is None else f", {money_text(miss.nanos, _DECIMALS)} {spec.currency} per hour"
