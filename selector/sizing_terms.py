"""What takes memory in each task, and how much. Pure."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from selector.sizing import KV_HEAD_DIM, VOCABULARY, Precision, Sizing, Task, Term, Workload, sum_bytes

_LLAMA_3 = "Llama 3 (arXiv:2407.21783), table 3"
_ZERO = "ZeRO (arXiv:1910.02054), section 3.1"
_ZERO_SHARED = "ZeRO (arXiv:1910.02054), section 5.3"
_LORA = "LoRA (arXiv:2106.09685), section 4.2"
_QLORA = "QLoRA (arXiv:2305.14314), section 3"
_RECOMPUTED = "Korthikanti et al. 2022 (arXiv:2205.05198), section 5"
_ONE_LAYER = "Korthikanti et al. 2022 (arXiv:2205.05198), equation 1 without its attention term"
_KV_CACHE = "Hugging Face on Llama 3.1, inference memory requirements"
_WEIGHTS = "Hugging Face on Llama 3.1, inference memory requirements"
_GROUPS = "AutoAWQ and GPTQ, group size 128"
_MARGIN = "Hugging Face Accelerate, model memory estimator, after EleutherAI: up to 20 % more"

NF4_BITS = 4 + Fraction(8, 64) + Fraction(32, 64 * 256)
"""4 of the weight, 8 of the constant of its block of 64, 32 of the constant of 256 blocks: 4.127."""
_TRAINED_16, _TRAINED_32 = (2, 2, 4, 8), (4, 4, 0, 8)
"""Bytes of a parameter that is trained: weight, gradient, copy in 32 bits, and Adam's two moments."""
_VALUES_OF_A_LAYER = 17
"""34 bytes of 16 bits for each token and hidden: what a layer keeps to go back through it, without its scores."""
_LAYERS_GATHERED = 2
"""The one that is computed and the next, which is fetched meanwhile."""


def sizing(workload: Workload, gpus: int) -> Sizing:
    """What the workload needs on so many GPUs of one machine. More of anything, or more bits, never needs less."""
    terms = tuple(_terms(workload, gpus))
    return Sizing(workload, gpus, (*terms, _margin(workload, terms)))


def _terms(workload: Workload, gpus: int) -> Iterator[Term]:
    if workload.task is Task.INFERENCE:
        yield from _held(workload, "weights")
        yield _kv_cache(workload, gpus)
        return
    yield from (_all_trained if workload.adapter_share is None else _adapted)(workload)
    yield from _activations(workload, gpus)
    if gpus > 1:
        yield _gathered(workload, gpus)


def held_bits(workload: Workload) -> Fraction:
    """Bits of a weight as it is held."""
    return NF4_BITS if workload.task is Task.QLORA else workload.precision.bits


def _held(workload: Workload, name: str) -> Iterator[Term]:
    """The weights; of quantised ones the embeddings are left in 16 bits."""
    bits, quantised = held_bits(workload), workload.task is Task.QLORA or workload.precision.quantised
    inner = workload.parameters - (workload.embedded if quantised else 0)
    what, source = _as_held(workload, bits)
    yield _term(name, f"{inner:,} parameters x {what}", source, inner * bits / 8)
    if quantised:
        estimate = f"2 x {VOCABULARY:,} tokens x hidden {workload.hidden:,}, a quarter of all at most"
        formula = f"{workload.embedded:,} parameters (estimate: {estimate}) x 2 bytes"
        yield _term("embeddings, not quantised", formula, f"{_LLAMA_3}: vocabulary", Fraction(2 * workload.embedded))


def _as_held(workload: Workload, bits: Fraction) -> tuple[str, str]:
    """What each weight takes in words, and who says so."""
    if workload.task is Task.QLORA:
        return "4.127 bits (NF4: 4, its constants doubly quantised: 0.127)", _QLORA
    if workload.precision is Precision.INT4:
        return "4.156 bits (4, and of a group of 128 a scale and a zero point: 20)", _GROUPS
    return _bytes_text(bits), _WEIGHTS


