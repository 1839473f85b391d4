"""From a workload to questions of `/cheapest`, one for each number of GPUs, and the best of their answers. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catalog.accelerators import accelerators
from catalog.spec import ONE_GPU, CountRange, Sort, Spec, StockWish
from catalog.units import MIB_PER_GIB
from selector.asked import Asked
from selector.context import Context
from selector.fixes import FIXABLE
from selector.index import Index
from selector.job import JobCosts
from selector.order import Value, rank_class, sort_value
from selector.question import understand
from selector.rank import best, rank
from selector.ranking import Match, Ranking, Verdict
from selector.reasons import Code
from selector.sizing import Sizing, Workload
from selector.sizing_asked import Params, passed_on
from selector.sizing_demands import demands, links, names_gpus, said_min_vram_gib, sharing, too_small, without
from selector.sizing_terms import sizing
from selector.values import BadQuestion, count_range
from selector.where import World
from selector.why_not import Standing

_BANDS = (
    ONE_GPU,
    CountRange(Fraction(2), Fraction(3)),
    CountRange(Fraction(4), Fraction(7)),
    CountRange(Fraction(8), None),
)
"""Numbers of GPUs that are asked for as one: as if all of a band had its fewest, since the work is split evenly.

One question for each keeps what every GPU needs exact, which no demand on all memory of a machine could.
"""
_OWN = frozenset(
    {
        Code.GPU_COUNT,
        Code.VRAM_TOO_SMALL,
        Code.VRAM_UNKNOWN,
        Code.TOTAL_VRAM_TOO_SMALL,
        Code.TOTAL_VRAM_UNKNOWN,
        Code.NVLINK,
        Code.NVLINK_UNKNOWN,
    }
)
"""What the model needs, whoever says it too: no change of the question rids it of that."""


@dataclass(frozen=True, slots=True)
class Option:
    """A number of GPUs, what each must then have, and the question of `/cheapest` that asks for it."""

    counts: tuple[CountRange, ...]
    sizing: Sizing
    params: Mapping[str, Sequence[str]]
    """As `/cheapest` takes them."""
    spec: Spec
    nvlink_said: bool
    """Whether the question, or a default of the operator's, speaks of NVLink itself; so `gpus_said` of accelerators."""
    gpus_said: bool
    min_vram_said_gib: Fraction
    """0 where the question says nothing of it."""
    small: tuple[str, ...]
    """Accelerators that have the memory only with their devices together."""
    unlinked: bool = False
    """Without the NVLink that the task should have: slower, and never chosen."""

    @property
    def gpus_text(self) -> str:
        """The count as `/cheapest` takes it."""
        return ",".join(map(str, self.counts))


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The options in ascending number of GPUs with the best offer of each, the chosen one, and its whole answer."""

    options: tuple[Option, ...]
    bests: tuple[Match | None, ...]
    chosen: Option
    ranking: Ranking
    cheaper: tuple[Option, Match] | None
    """The best of the options without NVLink where it costs less than the chosen one's, or where that has no offer."""


def options(workload: Workload, params: Params, world: World, defaults: Mapping[str, str]) -> tuple[Option, ...]:
    """The questions to ask. What `params` and the operator's `defaults` say of `/cheapest` stands in each.

    Of `min_vram` the larger demand wins; a `count` limits the numbers of GPUs; `nvlink`, `gpu` and a name as
    `instance_type` stand in place of what is known here. Raises `BadQuestion` as `/cheapest` does.
    """
    said = passed_on(params)
    asked = Asked.of(said, defaults, "cheapest")
    found = [each for counts in _bands(asked) for each in _of_band(workload, counts, said, asked, world, defaults)]
    if not found:
        raise BadQuestion(
            "count", f"count={','.join(asked.items['count'])}: no such number of GPUs can share the work."
        )
    return tuple(found)


def _of_band(
    workload: Workload,
    counts: tuple[CountRange, ...],
    said: Params,
    asked: Asked,
    world: World,
    defaults: Mapping[str, str],
) -> Iterator[Option]:
    """With NVLink where it is needed, and then without it too."""
    sized = sizing(workload, sharing(workload, max(1, int(min(count.low for count in counts)))))
    nvlink_said = "nvlink" in asked.items
    needed = not nvlink_said and links(workload, sized.gpus)
    for linked in (True, False) if needed else (False,):
        every: Params = {**said, **demands(sized, counts, asked, linked=linked)}
        spec = understand(every, world, defaults, endpoint="cheapest")
        small = too_small(sized, spec)
        if small:
            every = without(small, every, sized, spec, asked)
            spec = understand(every, world, defaults, endpoint="cheapest")
        yield Option(
            counts,
            sized,
            every,
            spec,
            nvlink_said,
            names_gpus(asked),
            said_min_vram_gib(asked),
            small,
            unlinked=needed and not linked,
        )


