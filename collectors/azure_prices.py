"""The items of Azure's retail prices, read: which is a Linux machine's price, and under which purchase. Pure.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices. An item is taken for what it
says of itself, never for where it stands: beside the price on demand there are Windows, Low Priority, Cloud Services,
Dev/Test, dedicated hosts and placeholders at 0, under the same size.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from catalog.facts import Fact, Machine, Note, Price
from catalog.money import price_nanos, term_hour_nanos
from catalog.words import TERM_MONTHS, Purchase
from collectors.azure_machine import machine_of, spelt_size
from collectors.base import Page
from collectors.reading import Record, record_of

SOURCE = {"USD": "Azure Retail Prices", "CNY": "Azure China price sheet"}
SERVICE = "Virtual Machines"
OTHER_PRODUCTS = (
    ("Windows", re.compile(r"\bWin")),  # also `… Srs Win`
    ("Cloud Services", re.compile(r"Cloud ?Services", re.IGNORECASE)),
    ("Dedicated Host", re.compile(r"\bDedicated\b", re.IGNORECASE)),
)
"""In a product's name: what is not a Linux machine."""
OTHER_METERS = (("Low Priority", re.compile(r"\bLow Priority\b", re.IGNORECASE)),)
_SPOT = re.compile(r"\bSpot\b", re.IGNORECASE)
_HOURS = re.compile(r"([1-9]\d{0,5}) Hours?")
TERMS = {"1 Year": Purchase.RESERVED_1Y, "3 Years": Purchase.RESERVED_3Y}
PLANS = {"1 Year": Purchase.SAVINGS_1Y, "3 Years": Purchase.SAVINGS_3Y}
"""A savings plan's price is one of an hour, and nothing is paid in advance."""
LEAST_SHARE = Fraction(1, 100)
"""Of the price on demand. An hour's price that is spread over a year comes to some ten-thousandth of it."""

_ITEM = frozenset(
    {
        "unitPrice", "location", "meterId", "productId", "skuId", "serviceId", "serviceFamily", "BillingCurrency",
        "priceType", "term", "availabilityId", "armRegionId",
    }
)  # fmt: skip
_PLAN = frozenset(("unitPrice",))
_ANSWER = frozenset(("BillingCurrency", "CustomerEntityId", "CustomerEntityType", "NextPageLink", "Count"))


@dataclass(frozen=True, slots=True)
class Meter:
    """A price of a machine, as one item states it."""

    region: str
    size: str
    purchase: Purchase
    nanos: int
    primary: bool | None
    since: datetime | None
    upfront_nanos: int | None = None
    term_months: int | None = None

    def rank(self) -> tuple[bool, datetime]:
        """Of several the last one counts: that of the primary region's meter, and the one in force for less long."""
        return self.primary is True, self.since or datetime.min.replace(tzinfo=UTC)

    def price(self, currency: str) -> Price:
        """The fact."""
        return Price(
            region=self.region,
            instance_type=self.size,
            purchase=self.purchase,
            nanos=self.nanos,
            currency=currency,
            source=SOURCE[currency],
            upfront_nanos=self.upfront_nanos,
            term_months=self.term_months,
        )


def facts_of(page: Page, currency: str) -> Iterator[Fact | Note]:
    """A Machine and its Prices for each size of a region, notes for the items that are something else."""
    answer = record_of(page)
    sizes: dict[_Place, _Size] = {}
    for record in answer.records("Items"):
        place = _place(record, page)
        if isinstance(place, Note):
            yield place
            continue
        said, size = _read(record, page.at, currency, place), sizes.setdefault(place, _Size([]))
        if said.purchase is Purchase.ON_DEMAND:
            size.on_demand = True
        if isinstance(said.found, Note):
            yield said.found
        else:
            size.meters += [said.found, *said.plans]
            yield from record.leftovers(_ITEM)
    for place, size in sizes.items():
        yield from _of_size(place, size, currency)
    yield from answer.leftovers(_ANSWER)


_Place = tuple[str, str]
"""Region and size."""


@dataclass(slots=True)
class _Size:
    meters: list[Meter]
    on_demand: bool = False
    """Whether it is listed on demand, priced or not."""


@dataclass(frozen=True, slots=True)
class _Said:
    found: Meter | Note
    purchase: Purchase | None = None
    plans: Sequence[Meter] = ()


def _place(record: Record, page: Page) -> _Place | Note:
    size, region = record.text_or_none("armSkuName"), (record.text_or_none("armRegionName") or "").casefold()
    if not (size and region):
        return Note("incomplete_item", size or "", record=True)
    if page.place and region != page.place:
        return Note("other_region", region, record=True)
    return region, spelt_size(size)


def _read(record: Record, now: datetime, currency: str, place: _Place) -> _Said:
    """What an item says of a size: the price of a Linux machine, or why it is none."""
    product, sku, meter, service = (
        record.text_or_none(name) for name in ("productName", "skuName", "meterName", "serviceName")
    )
    if not (product and sku and meter and service):
        return _Said(Note("incomplete_item", place[1], record=True))
    names = f"{sku}\n{meter}"
    if reason := _another_product(service, product, names):
        return _Said(Note("another_product", reason, record=True))
    return _priced(record, now, currency, place, is_spot=bool(_SPOT.search(names)))


def _another_product(service: str, product: str, names: str) -> str | None:
    if service != SERVICE:
        return service
    return next(
        (reason for reason, word in OTHER_PRODUCTS if word.search(product)),
        next((reason for reason, word in OTHER_METERS if word.search(f"{names}\n{product}")), None),
    )


