"""What a project of Google's may have of each accelerator in a region: `Region.quotas`. Never stock.

Which quota an accelerator comes under: `catalog/families/gcp_quotas.csv`.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from math import ceil
from types import MappingProxyType

from catalog.facts import Machine, Note, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.base import Config, NotServed
from collectors.gcp_api import Compute
from collectors.gcp_machine import is_sold_on_demand, known_type
from collectors.quotas import Quota, Quotas, restricted
from collectors.reading import JsonValue, Record

UNIT = "GPUs"
PREEMPTIBLE = "PREEMPTIBLE_"
DEPLOYED = frozenset({Purchase.ON_DEMAND, Purchase.RESERVED_1Y, Purchase.RESERVED_3Y})
"""Purchases of one quota: a commitment is a discount on what runs on demand."""
SPOT = frozenset({Purchase.SPOT})
QUOTAS, WARNING, NOT_READ = "quotas", "quotaStatusWarning", "quotasNotRead"


@cache
def metrics() -> Mapping[str, str]:
    """Google's name of an accelerator -> its quota's."""
    text = files("catalog").joinpath("families/gcp_quotas.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return MappingProxyType({row["accelerator"]: row["metric"] for row in rows})


@dataclass(frozen=True, slots=True)
class Stated:
    """What Compute Engine lists of its regions, as far as it may be read."""

    regions: Mapping[str, Mapping[str, JsonValue]]
    refusal: str = ""
    """Why they were not read."""

    @classmethod
    def asked(cls, config: Config, now: datetime) -> "Stated":
        """The list of regions. One that this account may not read is no failure: then no quota is known."""
        answers = Compute(config, now).listing_or_refusal("RegionsClient", "list", "regions")
        if isinstance(answers, NotServed):
            return cls({}, str(answers))
        records = (record for answer in answers for record in answer.records("items"))
        return cls({record.text("name"): _quotas(record) for record in records})

    def of(self, region: str) -> Mapping[str, JsonValue]:
        """What a region's page says of its quotas."""
        return {NOT_READ: self.refusal} if self.refusal else self.regions.get(region, {})


def _quotas(record: Record) -> Mapping[str, JsonValue]:
    return {name: record.raw(name, None) for name in (QUOTAS, WARNING) if record.has(name)}


def read(answer: Record, region: str, quotas: Quotas) -> Iterator[Note]:
    """Take in what a page says of its region's quotas."""
    unread, warning = answer.text_or_none(NOT_READ), answer.raw(WARNING, None)
    stated = answer.list_or_none(QUOTAS)
    if unread is not None:
        yield Note("quotas_not_read", unread)
    elif stated is None or warning is not None:
        yield Note("quotas_not_stated", region)
    else:
        yield from quotas.read(_stated(answer.inside(value, QUOTAS)) for value in stated)


def _stated(record: Record) -> Quota | Note:
    metric = record.text_or_none("metric")
    limit, used = record.unlimited_or_none("limit"), record.unlimited_or_none("usage")
    if metric is None or limit is None:
        return Note("quota_without_limit", metric or "", record=True)
    return Quota(metric, UNIT, limit, used)


def stocks_of(machine: Machine, quotas: Quotas) -> Iterator[Stock | Note]:
    """A Stock of each way to buy a machine of which a quota is known: restricted where its limit is below one."""
    known = known_type(machine.instance_type)
    metric = metrics().get(machine.gpu_raw or (known.accelerator if known else ""))
    if metric is None:
        return
    needed = ceil(machine.gpu_count or 1)
    standard = quotas.of(metric)
    if standard is not None and is_sold_on_demand(machine.instance_type):
        yield _stock(machine, standard, needed, DEPLOYED)
    spot = quotas.of(f"{PREEMPTIBLE}{metric}")
    if spot is not None and _is_told(spot, standard, needed):
        yield _stock(machine, spot, needed, SPOT)
    elif spot is not None:
        yield Note("spot_quota_unclear", f"{spot.name} {spot.limit}")


def _is_told(spot: Quota, standard: Quota | None, needed: int) -> bool:
    """Whether a quota of spot machines tells if one may be had.

    They come under their own, once the project asked for one; before that, which a limit of 0 does not tell, under the
    standard one: "Preemptible quotas" on Google's page on allocation quotas. So a limit of 0 says something only where
    that of the other is too low as well.
    """
    return spot.limit > 0 or (standard is not None and not standard.lets(needed))


def _stock(machine: Machine, quota: Quota, needed: int, purchases: frozenset[Purchase]) -> Stock:
    allowed = quota.lets(needed)
    return Stock(
        region=machine.region,
        instance_type=machine.instance_type,
        purchases=purchases & {Purchase.ON_DEMAND, Purchase.SPOT} if allowed else purchases,
        level=Level.UNKNOWN,
        evidence=Evidence.LISTED,
        detail=quota.words if allowed else restricted(quota.refusal(needed)),
    )
