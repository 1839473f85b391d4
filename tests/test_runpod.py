"""RunPod: the contract over its pages, what the pages say, and the traps of its two APIs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from catalog.facts import Fact, Machine, Note, Price, Region, Stock, Zone
from catalog.words import Hosting, Level, Purchase
from collectors.base import Config, Drift, Page
from collectors.runpod import StockFeed, country_of, region_of
from tests.support.contract import SECRET, CollectorContract
from tests.support.pages import NOW, cases

A100 = "NVIDIA A100-SXM4-80GB"
MIG = "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb"
KEY = {"RUNPOD_API_KEY": "simcloud"}


class TestRunPod(CollectorContract):
    name = "runpod"
    config = Config(environ={"RUNPOD_API_KEY": f"rpa_{SECRET}"})
    regions = ("US",)
    services = ("api",)
    of_no_zone: ClassVar[frozenset[str]] = frozenset({"spot", "stock"})
    documented: ClassVar[Mapping[str, str]] = {
        "stock/maxCount": "no ceiling stated is none: availability answers for the count asked, and says out",
        "stock/maxCount.secure": "as maxCount",
    }


def gpu_type(name: str = "NVIDIA RTX A4000", status: object = "High", **fields: object) -> dict[str, object]:
    """A row of `gpuTypes`, sold in both clouds, spot only as a bid."""
    row = {"id": name, "memoryInGb": 16, "securePrice": 0.32, "communityPrice": 0.17}
    return row | {"lowestPrice": {"stockStatus": status, "minimumBidPrice": 0.16}} | fields


def page_of(*rows: object, name: str = "US-KS-2", place: str = "US", part: str = "secure 1") -> Page:
    return Page(name, json.dumps({"data": {"gpuTypes": rows}}).encode(), NOW, place, part)


def read(*rows: object, **page: str) -> list[Fact | Note]:
    return list(StockFeed(Config()).parse(page_of(*rows, **page)))


def catalogue(*gpus: object, centres: Iterable[str] = ("US-KS-2", "EU-RO-1"), part: str = "secure 8") -> Page:
    body = {"datacenters": {"dataCenters": [{"id": one} for one in centres]}, "gpus": {"gpus": gpus}}
    return Page("catalog", json.dumps(body).encode(), NOW, "", part)


def recorded(feed: str, name: str) -> list[Fact | Note]:
    (case,) = [case for case in cases("runpod") if (case.feed, case.name) == (feed, name)]
    return TestRunPod().parsed(case)


def usd(items: Iterable[Fact | Note], machine: str, purchase: Purchase = Purchase.ON_DEMAND) -> int | None:
    """The nano-dollars of a machine; None where it has no price."""
    prices = [one for one in items if isinstance(one, Price) and one.instance_type == machine]
    found = {one.nanos for one in prices if one.purchase is purchase}
    assert len(found) <= 1, found
    return next(iter(found), None)


def levels(items: Iterable[Fact | Note], machine: str | None = None) -> dict[tuple[str | None, Purchase], Level]:
    """(zone, purchase) -> level, of one machine or of all."""
    stocks = [one for one in items if isinstance(one, Stock) and machine in (None, one.instance_type)]
    return {(one.zone, purchase): one.level for one in stocks for purchase in one.purchases}


def machine_of(items: Iterable[Fact | Note]) -> Machine:
    (found,) = [one for one in items if isinstance(one, Machine)]
    return found


def notes(items: Iterable[Fact | Note]) -> set[tuple[str, str]]:
    return {(one.kind, one.value) for one in items if isinstance(one, Note)}


# What the pages say


def test_a_price_is_the_whole_pods_in_nano_dollars() -> None:
    eight = recorded("stock", "catalog_8")
    assert usd(eight, "8x NVIDIA H200 secure") == 35_520_000_000
    assert usd(eight, "8x NVIDIA GeForce RTX 4090 secure") == 3_520_000_000
    one = recorded("stock", "secure_1")
    assert usd(one, f"1x {A100} secure") == 1_790_000_000
    assert usd(one, f"1x {A100} secure", Purchase.SPOT) == 950_000_000
    two = recorded("stock", "community_2")
    assert usd(two, f"2x {A100} community") == 2_780_000_000
    assert usd(two, f"2x {A100} community", Purchase.SPOT) == 1_580_000_000


def test_a_page_states_stock_for_its_own_place_and_count() -> None:
    one = recorded("stock", "secure_1")
    assert levels(one, f"1x {A100} secure") == {
        ("US-KS-2", Purchase.ON_DEMAND): Level.IN_STOCK,
        ("US-KS-2", Purchase.SPOT): Level.IN_STOCK,
    }
    assert levels(one, "1x NVIDIA H200 secure") == {("US-KS-2", Purchase.ON_DEMAND): Level.OUT}
    assert levels(one, "1x NVIDIA H100 80GB HBM3 secure")["US-KS-2", Purchase.ON_DEMAND] is Level.LOW
    assert levels(one, "1x AMD Instinct MI300X OAM secure") == {("US-KS-2", Purchase.ON_DEMAND): Level.OUT}
    assert levels(recorded("stock", "community_2"), f"2x {A100} community") == {
        (None, Purchase.ON_DEMAND): Level.LOW,
        (None, Purchase.SPOT): Level.LOW,
    }


@pytest.mark.parametrize(
    ("page", "gpu_type", "gpu"),
    [
        ("secure_1", "NVIDIA A100 80GB PCIe", "a100-pcie-80g"),
        ("secure_1", A100, "a100-sxm4-80g"),
        ("secure_1", "NVIDIA H100 80GB HBM3", "h100-sxm5-80g"),
        ("secure_1", "NVIDIA H200", "h200-sxm5-141g"),
        ("secure_1", "AMD Instinct MI300X OAM", "mi300x"),
        ("secure_1", "NVIDIA ZZ900", None),
        ("secure_8", "NVIDIA RTX A4000", "rtx-a4000"),
        ("catalog_8", "NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_gpu_type_ids_name_the_accelerator(page: str, gpu_type: str, gpu: str | None) -> None:
    found = [one for one in recorded("stock", page) if isinstance(one, Machine) and one.gpu_raw == gpu_type]
    assert {one.gpu for one in found} == {gpu}


def test_the_143_gb_of_an_h200_nvl_are_the_nvl_card() -> None:
    assert machine_of(read(gpu_type("NVIDIA H200 NVL", memoryInGb=143))).gpu == "h200-nvl-141g"


def test_an_unknown_model_stays_a_machine_and_is_reported() -> None:
    found = recorded("stock", "secure_1")
    assert ("unknown_gpu", "NVIDIA ZZ900") in notes(found)
    assert levels(found, "1x NVIDIA ZZ900 secure") == {("US-KS-2", Purchase.ON_DEMAND): Level.UNKNOWN}
    assert ("unknown_stock_status", "Plenty") in notes(found)


def test_the_row_called_unknown_is_a_note_and_no_machine() -> None:
    row = gpu_type("unknown", memoryInGb=0, maxGpuCount=0, secureCloud=True)
    assert read(row) == [Note("unknown_type", "unknown", record=True)]


def test_spot_of_the_secure_cloud_is_all_the_spot_feed_states() -> None:
    found = recorded("spot", "secure_8")
    assert usd(found, "8x NVIDIA H100 80GB HBM3 secure", Purchase.SPOT) == 14_000_000_000
    assert levels(found) == {("US-KS-2", Purchase.SPOT): Level.IN_STOCK}
    assert not [one for one in found if isinstance(one, Machine)]


# Field cases


def test_a_bid_is_per_gpu_so_that_eight_gpus_cost_eight_bids() -> None:
    """B009."""
    row = {
        "id": "NVIDIA RTX A4000",
        "displayName": "RTX A4000",
        "memoryInGb": 16,
        "securePrice": 0.32,
        "communityPrice": 0.17,
        "lowestPrice": {"minimumBidPrice": 0.16, "uninterruptablePrice": 0.32, "stockStatus": "High"},
    }
    assert usd(read(row), "1x NVIDIA RTX A4000 secure", Purchase.SPOT) == 160_000_000
    eight = read(row, part="secure 8")
    assert usd(eight, "8x NVIDIA RTX A4000 secure", Purchase.SPOT) == 1_280_000_000
    assert usd(eight, "8x NVIDIA RTX A4000 secure") == 2_560_000_000
    assert machine_of(eight).gpu_count == 8


@pytest.mark.parametrize(
    ("part", "name", "hosting", "nanos"),
    [
        ("secure 2", "US-KS-2", Hosting.DATACENTER, 1_520_000_000),
        ("community 2", "US", Hosting.COMMUNITY, 980_000_000),
    ],
)
def test_a_cloud_has_its_own_machine_at_its_own_price(part: str, name: str, hosting: Hosting, nanos: int) -> None:
    """B025, T10."""
    row = {
        "id": "NVIDIA RTX A6000",
        "displayName": "RTX A6000",
        "memoryInGb": 48,
        "secureCloud": True,
        "communityCloud": True,
        "securePrice": 0.76,
        "communityPrice": 0.49,
    }
    found = read(row, part=part, name=name)
    machine = machine_of(found)
    assert (machine.instance_type, machine.hosting) == (f"2x NVIDIA RTX A6000 {part.split()[0]}", hosting)
    assert machine.gpu == "rtx-a6000"
    assert machine.gpu_count == 2
    assert usd(found, machine.instance_type) == nanos


def test_spot_is_in_stock_only_where_the_status_says_so() -> None:
    """B072."""
    statuses = {"US-KS-2": None, "US-TX-3": "Low", "EU-RO-1": "High"}
    found = [
        item
        for name, status in statuses.items()
        for item in read(gpu_type(status=status, secureSpotPrice=0.09), name=name, place=region_of(name))
    ]
    spot = {zone: level for (zone, purchase), level in levels(found).items() if purchase is Purchase.SPOT}
    assert spot == {"US-KS-2": Level.OUT, "US-TX-3": Level.LOW, "EU-RO-1": Level.IN_STOCK}
    assert usd(found, "1x NVIDIA RTX A4000 secure", Purchase.SPOT) == 90_000_000


# Traps


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ("High", Level.IN_STOCK),
        ("HIGH", Level.IN_STOCK),
        ("medium", Level.IN_STOCK),
        ("Low", Level.LOW),
        ("LOW", Level.LOW),
        ("None", Level.OUT),
        ("NONE", Level.OUT),
        (None, Level.OUT),
        ("", Level.UNKNOWN),
        ("Scarce", Level.UNKNOWN),
        (True, Level.UNKNOWN),
    ],
)
def test_a_stock_status_counts_in_any_case_and_an_unknown_one_is_unknown(status: object, level: Level) -> None:
    found = read(gpu_type(status=status))
    assert set(levels(found).values()) == {level}
    assert (level is Level.UNKNOWN) == any(kind == "unknown_stock_status" for kind, _ in notes(found))


@pytest.mark.parametrize("lowest", [{"lowestPrice": None}, {"lowestPrice": {}}, {"lowestPrice": {"minVcpu": 4}}])
def test_a_status_that_is_not_stated_is_unknown_and_not_out(lowest: Mapping[str, object]) -> None:
    found = read(gpu_type() | dict(lowest))
    assert levels(found) == {("US-KS-2", Purchase.ON_DEMAND): Level.UNKNOWN}
    assert ("unknown_stock_status", "not stated") in notes(found)


@pytest.mark.parametrize(("stated", "nanos"), [(0.2, 200_000_000), (None, 160_000_000), (0, None)])
def test_the_bid_stands_in_only_where_no_spot_price_is_stated(stated: float | None, nanos: int | None) -> None:
    found = read(gpu_type(secureSpotPrice=stated, communitySpotPrice=0.01))
    assert usd(found, "1x NVIDIA RTX A4000 secure", Purchase.SPOT) == nanos
    assert (("US-KS-2", Purchase.SPOT) in levels(found)) == (nanos is not None)


@pytest.mark.parametrize(("price", "kind"), [(0, "non_positive_price"), (-1, "non_positive_price"), (None, "no_price")])
def test_zero_and_null_are_no_price_but_the_stock_still_stands(price: object, kind: str) -> None:
    found = read(gpu_type(secureCloud=True, securePrice=price))
    assert usd(found, "1x NVIDIA RTX A4000 secure") is None
    assert (kind, "1x NVIDIA RTX A4000 secure on_demand") in notes(found)
    assert levels(found)["US-KS-2", Purchase.ON_DEMAND] is Level.IN_STOCK


def test_a_type_that_a_cloud_does_not_sell_is_no_machine_there_whatever_price_it_shows() -> None:
    row = gpu_type(secureCloud=False, communityCloud=True)
    assert read(row) == [Note("not_secure", "NVIDIA RTX A4000", record=True)]
    assert machine_of(read(row, part="community 1", name="US")).hosting is Hosting.COMMUNITY


@pytest.mark.parametrize(
    "ceiling",
    [{"maxGpuCount": 4}, {"maxGpuCount": 8, "maxGpuCountSecureCloud": 4}, {"maxGpuCountSecureCloud": 4}],
)
def test_a_count_above_the_ceiling_is_no_machine(ceiling: Mapping[str, int]) -> None:
    row = gpu_type() | dict(ceiling)
    assert machine_of(read(row, part="secure 4")).gpu_count == 4
    left_out = Note("above_max_gpu_count", "8x NVIDIA RTX A4000 secure", record=True)
    assert read(row, part="secure 8") == [left_out]


@pytest.mark.parametrize("name", ["maxGpuCount", "maxGpuCountSecureCloud"])
def test_a_negative_ceiling_is_unknown_and_noted_and_the_pod_stays_for_sale(name: str) -> None:
    found = read(gpu_type() | {name: -1})
    assert machine_of(found).gpu_count == 1
    assert usd(found, machine_of(found).instance_type) == usd(read(gpu_type()), machine_of(found).instance_type)
    assert ("impossible_size", f"{name} -1") in notes(found)
    listed = list(StockFeed(Config()).parse(catalogue(available(maxCount={"secure": -1}))))
    assert {one.gpu_count for one in listed if isinstance(one, Machine)} == {8}
    assert ("impossible_size", "secure -1") in notes(listed)


@pytest.mark.parametrize("field", ["memoryInGb", "securePrice", "secureSpotPrice", "maxGpuCount"])
@pytest.mark.parametrize(
    "said", ["1e99999999", "1e99999999999", "1e-99999999", "9e999999999999999999", '"1_5"', '"１５"']
)
def test_a_number_that_is_a_trap_is_drift_at_once(field: str, said: str) -> None:
    page = page_of(gpu_type(**{field: "a trap"}))
    with pytest.raises(Drift, match=field):
        list(StockFeed(Config()).parse(replace(page, body=page.body.replace(b'"a trap"', said.encode()))))


def test_vcpus_and_memory_of_the_free_host_are_no_traits_of_the_machine() -> None:
    lowest = {"stockStatus": "High", "minVcpu": 8, "minMemory": 117}
    machine = machine_of(read(gpu_type(lowestPrice=lowest)))
    assert (machine.vcpus, machine.memory_mib) == (None, None)
    assert machine == machine_of(read(gpu_type(lowestPrice=lowest | {"minVcpu": 30, "minMemory": 61})))


def test_a_mig_slice_is_a_part_of_its_gpu() -> None:
    machine = machine_of(read(gpu_type(MIG, memoryInGb=24)))
    assert machine.gpu == "rtx-pro-6000-server"
    assert machine.gpu_count == Fraction(1, 4)
    assert machine.vram_mib == 24 * 1024


@pytest.mark.parametrize("count", [2, 4, 8])
def test_several_mig_slices_are_never_whole_gpus(count: int) -> None:
    found = read(gpu_type(MIG, memoryInGb=24), part=f"secure {count}")
    assert machine_of(found).gpu_count is None
    assert ("unknown_gpu_count", f"{count}x {MIG} secure") in notes(found)


@pytest.mark.parametrize(
    ("name", "memory", "gpu"),
    [
        ("NVIDIA ZZ900 MIG 1g.24gb", 24, None),
        (f"{A100} MIG", 80, None),
        (f"{A100} MIG 7g.80gb", 80, "a100-sxm4-80g"),
        (f"{A100} MIG 1g.10gb", 20, "a100-sxm4-80g"),
        (f"{A100} MIG 0g.0gb", None, "a100-sxm4-80g"),
    ],
)
def test_a_slice_that_is_not_understood_has_no_count(name: str, memory: int | None, gpu: str | None) -> None:
    found = read(gpu_type(name, memoryInGb=memory))
    assert machine_of(found).gpu == gpu
    assert machine_of(found).gpu_count is None
    assert ("unknown_gpu_count", f"1x {name} secure") in notes(found)


def test_the_order_of_the_records_changes_nothing() -> None:
    for case in cases("runpod"):
        body = json.loads(case.page.body)
        turned = case.with_body(json.dumps(_reversed(body)).encode())
        assert set(TestRunPod().parsed(case)) == set(TestRunPod().parsed(case, turned.body)), case.name


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(one) for key, one in reversed(value.items())}
    return [_reversed(one) for one in reversed(value)] if isinstance(value, list) else value


@pytest.mark.parametrize("part", ["secure 1", "community 1"])
@pytest.mark.parametrize("said", ["{}", '{"gpuTypes": null}', '{"gpuTypes": []}'])
def test_a_list_of_types_that_is_missing_or_empty_is_drift_and_takes_nothing_out(said: str, part: str) -> None:
    """Every answer names every type: an empty one is half an answer, not a country where all is sold out."""
    with pytest.raises(Drift, match="gpuTypes"):
        list(StockFeed(Config()).parse(Page("US-KS-2", f'{{"data": {said}}}'.encode(), NOW, "US", part)))


def test_an_empty_catalogue_is_drift_and_takes_nothing_out() -> None:
    with pytest.raises(Drift, match="gpus is empty"):
        from_catalogue()


@pytest.mark.parametrize("memory", [0, -16, 10**12])
def test_a_memory_that_cannot_be_is_unknown_and_noted(memory: int) -> None:
    found = read(gpu_type(memoryInGb=memory))
    assert machine_of(found).vram_mib == 16 * 1024, "the nominal size of the model"
    assert ("impossible_size", f"memoryInGb {memory}") in notes(found)


# Places


@pytest.mark.parametrize(
    ("data_centre", "country"),
    [
        ("US-KS-2", "US"),
        ("CA-MTL-2", "CA"),
        ("EU-RO-1", "RO"),
        ("EUR-IS-1", "IS"),
        ("AP-JP-1", "JP"),
        ("SEA-SG-1", "SG"),
        ("OC-AU-1", "AU"),
        ("EU-UK-1", None),
        ("EU-WEST-1", None),
        ("MARS-1", None),
        ("SA-BR-1", None),
        ("US", None),
    ],
)
def test_the_country_is_read_from_the_data_centres_id_or_not_at_all(data_centre: str, country: str | None) -> None:
    assert country_of(data_centre) == country
    assert region_of(data_centre) == (country or data_centre)


def test_a_data_centre_of_unknown_country_is_kept_as_a_region_of_its_own() -> None:
    found = recorded("places", "discovery")
    assert Region(region="MARS-1", country=None) in found
    assert Zone(region="MARS-1", zone="MARS-1") in found
    assert ("no_country", "MARS-1") in notes(found)
    cells = {(cell.place, cell.part.split()[0]) for cell in StockFeed(Config()).cells(["US", "MARS-1"])}
    assert cells == {("US", "secure"), ("US", "community"), ("MARS-1", "secure")}


def test_countries_and_listed_data_centres_are_places_and_null_is_none() -> None:
    found = recorded("places", "discovery")
    zones = {(one.region, one.zone) for one in found if isinstance(one, Zone)}
    assert zones == {("US", "US-KS-2"), ("US", "US-TX-3"), ("RO", "EU-RO-1"), ("MARS-1", "MARS-1")}
    countries = {one.country for one in found if isinstance(one, Region)}
    assert countries == {"CZ", "US", "FR", "CA", "RO", None}
    assert {("no_country", "null"), ("unlisted_data_centre", "CA-MTL-2")} <= notes(found)


# REST v2


def available(**fields: object) -> dict[str, object]:
    row = {"id": A100, "memory": 80, "secure": True, "price": {"secure": 1.79}, "maxCount": {"secure": 8}}
    return row | {"availability": "HIGH", "dataCenters": [{"id": "US-KS-2", "availability": "HIGH"}]} | fields


def from_catalogue(*gpus: object, regions: tuple[str, ...] = ()) -> dict[str | None, Level]:
    found = levels(StockFeed(Config(environ=KEY, regions=regions)).parse(catalogue(*gpus)))
    return {zone: level for (zone, _), level in found.items()}


def test_a_data_centre_that_the_catalogue_leaves_out_of_a_type_is_out() -> None:
    assert from_catalogue(available()) == {"US-KS-2": Level.IN_STOCK, "EU-RO-1": Level.OUT}


def test_a_type_available_nowhere_is_out_everywhere_and_keeps_its_price() -> None:
    row = available(availability="NONE")
    del row["dataCenters"]
    found = list(StockFeed(Config()).parse(catalogue(row)))
    assert {zone: level for (zone, _), level in levels(found).items()} == {"US-KS-2": Level.OUT, "EU-RO-1": Level.OUT}
    assert usd(found, f"8x {A100} secure") == 14_320_000_000


@pytest.mark.parametrize("dropped", ["availability", "dataCenters"])
def test_an_availability_that_is_not_stated_is_unknown_and_not_out(dropped: str) -> None:
    row = available()
    del row[dropped]
    assert from_catalogue(row)["EU-RO-1"] is Level.UNKNOWN


def test_two_availabilities_of_one_data_centre_are_both_stated_and_neither_chosen() -> None:
    both = [{"id": "US-KS-2", "availability": word} for word in ("HIGH", "NONE")]
    page = catalogue(available(dataCenters=both))
    stated = [one.level for one in StockFeed(Config()).parse(page) if isinstance(one, Stock) and one.zone == "US-KS-2"]
    assert set(stated) == {Level.IN_STOCK, Level.OUT}


def test_the_catalogue_is_cut_to_the_regions_of_the_settings() -> None:
    assert from_catalogue(available(), regions=("RO",)) == {"EU-RO-1": Level.OUT}


def test_a_catalogue_without_data_centres_is_drift() -> None:
    with pytest.raises(Drift):
        list(StockFeed(Config()).parse(catalogue(available(), centres=())))
