"""Field cases of which GPU a machine holds, end to end: spellings, variants, counts, slices, names nobody knows."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from commands.syncing import ALL_WELL, exit_status
from tests.support.endtoend import amount, gpufare, told
from tests.support.feeds import ScriptedFeed, always, configured, says
from tests.support.filled import sold
from tests.support.tencent import price, row
from tests.support.wires import (
    AwsSays,
    RunPodSays,
    TencentSays,
    a_type,
    aws,
    csv_row,
    ec2_type,
    pods,
    quotas,
    runpod,
    tencent,
)


def test_a_gpu_nobody_knows_is_kept_under_its_own_name_and_stops_no_other(tmp_path: Path) -> None:
    """B029, by RunPod: a success, with a note of the raw name."""
    provider_says = RunPodSays(
        lambda _asked: [a_type("ZZ200 (96 GB)", securePrice=3.19), a_type("NVIDIA A10", securePrice=0.75)]
    )
    with runpod(provider_says) as provider, gpufare(tmp_path, provider) as app:
        rows = app.sync("stock")
        assert exit_status([one.result.status for one in rows], named=False) == ALL_WELL
        assert app.best("gpu=a10") == ("US-KS-2", "1x NVIDIA A10 secure", "0.75")
        assert app.cheapest("gpu=a10")["verdict"] == "confirmed"
        unknown = {(one["gpu"], one["gpu_name"]) for one in app.offers("instance_type=1x ZZ200*")}
        assert unknown == {(None, "ZZ200 (96 GB)")}
        assert ("unknown_gpu", "ZZ200 (96 GB)") in app.notes()


def test_a_number_in_a_name_is_no_count_of_gpus(tmp_path: Path) -> None:
    """B030, by Tencent: the 4X of S5.4XLARGE64 is its size, and it has no GPU; eight cost 14.32, or 1.79 each."""
    cpu = row(InstanceType="S5.4XLARGE64", InstanceFamily="S5", Gpu=0, GpuCount=0.0, Price=price(UnitPrice=0.11))
    eight = row(
        InstanceType="GT4.41XLARGE948",
        InstanceFamily="GT4",
        Gpu=8,
        GpuCount=8.0,
        Price=price(UnitPrice=14.32, UnitPriceDiscount=14.32),
    )
    with tencent(TencentSays(quotas(cpu, eight)), site="intl") as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        best = app.cheapest("gpu=a100-40g&count=8")["best"]
        assert (best["instance_type"], best["gpu_count"]) == ("GT4.41XLARGE948", "8")
        assert (best["price_per_hour"], best["price_per_gpu_hour"]) == ("14.32", "1.79")
        assert "S5.4XLARGE64" not in {one["instance_type"] for one in app.offers()}
        assert app.feed("tencent", "stock")["notes"]["no_gpu"] == 1


def test_spellings_of_a_gpu_are_understood_and_memory_nobody_states_is_unknown(tmp_path: Path) -> None:
    """B031: none of the four vanishes."""
    names = ("L40S (graphics mode)", "RTX A6000", "V100", "A800 PCIe")
    with pods(tmp_path, *(a_type(name) for name in names)) as app:
        found = {one["gpu_name"]: one for one in app.offers("count=1&hosting=datacenter&purchase=on_demand")}
        assert set(found) == set(names)
        assert [found[name]["gpu"].split("-unstated")[0] for name in names[:3]] == ["l40s", "rtx-a6000", "v100"]
        assert found["V100"]["gpu_vram_gib"] is None
        for asked, name in (("l40s", names[0]), ("a6000", names[1]), ("v100", names[2]), ("a800", names[3])):
            assert {one["gpu_name"] for one in app.offers(f"gpu={asked}&count=1&hosting=datacenter")} == {name}


def test_names_that_are_nearly_the_same_are_different_models(tmp_path: Path) -> None:
    """B038, by RunPod."""
    names = (
        "NVIDIA RTX 6000 Ada Generation",
        "Quadro RTX 6000",
        "NVIDIA RTX A6000",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H100 NVL",
        "NVIDIA H100 PCIe",
    )
    with pods(tmp_path, *(a_type(name) for name in names)) as app:
        found = {one["gpu_name"]: one for one in app.offers("count=1&hosting=datacenter&purchase=on_demand")}
        assert set(found) == set(names)
        assert len({one["gpu"] for one in found.values()}) == 6
        assert [found[name]["gpu_vram_gib"] for name in names[:3]] == [48, 24, 48]
        for asked, name in (("rtx6000ada", names[0]), ("a6000", names[2]), ("h100-nvl", names[4])):
            offers = app.offers(f"gpu={asked}&count=1&hosting=datacenter")
            assert {one["gpu_name"] for one in offers} == {name}
        assert found["NVIDIA H100 NVL"]["gpu_vram_gib"] == 94


def test_one_card_under_three_spellings_is_compared_and_its_form_asked_for(tmp_path: Path) -> None:
    """B039: the form that nobody states meets neither."""
    from catalog.accelerators import resolve_offer

    spellings = [
        ("p1", "A100-80GB-SXM", "1.89"),
        ("p2", "A100 80GB PCIe", "1.64"),
        ("p3", "NVIDIA A100-SXM4-80GB", "1.99"),
    ]
    unstated = ("p4", "NVIDIA A100 80GB", "1.00")
    feeds = [
        configured(
            ScriptedFeed(
                provider=name,
                script=always(says(*sold("r1", "m", usd, gpu=resolve_offer(raw, provider=name), gpu_raw=raw))),
            )
        )
        for name, raw, usd in (*spellings, unstated)
    ]
    with gpufare(tmp_path, *feeds) as app:
        app.sync(only="p1"), app.sync(only="p2"), app.sync(only="p3")
        first = app.cheapest("gpu=a100-80g")
        assert (first["best"]["provider"], first["best"]["price_per_hour"]) == ("p2", "1.64")
        assert len(first["alternatives"]) == 2
        app.sync(only="p4")
        for query in ("gpu=a100-sxm4-80g", "gpu=a100-80g&nvlink=true"):
            best = app.cheapest(query)["best"]
            assert (best["provider"], best["price_per_hour"]) == ("p1", "1.89"), query


def test_a_variant_for_china_is_not_the_card_it_is_named_after(tmp_path: Path) -> None:
    """B041, by Tencent."""

    def eight(name: str, model: str) -> dict[str, Any]:
        attributes = {"GpuAttr": {"Type": model}}
        return row(InstanceType=name, InstanceFamily="ZZ7", Gpu=8, GpuCount=8.0, Externals=attributes)

    rows = (eight("ZZ7.8X", "NVIDIA A800"), eight("ZZ7E.8X", "NVIDIA H20"))
    with tencent(TencentSays(quotas(*rows))) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        named = {
            gpu: [one["instance_type"] for one in app.offers(f"gpu={gpu}")]
            for gpu in ("a100-80g", "a800", "h20", "h200")
        }
        assert named == {"a100-80g": [], "a800": ["ZZ7.8X"], "h20": ["ZZ7E.8X"], "h200": []}


@pytest.mark.parametrize("case", ["B042", "T9"])
def test_a_sixth_of_a_card_is_no_whole_one_and_has_a_sixth_of_its_memory(tmp_path: Path, case: str) -> None:
    sixth: Any = {"gpu": "a10", "gpu_count": Fraction(1, 6), "vram_mib": 4096, "vcpus": 6}
    with told(tmp_path, *sold("r1", "NV6ads_A10_v5", "0.454", **sixth)) as app:
        assert app.offers("gpu=a10&count=1") == [], case
        assert app.offers("gpu=a10&min_vram=24") == []
        one = app.offer("gpu=a10")
        assert (one["gpu_count"], one["gpu_vram_gib"]) == ("0.1667", 4)
        (miss,) = app.cheapest("gpu=a10&count=1&min_vram=24")["nearest_misses"]
        assert miss["reasons"] == ["gpu_count 0.1667 is not 1", "vram 4 < 24"]


@pytest.mark.parametrize("quarter_costs", [80.0, 1.0])
def test_a_quarter_of_a_card_is_never_the_answer_for_one(tmp_path: Path, quarter_costs: float) -> None:
    """B044: also where it is the cheaper one. Gpu says 1, GpuCount 0.25."""
    quarter = row(
        InstanceType="GN7.LARGE20",
        InstanceFamily="GN7",
        GpuCount=0.25,
        Price=price(UnitPrice=quarter_costs, UnitPriceDiscount=quarter_costs),
    )
    whole = row(InstanceType="GN7.2XLARGE32", InstanceFamily="GN7", Price=price(UnitPrice=80.0, UnitPriceDiscount=80.0))
    with tencent(TencentSays(quotas(quarter, whole))) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        counts = {one["instance_type"]: one["gpu_count"] for one in app.offers("gpu=t4")}
        assert counts == {"GN7.LARGE20": "0.25", "GN7.2XLARGE32": "1"}
        best = app.cheapest("gpu=t4&count=1")["best"]
        assert (best["instance_type"], amount(best)) == ("GN7.2XLARGE32", "80")


def test_a_gpu_named_after_its_maker_alone_is_told_by_its_machine(tmp_path: Path) -> None:
    """T7."""
    says_ = AwsSays(
        {"us-east-1": [csv_row("p5en.48xlarge", "63.296")]},
        {"us-east-1": [ec2_type("p5en.48xlarge", "NVIDIA", 8, 144384)]},
    )
    with aws(says_, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices")
        best = app.cheapest("gpu=h200&count=8")["best"]
        assert (best["gpu"], best["gpu_vram_gib"], best["gpu_count"]) == ("h200-sxm5-141g", 141, "8")
        assert best["gpu_name"] == "NVIDIA"


@pytest.mark.parametrize("each_mib", [22888, 183104])
def test_an_l4_has_its_nominal_memory_whatever_is_reported(tmp_path: Path, each_mib: int) -> None:
    """T8."""
    l4s = ec2_type("g6.48xlarge", "L4", 8, each_mib) | {}
    l4s["GpuInfo"]["TotalGpuMemoryInMiB"] = 183104
    says_ = AwsSays({"us-east-1": [csv_row("g6.48xlarge", "13.3504")]}, {"us-east-1": [l4s]})
    with aws(says_, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices")
        best = app.cheapest("gpu=l4&count=8&min_vram=24&min_total_vram=192")["best"]
        assert (best["instance_type"], best["gpu_vram_gib"], best["gpu_count"]) == ("g6.48xlarge", 24, "8")
        assert app.cheapest("gpu=l4&count=8&min_total_vram=193")["best"] is None
