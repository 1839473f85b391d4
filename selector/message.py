"""The answer in one sentence for a person."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from catalog.money import money_text
from catalog.offers import Offer
from catalog.spec import Nearness, Spec, number_text
from catalog.words import Level
from selector.ages import age_text, ago_text
from selector.context import Context
from selector.job import JobCosts
from selector.measures import accelerator_of
from selector.nearness import estimated_rtt_ms
from selector.ranking import Fix, Match, Miss, OffPlace, Ranking, Tier, Verdict

_DECIMALS = 4
_MOST_NAMED = 3
_PASSED_OVER: Mapping[Verdict, str] = {
    Verdict.UNCONFIRMED: "{has} nothing confirmed",
    Verdict.OUT_OF_STOCK: "{is} out of stock",
    Verdict.STALE: "{has} stale data only",
    Verdict.TOO_DEAR: "{is} above the price limit",
    Verdict.NO_SOURCE: "{has} no comparable price or stock",
}
_NOTHING: Mapping[Verdict, str] = {
    Verdict.OUT_OF_STOCK: "{is} out of stock at {places}",
    Verdict.STALE: "{was} not seen in stock lately: what is known of {places} is stale",
    Verdict.TOO_DEAR: "{is} above the price limit at {places}",
    Verdict.NOT_OFFERED_HERE: "{is} sold, but not on the terms or at the places asked for",
    Verdict.NO_SUCH_MACHINE: "{is} not sold in a machine that meets these demands",
    Verdict.NO_SOURCE: "{has} no source here that states a comparable price and stock",
}
_PARTLY_OUT = "{is} out of stock in part, and {has} nothing confirmed"
_UNREAD = "{was} not read yet"
_OFF = "{was} not read, being off"
_ONE = {"is": "is", "was": "was", "has": "has", "does": "does"}
_SEVERAL = {"is": "are", "was": "were", "has": "have", "does": "do"}
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
        return f"{_nothing(ranking, spec)}{_nearest(ranking, spec, context)}."
    told = f"{_what(best.offer)}: {_price(best, spec, context)}, {_stock(best, spec, context)}{_tiers(ranking, best)}"
    return f"{told}{_cheaper_job(ranking, spec, context)}{_still_unread(ranking, best)}."


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
    return f"{offer.place.provider} {offer.place.finest}"


def _price(match: Match, spec: Spec, context: Context) -> str:
    price = match.offer.price
    if price is None or match.nanos is None:
        return "price unknown"
    native = "" if price.currency == spec.currency else f" ({money_text(price.nanos, _DECIMALS)} {price.currency})"
    amount = f"{money_text(match.nanos, _DECIMALS)} {spec.currency}{native}"
    window = f", {price.window}" if price.window else ""
    return f"{amount} per hour, {match.offer.purchase.replace('_', '-')}{window}{_job(match.offer, spec, context)}"


def _job(offer: Offer, spec: Spec, context: Context) -> str:
    """What the job costs, where one is asked about."""
    if spec.job is None:
        return ""
    nanos = JobCosts(spec.job, spec.currency, context.rates).nanos(offer)
    return (
        ", cost of the job not known" if nanos is None else f", {money_text(nanos, _DECIMALS)} {spec.currency} the job"
    )


def _cheaper_job(ranking: Ranking, spec: Spec, context: Context) -> str:
    """What would cost less for the job that is asked about, where its cost is not what was compared."""
    match = ranking.cheapest_job
    if match is None:
        return ""
    what = f"{_what(match.offer)}, {_price(match, spec, context)}"
    return f"; with sort=job_cost there is {what}{_doubt(match, spec, context)}"


def _still_unread(ranking: Ranking, best: Match) -> str:
    """The places of the answer's own tier of which a source was not read: something cheaper may be there.

    What holds of the tiers before it is told where they are passed over.
    """
    unread = ranking.tiers[best.tier].unread
    return f"; {_said_of(unread, _UNREAD)}" if unread else ""


def _stock(match: Match, spec: Spec, context: Context) -> str:
    now = context.now
    stock, price = match.offer.stock_at(now), match.offer.price
    level = _LEVELS[stock.level]
    score = f" {stock.score}" if stock.score else ""
    old = ", stale" if stock.stale(now, spec.max_age) else ""
    if price is not None and price.stale(now):
        old += f", price stale: {_price_age(now - price.seen_at)}"
    doubt = "" if match.confirmed else "unconfirmed: "
    return f"{doubt}{level} ({stock.evidence}{score} {ago_text(now - stock.seen_at)}{old})"


def _price_age(age: timedelta) -> str:
    return f"{age_text(age)} old" if age >= timedelta(0) else ago_text(age)


def _tiers(ranking: Ranking, best: Match) -> str:
    if not best.tier:
        return ""
    primary, *others = ranking.tiers[: best.tier]
    told = [", ".join(_passed([primary])) or "no primary place offers it", *_passed(others)]
    return f"; fallback{_how_far(ranking.tiers[best.tier].nearness)}, because {'; '.join(told)}"


def _how_far(near: Nearness | None) -> str:
    """Of a fallback region that `auto` found: how far it is, as far as that is known."""
    if near is None:
        return ""
    if near.origin is None:
        return " (how far is not known)"
    return f" (about {estimated_rtt_ms(near.distance_m)} ms from {near.origin[1]}, estimated)"


def _passed(tiers: Iterable[Tier]) -> list[str]:
    """Why the answer is not from these tiers, each thing said once, of all of their regions of which it is true."""
    told: dict[str, dict[str, None]] = {}
    for tier in tiers:
        for words, places in _said_by(tier):
            told.setdefault(words, {}).update(dict.fromkeys(places))
    return [_said_of(list(places), words) for words, places in told.items()]


def _said_by(tier: Tier) -> Iterator[tuple[str, Sequence[str]]]:
    if tier.about and tier.passed_over:
        yield _PARTLY_OUT if _partly_out([tier]) else _PASSED_OVER[tier.passed_over], tier.about
    if tier.unread:
        yield _UNREAD, tier.unread
    if tier.off:
        yield _OFF, [one.place or one.provider for one in tier.off]
    if tier.tier and not tier.about and not tier.unread and not tier.off:
        yield "{does} not offer it", tier.regions


def _nothing(ranking: Ranking, spec: Spec) -> str:
    """Why there is no answer: of the places that have what was asked for, and of those that were not read."""
    unread = _places(tier.unread for tier in ranking.tiers)
    saying = [tier for tier in ranking.tiers if tier.passed_over is ranking.verdict]
    about = _places(tier.about for tier in saying)
    subject, verbs = _subject(spec)
    off = _off({place for tier in ranking.tiers for place in tier.off})
    if (unread or off) and ranking.verdict is Verdict.NO_SOURCE and not about:
        not_yet = f"{_said_of(unread, _UNREAD)}, so nothing is known of it there" if unread else ""
        return f"{subject}: {'; '.join(filter(None, (not_yet, off)))}"
    told = f"{subject} {_NOTHING[ranking.verdict].format(**verbs, places=_some(about))}{_partly_out(saying)}"
    return "; ".join(filter(None, (told, _said_of(unread, _UNREAD) if unread else "", off)))


def _partly_out(tiers: Sequence[Tier]) -> str:
    """Where not all that would match is out of stock, how much is: of the rest nothing is confirmed."""
    out, matching = sum(tier.out for tier in tiers), sum(tier.matching for tier in tiers)
    said = bool(tiers) and tiers[0].passed_over is Verdict.OUT_OF_STOCK and out < matching
    return f" ({out} of {matching} offers; of the others none is confirmed)" if said else ""


def _off(places: Iterable[OffPlace]) -> str:
    """Of which places nothing is known, since their provider is off, and what to set."""
    told: dict[tuple[str, str], list[str]] = {}
    for place in sorted(places):
        told.setdefault((place.provider, place.reason), []).append(place.place)
    return "; ".join(
        f"nothing is known of {_some(names)}: {provider} is off there ({reason})"
        if all(names)
        else f"nothing is known of {provider}: it is off ({reason})"
        for (provider, reason), names in told.items()
    )


def _places(of_tiers: Iterable[Sequence[str]]) -> list[str]:
    return sorted({place for places in of_tiers for place in places})


def _said_of(places: Sequence[str], words: str) -> str:
    return f"{_some(places)} {words.format(**(_ONE if len(places) == 1 else _SEVERAL))}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _subject(spec: Spec) -> tuple[str, Mapping[str, str]]:
    """What was asked for in the question's own words, and the verbs that agree with it."""
    names = spec.gpu_names or sorted(spec.gpus or ())
    return (_some(names), _ONE if len(names) == 1 else _SEVERAL) if names else ("What is asked for", _ONE)


