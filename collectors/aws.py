"""AWS: its regions, zones and accelerated machines, and spot prices. Of stock it publishes capacity blocks alone.

Calls (EC2 2016-11-15, through boto3): DescribeRegions, DescribeAvailabilityZones, DescribeInstanceTypes,
DescribeInstanceTypeOfferings, DescribeSpotPriceHistory. Their shapes: botocore 1.44.8. Prices are in
`aws_pricelist.py`, capacity blocks in `aws_blocks.py`, likelihoods in `aws_scores.py`. docs/providers.md says what was
chosen, and why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import ClassVar

from catalog.facts import Fact, Note, Offered, Price, Region, Zone
from catalog.money import price_nanos
from catalog.words import Evidence, Purchase
from collectors.aws_blocks import Blocks
from collectors.aws_ec2 import (
    KEYS,
    TOLD_BY,
    currency_of,
    has_credentials,
    partition,
    partition_of,
    told_region,
    unusable,
)
from collectors.aws_feed import Ec2Feed, of_types, paged, sold_where, time_or_none
from collectors.aws_machine import NAME, PATTERNS, machine_of
from collectors.aws_pricelist import Prices
from collectors.aws_scores import Scores
from collectors.base import Cell, Config, Feed, Page
from collectors.reading import JsonValue, Record, record_of
from collectors.zones import is_lettered

LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
"""Which of the two a Linux spot price is published under depends on the account."""

ZONE_IGNORED = frozenset(
    {
        "OptInStatus", "Messages", "RegionName", "GroupName", "NetworkBorderGroup", "GroupLongName",
        "ParentZoneName", "ParentZoneId", "Geography", "SubGeography",
    }
)  # fmt: skip


class Aws:
    """Amazon Web Services. Without credentials: the price list and the spot advisor alone."""

    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.REPORTED, Evidence.SCORED, Evidence.LISTED)

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def account(self) -> bool:
        """Whether there is something to sign with."""
        return has_credentials(self._config)

    def feeds(self) -> Iterable[Feed]:
        """Those that the credentials allow."""
        off = self.off()
        return [feed(self._config) for feed in _EVERY if feed.name not in off]

    def off(self) -> Mapping[str, str]:
        """The feeds that need credentials, where there are none, or where it is not known which partition's. All of
        an account beside the first whose partition its own settings do not tell.
        """
        if self._config.beside and not (self._config.regions or told_region(self._config)):
            return {feed.name: _NO_PARTITION for feed in _EVERY}
        asked = [feed.name for feed in (Places, Machines, Spot, Blocks)]
        asked += [Prices.name] if self._config.price_source == "api" else []
        if said := unusable(self._config):
            return dict.fromkeys(asked, said)
        if not self.account:
            return {name: f"set {' and '.join(KEYS)}{_OR_LIST if name == Prices.name else ''}" for name in asked}
        if partition_of(self._config) is None:
            return dict.fromkeys(asked, _which_partition(self._config))
        return {}


_NO_PARTITION = (
    f"set GPUFARE_PROVIDERS__AWS__REGIONS, or {' or '.join(TOLD_BY)} in its credentials: nothing else says of which "
    "partition (AWS, AWS China, GovCloud) an account beside the first is, and its keys are sent to no other"
)
_OR_LIST = ", or GPUFARE_PROVIDERS__AWS__PRICE_SOURCE=list"


def _which_partition(config: Config) -> str:
    named = " and ".join(sorted({partition(region) for region in config.regions}))
    return (
        f"REGIONS names regions of several partitions ({named}), which are accounts of their own: set {TOLD_BY[0]} to "
        "a region of the one that the credentials are of; they are sent to no other"
    )


class Places(Ec2Feed):
    """The regions, and which of them the account may use."""

    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(hours=24)  # a new region comes a few times a year
    fresh_for: ClassVar[timedelta] = timedelta(days=3)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - it is what names them
        """A single one: one region answers for all of its partition."""
        return [Cell(NAME, self.name)]

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002
        """One page."""
        ec2 = self.client(cell, now)
        regions = ec2.listing("describe_regions", "Regions", AllRegions=True)
        yield paged("DescribeRegions", cell, now, {"Regions": regions})

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Region for each, not enabled where the account would have to opt in first."""
        for record in record_of(page).filled("Regions"):
            status = record.text_or_none("OptInStatus")
            yield Region(region=record.text("RegionName"), enabled=_ENABLED.get(status or ""))
            if status and status not in _ENABLED:
                yield Note("unknown_opt_in_status", status)
            yield from record.leftovers(frozenset({"Endpoint", "Geography"}))


_ENABLED = {"opt-in-not-required": True, "opted-in": True, "not-opted-in": False}


