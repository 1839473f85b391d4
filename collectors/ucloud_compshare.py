"""CompShare, UCloud's platform of single cards: how many are left in each zone, and what one costs.

It is another product than UHost, with cards and prices of its own, so its machines have names of their own. Calls:
`DescribeCompShareSupportZone`, `DescribeCompShareGpuInventory`, `GetCompShareInstancePrice`. Of the inventory the SDK's
typed call makes a text: another reason for `invoke()`.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from catalog.facts import Fact, Note, Price, Stock, Zone
from catalog.words import Evidence, Level, Purchase
from collectors.base import Cell, Config, NotServed, Page
from collectors.reading import JsonValue, Record, record_of, shown, spelt
from collectors.ucloud_api import ENVELOPE, answered, call, is_of_order, refusal
from collectors.ucloud_machine import COMPSHARE, compshare_machine, model_of
from collectors.ucloud_prices import CURRENCY, charged

PART = "compshare"
"""The part of a cell that asks for the inventory."""
ZONES_ACTION, INVENTORY_ACTION, PRICE_ACTION = (
    "DescribeCompShareSupportZone",
    "DescribeCompShareGpuInventory",
    "GetCompShareInstancePrice",
)
POOLS = {
    "Exclusive": frozenset((Purchase.ON_DEMAND, Purchase.MONTH)),
    "Spot": frozenset((Purchase.SPOT,)),
}
CHARGES = ("Dynamic", "Month")
"""One call each: without a charge type it is the month's price alone."""
FRESH_FOR = timedelta(minutes=15)
"""How long stock counts as fresh. UCloud counts anew every five minutes: what it counted longer ago than this says
nothing of now, however lately it was told.
"""

_ZONE = frozenset(("RegionId", "Describe"))
_PRICE = frozenset(("Disks", "CompShareImage", "OriginalPrice", "ListPrice", "InstanceDiscountType"))


def inventory(config: Config, cell: Cell, now: datetime) -> Page:
    """Two answers as one page, since the inventory knows zones by number alone."""
    where = {"Region": cell.place}
    zones = call(config, ZONES_ACTION, where, cell, now)
    named = _zones_of(record_of(Page(ZONES_ACTION, zones, now)))
    if not any(isinstance(one, Zone) and one.region == cell.place for one in named):
        raise NotServed(f"ucloud: CompShare names no zone in {cell.place}; asked again in a day")
    counts = call(config, INVENTORY_ACTION, where, cell, now)
    body = b'{"%b": %b, "%b": %b}' % (ZONES_ACTION.encode(), zones, INVENTORY_ACTION.encode(), counts)
    return Page(f"{INVENTORY_ACTION} {cell.place}", body, now, cell.place, PART)


def prices(config: Config, cell: Cell, now: datetime) -> Iterator[Page]:
    """A page for each charge type in each zone that names the card. The size is UCloud's own: 16 vCPUs and 32 GB."""
    card = cell.part.removeprefix(COMPSHARE)
    for zone in _zones_with(card, inventory(config, cell, now)):
        for charge in CHARGES:
            asked = {"Region": cell.place, "Zone": zone, "GpuType": card, "Gpu": "1", "ChargeType": charge}
            body = call(config, PRICE_ACTION, asked, cell, now, is_of_order)
            yield Page(f"{PRICE_ACTION} {charge} {zone}", body, now, cell.place, cell.part)


def _zones_with(card: str, page: Page) -> list[str]:
    """The zones of the page's region whose inventory names the card: pure. NotServed where none does."""
    stocks = [item for item in read_inventory(page) if isinstance(item, Stock)]
    zones = {one.zone for one in stocks if one.zone and one.instance_type == f"{COMPSHARE}{card}"}
    if not zones:
        raise NotServed(f"ucloud: CompShare names no {card} in {page.place}; asked again in a day")
    return sorted(zones)


def read_inventory(page: Page) -> Iterator[Fact | Note]:
    """Machine and Stock for each card that a zone of the page's region names: 0 is out, a card not named unknown."""
    root = record_of(page)
    zones: dict[str, Zone] = {}
    for item in _zones_of(root.record(ZONES_ACTION)):
        if isinstance(item, Zone):
            zones[item.zone_id or ""] = item
        yield item if isinstance(item, Note) or item.region == page.place else _elsewhere(item)
    answer = answered(root.record(INVENTORY_ACTION))
    without_spot = {spelt(one) for one in answer.list_or_none("SpotUnsupportedGpuTypes") or ()}
    why, noted = _age(answer, page.at)
    yield from noted
    for said in _pools(answer.record("GpuInventoryByZone"), page.place, zones, without_spot):
        yield _unknown(said, why) if why and isinstance(said, Stock) else said
    yield from (*answer.leftovers(ENVELOPE), *root.leftovers(frozenset()))


