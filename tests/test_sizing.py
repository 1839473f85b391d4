"""How much memory a model needs, against what others published and measured, and what holds of any model."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.accelerators import UnknownAccelerator, accelerators, resolve_question
from catalog.parameters import PARAMETERS
from catalog.precisions import Computes, architectures, computes
from selector.sizing import (
    TRAINED_IN,
    Precision,
    Sizing,
    Task,
    Workload,
    estimated_hidden,
    estimated_layers,
    sum_bytes,
)
from selector.sizing_asked import WORKLOAD_PARAMETERS, passed_on, understand_workload
from selector.sizing_demands import sharing
from selector.sizing_hardware import DEVICES, device_gib, lacks, never_linked, unfit
from selector.sizing_terms import sizing
from selector.sizing_words import spot
from selector.values import BadQuestion

GB = 10**9
GIB = 2**30


def workload(**params: str) -> Workload:
    return understand_workload({name: [text] for name, text in params.items()})


def sized(gpus: int = 1, **params: str) -> Sizing:
    return sizing(workload(**params), gpus)


def rest_bytes(sizing: Sizing) -> Fraction:
    """Of all terms but the margin, which published figures do not have."""
    return sum_bytes(sizing.terms[:-1])


def by_name(sizing: Sizing) -> Mapping[str, Fraction]:
    return {term.name: term.memory_bytes for term in sizing.terms}


def weights_of(sizing: Sizing) -> Fraction:
    """The weights with what is not quantised of them."""
    return sum((held for name, held in by_name(sizing).items() if name != "KV cache" and name != "margin"), Fraction(0))


def near(ours: Fraction | float, theirs: float, low_percent: float, high_percent: float) -> None:
    """Ours over theirs, less 1, in percent."""
    off = 100 * (float(ours) / theirs - 1)
    assert low_percent <= off <= high_percent, f"{float(ours):.4g} against {theirs:.4g}: {off:+.1f} %"


# --- against published figures: docs/recommend.md has them all, with where they stand ---------------------------------


@pytest.mark.parametrize(
    ("params", "precision", "theirs_gb", "low", "high"),
    [
        ("8b", "fp16", 16, 0, 0),
        ("70b", "fp16", 140, 0, 0),
        ("405b", "fp16", 810, 0, 0),
        # theirs are of one byte, or half of one, for all: in fact the embeddings stay in 16 bits, 14 % of 8B
        ("8b", "fp8", 8, 0, 15),
        ("70b", "fp8", 70, 0, 4),
        ("405b", "fp8", 405, 0, 2),
        ("8b", "int4", 4, 0, 47),
        ("70b", "int4", 35, 0, 14),
        ("405b", "int4", 203, 0, 8),
    ],
)
def test_weights_are_those_of_hugging_face_on_llama_3_1(
    params: str, precision: str, theirs_gb: int, low: float, high: float
) -> None:
    near(weights_of(sized(params=params, task="inference", precision=precision)), theirs_gb * GB, low, high)


def test_four_bits_of_8b_take_what_the_published_checkpoint_takes() -> None:
    """hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4: files of 4.68 and 1.05 GB, with its known shape."""
    ours = sized(params="8.03b", task="inference", precision="int4", layers="32", hidden="4096")
    near(weights_of(ours), 5.73 * GB, -1, 1)


@pytest.mark.parametrize(
    ("params", "layers", "kv_width", "theirs_gib"),
    [
        ("8b", "32", "1024", (0.125, 1.95, 15.62)),
        ("70b", "80", "1024", (0.313, 4.88, 39.06)),
        # theirs is of 16 heads, as the first checkpoint had them; the paper has 8, as the estimate has
        ("405b", "126", "2048", (0.984, 15.38, 123.05)),
    ],
)
def test_the_cache_is_that_of_hugging_face_on_llama_3_1(
    params: str, layers: str, kv_width: str, theirs_gib: tuple[float, ...]
) -> None:
    """Theirs are GiB, though called GB, of 1024, 16000 and 128000 tokens, rounded: exact with the shape known.

    From the parameters alone it is off by as much as the estimate of the layers: 35 for 32, 71 for 80, 128 for 126.
    """
    for tokens, theirs in zip(("1024", "16000", "128000"), theirs_gib, strict=True):
        known = sized(params=params, task="inference", context=tokens, layers=layers, kv_width=kv_width)
        exact = by_name(known)["KV cache"]
        near(exact / GIB, theirs, -0.2, 0.2)
        estimated = by_name(sized(params=params, task="inference", context=tokens))["KV cache"]
        near(estimated / exact, 1024 / int(kv_width), -12, 10)


@pytest.mark.parametrize(("params", "theirs_gb"), [("1.5b", 24), ("7.5b", 120), ("128b", 2048), ("1t", 16000)])
def test_states_of_training_are_those_of_zero(params: str, theirs_gb: int) -> None:
    """Section 3.1 and table 1: 16 bytes for each parameter."""
    terms = by_name(sized(params=params, task="full"))
    states = sum((size for name, size in terms.items() if "activations" not in name and name != "margin"), Fraction(0))
    near(states, theirs_gb * GB, 0, 0)


def test_activations_with_checkpointing_are_those_of_zero() -> None:
    """Section 3.2: GPT-2 of 1.5B, 1024 tokens, batch 32, "about 8 GB". Theirs keeps the square root of all."""
    terms = by_name(sized(params="1.5b", task="full", context="1024", batch="32", layers="48", hidden="1600"))
    kept = sum((size for name, size in terms.items() if name.startswith("activations")), Fraction(0))
    near(kept, 8 * GB, -16, 0)


def test_full_tuning_of_65b_without_a_copy_in_32_bits_is_that_of_qlora() -> None:
    """Its abstract: "more than 780 GB". That is 12 bytes a parameter; ours has the copy of ZeRO's 16 besides."""
    terms = by_name(sized(params="65b", task="full"))
    states = terms["weights"] + terms["gradients"] + terms["Adam's momentum and variance"]
    near(states, 780 * GB, 0, 0)


