"""Watches evaluated: by one process at a time, by changes and by the clock; each result is kept in one transaction."""

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

import msgspec
import structlog
from sqlalchemy import Engine

from alerts.deciding import Telling, decide, due_at
from alerts.memory import Memory
from catalog.spec import RegionKey, Spec
from catalog.watches import OfferKey, Sight, Watch
from catalog.words import Level
from scheduler.telling import Seen, Shown, Told, events_of
from selector.context import Context
from selector.index import Index
from selector.question import BadQuestion, World, understand
from selector.ranking import Match
from selector.watching import Handled, View, level_told, look, offer_key
from store import outbox, watching
from store.engine import reading, writing
from store.status import OF_OFFERS, ProviderStatus
from store.watches import states_in, watches_in

LEASE = timedelta(seconds=30)
LOOK_EVERY = timedelta(seconds=15)
"""What grows stale by time alone is seen after so long at the latest."""
MASS, MASS_SHARE = 10, 0.9
"""So many offers of a provider, and such a share of all that it states, changing one way at once is suspicious."""
FORGOTTEN_AFTER = timedelta(days=30)
"""The level of an offer that is gone."""
_HAD = (Level.IN_STOCK, Level.LOW)

log = structlog.get_logger()


class Known(Protocol):
    """What is known at one moment beside the offers."""

    @property
    def world(self) -> World:
        """What the names of a question mean."""

    @property
    def providers(self) -> Sequence[ProviderStatus]:
        """How the feeds do."""

    @property
    def error(self) -> str | None:
        """Why the last attempt to read failed; None where it did not."""


class Market(Protocol):
    """The current offers."""

    @property
    def index(self) -> Index:
        """All of them."""

    @property
    def view(self) -> Known:
        """What is known beside them."""

    def refresh(self, now: datetime) -> None:
        """Read what changed; what fails is in `view.error`."""

    def replaced(self) -> set[RegionKey]:
        """The regions whose offers were read anew since this was last asked."""

    def context(self, now: datetime) -> Context:
        """What an answer at this time depends on beside the offers."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the evaluator sees the market. `defaults` are the operator's, of the parameters of a question."""

    market: Callable[[], Market]
    """Makes one: it is read whole, so nobody does who has nothing to evaluate."""
    offer_json: Callable[[Match, Spec, Context], dict[str, object]]
    """OFFER, as the answers show it."""
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Watched:
    """A watch between two looks."""

    watch: Watch
    memory: Memory
    kept: Memory
    """As it stands in the database."""
    looked_at: datetime | None = None
    world: World | None = None
    spec: Spec | None = None


