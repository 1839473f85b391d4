"""Why an offer is not the answer, and how it stands if nothing but its stock is asked of it."""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TypeVar

from catalog.facts import Machine
from catalog.money import nanos_text
from catalog.offers import Offer, Place, StockNow
from catalog.spec import Spec, StockWish
from catalog.words import Level, Purchase
from selector.ages import ago_text
from selector.context import Context
from selector.demands import machine_demands, place_demands, tier_of
from selector.reasons import Code, Reason

_T = TypeVar("_T")


class Standing(IntEnum):
    """What is known of an offer's stock, best first; each offer has exactly one."""

    CONFIRMED = 0
    UNCONFIRMED = 1
    """Fresh, yet neither confirmed nor known to be out."""
    STALE = 2
    """Stock or price older than it counts for. One that was out when last seen is no longer known to be out."""
    OUT = 3
    RESTRICTED = 4
    """Not to be had by this account."""


def is_stale(offer: Offer, spec: Spec, context: Context) -> bool:
    """Whether its stock or its price is older than it counts for; `max_age` replaces the feed's limit for stock."""
    now, price = context.now, offer.price
    return offer.stock_at(now).stale(now, spec.max_age) or (price is not None and price.stale(now))


def standing(offer: Offer, spec: Spec, context: Context) -> Standing:
    """How the offer stands now."""
    now = context.now
    if offer.confirmed(now, spec.max_age):
        return Standing.CONFIRMED
    stock = offer.stock_at(now)
    if _restricted(stock):
        return Standing.RESTRICTED
    if stock.level is Level.OUT and not stock.stale(now, spec.max_age):
        return Standing.OUT
    return Standing.STALE if is_stale(offer, spec, context) else Standing.UNCONFIRMED


def why_not(offer: Offer, spec: Spec, context: Context) -> tuple[Reason, ...]:
    """Every demand that the offer does not meet, in a fixed order; empty if it may be answered."""
    return Reasons(spec, context).of(offer)