class Machines(Ec2Feed):
    """A region's zones, its accelerated machines, and which zone sells which."""

    name: ClassVar[str] = "machines"
    every: ClassVar[timedelta] = timedelta(hours=6)  # a type comes to a zone within days, and one day is too late
    fresh_for: ClassVar[timedelta] = timedelta(hours=24)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002
        """Two pages: the machines; the zones with what is sold in them."""
        ec2 = self.client(cell, now)
        zones = ec2.listing("describe_availability_zones", "AvailabilityZones", AllAvailabilityZones=True)
        types = ec2.listing("describe_instance_types", "InstanceTypes", Filters=of_types(PATTERNS), MaxResults=100)
        machines = paged("DescribeInstanceTypes", cell, now, {"InstanceTypes": types})
        names = _names(machines)
        offered = sold_where(ec2, names, "availability-zone-id")
        yield machines
        lists = {"AvailabilityZones": zones, "AskedTypes": names, "InstanceTypeOfferings": offered}
        yield paged("DescribeInstanceTypeOfferings", cell, now, lists)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine for each type with an accelerator; a Zone for each zone proper, with its offerings."""
        answer = record_of(page)
        if page.name.startswith("DescribeInstanceTypes"):
            for record in answer.records("InstanceTypes"):
                yield from machine_of(record, page.place)
        else:
            yield from _zones(answer, page.place)


def _names(machines: Page) -> list[JsonValue]:
    return [one.text("InstanceType") for one in record_of(machines).records("InstanceTypes")]


def _zones(answer: Record, region: str) -> Iterator[Fact | Note]:
    """Local and Wavelength Zones are left out: they have prices of their own, which the region's must not stand for.

    EC2 lists a type where a zone of the region sells it: types, and no offering of any of them, are no answer.
    """
    found: list[Zone] = []
    for record in answer.filled("AvailabilityZones"):
        name, kind, state = record.text("ZoneName"), record.text_or_none("ZoneType"), record.text_or_none("State")
        zone = Zone(region=region, zone=name, zone_id=record.text_or_none("ZoneId"))
        if not is_lettered(name, region):
            yield Note("other_region", name, record=True)
        elif kind == "availability-zone":
            found.append(zone)
            yield zone
            if state != "available":
                yield Note("zone_state", f"{name}: {state}")
        else:
            yield Note("zone_of_another_kind", f"{name}: {kind}", record=True)
        yield from record.leftovers(ZONE_IGNORED)
    by_name = {name: zone for zone in found for name in (zone.zone, zone.zone_id) if name}
    offerings = answer.filled if answer.list_or_none("AskedTypes") else answer.records
    for record in offerings("InstanceTypeOfferings"):
        yield _offered(record, by_name)
        yield from record.leftovers(frozenset({"LocationType"}))


def _offered(record: Record, by_name: Mapping[str, Zone]) -> Offered | Note:
    instance_type, location = record.text("InstanceType"), record.text("Location")
    zone = by_name.get(location)
    if zone is None:
        return Note("offered_elsewhere", location, record=True)
    return Offered(region=zone.region, instance_type=instance_type, zone=zone.zone, zone_id=zone.zone_id)


class Spot(Ec2Feed):
    """What Linux machines cost as spot in each zone now. A spot price is not stock."""

    name: ClassVar[str] = "spot"
    every: ClassVar[timedelta] = timedelta(minutes=10)  # EC2 moves spot prices by small steps over hours
    fresh_for: ClassVar[timedelta] = timedelta(minutes=30)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002
        """One page, as one zone's prices can be on several of EC2's. From now on: EC2 adds the change before that."""
        listed = self.client(cell, now).listing(
            "describe_spot_price_history",
            "SpotPriceHistory",
            StartTime=now,
            ProductDescriptions=list(LINUX),
            Filters=of_types(PATTERNS),
            MaxResults=1000,
        )
        yield paged("DescribeSpotPriceHistory", cell, now, {"SpotPriceHistory": listed})

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """The latest price of each type and zone, however long ago it last changed."""
        rows: dict[tuple[str, str], list[_SpotRow]] = {}
        for record in record_of(page).records("SpotPriceHistory"):
            row = _SpotRow.read(record)
            if not is_lettered(row.zone, page.place):
                yield Note("other_region", row.zone, record=True)
            elif row.product in LINUX:
                rows.setdefault((row.instance_type, row.zone), []).append(row)
            else:
                yield Note("other_system", row.product, record=True)
            yield from record.leftovers(frozenset())
        for of_one_zone in rows.values():
            *older, current = sorted(of_one_zone, key=_SpotRow.order)
            yield current.stated(page.place)
            yield from (Note("superseded_spot_price", row.instance_type, record=True) for row in older)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpotRow:
    instance_type: str
    zone: str
    zone_id: str | None
    product: str
    changed_at: datetime
    amount: Decimal | None

    @classmethod
    def read(cls, record: Record) -> "_SpotRow":
        """Drift where a row does not say what it is about: it may be the one that supersedes another."""
        changed_at = record.text("Timestamp")
        moment = time_or_none(changed_at)
        if moment is None:
            raise record.drift(f"Timestamp is not a time with its zone but {changed_at!r:.40}")
        return cls(
            instance_type=record.text("InstanceType"),
            zone=record.text("AvailabilityZone"),
            zone_id=record.text_or_none("AvailabilityZoneId"),
            product=record.text("ProductDescription"),
            changed_at=moment,
            amount=record.number_or_none("SpotPrice"),
        )

    def order(self) -> tuple[datetime, Decimal, str]:
        """The latest last; of two at one time the dearer, and no price last of all: nothing is promised for less."""
        return self.changed_at, self.amount or Decimal("Infinity"), self.zone_id or ""

    def stated(self, region: str) -> Price | Note:
        """The price, or a note where it is none: never 0, and never an older one in its place."""
        nanos = price_nanos(self.amount)
        if nanos is None:
            kind = "no_price" if self.amount is None else "non_positive_price"
            return Note(kind, f"{self.instance_type} spot in {self.zone}", record=True)
        return Price(
            region=region,
            instance_type=self.instance_type,
            purchase=Purchase.SPOT,
            nanos=nanos,
            currency=currency_of(region),  # EC2 states none with a spot price
            source="DescribeSpotPriceHistory",
            zone=self.zone,
            zone_id=self.zone_id,
        )


_EVERY = (Prices, Places, Machines, Spot, Blocks, Scores)
