"""The current offers in memory: loaded whole at the start, then only the regions whose cells changed."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from api.collecting import Sparing
from api.config import ApiConfig
from catalog.facts import Window
from catalog.fx import Rate, Rates
from catalog.offers import Offer
from catalog.partitions import Account, on_site
from catalog.spec import RegionKey
from selector.context import Context
from selector.index import Index
from selector.question import World
from store import exchange, launches, offers, status
from store.engine import why_unusable
from store.offers import ShelfKey
from store.sqlite_file import generation
from store.status import ProviderStatus

_BREATH_S = 0.002
"""Between two regions that are read, so that answers that wait for the interpreter go first."""
_STATUS_AGES = timedelta(seconds=5)
"""A feed grows stale by time alone, so how the feeds do is read anew each time that the database is looked at after
this long: within 10 s where nothing else wakes the server.
"""


NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class View:
    """What the board knew at one moment, beside the offers. Never changed, only replaced."""

    rates: Rates
    """What prices are compared at: the newest that are known, and over them those set by hand."""
    providers: tuple[ProviderStatus, ...] = ()
    listed: tuple[ProviderStatus, ...] = ()
    """Providers that are known by the price list shipped with the product alone."""
    world: World = field(default_factory=lambda: World(providers=frozenset()))
    read: frozenset[RegionKey] = frozenset()
    """Where a source gave a whole answer; a place "" is all of its provider."""
    off: Mapping[str, str] = field(default_factory=dict)
    """Providers whose places are not asked -> what to set so that they are."""
    read_at: datetime | None = None
    """When the database was last read whole; None before that."""
    revision: int = 0
    """The sum of the cells' revisions: rises with every change."""
    version: int = 0
    """Rises whenever an answer may be another one for more than the time that has passed."""
    error: str | None = None
    """Why the last attempt to read failed; None where it did not."""


