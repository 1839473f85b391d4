"""Field cases of Google Cloud, end to end: prices composed of SKUs, zones by their short names, what is not sold."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from werkzeug import Request, Response

from collectors.base import Config
from collectors.registry import provider
from scheduler.plan import Configured
from tests.support.endtoend import Gpufare, amount, gpufare
from tests.support.wires import answering, as_json
from tests.test_gcp_prices import A2, A2_SKUS, N1, N1_SKUS, SSD, T4, machine_type, sku

Json = dict[str, Any]
BASE = "https://www.googleapis.com/compute/v1/projects/p"
FEEDS = ("places", "machines", "prices")
N9_SKUS = [
    sku("N9 Instance Core running in Testland", "0.03"),
    sku("N9 Instance Ram running in Testland", "0.004"),
    sku("Nvidia Tesla T4 GPU running in Testland", "0.35"),
]
N9 = machine_type("n9-standard-8", 8, 32, "nvidia-tesla-t4")


@dataclass(slots=True)
class GcpSays:
    """Google's answers: machine types and accelerator types by zone, SKUs, and the zones that could not be asked."""

    zones: dict[str, list[Json]]
    skus: list[Json]
    cards: dict[str, list[Json]] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    quotas: list[Json] = field(default_factory=list)
    advice: Json = field(default_factory=dict)
    """What calendar mode says of the one machine that is asked about."""

    def __call__(self, request: Request) -> Response:
        """Answer one call."""
        what = request.path.rpartition("/")[2]
        if what == "calendarMode":
            (name,) = json.loads(request.get_data())["futureResourcesSpecs"]
            return as_json({"recommendations": [{"recommendationsPerSpec": {name: self.advice}}]})
        if what == "capacity":
            return as_json({"recommendations": []})
        if what == "skus":
            return as_json({"skus": self.skus, "nextPageToken": ""})
        if what == "regions":
            stated = {"status": "UP", "zones": [], "quotas": self.quotas}
            return as_json({"items": [{"name": one, **stated} for one in self._regions()]})
        if what == "zones":
            zones = [{"name": one, "status": "UP", "region": f"{BASE}/regions/{one[:-2]}"} for one in self.zones]
            return as_json({"items": zones})
        listed = {"machineTypes": self.zones, "acceleratorTypes": self.cards}[what]
        return as_json({"items": {f"zones/{zone}": self._scope(zone, what, listed) for zone in self.zones}})

    def _regions(self) -> list[str]:
        return sorted({zone[:-2] for zone in self.zones})

    def _scope(self, zone: str, what: str, listed: dict[str, list[Json]]) -> Json:
        if zone in self.unreachable:
            return {"warning": {"code": "UNREACHABLE", "message": "no"}}
        address = f"{BASE}/zones/{zone}"  # some answers give the address where others give the name
        return {what: [one | {"zone": address} for one in listed.get(zone, [])]}


@contextmanager
def gcp(says: GcpSays, *regions: str, scores: bool = False) -> Iterator[Configured]:
    """Google Cloud with these answers; a key alone, as is enough on loopback."""
    with answering(says) as url:
        endpoints = {"compute": url, "billing": url}
        timeout = timedelta(seconds=10)
        config = Config({"GOOGLE_API_KEY": "key"}, regions, endpoints=endpoints, scores=scores, timeout=timeout)
        yield Configured(provider("gcp", config), config)


@contextmanager
def synced(folder: Path, says: GcpSays) -> Iterator[Gpufare]:
    """gpufare after a pass over it."""
    with gcp(says) as google, gpufare(folder, google) as app:
        app.sync()
        yield app


def test_the_parts_of_a_machine_are_added_each_once(tmp_path: Path) -> None:
    """B011: 8 x 0.03 + 32 x 0.004 + 0.35."""
    with synced(tmp_path, GcpSays({"test-r1-a": [N9]}, N9_SKUS)) as app:
        assert app.native() == {("test-r1-a", "n9-standard-8", "on_demand"): "0.718"}


