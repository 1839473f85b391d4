"""Tencent Cloud: one answer for each region and charge type states stock and price of every machine in every zone.

Calls: `region:DescribeRegions` 2022-06-27, `cvm:DescribeZoneInstanceConfigInfos` and `cvm:DescribeInstanceTypeConfigs`
2017-03-12. Sources: the docstrings of tencentcloud-sdk-python-cvm 3.1.178 and the examples of tccli 3.1.189.
docs/providers.md says what was chosen, and why.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, TypeAlias

from catalog.facts import Fact, Note, Price, Region, Stock
from catalog.money import price_nanos, term_hour_nanos
from catalog.words import TERM_MONTHS, Evidence, Level, Purchase
from collectors.base import Cell, Config, Limit, Page
from collectors.keyed import Keyed
from collectors.reading import Record, record_of
from collectors.tencent_api import CREDENTIALS, NAME, call, cut
from collectors.tencent_machine import hardware_of, machine_of
from collectors.zones import region_of

CURRENCIES = {"cn": "CNY", "intl": "USD"}
"""By the account's site, as no answer names its currency: an international account sees ap-guangzhou in USD."""
CALLS_PER_SECOND = 20.0  # Tencent's page says 40 for each action; a public report was throttled above 20
REGIONS_ACTION, TYPES_ACTION, QUOTAS_ACTION = (
    "DescribeRegions",
    "DescribeInstanceTypeConfigs",
    "DescribeZoneInstanceConfigInfos",
)
PURCHASES = {"POSTPAID_BY_HOUR": Purchase.ON_DEMAND, "SPOTPAID": Purchase.SPOT, "PREPAID": Purchase.MONTH}
TERMS = {Purchase.MONTH: "", Purchase.RESERVED_1Y: "OneYear", Purchase.RESERVED_3Y: "ThreeYear"}
"""Prepaid terms, and how the names of each one's price fields end."""
TERM_UNITS = (None, "MONTH", "HOUR")
"""`ChargeUnit` of a prepaid row. The rows that were seen say HOUR, which is the unit of `UnitPrice` beside, there 0."""
STATUSES = {"SELL": Level.IN_STOCK, "SOLD_OUT": Level.OUT}
LEVELS = {
    "EnoughStock": Level.IN_STOCK,
    "NormalStock": Level.IN_STOCK,
    "UnderStock": Level.LOW,
    "WithoutStock": Level.OUT,
}

# Documented fields that are not used. Of a price: hourly rows leave the terms alone, prepaid ones the hours, and both
# what the hours after the 96th and the 360th cost (SecondStep, ThirdStep), which is never the price of an hour.
_ANSWER = frozenset(("RequestId", "TotalCount"))
_REGION = frozenset(("RegionTypeMC", "LocationMC", "RegionNameMC", "RegionIdMC"))
_TYPE = frozenset(("Zone", "FPGA"))
_NIC = frozenset(("NetworkCard", "InstanceBandwidth", "InstancePps"))
_QUOTA = _NIC | {"TypeName", "LocalDiskTypeList", "SoldOutReason", "StorageBlockAmount", "CpuType", "Fpga", "Frequency"}
_UNDERWRITE = frozenset(("prepaid_underwrite_enable", "prepaid_underwrite_periods"))
_EXTERNALS = _UNDERWRITE | {"ReleaseAddress", "UnsupportNetworks", "StorageBlockAttr"}
_HOURLY = {f"{kind}{step}" for kind in ("UnitPrice", "UnitPriceDiscount") for step in ("", "SecondStep", "ThirdStep")}
_AMOUNTS = ("OriginalPrice", "DiscountPrice", "Discount")
_TERM = {f"{kind}{term}" for kind in _AMOUNTS for term in ("", "OneYear", "ThreeYear", "FiveYear")}
_PRICE = frozenset({"ChargeUnit"} | _HOURLY | _TERM)

