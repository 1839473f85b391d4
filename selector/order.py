"""The order of equals: which of two offers is answered first."""

from fractions import Fraction

from catalog.facts import Machine
from catalog.offers import Offer
from catalog.spec import Sort, Spec, StockWish
from catalog.words import LEVELS
from selector import measures
from selector.context import Context
from selector.why_not import Standing, is_stale

_LEVEL_ORDER = {level: place for place, level in enumerate(LEVELS)}

Value = int | Fraction | None


def sort_value(machine: Machine, price: Value, sort: Sort) -> Value:
    """What `sort` compares of a price in nano-units that was not rounded: it, or it over GPUs, GiB or TFLOPS; None is
    unknown, and last.
    """
    if sort is Sort.PRICE or price is None:
        return price
    over = divisor(machine, sort)
    return price / over if over else None


def comparable(value: Value, price: Value) -> tuple[int, int | Fraction]:
    """What sorts offers by a value: one that is not known comes after all that are, by its price; the unpriced last."""
    if value is not None:
        return 0, value
    return (2, 0) if price is None else (1, price)


def divisor(machine: Machine, sort: Sort) -> Fraction | None:
    """What the price is divided by to be compared: GPUs, GiB or TFLOPS of all of them; None where that is unknown."""
    if sort is Sort.PRICE:
        return Fraction(1)
    if sort is Sort.PRICE_PER_GPU:
        return machine.gpu_count
    if sort is Sort.PRICE_PER_VRAM:
        return measures.total_vram_gib(machine)
    each = measures.tflops(machine)
    return None if each is None or machine.gpu_count is None else each * max(machine.gpu_count, Fraction(1))


def rank_class(offer: Offer, stands: Standing, spec: Spec, context: Context) -> int:
    """What goes before any price: confirmed first (with `prefer`), fresh before stale."""
    if stands is Standing.CONFIRMED and spec.stock is StockWish.PREFER:
        return 0
    return 2 if is_stale(offer, spec, context) else 1


def level_order(offer: Offer, context: Context) -> int:
    """What decides between equal prices: the level that counts, best first."""
    return _LEVEL_ORDER[offer.stock_at(context.now).level]


def names(offer: Offer) -> tuple[str, ...]:
    """What decides last, so that nothing ever ties."""
    place, machine = offer.place, offer.machine
    return (*offer.sort_key(), place.zone_id or "", machine.upstream or "", place.site or "")
