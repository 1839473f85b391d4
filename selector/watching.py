"""What a watch sees: what its primary places hold at one moment, beside what was handled before. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction

from catalog.money import NANOS
from catalog.offers import SNAPSHOT, Offer
from catalog.spec import RegionKey, Sort, Spec
from catalog.watches import OfferKey, Sight
from catalog.words import LEVELS, Evidence, Level
from selector.context import Context
from selector.index import Index
from selector.job import JobCosts
from selector.kinds import Kinds
from selector.order import sort_value
from selector.rank import best
from selector.ranking import Match, Verdict
from selector.walk import Kind, Walk
from selector.why_not import Reasons, Standing

_HAD = (Level.IN_STOCK, Level.LOW)
_LOW = LEVELS.index(Level.LOW)
"""As `Kind.level` has it."""


@dataclass(frozen=True, slots=True)
class Handled:
    """What the watching has taken note of, and how the feeds do."""

    levels: Mapping[OfferKey, Level] = field(default_factory=dict)
    """Of each offer whose stock somebody states: the level that was handled last."""
    regions: AbstractSet[RegionKey] = frozenset()
    """Where offers were handled before: one that was not is new there, and not merely read for the first time."""
    at_once: AbstractSet[tuple[RegionKey, Level]] = frozenset()
    """Regions of which nearly everything went out, or came back (`in_stock`), since then."""
    intervals: Mapping[str, timedelta] = field(default_factory=dict)
    """How often a provider's stock is polled."""
    failing: AbstractSet[str] = frozenset()
    """Providers with a feed that fails, or whose answers are too old."""


@dataclass(frozen=True, slots=True)
class View:
    """What is seen, and the offers that it is seen of."""

    sight: Sight
    confirmed: Sequence[Offer]
    out: Sequence[Offer]
    stale: Sequence[Offer]
    best: Match | None


def offer_key(offer: Offer) -> OfferKey:
    """What tells it from all others."""
    place, machine = offer.place, offer.machine
    upstream = machine.upstream or ""
    return (place.provider, place.region, place.zone_key, machine.instance_type, offer.purchase.value, upstream)


def level_told(offer: Offer, now: datetime) -> Level | None:
    """The level that somebody states, where it is fresh."""
    stock = offer.stock_at(now)
    return stock.level if stock.tells_level and not stock.stale(now) else None


def look(index: Index, spec: Spec, context: Context, handled: Handled) -> View:
    """What the spec's primary places hold now. `max_age` of the spec counts here as in an answer."""
    primary = replace(spec, fallback=(), nearness=())
    candidates = index.candidates(primary.gpus)
    kinds = Kinds(candidates, primary, context)
    walk = Walk(candidates, primary, context, Reasons(primary, context), kinds)
    every = walk.kinds()
    can_be_had = [kind for kind in every if kind.meets and kind.stands is Standing.CONFIRMED]
    confirmed = walk.offers(can_be_had)
    out = walk.offers(kind for kind in every if kind.verdict is Verdict.OUT_OF_STOCK)
    stale = [one for one in walk.offers(kind for kind in every if _lapsed(kind)) if not _of_a_list(one)]
    priceless = walk.offers(kind for kind in every if not kind.meets and kind.stands <= Standing.UNCONFIRMED)
    first = next(iter(walk.first([kind for kind in every if kind.meets and kind.stands < Standing.STALE], 0, 1)), None)
    sight = _sight(confirmed, out, stale, context.now, handled)
    sight = replace(
        sight,
        only_low=bool(can_be_had) and all(kind.level == _LOW for kind in can_be_had),
        unaffordable=frozenset(offer_key(one) for one in priceless if level_told(one, context.now) in _HAD),
    )
    fresh = walk.providers(kind for kind in every if kind.matches and kind.stands in _FRESH)
    return View(_priced(_fed(sight, fresh, stale, handled), first, spec, context), confirmed, out, stale, first)


def use_instead(index: Index, spec: Spec, context: Context) -> Match | None:
    """The answer of the spec's fallback places; None where its primary ones answer, or none does."""
    match = best(index, spec, context) if spec.fallback else None
    return match if match is not None and match.tier else None


_FRESH = (Standing.CONFIRMED, Standing.UNCONFIRMED, Standing.OUT)


def _lapsed(kind: Kind) -> bool:
    return kind.matches and kind.stands is Standing.STALE


def _of_a_list(offer: Offer) -> bool:
    """Whether nobody polls what is known of it: then it is always stale, and no source has gone."""
    price = offer.price
    of_price = price is None or price.source.startswith(SNAPSHOT)
    return offer.stock.evidence is Evidence.SNAPSHOT and of_price


def _sight(
    confirmed: Sequence[Offer], out: Sequence[Offer], stale: Sequence[Offer], now: datetime, handled: Handled
) -> Sight:
    levels = handled.levels
    there, gone = _seen_at(confirmed, now), _seen_at(out, now)
    wanted = Level.IN_STOCK if there else Level.OUT
    low = (offer_key(offer) for offer in confirmed if offer.stock_at(now).level is Level.LOW)
    return Sight(
        now=now,
        confirmed=there,
        out=gone,
        stale=frozenset(map(offer_key, stale)),
        went_out=frozenset(key for key in gone if levels.get(key) in _HAD),
        went_low=any(levels.get(key) is Level.IN_STOCK for key in low),
        first_read=frozenset(key for key in there if key not in levels and key[:2] not in handled.regions),
        at_once=frozenset(region for region, level in handled.at_once if level is wanted),
        intervals=handled.intervals,
    )


def _seen_at(offers: Iterable[Offer], now: datetime) -> dict[OfferKey, datetime]:
    """When each was last seen so. What a launch has shown needs no second poll: it is seen so now."""
    found = {}
    for offer in offers:
        stock = offer.stock_at(now)
        found[offer_key(offer)] = now if stock.evidence is Evidence.OBSERVED else stock.seen_at
    return found


def _fed(sight: Sight, fresh: AbstractSet[str], stale: Iterable[Offer], handled: Handled) -> Sight:
    """How its providers do, by the feeds' own limits: a question that wants it younger makes no source stale."""
    by_age: dict[bool, set[str]] = {True: set(), False: set()}
    for offer in stale:
        by_age[_is_old(offer, sight.now)].add(offer.place.provider)
    lapsed = frozenset(by_age[True])
    seeing = frozenset((fresh | by_age[False]) - lapsed)
    return replace(sight, lapsed=lapsed, blind=lapsed & handled.failing, seeing=seeing)


def _is_old(offer: Offer, now: datetime) -> bool:
    return offer.stock_at(now).stale(now) or (offer.price is not None and offer.price.stale(now))


def _priced(sight: Sight, match: Match | None, spec: Spec, context: Context) -> Sight:
    if match is None or match.offer.price is None:
        return sight
    price = match.offer.price
    return replace(
        sight,
        best=offer_key(match.offer),
        value=_value(match, spec, context),
        native_nanos=price.nanos,
        native_currency=price.currency,
    )


def _value(match: Match, spec: Spec, context: Context) -> Fraction | None:
    if spec.sort is Sort.JOB_COST and spec.job is not None:
        return _units(JobCosts(spec.job, spec.currency, context.rates).nanos(match.offer))
    return _units(sort_value(match.offer.machine, context.exact(match.offer, spec.currency), spec.sort))


def _units(nanos: int | Fraction | None) -> Fraction | None:
    return None if nanos is None else Fraction(nanos) / NANOS
