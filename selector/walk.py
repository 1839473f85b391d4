"""What each tier holds: the kinds of the offers that fit, how many there are of each, and what each is worth."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from catalog.offers import Offer
from catalog.spec import Sort, Spec
from selector.columns import NAME, PLACE, SHAPE, TRAITS, Candidates, Mask, Table, among, tally
from selector.context import Context
from selector.kinds import Kinds
from selector.order import level_order, rank_class
from selector.ranking import Match, Verdict
from selector.reasons import Code, Reason
from selector.sorting import Sorting
from selector.why_not import Reasons, Standing, qualifies, standing


@dataclass(frozen=True, slots=True)
class Kind:
    """What holds of all offers of a kind in a tier."""

    number: int
    count: int
    stands: Standing
    verdict: Verdict | None
    """What a tier with these alone would be answered with; None where they do not count at all."""
    matches: bool
    """Whether every demand but those on stock is met."""
    meets: bool
    """Whether every demand is met: these may be answered."""
    rank_class: int
    level: int


@dataclass(slots=True)
class TierWalk:
    """What was found in one tier."""

    counts: Counter[Standing] = field(default_factory=Counter)
    """Of the offers that meet every demand but those on stock."""
    kinds: dict[Verdict, list[Kind]] = field(default_factory=dict)
    """Those that may be answered, are out, whose stated stock is only stale, that are too dear, or of which no source
    says enough (`NO_SOURCE`: no price, no rate, or no confirmation where one is asked for).
    """
    unread: bool = False
    """Whether a source of the tier was not read."""

    def verdict(self) -> Verdict:
        """What this tier alone would be answered with."""
        found = (verdict for verdict in Verdict if verdict in self.kinds)
        return next(found, Verdict.NO_SOURCE if self.unread else Verdict.NOT_OFFERED_HERE)

    def all(self) -> list[Kind]:
        """Those that may be answered."""
        return [kind for kinds in self.kinds.values() for kind in kinds if kind.meets]

    def unconfirmed(self) -> list[Kind]:
        """Those that may be answered though nobody confirms them."""
        return [kind for kind in self.all() if kind.stands is not Standing.CONFIRMED]


class Walk:
    """The candidates that fit a question in machine, place and purchase, by tier and kind."""

    def __init__(self, candidates: Candidates, spec: Spec, context: Context, reasons: Reasons, kinds: Kinds) -> None:
        self._candidates, self._spec, self._context, self._reasons = candidates, spec, context, reasons
        self._depth = 1 + len(spec.fallback)
        tier_of = candidates.kept(PLACE, (spec, context.accounts), reasons.tier, np.int16)
        self._rows = candidates.where(_fitting(candidates, spec, reasons, tier_of))
        self._cells = kinds.of(self._rows)
        if self._depth > 1:
            self._cells *= self._depth
            self._cells += tier_of[self._rows.numbers_of(PLACE)]
        self._kinds = {cell: self._kind(cell, count, self._rows.offer(row)) for cell, count, row in tally(self._cells)}
        self._sorting = self._sorted_by(spec.sort)
        self.tiers = [TierWalk() for _ in range(self._depth)]
        for cell, kind in self._kinds.items():
            _count(self.tiers[cell % self._depth], kind)

    def meeting(self) -> list[Kind]:
        """The kinds that meet every demand, of all tiers."""
        return [kind for kind in self._kinds.values() if kind.meets]

    def _sorted_by(self, sort: Sort) -> Sorting:
        spec = self._spec
        return Sorting(self._rows, self._candidates, self._context, spec.currency, sort, self._level, spec.job)

    def first(self, kinds: Iterable[Kind], start: int, stop: int, sort: Sort | None = None) -> list[Match]:
        """Of the offers of these kinds, tier after tier in the order inside it, those from `start` to before `stop`.

        With `sort` in another order than the question's.
        """
        sorting = self._sorting if sort is None else self._sorted_by(sort)
        classes: dict[tuple[int, int], list[int]] = {}
        for kind in kinds:
            classes.setdefault((kind.number % self._depth, kind.rank_class), []).append(kind.number)
        groups = (among(self._cells, classes[key]) for key in sorted(classes))
        return [self._match(row) for row in sorting.page(groups, start, stop)]

    def offers(self, kinds: Iterable[Kind]) -> list[Offer]:
        """The offers of these kinds, in no order that means anything."""
        numbers = [kind.number for kind in kinds]
        return self._rows.offers(among(self._cells, numbers)) if numbers else []

    def providers(self, kinds: Iterable[Kind]) -> frozenset[str]:
        """The providers with offers of these kinds."""
        numbers = [kind.number for kind in kinds]
        places = self._rows.numbers_of(PLACE)[among(self._cells, numbers)] if numbers else np.empty(0, np.int32)
        return frozenset(place.provider for place in self._candidates.things(PLACE, places))

    def kinds(self) -> list[Kind]:
        """The kinds of all tiers."""
        return list(self._kinds.values())

    def places(self, kinds: Iterable[Kind], *, zones: bool) -> tuple[str, ...]:
        """The regions, or zones, with offers of these kinds, sorted."""
        numbers = [kind.number for kind in kinds]
        if not numbers:
            return ()
        places = self._candidates.things(PLACE, self._rows.numbers_of(PLACE)[among(self._cells, numbers)])
        return tuple(sorted({place.finest if zones else place.region for place in places}))

    def _level(self, row: int) -> int:
        """Of equal prices and levels the provider's own offer goes before one that is sold on."""
        return 2 * self._kinds[int(self._cells[row])].level + (self._rows.offer(row).machine.upstream is not None)

    def _match(self, row: int) -> Match:
        """As it is answered."""
        cell, offer = int(self._cells[row]), self._rows.offer(row)
        confirmed = self._kinds[cell].stands is Standing.CONFIRMED
        return Match(offer, cell % self._depth, self._sorting.nanos(row), confirmed)

    def _kind(self, cell: int, count: int, offer: Offer) -> Kind:
        """Asked of one offer for all of the kind."""
        spec, context = self._spec, self._context
        against = next(self._reasons.of_price(offer, context.nanos(offer, spec.currency)), None)
        stands = standing(offer, spec, context)
        meets = against is None and qualifies(stands, spec.stock)
        return Kind(
            number=cell,
            count=count,
            stands=stands,
            verdict=self._verdict(offer, against, stands),
            matches=against is None or not spec.limits_price,  # what breaks a price limit does not match
            meets=meets,
            rank_class=rank_class(offer, stands, spec, context) if meets else 0,
            level=level_order(offer, context) if meets else 0,
        )

    def _verdict(self, offer: Offer, against: Reason | None, stands: Standing) -> Verdict | None:
        if against is not None and against.code is Code.TOO_DEAR:
            return Verdict.TOO_DEAR
        if stands is Standing.RESTRICTED:
            return None
        if against is not None and self._spec.limits_price:
            return Verdict.NO_SOURCE
        if stands is Standing.OUT:
            return Verdict.OUT_OF_STOCK
        if against is not None:
            return Verdict.NO_SOURCE
        if qualifies(stands, self._spec.stock):
            return Verdict.CONFIRMED if stands is Standing.CONFIRMED else Verdict.UNCONFIRMED
        lapsed = stands is Standing.STALE and offer.stock_at(self._context.now).tells_level
        return Verdict.STALE if lapsed else Verdict.NO_SOURCE


