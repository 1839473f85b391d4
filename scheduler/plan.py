"""Planning: providers as the settings want them become cells in the schedule."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from sqlalchemy import Engine

from collectors.base import Config, Feed, Provider
from store import schedule
from store.schedule import PlannedCell, PlannedProvider


@dataclass(frozen=True, slots=True)
class Configured:
    """A provider with what its settings say of it. `intervals` overrides how often a feed is polled."""

    provider: Provider
    config: Config
    intervals: Mapping[str, timedelta] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.name

    def feeds(self) -> dict[str, Feed]:
        """Its feeds by name."""
        return {feed.name: feed for feed in self.provider.feeds()}

    def fingerprint(self) -> str:
        """Tells changed settings or credentials, without holding any."""
        config = self.config
        told = (sorted(config.environ.items()), config.regions, config.site, sorted(config.endpoints.items()))
        return sha256(repr(told).encode()).hexdigest()


def plan(engine: Engine, configured: Iterable[Configured], now: datetime) -> int:
    """Bring the schedule to what these providers want; returns how many cells are new."""
    providers = list(configured)
    schedule.forget_providers(engine, but=[one.name for one in providers])
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
    )
    return schedule.plan(engine, planned, _cells(engine, one), now)


def _cells(engine: Engine, one: Configured) -> Iterator[PlannedCell]:
    regions = list(one.config.regions) or schedule.known_regions(engine, one.name)
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
                limit_key=limit.key,
                limit_per_s=limit.per_second,
            )
