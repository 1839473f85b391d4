"""Offers as columns of numbers: what a question asks of thousands of offers takes a few operations on arrays.

A column says of each offer its amount, its times, and by a number what it shares with others: its machine but for name
and region (the shape), that name, its place, its traits. What a number stands for is asked of the ordinary rules, once.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from catalog.offers import Offer
from catalog.spec import RegionKey
from selector.numbering import Numbering

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Picked = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

SHAPE, NAME, PLACE, TRAITS, RANK = range(5)
"""Rows of `numbers`: of the shape, the machine's name, the place, the traits; and the place in the shelf's order.

The rows of `amounts` are the price in nano-units of its own currency; then the microseconds since 1970 from and until
which the stock is fresh, and the same of the price.
"""
_MOST_CELLS = 2**20
"""Numbers that are larger are sorted to be counted: a place for each would take too much memory."""
_MOST_KEPT = 256
"""Questions whose verdicts on machines and places are kept, until what is offered of an accelerator changes."""
UNPRICED = ALWAYS = 2**63 - 1
"""Stands for the amount of an offer without a price; for the end of what is always fresh."""


@dataclass(slots=True)
class Block:
    """The offers of one shelf and accelerator, in the order of their names."""

    shelf: RegionKey
    offers: Sequence[Offer]
    amounts: Ints
    numbers: Numbers


class Columns(Protocol):
    """Columns of some offers."""

    @property
    def nanos(self) -> Ints:
        """The price in nano-units of its own currency, or `UNPRICED`."""

    @property
    def times(self) -> Ints:
        """Four rows: from and until when the stock is fresh, and the price."""

    def numbers_of(self, row: int) -> Numbers:
        """A row of `numbers`."""


class Present:
    """The numbers that occur in a column, and what they stand for."""

    def __init__(self, things: Mapping[int, Any]) -> None:
        self.things = things
        self.numbers = np.fromiter(things, np.intp, len(things))
        self._size = max(things, default=-1) + 1
        self._kept: dict[Hashable, npt.NDArray[Any]] = {}

    def kept(self, question: Hashable, value_of: Callable[[Any], Any], dtype: type) -> npt.NDArray[Any]:
        """As `lookup`, and kept for the next time that the same is asked: scripts ask again and again."""
        kept = self._kept  # one that another thread empties meanwhile is let go
        known = kept.get(question)
        if known is None:
            if len(kept) >= _MOST_KEPT:
                kept = self._kept = {}
            known = kept[question] = self.lookup(value_of, dtype)
        return known

    def lookup(self, value_of: Callable[[Any], Any], dtype: type) -> npt.NDArray[Any]:
        """Number -> the value of what it stands for; that of any other for a number that does not occur."""
        found = [value_of(thing) for thing in self.things.values()]
        values: npt.NDArray[Any] = np.full(self._size, found[0] if found else 0, dtype)
        values[self.numbers] = found
        return values


class Table:
    """The offers of one accelerator, in the order of their names: shelf after shelf. Never changed."""

    def __init__(self, blocks: Sequence[Block], numberings: Mapping[int, Numbering[Any]]) -> None:
        """Join the blocks, which come in the order of their shelves. They hold a view of the table from then on."""
        self.shelves = [block.shelf for block in blocks]
        self.offers = [block.offers for block in blocks]
        self.starts = [0, *accumulate(map(len, self.offers))]
        amounts = np.concatenate([block.amounts for block in blocks], axis=1)
        self._numbers = np.concatenate([block.numbers for block in blocks], axis=1)
        for block, start, stop in zip(blocks, self.starts, self.starts[1:], strict=False):
            block.amounts, block.numbers = amounts[:, start:stop], self._numbers[:, start:stop]
        self.nanos, self.times = amounts[0], amounts[1:]
        self._present = {row: _present(self._numbers[row], numbering) for row, numbering in numberings.items()}
        self._objects: npt.NDArray[np.object_] | None = None

    @property
    def objects(self) -> npt.NDArray[np.object_]:
        """The offers themselves, for who wants many of them: made when first asked for."""
        if self._objects is None:
            found = np.empty(len(self), np.object_)
            found[:] = [offer for offers in self.offers for offer in offers]
            self._objects = found
        return self._objects

    def __len__(self) -> int:
        return self.starts[-1]

    def numbers_of(self, row: int) -> Numbers:
        """A row of `numbers`."""
        numbers: Numbers = self._numbers[row]
        return numbers

    def present(self, row: int) -> Present:
        """What occurs in a row of `numbers`. Names are many and seldom asked for, so they are looked for only then."""
        if row == NAME and NAME not in self._present:
            examples = tally(self._numbers[NAME])
            self._present[NAME] = Present({number: self.offer(at).machine for number, _, at in examples})
        return self._present[row]

    def block_of(self, row: int) -> int:
        """Which of the blocks a row is in."""
        return bisect_right(self.starts, row) - 1

    def offer(self, row: int) -> Offer:
        """The offer of a row."""
        block = self.block_of(row)
        return self.offers[block][row - self.starts[block]]


def _present(column: Numbers, numbering: Numbering[Any]) -> Present:
    return Present({number: numbering[number] for number in occurring(column)})


class Candidates:
    """The offers of the accelerators asked for: tables in which the same number means the same thing."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tables
        self._present: dict[int, Present] = {}

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def __iter__(self) -> Iterator[Offer]:
        return (offer for table in self.tables for offers in table.offers for offer in offers)

    def lookup(self, row: int, value_of: Callable[[Any], Any], dtype: type) -> npt.NDArray[Any]:
        """Number -> the value of what it stands for, for the numbers in a row of `numbers`."""
        return self._of(row).lookup(value_of, dtype)

    def kept(self, row: int, question: Hashable, value_of: Callable[[Any], Any], dtype: type) -> npt.NDArray[Any]:
        """The same, where what is asked depends on `question` alone; not to be changed."""
        return self._of(row).kept(question, value_of, dtype)

    def things(self, row: int, column: Numbers) -> Iterator[Any]:
        """What the numbers of a column, taken from a row of `numbers`, stand for: each once."""
        return map(self._of(row).things.__getitem__, occurring(column))

    def _of(self, row: int) -> Present:
        if len(self.tables) == 1:
            return self.tables[0].present(row)
        if row not in self._present:
            self._present[row] = _united(self.tables, row)
        return self._present[row]

    def where(self, fits: Callable[[Table], Mask]) -> "Rows":
        """The offers that fit."""
        return Rows(self.tables, [fits(table).nonzero()[0] for table in self.tables])


