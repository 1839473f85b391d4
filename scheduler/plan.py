"""Planning: providers as the settings want them become cells in the schedule."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from hashlib import sha256

from sqlalchemy import Engine

from collectors.base import ByMachine, Cell, Config, Feed, Provider
from scheduler.poll import JITTER
from scheduler.scrub import Scrubber
from store import planning
from store.planning import PlannedCell, PlannedProvider
from store.version import program_version

_APART = timedelta(seconds=2)
"""Over the calls a second: a new cell of a feed by machine may make two calls, and others keep to the same limit."""


@dataclass(frozen=True, slots=True)
class Configured:
    """A provider with what its settings say of it. `intervals` overrides how often a feed is polled."""

    provider: Provider
    config: Config
    intervals: Mapping[str, timedelta] = field(default_factory=dict)
    version: str = field(default_factory=program_version)

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.name

    def scrubber(self) -> Scrubber:
        """What takes its credentials out of texts."""
        return Scrubber(self.config.environ)

    def feeds(self) -> dict[str, Feed]:
        """Its feeds by name."""
        return {feed.name: feed for feed in self.provider.feeds()}

    def fingerprint(self) -> str:
        """Two digests with a `.` between. The first tells changed settings or credentials, without holding any; and
        another version of this program, since "unchanged" would confirm what the one before read of an answer. The
        second tells changed credentials alone, which may be another account's.
        """
        told = (self.version, *(_in_order(getattr(self.config, each.name)) for each in fields(self.config)))
        return f"{_digest(told)}.{_digest(_in_order(self.config.environ))}"


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()


def _in_order(value: object) -> object:
    """The same for equal values, whatever the order of a mapping."""
    return sorted(value.items()) if isinstance(value, Mapping) else value


def plan(engine: Engine, configured: Iterable[Configured], now: datetime) -> int:
    """Bring the schedule to what these providers want, and no others; returns how many cells are new.

    For the start of a process alone: another one may poll other providers over the same database, and makes them its
    own again the next time that it plans.
    """
    providers = list(configured)
    planning.forget_providers(engine, but=[one.name for one in providers])
    return sum(plan_one(engine, one, now) for one in providers)


def plan_one(engine: Engine, one: Configured, now: datetime, *, again: bool = False) -> int:
    """Plan a single provider. `again`: where this process planned it before, as after a feed was read that `names_more`
    to poll; other settings that it was planned with meanwhile are then another process's.
    """
    provider = one.provider
    planned = PlannedProvider(
        name=one.name,
        account=provider.account,
        site=one.config.site,
        evidence=[evidence.value for evidence in provider.evidence],
        off=dict(provider.off()),
        fingerprint=one.fingerprint(),
        feeds=list(one.feeds()),
    )
    return planning.plan(engine, planned, _cells(engine, one), now, again=again)


def names_more(engine: Engine, one: Configured, feed: str) -> bool:
    """Whether what this feed just said may name something to poll that is not planned: a region, or a machine."""
    if feed == "places":
        return True
    asked = [found for found in one.provider.feeds() if isinstance(found, ByMachine)]
    if not asked or feed in by_machine(one):
        return False
    known = machines(engine, one)
    wanted = {(cell.feed, cell.place, cell.part) for of_machine in asked for cell in of_machine.cells_of(known)}
    return not wanted <= planning.planned_cells(engine, one.name)


def by_machine(one: Configured) -> set[str]:
    """The names of its feeds that ask about one machine at a time."""
    return {feed.name for feed in one.provider.feeds() if isinstance(feed, ByMachine)}


def machines(engine: Engine, one: Configured) -> dict[str, list[str]]:
    """The machines that those feeds ask about, by region: whose stock is stated where the settings poll."""
    return planning.known_machines(engine, one.name, _regions(engine, one))


def _regions(engine: Engine, one: Configured) -> list[str]:
    return list(one.config.regions) or planning.known_regions(engine, one.name)


def cells_of(engine: Engine, one: Configured, feed: Feed) -> Iterable[Cell]:
    """The cells that a feed has now, by what the settings and other feeds name."""
    return feed.cells_of(machines(engine, one)) if isinstance(feed, ByMachine) else feed.cells(_regions(engine, one))


def _cells(engine: Engine, one: Configured) -> Iterator[PlannedCell]:
    """What is to be polled. A feed that is polled less often than it is by itself stays fresh for one interval, as long
    as that may get, and its own time on top: as many intervals as before would be days in which a feed that fails still
    confirms its stock.
    """
    for feed in one.provider.feeds():
        every = one.intervals.get(feed.name, feed.every)
        fresh_for = feed.fresh_for if every <= feed.every else every * (1 + JITTER) + feed.fresh_for
        apart = isinstance(feed, ByMachine)
        for cell in cells_of(engine, one, feed):
            limit = feed.limit(cell)
            yield PlannedCell(
                provider=cell.provider,
                feed=cell.feed,
                place=cell.place,
                part=cell.part,
                every=every,
                fresh_for=fresh_for,
                absent=feed.absent.value,
                limit_key=limit.pause_key or limit.key,
                limit_per_s=limit.per_second,
                apart=_APART / limit.per_second if apart else timedelta(0),
            )
