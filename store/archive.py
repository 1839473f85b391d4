"""The file of `gpufare snapshot`: its lines. What they mean, and what they may hold.

A file is a zip of `manifest.json` and `state.jsonl`. The state is one line of JSON for each region, then for each of
its machines, then for each of that machine's offers, in ascending order of their keys, so that whoever reads it needs
to remember only the line before. A line without a field does not know it. Nothing in a file is ever executed.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated

import msgspec
from msgspec import Meta

from catalog.facts import Machine, Price, Window
from catalog.offers import SNAPSHOT, Offer, PriceNow, StockNow
from catalog.words import Evidence, Hosting, Level, Purchase
from store.plausible import floor_nanos

FORMAT = 1
"""Raised when a program that reads the one before would misunderstand the new one."""
MANIFEST, STATE = "manifest.json", "state.jsonl"
LARGEST_STATE = 1 << 31
"""Bytes unpacked: some six million offers."""
LONGEST_LINE = 1 << 20
"""Bytes of a line."""

Name = Annotated[str, Meta(min_length=1)]
Program = Annotated[str, Meta(pattern=r"^[ -~]{1,100}\Z")]
"""It is told to people as it stands."""
Time = Annotated[datetime, Meta(tz=True)]
FIRST_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""No price and no stock is older than that: an earlier time was never the time of anything."""
_INT64, _INT32 = 2**63 - 1, 2**31 - 1
Nanos = Annotated[int, Meta(gt=0, le=_INT64)]
"""Nano-units of a currency."""
Size = Annotated[int, Meta(gt=0, le=_INT32)]
Count = Annotated[int, Meta(ge=0, le=_INT32)]
Fractional = Annotated[str, Meta(pattern=r"^[0-9]{1,40}(/[1-9][0-9]{0,39})?\Z")]
"""An exact number of accelerators: `8`, `1/4`, `3333333/10000000`, as the store keeps it."""


class Line(msgspec.Struct, tag_field="is", frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of the state, about a region of a provider."""

    provider: Name
    region: Name

    @property
    def key(self) -> tuple[str, ...]:
        """What it is about. Keys ascend from line to line."""
        return self.provider, self.region

    def check(self) -> None:
        """Raises ValueError, with a sentence, for what could not be true."""


class RegionLine(Line, tag="region", frozen=True, kw_only=True):
    """A region. `site` is the provider's site, which its prices are of."""

    site: str | None = None
    name: str | None = None
    country: str | None = None


class MachineLine(Line, tag="machine", frozen=True, kw_only=True):
    """A machine of the region of the lines before, as in `catalog.facts.Machine`."""

    instance_type: Name
    gpu: str | None = None
    gpu_count: Fractional | None = None
    gpu_raw: str = ""
    vram_mib: Size | None = None
    vcpus: Size | None = None
    memory_mib: Size | None = None
    nvlink: bool | None = None
    rdma: bool | None = None
    bare_metal: bool | None = None
    hosting: Hosting
    upstream: str | None = None
    purchases: list[Purchase] = []

    @property
    def key(self) -> tuple[str, ...]:
        """What it is about."""
        return self.provider, self.region, self.instance_type

    def check(self) -> None:
        """Raises ValueError for what is no machine."""
        self.fact()

    def fact(self) -> Machine:
        """The machine."""
        return Machine(
            region=self.region,
            instance_type=self.instance_type,
            gpu=self.gpu,
            gpu_count=None if self.gpu_count is None else Fraction(self.gpu_count),
            gpu_raw=self.gpu_raw,
            vram_mib=self.vram_mib,
            vcpus=self.vcpus,
            memory_mib=self.memory_mib,
            nvlink=self.nvlink,
            rdma=self.rdma,
            bare_metal=self.bare_metal,
            hosting=self.hosting,
            upstream=self.upstream,
            purchases=frozenset(self.purchases),
        )


class WindowPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is booked, as in `catalog.facts.Window`."""

    starts_at: Time
    ends_at: Time

    def fact(self) -> Window:
        """The window."""
        return Window(self.starts_at, self.ends_at)


class PricePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the machine costs for an hour, as in `catalog.facts.Price`, and when that was last seen."""

    nanos: Nanos
    currency: Name
    source: Name
    list_nanos: Nanos | None = None
    upfront_nanos: Nanos | None = None
    term_months: Size | None = None
    window: WindowPart | None = None
    estimated: bool = False
    seen_at: Time


class StockPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The stock as its writer saw it, on which evidence, and when."""

    level: Level
    evidence: Evidence
    detail: str = ""
    score: str | None = None
    quantity: Count | None = None
    seen_at: Time


class OfferLine(Line, tag="offer", frozen=True, kw_only=True):
    """An offer of the machine of the lines before. Without a zone it is the region's."""

    instance_type: Name
    zone: Name | None = None
    zone_id: Name | None = None
    purchase: Purchase
    price: PricePart | None = None
    stock: StockPart

    @property
    def zone_key(self) -> str:
        """What its zone is kept by."""
        return self.zone_id or self.zone or ""

    @property
    def key(self) -> tuple[str, ...]:
        """What it is about."""
        return self.provider, self.region, self.instance_type, self.zone_key, self.purchase.value

    def check(self) -> None:
        """Raises ValueError for a price that is none, or a level on evidence that cannot state one."""
        price, stock = self.price_fact(), self.stock
        if price is not None and price.nanos < floor_nanos(price.currency):
            raise ValueError(f"a price of {price.nanos} nano-units of {price.currency} an hour is none")
        if stock.level is not Level.UNKNOWN and not (stock.evidence.is_stock or stock.evidence is Evidence.SNAPSHOT):
            raise ValueError(f"{stock.evidence} evidence is never stock")

    def price_fact(self) -> Price | None:
        """The price as a snapshot states it: its source says so, and its date is when it was last seen."""
        price = self.price
        if price is None:
            return None
        return Price(
            region=self.region,
            instance_type=self.instance_type,
            purchase=self.purchase,
            nanos=price.nanos,
            currency=price.currency,
            source=price.source if price.source.startswith(SNAPSHOT) else f"{SNAPSHOT} of {price.source}",
            zone=self.zone,
            zone_id=self.zone_id,
            list_nanos=price.list_nanos,
            upfront_nanos=price.upfront_nanos,
            term_months=price.term_months,
            window=None if price.window is None else price.window.fact(),
            estimated=price.estimated,
            as_of=price.seen_at,
        )

    def times(self) -> Iterator[datetime]:
        """When its stock and its price were last seen."""
        yield self.stock.seen_at
        if self.price is not None:
            yield self.price.seen_at


AnyLine = RegionLine | MachineLine | OfferLine


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a member of the file holds."""

    bytes: Annotated[int, Meta(ge=0)]
    rows: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file is: when and by what it was made, and what its state is to be."""

    format: int
    program: Program
    created_at: Time
    members: dict[str, Member]


class Version(msgspec.Struct, frozen=True):
    """As much of a manifest as every version of it has."""

    format: int
    program: Program = "another version"


_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyLine)


