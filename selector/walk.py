"""One walk over the candidates: what each tier holds, and the first few of each standing."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from catalog.offers import Offer
from catalog.spec import Sort, Spec
from selector.context import Context
from selector.index import CURRENCY, UNPRICED, Index
from selector.order import OrderKey, Value, order_key, sort_value
from selector.ranking import Match, Verdict
from selector.reasons import Code, Reason
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
    regions: dict[Verdict, set[str]] = field(default_factory=lambda: {verdict: set() for verdict in Verdict})
    """The regions of the offers that may be answered, are out, whose stated stock is only stale, that are too dear, or
    of which no source says enough (`NO_SOURCE`: no price, no rate, or no confirmation where one is asked for).
    """
    unread: bool = False
    """Whether a source of the tier was not read yet."""
    kept: dict[Standing, list[Kept]] = field(default_factory=lambda: {stands: [] for stands in Standing})

    def unconfirmed(self) -> list[Kept]:
        """Those that may be answered though nobody confirms them."""
        return [kept for stands, some in self.kept.items() if stands is not Standing.CONFIRMED for kept in some]

    def all(self) -> list[Kept]:
        """Those that may be answered."""
        return [*self.kept[Standing.CONFIRMED], *self.unconfirmed()]

    def verdict(self) -> Verdict:
        """What this tier alone would be answered with."""
        found = (verdict for verdict in Verdict if self.regions[verdict])
        return next(found, Verdict.NO_SOURCE if self.unread else Verdict.NOT_OFFERED_HERE)


class Walk:
    """Goes over all the candidates of a question, once.

    Keeps, for each tier and standing, the first offers in order and all that tie with the last of them.
    """

    def __init__(self, index: Index, spec: Spec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self._need = 1 + spec.offset + spec.limit
        self._ascending = spec.sort is Sort.PRICE and spec.currency == CURRENCY and context.rates is index.rates
        self._reasons = Reasons(spec, context)
        self.tiers = [TierWalk() for _ in range(1 + len(spec.fallback))]
        for nanos, offer in self._priced(index):
            tier = self._reasons.tier(offer)
            if tier is not None:
                self._take(self.tiers[tier], tier, nanos, offer)

    def _priced(self, index: Index) -> Iterator[tuple[int | None, Offer]]:
        candidates = index.candidates(self._spec.gpus)
        if self._ascending:
            return ((None if nanos == UNPRICED else nanos, offer) for nanos, offer in candidates)
        return ((self._context.nanos(offer, self._spec.currency), offer) for _, offer in candidates)

    def _take(self, found: TierWalk, tier: int, nanos: int | None, offer: Offer) -> None:
        against = next(self._reasons.of_price(offer, nanos), None)
        stands = standing(offer, self._spec, self._context)
        verdict = self._verdict(offer, against, stands)
        if verdict is None:
            return
        found.regions[verdict].add(offer.place.region)
        if against is None or not self._spec.limits_price:  # what breaks a price limit does not match
            found.counts[stands] += 1
        if verdict in (Verdict.CONFIRMED, Verdict.UNCONFIRMED):
            self._keep(found.kept[stands], offer, tier, nanos, stands)

    def _verdict(self, offer: Offer, against: Reason | None, stands: Standing) -> Verdict | None:
        """What a tier with this offer alone would be answered with; None for one that does not count at all."""
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

    def _keep(self, some: list[Kept], offer: Offer, tier: int, nanos: int | None, stands: Standing) -> None:
        if not self._ascending or not _past(some, self._need, nanos):
            some.append(Kept(offer, tier, nanos, sort_value(offer, nanos, self._spec.sort), stands))


def _past(some: list[Kept], need: int, nanos: int | None) -> bool:
    """Whether so many are kept, and this price is above that of the last one needed."""
    if len(some) < need:
        return False
    last = some[need - 1].nanos
    return last is not None and (nanos is None or nanos > last)
