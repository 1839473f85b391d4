"""The one change of a question that would make an offer its answer, where a single reason speaks against it. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from catalog.money import NANOS, nanos_text
from catalog.offers import Offer
from catalog.spec import Spec, number_text
from catalog.words import Purchase
from selector.context import Context
from selector.demands import MINIMA
from selector.ranking import Change, Fix, Miss
from selector.reasons import Code, Reason

_SHOWN = 10_000
"""Numbers of a question have at most four decimals."""


_MOST_ASKED = 8
"""Changes that are tried: nearly always the first one's answer is the offer that it was made for."""
Answering = Callable[[Change], Fix | None]
"""Answers the question with that change; None where it cannot be asked so, or has no answer then either."""
Worth = tuple[int, tuple[int, int | Fraction], int]


def best_fix(
    misses: Iterable[Miss],
    answering: Answering,
    worth: Callable[[Offer], Worth],
    reasons: Callable[[Offer], Sequence[Reason]],
    spec: Spec,
    context: Context,
) -> Fix | None:
    """The change whose answer is worth the most, of offers that a single reason speaks against.

    They come best first. The answer of an offer's change may be another one, which was better and came before or is
    of an earlier tier: so no change gives more than the offer it is made for is worth.
    """
    found: Fix | None = None
    tried = set[Change]()
    for miss in misses:
        if len(tried) == _MOST_ASKED or (found is not None and worth(found.match.offer) <= worth(miss.offer)):
            break
        change = change_for(miss.reasons[0].code, miss.offer, spec, context)
        if change is None or change in tried:
            continue
        tried.add(change)
        fix = answering(change)
        if fix is not None and (found is None or worth(fix.match.offer) < worth(found.match.offer)):
            found = fix
    return found and _tightened(found, answering, reasons, spec, context)


def _tightened(
    fix: Fix, answering: Answering, reasons: Callable[[Offer], Sequence[Reason]], spec: Spec, context: Context
) -> Fix:
    """The same with no more than its own answer needs: the change may have been made for another, dearer one."""
    needed = [change_for(reason.code, fix.match.offer, spec, context) for reason in reasons(fix.match.offer)[:1]]
    own = needed[0] if needed else None
    if own is None or own == fix.change or own.parameter != fix.change.parameter:
        return fix
    tighter = answering(own)
    return tighter if tighter is not None and tighter.match.offer == fix.match.offer else fix


@dataclass(frozen=True, slots=True)
class _Asked:
    """An offer beside the question that it does not answer."""

    offer: Offer
    spec: Spec
    context: Context


def change_for(code: Code, offer: Offer, spec: Spec, context: Context) -> Change | None:
    """What to ask instead so that this reason no longer speaks against the offer.

    None where that would not be one change of the question: what it excludes by name is meant, and only what it says
    itself can be left out of it. KeyError for a code that is not `FIXABLE`.
    """
    change = _CHANGES[code](_Asked(offer, spec, context))
    if change is None or change.parameter in spec.excluding:
        return None
    return change if change.value is not None or _can_be_left_out(change.parameter, spec) else None


def _can_be_left_out(parameter: str, spec: Spec) -> bool:
    returning = {"spot", "purchase"} if parameter == "spot" else {parameter}
    return parameter in spec.said and not returning & spec.defaulted


def _out(parameter: str) -> Callable[[_Asked], Change]:
    return lambda _asked: Change(parameter, None)


def _count(asked: _Asked) -> Change | None:
    """Never a slice for a whole, nor a whole for a slice."""
    count = asked.offer.machine.gpu_count or Fraction(0)
    whole = any(each.low.denominator == 1 for each in asked.spec.counts)
    return Change("count", number_text(count)) if (count.denominator == 1) is whole else None


def _hosting(asked: _Asked) -> Change | None:
    """Certifications are of data centres: with `compliance` there is no other host to ask for."""
    certified = asked.spec.compliance is not None or asked.spec.not_compliance
    return None if certified else Change("hosting", str(asked.offer.machine.hosting))


def _purchase(asked: _Asked) -> Change | None:
    """Where the question says `spot`, that is what has to change, and it can name no other purchase than its own."""
    said, purchase = asked.spec.said, asked.offer.purchase
    if "spot" not in said:
        return Change("purchase", str(purchase))
    if "purchase" in said or purchase not in (Purchase.SPOT, Purchase.ON_DEMAND):
        return None
    return Change("spot", "true" if purchase is Purchase.SPOT else None)


def _least(name: str) -> Callable[[_Asked], Change]:
    """The figure that the machine has, rounded down to what a question can say."""
    parameter, measure = f"min_{name}", MINIMA[name]

    def change(asked: _Asked) -> Change:
        value = _rounded_down(measure(asked.offer.machine) or Fraction(0))
        return Change(parameter, number_text(value) if value else None)

    return change


def _rounded_down(number: Fraction) -> Fraction:
    return Fraction(floor(number * _SHOWN), _SHOWN)


def _place(asked: _Asked) -> Change:
    place, spec = asked.offer.place, asked.spec
    key = (place.provider, place.region)
    of_zones = {zone[:2] for zone in spec.zones or ()}
    if key in (spec.regions or of_zones):  # the region is asked for, and another zone of it
        return Change("zone", None)
    return Change("fallback", f"{place.provider}:{place.region}")


def _window(asked: _Asked) -> Change | None:
    """A job as long as the window, which is shorter than the one asked about."""
    window = asked.offer.price and asked.offer.price.window
    return Change("hours", number_text(_rounded_down(window.hours))) if window else None


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


_CHANGES: Mapping[Code, Callable[[_Asked], Change | None]] = {
    Code.INSTANCE_TYPE: _out("instance_type"),
    Code.GPU_COUNT: _count,
    Code.VENDOR: _out("vendor"),
    **{Code(f"{name}_too_small"): _least(name) for name in MINIMA},
    **{Code(f"{name}_unknown"): _out(f"min_{name}") for name in MINIMA},
    **{code: _out(code.removesuffix("_unknown")) for code in (Code.NVLINK, Code.NVLINK_UNKNOWN)},
    **{code: _out(code.removesuffix("_unknown")) for code in (Code.RDMA, Code.RDMA_UNKNOWN)},
    **{code: _out(code.removesuffix("_unknown")) for code in (Code.BARE_METAL, Code.BARE_METAL_UNKNOWN)},
    Code.HOSTING: _hosting,
    Code.PROVIDER: lambda asked: Change("provider", asked.offer.place.provider),
    Code.NO_ACCOUNT: lambda _asked: Change("accounts", "all"),
    Code.COUNTRY: lambda asked: Change("country", asked.offer.place.country),
    Code.COUNTRY_UNKNOWN: _out("country"),
    Code.MAINLAND_CHINA: _out("mainland_china"),
    Code.MAINLAND_CHINA_UNKNOWN: _out("mainland_china"),
    Code.COMPLIANCE: _out("compliance"),
    Code.NOT_HERE: _place,
    Code.PURCHASE: _purchase,
    Code.NO_SPOT_MARKET: _purchase,
    Code.WINDOW_TOO_SHORT: _window,
    Code.TOO_DEAR: _price,
    Code.STALE: lambda _asked: Change("stock", "prefer"),
    Code.NOT_CONFIRMED: lambda _asked: Change("stock", "prefer"),
}
FIXABLE = frozenset(_CHANGES)
"""The reasons that a question can be changed to be without. Stock, prices, rates and restrictions are not its to
change, an excluded place was excluded on purpose, and a count that is not known meets no count.
"""
