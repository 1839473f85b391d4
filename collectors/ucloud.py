"""UCloud: what is sold and sold out in each region, the cards left on CompShare, and prices asked a machine at a time.

Calls: `GetRegion`, `GetProjectList`, `DescribeAvailableInstanceTypes`, and those of `ucloud_prices.py` and
`ucloud_compshare.py`. Sources: the docstrings of ucloud-sdk-python3 0.11.150 and the pages of docs.ucloud.cn/api. Every
answer is read as it came, through the SDK's `invoke()`: its typed calls drop the fields that they do not know.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, TypeAlias

from catalog.facts import Fact, Note, Region, Stock, Zone
from catalog.units import MIB_PER_GIB
from catalog.words import Evidence, Level, Purchase
from collectors import ucloud_compshare as compshare
from collectors.base import Cell, Config, Limit, Page
from collectors.credentials import stated
from collectors.keyed import Keyed
from collectors.reading import MOST_CARDS, MOST_SIZE, JsonValue, Record, record_of
from collectors.ucloud_api import ENVELOPE, KEYS, NAME, PROJECT, answered, call
from collectors.ucloud_machine import COMPSHARE, UNNAMED, Model, Size, machine, model_of, size_of
from collectors.ucloud_prices import pages, read_prices
from collectors.zones import region_of

REGIONS_ACTION, PROJECTS_ACTION, TYPES_ACTION = "GetRegion", "GetProjectList", "DescribeAvailableInstanceTypes"
CALLS_PER_SECOND = 2.0  # of all that the account asks: UCloud publishes no limit, nor what it counts together
PURCHASES = {
    "uhost": frozenset((Purchase.ON_DEMAND, Purchase.MONTH)),
    "spot": frozenset((Purchase.SPOT,)),
}
"""By `InstanceType`: one state holds for all ways of paying for a machine that stays."""
LEVELS = {"Normal": Level.IN_STOCK, "Beta": Level.IN_STOCK, "Soldout": Level.OUT}
HIDDEN = "Hidden"

# Documented fields that are not used
_REGION = frozenset(("RegionId", "IsDefault", "BitMaps"))
_PROJECT = frozenset(
    ("ProjectName", "IsDefault", "MemberCount", "ResourceCount", "CreateTime", "ParentId", "ParentName")
)
_COLLECTION = frozenset(("MinimalCpuPlatform",))
_TYPE = frozenset(("ParentType", "Performance", "CpuPlatforms", "Features", "Disks", "Description"))

_Item: TypeAlias = Fact | Note


@dataclass(frozen=True, slots=True)
class _Feed:
    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str]
    absent: ClassVar[Level] = Level.UNKNOWN
    """UCloud lists what is sold out; of what it does not list it says nothing."""

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - the contract's argument
        """One for the account; a throttled feed stops no other."""
        return Limit(NAME, CALLS_PER_SECOND, pause_key=f"{NAME}:{self.name}")


@dataclass(frozen=True, slots=True)
class Places(_Feed):
    """Regions and zones; and whether the project that the settings name is one of the account's."""

    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(days=1)  # a region opens once in months
    fresh_for: ClassVar[timedelta] = timedelta(days=3)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - the contract's argument
        """The account's regions, and its projects: a right that is missing for these is no harm to those."""
        return [Cell(NAME, self.name), Cell(NAME, self.name, part="projects")]

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call."""
        action = PROJECTS_ACTION if cell.part else REGIONS_ACTION
        yield Page(action, call(self.config, action, {}, cell, now), now, part=cell.part)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Zone for each record, its Region once; a note for each project that is not used."""
        answer = answered(record_of(page))
        if page.part:
            yield from _projects(answer, stated(self.config.environ, PROJECT))
        else:
            yield from _regions(answer)
        yield from answer.leftovers(ENVELOPE | {"ProjectCount"})


