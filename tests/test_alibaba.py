"""Alibaba Cloud: its recorded answers, machines, stock and prices, and every trap that was seen in them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any, ClassVar

import pytest

import simcloud
from catalog.accelerators import accelerators
from catalog.facts import Fact, Machine, Note, Price, Region, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.alibaba_machine import families, may_have_gpu
from collectors.base import ByMachine, Cell, Config, Drift, Feed, Page
from collectors.registry import provider
from tests.support.alibaba import (
    FEEDS,
    KEYS,
    REGION,
    TYPE,
    ZONE,
    Json,
    amounts,
    config,
    feed,
    kind,
    levels,
    machine,
    machines,
    of,
    part,
    price,
    priced,
    read,
    row,
    spot,
    spot_row,
    stock,
    zone,
)
from tests.support.contract import CollectorContract, counted_calls
from tests.support.pages import NOW, cases, lines, weaker

IN_STOCK, LOW, OUT, UNKNOWN = Level.IN_STOCK, Level.LOW, Level.OUT, Level.UNKNOWN
OF_A_ZONE = "AvailableResources.AvailableResource.0.SupportedResources.SupportedResource"


class TestAlibaba(CollectorContract):
    name = "alibaba"
    config = Config(environ=KEYS, site="cn")
    regions = ("cn-shanghai", "cn-wulanchabu")
    services = ("ecs",)
    documented: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (f"stock/{path}StatusCategory" for path in ("", f"{OF_A_ZONE}.0.", f"{OF_A_ZONE}.1.")),
        "Status alone then decides: Available is in stock, whether or not with low assurance",
    )

    def cell_of(self, feed: Feed) -> Cell:
        """A feed by machine has no cell of regions alone."""
        if isinstance(feed, ByMachine):
            return next(iter(feed.cells_of({self.regions[0]: [TYPE]})))
        return super().cell_of(feed)

    def test_every_call_about_a_machine_waits_for_its_slot(self) -> None:
        with simcloud.start("demo", providers=(self.name,)) as sim:
            asked = [one for one in provider(self.name, self.of_sim(sim)).feeds() if isinstance(one, ByMachine)]
            for one in asked:
                before = len(sim.requests(self.name))
                with counted_calls() as calls:
                    assert list(one.fetch(self.cell_of(one), NOW, {}))
                assert len(calls) == len(sim.requests(self.name)) - before > 0
            assert len(asked) == 2


# --- Regions


def test_regions_of_the_account() -> None:
    (case,) = [case for case in cases("alibaba") if case.feed == "places"]
    items = list(feed("places").parse(case.page))
    assert len(of(Region, items)) == 11
    assert Region(region="cn-wulanchabu", name="China (Ulanqab)", enabled=True) in items
    assert Region(region="cn-guangzhou", name="China (Guangzhou)", enabled=True) in items, "sold out, and still polled"


@pytest.mark.parametrize(
    ("state", "enabled", "noted"),
    [("available", True, []), ("soldOut", True, []), ("closed", None, ["closed"]), (None, None, [""])],
)
def test_whether_a_region_may_be_used_is_unknown_where_its_state_is(
    state: str | None, enabled: bool | None, noted: list[str]
) -> None:
    items = read("places", {"Regions": {"Region": [{"RegionId": "cn-new", "Status": state}]}})
    assert of(Region, items) == [Region(region="cn-new", enabled=enabled)]
    assert of(Note, items) == [Note("unknown_region_state", value) for value in noted]


def test_a_region_whose_endpoint_does_not_follow_the_rule_is_noted() -> None:
    """It would be asked at another one, which answers 500 or an empty success."""
    rows = [
        {"RegionId": "cn-hangzhou", "RegionEndpoint": "ecs-cn-hangzhou.aliyuncs.com", "Status": "available"},
        {"RegionId": "cn-new", "RegionEndpoint": "ecs.other.aliyuncs.com", "Status": "available"},
    ]
    items = read("places", {"Regions": {"Region": rows}})
    assert of(Note, items) == [
        Note("other_endpoint", "cn-new: ecs.other.aliyuncs.com, asked at ecs.cn-new.aliyuncs.com")
    ]


# --- Stock


@pytest.mark.parametrize(
    ("status", "category", "level", "detail", "noted"),
    [
        ("Available", "WithStock", IN_STOCK, "WithStock", []),
        ("Available", "ClosedWithStock", LOW, "ClosedWithStock", []),
        ("SoldOut", "WithoutStock", OUT, "WithoutStock", []),
        ("SoldOut", "ClosedWithoutStock", OUT, "ClosedWithoutStock", []),
        ("Available", "WithoutStock", OUT, "WithoutStock", ["Available WithoutStock"]),
        ("SoldOut", "ClosedWithStock", OUT, "ClosedWithStock", ["SoldOut ClosedWithStock"]),
        ("Available", ..., IN_STOCK, "Available", []),
        ("SoldOut", None, OUT, "SoldOut", []),
        (..., "ClosedWithStock", LOW, "ClosedWithStock", []),
        ("Available", "SomethingNew", IN_STOCK, "SomethingNew", ["SomethingNew"]),
        ("SoldOut", "SomethingNew", OUT, "SomethingNew", ["SomethingNew"]),
        ("Paused", "WithStock", UNKNOWN, "WithStock", ["Paused"]),
        (..., "SomethingNew", UNKNOWN, "SomethingNew", ["SomethingNew"]),
        (..., ..., UNKNOWN, "", [""]),
        ("", None, UNKNOWN, "", [""]),
    ],
)
def test_stock_is_what_status_and_category_say(
    status: object, category: object, level: Level, detail: str, noted: list[str]
) -> None:
    items = stock(zone(row(status=status, category=category)))
    (found,) = of(Stock, items)
    assert (found.zone, found.level, found.detail, found.evidence) == (ZONE, level, detail, Evidence.REPORTED)
    assert [note.value for note in of(Note, items)] == noted


@pytest.mark.parametrize(
    ("of_zone", "of_row", "level", "detail"),
    [
        (("SoldOut", "WithoutStock"), ("Available", "WithStock"), OUT, "zone WithoutStock"),
        (("SoldOut", "ClosedWithoutStock"), ("Available", "ClosedWithStock"), OUT, "zone ClosedWithoutStock"),
        (("Available", "ClosedWithStock"), ("Available", "WithStock"), LOW, "zone ClosedWithStock"),
        (("Available", "ClosedWithStock"), ("SoldOut", "WithoutStock"), OUT, "WithoutStock"),
        (("Available", "WithStock"), ("Available", "ClosedWithStock"), LOW, "ClosedWithStock"),
        (("Paused", "WithStock"), ("Available", "WithStock"), UNKNOWN, "zone WithStock"),
        (("Paused", "WithStock"), ("SoldOut", "WithoutStock"), OUT, "WithoutStock"),
        ((..., ...), ("Available", "WithStock"), UNKNOWN, "zone"),
        ((..., ...), ("SoldOut", "WithoutStock"), OUT, "WithoutStock"),
        (("SoldOut", "WithoutStock"), ("Paused", "New"), OUT, "zone WithoutStock"),
    ],
)
def test_no_machine_is_better_than_its_zone(of_zone: Any, of_row: Any, level: Level, detail: str) -> None:
    items = stock(zone(row(status=of_row[0], category=of_row[1]), status=of_zone[0], category=of_zone[1]))
    assert [(one.level, one.detail) for one in of(Stock, items)] == [(level, detail)]


def test_each_way_to_buy_has_its_own_stock() -> None:
    for part_, purchase in (
        ("PostPaid", Purchase.ON_DEMAND),
        ("SpotAsPriceGo", Purchase.SPOT),
        ("PrePaid", Purchase.MONTH),
    ):
        assert [set(one.purchases) for one in of(Stock, stock(zone(row()), part=part_))] == [{purchase}]


@pytest.mark.parametrize(
    "answer",
    [
        {"RequestId": "r"},
        {"RequestId": "r", "AvailableZones": None},
        {"RequestId": "r", "AvailableZones": {}},
        {"RequestId": "r", "AvailableZones": {"AvailableZone": None}},
    ],
    ids=["empty success", "null", "no list", "null list"],
)
def test_a_missing_list_is_drift_never_sold_out(answer: Json) -> None:
    """cn-wuhan-lr answered an empty success from another region's endpoint."""
    with pytest.raises(Drift, match="missing"):
        read("stock", answer)


