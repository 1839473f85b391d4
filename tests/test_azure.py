"""Azure: the contract over its recorded pages, and the right values of every trap that was seen in its answers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from itertools import permutations
from typing import Any, ClassVar, TypeVar

import pytest

import simcloud
from catalog.accelerators import accelerators
from catalog.facts import Fact, Machine, Note, Offered, Price, Region, Stock, Zone
from catalog.places import known_region, known_regions
from catalog.words import Evidence, Level, Purchase
from collectors.azure import Azure, Machines, Places
from collectors.azure_machine import known_sizes, score_regions, scored_sizes
from collectors.azure_retail import Prices
from collectors.azure_scores import Scores
from collectors.azure_wire import cloud_of
from collectors.base import Config, Drift, Page
from selector import measures
from tests.support.contract import SECRET, CollectorContract
from tests.support.pages import NOW, Case, cases

T = TypeVar("T")

KEYS = {
    "AZURE_CLIENT_ID": "22222222-2222-2222-2222-222222222222",
    "AZURE_TENANT_ID": "11111111-1111-1111-1111-111111111111",
    "AZURE_CLIENT_SECRET": f"secret-{SECRET}",
    "AZURE_SUBSCRIPTION_ID": "00000000-0000-0000-0000-000000000000",
}


class TestAzure(CollectorContract):
    name: ClassVar[str] = "azure"
    config: ClassVar[Config] = Config(KEYS, scores=True)
    regions: ClassVar[tuple[str, ...]] = ("eastus", "eastus2")
    services: ClassVar[tuple[str, ...]] = ("management", "retail")
    keyless: ClassVar[frozenset[str]] = frozenset({"prices"})
    documented: ClassVar[Mapping[str, str]] = {
        "machines/restrictions.0.reasonCode": "it is restricted without a reason, and says so",
        "machines/restrictions.1.reasonCode": "the same",
        **dict.fromkeys(
            (f"machines/capabilities{path}" for path in ("", ".0", ".0.name", ".0.value")),
            "LowPriorityCapable: where it is not said, spot is not listed",
        ),
        "machines/currentValue": "use that is not stated is told of as such, and only the limit forbids anything",
        **dict.fromkeys(
            ("machines/limit", "machines/name", "machines/name.value", "machines/family"),
            "a quota that is not known says nothing: the others are told of without it",
        ),
    }

    def config_for(self, case: Case) -> Config:
        return replace(super().config_for(case), scores=True)

    def of_sim(self, sim: simcloud.Sim) -> Config:
        told = super().of_sim(sim)
        return replace(told, scores=True, endpoints={**told.endpoints, "login": sim.url(self.name)})

    def at(self, url: str) -> Config:
        return replace(super().at(url), scores=True)


# --- Right values, read by hand


def read(feed: str, name: str) -> list[Fact | Note]:
    """The facts and notes of a recorded page."""
    (case,) = (case for case in cases("azure") if case.feed == feed and case.name == name)
    return TestAzure().parsed(case)


def of(kind: type[T], items: Iterable[Fact | Note]) -> list[T]:
    return [item for item in items if isinstance(item, kind)]


def notes(items: Iterable[Fact | Note]) -> list[tuple[str, str]]:
    return [(note.kind, note.value) for note in of(Note, items)]


def sku(name: str = "Standard_NC24ads_A100_v4", **more: Any) -> dict[str, Any]:
    """A resource SKU in eastus, zones 1 to 3, 24 vCPUs, unless more is said; `caps` are its capabilities."""
    caps = {"LowPriorityCapable": "True", "vCPUs": "24", "vCPUsAvailable": "24", "MemoryGB": "220", "GPUs": "1"}
    caps |= more.pop("caps", {})
    known = {
        "resourceType": "virtualMachines",
        "name": name,
        "family": "StandardNCADSA100v4Family",
        "locations": ["eastus"],
        "locationInfo": [{"location": "eastus", "zones": ["1", "2", "3"]}],
        "capabilities": [{"name": key, "value": value} for key, value in caps.items() if value is not None],
        "restrictions": [],
    }
    return {key: value for key, value in (known | more).items() if value is not ...}


def usage(name: str, limit: object, used: object = 0) -> dict[str, Any]:
    return {"limit": limit, "currentValue": used, "unit": "Count", "name": {"value": name}}


def machines(*skus: Mapping[str, Any], usages: Sequence[Mapping[str, Any]] = ()) -> list[Fact | Note]:
    body = json.dumps({"value": list(skus), "usages": list(usages)}).encode()
    return list(Machines(Config(KEYS)).parse(Page("azure machines eastus", body, NOW, "eastus")))


def machine(*skus: Mapping[str, Any]) -> Machine:
    (found,) = of(Machine, machines(*skus))
    return found


def details(items: Iterable[Fact | Note]) -> dict[tuple[str | None, str], str]:
    """(zone, purchase) -> why it cannot be had."""
    stocks = of(Stock, items)
    assert all((one.level, one.evidence) == (Level.UNKNOWN, Evidence.LISTED) for one in stocks)
    return {(one.zone, purchase.value): one.detail for one in stocks for purchase in one.purchases}


LOCATION = {"type": "Location", "restrictionInfo": {"locations": ["eastus"]}, "reasonCode": "QuotaId"}
ZONE = {"type": "Zone", "restrictionInfo": {"zones": ["2"]}, "reasonCode": "NotAvailableForSubscription"}
DEPLOYED = ("on_demand", "reserved_1y", "reserved_3y", "savings_1y", "savings_3y")


def test_regions_are_those_that_machines_can_be_rented_in_with_the_physical_zone_of_each_zone() -> None:
    items = read("places", "locations")
    assert [one.region for one in of(Region, items)] == ["eastus", "swedencentral", "westus"]
    zones = {(one.region, one.zone): one.zone_id for one in of(Zone, items)}
    assert zones["eastus", "2"] == "eastus-az3"
    left_out = [value.partition(":")[0] for _, value in notes(items)]
    assert left_out == ["unitedstates", "eastusstage", "eastus2euap", "southcentralusstg"]


def test_a_list_of_no_regions_is_no_answer() -> None:
    with pytest.raises(Drift, match="empty"):
        list(Places(Config(KEYS)).parse(Page("azure places", b'{"value": []}', NOW)))


@pytest.mark.parametrize(
    ("name", "said", "gpu", "count", "vram_gib"),
    [
        ("Standard_ND96isr_H100_v5", "12", "h100-sxm5-80g", 8, 80),
        ("Standard_ND96isr_H100_v5", None, "h100-sxm5-80g", 8, 80),
        ("Standard_ND48s_H100_v5", "6", "h100-sxm5-80g", None, None),
        ("Standard_ND128isr_NDR_GB200_v6", None, "gb200", 4, 186),
        ("Standard_ND128isr_GB300_v6", None, "gb300", 4, 288),
        ("Standard_ND96is_MI300X_v5", None, "mi300x", 8, 192),
        ("Standard_NV6ads_A10_v5", "1", "a10", Fraction(1, 6), 4),
        ("Standard_NV12ads_A10_v5", "1", "a10", Fraction(1, 3), 8),
        ("Standard_NV18ads_A10_v5", "1", "a10", Fraction(1, 2), 12),
        ("Standard_NV24ads_A10_v5", "1", "a10", None, None),
        ("Standard_NV4as_v4", "1", "mi25", Fraction(1, 8), 2),
        ("Standard_ND96asr_v4", "8", "a100-sxm4-40g", 8, 40),
        ("Standard_ND96amsr_A100_v4", "8", "a100-sxm4-80g", 8, 80),
        ("Standard_ND112asr_A100_v4", "8", "a100-sxm4-40g", 8, 40),
        ("Standard_NC24ads_A100_v4", "1", "a100-pcie-80g", 1, 80),
        ("Standard_NC72ads_A100_v4", "3", "a100-pcie-80g", 3, 80),
        ("Standard_NC40ads_H100_v5", "1", "h100-nvl-94g", 1, 94),
        ("Standard_NCC40ads_H100_v5", "1", "h100-nvl-94g", 1, 94),
        ("Standard_NC32ds_xl_RTXPRO6000BSE_v6", "1", "rtx-pro-6000-server", None, None),
        ("Standard_NV4ads_V710_v5", "1", None, None, None),
        ("Standard_NG8ads_V620_v1", "1", "radeon-pro-v620", Fraction(1, 4), 8),
        ("Standard_NG16ads_V620_v1", "1", "radeon-pro-v620", Fraction(1, 2), 16),
        ("Standard_NG32ads_V620_v1", "1", "radeon-pro-v620", 1, 32),
        ("Standard_NG32adms_V620_v1", "1", "radeon-pro-v620", 1, 32),
        ("Standard_NG24ads_V620_v1", "1", "radeon-pro-v620", None, None),
        ("Standard_NX8ads_Y1_v1", "1", None, None, None),
        ("Standard_X8_GPU_v1", "1", None, None, None),
        ("Standard_NC99zz_X9_v9", "2", None, 2, None),
        ("Standard_NC99zz_X9_v9", None, None, None, None),
        ("Standard_NP10s", None, None, 0, None),
    ],
)
def test_the_table_is_believed_before_azures_count(
    name: str, said: str | None, gpu: str | None, count: object, vram_gib: int | None
) -> None:
    found = machine(sku(name, caps={"GPUs": said}))
    assert (found.gpu, found.gpu_count) == (gpu, count)
    assert found.vram_mib == (None if vram_gib is None else vram_gib * 1024)


def test_every_size_of_the_table_names_an_accelerator_that_is_known() -> None:
    for size in known_sizes():
        assert size.gpu is None or size.gpu in accelerators(), size.name
        assert size.gpu_count is None or size.gpu_count >= 0
    assert len(scored_sizes()) == 20


def test_a_count_that_differs_is_noted_and_one_that_is_left_out_is_not() -> None:
    assert ("count_differs", "Standard_ND96isr_H100_v5: Azure says 12, the table 8") in notes(
        machines(sku("Standard_ND96isr_H100_v5", caps={"GPUs": "12"}))
    )
    assert notes(machines(sku("Standard_ND96isr_H100_v5", caps={"GPUs": None}))) == []


@pytest.mark.parametrize(
    ("name", "caps", "vcpus"),
    [
        ("Standard_NC24ads_A100_v4", {"vCPUs": "24", "vCPUsAvailable": "12"}, 12),
        ("Standard_NC24-12ads_A100_v4", {"vCPUs": "24", "vCPUsAvailable": "12"}, 12),
        ("Standard_NC24-12ads_A100_v4", {"vCPUs": "24", "vCPUsAvailable": None}, 12),
        ("Standard_NC24ads_A100_v4", {"vCPUs": "24", "vCPUsAvailable": None}, 24),
        ("Standard_NC99zz_X9_v9", {"vCPUs": None, "vCPUsAvailable": None}, None),
        ("Standard_NC99zz_X9_v9", {"vCPUs": "many", "vCPUsAvailable": None}, None),
    ],
)
def test_vcpus_are_those_that_can_be_used(name: str, caps: Mapping[str, str | None], vcpus: int | None) -> None:
    assert machine(sku(name, caps=caps)).vcpus == vcpus


@pytest.mark.parametrize(
    ("name", "linked"),
    [
        ("Standard_NC24ads_A100_v4", False),
        ("Standard_NC48ads_A100_v4", True),
        ("Standard_NC96ads_A100_v4", True),
        ("Standard_NC40ads_H100_v5", False),
        ("Standard_NC80adis_H100_v5", True),
        ("Standard_ND96isr_H100_v5", True),
        ("Standard_NC64as_T4_v3", False),
    ],
)
def test_cards_that_azure_bridges_are_linked_though_their_form_is_not(name: str, linked: bool) -> None:
    (priced,) = of(Machine, read_items(item(size=name)))
    assert [measures.nvlink(one) for one in (machine(sku(name)), priced)] == [linked, linked]


@pytest.mark.parametrize(
    ("said", "rdma"), [("True", True), ("False", False), (None, True)], ids=["said", "denied", "by the table"]
)
def test_rdma_is_what_azure_says_else_the_table(said: str | None, rdma: bool) -> None:
    assert machine(sku("Standard_ND96isr_H100_v5", caps={"RdmaEnabled": said})).rdma is rdma


@pytest.mark.parametrize(("said", "spot"), [("True", True), ("False", False), (None, False)])
def test_spot_is_listed_where_azure_says_so(said: str | None, spot: bool) -> None:
    found = machine(sku(caps={"LowPriorityCapable": said}))
    assert found.purchases == {Purchase.ON_DEMAND, *([Purchase.SPOT] if spot else [])}


def test_names_of_regions_and_sizes_are_joined_whatever_their_case() -> None:
    """`WestUS3` and `standard_nc24ads_a100_v4` are no other places or machines."""
    upper = sku("standard_nc24ads_a100_v4", locations=["EastUS"], locationInfo=[{"location": "EASTUS", "zones": ["2"]}])
    items = machines(upper)
    assert [one.instance_type for one in of(Machine, items)] == ["Standard_NC24ads_A100_v4"]
    assert of(Offered, items) == [Offered(region="eastus", instance_type="Standard_NC24ads_A100_v4", zone="2")]


def test_a_size_of_another_region_is_left_out_by_name() -> None:
    assert notes(machines(sku(locations=["westus"]))) == [("sku_of_another_region", "Standard_NC24ads_A100_v4")]
    without = sku(locations=..., locationInfo=[{"location": "westus", "zones": []}])
    assert notes(machines(without)) == [("sku_of_another_region", "Standard_NC24ads_A100_v4")]


def test_a_zone_that_is_restricted_leaves_the_others() -> None:
    items = machines(sku(restrictions=[ZONE]))
    found = details(items)
    why = "restricted: NotAvailableForSubscription"
    assert found == dict.fromkeys([("2", one) for one in (*DEPLOYED, "spot")], why)
    assert [one.zone for one in of(Offered, items)] == ["1", "2", "3"]


def test_a_location_that_is_restricted_is_so_for_every_purchase() -> None:
    found = details(machines(sku(restrictions=[LOCATION])))
    assert found == dict.fromkeys([(None, one) for one in (*DEPLOYED, "spot")], "restricted: QuotaId")


@pytest.mark.parametrize(
    ("said", "found"), [("True", {}), ("False", {(None, "spot"): "restricted: not capable of spot"}), (None, {})]
)
def test_a_size_that_cannot_be_spot_says_so_and_silence_says_nothing(said: str | None, found: object) -> None:
    assert details(machines(sku(caps={"LowPriorityCapable": said}))) == found


def test_that_a_size_cannot_be_spot_goes_before_its_restriction() -> None:
    found = details(machines(sku(restrictions=[LOCATION], caps={"LowPriorityCapable": "False"})))
    assert found.pop((None, "spot")) == "restricted: not capable of spot"
    assert found == dict.fromkeys([(None, one) for one in DEPLOYED], "restricted: QuotaId")


FAMILY = "StandardNCADSA100v4Family"


@pytest.mark.parametrize(
    ("usages", "said"),
    [
        ([usage("standardncadsa100V4family", 0)], "NO_QUOTA: standardncadsa100V4family 0 of 0 vCPUs used"),
        (
            [usage("Standard NCADSA100v4 Family", 23)],
            "NO_QUOTA: Standard NCADSA100v4 Family 0 of 23 vCPUs used, one machine takes 24",
        ),
        ([usage(FAMILY, 23, 23)], f"NO_QUOTA: {FAMILY} 23 of 23 vCPUs used, one machine takes 24"),
        ([usage(FAMILY, 0, None)], f"NO_QUOTA: {FAMILY} limit of 0 vCPUs, use not stated"),
        ([usage(FAMILY, 96), usage("cores", 0)], "NO_QUOTA: cores 0 of 0 vCPUs used"),
    ],
)
def test_a_quota_below_what_one_machine_takes_restricts_what_is_deployed_and_not_spot(
    usages: Sequence[Mapping[str, Any]], said: str
) -> None:
    """Families are spelt with and without blanks, in any case."""
    found = details(machines(sku(), usages=usages))
    assert found == {(None, purchase): f"restricted: {said}" for purchase in DEPLOYED}


@pytest.mark.parametrize(
    ("usages", "said"),
    [
        ([usage(FAMILY, 96, 48)], {"on_demand": f"quota {FAMILY}: 48 of 96 vCPUs used"}),
        ([usage(FAMILY, 24, 24)], {"on_demand": f"quota {FAMILY}: 24 of 24 vCPUs used"}),
        ([usage(FAMILY, 96, 73)], {"on_demand": f"quota {FAMILY}: 73 of 96 vCPUs used"}),
        ([usage(FAMILY, 96, 100)], {"on_demand": f"quota {FAMILY}: 100 of 96 vCPUs used"}),
        ([usage(FAMILY, 24, None)], {"on_demand": f"quota {FAMILY}: limit of 24 vCPUs, use not stated"}),
        (
            [usage("cores", 350, 28), usage(FAMILY, 96)],
            {"on_demand": f"quota {FAMILY}: 0 of 96 vCPUs used; quota cores: 28 of 350 vCPUs used"},
        ),
        ([usage("lowPriorityCores", 24)], {"spot": "quota lowPriorityCores: 0 of 24 vCPUs used"}),
        ([usage("lowPriorityCores", 0)], {"spot": "restricted: NO_QUOTA: lowPriorityCores 0 of 0 vCPUs used"}),
        (
            [usage("lowPriorityCores", 20, 10)],
            {"spot": "restricted: NO_QUOTA: lowPriorityCores 10 of 20 vCPUs used, one machine takes 24"},
        ),
        ([usage("lowPriorityCores", 100, 90)], {"spot": "quota lowPriorityCores: 90 of 100 vCPUs used"}),
        ([usage("standardNDSH100v5Family", 0)], {}),
        ([], {}),
    ],
)
def test_a_quota_is_told_in_words_of_what_is_sold_however_much_is_used_and_one_that_is_not_known_says_nothing(
    usages: Sequence[Mapping[str, Any]], said: Mapping[str, str]
) -> None:
    found = details(machines(sku(), usages=usages))
    assert found == {(None, purchase): detail for purchase, detail in said.items()}


def test_spot_that_is_not_listed_has_no_quota_and_what_is_refused_keeps_its_reason() -> None:
    many = [usage("lowPriorityCores", 1000), usage(FAMILY, 96)]
    unlisted = details(machines(sku(caps={"LowPriorityCapable": None}), usages=many))
    assert unlisted == {(None, "on_demand"): f"quota {FAMILY}: 0 of 96 vCPUs used"}
    refused = details(machines(sku(restrictions=[LOCATION]), usages=many))
    assert set(refused.values()) == {"restricted: QuotaId"}


def test_a_machine_of_unknown_size_needs_one_vcpu_at_least() -> None:
    nameless = sku("Standard_NC99zz_X9_v9", caps={"vCPUs": None, "vCPUsAvailable": None})
    none, one = (details(machines(nameless, usages=[usage(FAMILY, limit)])) for limit in (0, 1))
    assert set(none.values()) == {f"restricted: NO_QUOTA: {FAMILY} 0 of 0 vCPUs used"}
    assert set(one.values()) == {f"quota {FAMILY}: 0 of 1 vCPUs used"}


@pytest.mark.parametrize("limit", [None, -1])
def test_a_quota_whose_limit_is_not_stated_restricts_nothing_and_is_noted(limit: int | None) -> None:
    items = machines(sku(), usages=[usage(FAMILY, limit)])
    assert (details(items), notes(items)) == ({}, [("quota_without_limit", FAMILY)])


@pytest.mark.parametrize("order", [1, -1])
def test_a_quota_that_is_stated_twice_with_other_figures_is_unknown(order: int) -> None:
    twice = [usage(FAMILY, 0), usage(FAMILY.upper(), 96)]
    items = machines(sku(), usages=twice[::order])
    assert details(items) == {}
    assert [kind for kind, _ in notes(items)] == ["contradicting_quotas"]
    same = machines(sku(), usages=[usage(FAMILY, 96), usage(FAMILY.upper(), 96)])
    assert (len(details(same)), notes(same)) == (1, [])


def test_quotas_of_no_machine_are_counted() -> None:
    found = machines(sku(), usages=[usage("standardDSv3Family", 0), usage("standardBSFamily", 10), usage(FAMILY, 96)])
    assert [(one.kind, one.record) for one in of(Note, found)] == [("quota_of_no_machine", True)] * 2


def test_missing_quotas_are_no_answer() -> None:
    with pytest.raises(Drift, match="usages is missing"):
        list(Machines(Config(KEYS)).parse(Page("azure machines", b'{"value": []}', NOW, "eastus")))


@pytest.mark.parametrize(
    ("restrictions", "noted"),
    [
        (..., "restrictions_not_stated"),
        ([{"type": "Zone", "reasonCode": "X"}], "unknown_restriction"),
        ([{"type": "Hemisphere", "reasonCode": "X"}], "unknown_restriction"),
    ],
)
def test_a_restriction_that_is_not_understood_is_noted(restrictions: object, noted: str) -> None:
    items = machines(sku(restrictions=restrictions))
    assert ([kind for kind, _ in notes(items)], details(items)) == ([noted], {})


# --- Prices


def item(price: object = 3.673, size: str = "Standard_NC24ads_A100_v4", sku: str = "", **more: Any) -> dict[str, Any]:
    """An item of the retail prices: Linux on demand in eastus, unless more is said. `sku` ends its meter's names."""
    name = f"{size.removeprefix('Standard_').replace('_', ' ')}{sku}"
    known = {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "armRegionName": "eastus",
        "effectiveStartDate": "2026-06-01T00:00:00Z",
        "meterName": name,
        "productName": "Virtual Machines NCads A100 v4 Series",
        "skuName": name,
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
    }
    return {key: value for key, value in (known | more).items() if value is not ...}


