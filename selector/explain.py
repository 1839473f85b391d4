"""Why everything else is not the answer: reasons counted, and the offers that miss by least."""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from catalog.offers import Offer
from catalog.spec import Spec
from selector.context import Context
from selector.index import Index
from selector.ranking import Miss
from selector.reasons import Code
from selector.why_not import Reasons

_NEAREST = 5
_SoldAs = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """`rejected` counts an offer under each of its reasons, over the accelerators asked for."""

    rejected: Mapping[str, int]
    nearest_misses: tuple[Miss, ...]
    """Those with the fewest reasons, the cheapest of them first."""
    but_for_count: Miss | None
    """The cheapest that nothing but its number of GPUs speaks against."""
    machine_exists: bool
    """Whether some machine meets every demand on machines, wherever it is."""


def explain(index: Index, spec: Spec, context: Context) -> Explanation:
    """Go over all candidates and say why each is not the answer."""
    reasons = Reasons(spec, context)
    offers = [offer for _, offer in index.candidates(spec.gpus)]
    sold = {_sold_as(offer) for offer in offers if spec.purchases is None or offer.purchase in spec.purchases}
    rejected: Counter[str] = Counter()
    but_for_count: Miss | None = None

    def misses() -> Iterator[Miss]:
        nonlocal but_for_count
        for offer in offers:
            if against := reasons.of(offer, sold_as_asked=_sold_as(offer) in sold):
                rejected.update(dict.fromkeys((str(reason.code) for reason in against), 1))
                miss = Miss(offer, context.nanos(offer, spec.currency), against)
                if [reason.code for reason in against] == [Code.GPU_COUNT]:
                    but_for_count = min(miss, but_for_count or miss, key=_distance)
                yield miss

    nearest = heapq.nsmallest(_NEAREST, misses(), key=_distance)
    exists = any(not reasons.of_machine(offer.machine) for offer in offers)
    return Explanation(dict(sorted(rejected.items())), tuple(nearest), but_for_count, exists)


def _sold_as(offer: Offer) -> _SoldAs:
    place = offer.place
    return (place.provider, place.region, place.zone_key, offer.machine.instance_type)


def _distance(miss: Miss) -> tuple[int, bool, int, tuple[str, ...]]:
    place = miss.offer.place
    return (len(miss.reasons), miss.nanos is None, miss.nanos or 0, (*miss.offer.sort_key(), place.zone_key))
