"""What a machine type of Google's holds: the API's records read, with the table's word where the API has none. Pure.

Which N1 machines GPUs attach to, slices of a card, bundled SSDs and how a type is sold: `catalog/families/gcp.csv`.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TypeVar

from catalog.accelerators import accelerators, resolve_offer
from catalog.facts import Machine, Note
from catalog.units import MIB_PER_GIB
from catalog.words import Purchase
from collectors.gcp_api import NAME
from collectors.reading import MOST_CARDS, Record, whole_or_none

T = TypeVar("T")

HOSTS = "n1-"
"""How the names of the machines begin to which GPUs are attached."""
PARTITION_GIB = 375
"""A local SSD partition, where the record does not say its size: Google's page on local SSDs."""
WORKSTATION = "-vws"
"""How an accelerator's name ends that is a card with a licence for virtual workstations, at a price of its own."""
NO_SSD = "-nolssd"
"""How a type's name ends that is another one without its local SSD."""
GONE = frozenset({"OBSOLETE", "DELETED"})
TYPE_IGNORED = frozenset(
    {
        "kind", "id", "creationTimestamp", "description", "imageSpaceGb", "maximumPersistentDisks", "selfLink", "zone",
        "maximumPersistentDisksSizeGb", "isSharedCpu", "architecture", "scratchDisks",
    }
)  # fmt: skip
ACCELERATOR_IGNORED = frozenset({"kind", "id", "creationTimestamp", "description", "selfLink", "zone"})


@dataclass(frozen=True, slots=True)
class Shape:
    """A machine type as far as it is known. None is unknown."""

    name: str
    accelerator: str
    """Google's name for it; "" where it has none, or where none is stated and the table names it."""
    gpu_count: Fraction | None
    vcpus: int | None
    memory_mib: int | None
    ssd_gib: Fraction | None
    """Bundled local SSD that is paid for by itself."""

    @property
    def model(self) -> str:
        """Google's name of the accelerator, by the table where the record names none."""
        known = known_type(self.name)
        return self.accelerator or (known.accelerator if known else "")


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the table. None is unknown."""

    accelerator: str
    gpu_count: Fraction | None
    vcpus: int | None
    memory_mib: int | None
    ssd_gib: Fraction | None
    on_demand: bool
    rdma: bool | None


@cache
def _table() -> Mapping[str, Known]:
    text = files("catalog").joinpath("families/gcp.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return MappingProxyType({row["instance_type"]: _known(row) for row in rows})


def _known(row: Mapping[str, str]) -> Known:
    memory = row["memory_gib"]
    return Known(
        accelerator=row["accelerator"],
        gpu_count=_fraction(row["gpu_count"]),
        vcpus=int(row["vcpus"]) if row["vcpus"] else None,
        memory_mib=int(Fraction(memory) * MIB_PER_GIB) if memory else None,
        ssd_gib=_fraction(row["local_ssd_gib"]),
        on_demand=row["on_demand"] == "yes",
        rdma={"yes": True, "no": False, "": None}[row["rdma"]],
    )


def _fraction(cell: str) -> Fraction | None:
    return Fraction(cell) if cell else None


@cache
def known_types() -> Mapping[str, Known]:
    """The machine types of the table, by name."""
    return MappingProxyType({name: row for name, row in _table().items() if "*" not in name})


def known_type(name: str) -> Known | None:
    """What the table says of a type, with GPUs attached or not; of one without local SSD what it says of the other."""
    host = name.partition("+")[0]
    known = known_types().get(host.removesuffix(NO_SSD))
    return replace(known, ssd_gib=Fraction(0)) if known and host.endswith(NO_SSD) else known


@cache
def attachable() -> Mapping[str, tuple[Known, ...]]:
    """How N1 machines take an accelerator: for each count the most vCPUs and memory, by Google's name of it."""
    found: dict[str, tuple[Known, ...]] = {}
    for name, row in _table().items():
        if "*" in name:
            found[row.accelerator] = (*found.get(row.accelerator, ()), row)
    return MappingProxyType(found)


def bundled() -> list[Shape]:
    """The machine types of the table as shapes, for where the API cannot be asked for them."""
    return [
        Shape(name, row.accelerator, row.gpu_count, row.vcpus, row.memory_mib, row.ssd_gib)
        for name, row in known_types().items()
    ]


def shape_of(record: Record) -> Iterator[Shape | Note]:
    """What a record of machineTypes states: a Shape, or a note that it is left out; then notes on what is odd."""
    name = record.text("name")
    deprecated = record.record_or_none("deprecated")
    state = deprecated.text_or_none("state") if deprecated else None
    cards = [Record(one, f"{record.where}.accelerators") for one in record.list_or_none("accelerators") or ()]
    if state in GONE:
        yield Note("machine_type_is_gone", f"{name} {state}", record=True)
        return
    if len(cards) > 1:
        yield Note("several_accelerators", name, record=True)
        return
    if not cards and not name.startswith(HOSTS):
        yield Note("no_accelerator", name, record=True)
        return
    yield from _shape(record, name, cards[0] if cards else None)
    yield from record.leftovers(TYPE_IGNORED)


def _shape(record: Record, name: str, card: Record | None) -> Iterator[Shape | Note]:
    known = known_type(name)
    stated = card.size_or_none("guestAcceleratorCount", MOST_CARDS) if card else 0
    count = known.gpu_count if known and known.gpu_count else None if stated is None else Fraction(stated)
    disks = _disks_gib(record)
    yield Shape(
        name=name,
        accelerator=(card.text_or_none("guestAcceleratorType") or "") if card else "",
        gpu_count=count if card else Fraction(0),
        vcpus=record.size_or_none("guestCpus"),
        memory_mib=record.size_or_none("memoryMb"),
        ssd_gib=known.ssd_gib if known and known.ssd_gib is not None else disks,
    )
    if card and stated is not None and count is not None and count >= 1 and count != stated:
        yield Note("count_differs", f"{name}: Google says {stated}, the table {count}")
    if known and known.ssd_gib is not None and disks not in (None, 0, known.ssd_gib):
        yield Note("local_ssd_differs", f"{name}: Google says {disks} GiB, the table {known.ssd_gib}")
    yield from card.leftovers(frozenset()) if card else ()


