"""Alibaba Cloud ECS: regions, machines, stock of every zone, prices by machine, spot prices and advice.

Calls of ECS 2014-05-26: DescribeRegions, DescribeInstanceTypes, DescribeAvailableResource and DescribeSpotAdvice here,
DescribePrice and DescribeSpotPriceHistory in `alibaba_prices`. Source: the docstrings of alibabacloud-ecs20140526
7.11.8. docs/providers.md says what was chosen, and why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeAlias

from catalog.facts import Fact, Note, Region, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.alibaba_api import CREDENTIALS, NAME, call, endpoint
from collectors.alibaba_machine import kind_of, machine_of, may_have_gpu
from collectors.alibaba_prices import CURRENCIES, Prices, Spot, limit_of
from collectors.base import Cell, Config, Limit, Page
from collectors.keyed import Keyed
from collectors.reading import Record, record_of
from collectors.zones import is_lettered

HOME = {"cn": "cn-hangzhou", "intl": "ap-southeast-1"}
"""The region that is asked for the list of regions; it is the same everywhere."""
REGIONS_ACTION, TYPES_ACTION, STOCK_ACTION, ADVICE_ACTION = (
    "DescribeRegions",
    "DescribeInstanceTypes",
    "DescribeAvailableResource",
    "DescribeSpotAdvice",
)
MOST_TYPES = 1000
"""Of a page of DescribeInstanceTypes, which takes 1600: some 1.5 MB."""
MOST_PAGES = 50
CHARGES: Mapping[str, tuple[Purchase, dict[str, str]]] = {
    "PostPaid": (Purchase.ON_DEMAND, {"InstanceChargeType": "PostPaid", "SpotStrategy": "NoSpot"}),
    "SpotAsPriceGo": (Purchase.SPOT, {"InstanceChargeType": "PostPaid", "SpotStrategy": "SpotAsPriceGo"}),
    "PrePaid": (Purchase.MONTH, {"InstanceChargeType": "PrePaid"}),
}
STATUSES = {"Available": Level.IN_STOCK, "SoldOut": Level.OUT}
LEVELS = {
    "WithStock": Level.IN_STOCK,
    "ClosedWithStock": Level.LOW,  # "available, low assurance": it is being closed
    "WithoutStock": Level.OUT,
    "ClosedWithoutStock": Level.OUT,  # and not to come back
}
_WORST = (Level.OUT, Level.UNKNOWN, Level.LOW, Level.IN_STOCK)
_ANSWER = frozenset(("RequestId", "RegionId", "NextToken"))
_RESOURCE = frozenset(("Min", "Max", "Unit"))

_Item: TypeAlias = Fact | Note


@dataclass(frozen=True, slots=True)
class _Feed:
    config: Config
    provider: ClassVar[str] = NAME
    absent: ClassVar[Level] = Level.UNKNOWN
    """What is sold out is listed; an answer that is empty or short came from the wrong place before."""


@dataclass(frozen=True, slots=True)
class Places(_Feed):
    """The regions of the account."""

    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(days=1)  # a region opens once in months
    fresh_for: ClassVar[timedelta] = timedelta(days=3)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - the contract's argument
        """One: the account."""
        return [Cell(NAME, self.name)]

    def limit(self, cell: Cell) -> Limit:
        """Its action's."""
        return limit_of(REGIONS_ACTION, cell)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call."""
        asked = {"AcceptLanguage": "en-US"}
        body = call(self.config, HOME[self.config.site or ""], REGIONS_ACTION, asked, cell, now)
        yield Page(REGIONS_ACTION, body, now)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Region for each record; one that is "soldOut" is polled all the same, which tells of what."""
        answer = record_of(page)
        for row in answer.record("Regions").filled("Region"):
            yield from _region(row)
        yield from answer.leftovers(_ANSWER)


@dataclass(frozen=True, slots=True)
class _RegionalFeed(_Feed):
    name: ClassVar[str]
    action: ClassVar[str]

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One for each region."""
        return [Cell(NAME, self.name, region) for region in regions]

    def limit(self, cell: Cell) -> Limit:
        """Its action's in the region."""
        return limit_of(self.action, cell)


