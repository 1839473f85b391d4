"""Which GPU a Tencent machine has, how much of it, and how that is known."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from catalog.accelerators import accelerators
from catalog.facts import Machine, Note, Stock
from catalog.offers import Place, StockNow
from catalog.words import Evidence, Level
from collectors.base import Drift
from collectors.tencent_machine import families
from store.join import Shelf, Stated, offers
from tests.support.pages import NOW
from tests.support.tencent import REGION, kind, machines, models, of, row, stock


def test_a_quarter_of_a_card_keeps_its_fraction_and_its_memory() -> None:
    """B044: the integer Gpu says 1 for it."""
    (quarter,) = of(Machine, stock(row(InstanceType="GN7.LARGE20", InstanceFamily="GN7", Gpu=1, GpuCount=0.25)))
    (whole,) = of(Machine, stock(row(InstanceType="GN7.2XLARGE32", InstanceFamily="GN7", Gpu=1, GpuCount=1.0)))
    assert (quarter.gpu, quarter.gpu_count, quarter.vram_mib) == ("t4", Fraction(1, 4), 4096)
    assert (whole.gpu, whole.gpu_count, whole.vram_mib) == ("t4", Fraction(1), 16384)


def test_without_gpu_count_the_integer_is_no_count() -> None:
    items = stock(row(InstanceType="GN7.LARGE20", InstanceFamily="GN7", Gpu=1, GpuCount=...))
    (machine,) = of(Machine, items)
    assert (machine.gpu, machine.gpu_count, machine.vram_mib) == ("t4", None, None)
    assert of(Note, items) == [Note("gpu_count_missing", "GN7.LARGE20")]


def test_a_row_that_says_nothing_of_gpus_is_not_taken_for_one_without() -> None:
    assert stock(row(Gpu=..., GpuCount=...)) == [Note("gpu_count_missing", "GN10Xp.2XLARGE40")]


def test_a_machine_without_a_gpu_is_left_out_by_its_family() -> None:
    (note,) = of(Note, stock(row(InstanceType="S5.LARGE8", InstanceFamily="S5", Gpu=0, GpuCount=0)))
    assert (note.kind, note.value, note.record) == ("no_gpu", "S5", True)


@pytest.mark.parametrize(
    ("memory_gib", "vram_mib"),
    [(4.0, 4096), (16, 4096), (..., 4096), (None, 4096), (3.5, 3584), (24, None)],
    ids=["slice", "card", "absent", "null", "reserved", "impossible"],
)
def test_the_memory_of_a_slice_is_never_divided_twice(memory_gib: object, vram_mib: int | None) -> None:
    said = {"GpuMemory": memory_gib} if memory_gib != ... else {}
    quarter = kind(InstanceType="GN7.LARGE20", InstanceFamily="GN7", GpuType="NVIDIA T4", GpuCount=0.25, **said)
    assert models(quarter) == [("t4", vram_mib)]


@pytest.mark.parametrize(
    ("family", "said", "expected"),
    [
        ("GT4", {"GpuType": "NVIDIA A100", "GpuMemory": 40}, ("a100-sxm4-40g", 40960)),
        ("GT4", {"GpuType": "NVIDIA A100"}, ("a100-sxm4-40g", 40960)),
        ("GT4", {"GpuType": "N88a"}, ("a100-sxm4-40g", 40960)),
        ("gt4", {}, ("a100-sxm4-40g", 40960)),
        ("GT4", {"GpuType": "N88a", "GpuMemory": 40}, ("a100-sxm4-40g", 40960)),
        ("GN10Xp", {"GpuType": "NVIDIA H2000"}, (None, None)),
        ("GN10Xp", {"GpuType": "H2000"}, (None, None)),
        ("GT4", {"GpuType": "NVIDIA A100", "GpuMemory": 80}, ("a100-unstated-80g", 81920)),
        ("GN10Xp", {"GpuType": "NVIDIA V100", "GpuMemory": 32}, ("v100-sxm2-32g", 32768)),
        ("HCCPNV4h", {"GpuType": "NVIDIA A100", "GpuMemory": 80}, ("a100-unstated-80g", 81920)),
        ("HCCPNV4h", {}, ("a100-unstated", None)),
        ("NEW1", {"GpuType": "NVIDIA H20", "GpuMemory": 141}, ("h20-sxm5-141g", 144384)),
        ("NEW1", {"GpuType": "NVIDIA H20", "GpuMemory": 96}, ("h20-sxm5-96g", 98304)),
        ("NEW1", {"GpuType": "N88a"}, (None, None)),
        ("PNV5b", {}, (None, None)),
        ("PTX1", {}, (None, None)),
        ("GI1", {}, (None, None)),
    ],
)
def test_the_model_is_what_the_api_names_made_precise_by_the_family(
    family: str, said: dict[str, Any], expected: tuple[str | None, int | None]
) -> None:
    assert models(kind(InstanceType=f"{family}.X", InstanceFamily=family, **said)) == [expected]


@pytest.mark.parametrize(
    ("said", "gpu", "raw"),
    [
        ({"Remark": "4 颗 NVIDIA T4"}, "t4", "NVIDIA T4"),
        ({"Remark": "8 * NVIDIA V100"}, "v100-unstated", "NVIDIA V100"),
        ({"Remark": "1 x NVIDIA A10 GPU, 100 GB SSD"}, "a10", "NVIDIA A10"),
        ({"Remark": "2 颗 NVIDIA A100，支持 NVLink"}, "a100-unstated", "NVIDIA A100"),
        ({"Remark": "NVIDIA GRID driver; 1 * 3840GB NVMe"}, None, ""),
        ({"Externals": {"GPUDesc": "8 * NVIDIA H20"}}, "h20-unstated", "NVIDIA H20"),
        (
            {"Externals": {"GpuAttr": {"Type": "NVIDIA A10"}, "GPUDesc": "x"}, "Remark": "1 颗 NVIDIA T4"},
            "a10",
            "NVIDIA A10",
        ),
        ({"Remark": "NVIDIA H20"}, "h20-unstated", "NVIDIA H20"),
        ({"Externals": {"GPUDesc": "8 * H2000"}, "Remark": "1 颗 NVIDIA T4"}, None, "8 * H2000"),
        ({"Externals": None}, None, ""),
        ({"Externals": {"GpuAttr": None}}, None, ""),
    ],
)
def test_the_model_of_an_unknown_family_is_what_the_row_names(said: dict[str, Any], gpu: str | None, raw: str) -> None:
    (machine,) = of(Machine, stock(row(InstanceType="XYZ9.X", InstanceFamily="XYZ9", **said)))
    assert (machine.gpu, machine.gpu_raw) == (gpu, raw)


def test_a_name_that_nobody_knows_is_not_overruled_by_the_remark() -> None:
    """The attribute and the description say XYZ, the remark says T4: unknown, and reported."""
    externals = {"GPUDesc": "1 * NVIDIA XYZ", "GpuAttr": {"Ratio": 1, "Type": "NVIDIA XYZ"}}
    said = {"Externals": externals, "Remark": "1 颗 NVIDIA T4", "Inventory": 3}
    items = stock(row(InstanceType="XYZ9.4XLARGE64", InstanceFamily="XYZ9", **said))
    (machine,) = of(Machine, items)
    assert (machine.gpu, machine.vram_mib, machine.gpu_raw) == (None, None, "NVIDIA XYZ")
    assert Note("unknown_gpu", "NVIDIA XYZ") in items
    assert Note("unknown_field", "Inventory") in items


@pytest.mark.parametrize(
    ("said", "raw"),
    [
        ({"Externals": {"GPUDesc": "8 * NVIDIA H2000"}}, "NVIDIA H2000"),
        ({"Externals": {"GPUDesc": "NVIDIA H2000"}}, "NVIDIA H2000"),
        ({"Externals": {"GpuAttr": {"Type": "NVIDIA H2000"}}}, "NVIDIA H2000"),
        ({"Externals": {"GpuAttr": {"Type": "H2000"}}}, "H2000"),
        ({"Remark": "8 * NVIDIA H2000"}, "NVIDIA H2000"),
        ({"Remark": "NVIDIA H2000"}, "NVIDIA H2000"),
    ],
)
def test_a_name_that_nobody_knows_is_not_overruled_by_the_family(said: dict[str, Any], raw: str) -> None:
    items = stock(row(**said))
    assert [(one.gpu, one.vram_mib, one.gpu_raw) for one in of(Machine, items)] == [(None, None, raw)]
    assert of(Note, items) == [Note("unknown_gpu", raw)]


@pytest.mark.parametrize("remark", ["NVIDIA GRID driver", "AMD EPYC", "Intel Xeon Cascade Lake 8255C", "100 GB SSD"])
def test_a_remark_that_names_no_gpu_leaves_it_to_the_family(remark: str) -> None:
    items = stock(row(Remark=remark))
    assert [one.gpu for one in of(Machine, items)] == ["v100-sxm2-32g"]
    assert of(Note, items) == []


def test_a_model_known_by_the_family_alone_has_no_words_of_the_api() -> None:
    known, unknown = kind(InstanceType="GT4.X", InstanceFamily="GT4"), kind(InstanceType="Z.X", InstanceFamily="Z")
    code = kind(InstanceType="GT4.Y", InstanceFamily="GT4", GpuType="N88a")
    items = machines(known, unknown, code)
    found = [(one.gpu, one.gpu_raw) for one in of(Machine, items)]
    assert found == [("a100-sxm4-40g", ""), (None, ""), ("a100-sxm4-40g", "")]
    assert of(Note, items) == [Note("unknown_gpu", "Z")]


def joined(listed: dict[str, Any], sold: dict[str, Any]) -> Machine:
    """What the store makes of a V100 family's machine, by what its two lists say besides its size."""
    size = {"InstanceType": "GN10Xp.X", "InstanceFamily": "GN10Xp", "Memory": 192, "GpuCount": 2}
    said = {
        "machines": of(Machine, machines(kind(**size, CPU=32, GPU=2, **listed))),
        "stock": of(Machine, stock(row(**size, Cpu=32, Gpu=2, **sold))),
    }
    day = timedelta(days=1)
    level = StockNow(level=Level.IN_STOCK, evidence=Evidence.REPORTED, seen_at=NOW, fresh_for=day)
    shelf = Shelf(
        place=Place(provider="tencent", region=REGION),
        listed=True,
        zone_ids={},
        machines={"GN10Xp.X": [Stated(1, feed, NOW, day, one) for feed, (one,) in said.items()]},
        offered={},
        prices={},
        stocks={"GN10Xp.X": [Stated(2, "stock", NOW, day, level)]},
        launches={},
    )
    (offer,) = offers(shelf)
    return offer.machine


