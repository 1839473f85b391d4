"""The rows of AWS's price list, read: which is a Linux machine's price, and of which purchase. Pure.

A row is taken for what its attributes say, never for where it stands. Nearly the same row is there for Windows, RHEL,
SUSE, SQL Server, dedicated hosts, reservations of capacity (at 0) and capacity blocks (at 0, or at a fee for Ubuntu).
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from operator import itemgetter

from catalog.facts import Fact, Machine, Note, Price
from catalog.money import HOURS_PER_MONTH, price_nanos
from catalog.numbers import decimal_or_none
from catalog.units import MIB_PER_GIB
from catalog.words import TERM_MONTHS, Purchase
from collectors.aws_ec2 import currency_of
from collectors.aws_machine import established, family, is_accelerated, is_bare_metal
from collectors.base import Drift, Page
from collectors.reading import MOST_CARDS, positive_or_none, whole_or_none

SOURCE = "AmazonEC2 price list"
Row = Mapping[str, str]

LINUX = {
    "Location Type": "AWS Region",
    "Operating System": "Linux",
    "License Model": "No License required",
    "CapacityStatus": "Used",
}
ALWAYS_FILLED = (
    *LINUX, "TermType", "Unit", "PricePerUnit", "Currency", "Product Family", "Region Code", "Instance Type", "Tenancy",
    "operation", "MarketOption",
)  # fmt: skip
OF_RESERVATIONS = ("LeaseContractLength", "PurchaseOption", "OfferingClass")
COLUMNS = frozenset({*ALWAYS_FILLED, *OF_RESERVATIONS, "Instance Family", "vCPU", "Memory", "GPU", "Pre Installed S/W"})
SHARED = ("Compute Instance", "Shared")
SOLD_AS = (SHARED, ("Compute Instance (bare metal)", "Shared"), ("Compute Instance (bare metal)", "Dedicated"))
"""Product family and tenancy of a machine as anybody rents it; bare metal is dedicated by nature, and listed so."""
TERMS = {"1yr": Purchase.RESERVED_1Y, "3yr": Purchase.RESERVED_3Y}
OPTIONS = {"No Upfront": ("Hrs",), "Partial Upfront": ("Hrs", "Quantity"), "All Upfront": ("Hrs", "Quantity")}
"""The units of the rows that make up an option's price: so much an hour, and so much once."""
WITHOUT_ACCELERATOR = frozenset(
    {
        "General purpose", "Compute optimized", "Memory optimized", "Storage optimized", "Micro instances",
        "FPGA Instances",
    }
)  # fmt: skip


def facts_of(page: Page) -> Iterator[Fact | Note]:
    """A Machine and its Prices for each instance type of a page of the file."""
    yield from facts_of_rows(page, list(_rows(page)), SOURCE)


def facts_of_rows(page: Page, rows: Sequence[Row], source: str) -> Iterator[Fact | Note]:
    """A Machine and its Prices for each instance type, notes for the rows that are something else."""
    _require_filled(page, rows, ALWAYS_FILLED)
    _require_filled(page, [row for row in rows if row["TermType"] == "Reserved"], OF_RESERVATIONS)
    by_type: dict[str, list[Row]] = {}
    for row in rows:
        if reason := _another_product(row, page.place):
            yield Note("another_product", reason, record=True)
        else:
            by_type.setdefault(row["Instance Type"], []).append(row)
    for instance_type, of_type in by_type.items():
        yield from _of_type(_Type(page.place, instance_type, of_type, source))