def _count(found: TierWalk, kind: Kind) -> None:
    if kind.verdict is None:
        return
    found.kinds.setdefault(kind.verdict, []).append(kind)
    if kind.matches:
        found.counts[kind.stands] += kind.count


def _fitting(
    candidates: Candidates, spec: Spec, reasons: Reasons, tier_of: npt.NDArray[np.int16]
) -> Callable[[Table], Mask]:
    """Tells which rows are as asked for in machine, place and purchase; nothing where no machine is."""
    lookups = {
        SHAPE: candidates.kept(SHAPE, spec, reasons.fits, np.bool_),
        PLACE: tier_of >= 0,
        TRAITS: candidates.lookup(TRAITS, reasons.sold_so, np.bool_),
    }
    if reasons.asks_names:
        lookups[NAME] = candidates.kept(NAME, spec, reasons.fits_by_name, np.bool_)
    parting = {row: lookup for row, lookup in lookups.items() if not lookup.all()}

    def fits(table: Table) -> Mask:
        if not lookups[SHAPE][table.present(SHAPE).numbers].any():
            return np.empty(0, np.bool_)  # an accelerator of which no machine fits, as most where none is named
        mask = np.ones(len(table), np.bool_)
        for row, lookup in parting.items():
            mask &= lookup[table.numbers_of(row)]
        return mask

    return fits
