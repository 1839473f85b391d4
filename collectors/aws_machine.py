"""What an EC2 instance type holds: the catalogue's word on its accelerator, put over what EC2 or the price list says.

Which family has which accelerator stands in `catalog/accelerators.csv`; the counts that AWS leaves out or says wrong,
and which type has RDMA, in `catalog/families/aws.csv`.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from catalog.accelerators import accelerators, resolve_offer
from catalog.facts import Machine, Note
from catalog.words import Purchase
from collectors.reading import MOST_CARDS, Record, positive_or_none, spelt, whole_or_none

NAME = "aws"
PATTERNS = ("p*", "g*", "trn*", "inf*", "dl*", "vt*")
"""EC2's names for instance families with accelerators. https://docs.aws.amazon.com/ec2/latest/instancetypes/"""
_FAMILY = "(?:p|gr?|trn|inf|dl|vt)[0-9]"
ACCELERATED_WORD = re.compile(f'" *{_FAMILY}[^".]*[.][^"]+"|"GPU instance"'.encode())
"""In a line of the price list: the quoted name of an instance type with an accelerator."""

DEVICES = (
    ("GpuInfo", "Gpus", "TotalGpuMemoryInMiB"),
    ("NeuronInfo", "NeuronDevices", "TotalNeuronDeviceMemoryInMiB"),
    ("InferenceAcceleratorInfo", "Accelerators", "TotalInferenceMemoryInMiB"),
    ("MediaAcceleratorInfo", "Accelerators", "TotalMediaMemoryInMiB"),
)
"""Where an instance type's accelerators stand. inf1 and inf2 name theirs twice: the first that is there counts."""
USAGE_CLASSES = frozenset({"on-demand", "spot", "capacity-block"})
TYPE_IGNORED = frozenset(
    {
        "AutoRecoverySupported", "BurstablePerformanceSupported", "CurrentGeneration",
        "DedicatedHostsSupported", "EbsInfo", "FpgaInfo", "FreeTierEligible", "HibernationSupported",
        "Hypervisor", "InstanceStorageInfo", "InstanceStorageSupported", "NitroEnclavesSupport", "NitroTpmInfo",
        "NitroTpmSupport", "PhcSupport", "PlacementGroupInfo", "ProcessorInfo", "RebootMigrationSupport",
        "SupportedBootModes", "SupportedInRegion", "SupportedRootDeviceTypes", "SupportedVirtualizationTypes",
    }
)  # fmt: skip
DEVICE_IGNORED = frozenset({"Manufacturer", "Workloads", "CoreInfo"})


@dataclass(frozen=True, slots=True)
class Known:
    """A row of catalog/families/aws.csv. None is unknown."""

    gpu_count: Fraction | None
    """Its accelerators, a fraction for a slice, where AWS's own word is not enough."""
    rdma: bool | None
    """EC2 states EFA alone, which some machines have without RDMA."""