def recommend(index: Index, asked: Sequence[Option], context: Context) -> Recommendation:
    """The option with the best offer, by the order of an answer of `/cheapest`; of equal ones the fewest GPUs.

    One without the NVLink that it should have is never chosen, only told of.
    """
    bests = tuple(best(index, option.spec, context) for option in asked)
    found = list(zip(asked, bests, strict=True))
    chosen = _first(((option, match) for option, match in found if not option.unlinked), context)
    spare = _first(((option, match) for option, match in found if option.unlinked), context)
    if chosen is not None:
        option, match = chosen
        cheaper = spare if spare is not None and _costs_less(spare[1], match) else None
        return Recommendation(tuple(asked), bests, option, _rank(index, option, context), cheaper)
    nothing = [(option, _rank(index, option, context)) for option in asked if not option.unlinked]
    hoped, ranking = min(nothing, key=lambda each: _hope(each[0], each[1].verdict))
    return Recommendation(tuple(asked), bests, hoped, ranking, spare)


def _first(found: Iterable[tuple[Option, Match | None]], context: Context) -> tuple[Option, Match] | None:
    """The one with the best offer; None where none has any."""
    offered = [(option, match) for option, match in found if match is not None]
    return min(offered, key=lambda each: _order(each[1], each[0].spec, context), default=None)


def _costs_less(one: Match, other: Match) -> bool:
    return one.nanos is not None and other.nanos is not None and one.nanos < other.nanos


def _rank(index: Index, option: Option, context: Context) -> Ranking:
    """The answer of `/cheapest`, but that no change is told which would ask away what the model needs.

    Without a name that is asked for, what is unfit would no longer be left out.
    """
    own = _OWN | {Code.INSTANCE_TYPE} if option.gpus_said else _OWN
    return rank(index, option.spec, context, fixable=FIXABLE - own)


def _bands(asked: Asked) -> Iterator[tuple[CountRange, ...]]:
    """The bands that hold a number of GPUs that is asked for, each with what is asked for in it."""
    if "count" not in asked.items:
        yield from ((band,) for band in _BANDS)
        return
    ranges = [count_range("count", text) for text in asked.items["count"]]
    for band in _BANDS:
        if within := tuple(dict.fromkeys(_meet(ranges, band))):
            yield within


def _meet(ranges: Iterable[CountRange], band: CountRange) -> Iterator[CountRange]:
    for asked in ranges:
        low = asked.low if band == ONE_GPU else max(asked.low, band.low)
        high = min((end for end in (asked.high, band.high) if end is not None), default=None)
        if high is None or low <= high:
            yield CountRange(low, high)


def _order(match: Match, spec: Spec, context: Context) -> tuple[bool, int, int, bool, Value]:
    """As in one answer: confirmed first where that is preferred, then the tier, fresh before stale, then the price."""
    offer = match.offer
    stands = Standing.CONFIRMED if match.confirmed else Standing.UNCONFIRMED
    if spec.sort is Sort.JOB_COST and spec.job is not None:
        value: Value = JobCosts(spec.job, spec.currency, context.rates).nanos(offer)
    else:
        value = sort_value(offer.machine, match.nanos, spec.sort)
    doubted = spec.stock is StockWish.PREFER and not match.confirmed
    return (doubted, match.tier, rank_class(offer, stands, spec, context), value is None, value or 0)


def _hope(option: Option, verdict: Verdict) -> tuple[int, bool, int]:
    """Without an answer, which option is told of: that with the best verdict, then the fewest GPUs that could do.

    Where no accelerator has the memory, it is the one that asks the least of each.
    """
    gpus, possible = option.sizing.gpus, option.sizing.vram_gib * MIB_PER_GIB <= _most_vram_mib(option.spec)
    return (list(Verdict).index(verdict), not possible, gpus if possible else -gpus)


def _most_vram_mib(spec: Spec) -> int:
    """Of the accelerators that are asked for."""
    table = accelerators()
    return max((table[name].vram_mib or 0 for name in spec.gpus or table), default=0)
