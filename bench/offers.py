"""An invented market: providers, regions and offers as they are in earnest, the same at every run."""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from typing import Any, TypeVar

from catalog.accelerators import accelerators
from catalog.facts import Fact, Machine, Price, Stock
from catalog.money import NANOS
from catalog.offers import Offer, Place, PriceNow, StockNow
from catalog.places import known_regions
from catalog.spec import RegionKey
from catalog.words import Evidence, Level, Purchase

_T = TypeVar("_T")
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FRESH_FOR = timedelta(minutes=10)
SEED = 20261130
REGIONS = 300
MOST_OF_ONE = 20_000
"""Offers of one accelerator, at the most."""
POPULAR = ("h100", "a100", "t4", "l4", "a10g", "l40s", "rtx-4090", "v100", "h200", "a10", "h20", "b200")
"""The families that most offers are of, in this order."""
SMALL_PROVIDERS = (
    "runpod", "vast", "lambda", "verda", "nebius", "oci", "crusoe", "vultr", "digitalocean", "ovh", "scaleway",
    "seeweb", "hotaisle", "jarvislabs", "cudo",
)  # fmt: skip
SMALL_COUNTRIES = ("US", "DE", "FI", "JP", "GB", "FR")
STATES_STOCK = frozenset({"tencent", "runpod", "vast", "lambda", "verda", "vultr", "ovh", "scaleway", "alibaba"})
"""The providers that say whether there is stock; of the others it is unknown."""
LEVELS = ((Level.IN_STOCK, 50), (Level.LOW, 10), (Level.OUT, 40))
COUNTS = ((1, 40), (2, 15), (4, 20), (8, 25))
PURCHASES = ((Purchase.SPOT, 0.6, 0.4), (Purchase.RESERVED_1Y, 0.25, 0.7), (Purchase.MONTH, 0.1, 0.8))
"""Beside on demand: a purchase, how often a machine is sold so, and its part of the price on demand."""


@dataclass(frozen=True, slots=True)
class Sale:
    """A machine at a place under a purchase."""

    place: Place
    machine: Machine
    purchase: Purchase
    nanos: int
    currency: str
    level: Level
    evidence: Evidence
    age: timedelta

    def offer(self, now: datetime = NOW) -> Offer:
        """As the selector has it."""
        seen_at = now - self.age
        return Offer(
            self.place,
            self.machine,
            self.purchase,
            PriceNow(nanos=self.nanos, currency=self.currency, source="a list", seen_at=seen_at, fresh_for=FRESH_FOR),
            StockNow(level=self.level, evidence=self.evidence, seen_at=seen_at, fresh_for=FRESH_FOR),
        )

    def facts(self) -> tuple[Price, Stock]:
        """As a collector states it, beside its machine."""
        name, region, zone = self.machine.instance_type, self.place.region, self.place.zone
        where: dict[str, Any] = {"instance_type": name, "region": region, "zone": zone}
        return (
            Price(**where, purchase=self.purchase, nanos=self.nanos, currency=self.currency, source="a list"),
            Stock(**where, purchases=frozenset({self.purchase}), level=self.level, evidence=self.evidence),
        )


Market = Mapping[RegionKey, list[Sale]]
"""(provider, region) -> what is sold there."""


def market(size: int, regions: int = REGIONS) -> Market:
    """A market of so many offers in so many regions of some twenty providers."""
    chance = random.Random(SEED)
    shops = [_Shop(key, country, chance) for key, country in _places()[:regions]]
    for gpu, wanted in _shares(size).items():
        left = wanted
        while left > 0:
            left -= chance.choice(shops).stock_up(gpu, left)
    return {shop.key: shop.sales for shop in shops if shop.sales}


def facts_of(sales: Iterable[Sale]) -> list[Fact]:
    """What the one cell of a region states: each machine once, then each price and stock."""
    known = list(sales)
    machines = {sale.machine.instance_type: sale.machine for sale in known}
    return [*machines.values(), *(fact for sale in known for fact in sale.facts())]


def _places() -> list[tuple[RegionKey, str | None]]:
    """Regions of all providers, mixed so that the first hundred have many of them too."""
    large: dict[RegionKey, str | None] = {key: region.country for key, region in known_regions().items()}
    small = (
        ((name, f"{country.lower()}-{number}"), country)
        for number in range(1, 3)
        for country in SMALL_COUNTRIES
        for name in SMALL_PROVIDERS
    )
    places = large | dict(islice(small, REGIONS - len(large)))
    shuffled = list(places.items())
    random.Random(SEED).shuffle(shuffled)
    return shuffled