@pytest.mark.parametrize(("params", "theirs_gb", "low", "high"), [("8b", 60, 0, 7), ("405b", 3250, -1, 1)])
def test_full_tuning_is_twice_that_of_hugging_face_on_llama_3_1(
    params: str, theirs_gb: int, low: float, high: float
) -> None:
    """Theirs are 8 bytes a parameter: weights, gradients and both states of Adam in 16 bits, with no copy in 32.

    Their 300 GB of 70B is left out: 4.3 bytes a parameter do not hold even that.
    """
    terms = by_name(sized(params=params, task="full"))
    states = sum((size for name, size in terms.items() if "activations" not in name and name != "margin"), Fraction(0))
    near(states / 2, theirs_gb * GB, low, high)


@pytest.mark.parametrize(
    ("params", "task", "theirs_gb", "low", "high"),
    [
        ("8b", "lora", 16, 0, 11),  # theirs is the weights alone
        ("70b", "lora", 160, -8, 0),
        ("405b", "lora", 950, -11, 0),
        ("8b", "qlora", 6, 0, 24),  # below the 7.4 GiB that were measured, see below
        ("70b", "qlora", 48, -2, 2),
        ("405b", "qlora", 250, 0, 4),
    ],
)
def test_adapters_are_those_of_hugging_face_on_llama_3_1(
    params: str, task: str, theirs_gb: int, low: float, high: float
) -> None:
    """Theirs "are estimated values and may vary", of no stated context: ours of 2048 tokens."""
    near(rest_bytes(sized(params=params, task=task)), theirs_gb * GB, low, high)


def test_lora_of_gpt_3_is_its_weights_as_the_paper_has_it() -> None:
    """Section 4.2: from 1.2 TB to 350 GB, with 0.01 % trained."""
    terms = by_name(sized(params="175b", task="lora", adapter_percent="0.01", context="128"))
    near(terms["frozen weights"] + terms["adapters"], 350 * GB, 0, 0.1)


