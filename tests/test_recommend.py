"""`/recommend` and `gpufare recommend` over a real database: the arithmetic, the question that follows, its answer."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest
from pytest_httpserver import HTTPServer

from api import examples, recommend_shapes
from catalog.accelerators import resolve_question
from catalog.facts import Fact
from catalog.parameters import PARAMETERS
from catalog.words import Level
from selector.sizing import Precision
from selector.sizing_asked import RECOMMEND_PARAMETERS, WORKLOAD_PARAMETERS
from tests.support.commands import run
from tests.support.filled import Filled, Server, served, sold

RECOMMEND = ["message", "job", "terms", "need", "assumptions", "options", "query", "cheapest"]
EIGHT = Fraction(8)


def _facts(*, level: Level = Level.IN_STOCK) -> list[Fact]:
    """Machines of one region: what they have, at prices that differ."""
    region = "ap-nanjing"
    return [
        *sold(region, "K80", "0.10", gpu="k80", vcpus=4),
        *sold(region, "T4", "0.20", gpu="t4", vcpus=4),
        *sold(region, "TPU", "0.25", gpu="tpu-v6e", vcpus=4),
        *sold(region, "L4", "0.80", level, gpu="l4", vcpus=4),
        *sold(region, "2xL4", "1.50", level, gpu="l4", gpu_count=Fraction(2)),
        *sold(region, "4xA10", "2.80", level, gpu="a10", gpu_count=Fraction(4), nvlink=False),
        *sold(region, "A100", "3.00", level, gpu="a100-sxm4-80g"),
        *sold(region, "8xA100", "20.00", level, gpu="a100-sxm4-80g", gpu_count=EIGHT),
        *sold(region, "2xH100", "9.00", level, gpu="h100-sxm5-80g", gpu_count=Fraction(2)),
        *sold(region, "8xH200", "30.00", level, gpu="h200-sxm5-141g", gpu_count=EIGHT),
    ]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    made = Filled(tmp_path)
    made.plan("tencent", ("stock", "ap-nanjing"), site="cn")
    made.poll("tencent", "stock", "ap-nanjing", _facts())
    made.later(seconds=40)
    yield made
    made.engine.dispose()


@pytest.fixture
def server(filled: Filled) -> Iterator[Server]:
    with served(filled) as serving:
        yield serving


def fields(shape: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(shape)]


@contextmanager
def selling(folder: Path, *facts: Iterable[Fact]) -> Iterator[Server]:
    """A server over a database in which this and nothing else is sold."""
    folder.mkdir(exist_ok=True)
    made = Filled(folder)
    made.plan("tencent", ("stock", "ap-nanjing"), site="cn")
    made.poll("tencent", "stock", "ap-nanjing", [fact for each in facts for fact in each])
    made.later(seconds=40)
    with served(made) as serving:
        yield serving
    made.engine.dispose()


def gpus(name: str, amount: str, gpu: str, count: int, level: Level = Level.IN_STOCK, **more: Any) -> list[Fact]:
    return sold("ap-nanjing", name, amount, level, gpu=gpu, gpu_count=Fraction(count), **more)


def rows(answer: Any) -> list[tuple[str, bool, str | None]]:
    return [(one["gpus"], one["nvlink"], one["price_per_hour"]) for one in answer["options"]]


def best(answer: Any) -> str | None:
    found = answer["cheapest"]["best"]
    return None if found is None else str(found["instance_type"])


def test_the_answer_has_its_fields_and_the_whole_answer_of_cheapest(server: Server) -> None:
    answer = server.get("/recommend?params=8e9&task=lora")
    assert list(answer) == RECOMMEND
    assert list(answer["job"]) == fields(recommend_shapes.JobShape)
    assert list(answer["need"]) == fields(recommend_shapes.NeedShape)
    assert list(answer["query"]) == fields(recommend_shapes.QueryShape)
    assert [list(term) for term in answer["terms"]] == [fields(recommend_shapes.TermShape)] * 5
    assert answer["job"] == {
        "params": 8_000_000_000,
        "task": "lora",
        "precision": "bf16",
        "context": 2048,
        "batch": 1,
        "adapter_percent": "0.5",
        "margin_percent": "20",
        "layers": 35,
        "hidden": 4480,
        "kv_width": None,
        "estimated": ["hidden", "layers"],
    }
    assert [(term["name"], term["gib"]) for term in answer["terms"]] == [
        ("frozen weights", "14.91"),
        ("adapters", "0.6"),
        ("activations, one of each layer", "0.6"),
        ("activations of a layer at work", "0.3"),
        ("margin", "3.28"),
    ]
    assert all(term["formula"] and term["source"] for term in answer["terms"])
    assert (answer["need"]["total_gib"], answer["need"]["min_vram_gib"]) == ("19.67", "19.67")
    assert (answer["need"]["gpus"], answer["need"]["nvlink"], answer["need"]["spot_fits"]) == ("1", False, True)
    assert answer["message"].startswith("LoRA of 8B parameters in bf16, 1 x 2048 tokens: 19.67 GiB")
    assert best(answer) == "L4"


@pytest.mark.parametrize(
    "asked",
    [
        "params=8b&task=lora",
        "params=70b&task=inference&context=32768&batch=4&spot=true",
        "params=405b&task=pretrain&region=ap-nanjing&explain=true",
        "params=8b&task=qlora&count=1,2&gpu=!l4&currency=CNY&limit=2",
        "params=8b&task=inference&gpu=h100&max_price=1&nvlink=true",
    ],
)
def test_its_question_asked_of_cheapest_gives_the_same_answer(server: Server, asked: str) -> None:
    answer = server.get(f"/recommend?{asked}")
    asked_itself = server.get(answer["query"]["path"])
    if answer["cheapest"]["best"] is None:  # that may tell of a change which asks away what the model needs
        for told in (asked_itself, answer["cheapest"]):
            del told["fix"], told["message"]
    assert asked_itself == answer["cheapest"]
    split = urlsplit(answer["query"]["path"])
    assert split.path == "/cheapest"
    assert {name: texts[0] for name, texts in parse_qs(split.query).items()} == answer["query"]["params"]


def test_what_does_not_compute_in_the_precision_or_is_no_gpu_is_not_answered(server: Server) -> None:
    small = "params=1b&task=inference&context=1024"
    assert best(server.get(f"/recommend?{small}")) == "L4"
    assert best(server.get(f"/recommend?{small}&precision=fp16")) == "T4"
    named = server.get(f"/recommend?{small}&gpu=k80")
    assert best(named) == "K80"
    assert named["need"]["gpu_reason"] == "as asked for; k80 has no matrix units for bf16"
    assert best(server.get(f"/recommend?{small}&instance_type=tpu")) == "TPU"


def test_one_gpu_needs_no_nvlink_and_several_do(server: Server) -> None:
    answer = server.get("/recommend?params=30b&task=inference")
    assert best(answer) == "A100"
    assert answer["need"]["nvlink"] is False
    answer = server.get("/recommend?params=60b&task=inference")
    assert best(answer) == "2xH100"
    assert (answer["need"]["gpus"], answer["need"]["nvlink"]) == ("2..3", True)
    assert answer["cheapest"]["query"]["nvlink"] is True
    assert "tensor parallelism" in answer["need"]["nvlink_reason"]


def test_qlora_over_several_gpus_needs_none(server: Server) -> None:
    answer = server.get("/recommend?params=70b&task=qlora")
    assert best(answer) == "4xA10"
    assert (answer["need"]["gpus"], answer["need"]["nvlink"]) == ("4..7", False)
    assert best(server.get("/recommend?params=70b&task=qlora&nvlink=true")) == "A100"


def test_the_options_are_each_number_of_gpus_and_the_cheapest_is_chosen(server: Server) -> None:
    options = server.get("/recommend?params=70b&task=qlora")["options"]
    assert [list(option) for option in options] == [fields(recommend_shapes.GpusOption)] * 4
    assert [(one["gpus"], one["price_per_hour"], one["confirmed"], one["chosen"]) for one in options] == [
        ("1", "3", True, False),
        ("2..3", "9", True, False),
        ("4..7", "2.8", True, True),
        ("8..", "20", True, False),
    ]
    needs = [Fraction(one["min_vram_gib"]) for one in options]
    assert needs == sorted(needs, reverse=True)


def test_a_confirmed_offer_goes_before_a_cheaper_one_that_nobody_confirms(filled: Filled, server: Server) -> None:
    filled.poll("tencent", "stock", "ap-nanjing", _facts(level=Level.UNKNOWN))
    assert best(server.get("/recommend?params=8b&task=lora&stock=any")) == "L4"
    pair = sold("ap-nanjing", "2xA100", "7.00", gpu="a100-sxm4-80g", gpu_count=Fraction(2))
    filled.poll("tencent", "stock", "ap-nanjing", [*_facts(level=Level.UNKNOWN), *pair])
    answer = server.get("/recommend?params=8b&task=lora")
    assert (best(answer), answer["cheapest"]["verdict"]) == ("2xA100", "confirmed")
    assert best(server.get("/recommend?params=8b&task=lora&stock=any")) == "L4"


def test_a_count_limits_the_numbers_of_gpus(server: Server) -> None:
    def looked_at(count: str) -> list[str]:
        answer = server.get(f"/recommend?params=8b&task=qlora&count={count}")
        return [option["gpus"] for option in answer["options"]]

    assert looked_at("8") == ["8"]
    assert looked_at("2..8") == ["2..3", "4..7", "8"]
    assert looked_at("1,2") == ["1", "2"]
    assert looked_at("3") == ["3"]
    assert looked_at("0.25..1") == ["0.25..1"]
    three, two = (server.get(f"/recommend?params=8b&task=lora&count={count}") for count in "32")
    assert Fraction(three["need"]["min_vram_gib"]) < Fraction(two["need"]["min_vram_gib"])
    assert server.refused("/recommend?params=8b&task=lora&count=1.5")["parameter"] == "count"


def test_of_what_both_demand_the_larger_wins(server: Server) -> None:
    asked = "/recommend?params=8b&task=lora&count=1"
    assert best(server.get(f"{asked}&min_vram=24")) == "L4"
    more = server.get(f"{asked}&min_vram=40")
    assert (best(more), more["query"]["params"]["min_vram"]) == ("A100", "40")
    less = server.get(f"{asked}&min_vram=1")
    assert (best(less), less["query"]["params"]["min_vram"]) == ("L4", "19.67")
    total = server.get(f"{asked}&min_total_vram=64")
    assert (best(total), total["cheapest"]["query"]["min_total_vram"]) == ("A100", "64")
    assert total["cheapest"]["query"]["min_vram"] == "19.67"


def test_inference_on_three_gpus_is_sized_for_the_two_that_share_it(tmp_path: Path) -> None:
    """70B has 64 heads and 8 of keys, which 3 does not divide: 3 x 64 GiB do not hold what each of two would need."""
    with selling(
        tmp_path / "a", gpus("3xA100", "5.00", "a100-sxm4-40g", 3), gpus("4xA100", "8.00", "a100-sxm4-40g", 4)
    ) as server:
        answer = server.get("/recommend?params=70b&task=inference&count=3..")
        assert best(answer) == "4xA100"
        three, two = (server.get(f"/recommend?params=70b&task=inference&count={count}")["need"] for count in "32")
        assert three["min_vram_gib"] == two["min_vram_gib"]
        told = server.get("/recommend?params=70b&task=inference&count=7")
        assert told["need"]["gpus"] == "7"
        assert "heads are split over a power of two: of 7 GPUs 4 share the model" in told["assumptions"]
        trained = server.get("/recommend?params=70b&task=lora&count=7")
        assert not any("power of two" in each for each in trained["assumptions"])


@pytest.mark.parametrize("asked", ["*", "k*", "?80", "[k]80", "k80,t*"])
def test_a_glob_names_no_machine(server: Server, asked: str) -> None:
    answer = server.get(f"/recommend?params=1b&task=inference&context=1024&instance_type={asked}")
    assert best(answer) == ("L4" if asked == "*" else None)
    assert "families are left out" in answer["need"]["gpu_reason"]
    assert best(server.get("/recommend?params=1b&task=inference&context=1024&instance_type=k80")) == "K80"


def test_what_several_gpus_cost_without_nvlink_is_told_of_beside(tmp_path: Path) -> None:
    with selling(
        tmp_path / "a", gpus("4xL40S", "4.00", "l40s", 4), gpus("8xA100", "20.00", "a100-sxm4-80g", 8)
    ) as server:
        answer = server.get("/recommend?params=70b&task=inference")
        assert best(answer) == "8xA100"
        assert rows(answer) == [
            ("1", False, None),
            ("2..3", True, None),
            ("2..3", False, None),
            ("4..7", True, None),
            ("4..7", False, "4"),
            ("8..", True, "20"),
            ("8..", False, "20"),
        ]
        assert [one["gpus"] for one in answer["options"] if one["chosen"]] == ["8.."]
        assert answer["message"].endswith(
            " Without NVLink, which is slower: 4..7 GPUs, at least 39.79 GiB each: 4xL40S at tencent ap-nanjing, "
            "4 USD per hour."
        )


def test_without_nvlink_is_the_answer_where_nothing_else_is_sold_and_not_told_of_where_it_is_dearer(
    tmp_path: Path,
) -> None:
    unknown = Level.UNKNOWN
    with selling(
        tmp_path / "a", gpus("4xL40S", "4.00", "l40s", 4, unknown), gpus("1xL40S", "1.00", "l40s", 1)
    ) as server:
        answer = server.get("/recommend?params=70b&task=inference&stock=any")
        assert (best(answer), answer["cheapest"]["verdict"]) == ("4xL40S", "unconfirmed")
        assert "nvlink" not in answer["query"]["params"]
        assert [(one["gpus"], one["nvlink"]) for one in answer["options"] if one["chosen"]] == [("4..7", False)]
        assert answer["message"].endswith(" Without NVLink, which is slower: no machine that has it is an answer.")
        assert answer["need"]["nvlink"] is False
        assert answer["need"]["nvlink_reason"].startswith("no machine that has it is an answer; it is slower so, since")
    with selling(
        tmp_path / "b", gpus("4xL40S", "30.00", "l40s", 4), gpus("8xA100", "20.00", "a100-sxm4-80g", 8)
    ) as server:
        answer = server.get("/recommend?params=70b&task=inference")
        assert ("4..7", False, "30") in rows(answer)
        assert "Without NVLink" not in answer["message"]


@pytest.mark.parametrize("asked", ["task=inference&nvlink=true", "task=inference&nvlink=false", "task=qlora"])
def test_who_speaks_of_nvlink_or_needs_none_is_told_of_nothing_else(server: Server, asked: str) -> None:
    assert len(server.get(f"/recommend?params=70b&{asked}")["options"]) == 4


def test_what_must_be_on_one_device_is_not_put_on_the_two_of_an_mi250(tmp_path: Path) -> None:
    one, four = gpus("MI250", "1.00", "mi250", 1), gpus("4xMI250X", "9.00", "mi250x", 4)
    with selling(tmp_path / "a", one, four, gpus("H200", "4.00", "h200-sxm5-141g", 1)) as server:
        inference = "/recommend?task=inference&params"
        assert best(server.get(f"{inference}=25b")) == "MI250"
        answer = server.get(f"{inference}=50b")
        assert (best(answer), answer["need"]["gpus"]) == ("H200", "1")
        (told,) = (each for each in answer["assumptions"] if each.startswith("mi250 "))
        assert told == "mi250 is no answer: it is 2 devices of 64 GiB, and each needs 114.16 GiB"
        assert best(server.get(f"{inference}=50b&gpu=mi250,h200")) == "H200"
        assert best(server.get(f"{inference}=50b&instance_type=mi250")) is None
        named = server.get(f"{inference}=50b&gpu=mi250&count=1")
        assert (best(named), named["query"]["params"]["min_vram"]) == (None, "228.32")
        # 4 of them are 8 devices: 200B is 57 GiB on each, 230B more than 64
        assert best(server.get(f"{inference}=200b")) == "4xMI250X"
        assert best(server.get(f"{inference}=230b")) is None


@pytest.mark.parametrize(
    ("facts", "asked"),
    [
        (gpus("L4", "0.80", "l4", 1), "task=inference"),
        (gpus("8xA100", "15.00", "a100-sxm4-40g", 8), "task=pretrain&count=8"),
        (gpus("H200", "4.00", "h200-sxm5-141g", 1), "task=inference&count=2"),
    ],
)
def test_no_change_is_told_that_asks_away_what_the_model_needs(tmp_path: Path, facts: list[Fact], asked: str) -> None:
    with selling(tmp_path / "a", facts) as server:
        answer = server.get(f"/recommend?params=70b&{asked}")
        assert (answer["cheapest"]["best"], answer["cheapest"]["fix"]) == (None, None)
        assert not any(f"an answer {how}" in answer["cheapest"]["message"] for how in ("with", "without"))
        assert server.get(answer["query"]["path"])["fix"] is not None  # which knows of no model


def test_a_change_of_anything_else_is_told(tmp_path: Path) -> None:
    with selling(tmp_path / "a", gpus("L4", "0.80", "l4", 1), gpus("K80", "0.10", "k80", 1)) as server:
        fix = server.get("/recommend?params=8b&task=lora&max_price=0.5")["cheapest"]["fix"]
        assert (fix["parameter"], fix["value"]) == ("max_price", "0.8")
        fix = server.get("/recommend?params=8b&task=lora&instance_type=p*")["cheapest"]["fix"]
        assert (fix["parameter"], fix["offer"]["instance_type"]) == ("instance_type", "L4")
        fix = server.get("/recommend?params=1b&task=lora&instance_type=l4&gpu=k80")["cheapest"]["fix"]
        assert (fix["parameter"], fix["offer"]["instance_type"]) == ("instance_type", "K80")
        fix = server.get("/recommend?params=1b&task=lora&instance_type=k80&min_vram=16")["cheapest"]["fix"]
        assert (fix["parameter"], fix["offer"]["instance_type"]) == ("min_vram", "K80")


def changed(asked: str, fix: Any) -> str:
    """The question with its fix."""
    said = {name: texts[0] for name, texts in parse_qs(asked).items() if name != fix["parameter"]}
    return urlencode(said if fix["value"] is None else said | {fix["parameter"]: fix["value"]})


@pytest.mark.parametrize(
    ("asked", "parameter", "value", "offer"),
    [
        ("params=70b&task=inference&max_price=0.5", "max_price", "20", "8xA100"),
        ("params=70b&task=inference&gpu=l40s&max_price=0.5", "max_price", "4", "4xL40S"),
        ("params=8b&task=lora&nvlink=true&gpu=l4", "nvlink", None, "L4"),
        ("params=70b&task=inference&nvlink=true&gpu=l40s", "nvlink", None, "4xL40S"),
        ("params=8b&task=lora&min_vram=100", "min_vram", "24", "L4"),
        ("params=8b&task=lora&min_total_vram=1000", "min_total_vram", "24", "L4"),
        ("params=8b&task=lora&gpu=l4&count=2", "count", "1", "L4"),
        ("params=8b&task=lora&vendor=huawei", "vendor", None, "L4"),
        ("params=1b&task=inference&context=1024&vendor=google", "vendor", None, "L4"),
    ],
)
def test_the_change_that_is_told_gives_that_answer_when_it_is_asked_for_here(
    tmp_path: Path, asked: str, parameter: str, value: str | None, offer: str
) -> None:
    sold_there = [
        gpus("K80", "0.10", "k80", 1),
        gpus("L4", "0.80", "l4", 1),
        gpus("4xL40S", "4.00", "l40s", 4),
        gpus("8xA100", "20.00", "a100-sxm4-80g", 8),
    ]
    with selling(tmp_path / "a", *sold_there) as server:
        answer = server.get(f"/recommend?{asked}")
        fix = answer["cheapest"]["fix"]
        assert (best(answer), fix["parameter"], fix["value"]) == (None, parameter, value)
        assert fix["offer"]["instance_type"] == offer
        assert best(server.get(f"/recommend?{changed(asked, fix)}")) == offer


@pytest.mark.parametrize(
    ("gpu", "count"), [("t4", 4), ("l4", 4), ("a10", 2), ("a10g", 4), ("rtx4090", 4), ("rtx-2000-ada", 4), ("l2", 2)]
)
@pytest.mark.parametrize("task", ["inference", "lora"])
def test_no_option_demands_a_link_that_the_named_gpu_never_has(tmp_path: Path, gpu: str, count: int, task: str) -> None:
    with selling(tmp_path / "a", gpus("several", "1.00", gpu, count)) as server:
        answer = server.get(f"/recommend?params=13b&task={task}&gpu={gpu}&precision=fp16&count={count}")
        (option,) = answer["options"]
        assert (option["nvlink"], option["price_per_hour"], option["chosen"]) == (False, "1", True)
        assert best(answer) == "several"
        assert f" Without NVLink, which is slower: {gpu} has none." in answer["message"]
        assert answer["need"]["nvlink_reason"].startswith(f"{gpu} has none; it is slower so, since ")
        asked_itself = server.get(answer["query"]["path"])
        assert asked_itself == answer["cheapest"]


def test_a_link_is_demanded_where_one_of_the_named_gpus_has_it_and_chosen_where_it_is_sold(tmp_path: Path) -> None:
    four, eight = gpus("4xL40S", "4.00", "l40s", 4), gpus("8xA100", "20.00", "a100-sxm4-80g", 8)
    with selling(tmp_path / "a", four, eight) as server:
        assert best(server.get("/recommend?params=70b&task=inference&gpu=l40s,a100")) == "8xA100"
        assert best(server.get("/recommend?params=70b&task=inference&gpu=l40s")) == "4xL40S"
        assert best(server.get("/recommend?params=70b&task=inference&instance_type=4xl40s")) == "4xL40S"


@pytest.mark.parametrize(
    ("gpu", "precision", "told"),
    [
        ("v100-32g", "bf16", "v100 (Volta) does not compute in bf16, but in fp32 and fp16: software refuses it, or "),
        ("v100-32g", "fp8", "v100 (Volta) does not compute in fp8, but in fp32 and fp16: software refuses it, or "),
        ("t4", "bf16", "t4 (Turing) does not compute in bf16, but in fp32 and fp16: software refuses it, or emulates "),
        ("t4", "fp8", "t4 (Turing) does not compute in fp8, but in fp32 and fp16: weights are held in it, as sized "),
        (
            "a100-80g",
            "fp8",
            "a100 (Ampere) does not compute in fp8, but in fp32, fp16 and bf16: weights are held in it",
        ),
        ("mi210", "fp8", "mi210 (CDNA2) does not compute in fp8, but in fp32, fp16 and bf16: software refuses it, or "),
        (
            "p40",
            "int4",
            "p40 (Pascal) has no matrix units for fp16, which weights in int4 are computed with in: it runs",
        ),
        ("tpu-v6e", "bf16", "tpu-v6e is no GPU: other software is needed than these figures are of"),
    ],
)
def test_a_named_gpu_without_the_precision_is_answered_and_said_to_lack_it(
    tmp_path: Path, gpu: str, precision: str, told: str
) -> None:
    (row,) = (name for name in resolve_question(gpu) if "unstated" not in name and "pcie" not in name)
    with selling(tmp_path / "a", gpus("X1", "1.00", row, 1)) as server:
        asked = f"/recommend?params=1b&task=inference&context=1024&precision={precision}"
        for named in (f"gpu={gpu}", "instance_type=x1"):
            answer = server.get(f"{asked}&{named}")
            assert best(answer) == "X1"
            assert [each for each in answer["assumptions"] if each.startswith(told)]
            short = "is no GPU" if gpu.startswith("tpu") else "has no matrix units for "
            assert short in answer["message"]
            assert short in answer["need"]["gpu_reason"]
        assert best(server.get(asked)) is None
        fine = server.get(f"{asked.replace(precision, 'fp32')}&gpu={gpu}")
        assert gpu.startswith("tpu") or fine["need"]["gpu_reason"] == "as asked for"


def test_a_named_gpu_with_the_precision_is_said_to_lack_nothing(server: Server) -> None:
    for asked in ("gpu=l4&precision=fp8", "gpu=t4&precision=fp16", "gpu=a100&precision=bf16", "gpu=t4&precision=int8"):
        answer = server.get(f"/recommend?params=1b&task=inference&context=1024&{asked}")
        assert best(answer) is not None
        assert answer["need"]["gpu_reason"] == "as asked for"
        assert "matrix units" not in answer["message"]


def test_what_nobody_names_is_chosen_only_if_it_computes_in_the_precision(server: Server) -> None:
    small = "/recommend?params=1b&task=inference&context=1024&precision"
    chosen = {precision: best(server.get(f"{small}={precision}")) for precision in Precision}
    assert chosen == {"fp32": "T4", "bf16": "L4", "fp16": "T4", "fp8": "L4", "int8": "T4", "int4": "T4"}
    large = server.get("/recommend?params=60b&task=inference&precision=fp8&context=1024&max_price=8.99")
    assert best(large) is None  # one A100, for 3, would hold it
    assert best(server.get("/recommend?params=60b&task=inference&precision=int8&context=1024&max_price=8.99")) == "A100"


def test_of_several_named_gpus_each_that_lacks_the_precision_is_told_of(server: Server) -> None:
    answer = server.get("/recommend?params=1b&task=inference&context=1024&gpu=l4,t4,k80,quadro-rtx-6000")
    assert [each.partition(" do")[0] for each in answer["assumptions"] if "compute in bf16" in each] == [
        "k80 (Kepler)",
        "quadro-rtx-6000 and t4 (Turing)",
    ]


def test_only_what_the_question_allows_is_left_out_of_it(server: Server) -> None:
    def excluded(asked: str) -> set[str]:
        answer = server.get(f"/recommend?params=8b&task=lora&{asked}")
        assert server.get(answer["query"]["path"])["best"] == answer["cheapest"]["best"]
        return set(answer["query"]["params"].get("gpu", "").split(",")) - {""}

    assert excluded("vendor=amd") == {"!mi25", "!radeon-pro-v520", "!radeon-pro-v620"}
    assert excluded("vendor=amd&gpu=!mi25") == {"!mi25", "!radeon-pro-v520", "!radeon-pro-v620"}
    assert excluded("vendor=amd,intel") >= {"!mi25", "!gaudi3"}
    assert not {"!mi25", "!tpu-v5e"} & excluded("vendor=nvidia")
    for everything_unfit in ("vendor=huawei", "vendor=google", "vendor=!nvidia,!amd", "vendor=amd&gpu=mi25"):
        assert excluded(everything_unfit) <= {"mi25"}
    assert len(excluded("region=ap-nanjing")) == 35


def test_a_vendor_whose_accelerators_are_all_unfit_is_as_good_as_named(server: Server) -> None:
    answer = server.get("/recommend?params=8b&task=lora&vendor=huawei")
    assert answer["query"]["params"] == {"vendor": "huawei", "count": "1", "min_vram": "19.67"}
    assert answer["need"]["gpu_reason"] == "as asked for; ascend-910 and ascend-910b are no GPUs"
    assert best(server.get("/recommend?params=8b&task=lora&vendor=google")) == "TPU"


@pytest.mark.parametrize(
    ("asked", "parameter", "said"),
    [
        ("vendor=huawei&gpu=t4", "vendor", "vendor=huawei and gpu=t4 contradict: nothing is left."),
        (
            "vendor=huawei&gpu=!ascend-910,!ascend-910b",
            "vendor",
            "vendor=huawei and gpu=!ascend-910,!ascend-910b contradict: nothing is left.",
        ),
        ("vendor=nvidia&gpu=mi300x", "vendor", "vendor=nvidia and gpu=mi300x contradict: nothing is left."),
    ],
)
def test_a_refusal_names_only_what_was_said(server: Server, asked: str, parameter: str, said: str) -> None:
    problem = server.refused(f"/recommend?params=8b&task=lora&{asked}")
    assert problem["parameter"] == parameter
    assert problem["detail"] == said


def test_a_demand_that_is_smaller_than_the_models_is_told_of(server: Server) -> None:
    asked = "/recommend?params=8b&task=lora&count=1&min_vram"
    told = "min_vram 1 is too small: the model needs 19.67 GiB of each GPU, which is asked for in its place"
    assert told in server.get(f"{asked}=1")["assumptions"]
    for enough in ("19.67", "40"):
        assert not any("min_vram" in each for each in server.get(f"{asked}={enough}")["assumptions"])


def test_the_operators_defaults_stand_as_in_cheapest(filled: Filled) -> None:
    with served(filled, defaults={"min_vram": "40", "count": "1", "currency": "CNY", "limit": "1"}) as server:
        answer = server.get("/recommend?params=8b&task=lora")
        assert (best(answer), [option["gpus"] for option in answer["options"]]) == ("A100", ["1"])
        assert answer["cheapest"]["query"]["currency"] == "CNY"
        assert server.get(answer["query"]["path"]) == answer["cheapest"]


def test_what_no_machine_can_hold_is_told_with_the_least_that_is_asked_of_each_gpu(server: Server) -> None:
    answer = server.get("/recommend?params=100t&task=full")
    assert best(answer) is None
    assert answer["cheapest"]["verdict"] == "no_such_machine"
    assert answer["need"]["gpus"] == "8.."
    assert [option["confirmed"] for option in answer["options"]] == [None] * 7
    assert answer["cheapest"]["nearest_misses"]


def test_what_is_too_dear_is_told_of_the_fewest_gpus_that_could_do(server: Server) -> None:
    answer = server.get("/recommend?params=8b&task=lora&max_price=0.5")
    assert (best(answer), answer["cheapest"]["verdict"], answer["need"]["gpus"]) == (None, "too_dear", "1")
    answer = server.get("/recommend?params=200b&task=inference&max_price=0.5")
    assert (answer["cheapest"]["verdict"], answer["need"]["gpus"]) == ("too_dear", "8..")


def test_spot_is_told_of_but_not_asked_for_unless_the_question_does(server: Server) -> None:
    answer = server.get("/recommend?params=8b&task=full")
    assert answer["need"]["spot_fits"] is True
    assert answer["cheapest"]["query"]["purchase"] == ["on_demand"]
    answer = server.get("/recommend?params=8b&task=inference&spot=true")
    assert answer["need"]["spot_fits"] is False
    assert answer["cheapest"]["query"]["purchase"] == ["spot"]


@pytest.mark.parametrize(
    ("asked", "parameter", "near"),
    [
        ("", "params", None),
        ("params=8b", "task", None),
        ("params=0&task=lora", "params", None),
        ("params=-8b&task=lora", "params", None),
        ("params=8bb&task=lora", "params", None),
        ("params=70&task=lora", "params", "70b"),
        ("params=101t&task=lora", "params", None),
        ("params=8b&params=9b&task=lora", "params", None),
        ("params=8b&task=qlorra", "task", "qlora"),
        ("params=8b&task=lora&precision=int4", "precision", "bf16"),
        ("params=8b&task=lora&context=0", "context", None),
        ("params=8b&task=lora&batch=x", "batch", None),
        ("params=8b&task=lora&parms=8b", "parms", "params"),
        ("params=8b&task=lora&region=ap-nanjin", "region", "ap-nanjing"),
        ("params=8b&task=lora&gpu=a100-8", "gpu", "a100-80g"),
        ("params=8b&task=lora&stock=all", "stock", "any"),
        ("params=8b&task=lora&min_vram=x", "min_vram", None),
        ("params=8b&task=lora&count=x", "count", None),
    ],
)
def test_what_is_not_understood_is_a_problem(server: Server, asked: str, parameter: str, near: str | None) -> None:
    problem = server.refused(f"/recommend?{asked}")
    assert problem["parameter"] == parameter
    assert near is None or near in problem["did_you_mean"]


def test_cheapest_does_not_take_the_parameters_of_a_model(server: Server) -> None:
    assert server.refused("/cheapest?params=8b")["parameter"] == "params"


def test_openapi_describes_its_parameters_and_its_shape(server: Server) -> None:
    schema = server.get("/openapi.json")
    described = schema["paths"]["/recommend"]["get"]
    assert [one["name"] for one in described["parameters"]] == list(RECOMMEND_PARAMETERS)
    assert [one["name"] for one in described["parameters"] if one["required"]] == ["params", "task"]
    content = described["responses"]["200"]["content"]["application/json"]
    assert content["schema"]["$ref"].endswith("/RecommendShape")
    assert list(content["example"]) == RECOMMEND
    assert list(schema["components"]["schemas"]["RecommendShape"]["properties"]) == RECOMMEND


def test_the_example_is_what_the_arithmetic_gives(server: Server) -> None:
    """The offer in it is invented, and so is its answer; the rest is not."""
    example = examples.ANSWERS[recommend_shapes.RecommendShape]
    answer = server.get("/recommend?params=8e9&task=lora&region=ap-nanjing")
    for name in ("message", "job", "terms", "need", "assumptions", "query"):
        assert answer[name] == example[name]


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def test_the_command_prints_the_arithmetic_and_the_cheapest(home: Path) -> None:
    said = run(home, "recommend", "8b", "--task", "lora", "--region", "us-east1")
    assert said.returncode == 3, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0].startswith("LoRA of 8B parameters in bf16, 1 x 2048 tokens: 19.67 GiB")
    assert any(line.startswith("frozen weights") and "14.91" in line and "x 2 bytes" in line for line in lines)
    assert any(line.startswith("all") and "19.67" in line for line in lines)
    assert any(line.startswith("1 ") and "chosen" in line for line in lines)
    assert any(line.startswith("spot: yes") for line in lines)
    assert "1x l4" in said.stdout
    assert "nearest misses" not in said.stdout


def test_the_command_prints_the_endpoints_json_alone_and_fails_as_cheapest_does(home: Path) -> None:
    said = run(home, "recommend", "8b", "--task=lora", "--json")
    assert said.returncode == 3
    answer = json.loads(said.stdout)
    assert list(answer) == RECOMMEND
    nothing = run(home, "recommend", "100t", "--task", "full")
    assert nothing.returncode == 1
    assert "nearest misses" in nothing.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["8b"], "task is missing"),
        (["8x", "--task", "lora"], "params=8x"),
        (["70", "--task", "lora"], "70b"),
        (["8b", "--task", "lora", "--region", "us-esat1"], "us-east1"),
        (["8b", "--task", "lora", "--colour", "red"], "--colour"),
        ([], "PARAMS"),
    ],
)
def test_a_question_that_is_not_understood_is_status_2(home: Path, arguments: list[str], said: str) -> None:
    asked = run(home, "recommend", *arguments)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert said in asked.stderr


def test_every_parameter_is_an_option(home: Path) -> None:
    said = run(home, "recommend", "--help", COLUMNS="200").stdout
    options = [f"--{name.replace('_', '-')} " for name in RECOMMEND_PARAMETERS if name != "params"]
    assert [option for option in options if option not in said] == []
    assert len(options) == len(PARAMETERS) + len(WORKLOAD_PARAMETERS) - 1


def test_with_a_url_the_server_is_asked(home: Path, server: Server, httpserver: HTTPServer) -> None:
    answer = server.get("/recommend?params=8b&task=lora&adapter_percent=1&spot=true")
    asked = {"params": "8b", "task": "lora", "adapter_percent": "1", "spot": "true"}
    httpserver.expect_oneshot_request("/recommend", query_string=urlencode(asked)).respond_with_json(answer)
    arguments = ("recommend", "8b", "--task", "lora", "--adapter-percent", "1", "--spot", "--json")
    said = run(home, *arguments, GPUFARE_URL=httpserver.url_for(""))
    httpserver.check_assertions()
    assert json.loads(said.stdout) == answer
    assert said.returncode == (1 if answer["cheapest"]["best"] is None else 0)


def test_an_answer_of_another_shape_is_status_5(home: Path, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/recommend").respond_with_json({"cheapest": {"best": None}})
    said = run(home, "recommend", "8b", "--task", "lora", GPUFARE_URL=httpserver.url_for(""))
    assert (said.returncode, said.stdout) == (5, "")
