"""A recommendation for a person: what it says, why, and what it takes for granted. Pure."""

from collections.abc import Iterator
from fractions import Fraction

from catalog.spec import number_text
from selector.sizing import ASPECT, BYTES_PER_GIB, Sizing, Task, Workload, rounded_up

_WHAT = {
    Task.INFERENCE: "Inference with",
    Task.LORA: "LoRA of",
    Task.QLORA: "QLoRA of",
    Task.FULL: "Full fine-tuning of",
    Task.PRETRAIN: "Pretraining of",
}
_UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"))
_STATE_BYTES = 2 + 12
"""A parameter that is trained, in 16 bits, with its copy in 32 bits and Adam's two moments: what a run resumes from."""


def gib_text(gib: Fraction) -> str:
    """A number of GiB in hundredths."""
    return number_text(gib)


def message(sizing: Sizing, gpus: str, *, linked: bool) -> str:
    """What is needed, in one sentence; `gpus` is the count as `/cheapest` takes it."""
    workload = sizing.workload
    on_each = " on each GPU" if workload.task.trains and sizing.gpus > 1 else ""
    job = f"{_WHAT[workload.task]} {parameters_text(workload.parameters)} parameters in {workload.precision}"
    batch = f"{workload.sequences} x {workload.context_tokens} tokens{on_each}"
    total = f"{gib_text(sizing.total_gib)} GiB with a margin of {number_text(workload.margin * 100)} %"
    machine = f"{gpus} GPU{'' if gpus == '1' else 's'}{' with NVLink' if linked else ''}"
    each = "" if gpus == "1" else " each"
    return f"{job}, {batch}: {total}; {machine}, at least {gib_text(sizing.vram_gib)} GiB{each}."


def parameters_text(parameters: int) -> str:
    """`8B`, `1.5B`, `350M`."""
    size, unit = next(each for each in _UNITS if parameters >= each[0])
    return f"{number_text(Fraction(parameters, size))}{unit}"


def nvlink_reason(workload: Workload, gpus: int, *, said: bool, missing: str | None = None) -> str:
    """Why the GPUs need NVLink, or do not; `missing` is why they have none though they should."""
    if said:
        return "as asked for"
    if missing is not None:
        return f"{missing}; it is slower so, since {nvlink_reason(workload, gpus, said=False)}"
    if gpus == 1:
        return "one GPU exchanges nothing with others"
    if workload.task is Task.INFERENCE:
        return "tensor parallelism exchanges the activations of every layer between the GPUs"
    if workload.task is Task.QLORA:
        return "what is gathered from the other GPUs are 4-bit weights, which PCIe has been shown to carry"
    return "each GPU gathers the weights of every layer from the others, at every step"


def spot(workload: Workload) -> tuple[bool, str]:
    """Whether the task may be interrupted, and why."""
    if not workload.task.trains:
        return False, "a spot machine is taken away within two minutes or less, and whoever waits gets no answer"
    saved = rounded_up(Fraction(workload.trained * _state_bytes(workload), BYTES_PER_GIB))
    of = "adapters" if workload.task.adapts else "weights"
    return True, f"it resumes from a checkpoint ({of} and optimizer states, {gib_text(saved)} GiB): save often"


def _state_bytes(workload: Workload) -> int:
    return 12 if workload.precision.value_bytes == 4 else _STATE_BYTES


def gpu_reason(workload: Workload, left_out: int) -> str:
    """Why so many families of accelerators are left out."""
    if not left_out:
        return "as asked for"
    families = "1 family is" if left_out == 1 else f"{left_out} families are"
    return f"{families} left out: no GPUs, or without matrix units for {workload.precision}"


def assumptions(workload: Workload) -> Iterator[str]:
    """What the arithmetic takes for granted."""
    guessed = workload.estimated & {"layers", "hidden"}
    if len(guessed) == 2:
        rule = f"the fewest layers with 12 x layers x ({ASPECT} x layers)^2 >= parameters"
        yield f"layers {workload.layers} and hidden {workload.hidden} are estimates: {rule}"
    elif "layers" in guessed:
        yield f"layers {workload.layers} is an estimate: 12 x layers x hidden^2 >= parameters"
    elif guessed:
        yield f"hidden {workload.hidden} is an estimate: 12 x layers x hidden^2 >= parameters"
    yield from _of_training() if workload.task.trains else _of_inference(workload)


def _of_inference(workload: Workload) -> Iterator[str]:
    if "kv_width" in workload.estimated:
        rule = "8 heads of 128, as of Llama 3; of a model without grouped queries it is the hidden size"
        yield f"kv_width {workload.kv_width} is an estimate: {rule}"
    yield "the cache is in 16 bits, or in 32 where the weights are"
    yield "long prompts are read in chunks, so that their activations are within the margin"


def _of_training() -> Iterator[str]:
    yield "activation checkpointing, attention that stores no scores (FlashAttention), and a loss in chunks"
    yield "AdamW with its states in 32 bits"
    yield "over several GPUs of one machine weights, gradients and states are sharded (FSDP, ZeRO-3)"