def _require_filled(page: Page, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """A column that is there and empty throughout has been moved: Drift, where reading on would lose every price."""
    for column in columns:
        if rows and not any(row[column] for row in rows):
            raise Drift(f"{page.name}: the column {column} is empty in all {len(rows)} rows")


def header_fault(header: Sequence[str]) -> str | None:
    """Why rows under these column names cannot be read; None where they can."""
    if lacking := COLUMNS - set(header):
        return f"the columns {', '.join(sorted(lacking))} are missing"
    twice = sorted({name for name in header if header.count(name) > 1})
    return f"the columns {', '.join(twice)} are there twice" if twice else None


def _rows(page: Page) -> Iterator[Row]:
    """The rows with the cells of COLUMNS."""
    rows = _cells(page)
    header = next(rows, [])
    if fault := header_fault(header):
        raise Drift(f"{page.name}: {fault}")
    wanted = itemgetter(*map(header.index, COLUMNS))
    for row in rows:
        if len(row) != len(header):
            raise Drift(f"{page.name}: a row of {len(row)} columns where there are {len(header)}")
        cells = dict(zip(COLUMNS, wanted(row), strict=True))
        cells["Instance Type"] = cells["Instance Type"].strip()
        yield cells


def _cells(page: Page) -> Iterator[list[str]]:
    if not page.body.endswith(b"\n"):
        raise Drift(f"{page.name}: the page does not end with a whole line")
    try:
        yield from csv.reader(io.StringIO(page.body.decode(), newline=""), strict=True)
    except (ValueError, csv.Error) as error:
        raise Drift(f"{page.name}: the page is not CSV") from error


def _another_product(row: Row, region: str) -> str | None:
    """The attribute by which a row is not a plain Linux machine of the region; None where it is one."""
    for column, value in (*LINUX.items(), ("Region Code", region)):
        if row[column] != value:
            return f"{column} {row[column]!r}"
    if not row["Instance Type"]:
        return "Instance Type ''"
    if row["Pre Installed S/W"] not in ("", "NA"):
        return f"Pre Installed S/W {row['Pre Installed S/W']!r}"
    if (row["Product Family"], row["Tenancy"]) not in SOLD_AS:
        return f"Tenancy {row['Tenancy']!r} of {row['Product Family']!r}"
    if _is_block(row):
        return None
    for column, value in (("operation", "RunInstances"), ("MarketOption", "OnDemand")):
        if row[column] != value:
            return f"{column} {row[column]!r}"
    return None if row["TermType"] in ("OnDemand", "Reserved") else f"TermType {row['TermType']!r}"


def _is_block(row: Row) -> bool:
    return row["MarketOption"] == "CapacityBlock" or row["operation"].endswith(":CB")


@dataclass(frozen=True, slots=True)
class _Type:
    """An instance type in a region with all its rows."""

    region: str
    instance_type: str
    rows: Sequence[Row]
    source: str

    def price(
        self, row: Row, purchase: Purchase, nanos: int, upfront_nanos: int | None = None, months: int | None = None
    ) -> Price:
        return Price(
            region=self.region,
            instance_type=self.instance_type,
            purchase=purchase,
            nanos=nanos,
            currency=row["Currency"],
            source=self.source,
            upfront_nanos=upfront_nanos,
            term_months=months,
        )


def _of_type(one: _Type) -> Iterator[Fact | Note]:
    rows: dict[str, list[Row]] = {"OnDemand": [], "Reserved": [], "block": []}
    for row in one.rows:
        rows["block" if _is_block(row) else row["TermType"]].append(row)
    yield from _machine(one, _purchases(rows))
    prices: list[Price] = []
    for found in (*_on_demand(one, rows["OnDemand"]), *_reserved(one, rows["Reserved"])):
        yield found
        prices += [found] if isinstance(found, Price) else []
    yield from (_no_price(row, f"{one.instance_type} capacity_block", "fee_is_no_price") for row in rows["block"])
    hourly = {price.purchase: price.nanos for price in prices}
    on_demand = hourly.pop(Purchase.ON_DEMAND, None)
    if on_demand is not None and any(nanos > on_demand for nanos in hourly.values()):
        yield Note("on_demand_below_reserved", one.instance_type)


def _purchases(rows: Mapping[str, Sequence[Row]]) -> frozenset[Purchase]:
    """What a type is listed for, priced or not."""
    leases = {row["LeaseContractLength"] for row in rows["Reserved"] if row["OfferingClass"] == "standard"}
    listed = {purchase for lease, purchase in TERMS.items() if lease in leases}
    listed |= {Purchase.ON_DEMAND} if rows["OnDemand"] else set()
    return frozenset(listed | {Purchase.CAPACITY_BLOCK} if rows["block"] else listed)


def _on_demand(one: _Type, rows: Sequence[Row]) -> Iterator[Price | Note]:
    """The one price that the rows agree on. Where they do not, none: nothing says which is right."""
    what = f"{one.instance_type} on_demand"
    shared = [row for row in rows if row["Tenancy"] == "Shared"] or rows
    hourly = [row for row in shared if row["Unit"] == "Hrs" and _currency(row)]
    found = [(nanos, row) for row in hourly if (nanos := price_nanos(row["PricePerUnit"]))]
    priced = [row for _, row in found]
    if len({(nanos, row["Currency"]) for nanos, row in found}) == 1:
        yield one.price(priced[0], Purchase.ON_DEMAND, found[0][0])
        yield from (Note("same_price_again", what, record=True) for _ in priced[1:])
    else:
        yield from (Note("ambiguous_price", what, record=True) for _ in priced)
    for row in rows:
        if row not in shared:
            yield Note("dedicated_beside_shared", what, record=True)
        elif row not in priced:
            yield _no_price(row, what, "unknown_unit")


def _no_price(row: Row, what: str, otherwise: str) -> Note:
    """Why a row is no price. `otherwise`: the reason where its amount is a positive one."""
    amount = decimal_or_none(row["PricePerUnit"])
    if amount is None:
        return Note("no_price", what, record=True)
    if amount <= 0:
        return Note("non_positive_price", what, record=True)
    if not _currency(row):
        return Note("unknown_currency", f"{what} {row['Currency']}", record=True)
    return Note(otherwise, what, record=True)


@dataclass(frozen=True, slots=True)
class _Quote:
    """A reserved option: exact, per hour of the term with what is paid up front in it, and the same in nano-units."""

    option: str
    rows: Sequence[Row]
    hour: Fraction = Fraction(0)
    upfront: Decimal = Decimal(0)
    nanos: int | None = None
    """None where the option is not whole, or its amounts make no sense."""
    upfront_nanos: int | None = None

    def order(self) -> tuple[Fraction, Decimal, str]:
        return self.hour, self.upfront, self.option


def _reserved(one: _Type, rows: Sequence[Row]) -> Iterator[Price | Note]:
    """For each term the option that is cheapest in all: the up-front amount spread over the term, plus the hour."""
    options: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        lease, option = row["LeaseContractLength"], row["PurchaseOption"]
        if lease in TERMS and option in OPTIONS and row["OfferingClass"] == "standard":
            options.setdefault(lease, {}).setdefault(option, []).append(row)
        else:
            yield Note("other_reservation", f"{lease} {row['OfferingClass']} {option}", record=True)
    for lease, by_option in options.items():
        quotes = [_quote(option, of_option, TERM_MONTHS[TERMS[lease]]) for option, of_option in by_option.items()]
        whole = sorted((quote for quote in quotes if quote.nanos), key=_Quote.order)
        if whole and (nanos := whole[0].nanos):
            purchase = TERMS[lease]
            yield one.price(whole[0].rows[0], purchase, nanos, whole[0].upfront_nanos, TERM_MONTHS[purchase])
        for quote in whole[1:]:
            yield from (Note("dearer_reserved_option", f"{lease} {quote.option}", record=True) for _ in quote.rows)
        for quote in (quote for quote in quotes if not quote.nanos):
            yield from (Note("incomplete_reserved_option", f"{lease} {quote.option}", record=True) for _ in quote.rows)


def _quote(option: str, rows: Sequence[Row], months: int) -> _Quote:
    units = OPTIONS[option]
    amounts = {row["Unit"]: decimal_or_none(row["PricePerUnit"]) for row in rows if _currency(row)}
    hour, upfront = amounts.get("Hrs"), amounts.get("Quantity") if len(units) == 2 else Decimal(0)
    whole = len(rows) == len(units) and set(amounts) == set(units) and len({row["Currency"] for row in rows}) == 1
    if not whole or hour is None or upfront is None or min(hour, upfront) < 0:
        return _Quote(option, rows)
    if (len(units) == 2 and not upfront) or (option != "All Upfront" and not hour):
        return _Quote(option, rows)
    total_hour = Fraction(hour) + (Fraction(upfront) / (HOURS_PER_MONTH * months) if upfront else 0)
    nanos, upfront_nanos = price_nanos(total_hour), price_nanos(upfront)
    if upfront and upfront_nanos is None:
        return _Quote(option, rows)
    return _Quote(option, rows, total_hour, upfront, nanos, upfront_nanos)


def _machine(one: _Type, purchases: frozenset[Purchase]) -> Iterator[Machine | Note]:
    of_type = one.instance_type
    stated = {name: _agreed(one.rows, name) for name in ("vCPU", "Memory", "GPU", "Instance Family")}
    gpu_count = _count(stated["GPU"])
    accelerated = is_accelerated(of_type) or gpu_count is not None
    plain = not accelerated and stated["GPU"] in ("", "0") and stated["Instance Family"] in WITHOUT_ACCELERATOR
    machine = Machine(
        region=one.region,
        instance_type=of_type,
        gpu=None,
        gpu_count=Fraction(0) if plain else gpu_count,
        gpu_raw=family(of_type) if accelerated else "",
        vcpus=_whole(stated["vCPU"]),
        memory_mib=_memory_mib(stated["Memory"]),
        bare_metal=is_bare_metal(of_type),
        purchases=purchases,
    )
    if accelerated:
        yield from established(machine, "")
    else:
        yield machine
        if not plain:
            yield Note("unknown_family", stated["Instance Family"] or "")
    for name, size in (("vCPU", machine.vcpus), ("Memory", machine.memory_mib)):
        if size is None and stated[name] not in ("", "NA", None):
            yield Note("impossible_size", f"{name} {stated[name]}")
    yield from (Note("rows_disagree", f"{of_type} {name}") for name, value in stated.items() if value is None)


def _agreed(rows: Sequence[Row], column: str) -> str | None:
    """What the rows that fill the column say in it, "" where none does, None where they disagree."""
    values = {row[column].strip() for row in rows} - {""}
    return None if len(values) > 1 else "".join(values)


@lru_cache(maxsize=1024)  # the same few sizes are in thousands of rows
def _positive(text: str) -> Decimal | None:
    return positive_or_none(decimal_or_none(text))


def _whole(text: str | None) -> int | None:
    amount = _positive(text or "")
    return int(amount) if amount is not None and amount == amount.to_integral_value() else None


def _count(text: str | None) -> Fraction | None:
    amount = positive_or_none(_positive(text or ""), MOST_CARDS)
    return None if amount is None else Fraction(amount)


def _memory_mib(text: str | None) -> int | None:
    """`1,952 GiB`, `30.5 GiB`."""
    number, _, unit = (text or "").partition(" ")
    amount = _positive(number.replace(",", ""))
    return whole_or_none(amount * MIB_PER_GIB) if unit == "GiB" and amount is not None else None


def _currency(row: Row) -> bool:
    """Whether a row is in what AWS bills its region in: another currency is not taken for it."""
    return row["Currency"] == currency_of(row["Region Code"])
