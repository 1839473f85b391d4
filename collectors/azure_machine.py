"""What an Azure size holds, and whether this subscription may have it: from a row of Azure's resource SKUs.

Azure states neither the model nor the memory of a GPU, and leaves out or says wrong how many there are: what is known
of each size stands in `catalog/families/azure.csv` and is believed before Azure's figures.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache
from importlib.resources import files

from catalog.accelerators import accelerators
from catalog.facts import Fact, Machine, Note, Offered, Stock
from catalog.numbers import decimal_or_none
from catalog.units import MIB_PER_GIB
from catalog.words import Evidence, Level, Purchase
from collectors.reading import JsonValue, Record, positive_or_none, whole_or_none

NAME = "azure"
PREFIX = "Standard_N"
"""How the names of all sizes with an accelerator begin. https://learn.microsoft.com/azure/virtual-machines/sizes"""
RESTRICTED = "restricted: "
"""How the detail of a stock begins that this subscription cannot have: the selector never answers with one."""
DEPLOYED = frozenset(
    {Purchase.ON_DEMAND, Purchase.RESERVED_1Y, Purchase.RESERVED_3Y, Purchase.SAVINGS_1Y, Purchase.SAVINGS_3Y}
)
"""Purchases of one quota: a reservation is a discount on what is deployed on demand."""
_SPOT = frozenset({Purchase.SPOT})
_ALL_CORES, _SPOT_CORES = "cores", "lowprioritycores"
_CONSTRAINED = re.compile(r"Standard_[A-Z]+\d+-(\d+)", re.IGNORECASE)
"""`Standard_M8-2ms_v2`: the second number is the vCPUs that can be used."""
_FLAGS = {"true": True, "false": False}
_YES_NO = {"yes": True, "no": False, "": None}
_WHOLE_CARDS = ("standard_nc", "standard_nd")
"""How the names of the series begin that hold whole cards. Of a part of one, as in the others, Azure says 1."""
NO_SPOT = "not capable of spot"

_SKU = frozenset(("resourceType", "tier", "size", "costs", "capacity", "kind", "apiVersions"))


@dataclass(frozen=True, slots=True)
class Size:
    """A row of catalog/families/azure.csv. None is unknown."""

    name: str
    gpu: str | None
    gpu_count: Fraction | None
    believes_azure: bool
    """Whether the count is Azure's."""
    vcpus: int | None = None
    memory_mib: int | None = None
    rdma: bool | None = None
    nvlink: bool | None = None
    score_rank: int | None = None
    """In which order scores are asked for."""


@cache
def known_sizes() -> Sequence[Size]:
    """The table, in its order."""
    return tuple(_size(row) for row in _table("azure.csv"))


def _table(name: str) -> Iterator[Mapping[str, str]]:
    text = files("catalog").joinpath(f"families/{name}").read_text("utf-8")
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def _size(row: Mapping[str, str]) -> Size:
    count, memory_gib = row["gpu_count"], row["memory_gib"]
    return Size(
        name=row["size"],
        gpu=row["gpu"] or None,
        gpu_count=Fraction(count) if count not in ("", "api") else None,
        believes_azure=count == "api",
        vcpus=int(row["vcpus"]) if row["vcpus"] else None,
        memory_mib=int(memory_gib) * MIB_PER_GIB if memory_gib else None,
        rdma=_YES_NO[row["rdma"]],
        nvlink=_YES_NO[row["nvlink"]],
        score_rank=int(row["score_rank"]) if row["score_rank"] else None,
    )


@cache
def _by_name() -> Mapping[str, Size]:
    return {size.name.casefold(): size for size in known_sizes()}


def scored_sizes() -> Sequence[str]:
    """The sizes to ask scores for, the most wanted first."""
    ranked = sorted((size.score_rank, size.name) for size in known_sizes() if size.score_rank)
    return [name for _, name in ranked]


@cache
def score_regions() -> Sequence[str]:
    """The regions to ask scores for, those with most accelerators first."""
    return tuple(row["region"] for row in _table("azure_score_regions.csv"))


def spelt_size(name: str) -> str:
    """The size in the table's spelling: Azure's lists spell one size in several ways, and facts are joined by it."""
    known = _by_name().get(name.casefold())
    return known.name if known else re.sub("^standard_", "Standard_", name, flags=re.IGNORECASE)


