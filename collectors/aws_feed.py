"""What the feeds that ask EC2 have in common: their cells by partition, their limit, and listings as pages."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from catalog.words import Level
from collectors.aws_ec2 import Ec2, home_of, partition
from collectors.aws_machine import NAME
from collectors.base import PAGE_BYTES, Cell, Config, Drift, Limit, NotServed, Page
from collectors.http import SHOWN_BYTES
from collectors.reading import JsonValue

CALLS_PER_SECOND = 2.0  # EC2 lets 20 a second through a region, shared with whatever else the account runs
DEFAULT_REGION = "us-east-1"  # where neither the settings nor the account name one: a price list is 70 MB and more
FILTER_VALUES = 200  # the most that EC2 takes in one filter


@dataclass(frozen=True, slots=True)
class Ec2Feed:
    """A feed that asks EC2 in each region of the credentials' partition."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str]
    absent: ClassVar[Level] = Level.UNKNOWN  # EC2 lists what is sold, which says nothing of stock

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One for each region of the credentials' partition; one that is off for each other that the settings name."""
        known = list(regions)
        ours = [region for region in known if is_ours(self.config, region)]
        others = [region for region in known if region not in ours and region in self.config.regions]
        return [Cell(NAME, self.name, region) for region in (*ours, *others)]

    def limit(self, cell: Cell) -> Limit:
        """EC2 limits an account in each region by itself."""
        return Limit(f"aws:{cell.place or home_of(self.config)}", CALLS_PER_SECOND)

    def client(self, cell: Cell, now: datetime) -> Ec2:
        """EC2 at a cell's place. NotServed for a place of another partition, whose endpoint is sent nothing."""
        require_ours(self.config, cell.place)
        return Ec2(self.config, cell.place or home_of(self.config), now)


def public_regions(config: Config, regions: Iterable[str]) -> list[str]:
    """The regions that need no credentials to be read of: `us-east-1` until any is known. Those of China and GovCloud
    only where the settings name them.
    """
    wanted = tuple(regions) or (DEFAULT_REGION,)
    return [region for region in wanted if region in config.regions or partition(region) == "aws"]


def is_ours(config: Config, region: str) -> bool:
    """Whether a region is of the partition that the credentials are of."""
    return partition(region) == partition(home_of(config))


_ANOTHER = "an account of {theirs} can be set beside this one, such as GPUFARE_PROVIDERS__AWS_CN__CREDENTIALS__..."


def require_ours(config: Config, region: str) -> None:
    """NotServed, with a sentence, for a region that the credentials cannot be good for."""
    if region and not is_ours(config, region):
        ours, theirs = partition(home_of(config)), partition(region)
        told = f"aws: {region} is in the partition {theirs}, and the credentials are of {ours}"
        raise NotServed(f"{told}: they are not sent there; {_ANOTHER.format(theirs=theirs)}")


def of_types(names: Sequence[JsonValue]) -> list[dict[str, object]]:
    """EC2's filter on instance types: names or patterns."""
    return [{"Name": "instance-type", "Values": list(names)}]


def batches(names: Sequence[JsonValue]) -> Iterator[Sequence[JsonValue]]:
    """As many at once as one filter takes."""
    for start in range(0, len(names), FILTER_VALUES):
        yield names[start : start + FILTER_VALUES]


def sold_where(ec2: Ec2, names: Sequence[JsonValue], location_type: str) -> list[JsonValue]:
    """Where these types are sold. Whole names, not patterns: a pattern that this filter did not understand would look
    like nothing sold.
    """
    return [
        offering
        for some in batches(names)
        for offering in ec2.listing(
            "describe_instance_type_offerings", "InstanceTypeOfferings", **located(some, location_type)
        )
    ]


def located(names: Sequence[JsonValue], location_type: str) -> dict[str, object]:
    """What asks where these types are sold: some FILTER_VALUES of them."""
    return {"LocationType": location_type, "Filters": of_types(names), "MaxResults": 1000}


def paged(call: str, cell: Cell, now: datetime, lists: Mapping[str, list[JsonValue]], missing: str = "") -> Page:
    """Whole listings as EC2's plain form in JSON."""
    body = json.dumps(lists, default=_time_text).encode()
    made = Page(
        name=f"{call} {cell.place}".strip(), body=body, at=now, place=cell.place, part=cell.part, missing=missing
    )
    if len(body) > PAGE_BYTES:
        said = f"aws {call} in {cell.place}: {len(body)} bytes are far more than this listing ever was"
        raise Drift(said, replace(made, body=body[:SHOWN_BYTES]))
    return made


def _time_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def time_or_none(text: str | None) -> datetime | None:
    """A moment in UTC, of a text that names its zone; None for any other text."""
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
