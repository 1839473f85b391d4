"""What launch attempts teach: which offer, for how long, and what teaches nothing."""

import csv
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from catalog.launch_codes import CodeKind, code_kind
from catalog.words import Purchase
from tests.support.filled import Filled, Server, machine, price, served, sold, stock

pytestmark = pytest.mark.both_databases

REPORT = {
    "provider": "aws",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "instance_type": "p5.4xlarge",
    "purchase": "on_demand",
    "outcome": "error",
    "code": "InsufficientInstanceCapacity",
}
BOTH = frozenset({Purchase.ON_DEMAND, Purchase.SPOT})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """AWS with one machine in two zones, on demand and spot; RunPod with one sold by region."""
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", "us-east-1"))
    filled.plan("runpod", ("stock", "US"))
    facts: list[Any] = [machine("us-east-1", "p5.4xlarge", purchases=BOTH)]
    for zone, zone_id, amount in (("us-east-1a", "use1-az6", "1.00"), ("us-east-1b", "use1-az4", "2.00")):
        where: dict[str, Any] = {"zone": zone, "zone_id": zone_id}
        facts.append(price("us-east-1", "p5.4xlarge", amount, **where))
        facts.append(price("us-east-1", "p5.4xlarge", "0.50", purchase=Purchase.SPOT, **where))
        facts.append(stock("us-east-1", "p5.4xlarge", purchases=BOTH, **where))
    filled.poll("aws", "stock", "us-east-1", facts)
    filled.poll("runpod", "stock", "US", sold("US", "1x NVIDIA A100 secure", "1", gpu="a100-sxm4-80g"))
    with served(filled) as server:
        yield server
    filled.engine.dispose()


def levels(server: Server) -> dict[tuple[str | None, str], tuple[str, str]]:
    items = server.get("/offers?provider=aws")["items"]
    return {
        (offer["zone"], offer["purchase"]): (offer["stock"]["level"], offer["stock"]["evidence"]) for offer in items
    }


@pytest.mark.parametrize("zone", ["us-east-1a", "use1-az6", "USE1-AZ6"])
def test_a_capacity_error_makes_exactly_that_offer_out(server: Server, zone: str) -> None:
    taken = server.post("/launches", REPORT | {"zone": zone}, 201)
    assert list(taken) == ["id", "effect", "reason"]
    assert taken["effect"] == "out until 2026-11-30T08:30:00Z"
    known = levels(server)
    assert known.pop(("us-east-1a", "on_demand")) == ("out", "observed")
    assert set(known.values()) == {("in_stock", "reported")}
    assert len(known) == 3
    (kept,) = server.get("/launches")["items"]
    assert (kept["id"], kept["zone"], kept["effect"]) == (taken["id"], "use1-az6", taken["effect"])


def test_another_machine_of_the_same_zone_and_purchase_is_left_alone(server: Server) -> None:
    where: dict[str, Any] = {"zone": "us-east-1a", "zone_id": "use1-az6"}
    facts: list[Any] = []
    for name in ("p5.4xlarge", "p5.48xlarge"):
        facts += [machine("us-east-1", name), price("us-east-1", name, "1", **where), stock("us-east-1", name, **where)]
    server.filled.later(minutes=1)
    server.filled.poll("aws", "stock", "us-east-1", facts)
    server.get("/offers")
    server.post("/launches", REPORT, 201)
    items = server.get("/offers?provider=aws&purchase=on_demand&zone=us-east-1a")["items"]
    told = {one["instance_type"]: (one["stock"]["level"], one["stock"]["evidence"]) for one in items}
    assert told == {"p5.4xlarge": ("out", "observed"), "p5.48xlarge": ("in_stock", "reported")}


def test_what_a_launch_taught_survives_a_restart_and_ends_at_its_time(server: Server) -> None:
    server.post("/launches", REPORT, 201)
    server.filled.later(minutes=29)
    with served(server.filled) as another:
        assert levels(another)["us-east-1a", "on_demand"] == ("out", "observed")
        (kept,) = another.get("/launches")["items"]
        assert (kept["code"], kept["effect"]) == ("InsufficientInstanceCapacity", "out until 2026-11-30T08:30:00Z")
        server.filled.later(minutes=2)
        assert levels(another)["us-east-1a", "on_demand"] == ("in_stock", "reported")


