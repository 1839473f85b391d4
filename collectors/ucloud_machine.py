"""What a UCloud machine is: its name, which is ours, its size, and the accelerator in it."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.resources import files

from catalog.accelerators import accelerators, resolve_offer, same_memory
from catalog.facts import Machine, Note
from catalog.units import MIB_PER_GIB
from collectors.reading import positive_or_none, whole_or_none
from collectors.ucloud_api import NAME

UNNAMED = "G"
"""The machine type of all GPU machines, where a row names no card beside it."""
COMPSHARE = "compshare."
"""How the machines of the CompShare platform begin: one card each, and another product than the machines of UHost."""
_SIZE = re.compile(r"G\.(.+)\.([0-9]+)g\.([0-9]+)c\.([0-9]+)m")


@dataclass(frozen=True, slots=True)
class Size:
    """A machine of UHost. UCloud has no name for it: card, cards, vCPUs and GB of memory are what is ordered."""

    card: str
    cards: int
    vcpus: int
    memory_gib: int

    @property
    def instance_type(self) -> str:
        """`G.A100.8g.124c.1024m`."""
        return f"G.{self.card}.{self.cards}g.{self.vcpus}c.{self.memory_gib}m"


def size_of(instance_type: str) -> Size | None:
    """What a name stands for; None for one that cannot be ordered, as its card is not known, and for other names."""
    found = _SIZE.fullmatch(instance_type)
    if found is None or found[1] == UNNAMED:
        return None
    return Size(found[1], int(found[2]), int(found[3]), int(found[4]))


@dataclass(frozen=True, slots=True)
class Card:
    """A row of catalog/families/ucloud.csv. None is unknown."""

    gpu: str | None
    share: Fraction
    """Of a whole card: a quarter for `T4/4`."""
    vram_mib: int | None
    """Of the whole card, where it is not its model's: a converted one."""
    bare_metal: bool | None


@cache
def cards() -> Mapping[str, Card]:
    """The table of cards, by UCloud's names in lower case."""
    text = files("catalog").joinpath("families/ucloud.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["gpu_type"].casefold(): _card(row) for row in rows}


def _card(row: Mapping[str, str]) -> Card:
    flag = {"yes": True, "no": False, "": None}
    vram_mib = int(row["vram_gib"]) * MIB_PER_GIB if row["vram_gib"] else None
    return Card(row["gpu"] or None, Fraction(row["share"] or 1), vram_mib, flag[row["bare_metal"]])


@dataclass(frozen=True, slots=True)
class Model:
    """What a card's name and the memory stated beside it say, and what is odd about them."""

    raw: str
    gpu: str | None
    share: Fraction
    vram_mib: int | None
    bare_metal: bool | None
    notes: list[Note] = field(default_factory=list)


def model_of(name: str, stated_gib: Decimal | None = None) -> Model:
    """The model of a card by UCloud's name. A name that is in no table has none, and is noted."""
    card = cards().get(name.casefold()) or Card(name, Fraction(1), None, None)
    stated_mib = None if stated_gib is None else whole_or_none(positive_or_none(stated_gib * MIB_PER_GIB))
    whole_mib = stated_mib if card.share == 1 and card.vram_mib is None else None
    gpu = resolve_offer(_word(card.gpu), provider=NAME, vram_mib=whole_mib) if card.gpu else None
    vram_mib, contradicted = _vram_mib(card, gpu, stated_mib)
    notes = [Note("unknown_gpu", name)] if gpu is None else []
    if contradicted:
        notes.append(Note("gpu_memory_contradicts_model", name))
    return Model(name, gpu, card.share, vram_mib, card.bare_metal, notes)


def _word(gpu: str) -> str:
    """What to look up: the family of a row of any memory, so that the memory can choose among all of it."""
    known = accelerators().get(gpu)
    return known.family if known and "memory" in known.unstated else gpu


def _vram_mib(card: Card, gpu: str | None, stated: int | None) -> tuple[int | None, bool]:
    """Memory of a card, or of the slice; and whether the stated figure contradicts the model.

    UCloud's figure of a whole card is kept then, as there are converted cards; that of a slice says nothing.
    """
    nominal = card.vram_mib or (accelerators()[gpu].vram_mib if gpu else None)
    if nominal is None or stated is None:
        return (stated if nominal is None else whole_or_none(nominal * card.share)), False
    if same_memory(stated, nominal):
        return (stated if card.share == 1 else whole_or_none(nominal * card.share)), False
    if same_memory(stated, int(nominal * card.share)):
        return stated, False
    return (stated if card.share == 1 else None), True


def machine(region: str, size: Size, model: Model) -> Machine:
    """The machine. Of several slices it has no count, so that four quarters never pass for a whole card."""
    whole = model.share == 1
    return Machine(
        region=region,
        instance_type=size.instance_type,
        gpu=model.gpu,
        gpu_count=Fraction(size.cards) if whole else model.share if size.cards == 1 else None,
        gpu_raw="" if model.raw == UNNAMED else model.raw,
        vram_mib=model.vram_mib,
        vcpus=size.vcpus,
        memory_mib=whole_or_none(positive_or_none(Decimal(size.memory_gib * MIB_PER_GIB))),
        bare_metal=model.bare_metal,
    )


def compshare_machine(region: str, model: Model) -> Machine:
    """One card of the CompShare platform. Its inventory counts cards: vCPUs and memory are not stated there."""
    return Machine(
        region=region,
        instance_type=f"{COMPSHARE}{model.raw}",
        gpu=model.gpu,
        gpu_count=model.share,
        gpu_raw=model.raw,
        vram_mib=model.vram_mib,
    )
