"""Why an offer is not the answer: every reason has a code and a text that gives the figures."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from catalog.offers import Offer
from catalog.partitions import Account
from selector.context import Context
from selector.demands import machine_demands
from selector.measures import nvlink, total_vram_mib, vram_mib
from selector.question import understand
from selector.reasons import Code
from selector.why_not import why_not
from tests.support.offers import FRESH_FOR, NOW, RATES, Here, offer

OLD = FRESH_FOR + timedelta(minutes=1)
OTHERS = (offer("aws", "us-east-1"), offer("tencent", "ap-nanjing"))


def reasons(asked: Offer, params: dict[str, str], mine: frozenset[Account] = frozenset()) -> list[tuple[Code, str]]:
    here = Here(offers=[asked, *OTHERS], accounts=mine)
    spec = understand({name: [text] for name, text in params.items()}, here.world(), {}, endpoint="cheapest")
    context = Context(now=NOW, rates=RATES, accounts=mine)
    return [(reason.code, reason.text) for reason in why_not(asked, spec, context)]


def test_an_offer_that_meets_everything_has_no_reason() -> None:
    assert (
        reasons(offer(), {"gpu": "a100", "min_vram": "80", "min_vcpus": "8", "max_price": "1.00", "nvlink": "true"})
        == []
    )


def test_a_slice_is_rejected_for_its_count_and_its_memory() -> None:
    """T9."""
    assert reasons(offer(gpu="a10", count=Fraction(1, 6)), {"count": "1", "min_vram": "24"}) == [
        (Code.GPU_COUNT, "gpu_count 0.1667 is not 1"),
        (Code.VRAM_TOO_SMALL, "vram 4 < 24"),
    ]


def test_too_few_vcpus_and_sold_out_are_both_told() -> None:
    """T17."""
    assert reasons(offer(vcpus=6, level="out"), {"min_vcpus_per_gpu": "12"}) == [
        (Code.VCPUS_PER_GPU_TOO_SMALL, "vcpus_per_gpu 6 < 12"),
        (Code.OUT_OF_STOCK, "out of stock"),
    ]


BARE = {"vcpus": None, "memory_gib": None}


@pytest.mark.parametrize(
    ("built", "params", "code", "text"),
    [
        ({"gpu": "t4"}, {"gpu": "a100-sxm4-80g"}, Code.GPU, "gpu t4 is not asked for"),
        ({"gpu": None, "count": 1}, {"gpu": "t4"}, Code.GPU, "gpu unknown is not asked for"),
        ({}, {"instance_type": "p5.*"}, Code.INSTANCE_TYPE, "instance_type M1 is not asked for"),
        ({}, {"instance_type": "!m*"}, Code.INSTANCE_TYPE, "instance_type M1 is not asked for"),
        ({"count": 2}, {"count": "4..,1"}, Code.GPU_COUNT, "gpu_count 2 is not 4.. or 1"),
        ({"count": None}, {}, Code.GPU_COUNT_UNKNOWN, "gpu_count unknown"),
        ({}, {"vendor": "amd"}, Code.VENDOR, "vendor nvidia"),
        ({"hosting": "community"}, {}, Code.HOSTING, "hosting community"),
        ({"gpu": "v100-unstated"}, {"min_vram": "16"}, Code.VRAM_UNKNOWN, "vram unknown"),
        ({"count": 2}, {"count": "2", "min_total_vram": "320"}, Code.TOTAL_VRAM_TOO_SMALL, "total_vram 160 < 320"),
        ({"gpu": "t4"}, {"min_tflops": "100"}, Code.TFLOPS_TOO_SMALL, "tflops 65 < 100"),
        ({"gpu": "k80"}, {"min_tflops": "1"}, Code.TFLOPS_UNKNOWN, "tflops unknown"),
        ({"gpu": "t4"}, {"min_bandwidth": "500"}, Code.BANDWIDTH_TOO_SMALL, "bandwidth 320 < 500"),
        ({"vcpus": 4}, {"min_vcpus": "8"}, Code.VCPUS_TOO_SMALL, "vcpus 4 < 8"),
        (BARE, {"min_vcpus_per_gpu": "8"}, Code.VCPUS_PER_GPU_UNKNOWN, "vcpus_per_gpu unknown"),
        ({"memory_gib": 40}, {"min_memory": "64"}, Code.MEMORY_TOO_SMALL, "memory 40 < 64"),
        (BARE, {"min_memory": "64"}, Code.MEMORY_UNKNOWN, "memory unknown"),
        ({"memory_gib": 20}, {"min_memory_per_vcpu": "4"}, Code.MEMORY_PER_VCPU_TOO_SMALL, "memory_per_vcpu 2.5 < 4"),
        (BARE, {"min_memory_per_vcpu": "4"}, Code.MEMORY_PER_VCPU_UNKNOWN, "memory_per_vcpu unknown"),
        ({"memory_gib": 40}, {"min_memory_per_vram": "1"}, Code.MEMORY_PER_VRAM_TOO_SMALL, "memory_per_vram 0.5 < 1"),
        (BARE, {"min_memory_per_vram": "1"}, Code.MEMORY_PER_VRAM_UNKNOWN, "memory_per_vram unknown"),
        ({"gpu": "a100-pcie-80g"}, {"nvlink": "true"}, Code.NVLINK, "nvlink false"),
        ({"gpu": "a100-unstated-80g"}, {"nvlink": "true"}, Code.NVLINK_UNKNOWN, "nvlink unknown"),
        ({"gpu": "a100-unstated-80g"}, {"nvlink": "false"}, Code.NVLINK_UNKNOWN, "nvlink unknown"),
        ({"rdma": False}, {"rdma": "true"}, Code.RDMA, "rdma false"),
        ({}, {"rdma": "false"}, Code.RDMA_UNKNOWN, "rdma unknown"),
        ({}, {"bare_metal": "true"}, Code.BARE_METAL_UNKNOWN, "bare_metal unknown"),
        ({}, {"provider": "aws"}, Code.PROVIDER, "provider tencent"),
        ({}, {"country": "US"}, Code.COUNTRY, "country CN"),
        ({}, {"country": "!CN"}, Code.COUNTRY, "country CN"),
        ({"country": None}, {"country": "!CN"}, Code.COUNTRY_UNKNOWN, "country unknown"),
        ({"mainland_china": True}, {"mainland_china": "false"}, Code.MAINLAND_CHINA, "mainland_china true"),
        ({}, {"mainland_china": "false"}, Code.MAINLAND_CHINA_UNKNOWN, "mainland_china unknown"),
        ({}, {"region": "!ap-guangzhou"}, Code.EXCLUDED_PLACE, "ap-guangzhou is excluded by the question"),
        ({"zone": "z1"}, {"zone": "!z1"}, Code.EXCLUDED_PLACE, "ap-guangzhou z1 is excluded by the question"),
        ({}, {"region": "ap-nanjing"}, Code.NOT_HERE, "ap-guangzhou is not asked for"),
        ({}, {"zone": "ap-guangzhou-1"}, Code.NOT_HERE, "zone unknown"),
        ({}, {"purchase": "month"}, Code.PURCHASE, "on_demand is not month"),
        ({}, {"spot": "true"}, Code.NO_SPOT_MARKET, "no spot market"),
        ({"sold_as": ("on_demand", "spot")}, {"spot": "true"}, Code.NO_SPOT_MARKET, "no spot market"),
        ({"price": None}, {}, Code.NO_PRICE, "no on-demand price"),
        ({"currency": "ISK"}, {}, Code.NO_RATE, "no ISK/USD rate"),
        ({"price": "2"}, {"max_price": "1.5"}, Code.TOO_DEAR, "price 2 > 1.5"),
        (
            {"price": "4", "count": 2},
            {"count": "2", "max_price_per_gpu": "1.5"},
            Code.TOO_DEAR,
            "price_per_gpu 2 > 1.5",
        ),
        ({"level": "out"}, {"stock": "any"}, Code.OUT_OF_STOCK, "out of stock"),
        ({"level": "out", "age": OLD}, {"stock": "confirmed"}, Code.STALE, "out of stock when last seen 4 min ago"),
        (
            {"level": "unknown", "detail": "restricted: quota 0"},
            {},
            Code.RESTRICTED,
            "restricted: quota 0 for this account",
        ),
        (
            {"age": OLD},
            {"stock": "confirmed"},
            Code.STALE,
            "stale: stock seen 4 min ago, price 60 s ago",
        ),
        (
            {"level": "unknown", "evidence": "scored"},
            {"stock": "confirmed"},
            Code.NOT_CONFIRMED,
            "stock unknown (scored), not confirmed",
        ),
    ],
)
def test_each_reason_says_what_is_and_what_was_asked(
    built: dict[str, Any], params: dict[str, str], code: Code, text: str
) -> None:
    assert reasons(offer(**built), params) == [(code, text)]


def test_an_account_is_missed_only_where_mine_are_asked_for() -> None:
    mine = frozenset({("aws", "aws")})
    assert reasons(offer(), {}, mine) == [(Code.NO_ACCOUNT, "no account with tencent")]
    assert reasons(offer(), {"accounts": "all"}, mine) == []


def test_an_unknown_number_of_vcpus_meets_no_minimum() -> None:
    """B036: without the demand the offer is answered."""
    unknown = offer("azure", "eastus", instance_type="Standard_NC24ads_A100_v4", vcpus=None)
    assert reasons(unknown, {"gpu": "a100-80g"}) == []
    assert reasons(unknown, {"gpu": "a100-80g", "min_vcpus": "8"}) == [(Code.VCPUS_UNKNOWN, "vcpus unknown")]


@pytest.mark.parametrize(
    ("built", "mib"),
    [
        ({"gpu": "l4", "vram_mib": 22888}, 24576),
        ({"gpu": "l4"}, 24576),
        ({"gpu": "a10", "count": Fraction(1, 6)}, 4096),
        ({"gpu": "a10", "count": Fraction(1, 6), "vram_mib": 24576}, 4096),
        ({"gpu": "h100-sxm5-80g", "count": Fraction(1, 7), "vram_mib": 10240}, 10240),
        ({"gpu": "rtx4090", "vram_mib": 49152}, 24576),
        ({"gpu": "a100-unstated", "vram_mib": 40960}, 40960),
        ({"gpu": "a100-sxm4-80g", "count": None}, None),
        ({"gpu": None, "count": 1}, None),
    ],
)
def test_memory_is_the_nominal_size_unless_distinctly_less_is_stated(built: dict[str, Any], mib: int | None) -> None:
    """T8's and T9's figures."""
    assert vram_mib(offer(**built).machine) == mib


def test_total_memory_is_of_all_gpus_and_of_a_slice_its_own() -> None:
    assert total_vram_mib(offer(gpu="l4", count=8, vram_mib=22888).machine) == 8 * 24576
    assert total_vram_mib(offer(gpu="a10", count=Fraction(1, 6)).machine) == 4096


def test_what_the_provider_says_of_a_link_goes_before_the_form() -> None:
    assert nvlink(offer(gpu="a100-pcie-80g", nvlink=True).machine) is True
    assert nvlink(offer(gpu="a100-sxm4-80g").machine) is True
    assert nvlink(offer(gpu="a100-pcie-80g").machine) is False
    assert nvlink(offer(gpu="a100-unstated-80g").machine) is None


@pytest.mark.parametrize("stated", [None, True, False])
@pytest.mark.parametrize(
    ("gpu", "count", "linked"),
    [
        ("v100-sxm2-32g", Fraction(1), True),
        ("a100-sxm4-80g", Fraction(8), True),
        ("a100-sxm4-80g", Fraction(1, 7), False),
        ("a10", Fraction(1, 6), False),
        (None, Fraction(1, 2), False),
    ],
)
def test_a_slice_has_no_nvlink_and_a_whole_gpu_what_its_form_has(
    gpu: str | None, count: Fraction, linked: bool, stated: bool | None
) -> None:
    found = nvlink(offer(gpu=gpu, count=count, nvlink=stated).machine)
    assert found is (linked if count < 1 or stated is None else stated)


@pytest.mark.parametrize("age", [timedelta(0), OLD, timedelta(days=90)])
@pytest.mark.parametrize("evidence", ["listed", "scored", "snapshot"])
def test_what_never_was_stock_is_not_confirmed_however_old_it_is(evidence: str, age: timedelta) -> None:
    unsure = offer(level="unknown", evidence=evidence, age=age)
    text = f"stock unknown ({evidence}), not confirmed"
    assert reasons(unsure, {"stock": "confirmed"}) == [(Code.NOT_CONFIRMED, text)]


def test_a_time_in_the_future_is_told_as_such() -> None:
    ahead = offer(age=-timedelta(hours=2), price_age=-timedelta(days=3))
    assert reasons(ahead, {"stock": "confirmed"}) == [
        (Code.STALE, "stale: stock seen 2 h in the future, price 3 d in the future")
    ]


def test_a_question_without_demands_makes_only_those_of_the_defaults() -> None:
    spec = understand({}, Here(offers=[]).world(), {}, endpoint="cheapest")
    assert len(machine_demands(spec)) == 2  # count and hosting