@dataclass(frozen=True, slots=True)
class StockFeed(_Feed):
    """What is sold and sold out in each zone, and how many cards CompShare has left."""

    name: ClassVar[str] = "stock"
    every: ClassVar[timedelta] = timedelta(minutes=5)  # CompShare's figures are five minutes old; UCloud has no limit
    fresh_for: ClassVar[timedelta] = compshare.FRESH_FOR

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """Two for each region: UHost, and CompShare."""
        return [Cell(NAME, self.name, region, part) for region in regions for part in ("", compshare.PART)]

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call; CompShare's numbers of zones are a call of their own."""
        if cell.part:
            yield compshare.inventory(self.config, cell, now)
        else:
            body = call(self.config, TYPES_ACTION, {"Region": cell.place}, cell, now)
            yield Page(f"{TYPES_ACTION} {cell.place}", body, now, cell.place)

    def parse(self, page: Page) -> Iterator[_Item]:
        """Machine and Stock for each size that a row lists; for CompShare, for each card that a zone names."""
        if page.part:
            yield from compshare.read_inventory(page)
            return
        answer = answered(record_of(page))
        whole, noted = _of_region(answer.text_or_none("Status"))
        yield from noted
        for row in answer.records("AvailableInstanceTypes"):
            yield from _type(row, page.place, whole)
        yield from answer.leftovers(ENVELOPE)


@dataclass(frozen=True, slots=True)
class Prices(_Feed):
    """Prices of one machine at a time: one answer has all charge types but spot, which is asked for by name."""

    name: ClassVar[str] = "prices"
    every: ClassVar[timedelta] = timedelta(hours=6)  # some hundred sizes, at two calls each
    fresh_for: ClassVar[timedelta] = timedelta(hours=18)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - the contract's argument
        """None: `cells_of` the machines that the stock feed named."""
        return []

    def cells_of(self, machines: Mapping[str, Iterable[str]]) -> Iterable[Cell]:
        """One for each machine of a region that can be ordered by its name."""
        wanted = self.config.regions
        for region, names in machines.items():
            if not wanted or region in wanted:
                yield from (Cell(NAME, self.name, region, one) for one in names if _can_be_asked_of(one))

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """Two calls, the second for spot; for a card of CompShare one for each zone that names it, and charge type."""
        size = size_of(cell.part)
        if size is None:
            yield from compshare.prices(self.config, cell, now)
        else:
            yield from pages(self.config, size, cell, now)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Price for each charge type that has one."""
        if page.part.startswith(COMPSHARE):
            yield from compshare.read_prices(page)
        else:
            yield from read_prices(page)


class UCloud(Keyed):
    """UCloud, of mainland China and beyond: one site, billed in CNY."""

    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.REPORTED,)
    all_feeds: ClassVar[tuple[Any, ...]] = (Places, StockFeed, Prices)
    keys: ClassVar[tuple[str, ...]] = KEYS
    besides: ClassVar[str] = f" (and {PROJECT}, which a sub-account must name)"


def _regions(answer: Record) -> Iterator[_Item]:
    named: set[str] = set()
    for row in answer.filled("Regions"):
        region, zone, name = (row.text_or_none(field) for field in ("Region", "Zone", "RegionName"))
        if region is None:
            yield Note("row_without_region", zone or name or "", record=True)
            continue
        if region not in named:
            yield Region(region=region, name=name)
            named.add(region)
        yield Zone(region=region, zone=zone) if zone else Note("row_without_zone", region)
        yield from row.leftovers(_REGION)


def _projects(answer: Record, used: str) -> Iterator[Note]:
    """What of an account's projects is worth knowing. Without one in the settings, calls go to its default project."""
    found = False
    for row in answer.records("ProjectSet"):
        project, default = row.text_or_none("ProjectId") or "", row.flag_or_none("IsDefault")
        is_used = project == used if used else default is True
        found = found or is_used
        if not is_used:
            yield Note("other_project", project, record=True)
        yield from row.leftovers(_PROJECT)
    if not found:
        yield Note("project_not_listed" if used else "no_default_project", used or PROJECT)


