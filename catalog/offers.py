"""An offer: a machine at the finest place known, under one purchase, with its price and stock, each with its time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from catalog.facts import Machine, Window
from catalog.words import Evidence, Level, Purchase

SNAPSHOT = "snapshot"
"""What the source of a price begins with that comes from a list, shipped or imported, and not from its provider."""
RESTRICTED = "restricted"
"""What the detail of a stock begins with that this account may not have; why follows."""
SKEW = timedelta(minutes=1)
"""How far a clock that stamped a time may be ahead of ours before that time is not believed."""


_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def microseconds(at: datetime) -> int:
    """A time as whole microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def fresh_ages(limit: timedelta) -> tuple[timedelta, timedelta]:
    """The least and the greatest age at which a time is fresh. One in the future says nothing of how things stand."""
    return -SKEW, limit


def fresh_during(limit: timedelta) -> int:
    """For how many microseconds a time is fresh."""
    least, most = fresh_ages(limit)
    return most // _MICROSECOND - least // _MICROSECOND


def fresh_span(seen_at: datetime, limit: timedelta) -> tuple[int, int]:
    """From and until when what was seen at a time is fresh: microseconds since 1970, both included."""
    start = microseconds(seen_at) + fresh_ages(limit)[0] // _MICROSECOND
    return start, start + fresh_during(limit)


def _fresh(seen_at: datetime, limit: timedelta, now: datetime) -> bool:
    least, most = fresh_ages(limit)
    return least <= now - seen_at <= most


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an offer is. Shared by all offers of the place."""

    provider: str
    region: str
    zone: str | None = None
    zone_id: str | None = None
    site: str | None = None
    region_name: str | None = None
    country: str | None = None
    mainland_china: bool | None = None

    @property
    def zone_key(self) -> str:
        """What tells zones apart for every account: the id where there is one."""
        return self.zone_id or self.zone or ""

    @property
    def finest(self) -> str:
        """The zone by its name, with the region where that does not say it; the region where no zone is known."""
        zone = self.zone or self.zone_id
        return self.region if zone is None else zone if self.region in zone else f"{self.region} {zone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceNow:
    """A price as last stated: nano-units of the currency per whole machine and hour."""

    nanos: int
    currency: str
    source: str
    seen_at: datetime
    fresh_for: timedelta
    list_nanos: int | None = None
    upfront_nanos: int | None = None
    term_months: int | None = None
    window: Window | None = None
    estimated: bool = False

    def begun(self, now: datetime) -> bool:
        """Whether it is of a window that can no longer be booked: then it is nobody's price, and no offer has it."""
        return self.window is not None and self.window.begun(now)

    def stale(self, now: datetime) -> bool:
        """Whether it is older than its feed's `fresh_for`, comes from a snapshot, is stamped in the future, or is of a
        window that has begun.
        """
        old = self.begun(now) or not _fresh(self.seen_at, self.fresh_for, now)
        return self.source.startswith(SNAPSHOT) or old

    def fresh_span(self) -> tuple[int, int]:
        """From and until when it is fresh, whatever its source: microseconds since 1970, both included."""
        start, end = fresh_span(self.seen_at, self.fresh_for)
        return (start, end) if self.window is None else (start, min(end, microseconds(self.window.starts_at) - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class StockNow:
    """A stock level as last stated."""

    level: Level
    evidence: Evidence
    seen_at: datetime
    fresh_for: timedelta
    detail: str = ""
    score: str | None = None
    quantity: int | None = None

    @property
    def tells_level(self) -> bool:
        """Whether somebody stated whether there is stock, however long ago: a list, a score and a snapshot do not."""
        return self.evidence.is_stock and self.level is not Level.UNKNOWN

    @property
    def restricted(self) -> bool:
        """Whether this account may not have what is sold there: then the detail begins with the word, and says why."""
        return self.level is Level.UNKNOWN and self.detail.startswith(RESTRICTED)

    def restricted_at(self, now: datetime, max_age: timedelta | None = None) -> bool:
        """Whether that still counts: what a score says of it is over with the score, what a list says is not."""
        return self.restricted and not (self.evidence is Evidence.SCORED and self.stale(now, max_age))

    def stale(self, now: datetime, max_age: timedelta | None = None) -> bool:
        """Whether it is older than `max_age`, or else its feed's `fresh_for`, or is stamped in the future.

        A snapshot always is: what was out when it was made is not known to be out, however young it is.
        """
        limit = self.fresh_for if max_age is None else max_age
        return self.evidence is Evidence.SNAPSHOT or not _fresh(self.seen_at, limit, now)


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that can be asked for. `observed` is what a launch taught, and holds until `seen_at + fresh_for`."""

    place: Place
    machine: Machine
    purchase: Purchase
    price: PriceNow | None
    stock: StockNow
    observed: StockNow | None = None

    def stock_at(self, now: datetime) -> StockNow:
        """The stock that counts at this time: what a launch taught until it expires, else what was stated."""
        if self.observed is not None and not self.observed.stale(now):
            return self.observed
        return self.stock

    def confirmed(self, now: datetime, max_age: timedelta | None = None) -> bool:
        """In stock or low by `observed` or `reported` evidence, with stock and price both fresh."""
        stock = self.stock_at(now)
        return (
            stock.level in (Level.IN_STOCK, Level.LOW)
            and stock.evidence.is_stock
            and not stock.stale(now, max_age)
            and self.price is not None
            and not self.price.stale(now)
        )

    def snapshot_dates(self, now: datetime) -> list[datetime]:
        """The dates of what a list that was shipped or imported says of its price and stock; empty where neither."""
        stock, price = self.stock_at(now), self.price
        dates = [stock.seen_at] if stock.evidence is Evidence.SNAPSHOT else []
        return [*dates, price.seen_at] if price is not None and price.source.startswith(SNAPSHOT) else dates

    def sort_key(self) -> tuple[str, str, str, str, str]:
        """The contractual order of equals: provider, region, zone, machine; then the purchase."""
        place = self.place
        return (place.provider, place.region, place.zone or "", self.machine.instance_type, self.purchase)
