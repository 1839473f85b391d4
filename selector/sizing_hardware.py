"""What of an accelerator decides whether a task can run on it, beside its memory as sold. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from catalog.accelerators import Accelerator, accelerators
from catalog.precisions import COLUMNS, Computes, computes
from catalog.units import MIB_PER_GIB
from selector.sizing import Precision

_COMPUTED_IN: Mapping[Precision, Precision] = {
    Precision.INT8: Precision.FP16,
    Precision.INT4: Precision.FP16,
}
"""Weights that are held in less are computed with in 16 bits."""
_RUNS = (Computes.MATRIX, Computes.VECTOR)
DEVICES: Mapping[str, int] = {"mi250": 2, "mi250x": 2}
"""Accelerators that are sold and counted as one and show up as several devices, each with its part of the memory.

`rocm-smi` shows 8 of a machine of 4 MI250 (Hugging Face Optimum-AMD, multi-GPU performance); each MI250X of LUMI is
two of 64 GB (WarpX, on LUMI).
"""


def device_gib(accelerator: str) -> Fraction:
    """Nominal memory of one device of one of `DEVICES`."""
    return Fraction(accelerators()[accelerator].vram_mib or 0, MIB_PER_GIB * DEVICES[accelerator])


@cache
def unfit(precision: Precision) -> Mapping[str, frozenset[str]]:
    """Families, or ids, of the accelerators that do not compute in this precision or need other software: sorted.

    With the ids that each means. A family whose models are all unfit is named once. Where the tables are silent on an
    accelerator, it is not left out.
    """
    names: dict[str, frozenset[str]] = {}
    for family, rows in _families(accelerators()).items():
        out = frozenset(row.id for row in rows if not _fits(row, precision))
        names |= {family: out} if len(out) == len(rows) else {name: frozenset({name}) for name in out}
    return dict(sorted(names.items()))


def never_linked(ids: Iterable[str]) -> bool:
    """Whether none of these accelerators has a link to its peers, of any make; a link that is not known may be one."""
    return all(accelerators()[name].nvlink_gbs_per_gpu == 0 for name in ids)


def families_of(ids: Iterable[str]) -> tuple[str, ...]:
    """Their families, sorted."""
    return tuple(sorted(_families(ids)))


@dataclass(frozen=True, slots=True)
class Lack:
    """Families that do not compute in a precision as these figures take for granted, all in the same way."""

    families: tuple[str, ...]
    architecture: str | None
    """None of what is no GPU."""
    precision: Precision
    """What they would have to compute in: of weights in less than 8 bits a float, it is that of 16 bits."""
    how: Computes
    instead: tuple[Precision, ...]
    """What they do compute in."""


def lacks(ids: Iterable[str], precision: Precision) -> tuple[Lack, ...]:
    """What these accelerators lack of the precision; nothing of those that compute in it, or of which nobody says."""
    needed = _COMPUTED_IN.get(precision, precision)
    alike: dict[tuple[str | None, Computes], list[str]] = defaultdict(list)
    for family, rows in sorted(_families(ids).items()):
        architecture = rows[0].architecture if rows[0].kind == "gpu" else None
        how = Computes.NONE if architecture is None else _how(architecture, needed)
        if how not in (None, Computes.MATRIX):
            alike[architecture, how].append(family)
    return tuple(
        Lack(tuple(families), architecture, needed, how, _computed_by(architecture))
        for (architecture, how), families in alike.items()
    )


def _computed_by(architecture: str | None) -> tuple[Precision, ...]:
    if architecture is None:
        return ()
    return (Precision.FP32, *(Precision(name) for name in COLUMNS if computes(architecture, name) in _RUNS))


def _how(architecture: str, precision: Precision) -> Computes | None:
    return Computes.MATRIX if precision is Precision.FP32 else computes(architecture, precision)


def _families(ids: Iterable[str]) -> Mapping[str, list[Accelerator]]:
    families: dict[str, list[Accelerator]] = defaultdict(list)
    for name in ids:
        row = accelerators()[name]
        families[row.family].append(row)
    return families


def _fits(row: Accelerator, precision: Precision) -> bool:
    """Matrix units of 16 bits are needed of all: without them what the figures were measured with does not run."""
    needed = (Precision.FP16, _COMPUTED_IN.get(precision, precision))
    return row.kind == "gpu" and all(_how(row.architecture, each) in (None, Computes.MATRIX) for each in needed)