class Rows:
    """Some of the candidates, by their columns. A row is known by where it stands here."""

    def __init__(self, tables: Sequence[Table], picked: Sequence[Picked]) -> None:
        """`picked` are the rows of each table, ascending."""
        self._parts = [(table, rows) for table, rows in zip(tables, picked, strict=True) if len(rows)]
        self._starts = [0, *accumulate(len(rows) for _, rows in self._parts)]
        self._known: dict[int, Numbers] = {}
        self._offers: dict[int, Offer] = {}
        self._nanos: Ints | None = None
        self._objects: npt.NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def nanos(self) -> Ints:
        """The price in nano-units of its own currency, or `UNPRICED`."""
        if self._nanos is None:  # no cached_property: its lock costs as much as the rest
            self._nanos = _joined([table.nanos.take(rows) for table, rows in self._parts])
        return self._nanos

    @property
    def times(self) -> Ints:
        """Four rows: from and until when the stock is fresh, and the price."""
        return _joined([table.times.take(rows, axis=1) for table, rows in self._parts]).reshape(4, -1)

    def numbers_of(self, row: int) -> Numbers:
        """A row of `numbers`."""
        if row not in self._known:
            self._known[row] = _joined([table.numbers_of(row).take(rows) for table, rows in self._parts])
        return self._known[row]

    def offers(self, rows: Picked) -> list[Offer]:
        """The offers of these rows."""
        if self._objects is None:
            self._objects = _joined([table.objects.take(picked) for table, picked in self._parts])
        found: list[Offer] = self._objects.take(rows).tolist()
        return found

    def offer(self, row: int) -> Offer:
        """The offer of a row."""
        if row not in self._offers:
            table, at = self._at(row)
            self._offers[row] = table.offer(at)
        return self._offers[row]

    def names_order(self, rows: Iterable[int]) -> Sequence[Any]:
        """For each row what sorts by name as its offer does."""
        return list(map(self._name_order, rows)) if len(self._parts) > 1 else list(rows)

    def _name_order(self, row: int) -> tuple[RegionKey, int]:
        table, at = self._at(row)
        return table.shelves[table.block_of(at)], int(self.numbers_of(RANK)[row])

    def _at(self, row: int) -> tuple[Table, int]:
        part = bisect_right(self._starts, row) - 1
        table, rows = self._parts[part]
        return table, int(rows[row - self._starts[part]])


def _joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, axis=-1) if parts else np.empty(0, np.int64)


def occurring(cells: Ints | Numbers) -> list[int]:
    """Each number that occurs, ascending."""
    if len(cells) and cells.max() > _MOST_CELLS:
        return list(map(int, np.unique(cells).tolist()))
    return list(map(int, np.bincount(cells).nonzero()[0].tolist()))


def tally(cells: Ints | Numbers) -> list[tuple[int, int, int]]:
    """Each number that occurs, ascending; how often; and where it does, once."""
    if len(cells) and cells.max() > _MOST_CELLS:
        found, where, counts = np.unique(cells, return_index=True, return_counts=True)
        return list(zip(found.tolist(), counts.tolist(), where.tolist(), strict=True))
    counts = np.bincount(cells)
    found = counts.nonzero()[0]
    where = np.empty(len(counts), np.intp)
    where[cells] = np.arange(len(cells))
    return list(zip(found.tolist(), counts[found].tolist(), where[found].tolist(), strict=True))


def among(cells: Ints | Numbers, wanted: Sequence[int]) -> Picked:
    """The rows whose number is one of these."""
    mask = np.zeros(max(wanted) + 2, np.bool_)
    mask[wanted] = True
    return mask.take(cells, mode="clip").nonzero()[0]


def _united(tables: Iterable[Table], row: int) -> Present:
    things: dict[int, Any] = {}
    for table in tables:
        things |= table.present(row).things
    return Present(things)
