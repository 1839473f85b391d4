"""Azure's spot placement scores: how likely spot machines are to be had now. A likelihood, never stock.

POST …/placementScores/spot/generate, api-version 2025-06-05, of Microsoft.Compute. Some four calls an hour
go through for a subscription: so four cells, each of up to eight regions and five sizes, which is the most of one call,
and no call again within a poll.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from catalog.facts import Fact, Note, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.azure_api import Arm
from collectors.azure_machine import NAME, score_regions, scored_sizes, spelt_size
from collectors.base import Cell, Config, Limit, Page, ProviderError, Throttled, Unavailable
from collectors.quotas import restricted
from collectors.reading import Record, record_of

SCORES = frozenset(("High", "Medium", "Low"))
NO_SCORE = frozenset(("DataNotFoundOrStale", "DataNotFound", "Data Not Found"))
NOT_ALLOWED = frozenset(("RestrictedSkuNotAvailable", "RestrictedSku", "Restricted SKU"))
"""Microsoft's page and its SDK spell these differently."""
REGIONS_A_CALL, SIZES_A_CALL, CALLS_AN_HOUR = 8, 5, 4
ANY_REGION = "eastus"
"""Whom all regions can be asked about: one that is served whatever the settings name."""
LATER = timedelta(minutes=15)
"""After a call that failed: it may have counted, so that the next one goes out when one more is allowed."""
GENERATE = "providers/Microsoft.Compute/locations/{region}/placementScores/spot/generate?api-version=2025-06-05"
_ANSWER = frozenset(("desiredLocations", "desiredSizes", "desiredCount", "availabilityZones"))


@dataclass(frozen=True, slots=True)
class Scores:
    """How likely one spot machine is to be had, by zone. A cell's part is its group of sizes and its regions."""

    config: Config
    _in_vain: dict[Cell, tuple[datetime, str]] = field(default_factory=dict, repr=False, compare=False)
    """The cells whose last call came to nothing: when it went out, and why."""
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "scores"
    every: ClassVar[timedelta] = timedelta(hours=1)  # the budget: see CALLS_AN_HOUR
    fresh_for: ClassVar[timedelta] = timedelta(hours=1)  # Microsoft calls a score good for the moment
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """Four at most: the first 32 regions and five sizes, or fewer regions and more sizes."""
        rank = {region: number for number, region in enumerate(score_regions())}
        named = dict.fromkeys(region.casefold() for region in regions)
        wanted = sorted(named, key=lambda region: (rank.get(region, len(rank)), region))
        several = [wanted[start : start + REGIONS_A_CALL] for start in range(0, len(wanted), REGIONS_A_CALL)]
        groups = -(-len(scored_sizes()) // SIZES_A_CALL)
        parts = [f"{group} {','.join(some)}" for group in range(1, groups + 1) for some in several]
        return [Cell(NAME, self.name, part=part) for part in parts[:CALLS_AN_HOUR]]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - one subscription
        """The budget is kept by how many cells there are and how often they are polled: a token is a call as well."""
        return Limit(f"{NAME}:scores", 1.0)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One answer. Throttled, without a call, where the last one failed and the next is not allowed yet."""
        self._wait(cell, now)
        group, _, named = cell.part.partition(" ")
        regions = named.split(",")
        first = (int(group) - 1) * SIZES_A_CALL
        at = regions[0] if self.config.site == "cn" else ANY_REGION
        arm = Arm(self.config, cell, now)
        self._in_vain[cell] = (now, "no answer")
        found = arm.post(GENERATE.format(region=at), _question(regions, first))
        if isinstance(found, ProviderError):
            raise self._failure(cell, now, found)
        self._in_vain.pop(cell)
        yield found

    def _failure(self, cell: Cell, now: datetime, found: ProviderError) -> ProviderError:
        """The failure, such that no call is made again before one is allowed."""
        if isinstance(found, Throttled):
            return Throttled(str(found), max(found.retry_after or LATER, LATER))
        if isinstance(found, Unavailable):
            self._in_vain[cell] = (now, str(found))
        else:
            self._in_vain.pop(cell)
        return found

    def _wait(self, cell: Cell, now: datetime) -> None:
        asked_at, why = self._in_vain.get(cell, (None, ""))
        if asked_at is not None and now < asked_at + LATER:
            said = f"{why}; not asked again yet, as {CALLS_AN_HOUR} calls an hour go through"
            raise Throttled(f"{NAME} {self.name}: {said}", asked_at + LATER - now)

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
        return restricted(score)
    return {True: score, False: restricted("no spot quota"), None: ""}[quota]