class Evaluator:
    """Evaluates the watches each time that `tick` is called, while no other process does."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime], rules: Rules) -> None:
        self._engine, self._clock, self._rules = engine, clock, rules
        self._duty = watching.new_duty(watching.EVALUATOR)
        self._market: Market | None = None
        self._levels: dict[OfferKey, Level] = {}
        self._watched: dict[str, _Watched] = {}
        self._observed: set[RegionKey] = set()
        self._regions: set[RegionKey] = set()
        self._until: datetime | None = None
        self._beginning = False

    def tick(self) -> int:
        """Evaluate what may have changed; returns how many events there are to tell. SQLAlchemyError where the database
        does not answer: the next tick begins where this one did.
        """
        now = self._clock()
        revisions = watching.revisions(self._engine)
        if not revisions or not self._on_duty(now):
            self.forget()
            return 0
        if self._market is None:
            self._beginning = True
            try:
                self._market = self._begin(now)
            finally:
                self._beginning = False
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
        except watching.Changed:
            log.debug("a watch was changed meanwhile; evaluated again")
        return 0

    def _on_duty(self, now: datetime) -> bool:
        """Take the duty or go on with it, renewed before half of its time is over."""
        if self._market is not None and self._until is not None and now < self._until - LEASE / 2 <= now + LEASE:
            return True
        self._until = now + LEASE
        return watching.take(self._engine, self._duty, now, LEASE)

    def renew(self) -> None:
        """Go on with the duty while a tick takes long, from another thread: the first look at a large market does."""
        if self._market is not None or self._beginning:
            watching.take(self._engine, self._duty, self._clock(), LEASE)

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
                self._watched[watch.id] = _Watched(watch, memory, memory)

    def _evaluate(self, market: Market, now: datetime) -> int:
        regions = self._regions | self._observed
        changes = self._changes(market.index, regions, now)
        handled = self._handled(market.view, changes)
        context = market.context(now)
        due = [one for one in self._watched.values() if self._is_due(one, regions, now, market.view.world)]
        views: dict[Spec, View] = {}  # of a question that several watches ask, once
        looked = [self._looked(one, market, context, handled, views) for one in due]
        events = list(events_of(looked, Shown(market.index, market.view.providers, self._rules.offer_json, now)))
        self._keep(looked, events, changes, now)
        self._regions = set()
        return len(events)

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

    def _handled(self, view: Known, changes: Mapping[OfferKey, Level]) -> Handled:
        return Handled(
            levels=self._levels,
            regions={key[:2] for key in self._levels},
            at_once=frozenset(_at_once(self._levels, changes)),
            intervals={one.name: interval for one in view.providers if (interval := _interval(one)) is not None},
            failing=frozenset(one.name for one in view.providers if _fails(one)),
        )

    def _is_due(self, one: _Watched, regions: AbstractSet[RegionKey], now: datetime, world: World) -> bool:
        if one.watch.paused or one.memory.expired:
            return False
        self._understand(one, world)
        wanted = one.spec and one.spec.primary_regions
        if one.looked_at is None or now - one.looked_at >= LOOK_EVERY or (regions and wanted is None):
            return True
        by_clock = due_at(one.watch, one.memory)
        return bool(wanted and wanted & regions) or (by_clock is not None and by_clock <= now)

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

    def _keep(
        self, looked: Sequence["_Looked"], events: Sequence[Told], changes: Mapping[OfferKey, Level], now: datetime
    ) -> None:
        """All or nothing: what is told, what is remembered and what is handled belong together."""
        changed = [one for one in looked if one.memory != one.one.kept]
        if changed or events or changes:
            with writing(self._engine) as connection:
                watching.hold(connection, self._duty, now)
                watching.require_same(connection, {one.watch.id: one.watch.revision for one in looked})
                last = {watch_id: told for told in events for watch_id in told.watches}
                kept = [
                    watching.Evaluated(one.watch.id, one.memory.written(), _last(last.get(one.watch.id)))
                    for one in changed
                ]
                watching.keep(connection, changes, kept, now)
                for told in events:
                    several = told.watches if told.watch_id is None else ()
                    outbox.put(connection, told.event, told.watch_id, told.targets, now, watches=several)
        for one in looked:
            one.one.memory, one.one.kept, one.one.looked_at = one.memory, one.memory, now
        self._levels |= changes


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


def _at_once(levels: Mapping[OfferKey, Level], changes: Mapping[OfferKey, Level]) -> Iterator[tuple[str, Level]]:
    """The providers of which nearly all that is known changed one way."""
    if len(changes) < MASS:
        return
    flips = Counter[tuple[str, Level]]()
    for key, level in changes.items():
        before = levels.get(key)
        if before is not None and (before is Level.OUT) is not (level is Level.OUT):
            flips[key[0], Level.OUT if level is Level.OUT else Level.IN_STOCK] += 1
    of_provider = Counter(key[0] for key in levels)
    yield from (flip for flip, count in flips.items() if count >= max(MASS, MASS_SHARE * of_provider[flip[0]]))


def _interval(one: ProviderStatus) -> timedelta | None:
    return next((feed.interval for feed in one.feeds if feed.feed == "stock"), None)


def _fails(one: ProviderStatus) -> bool:
    return any(feed.feed in OF_OFFERS and feed.status in ("failing", "stale") for feed in one.feeds)
