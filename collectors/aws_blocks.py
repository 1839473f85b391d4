"""AWS's capacity blocks: machines booked for a window of time, paid up front. The one stock that AWS states.

Calls (EC2 2016-11-15, through boto3): DescribeInstanceTypes, DescribeInstanceTypeOfferings,
DescribeCapacityBlockOfferings. Their shapes: botocore 1.44.8. Nothing is ever bought: PurchaseCapacityBlock is a right
that the credentials need not, and should not, have.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from catalog.facts import Fact, Note, Price, Stock, Window
from catalog.money import price_nanos
from catalog.words import Evidence, Level, Purchase
from collectors.aws_ec2 import Ec2, currency_of
from collectors.aws_feed import Ec2Feed, of_types, paged, sold_where, time_or_none
from collectors.aws_machine import PATTERNS
from collectors.base import Cell, Drift, NotServed, Page, ProviderError
from collectors.reading import JsonValue, Record, record_of
from collectors.zones import is_lettered

HOURS = 24  # the shortest block, and so the one that commits to least
AHEAD = timedelta(weeks=8)
"""How far ahead EC2 sells blocks. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html"""
NONE_OFFERED = f"no block of {HOURS} h within {AHEAD.days // 7} weeks"
NEVER_OFFERED = f"{NONE_OFFERED}, and none was seen in this zone before"
BEFORE = "OfferedBefore"
"""What the memo and the page call the types and zones of the blocks that were ever seen: `p5.48xlarge us-east-1f`."""
SOURCE = "DescribeCapacityBlockOfferings"
IGNORED = frozenset({"CapacityBlockOfferingId", "ZoneType", "CapacityBlockOfferingSegments"})


class Blocks(Ec2Feed):
    """The cheapest block of one machine for a day, in each zone that sells such a machine; where there is none, so.

    Nothing says which zones have blocks at all: one that sells the type may never have had any. It is out where a block
    was seen before and there is none now, and unknown elsewhere.
    """

    name: ClassVar[str] = "stock"
    every: ClassVar[timedelta] = timedelta(minutes=30)  # whoever books one takes it away from all others
    fresh_for: ClassVar[timedelta] = timedelta(hours=2)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        """One page: the types sold by the block and their zones, the offerings of all of them, and where there were
        some before.

        A type that is refused by itself is missing from the answer; the others' offerings stand.
        """
        ec2 = self.client(cell, now)
        names = _block_types(ec2)
        sold = sold_where(ec2, names, "availability-zone")
        found = {name: _offerings(ec2, name, now) for name in names}
        refused = {name: answer for name, answer in found.items() if isinstance(answer, ProviderError)}
        for error in refused.values():
            if len(refused) == len(found) or not isinstance(error, (Drift, NotServed)):
                raise error
        offered = [one for answer in found.values() if not isinstance(answer, ProviderError) for one in answer]
        lists: dict[str, list[JsonValue]] = {
            "AskedTypes": [name for name in names if name not in refused],
            "InstanceTypeOfferings": sold,
            "CapacityBlockOfferings": offered,
            BEFORE: json.loads(memo.get(BEFORE, "[]")),
        }
        page = paged(SOURCE, cell, now, lists, "; ".join(map(str, refused.values())))
        yield replace(page, memo={BEFORE: json.dumps(sorted(_seen(page)))})

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Price and a Stock of the best offering of each type and zone; where there is none, a Stock that is out, or
        unknown.
        """
        answer = record_of(page)
        before = answer.list_or_none(BEFORE) or ()
        asked = answer.items("AskedTypes")
        sold = (answer.filled if asked else answer.records)("InstanceTypeOfferings")
        zones = dict.fromkeys((one.text("InstanceType"), one.text("Location")) for one in sold)
        found: dict[tuple[str, str], list[_Block | str]] = {}
        for record in answer.records("CapacityBlockOfferings"):
            what = (record.text("InstanceType"), record.text("AvailabilityZone"))
            is_here = is_lettered(what[1], page.place)
            found.setdefault(what, []).append(_block(record, page) if is_here else "other_region")
            yield from record.leftovers(IGNORED)
        for what, offered in found.items():
            yield from _best(_At(page.place, *what), offered)
        for what in zones:
            if not is_lettered(what[1], page.place):
                yield Note("other_region", what[1], record=True)
            elif what[0] in asked and what not in found:
                at = _At(page.place, *what)
                gone = " ".join(what) in before
                yield at.stock(Level.OUT, NONE_OFFERED) if gone else at.stock(Level.UNKNOWN, NEVER_OFFERED)