def reserved(total: object, term: str = "1 Year", **more: Any) -> dict[str, Any]:
    return item(total, type="Reservation", reservationTerm=term, **more)


def read_items(*items: Mapping[str, Any], site: str | None = None) -> list[Fact | Note]:
    page = Page("azure prices eastus", json.dumps({"Items": list(items)}).encode(), NOW, "eastus")
    return list(Prices(Config(site=site)).parse(page))


def nanos(*items: Mapping[str, Any]) -> dict[str, int]:
    """Purchase -> nano-units an hour."""
    found = of(Price, read_items(*items))
    assert len({one.purchase for one in found}) == len(found)
    return {one.purchase.value: one.nanos for one in found}


LOW_PRIORITY, SPOT, WINDOWS = (
    item(0.735, sku=" Low Priority"),
    item(1.1, sku=" Spot"),
    {"productName": "NC Series Windows"},
)


def test_low_priority_is_neither_price_in_any_order() -> None:
    """T4."""
    for order in permutations([item(3.673), LOW_PRIORITY, SPOT]):
        assert nanos(*order) == {"on_demand": 3_673_000_000, "spot": 1_100_000_000}


@pytest.mark.parametrize(
    "changes",
    [
        {"productName": "Virtual Machines NDsrH100v5 Srs Win"},
        {"productName": "Virtual Machines NDsrH100v5 Series Windows"},
        {"productName": "NCads A100 v4 Series Cloud Services"},
        {"productName": "NCads A100 v4 Series CloudServices"},
        {"productName": "NDasrA100v4 Series Dedicated Host"},
        {"skuName": "NC24ads A100 v4 Low Priority"},
        {"meterName": "NC24ads A100 v4 Low Priority"},
        {"serviceName": "Virtual Machines Licenses"},
        {"type": "DevTestConsumption"},
        {"type": "SavingsPlanConsumption", "reservationTerm": "1 Year"},
        {"type": "Reservation", "reservationTerm": "5 Years"},
        {"type": "Barter"},
    ],
    ids=lambda changes: " ".join(changes.values()),
)
def test_what_is_no_linux_machine_is_never_a_price(changes: dict[str, Any]) -> None:
    items = read_items(item(0.5, **changes))
    assert of(Price, items) == []
    assert [note.kind for note in of(Note, items) if note.record] == ["another_product"]


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        ({"retailPrice": 0.0}, "non_positive_price"),
        ({"retailPrice": -1}, "non_positive_price"),
        ({"retailPrice": ...}, "no_price"),
        ({"retailPrice": None}, "no_price"),
        ({"currencyCode": "EUR"}, "unknown_currency"),
        ({"currencyCode": ...}, "unknown_currency"),
        ({"unitOfMeasure": "1/Month"}, "unknown_unit"),
        ({"unitOfMeasure": ...}, "unknown_unit"),
        ({"unitOfMeasure": "0 Hours"}, "unknown_unit"),
        ({"tierMinimumUnits": 100.0}, "higher_tier"),
        ({"effectiveStartDate": "2027-01-01T00:00:00Z"}, "not_in_force"),
        ({"effectiveEndDate": "2026-07-01T00:00:00Z"}, "not_in_force"),
        ({"armSkuName": ...}, "incomplete_item"),
        ({"productName": ...}, "incomplete_item"),
        ({"skuName": ...}, "incomplete_item"),
        ({"meterName": ...}, "incomplete_item"),
        ({"serviceName": ...}, "incomplete_item"),
        ({"armRegionName": "westus"}, "other_region"),
    ],
    ids=str,
)
def test_what_is_no_price_is_noted_once(changes: dict[str, Any], noted: str) -> None:
    items = read_items(item(**changes))
    assert of(Price, items) == []
    assert [note.kind for note in of(Note, items) if note.record] == [noted]


