"""The current offers in memory, for each accelerator in ascending price."""

import heapq
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from catalog.fx import Rates
from catalog.offers import Offer
from catalog.spec import RegionKey
from selector.context import nanos_in

CURRENCY = "USD"
"""What the candidates are sorted in."""
UNPRICED = 2**63 - 1
"""Stands for the price of an offer without a comparable one, and sorts it after all others."""

Candidate = tuple[int, Offer]
"""Nano-units of `CURRENCY` per whole machine and hour, or `UNPRICED`; the offer."""
ZoneNames = tuple[str, str, str | None, str | None]
"""(provider, region, zone name, zone id)."""
_Run = Sequence[Candidate]
_price = itemgetter(0)


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The offers of one shelf by accelerator, each run in ascending price, and where they are."""

    runs: Mapping[str | None, _Run]
    zones: frozenset[ZoneNames]
    countries: frozenset[str]
    machines: Mapping[str, str]

    def __len__(self) -> int:
        return sum(map(len, self.runs.values()))


class Index:
    """Offers by shelf, a shelf being what is replaced at once: the offers of one (provider, region).

    Two offers of one (place, machine, purchase) never stand in it; that is the caller's to keep. Any number of threads
    may read while one writes: a reader keeps the candidates that it began with.
    """

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._shelves: dict[RegionKey, _Shelf] = {}
        self._holders: dict[str | None, set[RegionKey]] = {}
        self._sorted: dict[str | None, _Run] = {}
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._size

    @property
    def rates(self) -> Rates:
        """The rates that prices are compared at."""
        return self._rates

    def replace(self, shelf: RegionKey, offers: Sequence[Offer]) -> None:
        """Make these the shelf's offers: sorts them alone, and touches the accelerators that it held or holds."""
        made = _shelf(offers, self._rates)
        with self._lock:
            before = self._shelves.pop(shelf, _EMPTY)
            if offers:
                self._shelves[shelf] = made
            self._size += len(offers) - len(before)
            for gpu in before.runs.keys() | made.runs.keys():
                self._sorted.pop(gpu, None)
                self._hold(gpu, shelf, gpu in made.runs)

    def candidates(self, gpus: frozenset[str] | None) -> Iterable[Candidate]:
        """The offers of these accelerators, or all, in ascending price; machines without one only with None."""
        ids: Iterable[str | None] = list(self._holders) if gpus is None else gpus & self._holders.keys()
        runs = [run for gpu in ids if (run := self._run(gpu))]
        return runs[0] if len(runs) == 1 else heapq.merge(*runs, key=_price)

    def regions(self) -> frozenset[RegionKey]:
        """Each (provider, region) with an offer."""
        return frozenset(list(self._shelves))

    def zones(self) -> frozenset[ZoneNames]:
        """Each zone with an offer."""
        return frozenset().union(*(shelf.zones for shelf in list(self._shelves.values())))

    def countries(self) -> frozenset[str]:
        """Each country with an offer."""
        return frozenset().union(*(shelf.countries for shelf in list(self._shelves.values())))

    def machines(self) -> dict[str, str]:
        """The name of each machine with an offer: case folded -> as its provider writes it."""
        return {folded: name for shelf in list(self._shelves.values()) for folded, name in shelf.machines.items()}

    def _hold(self, gpu: str | None, shelf: RegionKey, holds: bool) -> None:
        holders = self._holders.setdefault(gpu, set())
        if holds:
            holders.add(shelf)
            return
        holders.discard(shelf)
        if not holders:
            del self._holders[gpu]

    def _run(self, gpu: str | None) -> _Run:
        """All shelves' offers of one accelerator, put together when first asked for after a change."""
        run = self._sorted.get(gpu)
        if run is None:
            with self._lock:
                run = sorted(self._unsorted(gpu), key=_price)  # timsort merges the runs, each sorted already
                self._sorted[gpu] = run
        return run

    def _unsorted(self, gpu: str | None) -> Iterator[Candidate]:
        return (candidate for shelf in self._holders.get(gpu, ()) for candidate in self._shelves[shelf].runs[gpu])


_EMPTY = _Shelf({}, frozenset(), frozenset(), {})


def _shelf(offers: Sequence[Offer], rates: Rates) -> _Shelf:
    runs: dict[str | None, list[Candidate]] = {}
    for offer in offers:
        nanos = nanos_in(CURRENCY, offer, rates)
        runs.setdefault(offer.machine.gpu, []).append((UNPRICED if nanos is None else nanos, offer))
    for run in runs.values():
        run.sort(key=_price)
    places = list({id(offer.place): offer.place for offer in offers}.values())
    return _Shelf(
        runs,
        frozenset((place.provider, place.region, place.zone, place.zone_id) for place in places if place.zone_key),
        frozenset(place.country for place in places if place.country is not None),
        {name.casefold(): name for name in {offer.machine.instance_type for offer in offers}},
    )
