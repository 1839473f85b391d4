"""Alibaba Cloud's prices, asked for machine by machine: by the hour and by the month, and as spot in each zone.

Nothing lists them: a call a price, at a call a second. So these are feeds by machine, each cell with a time of its own,
and the one that was never read, or longest ago, is read next.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import ClassVar, TypeAlias

from catalog.facts import Note, Price
from catalog.money import price_nanos, term_hour_nanos
from catalog.words import Level, Purchase
from collectors.alibaba_api import NAME, call, code_of
from collectors.base import Cell, Config, Limit, Page
from collectors.reading import Record, record_of
from collectors.zones import is_lettered

CURRENCIES = {"cn": "CNY", "intl": "USD"}
"""By the account's site. Every answer names its currency too: one of another is no price of this account."""
PRICE_ACTION, SPOT_ACTION = "DescribePrice", "DescribeSpotPriceHistory"
CALLS_PER_SECOND = 1.0
"""Of one action in one region. The quota stands in the account's Quota Center alone, and its other tools share it."""
UNPRICED = frozenset(("InvalidInstanceType.ValueNotSupported", "InvalidInstanceType.ValueUnauthorized"))
"""Refusals that say: not sold in this region, or not to this account."""
OTHER_DISK = frozenset(("InvalidSystemDiskCategory.ValueNotSupported",))
"""The refusal of a machine that cannot have the disk which is meant by default."""
UNITS = ("Hour", "Month")
OF_THE_MACHINE = ("instanceType", "instance")
"""How the part of a price is called that is the machine's own: as seen, and as documented."""
SPOT_WINDOW = timedelta(days=1)
MOST_PAGES = 20

_ANSWER = frozenset(("RequestId", "NextOffset"))
_PRICED = frozenset(("OriginalPrice", "TradePrice", "DiscountPrice", "ReservedInstanceHourPrice", "SubRules"))
_REFUSAL = frozenset(("RequestId", "HostId", "Message", "Recommend"))
_Item: TypeAlias = Price | Note


def limit_of(action: str, cell: Cell) -> Limit:
    """Alibaba counts each action of an account in each region by itself."""
    return Limit(f"{NAME}:ecs:{cell.place}:{action}", CALLS_PER_SECOND)


@dataclass(frozen=True, slots=True)
class _ByMachine:
    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str]
    action: ClassVar[str]
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - the contract's argument
        """None by regions alone."""
        return ()

    def cells_of(self, machines: Mapping[str, Iterable[str]]) -> Iterable[Cell]:
        """One for each machine in each region."""
        return [Cell(NAME, self.name, region, machine) for region, those in machines.items() for machine in those]

    def limit(self, cell: Cell) -> Limit:
        """Its action's in the region."""
        return limit_of(self.action, cell)


@dataclass(frozen=True, slots=True)
class Prices(_ByMachine):
    """What a machine costs on demand and by the month, the disk left out."""

    name: ClassVar[str] = "prices"
    every: ClassVar[timedelta] = timedelta(days=1)  # list prices move a few times a year
    fresh_for: ClassVar[timedelta] = timedelta(days=3)
    action: ClassVar[str] = PRICE_ACTION

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """A call for each unit; one more where the machine cannot have the disk that is meant by default."""
        asked = {"RegionId": cell.place, "ResourceType": "instance", "InstanceType": cell.part, "Period": "1"}
        ask = partial(call, self.config, cell.place, PRICE_ACTION, cell=cell, now=now, passing=UNPRICED | OTHER_DISK)
        for unit in UNITS:
            body = ask(asked | {"PriceUnit": unit})
            if code_of(body)[0] in OTHER_DISK and "SystemDisk.Category" not in asked:
                asked["SystemDisk.Category"] = "cloud_essd"
                body = ask(asked | {"PriceUnit": unit})
            yield Page(f"{PRICE_ACTION} {cell.place} {cell.part} {unit}", body, now, cell.place, cell.part)

    def parse(self, page: Page) -> Iterator[_Item]:
        """A Price, or a note of why there is none: that a machine is not sold somewhere is no failure."""
        answer = record_of(page)
        unit = page.name.rpartition(" ")[2]
        if answer.has("Code"):
            yield from _unsold(answer, f"{page.part} {unit}", UNPRICED | OTHER_DISK)
            return
        info = answer.record("PriceInfo")
        yield from _price(info.record("Price"), unit, page, CURRENCIES[self.config.site or ""])
        yield from info.leftovers(frozenset(("Rules", "RelatedPrice")))
        yield from answer.leftovers(_ANSWER)


