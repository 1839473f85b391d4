"""What the watches cost: a poll of 100,000 offers of which 5 % sell out or come back, evaluated for 1,000 watches.

The peer is the write of that poll: `store.record.record` of the same answers, all regions in turn. What is measured is
one tick of the evaluator after it, to the commit of states, events and deliveries; apart from that, the reading of the
changed regions, as each server reads them.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import parse_qs

import msgspec
from sqlalchemy import Engine, func, select

from alerts.deciding import first
from api.answers import offer_json
from api.board import Board
from api.config import ApiConfig
from bench.databases import POSTGRESQL, SQLITE, Kind, missing
from bench.offers import NOW, Market, Sale, market
from bench.rounds import Pairs, no_collection, seconds_of
from bench.selector import questions
from bench.table import Line, at_most, skipped
from bench.writes import EVERY, Answers, claimed, opened, planned, recorded, stated
from catalog.fx import ecb_rates
from catalog.watches import CHOSEN, Format, Target, Watch
from catalog.words import Level
from scheduler.evaluator import Evaluator
from scheduler.market import Rules
from selector.question import understand
from selector.watching import Handled, level_told, look, offer_key
from store import watches
from store.engine import reading
from store.tables import CELLS
from store.watch_tables import EVENTS

NAME = "watches"
FLIPS = 20
"""Of so many offers one sells out, or comes back."""
OTHER = {Level.IN_STOCK: Level.OUT, Level.LOW: Level.OUT, Level.OUT: Level.IN_STOCK}
TARGET = "bench"


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    size, count, rounds = (10_000, 50, 1) if quick else (100_000, 1_000, 5)
    with no_collection():
        sold = market(size)
        answers, changed = stated(sold), stated(flipped(sold))
    gc.freeze()
    for kind in (SQLITE, POSTGRESQL):
        why = missing(kind)
        name = f"watches, {kind.name}, {count:,} over {size:,} offers, 5 % flip"
        if why:
            yield skipped(name, why)
        else:
            yield from _lines(name, _Round(kind, answers, changed, count), rounds)


def flipped(sold: Market) -> Market:
    """The same market a poll later."""
    return {
        key: [_flipped(sale) if number % FLIPS == 0 else sale for number, sale in enumerate(sales)]
        for key, sales in sold.items()
    }


def _flipped(sale: Sale) -> Sale:
    return replace(sale, level=OTHER.get(sale.level, sale.level))


@dataclass(slots=True)
class _Times:
    """Seconds of each round."""

    writes: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)
    events: int = 0

    @property
    def evaluations(self) -> list[float]:
        """The ticks without the reading."""
        return [tick - read for tick, read in zip(self.ticks, self.reads, strict=True)]


class _Board(Board):
    """Notes how long it reads."""

    def __init__(self, engine: Engine, config: ApiConfig, reads: list[float]) -> None:
        super().__init__(engine, config)
        self._reads = reads

    def refresh(self, now: datetime) -> None:
        """As ever."""
        self._reads.append(seconds_of(partial(super().refresh, now)))


@dataclass(slots=True)
class _Round:
    kind: Kind
    answers: Answers
    changed: Answers
    count: int

    def times(self, rounds: int) -> _Times:
        """What each poll took to be written, to be read by the evaluator, and to be evaluated."""
        with self.kind.new() as url, opened(url) as engine:
            planned(engine, list(self.answers))
            recorded(engine, claimed(engine, NOW), self.answers, NOW)
            clock, found = _Clock(NOW), _Times()
            evaluator = _watched(engine, clock, self.count, found.reads)
            evaluator.tick()
            found.reads.clear()
            for number in range(rounds):
                clock.now += EVERY
                answers = self.answers if number % 2 else self.changed
                leases = claimed(engine, clock.now)
                found.writes.append(seconds_of(partial(recorded, engine, leases, answers, clock.now)))
                found.ticks.append(seconds_of(evaluator.tick))
            with reading(engine) as connection:
                found.events = connection.execute(select(func.count()).select_from(EVENTS)).scalar_one()
        return found


@dataclass(slots=True)
class _Clock:
    now: datetime

    def __call__(self) -> datetime:
        return self.now


def _watched(engine: Engine, clock: _Clock, count: int, reads: list[float]) -> Evaluator:
    target = Target(name=TARGET, format=Format.STANDARD, url="https://example.com/hook")
    watches.add_target(engine, watches.KeptTarget(target, clock.now))
    config = ApiConfig(
        rates=ecb_rates(),
        fetched_rates=False,
        providers=frozenset(provider for provider, _ in _regions(engine)),
        clock=clock,
    )
    board = Board(engine, config)
    board.refresh(clock.now)
    for watch in _watches(clock.now, count):
        spec = understand(watch.spec, board.view.world, {}, endpoint="cheapest")
        view = look(board.index, spec, board.context(clock.now), Handled())
        levels = {offer_key(offer): level_told(offer, clock.now) for offer in (*view.confirmed, *view.out)}
        begun = tuple((key, level) for key, level in levels.items() if level is not None)
        memory = msgspec.structs.replace(first(watch, view.sight), begun=begun)
        watches.add_watch(engine, watch, memory.written())
    return Evaluator(engine, clock, Rules(lambda: _Board(engine, config, reads), offer_json))


def _regions(engine: Engine) -> list[tuple[str, str]]:
    with reading(engine) as connection:
        return [(row.provider, row.place) for row in connection.execute(select(CELLS.c.provider, CELLS.c.place))]


def _watches(now: datetime, count: int) -> Iterator[Watch]:
    """The stored questions as watches, over and over, told of everything: each a question of its own, by a limit that
    nothing breaks, so that no two share a look.
    """
    asked = [parse_qs(question) for question in questions()]
    for number in range(count):
        spec = {name: tuple(texts) for name, texts in asked[number % len(asked)].items() if name not in _NO_WATCH}
        spec.setdefault("max_price_per_gpu", (str(100_000 + number),))
        yield Watch(
            id=f"w_{number}",
            name=f"w{number}",
            spec=spec,
            notify=(TARGET,),
            events=frozenset(CHOSEN),
            hold=timedelta(0),
            created_at=now,
        )


_NO_WATCH = frozenset({"limit", "offset", "explain"})


def _lines(name: str, one: _Round, rounds: int) -> Iterator[Line]:
    times = one.times(rounds)
    for what, ours, limit in (("evaluated", times.evaluations, at_most(0.5)), ("read for it", times.reads, None)):
        found = Pairs(times.writes, ours)
        yield Line(
            name=f"{name}, {what}",
            figure=found.figure,
            unit="s",
            peer="the write of that poll",
            peer_figure=found.peer_figure,
            ratio=found.ratio,
            limit=limit,
            note=f"{times.events:,} events in {rounds} polls",
        )
