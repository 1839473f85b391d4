"""UCloud: its recorded answers, and every trap in them."""

import json
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import pytest

from catalog.accelerators import accelerators
from catalog.facts import Fact, Machine, Note, Price, Region, Stock, Zone
from catalog.places import known_regions
from catalog.words import Level, Purchase
from collectors.base import ByMachine, Cell, Config, Drift, Feed, Page
from collectors.registry import provider
from collectors.ucloud_machine import Size, cards, model_of, size_of
from tests.support.contract import SECRET, CollectorContract
from tests.support.pages import NOW, cases

T = TypeVar("T")
KEYS = {
    "UCLOUD_PUBLIC_KEY": f"public-{SECRET}",
    "UCLOUD_PRIVATE_KEY": f"private-{SECRET}",
    "UCLOUD_PROJECT_ID": "org-own",
}
ON_DEMAND = frozenset((Purchase.ON_DEMAND, Purchase.MONTH))
SPOT = frozenset((Purchase.SPOT,))


class TestUCloud(CollectorContract):
    name = "ucloud"
    config = Config(environ=KEYS)
    regions = ("cn-wlcb", "cn-sh2")
    services = ("api",)
    of_no_zone: ClassVar[frozenset[str]] = frozenset({"prices"})
    documented: ClassVar[Mapping[str, str]] = {
        "stock/GraphicsMemory": "the card is then one of any memory, or of what UCloud's page says; tested below",
        "stock/GraphicsMemory.Value": "the same",
        "prices/PriceDetail": "the whole with its disk is then an estimate; tested below",
        "prices/PriceDetail.UHost": "the same",
    }

    def cell_of(self, feed: Feed) -> Cell:
        if isinstance(feed, ByMachine):
            return next(iter(feed.cells_of({"cn-wlcb": ["G.4090.1g.16c.32m"]})))
        return super().cell_of(feed)


def config(url: str = "", regions: tuple[str, ...] = (), **environ: str) -> Config:
    return Config(KEYS | environ, regions, endpoints={"api": url} if url else {}, timeout=timedelta(seconds=5))


def feed(name: str, settings: Config | None = None) -> Feed:
    return {one.name: one for one in provider("ucloud", settings or config()).feeds()}[name]


def of(what: type[T], items: list[Fact | Note]) -> list[T]:
    return [item for item in items if isinstance(item, what)]


def row(**said: Any) -> dict[str, Any]:
    """A P40 that is for sale, and what is said otherwise of it; `...` drops a field."""
    usual = {
        "Zone": "cn-sh2-02",
        "Name": "P40",
        "ParentType": "G",
        "MachineClass": "GPU",
        "InstanceType": "uhost",
        "Status": "Normal",
        "GraphicsMemory": {"Value": 24, "Rate": 5},
        "MachineSizes": [{"Gpu": 1, "Collection": [{"Cpu": 4, "Memory": [8]}]}],
    }
    return {name: value for name, value in (usual | said).items() if value is not ...}


def sizes(*said: tuple[int, int, list[int]]) -> list[dict[str, Any]]:
    return [{"Gpu": gpus, "Collection": [{"Cpu": cpus, "Memory": memory}]} for gpus, cpus, memory in said]


def stock(*rows: dict[str, Any], **answer: Any) -> list[Fact | Note]:
    body = {"RetCode": 0, "AvailableInstanceTypes": list(rows), **answer}
    return list(feed("stock").parse(Page("types", json.dumps(body).encode(), NOW, "cn-sh2")))


def recorded(feed_name: str, case_name: str, settings: Config | None = None) -> list[Fact | Note]:
    (case,) = [case for case in cases("ucloud") if (case.feed, case.name) == (feed_name, case_name)]
    return list(feed(feed_name, settings).parse(case.page))


# --- regions and projects ---------------------------------------------------------------------------------------------


