"""The first rows in the order of an answer: chosen by floats with a margin, then put in order exactly."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from catalog.facts import Machine
from catalog.fx import Rates
from catalog.spec import Sort
from selector.columns import SHAPE, TRAITS, Candidates, Picked, Rows
from selector.context import Context
from selector.order import divisor, sort_value

_Floats = npt.NDArray[np.float64]
_Comparable = tuple[bool, object]

_FEW = 40
"""So many rows are sorted sooner than chosen from."""
_UNIT = 10**30
"""An amount so large that its conversion, though rounded, tells the rate as exactly as a float can hold it."""
_ERROR = 2.0**-48
"""Relative to a value, more than what the few operations on floats that made it are off."""


class Sorting:
    """Sorts rows by what `sort` compares in a currency, then by a level, then by name."""

    def __init__(
        self,
        rows: Rows,
        candidates: Candidates,
        context: Context,
        currency: str,
        sort: Sort,
        level_of: Callable[[int], int],
    ) -> None:
        """`level_of` gives the level of a row."""
        self._rows, self._candidates, self._context = rows, candidates, context
        self._currency, self._sort, self._level_of = currency, sort, level_of
        self._known: dict[int, int | None] = {}

    def page(self, groups: Iterable[Picked], start: int, stop: int) -> list[int]:
        """The rows from `start` to before `stop`, of the groups in turn, each sorted in itself."""
        found: list[int] = []
        for group in groups:
            size = len(group)
            if start < size:
                found += self._slice(group, max(start, 0), min(stop, size))
            start, stop = start - size, stop - size
            if stop <= 0:
                break
        return found

    def _slice(self, group: Picked, start: int, stop: int) -> list[int]:
        if len(group) <= _FEW:
            return self._sorted(group)[start:stop]
        values, margin = self._values(group)
        first, last = np.partition(values, (start, stop - 1))[[start, stop - 1]]
        least, most = first * (1 - _ERROR) - margin, last * (1 + _ERROR) + margin
        near = values <= most
        if start == 0:
            return self._sorted(group[near])[:stop]
        before = values < least
        skipped = int(np.count_nonzero(before))
        return self._sorted(group[near & ~before])[start - skipped : stop - skipped]

    def _values(self, group: Picked) -> tuple[_Floats, float]:
        """What is compared, nearly, and infinity where it is unknown; and how far rounding may have moved it."""
        known = _Factors(self._context.rates, self._currency)
        factors = self._candidates.lookup(TRAITS, lambda offer: known[offer.price and offer.price.currency], np.float64)
        values: _Floats = self._rows.nanos[group] * factors[self._rows.numbers_of(TRAITS)[group]]
        converted = any(factor not in (1, np.inf) for factor in known.values())
        if self._sort is Sort.PRICE:
            return values, float(converted)
        inverses = self._candidates.lookup(SHAPE, self._inverse, np.float64)[self._rows.numbers_of(SHAPE)[group]]
        values *= inverses
        return values, float(converted) and float(inverses[np.isfinite(inverses)].max(initial=0))

    def _inverse(self, machine: Machine) -> float:
        over = divisor(machine, self._sort)
        return float(1 / over) if over else np.inf

    def nanos(self, row: int) -> int | None:
        """The price of a row in the currency, exactly."""
        if row not in self._known:
            self._known[row] = self._context.nanos(self._rows.offer(row), self._currency)
        return self._known[row]

    def _sorted(self, group: Picked) -> list[int]:
        rows: list[int] = group.tolist()
        if len(rows) < 2:
            return rows
        values: dict[tuple[int, ...], _Comparable] = {}
        same = self._same(group)
        for row, what in zip(rows, same, strict=True):
            if what not in values:
                values[what] = self._value(row)
        places = {value: place for place, value in enumerate(sorted(set(values.values())))}
        ordered = [places[values[what]] for what in same]
        levels = map(self._level_of, rows)
        return [row for *_, row in sorted(zip(ordered, levels, self._rows.names_order(rows), rows, strict=True))]

    def _same(self, group: Picked) -> list[tuple[int, ...]]:
        """For each row what its value follows from, as far as rows may share it."""
        columns = [self._rows.nanos[group].tolist(), self._rows.numbers_of(TRAITS)[group].tolist()]
        if self._sort is not Sort.PRICE:
            columns.append(self._rows.numbers_of(SHAPE)[group].tolist())
        return list(zip(*columns, strict=True))

    def _value(self, row: int) -> _Comparable:
        value = sort_value(self._rows.offer(row).machine, self.nanos(row), self._sort)
        return (value is None, value or 0)


class _Factors(dict[str | None, float]):
    """What one unit of a currency is worth, nearly; infinity without a rate."""

    def __init__(self, rates: Rates, currency: str) -> None:
        super().__init__({None: np.inf})
        self._rates, self._currency = rates, currency

    def __missing__(self, native: str) -> float:
        worth = self._rates.convert_nanos(_UNIT, native, self._currency)
        self[native] = np.inf if worth is None else worth / _UNIT
        return self[native]