H20 = {"Externals": {"GPUDesc": "2 * NVIDIA H20"}}
H2000 = {"Externals": {"GPUDesc": "2 * NVIDIA H2000"}}


@pytest.mark.parametrize(
    ("listed", "sold", "expected"),
    [
        ({}, H20, ("h20-unstated", "NVIDIA H20")),
        ({"GpuType": "N88a"}, H20, ("h20-unstated", "NVIDIA H20")),
        ({"GpuType": "N88a"}, {}, ("v100-sxm2-32g", "")),
        ({}, {}, ("v100-sxm2-32g", "")),
        ({}, H2000, (None, "NVIDIA H2000")),
        ({"GpuType": "N88a"}, H2000, (None, "NVIDIA H2000")),
        ({"GpuType": "NVIDIA V100", "GpuMemory": 32}, {}, ("v100-sxm2-32g", "NVIDIA V100")),
        ({"GpuType": "NVIDIA H2000"}, {}, (None, "NVIDIA H2000")),
    ],
)
def test_a_model_known_by_the_family_alone_never_hides_what_either_list_names(
    listed: dict[str, Any], sold: dict[str, Any], expected: tuple[str | None, str]
) -> None:
    found = joined(listed, sold)
    assert (found.gpu, found.gpu_raw) == expected


