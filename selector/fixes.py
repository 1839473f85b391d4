"""The one change of a question that would make an offer its answer, where a single reason speaks against it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from catalog.money import NANOS, nanos_text
from catalog.offers import Offer
from catalog.spec import Spec, number_text
from selector.context import Context
from selector.demands import MINIMA
from selector.ranking import Change
from selector.reasons import Code

_SHOWN = 10_000
"""Numbers of a question have at most four decimals."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An offer beside the question that it does not answer."""

    offer: Offer
    spec: Spec
    context: Context


def change_for(code: Code, offer: Offer, spec: Spec, context: Context) -> Change:
    """What to ask instead so that this reason no longer speaks against the offer. KeyError for one not `FIXABLE`."""
    return _CHANGES[code](_Asked(offer, spec, context))


def _out(parameter: str) -> Callable[[_Asked], Change]:
    return lambda _asked: Change(parameter, None)


def _count(asked: _Asked) -> Change:
    return Change("count", number_text(asked.offer.machine.gpu_count or Fraction(0)))


def _least(name: str) -> Callable[[_Asked], Change]:
    """The figure that the machine has, rounded down to what a question can say."""
    parameter, measure = f"min_{name}", MINIMA[name]

    def change(asked: _Asked) -> Change:
        value = Fraction(floor((measure(asked.offer.machine) or 0) * _SHOWN), _SHOWN)
        return Change(parameter, number_text(value) if value else None)

    return change


def _place(asked: _Asked) -> Change:
    place, spec = asked.offer.place, asked.spec
    key = (place.provider, place.region)
    of_zones = {zone[:2] for zone in spec.zones or ()}
    if key in (spec.regions or of_zones):  # the region is asked for, and another zone of it
        return Change("zone", None)
    return Change("fallback", f"{place.provider}:{place.region}")


def _price(asked: _Asked) -> Change:
    """The price rounded up to what is shown: of the machine, or of each GPU where only that limit is broken."""
    spec, count = asked.spec, asked.offer.machine.gpu_count
    nanos = asked.context.nanos(asked.offer, spec.currency) or 0
    if spec.max_price_nanos is not None and nanos > spec.max_price_nanos:
        return Change("max_price", _shown_up(Fraction(nanos)))
    return Change("max_price_per_gpu", _shown_up(nanos / (count or Fraction(1))))


def _shown_up(nanos: Fraction) -> str:
    unit = NANOS // _SHOWN
    return nanos_text(ceil(nanos / unit) * unit)


_CHANGES: Mapping[Code, Callable[[_Asked], Change]] = {
    Code.INSTANCE_TYPE: _out("instance_type"),
    Code.GPU_COUNT: _count,
    Code.VENDOR: _out("vendor"),
    **{Code(f"{name}_too_small"): _least(name) for name in MINIMA},
    **{Code(f"{name}_unknown"): _out(f"min_{name}") for name in MINIMA},
    **{code: _out(code.removesuffix("_unknown")) for code in (Code.NVLINK, Code.NVLINK_UNKNOWN)},
    **{code: _out(code.removesuffix("_unknown")) for code in (Code.RDMA, Code.RDMA_UNKNOWN)},
    **{code: _out(code.removesuffix("_unknown")) for code in (Code.BARE_METAL, Code.BARE_METAL_UNKNOWN)},
    Code.HOSTING: lambda asked: Change("hosting", str(asked.offer.machine.hosting)),
    Code.PROVIDER: lambda asked: Change("provider", asked.offer.place.provider),
    Code.NO_ACCOUNT: lambda _asked: Change("accounts", "all"),
    Code.COUNTRY: lambda asked: Change("country", asked.offer.place.country),
    Code.COUNTRY_UNKNOWN: _out("country"),
    Code.MAINLAND_CHINA: _out("mainland_china"),
    Code.MAINLAND_CHINA_UNKNOWN: _out("mainland_china"),
    Code.COMPLIANCE: _out("compliance"),
    Code.NOT_HERE: _place,
    Code.PURCHASE: lambda asked: Change("purchase", str(asked.offer.purchase)),
    Code.NO_SPOT_MARKET: lambda asked: Change("purchase", str(asked.offer.purchase)),
    Code.TOO_DEAR: _price,
    Code.STALE: lambda _asked: Change("stock", "prefer"),
    Code.NOT_CONFIRMED: lambda _asked: Change("stock", "prefer"),
}
FIXABLE = frozenset(_CHANGES)
"""The reasons that a question can be changed to be without. Stock, prices, rates and restrictions are not its to
change, an excluded place was excluded on purpose, and a count that is not known meets no count.
"""