@pytest.mark.parametrize(
    ("unit", "amount", "hour"),
    [("1 Hour", 0.526, 526_000_000), ("100 Hours", 52.6, 526_000_000), ("3 Hours", 1, 333_333_333)],
)
def test_an_amount_of_several_hours_is_divided_exactly(unit: str, amount: float, hour: int) -> None:
    assert nanos(item(amount, unitOfMeasure=unit)) == {"on_demand": hour}


def test_a_reservation_is_a_whole_terms_total() -> None:
    """645962 and 1421117 an ND96isr_H100_v5, beside 98.32 an hour: `1 Hour` is what Azure says of all three."""
    prices = of(Price, read_items(item(98.32), reserved(645962), reserved(1421117, "3 Years")))
    said = {one.purchase.value: (one.nanos, one.upfront_nanos, one.term_months) for one in prices}
    assert said["reserved_1y"] == (73_739_954_338, 645_962 * 10**9, 12)
    assert said["reserved_3y"] == (54_075_989_346, 1_421_117 * 10**9, 36)
    assert said["on_demand"] == (98_320_000_000, None, None)


def test_a_reservation_alone_says_nothing_on_demand() -> None:
    items = read_items(reserved(48318.0, "3 Years"))
    assert [one.purchase for one in of(Price, items)] == [Purchase.RESERVED_3Y]
    assert ("no_price_on_demand", "Standard_NC24ads_A100_v4") in notes(items)


