"""From a workload to questions of `/cheapest`, one for each number of GPUs, and the best of their answers. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from catalog.accelerators import accelerators
from catalog.fx import Rate
from catalog.spec import ONE_GPU, CountRange, Sort, Spec, StockWish
from catalog.units import MIB_PER_GIB
from selector.asked import Asked
from selector.context import Context
from selector.fixes import FIXABLE
from selector.index import Index
from selector.job import JobCosts
from selector.order import Value, rank_class, sort_value
from selector.question import understand
from selector.rank import Asking, best, rank
from selector.ranking import Change, Fix, Match, Ranking, Verdict
from selector.reasons import Code
from selector.sizing import Sizing, Workload
from selector.sizing_asked import Params, passed_on
from selector.sizing_demands import (
    allowed_by,
    demands,
    left_out,
    links,
    said_min_vram_gib,
    sharing,
    too_small,
    without,
)
from selector.sizing_hardware import never_linked
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
_OWN = frozenset({Code.VRAM_UNKNOWN, Code.VRAM_TOO_SMALL, Code.GPU_COUNT, Code.NVLINK, Code.NVLINK_UNKNOWN})
"""What is asked for here, whatever the question says, unless it says more: no change of it rids it of that."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of `/cheapest` beside the model, and what it is understood with."""

    workload: Workload
    said: Params
    world: World
    defaults: Mapping[str, str]
    asked: Asked
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, workload: Workload, said: Params, world: World, defaults: Mapping[str, str]) -> "Question":
        """Raises `BadQuestion` of what was said alone, so that nothing is refused that nobody wrote."""
        asked = Asked.of(said, defaults, "cheapest")
        spec = understand(said, world, defaults, endpoint="cheapest")
        return cls(workload, said, world, defaults, asked, left_out(workload, asked, spec))

    def changed(self, change: Change) -> "Question":
        """As it would be with that change."""
        said = {name: texts for name, texts in self.said.items() if name != change.parameter}
        if change.value is not None:
            said[change.parameter] = [change.value]
        return self.of(self.workload, said, self.world, self.defaults)

    def spec(self, params: Params) -> Spec:
        """What `/cheapest` understands by these parameters."""
        return understand(params, self.world, self.defaults, endpoint="cheapest")


@dataclass(frozen=True, slots=True)
class Option:
    """A number of GPUs, what each must then have, and the question of `/cheapest` that asks for it."""

    counts: tuple[CountRange, ...]
    sizing: Sizing
    params: Mapping[str, Sequence[str]]
    """As `/cheapest` takes them."""
    spec: Spec
    question: Question
    """As it was put here, to which the model's needs were added."""
    small: tuple[str, ...]
    """Accelerators that have the memory only with their devices together."""
    unlinked: bool = False
    """Without the NVLink that the task should have: slower, and chosen only where nothing with it is an answer."""
    never_linked: bool = False
    """Of such a one: no accelerator that is asked for is made with a link, so that there is no option with it."""

    @property
    def gpus_text(self) -> str:
        """The count as `/cheapest` takes it."""
        return ",".join(map(str, self.counts))

    @property
    def nvlink_said(self) -> bool:
        """Whether the question, or a default of the operator's, speaks of NVLink itself."""
        return "nvlink" in self.question.asked.items

    @property
    def left_out(self) -> tuple[str, ...]:
        """Accelerators, by family or id; empty where the question asks for them as they are."""
        return self.question.left_out

    @property
    def min_vram_said_gib(self) -> Fraction:
        """0 where the question says nothing of it."""
        return said_min_vram_gib(self.question.asked)

    @property
    def allowed(self) -> frozenset[str]:
        """The accelerators that may answer."""
        return allowed_by(self.spec)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The options in ascending number of GPUs with the best offer of each, the chosen one, and its whole answer."""

    options: tuple[Option, ...]
    bests: tuple[Match | None, ...]
    chosen: Option
    ranking: Ranking
    cheaper: tuple[Option, Match] | None
    """The best of the options without NVLink where it costs less than the chosen one's, which has it."""


def options(workload: Workload, params: Params, world: World, defaults: Mapping[str, str]) -> tuple[Option, ...]:
    """The questions to ask. What `params` and the operator's `defaults` say of `/cheapest` stands in each.

    Of `min_vram` the larger demand wins; a `count` limits the numbers of GPUs; `nvlink`, `gpu` and a name as
    `instance_type` stand in place of what is known here. Raises `BadQuestion` as `/cheapest` does.
    """
    question = Question.of(workload, passed_on(params), world, defaults)
    found = _options(question)
    if not found:
        raise BadQuestion(
            "count", f"count={','.join(question.asked.items['count'])}: no such number of GPUs can share the work."
        )
    return found


def _options(question: Question) -> tuple[Option, ...]:
    return tuple(each for counts in _bands(question.asked) for each in _of_band(question, counts))


def _of_band(question: Question, counts: tuple[CountRange, ...]) -> Iterator[Option]:
    """With NVLink where it is needed and may be had, and then without it too."""
    workload, asked = question.workload, question.asked
    sized = sizing(workload, sharing(workload, max(1, int(min(count.low for count in counts)))))
    needed = "nvlink" not in asked.items and links(workload, sized.gpus)
    for linked in (True, False) if needed else (False,):
        every: Params = {**question.said, **demands(sized, counts, asked, question.left_out, linked=linked)}
        spec = question.spec(every)
        never = needed and never_linked(allowed_by(spec))
        if linked and never:
            continue
        small = too_small(sized, spec)
        if small:
            every = without(small, every, sized, spec, asked)
            spec = question.spec(every)
        yield Option(
            counts,
            sized,
            every,
            spec,
            question,
            small,
            unlinked=needed and not linked,
            never_linked=never,
        )