def test_an_account_beside_the_first_has_its_providers_codes_and_offers_of_its_own(tmp_path: Path) -> None:
    filled, names = Filled(tmp_path), ("tencent", "tencent_intl")
    for name in names:
        filled.plan(name, ("stock", "ap-singapore"))
        filled.poll(name, "stock", "ap-singapore", sold("ap-singapore", "GN7.LARGE20", "1", zone="ap-singapore-3"))
    report = REPORT | {"provider": "tencent_intl", "region": "ap-singapore", "zone": "ap-singapore-3"}
    report |= {"instance_type": "GN7.LARGE20", "code": "ResourcesSoldOut.SpecifiedInstanceType"}
    with served(filled, providers=frozenset(names)) as server:
        server.get("/offers")
        assert server.post("/launches", report, 201)["effect"].startswith("out until ")
        told = {one["provider"]: one["stock"]["level"] for one in server.get("/offers")["items"]}
        assert told == {"tencent": "in_stock", "tencent_intl": "out"}
        quota = server.post("/launches", report | {"code": "LimitExceeded.SpotQuota"}, 201)
        assert (quota["effect"], "quota" in quota["reason"]) == ("none", True)
    filled.engine.dispose()


def test_it_holds_for_its_time_whatever_is_asked_meanwhile_and_a_new_one_holds_anew(server: Server) -> None:
    best: dict[int, str] = {}
    for minute in range(72):
        if minute in (0, 40):
            server.post("/launches", REPORT, 201)
        facts: list[Any] = [machine("us-east-1", "p5.4xlarge")]
        for zone, zone_id, amount in (("us-east-1a", "use1-az6", "1.00"), ("us-east-1b", "use1-az4", "2.00")):
            facts.append(price("us-east-1", "p5.4xlarge", amount, zone=zone, zone_id=zone_id))
            facts.append(stock("us-east-1", "p5.4xlarge", zone=zone, zone_id=zone_id))
        server.filled.poll("aws", "stock", "us-east-1", facts)
        best[minute] = server.get("/cheapest?gpu=h100")["best"]["zone"]
        server.filled.later(minutes=1)
    suppressed = [minute for minute, zone in best.items() if zone == "us-east-1b"]
    assert suppressed == [*range(31), *range(40, 71)]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("VcpuLimitExceeded", "quota"),
        ("QuotaExceeded", "quota"),
        ("UnauthorizedOperation", "rights"),
        ("Unsupported", "request itself"),
        ("SomethingNew", "not known here"),
    ],
)
def test_other_errors_change_nothing_and_are_kept(server: Server, code: str, said: str) -> None:
    before = levels(server)
    taken = server.post("/launches", REPORT | {"code": code}, 201)
    assert taken["effect"] == "none"
    assert said in taken["reason"]
    assert levels(server) == before
    (kept,) = server.get("/launches")["items"]
    assert (kept["code"], kept["effect"]) == (code, "none")


def test_a_launch_that_went_well_confirms_the_offer(server: Server) -> None:
    server.filled.later(hours=1)
    ok = {name: value for name, value in REPORT.items() if name != "code"} | {"outcome": "ok"}
    taken = server.post("/launches", ok, 201)
    assert taken["effect"] == "in_stock until 2026-11-30T09:30:00Z"
    assert levels(server)["us-east-1a", "on_demand"] == ("in_stock", "observed")


def test_a_machine_sold_by_region_needs_no_zone(server: Server) -> None:
    message = "There are no longer any instances available with the requested specifications. Please refresh."
    report = {"provider": "runpod", "region": "US", "instance_type": "1x NVIDIA A100 secure", "code": message}
    taken = server.post("/launches", report | {"purchase": "on_demand", "outcome": "error"}, 201)
    assert taken["effect"].startswith("out until ")
    assert server.get("/cheapest?gpu=a100-80g")["verdict"] == "out_of_stock"


@pytest.mark.parametrize(
    ("change", "parameter", "near"),
    [
        ({"provider": "awss"}, "provider", ["aws"]),
        ({"region": "us-east-2"}, "region", ["us-east-1"]),
        ({"instance_type": "p5.4xlarg"}, "instance_type", ["p5.4xlarge"]),
        ({"zone": "us-east-1z"}, "zone", None),
        ({"zone": None}, "zone", ["us-east-1a", "us-east-1b"]),
        ({"purchase": "on-demand"}, "purchase", ["on_demand"]),
        ({"purchase": "month"}, "purchase", []),
        ({"outcome": "maybe"}, "outcome", []),
        ({"code": None}, "code", []),
        ({"code": "x" * 301}, "code", []),
        ({"code": "Insufficient\x00Capacity"}, "code", []),
        ({"outcome": "ok"}, "code", []),
        ({"zon": "us-east-1a"}, "zon", ["zone"]),
    ],
)
def test_a_report_of_nothing_known_is_refused(
    server: Server, change: dict[str, object], parameter: str, near: list[str] | None
) -> None:
    problem = server.post("/launches", REPORT | change, 422)
    assert problem["parameter"] == parameter
    assert problem["did_you_mean"] == near or near is None
    assert server.get("/launches")["items"] == []


