"""What several lists say of one machine's accelerators: agreed, refined, or contradicted and then unknown. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from catalog.accelerators import accelerators
from catalog.facts import Machine


def agreed(machine: Machine, lists: Iterable[Machine]) -> Machine:
    """The machine with `gpu` and `gpu_count` as far as these lists agree; None where they contradict each other.

    Refinement is no contradiction: of `a100-unstated` and `a100-pcie-40g` the precise one stands. Silence is none
    either. "No accelerator" contradicts any, and a fraction never meets a whole. With a contradiction `vram_mib` is
    unknown too, since it is of what they differ on, and `gpu_raw` shows what each says.
    """
    said = list(lists)
    naming = [one for one in said if one.gpu_raw] or said  # a model known by its family gives way to a named one
    gpus = {one.gpu for one in naming if one.gpu is not None}
    counts = {one.gpu_count for one in said if one.gpu_count is not None}
    if 0 in counts and (gpus or len(counts) > 1):
        return _unknown(machine, said, gpu=None, gpu_count=None)
    precise = _most_precise(gpus)
    if len(counts) > 1 or (gpus and precise is None):
        count = None if len(counts) > 1 else machine.gpu_count or None  # 0 would say that it has none
        return _unknown(machine, said, precise, count)
    return machine if machine.gpu is None or precise in (None, machine.gpu) else replace(machine, gpu=precise)


def _unknown(machine: Machine, said: Iterable[Machine], gpu: str | None, gpu_count: Fraction | None) -> Machine:
    raw = " | ".join(sorted({one.gpu_raw for one in said if one.gpu_raw}))
    return replace(machine, gpu=gpu, gpu_count=gpu_count, gpu_raw=raw or machine.gpu_raw, vram_mib=None)


def _most_precise(gpus: set[str]) -> str | None:
    """The one that all the others leave open; None where there is none."""
    found = [gpu for gpu in gpus if all(gpu == other or _refines(gpu, other) for other in gpus)]
    return found[0] if found else None


def _refines(gpu: str, other: str) -> bool:
    """Whether `other` leaves open what `gpu` says: the form or edition within a group, the memory within a family."""
    fine, open_ = accelerators().get(gpu), accelerators().get(other)
    if fine is None or open_ is None or fine.family != open_.family or not open_.unstated - fine.unstated:
        return False
    return fine.group == open_.group or "memory" in open_.unstated