def test_a_region_is_named_once_and_each_of_its_zones() -> None:
    items = recorded("places", "regions")
    assert [one.region for one in of(Region, items)] == ["cn-bj2", "cn-sh2", "cn-wlcb", "cn-gd", "hk"]
    assert of(Region, items)[2] == Region(region="cn-wlcb", name="华北（乌兰察布）")
    assert [one.zone for one in of(Zone, items) if one.region == "cn-bj2"] == ["cn-bj2-02", "cn-bj2-05"]
    assert of(Note, items) == []


def test_an_empty_list_of_regions_is_no_answer() -> None:
    with pytest.raises(Drift, match="Regions is empty"):
        list(feed("places").parse(Page("regions", b'{"RetCode": 0, "Regions": []}', NOW)))


@pytest.mark.parametrize(
    ("used", "noted"),
    [
        ("org-own", [Note("other_project", "org-research")]),
        (
            "org-gone",
            [
                *(Note("other_project", one) for one in ("org-own", "org-research")),
                Note("project_not_listed", "org-gone"),
            ],
        ),
        ("", [Note("other_project", "org-research")]),
    ],
)
def test_the_project_of_the_settings_is_one_of_the_accounts(used: str, noted: list[Note]) -> None:
    assert recorded("places", "projects", config(UCLOUD_PROJECT_ID=used)) == noted


def test_an_account_without_a_default_project_must_name_one() -> None:
    body = b'{"RetCode": 0, "ProjectSet": [{"ProjectId": "org-a", "IsDefault": false}]}'
    page = Page("projects", body, NOW, part="projects")
    assert Note("no_default_project", "UCLOUD_PROJECT_ID") in list(
        feed("places", config(UCLOUD_PROJECT_ID="")).parse(page)
    )


def test_every_documented_region_has_a_country_and_only_the_mainland_is_mainland() -> None:
    regions = {region: known for (name, region), known in known_regions().items() if name == "ucloud"}
    assert len(regions) == 34
    assert {region for region, known in regions.items() if known.mainland_china} == {
        *("cn-bj1", "cn-bj2", "cn-wlcb", "cn-wlcb2", "cn-sh", "cn-sh2", "cn-jx", "cn-hn1", "cn-gd", "cn-gd2"),
        "cn-guiyang1",
    }
    assert (regions["hk"].country, regions["tw-tp"].country, regions["uk-london"].country) == ("HK", "TW", "GB")


# --- what is sold -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "level", "noted"),
    [
        ("Normal", Level.IN_STOCK, []),
        ("Beta", Level.IN_STOCK, []),
        ("Soldout", Level.OUT, []),
        ("Maintenance", Level.UNKNOWN, [Note("unknown_status", "Maintenance")]),
        ("normal", Level.UNKNOWN, [Note("unknown_status", "normal")]),
    ],
)
def test_stock_is_what_the_status_says_and_the_word_is_kept(status: str, level: Level, noted: list[Note]) -> None:
    items = stock(row(Status=status))
    (found,) = of(Stock, items)
    assert (found.level, found.detail, found.purchases) == (level, status, ON_DEMAND)
    assert of(Note, items) == noted


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ({"Status": "Hidden"}, Note("hidden", "P40")),
        ({"Status": ...}, Note("row_without_status", "P40")),
        ({"Status": None}, Note("row_without_status", "P40")),
        ({"Zone": ...}, Note("row_without_zone", "P40")),
        ({"Name": ""}, Note("row_without_machine", "cn-sh2-02")),
        ({"MachineClass": "Normal"}, Note("no_gpu", "P40")),
        ({"InstanceType": "dedicated"}, Note("other_instance_type", "P40")),
        ({"InstanceType": ...}, Note("other_instance_type", "P40")),
        ({"MachineSizes": []}, Note("row_without_sizes", "P40")),
        ({"MachineSizes": ...}, Note("row_without_sizes", "P40")),
        ({"MachineSizes": [{"Gpu": 1}]}, Note("incomplete_size", "P40")),
        ({"MachineSizes": sizes((0, 4, [8]))}, Note("no_gpu", "P40")),
    ],
)
def test_a_row_that_says_too_little_or_is_hidden_is_left_out_by_name(said: dict[str, Any], noted: Note) -> None:
    items = stock(row(**said), row(Name="T4S", GraphicsMemory={"Value": 16}))
    assert [one.instance_type for one in of(Stock, items)] == ["G.T4S.1g.4c.8m"]
    assert of(Note, items) == [noted]
    assert of(Note, items)[0].record


