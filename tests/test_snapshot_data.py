"""The bundled list prices: how many, which units, known values; and the script that builds them."""

import csv
import subprocess
import sys
from collections import Counter
from datetime import date
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest

from catalog.accelerators import accelerators, resolve_offer
from catalog.money import nanos_text
from catalog.snapshot_data import SnapshotRow, snapshot_rows
from catalog.words import Purchase

SCRIPT = Path(__file__).parents[1] / "scripts" / "build_snapshot.py"
HEADER = "provider,region,instance_type,vcpus,memory_gib,currency,on_demand_per_hour,spot_usd_per_hour,as_of,source"
MACHINES = """provider,instance_type,gpu,gpu_count,spot_only,source
p,whole,t4,1,false,somewhere
p,part,a10,1/6,false,somewhere
p,nodemand,h100-sxm5-80g,1,true,somewhere
p,uncounted,a10,,false,somewhere
"""


def offer(provider: str, region: str, instance_type: str, purchase: Purchase = Purchase.ON_DEMAND) -> SnapshotRow:
    key = (provider, region, instance_type, purchase)
    [row] = [row for row in snapshot_rows() if (row.provider, row.region, row.instance_type, row.purchase) == key]
    return row


def built(folder: Path, *lines: str) -> list[dict[str, str]]:
    (folder / "source.csv").write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")
    (folder / "machines.csv").write_text(MACHINES, encoding="utf-8")
    arguments = ["source.csv", "--machines", "machines.csv", "--out", "out.csv"]
    subprocess.run([sys.executable, str(SCRIPT), *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S603
    return list(csv.DictReader((folder / "out.csv").read_text(encoding="utf-8").splitlines()))


def test_each_provider_has_its_rows() -> None:
    assert Counter((row.provider, row.purchase, row.currency) for row in snapshot_rows()) == {
        ("alibaba", Purchase.ON_DEMAND, "CNY"): 540,
        ("aws", Purchase.ON_DEMAND, "CNY"): 14,
        ("aws", Purchase.ON_DEMAND, "USD"): 106,
        ("azure", Purchase.ON_DEMAND, "USD"): 753,
        ("gcp", Purchase.ON_DEMAND, "USD"): 336,
        ("gcp", Purchase.SPOT, "USD"): 384,
    }


def test_no_offer_is_priced_twice() -> None:
    keys = Counter((row.provider, row.region, row.instance_type, row.purchase) for row in snapshot_rows())
    assert max(keys.values()) == 1


def test_every_committed_price_is_a_positive_plain_decimal() -> None:
    text = files("catalog").joinpath("snapshot", "list_prices.csv").read_text(encoding="utf-8")
    prices = [row["price"] for row in csv.DictReader(text.splitlines())]
    assert len(prices) == 2133
    assert [price for price in prices if not price.replace(".", "", 1).isdigit() or Fraction(price) <= 0] == []


@pytest.mark.parametrize(
    ("place", "price", "currency"),
    [
        (("aws", "us-east-1", "p5.48xlarge"), "55.04", "USD"),
        (("aws", "us-east-1", "g5.xlarge"), "1.006", "USD"),
        (("azure", "eastus", "Standard_NC24ads_A100_v4"), "3.673", "USD"),
        (("gcp", "us-central1", "a2-ultragpu-1g"), "5.06879789", "USD"),
        (("alibaba", "cn-shanghai", "ecs.gn7i-c8g1.2xlarge"), "9.5326", "CNY"),
    ],
)
def test_known_prices_are_kept_to_the_nano(place: tuple[str, str, str], price: str, currency: str) -> None:
    row = offer(*place)
    assert (nanos_text(row.price_nanos), row.currency) == (price, currency)


def test_a_spot_price_is_a_row_of_its_own() -> None:
    assert offer("gcp", "us-central1", "a2-ultragpu-1g", Purchase.SPOT).price_nanos == 2_759_546_301


@pytest.mark.parametrize(
    ("one", "many"),
    [
        (("aws", "us-east-1", "p5.4xlarge"), ("aws", "us-east-1", "p5.48xlarge")),
        (("azure", "eastus", "Standard_NC24ads_A100_v4"), ("azure", "eastus", "Standard_NC96ads_A100_v4")),
        (("gcp", "us-central1", "a2-highgpu-1g"), ("gcp", "us-central1", "a2-highgpu-8g")),
    ],
)
def test_a_price_is_of_the_whole_machine(one: tuple[str, str, str], many: tuple[str, str, str]) -> None:
    single, whole = offer(*one), offer(*many)
    assert single.gpu_count == 1
    assert whole.price_nanos == single.price_nanos * (whole.gpu_count or 0)


@pytest.mark.parametrize(
    ("place", "gpu", "count"),
    [
        (("aws", "us-east-1", "g6f.large"), "l4", Fraction(1, 8)),
        (("aws", "us-east-1", "p4d.24xlarge"), "a100-sxm4-40g", Fraction(8)),
        (("aws", "us-east-1", "p4de.24xlarge"), "a100-sxm4-80g", Fraction(8)),
        (("azure", "eastus", "Standard_NV6ads_A10_v5"), "a10", Fraction(1, 6)),
        (("azure", "eastus", "Standard_NV12ads_A10_v5"), "a10", Fraction(1, 3)),
        (("azure", "eastus", "Standard_NV12s_v3"), "m60", Fraction(1)),
        (("gcp", "us-central1", "g4-standard-6"), "rtx-pro-6000-server", Fraction(1, 8)),
        (("gcp", "us-central1", "g2-standard-32"), "l4", Fraction(1)),
        (("alibaba", "cn-hangzhou", "ecs.gn7i-8x.16xlarge"), "a10", Fraction(8)),
    ],
)
def test_known_machines_have_their_accelerators(place: tuple[str, str, str], gpu: str, count: Fraction) -> None:
    row = offer(*place)
    assert (row.gpu, row.gpu_count) == (gpu, count)


def test_every_accelerator_is_in_the_catalog() -> None:
    gpus = {row.gpu for row in snapshot_rows()}
    assert len(gpus) == 24
    assert gpus <= accelerators().keys()


def test_the_prices_and_the_accelerator_table_name_the_same_model_for_an_instance_family() -> None:
    named = {row.instance_type: row.gpu for row in snapshot_rows() if row.provider == "aws"}
    by_family = {machine: resolve_offer("", provider="aws", instance_type=machine) for machine in named}
    known = {machine: gpu for machine, gpu in by_family.items() if gpu is not None}
    assert len(known) > 50
    assert {machine: named[machine] for machine in known} == known


def test_one_machine_alone_has_an_unknown_count() -> None:
    unknown = {row.instance_type for row in snapshot_rows() if row.gpu_count is None}
    assert unknown == {"Standard_NC8ads_A10_v4"}


def test_a_small_a3_highgpu_is_sold_as_spot_only() -> None:
    purchases = {
        (row.instance_type, row.purchase) for row in snapshot_rows() if row.instance_type.startswith("a3-high")
    }
    sold = {(f"a3-highgpu-{count}g", Purchase.SPOT) for count in (1, 2, 4, 8)}
    assert purchases == sold | {("a3-highgpu-8g", Purchase.ON_DEMAND)}


def test_the_script_keeps_a_price_digit_by_digit_and_gives_memory_in_mib(tmp_path: Path) -> None:
    [row] = built(tmp_path, "p,r,whole,4,22.5,CNY,5.06879789041096,,2026-08-03,somewhere@1")
    assert row == {
        "provider": "p",
        "region": "r",
        "instance_type": "whole",
        "gpu": "t4",
        "gpu_count": "1",
        "vcpus": "4",
        "memory_mib": "23040",
        "purchase": "on_demand",
        "currency": "CNY",
        "price": "5.06879789041096",
        "as_of": "2026-08-03",
        "source": "somewhere@1",
    }


def test_the_script_writes_spot_prices_as_dollars_beside_another_currency(tmp_path: Path) -> None:
    rows = built(tmp_path, "p,r,part,6,55,CNY,3.2,0.4,2026-08-03,somewhere@1")
    assert [(row["purchase"], row["currency"], row["price"], row["gpu_count"]) for row in rows] == [
        ("on_demand", "CNY", "3.2", "1/6"),
        ("spot", "USD", "0.4", "1/6"),
    ]


@pytest.mark.parametrize("price", ["", "0", "0.0000000000", "-1"])
def test_the_script_writes_no_row_for_what_is_no_price(tmp_path: Path, price: str) -> None:
    assert built(tmp_path, f"p,r,whole,4,16,USD,{price},{price},2026-08-03,somewhere@1") == []


def test_the_script_leaves_out_the_on_demand_price_of_a_spot_only_machine(tmp_path: Path) -> None:
    [row] = built(tmp_path, "p,r,nodemand,26,234,USD,11.1,6.3,2026-08-03,somewhere@1")
    assert (row["purchase"], row["price"]) == ("spot", "6.3")


@pytest.mark.parametrize(("machine", "gpu"), [("neverseen", ""), ("uncounted", "a10")])
def test_the_script_leaves_what_it_does_not_know_empty(tmp_path: Path, machine: str, gpu: str) -> None:
    [row] = built(tmp_path, f"p,r,{machine},,,USD,1.5,,2026-08-03,somewhere@1")
    assert (row["gpu"], row["gpu_count"], row["vcpus"], row["memory_mib"]) == (gpu, "", "", "")


def test_the_script_gives_the_same_bytes_whatever_the_order_of_the_source(tmp_path: Path) -> None:
    lines = [f"p,{region},whole,4,16,USD,1.5,0.5,2026-08-03,somewhere@1" for region in ("b", "a", "c")]
    rows = built(tmp_path, *lines)
    once = (tmp_path / "out.csv").read_bytes()
    built(tmp_path, *reversed(lines))
    assert (tmp_path / "out.csv").read_bytes() == once
    assert [row["region"] for row in rows] == ["a", "a", "b", "b", "c", "c"]


def test_a_row_carries_the_day_and_the_source_of_its_price() -> None:
    row = offer("aws", "cn-north-1", "g4dn.xlarge")
    assert (row.currency, row.as_of) == ("CNY", date(2024, 11, 6))
    assert row.source == "aws/karpenter-provider-aws@1d92708"
    assert (row.vcpus, row.memory_mib) == (4, 16384)
