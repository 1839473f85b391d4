"""How likely spot machines of AWS are to be had, and to stay: scores, which are shown and are never stock.

- The spot advisor, a public file without credentials: how many spot machines of a type were interrupted in a region
  in the last month. https://aws.amazon.com/ec2/spot/instance-advisor/ reads the same file; its shape is documented
  nowhere, and learnt from nint8835/interruption-spotter.
- GetSpotPlacementScores (EC2 2016-11-15, through boto3), where the setting `scores` asks for it: a score from 1 to 10
  for a pool of machines in a zone. The pools are in `catalog/families/aws_pools.csv`.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import ClassVar

from catalog.facts import Fact, Note, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.aws_ec2 import Ec2, has_credentials, partition_of
from collectors.aws_feed import Ec2Feed, is_ours, located, paged, public_regions
from collectors.aws_machine import family, is_accelerated
from collectors.base import Cell, Drift, Limit, NotServed, Page, ProviderError
from collectors.http import SHOWN_BYTES, request
from collectors.reading import JsonValue, record_of

ADVISOR = "https://spot-bid-advisor.s3.amazonaws.com"
ADVISOR_PART = "interruptions"
MOST_REGIONS = 10  # that one question for scores takes
CAPACITY = 1
BEST = 10


class Scores(Ec2Feed):
    """The interruption class of each accelerated type of a region; with the setting, the scores of the pools too."""

    name: ClassVar[str] = "scores"
    every: ClassVar[timedelta] = timedelta(minutes=30)  # a placement score is good for the moment of the question
    fresh_for: ClassVar[timedelta] = timedelta(hours=1)

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One a region for the advisor; one for each pool, which asks about several regions at once."""
        known = list(regions)
        advised = [Cell(self.provider, self.name, one, ADVISOR_PART) for one in public_regions(self.config, known)]
        return [*advised, *self._pool_cells(known)]

    def _pool_cells(self, regions: Iterable[str]) -> Iterator[Cell]:
        ours = partition_of(self.config)
        if not self.config.scores or not has_credentials(self.config) or ours is None:
            return
        # AWS China scores no region but the one that is asked; elsewhere one question is about several.
        for place in [""] if ours == "aws" else [one for one in regions if is_ours(self.config, one)]:
            yield from (Cell(self.provider, self.name, place, pool) for pool in pools())

    def limit(self, cell: Cell) -> Limit:
        """The advisor's host states none; EC2's is the region's."""
        return Limit("aws:spot_advisor", 1.0) if cell.part == ADVISOR_PART else Ec2Feed.limit(self, cell)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        """One page: what the advisor says of the region, or a pool's scores with what is sold where."""
        yield self._advice(cell, now, memo) if cell.part == ADVISOR_PART else self._scored(cell, now)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Stock of unknown level for each spot machine that is rated."""
        return _interruptions(page) if page.part == ADVISOR_PART else _scores(page)

    def _advice(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Page:
        host = self.config.endpoints.get("spot_advisor") or ADVISOR
        known = {"If-None-Match": memo["etag"]} if "etag" in memo else {}
        url = f"{host.rstrip('/')}/spot-advisor-data.json"
        answer = request("GET", url, now=now, headers=known, timeout=self.config.timeout)
        whole = Page(f"spot advisor {cell.place}", answer.body, now, cell.place, cell.part)
        etag = answer.headers.get("etag")
        return replace(_of_region(whole), memo={"etag": etag} if etag else {})

    def _scored(self, cell: Cell, now: datetime) -> Page:
        if cell.part not in pools():
            raise NotServed(f"aws: there is no pool {cell.part} in this version")
        ec2, types = self.client(cell, now), pools()[cell.part]
        found = ec2.listing(
            "get_spot_placement_scores",
            "SpotPlacementScores",
            InstanceTypes=list(types),
            TargetCapacity=CAPACITY,
            TargetCapacityUnitType="units",
            SingleAvailabilityZone=True,
            RegionNames=[cell.place] if cell.place else self._regions(),
        )
        sold = {region: self._sold(region, types, now) for region in _regions_in(found)}
        refused = [answer for answer in sold.values() if isinstance(answer, ProviderError)]
        for error in refused:
            if not isinstance(error, NotServed):
                raise error
        offered = [one for answer in sold.values() if not isinstance(answer, ProviderError) for one in answer]
        lists: dict[str, list[JsonValue]] = {"SpotPlacementScores": found, "InstanceTypeOfferings": offered}
        return paged("GetSpotPlacementScores", cell, now, lists, "; ".join(map(str, refused)))

    def _regions(self) -> list[str]:
        """Always the same: another choice is another question."""
        named = sorted(region for region in self.config.regions if is_ours(self.config, region))
        return named[:MOST_REGIONS] or list(pool_regions())

    def _sold(self, region: str, types: Sequence[str], now: datetime) -> list[JsonValue] | ProviderError:
        ec2 = Ec2(self.config, region, now)
        return ec2.listed(
            "describe_instance_type_offerings", "InstanceTypeOfferings", **located(list(types), "availability-zone-id")
        )


@cache
def pools() -> Mapping[str, Sequence[str]]:
    """The pools by name, each with its types."""
    found: dict[str, list[str]] = {}
    for row in _table("aws_pools.csv"):
        found.setdefault(row["pool"], []).append(row["instance_type"])
    return MappingProxyType({name: tuple(types) for name, types in found.items()})


@cache
def pool_regions() -> Sequence[str]:
    """Where pools are scored unless the settings name regions."""
    return tuple(row["region"] for row in _table("aws_pool_regions.csv"))


def _table(name: str) -> list[dict[str, str]]:
    text = files("catalog").joinpath(f"families/{name}").read_text("utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _regions_in(scores: Iterable[JsonValue]) -> list[str]:
    found = {one.get("Region") for one in scores if isinstance(one, dict)}
    return sorted(region for region in found if isinstance(region, str))


def _of_region(whole: Page) -> Page:
    """What the advisor's file says of Linux in one region. Its classes are those of the whole file."""
    shown = replace(whole, body=whole.body[:SHOWN_BYTES])
    try:
        file = json.loads(whole.body, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise Drift(f"{whole.name}: the file is not JSON ({len(whole.body)} bytes)", shown) from error
    advice = file.get("spot_advisor") if isinstance(file, dict) else None
    if not advice or not isinstance(advice, dict):
        raise Drift(f"{whole.name}: the file holds no spot_advisor", shown)
    if whole.place not in advice:
        raise NotServed(f"aws: the spot advisor says nothing of the region {whole.place}")
    systems = advice[whole.place]
    if not isinstance(systems, dict):
        raise Drift(f"{whole.name}: what is said of the region is no object", shown)
    others = sum(len(rated) for name, rated in systems.items() if name != "Linux" and isinstance(rated, dict))
    body = json.dumps({"ranges": file.get("ranges"), "Linux": systems.get("Linux")}).encode()
    return replace(whole, body=body, skipped={"other_system": others} if others else {})


def _interruptions(page: Page) -> Iterator[Fact | Note]:
    """The class of each accelerated type, of the region; one without its words is none."""
    answer = record_of(page)
    words = {one.count_or_none("index"): one.text_or_none("label") for one in answer.filled("ranges")}
    rated = answer.raw("Linux", None)
    if not isinstance(rated, dict) or not rated:
        raise answer.drift("Linux is missing or empty, which no whole file leaves it")
    for instance_type, said in rated.items():
        if not is_accelerated(instance_type):
            yield Note("no_accelerator", family(instance_type), record=True)
            continue
        record = answer.inside(said, instance_type)
        rate = record.count_or_none("r")
        label = None if rate is None else words.get(rate)
        if label is None:
            yield Note("unknown_interruption_class", f"{rate}", record=True)
        else:
            yield _scored(page.place, instance_type, None, f"interruption {label}", "spot advisor")
        yield from record.leftovers(frozenset({"s"}))


def _scores(page: Page) -> Iterator[Fact | Note]:
    """A pool's score in a zone, for each of its types that the zone sells."""
    answer = record_of(page)
    sold: dict[str, list[str]] = {}
    for offering in answer.records("InstanceTypeOfferings"):
        sold.setdefault(offering.text("Location"), []).append(offering.text("InstanceType"))
        yield from offering.leftovers(frozenset({"LocationType"}))
    for record in answer.records("SpotPlacementScores"):
        region, zone_id = record.text("Region"), record.text_or_none("AvailabilityZoneId")
        score = record.count_or_none("Score")
        yield from record.leftovers(frozenset())
        if zone_id is None or score is None or not 1 <= score <= BEST:
            yield Note("no_score", f"{zone_id or region}: {score}", record=True)
        elif zone_id not in sold:
            yield Note("pool_not_sold_here", zone_id, record=True)
        else:
            said = (f"{score}/{BEST}", f"placement score of the pool {page.part}")
            yield from (_scored(region, instance_type, zone_id, *said) for instance_type in sold[zone_id])


def _scored(region: str, instance_type: str, zone_id: str | None, score: str, detail: str) -> Stock:
    return Stock(
        region=region,
        instance_type=instance_type,
        purchases=frozenset({Purchase.SPOT}),
        level=Level.UNKNOWN,
        evidence=Evidence.SCORED,
        zone_id=zone_id,
        score=score,
        detail=detail,
    )