def _nearest(ranking: Ranking, spec: Spec, context: Context) -> str:
    """The offer that misses by least, and the change that gives an answer."""
    fix, nearest = ranking.fix, next(iter(ranking.nearest_misses), None)
    if fix is not None and "count" not in spec.said and fix.change.parameter == "count":
        return f"; count is 1 unless said: {_then(fix, spec, context)}"
    told = "" if nearest is None else f"; nearest: {_miss(nearest, spec)}"
    if fix is None:
        return told
    if nearest is not None and fix.match.offer == nearest.offer:
        return f"{told}, an answer {fix.change}{_doubt(fix.match, spec, context)}"
    return f"{told}; {_then(fix, spec, context)}"


def _then(fix: Fix, spec: Spec, context: Context) -> str:
    """What the change gives."""
    match = fix.match
    price = _per_hour(match.nanos, spec)
    return f"{fix.change} there is {_what(match.offer)}{price}{_doubt(match, spec, context)}"


def _doubt(match: Match, spec: Spec, context: Context) -> str:
    return "" if match.confirmed else f", {_stock(match, spec, context)}"


def _miss(miss: Miss, spec: Spec) -> str:
    return f"{_what(miss.offer)}{_per_hour(miss.nanos, spec)} ({', '.join(map(str, miss.reasons))})"


def _per_hour(nanos: int | None, spec: Spec) -> str:
    return "" if nanos is None else f", {money_text(nanos, _DECIMALS)} {spec.currency} per hour"