@pytest.mark.parametrize(
    "count", [{"Gpu": ..., "GpuCount": -1}, {"Gpu": -1, "GpuCount": -1}, {"Gpu": 0, "GpuCount": -1}]
)
def test_a_negative_count_alone_is_drift_and_takes_nothing_off_the_list(count: dict[str, Any]) -> None:
    with pytest.raises(Drift, match="count"):
        stock(row(**count))


def test_a_negative_count_beside_a_good_one_is_unknown_and_noted() -> None:
    items = stock(row(Gpu=1, GpuCount=-1))
    assert [one.gpu_count for one in of(Machine, items)] == [None]
    assert {note.kind for note in of(Note, items)} == {"impossible_size", "gpu_count_missing"}
    assert [one.level for one in of(Stock, items)] == [Level.IN_STOCK]


def test_an_unknown_family_stays_for_sale_without_a_model() -> None:
    items = stock(row(InstanceType="GN99.X", InstanceFamily="GN99"))
    assert [one.gpu for one in of(Machine, items)] == [None]
    assert [one.level for one in of(Stock, items)] == [Level.IN_STOCK]
    assert of(Note, items) == [Note("unknown_gpu", "GN99")]


def test_an_api_that_names_another_model_than_the_family_is_believed_and_reported() -> None:
    items = stock(row(InstanceType="GN7.X", InstanceFamily="GN7", Remark="1 颗 NVIDIA A10"))
    assert [one.gpu for one in of(Machine, items)] == ["a10"]
    assert of(Note, items) == [Note("gpu_contradicts_family", "GN7: NVIDIA A10")]


def test_size_and_links_of_a_machine() -> None:
    (v100,) = of(Machine, stock(row()))
    (hcc,) = of(Machine, stock(row(InstanceType="HCCPNV4h.X", InstanceFamily="HCCPNV4h", Gpu=8, GpuCount=8)))
    (t4,) = of(Machine, stock(row(InstanceType="GN7.X", InstanceFamily="GN7", Cpu=0, Memory=...)))
    assert (v100.vcpus, v100.memory_mib) == (10, 40 * 1024)
    assert (v100.nvlink, v100.rdma, v100.bare_metal) == (None, None, False), "its form says SXM already"
    assert (hcc.gpu, hcc.nvlink, hcc.rdma, hcc.bare_metal) == ("a100-unstated", True, True, True)
    assert (t4.vcpus, t4.memory_mib, t4.nvlink) == (None, None, None)


def test_both_feeds_say_the_same_of_a_machine() -> None:
    """So that a row that is left out of one of them once takes no model away."""
    size = {"InstanceType": "GT4.8XLARGE192", "InstanceFamily": "GT4", "Memory": 192, "GpuCount": 2}
    (listed,) = of(Machine, machines(kind(**size, CPU=32, GPU=2)))
    (sold,) = of(Machine, stock(row(**size, Cpu=32, Gpu=2)))
    assert listed == sold


def test_every_family_names_an_accelerator_of_the_table_or_none() -> None:
    table = families()
    assert len(table) > 20
    assert {family.gpu for family in table.values()} - {None} <= set(accelerators())
    assert {name for name, family in table.items() if family.gpu is None} >= {"pnv5b", "ptx1", "gi1", "hccpnv5"}
