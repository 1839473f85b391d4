"""Offers of one kind: on each of them the rules on price and stock say the same, so one example is asked for all.

A kind is: the traits, whether the stock (by `max_age`, and by its feed's own limit) and whether the price is fresh now,
and on which side of each price limit the offer stands. Beside those the rules read nothing of an offer but its machine
and place.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor

import numpy as np

from catalog.facts import Machine
from catalog.fx import Rates
from catalog.money import MOST_NANOS
from catalog.offers import fresh_during, microseconds
from catalog.spec import Spec
from selector.columns import ALWAYS, SHAPE, TRAITS, Candidates, Columns, Ints, Mask, Numbers
from selector.context import Context
from selector.numbering import Numbered


class Kinds:
    """Numbers the kinds of a question's candidates."""

    def __init__(self, candidates: Candidates, spec: Spec, context: Context) -> None:
        self._now = microseconds(context.now)
        self._longest = None if spec.max_age is None else min(fresh_during(spec.max_age), ALWAYS // 2)
        self._limits = list(_limits(candidates, spec, context))

    def of(self, offers: Columns) -> Ints:
        """For each offer the number of its kind."""
        stale = self._stale(offers.times)
        kinds: Ints = offers.numbers_of(TRAITS) * np.int64(8)
        for place, which in enumerate(stale):
            kinds += which * np.int8(1 << place)
        for limit in self._limits:
            kinds *= 4
            kinds += limit.sides(offers)
        return kinds

    def _stale(self, times: Ints) -> Mask:
        """Whether the stock, and whether the price is stale. `max_age` replaces the feed's limit for stock: that is the
        third row then.
        """
        starts, ends = times[0::2], times[1::2]
        if self._longest is not None:
            starts, ends = starts[[0, 1, 0]], np.stack([starts[0] + self._longest, ends[1], ends[0]])
        stale: Mask = starts > self._now
        stale |= ends < self._now
        return stale


@dataclass(frozen=True, slots=True)
class _Limit:
    """The largest amount that is not too dear, for each group of shapes and each of traits, by their numbers."""

    most: Ints
    group_of_shape: Ints | None
    """None where the shape does not matter."""
    group_of_traits: Ints
    no_gpus: int | None
    """The group of shapes of which no price per GPU is known."""

    def sides(self, offers: Columns) -> Numbers:
        """For each offer 0, 1 where its price is too dear, or 2 where there is no telling for want of its GPUs."""
        traits = self.group_of_traits[offers.numbers_of(TRAITS)]
        if self.group_of_shape is None:
            dear: Numbers = (offers.nanos > self.most[0, traits]).astype(np.int32)
            return dear
        shapes = self.group_of_shape[offers.numbers_of(SHAPE)]
        sides = (offers.nanos > self.most[shapes, traits]).astype(np.int32)
        return sides if self.no_gpus is None else sides + (shapes == self.no_gpus) * np.int32(2)


def _limits(candidates: Candidates, spec: Spec, context: Context) -> Iterator[_Limit]:
    if (price := spec.max_price_nanos) is not None:
        yield _limit(candidates, spec, context, Numbered[int | None]({price: 0}), None)
    if (per_gpu := spec.max_price_per_gpu_nanos) is not None:
        limits = Numbered[int | None]()
        shapes = candidates.lookup(SHAPE, lambda machine: limits[_for_all_gpus(machine, per_gpu)], np.int64)
        yield _limit(candidates, spec, context, limits, shapes)


def _limit(
    candidates: Candidates, spec: Spec, context: Context, limits: Mapping[int | None, int], shapes: Ints | None
) -> _Limit:
    currencies = Numbered[str | None]()
    traits = candidates.lookup(TRAITS, lambda offer: currencies[offer.price and offer.price.currency], np.int64)
    most = [[largest_within(limit, native, spec.currency, context.rates) for native in currencies] for limit in limits]
    table = np.array(most, np.int64).reshape(len(limits), len(currencies))
    return _Limit(table, shapes, traits, limits.get(None))


def _for_all_gpus(machine: Machine, most: int) -> int | None:
    """The limit for the whole machine; None where its GPUs are not known."""
    return floor(most * machine.gpu_count) if machine.gpu_count else None


def largest_within(most: int | None, native: str | None, asked: str, rates: Rates) -> int:
    """The largest amount in the one currency that is worth no more than `most` in the other.

    Where either is unknown no amount is too large: the traits and the shape say so already.
    """
    if most is None or native is None or rates.convert_nanos(MOST_NANOS, native, asked) is None:
        return MOST_NANOS
    if native == asked:
        return min(most, MOST_NANOS)

    def worth(nanos: int) -> int:
        return rates.convert_nanos(nanos, native, asked) or 0

    if worth(MOST_NANOS) <= most:
        return MOST_NANOS
    least, step = rates.convert_nanos(most, asked, native) or 0, rates.convert_nanos(1, asked, native) or 0
    near = range(max(least - 2, 0), least + step + 3)  # rounding moves the end by half a unit of either at the most
    return near.start + bisect_right(near, most, key=worth) - 1