def of_machines(said: Json) -> Json:
    """A zone's list of resources, with this said of its machines."""
    return {"AvailableResources": {"AvailableResource": [{"Type": "InstanceType", **said}]}}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"AvailableResources": None},
        {"AvailableResources": {}},
        {"AvailableResources": {"AvailableResource": None}},
        {"AvailableResources": {"AvailableResource": []}},
        of_machines({}),
        of_machines({"SupportedResources": None}),
        of_machines({"SupportedResources": {}}),
        of_machines({"SupportedResources": {"SupportedResource": None}}),
        of_machines({"SupportedResources": {"SupportedResource": []}}),
    ],
    ids=str,
)
@pytest.mark.parametrize("status", ["Available", "SoldOut"])
def test_a_zone_without_its_machines_is_noted_and_takes_no_other_zone_along(said: Json, status: str) -> None:
    """Nothing is known of it, be the zone sold out: what it sells is not said."""
    bare: Json = {"ZoneId": "cn-test-1b", "RegionId": REGION, "Status": status}
    bare |= said
    for zones in ([zone(row()), bare], [bare, zone(row())]):
        items = stock(*zones)
        assert {(one.zone, one.instance_type): one.level for one in of(Stock, items)} == {(ZONE, TYPE): IN_STOCK}
        assert of(Note, items) == [Note("zone_without_machines", "cn-test-1b", record=True)]