def test_a_composed_price_is_whole_wherever_it_is_read(tmp_path: Path) -> None:
    """B012: not 0.94, what the host alone costs."""
    a9 = machine_type("a9-highgpu-1g", 12, 85, "nvidia-tesla-a100")
    skus = [one | {"description": one["description"].replace("A2 ", "A9 ")} for one in A2_SKUS]
    with synced(tmp_path, GcpSays({"test-r1-b": [a9]}, skus)) as app:
        assert app.native() == {("test-r1-b", "a9-highgpu-1g", "on_demand"): "3.673385"}
        assert app.best("gpu=a100-40g") == ("test-r1-b", "a9-highgpu-1g", "3.6734")
        text = app.client.get("/offers", headers={"Accept": "text/csv"}).text
        columns, values = (line.split(",") for line in text.splitlines())
        assert "3.673385" in dict(zip(columns, values, strict=True)).values()


def test_a_quota_of_none_restricts_and_one_that_is_used_up_is_told_beside_what_is_listed(tmp_path: Path) -> None:
    says = GcpSays({"test-r1-a": [machine_type("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100")]}, A2_SKUS)
    says.quotas = [{"metric": "NVIDIA_A100_GPUS", "limit": 0.0, "usage": 0.0}]
    says.quotas += [{"metric": "PREEMPTIBLE_NVIDIA_A100_GPUS", "limit": 16.0, "usage": 4.0}]
    with synced(tmp_path, says) as app:
        answer = app.cheapest("gpu=a100-40g")
        assert (answer["best"], answer["alternatives"], answer["rejected"]["restricted"]) == (None, [], 1)
        stock = app.offer("purchase=on_demand")["stock"]
        said = "restricted: NO_QUOTA: NVIDIA_A100_GPUS 0 of 0 GPUs used"
        assert (stock["level"], stock["evidence"], stock["detail"]) == ("unknown", "listed", said)
        assert {one["purchase"] for one in app.offers()} == {"on_demand"}, "a quota of spot is no spot price"
        says.quotas[0] |= {"limit": 16.0, "usage": 16.0}
        app.later(hours=6)
        app.sync("machines")
        assert app.best("gpu=a100-40g") == ("test-r1-a", "a2-highgpu-1g", "3.6734")
        stock = app.offer("purchase=on_demand")["stock"]
        said = "quota NVIDIA_A100_GPUS: 16 of 16 GPUs used"
        assert (stock["evidence"], stock["detail"], stock["confirmed"]) == ("listed", said, False)


@pytest.mark.parametrize("with_ssd", [True, False])
def test_bundled_ssd_is_in_the_price_or_there_is_none(tmp_path: Path, with_ssd: bool) -> None:
    """B015: 0.718 with 750 x 0.08 / 730 of SSD."""
    disks = {"bundledLocalSsds": {"partitionCount": 2, "partitionSizeGb": 375}}
    says = GcpSays({"test-r1-a": [N9 | disks]}, [*N9_SKUS, *([SSD] if with_ssd else [])])
    with synced(tmp_path, says) as app:
        found = app.native("purchase=on_demand")["test-r1-a", "n9-standard-8", "on_demand"]
    assert found == ("0.800191781" if with_ssd else None)


def test_a_commitment_of_three_years_is_no_price_on_demand_or_spot(tmp_path: Path) -> None:
    """B026: 0.16 is the commitment, 0.35 the hour."""
    commitment = sku("Commitment v1: Nvidia T4 GPU running in Testland for 3 Years", "0.16", "Commit3Yr")
    says = GcpSays({"test-r1-a": [N1]}, [commitment, *N1_SKUS], {"test-r1-a": [T4]})
    with synced(tmp_path, says) as app:
        one = "n1-standard-8+nvidia-tesla-t4x1"
        assert app.native(f"instance_type={one.replace('+', '%2B')}") == {("test-r1-a", one, "on_demand"): "0.729998"}


def test_a_type_without_a_spot_price_has_no_spot_offer_and_stops_no_other(tmp_path: Path) -> None:
    """B033."""
    spot = [
        sku("Spot Preemptible N9 Instance Core running in Otherland", "0.01", "Preemptible", regions=["test-r2"]),
        sku("Spot Preemptible N9 Instance Ram running in Otherland", "0.001", "Preemptible", regions=["test-r2"]),
        sku("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs", "0.1", "Preemptible", regions=["test-r2"]),
    ]
    both = [one | {"serviceRegions": ["test-r1", "test-r2"]} for one in N9_SKUS]
    with synced(tmp_path, GcpSays({"test-r1-d": [N9], "test-r2-a": [N9]}, [*both, *spot])) as app:
        assert app.native() == {
            ("test-r1-d", "n9-standard-8", "on_demand"): "0.718",
            ("test-r2-a", "n9-standard-8", "on_demand"): "0.718",
            ("test-r2-a", "n9-standard-8", "spot"): "0.212",
        }


