"""Google's prices: its list prices a core, a GiB and a GPU, so that a machine's price is the sum of its parts, or none.

The SKUs are those of Compute Engine in the Cloud Billing catalogue. The machines are what Compute Engine lists; where
only an API key is set, those of `catalog/families/gcp.csv`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import ClassVar

from catalog.facts import Fact, Note, Price
from catalog.money import price_nanos
from catalog.words import TERM_MONTHS, Level, Purchase
from collectors.base import Cell, Config, Drift, Limit, Page
from collectors.gcp_api import BILLING, COMPUTE, NAME, Billing, dumped, page_of
from collectors.gcp_auth import may_ask
from collectors.gcp_machine import (
    Card,
    Shape,
    agreeing,
    attachable,
    attached,
    bundled,
    card_of,
    is_sold_on_demand,
    known_types,
    machine_of,
    shape_of,
    sorted_out,
)
from collectors.gcp_skus import (
    COMMITMENTS,
    CURRENCY,
    SSD,
    Key,
    Part,
    Sku,
    core_families,
    is_of_others,
    is_relevant,
    one_for_each,
    parts_of,
    sku_of,
    slice_of,
)
from collectors.gcp_zones import LISTS, Zones
from collectors.reading import JsonValue, record_of

COMPUTE_ENGINE = "6F81-5844-456A"
SOURCE = "Cloud Billing catalogue"
PURCHASES = (
    Purchase.ON_DEMAND,
    Purchase.SPOT,
    Purchase.RESERVED_1Y,
    Purchase.RESERVED_3Y,
    Purchase.CAPACITY_BLOCK,
)
MOST_CARDS = 8
"""Of any accelerator that attaches to an N1 machine: Google's page on GPU machine types."""
PLACELESS = frozenset({"zone", "selfLink", "id", "creationTimestamp", "kind"})
"""Fields that differ from zone to zone, of machines that are the same."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of every machine with an accelerator in every region."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "prices"
    every: ClassVar[timedelta] = timedelta(hours=24)  # list prices change about once a month
    fresh_for: ClassVar[timedelta] = timedelta(days=3)
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - the contract's argument
        """One: a SKU is for several regions, and the list has no filter."""
        return [Cell(NAME, self.name)]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - the contract's argument
        """Both APIs let more through: gentle."""
        return Limit(f"{NAME}:{BILLING}", 2)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """A page for each region: its machines, and the SKUs that may price a part of one."""
        billing, asks = Billing(self.config, now), may_ask(self.config, COMPUTE)
        zones = Zones.asked(self.config, now) if asks else None
        skus, skipped = _skus(billing, core_families(zones.names() if zones else known_types()))
        by_region: dict[str, list[JsonValue]] = {}
        for sku in skus:
            for region in _regions(sku):
                by_region.setdefault(region, []).append(sku)
        machines = zones.by_region() if zones else {region: [] for region in by_region}
        wanted = [region for region in machines if region in (self.config.regions or machines)]
        used = {id(sku) for region in wanted for sku in by_region.get(region, ())}
        skipped |= {"sku where no machine is": sum(id(sku) not in used for sku in skus)}
        for region in wanted:
            body = _listed(zones, machines[region]) | {"bundled": not asks, "skus": by_region.get(region, [])}
            yield page_of(SOURCE, region, body, now, skipped, zones.missing(region) if zones else "")
            skipped = {}

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine and its Prices, for each machine that has one; notes on SKUs that are left out."""
        answer = record_of(page)
        listed = answer.flag_or_none("bundled") is not True
        shapes = [] if listed else bundled()
        cards = [] if listed else [Card(name, MOST_CARDS) for name in attachable()]
        skus: list[Sku] = []
        for record in answer.records("machineTypes"):
            yield from sorted_out(shape_of(record), Shape, shapes)
        for record in answer.records("acceleratorTypes"):
            yield from sorted_out(card_of(record), Card, cards)
        listed_skus = list(answer.records("skus"))
        if not listed_skus:
            yield Note("no_skus", page.place)
        for record in listed_skus:
            yield from sorted_out(sku_of(record, page.place), Sku, skus)
        agreed = list(agreeing(shapes))
        yield from (
            Note("zones_disagree", name) for name in sorted({one.name for one in shapes} - {one.name for one in agreed})
        )
        yield from _composed(page.place, [*agreed, *attached(agreed, cards)], skus, listed=listed)


