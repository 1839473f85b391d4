"""The offers of one shelf made ready: sorted by name, numbered, in a block of columns for each accelerator."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from catalog.facts import Machine
from catalog.offers import Offer, Place, PriceNow, fresh_span
from catalog.spec import RegionKey
from selector.columns import ALWAYS, PLACE, SHAPE, TRAITS, UNPRICED, Block, Ints, Numbers
from selector.numbering import Numbering
from selector.order import names
from selector.why_not import traits

_T = TypeVar("_T")
ZoneNames = tuple[str, str, str | None, str | None]
"""(provider, region, zone name, zone id)."""
Held = Sequence[Sequence[int]]
"""The numbers of shapes, names, places and traits that a shelf holds."""
_NO_SHAPE = frozenset({"region", "instance_type", "purchases", "gpu_raw", "upstream"})
"""What no demand on machines reads but the one on names, nor any sort."""
_shape = attrgetter(*(field.name for field in fields(Machine) if field.name not in _NO_SHAPE))


class Numberings:
    """What the offers of all shelves share, numbered."""

    def __init__(self) -> None:
        self.shapes = Numbering[Machine]()
        self.names = Numbering[None]()
        self.places = Numbering[Place]()
        self.traits = Numbering[Offer]()

    def all(self) -> Sequence[Numbering[Any]]:
        """In the order of the rows of `Block.numbers`."""
        return self.shapes, self.names, self.places, self.traits

    def described(self) -> Mapping[int, Numbering[Any]]:
        """Those that know what a number stands for, by the row of `Block.numbers`."""
        return {SHAPE: self.shapes, PLACE: self.places, TRAITS: self.traits}

    def release(self, held: Held) -> None:
        """What a shelf held that is gone."""
        for numbering, numbers in zip(self.all(), held, strict=True):
            numbering.release(numbers)


@dataclass(frozen=True, slots=True)
class Shelf:
    """The offers of one shelf by accelerator, and where they are."""

    blocks: dict[str | None, Block]
    held: Held
    zones: frozenset[ZoneNames]
    countries: frozenset[str]
    machines: Sequence[str]
    place: Place | None
    """One of its places; None without an offer."""

    def __len__(self) -> int:
        return sum(len(block.offers) for block in self.blocks.values())

    def size(self, gpu: str | None) -> int:
        """How many of them are of an accelerator."""
        return len(self.blocks[gpu].offers) if gpu in self.blocks else 0


EMPTY = Shelf({}, ((), (), (), ()), frozenset(), frozenset(), (), None)


def shelf_of(key: RegionKey, unsorted: Iterable[Offer], numberings: Numberings) -> Shelf:
    """Number and sort the offers of a shelf. What it holds is to be released once it is replaced."""
    offers = sorted(unsorted, key=names)
    machines, places = [offer.machine for offer in offers], [offer.place for offer in offers]
    numbered = (
        _by_identity(numberings.shapes, machines, _shape),
        _numbered(numberings.names, [None] * len(offers), [machine.instance_type for machine in machines]),
        _by_identity(numberings.places, places, lambda place: place),
        _numbered(numberings.traits, offers, list(map(traits, offers))),
    )
    numbers = np.array([*(of_offers for of_offers, _ in numbered), range(len(offers))], np.int32)
    found = {id(place): place for place in places}.values()
    return Shelf(
        dict(_blocks(key, offers, _amounts(offers), numbers)),
        [held for _, held in numbered],
        frozenset((place.provider, place.region, place.zone, place.zone_id) for place in found if place.zone_key),
        frozenset(place.country for place in found if place.country is not None),
        list({machine.instance_type: None for machine in machines}),
        places[-1] if places else None,
    )


def _blocks(
    key: RegionKey, offers: Sequence[Offer], amounts: Ints, numbers: Numbers
) -> Iterator[tuple[str | None, Block]]:
    """A block for each accelerator, in columns that are cut from those of the shelf."""
    rows: dict[str | None, list[int]] = {}
    for row, offer in enumerate(offers):
        rows.setdefault(offer.machine.gpu, []).append(row)
    order = [row for some in rows.values() for row in some]
    amounts, numbers = amounts[:, order], numbers[:, order]
    start = 0
    for gpu, some in rows.items():
        stop = start + len(some)
        yield gpu, Block(key, [offers[row] for row in some], amounts[:, start:stop], numbers[:, start:stop])
        start = stop


def _numbered(
    numbering: Numbering[_T], things: Iterable[_T], keys: Sequence[Hashable]
) -> tuple[list[int], Sequence[int]]:
    """The number of each thing by its key; and the numbers that are held."""
    held = numbering.hold(dict(zip(keys, things, strict=True)))
    return [held[key] for key in keys], list(held.values())


def _by_identity(
    numbering: Numbering[_T], things: Sequence[_T], key: Callable[[_T], Hashable]
) -> tuple[list[int], Sequence[int]]:
    """The same; a key is made once of each thing that several offers share."""
    distinct = {id(thing): thing for thing in things}
    numbers, held = _numbered(numbering, distinct.values(), list(map(key, distinct.values())))
    by_identity = dict(zip(distinct, numbers, strict=True))
    return [by_identity[id(thing)] for thing in things], held


_AT_ALL_TIMES = (-ALWAYS, ALWAYS)


def _amounts(offers: Sequence[Offer]) -> Ints:
    spans = _Spans()
    stocks = [spans[offer.stock.seen_at, offer.stock.fresh_for] for offer in offers]
    prices = [_AT_ALL_TIMES if each.price is None else _of_price(each.price, spans) for each in offers]
    nanos = [UNPRICED if offer.price is None else offer.price.nanos for offer in offers]
    spans_of = np.array([stocks, prices], np.int64).reshape(2, len(offers), 2)
    return np.concatenate([np.array([nanos], np.int64), *spans_of.transpose(0, 2, 1)])


def _of_price(price: PriceNow, spans: Mapping[tuple[datetime, timedelta], tuple[int, int]]) -> tuple[int, int]:
    if price.window is None:
        return spans[price.seen_at, price.fresh_for]
    return price.fresh_span()  # each window has its own


class _Spans(dict[tuple[datetime, timedelta], tuple[int, int]]):
    """From when and until when what was seen at a time counts as fresh for so long; many offers share both."""

    def __missing__(self, key: tuple[datetime, timedelta]) -> tuple[int, int]:
        start, end = fresh_span(*key)
        self[key] = start, min(end, ALWAYS)
        return self[key]