def _priced(record: Record, now: datetime, currency: str, place: _Place, *, is_spot: bool) -> _Said:
    kind, term, unit = (record.text_or_none(name) for name in ("type", "reservationTerm", "unitOfMeasure"))
    amount, tier = record.number_or_none("retailPrice"), record.number_or_none("tierMinimumUnits")
    stated = record.text_or_none("currencyCode")
    begins, ends = _time(record.text_or_none("effectiveStartDate")), _time(record.text_or_none("effectiveEndDate"))
    purchase, months = _purchase(kind, term, is_spot=is_spot)
    hours = _hours(unit, months)
    if purchase is None:
        said = kind if kind in _NEVER else f"type {kind}, term {term}"
        return _Said(Note("another_product", said or "", record=True))
    what = f"{place[1]} {purchase}"
    if fault := _fault(amount, stated == currency, hours, tier, in_force=not _outside(now, begins, ends)):
        value = f"{what} {unit}" if fault == "unknown_unit" else what
        return _Said(Note(fault, value, record=True), purchase)
    total = price_nanos(Fraction(amount or 0) / (hours or 1))
    nanos = term_hour_nanos(total, months) if total and months else total
    if not total or not nanos:
        return _Said(Note("no_price", what, record=True), purchase)
    primary = _flag(record.raw("isPrimaryMeterRegion", None))
    meter = Meter(*place, purchase, nanos, primary, begins, total if months else None, months)
    return _Said(meter, purchase, list(_plans(record, meter, hours or 1)))


def _plans(record: Record, meter: Meter, hours: int) -> Iterator[Meter]:
    """The prices under savings plans that stand in the item of the price on demand, of the same unit."""
    for value in record.list_or_none("savingsPlan") or ():
        plan = record.inside(value, "savingsPlan")
        term, amount = plan.text_or_none("term"), plan.number_or_none("retailPrice")
        purchase, nanos = PLANS.get(term or ""), price_nanos(Fraction(amount or 0) / hours)
        if purchase and nanos and meter.purchase is Purchase.ON_DEMAND:
            yield replace(meter, purchase=purchase, nanos=nanos)
        else:
            record.notes.append(Note("unknown_savings_plan", f"{meter.size} {term}"))
        record.notes.extend(plan.leftovers(_PLAN))


_NEVER = ("DevTestConsumption", "SavingsPlanConsumption")


def _purchase(kind: str | None, term: str | None, *, is_spot: bool) -> tuple[Purchase | None, int | None]:
    """The purchase of an item, and the months of its term. None for one that is no purchase of ours."""
    if kind == "Consumption" and term is None:
        return (Purchase.SPOT if is_spot else Purchase.ON_DEMAND), None
    if kind == "Reservation" and not is_spot:
        purchase = TERMS.get(term or "")
        return purchase, None if purchase is None else TERM_MONTHS[purchase]
    return None, None


def _hours(unit: str | None, months: int | None) -> int | None:
    """What the amount is divided by: `100 Hours`. A reservation says `1 Hour` of its whole term; another unit of one
    was never seen, and is not understood.
    """
    found = _HOURS.fullmatch(unit or "")
    hours = int(found[1]) if found else None
    return hours if not months or hours == 1 else None


def _fault(
    amount: Decimal | None, ours: bool, hours: int | None, tier: Decimal | None, *, in_force: bool
) -> str | None:
    """Why an amount is no price: the kind of its note."""
    if amount is None:
        return "no_price"
    if amount <= 0:
        return "non_positive_price"
    if not ours:
        return "unknown_currency"
    if hours is None:
        return "unknown_unit"
    if tier:
        return "higher_tier"
    return None if in_force else "not_in_force"


def _outside(now: datetime, begins: datetime | None, ends: datetime | None) -> bool:
    return (begins is not None and begins > now) or (ends is not None and ends <= now)


def _time(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _flag(value: object) -> bool | None:
    """JSON's, or the price sheet's text."""
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).casefold())


def _of_size(place: _Place, size: _Size, currency: str) -> Iterator[Fact | Note]:
    """The machine with the one price of each purchase, and a note for every other."""
    by_purchase: dict[Purchase, list[Meter]] = {}
    for meter in size.meters:
        by_purchase.setdefault(meter.purchase, []).append(meter)
    listed = frozenset({Purchase.ON_DEMAND} if size.on_demand else ())
    machine = Machine(region=place[0], instance_type=place[1], gpu=None, gpu_count=None, purchases=listed)
    yield from machine_of(machine, None)
    chosen = {purchase: _chosen(of_purchase) for purchase, of_purchase in by_purchase.items()}
    on_demand = chosen.get(Purchase.ON_DEMAND)
    for purchase, of_purchase in by_purchase.items():
        what, taken = f"{place[1]} {purchase}", chosen[purchase]
        if taken and on_demand and taken.term_months and taken.nanos < on_demand.nanos * LEAST_SHARE:
            yield Note("implausible_reservation", what, record=True)
        elif taken:
            yield taken.price(currency)
        yield from _passed_over(what, of_purchase, taken)
    if on_demand is None:
        yield Note("no_price_on_demand", place[1])


def _chosen(meters: Sequence[Meter]) -> Meter | None:
    """The one that counts; None where those that may count do not agree: nothing says which is right."""
    best = max(meter.rank() for meter in meters)
    equals = [meter for meter in meters if meter.rank() == best or meter.since is None or meter.primary is None]
    return equals[0] if len({meter.nanos for meter in equals}) == 1 else None


def _passed_over(what: str, meters: Sequence[Meter], taken: Meter | None) -> Iterator[Note]:
    """A note for each item of a purchase that is not its price."""
    for meter in meters:
        is_record = meter.purchase not in PLANS.values()
        if taken is None:
            yield Note("ambiguous_price", what, record=is_record)
        elif meter is not taken:
            again = meter.nanos == taken.nanos
            yield Note("same_price_again" if again else "superseded_price", what, record=is_record)