def test_qlora_of_65b_fits_the_one_gpu_of_48_gib_that_it_was_published_for() -> None:
    """Abstract: "<48GB", on "a single 48GB GPU"; the appendix: 512 tokens, base model 37,074 MB."""
    ours = sized(params="65b", task="qlora", context="512")
    held = by_name(ours)["frozen weights"] + by_name(ours)["embeddings, not quantised"]
    near(held, 37.074 * GB, -1, 1)
    assert rest_bytes(ours) < 48 * GB
    assert ours.vram_gib <= 48


@pytest.mark.parametrize(
    ("params", "theirs_gb", "low", "high"),
    # rank 64 on all layers. Ours keeps a copy of the adapters in 32 bits, theirs has another, smaller vocabulary
    [("7b", 6.9, 0, 14), ("13b", 11.3, 0, 12), ("33b", 24.7, 0, 12), ("65b", 45.0, 0, 10)],
)
def test_qlora_takes_what_its_appendix_shows(params: str, theirs_gb: float, low: float, high: float) -> None:
    """The totals of its breakdown: batch 1, 512 tokens; adapters of 149, 225, 449 and 720 million parameters."""
    trained = {"7b": 149e6, "13b": 225e6, "33b": 449e6, "65b": 720e6}[params]
    percent = f"{100 * trained / (float(params[:-1]) * 1e9):.4f}"
    ours = sized(params=params, task="qlora", context="512", adapter_percent=percent)
    near(rest_bytes(ours), theirs_gb * GB, low, high)


@pytest.mark.parametrize(("task", "theirs_gib", "low", "high"), [("lora", 16.2, 0, 6), ("qlora", 7.4, 0, 3)])
def test_one_gpu_takes_what_torchtune_measured(task: str, theirs_gib: float, low: float, high: float) -> None:
    """Llama 3.1 8B on one RTX 4090, batch 2, 2048 tokens, rank 8 (0.25 % trained). Ours has 35 layers for its 32."""
    ours = sized(params="8b", task=task, batch="2", adapter_percent="0.25")
    near(rest_bytes(ours) / GIB, theirs_gib, low, high)
    assert ours.vram_gib <= 24


def test_eight_gpus_take_what_torchtune_measured() -> None:
    """LoRA of Llama 3.1 70B on eight A100: 27.6 GiB on each, batch 2 on each, 2048 tokens, rank 16 (0.28 % trained)."""
    ours = sized(8, params="70b", task="lora", batch="2", adapter_percent="0.28")
    near(rest_bytes(ours) / GIB / 8, 27.6, -6, 0)
    assert ours.vram_gib > Fraction("27.6")


# --- how terms and totals hang together -------------------------------------------------------------------------------


def test_the_terms_add_up_to_the_total_and_the_margin_is_one_of_them() -> None:
    ours = sized(4, params="70b", task="lora", context="4096")
    (*rest, margin) = ours.terms
    assert (margin.name, margin.memory_bytes) == ("margin", sum_bytes(rest) / 5)
    total = sum_bytes(ours.terms) / GIB
    assert ours.total_gib - Fraction(1, 100) < total <= ours.total_gib
    assert ours.vram_gib - Fraction(1, 100) < total / 4 <= ours.vram_gib
    for term in ours.terms:
        assert term.formula.endswith(f" = {-(-term.memory_bytes // 1):,} bytes")


def test_gib_are_of_two_to_the_thirty_rounded_up() -> None:
    (weights, *_) = sized(params="8b", task="inference").terms
    assert weights.memory_bytes == 16 * GB
    assert weights.memory_gib == Fraction("14.91")
    assert "8,000,000,000 parameters x 2 bytes = 16,000,000,000 bytes" in weights.formula


