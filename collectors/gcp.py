"""Google Cloud: its regions, zones and machines with accelerators, and list prices. It publishes no stock.

Calls (Compute Engine v1, through google-cloud-compute): regions.list, zones.list, machineTypes.aggregatedList,
acceleratorTypes.aggregatedList, and for scores advice.capacity and advice.calendarMode. The prices are read in
`gcp_prices.py`. docs/providers.md says what was chosen, and why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from catalog.facts import Fact, Machine, Note, Offered, Region, Zone
from catalog.words import Evidence, Level
from collectors.base import Cell, Config, Feed, Limit, Page
from collectors.gcp_api import BILLING, COMPUTE, NAME, Compute, dumped, page_of
from collectors.gcp_auth import FILE, KEY, PROJECT, may_ask
from collectors.gcp_machine import Card, Shape, attached, card_of, machine_of, shape_of, sorted_out
from collectors.gcp_prices import Prices
from collectors.gcp_quotas import Stated, read, stocks_of
from collectors.gcp_scores import Scores
from collectors.gcp_zones import LISTS, Zones, short
from collectors.quotas import Quotas
from collectors.reading import Record, record_of
from collectors.zones import region_of

CALLS_PER_SECOND = 5.0  # Compute Engine lets 25 a second through, shared with whatever else the project runs
REGION_IGNORED = frozenset(
    {
        "kind",
        "id",
        "description",
        "creationTimestamp",
        "zones",
        "quotas",
        "selfLink",
        "supportsPzs",
        "quotaStatusWarning",
    }
)
ZONE_IGNORED = frozenset(
    {"kind", "id", "description", "creationTimestamp", "selfLink", "availableCpuPlatforms", "supportsPzs"}
)


class Gcp:
    """Google Cloud. With an API key alone: the prices of the machines that the bundled table knows."""

    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.REPORTED, Evidence.SCORED, Evidence.LISTED)

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def account(self) -> bool:
        """Whether there is something to show Google."""
        return may_ask(self._config, BILLING)

    def feeds(self) -> Iterable[Feed]:
        """What the credentials allow; scores where they are asked for too."""
        if may_ask(self._config, COMPUTE):
            yield from (Places(self._config), Machines(self._config))
            if self._config.scores:
                yield Scores(self._config)
        if self.account:
            yield Prices(self._config)

    def off(self) -> Mapping[str, str]:
        """The feeds that lack credentials, and scores where nobody asked for them."""
        account = f"set {FILE} and {PROJECT}"
        off = {} if self.account else {Prices.name: f"{account}, or {KEY}, which is enough for the prices alone"}
        if not may_ask(self._config, COMPUTE):
            off |= {feed.name: account for feed in (Places, Machines, Scores)}
        elif not self._config.scores:
            off |= {Scores.name: "set GPUFARE_PROVIDERS__GCP__SCORES=true: it needs a right of its own"}
        return off


@dataclass(frozen=True, slots=True)
class _OneCell:
    """A feed whose answer is about the whole project."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str]
    absent: ClassVar[Level] = Level.UNKNOWN  # Google lists what is sold, which says nothing of stock

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - the contract's argument
        """A single one."""
        return [Cell(NAME, self.name)]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - the contract's argument
        """Compute Engine counts the calls of a project."""
        return Limit(f"{NAME}:{COMPUTE}", CALLS_PER_SECOND)


class Places(_OneCell):
    """The regions and zones of the project."""

    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(hours=24)  # a new region comes a few times a year
    fresh_for: ClassVar[timedelta] = timedelta(days=3)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """Two pages: regions, zones."""
        compute = Compute(self.config, now)
        for client, resource in (("RegionsClient", "regions"), ("ZonesClient", "zones")):
            items = [item for answer in compute.listing(client, "list", resource) for item in answer.items("items")]
            yield Page(resource, dumped({"items": items}), now)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Region for each region, a Zone for each zone."""
        for record in record_of(page).filled("items"):
            yield from _region(record) if page.name == "regions" else _zone(record)


def _region(record: Record) -> Iterator[Fact | Note]:
    """Google names no place beside a region's code: catalog/places.csv does."""
    name, status = record.text("name"), record.text_or_none("status")
    yield Region(region=name, enabled=True if status == "UP" else None)
    yield from _state(record, name, status, REGION_IGNORED)


