"""The answer to a question: the best offer, the next ones, and what was passed over. Pure."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from catalog.fx import Rate
from catalog.offers import Offer
from catalog.partitions import holds
from catalog.spec import Accounts, RegionKey, Spec, StockWish
from selector.context import Context
from selector.explain import Explanation, explain
from selector.fixes import FIXABLE
from selector.index import Index
from selector.kinds import Kinds
from selector.ranking import Match, Ranking, Tier, Verdict
from selector.reasons import Code
from selector.unread import Silent, silent_places
from selector.walk import TierWalk, Walk
from selector.why_not import Reasons, Standing

__all__ = ["Context", "Index", "best", "browse", "rank"]

_NOTHING = Explanation({}, (), None, machine_exists=True)


def rank(index: Index, spec: Spec, context: Context, *, fixable: AbstractSet[Code] = FIXABLE) -> Ranking:
    """Choose among the offers of the index. The same offers give the same answer, in whatever order they came.

    `fixable` are the reasons that a `fix` may rid the question of: who asks for somebody else leaves its own out.
    Raises ValueError for `stock=all`, which would answer with sold-out machines.
    """
    if spec.stock is StockWish.ALL:
        raise ValueError("stock=all lists offers and chooses none: browse() does that")
    candidates, reasons = index.candidates(spec.gpus), Reasons(spec, context)
    kinds = Kinds(candidates, spec, context)
    walk = Walk(candidates, spec, context, reasons, kinds)
    tiers = (spec.primary_regions, *spec.fallback)
    known = index.regions() | context.read if context.off else frozenset[RegionKey]()
    silent = [silent_places(spec, context, regions, known) for regions in tiers]
    for found, places in zip(walk.tiers, silent, strict=True):
        found.unread = places.any
    answering = _answering(walk.tiers, spec.stock)
    kept = [] if answering is None else walk.first(walk.tiers[answering].all(), 0, 1 + spec.offset + spec.limit)
    explains = spec.explain or answering is None
    rids = fixable if answering is None else frozenset[Code]()
    explained = explain(candidates, spec, context, reasons, kinds, fixable=rids) if explains else _NOTHING
    best = kept[0] if kept else None
    unconfirmed = _unconfirmed(walk, walk.tiers[: (answering or 0) + 1], best)
    alternatives = tuple(kept[1 + spec.offset :])
    shown = [match.offer for match in (best, unconfirmed, *alternatives) if match is not None]
    fix = explained.fix
    missed = [miss.offer for miss in (*explained.nearest_misses, *([fix.miss] if fix else []))]
    return Ranking(
        verdict=_verdict(walk.tiers, best, explained, lambda: _has_source(index, spec, context)),
        best=best,
        unconfirmed=unconfirmed,
        alternatives=alternatives,
        tiers=tuple(_tier(number, walk, spec, answering, silent[number]) for number in range(len(walk.tiers))),
        fallback_used=bool(answering),
        rejected=explained.rejected,
        nearest_misses=explained.nearest_misses,
        fix=fix,
        rates=_rates([*shown, *missed], spec, context),
    )


def best(index: Index, spec: Spec, context: Context) -> Match | None:
    """The best offer alone, as `rank` gives it, without what else an answer tells."""
    candidates = index.candidates(spec.gpus)
    walk = Walk(candidates, spec, context, Reasons(spec, context), Kinds(candidates, spec, context))
    answering = _answering(walk.tiers, spec.stock)
    return None if answering is None else walk.first(walk.tiers[answering].all(), 0, 1)[0]


def browse(index: Index, spec: Spec, context: Context) -> tuple[list[Match], int]:
    """The offers that meet the spec, tier after tier in the documented order; one page of them, and how many all.

    With `stock=all` sold-out, unpriced and restricted ones are among them.
    """
    candidates = index.candidates(spec.gpus)
    walk = Walk(candidates, spec, context, Reasons(spec, context), Kinds(candidates, spec, context))
    kinds = walk.meeting()
    return walk.first(kinds, spec.offset, spec.offset + spec.limit), sum(kind.count for kind in kinds)


def _answering(tiers: Sequence[TierWalk], wish: StockWish) -> int | None:
    """The tier that answers. A confirmed offer in a later tier is worth more than an unconfirmed one in an earlier."""
    qualified = [number for number, tier in enumerate(tiers) if tier.all()]
    confirmed = [number for number in qualified if Verdict.CONFIRMED in tiers[number].kinds]
    preferred = confirmed if confirmed and wish is StockWish.PREFER else qualified
    return preferred[0] if preferred else None


def _unconfirmed(walk: Walk, tiers: Iterable[TierWalk], best: Match | None) -> Match | None:
    """The first unconfirmed match of the tiers up to the answer's, where the answer itself is a confirmed one."""
    if best is None or not best.confirmed:
        return None
    kinds = [kind for tier in tiers for kind in tier.unconfirmed()]
    return next(iter(walk.first(kinds, 0, 1)), None)


def _verdict(
    tiers: Sequence[TierWalk], best: Match | None, explained: Explanation, has_source: Callable[[], bool]
) -> Verdict:
    if best is not None:
        return Verdict.CONFIRMED if best.confirmed else Verdict.UNCONFIRMED
    found = {tier.verdict() for tier in tiers} - {Verdict.NOT_OFFERED_HERE}
    if found:
        return min(found, key=list(Verdict).index)
    if explained.machine_exists:
        return Verdict.NOT_OFFERED_HERE
    return Verdict.NO_SUCH_MACHINE if has_source() else Verdict.NO_SOURCE


def _has_source(index: Index, spec: Spec, context: Context) -> bool:
    """Whether anything is known of a provider that could be answered."""
    known = [key for key in index.regions() if spec.providers is None or key[0] in spec.providers]
    return any(spec.accounts is not Accounts.MINE or holds(context.accounts, *key) for key in known)


def _tier(number: int, walk: Walk, spec: Spec, answering: int | None, silent: Silent) -> Tier:
    tier = walk.tiers[number]
    passed_over = tier.verdict() if answering is None or number < answering else None
    regions = spec.fallback[number - 1] if number else spec.primary_regions or ()
    return Tier(
        tier=number,
        regions=tuple(sorted({region for _, region in regions})),
        matching=tier.counts.total(),
        confirmed=tier.counts[Standing.CONFIRMED],
        out=tier.counts[Standing.OUT],
        unknown=tier.counts[Standing.UNCONFIRMED],
        stale=tier.counts[Standing.STALE],
        passed_over=passed_over,
        about=walk.regions(tier.kinds.get(passed_over, ())) if passed_over else (),
        unread=silent.unread if passed_over else (),
        off=silent.off if passed_over is Verdict.NO_SOURCE else (),
        nearness=spec.nearness_of(number),
    )


def _rates(offers: Iterable[Offer], spec: Spec, context: Context) -> tuple[Rate, ...]:
    currencies = {offer.price.currency for offer in offers if offer.price is not None}
    rates = (context.rates.rate(currency, spec.currency) for currency in sorted(currencies))
    return tuple(rate for rate in rates if rate is not None)