def _skus(billing: Billing, families: frozenset[str]) -> tuple[list[dict[str, JsonValue]], dict[str, int]]:
    """The SKUs that may price a part of a machine, and how many others there are. `families`: whose cores may."""
    kept: list[dict[str, JsonValue]] = []
    skipped = Counter[str]()
    for answer in billing.skus(COMPUTE_ENGINE):
        for sku in answer.items("skus"):
            if not isinstance(sku, dict):
                raise answer.drift("a SKU is no object")
            if not is_relevant(sku.get("description")):
                skipped["sku of no machine"] += 1
            elif is_of_others(str(sku["description"]), families):
                skipped["sku of a family without accelerator"] += 1
            else:
                kept.append(sku)
    if not kept:
        raise Drift("gcp: the catalogue holds no SKU of any machine, which no whole answer does")
    return kept, dict(skipped)


def _regions(sku: Mapping[str, JsonValue]) -> list[str]:
    named = sku.get("serviceRegions")
    return [region for region in named if isinstance(region, str)] if isinstance(named, list) else []


def _listed(zones: Zones | None, places: Sequence[str]) -> dict[str, list[JsonValue]]:
    """The machine types and accelerator types of a region's zones, each once where the zones agree."""
    found: dict[str, list[JsonValue]] = {}
    for listed in LISTS:
        records = [record for zone in places for record in (zones.of(zone, listed) if zones else ())]
        placeless = [_placeless(record) for record in records]
        found[listed] = list({dumped(record): record for record in placeless}.values())
    return found


def _placeless(record: JsonValue) -> JsonValue:
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name not in PLACELESS}


@dataclass(slots=True)
class _Rates:
    """The SKUs of a region by what they price, which of them were used, and what was looked for in vain."""

    by_key: dict[Key, Sku] = field(default_factory=dict)
    used: set[Key] = field(default_factory=set)
    lacking: set[Key] = field(default_factory=set)

    def sum_of(self, parts: Sequence[Part], *, must: bool) -> Fraction | None:
        """What the parts cost together, None where one has no price. `must`: a missing one is told of in any case."""
        if parts and all(part.key in self.by_key for part in parts):
            self.used |= {part.key for part in parts}
            return sum((self.by_key[part.key].amount * part.quantity for part in parts), Fraction(0))
        if must or any(part.key in self.by_key for part in parts if part.key[1] != SSD):
            self.lacking |= {part.key for part in parts} - self.by_key.keys()
        return None


def _composed(region: str, shapes: Iterable[Shape], skus: Iterable[Sku], *, listed: bool) -> Iterator[Fact | Note]:
    rates = _Rates()
    for found in one_for_each(skus):
        if isinstance(found, Note):
            yield found
        else:
            rates.by_key[found[0]] = found[1]
    for shape in shapes:
        if shape.gpu_count != 0 and (prices := list(_prices(shape, region, rates, listed=listed))):
            if any(isinstance(one, Price) for one in prices):
                yield from machine_of(shape, region)
            yield from prices
    for key in sorted(rates.by_key.keys() - rates.used):
        yield Note("unused_sku", " ".join(key).strip(), record=True)
    yield from (Note("part_not_priced", " ".join(key).strip()) for key in sorted(rates.lacking) if listed)


def _prices(shape: Shape, region: str, rates: _Rates, *, listed: bool) -> Iterator[Price | Note]:
    for purchase in PURCHASES:
        hour = _hour(shape, purchase, rates, listed=listed)
        nanos = price_nanos(hour)
        if nanos is None and hour is not None:
            yield Note("no_price", f"{shape.name} {purchase}: the sum of its parts")
        elif nanos is not None:
            yield Price(
                region=region,
                instance_type=shape.name,
                purchase=purchase,
                nanos=nanos,
                currency=CURRENCY,
                source=SOURCE,
                term_months=TERM_MONTHS.get(purchase),
            )


def _hour(shape: Shape, purchase: Purchase, rates: _Rates, *, listed: bool) -> Fraction | None:
    """An hour of the machine: slices where there are such, which are all-in, else the sum of all its parts.

    A machine that is not sold on demand may have SKUs that add up: nobody can buy it at that price.
    """
    sold = is_sold_on_demand(shape.name)
    if purchase is Purchase.ON_DEMAND and not sold:
        return None
    in_slices = rates.sum_of(slice_of(shape, purchase), must=False)
    if in_slices is not None or (purchase in COMMITMENTS and not sold):
        return in_slices
    return rates.sum_of(parts_of(shape, purchase), must=listed and purchase is Purchase.ON_DEMAND)
