"""The JSON of `/recommend`. Memory is in GiB of 2^30 bytes, as a decimal string, rounded up to a hundredth."""

from msgspec import Struct

from api.shapes import CheapestShape


class JobShape(Struct, frozen=True):
    """The job as understood, defaults filled in. `estimated` names what was worked out from the number of parameters.

    `batch` are sequences at once, of training on each GPU. Null is what the task does not have.
    """

    params: int
    task: str
    precision: str
    context: int
    batch: int
    adapter_percent: str | None
    margin_percent: str
    layers: int
    hidden: int
    kv_width: int | None
    estimated: list[str]


class TermShape(Struct, frozen=True):
    """What takes memory, over all GPUs of the machine; the last one is the margin.

    `formula` ends with the bytes; the sum of those is `need.total_gib`.
    """

    name: str
    formula: str
    gib: str
    source: str


class NeedShape(Struct, frozen=True):
    """What the machine must have. `undivided_gib` is on each GPU however many share the rest.

    `nvlink` is whether it is asked for; `nvlink_reason` says too where it should be and is not. `gpu_reason` says which
    accelerators are left out, or what those that are asked for lack of the precision.

    `gpus` is a count as `/cheapest` takes it; the terms are of the fewest GPUs that it allows.
    """

    total_gib: str
    gpus: str
    min_vram_gib: str
    undivided_gib: str
    nvlink: bool
    nvlink_reason: str
    spot_fits: bool
    spot_reason: str
    gpu_reason: str


class GpusOption(Struct, frozen=True):
    """A number of GPUs, what each must then have, and the best offer's price per machine and hour; null is no offer."""

    gpus: str
    min_vram_gib: str
    nvlink: bool
    price_per_hour: str | None
    confirmed: bool | None
    chosen: bool


class QueryShape(Struct, frozen=True):
    """The question that `cheapest` answers: its parameters, and its address here."""

    params: dict[str, str]
    path: str


class RecommendShape(Struct, frozen=True):
    """The answer of `/recommend`."""

    message: str
    job: JobShape
    terms: list[TermShape]
    need: NeedShape
    assumptions: list[str]
    options: list[GpusOption]
    query: QueryShape
    cheapest: CheapestShape
