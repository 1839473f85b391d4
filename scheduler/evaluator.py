"""Watches evaluated: by one process at a time, by changes and by the clock; each result is kept in one transaction."""

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zlib import crc32

import msgspec
import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from alerts.deciding import Telling, decide, due_at, is_over
from alerts.memory import Memory
from catalog.spec import RegionKey, Spec
from catalog.watches import OfferKey, Sight, Watch
from catalog.words import Level
from scheduler.market import Market, Rules
from scheduler.telling import Seen, Shown, Told, events_of
from selector.context import Context
from selector.index import Index
from selector.question import BadQuestion, World, understand
from selector.watching import Handled, View, level_told, look, offer_key
from store import outbox, watching
from store.engine import reading, writing
from store.status import ProviderStatus
from store.watches import states_in, watches_in

LEASE = timedelta(seconds=30)
LOOK_EVERY = timedelta(seconds=15)
"""What grows stale by time alone is seen after so long at the latest."""
MASS, MASS_SHARE = 10, 0.9
"""So many offers of a region, and such a share of all that is stated there, changing one way at once is suspicious."""
FORGOTTEN_AFTER = timedelta(days=30)
"""The level of an offer that is gone."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Watched:
    """A watch between two looks."""

    watch: Watch
    memory: Memory
    kept: Memory
    """As it stands in the database."""
    looked_at: datetime | None = None
    every: timedelta = LOOK_EVERY
    """How long after a look the next one is due at the latest."""
    world: World | None = None
    spec: Spec | None = None


class Evaluator:
    """Evaluates the watches each time that `tick` is called, while no other process does."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime], rules: Rules) -> None:
        self._engine, self._clock, self._rules = engine, clock, rules
        self._duty = watching.new_duty(watching.EVALUATOR)
        self._market: Market | None = None
        self._levels: dict[OfferKey, Level] = {}
        self._handled_at: set[RegionKey] = set()
        self._watched: dict[str, _Watched] = {}
        self._observed: set[RegionKey] = set()
        self._regions: set[RegionKey] = set()

    def tick(self) -> int:
        """Evaluate what may have changed; returns how many events there are to tell. SQLAlchemyError where the database
        does not answer: the next tick begins from what is kept there.
        """
        now = self._clock()
        revisions = watching.revisions(self._engine)
        if not revisions or not self._on_duty(now):
            self.forget()
            return 0
        if self._market is None:
            self._market = self._begin(now)
        self._read_watches(revisions)
        self._market.refresh(now)
        if self._market.view.error is not None:
            return 0
        self._regions |= self._market.replaced()
        try:
            return self._evaluate(self._market, now)
        except watching.DutyLost:
            log.info("another process evaluates the watches by now")
            self.forget()
        except SQLAlchemyError:
            self.forget()  # whether it was kept nobody knows: a commit may have been heard and not answered
            raise
        return 0

    def _on_duty(self, now: datetime) -> bool:
        """Go on with the duty, or take it: then all is read anew, since another process may have had it meanwhile."""
        if watching.extend(self._engine, self._duty, now, LEASE):
            return True
        self.forget()
        return watching.take(self._engine, self._duty, now, LEASE)

    def renew(self) -> None:
        """Go on with the duty while a tick takes long, from another thread: the first look at a large market does."""
        watching.extend(self._engine, self._duty, self._clock(), LEASE)

    def leave(self) -> None:
        """Let another process go on at once."""
        if self._market is not None:
            watching.leave(self._engine, self._duty, self._clock())
            self.forget()

    def forget(self) -> None:
        """Forget all that is held in memory: the next tick reads it anew."""
        self._market, self._levels, self._watched = None, {}, {}

    def _begin(self, now: datetime) -> Market:
        """Go on where whoever was on duty before left off: what changed since then is seen as a change."""
        market = self._rules.market()
        market.refresh(now)
        kept = watching.levels(self._engine)
        if market.view.error is None:
            there = {offer_key(offer) for region in market.index.regions() for offer in market.index.offers_of(region)}
            gone = [key for key in kept if key not in there]
            watching.forget_levels(self._engine, gone, now - FORGOTTEN_AFTER)
        self._levels, self._watched, self._observed, self._regions = kept, {}, set(), set()
        self._handled_at = {key[:2] for key in kept}
        return market

    def _read_watches(self, revisions: Mapping[str, int]) -> None:
        """Read them anew where one was added, changed or removed."""
        if revisions == {name: one.watch.revision for name, one in self._watched.items()}:
            return
        with reading(self._engine) as connection:
            found, states = watches_in(connection), states_in(connection)
        before = self._watched
        self._watched = {}
        for watch in found:
            known = before.get(watch.id)
            if known is not None and known.watch.revision == watch.revision:
                self._watched[watch.id] = known
            elif watch.id in states:
                memory = Memory.read(states[watch.id].memory)
                every = LOOK_EVERY * (1 - crc32(watch.id.encode()) % 64 / 128)  # so that not all look at once
                self._watched[watch.id] = _Watched(watch, memory, memory, every=every)

    def _evaluate(self, market: Market, now: datetime) -> int:
        regions = self._regions | self._observed
        changes = self._changes(market.index, regions, now)
        due = [one for one in self._watched.values() if self._is_due(one, regions, now, market.view.world)]
        told = 0
        if due or changes:
            looks = self._looks(due, market, changes, now)
            told = self._keep(looks, Shown(market.index, market.view.providers, self._rules.offer_json, now), changes)
        self._regions = set()
        return told

    def _looks(
        self, due: Sequence[_Watched], market: Market, changes: Mapping[OfferKey, Level], now: datetime
    ) -> "list[_Looked]":
        handled, context = self._handled(market, changes, now), market.context(now)
        views: dict[Spec, View] = {}  # of a question that several watches ask, once
        return [self._looked(one, market, context, handled, views) for one in due]

    def _changes(self, index: Index, regions: AbstractSet[RegionKey], now: datetime) -> dict[OfferKey, Level]:
        """The levels that are others than those that were handled. Stale ones say nothing, so they change nothing."""
        changes: dict[OfferKey, Level] = {}
        for region in regions:
            self._observed.discard(region)
            for offer in index.offers_of(region):
                if offer.observed is not None:
                    self._observed.add(region)  # what a launch taught is over by the clock alone
                elif not offer.stock.tells_level:
                    continue  # most: of a hundred thousand offers it is worth asking that first
                level = level_told(offer, now)
                if level is not None and self._levels.get(key := offer_key(offer)) is not level:
                    changes[key] = level
        return changes

    def _handled(self, market: Market, changes: Mapping[OfferKey, Level], now: datetime) -> Handled:
        providers = market.view.providers
        return Handled(
            levels=self._levels,
            regions=self._handled_at,
            at_once=frozenset(_at_once(market.index, self._levels, changes, now)),
            intervals={one.name: interval for one in providers if (interval := _interval(one)) is not None},
            failing=frozenset(one.name for one in providers if one.fails),
        )

    def _is_due(self, one: _Watched, regions: AbstractSet[RegionKey], now: datetime, world: World) -> bool:
        if one.watch.paused or is_over(one.watch, one.memory):
            return False
        self._understand(one, world)
        by_clock = due_at(one.watch, one.memory)
        if one.looked_at is None or abs(now - one.looked_at) >= one.every or (by_clock and by_clock <= now):
            return True
        wanted = None if one.spec is None else one.spec.primary_regions
        return bool(regions if wanted is None else wanted & regions)

    def _understand(self, one: _Watched, world: World) -> None:
        """Names mean what they mean now; what is no longer understood is said, and sees nothing."""
        if one.world is world:
            return
        one.world = world
        problem = None
        try:
            one.spec = understand(one.watch.spec, world, self._rules.defaults, endpoint="cheapest")
        except BadQuestion as error:
            one.spec, problem = None, str(error)
        if problem != one.memory.problem:
            one.memory = msgspec.structs.replace(one.memory, problem=problem)

    def _looked(
        self, one: _Watched, market: Market, context: Context, handled: Handled, views: dict[Spec, View]
    ) -> "_Looked":
        view = None
        if one.spec is not None and one.memory.begun:
            # What its first look saw may have changed before anybody evaluated it.
            begun = replace(handled, levels=ChainMap(dict(one.memory.begun), self._levels))
            view = look(market.index, one.spec, context, begun)
        elif one.spec is not None:
            view = views.get(one.spec) or views.setdefault(one.spec, look(market.index, one.spec, context, handled))
        sight = Sight(now=context.now) if view is None else view.sight
        memory, tellings = decide(one.watch, msgspec.structs.replace(one.memory, begun=()), sight)
        seen = None if view is None or one.spec is None else Seen(view, one.spec, context)
        return _Looked(one, memory, tellings, seen)

    def _keep(self, looked: Sequence["_Looked"], shown: Shown, changes: Mapping[OfferKey, Level]) -> int:
        """All or nothing: what is told, what is remembered and what is handled belong together.

        A watch that was changed meanwhile is left as it is, with the levels that it has not looked at yet.
        """
        if not changes and not any(one.tellings or one.memory != one.one.kept for one in looked):
            events: list[Told] = []
        else:
            with writing(self._engine) as connection:
                watching.hold(connection, self._duty, shown.now)
                same = watching.unchanged(connection, {one.watch.id: one.watch.revision for one in looked})
                events = list(events_of([one for one in looked if one.watch.id in same], shown))
                last = {watch_id: told for told in events for watch_id in told.watches}
                kept = [
                    watching.Evaluated(one.watch.id, one.memory.written(), _last(last.get(one.watch.id)))
                    for one in looked
                    if one.watch.id in same and one.memory != one.one.kept
                ]
                others = watching.memories(connection, [one.watch.id for one in looked if one.watch.id not in same])
                kept += [
                    watching.Evaluated(name, self._without_looking(text, changes)) for name, text in others.items()
                ]
                watching.keep(connection, changes, kept, shown.now)
                for told in events:
                    several = told.watches if told.watch_id is None else ()
                    outbox.put(connection, told.event, told.watch_id, told.targets, shown.now, watches=several)
        for each in looked:
            each.one.memory = each.one.kept = each.memory
            each.one.looked_at = shown.now
        self._levels |= changes
        self._handled_at |= {key[:2] for key in changes}
        return len(events)

    def _without_looking(self, memory: str, changes: Mapping[OfferKey, Level]) -> str:
        """What is remembered of a watch that has not seen these changes: the levels from before them."""
        known = Memory.read(memory)
        before = {key: level for key in changes if (level := self._levels.get(key)) is not None}
        return msgspec.structs.replace(known, begun=tuple((before | dict(known.begun)).items())).written()


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a look at a watch gave."""

    one: _Watched
    memory: Memory
    tellings: Sequence[Telling]
    seen: Seen | None

    @property
    def watch(self) -> Watch:
        return self.one.watch


def _last(told: Told | None) -> str | None:
    return None if told is None else msgspec.json.encode(told.brief()).decode()


def _at_once(
    index: Index, levels: Mapping[OfferKey, Level], changes: Mapping[OfferKey, Level], now: datetime
) -> Iterator[tuple[RegionKey, Level]]:
    """The regions of which nearly all that is stated changed one way."""
    if len(changes) < MASS:
        return
    flips = Counter[tuple[RegionKey, Level]]()
    for key, level in changes.items():
        before = levels.get(key)
        if before is not None and (before is Level.OUT) is not (level is Level.OUT):
            flips[key[:2], Level.OUT if level is Level.OUT else Level.IN_STOCK] += 1
    for (region, level), count in flips.items():
        stated = sum(level_told(offer, now) is not None for offer in index.offers_of(region)) if count >= MASS else 0
        if count >= MASS and count >= MASS_SHARE * stated:
            yield region, level


def _interval(one: ProviderStatus) -> timedelta | None:
    return next((feed.interval for feed in one.feeds if feed.feed == "stock"), None)
