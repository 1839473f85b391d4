"""Planning: providers as the settings want them become cells in the schedule."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from sqlalchemy import Engine

from collectors.base import Config, Feed, Provider
from scheduler.scrub import Scrubber
from store import planning
from store.planning import PlannedCell, PlannedProvider
from store.version import program_version


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
        """Tells changed settings or credentials, without holding any; and another version of this program, since
        "unchanged" would confirm what the one before read of an answer.
        """
        config = self.config
        settings = (sorted(config.environ.items()), config.regions, config.site, sorted(config.endpoints.items()))
        told = (self.version, *settings)
        return sha256(repr(told).encode()).hexdigest()


def plan(engine: Engine, configured: Iterable[Configured], now: datetime) -> int:
    """Bring the schedule to what these providers want, and no others; returns how many cells are new.

    For the start of a process alone: another one may poll other providers over the same database, and makes them its
    own again the next time that it plans.
    """
    providers = list(configured)
    planning.forget_providers(engine, but=[one.name for one in providers])
    return sum(plan_one(engine, one, now) for one in providers)


def plan_one(engine: Engine, one: Configured, now: datetime) -> int:
    """Plan a single provider: again after its `places` feed was read, since that names the regions of the others."""
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
    return planning.plan(engine, planned, _cells(engine, one), now)


def _cells(engine: Engine, one: Configured) -> Iterator[PlannedCell]:
    regions = list(one.config.regions) or planning.known_regions(engine, one.name)
    for feed in one.provider.feeds():
        every = one.intervals.get(feed.name, feed.every)
        # A feed that is polled less often than it is by itself stays fresh for as many intervals as before.
        fresh_for = max(feed.fresh_for, every * (feed.fresh_for / feed.every))
        for cell in feed.cells(regions):
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
            )