def test_a_machine_to_keep_and_the_same_as_spot_have_each_their_own_stock() -> None:
    found = [one for one in of(Stock, recorded("stock", "ulanqab")) if one.instance_type == "G.4090.1g.16c.32m"]
    assert [(one.purchases, one.level) for one in found] == [(ON_DEMAND, Level.IN_STOCK), (SPOT, Level.OUT)]


def test_every_size_that_is_listed_is_a_machine_and_no_other() -> None:
    items = recorded("stock", "ulanqab")
    assert {one.instance_type for one in of(Machine, items)} == {
        *("G.A100.1g.16c.128m", "G.A100.8g.124c.1024m", "G.A800.8g.124c.1024m"),
        *("G.4090.1g.16c.32m", "G.4090.1g.16c.64m", "G.4090.2g.32c.64m", "G.4090.2g.32c.128m"),
    }
    (eight,) = [one for one in of(Machine, items) if one.instance_type == "G.A100.8g.124c.1024m"]
    assert eight.gpu_count == 8
    assert (eight.vcpus, eight.memory_mib, eight.vram_mib) == (124, 1024 * 1024, 80 * 1024)
    assert accelerators()[eight.gpu or ""].group == "a100-80g"


def test_a_region_that_is_sold_out_as_a_whole_has_nothing_for_sale() -> None:
    items = stock(row(), Status="Soldout")
    assert [(one.level, one.detail) for one in of(Stock, items)] == [(Level.OUT, "Normal")]
    assert of(Note, items) == [Note("region_not_on_sale", "Soldout")]
    assert [one.level for one in of(Stock, stock(row(), Status="Closed"))] == [Level.UNKNOWN]
    assert [one.level for one in of(Stock, stock(row(), Status=None))] == [Level.IN_STOCK]


@pytest.mark.parametrize("said", [{}, {"AvailableInstanceTypes": None}, {"AvailableInstanceTypes": "[{}]"}])
def test_a_missing_list_is_no_empty_one(said: dict[str, Any]) -> None:
    with pytest.raises(Drift, match="AvailableInstanceTypes"):
        list(feed("stock").parse(Page("types", json.dumps({"RetCode": 0, **said}).encode(), NOW, "cn-sh2")))


def test_an_empty_list_says_that_nothing_is_sold_there_and_no_more() -> None:
    assert stock() == []
    assert recorded("stock", "no_gpu") == [Note("no_gpu", "O")]
    assert feed("stock").absent is Level.UNKNOWN


@pytest.mark.parametrize("code", [153, 299, -1])
def test_an_error_beside_a_list_is_no_list(code: int) -> None:
    for name, part in (("stock", ""), ("prices", "G.P40.1g.4c.8m"), ("places", "")):
        body = {"RetCode": code, "AvailableInstanceTypes": [], "PriceSet": [], "Regions": []}
        with pytest.raises(Drift, match=f"RetCode {code}"):
            list(feed(name).parse(Page("page", json.dumps(body).encode(), NOW, "cn-sh2", part)))