def test_an_empty_list_is_an_answer_and_silence_is_unknown() -> None:
    assert stock() == []
    assert all(feed(name).absent is UNKNOWN for name in FEEDS)


def test_a_zone_of_another_region_is_left_out_by_name() -> None:
    """What a wrong endpoint may answer with."""
    other = zone(row(), name="cn-other-1a") | {"RegionId": "cn-other-1"}
    items = stock(other, zone(row()))
    assert [one.zone for one in of(Stock, items)] == [ZONE]
    assert [(note.kind, note.value, note.record) for note in of(Note, items)] == [
        ("other_region", "cn-other-1 cn-other-1a", True)
    ]


def test_what_is_no_gpu_machine_is_counted_by_the_letters_of_its_name() -> None:
    names = [
        "ecs.g6.large",
        "ecs.g7.large",
        "ecs.ebmg5s.24xlarge",
        "ecs.c6.large",
        "ecs.f3-c4f1.xlarge",
        "ecs.hfc7.large",
        None,
    ]
    items = stock(zone(*(row(name) for name in names)))
    assert of(Stock, items) == []
    assert [note.value for note in of(Note, items)] == ["g", "g", "ebmg", "c", "f", "hfc", ""]
    gpus = ["ecs.gn7i-c8g1.2xlarge", "ecs.vgn6i-m4.xlarge", "ecs.sgn7i-vws-m2.xlarge", "ecs.ebmgn7e.32xlarge"]
    assert all(
        may_have_gpu(name)
        for name in (*gpus, "ecs.sccgn7ex.32xlarge", "ecs.ga1.4xlarge", "ecs.gn5.large", "ecs.zz7.8x")
    )


def test_another_resource_than_machines_is_no_machine() -> None:
    odd = zone(row())
    odd["AvailableResources"]["AvailableResource"][0]["Type"] = "SystemDisk"
    assert stock(odd) == [Note("other_resource", "SystemDisk")]


def test_the_zones_of_the_recorded_answers() -> None:
    found = {}
    for case in cases("alibaba"):
        if case.feed == "stock":
            for one in of(Stock, feed("stock").parse(case.page)):
                found[case.name, one.zone, one.instance_type.removeprefix("ecs.")] = one.level
    assert found["shanghai_on_demand", "cn-shanghai-b", "gn7e-c16g1.4xlarge"] is OUT
    assert found["shanghai_on_demand", "cn-shanghai-b", "gn6i-c4g1.xlarge"] is LOW
    assert found["shanghai_on_demand", "cn-shanghai-l", "gn7i-c8g1.2xlarge"] is LOW
    assert found["shanghai_zones", "cn-shanghai-b", "gn7i-c8g1.2xlarge"] is OUT
    assert found["shanghai_zones", "cn-shanghai-m", "gn7i-c8g1.2xlarge"] is IN_STOCK
    assert found["shanghai_prepaid", "cn-shanghai-b", "gn7e-c16g1.4xlarge"] is IN_STOCK
    assert found["guangzhou_sold_out", "cn-guangzhou-a", "gn7i-c8g1.2xlarge"] is OUT