class Reasons:
    """A question's demands made ready once, for any number of offers.

    What is said of a machine or place is kept by identity (`id`, with the object held so that its id stays its own):
    offers share them.
    """

    def __init__(self, spec: Spec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self._machine_demands = machine_demands(spec)
        self._place_demands = place_demands(spec, context.accounts)
        self._machines: dict[int, tuple[Machine, tuple[Reason, ...]]] = {}
        self._places: dict[int, tuple[Place, int, tuple[Reason, ...]]] = {}

    def of(self, offer: Offer, *, sold_as_asked: bool = False) -> tuple[Reason, ...]:
        """Every reason. `sold_as_asked`: the same machine has an offer there under a purchase that is asked for."""
        return (
            *self.of_machine(offer.machine),
            *self._placed(offer.place)[2],
            *self._of_purchase(offer, sold_as_asked),
            *self.of_terms(offer, self._context.nanos(offer, self._spec.currency)),
        )

    def tier(self, offer: Offer) -> int | None:
        """The offer's tier, where machine, place and purchase are as asked; else None."""
        purchases = self._spec.purchases
        if purchases is not None and offer.purchase not in purchases:
            return None
        _, tier, reasons = self._placed(offer.place)
        return None if reasons or self.of_machine(offer.machine) else tier

    def of_machine(self, machine: Machine) -> tuple[Reason, ...]:
        """The demands on the machine that it does not meet."""
        known = self._machines.get(id(machine))
        if known is None:
            known = (machine, tuple(_unmet(self._machine_demands, machine)))
            self._machines[id(machine)] = known
        return known[1]

    def _placed(self, place: Place) -> tuple[Place, int, tuple[Reason, ...]]:
        known = self._places.get(id(place))
        if known is None:
            reasons = tuple(_unmet(self._place_demands, place))
            tier = tier_of(place, self._spec)
            known = (place, -1, (*reasons, tier)) if isinstance(tier, Reason) else (place, tier, reasons)
            self._places[id(place)] = known
        return known

    def of_terms(self, offer: Offer, nanos: int | None) -> Iterator[Reason]:
        """What speaks against its price, given as nano-units of the question's currency, and its stock."""
        yield from self.of_price(offer, nanos)
        yield from self._of_stock(offer)

    def _of_purchase(self, offer: Offer, sold_as_asked: bool) -> Iterator[Reason]:
        asked = self._spec.purchases
        if asked is None or offer.purchase in asked:
            return
        if asked == {Purchase.SPOT} and not sold_as_asked:
            yield Reason(Code.NO_SPOT_MARKET, "no spot market")
        else:
            yield Reason(Code.PURCHASE, f"{offer.purchase} is not {' or '.join(sorted(asked))}")

    def of_price(self, offer: Offer, nanos: int | None) -> Iterator[Reason]:
        """The demands on the price, given as nano-units of the question's currency."""
        spec = self._spec
        if nanos is None:
            if spec.stock is not StockWish.ALL or spec.limits_price:
                yield self._unpriced(offer)
            return
        if spec.max_price_nanos is not None and nanos > spec.max_price_nanos:
            yield _too_dear("price", nanos, spec.max_price_nanos)
        if spec.max_price_per_gpu_nanos is not None:
            yield from _per_gpu(offer, nanos, spec.max_price_per_gpu_nanos)

    def _unpriced(self, offer: Offer) -> Reason:
        if offer.price is None:
            return Reason(Code.NO_PRICE, f"no {offer.purchase.replace('_', '-')} price")
        return Reason(Code.NO_RATE, f"no {offer.price.currency}/{self._spec.currency} rate")

    def _of_stock(self, offer: Offer) -> Iterator[Reason]:
        stands = standing(offer, self._spec, self._context)
        if not qualifies(stands, self._spec.stock):
            yield _stock_reason(stands, offer, self._context)


def qualifies(stands: Standing, wish: StockWish) -> bool:
    """Whether an offer that meets every other demand may be answered with this stock."""
    if wish is StockWish.ALL:
        return True
    return stands is Standing.CONFIRMED if wish is StockWish.CONFIRMED else stands <= Standing.STALE


def _stock_reason(stands: Standing, offer: Offer, context: Context) -> Reason:
    stock = offer.stock_at(context.now)
    seen = ago_text(context.now - stock.seen_at)
    if stands is Standing.RESTRICTED:
        return Reason(Code.RESTRICTED, f"{stock.detail} for this account")
    if stands is Standing.OUT:
        return Reason(Code.OUT_OF_STOCK, "out of stock")
    if stands is Standing.STALE and stock.level is Level.OUT:
        return Reason(Code.STALE, f"out of stock when last seen {seen}")
    if stands is Standing.STALE and stock.tells_level:
        return Reason(Code.STALE, f"stale: stock seen {seen}{_price_age(offer, context)}")
    return Reason(Code.NOT_CONFIRMED, f"stock {stock.level.replace('_', ' ')} ({stock.evidence}), not confirmed")


def _unmet(demands: Iterable[Callable[[_T], Reason | None]], thing: _T) -> Iterator[Reason]:
    return (reason for demand in demands if (reason := demand(thing)) is not None)


def _restricted(stock: StockNow) -> bool:
    return stock.level is Level.UNKNOWN and stock.detail.startswith("restricted")


def _per_gpu(offer: Offer, nanos: int, most: int) -> Iterator[Reason]:
    count = offer.machine.gpu_count
    if not count:
        yield Reason(Code.GPU_COUNT_UNKNOWN, "price_per_gpu unknown")
    elif nanos > most * count:
        yield _too_dear("price_per_gpu", round(nanos / count), most)


def _too_dear(name: str, nanos: int, most: int) -> Reason:
    return Reason(Code.TOO_DEAR, f"{name} {nanos_text(nanos)} > {nanos_text(most)}")


def _price_age(offer: Offer, context: Context) -> str:
    return "" if offer.price is None else f", price {ago_text(context.now - offer.price.seen_at)}"
