"""Azure, and Azure China: its regions and zones, the sizes with accelerators, and what a subscription may not have.

Calls to Azure Resource Manager: subscriptions/locations 2022-12-01, Microsoft.Compute's skus (by azure-mgmt-compute 39)
and usages. It publishes no stock. Prices, which need no credentials, are read in `azure_retail.py`, spot placement
scores in `azure_scores.py`. docs/providers.md says what was chosen, and why.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from catalog.facts import Fact, Note, Region, Zone
from catalog.words import Evidence, Level
from collectors.azure_account import quotas_of
from collectors.azure_api import Arm, has_credentials
from collectors.azure_machine import NAME, PREFIX, facts_of_sku
from collectors.azure_retail import Prices
from collectors.azure_scores import Scores
from collectors.azure_wire import KEYS
from collectors.base import PAGE_BYTES, Cell, Config, Drift, Feed, Limit, NotServed, Page, ProviderError
from collectors.http import SHOWN_BYTES
from collectors.quotas import Quotas
from collectors.reading import JsonValue, Record, record_of

LOCATIONS = "locations?api-version=2022-12-01"
USAGES = "providers/Microsoft.Compute/locations/{region}/usages?api-version=2025-04-01"
SCORES_SETTING = "GPUFARE_PROVIDERS__AZURE__SCORES"
CALLS_PER_SECOND = 5.0  # Resource Manager refills 25 a second for a subscription, shared with its other tools
NOT_FOR_SALE = ("stage", "stg", "euap")
"""How the names of regions end that Microsoft tests in."""
_LOCATION = frozenset(("id", "regionalDisplayName", "type", "subscriptionId"))


class Azure:
    """Microsoft Azure, or with site `cn` the cloud that 21Vianet runs in China. Without credentials: prices alone."""

    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.SCORED, Evidence.LISTED)

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def account(self) -> bool:
        """Whether a service principal and a subscription are named."""
        return has_credentials(self._config)

    def feeds(self) -> Iterable[Feed]:
        """Those that credentials and settings allow."""
        off = self.off()
        return [feed(self._config) for feed in (Prices, Places, Machines, Scores) if feed.name not in off]

    def off(self) -> Mapping[str, str]:
        """The feeds that need credentials, where there are none, and the scores, unless they are asked for."""
        missing = "" if self.account else f"{', '.join(KEYS[:-1])} and {KEYS[-1]}"
        off = {feed.name: f"set {missing}" for feed in (Places, Machines) if missing}
        scores = [f"{SCORES_SETTING}=true"] if not self._config.scores else []
        wanted = " and ".join(filter(None, [missing, *scores]))
        return off | ({Scores.name: f"optional: set {wanted}"} if wanted else {})


@dataclass(frozen=True, slots=True)
class _ArmFeed:
    """A feed that asks Azure Resource Manager."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str]
    absent: ClassVar[Level] = Level.UNKNOWN  # what is listed says nothing of stock

    def limit(self, cell: Cell) -> Limit:
        """Resource Manager limits a subscription in each region by itself, as far as is known: one limit for all."""
        return Limit(f"{NAME}:management", CALLS_PER_SECOND, pause_key=f"{NAME}:management:{cell.place}")


class Places(_ArmFeed):
    """The regions of the subscription, and which physical zone each of its zones is."""

    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(hours=24)  # a new region comes a few times a year
    fresh_for: ClassVar[timedelta] = timedelta(days=3)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - it is what names them
        """A single one."""
        return [Cell(NAME, self.name)]

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One page."""
        locations = Arm(self.config, cell, now).listing(LOCATIONS)
        if isinstance(locations, ProviderError):
            raise locations
        yield _page(cell, now, {}, value=locations)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Region for each that machines can be rented in, and its Zones."""
        for record in record_of(page).filled("value"):
            yield from _region(record)


def _region(record: Record) -> Iterator[Fact | Note]:
    name = (record.text_or_none("name") or "").casefold()
    display, metadata = record.text_or_none("displayName"), record.record_or_none("metadata")
    kind = metadata.text_or_none("regionType") if metadata else None
    if not name or kind != "Physical" or name.endswith(NOT_FOR_SALE):
        yield Note("not_a_region", f"{name}: {kind}", record=True)
        return
    yield Region(region=name, name=display, enabled=True)
    for value in record.list_or_none("availabilityZoneMappings") or ():
        zone = record.inside(value, "availabilityZoneMappings")
        logical, physical = zone.text_or_none("logicalZone"), zone.text_or_none("physicalZone")
        if logical:
            yield Zone(region=name, zone=logical, zone_id=physical)
        else:
            yield Note("zone_without_name", f"{name}: {physical}")
    yield from record.leftovers(_LOCATION)


class Machines(_ArmFeed):
    """A region's sizes with accelerators, the zones that sell them, and what keeps this subscription from them."""

    name: ClassVar[str] = "machines"
    every: ClassVar[timedelta] = timedelta(hours=6)  # restrictions and quotas change within days
    fresh_for: ClassVar[timedelta] = timedelta(hours=24)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One a region."""
        return [Cell(NAME, self.name, region) for region in dict.fromkeys(region.casefold() for region in regions)]

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One page: the sizes, and the quotas. Sizes are known without quotas, where there is no right to read them."""
        arm = Arm(self.config, cell, now)
        skus = arm.skus(cell.place)
        usages = arm.listing(USAGES.format(region=cell.place))
        if isinstance(usages, ProviderError) and not isinstance(usages, NotServed):
            raise usages
        skipped = Counter[str]()
        kept = list(_accelerated(skus, skipped))
        if isinstance(usages, NotServed):
            yield _page(cell, now, skipped, value=kept, usagesNotRead=str(usages))
        else:
            yield _page(cell, now, skipped, value=kept, usages=usages)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine for each size with its zones, and a Stock that says why it cannot be had, or shows the quota."""
        answer, quotas = record_of(page), Quotas()
        unread = answer.text_or_none("usagesNotRead")
        if unread is not None:
            yield Note("quotas_not_read", unread)
        else:
            yield from quotas.read(quotas_of(answer.records("usages")))
        for record in answer.records("value"):
            yield from facts_of_sku(record, page.place, quotas)
        yield from quotas.others()


def _accelerated(skus: Sequence[JsonValue], skipped: Counter[str]) -> Iterator[JsonValue]:
    """The machines of the N-series, and whatever says that it has GPUs; the others are counted by reason."""
    for sku in skus:
        if not isinstance(sku, dict):
            yield sku  # who reads it says what is wrong
        elif str(sku.get("resourceType")).casefold() != "virtualmachines":
            skipped["not_a_machine"] += 1
        elif str(sku.get("name")).casefold().startswith(PREFIX.casefold()) or _names_gpus(sku.get("capabilities")):
            yield sku
        else:
            skipped["without_accelerator"] += 1


def _names_gpus(capabilities: JsonValue) -> bool:
    stated = capabilities if isinstance(capabilities, list) else []
    return any(isinstance(one, dict) and one.get("name") == "GPUs" for one in stated)


def _page(cell: Cell, now: datetime, skipped: Mapping[str, int], **content: JsonValue) -> Page:
    body = json.dumps(content, default=str).encode()
    name = f"{NAME} {cell.feed} {cell.place}".rstrip()
    if len(body) > PAGE_BYTES:
        said = f"{name}: {len(body)} bytes are far more than this listing ever was"
        raise Drift(said, Page(name, body[:SHOWN_BYTES], now, cell.place))
    return Page(name, body, now, cell.place, skipped=dict(skipped))