_COUNTED = re.compile(
    r"\d+\s*(?:颗|张|块|[*x×])?\s*((?:NVIDIA|AMD|Intel)\s[A-Z0-9 .-]+?)(?:\sGPUs?)?\s*(?:[^A-Z0-9 .-]|$)", re.IGNORECASE
)
"""`4 颗 NVIDIA T4`, `8 * NVIDIA A100`: a count and a name, among remarks on disks and drivers."""
_MODEL = re.compile(r"((?:NVIDIA|AMD|Intel)\s(?:Tesla\s|GeForce\s)?(?:RTX\s)?[A-Z]{1,2}\d[A-Z0-9-]*)", re.IGNORECASE)
"""`NVIDIA H20`: a name without a count, whose letters and digits tell it from a driver's."""

_Item: TypeAlias = Fact | Note


@dataclass(frozen=True, slots=True)
class _Feed:
    config: Config
    provider: ClassVar[str] = NAME
    absent: ClassVar[Level] = Level.UNKNOWN
    """Tencent lists what is sold out; of what it does not list it says nothing."""


@dataclass(frozen=True, slots=True)
class Places(_Feed):
    """The regions of the account. Not `cvm:DescribeRegions`, which Tencent no longer updates."""

    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(days=1)  # a region opens once in months
    fresh_for: ClassVar[timedelta] = timedelta(days=3)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - the contract's argument
        """One: the account."""
        return [Cell(NAME, self.name)]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - the contract's argument
        """Tencent limits each action by itself."""
        return Limit(f"{NAME}:region:{REGIONS_ACTION}", CALLS_PER_SECOND)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call."""
        body = call(self.config, "region", REGIONS_ACTION, {"Product": "cvm"}, cell, now)
        yield Page(REGIONS_ACTION, body, now)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Region for each record."""
        answer = _answer(page)
        for row in answer.filled("RegionSet"):
            yield from _region(row)
        yield from answer.leftovers(_ANSWER)


def _cvm_limit(action: str, cell: Cell) -> Limit:
    """Calls of an action are counted over all regions, as a public report has it; a throttled region stops no other."""
    key = f"{NAME}:cvm:{action}"
    return Limit(key, CALLS_PER_SECOND, pause_key=f"{key}:{cell.place}")


@dataclass(frozen=True, slots=True)
class Machines(_Feed):
    """What each machine is. This list alone has fields for the GPU's name and memory, where Tencent fills them in."""

    name: ClassVar[str] = "machines"
    every: ClassVar[timedelta] = timedelta(hours=12)  # hardware does not change, and new types are few
    fresh_for: ClassVar[timedelta] = timedelta(hours=36)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One for each region."""
        return [Cell(NAME, self.name, region) for region in regions]

    def limit(self, cell: Cell) -> Limit:
        """Its action's."""
        return _cvm_limit(TYPES_ACTION, cell)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call; the action has no pages."""
        for body in cut(call(self.config, "cvm", TYPES_ACTION, {}, cell, now), "InstanceTypeConfigSet"):
            yield Page(f"{TYPES_ACTION} {cell.place}", body, now, cell.place)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Machine for each record of a GPU machine, the same for each of its zones."""
        answer = _answer(page)
        for row in answer.records("InstanceTypeConfigSet"):
            yield from _type(row, page.place)
        yield from answer.leftovers(_ANSWER)


