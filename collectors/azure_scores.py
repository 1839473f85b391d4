"""Azure's spot placement scores: how likely spot machines are to be had now. A likelihood, never stock.

POST …/placementScores/spot/generate, api-version 2025-06-05, of Microsoft.Compute. Some four calls an hour
go through for a subscription: so four cells, each of up to eight regions and five sizes, which is the most of one call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from catalog.facts import Fact, Note, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.azure_api import Arm
from collectors.azure_machine import NAME, RESTRICTED, scored_sizes, spelt_size
from collectors.base import Cell, Config, Limit, Page
from collectors.reading import Record, record_of

SCORES = frozenset(("High", "Medium", "Low"))
NO_SCORE = frozenset(("DataNotFoundOrStale", "DataNotFound", "Data Not Found"))
NOT_ALLOWED = frozenset(("RestrictedSkuNotAvailable", "RestrictedSku", "Restricted SKU"))
"""Microsoft's page and its SDK spell these differently."""
REGIONS_A_CALL, SIZES_A_CALL, CALLS_AN_HOUR = 8, 5, 4
GENERATE = "providers/Microsoft.Compute/locations/{region}/placementScores/spot/generate?api-version=2025-06-05"
_ANSWER = frozenset(("desiredLocations", "desiredSizes", "desiredCount", "availabilityZones"))


@dataclass(frozen=True, slots=True)
class Scores:
    """How likely one spot machine is to be had, by zone. A cell's part is its group of sizes and its regions."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "scores"
    every: ClassVar[timedelta] = timedelta(hours=1)  # the budget: see CALLS_AN_HOUR
    fresh_for: ClassVar[timedelta] = timedelta(hours=1)  # Microsoft calls a score good for the moment
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """Four at most: the first 32 regions and five sizes, or fewer regions and more sizes."""
        wanted = list(dict.fromkeys(region.casefold() for region in regions))
        several = [wanted[start : start + REGIONS_A_CALL] for start in range(0, len(wanted), REGIONS_A_CALL)]
        groups = -(-len(scored_sizes()) // SIZES_A_CALL)
        parts = [f"{group} {','.join(some)}" for group in range(1, groups + 1) for some in several]
        return [Cell(NAME, self.name, part=part) for part in parts[:CALLS_AN_HOUR]]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - one subscription
        """The budget is kept by how many cells there are and how often they are polled: a token is a call as well."""
        return Limit(f"{NAME}:scores", 1.0)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One answer. Any region can be asked about all of them."""
        group, _, named = cell.part.partition(" ")
        regions = named.split(",")
        first = (int(group) - 1) * SIZES_A_CALL
        yield Arm(self.config, cell, now).post(GENERATE.format(region=regions[0]), _question(regions, first))

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Stock of unknown level with its score for each size and zone that has one."""
        answer = record_of(page)
        for record in answer.records("placementScores"):
            yield _scored(record)
            yield from record.leftovers(frozenset())
        yield from answer.leftovers(_ANSWER)


def _question(regions: Sequence[str], first: int) -> Mapping[str, object]:
    sizes = scored_sizes()[first : first + SIZES_A_CALL]
    return {
        "desiredLocations": list(regions),
        "desiredSizes": [{"sku": size} for size in sizes],
        "desiredCount": 1,
        "availabilityZones": True,
    }


def _scored(record: Record) -> Stock | Note:
    size, region = record.text_or_none("sku"), record.text_or_none("region")
    zone, score = record.text_or_none("availabilityZone"), record.text_or_none("score")
    quota = record.flag_or_none("isQuotaAvailable")
    what = f"{size} in {region}"
    if not (size and region and score):
        return Note("incomplete_score", what, record=True)
    if score in NO_SCORE:
        return Note("no_score", what, record=True)
    if score not in SCORES | NOT_ALLOWED:
        return Note("unknown_score", score, record=True)
    return Stock(
        region=region.casefold(),
        instance_type=spelt_size(size),
        purchases=frozenset({Purchase.SPOT}),
        level=Level.UNKNOWN,
        evidence=Evidence.SCORED,
        zone=zone,
        detail=_detail(score, quota),
        score=score if score in SCORES else None,
    )


def _detail(score: str, quota: bool | None) -> str:
    """Why this subscription cannot have it, else the score; "" where the quota is not stated."""
    if score in NOT_ALLOWED:
        return f"{RESTRICTED}{score}"
    return {True: score, False: f"{RESTRICTED}no spot quota", None: ""}[quota]
