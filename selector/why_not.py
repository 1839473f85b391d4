"""Why an offer is not the answer, and how it stands if nothing but its stock is asked of it."""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from fractions import Fraction
from typing import TypeVar

from catalog.facts import Machine
from catalog.money import nanos_text
from catalog.offers import SNAPSHOT, Offer, Place
from catalog.spec import Spec, StockWish, number_text
from catalog.words import Evidence, Level, Purchase
from selector.ages import ago_text
from selector.context import Context
from selector.demands import Demand, machine_demands, no_tier, place_demands, tier_of
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
    """Whether its stock or its price is older than it counts for; `max_age` replaces the feed's limit for stock.

    A score that is old makes nothing stale, unless an age is asked for: the machine is sold there without it.
    """
    now, price = context.now, offer.price
    stock = offer.stock_at(now)
    counts = stock.evidence is not Evidence.SCORED or spec.max_age is not None
    return (counts and stock.stale(now, spec.max_age)) or (price is not None and price.stale(now))


def standing(offer: Offer, spec: Spec, context: Context) -> Standing:
    """How the offer stands now."""
    now = context.now
    if offer.confirmed(now, spec.max_age):
        return Standing.CONFIRMED
    stock = offer.stock_at(now)
    if stock.restricted_at(now, spec.max_age):
        return Standing.RESTRICTED
    if stock.level is Level.OUT and not (stock.stale(now, spec.max_age) and stock.stale(now)):
        return Standing.OUT  # what counts as out is not to be had for being asked about more strictly
    return Standing.STALE if is_stale(offer, spec, context) else Standing.UNCONFIRMED


def traits(offer: Offer) -> tuple[object, ...]:
    """What the rules on purchase, price and stock read of an offer beside its amount and its times.

    Where a launch taught something, which stock counts changes with the time too: such an offer is one of a kind.
    """
    if offer.observed is not None:
        return (id(offer),)
    stock, price = offer.stock, offer.price
    of_price = price and (price.currency, price.source.startswith(SNAPSHOT))  # which is stale at any age
    return (offer.purchase, window_hours(offer), of_price, stock.level, stock.evidence, stock.restricted)


def window_hours(offer: Offer) -> Fraction | None:
    """How long the window is that is sold; None where none is."""
    return offer.price.window.hours if offer.price is not None and offer.price.window is not None else None


def why_not(offer: Offer, spec: Spec, context: Context) -> tuple[Reason, ...]:
    """Every demand that the offer does not meet, in a fixed order; empty if it may be answered."""
    return Reasons(spec, context).of(offer)


class Reasons:
    """A question's demands made ready once, for any number of offers."""

    def __init__(self, spec: Spec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self._machine_demands = machine_demands(spec)
        self._place_demands = place_demands(spec, context.accounts)
        self._unmet_by_machine = [demand.unmet for demand in self._machine_demands if not demand.on_name]
        self._unmet_by_name = [demand.unmet for demand in self._machine_demands if demand.on_name]
        self._unmet_by_place = [demand.unmet for demand in self._place_demands]

    def of(self, offer: Offer, *, sold_as_asked: bool = False) -> tuple[Reason, ...]:
        """Every reason. `sold_as_asked`: the same machine has an offer there under a purchase that is asked for."""
        return (
            *_reasons(self._machine_demands, offer.machine),
            *self._of_place(offer.place),
            *self.of_purchase(offer, sold_as_asked=sold_as_asked),
            *self.of_terms(offer, self._context.nanos(offer, self._spec.currency)),
        )

    @property
    def asks_names(self) -> bool:
        """Whether there are demands on the names of machines."""
        return bool(self._unmet_by_name)

    def fits(self, machine: Machine) -> bool:
        """Whether it meets every demand on machines but those on names."""
        for unmet in self._unmet_by_machine:  # noqa: SIM110 - half of the time of all(), for thousands of shapes
            if unmet(machine) is not None:
                return False
        return True

    def fits_by_name(self, machine: Machine) -> bool:
        """Whether it meets those on names."""
        return not _codes(self._unmet_by_name, machine)

    def against_machine(self, machine: Machine) -> tuple[Code, ...]:
        """The codes of the demands on the machine that it does not meet, but for those on names."""
        return _codes(self._unmet_by_machine, machine)

    def against_name(self, machine: Machine) -> tuple[Code, ...]:
        """The codes of those on names."""
        return _codes(self._unmet_by_name, machine)

    def tier(self, place: Place) -> int:
        """The tier that a place belongs to; -1 where it belongs to none or a demand on places is not met."""
        for unmet in self._unmet_by_place:
            if unmet(place) is not None:
                return -1
        tier = tier_of(place, self._spec)
        return -1 if isinstance(tier, Code) else tier

    def against_place(self, place: Place) -> tuple[Code, ...]:
        """The codes of the demands on the place that it does not meet."""
        tier = tier_of(place, self._spec)
        codes = _codes(self._unmet_by_place, place)
        return (*codes, tier) if isinstance(tier, Code) else codes

    def _of_place(self, place: Place) -> Iterator[Reason]:
        yield from _reasons(self._place_demands, place)
        tier = tier_of(place, self._spec)
        if isinstance(tier, Code):
            yield no_tier(place, tier, self._spec)

    def of_terms(self, offer: Offer, nanos: int | None) -> Iterator[Reason]:
        """What speaks against its price, given as nano-units of the question's currency, and its stock."""
        yield from self.of_price(offer, nanos)
        yield from self._of_stock(offer)

    def sold_so(self, offer: Offer) -> bool:
        """Whether nothing speaks against its purchase."""
        return next(self.of_purchase(offer, sold_as_asked=True), None) is None

    def of_purchase(self, offer: Offer, *, sold_as_asked: bool) -> Iterator[Reason]:
        """What speaks against its purchase, and a window that is shorter than the job. `sold_as_asked` as in `of`."""
        asked, job, hours = self._spec.purchases, self._spec.job, window_hours(offer)
        if job is not None and hours is not None and hours < job.hours:
            yield Reason(Code.WINDOW_TOO_SHORT, f"window {number_text(hours)} h < {number_text(job.hours)} h")
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
    if stock.tells_level:
        return Reason(Code.NOT_CONFIRMED, f"{stock.level.replace('_', ' ')} ({stock.evidence}), without a fresh price")
    return Reason(Code.NOT_CONFIRMED, f"stock {stock.level.replace('_', ' ')} ({stock.evidence}), not confirmed")


def _codes(rules: Iterable[Callable[[_T], Code | None]], thing: _T) -> tuple[Code, ...]:
    return tuple([code for unmet in rules if (code := unmet(thing)) is not None])


def _reasons(demands: Iterable[Demand[_T]], thing: _T) -> Iterator[Reason]:
    return (reason for demand in demands if (reason := demand.reason(thing)) is not None)


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