@dataclass(frozen=True, slots=True)
class Machines(_RegionalFeed):
    """What each machine is. Which of them a region sells, the stock feed says.

    All machines are asked for: with a least number of GPUs those that have a part of one may be left out.
    """

    name: ClassVar[str] = "machines"
    every: ClassVar[timedelta] = timedelta(days=1)  # hardware does not change, and new types are few
    fresh_for: ClassVar[timedelta] = timedelta(days=3)
    action: ClassVar[str] = TYPES_ACTION

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """A call for each page."""
        token = ""
        for number in range(1, MOST_PAGES + 1):
            asked = {"MaxResults": MOST_TYPES, "NextToken": token or None}
            body = call(self.config, cell.place, TYPES_ACTION, asked, cell, now)
            page = Page(f"{TYPES_ACTION} {cell.place} {number}", body, now, cell.place)
            yield page
            before, token = token, record_of(page).text_or_none("NextToken") or ""
            if not token:
                return
            if token == before:
                break
        raise record_of(page).drift(f"NextToken comes to no end after {number} pages")

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Machine for each record of one with a GPU. It is not for sale by being in this list."""
        answer = record_of(page)
        for row in answer.record("InstanceTypes").records("InstanceType"):
            yield from machine_of(row, page.place)
        yield from answer.leftovers(_ANSWER)


@dataclass(frozen=True, slots=True)
class Stocks(_RegionalFeed):
    """The stock of every zone, on demand, as spot, and prepaid."""

    name: ClassVar[str] = "stock"
    every: ClassVar[timedelta] = timedelta(minutes=2)  # GPU stock moves in minutes; an answer lists all machines
    fresh_for: ClassVar[timedelta] = timedelta(minutes=6)
    action: ClassVar[str] = STOCK_ACTION

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One for each region and way to buy."""
        return [Cell(NAME, self.name, region, charge) for region in regions for charge in CHARGES]

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call; the action has no pages. By default Alibaba means another disk, which gn7 and later cannot have."""
        asked = {"RegionId": cell.place, "DestinationResource": "InstanceType", "ResourceType": "instance"}
        disk = {"IoOptimized": "optimized", "NetworkCategory": "vpc", "SystemDiskCategory": "cloud_essd"}
        body = call(self.config, cell.place, STOCK_ACTION, asked | disk | CHARGES[cell.part][1], cell, now)
        yield Page(f"{STOCK_ACTION} {cell.place} {cell.part}", body, now, cell.place, cell.part)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Stock for each GPU machine of each zone. Without its list of zones an answer is none: nothing is out by
        that. A zone without its machines is noted, and nothing is said of it.
        """
        answer = record_of(page)
        for zone in answer.record("AvailableZones").records("AvailableZone"):
            yield from _zone(zone, page)
        yield from answer.leftovers(_ANSWER)


@dataclass(frozen=True, slots=True)
class Scores(_RegionalFeed):
    """How often spot machines were taken back lately: a likelihood, never stock."""

    name: ClassVar[str] = "scores"
    every: ClassVar[timedelta] = timedelta(hours=1)  # rates of the last days
    fresh_for: ClassVar[timedelta] = timedelta(hours=3)
    action: ClassVar[str] = ADVICE_ACTION

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call."""
        body = call(self.config, cell.place, ADVICE_ACTION, {"RegionId": cell.place}, cell, now)
        yield Page(f"{ADVICE_ACTION} {cell.place}", body, now, cell.place)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A scored Stock of spot for each GPU machine of each zone, its level unknown."""
        answer = record_of(page)
        for zone in answer.record("AvailableSpotZones").records("AvailableSpotZone"):
            yield from _advice(zone, page.place)
        yield from answer.leftovers(_ANSWER)


class Alibaba(Keyed):
    """Alibaba Cloud, of its Chinese or its international site."""

    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.REPORTED, Evidence.SCORED)
    all_feeds: ClassVar[tuple[Any, ...]] = (Places, Machines, Stocks, Prices, Spot, Scores)
    keys: ClassVar[tuple[str, ...]] = CREDENTIALS
    currencies: ClassVar[Mapping[str, str]] = CURRENCIES


def _region(row: Record) -> Iterator[_Item]:
    region, name, state = (row.text_or_none(field) for field in ("RegionId", "LocalName", "Status"))
    host = row.text_or_none("RegionEndpoint")
    if region is None:
        yield Note("row_without_region", name or "", record=True)
        return
    enabled = True if state in ("available", "soldOut") else None
    yield Region(region=region, name=name, enabled=enabled)
    if enabled is None:
        yield Note("unknown_region_state", state or "")
    if host is not None and host != endpoint(region):
        yield Note("other_endpoint", f"{region}: {host}, asked at {endpoint(region)}")
    yield from row.leftovers(frozenset())