# --- cards ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "memory_gb", "gpu", "vram_gib"),
    [
        ("A100", 80, "a100-unstated-80g", 80),
        ("A100", None, "a100-unstated-80g", 80),
        ("A100", 40, "a100-unstated", 40),
        ("A800", 80, "a800-unstated-80g", 80),
        ("A800", None, "a800-unstated", None),
        ("V100", 16, "v100-unstated-16g", 16),
        ("V100S", 32, "v100s-pcie-32g", 32),
        ("T4", 16, "t4", 16),
        ("T4S", 16, "t4", 16),
        ("P40", 24, "p40", 24),
        ("3090", 24, "rtx3090", 24),
        ("4090", 24, "rtx4090", 24),
        ("4090_48G", 48, "rtx4090", 48),
        ("4090_48G", None, "rtx4090", 48),
        ("5090", 32, "rtx5090", 32),
        ("H20", 96, "h20-sxm5-96g", 96),
        ("H20", 141, "h20-sxm5-141g", 141),
        ("H20", None, "h20-unstated", None),
        ("2080", 8, None, 8),
        ("4090Pro", 48, None, 48),
        ("B300Z", None, None, None),
    ],
)
def test_a_card_is_the_model_that_its_name_and_memory_say(
    name: str, memory_gb: int | None, gpu: str | None, vram_gib: int | None
) -> None:
    said = {"Value": memory_gb} if memory_gb else None
    items = stock(row(Name=name, GraphicsMemory=said))
    (found,) = of(Machine, items)
    assert (found.gpu, found.gpu_raw) == (gpu, name)
    assert found.gpu_count == 1
    assert found.vram_mib == (None if vram_gib is None else vram_gib * 1024)
    assert (Note("unknown_gpu", name) in items) is (gpu is None)


def test_every_card_of_the_table_is_an_accelerator_or_says_why_not() -> None:
    assert len(cards()) == 23
    assert {card.gpu for card in cards().values() if card.gpu} <= accelerators().keys()


def test_a_quarter_of_a_t4_is_no_t4() -> None:
    (found,) = of(Machine, stock(row(Name="T4/4", GraphicsMemory={"Value": 4})))
    assert (found.instance_type, found.gpu, found.gpu_count) == ("G.T4/4.1g.4c.8m", "t4", Fraction(1, 4))
    assert found.vram_mib == 4 * 1024


@pytest.mark.parametrize(("memory_gb", "vram_mib"), [(4, 4096), (16, 4096), (None, 4096), (8, None)])
def test_the_memory_of_a_slice_is_its_own(memory_gb: int | None, vram_mib: int | None) -> None:
    """16 is the whole card's; 8 is neither, and then nothing is believed."""
    items = stock(row(Name="T4/4", GraphicsMemory={"Value": memory_gb}))
    assert [one.vram_mib for one in of(Machine, items)] == [vram_mib]
    assert (Note("gpu_memory_contradicts_model", "T4/4") in items) is (memory_gb == 8)


def test_four_quarters_are_no_whole_card() -> None:
    items = stock(row(Name="T4/4", GraphicsMemory={"Value": 4}, MachineSizes=sizes((4, 8, [16]))))
    assert [(one.instance_type, one.gpu_count) for one in of(Machine, items)] == [("G.T4/4.4g.8c.16m", None)]
    assert of(Note, items) == [Note("several_slices", "T4/4")]


def test_a_row_that_names_the_machine_type_alone_has_no_model() -> None:
    """Not seen: whether `Name` is the card, or `G` for all GPU machines."""
    items = stock(row(Name="G", GraphicsMemory={"Value": 16}))
    (found,) = of(Machine, items)
    assert (found.instance_type, found.gpu, found.gpu_raw, found.vram_mib) == ("G.G.1g.4c.8m", None, "", 16384)
    assert size_of(found.instance_type) is None


@pytest.mark.parametrize("size", [Size("T4/4", 1, 4, 8), Size("2080Ti-4C", 2, 8, 32), Size("A100", 8, 124, 1024)])
def test_a_machines_name_says_what_to_order(size: Size) -> None:
    assert size_of(size.instance_type) == size


@pytest.mark.parametrize("name", ["compshare.4090", "G.A100", "G.A100.8g.124c.m", "N.A100.8g.124c.1024m", ""])
def test_another_name_orders_nothing(name: str) -> None:
    assert size_of(name) is None


def test_a_size_that_cannot_be_is_left_out_and_noted() -> None:
    items = stock(row(MachineSizes=sizes((1, 0, [8]), (1, -4, [8]), (1, 4, [0, 16]), (-1, 4, [8]))))
    assert [one.instance_type for one in of(Machine, items)] == ["G.P40.1g.4c.16m"]
    assert [note.kind for note in of(Note, items)].count("incomplete_size") == 4