def test_what_each_gpu_holds_of_its_own_does_not_shrink_with_more_of_them() -> None:
    two, eight = (sized(gpus, params="70b", task="full", context="8192") for gpus in (2, 8))
    assert two.undivided_gib == eight.undivided_gib > 0
    assert eight.vram_gib > eight.undivided_gib
    assert sized(8, params="70b", task="inference").undivided_gib == 0


def test_more_gpus_than_heads_of_keys_hold_copies_of_the_cache() -> None:
    eight, sixteen = (by_name(sized(gpus, params="405b", task="inference"))["KV cache"] for gpus in (8, 16))
    assert sixteen == 2 * eight
    assert by_name(sized(4, params="405b", task="inference"))["KV cache"] == eight


def test_each_term_has_a_formula_and_a_source() -> None:
    for task in Task:
        for precision in TRAINED_IN if task.trains else Precision:
            for gpus in (1, 8):
                for term in sized(gpus, params="70b", task=task, precision=precision).terms:
                    assert term.formula
                    assert term.source
                    assert term.memory_bytes > 0


def test_training_in_32_bits_has_no_copy_and_as_much_memory() -> None:
    mixed, single = (sized(params="1b", task="full", precision=name) for name in ("bf16", "fp32"))
    assert "copy of the weights in 32 bits" not in by_name(single)
    states = [
        sum(
            (size for name, size in by_name(each).items() if "activations" not in name and name != "margin"),
            Fraction(0),
        )
        for each in (mixed, single)
    ]
    assert states == [16 * GB, 16 * GB]


def test_layers_and_hidden_are_estimated_as_known_models_have_them() -> None:
    for parameters, layers, hidden in [
        (8_030_000_000, 32, 4096),
        (70_600_000_000, 80, 8192),
        (405_000_000_000, 126, 16384),
        (175_000_000_000, 96, 12288),
    ]:
        near(estimated_layers(parameters), layers, -12, 10)
        near(estimated_layers(parameters) * 128, hidden, -1, 13)
        near(estimated_hidden(parameters, layers), hidden, -1, 13)
        near(estimated_layers(parameters, hidden), layers, -1, 25)


def test_what_is_known_of_a_model_stands_in_place_of_estimates() -> None:
    known = workload(params="8b", task="inference", layers="32", hidden="4096", kv_width="4096")
    assert (known.layers, known.hidden, known.kv_width, known.estimated) == (32, 4096, 4096, frozenset())
    guessed = workload(params="8b", task="inference")
    assert (guessed.layers, guessed.hidden, guessed.kv_width) == (35, 4480, 1024)
    assert guessed.estimated == {"layers", "hidden", "kv_width"}
    assert workload(params="8b", task="full").estimated == {"layers", "hidden"}


# --- what holds of any model ------------------------------------------------------------------------------------------

_sizes = st.integers(10**6, 10**13)
_tokens = st.integers(1, 200_000)
_batches = st.integers(1, 64)
_gpus = st.sampled_from([1, 2, 4, 8, 16])
_tasks = st.sampled_from(list(Task))


def _sized(parameters: int, task: Task, tokens: int, batch: int, gpus: int, precision: str = "bf16") -> Sizing:
    return sized(gpus, params=str(parameters), task=task, context=str(tokens), batch=str(batch), precision=precision)


@given(_sizes, _sizes, _tasks, _tokens, _batches, _gpus)
def test_more_parameters_never_need_less(one: int, other: int, task: Task, tokens: int, batch: int, gpus: int) -> None:
    few, many = sorted((one, other))
    assert _sized(few, task, tokens, batch, gpus).vram_gib <= _sized(many, task, tokens, batch, gpus).vram_gib


@given(_sizes, _tasks, _tokens, _tokens, _batches, _gpus)
def test_more_context_never_needs_less(
    parameters: int, task: Task, one: int, other: int, batch: int, gpus: int
) -> None:
    few, many = sorted((one, other))
    assert _sized(parameters, task, few, batch, gpus).vram_gib <= _sized(parameters, task, many, batch, gpus).vram_gib