def test_a_reservation_that_would_be_next_to_nothing_is_no_terms_total() -> None:
    """Should Azure one day state an hour's: 2.75 over a year would be the cheapest machine there is."""
    items = read_items(item(3.673), reserved(2.75))
    assert [one.purchase for one in of(Price, items)] == [Purchase.ON_DEMAND]
    assert ("implausible_reservation", "Standard_NC24ads_A100_v4 reserved_1y") in notes(items)


def test_a_reservation_in_another_unit_is_not_understood() -> None:
    assert nanos(item(), reserved(24132, unitOfMeasure="100 Hours")).keys() == {"on_demand"}


def test_a_savings_plan_is_a_purchase_of_its_own_by_the_hour_with_nothing_in_advance() -> None:
    plans = [
        {"unitPrice": 2.75475, "retailPrice": 2.75475, "term": "1 Year"},
        {"unitPrice": 1.8365, "retailPrice": 1.8365, "term": "3 Years"},
        {"unitPrice": 1, "retailPrice": 1, "term": "5 Years"},
        {"unitPrice": 0, "retailPrice": 0, "term": "1 Year"},
    ]
    items = read_items(item(savingsPlan=plans))
    found = {"on_demand": 3_673_000_000, "savings_1y": 2_754_750_000, "savings_3y": 1_836_500_000}
    assert nanos(item(savingsPlan=plans)) == found
    assert {one.upfront_nanos for one in of(Price, items)} == {None}
    assert [value for kind, value in notes(items) if kind == "unknown_savings_plan"] == [
        "Standard_NC24ads_A100_v4 5 Years",
        "Standard_NC24ads_A100_v4 1 Year",
    ]