@dataclass(frozen=True, slots=True)
class StockAndPrices(_Feed):
    """Stock, price and machine of every zone."""

    name: ClassVar[str] = "stock"
    every: ClassVar[timedelta] = timedelta(minutes=1)  # GPU stock moves in minutes, and three calls a region are few
    fresh_for: ClassVar[timedelta] = timedelta(minutes=3)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One for each region and charge type."""
        return [Cell(NAME, self.name, region, charge) for region in regions for charge in PURCHASES]

    def limit(self, cell: Cell) -> Limit:
        """Its action's."""
        return _cvm_limit(QUOTAS_ACTION, cell)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call; the action has no pages."""
        wanted = {"Filters": [{"Name": "instance-charge-type", "Values": [cell.part]}]}
        for body in cut(call(self.config, "cvm", QUOTAS_ACTION, wanted, cell, now), "InstanceTypeQuotaSet"):
            yield Page(f"{QUOTAS_ACTION} {cell.place} {cell.part}", body, now, cell.place, cell.part)

    def parse(self, page: Page) -> Iterator[_Item]:
        """Machine, Stock and Price for each record of a GPU machine."""
        answer = _answer(page)
        for row in answer.records("InstanceTypeQuotaSet"):
            yield from _quota(row, page, CURRENCIES[self.config.site or ""])
        yield from answer.leftovers(_ANSWER)


class Tencent(Keyed):
    """Tencent Cloud, of its Chinese or its international site."""

    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.REPORTED,)
    all_feeds: ClassVar[tuple[Any, ...]] = (Places, Machines, StockAndPrices)
    keys: ClassVar[tuple[str, ...]] = CREDENTIALS
    currencies: ClassVar[Mapping[str, str]] = CURRENCIES


def _answer(page: Page) -> Record:
    """What is in the envelope. An error beside a list is still an error, and the list no answer."""
    answer = record_of(page).record("Response")
    if answer.has("Error"):
        raise answer.drift("an Error in an answer that was taken for a good one")
    return answer


def _region(row: Record) -> Iterator[_Item]:
    region, name, state = (row.text_or_none(field) for field in ("Region", "RegionName", "RegionState"))
    if region is None:
        yield Note("row_without_region", name or "", record=True)
        return
    enabled = {"AVAILABLE": True, "UNAVAILABLE": False}.get(state or "")
    yield Region(region=region, name=name, enabled=enabled)
    if enabled is None:
        yield Note("unknown_region_state", state or "")
    yield from row.leftovers(_REGION)


def _type(row: Record, region: str) -> Iterator[_Item]:
    found = hardware_of(row, region, [row.text_or_none("GpuType")], cpu="CPU", gpu="GPU")
    zone = row.text_or_none("Zone")
    if isinstance(found, Note):
        yield found
        return
    if zone is not None and region_of(zone) != region:
        yield Note("other_region", zone, record=True)
        return
    yield from machine_of(found)
    yield from row.leftovers(_TYPE)


def _quota(row: Record, page: Page, currency: str) -> Iterator[_Item]:
    externals = row.record_or_none("Externals") or Record({}, row.where)
    found = hardware_of(row, page.place, _said(row, externals), cpu="Cpu", gpu="Gpu")
    zone, charge = row.text_or_none("Zone"), row.text_or_none("InstanceChargeType")
    if isinstance(found, Note):
        yield found
        return
    if zone is None or charge != page.part:
        kind, value = ("row_without_zone", None) if zone is None else ("other_charge_type", charge)
        yield Note(kind, value or found.instance_type, record=True)
        return
    if region_of(zone) != page.place:
        yield Note("other_region", zone, record=True)
        return
    purchase = PURCHASES[charge]
    name = found.instance_type
    priced = partial(Price, region=page.place, zone=zone, instance_type=name, currency=currency, source=QUOTAS_ACTION)
    prices = list(_prices(row.record_or_none("Price"), purchase, priced, name))
    status, category = row.text_or_none("Status"), row.text_or_none("StatusCategory")
    level, notes = _level(status, category)
    yield from machine_of(found)
    yield Stock(
        region=page.place,
        zone=zone,
        instance_type=name,
        purchases=frozenset((purchase, *(one.purchase for one in prices if isinstance(one, Price)))),
        level=level,
        evidence=Evidence.REPORTED,
        detail=category or status or "",
    )
    yield from (*prices, *notes)
    yield from externals.leftovers(_EXTERNALS)
    yield from row.leftovers(_QUOTA)


def _said(row: Record, externals: Record) -> list[str | None]:
    """What a row says of its GPU, the most reliable first. Tencent documents the remark alone."""
    attributes = externals.record_or_none("GpuAttr") or Record({}, row.where)
    described, remark = externals.text_or_none("GPUDesc"), row.text_or_none("Remark")
    return [attributes.text_or_none("Type"), _named(described) or described, _named(remark)]


def _named(text: str | None) -> str | None:
    found = _COUNTED.search(text or "") or _MODEL.search(text or "")
    return found[1] if found else None


def _level(status: str | None, category: str | None) -> tuple[Level, list[Note]]:
    """The level by both words: out where either says so, for nobody is sent where one of them says there is none."""
    by_status = STATUSES.get(status or "")
    if by_status is None:
        return Level.UNKNOWN, [Note("unknown_status", status or "")]
    if category is None:
        return by_status, []
    by_category = LEVELS.get(category)
    if by_category is None:
        return by_status, [Note("unknown_stock_category", category)]
    if (by_status is Level.OUT) is not (by_category is Level.OUT):
        return Level.OUT, [Note("status_contradicts_category", f"{status} {category}")]
    return by_category, []


def _prices(
    price: Record | None, purchase: Purchase, priced: "partial[Price]", instance_type: str
) -> Iterator[Price | Note]:
    if price is None:
        yield Note("no_price", instance_type)
        return
    if purchase is Purchase.MONTH:
        yield from _term_prices(price, priced, instance_type)
    else:
        yield _hour_price(price, purchase, priced, instance_type)
    yield from price.leftovers(_PRICE)


def _hour_price(price: Record, purchase: Purchase, priced: "partial[Price]", instance_type: str) -> Price | Note:
    payable, before = price.number_or_none("UnitPriceDiscount"), price.number_or_none("UnitPrice")
    unit = price.text_or_none("ChargeUnit")
    if unit != "HOUR":
        return Note("unknown_charge_unit", unit or "")
    if purchase is Purchase.SPOT:
        before = None  # a spot row's UnitPrice is the price on demand, some five times the spot price
    nanos, list_nanos = _payable(payable, before), price_nanos(before)
    if nanos is None:
        return _unpriced(instance_type, payable, before)
    return priced(purchase=purchase, nanos=nanos, list_nanos=list_nanos if list_nanos != nanos else None)


def _term_prices(price: Record, priced: "partial[Price]", instance_type: str) -> Iterator[Price | Note]:
    """A price for each prepaid term that has one. Missed is the month, or a term that has only a list price."""
    unit = price.text_or_none("ChargeUnit")
    if unit not in TERM_UNITS:
        yield Note("unknown_charge_unit", unit or "")
        return
    for purchase, ending in TERMS.items():
        months = TERM_MONTHS[purchase]
        payable, before = (price.number_or_none(f"{kind}Price{ending}") for kind in ("Discount", "Original"))
        total, list_total = _payable(payable, before), price_nanos(before)
        nanos = term_hour_nanos(total, months) if total else 0
        if nanos:
            list_nanos = term_hour_nanos(list_total, months) if list_total and list_total != total else None
            listed = partial(priced, list_nanos=list_nanos or None)
            yield listed(purchase=purchase, nanos=nanos, upfront_nanos=total, term_months=months)
        elif purchase is Purchase.MONTH or list_total:
            yield _unpriced(instance_type, payable, before)


def _payable(payable: Decimal | None, before: Decimal | None) -> int | None:
    """The amount paid; the one before discounts only where none is stated: a stated 0 is no price, and no discount."""
    return price_nanos(before if payable is None else payable)


def _unpriced(instance_type: str, *amounts: Decimal | None) -> Note:
    stated = any(amount is not None for amount in amounts)
    return Note("non_positive_price" if stated else "no_price", instance_type)