def test_a_zone_given_as_a_path_is_stored_by_its_short_name(tmp_path: Path) -> None:
    """B046."""
    g9 = machine_type("g9-standard-4", 4, 16, "nvidia-l4")
    says = GcpSays({"test-r3-a": [g9]}, N9_SKUS, {"test-r3-a": [{"name": "nvidia-l4", "maximumCardsPerInstance": 8}]})
    with synced(tmp_path, says) as app:
        assert {(one["zone"], one["region"]) for one in app.offers("zone=test-r3-a")} == {("test-r3-a", "test-r3")}
        everything = app.client.get("/offers?limit=1000").text + app.client.get("/regions").text
    assert "zones/" not in everything


def test_a_sku_of_several_regions_is_a_price_in_each(tmp_path: Path) -> None:
    """B047."""
    regions = ["test-r1", "test-r2", "test-r5"]
    says = GcpSays({f"{region}-a": [N9] for region in regions}, [one | {"serviceRegions": regions} for one in N9_SKUS])
    with synced(tmp_path, says) as app:
        assert app.native() == {(f"{region}-a", "n9-standard-8", "on_demand"): "0.718" for region in regions}


def test_a_zone_that_google_cannot_ask_is_named_and_loses_nothing(tmp_path: Path) -> None:
    """B049: one answer is about all zones; what it lacks makes it partial, and nothing of that is gone."""
    regions = ["test-r1", "test-r2", "test-r9"]
    says = GcpSays({f"{region}-a": [N9] for region in regions}, [one | {"serviceRegions": regions} for one in N9_SKUS])
    with gcp(says) as google, gpufare(tmp_path, google) as app:
        assert set(app.statuses(*FEEDS).values()) == {"ok"}
        whole = app.native()
        says.unreachable = {"test-r9-a"}
        app.later(days=1)
        assert app.statuses(*FEEDS) == {"gcp places": "ok", "gcp machines": "partial", "gcp prices": "partial"}
        assert app.native() == whole
        assert "test-r9-a: UNREACHABLE" in app.past("gcp", "machines")["error"]
        del says.zones["test-r9-a"]
        says.unreachable = set()
        app.later(days=1)
        app.sync()
        assert ("region_gone", "test-r9") in app.notes()


def test_a_machine_without_its_gpus_sku_is_listed_unpriced_and_never_the_answer(tmp_path: Path) -> None:
    """B079."""
    mega = machine_type("a3-megagpu-8g", 208, 1872, "nvidia-h100-mega-80gb", 8)
    with synced(tmp_path, GcpSays({"test-r7-a": [mega]}, N9_SKUS)) as app:
        assert app.native() == {("test-r7-a", "a3-megagpu-8g", "on_demand"): None}
        assert app.cheapest("gpu=h100&count=8")["best"] is None
        assert ("accelerator_not_in_zone", "test-r7-a nvidia-h100-mega-80gb") in app.notes()


def test_a_shape_that_is_sold_as_spot_alone_is_not_offered_on_demand(tmp_path: Path) -> None:
    """B083: the SKUs of both add up, but nobody can buy fewer than eight H100s on demand."""
    machine = machine_type("a3-highgpu-2g", 52, 468, "nvidia-h100-80gb", 2)
    skus = [SSD]
    for before, after, usage in (
        ("", "", "OnDemand"),
        ("Spot Preemptible ", " attached to Spot Preemptible VMs", "Preemptible"),
    ):
        skus += [
            sku(f"{before}A3 Instance Core running in Testland", "0.02", usage),
            sku(f"{before}A3 Instance Ram running in Testland", "0.002", usage),
            sku(f"Nvidia H100 80GB GPU{after} running in Testland", "9", usage),
        ]
    skus.append(sku("SSD backed Local Storage attached to Spot Preemptible VMs", "0.073", unit="GiBy.mo"))
    with synced(tmp_path, GcpSays({"test-r1-a": [machine]}, skus)) as app:
        found = {one["purchase"]: amount(one) for one in app.offers("gpu=h100")}
    assert found == {"spot": "20.126", "capacity_block": None}


