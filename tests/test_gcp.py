"""Google Cloud: the contract over its recorded pages, and the right values read out of them by hand."""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

import pytest

from catalog.accelerators import resolve_offer
from catalog.facts import Fact, Machine, Note, Offered, Region, Stock, Zone
from catalog.launch_codes import CodeKind, code_kind
from catalog.words import Evidence, Level, Purchase
from collectors.base import Config, Drift, Feed, Page
from collectors.gcp import Gcp
from collectors.gcp_machine import (
    Card,
    Shape,
    attached,
    is_sold_on_demand,
    known_type,
    known_types,
    machine_of,
    purchases_of,
    shape_of,
)
from collectors.gcp_quotas import metrics
from collectors.reading import JsonValue, Record
from selector import measures
from tests.support.contract import SECRET, CollectorContract
from tests.support.pages import NOW, cases, feed_of

ENVIRON = {"GOOGLE_API_KEY": f"key-{SECRET}", "GOOGLE_CLOUD_PROJECT": "acme"}
NOBODY = "http://127.0.0.1:9"
MONEY = "JSON of Google's leaves out a part of an amount that is 0"
L4 = {"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}
A100 = {"guestAcceleratorType": "nvidia-tesla-a100", "guestAcceleratorCount": 1}
QUOTAS_NOT_READ = (
    "gcp compute.regions.list: HTTP 403 forbidden: the credentials lack compute.regions.list; "
    "grant it, then run `gpufare sync gcp`"
)
RATE = "pricingInfo.0.pricingExpression.tieredRates.0.unitPrice"


class TestGcp(CollectorContract):
    name: ClassVar[str] = "gcp"
    config: ClassVar[Config] = Config(ENVIRON, endpoints={"compute": NOBODY, "billing": NOBODY})
    regions: ClassVar[tuple[str, ...]] = ("us-central1",)
    services: ClassVar[tuple[str, ...]] = ("compute", "billing")
    documented: ClassVar[Mapping[str, str]] = {
        f"prices/{RATE}.units": MONEY,
        f"prices/{RATE}.nanos": MONEY,
        "machines/usage": "use that is not stated is told of as such, and only the limit forbids anything",
    }


def read(feed: str, name: str) -> list[Fact | Note]:
    """The facts and notes of a recorded page."""
    (case,) = (case for case in cases("gcp") if case.feed == feed and case.name == name)
    return list(feed_of(case, TestGcp.config).parse(case.page))


def feed(name: str, config: Config = TestGcp.config) -> Feed:
    (found,) = (one for one in Gcp(config).feeds() if one.name == name)
    return found


def machines(name: str = "us_central1", feed: str = "machines") -> dict[str, Machine]:
    return {item.instance_type: item for item in read(feed, name) if isinstance(item, Machine)}


def zones(name: str = "us_central1") -> dict[str, set[str | None]]:
    """Machine -> the zones that sell it."""
    found: dict[str, set[str | None]] = {}
    for item in read("machines", name):
        if isinstance(item, Offered):
            found.setdefault(item.instance_type, set()).add(item.zone)
    return found


def notes(items: list[Fact | Note]) -> list[tuple[str, str]]:
    return [(item.kind, item.value) for item in items if isinstance(item, Note)]


def of(item: object, *fields: str) -> tuple[object, ...]:
    return tuple(getattr(item, field) for field in fields)


def test_regions_and_zones_go_by_their_short_names() -> None:
    """Google gives a zone's region as an address."""
    regions = {item.region: item.enabled for item in read("places", "regions") if isinstance(item, Region)}
    assert regions == {"us-central1": True, "europe-west4": True, "me-west9": None}
    found = {item.zone: item.region for item in read("places", "zones") if isinstance(item, Zone)}
    assert found["us-central1-a"] == "us-central1"
    assert ("place_state", "europe-west4-b: DOWN") in notes(read("places", "zones"))


@pytest.mark.parametrize(
    ("instance_type", "gpu", "count", "vram_gib"),
    [
        ("a2-highgpu-1g", "a100-sxm4-40g", 1, 40),
        ("a2-ultragpu-1g", "a100-sxm4-80g", 1, 80),
        ("a3-highgpu-8g", "h100-sxm5-80g", 8, 80),
        ("a3-megagpu-8g", "h100-sxm5-80g", 8, 80),
        ("a3-ultragpu-8g", "h200-sxm5-141g", 8, 141),
        ("a4-highgpu-8g", "b200", 8, 180),
        ("g2-standard-4", "l4", 1, 24),
        ("g4-standard-12", "rtx-pro-6000-server", Fraction(1, 4), 24),
        ("ct5lp-hightpu-4t", "tpu-v5e", 4, 16),
        ("n1-standard-8+nvidia-tesla-t4x2", "t4", 2, 16),
        ("n1-standard-8+nvidia-tesla-v100x8", "v100-sxm2-16g", 8, 16),
        ("g9-standard-4", None, 1, None),
    ],
)
def test_an_accelerator_is_known_by_googles_name_and_a_part_of_a_card_by_the_table(
    instance_type: str, gpu: str | None, count: int, vram_gib: int | None
) -> None:
    found = machines()[instance_type]
    assert of(found, "gpu", "gpu_count") == (gpu, count)
    assert found.vram_mib == (None if vram_gib is None else vram_gib * 1024)


def test_what_is_not_sold_on_demand_is_not_listed_so() -> None:
    found = {name: machine.purchases for name, machine in machines().items()}
    not_on_demand = {Purchase.SPOT, Purchase.CAPACITY_BLOCK}
    assert {name for name, purchases in found.items() if purchases == not_on_demand} == {
        "a3-highgpu-1g",
        "a3-ultragpu-8g",
        "a4-highgpu-8g",
    }
    assert set(found.values()) == {frozenset(not_on_demand), frozenset({Purchase.ON_DEMAND})}


@pytest.mark.parametrize(
    ("name", "sold"),
    [
        ("a3-highgpu-8g", True),
        ("a3-highgpu-4g", False),
        ("a3-highgpu-16g", False),
        ("a3-edgegpu-8g", False),
        ("a3-megagpu-8g-nolssd", True),
        ("a3-ultragpu-8g-nolssd", False),
        ("a4-highgpu-4g", False),
        ("a4-megagpu-8g", False),
        ("a4x-highgpu-4g", False),
        ("a4x-supergpu-4g-metal", False),
        ("a2-ultragpu-1g-nolssd", True),
        ("g2-standard-7", True),
        ("n1-standard-3+nvidia-tesla-t4x1", True),
        ("zz-new-1g", True),
    ],
)
def test_a_type_that_is_new_is_sold_on_demand_where_all_of_its_series_are(name: str, sold: bool) -> None:
    assert is_sold_on_demand(name) is sold
    assert (Purchase.ON_DEMAND in purchases_of(name)) is sold


def test_a_type_without_local_ssd_is_the_other_one_but_for_that() -> None:
    record: JsonValue = {
        "name": "a3-ultragpu-8g-nolssd",
        "guestCpus": 224,
        "memoryMb": 2952 * 1024,
        "accelerators": [{"guestAcceleratorType": "nvidia-h200-141gb", "guestAcceleratorCount": 8}],
    }
    shape, *told = shape_of(Record(record, "type"))
    assert told == []
    assert isinstance(shape, Shape)
    (found,) = machine_of(shape, "us-central1")
    assert of(found, "gpu", "gpu_count", "rdma") == ("h200-sxm5-141g", 8, True)
    without = known_type("a2-ultragpu-1g-nolssd")
    assert without is not None
    assert of(without, "ssd_gib", "gpu_count") == (0, 1)


@pytest.mark.parametrize(
    ("raw", "gpu"),
    [
        ("ct3", "tpu-v3"),
        ("ct3p", "tpu-v3"),
        ("ct5l", "tpu-v5e"),
        ("ct5lp", "tpu-v5e"),
        ("ct5p", "tpu-v5p"),
        ("ct6e", "tpu-v6e"),
    ],
)
def test_a_tpu_is_known_by_googles_name_and_nobody_says_that_it_has_no_nvlink(raw: str, gpu: str) -> None:
    assert resolve_offer(raw, provider="gcp") == gpu
    shape = Shape(f"{raw}-hightpu-4t", raw, Fraction(4), 112, 192 * 1024, Fraction(0))
    (found,) = [one for one in machine_of(shape, "us-central1") if isinstance(one, Machine)]
    assert (found.gpu, measures.nvlink(found)) == (gpu, None)


def test_a_region_that_google_does_not_list_is_told_of() -> None:
    items = list(feed("machines").parse(Page("machineTypes mars-north1", b'{"zones": {}}', NOW, "mars-north1")))
    assert notes(items) == [("region_not_listed", "mars-north1")]
    assert len(items) == 1


def test_gpus_attach_to_n1_as_far_as_both_allow() -> None:
    """T4s to at most 48 vCPUs but for four of them, and no more of them than the zone lets one machine have."""
    by_zone = zones()
    assert by_zone["n1-standard-8+nvidia-tesla-t4x1"] == {"us-central1-a", "us-central1-c"}
    assert by_zone["n1-standard-8+nvidia-tesla-v100x1"] == {"us-central1-a"}
    assert "n1-highmem-96+nvidia-tesla-t4x2" not in by_zone
    assert by_zone["n1-highmem-96+nvidia-tesla-t4x4"] == {"us-central1-c"}
    assert not [name for name in by_zone if "vws" in name or "k80" in name]
    host = Shape("n1-standard-16", "", Fraction(0), 16, 60 * 1024, Fraction(0))
    few = [shape.name for shape in attached([host], [Card("nvidia-tesla-v100", 4)])]
    assert few == ["n1-standard-16+nvidia-tesla-v100x2", "n1-standard-16+nvidia-tesla-v100x4"]
    assert not list(attached([host], [Card("nvidia-tesla-t4", None)])), "how many one machine may have is not known"


def test_gpus_and_hosts_in_different_zones_make_no_machine() -> None:
    assert not machines("me_west1")
    assert notes(read("machines", "me_west1")) == [
        ("no_accelerator", "n1-standard-8"),
        ("accelerator_without_machine", "nvidia-tesla-t4"),
        ("quotas_not_read", QUOTAS_NOT_READ),
    ]


def test_zones_that_describe_a_machine_otherwise_are_told_of() -> None:
    types = [{"name": "g2-standard-4", "guestCpus": vcpus, "accelerators": [L4]} for vcpus in (4, 5)]
    body = {"zones": {f"r-{n}": {"machineTypes": [one], "acceleratorTypes": []} for n, one in enumerate(types)}}
    items = list(feed("machines").parse(Page("machineTypes r", json.dumps(body).encode(), NOW, "r")))
    assert [item.vcpus for item in items if isinstance(item, Machine)] == [4]
    assert ("zones_disagree", "g2-standard-4") in notes(items)


@pytest.mark.parametrize(
    ("record", "noted"),
    [
        (
            {"name": "a2-highgpu-1g", "accelerators": [A100], "deprecated": {"state": "OBSOLETE"}},
            "machine_type_is_gone",
        ),
        ({"name": "a2-highgpu-1g", "accelerators": [A100, A100]}, "several_accelerators"),
        ({"name": "a2-highgpu-1g", "accelerators": []}, "no_accelerator"),
        ({"name": "n2-standard-4"}, "no_accelerator"),
    ],
)
def test_a_type_that_is_left_out_says_why(record: JsonValue, noted: str) -> None:
    first, *_ = shape_of(Record(record, "type"))
    assert isinstance(first, Note)
    assert of(first, "kind", "record") == (noted, True)


def test_a_deprecated_type_is_still_sold_and_a_count_that_the_table_denies_is_told_of() -> None:
    record: JsonValue = {
        "name": "a2-highgpu-8g",
        "accelerators": [{"guestAcceleratorType": "nvidia-tesla-a100", "guestAcceleratorCount": 4}],
        "deprecated": {"state": "DEPRECATED"},
    }
    shape, *told = shape_of(Record(record, "type"))
    assert of(shape, "gpu_count", "vcpus", "memory_mib") == (8, None, None)
    assert told == [Note("count_differs", "a2-highgpu-8g: Google says 4, the table 8")]


# --- Quotas

DEPLOYED = ("on_demand", "reserved_1y", "reserved_3y")
A100_80, SPOT_A100_80 = "NVIDIA_A100_80GB_GPUS", "PREEMPTIBLE_NVIDIA_A100_80GB_GPUS"
ULTRA = {"accelerators": [{"guestAcceleratorType": "nvidia-a100-80gb", "guestAcceleratorCount": 8}]}


def told(name: str, record: Mapping[str, object], **body: object) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Purchase -> what the quotas make of its stock, for one machine type; and the notes on quotas."""
    zone = {"machineTypes": [{"name": name, **record}], "acceleratorTypes": []}
    page = Page("machineTypes r", json.dumps({"zones": {"r-a": zone}, **body}).encode(), NOW, "r")
    items = list(feed("machines").parse(page))
    stocks = [item for item in items if isinstance(item, Stock)]
    assert all((one.level, one.evidence, one.zone) == (Level.UNKNOWN, Evidence.LISTED, None) for one in stocks)
    found = {purchase.value: one.detail for one in stocks for purchase in one.purchases}
    assert len(found) == sum(len(one.purchases) for one in stocks)
    return found, [(kind, value) for kind, value in notes(items) if "quota" in kind]


def quota(metric: str, limit: object, usage: object = 0.0) -> dict[str, object]:
    return {"metric": metric, "limit": limit, "usage": usage}


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ([quota(A100_80, 16.0, 8.0)], {"on_demand": f"quota {A100_80}: 8 of 16 GPUs used"}),
        ([quota(A100_80, 0.0)], dict.fromkeys(DEPLOYED, f"restricted: NO_QUOTA: {A100_80} 0 of 0 GPUs used")),
        ([quota(A100_80, 8.0, 8.0)], {"on_demand": f"quota {A100_80}: 8 of 8 GPUs used"}),
        ([quota(A100_80, 16.0, 9.0)], {"on_demand": f"quota {A100_80}: 9 of 16 GPUs used"}),
        (
            [quota(A100_80, 7.0, 7.0)],
            dict.fromkeys(DEPLOYED, f"restricted: NO_QUOTA: {A100_80} 7 of 7 GPUs used, one machine takes 8"),
        ),
        ([quota(A100_80, 8.0, None)], {"on_demand": f"quota {A100_80}: limit of 8 GPUs, use not stated"}),
        ([quota(SPOT_A100_80, 16.0)], {"spot": f"quota {SPOT_A100_80}: 0 of 16 GPUs used"}),
        (
            [quota(SPOT_A100_80, 4.0)],
            {"spot": f"restricted: NO_QUOTA: {SPOT_A100_80} 0 of 4 GPUs used, one machine takes 8"},
        ),
        ([quota(SPOT_A100_80, 0.0)], {}),
        ([quota(SPOT_A100_80, 0.0), quota(A100_80, 8.0, 8.0)], {"on_demand": f"quota {A100_80}: 8 of 8 GPUs used"}),
        (
            [quota(SPOT_A100_80, 0.0), quota(A100_80, 0.0)],
            dict.fromkeys(DEPLOYED, f"restricted: NO_QUOTA: {A100_80} 0 of 0 GPUs used")
            | {"spot": f"restricted: NO_QUOTA: {SPOT_A100_80} 0 of 0 GPUs used"},
        ),
        ([quota("NVIDIA_L4_GPUS", 0.0)], {}),
        ([quota(f"COMMITTED_{A100_80}", 0.0)], {}),
        ([quota("GPUS_ALL_REGIONS", 0.0)], {}),
        ([], {}),
    ],
)
def test_a_quota_restricts_what_its_limit_is_below_and_is_told_else_however_much_is_used(
    stated: list[dict[str, object]], said: dict[str, str]
) -> None:
    """A limit of 0 for spot says nothing by itself: before a project asks for one, spot comes under the other."""
    assert told("a2-ultragpu-8g", ULTRA, quotas=stated)[0] == said


def test_a_spot_quota_of_none_that_may_not_count_is_noted() -> None:
    assert told("a2-ultragpu-8g", ULTRA, quotas=[quota(SPOT_A100_80, 0.0)])[1] == [
        ("spot_quota_unclear", f"{SPOT_A100_80} 0")
    ]


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ({}, ("quotas_not_stated", "r")),
        ({"quotas": None}, ("quotas_not_stated", "r")),
        ({"quotas": [quota(A100_80, 0.0)], "quotaStatusWarning": {"code": "UNREACHABLE"}}, ("quotas_not_stated", "r")),
        ({"quotasNotRead": "no right"}, ("quotas_not_read", "no right")),
        ({"quotas": [quota(A100_80, None)]}, ("quota_without_limit", A100_80)),
        ({"quotas": [quota(A100_80, -1.0)]}, ("quota_without_limit", A100_80)),
        ({"quotas": [{"limit": 0.0}]}, ("quota_without_limit", "")),
        ({"quotas": [quota(A100_80, 0.0), quota(A100_80, 8.0)]}, ("contradicting_quotas", A100_80)),
    ],
)
def test_a_quota_that_is_not_known_says_nothing_and_is_noted(body: dict[str, object], noted: tuple[str, str]) -> None:
    assert told("a2-ultragpu-8g", ULTRA, **body) == ({}, [noted])


@pytest.mark.parametrize("broken", [{"quotas": 7}, {"quotas": [7]}, {"quotas": [quota(A100_80, "many")]}])
def test_quotas_of_another_form_are_drift(broken: dict[str, object]) -> None:
    with pytest.raises(Drift):
        told("a2-ultragpu-8g", ULTRA, **broken)


def test_what_is_not_sold_on_demand_has_a_quota_as_spot_alone() -> None:
    h100 = {"accelerators": [{"guestAcceleratorType": "nvidia-h100-80gb", "guestAcceleratorCount": 1}]}
    stated = [quota("NVIDIA_H100_GPUS", 0.0), quota("PREEMPTIBLE_NVIDIA_H100_GPUS", 8.0)]
    assert told("a3-highgpu-1g", h100, quotas=stated)[0] == {
        "spot": "quota PREEMPTIBLE_NVIDIA_H100_GPUS: 0 of 8 GPUs used"
    }


def test_an_accelerator_that_only_the_table_names_has_its_quota() -> None:
    assert told("a2-ultragpu-8g", {"accelerators": [{"guestAcceleratorCount": 8}]}, quotas=[quota(A100_80, 8.0)])[
        0
    ] == {"on_demand": f"quota {A100_80}: 0 of 8 GPUs used"}


def test_every_quota_of_the_table_is_one_that_google_knows() -> None:
    from google.cloud.compute_v1.types import Quota

    known = {metric.name for metric in Quota.Metric}  # type: ignore[attr-defined]  # proto-plus makes it an IntEnum
    for accelerator, metric in metrics().items():
        assert f"PREEMPTIBLE_{metric}" in known, metric
        assert metric in known or accelerator == "nvidia-h100-80gb"
    gpus = {name.removeprefix("PREEMPTIBLE_") for name in known if name.startswith("PREEMPTIBLE_NVIDIA_")}
    assert {name for name in gpus if "_VWS_" not in name} == set(metrics().values()), "none is left out"


@pytest.mark.parametrize("name", sorted(known_types()))
def test_the_table_of_types_agrees_with_the_table_of_accelerators(name: str) -> None:
    known = known_types()[name]
    if name.startswith("n1-"):
        assert known.accelerator == ""
    else:
        assert resolve_offer(known.accelerator, provider="gcp"), f"{known.accelerator} is no accelerator"


@pytest.mark.parametrize("code", ["ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"])
def test_both_codes_of_a_stock_out_are_known(code: str) -> None:
    assert code_kind("gcp", code) is CodeKind.CAPACITY
    assert code_kind("gcp", "QUOTA_EXCEEDED") is CodeKind.QUOTA