# --- Machines


@pytest.mark.parametrize(
    ("name", "said", "gpu", "count", "vram_gib"),
    [
        ("ecs.gn7i-c8g1.2xlarge", {}, "a10", 1, 24),
        ("ecs.gn7i-c8g1.2xlarge", {"GPUMemorySize": 22.35}, "a10", 1, 24),
        ("ecs.gn7i-c32g1.32xlarge", {"GPUAmount": 4, "GPUMemorySize": 96.0}, "a10", 4, 24),
        ("ecs.gn7e-c16g1.4xlarge", {"GPUSpec": "NVIDIA A100 80G", "GPUMemorySize": 79.35}, "a100-sxm4-80g", 1, 80),
        (
            "ecs.gn7e-c16g1.16xlarge",
            {"GPUSpec": "NVIDIA A100", "GPUAmount": 4, "GPUMemorySize": 320},
            "a100-sxm4-80g",
            4,
            80,
        ),
        ("ecs.gn6v-c8g1.2xlarge", {"GPUSpec": "NVIDIA V100", "GPUMemorySize": 16}, "v100-sxm2-16g", 1, 16),
        ("ecs.gn6e-c12g1.3xlarge", {"GPUSpec": "NVIDIA V100", "GPUMemorySize": 32}, "v100-sxm2-32g", 1, 32),
        ("ecs.gn6e-c12g1.3xlarge", {"GPUSpec": "", "GPUMemorySize": ...}, "v100-sxm2-32g", 1, 32),
        ("ecs.zz7.8x", {"GPUSpec": "NVIDIA A800", "GPUAmount": 8, "GPUMemorySize": 80}, "a800-unstated-80g", 8, 80),
        ("ecs.zz7e.8x", {"GPUSpec": "NVIDIA H20", "GPUAmount": 8, "GPUMemorySize": 96}, "h20-sxm5-96g", 8, 96),
        ("ecs.gn8is.2xlarge", {"GPUSpec": "NVIDIA L20", "GPUMemorySize": 48}, "l20", 1, 48),
    ],
)
def test_whole_cards(name: str, said: Json, gpu: str, count: int, vram_gib: int) -> None:
    found = machine(name, **said)
    assert (found.gpu, found.gpu_count, found.vram_mib) == (gpu, Fraction(count), vram_gib * 1024)


@pytest.mark.parametrize(
    ("name", "said", "gpu", "count", "vram_gib"),
    [
        ("ecs.vgn6i-m4.xlarge", {"GPUSpec": "NVIDIA T4 * 1/4", "GPUMemorySize": 4}, "t4", Fraction(1, 4), 4),
        ("ecs.vgn6i-m4.xlarge", {"GPUSpec": "NVIDIA T4*1/4", "GPUMemorySize": 16}, "t4", Fraction(1, 4), 4),
        ("ecs.vgn6i-m4.xlarge", {"GPUSpec": "NVIDIA T4 x 1/4", "GPUMemorySize": ...}, "t4", Fraction(1, 4), 4),
        ("ecs.vgn6i-m4.xlarge", {"GPUSpec": "NVIDIA T4*1/4", "GPUAmount": 0}, "t4", Fraction(1, 4), None),
        ("ecs.vgn6i-m4.xlarge", {"GPUSpec": "NVIDIA T4", "GPUMemorySize": 4}, "t4", Fraction(1, 4), 4),
        ("ecs.sgn7i-vws-m2.xlarge", {"GPUSpec": "vGPU8-2G", "GPUMemorySize": 2}, "a10", Fraction(1, 12), 2),
        ("ecs.sgn7i-vws-m2.xlarge", {"GPUSpec": "", "GPUMemorySize": 2}, "a10", Fraction(1, 12), 2),
        ("ecs.sgn7i-vws-m2.xlarge", {"GPUSpec": "vGPU8-2G", "GPUMemorySize": ...}, "a10", None, None),
        ("ecs.sgn7i-vws-m2.xlarge", {"GPUAmount": 0.25, "GPUMemorySize": 6}, "a10", Fraction(1, 4), 6),
        ("ecs.vgn9x-m4.xlarge", {"GPUMemorySize": 12}, "a10", Fraction(1, 2), 12),
        ("ecs.vgn9x-m4.xlarge", {"GPUAmount": 4, "GPUMemorySize": 6}, "a10", None, None),
        ("ecs.vgn9x-m4.xlarge", {"GPUSpec": "NVIDIA A10*1/4", "GPUAmount": 4, "GPUMemorySize": 6}, "a10", None, None),
    ],
)
def test_parts_of_a_card(name: str, said: Json, gpu: str, count: Fraction | None, vram_gib: int | None) -> None:
    """A part never passes for a card, nor several parts; where nothing tells which part it is, that is unknown."""
    found = machine(name, **said)
    assert (found.gpu, found.gpu_count) == (gpu, count)
    assert found.vram_mib == (None if vram_gib is None else vram_gib * 1024)