@given(_sizes, _tasks, _tokens, _batches, _batches, _gpus)
def test_a_larger_batch_never_needs_less(
    parameters: int, task: Task, tokens: int, one: int, other: int, gpus: int
) -> None:
    few, many = sorted((one, other))
    assert _sized(parameters, task, tokens, few, gpus).vram_gib <= _sized(parameters, task, tokens, many, gpus).vram_gib


@given(_sizes, _tasks, _tokens, _batches, _gpus)
def test_lower_precision_never_needs_more(parameters: int, task: Task, tokens: int, batch: int, gpus: int) -> None:
    words = [word for word in Precision if not task.trains or word in TRAINED_IN]
    needs = [_sized(parameters, task, tokens, batch, gpus, word).vram_gib for word in words]
    assert needs == sorted(needs, reverse=True)


@given(_sizes, st.sampled_from([Task.LORA, Task.QLORA, Task.FULL, Task.PRETRAIN]), _tokens, _batches)
def test_tasks_that_train_less_need_less(parameters: int, task: Task, tokens: int, batch: int) -> None:
    qlora, lora, full = (
        _sized(parameters, each, tokens, batch, 1).vram_gib for each in (Task.QLORA, Task.LORA, Task.FULL)
    )
    assert qlora <= lora <= full
    assert _sized(parameters, task, tokens, batch, 1).vram_gib <= full


@given(_sizes, _tasks, _tokens, _batches)
def test_more_gpus_never_need_more_each_once_there_are_several(
    parameters: int, task: Task, tokens: int, batch: int
) -> None:
    each = [_sized(parameters, task, tokens, batch, gpus).vram_gib for gpus in (2, 4, 8)]
    assert each == sorted(each, reverse=True)


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("8e9", 8 * GB),
        ("8000000000", 8 * GB),
        ("8b", 8 * GB),
        ("70B", 70 * GB),
        ("1.5b", 1_500_000_000),
        ("405b", 405 * GB),
        ("350m", 350_000_000),
        ("1.5E9", 1_500_000_000),
        (" 8b ", 8 * GB),
        ("1t", 10**12),
        ("100t", 10**14),
        ("1000k", 10**6),
    ],
)
def test_parameters_are_a_count_or_as_models_are_named(text: str, parameters: int) -> None:
    assert workload(params=text, task="lora").parameters == parameters


def refused(**params: str) -> BadQuestion:
    with pytest.raises(BadQuestion) as caught:
        workload(**params)
    return caught.value


@pytest.mark.parametrize(
    ("text", "said", "near"),
    [
        ("0", "from 1m to 100t", []),
        ("-8b", "write a number such as 8b", []),
        ("8g", "write a number such as 8b", []),
        ("nan", "write a number such as 8b", []),
        ("8,000,000,000", "write a number such as 8b", []),
        ("８b", "write a number such as 8b", []),
        ("1e99", "from 1m to 100t", []),
        ("101t", "from 1m to 100t", []),
        ("70", "from 1m to 100t", ["70b"]),
        ("1.0000001m", "no whole number", []),
        ("", "is empty", []),
        ("8b\x00", "control character", []),
    ],
)
def test_what_is_no_number_of_parameters_is_refused(text: str, said: str, near: list[str]) -> None:
    bad = refused(params=text, task="lora")
    assert bad.parameter == "params"
    assert said in bad.message
    assert bad.did_you_mean == near