def test_a_savings_plan_is_divided_like_its_item_and_never_taken_from_a_spot_item() -> None:
    plan = [{"unitPrice": 275.475, "retailPrice": 275.475, "term": "1 Year"}]
    by_hundred = item(retailPrice=367.3, unitOfMeasure="100 Hours", savingsPlan=plan)
    assert nanos(by_hundred) == {"on_demand": 3_673_000_000, "savings_1y": 2_754_750_000}
    assert nanos(item(meterName="A100 Spot", savingsPlan=plan)).keys() == {"spot"}


@pytest.mark.parametrize(
    ("others", "hour"),
    [
        ([item(9.9, isPrimaryMeterRegion=False)], 3_673_000_000),
        ([item(9.9, effectiveStartDate="2025-01-01T00:00:00Z")], 3_673_000_000),
        ([item(9.9, effectiveStartDate="2026-07-01T00:00:00Z")], 9_900_000_000),
        ([item(9.9, effectiveStartDate="2026-07-01T00:00:00Z", isPrimaryMeterRegion=False)], 3_673_000_000),
        ([item(3.673)], 3_673_000_000),
        ([item(0.0, effectiveStartDate="2026-07-01T00:00:00Z")], 3_673_000_000),
        ([item(9.9)], None),
        ([item(9.9, effectiveStartDate=...)], None),
        ([item(9.9, isPrimaryMeterRegion=...)], None),
    ],
)
def test_of_several_meters_the_primary_and_then_the_latest_counts_and_of_equals_none(
    others: list[dict[str, Any]], hour: int | None
) -> None:
    for order in permutations([item(3.673), *others]):
        assert nanos(*order).get("on_demand") == hour