def test_a_memory_that_contradicts_the_part_is_unknown_and_noted() -> None:
    items = machines(kind("ecs.vgn6i-m4.xlarge", GPUSpec="NVIDIA T4*1/4", GPUMemorySize=12))
    (found,) = of(Machine, items)
    assert (found.gpu_count, found.vram_mib) == (Fraction(1, 4), None)
    assert Note("gpu_memory_contradicts_model", "ecs.vgn6i-m4.xlarge") in items


@pytest.mark.parametrize("spec", ["NVIDIA X9000", "GPU H", "A100 killer"])
def test_a_name_that_nobody_knows_stays_unknown_whatever_the_table_says(spec: str) -> None:
    items = machines(kind("ecs.gn7e-c16g1.4xlarge", GPUSpec=spec))
    assert [(one.gpu, one.gpu_raw) for one in of(Machine, items)] == [(None, spec)]
    assert Note("unknown_gpu", spec) in items


def test_a_name_of_another_card_than_the_familys_is_believed_and_noted() -> None:
    items = machines(kind("ecs.gn7e-c16g1.4xlarge", GPUSpec="NVIDIA A10"))
    assert [one.gpu for one in of(Machine, items)] == ["a10"]
    assert Note("gpu_contradicts_family", "gn7e: NVIDIA A10") in items


def test_a_machine_without_a_gpu_is_left_out_and_one_whose_count_is_missing_is_not_taken_for_one() -> None:
    rows = [
        kind("ecs.g6.large", GPUAmount=0, GPUSpec="", GPUMemorySize=0.0),
        kind("ecs.c6.large", GPUAmount=..., GPUSpec=...),
        kind("ecs.gn9z.large", GPUAmount=..., GPUSpec=...),
        kind("ecs.gn9z.xlarge", GPUAmount=...),
    ]
    items = machines(*rows)
    assert [(note.kind, note.value) for note in of(Note, items)] == [
        ("no_gpu", "g"),
        ("no_gpu", "c"),
        ("gpu_count_missing", "ecs.gn9z.large"),
        ("gpu_count_missing", "ecs.gn9z.xlarge"),
    ]
    assert [(one.instance_type, one.gpu, one.gpu_count) for one in of(Machine, items)] == [
        ("ecs.gn9z.xlarge", "a10", None)
    ]


@pytest.mark.parametrize(
    ("name", "said", "rdma", "bare_metal"),
    [
        ("ecs.gn7i-c8g1.2xlarge", {"EriQuantity": 0}, False, False),
        ("ecs.gn7i-c8g1.2xlarge", {"EriQuantity": 1}, True, False),
        ("ecs.gn7i-c8g1.2xlarge", {"EriQuantity": ...}, None, False),
        ("ecs.ebmgn7e.32xlarge", {"EriQuantity": 0}, None, True),
        ("ecs.ebmgn7e.32xlarge", {"EriQuantity": 2}, True, True),
        ("ecs.sccgn7ex.32xlarge", {"EriQuantity": 0}, True, None),
        ("ecs.ebmgn99.32xlarge", {"InstanceCategory": "ECS Bare Metal"}, None, True),
        ("ecs.gn99.32xlarge", {"EriQuantity": 0}, None, None),
    ],
)
def test_network_and_metal(name: str, said: Json, rdma: bool | None, bare_metal: bool | None) -> None:
    found = machine(name, **said)
    assert (found.rdma, found.bare_metal) == (rdma, bare_metal)


def test_a_machine_is_hardware_and_not_for_sale_by_being_listed() -> None:
    assert machine("ecs.gn7i-c8g1.2xlarge").purchases == frozenset()


