"""The first rows in the order of an answer: chosen by floats with a margin, then put in order exactly."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from catalog.facts import Machine
from catalog.fx import Rates
from catalog.spec import Job, Sort
from selector.columns import PLACE, SHAPE, TRAITS, Candidates, Picked, Rows
from selector.context import Context
from selector.job import WINDOWED, JobColumns, JobCosts
from selector.order import Value, comparable, divisor, sort_value

_Floats = npt.NDArray[np.float64]
_Comparable = tuple[int, object]

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
        job: Job | None = None,
    ) -> None:
        """`level_of` gives the level of a row; `job` is what the cost is of, where that is compared: without one
        that is a ValueError.
        """
        if sort is Sort.JOB_COST and job is None:
            raise ValueError("sort=job_cost needs a job")
        self._rows, self._candidates, self._context = rows, candidates, context
        self._currency, self._sort, self._level_of = currency, sort, level_of
        self._job = job if sort is Sort.JOB_COST else None
        self._costs = None if self._job is None else JobCosts(self._job, currency, context.rates)
        self._columns: JobColumns | None = None
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
        if self._job is not None and self._costs is not None and len(group) > _FEW:
            group = self._promising(group, stop, self._job, self._costs)
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

    def _promising(self, group: Picked, stop: int, job: Job, costs: JobCosts) -> Picked:
        """The rows that may be among the first: a job costs no less than its hours, so the dear ones are not.

        What the `stop`-th costs of those with the cheapest hours, none of the first costs more.
        """
        hourly, margin = self._hourly(group)
        some = min(len(group), 2 * stop + _FEW)
        found = self._costs_of(costs, group[np.argpartition(hourly, some - 1)[:some]])
        most = np.partition(found, stop - 1)[stop - 1] * (1 + _ERROR) + margin
        return group[hourly * float(job.hours) * (1 - _ERROR) - margin <= most] if np.isfinite(most) else group

    def _hourly(self, group: Picked) -> tuple[_Floats, float]:
        """The price in the currency, nearly, and infinity where it is unknown; and how far rounding may move a cost.

        Of a cost three amounts are rounded to a nano-unit, the first in the price's own currency.
        """
        known = _Factors(self._context.rates, self._currency)
        factors = self._candidates.lookup(TRAITS, lambda offer: known[offer.price and offer.price.currency], np.float64)
        values: _Floats = self._rows.nanos[group] * factors[self._rows.numbers_of(TRAITS)[group]]
        finite = [factor for factor in known.values() if np.isfinite(factor)]
        if self._job is not None:
            return values, 2 + max(finite, default=0.0)
        return values, float(any(factor != 1 for factor in finite))

    def _costs_of(self, costs: JobCosts, group: Picked) -> _Floats:
        if self._columns is None:  # few groups are so large
            self._columns = JobColumns(self._candidates, costs)
        return self._columns.costs(self._rows, group, self._hourly(group)[0])

    def _values(self, group: Picked) -> tuple[_Floats, float]:
        """What is compared, nearly, and infinity where it is unknown; and how far rounding may have moved it."""
        values, margin = self._hourly(group)
        if self._costs is not None:
            return self._costs_of(self._costs, group), margin
        if self._sort is Sort.PRICE:
            return values, margin
        shapes = self._rows.numbers_of(SHAPE)[group]
        inverses = self._candidates.kept(SHAPE, self._sort, self._inverse, np.float64)[shapes]
        values *= inverses
        return values, margin and float(inverses[np.isfinite(inverses)].max(initial=0))

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
        if self._job is not None:
            columns.append(self._rows.numbers_of(PLACE)[group].tolist())
            columns.append([row if self._rows.offer(row).purchase in WINDOWED else -1 for row in group.tolist()])
        elif self._sort is not Sort.PRICE:
            columns.append(self._rows.numbers_of(SHAPE)[group].tolist())
        return list(zip(*columns, strict=True))

    def _value(self, row: int) -> _Comparable:
        return comparable(self._exact(row), self._price(row))

    def _exact(self, row: int) -> Value:
        offer = self._rows.offer(row)
        if self._costs is not None:
            return self._costs.nanos(offer)
        return sort_value(offer.machine, self._price(row), self._sort)

    def _price(self, row: int) -> Value:
        return self._context.exact(self._rows.offer(row), self._currency)


class _Factors(dict[str | None, float]):
    """What one unit of a currency is worth, nearly; infinity without a rate."""

    def __init__(self, rates: Rates, currency: str) -> None:
        super().__init__({None: np.inf})
        self._rates, self._currency = rates, currency

    def __missing__(self, native: str) -> float:
        worth = self._rates.convert_nanos(_UNIT, native, self._currency)
        self[native] = np.inf if worth is None else worth / _UNIT
        return self[native]