def test_blanks_around_names_are_no_part_of_them() -> None:
    """B051."""
    items = read_items(item(0.526, "Standard_NC4as_T4_v3 ", skuName=" NC4as T4 v3 ", productName=" NCasT4_v3 Series "))
    assert [(one.instance_type, one.nanos) for one in of(Price, items)] == [("Standard_NC4as_T4_v3", 526_000_000)]


def test_without_credentials_machines_are_described_by_the_table() -> None:
    (found,) = of(Machine, read_items(item(size="Standard_ND96isr_H100_v5")))
    assert found.gpu == "h100-sxm5-80g"
    assert found.gpu_count == 8
    assert (found.vcpus, found.memory_mib, found.rdma) == (96, 1900 * 1024, True)
    assert found.purchases == {Purchase.ON_DEMAND}


@pytest.mark.parametrize(("site", "currency"), [(None, "USD"), ("intl", "USD"), ("cn", "CNY")])
def test_a_price_is_in_its_clouds_currency_or_none(site: str | None, currency: str) -> None:
    items = read_items(item(1.0, currencyCode="USD"), item(2.0, "Standard_NC6s_v3", currencyCode="CNY"), site=site)
    assert [one.currency for one in of(Price, items)] == [currency]


def test_every_price_of_the_recorded_page() -> None:
    found = {(one.instance_type, one.purchase.value): one.nanos for one in of(Price, read("prices", "eastus"))}
    assert found == {
        ("Standard_ND96isr_H100_v5", "on_demand"): 98_320_000_000,
        ("Standard_ND96isr_H100_v5", "spot"): 27_529_600_000,
        ("Standard_ND96isr_H100_v5", "reserved_1y"): 73_739_954_338,
        ("Standard_ND96isr_H100_v5", "reserved_3y"): 54_075_989_346,
        ("Standard_ND96isr_H100_v5", "savings_1y"): 73_740_000_000,
        ("Standard_ND96isr_H100_v5", "savings_3y"): 54_076_000_000,
        ("Standard_NC24ads_A100_v4", "on_demand"): 3_673_000_000,
        ("Standard_NC24ads_A100_v4", "spot"): 1_028_400_000,
        ("Standard_NC24ads_A100_v4", "reserved_1y"): 2_754_794_521,
        ("Standard_NC4as_T4_v3", "on_demand"): 526_000_000,
        ("Standard_NC4as_T4_v3", "reserved_1y"): 326_120_000,
        ("Standard_NV6ads_A10_v5", "on_demand"): 454_000_000,
        ("Standard_NV4ads_V710_v5", "on_demand"): 189_000_000,
        ("Standard_NP10s", "on_demand"): 1_650_000_000,
    }


