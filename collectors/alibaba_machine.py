"""What an ECS machine is: its size, and the accelerator in it, from a row of DescribeInstanceTypes and our families."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.resources import files

from catalog.accelerators import accelerators, resolve_offer, same_memory
from catalog.facts import Machine, Note
from catalog.units import MIB_PER_GIB
from collectors.alibaba_api import NAME
from collectors.reading import MOST_CARDS, Record, positive_or_none, whole_or_none

_KIND = re.compile(r"ecs\.([a-z]+)")
_PLAIN_KIND = re.compile(r"(?:ebm|scc)?(?:hf)?(?:c|g|r|re|u|e|s|t|i|d|f|h|n|mn|xn|sn|se|sd|ic|ce|cm|gm|video)")
"""Alibaba's grammar of names: these letters are of machines without a GPU; ebm of bare metal, scc of clusters of them.
With one are gn (NVIDIA), vgn and sgn (a part of one), ga (AMD), and whatever letters come next.
"""
_SLICED_KIND = re.compile(r"[vs]gn")
_PART = re.compile(r"(.*?)\s*[*x×]\s*(\d{1,3})\s*/\s*(\d{1,3})", re.IGNORECASE)
"""`NVIDIA T4 * 1/4`: a part of a card. How the API spells it is not settled."""
_PROFILE = re.compile(r"vGPU\d*(?:-\d+[GQ]?)?", re.IGNORECASE)
"""`vGPU8-2G`, in a listing of 2026: the name of a part that names no card."""
_TOTAL_IF_OVER = Fraction(3, 2)
"""A memory this far above the card's is that of all cards together."""
_UNUSED = frozenset(
    (
        "InstanceFamilyLevel", "CpuArchitecture", "CpuSpeedFrequency", "CpuTurboFrequency", "CpuOptions",
        "PhysicalProcessorModel", "InstanceBandwidthRx", "InstanceBandwidthTx", "InstancePpsRx", "InstancePpsTx",
        "NvmeSupport", "NetworkEncryptionSupport", "LocalStorageCategory", "LocalStorageAmount",
        "LocalStorageCapacity", "BaselineCredit", "InitialCredit", "DiskQuantity", "EniQuantity", "EniTotalQuantity",
        "EniTrunkSupported", "EniIpv6AddressQuantity", "EniPrivateIpAddressQuantity", "PrimaryEniQueueNumber",
        "SecondaryEniQueueNumber", "MaximumQueueNumberPerEni", "TotalEniQueueQuantity", "QueuePairNumber",
        "NetworkCardQuantity", "NetworkCards", "NetworkInfo", "JumboFrameSupport", "Attributes", "EnhancedNetwork",
        "SupportedBootModes",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """A row of catalog/families/alibaba.csv. None is unknown."""

    gpu: str | None
    sliced: bool | None
    """Whether its machines have parts of a card."""
    nvlink: bool | None
    rdma: bool | None
    bare_metal: bool | None


UNLISTED = Family(None, None, None, None, None)


@cache
def families() -> Mapping[str, Family]:
    """The table of instance families, by their names without `ecs.`."""
    text = files("catalog").joinpath("families/alibaba.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["family"]: _family(row) for row in rows}


def _family(row: Mapping[str, str]) -> Family:
    flag = {"yes": True, "no": False, "": None}
    return Family(row["gpu"] or None, *(flag[row[name]] for name in ("sliced", "nvlink", "rdma", "bare_metal")))


def kind_of(instance_type: str) -> str:
    """The letters that an instance type's name begins with after `ecs.`: `ebmgn` of `ecs.ebmgn7e.32xlarge`."""
    found = _KIND.match(instance_type)
    return found[1] if found else instance_type


def may_have_gpu(instance_type: str) -> bool:
    """Whether a machine's name leaves it open: where stock is stated there is nothing else to tell by."""
    return _PLAIN_KIND.fullmatch(kind_of(instance_type)) is None


@dataclass(frozen=True, slots=True)
class _Hardware:
    """A row, read. `part` is what it says of a part of a card: 1 for none."""

    name: str
    family_name: str
    family: Family
    raw: str
    model: str
    part: Fraction
    amount: Decimal | None
    stated_mib: int | None

    @property
    def sliced(self) -> bool:
        """Whether it has a part of a card, however large."""
        by_name = _SLICED_KIND.fullmatch(kind_of(self.name)) is not None
        return self.part < 1 or (by_name if self.family.sliced is None else self.family.sliced)


def machine_of(row: Record, region: str) -> Iterator[Machine | Note]:
    """The machine of a row and what is odd about it; one note for a row that is left out."""
    name, family_name = row.text_or_none("InstanceTypeId"), row.text_or_none("InstanceTypeFamily")
    if name is None:
        yield Note("row_without_machine", family_name or "", record=True)
        return
    amount, spec = row.amount_or_none("GPUAmount", MOST_CARDS), row.text_or_none("GPUSpec")
    if spec is None and not amount:
        stated = amount is not None or not may_have_gpu(name)
        yield Note("no_gpu", kind_of(name), record=True) if stated else Note("gpu_count_missing", name, record=True)
        return
    hardware = _hardware(name, _family_of(name, family_name), spec or "", amount, row)
    yield from _stated(hardware, row, region)
    yield from row.leftovers(_UNUSED)


def _family_of(name: str, stated: str | None) -> str:
    """The family as stated; where the table has none of that name, its longest that the machine's name begins with."""
    family = (stated or "").removeprefix("ecs.")
    begun = [one for one in families() if re.match(rf"ecs\.{one}[-.]", name)]
    return family if family in families() else max(begun, key=len, default=family or kind_of(name))


def _hardware(name: str, family_name: str, spec: str, amount: Decimal | None, row: Record) -> _Hardware:
    found = _PART.fullmatch(spec)
    part = Fraction(int(found[2]), int(found[3])) if found and 0 < int(found[2]) < int(found[3]) else Fraction(1)
    return _Hardware(
        name=name,
        family_name=family_name,
        family=families().get(family_name, UNLISTED),
        raw=spec,
        model=found[1] if found else spec,
        part=part,
        amount=amount,
        stated_mib=_mib(row.positive_or_none("GPUMemorySize")),
    )


def _stated(hardware: _Hardware, row: Record, region: str) -> Iterator[Machine | Note]:
    gpu = _gpu(hardware, None if hardware.sliced else hardware.stated_mib)
    if not hardware.sliced and (each := _each_of_total(hardware, gpu)):
        gpu = _gpu(hardware, each)
    count = _count(hardware, gpu)
    vram_mib, contradicted = _vram_mib(hardware, gpu, count)
    family = hardware.family
    bare_metal = "Bare Metal" in (row.text_or_none("InstanceCategory") or "") or family.bare_metal
    yield Machine(
        region=region,
        instance_type=hardware.name,
        gpu=gpu,
        gpu_count=count,
        gpu_raw=hardware.raw,
        vram_mib=vram_mib,
        vcpus=row.size_or_none("CpuCoreCount"),
        memory_mib=_mib(row.positive_or_none("MemorySize")),
        nvlink=_nvlink(gpu, family),
        rdma=_rdma(row.count_or_none("EriQuantity"), family.rdma, bare_metal),
        bare_metal=bare_metal,
    )
    if count is None:
        yield Note("gpu_count_missing", hardware.name)
    if contradicted:
        yield Note("gpu_memory_contradicts_model", hardware.name)
    if gpu is None:
        yield Note("unknown_gpu", hardware.raw or hardware.family_name)
    elif family.gpu and accelerators()[gpu].family != accelerators()[family.gpu].family:
        yield Note("gpu_contradicts_family", f"{hardware.family_name}: {hardware.raw}")


def _mib(gib: Decimal | None) -> int | None:
    return None if gib is None else whole_or_none(positive_or_none(gib * MIB_PER_GIB))


def _gpu(hardware: _Hardware, card_mib: int | None) -> str | None:
    """The accelerator that is named, made finer by the family; the family's where none is named.

    A name that nobody knows is not overruled by the table.
    """
    of_family, word = hardware.family.gpu, hardware.model
    if not word or _PROFILE.fullmatch(word):
        return of_family
    said = resolve_offer(word, provider=NAME, vram_mib=card_mib)
    if said is None or of_family is None:
        return said
    known = accelerators()
    stated, ours = known[said], known[of_family]
    open_memory = "memory" in stated.unstated and stated.family == ours.family
    open_form = bool(stated.unstated) and stated.group == ours.group
    return of_family if open_memory or open_form else said


def _each_of_total(hardware: _Hardware, gpu: str | None) -> int | None:
    """One card's memory where what is stated is that of all of them; else None."""
    nominal, stated = _nominal_mib(gpu), hardware.stated_mib
    if nominal is None or stated is None or hardware.amount is None or hardware.amount <= 1:
        return None
    return whole_or_none(stated / hardware.amount) if stated > _TOTAL_IF_OVER * nominal else None


def _nominal_mib(gpu: str | None) -> int | None:
    return accelerators()[gpu].vram_mib if gpu else None


def _count(hardware: _Hardware, gpu: str | None) -> Fraction | None:
    """How many cards, or which part of one. Several parts have no count: four quarters never pass for a card."""
    amount = None if hardware.amount is None else Fraction(hardware.amount)
    if not hardware.sliced:
        return amount or None
    if amount is not None and amount > 1:
        return None
    if amount is not None and 0 < amount < 1:
        return amount
    return hardware.part if hardware.part < 1 else _part_by_memory(hardware, gpu)


def _part_by_memory(hardware: _Hardware, gpu: str | None) -> Fraction | None:
    """The part of its card that a machine has by its memory; None where either is not known."""
    nominal, stated = _nominal_mib(gpu), hardware.stated_mib
    if nominal is None or stated is None:
        return None
    if same_memory(stated, nominal):
        return Fraction(1)
    return Fraction(stated, nominal) if stated < nominal else None


def _vram_mib(hardware: _Hardware, gpu: str | None, count: Fraction | None) -> tuple[int | None, bool]:
    """Memory of a card, or of the part; and whether the stated figure contradicts the model, and is then unknown."""
    nominal, stated = _nominal_mib(gpu), hardware.stated_mib
    if nominal is None or (hardware.sliced and count is None):
        return (None if hardware.sliced else stated), False
    size = whole_or_none(nominal * min(count or Fraction(1), Fraction(1)))
    told = [mib for mib in (stated, _each_of_total(hardware, gpu)) if mib is not None]
    meant = [mib for mib in (size, nominal if hardware.sliced else None) if mib is not None]
    agreed = not told or any(same_memory(one, other) for one in told for other in meant)
    return (size, False) if agreed else (None, True)


def _nvlink(gpu: str | None, family: Family) -> bool | None:
    """What the family adds where its accelerator is in there and the form leaves it open, which is not repeated."""
    known = accelerators()
    if gpu is None or family.gpu is None or known[gpu].family != known[family.gpu].family:
        return None
    return family.nvlink if known[gpu].nvlink is None else None


def _rdma(interfaces: int | None, of_family: bool | None, bare_metal: bool | None) -> bool | None:
    """By the elastic RDMA interfaces that a machine may have. Without any, bare metal may have a network of its own."""
    if of_family is not None or interfaces is None:
        return of_family
    if interfaces > 0:
        return True
    return False if bare_metal is False else None