@cache
def known_types() -> Mapping[str, Known]:
    """The table by instance type."""
    text = files("catalog").joinpath("families/aws.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return MappingProxyType({row["instance_type"]: _known(row) for row in rows})


def _known(row: Mapping[str, str]) -> Known:
    count, rdma = row["gpu_count"], {"yes": True, "no": False, "": None}[row["rdma"]]
    return Known(Fraction(count) if count else None, rdma)


_UNLISTED = Known(None, None)


def family(instance_type: str) -> str:
    """What precedes the dot."""
    return instance_type.partition(".")[0]


def is_accelerated(instance_type: str) -> bool:
    """By EC2's naming rule, so for families that came after this was written too."""
    return re.match(_FAMILY, instance_type) is not None


def is_bare_metal(instance_type: str) -> bool:
    """By EC2's naming rule: `g4dn.metal`, `c7i.metal-24xl`."""
    return instance_type.partition(".")[2].startswith("metal")


def established(machine: Machine, name: str, each_mib: int | None = None) -> Iterator[Machine | Note]:
    """The machine with its accelerator established, then notes on what is not.

    `machine` carries the count as AWS states it, None where it states none, and `rdma` False where AWS rules it out.
    `name` is AWS's name of the accelerator, "" where it gives none. `each_mib` is the memory of one whole accelerator
    as AWS states it.
    """
    of_type = machine.instance_type
    table = known_types().get(of_type, _UNLISTED)
    stated = machine.gpu_count or None
    count = table.gpu_count or stated
    gpu = resolve_offer(name, provider=NAME, instance_type=of_type, vram_mib=each_mib)
    known = accelerators()[gpu] if gpu else None
    yield replace(
        machine,
        gpu=gpu,
        gpu_count=count,
        vram_mib=_of_a_slice(known.vram_mib, count) if known else None,
        rdma=table.rdma if machine.rdma is None else machine.rdma,
    )
    if gpu is None:
        yield Note("unknown_gpu", name or family(of_type))
    if count is None:
        yield Note("unknown_count", of_type)
    elif stated not in (None, count):
        yield Note("count_differs", f"{of_type}: AWS says {stated}, the table {count}")


def _of_a_slice(whole_mib: int | None, count: Fraction | None) -> int | None:
    """The memory per accelerator, or of the slice. Nominal: EC2's 22888 MiB of an L4 are the 24 GiB it is sold as."""
    if whole_mib is None or count is None or count >= 1:
        return whole_mib
    return whole_or_none(whole_mib * count)


def machine_of(record: Record, region: str) -> Iterator[Machine | Note]:
    """What one record of DescribeInstanceTypes states: a Machine, or a note that it has no accelerator."""
    instance_type = record.text("InstanceType")
    cpus, memory, network = (record.record_or_none(name) for name in ("VCpuInfo", "MemoryInfo", "NetworkInfo"))
    lists = [list(_devices(record, *where)) for where in DEVICES]
    devices = next(filter(None, lists), [])
    usage = frozenset(spelt(one) for one in record.list_or_none("SupportedUsageClasses") or ())
    machine = Machine(
        region=region,
        instance_type=instance_type,
        gpu=None,
        gpu_count=devices[0].count if devices else None,
        gpu_raw=devices[0].name if devices else "",
        vcpus=cpus.size_or_none("DefaultVCpus") if cpus else None,
        memory_mib=memory.size_or_none("SizeInMiB") if memory else None,
        rdma=False if network and network.flag_or_none("EfaSupported") is False else None,
        bare_metal=record.flag_or_none("BareMetal"),
        purchases=_purchases(usage),
    )
    yield from (Note("unknown_usage_class", one) for one in sorted(usage - USAGE_CLASSES))
    yield from record.leftovers(TYPE_IGNORED)
    yield from (note for device in devices for note in device.notes)
    if len(devices) == 1:
        yield from established(machine, devices[0].name, devices[0].each_mib)
    elif devices:
        yield Note("several_accelerators", instance_type, record=True)
    elif resolve_offer("", provider=NAME, instance_type=instance_type):
        yield from established(machine, "")
        yield Note("accelerator_not_stated", instance_type)
    else:
        yield Note("no_accelerator", instance_type, record=True)


@dataclass(frozen=True, slots=True)
class _Device:
    name: str
    count: Fraction | None
    each_mib: int | None
    notes: tuple[Note, ...]


def _devices(record: Record, holder: str, members: str, total_name: str) -> Iterator[_Device]:
    """What one field says of a type's accelerators."""
    info = record.record_or_none(holder)
    if info is None:
        return
    total_mib = info.number_or_none(total_name)
    for device in info.records(members):
        memory = device.record_or_none("MemoryInfo")
        each_mib = whole_or_none(positive_or_none(memory.number_or_none("SizeInMiB"))) if memory else None
        count = _count(device)
        # Some answers gave the total in this field; a slice's memory is not the card's.
        adds_up = bool(each_mib and count and count >= 1 and each_mib * count == total_mib)
        name = device.text_or_none("Name") or ""
        yield _Device(name, count, each_mib if adds_up else None, tuple(device.leftovers(DEVICE_IGNORED)))


def _count(device: Record) -> Fraction | None:
    """A slice says Count 0, and which part of how many cards it is; None where nothing counts."""
    whole = positive_or_none(device.number_or_none("Count"))  # 0 is said of slices
    logical, part = device.positive_or_none("LogicalGpuCount"), device.positive_or_none("GpuPartitionSize")
    return positive_or_none(Fraction(logical or 0) * Fraction(part or 0) or Fraction(whole or 0), MOST_CARDS)


def _purchases(usage: frozenset[str]) -> frozenset[Purchase]:
    """What EC2's usage classes establish; a price, or that there is none yet, comes from elsewhere.

    A type with capacity blocks lists on-demand even where it is sold by the block alone (p5e): the price list decides.
    """
    spot = {Purchase.SPOT} if "spot" in usage else set()
    if "capacity-block" in usage:
        return frozenset({Purchase.CAPACITY_BLOCK, *spot})
    return frozenset({Purchase.ON_DEMAND, *spot} if "on-demand" in usage else spot)