def _disks_gib(record: Record) -> Fraction | None:
    """The bundled SSD; none where the record names none, unknown where it does not say how much."""
    disks = record.record_or_none("bundledLocalSsds")
    if disks is None:
        return Fraction(0)
    count, size = disks.count_or_none("partitionCount"), disks.size_or_none("partitionSizeGb")
    return None if count is None else Fraction(count * (size or PARTITION_GIB))


@dataclass(frozen=True, slots=True)
class Card:
    """An accelerator of a zone, and how many of it one machine may have; None where that is not stated."""

    name: str
    most: int | None


def card_of(record: Record) -> Iterator[Card | Note]:
    """What a record of acceleratorTypes states."""
    name = record.text("name")
    deprecated = record.record_or_none("deprecated")
    state = deprecated.text_or_none("state") if deprecated else None
    most = record.size_or_none("maximumCardsPerInstance", MOST_CARDS)
    if state in GONE:
        yield Note("accelerator_is_gone", f"{name} {state}", record=True)
    elif name.endswith(WORKSTATION):
        yield Note("virtual_workstation", name, record=True)
    else:
        yield Card(name, most)
    yield from record.leftovers(ACCELERATOR_IGNORED)


def attached(hosts: Iterable[Shape], cards: Iterable[Card]) -> Iterator[Shape]:
    """The N1 machines with GPUs: `n1-standard-8+nvidia-tesla-t4x1`, as far as both allow."""
    fitting = [one for one in hosts if one.name.startswith(HOSTS) and one.vcpus and one.memory_mib]
    for card in cards:
        for way in attachable().get(card.name, ()):
            if card.most is not None and way.gpu_count is not None and way.gpu_count <= card.most:
                yield from (_with(host, card.name, way) for host in fitting if _fits(host, way))


def _fits(host: Shape, way: Known) -> bool:
    return (host.vcpus or 0) <= (way.vcpus or 0) and (host.memory_mib or 0) <= (way.memory_mib or 0)


def _with(host: Shape, accelerator: str, way: Known) -> Shape:
    name = f"{host.name}+{accelerator}x{way.gpu_count}"
    return Shape(name, accelerator, way.gpu_count, host.vcpus, host.memory_mib, host.ssd_gib)


def purchases_of(name: str) -> frozenset[Purchase]:
    """How a type is sold, priced or not. Spot is left to its price, except for what is not sold on demand.

    A type that the table does not hold is sold on demand where all others of its series are, or where it has none.
    """
    if is_sold_on_demand(name):
        return frozenset({Purchase.ON_DEMAND})
    return frozenset({Purchase.SPOT, Purchase.CAPACITY_BLOCK})


@lru_cache(maxsize=4096)  # the same few hundred names in every region
def is_sold_on_demand(name: str) -> bool:
    """Whether it is not one of those that are sold as spot, in calendar mode or by reservation alone."""
    if known := known_type(name):
        return known.on_demand
    return all(row.on_demand for other, row in known_types().items() if series(other) == series(name))


def family(name: str) -> str:
    """`a3-highgpu` of `a3-highgpu-8g`, `n1-standard` of `n1-standard-8+nvidia-tesla-t4x1`."""
    return "-".join(name.partition("+")[0].split("-")[:2])


def series(name: str) -> str:
    """`a3` of `a3-highgpu-8g`."""
    return name.partition("-")[0]


def machine_of(shape: Shape, region: str) -> Iterator[Machine | Note]:
    """The machine, then a note on an accelerator or a count that is not known."""
    gpu = resolve_offer(shape.model, provider=NAME)
    known = known_type(shape.name)
    nominal = accelerators()[gpu].vram_mib if gpu else None
    yield Machine(
        region=region,
        instance_type=shape.name,
        gpu=gpu,
        gpu_count=shape.gpu_count,
        gpu_raw=shape.accelerator,
        vram_mib=_of_a_slice(nominal, shape.gpu_count),
        vcpus=shape.vcpus,
        memory_mib=shape.memory_mib,
        rdma=known.rdma if known else None,
        bare_metal=shape.name.endswith("-metal"),
        purchases=purchases_of(shape.name),
    )
    if gpu is None:
        yield Note("unknown_gpu", shape.model or shape.name)
    if shape.gpu_count is None:
        yield Note("unknown_count", shape.name)


def _of_a_slice(whole_mib: int | None, count: Fraction | None) -> int | None:
    if whole_mib is None or count is None or count >= 1:
        return whole_mib
    return whole_or_none(whole_mib * count)


def sorted_out(found: Iterable[T | Note], kind: type[T], into: list[T]) -> Iterator[Note]:
    """Put what was read into the list, and pass on the notes."""
    for one in found:
        if isinstance(one, kind):
            into.append(one)
        elif isinstance(one, Note):
            yield one


def agreeing(shapes: Iterable[Shape]) -> Iterator[Shape]:
    """Each machine type once; none of one that two zones describe otherwise."""
    by_name: dict[str, set[Shape]] = {}
    for shape in shapes:
        by_name.setdefault(shape.name, set()).add(shape)
    yield from (found.pop() for found in by_name.values() if len(found) == 1)
