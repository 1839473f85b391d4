"""The current offers in memory, for each accelerator in columns."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from catalog.fx import Rates
from catalog.offers import Offer, Place
from catalog.spec import RegionKey
from selector.columns import Candidates, Table
from selector.shelf import EMPTY, Numberings, Shelf, ZoneNames, shelf_of


class Index:
    """Offers by shelf, a shelf being what is replaced at once: the offers of one (provider, region).

    Two offers of one (place, machine, purchase) never stand in it; that is the caller's to keep. Any number of threads
    may read while one writes: a reader keeps the candidates that it began with.
    """

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._numberings = Numberings()
        self._shelves: dict[RegionKey, Shelf] = {}
        self._holders: dict[str | None, set[RegionKey]] = {}
        self._tables: dict[str | None, Table] = {}
        self._sizes = Counter[str | None]()
        self._machines: dict[str, str] | None = None
        self._all: Candidates | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(list(self._sizes.values()))

    @property
    def rates(self) -> Rates:
        """The rates that prices are compared at."""
        return self._rates

    def replace(self, key: RegionKey, offers: Sequence[Offer]) -> None:
        """Make these the shelf's offers: costs what that shelf does, and touches the accelerators it held or holds."""
        made = shelf_of(key, offers, self._numberings)
        with self._lock:
            before = self._shelves.pop(key, EMPTY)
            if offers:
                self._shelves[key] = made
            self._machines, self._all = None, None
            for gpu in before.blocks.keys() | made.blocks.keys():
                self._tables.pop(gpu, None)
                self._hold(gpu, key, made.size(gpu) - before.size(gpu), holds=gpu in made.blocks)
        self._numberings.release(before.held)

    def candidates(self, gpus: frozenset[str] | None) -> Candidates:
        """The offers of these accelerators, or all; machines without one only with None."""
        with self._lock:
            if gpus is not None:
                return self._of(gpus & self._holders.keys())
            if self._all is None:
                self._all = self._of(self._holders.keys())
            return self._all

    def _of(self, gpus: Iterable[str | None]) -> Candidates:
        return Candidates([self._tables.get(gpu) or self._joined(gpu) for gpu in gpus])

    def count(self, gpu: str) -> int:
        """How many offers there are of an accelerator."""
        return self._sizes[gpu]

    def few(self, gpus: frozenset[str] | None, most: int) -> bool:
        """Whether a question for these accelerators, or for all, goes over at most so many offers."""
        return (len(self) if gpus is None else sum(self._sizes[gpu] for gpu in gpus)) <= most

    def regions(self) -> frozenset[RegionKey]:
        """Each (provider, region) with an offer."""
        return frozenset(list(self._shelves))

    def shelves(self) -> Iterator[tuple[RegionKey, Place, int]]:
        """Each (provider, region) with an offer, one of its places, and how many offers it has."""
        return ((key, shelf.place, len(shelf)) for key, shelf in list(self._shelves.items()) if shelf.place is not None)

    def offers_of(self, key: RegionKey) -> Iterator[Offer]:
        """The offers of one shelf."""
        shelf = self._shelves.get(key, EMPTY)
        return (offer for block in list(shelf.blocks.values()) for offer in block.offers)

    def zones(self) -> frozenset[ZoneNames]:
        """Each zone with an offer."""
        return frozenset().union(*(shelf.zones for shelf in list(self._shelves.values())))

    def countries(self) -> frozenset[str]:
        """Each country with an offer."""
        return frozenset().union(*(shelf.countries for shelf in list(self._shelves.values())))

    def machines(self) -> dict[str, str]:
        """The name of each machine with an offer: case folded -> as its provider writes it."""
        with self._lock:
            if self._machines is None:
                names = dict.fromkeys(chain.from_iterable(shelf.machines for shelf in self._shelves.values()))
                self._machines = {name.casefold(): name for name in names}
            return self._machines

    def _hold(self, gpu: str | None, key: RegionKey, more: int, *, holds: bool) -> None:
        self._sizes[gpu] += more
        holders = self._holders.setdefault(gpu, set())
        if holds:
            holders.add(key)
            return
        holders.discard(key)
        if not holders:
            del self._holders[gpu], self._sizes[gpu]

    def _joined(self, gpu: str | None) -> Table:
        """All shelves' offers of one accelerator, put together when first asked for after a change."""
        blocks = [self._shelves[key].blocks[gpu] for key in sorted(self._holders[gpu])]
        table = self._tables[gpu] = Table(blocks, self._numberings.described())
        return table