def test_a_free_first_tier_is_not_the_price(tmp_path: Path) -> None:
    """B099: 0 for the first hour, 0.35 after; units as a number, as "0.0", or left out."""
    free: Json = {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": "0.0", "nanos": 0}}
    paid: Json = {"startUsageAmount": 1, "unitPrice": {"currencyCode": "USD", "nanos": 350_000_000}}
    gpu = sku("Nvidia T4 GPU running in Testland", "0", tiers=[free, paid])
    with synced(tmp_path, GcpSays({"test-r1-a": [N9]}, [*N9_SKUS[:2], gpu])) as app:
        assert app.native() == {("test-r1-a", "n9-standard-8", "on_demand"): "0.718"}


def test_an_a100_machine_is_core_memory_and_gpu_or_has_no_price(tmp_path: Path) -> None:
    """T3: 12 x 0.0316 + 85 x 0.0042 + 2.93; not 0.7362 without the GPU."""
    skus = [
        sku("A2 Instance Core running in Testland", "0.0316"),
        sku("A2 Instance Ram running in Testland", "0.0042"),
        sku("Nvidia Tesla A100 GPU running in Testland", "2.93"),
    ]
    says = GcpSays({"test-r1-a": [A2]}, skus)
    with synced(tmp_path / "whole", says) as app:
        assert app.native() == {("test-r1-a", "a2-highgpu-1g", "on_demand"): "3.6662"}
    says.skus = skus[:2]
    with synced(tmp_path / "lacking", says) as app:
        assert app.native() == {("test-r1-a", "a2-highgpu-1g", "on_demand"): None}
        assert app.cheapest("gpu=a100")["best"] is None


B200 = machine_type("a4-highgpu-8g", 224, 3968, "nvidia-b200", 8)
WINDOW = {"startTime": "2026-12-20T00:00:00Z", "endTime": "2026-12-27T00:00:00Z"}


@pytest.mark.parametrize("status", ["NO_CAPACITY", "CONDITIONS_NOT_MET"])
def test_the_answer_in_calendar_mode_is_the_zone_with_a_window(tmp_path: Path, status: str) -> None:
    """Though the price is of the region, and the other zone comes first by name: 8 x 8.06 in both."""
    zones = {f"test-r1-{letter}": [B200] for letter in "ab"}
    advice = {"location": "zones/test-r1-b", **WINDOW, "otherLocations": {"zones/test-r1-a": {"status": status}}}
    says = GcpSays(zones, [sku("DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Testland", "8.06")], advice=advice)
    with gcp(says, "test-r1", scores=True) as google, gpufare(tmp_path, google) as app:
        app.sync(*FEEDS)
        assert app.best("gpu=b200&count=8&purchase=capacity_block") == ("test-r1-a", "a4-highgpu-8g", "64.48")
        app.sync("scores")
        answer = app.cheapest("gpu=b200&count=8&purchase=capacity_block")
        assert (answer["verdict"], answer["best"]["zone"], answer["alternatives"]) == ("unconfirmed", "test-r1-b", [])
        assert "2026-12-20" in answer["best"]["stock"]["detail"]
        levels = app.levels("gpu=b200&purchase=capacity_block")
        assert {zone: level for (zone, _, _), level in levels.items()} == {"test-r1-a": "out", "test-r1-b": "unknown"}


def test_no_zone_is_the_answer_where_none_has_a_window(tmp_path: Path) -> None:
    advice = {"otherLocations": {f"zones/test-r1-{letter}": {"status": "NO_CAPACITY"} for letter in "ab"}}
    zones = {f"test-r1-{letter}": [B200] for letter in "ab"}
    says = GcpSays(zones, [sku("DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Testland", "8.06")], advice=advice)
    with gcp(says, "test-r1", scores=True) as google, gpufare(tmp_path, google) as app:
        app.sync(*FEEDS, "scores")
        answer = app.cheapest("gpu=b200&count=8&purchase=capacity_block")
        assert (answer["verdict"], answer["best"]) == ("out_of_stock", None)


def test_a_region_of_the_settings_that_google_does_not_list_makes_nothing_partial(tmp_path: Path) -> None:
    says = GcpSays({"test-r1-a": [N9]}, N9_SKUS)
    with gcp(says, "test-r1", "mars-north1") as google, gpufare(tmp_path, google) as app:
        assert set(app.statuses(*FEEDS).values()) == {"ok"}
        assert ("region_not_listed", "mars-north1") in app.notes()
        assert app.native() == {("test-r1-a", "n9-standard-8", "on_demand"): "0.718"}