def _zone(record: Record) -> Iterator[Fact | Note]:
    name, status = record.text("name"), record.text_or_none("status")
    stated = record.text_or_none("region")
    yield Zone(region=short(stated) if stated else region_of(name), zone=name)
    yield from _state(record, name, status, ZONE_IGNORED)


def _state(record: Record, name: str, status: str | None, ignored: frozenset[str]) -> Iterator[Note]:
    deprecated = record.record_or_none("deprecated")
    state = deprecated.text_or_none("state") if deprecated else None
    if status != "UP" or state:
        yield Note("place_state", f"{name}: {state or status}")
    yield from record.leftovers(ignored)


class Machines(_OneCell):
    """The machines with accelerators, those that GPUs are attached to among them, which zone sells which, and the
    quotas of their GPUs.
    """

    name: ClassVar[str] = "machines"
    every: ClassVar[timedelta] = timedelta(hours=6)  # a type comes to a zone within days, and one day is too late
    fresh_for: ClassVar[timedelta] = timedelta(hours=24)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """A page for each region. A zone that Google could not ask is missing, and never "sells nothing". A region of
        the settings that Google does not list has a page that says so. Machines are known without quotas, where there
        is no right to read them.
        """
        zones, quotas = Zones.asked(self.config, now), Stated.asked(self.config, now)
        by_region = zones.by_region()
        skipped = {"machine type without accelerator": zones.skipped}
        for region in self.config.regions or by_region:
            names = by_region.get(region, [])
            listed = {zone: {name: zones.of(zone, name) for name in LISTS} for zone in names}
            body = {"zones": listed, **quotas.of(region)}
            yield page_of("machineTypes", region, body, now, skipped, zones.missing(region))
            skipped = {}

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine for each type of the region, an Offered for each zone that sells it, a Stock for a known quota."""
        stated: dict[str, Machine] = {}
        answer, quotas = record_of(page), Quotas()
        zones = answer.raw("zones", None)
        if not isinstance(zones, dict):
            raise answer.drift("zones is missing, or no object")
        if not zones:
            yield Note("region_not_listed", page.place)
        for zone, value in zones.items():
            if region_of(zone) != page.place:
                yield Note("other_region", zone, record=True)
                continue
            for found in _sold_in(zone, answer.inside(value, zone), page.place):
                yield from _once(found, stated)
        if zones:
            yield from read(answer, page.place, quotas)
        for machine in stated.values():
            yield from stocks_of(machine, quotas)
        yield from quotas.others()


def _once(found: Fact | Note, stated: dict[str, Machine]) -> Iterator[Fact | Note]:
    """A machine once: most zones of a region sell the same. The first word counts where they describe it otherwise."""
    if not isinstance(found, Machine):
        yield found
    elif found.instance_type not in stated:
        stated[found.instance_type] = found
        yield found
    elif stated[found.instance_type] != found:
        yield Note("zones_disagree", found.instance_type)


def _sold_in(zone: str, record: Record, region: str) -> Iterator[Fact | Note]:
    shapes: list[Shape] = []
    cards: list[Card] = []
    for one in record.records("machineTypes"):
        yield from sorted_out(shape_of(one), Shape, shapes)
    for one in record.records("acceleratorTypes"):
        yield from sorted_out(card_of(one), Card, cards)
    combined = list(attached(shapes, cards))
    for shape in (*(one for one in shapes if one.gpu_count != 0), *combined):
        yield from machine_of(shape, region)
        yield Offered(region=region, instance_type=shape.name, zone=zone)
    yield from _unmatched(zone, shapes, cards, combined)


def _unmatched(zone: str, shapes: list[Shape], cards: list[Card], combined: list[Shape]) -> Iterator[Note]:
    """Accelerators that no machine has or takes, hosts that take none, and machines whose own is not listed."""
    machines = [shape for shape in shapes if shape.gpu_count != 0]
    listed, held = {card.name for card in cards}, {shape.model for shape in machines}
    hosts = {shape.name.partition("+")[0] for shape in combined}
    for name in sorted(listed - held - {shape.accelerator for shape in combined}):
        yield Note("accelerator_without_machine", name, record=True)
    for shape in shapes:
        if shape.gpu_count == 0 and shape.name not in hosts:
            yield Note("no_accelerator", shape.name, record=True)
    yield from (Note("accelerator_not_in_zone", f"{zone} {name}") for name in sorted(held - listed))