def known_size(name: str) -> Size:
    """What the table says. Of a size that is not in it only Azure's count is known, if its series has whole cards."""
    folded = name.casefold()
    found = _by_name().get(folded) or next(
        (one for one in known_sizes() if fnmatchcase(folded, one.name.casefold())), None
    )
    return found or Size(name, None, None, folded.startswith(_WHOLE_CARDS))


def machine_of(machine: Machine, stated: Fraction | None) -> Iterator[Machine | Note]:
    """The machine with its accelerator, then notes on what is not established. `stated` is Azure's count of GPUs."""
    size = known_size(machine.instance_type)
    count = stated if size.believes_azure else size.gpu_count
    gpu = size.gpu if count != 0 else None
    yield Machine(
        region=machine.region,
        instance_type=machine.instance_type,
        gpu=gpu,
        gpu_count=count,
        vram_mib=_vram_mib(gpu, count),
        vcpus=machine.vcpus or size.vcpus,
        memory_mib=machine.memory_mib or size.memory_mib,
        nvlink=size.nvlink,
        rdma=size.rdma if machine.rdma is None else machine.rdma,
        bare_metal=False,
        purchases=machine.purchases,
    )
    if size.gpu is None and size.gpu_count != 0:
        yield Note("unknown_gpu", machine.instance_type)
    if count is None:
        yield Note("unknown_count", machine.instance_type)
    elif stated is not None and stated != count:
        yield Note("count_differs", f"{machine.instance_type}: Azure says {stated}, the table {count}")


def _vram_mib(gpu: str | None, count: Fraction | None) -> int | None:
    """The memory of a GPU, or of the part of one. Of how large a part is not known, none."""
    whole = accelerators()[gpu].vram_mib if gpu else None
    return None if whole is None or count is None else whole_or_none(whole * min(count, Fraction(1)))


Quotas = Mapping[str, tuple[str, int]]
"""Quota, folded -> its name as Azure spells it, and its limit in vCPUs."""


def quotas_of(records: Iterator[Record]) -> Iterator[tuple[str, tuple[str, int]] | Note]:
    """The quotas of a region, and a note for each whose limit is not stated."""
    for record in records:
        name = record.record_or_none("name")
        quota = name.text_or_none("value") if name else None
        limit = record.count_or_none("limit")
        if quota is None or limit is None:
            yield Note("quota_without_limit", quota or "", record=True)
        else:
            yield _folded(quota), (quota, limit)


def _folded(family: str) -> str:
    """Azure spells a family `Standard NCASv3_T4 Family` here and `standardNCASv3_T4Family` there."""
    return "".join(family.split()).casefold()


def facts_of_sku(record: Record, region: str, quotas: Quotas) -> Iterator[Fact | Note]:
    """A Machine, the zones it is offered in, and for what this subscription may not have a Stock that says why."""
    name = record.text_or_none("name")
    infos = [record.inside(value, "locationInfo") for value in record.list_or_none("locationInfo") or ()]
    if name is None or not _is_here(record, infos, region):
        yield Note("sku_without_name" if name is None else "sku_of_another_region", name or "", record=True)
        return
    size, family = spelt_size(name), record.text_or_none("family")
    stated = dict(_capabilities(record))
    spot = _FLAGS.get(stated.pop("lowprioritycapable", "").casefold())
    vcpus = _vcpus(size, stated)
    machine = Machine(
        region=region,
        instance_type=size,
        gpu=None,
        gpu_count=None,
        vcpus=vcpus,
        memory_mib=_mib(stated.get("memorygb")),
        rdma=_FLAGS.get(stated.get("rdmaenabled", "").casefold()),
        purchases=frozenset({Purchase.ON_DEMAND, *({Purchase.SPOT} if spot else ())}),
    )
    yield from machine_of(machine, _fraction(stated.get("gpus")))
    yield from (Offered(region=region, instance_type=size, zone=zone) for zone in _zones(infos, region))
    refused = _Refusals(region, size)
    if spot is False:
        refused.everywhere(_SPOT, NO_SPOT)
    yield from refused.read(record)
    refused.quotas(family, vcpus, quotas)
    yield from refused.stocks()
    yield from record.leftovers(_SKU)


def _is_here(record: Record, infos: Sequence[Record], region: str) -> bool:
    """The list is asked for by region; a row names its own, in any case of letters (`WestUS3`)."""
    named = list(_texts(record.list_or_none("locations")))
    named = named or [name for info in infos if (name := info.text_or_none("location"))]
    return region in {name.casefold() for name in named}


