"""What a provider's answer states, in our words. A fact that could lie does not construct.

Every fact names its region in the provider's own code. A fact with a zone is about that zone, one without is about the
region and serves its zones that have none of their own.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction

from catalog.words import Evidence, Hosting, Level, Purchase


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region that a provider names. `enabled` is whether this account may use it, None where nobody says."""

    region: str
    name: str | None = None
    country: str | None = None
    """ISO 3166 alpha-2."""
    enabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A zone's name beside its id, where a provider has ids that are the same for every account."""

    region: str
    zone: str
    zone_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """An instance type as a region sells it. Linux. None is unknown, and unknown meets no demand.

    `gpu` is an accelerator's id, None where the model is not established; `gpu_raw` is the provider's own spelling, ""
    where this answer names none and the model is known by the machine's family: whoever names one is believed first.
    A machine without an accelerator has `gpu_count` 0. `vram_mib` is per GPU, or of the slice for a fraction.
    """

    region: str
    instance_type: str
    gpu: str | None
    gpu_count: Fraction | None
    gpu_raw: str = ""
    vram_mib: int | None = None
    vcpus: int | None = None
    memory_mib: int | None = None
    nvlink: bool | None = None
    rdma: bool | None = None
    bare_metal: bool | None = None
    hosting: Hosting = Hosting.DATACENTER
    upstream: str | None = None
    """The cloud that an aggregator resells."""
    purchases: frozenset[Purchase] = frozenset()
    """The purchases it is listed for, whether or not a price is known; empty where this answer does not say."""

    def __post_init__(self) -> None:
        _require(self.region and self.instance_type, "a machine has a region and a name")
        _require(self.gpu_count is None or self.gpu_count >= 0, "a GPU count is not negative")
        _require(self.gpu is None or self.gpu_count != 0, "a machine with an accelerator has a count that is not 0")
        for amount in (self.vram_mib, self.vcpus, self.memory_mib):
            _require(amount is None or amount > 0, "an unknown size is None, never 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A machine is sold in this zone; nothing is said of its stock. `zone` or `zone_id`, or both."""

    region: str
    instance_type: str
    zone: str | None = None
    zone_id: str | None = None

    def __post_init__(self) -> None:
        _require(self.zone or self.zone_id, "an offering names its zone")


@dataclass(frozen=True, slots=True)
class Window:
    """A time that a machine can be booked for, from its start to before its end; aware times in UTC."""

    starts_at: datetime
    ends_at: datetime

    def __post_init__(self) -> None:
        for at in (self.starts_at, self.ends_at):
            _require(at.utcoffset() == timedelta(0), "a window's times are aware, and in UTC")
        _require(self.starts_at < self.ends_at, "a window ends after it starts")

    @property
    def hours(self) -> Fraction:
        """How long it is, exactly."""
        return Fraction((self.ends_at - self.starts_at) // timedelta(microseconds=1), 3_600_000_000)

    def begun(self, now: datetime) -> bool:
        """Whether it is too late to book it."""
        return self.starts_at <= now

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m-%d %H:%M} to {self.ends_at:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What ONE WHOLE MACHINE costs for ONE HOUR under a purchase, as payable, in nano-units of the currency.

    What is prepaid is spread over its hours, with the whole up-front amount beside (`upfront_nanos`): for a term of
    `term_months`, or for a `window` that is booked. A window that has begun can no longer be booked.
    """

    region: str
    instance_type: str
    purchase: Purchase
    nanos: int
    currency: str
    source: str
    """The call or list that stated it."""
    zone: str | None = None
    zone_id: str | None = None
    list_nanos: int | None = None
    """Before discounts; None is the same as payable."""
    upfront_nanos: int | None = None
    term_months: int | None = None
    window: Window | None = None
    estimated: bool = False
    as_of: datetime | None = None
    """Only where the price is older than the answer that carries it: a snapshot's date."""

    def __post_init__(self) -> None:
        _require(self.nanos > 0, "a price is positive; an unknown one is no Price")
        _require(self.list_nanos is None or self.list_nanos > 0, "a list price is positive or None")
        _require(self.upfront_nanos is None or self.upfront_nanos > 0, "an up-front amount is positive or None")
        _require(not (self.term_months and self.window), "a price is of a term or of a window, not of both")
        of_what = self.term_months or self.window
        _require(self.upfront_nanos is None or of_what, "an up-front amount names its term or its window")
        _require(len(self.currency) == 3 and self.currency.isupper(), "a currency is an ISO 4217 code")
        _require(self.source, "a price names its source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Whether a machine can be had at a place, for the purchases it names and no other.

    Only `observed` and `reported` evidence can say anything but `unknown`.
    """

    region: str
    instance_type: str
    purchases: frozenset[Purchase]
    level: Level
    evidence: Evidence
    zone: str | None = None
    zone_id: str | None = None
    detail: str = ""
    """The provider's own word."""
    score: str | None = None
    quantity: int | None = None

    def __post_init__(self) -> None:
        _require(self.purchases, "a stock names the purchases it covers")
        _require(self.level is Level.UNKNOWN or self.evidence.is_stock, f"{self.evidence} evidence is never stock")


Fact = Region | Zone | Machine | Offered | Price | Stock


@dataclass(frozen=True, slots=True)
class Note:
    """A record left out, or a value not understood: stored once for a (cell, kind, value) with a count, and shown.

    `record` is true where a whole record is left out (it then counts instead of facts), false for a remark on one kept.
    """

    kind: str
    value: str
    record: bool = field(default=False, compare=False)


def _require(condition: object, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)
