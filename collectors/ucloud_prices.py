"""What a UCloud machine costs: `GetUHostInstancePrice` for one size, and how its charge types become prices an hour."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial

from catalog.facts import Note, Price
from catalog.money import price_nanos, term_hour_nanos
from catalog.units import MIB_PER_GIB
from catalog.words import TERM_MONTHS, Purchase
from collectors.base import Cell, Config, Page
from collectors.reading import Record, record_of
from collectors.ucloud_api import ENVELOPE, PARAMETER, call, is_of_order, refusal
from collectors.ucloud_machine import Size

ACTION = "GetUHostInstancePrice"
CURRENCY = "CNY"
"""No answer names it; UCloud's pages say yuan for every region."""
HOURLY = {"Dynamic": Purchase.ON_DEMAND, "Spot": Purchase.SPOT}
"""Charge types whose price is an hour's. `Dynamic` is paid an hour in advance."""
TERMS = {"Month": Purchase.MONTH, "Year": Purchase.RESERVED_1Y}
"""Charge types whose price is a whole term's."""
SPOT = "Spot"
"""The charge type that is asked for by itself: without one, UCloud's page says, year, month and hour are answered."""
BOOT_DISK = {"IsBoot": "True", "Type": "CLOUD_RSSD", "Size": 20}
"""No price is told without a boot disk; this is the least one. Its part of the price is left out where it is told."""

_UNUSED = frozenset(("ListPrice",))  # the whole machine's with its disk, before all discounts


def pages(config: Config, size: Size, cell: Cell, now: datetime) -> Iterator[Page]:
    """A page of what is to be kept, and one of spot. A refusal of the order is an answer too."""
    for charge, passing in (("", is_of_order), (SPOT, _is_of_spot)):
        body = call(config, ACTION, order(size, cell.place, charge), cell, now, passing)
        yield Page(" ".join(filter(None, (ACTION, cell.place, cell.part, charge))), body, now, cell.place, cell.part)


def _is_of_spot(code: int) -> bool:
    """As spot, a machine is refused by the charge type too."""
    return is_of_order(code) or code == PARAMETER


def read_prices(page: Page) -> Iterator[Price | Note]:
    """The price of each charge type that is told; a note where the order is refused. Of spot there may be none."""
    answer = record_of(page)
    of_spot = page.name.endswith(f" {SPOT}")
    if code := refusal(answer, _is_of_spot if of_spot else is_of_order):
        yield Note("not_priced", f"{page.part}{f' {SPOT}' if of_spot else ''}: RetCode {code}")
        return
    rows = list(answer.records("PriceSet") if of_spot else answer.filled("PriceSet"))
    if not rows:
        yield Note("not_priced", f"{page.part} {SPOT}")
    for row in rows:
        yield from _read_price(row, page, of_spot=of_spot)
    yield from answer.leftovers(ENVELOPE)


def order(size: Size, region: str, charge: str = "") -> Mapping[str, object]:
    """What to ask for: one machine, with the amounts told apart."""
    asked: dict[str, object] = {"ChargeType": charge} if charge else {}
    return asked | {
        "Region": region,
        "MachineType": "G",
        "GpuType": size.card,
        "GPU": size.cards,
        "CPU": size.vcpus,
        "Memory": size.memory_gib * MIB_PER_GIB,
        "Count": 1,
        "Disks": [BOOT_DISK],
        "ShowPriceDetails": True,
    }


def _read_price(row: Record, page: Page, *, of_spot: bool) -> Iterator[Price | Note]:
    """The price of one charge type: the machine's own part of it.

    Where that is not told apart, the whole, with its disk, is taken as an estimate, and noted. What was not asked for
    by name is in the other page.
    """
    charge = row.text_or_none("ChargeType")
    if of_spot and charge != SPOT:
        yield Note("other_charge_type", charge or page.part, record=True)
        return
    detail, before = (row.record_or_none(f"{kind}Detail") for kind in ("Price", "OriginalPrice"))
    total, list_total = row.number_or_none("Price"), row.number_or_none("OriginalPrice")
    alone = detail.number_or_none("UHost") if detail else None
    if alone is not None:
        total, list_total = alone, before.number_or_none("UHost") if before else None
    priced = partial(
        Price,
        region=page.place,
        instance_type=page.part,
        currency=CURRENCY,
        source=ACTION,
        estimated=alone is None,
    )
    found = charged(charge, total, list_total, priced, page.part)
    yield found
    if isinstance(found, Price) and found.estimated:
        yield Note("price_with_disk", charge or "")
    yield from row.leftovers(_UNUSED)


def charged(
    charge: str | None, payable: Decimal | None, before: Decimal | None, priced: "partial[Price]", name: str
) -> Price | Note:
    """The price of a charge type: by the hour, or a term's total over its hours with the total beside."""
    if charge not in HOURLY and charge not in TERMS:
        return Note("other_charge_type", charge or name, record=True)
    nanos, list_nanos = price_nanos(payable), price_nanos(before)
    if list_nanos == nanos:
        list_nanos = None
    if charge in HOURLY and nanos:
        return priced(purchase=HOURLY[charge], nanos=nanos, list_nanos=list_nanos)
    if charge in TERMS and nanos:
        purchase = TERMS[charge]
        months = TERM_MONTHS[purchase]
        hour, list_hour = (term_hour_nanos(total, months) if total else None for total in (nanos, list_nanos))
        if hour:
            listed = list_hour or None
            return priced(purchase=purchase, nanos=hour, list_nanos=listed, upfront_nanos=nanos, term_months=months)
    return Note("no_price" if payable is None else "non_positive_price", name, record=True)
