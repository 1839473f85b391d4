"""What a Tencent machine is: its size, and the accelerator in it, from what a row says and the table of families."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.resources import files

from catalog.accelerators import accelerators, resolve_offer, same_memory
from catalog.facts import Machine, Note
from catalog.units import MIB_PER_GIB
from collectors.reading import MOST_CARDS, Record, positive_or_none, whole_or_none
from collectors.tencent_api import NAME

_CODE = re.compile(r"[A-Z]\d+[a-z]+")
"""`N88a`, in Tencent's documentation of GpuType: a code that names nothing. Every other word is a name."""


@dataclass(frozen=True, slots=True)
class Family:
    """A row of catalog/families/tencent.csv. None is unknown."""

    gpu: str | None
    nvlink: bool | None
    rdma: bool | None
    bare_metal: bool | None


UNLISTED = Family(None, None, None, None)


@cache
def families() -> Mapping[str, Family]:
    """The table of instance families, by their names in lower case."""
    text = files("catalog").joinpath("families/tencent.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["family"].casefold(): _family(row) for row in rows}


def _family(row: Mapping[str, str]) -> Family:
    flag = {"yes": True, "no": False, "": None}
    return Family(row["gpu"] or None, flag[row["nvlink"]], flag[row["rdma"]], flag[row["bare_metal"]])


@dataclass(frozen=True, slots=True)
class Hardware:
    """A GPU machine as both actions of cvm describe it, each with field names of its own."""

    region: str
    instance_type: str
    family: str
    gpu_count: Fraction | None
    gpu_words: Sequence[str]
    """What is said of its GPU, the most reliable first."""
    gpu_memory_mib: int | None
    vcpus: int | None
    memory_mib: int | None


def hardware_of(row: Record, region: str, words: Iterable[str | None], *, cpu: str, gpu: str) -> Hardware | Note:
    """The machine of a record, or why the record is left out."""
    name, family = row.text_or_none("InstanceType"), row.text_or_none("InstanceFamily")
    before = len(row.notes)
    cards, whole = (row.amount_or_none(name, MOST_CARDS) for name in ("GpuCount", gpu))
    if name is None:
        return Note("row_without_machine", family or "", record=True)
    stated = [number for number in (cards, whole) if number is not None]
    if len(row.notes) > before and not any(stated):
        raise row.drift(f"neither GpuCount nor {gpu} of {name} can be a count")
    if not stated:
        return Note("gpu_count_missing", name, record=True)
    if max(stated) <= 0:
        return Note("no_gpu", family or name, record=True)
    return Hardware(
        region=region,
        instance_type=name,
        family=family or name.partition(".")[0],
        gpu_count=None if (size := positive_or_none(cards)) is None else Fraction(size),  # `Gpu` is 1 for a quarter
        gpu_words=[word for word in words if word],
        gpu_memory_mib=_mib(row.positive_or_none("GpuMemory")),
        vcpus=row.size_or_none(cpu),
        memory_mib=_mib(row.positive_or_none("Memory")),
    )


def _mib(gib: Decimal | None) -> int | None:
    return None if gib is None else whole_or_none(gib * MIB_PER_GIB)


def machine_of(hardware: Hardware) -> Iterator[Machine | Note]:
    """The machine, and what is odd about it. A model that only the table of families tells has no `gpu_raw`."""
    family = families().get(hardware.family.casefold(), UNLISTED)
    gpu, raw = _model(hardware, family)
    vram_mib, contradicted = _vram_mib(hardware, gpu)
    yield Machine(
        region=hardware.region,
        instance_type=hardware.instance_type,
        gpu=gpu,
        gpu_count=hardware.gpu_count,
        gpu_raw=raw,
        vram_mib=vram_mib,
        vcpus=hardware.vcpus,
        memory_mib=hardware.memory_mib,
        nvlink=_nvlink(gpu, family),
        rdma=family.rdma,
        bare_metal=family.bare_metal,
    )
    if hardware.gpu_count is None:
        yield Note("gpu_count_missing", hardware.instance_type)
    if contradicted:
        yield Note("gpu_memory_contradicts_model", hardware.instance_type)
    if gpu is None:
        yield Note("unknown_gpu", raw or hardware.family)
    elif gpu and family.gpu and accelerators()[gpu].family != accelerators()[family.gpu].family:
        yield Note("gpu_contradicts_family", f"{hardware.family}: {raw}")


def _nvlink(gpu: str | None, family: Family) -> bool | None:
    """What the family adds where its accelerator is in there and the form leaves it open, which is not repeated."""
    known = accelerators()
    if gpu is None or family.gpu is None or known[gpu].family != known[family.gpu].family:
        return None
    return family.nvlink if known[gpu].nvlink is None else None


def _model(hardware: Hardware, family: Family) -> tuple[str | None, str]:
    """The accelerator, and the words for it: of the first that names one; else of the family, without words.

    A name that nobody knows is not overruled by what is less reliable; a code is no name.
    """
    whole = hardware.gpu_count is not None and hardware.gpu_count >= 1
    vram_mib = hardware.gpu_memory_mib if whole else None
    for word in hardware.gpu_words:
        if (said := resolve_offer(word, provider=NAME, vram_mib=vram_mib)) is not None:
            return _finer(said, family.gpu), word
        if not _CODE.fullmatch(word):
            return None, word
    return (resolve_offer(family.gpu, provider=NAME, vram_mib=vram_mib) if family.gpu else None), ""


def _finer(said: str, of_family: str | None) -> str:
    """The family's model where what is said leaves open which one of its kind it is, and does not contradict it."""
    if of_family is None:
        return said
    stated, known = accelerators()[said], accelerators()[of_family]
    open_memory = "memory" in stated.unstated and stated.family == known.family
    open_form = bool(stated.unstated) and stated.group == known.group
    return of_family if open_memory or open_form else said


def _vram_mib(hardware: Hardware, gpu: str | None) -> tuple[int | None, bool]:
    """Memory of a card, or of the slice; and whether the stated figure contradicts the model, and is then unknown."""
    count, stated = hardware.gpu_count, hardware.gpu_memory_mib
    nominal = accelerators()[gpu].vram_mib if gpu else None
    if count is None or (nominal is None and count < 1):
        return None, False
    if stated is None or nominal is None:
        return stated if nominal is None else whole_or_none(nominal * min(count, Fraction(1))), False
    if same_memory(stated, nominal):
        return (whole_or_none(nominal * count) if count < 1 else stated), False
    if count < 1 and stated < nominal:
        return stated, False  # the slice's already
    return None, True