# --- Scores


def test_a_score_is_shown_and_never_stock() -> None:
    items = read("scores", "two_regions")
    found = {(one.instance_type, one.region, one.zone): (one.score, one.detail) for one in of(Stock, items)}
    assert found == {
        ("Standard_ND96isr_H100_v5", "eastus", "1"): ("Low", "Low"),
        ("Standard_ND96isr_H100_v5", "eastus", "2"): (None, "restricted: RestrictedSkuNotAvailable"),
        ("Standard_NC24ads_A100_v4", "westus3", "1"): ("High", "High"),
        ("Standard_NC24ads_A100_v4", "westus3", "2"): ("Medium", "restricted: no spot quota"),
        ("Standard_NC6s_v3", "eastus", None): ("Medium", "Medium"),
    }
    for one in of(Stock, items):
        assert (one.level, one.evidence) == (Level.UNKNOWN, Evidence.SCORED)
        assert one.purchases == {Purchase.SPOT}
    assert notes(items) == [("no_score", "Standard_NC24ads_A100_v4 in eastus"), ("unknown_score", "Splendid")]


@pytest.mark.parametrize(
    ("regions", "groups"), [(1, "1234"), (8, "1234"), (9, "1122"), (17, "1112"), (32, "1111"), (60, "1111")]
)
def test_scores_keep_to_four_calls_an_hour(regions: int, groups: str) -> None:
    feed = Scores(Config(KEYS, scores=True))
    cells = list(feed.cells([f"r{number}" for number in range(regions)]))
    assert feed.every == timedelta(hours=1)
    assert "".join(cell.part[0] for cell in cells) == groups
    assert all(len(cell.part.split(",")) <= 8 for cell in cells)


