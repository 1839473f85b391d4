"""From a workload to questions of `/cheapest`, one for each number of GPUs, and the best of their answers. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catalog.accelerators import accelerators
from catalog.spec import ONE_GPU, CountRange, Sort, Spec, StockWish, number_text
from catalog.units import MIB_PER_GIB
from selector import values
from selector.asked import Asked
from selector.context import Context
from selector.index import Index
from selector.job import JobCosts
from selector.order import Value, rank_class, sort_value
from selector.question import understand
from selector.rank import best, rank
from selector.ranking import Match, Ranking, Verdict
from selector.sizing import Sizing, Task, Workload
from selector.sizing_asked import Params, passed_on
from selector.sizing_hardware import unfit
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
_LINKED = frozenset({Task.INFERENCE, Task.LORA, Task.FULL, Task.PRETRAIN})
"""What exchanges so much between GPUs at every layer that they need NVLink; `docs/recommend.md` says why not QLoRA."""


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


def options(workload: Workload, params: Params, world: World, defaults: Mapping[str, str]) -> tuple[Option, ...]:
    """The questions to ask. What `params` and the operator's `defaults` say of `/cheapest` stands in each.

    Of `min_vram` the larger demand wins; a `count` limits the numbers of GPUs; `nvlink`, `gpu` and `instance_type`
    stand in place of what is known here. Raises `BadQuestion` as `/cheapest` does.
    """
    said = passed_on(params)
    asked = Asked.of(said, defaults, "cheapest")
    found = []
    for counts in _bands(asked):
        sized = sizing(workload, max(1, int(min(count.low for count in counts))))
        every = said | dict(_demands(sized, counts, asked))
        spec = understand(every, world, defaults, endpoint="cheapest")
        found.append(Option(counts, sized, every, spec, "nvlink" in asked.items, _names_gpus(asked)))
    if not found:
        raise BadQuestion(
            "count", f"count={','.join(asked.items['count'])}: no such number of GPUs can share the work."
        )
    return tuple(found)


def recommend(index: Index, asked: Sequence[Option], context: Context) -> Recommendation:
    """The option with the best offer, by the order of an answer of `/cheapest`; of equal ones the fewest GPUs."""
    bests = tuple(best(index, option.spec, context) for option in asked)
    found = [(option, match) for option, match in zip(asked, bests, strict=True) if match is not None]
    if found:
        chosen, _ = min(found, key=lambda each: _order(each[1], each[0].spec, context))
        return Recommendation(tuple(asked), bests, chosen, rank(index, chosen.spec, context))
    nothing = [(option, rank(index, option.spec, context)) for option in asked]
    chosen, ranking = min(nothing, key=lambda each: _hope(each[0], each[1].verdict))
    return Recommendation(tuple(asked), bests, chosen, ranking)


def links(workload: Workload, gpus: int) -> bool:
    """Whether so many GPUs need NVLink for the workload."""
    return gpus > 1 and workload.task in _LINKED


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


def _demands(sized: Sizing, counts: Sequence[CountRange], asked: Asked) -> Iterator[tuple[str, list[str]]]:
    """What is asked of `/cheapest` beside what was said."""
    yield "count", [str(count) for count in counts]
    yield "min_vram", [number_text(max(sized.vram_gib, asked.one("min_vram", values.number) or Fraction(0)))]
    if "nvlink" not in asked.items and links(sized.workload, sized.gpus):
        yield "nvlink", ["true"]
    if not _names_gpus(asked):
        yield "gpu", [f"!{name}" for name in sorted({*asked.excluded("gpu"), *unfit(sized.workload.precision)})]


def _names_gpus(asked: Asked) -> bool:
    return bool(asked.included("gpu") or asked.included("instance_type"))


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