def test_a_zone_where_the_machine_is_sold_by_region_is_refused(server: Server) -> None:
    report = REPORT | {"provider": "runpod", "region": "US", "instance_type": "1x NVIDIA A100 secure", "zone": "US-1"}
    assert server.post("/launches", report, 422)["parameter"] == "zone"


def test_a_missing_field_is_refused_by_name(server: Server) -> None:
    assert server.post("/launches", {"provider": "aws"}, 422)["parameter"] == "region"


@pytest.mark.parametrize(
    ("provider", "code", "kind"),
    [
        ("gcp", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", CodeKind.CAPACITY),
        ("gcp", "QUOTA_EXCEEDED", CodeKind.QUOTA),
        ("azure", "ZonalAllocationFailed", CodeKind.CAPACITY),
        ("tencent", "ResourcesSoldOut.SpecifiedInstanceType", CodeKind.CAPACITY),
        ("tencent", "LimitExceeded.SpotQuota", CodeKind.QUOTA),
        ("tencent", "UnauthorizedOperation.MFAExpired", CodeKind.RIGHTS),
        ("alibaba", "OperationDenied.NoStock", CodeKind.CAPACITY),
        ("alibaba", "QuotaExceed.ElasticQuota", CodeKind.QUOTA),
        ("aws", "InsufficientReservedInstanceCapacity", CodeKind.CONFIG),
        ("aws", " insufficientinstancecapacity ", CodeKind.CAPACITY),
        ("lambda", "InsufficientCapacity", CodeKind.CAPACITY),
        ("tencent_intl", "ResourcesSoldOut.SpecifiedInstanceType", CodeKind.CAPACITY),
        ("aws_cn", "InsufficientInstanceCapacity", CodeKind.CAPACITY),
        *((f"aws{at}", code, CodeKind.CONFIG) for at in ("", "_cn") for code in ("Unsupported", "DryRunOperation")),
        ("aws", "MaxSpotInstanceCountExceeded", CodeKind.QUOTA),
        ("aws", "RequestLimitExceeded", CodeKind.QUOTA),
        ("gcp", "REGION_RESOURCE_POOL_EXHAUSTED", CodeKind.CAPACITY),
        ("gcp", "GPU_STOCKOUT", None),
        ("gcp", "rateLimitExceeded", CodeKind.QUOTA),
        ("gcp", "accessNotConfigured", CodeKind.RIGHTS),
        ("azure", "SkuNotAvailable", CodeKind.CAPACITY),
        ("azure", "OperationNotAllowed", CodeKind.QUOTA),
        ("azure", "QuotaExceeded", CodeKind.QUOTA),
        ("tencent", "RequestLimitExceeded.UinLimitExceeded", CodeKind.QUOTA),
        ("tencent", "AuthFailure.SignatureExpire", CodeKind.RIGHTS),
        ("alibaba", "InvalidInstanceType.ValueUnauthorized", CodeKind.RIGHTS),
        ("alibaba", "Throttling.User", CodeKind.QUOTA),
        ("alibaba", "InstanceType.Offline", CodeKind.CONFIG),
        ("ucloud", "153", CodeKind.QUOTA),
        ("ucloud", "8320", CodeKind.CONFIG),
        ("runpod", "create pod: There are no instances currently available", CodeKind.CAPACITY),
        ("runpod", "There are no instances currently available", None),
        ("runpod", "There are no longer any instances available with the requested specifications.", CodeKind.CAPACITY),
        (
            "runpod",
            "create pod: This machine does not have the resources to deploy your pod. Please try a different machine",
            CodeKind.CAPACITY,
        ),
        (
            "runpod",
            "There are no longer any instances available with enough disk space.",
            CodeKind.CONFIG,
        ),
        ("aws", "OperationDenied.NoStock", None),
        ("aws", "*", None),
        ("aws", "", None),
    ],
)
def test_a_code_means_what_its_provider_means_by_it(provider: str, code: str, kind: CodeKind | None) -> None:
    assert code_kind(provider, code) is kind


def test_every_code_of_the_table_stands_once_and_names_its_source() -> None:
    lines = files("catalog").joinpath("launch_codes.csv").read_text("utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert len(rows) > 40
    assert len({(row["provider"], row["code"].casefold()) for row in rows}) == len(rows)
    assert all(CodeKind(row["kind"]) for row in rows)
    followed = re.compile(r"https://\S+|(^|[ ,])[\w.-]+/[\w.-]+: \S*[./]\S+|^gpufare's own word$")
    assert [row for row in rows if not followed.search(row["source"])] == []