def test_the_table_of_families_names_accelerators_that_exist() -> None:
    for name, family in families().items():
        assert family.gpu is None or family.gpu in accelerators(), name
        assert family.sliced is name.startswith(("vgn", "sgn")), name
        assert may_have_gpu(f"ecs.{name}.large"), name


# --- Prices

OWN = part(OriginalPrice=9.78, DiscountPrice=0.0, TradePrice=9.78)
DISK = part("systemDisk", OriginalPrice=0.035, DiscountPrice=0, TradePrice=0.035)


@pytest.mark.parametrize("name", ["instanceType", "instance"])
def test_the_price_is_the_machines_own_part_without_the_disk(name: str) -> None:
    items = priced(price(DISK, OWN | {"Resource": name}))
    assert amounts(items) == [("on_demand", 9_780_000_000, "CNY")]
    assert of(Note, items) == []


def test_discount_price_is_what_is_taken_off_and_trade_price_what_is_paid() -> None:
    own = part(OriginalPrice=3213.99, DiscountPrice=482.1, TradePrice=2731.89)
    (month,) = of(Price, priced(price(own, DISK), unit="Month"))
    assert (month.purchase, month.term_months, month.upfront_nanos) == (Purchase.MONTH, 1, 2_731_890_000_000)
    assert month.nanos == round(Fraction("2731.89") / 730 * 10**9) == 3_742_315_068
    assert month.list_nanos == round(Fraction("3213.99") / 730 * 10**9) == 4_402_726_027
    assert not month.estimated


def test_amounts_may_be_texts() -> None:
    own = part(OriginalPrice="34.742", DiscountPrice="3.4742", TradePrice="31.2678")
    (hour,) = of(Price, priced(price(own)))
    assert (hour.nanos, hour.list_nanos) == (31_267_800_000, 34_742_000_000)


def test_a_price_that_is_not_taken_apart_is_an_estimate() -> None:
    """Alibaba's own example has no parts: its total holds a disk."""
    items = priced(price())
    assert [(one.nanos, one.estimated) for one in of(Price, items)] == [(9_815_000_000, True)]
    assert of(Note, items) == [Note("price_with_disk", f"{TYPE} Hour")]


@pytest.mark.parametrize("parts", [(DISK,), (OWN, OWN), (DISK, part("other", TradePrice=1.0))], ids=str)
def test_parts_without_the_machines_own_or_with_two_are_no_price(parts: tuple[Json, ...]) -> None:
    assert priced(price(*parts)) == [Note("no_price_of_the_machine_alone", f"{TYPE} Hour")]


@pytest.mark.parametrize(
    ("trade", "noted"),
    [(..., "no_price"), (None, "no_price"), (0, "non_positive_price"), (-1, "non_positive_price"), ("0.0", None)],
)
def test_what_is_no_price_is_noted(trade: object, noted: str | None) -> None:
    """Never the list price, and never what is taken off."""
    own = {field: value for field, value in (OWN | {"TradePrice": trade, "DiscountPrice": 5}).items() if value != ...}
    assert priced(price(own, DISK)) == [Note(noted or "non_positive_price", f"{TYPE} Hour")]


@pytest.mark.parametrize(
    ("currency", "site", "good"),
    [("CNY", "cn", True), ("USD", "intl", True), ("USD", "cn", False), ("CNY", "intl", False), (..., "cn", False)],
)
def test_the_currency_is_as_stated_and_fits_the_site(currency: object, site: str, good: bool) -> None:
    items = priced(price(OWN, DISK, Currency=currency), site=site)
    assert amounts(items) == ([("on_demand", 9_780_000_000, currency)] if good else [])
    assert [note.kind for note in of(Note, items)] == ([] if good else ["other_currency"])


@pytest.mark.parametrize("code", ["InvalidInstanceType.ValueNotSupported", "InvalidInstanceType.ValueUnauthorized"])
def test_a_machine_that_is_not_sold_here_is_a_note(code: str) -> None:
    refusal = {"RequestId": "r", "HostId": "h", "Code": code, "Message": "m", "Recommend": "u"}
    assert priced(refusal) == [Note("not_sold_here", f"{TYPE} Hour")]
    assert read("spot", refusal) == [Note("not_sold_here", f"{TYPE} spot")]