def test_a_model_alone_is_known_by_its_name() -> None:
    assert (model_of("4090").gpu, model_of("4090").vram_mib) == ("rtx4090", 24 * 1024)


# --- CompShare's inventory --------------------------------------------------------------------------------------------


COUNTED = int(NOW.timestamp()) - 240


def compshare(pools: Any, place: str = "cn-wlcb", **said: Any) -> list[Fact | Note]:
    zones = [{"Region": "cn-wlcb", "Zone": "cn-wlcb-01", "ZoneId": 10027}]
    body = {
        "DescribeCompShareSupportZone": {"RetCode": 0, "ZoneInfo": zones},
        "DescribeCompShareGpuInventory": {"RetCode": 0, "UpdateTime": COUNTED, "GpuInventoryByZone": pools, **said},
    }
    return list(feed("stock").parse(Page("inventory", json.dumps(body).encode(), NOW, place, "compshare")))


def test_cards_that_are_left_are_counted_in_each_zone_and_pool() -> None:
    found = {
        (one.zone, one.instance_type, *one.purchases - {Purchase.MONTH}): (one.level, one.quantity)
        for one in of(Stock, recorded("stock", "compshare_ulanqab"))
    }
    assert found == {
        ("cn-wlcb-01", "compshare.4090", Purchase.ON_DEMAND): (Level.IN_STOCK, 37),
        ("cn-wlcb-01", "compshare.3090", Purchase.ON_DEMAND): (Level.OUT, 0),
        ("cn-wlcb-01", "compshare.A100", Purchase.ON_DEMAND): (Level.IN_STOCK, 2),
        ("cn-wlcb-03", "compshare.4090", Purchase.ON_DEMAND): (Level.OUT, 0),
        ("cn-wlcb-01", "compshare.4090", Purchase.SPOT): (Level.IN_STOCK, 5),
    }


def test_a_card_of_compshare_is_a_machine_of_its_own() -> None:
    """Not `G.4090.…`: another product, with prices of its own."""
    machines = of(Machine, recorded("stock", "compshare_ulanqab"))
    assert [(one.instance_type, one.gpu, one.vcpus) for one in machines] == [
        ("compshare.4090", "rtx4090", None),
        ("compshare.3090", "rtx3090", None),
        ("compshare.A100", "a100-unstated-80g", None),
    ]
    assert {one.gpu_count for one in machines} == {Fraction(1)}


def test_a_card_that_is_not_sold_as_spot_has_no_spot_stock_whatever_is_counted() -> None:
    items = compshare({"Spot": {"10027": {"A100": 1, "4090": 2}}}, SpotUnsupportedGpuTypes=["A100"])
    assert [one.instance_type for one in of(Stock, items)] == ["compshare.4090"]
    assert of(Note, items) == [Note("card_not_sold_as_spot", "A100")]


@pytest.mark.parametrize("pools", [{}, {"Exclusive": {}}, {"Exclusive": {"10027": {}}}, {"Exclusive": None}])
def test_a_card_that_nobody_names_is_not_out(pools: Any) -> None:
    assert of(Stock, compshare(pools)) == []


@pytest.mark.parametrize(
    "pools", [None, "{'Exclusive': {'10027': {'4090': 37}}}", [], {"Exclusive": []}, {"Exclusive": {"10027": 4}}]
)
def test_an_inventory_of_another_shape_is_drift(pools: Any) -> None:
    """The second is what the SDK's typed call makes of it."""
    with pytest.raises(Drift):
        compshare(pools)


@pytest.mark.parametrize("left", [None, -1, 10**30])
def test_a_count_that_cannot_be_is_unknown(left: int | None) -> None:
    items = compshare({"Exclusive": {"10027": {"4090": left, "3090": 1}}})
    assert [(one.level, one.quantity) for one in of(Stock, items)] == [(Level.UNKNOWN, None), (Level.IN_STOCK, 1)]
    assert [note.kind for note in of(Note, items)] == ["impossible_size"] * (left is not None)


