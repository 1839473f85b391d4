"""How much GPU memory a model needs for a task: terms that add up, each with its formula and its source. Pure.

Bytes are exact until they are shown. A GiB is 2^30 bytes, as the nominal sizes of cards are. `docs/recommend.md` has
the sources, and what was compared.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

BYTES_PER_GIB = 2**30
SHOWN_PER_GIB = 100
"""Memory is told in hundredths of a GiB, rounded up: each term, and the total of the exact terms."""
KV_HEAD_DIM = 128
"""Width of one head of keys or values, in every Llama 3 (its paper, table 3)."""
USUAL_KV_WIDTH = 8 * KV_HEAD_DIM
"""Eight heads of keys and values, in every Llama 3 whatever its size (the same table)."""
ASPECT = 128
"""Hidden size over layers: 128 in Llama 3.1 8B, 102 in 70B, 130 in 405B, 128 in GPT-3."""
PARAMETERS_PER_LAYER_AND_HIDDEN_SQUARED = 12
"""Of a transformer: 12 x layers x hidden^2, without its embeddings (Kaplan et al. 2020, table 1)."""
VOCABULARY = 128_256
"""Of Llama 3, among the largest in use: what is left in 16 bits is then not told too small."""
MOST_EMBEDDED = 4
"""At most one parameter in so many is an embedding: in small models the two tables are one."""


class Task(StrEnum):
    """What the model is to do."""

    INFERENCE = "inference"
    LORA = "lora"
    QLORA = "qlora"
    FULL = "full"
    PRETRAIN = "pretrain"

    @property
    def trains(self) -> bool:
        """Whether there are gradients, activations to keep and a state to save."""
        return self is not Task.INFERENCE

    @property
    def adapts(self) -> bool:
        """Whether only a small share of added parameters is trained."""
        return self in (Task.LORA, Task.QLORA)


class Precision(StrEnum):
    """What the weights are held in; of training, what it computes in."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def bits(self) -> Fraction:
        """Bits of a weight. Of four-bit ones a group of 128 also has a scale of 16 bits and a zero point of 4."""
        return _BITS[self]

    @property
    def quantised(self) -> bool:
        """Whether the weights are in less than what is computed in."""
        return self.bits < _BITS[Precision.BF16]

    @property
    def value_bytes(self) -> int:
        """Bytes of an activation, or of a key or value in the cache: those of 16 bits unless all is in 32."""
        return 4 if self is Precision.FP32 else 2


_BITS = {
    Precision.FP32: Fraction(32),
    Precision.BF16: Fraction(16),
    Precision.FP16: Fraction(16),
    Precision.FP8: Fraction(8),
    Precision.INT8: Fraction(8),
    Precision.INT4: 4 + Fraction(16 + 4, 128),
}
TRAINED_IN = (Precision.BF16, Precision.FP16, Precision.FP32)
"""What a task that trains may compute in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model and what it is to do. `sequences` are in the cache at once, or of training those on each GPU at once."""

    parameters: int
    task: Task
    precision: Precision
    context_tokens: int
    sequences: int
    adapter_share: Fraction | None
    """Parameters that are trained over all, of `lora` and `qlora`; None of any other task."""
    margin: Fraction
    """Of the sum of the other terms."""
    layers: int
    hidden: int
    kv_width: int
    """Width of the keys of one token in one layer: heads of keys times the width of each."""
    estimated: frozenset[str] = frozenset()
    """Which of the last three are estimates from the number of parameters; of `kv_width` where there is a cache."""

    @property
    def embedded(self) -> int:
        """An estimate of the parameters of the two embeddings, which quantised models keep in 16 bits."""
        return min(2 * VOCABULARY * self.hidden, self.parameters // MOST_EMBEDDED)

    @property
    def trained(self) -> int:
        """Parameters that get gradients: all, the adapters', or none."""
        if self.adapter_share is not None:
            return math.ceil(self.parameters * self.adapter_share)
        return self.parameters if self.task.trains else 0


def estimated_layers(parameters: int, hidden: int | None = None) -> int:
    """The fewest layers whose 12 x layers x hidden^2 reach the parameters, with 128 x layers for an unknown hidden."""
    if hidden is not None:
        return max(1, -(-parameters // (PARAMETERS_PER_LAYER_AND_HIDDEN_SQUARED * hidden * hidden)))
    cubes = -(-parameters // (PARAMETERS_PER_LAYER_AND_HIDDEN_SQUARED * ASPECT**2))
    layers = max(1, round(math.pow(cubes, 1 / 3)) - 1)
    while layers**3 < cubes:
        layers += 1
    return layers


def estimated_hidden(parameters: int, layers: int) -> int:
    """The smallest hidden size whose 12 x layers x hidden^2 reach the parameters."""
    squares = -(-parameters // (PARAMETERS_PER_LAYER_AND_HIDDEN_SQUARED * layers))
    return math.isqrt(max(squares, 1) - 1) + 1


@dataclass(frozen=True, slots=True)
class Term:
    """What takes memory, over all GPUs of the machine."""

    name: str
    formula: str
    """In words and numbers."""
    memory_bytes: Fraction
    source: str
    on_each: bool = False
    """Whether every GPU holds as much of its own, so that more GPUs do not make it less for each."""

    @property
    def memory_gib(self) -> Fraction:
        """Rounded up to a hundredth."""
        return rounded_up(self.memory_bytes / BYTES_PER_GIB)


@dataclass(frozen=True, slots=True)
class Sizing:
    """The memory of a workload on so many GPUs of one machine; the last term is the margin."""

    workload: Workload
    gpus: int
    terms: tuple[Term, ...]

    @property
    def total_gib(self) -> Fraction:
        """Of all GPUs."""
        return rounded_up(sum_bytes(self.terms) / BYTES_PER_GIB)

    @property
    def vram_gib(self) -> Fraction:
        """Nominal memory that each GPU must have at least."""
        return rounded_up(sum_bytes(self.terms) / BYTES_PER_GIB / self.gpus)

    @property
    def undivided_gib(self) -> Fraction:
        """What is on each GPU however many share the rest."""
        own = sum_bytes(term for term in self.terms if term.on_each)
        return rounded_up(own / self.gpus / BYTES_PER_GIB * (1 + self.workload.margin))


def rounded_up(gib: Fraction) -> Fraction:
    """To the next hundredth."""
    return Fraction(math.ceil(gib * SHOWN_PER_GIB), SHOWN_PER_GIB)


def sum_bytes(terms: Iterable[Term]) -> Fraction:
    """Of all of them, exact."""
    return sum((term.memory_bytes for term in terms), Fraction(0))