def _seen(page: Page) -> set[str]:
    """The types and zones of all blocks that were ever seen, be they none that can be shown."""
    answer = record_of(page)
    now = {
        f"{one.text('InstanceType')} {one.text('AvailabilityZone')}" for one in answer.records("CapacityBlockOfferings")
    }
    return now | set(map(str, answer.items(BEFORE)))


def _block_types(ec2: Ec2) -> list[JsonValue]:
    filters = [*of_types(PATTERNS), {"Name": "supported-usage-class", "Values": ["capacity-block"]}]
    types = ec2.listing("describe_instance_types", "InstanceTypes", Filters=filters, MaxResults=100)
    return [one["InstanceType"] for one in types if isinstance(one, dict) and "InstanceType" in one]


def _offerings(ec2: Ec2, instance_type: JsonValue, now: datetime) -> list[JsonValue] | ProviderError:
    return ec2.listed(
        "describe_capacity_block_offerings",
        "CapacityBlockOfferings",
        InstanceType=instance_type,
        InstanceCount=1,
        CapacityDurationHours=HOURS,
        StartDateRange=now,
        EndDateRange=now + AHEAD,
        MaxResults=100,
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """An offering that can be booked: exact per hour, and in nano-units."""

    window: Window
    hour: Fraction
    nanos: int
    upfront_nanos: int

    def order(self) -> tuple[Fraction, datetime, datetime]:
        """The cheapest hour first, then the earliest, then the shortest."""
        return self.hour, self.window.starts_at, self.window.ends_at


def _block(record: Record, page: Page) -> _Block | str:
    """The offering, or why it is none that was asked for or that can be priced."""
    window = _window(record.text_or_none("StartDate"), record.text_or_none("EndDate"))
    hours, minutes = (record.amount_or_none(f"CapacityBlockDuration{unit}") for unit in ("Hours", "Minutes"))
    fee = record.number_or_none("UpfrontFee")
    currency, upfront_nanos = record.text_or_none("CurrencyCode"), price_nanos(fee)
    if fault := _another(record):
        return fault
    if window is None:
        return "no_window"
    if window.begun(page.at):
        return "window_begun"
    if hours is None or Fraction(hours) + Fraction(minutes or 0) / 60 != window.hours:
        return "window_of_another_length"
    if currency != currency_of(page.place):
        return "unknown_currency"
    hour = Fraction(fee or 0) / window.hours
    nanos = price_nanos(hour)
    return _Block(window, hour, nanos, upfront_nanos) if nanos and upfront_nanos else _no_price(fee)


def _another(record: Record) -> str:
    """Why it is not of one ordinary machine; "" where it is."""
    count, tenancy = record.count_or_none("InstanceCount"), record.text_or_none("Tenancy")
    servers = (record.text_or_none("UltraserverType"), record.count_or_none("UltraserverCount"))
    if count != 1 or any(servers):
        return "block_of_several_machines"
    return "" if tenancy == "default" else "block_of_another_tenancy"


def _no_price(fee: Decimal | None) -> str:
    return "no_price" if fee is None else "non_positive_price"


def _window(start: str | None, end: str | None) -> Window | None:
    starts_at, ends_at = time_or_none(start), time_or_none(end)
    if starts_at is None or ends_at is None or starts_at >= ends_at:
        return None
    return Window(starts_at, ends_at)


@dataclass(frozen=True, slots=True)
class _At:
    """A type in a zone."""

    region: str
    instance_type: str
    zone: str

    def stock(self, level: Level, detail: str) -> Stock:
        return Stock(
            region=self.region,
            instance_type=self.instance_type,
            purchases=frozenset({Purchase.CAPACITY_BLOCK}),
            level=level,
            evidence=Evidence.REPORTED,
            zone=self.zone,
            detail=detail,
        )

    def price(self, block: _Block) -> Price:
        return Price(
            region=self.region,
            instance_type=self.instance_type,
            purchase=Purchase.CAPACITY_BLOCK,
            nanos=block.nanos,
            currency=currency_of(self.region),
            source=SOURCE,
            zone=self.zone,
            upfront_nanos=block.upfront_nanos,
            window=block.window,
        )


def _best(at: _At, offered: Sequence[_Block | str]) -> Iterator[Fact | Note]:
    """The best block with its price; nothing where none could be understood, since that does not mean "none"."""
    what = f"{at.instance_type} in {at.zone}"
    blocks = sorted((one for one in offered if isinstance(one, _Block)), key=_Block.order)
    for block in blocks[:1]:
        yield at.price(block)
        yield at.stock(Level.IN_STOCK, str(block.window))
    yield from (Note("dearer_or_later_block", what, record=True) for _ in blocks[1:])
    yield from (Note(fault, what, record=True) for fault in offered if isinstance(fault, str))