@dataclass(frozen=True, slots=True)
class Spot(_ByMachine):
    """What a machine costs as spot in each zone now. A spot price is not stock."""

    name: ClassVar[str] = "spot"
    every: ClassVar[timedelta] = timedelta(minutes=30)  # Alibaba states a price an hour
    fresh_for: ClassVar[timedelta] = timedelta(minutes=90)
    action: ClassVar[str] = SPOT_ACTION

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """A call for each page of the last day, read as one: the latest price may be in any of them."""
        asked: dict[str, object] = {"RegionId": cell.place, "InstanceType": cell.part, "NetworkType": "vpc"}
        asked |= {"OSType": "linux", "StartTime": f"{now - SPOT_WINDOW:%Y-%m-%dT%H:%M:%SZ}"}
        pages: list[Page] = []
        offset = 0
        for _ in range(MOST_PAGES):
            body = call(self.config, cell.place, SPOT_ACTION, asked | {"Offset": offset or None}, cell, now, UNPRICED)
            pages.append(Page(f"{SPOT_ACTION} {cell.place} {cell.part}", body, now, cell.place, cell.part))
            following = record_of(pages[-1]).unlimited_or_none("NextOffset") or 0
            if following <= offset:
                yield pages[0] if len(pages) == 1 else _joined(pages)
                return
            offset = following
        raise record_of(pages[-1]).drift(f"NextOffset comes to no end after {MOST_PAGES} pages")

    def parse(self, page: Page) -> Iterator[_Item]:
        """The latest price of each zone."""
        answer = record_of(page)
        if answer.has("Code"):
            yield from _unsold(answer, f"{page.part} spot", UNPRICED)
            return
        currency = answer.text_or_none("Currency")
        rows: dict[str, list[_SpotRow]] = {}
        for record in answer.record("SpotPrices").records("SpotPriceType"):
            row = _SpotRow.read(record)
            if not is_lettered(row.zone, page.place):
                yield Note("other_region", row.zone, record=True)
            elif row.other(page.part):
                yield Note("other_spot_price", row.other(page.part), record=True)
            else:
                rows.setdefault(row.zone, []).append(row)
            yield from record.leftovers(frozenset(("OriginPrice",)))  # what the machine costs on demand
        for of_one_zone in rows.values():
            *older, latest = sorted(of_one_zone, key=_SpotRow.order)
            yield latest.stated(page, currency, CURRENCIES[self.config.site or ""])
            yield from (Note("superseded_spot_price", row.zone, record=True) for row in older)
        yield from answer.leftovers(_ANSWER)


def _unsold(answer: Record, what: str, expected: Iterable[str]) -> Iterator[Note]:
    code = answer.text("Code")
    if code not in expected:
        raise answer.drift(f"an error in an answer that was taken for a good one: {code}")
    yield Note("not_sold_here", what, record=True)
    yield from answer.leftovers(_REFUSAL)


def _price(price: Record, unit: str, page: Page, expected: str) -> Iterator[_Item]:
    currency = price.text_or_none("Currency")
    details = price.record_or_none("DetailInfos")
    parts = None if details is None else list(details.records("DetailInfo"))
    own = price if parts is None else _own_part(parts)
    what = f"{page.part} {unit}"
    if own is None:
        yield Note("no_price_of_the_machine_alone", what, record=True)
    elif currency != expected:
        yield Note("other_currency", currency or "", record=True)
    else:
        yield _amount(own, unit, page, currency, with_disk=parts is None)
        if parts is None:
            yield Note("price_with_disk", what)
    if own is not None and own is not price:
        yield from own.leftovers(_PRICED)
    yield from price.leftovers(_PRICED)