@pytest.mark.parametrize("cards", [10**12, 10_001])
def test_a_count_of_cards_that_no_machine_has_is_no_machine_and_noted(cards: int) -> None:
    """Its price over so many would be the cheapest GPU of all."""
    items = stock(row(MachineSizes=sizes((cards, 124, [1024]), (1, 4, [8]))))
    assert [one.instance_type for one in of(Machine, items)] == ["G.P40.1g.4c.8m"]
    assert {("incomplete_size", "P40"), ("impossible_size", f"Gpu {cards}")} <= {
        (note.kind, note.value) for note in of(Note, items)
    }


def test_a_row_of_another_regions_zone_is_left_out_by_name() -> None:
    assert stock(row(Zone="cn-bj2-04")) == [Note("other_region", "cn-bj2-04")]


def test_a_zone_is_its_regions_alone_and_one_without_a_name_is_noted() -> None:
    pools = {"Exclusive": {"10027": {"4090": 3}, "10099": {"4090": 8}}}
    assert [one.zone for one in of(Stock, compshare(pools))] == ["cn-wlcb-01"]
    assert Note("unknown_zone", "10099") in compshare(pools)
    elsewhere = compshare(pools, place="cn-sh2")
    assert of(Stock, elsewhere) == []
    assert Note("zone_of_another_region", "cn-wlcb-01") in elsewhere


POOLS = {"Exclusive": {"10027": {"4090": 3, "A100": 0}}}


@pytest.mark.parametrize("minutes", [-15, 0, 5, 15])
def test_what_was_counted_within_the_time_that_stock_is_fresh_is_stock(minutes: int) -> None:
    items = compshare(POOLS, UpdateTime=int((NOW - timedelta(minutes=minutes)).timestamp()))
    assert [(one.level, one.quantity) for one in of(Stock, items)] == [(Level.IN_STOCK, 3), (Level.OUT, 0)]
    assert of(Note, items) == []


@pytest.mark.parametrize(
    ("counted", "kind", "said"),
    [
        (int((NOW - timedelta(minutes=16)).timestamp()), "old_inventory", "last at 2026-11-30 11:44 UTC"),
        (int((NOW - timedelta(days=3)).timestamp()), "old_inventory", "UCloud counted last at 2026-11-27 12:00 UTC"),
        (0, "old_inventory", "UCloud counted last at 1970-01-01 00:00 UTC"),
        (None, "inventory_without_time", "UCloud does not say when it counted"),
        (int(NOW.timestamp()) * 1000, "inventory_to_come", "which is to come"),
        (10**30, "inventory_to_come", "which is to come"),
        (-1, "impossible_size", "UCloud does not say when it counted"),
    ],
)
def test_what_was_counted_long_ago_is_no_stock_however_lately_it_was_told(
    counted: int | None, kind: str, said: str
) -> None:
    """Neither that there is any, nor that there is none; and when it was counted is told."""
    items = compshare(POOLS, UpdateTime=counted)
    stocks = of(Stock, items)
    assert [(one.level, one.quantity) for one in stocks] == [(Level.UNKNOWN, None)] * 2
    assert all(one.detail.startswith("Exclusive: ") and said in one.detail for one in stocks)
    assert kind in [note.kind for note in of(Note, items)]


# --- prices -----------------------------------------------------------------------------------------------------------


def priced(*rows: dict[str, Any], part: str = "G.P40.1g.4c.8m") -> list[Fact | Note]:
    body = {"RetCode": 0, "PriceSet": list(rows)}
    return list(feed("prices").parse(Page("price", json.dumps(body).encode(), NOW, "cn-sh2", part)))


def test_one_answer_prices_every_charge_type_without_the_disk() -> None:
    prices = {one.purchase: one for one in of(Price, recorded("prices", "4090_all"))}
    assert {name: one.nanos for name, one in prices.items()} == {
        Purchase.ON_DEMAND: 2_240_000_000,
        Purchase.SPOT: 900_000_000,
        Purchase.MONTH: 1_472_876_712,
        Purchase.RESERVED_1Y: 1_227_397_260,
    }
    assert {one.currency for one in prices.values()} == {"CNY"}
    assert not any(one.estimated for one in prices.values())
    assert (prices[Purchase.MONTH].upfront_nanos, prices[Purchase.MONTH].term_months) == (1_075_200_000_000, 1)
    year = prices[Purchase.RESERVED_1Y]
    assert (year.upfront_nanos, year.term_months, year.list_nanos) == (10_752_000_000_000, 12, 1_472_876_712)
    assert prices[Purchase.ON_DEMAND].list_nanos == 2_570_000_000


