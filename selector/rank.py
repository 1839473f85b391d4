"""The answer to a question: the best offer, the next ones, and what was passed over. Pure."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from catalog.fx import Rate
from catalog.offers import Offer
from catalog.partitions import holds
from catalog.spec import Accounts, RegionKey, Sort, Spec, StockWish
from selector.context import Context
from selector.explain import Explanation, explain
from selector.fixes import FIXABLE, Answering
from selector.index import Index
from selector.job import JobCosts
from selector.kinds import Kinds
from selector.ranking import Change, Fix, Match, Ranking, Tier, Verdict
from selector.reasons import Code
from selector.unread import Silent, silent_places
from selector.walk import TierWalk, Walk
from selector.why_not import Reasons, Standing

__all__ = ["Asking", "Context", "Index", "best", "browse", "rank"]

Asking = Callable[[Change], Spec | None]
"""What the question means with that change; None where it cannot be asked so."""
_NOTHING = Explanation({}, (), None, machine_exists=True)


def rank(
    index: Index, spec: Spec, context: Context, asking: Asking, *, fixable: AbstractSet[Code] = FIXABLE
) -> Ranking:
    """Choose among the offers of the index. The same offers give the same answer, in whatever order they came.

    `asking` understands the question changed, and `fixable` are the reasons that a `fix` may rid it of: who asks for
    somebody else leaves its own out. Raises ValueError for `stock=all`, which would answer with sold-out machines.
    """
    if spec.stock is StockWish.ALL:
        raise ValueError("stock=all lists offers and chooses none: browse() does that")
    candidates, reasons = index.candidates(spec.gpus), Reasons(spec, context)
    kinds = Kinds(candidates, spec, context)
    walk = Walk(candidates, spec, context, reasons, kinds)
    silent = _silent(index, spec, context)
    for found, places in zip(walk.tiers, silent, strict=True):
        found.unread = places.any
    answering = _answering(walk.tiers, spec.stock)
    kept = [] if answering is None else walk.first(walk.tiers[answering].all(), 0, 1 + spec.offset + spec.limit)
    explained = _NOTHING
    if spec.explain or answering is None:
        rids = fixable if answering is None else frozenset[Code]()
        answer = _answerer(index, context, asking)
        explained = explain(candidates, spec, context, reasons, kinds, fixable=rids, answering=answer)
    first = kept[0] if kept else None
    unconfirmed = _unconfirmed(walk, walk.tiers[: (answering or 0) + 1], first)
    alternatives = tuple(kept[1 + spec.offset :])
    for_job = None if answering is None else _cheaper_job(walk, walk.tiers[answering], spec, context, first)
    verdict = _verdict(walk.tiers, first, explained, lambda: _has_source(index, spec, context))
    fix = explained.fix
    shown = [match.offer for match in (first, unconfirmed, *alternatives, for_job, fix and fix.match) if match]
    return Ranking(
        verdict=verdict,
        best=first,
        unconfirmed=unconfirmed,
        alternatives=alternatives,
        tiers=tuple(_tier(number, walk, spec, answering, verdict, places) for number, places in enumerate(silent)),
        fallback_used=bool(answering),
        rejected=explained.rejected,
        nearest_misses=explained.nearest_misses,
        fix=fix,
        rates=_rates([*shown, *(miss.offer for miss in explained.nearest_misses)], spec, context),
        cheapest_job=for_job,
    )


def _silent(index: Index, spec: Spec, context: Context) -> list[Silent]:
    """Of each tier the places of which no source was read."""
    known = index.regions() | context.read if context.off else frozenset[RegionKey]()
    return [silent_places(spec, context, regions, known) for regions in (spec.primary_regions, *spec.fallback)]


def _answerer(index: Index, context: Context, asking: Asking) -> Answering:
    def answer(change: Change) -> Fix | None:
        changed = asking(change)
        match = None if changed is None else best(index, changed, context)
        return None if changed is None or match is None else Fix(change, match, changed)

    return answer


def _cheaper_job(walk: Walk, tier: TierWalk, spec: Spec, context: Context, first: Match | None) -> Match | None:
    """What `sort=job_cost` would answer, where that costs less for the job than the answer does."""
    if spec.job is None or spec.sort is Sort.JOB_COST or first is None:
        return None
    costs = JobCosts(spec.job, spec.currency, context.rates)
    other = walk.first(tier.all(), 0, 1, sort=Sort.JOB_COST)[0]
    least, known = costs.nanos(other.offer), costs.nanos(first.offer)
    return other if least is not None and (known is None or least < known) else None


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


def _tier(number: int, walk: Walk, spec: Spec, answering: int | None, verdict: Verdict, silent: Silent) -> Tier:
    tier = walk.tiers[number]
    passed_over = tier.verdict() if answering is None or number < answering else None
    if passed_over is Verdict.NOT_OFFERED_HERE and verdict in (Verdict.NO_SUCH_MACHINE, Verdict.NO_SOURCE):
        passed_over = verdict  # what holds of every place holds here
    regions = spec.fallback[number - 1] if number else spec.primary_regions or ()
    by_zone = not number and spec.zones is not None
    return Tier(
        tier=number,
        regions=tuple(sorted({region for _, region in regions})),
        matching=tier.counts.total(),
        confirmed=tier.counts[Standing.CONFIRMED],
        out=tier.counts[Standing.OUT],
        unknown=tier.counts[Standing.UNCONFIRMED],
        stale=tier.counts[Standing.STALE],
        passed_over=passed_over,
        about=walk.places(tier.kinds.get(passed_over, ()), zones=by_zone) if passed_over else (),
        unread=silent.unread if answering is None or number <= answering else (),
        off=silent.off if passed_over is Verdict.NO_SOURCE else (),
        nearness=spec.nearness_of(number),
    )


def _rates(offers: Iterable[Offer], spec: Spec, context: Context) -> tuple[Rate, ...]:
    currencies = {offer.price.currency for offer in offers if offer.price is not None}
    rates = (context.rates.rate(currency, spec.currency) for currency in sorted(currencies))
    return tuple(rate for rate in rates if rate is not None)
