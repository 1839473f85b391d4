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
from catalog.facts import Fact, Machine, Note, Offered
from catalog.numbers import decimal_or_none
from catalog.units import MIB_PER_GIB
from catalog.words import Purchase
from collectors.azure_account import NO_SPOT, SPOT, Account, texts
from collectors.quotas import Quotas
from collectors.reading import MOST_CARDS, Record, positive_or_none, whole_or_none

NAME = "azure"
PREFIX = "Standard_N"
"""How the names of all sizes with an accelerator begin. https://learn.microsoft.com/azure/virtual-machines/sizes"""
_CONSTRAINED = re.compile(r"Standard_[A-Z]+\d+-(\d+)", re.IGNORECASE)
"""`Standard_M8-2ms_v2`: the second number is the vCPUs that can be used."""
_FLAGS = {"true": True, "false": False}
_YES_NO = {"yes": True, "no": False, "": None}
_WHOLE_CARDS = ("standard_nc", "standard_nd")
"""How the names of the series begin that hold whole cards. Of a part of one, as in the others, Azure says 1."""
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


def facts_of_sku(record: Record, region: str, quotas: Quotas) -> Iterator[Fact | Note]:
    """A Machine, the zones it is offered in, and a Stock of what this subscription may not have, or of its quota."""
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
    account = Account(region, size)
    if spot is False:
        account.refuse(SPOT, NO_SPOT)
    yield from account.read(record)
    account.quotas(family, vcpus, quotas, machine.purchases)
    yield from account.stocks()
    yield from record.leftovers(_SKU)


def _is_here(record: Record, infos: Sequence[Record], region: str) -> bool:
    """The list is asked for by region; a row names its own, in any case of letters (`WestUS3`)."""
    named = list(texts(record.list_or_none("locations")))
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
    number = positive_or_none(decimal_or_none(text or ""), MOST_CARDS)
    return None if number is None else Fraction(number)


def _mib(gib: str | None) -> int | None:
    number = positive_or_none(decimal_or_none(gib or ""))
    return None if number is None else whole_or_none(number * MIB_PER_GIB)


def _zones(infos: Sequence[Record], region: str) -> Iterator[str]:
    """The zones that sell it, each once; none where it is sold by region."""
    seen = set[str]()
    for info in infos:
        if (info.text_or_none("location") or "").casefold() == region:
            seen.update(texts(info.list_or_none("zones")))
    yield from sorted(seen)