@pytest.mark.parametrize("code", ["Throttling", None, 5, ""])
def test_any_other_error_is_never_read_as_no_price(code: object) -> None:
    for name in ("prices", "spot"):
        with pytest.raises(Drift):
            read(name, {"Code": code, "Message": "m"})


@pytest.mark.parametrize("answer", [{}, {"PriceInfo": {}}, {"PriceInfo": {"Price": None}}])
def test_a_missing_price_is_drift(answer: Json) -> None:
    with pytest.raises(Drift, match="missing"):
        priced(answer)


def without(value: Any) -> Iterator[Any]:
    """The JSON with each of its fields dropped in turn, at any depth."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        if isinstance(value, dict):
            yield {name: one for name, one in value.items() if name != key}
        for changed in without(child):
            copy = value.copy()
            copy[key] = changed
            yield copy


def test_no_field_that_is_dropped_from_a_price_makes_another_price_but_for_the_parts() -> None:
    swept = 0
    for case in cases("alibaba"):
        if case.feed == "prices":
            one = feed("prices", config(case.config.get("site", "cn")))
            whole = list(one.parse(case.page))
            for changed in without(json.loads(case.page.body)):
                swept += 1
                assert _nothing_new(one, case.with_body(json.dumps(changed).encode()), whole), changed
    assert swept > 50


def _nothing_new(one: Feed, page: Page, whole: list[Fact | Note]) -> bool:
    """Whether nothing is stated that was not; an estimate says of itself that it holds more than the machine."""
    try:
        found = [item for item in one.parse(page) if not isinstance(item, Note)]
    except Drift:
        return True
    return all(
        fact.estimated if isinstance(fact, Price) and fact.estimated else any(weaker(fact, item) for item in whole)
        for fact in found
    )


# --- Spot


def test_the_latest_price_of_each_zone_is_the_spot_price() -> None:
    rows = [
        spot_row("2026-11-30T05:00:00Z", 2.9),
        spot_row("2026-11-30T07:00:00Z", 2.15),
        spot_row("2026-11-30T06:00:00Z", 2.5),
        spot_row("2026-11-30T04:00:00Z", 3.42, ZoneId="cn-test-1b"),
    ]
    items = spot(*rows)
    assert {one.zone: one.nanos for one in of(Price, items)} == {ZONE: 2_150_000_000, "cn-test-1b": 3_420_000_000}
    assert [note.kind for note in of(Note, items)] == ["superseded_spot_price"] * 2
    assert all(one.purchase is Purchase.SPOT and one.list_nanos is None for one in of(Price, items))


def test_a_spot_price_above_the_one_on_demand_is_as_it_is() -> None:
    assert amounts(spot(spot_row("2026-11-30T05:00:00Z", 10.5, OriginPrice=10.42))) == [("spot", 10_500_000_000, "CNY")]


def test_of_two_prices_at_one_time_the_dearer_and_no_price_before_an_older_one() -> None:
    at = "2026-11-30T05:00:00Z"
    assert amounts(spot(spot_row(at, 3.0), spot_row(at, 2.0))) == [("spot", 3_000_000_000, "CNY")]
    for amount in (None, 0, -2, ...):
        assert amounts(spot(spot_row(at, 3.0), spot_row("2026-11-30T06:00:00Z", amount))) == []


@pytest.mark.parametrize(
    "said", [{"NetworkType": "classic"}, {"IoOptimized": "none"}, {"InstanceType": "ecs.gn6i-c4g1.xlarge"}], ids=str
)
def test_the_price_of_something_else_is_left_out(said: Json) -> None:
    items = spot(spot_row("2026-11-30T05:00:00Z", 9.0, **said))
    assert [(note.kind, note.record) for note in of(Note, items)] == [("other_spot_price", True)]
    assert of(Price, items) == []


@pytest.mark.parametrize("field", ["ZoneId", "InstanceType", "NetworkType", "Timestamp"])
def test_a_row_that_does_not_say_what_it_is_about_may_supersede_another(field: str) -> None:
    with pytest.raises(Drift, match=field):
        spot(spot_row("2026-11-30T05:00:00Z", 9.0), spot_row("2026-11-30T06:00:00Z", 8.0, **{field: ...}))


@pytest.mark.parametrize("at", ["yesterday", "2026-11-30T05:00:00", "1"])
def test_a_time_that_is_none_is_drift(at: str) -> None:
    with pytest.raises(Drift, match="Timestamp"):
        spot(spot_row(at, 9.0))


@pytest.mark.parametrize(("currency", "site"), [("USD", "cn"), (None, "cn"), ("CNY", "intl")])
def test_spot_prices_in_another_currency_are_none(currency: object, site: str) -> None:
    assert spot(spot_row("2026-11-30T05:00:00Z", 9.0), currency=currency, site=site) == [
        Note("other_currency", currency if isinstance(currency, str) else "")
    ]


def test_no_spot_price_at_all_is_an_answer_and_a_missing_list_is_none() -> None:
    assert spot() == []
    with pytest.raises(Drift, match="missing"):
        read("spot", {"Currency": "CNY"})


# --- Scores


def test_advice_is_a_score_and_never_stock() -> None:
    (case,) = [case for case in cases("alibaba") if case.feed == "scores"]
    items = list(feed("scores").parse(case.page))
    assert {(one.level, one.evidence, one.purchases) for one in of(Stock, items)} == {
        (UNKNOWN, Evidence.SCORED, frozenset({Purchase.SPOT}))
    }
    assert {one.instance_type: (one.score, one.detail) for one in of(Stock, items)} == {
        "ecs.gn7i-c8g1.2xlarge": ("2.1% interrupted", "interrupted 0-3%"),
        "ecs.gn7e-c16g1.4xlarge": ("12.5% interrupted", "interrupted 10-100%"),
    }
    assert {note.kind for note in of(Note, items)} == {"no_gpu", "zone_without_machines", "zone_without_name"}


def test_a_missing_list_of_advice_is_drift() -> None:
    with pytest.raises(Drift, match="missing"):
        read("scores", {"RegionId": REGION})


# --- Cells, intervals, settings


def test_cells() -> None:
    regions = ["cn-a", "cn-b"]
    assert [(one.place, one.part) for one in feed("stock").cells(regions)] == [
        (region, part_) for region in regions for part_ in ("PostPaid", "SpotAsPriceGo", "PrePaid")
    ]
    for name in ("machines", "scores"):
        assert list(feed(name).cells(regions)) == [Cell("alibaba", name, region) for region in regions]
    for name in ("prices", "spot"):
        one = feed(name)
        assert list(one.cells(regions)) == []
        assert isinstance(one, ByMachine)
        assert list(one.cells_of({"cn-a": ["m1", "m2"], "cn-b": ["m1"]})) == [
            Cell("alibaba", name, "cn-a", "m1"),
            Cell("alibaba", name, "cn-a", "m2"),
            Cell("alibaba", name, "cn-b", "m1"),
        ]


def test_one_call_a_second_of_each_action_in_each_region() -> None:
    limits = {(name, place): feed(name).limit(Cell("alibaba", name, place)) for name in FEEDS for place in ("a", "b")}
    assert len({limit.key for limit in limits.values()}) == 2 * len(FEEDS)
    assert all(limit.per_second <= 1 and not limit.pause_key for limit in limits.values())


def test_prices_are_asked_for_once_a_day_and_kept_fresh_for_longer() -> None:
    assert feed("prices").every == timedelta(days=1)
    for name in FEEDS:
        assert feed(name).fresh_for >= 3 * feed(name).every, name


@pytest.mark.parametrize("site", [None, "", "de"])
def test_without_a_site_it_is_off_and_names_the_setting(site: str | None) -> None:
    built = provider("alibaba", replace(config(), site=site))
    assert list(built.feeds()) == []
    assert built.account
    assert set(built.off()) == set(FEEDS)
    assert all("GPUFARE_PROVIDERS__ALIBABA__SITE" in text and "cn" in text for text in built.off().values())


def test_without_a_key_it_is_off_and_names_both_variables() -> None:
    blank = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": " "}
    built = provider("alibaba", Config(blank, site="cn"))
    assert not built.account
    assert built.off()["stock"] == "set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET"


def test_the_order_of_records_changes_nothing() -> None:
    rows = [row(), row("ecs.gn6i-c4g1.xlarge", "SoldOut", "WithoutStock")]
    assert levels(zone(*rows)) == levels(zone(*reversed(rows)))
    said = [spot_row(f"2026-11-30T0{hour}:00:00Z", hour) for hour in (5, 7, 6)]
    assert sorted(lines(spot(*said))) == sorted(lines(spot(*reversed(said))))
