"""The answer to a question: the best offer, the next ones, and what was passed over. Pure."""

from collections.abc import Iterable, Sequence

from catalog.fx import Rate
from catalog.offers import Offer
from catalog.spec import Accounts, RegionKey, Spec, StockWish
from selector.context import Context
from selector.explain import Explanation, explain
from selector.index import Index
from selector.order import sort_value
from selector.ranking import Match, Ranking, Tier, Verdict
from selector.unread import unread_places
from selector.walk import Kept, TierWalk, Walk
from selector.why_not import Reasons, Standing, standing

__all__ = ["Context", "Index", "browse", "rank"]

_NOTHING = Explanation({}, (), None, machine_exists=True)


def rank(index: Index, spec: Spec, context: Context) -> Ranking:
    """Choose among the offers of the index. The same offers give the same answer, in whatever order they came.

    Raises ValueError for `stock=all`, which would answer with sold-out machines.
    """
    if spec.stock is StockWish.ALL:
        raise ValueError("stock=all lists offers and chooses none: browse() does that")
    walk = Walk(index, spec, context)
    unread = [unread_places(spec, context, regions) for regions in (_primary(spec), *spec.fallback)]
    for found, places in zip(walk.tiers, unread, strict=True):
        found.unread = bool(places)
    answering = _answering(walk.tiers, spec.stock)
    kept = _in_order(walk.tiers[answering].all() if answering is not None else [], spec, context)
    explained = explain(index, spec, context) if spec.explain or answering is None else _NOTHING
    best = kept[0].match() if kept else None
    unconfirmed = _unconfirmed(walk.tiers[: (answering or 0) + 1], best, spec, context)
    alternatives = tuple(each.match() for each in kept[1 + spec.offset : 1 + spec.offset + spec.limit])
    shown = [match.offer for match in (best, unconfirmed, *alternatives) if match is not None]
    missed = [miss.offer for miss in (*explained.nearest_misses, explained.but_for_count) if miss is not None]
    return Ranking(
        verdict=_verdict(walk.tiers, best, explained, _has_source(index, spec, context)),
        best=best,
        unconfirmed=unconfirmed,
        alternatives=alternatives,
        tiers=tuple(_tier(number, tier, spec, answering, unread[number]) for number, tier in enumerate(walk.tiers)),
        fallback_used=bool(answering),
        rejected=explained.rejected,
        nearest_misses=explained.nearest_misses,
        but_for_count=explained.but_for_count,
        rates=_rates([*shown, *missed], spec, context),
    )


def browse(index: Index, spec: Spec, context: Context) -> tuple[list[Match], int]:
    """The offers that meet the spec, tier after tier in the documented order; one page of them, and how many all.

    With `stock=all` sold-out, unpriced and restricted ones are among them.
    """
    reasons = Reasons(spec, context)
    kept = []
    for _, offer in index.candidates(spec.gpus):
        tier = reasons.tier(offer)
        nanos = context.nanos(offer, spec.currency)
        if tier is not None and next(reasons.of_terms(offer, nanos), None) is None:
            stands = standing(offer, spec, context)
            kept.append(Kept(offer, tier, nanos, sort_value(offer, nanos, spec.sort), stands))
    kept.sort(key=lambda each: (each.tier, each.key(spec, context)))
    return [each.match() for each in kept[spec.offset : spec.offset + spec.limit]], len(kept)


def _answering(tiers: Sequence[TierWalk], wish: StockWish) -> int | None:
    """The tier that answers. A confirmed offer in a later tier is worth more than an unconfirmed one in an earlier."""
    qualified = [number for number, tier in enumerate(tiers) if tier.all()]
    confirmed = [number for number in qualified if tiers[number].kept[Standing.CONFIRMED]]
    preferred = confirmed if confirmed and wish is StockWish.PREFER else qualified
    return preferred[0] if preferred else None


def _in_order(kept: Iterable[Kept], spec: Spec, context: Context) -> list[Kept]:
    return sorted(kept, key=lambda each: each.key(spec, context))


def _unconfirmed(tiers: Iterable[TierWalk], best: Match | None, spec: Spec, context: Context) -> Match | None:
    """The first unconfirmed match of the tiers up to the answer's, where the answer itself is a confirmed one."""
    if best is None or not best.confirmed:
        return None
    firsts = (_in_order(tier.unconfirmed(), spec, context)[:1] for tier in tiers)
    return next((first[0].match() for first in firsts if first), None)


def _verdict(tiers: Sequence[TierWalk], best: Match | None, explained: Explanation, has_source: bool) -> Verdict:
    if best is not None:
        return Verdict.CONFIRMED if best.confirmed else Verdict.UNCONFIRMED
    found = {tier.verdict() for tier in tiers} - {Verdict.NOT_OFFERED_HERE}
    if found:
        return min(found, key=list(Verdict).index)
    if explained.machine_exists:
        return Verdict.NOT_OFFERED_HERE
    return Verdict.NO_SUCH_MACHINE if has_source else Verdict.NO_SOURCE


def _has_source(index: Index, spec: Spec, context: Context) -> bool:
    """Whether anything is known of a provider that could be answered."""
    providers = {provider for provider, _ in index.regions()}
    providers &= spec.providers if spec.providers is not None else providers
    return bool(providers & context.accounts if spec.accounts is Accounts.MINE else providers)


def _tier(number: int, tier: TierWalk, spec: Spec, answering: int | None, unread: tuple[str, ...]) -> Tier:
    passed_over = tier.verdict() if answering is None or number < answering else None
    regions = spec.fallback[number - 1] if number else _primary(spec) or ()
    return Tier(
        tier=number,
        regions=tuple(sorted({region for _, region in regions})),
        matching=tier.counts.total(),
        confirmed=tier.counts[Standing.CONFIRMED],
        out=tier.counts[Standing.OUT],
        unknown=tier.counts[Standing.UNCONFIRMED],
        stale=tier.counts[Standing.STALE],
        passed_over=passed_over,
        about=tuple(sorted(tier.regions[passed_over])) if passed_over else (),
        unread=unread if passed_over else (),
    )


def _primary(spec: Spec) -> frozenset[RegionKey] | None:
    """The primary regions; None where the question names none, and every place is primary."""
    if spec.zones is not None:
        return frozenset(zone[:2] for zone in spec.zones)
    return spec.regions


def _rates(offers: Iterable[Offer], spec: Spec, context: Context) -> tuple[Rate, ...]:
    currencies = {offer.price.currency for offer in offers if offer.price is not None}
    rates = (context.rates.rate(currency, spec.currency) for currency in sorted(currencies))
    return tuple(rate for rate in rates if rate is not None)
