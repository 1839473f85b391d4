"""Field cases of AWS's regions, zones and machines, end to end: EC2 by its own protocol."""

from pathlib import Path

import pytest

from tests.support.ec2 import Answer, Call, refusal
from tests.support.endtoend import amount, gpufare
from tests.support.wires import AwsSays, aws, csv_row, ec2_type, spot_row

G4DN = "g4dn.xlarge"


def test_a_type_of_one_region_alone_is_found_there(tmp_path: Path) -> None:
    """B034."""
    name = "g6.48xlarge"
    l4 = ec2_type(name, "L4", 1, 22888, VCpuInfo={"DefaultVCpus": 96}, MemoryInfo={"SizeInMiB": 393216})
    says = AwsSays(
        {"us-east-1": [], "us-east-2": [csv_row(name, "2.8800000000", "us-east-2")]},
        {"us-east-1": [], "us-east-2": [l4]},
        {"us-east-1": ["us-east-1a"], "us-east-2": ["us-east-2a"]},
    )
    with aws(says, "us-east-1", "us-east-2") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices")
        (found,) = app.offers("gpu=l4&purchase=on_demand")
        assert (found["region"], amount(found), found["vcpus"], found["gpu"]) == ("us-east-2", "2.88", 96, "l4")


def test_accelerators_under_another_field_are_no_nvidia_gpus(tmp_path: Path) -> None:
    """B035: InfX is reported by its name, and never returned where NVIDIA is asked for."""
    neuron = {"NeuronDevices": [{"Count": 1, "Name": "InfX"}]}
    says = AwsSays(
        types={
            "us-east-1": [
                ec2_type("inf9.xlarge", "", NeuronInfo=neuron, GpuInfo=None),
                ec2_type("g9.xlarge", "T4", 1, 16384),
            ]
        }
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines")
        found = {(one["instance_type"], one["gpu"], one["gpu_name"]) for one in app.offers()}
        assert found == {("g9.xlarge", "t4", "T4"), ("inf9.xlarge", None, "InfX")}
        assert {one["instance_type"] for one in app.offers("vendor=nvidia")} == {"g9.xlarge"}
        assert app.notes() == {("unknown_gpu", "InfX")}


def opt_in(call: Call) -> Answer | None:
    """us-east-1 answers, ap-east-1 refuses the account; the home region says why."""
    if call.region == "ap-east-1":
        return refusal("AuthFailure", 401)
    if call.action == "DescribeRegions":
        enabled = {"RegionName": "us-east-1", "OptInStatus": "opt-in-not-required"}
        other = {"RegionName": "ap-east-1", "OptInStatus": "not-opted-in"}
        asked = call.values("RegionName")
        return {"Regions": [one for one in (enabled, other) if not asked or one["RegionName"] in asked]}
    return None


def test_a_region_that_is_not_enabled_is_not_asked_among_all(tmp_path: Path) -> None:
    """B061, regions=all."""
    says = AwsSays({"us-east-1": []}, {"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]}, ec2=opt_in)
    with aws(says) as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("machines") == {"aws places": "ok", "aws machines us-east-1": "ok"}
        assert says.server is not None
        assert "ap-east-1" not in {call.region for call in says.server.calls}
        notes = app.get("/notes")["items"]
        assert [(one["kind"], one["value"]) for one in notes] == [("region_not_enabled", "ap-east-1")]


def test_a_region_that_is_not_enabled_says_so_where_it_is_named_and_stops_no_other(tmp_path: Path) -> None:
    """B061, regions=us-east-1,ap-east-1."""
    says = AwsSays({"us-east-1": []}, {"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]}, ec2=opt_in)
    with aws(says, "us-east-1", "ap-east-1") as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("machines") == {"aws machines us-east-1": "ok", "aws machines ap-east-1": "off"}
        assert "ap-east-1 is not enabled" in app.past("aws", "machines", "ap-east-1")["error"]
        assert app.feed("aws", "machines")["status"] == "ok"
        assert {one["region"] for one in app.offers()} == {"us-east-1"}


def test_types_without_their_offerings_are_no_offers(tmp_path: Path) -> None:
    """B066: nothing is stored as offered in a zone, and nothing at all of that half."""

    def answer(call: Call) -> Answer | None:
        return refusal("InternalError", 500) if call.action == "DescribeInstanceTypeOfferings" else None

    says = AwsSays(types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]}, ec2=answer)
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("machines") == {"aws machines us-east-1": "failed"}
        assert app.offers() == []
        assert "DescribeInstanceTypeOfferings" in app.past("aws", "machines", "us-east-1")["error"]


def test_every_call_of_ec2_is_signed_in_its_own_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B137: an endpoint of ours and another default region change nothing of the scope."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    says = AwsSays(types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "spot")
        assert says.server is not None
        assert {(call.region, call.service) for call in says.server.calls} == {("us-east-1", "ec2")}


def test_a_zone_is_known_by_its_id_and_a_failed_launch_told_by_name_counts_there(tmp_path: Path) -> None:
    """B048, T11: name and id are kept; the report about us-east-1a is kept under use1-az1."""
    says = AwsSays(
        {"us-east-1": [csv_row(G4DN, "0.50", GPU="1")]},
        {"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]},
        spot={"us-east-1": [spot_row(G4DN, "us-east-1a", "0.20"), spot_row(G4DN, "us-east-1b", "0.30")]},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices", "spot")
        where = {(one["zone"], one["zone_id"]) for one in app.offers()}
        assert where == {("us-east-1a", "use1-az1"), ("us-east-1b", "use1-az2")}
        report = {"provider": "aws", "region": "us-east-1", "zone": "us-east-1a", "instance_type": G4DN}
        failed = {"purchase": "spot", "outcome": "error", "code": "InsufficientInstanceCapacity"}
        app.post("/launches", report | failed)
        assert app.get("/launches")["items"][0]["zone"] == "use1-az1"
        out = {key for key, level in app.levels().items() if level == "out"}
        assert out == {("us-east-1a", G4DN, "spot")}
        assert app.best("gpu=t4&spot=true") == ("us-east-1b", G4DN, "0.3")