class Board:
    """The read path. Any number of threads may read; `refresh` is for one at a time, and waits for its turn."""

    def __init__(self, engine: Engine, config: ApiConfig, *, spares: bool = True) -> None:
        """`spares`: the garbage collector is spared the offers. Not in a process that polls: whatever else is alive is
        spared too then, and what the providers' SDKs leave in cycles would never be freed.
        """
        self.index = Index(config.rates)
        self.view = View(config.rates, world=World(providers=frozenset(), currencies=config.rates.currencies()))
        self._rates, self._fetched = config.rates, tuple[Rate, ...]()
        self._engine = engine
        self._config = config
        self._lock = threading.Lock()
        self._revisions: Mapping[int, int] = {}
        self._stated: dict[int, AbstractSet[ShelfKey]] = {}
        self._launches: set[str] = set()
        self._sites: Mapping[str, str | None] = {}
        self._shelves: set[ShelfKey] = set()
        self._replaced: set[ShelfKey] = set()
        self._told: tuple[ProviderStatus, ...] = ()
        self._listed: tuple[ProviderStatus, ...] = ()
        self._begins: dict[ShelfKey, datetime] = {}
        self._unread: frozenset[RegionKey] = frozenset()
        self._read_places: frozenset[RegionKey] = frozenset()
        self._told_at: datetime | None = None
        self._marks: status.Marks | None = None
        self._generation = 0
        self._sparing = Sparing() if spares else None

    @property
    def ready(self) -> bool:
        """Whether it can answer: the database could be read, and there is something in it."""
        return self.view.error is None and self.view.read_at is not None and len(self.index) > 0

    def context(self, now: datetime) -> Context:
        """What an answer at this time depends on beside the offers."""
        view, world = self.view, self.view.world
        return Context(
            now=now, rates=view.rates, accounts=world.accounts, unread=world.unread, read=view.read, off=view.off
        )

    def replaced(self) -> set[ShelfKey]:
        """The regions whose offers were read anew since this was last asked. For one that asks."""
        with self._lock:
            replaced, self._replaced = self._replaced, set()
        return replaced

    def refresh(self, now: datetime) -> None:
        """Read what changed. A database that fails leaves the last good offers; it is logged once, until it is back."""
        with self._lock:
            try:
                before, self.view = self.view, self._read(now)
                if before.error is not None:
                    structlog.get_logger().warning("the database is read again")
            except SQLAlchemyError as error:
                if self.view.error is None:
                    structlog.get_logger().error("database cannot be read; answering from memory", error=str(error))
                self.view = replace(self.view, error=f"the database cannot be read ({why_unusable(error)})")

    def _read(self, now: datetime) -> View:
        revisions = offers.revisions(self._engine)
        file = generation(self._engine)
        replaced_file = self._forgotten() if file != self._generation else set()
        providers = self._providers(now)
        in_force = launches.in_force(self._engine, now)
        learnt = {launch: shelf for launch, shelf in in_force.items() if launch not in self._launches}
        changed = self._changed(revisions)
        stated = offers.shelves_of(self._engine, changed)
        touched = self._touched(changed, stated) | set(learnt.values()) | self._moved(providers) | self._begun(now)
        touched |= replaced_file
        touched = {shelf for shelf in touched if shelf[0] in self._config.providers}
        replaced = 0
        for shelf in sorted(touched):
            found = self._offers(shelf, now)
            self.index.replace(shelf, found)
            self._begins[shelf] = min((window.starts_at for window in _windows(found)), default=NEVER)
            replaced += len(found)
            time.sleep(_BREATH_S)
        if self._sparing is not None:
            self._sparing.replaced(replaced, len(self.index))
        # Only now, so that whatever failed above is read again the next time.
        self._shelves |= touched
        self._replaced |= touched
        self._stated.update({cell: stated.get(cell, set()) for cell in changed})
        self._revisions, self._generation = revisions, file
        self._sites = {provider.name: provider.site for provider in providers}
        self._launches = set(in_force)
        world, view = self._world(providers), self.view
        same = not touched and self._rates is view.rates
        same = same and (providers, self._listed, world) == (view.providers, view.listed, view.world)
        same = same and self._read_places == view.read
        version, revision = view.version + (not same), sum(revisions.values())
        off = {one.name: one.off for one in providers if one.off is not None}
        return View(self._rates, providers, self._listed, world, self._read_places, off, now, revision, version)

    def _forgotten(self) -> set[ShelfKey]:
        """Forget what was read of a database whose file was replaced: the same numbers of cells and revisions mean
        others in the new one. Returns its regions, all of which are to be read anew.
        """
        self._revisions, self._launches, self._marks = {}, set(), None
        return set(self._shelves)

    def _compare_at(self, fetched: tuple[Rate, ...]) -> None:
        """Have prices compared at the rates that were fetched, where these are others than before."""
        if fetched != self._fetched:
            self._fetched, self._rates = fetched, self._config.rates.updated(fetched)

    def _begun(self, now: datetime) -> set[ShelfKey]:
        """The regions where a window has begun, which can no longer be booked."""
        return {shelf for shelf, at in self._begins.items() if at <= now}

    def _offers(self, shelf: ShelfKey, now: datetime) -> list[Offer]:
        """The offers of a region, but those of another site than the one that is set: they are another account's."""
        site = self._config.sites.get(shelf[0])
        if not on_site(*shelf, site):
            return []
        found = offers.load(self._engine, shelf, now)
        return [offer for offer in found if site is None or offer.place.site in (None, site)]

    def _providers(self, now: datetime) -> tuple[ProviderStatus, ...]:
        """How the feeds do: read again once a poll or a setting changed it, or time may have made one stale."""
        marks = status.marks(self._engine)
        young = self._told_at is not None and abs(now - self._told_at) < _STATUS_AGES
        if not young or marks != self._marks:
            used = self._config.providers
            told = [one for one in status.provider_statuses(self._engine, now) if one.name in used]
            sites = self._config.sites
            anew = {one.name: sites[one.name] for one in told if sites.get(one.name, one.site) != one.site}
            self._told = tuple(one.before_another_site(anew[one.name]) if one.name in anew else one for one in told)
            unread = (key for key in status.unread(self._engine) if key[0] in used - anew.keys())
            self._unread = frozenset({*unread, *((name, "") for name in anew)})
            self._read_places = frozenset(key for key in status.read_places(self._engine) if key[0] not in anew)
            known = {one.name for one in self._told}
            shipped = status.snapshots(self._engine)
            self._listed = tuple(one for one in shipped if one.name in used - known)
            if self._config.fetched_rates:
                self._compare_at(exchange.rates(self._engine))
            self._marks, self._told_at = marks, now
        return self._told

    def _changed(self, revisions: Mapping[int, int]) -> list[int]:
        cells = revisions.keys() | self._revisions.keys()
        return sorted(cell for cell in cells if revisions.get(cell) != self._revisions.get(cell))

    def _touched(self, changed: list[int], stated: Mapping[int, AbstractSet[ShelfKey]]) -> set[ShelfKey]:
        """The regions that the cells stated something of before, or state something of now."""
        return {shelf for cell in changed for known in (self._stated, stated) for shelf in known.get(cell, ())}

    def _moved(self, providers: tuple[ProviderStatus, ...]) -> set[ShelfKey]:
        """The regions of providers whose site was set anew, which every place of theirs shows."""
        moved = {one.name for one in providers if self._sites.get(one.name) != one.site}
        return {shelf for shelf in self._shelves if shelf[0] in moved}

    def _accounts(self, providers: tuple[ProviderStatus, ...]) -> frozenset[Account]:
        """Those with credentials of which it is known where they count."""
        sites = self._config.sites
        found = (self._config.account(one.name, sites.get(one.name, one.site)) for one in providers if one.account)
        return frozenset(account for account in found if account is not None)

    def _world(self, providers: tuple[ProviderStatus, ...]) -> World:
        world = World(
            providers=self._config.providers,
            accounts=self._accounts(providers),
            regions=self.index.regions(),
            zones=self.index.zones(),
            countries=self.index.countries(),
            region_countries={
                key: place.country for key, place, _ in self.index.shelves() if place.country is not None
            },
            machines=self.index.machines(),
            unread=self._unread,
            currencies=self._rates.currencies(),
            fallback=self._config.fallback,
        )
        return self.view.world if world == self.view.world else world  # the same one while nothing of it changed


def _windows(offers: Iterable[Offer]) -> Iterator[Window]:
    return (offer.price.window for offer in offers if offer.price is not None and offer.price.window is not None)