def test_regions_with_most_accelerators_are_scored_where_not_all_can_be() -> None:
    """By the alphabet `westus3` would never be asked about."""
    everywhere = sorted(name for provider, name in known_regions() if provider == "azure" and "china" not in name)
    cells = list(Scores(Config(KEYS, scores=True)).cells(["aaa", *everywhere]))
    asked = [region for cell in cells for region in cell.part.partition(" ")[2].split(",")]
    assert len(everywhere) > 50
    assert len(asked) == len(set(asked)) == 32
    assert {"eastus", "southcentralus", "swedencentral", "westeurope", "westus3"} < set(asked)
    assert not {"aaa", "ukwest", "westcentralus"} & set(asked)
    (first, *_) = Scores(Config(KEYS, scores=True)).cells(["aaa", "WestUS3", "eastus"])
    assert first.part == "1 westus3,eastus,aaa", "what is not ranked comes last"


def test_every_ranked_region_is_known_and_no_other_name_is_ranked() -> None:
    assert len(set(score_regions())) == len(score_regions()) > 40
    assert {("azure", name) for name in score_regions()} <= set(known_regions())


# --- What runs, and what does not


def test_without_credentials_prices_alone_run_for_one_region_or_those_named() -> None:
    keyless = Azure(Config())
    assert [feed.name for feed in keyless.feeds()] == ["prices"]
    assert keyless.off().keys() == {"places", "machines", "scores"}
    assert all(name in keyless.off()["machines"] for name in KEYS)
    assert [cell.place for cell in Prices(Config()).cells([])] == ["eastus"]
    assert [cell.place for cell in Prices(Config()).cells(["WestUS3", "westus3"])] == ["westus3"]


@pytest.mark.parametrize("missing", KEYS)
def test_a_credential_that_is_missing_is_named(missing: str) -> None:
    built = Azure(Config({name: value for name, value in KEYS.items() if name != missing}))
    assert not built.account
    assert missing in built.off()["places"]


def test_scores_are_asked_for_only_where_the_settings_say_so() -> None:
    assert [feed.name for feed in Azure(Config(KEYS)).feeds()] == ["prices", "places", "machines"]
    assert Azure(Config(KEYS)).off() == {"scores": "optional: set GPUFARE_PROVIDERS__AZURE__SCORES=true"}
    assert Azure(Config(KEYS, scores=True)).off() == {}


def test_azure_china_has_hosts_a_currency_and_regions_of_its_own() -> None:
    china = cloud_of(Config(site="cn"))
    assert (china.management, china.login) == ("https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn")
    assert (china.retail, china.currency) == ("https://prices.azure.cn", "CNY")
    assert cloud_of(Config()) == cloud_of(Config(site="intl"))
    assert cloud_of(Config()).currency == "USD"
    for region in ("chinaeast", "chinaeast2", "chinaeast3", "chinanorth", "chinanorth2", "chinanorth3"):
        known = known_region("azure", region)
        assert known is not None
        assert (known.country, known.mainland_china) == ("CN", True)
