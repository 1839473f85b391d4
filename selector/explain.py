"""Why everything else is not the answer: reasons counted, and the offers that miss by least."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from catalog.offers import Offer, Place
from catalog.spec import ONE_GPU, Sort, Spec, StockWish
from catalog.words import Purchase
from selector.columns import (
    NAME,
    PLACE,
    SHAPE,
    TRAITS,
    Candidates,
    Ints,
    Mask,
    Numbers,
    Picked,
    Rows,
    Table,
    among,
    occurring,
    tally,
)
from selector.context import Context
from selector.fixes import Answering, Worth, best_fix
from selector.job import JobCosts
from selector.kinds import Kinds
from selector.numbering import Numbered
from selector.order import Value, comparable, sort_value
from selector.ranking import Fix, Miss
from selector.reasons import Code
from selector.sorting import Sorting
from selector.why_not import Reasons, Standing, is_stale, standing

_NEAREST = 5
_MOST_TRIED = 100
"""Offers, the cheapest first, for which a change is looked for: nearly always the first one has it."""
_Codes = tuple[Code, ...]
_Zone = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """`rejected` counts an offer under each of its reasons, over the accelerators asked for."""

    rejected: Mapping[str, int]
    nearest_misses: tuple[Miss, ...]
    """Those with the fewest reasons, the cheapest of them first."""
    fix: Fix | None
    """The one change of the question that gives an answer, where there is none."""
    machine_exists: bool
    """Whether some machine meets every demand on machines, wherever it is."""


def explain(
    candidates: Candidates,
    spec: Spec,
    context: Context,
    reasons: Reasons,
    kinds: Kinds,
    *,
    fixable: AbstractSet[Code],
    answering: Answering,
) -> Explanation:
    """Say of all candidates why each is not the answer. `fixable`: the reasons that the question may be rid of;
    `answering` answers it as it is then.
    """
    explaining = _Explaining(candidates, spec, context, reasons, kinds)
    return Explanation(
        rejected=explaining.rejected(),
        nearest_misses=explaining.nearest(explaining.by_distance(), _NEAREST),
        fix=explaining.fix(fixable, answering),
        machine_exists=explaining.machine_exists,
    )


class _Explaining:
    """All candidates by their reasons: those against machine, place and kind, each asked for once, make a cell."""

    def __init__(self, candidates: Candidates, spec: Spec, context: Context, reasons: Reasons, kinds: Kinds) -> None:
        self._candidates, self._spec, self._context, self._reasons = candidates, spec, context, reasons
        self._machines, self._names = Numbered[_Codes](), Numbered[_Codes]({(): 0})
        self._places, self._kinds = Numbered[_Codes](), Numbered[_Codes]()
        self._of_shape = candidates.lookup(SHAPE, lambda each: self._machines[reasons.against_machine(each)], np.int32)
        self._of_place = candidates.lookup(PLACE, lambda each: self._places[reasons.against_place(each)], np.int32)
        self._of_name = None
        if reasons.asks_names:
            self._of_name = candidates.lookup(NAME, lambda each: self._names[reasons.against_name(each)], np.int32)
        self._sold = _Sold(candidates) if spec.purchases == frozenset({Purchase.SPOT}) else None
        self._numbering = kinds
        self._known: dict[int, int] = {}
        self._cells = [self._cells_of(table) for table in candidates.tables]
        self._counts = Counter[int]()
        for cells in self._cells:
            self._counts.update({cell: count for cell, count, _ in tally(cells)})
        self._every = [list(each) for each in (self._machines, self._names, self._places, self._kinds)]
        self._codes = {cell: sum(self._parts(cell), ()) for cell in self._counts}

    @property
    def machine_exists(self) -> bool:
        """Whether nothing speaks against some machine."""
        return any(not machine and not name for machine, name, _, _ in map(self._parts, self._counts))

    def rejected(self) -> dict[str, int]:
        """Code -> how many offers have such a reason."""
        counted = Counter[str]()
        for cell, codes in self._codes.items():
            counted.update(dict.fromkeys(map(str, codes), self._counts[cell]))
        return dict(sorted(counted.items()))

    def by_distance(self) -> list[list[int]]:
        """The cells with reasons, those with the fewest first."""
        cells: dict[int, list[int]] = {}
        for cell, codes in self._codes.items():
            cells.setdefault(len(codes), []).append(cell)
        return [cells[distance] for distance in sorted(cells) if distance]

    def fix(self, fixable: AbstractSet[Code], answering: Answering) -> Fix | None:
        """The change that gives the best answer. Who says no count is told of that first."""
        unsaid = self._spec.counts == (ONE_GPU,) and "count" not in self._spec.said
        groups = [{Code.GPU_COUNT} & fixable, fixable] if unsaid else [fixable]
        found = (self._fix(self._but_for(codes), answering) for codes in groups)
        return next((fix for fix in found if fix is not None), None)

    def _fix(self, cells: list[int], answering: Answering) -> Fix | None:
        misses, reasons = self._by_worth(cells), lambda offer: self._miss(offer).reasons
        return best_fix(misses, answering, self._worth, reasons, self._spec, self._context)

    def _worth(self, offer: Offer) -> Worth:
        """What sorts the answers of changed questions: as one answer does, then by the price of the machine."""
        price = self._context.exact(offer, self._spec.currency)
        if self._fix_sort is Sort.JOB_COST and self._spec.job is not None:
            value: Value = JobCosts(self._spec.job, self._spec.currency, self._context.rates).nanos(offer)
        else:
            value = sort_value(offer.machine, price, self._fix_sort)
        return self._class(offer), comparable(value, price), self._context.nanos(offer, self._spec.currency) or 0

    @property
    def _fix_sort(self) -> Sort:
        """What is compared, but per GPU where that is the price, since a change may be of their number."""
        return Sort.PRICE_PER_GPU if self._spec.sort is Sort.PRICE else self._spec.sort

    def _class(self, offer: Offer) -> int:
        """Confirmed first unless any stock does, fresh before stale."""
        stands = standing(offer, self._spec, self._context)
        if stands is Standing.CONFIRMED and self._spec.stock is not StockWish.ANY:
            return 0
        return 2 if is_stale(offer, self._spec, self._context) else 1

    def _by_worth(self, cells: list[int]) -> Iterator[Miss]:
        """The offers of these cells, those that are worth the most first."""
        picked = [among(of_table, cells) for of_table in self._cells] if cells else []
        if not picked:
            return
        classes = [self._classes(table) for table in self._candidates.tables]
        for want in range(3):
            chosen = [rows[of_row[rows] == want] for rows, of_row in zip(picked, classes, strict=True)]
            yield from self._in_order(chosen, _MOST_TRIED, self._fix_sort, then_price=True)

    def _classes(self, table: Table) -> Numbers:
        """The class of each row, asked once of each kind."""
        kinds = self._numbering.of(table)
        of_kind = np.zeros(occurring(kinds)[-1] + 1, np.int32)
        for kind, _, row in tally(kinds):
            of_kind[kind] = self._class(table.offer(row))
        found: Numbers = of_kind[kinds]
        return found

    def _but_for(self, codes: AbstractSet[Code]) -> list[int]:
        """The cells that nothing but one of these reasons speaks against."""
        return [cell for cell, of_cell in self._codes.items() if len(of_cell) == 1 and of_cell[0] in codes]

    def nearest(self, groups: Iterable[list[int]], most: int) -> tuple[Miss, ...]:
        """The first offers of the groups of cells in turn, the cheapest of each first."""
        found: list[Miss] = []
        for cells in groups:
            if cells and len(found) < most:
                found += self._cheapest(cells, most - len(found))
        return tuple(found)

    def _cheapest(self, cells: list[int], most: int) -> Iterator[Miss]:
        sort = Sort.JOB_COST if self._spec.sort is Sort.JOB_COST else Sort.PRICE
        return self._in_order([among(of_table, cells) for of_table in self._cells], most, sort)

    def _in_order(self, picked: Sequence[Picked], most: int, sort: Sort, *, then_price: bool = False) -> Iterator[Miss]:
        """The first of these rows of each table; `then_price`: of equal ones the cheapest machine."""
        spec, rows = self._spec, Rows(self._candidates.tables, picked)

        def tie(row: int) -> int:
            return (self._context.nanos(rows.offer(row), spec.currency) or 0) if then_price else 0

        sorting = Sorting(rows, self._candidates, self._context, spec.currency, sort, tie, spec.job)
        return (self._miss(rows.offer(row)) for row in sorting.page([np.arange(len(rows))], 0, most))

    def _cells_of(self, table: Table) -> Numbers:
        kinds = self._numbering.of(table)
        if self._sold is not None:
            kinds = kinds * 2 + self._sold.rows(table)
        occur = occurring(kinds)
        if not self._known.keys() >= set(occur):
            self._known |= {kind: self._kinds[self._against_kind(table.offer(row))] for kind, _, row in tally(kinds)}
        of_kind = np.empty(occur[-1] + 1, np.int32)
        of_kind[occur] = [self._known[kind] for kind in occur]
        cells: Numbers = of_kind[kinds]
        cells *= len(self._places)
        cells += self._of_place[table.numbers_of(PLACE)]
        cells *= len(self._machines)
        cells += self._of_shape[table.numbers_of(SHAPE)]
        if self._of_name is not None:
            cells *= len(self._names)
            cells += self._of_name[table.numbers_of(NAME)]
        return cells

    def _parts(self, cell: int) -> tuple[_Codes, _Codes, _Codes, _Codes]:
        """What speaks against the machine, its name, its place, and the kind."""
        rest, name = divmod(cell, len(self._names))
        rest, machine = divmod(rest, len(self._machines))
        kind, place = divmod(rest, len(self._places))
        machines, names, places, kinds = self._every
        return machines[machine], names[name], places[place], kinds[kind]

    def _against_kind(self, offer: Offer) -> _Codes:
        of_purchase = self._reasons.of_purchase(offer, sold_as_asked=self._sold_at(offer))
        of_terms = self._reasons.of_terms(offer, self._context.nanos(offer, self._spec.currency))
        return tuple(reason.code for reason in (*of_purchase, *of_terms))

    def _miss(self, offer: Offer) -> Miss:
        reasons = self._reasons.of(offer, sold_as_asked=self._sold_at(offer))
        return Miss(offer, self._context.nanos(offer, self._spec.currency), reasons)

    def _sold_at(self, offer: Offer) -> bool:
        return self._sold is not None and self._sold.holds(offer)


class _Sold:
    """Which machines have a spot offer at which places, where spot alone is asked for: no other reason rests on it."""

    def __init__(self, candidates: Candidates) -> None:
        self._names, self._zones = Numbered[str](), Numbered[_Zone]()
        self._of_name = candidates.lookup(NAME, lambda machine: self._names[machine.instance_type], np.int64)
        self._of_place = candidates.lookup(PLACE, lambda place: self._zones[_zone(place)], np.int64)
        self._found = np.zeros(len(self._names) * len(self._zones), np.bool_)
        is_spot = candidates.lookup(TRAITS, lambda offer: offer.purchase is Purchase.SPOT, np.bool_)
        for table in candidates.tables:
            self._found[self._number(table)[is_spot[table.numbers_of(TRAITS)]]] = True

    def rows(self, table: Table) -> Mask:
        """Of each row whether the same machine has a spot offer at the place."""
        found: Mask = self._found[self._number(table)]
        return found

    def holds(self, offer: Offer) -> bool:
        """The same of one of the offers."""
        number = self._names[offer.machine.instance_type] * len(self._zones) + self._zones[_zone(offer.place)]
        return bool(self._found[number])

    def _number(self, table: Table) -> Ints:
        numbers: Ints = self._of_name[table.numbers_of(NAME)] * len(self._zones)
        numbers += self._of_place[table.numbers_of(PLACE)]
        return numbers


def _zone(place: Place) -> _Zone:
    return (place.provider, place.region, place.zone_key)