def _own(option: Option) -> frozenset[Code]:
    """What the model needs and the question says no more of. What the devices of `small` need is asked for anyway."""
    said, freed = option.question.asked.said, set[Code]()
    if option.min_vram_said_gib > option.sizing.vram_gib and not option.small:
        freed.add(Code.VRAM_TOO_SMALL)
    if "count" in said:
        freed.add(Code.GPU_COUNT)
    if "nvlink" in said:
        freed |= {Code.NVLINK, Code.NVLINK_UNKNOWN}
    return _OWN - freed


def _asking(option: Option) -> Asking:
    """Asks the question with a change as it was put here, so that what the model needs is added to that again."""

    def asked(change: Change) -> Spec | None:
        if change.parameter == "min_vram" and change.value and Fraction(change.value) < option.sizing.vram_gib:
            return None
        try:
            other = option.question.changed(change)
            found = _options(other) if change.parameter == "count" else tuple(_of_band(other, option.counts))
        except BadQuestion:
            return None
        if change.parameter == "nvlink":
            return found[-1].spec
        alike = [each for each in found if each.unlinked is option.unlinked]
        return next((each.spec for each in alike or found), None)

    return asked


def recommend(index: Index, asked: Sequence[Option], context: Context) -> Recommendation:
    """The option with the best offer, by the order of an answer of `/cheapest`; of equal ones the fewest GPUs.

    One without the NVLink that it should have is chosen where no other has an offer, and else told of.
    """
    bests = tuple(best(index, option.spec, context) for option in asked)
    usual, spare = _chosen(asked, bests, context)
    if chosen := usual or spare:
        option, match = chosen
        cheaper = spare if usual and spare and _costs_less(spare[1], match) else None
        return Recommendation(tuple(asked), bests, option, _rank(index, option, context), cheaper)
    nothing = [(option, _rank(index, option, context)) for option in asked]
    hoped, ranking = min(nothing, key=lambda each: _hope(*each))
    return Recommendation(tuple(asked), bests, hoped, _with_fix(index, hoped, ranking, context), None)


def _chosen(
    asked: Sequence[Option], bests: Sequence[Match | None], context: Context
) -> tuple[tuple[Option, Match] | None, tuple[Option, Match] | None]:
    """The first of those with what the task should have, and the first of those without."""
    found = list(zip(asked, bests, strict=True))
    usual = _first(((option, match) for option, match in found if not option.unlinked), context)
    return usual, _first(((option, match) for option, match in found if option.unlinked), context)


def _first(found: Iterable[tuple[Option, Match | None]], context: Context) -> tuple[Option, Match] | None:
    """The one with the best offer; None where none has any."""
    offered = [(option, match) for option, match in found if match is not None]
    return min(offered, key=lambda each: _order(each[1], each[0].spec, context), default=None)


def _costs_less(one: Match, other: Match) -> bool:
    return one.nanos is not None and other.nanos is not None and one.nanos < other.nanos


def _rank(index: Index, option: Option, context: Context) -> Ranking:
    """The answer of `/cheapest`, but that no change is told which would ask away what the model needs."""
    return rank(index, option.spec, context, _asking(option), fixable=FIXABLE - _own(option))


def _with_fix(index: Index, option: Option, ranking: Ranking, context: Context) -> Ranking:
    """Its change with what would then be recommended, whatever the number of GPUs."""
    if ranking.fix is None:
        return ranking
    others = _options(option.question.changed(ranking.fix.change))
    usual, spare = _chosen(others, [best(index, other.spec, context) for other in others], context)
    chosen, match = usual or spare or (option, ranking.fix.match)
    fix = Fix(ranking.fix.change, match, chosen.spec)
    return replace(ranking, fix=fix, rates=_rates(ranking, match, option.spec, context))


def _rates(ranking: Ranking, shown: Match, spec: Spec, context: Context) -> tuple[Rate, ...]:
    """Those of the answer, with that of one more offer that is shown."""
    price = shown.offer.price
    rate = None if price is None else context.rates.rate(price.currency, spec.currency)
    return ranking.rates if rate is None or rate in ranking.rates else (*ranking.rates, rate)


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
        value = sort_value(offer.machine, context.exact(offer, spec.currency), spec.sort)
    doubted = spec.stock is StockWish.PREFER and not match.confirmed
    return (doubted, match.tier, rank_class(offer, stands, spec, context), value is None, value or 0)


def _hope(option: Option, ranking: Ranking) -> tuple[int, bool, bool, bool, int]:
    """Without an answer, which option is told of: that with the best verdict, then one that a change would help.

    Then one with what the task should have, and the fewest GPUs that could do. Where no accelerator has the memory,
    it is the one that asks the least of each.
    """
    gpus, possible = option.sizing.gpus, option.sizing.vram_gib * MIB_PER_GIB <= _most_vram_mib(option.allowed)
    verdict = list(Verdict).index(ranking.verdict)
    return (verdict, ranking.fix is None, not possible, option.unlinked, gpus if possible else -gpus)


def _most_vram_mib(ids: Iterable[str]) -> int:
    """Of these accelerators."""
    return max((accelerators()[name].vram_mib or 0 for name in ids), default=0)