def _zones_of(answer: Record) -> Iterator[Zone | Note]:
    """The zones of all regions, each with its number."""
    for row in answered(answer).records("ZoneInfo"):
        region, zone, number = row.text_or_none("Region"), row.text_or_none("Zone"), row.size_or_none("ZoneId")
        if region is None or zone is None or number is None:
            yield Note("incomplete_zone", zone or region or "", record=True)
        else:
            yield Zone(region=region, zone=zone, zone_id=str(number))
            yield from row.leftovers(_ZONE)


def _elsewhere(zone: Zone) -> Note:
    """Each region's cell is about its own zones, whatever else an answer holds."""
    return Note("zone_of_another_region", zone.zone, record=True)


def _age(answer: Record, now: datetime) -> tuple[str, list[Note]]:
    """Why the counts say nothing of now, "" where they do; and a note of it."""
    counted = answer.unlimited_or_none("UpdateTime")
    if counted is None:
        return "UCloud does not say when it counted", [Note("inventory_without_time", "")]
    age_s = int(now.timestamp()) - counted
    if abs(age_s) <= FRESH_FOR.total_seconds():
        return "", []
    if age_s < 0:
        return f"UCloud says that it counted at {counted}, which is to come", [Note("inventory_to_come", f"{counted}")]
    at = f"{datetime.fromtimestamp(counted, UTC):%Y-%m-%d %H:%M}"
    return f"UCloud counted last at {at} UTC", [Note("old_inventory", at)]


def _pools(answer: Record, region: str, zones: dict[str, Zone], without_spot: set[str]) -> Iterator[Fact | Note]:
    named: set[str] = set()
    for pool in POOLS:
        by_zone = _object(answer, pool)
        of_zone = Record(by_zone, f"{answer.where}.{pool}", None, answer.notes)
        for number in by_zone:
            zone = zones.get(number)
            if zone is None or zone.region != region:
                yield Note("unknown_zone", number, record=True) if zone is None else _elsewhere(zone)
                continue
            for card, left in _counts(of_zone, number):
                if not card.strip() or (pool == "Spot" and card in without_spot):
                    yield Note("card_not_sold_as_spot" if card.strip() else "row_without_machine", card, record=True)
                    continue
                if card not in named:
                    named.add(card)
                    yield from _machine(region, card)
                yield _stock(zone, card, pool, left)
    yield from answer.leftovers(frozenset())


def _counts(of_zone: Record, number: str) -> Iterator[tuple[str, int | None]]:
    """Card, and how many are left. A number that cannot be is unknown, and noted."""
    counts = _object(of_zone, number)
    of_card = Record(counts, f"{of_zone.where}.{number}", None, of_zone.notes)
    for card in counts:
        yield card, of_card.count_or_none(card)


def _machine(region: str, card: str) -> Iterator[Fact | Note]:
    model = model_of(card)
    yield compshare_machine(region, model)
    yield from model.notes


def _stock(zone: Zone, card: str, pool: str, left: int | None) -> Stock:
    level = Level.UNKNOWN if left is None else Level.IN_STOCK if left else Level.OUT
    return Stock(
        region=zone.region,
        zone=zone.zone,
        instance_type=f"{COMPSHARE}{card}",
        purchases=POOLS[pool],
        level=level,
        evidence=Evidence.REPORTED,
        detail=pool,
        quantity=left,
    )


def _unknown(stock: Stock, why: str) -> Stock:
    return replace(stock, level=Level.UNKNOWN, quantity=None, detail=f"{stock.detail}: {why}")


def _object(holder: Record, name: str) -> dict[str, JsonValue]:
    """An object whose keys are data; an absent one has none."""
    value = holder.raw(name, None)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise holder.drift(f"{name} is not an object but {shown(value)}")
    return value


def read_prices(page: Page) -> Iterator[Fact | Note]:
    """The price of one card for the charge type and in the zone that the page names last: the card's own part, without
    disk and image; a note where it is refused, and of a charge type that was not asked for.
    """
    answer = record_of(page)
    _, asked, zone = page.name.split(" ")
    if code := refusal(answer, is_of_order):
        yield Note("not_priced", f"{page.part} in {zone}: RetCode {code}")
        return
    listed = {
        row.text_or_none("ChargeType"): row.number_or_none("Instance")
        for row in (answer.records("ListPriceDetail") if answer.has("ListPriceDetail") else ())
    }
    priced = partial(
        Price, region=page.place, zone=zone, instance_type=page.part, currency=CURRENCY, source=PRICE_ACTION
    )
    for row in answer.filled("PriceDetail"):
        charge, payable = row.text_or_none("ChargeType"), row.number_or_none("Instance")
        if charge == asked:
            yield charged(charge, payable, listed.get(charge), priced, page.part)
        else:
            yield Note("other_charge_type", charge or page.part, record=True)
        yield from row.leftovers(_PRICE)
    yield from answer.leftovers(ENVELOPE | {"OriginalPriceDetail"})
