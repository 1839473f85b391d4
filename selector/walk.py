"""One walk over the candidates: what each tier holds, and the first few of each standing."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from catalog.offers import Offer
from catalog.spec import Sort, Spec, StockWish
from selector.context import Context
from selector.index import CURRENCY, UNPRICED, Index
from selector.order import OrderKey, Value, order_key, sort_value
from selector.ranking import Match, Verdict
from selector.reasons import Code
from selector.why_not import Reasons, Standing, qualifies, standing


@dataclass(frozen=True, slots=True)
class Kept:
    """An offer that may be answered."""

    offer: Offer
    tier: int
    nanos: int | None
    value: Value
    stands: Standing

    def key(self, spec: Spec, context: Context) -> OrderKey:
        """Its place in the order inside a tier."""
        return order_key(self.offer, self.value, self.stands, spec, context)

    def match(self) -> Match:
        """As it is answered."""
        return Match(self.offer, self.tier, self.nanos, self.stands is Standing.CONFIRMED)


@dataclass(slots=True)
class TierWalk:
    """What the walk found in one tier."""

    counts: Counter[Standing] = field(default_factory=Counter)
    """Of the offers that meet every demand but those on stock."""
    too_dear: int = 0
    incomparable: int = 0
    """Neither answered nor out: no price, no rate, or no confirmation where one is asked for."""
    kept: dict[Standing, list[Kept]] = field(default_factory=lambda: {stands: [] for stands in Standing})

    def unconfirmed(self) -> list[Kept]:
        """Those that may be answered though nobody confirms them."""
        return [kept for stands, some in self.kept.items() if stands is not Standing.CONFIRMED for kept in some]

    def all(self) -> list[Kept]:
        """Those that may be answered."""
        return [*self.kept[Standing.CONFIRMED], *self.unconfirmed()]

    def verdict(self) -> Verdict:
        """What this tier alone would be answered with."""
        if self.kept[Standing.CONFIRMED]:
            return Verdict.CONFIRMED
        if self.unconfirmed():
            return Verdict.UNCONFIRMED
        if self.counts[Standing.OUT]:
            return Verdict.OUT_OF_STOCK
        if self.counts[Standing.STALE]:
            return Verdict.STALE
        if self.too_dear:
            return Verdict.TOO_DEAR
        return Verdict.NO_SOURCE if self.incomparable else Verdict.NOT_OFFERED_HERE


class Walk:
    """Goes over the candidates of a question in ascending price.

    Keeps, for each tier and standing, the first offers in order and all that tie with the last of them. With `counts`
    it goes to the end; without, it stops as soon as the primary places have settled the answer.
    """

    def __init__(self, index: Index, spec: Spec, context: Context, *, counts: bool) -> None:
        self._spec = spec
        self._context = context
        self._need = 1 + spec.offset + spec.limit
        self._ascending = spec.sort is Sort.PRICE and spec.currency == CURRENCY and context.rates is index.rates
        self._reasons = Reasons(spec, context)
        self.tiers = [TierWalk() for _ in range(1 + len(spec.fallback))]
        self.complete = self._go(index, may_stop=self._ascending and not counts)

    def _go(self, index: Index, *, may_stop: bool) -> bool:
        for nanos, offer in self._priced(index):
            if may_stop and self._settled(nanos):
                return False
            tier = self._reasons.tier(offer)
            if tier is not None:
                self._take(tier, nanos, offer)
        return True

    def _priced(self, index: Index) -> Iterator[tuple[int | None, Offer]]:
        candidates = index.candidates(self._spec.gpus)
        if self._ascending:
            return ((None if nanos == UNPRICED else nanos, offer) for nanos, offer in candidates)
        return ((self._context.nanos(offer, self._spec.currency), offer) for _, offer in candidates)

    def _take(self, tier: int, nanos: int | None, offer: Offer) -> None:
        found = self.tiers[tier]
        against = next(self._reasons.of_price(offer, nanos), None)
        if against is not None and against.code is Code.TOO_DEAR:
            found.too_dear += 1
            return
        stands = standing(offer, self._spec, self._context)
        if stands is Standing.RESTRICTED:
            return
        found.counts[stands] += 1
        if against is None and qualifies(stands, self._spec.stock):
            self._keep(found.kept[stands], offer, tier, nanos, stands)
        elif stands < Standing.OUT:
            found.incomparable += 1

    def _keep(self, some: list[Kept], offer: Offer, tier: int, nanos: int | None, stands: Standing) -> None:
        if not self._ascending or not _past(some, self._need, nanos):
            some.append(Kept(offer, tier, nanos, sort_value(offer, nanos, self._spec.sort), stands))

    def _settled(self, nanos: int | None) -> bool:
        """Whether nothing from this price on can change the answer."""
        kept = self.tiers[0].kept
        enough = _past(kept[Standing.CONFIRMED], self._need, nanos)
        if self._spec.stock is StockWish.CONFIRMED:
            return enough
        if self._spec.stock is StockWish.ANY:
            enough = enough or _past(kept[Standing.UNCONFIRMED], self._need, nanos)
        return enough and _past(kept[Standing.UNCONFIRMED], 1, nanos)


def _past(some: list[Kept], need: int, nanos: int | None) -> bool:
    """Whether so many are kept, and this price is above that of the last one needed."""
    if len(some) < need:
        return False
    last = some[need - 1].nanos
    return last is not None and (nanos is None or nanos > last)