def _own_part(parts: Iterable[Record]) -> Record | None:
    """The machine's own part of a price; None where there is none, or more than one."""
    own = [part for part in parts if part.text_or_none("Resource") in OF_THE_MACHINE]
    return own[0] if len(own) == 1 else None


def _amount(own: Record, unit: str, page: Page, currency: str, *, with_disk: bool) -> _Item:
    """The price that is paid. `DiscountPrice` is what is taken off, never the price."""
    payable, before = own.number_or_none("TradePrice"), own.number_or_none("OriginalPrice")
    total, list_total = price_nanos(payable), price_nanos(before)
    by_hour = unit == "Hour"
    nanos = total if total is None or by_hour else term_hour_nanos(total, 1)
    if not total or not nanos:
        return _unpriced(payable, f"{page.part} {unit}")
    listed = list_total if list_total is None or by_hour else term_hour_nanos(list_total, 1)
    return Price(
        region=page.place,
        instance_type=page.part,
        purchase=Purchase.ON_DEMAND if by_hour else Purchase.MONTH,
        nanos=nanos,
        currency=currency,
        source=PRICE_ACTION,
        list_nanos=listed if listed and list_total != total else None,
        upfront_nanos=None if by_hour else total,
        term_months=None if by_hour else 1,
        estimated=with_disk,
    )


def _unpriced(amount: Decimal | None, what: str) -> Note:
    return Note("no_price" if amount is None else "non_positive_price", what, record=True)


def _joined(pages: Iterable[Page]) -> Page:
    """The pages of one listing as one; numbers as the texts that they were."""
    first, *_ = pages = list(pages)
    currencies, rows = set(), []
    for page in pages:
        answer = record_of(page)
        currencies.add(answer.text_or_none("Currency") or "")
        rows += answer.record("SpotPrices").items("SpotPriceType")
    if len(currencies) > 1:
        raise record_of(first).drift(f"pages in several currencies: {', '.join(sorted(currencies))}")
    whole = {"Currency": currencies.pop(), "SpotPrices": {"SpotPriceType": rows}}
    return Page(first.name, json.dumps(whole, default=str).encode(), first.at, first.place, first.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpotRow:
    zone: str
    instance_type: str
    network: str
    disks: str
    at: datetime
    amount: Decimal | None

    @classmethod
    def read(cls, record: Record) -> "_SpotRow":
        """Drift where a row does not say what it is about: it may be the one that supersedes another."""
        said = record.text("Timestamp")
        try:
            at = datetime.fromisoformat(said)
        except ValueError as error:
            raise record.drift(f"Timestamp is no time but {said!r:.40}") from error
        if at.tzinfo is None:
            raise record.drift(f"Timestamp is a time without its zone: {said!r:.40}")
        return cls(
            zone=record.text("ZoneId"),
            instance_type=record.text("InstanceType"),
            network=record.text("NetworkType"),
            disks=record.text_or_none("IoOptimized") or "optimized",
            at=at,
            amount=record.number_or_none("SpotPrice"),
        )

    def other(self, instance_type: str) -> str:
        """What it is a price of, where that is something else than was asked for; else ""."""
        if (self.instance_type, self.network, self.disks) == (instance_type, "vpc", "optimized"):
            return ""
        return f"{self.instance_type} {self.network} {self.disks}"

    def order(self) -> tuple[datetime, Decimal]:
        """The latest last; of two at one time the dearer, and no price last of all: nothing is promised for less."""
        return self.at, self.amount if self.amount is not None else Decimal("Infinity")

    def stated(self, page: Page, currency: str | None, expected: str) -> _Item:
        """The price, or a note where it is none: never an older one in its place."""
        nanos = price_nanos(self.amount)
        if currency != expected:
            return Note("other_currency", currency or "", record=True)
        if nanos is None:
            return _unpriced(self.amount, f"{self.instance_type} spot in {self.zone}")
        return Price(
            region=page.place,
            zone=self.zone,
            instance_type=self.instance_type,
            purchase=Purchase.SPOT,
            nanos=nanos,
            currency=expected,
            source=SPOT_ACTION,
        )