def _capabilities(record: Record) -> Iterator[tuple[str, str]]:
    """Name, folded -> value, as text."""
    for value in record.list_or_none("capabilities") or ():
        one = record.inside(value, "capabilities")
        name, said = one.text_or_none("name"), one.text_or_none("value")
        if name and said:
            yield name.casefold(), said


def _vcpus(size: str, stated: Mapping[str, str]) -> int | None:
    """Those that can be used: fewer than `vCPUs` in a constrained size, which has a second number in its name."""
    constrained = _CONSTRAINED.match(size)
    said = stated.get("vcpusavailable") or (constrained[1] if constrained else stated.get("vcpus"))
    return _whole(said)


def _whole(text: str | None) -> int | None:
    number = positive_or_none(decimal_or_none(text or ""))
    return int(number) if number is not None and number == number.to_integral_value() else None


def _fraction(text: str | None) -> Fraction | None:
    number = positive_or_none(decimal_or_none(text or ""))
    return None if number is None else Fraction(number)


def _mib(gib: str | None) -> int | None:
    number = positive_or_none(decimal_or_none(gib or ""))
    return None if number is None else whole_or_none(number * MIB_PER_GIB)


def _zones(infos: Sequence[Record], region: str) -> Iterator[str]:
    """The zones that sell it, each once; none where it is sold by region."""
    seen = set[str]()
    for info in infos:
        if (info.text_or_none("location") or "").casefold() == region:
            seen.update(_texts(info.list_or_none("zones")))
    yield from sorted(seen)


def _texts(values: Sequence[JsonValue] | None) -> Iterator[str]:
    return (one for one in values or () if isinstance(one, str) and one)


class _Refusals:
    """Why a size cannot be had by this subscription: in the region, by purchase, and in its zones."""

    def __init__(self, region: str, size: str) -> None:
        self._region, self._size = region, size
        self._of_region: dict[Purchase, str] = {}
        self._of_zones: dict[str, str] = {}

    def read(self, record: Record) -> Iterator[Note]:
        """What the row says. A missing list of restrictions is not none: it is noted."""
        stated = record.list_or_none("restrictions")
        if stated is None:
            yield Note("restrictions_not_stated", self._size)
        for value in stated or ():
            one = record.inside(value, "restrictions")
            kind, reason = one.text_or_none("type"), one.text_or_none("reasonCode") or "no reason stated"
            info = one.record_or_none("restrictionInfo")
            zones = list(_texts(info.list_or_none("zones"))) if info else []
            if kind == "Location":
                self.everywhere(DEPLOYED | _SPOT, reason)
            elif kind == "Zone" and zones:
                self._of_zones |= dict.fromkeys(zones, reason)
            else:
                yield Note("unknown_restriction", f"{self._size}: {kind} {reason}")

    def quotas(self, family: str | None, vcpus: int | None, quotas: Quotas) -> None:
        """A quota below what one machine takes: it cannot be launched, whatever is used already."""
        of_purchases = ((_folded(family or ""), DEPLOYED), (_ALL_CORES, DEPLOYED), (_SPOT_CORES, _SPOT))
        for key, purchases in of_purchases:
            quota, limit = quotas.get(key, ("", None))
            if limit is not None and limit < (vcpus or 1):
                self.everywhere(purchases, f"quota {limit} of {quota}")

    def everywhere(self, purchases: frozenset[Purchase], reason: str) -> None:
        """What cannot be had in the whole region. The first reason counts."""
        for purchase in purchases:
            self._of_region.setdefault(purchase, reason)

    def stocks(self) -> Iterator[Stock]:
        """A Stock for each place and reason."""
        for reason in dict.fromkeys(self._of_region.values()):
            purchases = frozenset(purchase for purchase, why in self._of_region.items() if why == reason)
            yield self._stock(purchases, None, reason)
        for zone, reason in sorted(self._of_zones.items()):
            yield self._stock(DEPLOYED | _SPOT, zone, reason)

    def _stock(self, purchases: frozenset[Purchase], zone: str | None, reason: str) -> Stock:
        return Stock(
            region=self._region,
            instance_type=self._size,
            purchases=purchases,
            level=Level.UNKNOWN,
            evidence=Evidence.LISTED,
            zone=zone,
            detail=f"{RESTRICTED}{reason}",
        )