def test_a_price_that_is_not_told_apart_is_an_estimate_with_its_disk() -> None:
    items = recorded("prices", "A100_whole")
    assert [(one.purchase, one.nanos, one.estimated) for one in of(Price, items)] == [
        (Purchase.RESERVED_1Y, 10_068_493_151, True),
        (Purchase.MONTH, 12_082_191_781, True),
        (Purchase.ON_DEMAND, 18_380_000_000, True),
    ]
    assert of(Note, items) == [Note("price_with_disk", charge) for charge in ("Year", "Month", "Dynamic")]


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ({"Price": 0}, "non_positive_price"),
        ({"Price": -2.5}, "non_positive_price"),
        ({"Price": None}, "no_price"),
        ({}, "no_price"),
        ({"Price": 0.04, "PriceDetail": {"UHost": 0, "UDisk": 0.04}}, "non_positive_price"),
    ],
)
def test_what_is_no_price_is_noted(said: dict[str, Any], noted: str) -> None:
    for charge in ("Dynamic", "Month", "Year", "Spot"):
        items = priced({"ChargeType": charge, **said})
        assert of(Price, items) == []
        assert Note(noted, "G.P40.1g.4c.8m") in items


@pytest.mark.parametrize("charge", ["Postpay", "Day", "dynamic", None, ...])
def test_another_charge_type_is_no_price(charge: object) -> None:
    said = {} if charge is ... else {"ChargeType": charge}
    items = priced({**said, "Price": 2.5, "PriceDetail": {"UHost": 2.4}})
    assert items == [Note("other_charge_type", charge if isinstance(charge, str) else "G.P40.1g.4c.8m")]


@pytest.mark.parametrize("answer", [b'{"RetCode": 0}', b'{"RetCode": 0, "PriceSet": []}'])
def test_an_answer_without_a_price_is_drift_not_free(answer: bytes) -> None:
    with pytest.raises(Drift, match="PriceSet"):
        list(feed("prices").parse(Page("price", answer, NOW, "cn-sh2", "G.P40.1g.4c.8m")))


def test_a_card_of_compshare_has_the_price_of_its_zone_and_its_list_price() -> None:
    assert of(Price, recorded("prices", "compshare_4090")) == [
        Price(
            region="cn-wlcb",
            zone="cn-wlcb-01",
            instance_type="compshare.4090",
            purchase=Purchase.ON_DEMAND,
            nanos=1_880_000_000,
            list_nanos=2_080_000_000,
            currency="CNY",
            source="GetCompShareInstancePrice",
        )
    ]


def test_prices_are_asked_of_the_machines_that_are_known_and_of_no_region_as_such() -> None:
    prices = feed("prices")
    assert isinstance(prices, ByMachine)
    assert list(prices.cells(["cn-sh2"])) == []
    machines = {"cn-sh2": ["G.T4/4.1g.4c.8m", "G.G.1g.4c.8m", "something.else"], "cn-wlcb": ["compshare.4090"]}
    assert list(prices.cells_of(machines)) == [
        Cell("ucloud", "prices", "cn-sh2", "G.T4/4.1g.4c.8m"),
        Cell("ucloud", "prices", "cn-wlcb", "compshare.4090"),
    ]


def test_prices_are_asked_in_the_regions_of_the_settings_alone() -> None:
    prices = feed("prices", config(regions=("cn-wlcb",)))
    assert isinstance(prices, ByMachine)
    machines = {"cn-sh2": ["G.P40.1g.4c.8m"], "cn-wlcb": ["compshare.4090"]}
    assert [cell.place for cell in prices.cells_of(machines)] == ["cn-wlcb"]