@pytest.mark.parametrize(
    ("params", "parameter", "near"),
    [
        ({"task": "lora"}, "params", None),
        ({"params": "8b"}, "task", None),
        ({"params": "8b", "task": "lorra"}, "task", "lora"),
        ({"params": "8b", "task": "lora", "precision": "fp17"}, "precision", "fp16"),
        ({"params": "8b", "task": "lora", "precision": "int4"}, "precision", "bf16"),
        ({"params": "8b", "task": "full", "precision": "fp8"}, "precision", "bf16"),
        ({"params": "8b", "task": "inference", "context": "0"}, "context", None),
        ({"params": "8b", "task": "inference", "context": "8k"}, "context", None),
        ({"params": "8b", "task": "inference", "batch": "1.5"}, "batch", None),
        ({"params": "8b", "task": "inference", "layers": "10001"}, "layers", None),
        ({"params": "8b", "task": "lora", "adapter_percent": "101"}, "adapter_percent", None),
        ({"params": "8b", "task": "full", "adapter_percent": "1"}, "adapter_percent", None),
        ({"params": "8b", "task": "lora", "kv_width": "1024"}, "kv_width", None),
        ({"params": "8b", "task": "lora", "margin_percent": "101"}, "margin_percent", None),
        ({"params": "8b", "task": "lora", "presision": "bf16"}, "presision", "precision"),
        ({"params": "8b", "task": "lora", "regoin": "x"}, "regoin", "region"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(params: dict[str, str], parameter: str, near: str | None) -> None:
    bad = refused(**params)
    assert bad.parameter == parameter
    assert near is None or near in bad.did_you_mean


def test_one_parameter_has_one_value() -> None:
    with pytest.raises(BadQuestion) as caught:
        understand_workload({"params": ["8b", "70b"], "task": ["lora"]})
    assert caught.value.parameter == "params"
    assert understand_workload({"params": ["8b", "8b"], "task": ["lora"]}).parameters == 8 * GB


def test_defaults_are_those_that_are_documented() -> None:
    found: dict[str, Any] = {task: workload(params="8b", task=task) for task in Task}
    assert {task: each.context_tokens for task, each in found.items()} == {
        "inference": 8192,
        "lora": 2048,
        "qlora": 2048,
        "full": 2048,
        "pretrain": 8192,
    }
    assert {each.precision for each in found.values()} == {Precision.BF16}
    assert {each.sequences for each in found.values()} == {1}
    assert {each.margin for each in found.values()} == {Fraction(1, 5)}
    assert {task: each.adapter_share for task, each in found.items() if each.adapter_share} == {
        "lora": Fraction(1, 200),
        "qlora": Fraction(1, 200),
    }


def test_parameters_of_cheapest_are_passed_on_and_no_name_is_both() -> None:
    assert not WORKLOAD_PARAMETERS.keys() & PARAMETERS.keys()
    assert passed_on({"params": ["8b"], "task": ["lora"], "region": ["us-*"]}) == {"region": ["us-*"]}


def test_spot_fits_what_resumes_and_not_who_is_waited_for() -> None:
    assert spot(workload(params="8b", task="inference"))[0] is False
    for task in Task:
        if task.trains:
            fits, why = spot(workload(params="8b", task=task))
            assert fits
            assert "checkpoint" in why
    assert "104.31 GiB" in spot(workload(params="8b", task="pretrain"))[1]


# --- which accelerators -----------------------------------------------------------------------------------------------


def _left(precision: Precision) -> set[str]:
    return set(accelerators()).difference(*unfit(precision).values())


def test_accelerators_that_do_not_compute_in_the_precision_are_left_out() -> None:
    bf16, fp16, fp8 = map(_left, (Precision.BF16, Precision.FP16, Precision.FP8))
    assert {"a100-sxm4-80g", "l4", "h100-unstated", "mi300x", "mi100", "rtx5090d"} <= bf16 & fp16
    assert not {"k80", "p40", "p100-pcie-16g", "mi25", "tpu-v5e", "trainium2", "gaudi3", "xilinx-u30"} & (
        bf16 | fp16 | fp8
    )
    assert {"t4", "v100-unstated"} <= fp16
    assert not {"t4", "v100-unstated"} & bf16
    assert {"l4", "h100-unstated", "b200", "rtx5090d", "mi300x", "mi355x"} <= fp8
    assert not {"v100-unstated", "t4", "a100-sxm4-80g", "rtx3090", "mi100", "mi250x"} & fp8


def test_every_gpu_has_an_architecture_whose_precisions_are_known_and_agree_with_its_figures() -> None:
    gpus = [row for row in accelerators().values() if row.kind == "gpu"]
    assert architectures() == {row.architecture for row in gpus}
    for row in gpus:
        if row.fp16_is_tensor is not None:
            assert (computes(row.architecture, "fp16") is Computes.MATRIX) is row.fp16_is_tensor, row.id
        if row.fp8_dense_tflops is not None:
            assert computes(row.architecture, "fp8") is Computes.MATRIX, row.id
    for family in {row.family for row in gpus}:
        assert len({row.architecture for row in gpus if row.family == family}) == 1, family


@pytest.mark.parametrize(
    ("gpu", "precision", "how", "instead"),
    [
        ("v100-sxm2-16g", "bf16", "none", ["fp32", "fp16"]),
        ("v100-sxm2-16g", "fp8", "none", ["fp32", "fp16"]),
        ("t4", "bf16", "none", ["fp32", "fp16"]),
        ("t4", "fp8", "weights", ["fp32", "fp16"]),
        ("a100-sxm4-80g", "fp8", "weights", ["fp32", "fp16", "bf16"]),
        ("mi250", "fp8", "none", ["fp32", "fp16", "bf16"]),
        ("p40", "fp16", "vector", ["fp32", "fp16"]),
        ("p40", "int4", "vector", ["fp32", "fp16"]),
        ("k80", "int8", "none", ["fp32"]),
        ("tpu-v5e", "bf16", "none", []),
    ],
)
def test_what_an_accelerator_lacks_of_a_precision_is_told_with_what_it_has(
    gpu: str, precision: str, how: str, instead: list[str]
) -> None:
    (lack,) = lacks([gpu], Precision(precision))
    assert (lack.how, list(lack.instead)) == (how, instead)


def test_nothing_is_lacking_of_what_computes_in_it() -> None:
    for precision in Precision:
        assert lacks(_left(precision), precision) == ()
    assert lacks(["t4", "v100-unstated"], Precision.INT8) == ()
    assert lacks(["k80"], Precision.FP32) == ()


def test_only_what_is_known_to_have_no_link_is_never_linked() -> None:
    assert never_linked(["t4", "l4", "a10", "rtx4090"])
    assert not never_linked(["t4", "a100-sxm4-80g"])
    assert not never_linked(["v100-unstated"])  # whose form, and so whose link, is not known
    assert not never_linked(["rtx3090"])  # which a bridge may join


@pytest.mark.parametrize("precision", list(Precision))
def test_no_more_names_are_left_out_than_a_question_may_have(precision: Precision) -> None:
    assert len(unfit(precision)) < 60


@pytest.mark.parametrize("precision", list(Precision))
def test_no_name_that_a_question_may_say_means_both_fit_and_unfit_models(precision: Precision) -> None:
    """So who names a `gpu` names what is unfit by itself, and not among others."""
    fit = _left(precision)
    for row in accelerators().values():
        for name in (row.id, row.group, row.family, row.name, *row.aliases, *row.ambiguous_aliases):
            try:
                meant = resolve_question(name)
            except UnknownAccelerator:
                continue
            assert meant <= fit or not meant & fit, name


def test_accelerators_of_several_devices_are_those_that_the_table_notes() -> None:
    assert {name: device_gib(name) for name in DEVICES} == {"mi250": 64, "mi250x": 64}
    assert set(DEVICES.values()) == {2}


# --- how many share the work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gpus", "share"), [(1, 1), (2, 2), (3, 2), (5, 4), (6, 4), (7, 4), (8, 8), (12, 8), (16, 16)])
def test_heads_are_split_over_a_power_of_two_and_parameters_over_any_number(gpus: int, share: int) -> None:
    assert sharing(workload(params="70b", task="inference"), gpus) == share
    for task in Task:
        if task.trains:
            assert sharing(workload(params="70b", task=task), gpus) == gpus