def _zone(zone: Record, page: Page) -> Iterator[_Item]:
    name, region = zone.text_or_none("ZoneId"), zone.text_or_none("RegionId")
    words = zone.text_or_none("Status"), zone.text_or_none("StatusCategory")
    if name is None:
        yield Note("zone_without_name", region or "", record=True)
        return
    if not (region in (None, page.place) and is_lettered(name, page.place)):
        yield Note("other_region", f"{region or ''} {name}".strip(), record=True)
        return
    resources = _listed(zone, "AvailableResource")
    if not resources:
        yield Note("zone_without_machines", name, record=True)
        return
    level, notes = level_of(*words)
    yield from notes
    for resource in resources:
        what = resource.text_or_none("Type")
        if what != "InstanceType":
            yield Note("other_resource", what or "", record=True)
            continue
        rows = _listed(resource, "SupportedResource")
        if not rows:
            yield Note("zone_without_machines", name, record=True)
        for row in rows:
            yield from _stock(row, name, level, _word(*words), page)
        yield from resource.leftovers(frozenset())
    yield from zone.leftovers(frozenset())


def _listed(holder: Record, name: str) -> list[Record]:
    """The objects of a list inside an object named after it; none where either is missing. Of what a zone does not list
    nothing is known, and the other zones' lists are as good as ever.
    """
    inside = holder.record_or_none(f"{name}s")
    found = inside.list_or_none(name) if inside else None
    return [inside.inside(value, f"{name}[{at}]") for at, value in enumerate(found or ())] if inside else []


def _stock(row: Record, zone: str, of_zone: Level, zone_word: str, page: Page) -> Iterator[_Item]:
    name = row.text_or_none("Value")
    words = row.text_or_none("Status"), row.text_or_none("StatusCategory")
    if name is None or not may_have_gpu(name):
        yield Note("row_without_machine" if name is None else "no_gpu", kind_of(name or ""), record=True)
        return
    of_row, notes = level_of(*words)
    level = min(of_row, of_zone, key=_WORST.index)
    yield Stock(
        region=page.place,
        zone=zone,
        instance_type=name,
        purchases=frozenset({CHARGES[page.part][0]}),
        level=level,
        evidence=Evidence.REPORTED,
        detail=_word(*words) if level is of_row else f"zone {zone_word}".strip(),
    )
    yield from notes
    yield from row.leftovers(_RESOURCE)


def _word(status: str | None, category: str | None) -> str:
    return category or status or ""


def level_of(status: str | None, category: str | None) -> tuple[Level, list[Note]]:
    """The level by both words: out where either says so, for nobody is sent where one of them says there is none.

    A word that nobody knows is noted; the other one then decides, and without one the level is unknown.
    """
    by_status, by_category = STATUSES.get(status or ""), LEVELS.get(category or "")
    notes = [Note("unknown_status", status)] if status and by_status is None else []
    notes += [Note("unknown_stock_category", category)] if category and by_category is None else []
    known = [level for level in (by_category, by_status) if level is not None]
    if not known or (status and by_status is None):
        return Level.UNKNOWN, notes or [Note("unknown_status", "")]
    if len(known) == 2 and (Level.OUT in known) and set(known) != {Level.OUT}:
        return Level.OUT, [Note("status_contradicts_category", f"{status} {category}")]
    return known[0], notes


def _advice(zone: Record, region: str) -> Iterator[_Item]:
    """Alibaba's own example splits zone and machines into two items of the list: neither half says anything."""
    name, resources = zone.text_or_none("ZoneId"), zone.record_or_none("AvailableSpotResources")
    if name is None or resources is None:
        yield Note("zone_without_name" if name is None else "zone_without_machines", name or "", record=True)
        return
    if not is_lettered(name, region):
        yield Note("other_region", name, record=True)
        return
    for row in resources.records("AvailableSpotResource"):
        yield from _score(row, region, name)
    yield from zone.leftovers(frozenset())


def _score(row: Record, region: str, zone: str) -> Iterator[_Item]:
    name, band = row.text_or_none("InstanceType"), row.text_or_none("InterruptRateDesc")
    rate = row.amount_or_none("InterruptionRate")
    if name is None or not may_have_gpu(name):
        yield Note("row_without_machine" if name is None else "no_gpu", kind_of(name or ""), record=True)
        return
    yield Stock(
        region=region,
        zone=zone,
        instance_type=name,
        purchases=frozenset({Purchase.SPOT}),
        level=Level.UNKNOWN,
        evidence=Evidence.SCORED,
        detail=f"interrupted {band}" if band else "",
        score=None if rate is None else f"{rate:f}% interrupted",
    )
    yield from row.leftovers(frozenset(("AverageSpotDiscount",)))  # the spot feed has the price itself
