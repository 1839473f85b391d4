"""Measuring a peer and ours in turns, so that what else runs on the machine weighs on both alike."""

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time


@dataclass(frozen=True, slots=True)
class Pairs:
    """What each round measured of the peer and of ours, in one unit."""

    peer: Sequence[float]
    ours: Sequence[float]

    @property
    def peer_figure(self) -> float:
        """The peer's median."""
        return median(self.peer)

    @property
    def figure(self) -> float:
        """Our median."""
        return median(self.ours)

    @property
    def ratio(self) -> float:
        """The median of ours over the peer's of the same round."""
        return median(ours / peer for peer, ours in zip(self.peer, self.ours, strict=True))


def in_turns(rounds: int, peer: Callable[[], float], ours: Callable[[], float]) -> Pairs:
    """Peer, ours, peer, ours … What both return is kept."""
    found = [(peer(), ours()) for _ in range(rounds)]
    return Pairs([one for one, _ in found], [one for _, one in found])


def seconds_of(work: Callable[[], object]) -> float:
    """How long it takes."""
    start = perf_counter()
    work()
    return perf_counter() - start


def processor_seconds_of(work: Callable[[], object]) -> float:
    """How long this process computes for it, in all of its threads: what others do on the machine is not in it."""
    start = process_time()
    work()
    return process_time() - start


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many per cent of the values are not above."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@contextmanager
def no_collection() -> Iterator[None]:
    """What is built inside is not searched for garbage over and over; afterwards collection is as it was."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
