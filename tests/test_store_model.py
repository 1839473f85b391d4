"""The store against a simple model: any sequence of polls, and what should be known after each."""

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from catalog.facts import Fact
from catalog.words import Level
from store.settle import WITHDRAWN_AFTER
from tests.support.stored import (
    LEASE,
    MINUTE,
    NANO,
    T0,
    Cloud,
    machine,
    planned_cell,
    price,
    stock,
)

pytestmark = pytest.mark.both_databases


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


class Model(RuleBasedStateMachine):
    """One cell polled in every way there is; beside it, what should be known, kept in the plainest way."""

    names = ("m1", "m2", "m3", "m4")

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="gpufare-")
        self.minute = 0
        self.whole_at: int | None = None
        self.size = 0
        self.pending: tuple[str, ...] | None = None
        self.levels: dict[str, tuple[Level, int | None]] = {}
        """Machine -> level, and the minute of a partial answer that named it last (None: the last whole answer's)."""
        self.prices: dict[str, tuple[int, int | None, int]] = {}
        """Machine -> nanos, the minute it was last named (None: the last whole answer's), whole answers missing."""

    @initialize(absent=st.sampled_from([Level.OUT, Level.UNKNOWN]))
    def opened(self, absent: Level) -> None:
        self.absent = absent
        self.polled = Cloud(
            Path(self.folder.name), planned_cell("stock", absent=absent.value), planned_cell("machines")
        )
        # Another cell lists the machines, so that what is not stated shows as unknown instead of not at all.
        self.polled.told(at(0), *(machine(name) for name in self.names), feed="machines")

    def teardown(self) -> None:
        self.polled.engine.dispose()
        self.folder.cleanup()

    said = st.dictionaries(
        st.sampled_from(names),
        st.tuples(st.sampled_from([Level.IN_STOCK, Level.LOW, Level.OUT]), st.sampled_from([0, 1, 2])),
    )
    """Machine -> level, and its price (0: none)."""

    def _tick(self) -> int:
        self.minute += 20
        return self.minute

    @staticmethod
    def _facts(said: dict[str, tuple[Level, int]]) -> list[Fact]:
        levels: list[Fact] = [stock(name, level) for name, (level, _) in said.items()]
        return levels + [price(name, cost * NANO) for name, (_, cost) in said.items() if cost]

    @rule(said=said)
    def whole(self, said: dict[str, tuple[Level, int]]) -> None:
        now, facts = self._tick(), self._facts(said)
        named = tuple(sorted(f"{type(fact).__name__} {getattr(fact, 'instance_type', '')}" for fact in facts))
        result = self.polled.told(at(now), *facts)
        if len(facts) * 2 < self.size and named != self.pending:
            assert result.status == "suspicious"
            self.pending = named
            return
        assert result.status == "ok"
        for name in self.names:
            self._settle(name, said.get(name))
        self.whole_at, self.size, self.pending = now, len(facts), None

    def _settle(self, name: str, said: tuple[Level, int] | None) -> None:
        if said is not None:
            self.levels[name] = (said[0], None)
        elif self.absent is Level.OUT and name in self.levels:
            self.levels[name] = (Level.OUT, None)
        else:
            self.levels.pop(name, None)
        if said is not None and said[1]:
            self.prices[name] = (said[1] * NANO, None, 0)
        elif name in self.prices:
            nanos, seen, missing = self.prices.pop(name)
            if missing + 1 < WITHDRAWN_AFTER:
                self.prices[name] = (nanos, self.whole_at if seen is None else seen, missing + 1)

    @rule(said=said)
    def partial(self, said: dict[str, tuple[Level, int]]) -> None:
        now = self._tick()
        assert self.polled.told(at(now), *self._facts(said), missing="a page").status == "partial"
        for name, (level, cost) in said.items():
            self.levels[name] = (level, now)
            if cost:
                self.prices[name] = (cost * NANO, now, 0)

    @rule()
    def failing(self) -> None:
        now = self._tick()
        before = self.polled.offers()
        self.polled.failed(at(now))
        assert self.polled.offers() == before

    @rule()
    def unchanged(self) -> None:
        now = self._tick()
        self.polled.unchanged(at(now))
        self.pending = None
        if self.whole_at is not None:
            self.whole_at = now

    @rule()
    def lost(self) -> None:
        """A worker dies with the cell in its hands."""
        self.polled.claimed(at(self.minute))
        self.minute += int(LEASE / MINUTE)

    @invariant()
    def what_is_read_is_what_the_model_knows(self) -> None:
        found = self.polled.offers()
        assert {key[1] for key in found} == set(self.names)
        for (_, name, _), offer in found.items():
            level, seen = self.levels.get(name, (Level.UNKNOWN, None))
            assert offer.stock.level is level, name
            if name in self.levels:
                assert offer.stock.seen_at == self._time(seen), name
            known = None if offer.price is None else (offer.price.nanos, offer.price.seen_at)
            nanos, named, _missing = self.prices.get(name, (None, None, 0))
            assert known == (None if nanos is None else (nanos, self._time(named))), name

    def _time(self, minute: int | None) -> datetime:
        shown = self.whole_at if minute is None else minute
        assert shown is not None
        return at(shown)


Model.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestAgainstTheModel = Model.TestCase