def _shares(size: int) -> dict[str, int]:
    """Accelerator -> offers: the popular families first, falling off, none with more than its part of the whole."""
    order = {family: place for place, family in enumerate(POPULAR)}
    ids = sorted(accelerators(), key=lambda gpu: (order.get(accelerators()[gpu].family, len(order)), gpu))
    most = max(1, round(size * MOST_OF_ONE / 1_000_000))
    weights = {gpu: (place + 3) ** -0.7 for place, gpu in enumerate(ids)}
    shares: dict[str, int] = {}
    left = size
    while ids:
        gpu, *ids = ids
        rest = sum(weights[other] for other in ids)
        shares[gpu] = min(most, left, max(1, round(left * weights[gpu] / (weights[gpu] + rest))))
        left -= shares[gpu]
    return shares


class _Shop:
    """A region that is being filled."""

    def __init__(self, key: RegionKey, country: str | None, chance: random.Random) -> None:
        self.key = key
        self.sales: list[Sale] = []
        provider, region = key
        mainland = country == "CN"
        self._currency = "CNY" if provider in ("tencent", "alibaba") else "EUR" if provider == "ovh" else "USD"
        self._dear = chance.uniform(0.8, 1.3) * (7 if self._currency == "CNY" else 1)
        self._chance = chance
        self._names: set[str] = set()
        zones = [f"{region}{letter}" for letter in "abc"] if provider not in SMALL_PROVIDERS else [None]
        self._zones = [
            Place(provider=provider, region=region, zone=zone, country=country, mainland_china=mainland)
            for zone in zones
        ]

    def stock_up(self, gpu: str, most: int) -> int:
        """Add a machine with this accelerator, sold at most so many times; returns how many times it is."""
        sales = list(self._sales(self._machine(gpu)))[:most]
        self.sales += sales
        return len(sales)

    def _machine(self, gpu: str) -> Machine:
        count, vcpus = _one_of(self._chance, COUNTS), self._chance.choice((6, 8, 12, 16, 24))
        name = f"{gpu}.{count}x{vcpus}"
        while name in self._names:
            name += "x"
        self._names.add(name)
        return Machine(
            region=self.key[1],
            instance_type=name,
            gpu=gpu,
            gpu_count=Fraction(count),
            gpu_raw=accelerators()[gpu].name,
            vcpus=count * vcpus,
            memory_mib=count * vcpus * self._chance.choice((4, 8)) * 1024,
        )

    def _sales(self, machine: Machine) -> Iterator[Sale]:
        chance = self._chance
        nanos = round(_nanos_of(machine) * self._dear * chance.uniform(0.85, 1.2))
        sold_as = [(Purchase.ON_DEMAND, 1.0)]
        sold_as += [(purchase, part) for purchase, often, part in PURCHASES if chance.random() < often]
        for place in chance.sample(self._zones, chance.randint(1, len(self._zones))):
            for purchase, part in sold_as:
                yield self._sale(place, machine, purchase, round(nanos * part * chance.uniform(0.97, 1.03)))

    def _sale(self, place: Place, machine: Machine, purchase: Purchase, nanos: int) -> Sale:
        states = place.provider in STATES_STOCK
        level = _one_of(self._chance, LEVELS) if states else Level.UNKNOWN
        evidence = Evidence.REPORTED if states else Evidence.LISTED
        stale = self._chance.random() < 0.05
        age = timedelta(seconds=self._chance.randint(1, 300)) + (FRESH_FOR if stale else timedelta(0))
        return Sale(place, machine, purchase, nanos, self._currency, level, evidence, age)


def _one_of(chance: random.Random, weighted: Iterable[tuple[_T, int]]) -> _T:
    known = list(weighted)
    return chance.choices([word for word, _ in known], [weight for _, weight in known])[0]


def _nanos_of(machine: Machine) -> int:
    """About what such a machine costs an hour on demand: by its memory and what it computes."""
    row = accelerators()[machine.gpu or ""]
    dollars = 0.1 + (row.vram_mib or 8192) / 1024 * 0.012 + float(row.fp16_dense_tflops or 20) * 0.0015
    return round(dollars * float(machine.gpu_count or 1) * NANOS)