def encoded(line: AnyLine) -> bytes:
    """The line with its end. A NUL in a provider's text, which PostgreSQL cannot hold, is a replacement character."""
    data = _encoder.encode(line)
    return (_NUL.sub(rb"\1\\ufffd", data) if b"\\u0000" in data else data) + b"\n"


def decoded(data: bytes) -> AnyLine:
    """The line. Raises ValueError, with a sentence, for what is none or could not be true."""
    line: AnyLine = _decoder.decode(data)
    if b"\\u0000" in data and _NUL.search(data):
        raise ValueError("a text holds a NUL")
    line.check()
    return line


def believed(data: bytes, made_at: datetime) -> AnyLine:
    """A line as an import takes it from a file that was made at that time, and as an export has to write it.

    Raises ValueError, with a sentence, for any other.
    """
    if len(data) > LONGEST_LINE:
        raise ValueError(f"it has more than {LONGEST_LINE} bytes")
    try:
        line = decoded(data)
    except (RecursionError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
    if isinstance(line, OfferLine) and any(at < FIRST_TIME for at in line.times()):
        raise ValueError(f"a time is before {FIRST_TIME:%Y}")
    if isinstance(line, OfferLine) and any(at > made_at for at in line.times()):
        raise ValueError(f"a time is after {made_at}, when the file was made")
    return line


def in_order(before: AnyLine | None, line: AnyLine) -> None:
    """Raises ValueError where a line may not follow the one before it."""
    if before is not None and line.key <= before.key:
        raise ValueError(f"{' '.join(line.key)} stands twice, or in the wrong place")


def region_line(offer: Offer) -> RegionLine:
    """The region of an offer."""
    place = offer.place
    return RegionLine(
        provider=place.provider, region=place.region, site=place.site, name=place.region_name, country=place.country
    )


def machine_line(offer: Offer) -> MachineLine:
    """The machine of an offer."""
    machine = offer.machine
    return MachineLine(
        provider=offer.place.provider,
        region=offer.place.region,
        instance_type=machine.instance_type,
        gpu=machine.gpu,
        gpu_count=None if machine.gpu_count is None else str(machine.gpu_count),
        gpu_raw=machine.gpu_raw,
        vram_mib=machine.vram_mib,
        vcpus=machine.vcpus,
        memory_mib=machine.memory_mib,
        nvlink=machine.nvlink,
        rdma=machine.rdma,
        bare_metal=machine.bare_metal,
        hosting=machine.hosting,
        upstream=machine.upstream,
        purchases=sorted(machine.purchases),
    )


def offer_line(offer: Offer, now: datetime) -> OfferLine:
    """An offer as it stands now, with what a launch taught in the place of what was stated, while that holds.

    A time ahead of now was read from a wrong clock: it was seen by now at the latest.
    """
    return OfferLine(
        provider=offer.place.provider,
        region=offer.place.region,
        instance_type=offer.machine.instance_type,
        zone=offer.place.zone,
        zone_id=offer.place.zone_id,
        purchase=offer.purchase,
        price=None if offer.price is None else _price_part(offer.price, now),
        stock=_stock_part(offer.stock_at(now), now),
    )


def _price_part(price: PriceNow, now: datetime) -> PricePart:
    window = price.window
    return PricePart(
        nanos=price.nanos,
        currency=price.currency,
        source=price.source,
        list_nanos=price.list_nanos,
        upfront_nanos=price.upfront_nanos,
        term_months=price.term_months,
        window=None if window is None else WindowPart(window.starts_at, window.ends_at),
        estimated=price.estimated,
        seen_at=_by(price.seen_at, now),
    )


def _stock_part(stock: StockNow, now: datetime) -> StockPart:
    return StockPart(
        level=stock.level,
        evidence=stock.evidence,
        detail=stock.detail,
        score=stock.score,
        quantity=stock.quantity,
        seen_at=_by(stock.seen_at, now),
    )


def _by(at: datetime, now: datetime) -> datetime:
    return min(at, now).astimezone(UTC)


class ArchiveError(Exception):
    """The file cannot be written, read or believed. Says which, where in it, why and what to do."""