def _kv_cache(workload: Workload, gpus: int) -> Term:
    """Keys and values. A head of them is on one GPU: more GPUs than heads hold copies."""
    copies = max(Fraction(1), Fraction(gpus * KV_HEAD_DIM, workload.kv_width))
    value, tokens, batch = workload.precision.value_bytes, workload.context_tokens, workload.sequences
    size = 2 * workload.layers * workload.kv_width * value * tokens * batch * copies
    each = f"2 (keys, values) x {workload.layers:,} layers x {workload.kv_width:,} x {value} bytes"
    copied = f" x {float(copies):g} (more GPUs than heads: each holds a whole one)" if copies > 1 else ""
    return _term("KV cache", f"{each} x {tokens:,} tokens x {batch:,} sequences{copied}", _KV_CACHE, size)


def _all_trained(workload: Workload) -> Iterator[Term]:
    names = ("weights", "gradients", "copy of the weights in 32 bits", "Adam's momentum and variance")
    for name, each in zip(names, _trained_bytes(workload), strict=True):
        if each:
            size = workload.parameters * each
            yield _term(name, f"{workload.parameters:,} parameters x {each} bytes", _ZERO, Fraction(size))


def _adapted(workload: Workload) -> Iterator[Term]:
    yield from _held(workload, "frozen weights")
    weight, gradient, copy, moments = every = _trained_bytes(workload)
    share = f"{float((workload.adapter_share or 0) * 100):g} % of the model's"
    each = f"{sum(every)} bytes (weight {weight}, gradient {gradient}, copy {copy}, Adam {moments})"
    formula = f"{workload.trained:,} parameters ({share}) x {each}"
    yield _term("adapters", formula, _LORA, Fraction(workload.trained * sum(every)))


def _trained_bytes(workload: Workload) -> tuple[int, int, int, int]:
    return _TRAINED_32 if workload.precision is Precision.FP32 else _TRAINED_16


def _activations(workload: Workload, gpus: int) -> Iterator[Term]:
    """With activation checkpointing: the input of each layer is kept, and one layer's are computed anew at a time."""
    layers, value = workload.layers, workload.precision.value_bytes
    tokens, batch, hidden = workload.context_tokens, workload.sequences, workload.hidden
    rows = f"{_on(gpus)}{tokens:,} tokens x {batch:,} sequences x hidden {hidden:,}"
    size = Fraction(gpus * tokens * batch * hidden * value)
    kept, anew = f"{rows} x {layers:,} layers x {value} bytes", f"{rows} x {_VALUES_OF_A_LAYER * value} bytes"
    yield _term("activations, one of each layer", kept, _RECOMPUTED, size * layers, on_each=True)
    yield _term("activations of a layer at work", anew, _ONE_LAYER, size * _VALUES_OF_A_LAYER, on_each=True)


def _gathered(workload: Workload, gpus: int) -> Term:
    """Sharded training: what a GPU fetches of the others' weights to compute with."""
    bits, parameters, layers = held_bits(workload), workload.parameters, workload.layers
    size = gpus * _LAYERS_GATHERED * Fraction(parameters, layers) * bits / 8
    formula = f"{_on(gpus)}{_LAYERS_GATHERED} layers x {parameters:,} parameters / {layers:,} x {_bytes_text(bits)}"
    return _term("layers gathered from the other GPUs", formula, _ZERO_SHARED, size, on_each=True)


def _margin(workload: Workload, terms: Sequence[Term]) -> Term:
    rest = sum_bytes(terms)
    formula = f"{float(workload.margin * 100):g} % of {math.ceil(rest):,} bytes"
    return _term("margin", formula, _MARGIN, rest * workload.margin)


def _term(name: str, formula: str, source: str, memory_bytes: Fraction, *, on_each: bool = False) -> Term:
    return Term(name, f"{formula} = {math.ceil(memory_bytes):,} bytes", memory_bytes, source, on_each)


def _on(gpus: int) -> str:
    return f"{gpus} GPUs x " if gpus > 1 else ""


def _bytes_text(bits: Fraction) -> str:
    number = bits / 8
    return "1 byte" if number == 1 else f"{float(number):.6g} bytes"
