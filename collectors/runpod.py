"""RunPod: pods in the secure cloud (its data centres) and the community cloud (private hosts).

Region = country, zone = data centre, machine = `<count>x <GPU type id> <cloud>`. RunPod states USD per GPU and hour,
the same in every data centre; here a price is the whole pod's. Without a key GraphQL states everything. With one, REST
v2 states the secure cloud on demand, and GraphQL the community cloud and spot. Sources: RunPod's docs at a900806, and
the queries that gpuhunt and SkyPilot send. docs/providers.md says what was chosen and why.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from catalog.facts import Fact, Note, Region, Zone
from catalog.words import Evidence, Level, Purchase
from collectors.base import Cell, Config, Feed, Limit, NotServed, Page, Unavailable
from collectors.reading import Record, record_of, spelt
from collectors.runpod_api import KEY, Api, part_of
from collectors.runpod_pods import UNSTATED, Pod, PodPlace, level_of, pod_facts

NAME = "runpod"
COUNTS = (1, 2, 4, 8)
"""GPUs per pod that are asked for. Others are sold too; each would cost a call for each data centre and country."""
GRAPHQL_LIMIT = Limit("runpod graphql", 2)  # none is published: gentle
CATALOG_LIMIT = Limit("runpod catalog", 0.5)  # 60 a minute are published, and a cell makes two calls
DISCOVERY = "query Discovery { countryCodes dataCenters { id listed } }"
GPU_TYPES = """query GpuTypes($gpuTypesInput: GpuTypeFilter, $lowestPriceInput: GpuLowestPriceInput) {
  gpuTypes(input: $gpuTypesInput) {
    id memoryInGb maxGpuCount maxGpuCountSecureCloud maxGpuCountCommunityCloud secureCloud communityCloud
    securePrice communityPrice secureSpotPrice communitySpotPrice
    lowestPrice(input: $lowestPriceInput) { stockStatus minimumBidPrice }
  }
}"""

MISSED_FOR = timedelta(days=1)
"""How long a data centre that RunPod named is missed where it names it no more, before it counts as gone."""
_COUNTRY = re.compile(r"[A-Z]{2}")
_DATA_CENTRE = re.compile(r"(?:(US|CA)|(?:EU|EUR|AP|SEA|OC)-(?!UK)([A-Z]{2}))-.+")  # UK is not in ISO 3166: GB is
_CATALOG_IGNORED = frozenset(("name", "pool", "manufacturer", "secure", "community", "price", "cudaVersions"))
_CENTRE_IGNORED = frozenset(
    ("name", "region", "globalNetwork", "networkVolumeTypes", "compliance", "gpuAvailability", "cpuAvailability")
)


def country_of(data_centre: str) -> str | None:
    """The ISO country in an id such as `US-KS-2` or `EUR-IS-1`; None for an id of another form, never a guess."""
    found = _DATA_CENTRE.fullmatch(data_centre)
    return found[1] or found[2] if found else None


def region_of(data_centre: str) -> str:
    """Its country; where its id does not say one, the data centre is a region of its own."""
    return country_of(data_centre) or data_centre


def _gpu_types(api: Api, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
    """A page for each data centre of the cell's country, or one for the country in the community cloud.

    The memo is when each of the data centres was named last.
    """
    cloud, count = part_of(cell.part)
    places, field, named = [cell.place], "countryCode", dict[str, str]()
    if cloud == "secure":
        places = _listed_in(api.graphql(DISCOVERY, {}, "discovery", cell, now), memo)
        field, named = "dataCenterId", dict.fromkeys(places, now.isoformat())
    for place in places:
        lowest = {"secureCloud": cloud == "secure", field: place, "gpuCount": count}
        variables = {"gpuTypesInput": {"cluster": False}, "lowestPriceInput": lowest}
        yield replace(api.graphql(GPU_TYPES, variables, place, cell, now), memo=named)


def _listed_in(page: Page, memo: Mapping[str, str]) -> list[str]:
    """The listed data centres of the page's region: pure.

    An answer that leaves out what it must have is not believed, lest all of it turn out: one without any listed data
    centre, without one that was named within a day, or without this region in either of its lists. A region that is
    named and has no listed data centre has no secure cloud.
    """
    region, data = page.place, _data(page)
    centres = dict(_data_centres(data))
    if not any(centres.values()):
        raise Unavailable("RunPod names no listed data centre at all, which is not believed: wait for the next poll")
    recently = [name for name, at in memo.items() if page.at - datetime.fromisoformat(at) < MISSED_FOR]
    if missed := sorted(set(recently) - centres.keys()):
        raise Unavailable(f"RunPod does not name {', '.join(missed)}, which it did lately: wait for the next poll")
    if found := sorted(name for name, listed in centres.items() if listed and region_of(name) == region):
        return found
    if region not in [*data.items("countryCodes"), *map(region_of, centres)]:
        raise Unavailable(f"RunPod does not name {region} at all: wait for the next poll, or mend REGIONS")
    raise NotServed(f"RunPod lists no data centre in {region}, so it has no secure cloud there; asked again in a day")


# Reading


def _data(page: Page) -> Record:
    root = record_of(page)
    if root.list_or_none("errors"):
        raise root.drift("errors in an answer that was taken for a good one")
    return root.record("data")


def _data_centres(data: Record) -> Iterator[tuple[str, bool]]:
    """(id, whether it is listed) of each data centre."""
    for record in data.records("dataCenters"):
        yield record.text("id"), record.flag_or_none("listed") is True


def _read_gpu_types(page: Page, purchases: tuple[Purchase, ...]) -> Iterator[Fact | Note]:
    """GraphQL answers the fields asked for and no others, so that what is left over says nothing."""
    cloud, count = part_of(page.part)
    zone = page.name if cloud == "secure" else None
    for record in _data(page).filled("gpuTypes"):
        lowest = record.record_or_none("lowestPrice") or Record({}, record.where)
        word = lowest.raw("stockStatus", UNSTATED)
        status = word if word is None else spelt(word)
        pod = _graphql_pod(record, lowest, cloud, count)
        yield from pod_facts(pod, [(page.place, zone, status)], purchases)
        yield from record.notes if pod.left_out() is None else ()


def _graphql_pod(record: Record, lowest: Record, cloud: str, count: int) -> Pod:
    """The terms of the cloud that was asked about; the other's prices are another machine's.

    The bid is per GPU too, and stands for the spot price only where no spot price is stated.
    """
    spot, bid = record.number_or_none(f"{cloud}SpotPrice"), lowest.number_or_none("minimumBidPrice")
    maxima = [record.count_or_none(name) for name in ("maxGpuCount", f"maxGpuCount{cloud.title()}Cloud")]
    on_demand = record.number_or_none(f"{cloud}Price")
    return Pod(
        gpu_type=record.text("id"),
        count=count,
        cloud=cloud,
        memory_gib=record.size_or_none("memoryInGb"),
        is_sold=record.flag_or_none(f"{cloud}Cloud"),
        max_count=min((one for one in maxima if one is not None), default=None),
        usd_per_gpu={Purchase.ON_DEMAND: on_demand, Purchase.SPOT: bid if spot is None else spot},
        source="gpuTypes",
    )


def _read_catalog(page: Page, regions: tuple[str, ...]) -> Iterator[Fact | Note]:
    """The secure cloud on demand, in every data centre (of these regions, where any are given)."""
    root = record_of(page)
    centres = []
    for record in root.record("datacenters").filled("dataCenters"):
        centres.append(record.text("id"))
        yield from record.leftovers(_CENTRE_IGNORED)
    for record in root.record("gpus").filled("gpus"):
        pod = _catalog_pod(record, *part_of(page.part))
        places = [place for place in _catalog_places(record, centres) if not regions or place[0] in regions]
        yield from pod_facts(pod, places, (Purchase.ON_DEMAND,))
        yield from record.leftovers(_CATALOG_IGNORED)


def _catalog_pod(record: Record, cloud: str, count: int) -> Pod:
    price, most = (record.record_or_none(name) or Record({}, record.where) for name in ("price", "maxCount"))
    return Pod(
        gpu_type=record.text("id"),
        count=count,
        cloud=cloud,
        memory_gib=record.size_or_none("memory"),
        is_sold=record.flag_or_none(cloud),
        max_count=most.count_or_none(cloud),
        usd_per_gpu={Purchase.ON_DEMAND: price.number_or_none(cloud)},
        source="catalog/gpus",
    )


def _catalog_places(record: Record, centres: list[str]) -> list[PodPlace]:
    """Out where a whole statement leaves a data centre out: a list of where it can be had, or the word "nowhere"."""
    overall = record.text_or_none("availability") or UNSTATED
    offering = record.list_or_none("dataCenters")
    is_whole = overall and (offering is not None or level_of(overall) is Level.OUT)
    named = [record.inside(value, "dataCenters") for value in offering or ()]
    words = [(one.text("id"), one.text_or_none("availability") or UNSTATED) for one in named]
    others = sorted({*centres} - {name for name, _word in words})
    words += [(name, "NONE" if is_whole else UNSTATED) for name in others]
    return [(region_of(name), name, word) for name, word in sorted(words)]


# The feeds


@dataclass(frozen=True, slots=True)
class Places:
    """The countries, and the listed data centres in them."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "places"
    every: ClassVar[timedelta] = timedelta(hours=6)  # data centres open a few times a year; community hosts come and go
    fresh_for: ClassVar[timedelta] = timedelta(hours=18)
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:  # noqa: ARG002 - one answer names all places
        """One cell."""
        return [Cell(NAME, self.name)]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - all of GraphQL shares one
        """GraphQL's."""
        return GRAPHQL_LIMIT

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One call."""
        yield Api(self.config).graphql(DISCOVERY, {}, "discovery", cell, now)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """Regions, zones, and a note for each place that is none."""
        data = _data(page)
        for code in data.items("countryCodes"):
            if isinstance(code, str) and _COUNTRY.fullmatch(code):
                yield Region(region=code, country=code)
            else:
                yield Note("no_country", "null" if code is None else spelt(code), record=True)
        for name, listed in _data_centres(data):
            yield from _place(name) if listed else [Note("unlisted_data_centre", name, record=True)]


def _place(data_centre: str) -> Iterator[Fact | Note]:
    region, country = region_of(data_centre), country_of(data_centre)
    yield Region(region=region, country=country)
    yield Zone(region=region, zone=data_centre)
    if country is None:
        yield Note("no_country", data_centre)


@dataclass(frozen=True, slots=True)
class StockFeed:
    """Machines, prices and stock. With a key, REST v2 states the secure cloud: all its data centres, without spot."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "stock"
    every: ClassVar[timedelta] = timedelta(minutes=5)  # about 340 calls without a key: one a second
    fresh_for: ClassVar[timedelta] = timedelta(minutes=15)
    absent: ClassVar[Level] = Level.OUT  # every answer names every type: one it does not name is not sold any more

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """A cell for each country, cloud and count; with a key, one for each count covers the secure cloud."""
        regions = list(regions)
        for place in [""] if Api(self.config).key else regions:
            yield from (Cell(NAME, self.name, place, f"secure {count}") for count in COUNTS)
        for place in filter(_COUNTRY.fullmatch, regions):
            yield from (Cell(NAME, self.name, place, f"community {count}") for count in COUNTS)

    def limit(self, cell: Cell) -> Limit:
        """GraphQL's or the catalogue's."""
        return GRAPHQL_LIMIT if cell.place else CATALOG_LIMIT

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        """A page for each data centre or country asked about; one for the whole catalogue."""
        api = Api(self.config)
        yield from _gpu_types(api, cell, now, memo) if cell.place else [api.catalog(cell, now)]

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """Machines, prices and stock."""
        if page.place:
            return _read_gpu_types(page, (Purchase.ON_DEMAND, Purchase.SPOT))
        return _read_catalog(page, self.config.regions)


@dataclass(frozen=True, slots=True)
class SpotFeed(StockFeed):
    """Spot in the secure cloud, which REST v2 does not state: only with a key, by GraphQL, as often as stock."""

    name: ClassVar[str] = "spot"

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """A cell for each country and count."""
        return [Cell(NAME, self.name, place, f"secure {count}") for place in regions for count in COUNTS]

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """Spot prices and stock; the machines are the stock feed's."""
        return _read_gpu_types(page, (Purchase.SPOT,))


@dataclass(frozen=True, slots=True)
class RunPod:
    """RunPod, with or without a key."""

    config: Config
    name: ClassVar[str] = NAME
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence.REPORTED,)

    @property
    def account(self) -> bool:
        """Whether there is a key."""
        return bool(Api(self.config).key)

    def feeds(self) -> Iterable[Feed]:
        """Places and stock; with a key, spot on its own."""
        feeds: list[Feed] = [Places(self.config), StockFeed(self.config)]
        return [*feeds, SpotFeed(self.config)] if self.account else feeds

    def off(self) -> Mapping[str, str]:
        """Without a key, spot: it is not missed, since the stock feed then states it."""
        return {} if self.account else {"spot": f"not needed: without {KEY} the feed `stock` states spot too"}
