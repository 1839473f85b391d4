"""What is measured of a machine. None is unknown, and unknown meets no demand.

A slice of an accelerator has that share of its memory, speed and bandwidth.
"""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import wraps

from catalog.accelerators import Accelerator, accelerators, same_memory
from catalog.facts import Machine
from catalog.units import MIB_PER_GIB

_Measure = Callable[[Machine], Fraction | None]
_MOST_MODELS = 10_000


def _of_its_gpus(measure: _Measure) -> _Measure:
    """Keeps what is measured of GPUs alone: many machines have as many of the same, and fractions are slow."""
    known: dict[object, tuple[Fraction | None]] = {}

    @wraps(measure)
    def kept(machine: Machine) -> Fraction | None:
        count = machine.gpu_count
        gpus = (machine.gpu, None if count is None else count.as_integer_ratio(), machine.vram_mib)
        found = known.get(gpus)
        if found is None:
            if len(known) >= _MOST_MODELS:
                known.clear()
            found = known[gpus] = (measure(machine),)
        return found[0]

    return kept


def accelerator_of(machine: Machine) -> Accelerator | None:
    """The model, None where it is not established."""
    return None if machine.gpu is None else accelerators().get(machine.gpu)


def vram_mib(machine: Machine) -> Fraction | None:
    """Memory per GPU, or of the slice: the model's nominal size, unless the provider states distinctly less.

    A stated size within the tolerance of a nominal one is the nominal one: 22888 MiB is a 24 GiB card.
    """
    row = accelerator_of(machine)
    nominal = _share_of(machine, row.vram_mib if row else None)
    stated = machine.vram_mib
    if nominal is None or stated is None:
        return nominal if stated is None else Fraction(stated)
    return nominal if stated >= nominal or _same(stated, nominal) else Fraction(stated)


def _same(stated_mib: int, nominal_mib: Fraction) -> bool:
    return same_memory(stated_mib, round(nominal_mib))


def total_vram_mib(machine: Machine) -> Fraction | None:
    """Memory of all GPUs of the machine."""
    each = vram_mib(machine)
    return None if each is None or machine.gpu_count is None else each * max(machine.gpu_count, Fraction(1))


@_of_its_gpus
def tflops(machine: Machine) -> Fraction | None:
    """Dense FP16 TFLOPS of the matrix units, per GPU or slice."""
    row = accelerator_of(machine)
    return _share_of(machine, row.fp16_dense_tflops if row else None)


@_of_its_gpus
def bandwidth_gbs(machine: Machine) -> Fraction | None:
    """Memory bandwidth in GB/s, per GPU or slice."""
    row = accelerator_of(machine)
    return _share_of(machine, row.bandwidth_gbs if row else None)


def nvlink(machine: Machine) -> bool | None:
    """Whether the GPUs are linked: as the provider says, else by the model's form; a slice of one never is."""
    if machine.gpu_count is not None and 0 < machine.gpu_count < 1:
        return False
    if machine.nvlink is not None:
        return machine.nvlink
    row = accelerator_of(machine)
    return None if row is None else row.nvlink


def vcpus(machine: Machine) -> Fraction | None:
    """vCPUs of the machine."""
    return None if machine.vcpus is None else Fraction(machine.vcpus)


def vcpus_per_gpu(machine: Machine) -> Fraction | None:
    """vCPUs over GPUs; None without a GPU."""
    return Fraction(machine.vcpus) / machine.gpu_count if machine.vcpus and machine.gpu_count else None


def memory_gib(machine: Machine) -> Fraction | None:
    """Memory of the machine in GiB."""
    return None if machine.memory_mib is None else Fraction(machine.memory_mib, MIB_PER_GIB)


def memory_gib_per_vcpu(machine: Machine) -> Fraction | None:
    """GiB of memory for each vCPU."""
    return Fraction(machine.memory_mib, MIB_PER_GIB * machine.vcpus) if machine.memory_mib and machine.vcpus else None


def memory_per_vram(machine: Machine) -> Fraction | None:
    """Machine memory over the memory of all its GPUs."""
    total = total_vram_mib(machine)
    return None if total is None or machine.memory_mib is None else machine.memory_mib / total


@_of_its_gpus
def vram_gib(machine: Machine) -> Fraction | None:
    """Memory per GPU or slice in GiB."""
    each = vram_mib(machine)
    return None if each is None else each / MIB_PER_GIB


@_of_its_gpus
def total_vram_gib(machine: Machine) -> Fraction | None:
    """Memory of all GPUs in GiB."""
    total = total_vram_mib(machine)
    return None if total is None else total / MIB_PER_GIB


def _share_of(machine: Machine, figure: int | Decimal | None) -> Fraction | None:
    """A figure of the whole accelerator, for the part of it that each GPU of the machine is."""
    if figure is None or machine.gpu_count is None:
        return None
    return Fraction(figure) * min(machine.gpu_count, Fraction(1))
