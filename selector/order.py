"""The order of equals: which of two offers is answered first."""

from fractions import Fraction

from catalog.offers import Offer
from catalog.spec import Sort, Spec, StockWish
from catalog.words import LEVELS
from selector import measures
from selector.context import Context
from selector.why_not import Standing, is_stale

_LEVEL_ORDER = {level: place for place, level in enumerate(LEVELS)}

Value = int | Fraction | None
OrderKey = tuple[int, bool, int | Fraction, int, tuple[str, ...]]


def sort_value(offer: Offer, nanos: int | None, sort: Sort) -> Value:
    """What `sort` compares, exactly: the price, or the price over GPUs, GiB or TFLOPS; None is unknown, and last."""
    if sort is Sort.PRICE or nanos is None:
        return nanos
    divisor = _divisor(offer, sort)
    return nanos / divisor if divisor else None


def order_key(offer: Offer, value: Value, stands: Standing, spec: Spec, context: Context) -> OrderKey:
    """Inside a tier: confirmed first (with `prefer`), fresh before stale, the sort, then what never ties."""
    level = _LEVEL_ORDER[offer.stock_at(context.now).level]
    return (_rank_class(offer, stands, spec, context), value is None, value or 0, level, _names(offer))


def _rank_class(offer: Offer, stands: Standing, spec: Spec, context: Context) -> int:
    if stands is Standing.CONFIRMED and spec.stock is StockWish.PREFER:
        return 0
    return 2 if is_stale(offer, spec, context) else 1


def _names(offer: Offer) -> tuple[str, ...]:
    place, machine = offer.place, offer.machine
    return (*offer.sort_key(), place.zone_id or "", machine.upstream or "", place.site or "")


def _divisor(offer: Offer, sort: Sort) -> Fraction | None:
    machine = offer.machine
    if sort is Sort.PRICE_PER_GPU:
        return machine.gpu_count
    if sort is Sort.PRICE_PER_VRAM:
        return measures.total_vram_gib(machine)
    each = measures.tflops(machine)
    return None if each is None or machine.gpu_count is None else each * max(machine.gpu_count, Fraction(1))