def _of_region(status: str | None) -> tuple[Level | None, list[Note]]:
    """What the state of the whole region means for every row of it; None leaves each row its own."""
    level = Level.IN_STOCK if status is None else LEVELS.get(status)
    if level is Level.IN_STOCK:
        return None, []
    return level or Level.UNKNOWN, [Note("region_not_on_sale", status or "")]


def _type(row: Record, region: str, whole: Level | None) -> Iterator[_Item]:
    zone, name, kind, status = (row.text_or_none(one) for one in ("Zone", "Name", "InstanceType", "Status"))
    memory = row.record_or_none("GraphicsMemory") or Record({}, row.where)
    stated_gib = memory.positive_or_none("Value")
    sizes = row.list_or_none("MachineSizes")
    if why := _left_out(row.text_or_none("MachineClass"), zone, name, kind, status, sizes):
        yield Note(why, name or zone or "", record=True)
        return
    if zone is not None and region_of(zone) != region:
        yield Note("other_region", zone, record=True)
        return
    level = LEVELS.get(status or "", Level.UNKNOWN)
    model = model_of(name or UNNAMED, stated_gib)
    sold = partial(
        Stock,
        region=region,
        zone=zone,
        purchases=PURCHASES[kind or ""],
        level=level if whole is None else whole,
        evidence=Evidence.REPORTED,
        detail=status or "",
    )
    for at, value in enumerate(sizes or ()):
        yield from _sizes(row.inside(value, f"MachineSizes[{at}]"), region, model, sold)
    yield from model.notes
    if level is Level.UNKNOWN:
        yield Note("unknown_status", status or "")
    yield from row.leftovers(_TYPE)


def _left_out(
    machine_class: str | None,
    zone: str | None,
    name: str | None,
    kind: str | None,
    status: str | None,
    sizes: list[JsonValue] | None,
) -> str:
    """Why a row is left out, in a word; "" where it is not. Nobody is told of what is hidden or has no status."""
    reasons = {
        "no_gpu": machine_class == "Normal",
        "row_without_machine": name is None,
        "row_without_zone": zone is None,
        "other_instance_type": kind not in PURCHASES,
        "row_without_status": status is None,
        "hidden": status == HIDDEN,
        "row_without_sizes": not sizes,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _sizes(row: Record, region: str, model: Model, sold: "partial[Stock]") -> Iterator[_Item]:
    """Machine and Stock for each memory of each number of vCPUs of a number of cards: what is listed, no more."""
    cards, collections = row.count_or_none("Gpu", MOST_CARDS), row.list_or_none("Collection")
    if not cards or not collections:
        why = "no_gpu" if cards == 0 else "incomplete_size"
        yield Note(why, model.raw, record=True)
        yield from row.notes
        return
    if cards > 1 and model.share < 1:
        yield Note("several_slices", model.raw)
    for at, value in enumerate(collections):
        yield from _collection(row.inside(value, f"Collection[{at}]"), region, model, cards, sold)
    yield from row.leftovers(frozenset())


def _collection(row: Record, region: str, model: Model, cards: int, sold: "partial[Stock]") -> Iterator[_Item]:
    vcpus = row.size_or_none("Cpu")
    for memory in row.list_or_none("Memory") or (None,):
        memory_gib = row.inside({"GB": memory}, "Memory").size_or_none("GB", MOST_SIZE // MIB_PER_GIB)
        if vcpus and memory_gib:
            size = Size(model.raw, cards, vcpus, memory_gib)
            yield machine(region, size, model)
            yield sold(instance_type=size.instance_type)
        else:
            yield Note("incomplete_size", model.raw, record=True)
    yield from row.leftovers(_COLLECTION)


def _can_be_asked_of(instance_type: str) -> bool:
    return instance_type.startswith(COMPSHARE) or size_of(instance_type) is not None
