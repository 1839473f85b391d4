"""What of an accelerator decides whether a task can run on it, beside its memory as sold. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from catalog.accelerators import Accelerator, accelerators
from catalog.units import MIB_PER_GIB
from selector.sizing import Precision

_NO_MATRIX_UNITS = frozenset({"Kepler", "Maxwell", "Pascal", "GCN5", "RDNA1", "RDNA2"})
"""No matrix units of 16 bits: what the figures were measured with does not run, or runs on their vector units."""
_ALSO_WITHOUT: Mapping[Precision, frozenset[str]] = {
    # vLLM: "Bfloat16 is only supported on GPUs with compute capability of at least 8.0" (its issues 946 and 1157)
    Precision.BF16: frozenset({"Volta", "Turing"}),
    # vLLM, FP8 W8A8: weights alone from Turing on; AMD from the MI300 on
    Precision.FP8: frozenset({"Volta", "CDNA", "CDNA2"}),
}
ARCHITECTURES = _NO_MATRIX_UNITS.union(*_ALSO_WITHOUT.values())
"""Those that some precision leaves out."""
DEVICES: Mapping[str, int] = {"mi250": 2, "mi250x": 2}
"""Accelerators that are sold and counted as one and show up as several devices, each with its part of the memory.

`rocm-smi` shows 8 of a machine of 4 MI250 (Hugging Face Optimum-AMD, multi-GPU performance); each MI250X of LUMI is
two of 64 GB (WarpX, on LUMI).
"""


def device_gib(accelerator: str) -> Fraction:
    """Nominal memory of one device of one of `DEVICES`."""
    return Fraction(accelerators()[accelerator].vram_mib or 0, MIB_PER_GIB * DEVICES[accelerator])


def unfit(precision: Precision) -> tuple[str, ...]:
    """Families, or ids, of the accelerators that do not compute in this precision or need other software: sorted.

    A family whose models are all unfit is named once. Where the table is silent on an accelerator, it is not left out.
    """
    return _unfit(precision)


@cache
def _unfit(precision: Precision) -> tuple[str, ...]:
    families: dict[str, list[Accelerator]] = defaultdict(list)
    for row in accelerators().values():
        families[row.family].append(row)
    names = []
    for family, rows in families.items():
        out = [row.id for row in rows if not _fits(row, precision)]
        names += [family] if len(out) == len(rows) else out
    return tuple(sorted(names))


def _fits(row: Accelerator, precision: Precision) -> bool:
    return row.kind == "gpu" and row.architecture not in _NO_MATRIX_UNITS | _ALSO_WITHOUT.get(precision, frozenset())
