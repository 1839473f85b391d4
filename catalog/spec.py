"""A spec: what somebody looks for, understood. Exact types, defaults filled in, names resolved, nothing to guess."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction

from catalog.money import nanos_text
from catalog.units import MIB_PER_GIB
from catalog.words import Hosting, Purchase

RegionKey = tuple[str, str]
"""(provider, region)."""
ZoneKey = tuple[str, str, str]
"""(provider, region, zone id where there is one, else zone name)."""


class StockWish(StrEnum):
    """Which stock an answer may rest on."""

    PREFER = "prefer"
    CONFIRMED = "confirmed"
    ANY = "any"
    ALL = "all"


class Sort(StrEnum):
    """What is compared, ascending."""

    PRICE = "price"
    PRICE_PER_GPU = "price_per_gpu"
    PRICE_PER_VRAM = "price_per_vram"
    PRICE_PER_TFLOP = "price_per_tflop"
    JOB_COST = "job_cost"


class Accounts(StrEnum):
    """Whose offers count: of the providers with credentials here, or of all."""

    MINE = "mine"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class CountRange:
    """GPUs per machine, both ends included; `high` None is no upper end.

    A fraction never meets a whole: a range between whole numbers holds whole counts only.
    """

    low: Fraction
    high: Fraction | None

    def holds(self, count: Fraction) -> bool:
        """Whether a machine with so many GPUs is meant."""
        if count < self.low or (self.high is not None and count > self.high):
            return False
        return count.denominator == 1 or not self._whole

    @property
    def _whole(self) -> bool:
        return self.low.denominator == 1 and (self.high is None or self.high.denominator == 1)

    def __str__(self) -> str:
        if self.high == self.low:
            return number_text(self.low)
        return f"{number_text(self.low)}..{'' if self.high is None else number_text(self.high)}"


@dataclass(frozen=True, slots=True)
class Job:
    """What a machine is wanted for: so many hours, and so many GB sent out to the internet meanwhile."""

    hours: Fraction
    egress_gb: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Nearness:
    """How far a region that `fallback=auto` found is from the nearest primary region of its account."""

    region: RegionKey
    origin: RegionKey | None = None
    """That primary region; None where the coordinates of either are not known."""
    distance_m: int | None = None
    """Along the great circle, in metres; None where `origin` is."""


ONE_GPU = CountRange(Fraction(1), Fraction(1))
"""What a question for the cheapest means that says no count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The parameters of a question. None, and an empty tuple or set of exclusions, is no demand.

    Amounts are nano-units of `currency` per hour. `fallback` is an ordered list of tiers, each a set of regions.
    """

    gpus: frozenset[str] | None = None
    """Ids of accelerators."""
    gpu_names: tuple[str, ...] = ()
    """What the question called them, for the sentence that answers it; the ids are what counts."""
    instance_types: tuple[str, ...] = ()
    """Names or globs, case folded; any of them."""
    not_instance_types: tuple[str, ...] = ()
    counts: tuple[CountRange, ...] = ()
    min_vram_mib: Fraction | None = None
    min_total_vram_mib: Fraction | None = None
    min_tflops: Fraction | None = None
    """Dense FP16 of the matrix units, per GPU."""
    min_bandwidth_gbs: Fraction | None = None
    nvlink: bool | None = None
    rdma: bool | None = None
    bare_metal: bool | None = None
    vendors: frozenset[str] | None = None
    min_vcpus: Fraction | None = None
    min_vcpus_per_gpu: Fraction | None = None
    min_memory_mib: Fraction | None = None
    min_memory_mib_per_vcpu: Fraction | None = None
    min_memory_per_vram: Fraction | None = None
    """Machine memory over total VRAM, a ratio."""
    purchases: frozenset[Purchase] | None = None
    providers: frozenset[str] | None = None
    provider_names: frozenset[str] = frozenset()
    """Those that the question names: `providers` may be what it leaves by excluding others."""
    countries: frozenset[str] | None = None
    not_countries: frozenset[str] = frozenset()
    mainland_china: bool | None = None
    compliance: frozenset[str] | None = None
    not_compliance: frozenset[str] = frozenset()
    """Certifications, any of which the provider's own data centres of a place must be stated to have."""
    regions: frozenset[RegionKey] | None = None
    not_regions: frozenset[RegionKey] = frozenset()
    zones: frozenset[ZoneKey] | None = None
    not_zones: frozenset[ZoneKey] = frozenset()
    fallback: tuple[frozenset[RegionKey], ...] = ()
    nearness: tuple[Nearness, ...] = ()
    """Of the fallback regions that `auto` found; of those that are named, none."""
    accounts: Accounts = Accounts.ALL
    hosting: frozenset[Hosting] = frozenset(Hosting)
    max_price_nanos: int | None = None
    max_price_per_gpu_nanos: int | None = None
    currency: str = "USD"
    stock: StockWish = StockWish.PREFER
    max_age: timedelta | None = None
    sort: Sort = Sort.PRICE
    job: Job | None = None
    limit: int = 5
    offset: int = 0
    explain: bool = False
    said: frozenset[str] = field(default=frozenset(), compare=False)
    """The parameters that the question itself says."""
    defaulted: frozenset[str] = field(default=frozenset(), compare=False)
    """Those that have a default here, which comes back where the question leaves them out."""
    excluding: frozenset[str] = field(default=frozenset(), compare=False)
    """Those that exclude something by name, which is meant."""

    @property
    def primary_regions(self) -> frozenset[RegionKey] | None:
        """The regions of tier 0; None where the question names none, and every place is primary."""
        if self.zones is not None:
            return frozenset(zone[:2] for zone in self.zones)
        return self.regions

    def nearness_of(self, tier: int) -> Nearness | None:
        """Of the n-th fallback region, counted from 1, where `auto` found it; None of any other tier."""
        regions = self.fallback[tier - 1] if tier else frozenset()
        return next((near for near in self.nearness if near.region in regions), None)

    @property
    def limits_price(self) -> bool:
        """Whether an offer needs a known price to match."""
        return self.max_price_nanos is not None or self.max_price_per_gpu_nanos is not None

    def allows_country(self, country: str) -> bool:
        """Whether what is asked of countries allows this one."""
        return (self.countries is None or country in self.countries) and country not in self.not_countries

    def described(self) -> dict[str, object]:
        """The spec for people and programs to read: every parameter by its public name, null where nothing is asked.

        Numbers are decimal strings in the units that people use (GiB); lists are sorted, exclusions begin with `!`.
        """
        return self._machine_words() | self._place_words() | self._term_words()

    def _machine_words(self) -> dict[str, object]:
        return {
            "gpu": _sorted(self.gpus),
            "instance_type": _list([*self.instance_types, *_excluded(self.not_instance_types)]),
            "count": _list(str(count) for count in self.counts),
            "min_vram": _gib(self.min_vram_mib),
            "min_total_vram": _gib(self.min_total_vram_mib),
            "min_tflops": _number(self.min_tflops),
            "min_bandwidth": _number(self.min_bandwidth_gbs),
            "nvlink": self.nvlink,
            "rdma": self.rdma,
            "bare_metal": self.bare_metal,
            "vendor": _sorted(self.vendors),
            "min_vcpus": _number(self.min_vcpus),
            "min_vcpus_per_gpu": _number(self.min_vcpus_per_gpu),
            "min_memory": _gib(self.min_memory_mib),
            "min_memory_per_vcpu": _gib(self.min_memory_mib_per_vcpu),
            "min_memory_per_vram": _number(self.min_memory_per_vram),
        }

    def _place_words(self) -> dict[str, object]:
        return {
            "provider": _sorted(self.providers),
            "country": _list([*sorted(self.countries or ()), *_excluded(self.not_countries)]),
            "mainland_china": self.mainland_china,
            "compliance": _list([*sorted(self.compliance or ()), *_excluded(self.not_compliance)]),
            "region": _list([*_places(self.regions or ()), *_excluded(_places(self.not_regions))]),
            "zone": _list([*_zone_names(self.zones or ()), *_excluded(_zone_names(self.not_zones))]),
            "fallback": [_places(tier) for tier in self.fallback],
        }

    def _term_words(self) -> dict[str, object]:
        return {
            "purchase": _sorted(self.purchases),
            "accounts": str(self.accounts),
            "hosting": "any" if self.hosting == frozenset(Hosting) else _sorted(self.hosting),
            "max_price": _money(self.max_price_nanos),
            "max_price_per_gpu": _money(self.max_price_per_gpu_nanos),
            "currency": self.currency,
            "stock": str(self.stock),
            "max_age": None if self.max_age is None else f"{self.max_age // timedelta(seconds=1)}s",
            "sort": str(self.sort),
            "hours": None if self.job is None else number_text(self.job.hours),
            "egress_gb": None if self.job is None else number_text(self.job.egress_gb),
            "limit": self.limit,
            "offset": self.offset,
            "explain": self.explain,
        }


def number_text(number: Fraction) -> str:
    """A number for people: at most four decimal places, no trailing zeros (`1/6` is `0.1667`)."""
    text = f"{round(number * 10_000):05d}"
    return f"{text[:-4]}.{text[-4:]}".rstrip("0").rstrip(".")


def _list(texts: Iterable[str]) -> list[str] | None:
    return list(texts) or None


def _sorted(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(str(name) for name in names)


def _excluded(names: Iterable[str]) -> list[str]:
    return [f"!{name}" for name in sorted(names)]


def _places(keys: Iterable[RegionKey]) -> list[str]:
    return sorted(f"{provider}:{region}" for provider, region in keys)


def _zone_names(keys: Iterable[ZoneKey]) -> list[str]:
    return sorted({f"{provider}:{zone}" for provider, _, zone in keys})


def _gib(mib: Fraction | None) -> str | None:
    return None if mib is None else number_text(mib / MIB_PER_GIB)


def _number(number: Fraction | None) -> str | None:
    return None if number is None else number_text(number)


def _money(nanos: int | None) -> str | None:
    return None if nanos is None else nanos_text(nanos)
