"""AWS: its regions, zones and accelerated machines, spot prices and the public price list. It publishes no stock.

Calls (EC2 2016-11-15, through boto3): DescribeRegions, DescribeAvailabilityZones, DescribeInstanceTypes,
DescribeInstanceTypeOfferings, DescribeSpotPriceHistory. Their shapes: botocore 1.44.8. The price list, which needs no
credentials, is read in `aws_pricelist.py`. docs/providers.md says what was chosen, and why.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import ClassVar

from catalog.facts import Fact, Note, Offered, Price, Region, Zone
from catalog.money import price_nanos
from catalog.words import Evidence, Level, Purchase
from collectors.aws_ec2 import KEYS, Ec2, currency_of, has_credentials, home_of, partition
from collectors.aws_machine import NAME, PATTERNS, machine_of
from collectors.aws_pricelist import Prices
from collectors.base import PAGE_BYTES, Cell, Config, Drift, Feed, Limit, Page
from collectors.http import SHOWN_BYTES
from collectors.reading import JsonValue, Record, record_of

LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
"""Which of the two a Linux spot price is published under depends on the account."""
CALLS_PER_SECOND = 2.0  # EC2 lets 20 a second through a region, shared with whatever else the account runs
FILTER_VALUES = 200  # the most that EC2 takes in one filter

ZONE_IGNORED = frozenset(
    {
        "OptInStatus", "Messages", "RegionName", "GroupName", "NetworkBorderGroup", "GroupLongName",
        "ParentZoneName", "ParentZoneId", "Geography", "SubGeography",
    }
)  # fmt: skip


class Aws:
    """Amazon Web Services. Without credentials: the price list alone."""

    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.LISTED,)

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def account(self) -> bool:
        """Whether there is something to sign with."""
        return has_credentials(self._config.environ)

    def feeds(self) -> Iterable[Feed]:
        """The price list; with credentials, all."""
        yield Prices(self._config)
        if self.account:
            yield from (Places(self._config), Machines(self._config), Spot(self._config))

    def off(self) -> Mapping[str, str]:
        """The feeds that need credentials, where there are none."""
        if self.account:
            return {}
        return {feed.name: f"set {' and '.join(KEYS)}" for feed in (Places, Machines, Spot)}


@dataclass(frozen=True, slots=True)
class _Ec2Feed:
    """A feed that asks EC2 in each region of the credentials' partition."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str]
    absent: ClassVar[Level] = Level.UNKNOWN  # EC2 lists what is sold, which says nothing of stock

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One for each region that the credentials can be good for."""
        ours = partition(home_of(self.config))
        return [Cell(NAME, self.name, region) for region in regions if partition(region) == ours]

    def limit(self, cell: Cell) -> Limit:
        """EC2 limits an account in each region by itself."""
        return Limit(f"aws:{cell.place or home_of(self.config)}", CALLS_PER_SECOND)


class Places(_Ec2Feed):
    """The regions, and which of them the account may use."""

    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(hours=24)  # a new region comes a few times a year
    fresh_for: ClassVar[timedelta] = timedelta(days=3)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - it is what names them
        """A single one: one region answers for all of its partition."""
        return [Cell(NAME, self.name)]

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002
        """One page."""
        ec2 = Ec2(self.config, home_of(self.config), now)
        yield _page("DescribeRegions", cell, now, Regions=ec2.listing("describe_regions", "Regions", AllRegions=True))

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Region for each, not enabled where the account would have to opt in first."""
        for record in record_of(page).filled("Regions"):
            status = record.text_or_none("OptInStatus")
            yield Region(region=record.text("RegionName"), enabled=_ENABLED.get(status or ""))
            if status and status not in _ENABLED:
                yield Note("unknown_opt_in_status", status)
            yield from record.leftovers(frozenset({"Endpoint", "Geography"}))


_ENABLED = {"opt-in-not-required": True, "opted-in": True, "not-opted-in": False}


class Machines(_Ec2Feed):
    """A region's zones, its accelerated machines, and which zone sells which."""

    name: ClassVar[str] = "machines"
    every: ClassVar[timedelta] = timedelta(hours=6)  # a type comes to a zone within days, and one day is too late
    fresh_for: ClassVar[timedelta] = timedelta(hours=24)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002
        """Two pages: the machines; the zones with what is sold in them."""
        ec2 = Ec2(self.config, cell.place, now)
        zones = ec2.listing("describe_availability_zones", "AvailabilityZones", AllAvailabilityZones=True)
        types = ec2.listing("describe_instance_types", "InstanceTypes", Filters=_of_types(PATTERNS), MaxResults=100)
        machines = _page("DescribeInstanceTypes", cell, now, InstanceTypes=types)
        # Whole names, not patterns: a pattern that this filter did not understand would look like nothing sold.
        names = _names(machines)
        offered = [
            offering
            for some in _batches(names)
            for offering in ec2.listing(
                "describe_instance_type_offerings",
                "InstanceTypeOfferings",
                LocationType="availability-zone-id",
                Filters=_of_types(some),
                MaxResults=1000,
            )
        ]
        yield machines
        lists = {"AvailabilityZones": zones, "AskedTypes": names, "InstanceTypeOfferings": offered}
        yield _page("DescribeInstanceTypeOfferings", cell, now, **lists)

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
        if kind == "availability-zone":
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


class Spot(_Ec2Feed):
    """What Linux machines cost as spot in each zone now. A spot price is not stock."""

    name: ClassVar[str] = "spot"
    every: ClassVar[timedelta] = timedelta(minutes=10)  # EC2 moves spot prices by small steps over hours
    fresh_for: ClassVar[timedelta] = timedelta(minutes=30)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002
        """One page, as one zone's prices can be on several of EC2's. From now on: EC2 adds the change before that."""
        listed = Ec2(self.config, cell.place, now).listing(
            "describe_spot_price_history",
            "SpotPriceHistory",
            StartTime=now,
            ProductDescriptions=list(LINUX),
            Filters=_of_types(PATTERNS),
            MaxResults=1000,
        )
        yield _page("DescribeSpotPriceHistory", cell, now, SpotPriceHistory=listed)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """The latest price of each type and zone, however long ago it last changed."""
        rows: dict[tuple[str, str], list[_SpotRow]] = {}
        for record in record_of(page).records("SpotPriceHistory"):
            row = _SpotRow.read(record)
            if row.product in LINUX:
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
        moment = _time(changed_at)
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


def _time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _of_types(names: Sequence[JsonValue]) -> list[dict[str, object]]:
    return [{"Name": "instance-type", "Values": list(names)}]


def _batches(names: Sequence[JsonValue]) -> Iterator[Sequence[JsonValue]]:
    for start in range(0, len(names), FILTER_VALUES):
        yield names[start : start + FILTER_VALUES]


def _page(call: str, cell: Cell, now: datetime, **lists: list[JsonValue]) -> Page:
    """A whole listing as EC2's plain form in JSON."""
    body = json.dumps(lists, default=_time_text).encode()
    page = Page(name=f"{call} {cell.place}".strip(), body=body, at=now, place=cell.place)
    if len(body) > PAGE_BYTES:
        said = f"aws {call} in {cell.place}: {len(body)} bytes are far more than this listing ever was"
        raise Drift(said, replace(page, body=body[:SHOWN_BYTES]))
    return page


def _time_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)
