"""What a sized workload asks of `/cheapest` beside what the question says itself. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from catalog.accelerators import accelerators
from catalog.spec import CountRange, Spec, number_text
from selector import values
from selector.asked import Asked
from selector.sizing import Sizing, Task, Workload
from selector.sizing_hardware import DEVICES, device_gib, unfit
from selector.sizing_terms import sizing

_LINKED = frozenset({Task.INFERENCE, Task.LORA, Task.FULL, Task.PRETRAIN})
"""What exchanges so much between GPUs at every layer that they need NVLink; `docs/recommend.md` says why not QLoRA."""
_GLOB = frozenset("*?[")


def links(workload: Workload, gpus: int) -> bool:
    """Whether so many GPUs need NVLink for the workload."""
    return gpus > 1 and workload.task in _LINKED


def sharing(workload: Workload, gpus: int) -> int:
    """How many of so many GPUs can share the work.

    Training shards parameters, which any number may. Inference splits by heads, of which models have a multiple of a
    power of two: a greater number that divides them too cannot be told from the number of parameters.
    """
    return gpus if workload.task.trains else 1 << (gpus.bit_length() - 1)


def demands(
    sized: Sizing, counts: Sequence[CountRange], asked: Asked, left_out: Sequence[str], *, linked: bool
) -> dict[str, list[str]]:
    """The parameters to add, or to put in place of what was said; `left_out` are the accelerators to exclude."""
    return dict(_demands(sized, counts, asked, left_out, linked=linked))


def _demands(
    sized: Sizing, counts: Sequence[CountRange], asked: Asked, left_out: Sequence[str], *, linked: bool
) -> Iterator[tuple[str, list[str]]]:
    yield "count", [str(count) for count in counts]
    yield "min_vram", [number_text(max(sized.vram_gib, said_min_vram_gib(asked)))]
    if linked:
        yield "nvlink", ["true"]
    if left_out:
        yield "gpu", [f"!{name}" for name in sorted({*asked.excluded("gpu"), *left_out})]


def left_out(workload: Workload, asked: Asked, spec: Spec) -> tuple[str, ...]:
    """What is unfit of the accelerators that the question itself allows, `spec` being what it means.

    Nothing where it names what it wants, nor where all that it allows is unfit, such as those of one vendor: that is
    as good as naming them, and to exclude them all would be no question.
    """
    allowed = allowed_by(spec)
    out = {name: ids for name, ids in unfit(workload.precision).items() if ids & allowed}
    return () if names_gpus(asked) or allowed <= frozenset[str]().union(*out.values()) else tuple(out)


def allowed_by(spec: Spec) -> frozenset[str]:
    """The accelerators that may answer, as far as the question speaks of them and of their vendors."""
    return frozenset(
        row.id
        for row in accelerators().values()
        if (spec.gpus is None or row.id in spec.gpus) and (spec.vendors is None or row.vendor in spec.vendors)
    )


def said_min_vram_gib(asked: Asked) -> Fraction:
    """What the question demands of each GPU itself; 0 where it does not."""
    return asked.one("min_vram", values.number) or Fraction(0)


def names_gpus(asked: Asked) -> bool:
    """Whether the question names what it wants, unfit or not. A glob is no name: nobody knows all that it means."""
    types = asked.included("instance_type")
    return bool(asked.included("gpu") or types) and not any(_GLOB & set(text) for text in types)


def too_small(sized: Sizing, spec: Spec) -> tuple[str, ...]:
    """Of the accelerators asked for those of several devices of which each does not hold its part: sorted."""
    asked = DEVICES.keys() & allowed_by(spec)
    return tuple(sorted(name for name in asked if device_need_gib(sized, name) > device_gib(name)))


def device_need_gib(sized: Sizing, accelerator: str) -> Fraction:
    """What each device of so many of this accelerator must have. What is asked of one GPU must be on one device."""
    if sized.gpus == 1:
        return sized.vram_gib
    return sizing(sized.workload, sized.gpus * DEVICES[accelerator]).vram_gib


def without(
    small: tuple[str, ...], params: Mapping[str, Sequence[str]], sized: Sizing, spec: Spec, asked: Asked
) -> dict[str, Sequence[str]]:
    """The parameters so that nothing that is `too_small` answers, though its devices together have the memory."""
    if allowed_by(spec) <= set(small):  # to exclude all that is asked for is no question
        least = max(device_need_gib(sized, name) * DEVICES[name] for name in small)
        return {**params, "min_vram": [number_text(max(least, said_min_vram_gib(asked)))]}
    said = params.get("gpu", asked.items.get("gpu", ()))
    return {**params, "gpu": [*said, *(f"!{name}" for name in small)]}
