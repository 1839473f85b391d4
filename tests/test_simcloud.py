"""simcloud against the providers' own SDKs and a plain HTTP client: nothing of ours stands between."""

import csv
import hashlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import httpx2
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError
from tencentcloud.common import credential
from tencentcloud.common.common_client import CommonClient
from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException
from tencentcloud.common.profile.client_profile import ClientProfile
from tencentcloud.common.profile.http_profile import HttpProfile

import simcloud
from simcloud import Sim, aws, control, runpod, tencent
from simcloud.faults import KINDS
from simcloud.tc3 import canonical_request

ROOT = Path(__file__).parent.parent
DISCOVERY = "query { countryCodes dataCenters { id name listed } gpuTypes { id displayName maxGpuCount } }"
GPU_TYPES = """query Q($low: GpuLowestPriceInput, $which: GpuTypeFilter) { gpuTypes(input: $which) {
  id securePrice communityPrice lowestPrice(input: $low) { stockStatus maxUnreservedGpuCount availableGpuCounts } } }"""


@pytest.fixture
def sim() -> Iterator[Sim]:
    with simcloud.start("demo") as running:
        yield running


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=5) as client:
        yield client


def tencent_profile(sim: Sim, timeout_s: int = 5) -> ClientProfile:
    endpoint = sim.tencent.url.removeprefix("http://")
    return ClientProfile(httpProfile=HttpProfile(protocol="http", endpoint=endpoint, reqTimeout=timeout_s))


def cvm(sim: Sim, region: str = "ap-guangzhou", key: tuple[str, str] = ("simcloud", "simcloud"), **profile: int) -> Any:
    profiled = tencent_profile(sim, **profile)
    return CommonClient("cvm", "2017-03-12", credential.Credential(*key), region, profiled)


def quotas(sim: Sim, region: str = "ap-guangzhou", **filters: str) -> list[dict[str, Any]]:
    asked = [{"Name": name.replace("_", "-"), "Values": [value]} for name, value in filters.items()]
    answer = cvm(sim, region).call_json("DescribeZoneInstanceConfigInfos", {"Filters": asked})
    rows: list[dict[str, Any]] = answer["Response"]["InstanceTypeQuotaSet"]
    return rows


def v100_status(sim: Sim, region: str, charge: str = "POSTPAID_BY_HOUR") -> set[str]:
    rows = quotas(sim, region, instance_family="GN10Xp", instance_charge_type=charge)
    return {row["Status"] for row in rows}


def v100_price(sim: Sim, region: str) -> float:
    (row, *_) = quotas(sim, region, instance_type="GN10Xp.2XLARGE40", instance_charge_type="POSTPAID_BY_HOUR")
    price: float = row["Price"]["UnitPriceDiscount"]
    return price


@pytest.fixture
def ec2(sim: Sim) -> Iterator[Any]:
    client = ec2_client(sim)
    yield client
    client.close()


def ec2_client(sim: Sim, region: str = "us-east-1", key_id: str = "simcloud") -> Any:
    config = Config(connect_timeout=5, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
    return boto3.client(
        "ec2",
        region_name=region,
        endpoint_url=sim.aws.ec2_url,
        aws_access_key_id=key_id,
        aws_secret_access_key="simcloud",
        config=config,
    )


def gpu_stock(http: httpx2.Client, sim: Sim, gpu: str, **wanted: Any) -> dict[str, Any]:
    variables = {"which": {"id": gpu}, "low": wanted}
    answer = http.post(f"{sim.runpod.url}/graphql", json={"query": GPU_TYPES, "variables": variables})
    found: dict[str, Any] = answer.json()["data"]["gpuTypes"][0]["lowestPrice"]
    return found


# --- Tencent ---


def test_tencents_published_canonical_request_is_reproduced() -> None:
    """The example of https://www.tencentcloud.com/document/api/213/31575 and the hash it prints."""
    body = rb'{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}'
    headers = {
        "content-type": "application/json; charset=utf-8",
        "host": "cvm.tencentcloudapi.com",
        "x-tc-action": "DescribeInstances",
    }
    text = canonical_request(("content-type", "host", "x-tc-action"), headers, body)
    published = "7019a55be8395899b900fb5564e4200d984910f34794a27cb3fb7d10ff6a1e84"
    assert hashlib.sha256(text.encode()).hexdigest() == published


def test_the_cvm_sdk_reads_rows_of_the_charge_type_it_asked_for(sim: Sim) -> None:
    rows = quotas(sim, instance_charge_type="SPOTPAID", instance_family="GN10Xp", zone="ap-guangzhou-3")
    assert {(row["Zone"], row["InstanceChargeType"], row["InstanceFamily"]) for row in rows} == {
        ("ap-guangzhou-3", "SPOTPAID", "GN10Xp")
    }
    (smallest,) = (row for row in rows if row["InstanceType"] == "GN10Xp.2XLARGE40")
    assert (smallest["Price"]["UnitPrice"], smallest["Price"]["UnitPriceDiscount"]) == (11.88, 2.376)
    assert (smallest["Gpu"], smallest["GpuCount"], smallest["Remark"]) == (1, 1.0, "1 颗 NVIDIA V100")


def test_prepaid_rows_carry_a_months_total_and_no_hourly_price(sim: Sim) -> None:
    (row, *_) = quotas(sim, instance_charge_type="PREPAID", instance_type="GN10Xp.2XLARGE40")
    price = row["Price"]
    assert (price["OriginalPrice"], price["DiscountPrice"], price["UnitPriceDiscount"]) == (4586.0, 4127.4, 0.0)


def test_without_a_charge_type_all_three_come_mixed(sim: Sim) -> None:
    charges = {row["InstanceChargeType"] for row in quotas(sim, "ap-nanjing", instance_family="GN7")}
    assert charges == {"POSTPAID_BY_HOUR", "SPOTPAID", "PREPAID"}


def test_a_virtual_gpu_is_one_device_and_a_quarter_card(sim: Sim) -> None:
    (row, *_) = quotas(sim, instance_type="GN7.LARGE20")
    assert (row["Gpu"], row["GpuCount"], row["Remark"]) == (1, 0.25, "")


def test_the_region_service_is_served_on_the_same_port(sim: Sim) -> None:
    client = CommonClient(
        "region", "2022-06-27", credential.Credential("simcloud", "simcloud"), "", tencent_profile(sim)
    )
    answer = client.call_json("DescribeRegions", {"Product": "cvm"})["Response"]
    assert {"ap-guangzhou", "ap-nanjing", "ap-chongqing"} <= {region["Region"] for region in answer["RegionSet"]}
    assert answer["TotalCount"] == len(answer["RegionSet"])


def test_zones_and_machine_configurations_are_described(sim: Sim) -> None:
    client = cvm(sim, "ap-chongqing")
    zones = client.call_json("DescribeZones", {})["Response"]["ZoneSet"]
    assert [zone["Zone"] for zone in zones] == ["ap-chongqing-1"]
    asked = {"Filters": [{"Name": "instance-family", "Values": ["GN7"]}]}
    configs = client.call_json("DescribeInstanceTypeConfigs", asked)["Response"]["InstanceTypeConfigSet"]
    by_type = {config["InstanceType"]: config for config in configs}
    assert (by_type["GN7.LARGE20"]["GpuType"], by_type["GN7.LARGE20"]["GpuMemory"]) == ("NVIDIA T4", 4.0)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (("simcloud", "wrong"), "AuthFailure.SignatureFailure"),
        (("nobody", "simcloud"), "AuthFailure.SecretIdNotFound"),
    ],
)
def test_a_wrong_credential_is_refused(sim: Sim, key: tuple[str, str], code: str) -> None:
    with pytest.raises(TencentCloudSDKException) as refusal:
        cvm(sim, key=key).call_json("DescribeZones", {})
    assert refusal.value.get_code() == code


def test_with_any_credentials_a_strange_id_must_still_sign_with_the_key(sim: Sim) -> None:
    sim.options("tencent", any_credentials=True)
    assert cvm(sim, key=("anybody", "simcloud")).call_json("DescribeZones", {})["Response"]["TotalCount"] == 4
    with pytest.raises(TencentCloudSDKException, match="could not be validated"):
        cvm(sim, key=("anybody", "wrong")).call_json("DescribeZones", {})


def test_a_clock_six_minutes_off_is_refused(sim: Sim) -> None:
    sim.fault("tencent", "skew", skew_s=360)
    with pytest.raises(TencentCloudSDKException) as refusal:
        cvm(sim).call_json("DescribeZones", {})
    assert refusal.value.get_code() == "AuthFailure.SignatureExpire"


def test_a_signature_for_another_service_is_refused(sim: Sim) -> None:
    client = CommonClient("vpc", "2017-03-12", credential.Credential("simcloud", "simcloud"), "", tencent_profile(sim))
    with pytest.raises(TencentCloudSDKException, match="credential scope is for `vpc`"):
        client.call_json("DescribeZones", {})


@pytest.mark.parametrize(
    ("region", "code"), [("ap-xian-ec", "UnsupportedRegion"), ("ap-atlantis", "InvalidRegion.NotFound")]
)
def test_a_region_without_gpus_is_an_error_not_an_empty_list(sim: Sim, region: str, code: str) -> None:
    with pytest.raises(TencentCloudSDKException) as refusal:
        quotas(sim, region)
    assert refusal.value.get_code() == code


def test_an_unknown_filter_is_refused(sim: Sim) -> None:
    with pytest.raises(TencentCloudSDKException) as refusal:
        quotas(sim, gpu="V100")
    assert refusal.value.get_code() == "InvalidFilter"


def ask_often(client: Any) -> None:
    for _ in range(50):
        client.call_json("DescribeZones", {})


def test_the_limiter_refuses_what_comes_too_fast(sim: Sim) -> None:
    sim.options("tencent", rate_limit_per_s=1)
    with pytest.raises(TencentCloudSDKException) as refusal:
        ask_often(cvm(sim))
    assert refusal.value.get_code() == "RequestLimitExceeded"


def test_with_a_charset_the_sdk_overlooks_the_error(sim: Sim) -> None:
    sim.options("tencent", content_type="application/json; charset=utf-8")
    answer = cvm(sim, key=("simcloud", "wrong")).call_json("DescribeZones", {})
    assert answer["Response"]["Error"]["Code"] == "AuthFailure.SignatureFailure"


# --- The clock and the demo's story ---


def test_v100s_in_guangzhou_sell_out_after_a_minute_and_are_back_after_three(sim: Sim) -> None:
    assert v100_status(sim, "ap-guangzhou") == {"SELL"}
    sim.advance(60)
    assert v100_status(sim, "ap-guangzhou") == {"SOLD_OUT"}
    assert v100_status(sim, "ap-guangzhou", charge="SPOTPAID") == {"SELL"}
    assert [v100_status(sim, region) for region in ("ap-nanjing", "ap-chongqing")] == [{"SELL"}, {"SELL"}]
    sim.advance(120)
    assert v100_status(sim, "ap-guangzhou") == {"SELL"}


def test_nanjing_is_dearer_than_guangzhou_and_chongqing_cheaper_than_nanjing(sim: Sim) -> None:
    assert v100_price(sim, "ap-nanjing") > v100_price(sim, "ap-guangzhou")
    assert v100_price(sim, "ap-chongqing") < v100_price(sim, "ap-nanjing")


def test_the_story_starts_again_after_its_loop(sim: Sim) -> None:
    sim.advance(60 + 2 * 300)
    assert v100_status(sim, "ap-guangzhou") == {"SOLD_OUT"}


def test_a_change_made_by_hand_outlives_the_loop(sim: Sim) -> None:
    assert sim.set("tencent", {"type": "GN10Xp.2XLARGE40", "region": "ap-nanjing"}, price="9.99") == 3
    sim.advance(300)
    assert v100_price(sim, "ap-nanjing") == 9.99


def test_a_row_that_is_gone_is_not_listed(sim: Sim) -> None:
    sim.set("tencent", {"family": "GN10Xp", "region": "ap-nanjing"}, gone=True)
    assert quotas(sim, "ap-nanjing", instance_family="GN10Xp") == []


@pytest.mark.parametrize(
    ("match", "values"),
    [
        ({"region": "ap-guangzou"}, {"stock": "WithoutStock"}),
        ({"region": "ap-guangzhou"}, {"stok": "WithoutStock"}),
        ({"region": "ap-guangzhou"}, {"stock": "SoldOut"}),
    ],
    ids=["no such region", "no such field", "no such level"],
)
def test_a_change_that_would_do_nothing_is_refused(sim: Sim, match: Mapping[str, str], values: dict[str, str]) -> None:
    with pytest.raises(simcloud.ScenarioError):
        sim.set("tencent", match, **values)


def test_a_scenario_whose_event_touches_no_row_does_not_start() -> None:
    event = (
        '[[event]]\nat = "1s"\nprovider = "tencent"\nmatch = { zone = "moon-1" }\nset = { stock = "WithoutStock" }\n'
    )
    text = (ROOT / "simcloud/scenarios/demo/tencent.toml").read_text(encoding="utf-8")
    with pytest.raises(simcloud.ScenarioError, match="moon-1"):
        simcloud.start(simcloud.parse(event + text), providers=("tencent",))


def test_a_folder_of_files_is_one_scenario(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('loop = "9s"\n[settings]\nA = 1\n', encoding="utf-8")
    (tmp_path / "b.toml").write_text("[settings]\nB = 2\n[cloud]\nsold = 1\n", encoding="utf-8")
    read = simcloud.load(tmp_path)
    assert (read.loop_s, read.settings, read.providers) == (9.0, {"A": "1", "B": "2"}, {"cloud": {"sold": 1}})
    (tmp_path / "c.toml").write_text("[cloud]\n", encoding="utf-8")
    with pytest.raises(simcloud.ScenarioError, match="cloud"):
        simcloud.load(tmp_path)
    with pytest.raises(simcloud.ScenarioError, match="demo"):
        simcloud.load(tmp_path / "nowhere")


# --- Faults ---


def test_a_region_that_times_out_leaves_the_others_answering(sim: Sim) -> None:
    sim.fault("tencent", "timeout", match={"region": "ap-nanjing"})
    with pytest.raises(TencentCloudSDKException) as failure:
        cvm(sim, "ap-nanjing", timeout_s=1).call_json("DescribeZones", {})
    assert failure.value.get_code() == "ClientNetworkError"
    assert v100_status(sim, "ap-guangzhou") == {"SELL"}


@pytest.mark.parametrize(
    ("kind", "details", "code"),
    [
        ("reset", {}, "ClientNetworkError"),
        ("status", {"status": 500}, "ServerNetworkError"),
        ("status", {"status": 429}, "ServerNetworkError"),
        ("html", {}, "JSONDecodeError"),
        ("empty200", {}, "JSONDecodeError"),
        ("error", {"code": "RequestLimitExceeded", "message": "slow down"}, "RequestLimitExceeded"),
    ],
)
def test_each_fault_reaches_the_sdk_as_a_failure(sim: Sim, kind: str, details: dict[str, Any], code: str) -> None:
    sim.fault("tencent", kind, times=1, **details)
    with pytest.raises((TencentCloudSDKException, json.JSONDecodeError)) as failure:
        quotas(sim)
    got = failure.value.get_code() if isinstance(failure.value, TencentCloudSDKException) else "JSONDecodeError"
    assert got == code
    assert quotas(sim) != []


def test_a_truncated_body_escapes_the_sdk_as_an_error_of_requests(sim: Sim) -> None:
    sim.fault("tencent", "truncate", times=1)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        quotas(sim)
    assert quotas(sim) != []


def test_a_dropped_field_is_missing_and_not_empty(sim: Sim) -> None:
    sim.fault("tencent", "drop_field", name="InstanceTypeQuotaSet")
    answer = cvm(sim).call_json("DescribeZoneInstanceConfigInfos", {})
    assert answer["Response"].keys() == {"RequestId"}


def test_a_fault_ends_by_the_clock(sim: Sim) -> None:
    sim.fault("runpod", "status", status=503, lasts="30s")
    query = {"query": DISCOVERY}
    assert httpx2.post(f"{sim.runpod.url}/graphql", json=query).status_code == 503
    sim.advance(30)
    assert httpx2.post(f"{sim.runpod.url}/graphql", json=query).status_code == 200


def test_the_demos_429_says_when_to_come_back(sim: Sim, http: httpx2.Client) -> None:
    sim.advance(120)
    answer = http.post(f"{sim.runpod.url}/graphql", json={"query": DISCOVERY})
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "12")


def test_an_unknown_fault_is_refused(sim: Sim) -> None:
    with pytest.raises(ValueError, match="unknown fault 'timeuot'"):
        sim.fault("tencent", "timeuot")


# --- RunPod ---


def test_discovery_lists_data_centres_and_countries_with_the_null_among_them(sim: Sim, http: httpx2.Client) -> None:
    data = http.post(f"{sim.runpod.url}/graphql", json={"query": DISCOVERY}).json()["data"]
    assert {None, "US", "FR"} <= set(data["countryCodes"])
    assert {"id": "CA-MTL-2", "name": "Canada Montreal 2", "listed": False} in data["dataCenters"]
    assert data["gpuTypes"][0].keys() == {"id", "displayName", "maxGpuCount"}


@pytest.mark.parametrize(
    ("wanted", "status", "free"),
    [
        ({"secureCloud": True, "dataCenterId": "US-KS-2", "gpuCount": 1}, "Medium", 2),
        ({"secureCloud": True, "dataCenterId": "US-KS-2", "gpuCount": 4}, None, 0),
        ({"secureCloud": True, "dataCenterId": "EU-RO-1", "gpuCount": 8}, "High", 8),
        ({"secureCloud": True, "dataCenterId": "US-TX-3", "gpuCount": 1}, None, 0),
        ({"secureCloud": False, "countryCode": "US", "gpuCount": 1}, "Low", 2),
        ({"secureCloud": True, "countryCode": "SE", "gpuCount": 1}, "Low", 1),
    ],
)
def test_stock_is_that_of_the_place_cloud_and_count_asked_for(
    sim: Sim, http: httpx2.Client, wanted: dict[str, Any], status: str | None, free: int
) -> None:
    found = gpu_stock(http, sim, "NVIDIA A100-SXM4-80GB", **wanted)
    assert (found["stockStatus"], found["maxUnreservedGpuCount"]) == (status, free)


def test_a_query_with_its_input_written_out_is_understood(sim: Sim, http: httpx2.Client) -> None:
    query = '{ gpuTypes(input: {id: "NVIDIA H200"}) { id lowestPrice(input: {gpuCount: 8}) { stockStatus } } }'
    data = http.post(f"{sim.runpod.url}/graphql", json={"query": query}).json()["data"]
    assert data == {"gpuTypes": [{"id": "NVIDIA H200", "lowestPrice": {"stockStatus": "Low"}}]}


def test_a_graphql_error_is_http_200(sim: Sim, http: httpx2.Client) -> None:
    sim.fault("runpod", "error", code="INTERNAL_SERVER_ERROR", message="Something went wrong.")
    answer = http.post(f"{sim.runpod.url}/graphql", json={"query": DISCOVERY})
    assert (answer.status_code, answer.json()["data"]) == (200, None)
    assert answer.json()["errors"][0]["message"] == "Something went wrong."


@pytest.mark.parametrize(("key", "status"), [(None, 200), ("simcloud", 200), ("wrong", 401)])
def test_graphql_needs_no_key_but_refuses_a_bad_one(
    sim: Sim, http: httpx2.Client, key: str | None, status: int
) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = http.post(f"{sim.runpod.url}/graphql", json={"query": DISCOVERY}, headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("/v2/catalog/gpus", None, 401),
        ("/v2/catalog/gpus", "simcloud", 200),
        ("/v2/catalog/gpus?include=AVAILABILITY", "simcloud", 400),
        ("/v2/catalog/gpus?product=POD", "simcloud", 400),
        ("/v2/catalog/gpus?include=AVAILABILITY&product=POD&count=many", "simcloud", 422),
        ("/v2/catalog/gpus/NVIDIA%20H200", "simcloud", 200),
        ("/v2/catalog/nothing", "simcloud", 404),
    ],
)
def test_the_catalogue_refuses_what_runpod_refuses(
    sim: Sim, http: httpx2.Client, path: str, key: str | None, status: int
) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = http.get(sim.runpod.url + path, headers=headers)
    assert answer.status_code == status
    kind = "application/json" if status == 200 else "application/problem+json"
    assert answer.headers["Content-Type"] == kind


def test_the_catalogue_lists_only_the_data_centres_that_offer_the_count(sim: Sim, http: httpx2.Client) -> None:
    url = f"{sim.runpod.url}/v2/catalog/gpus?include=AVAILABILITY&product=POD&count=8&cloud=SECURE"
    answer = http.get(url, headers={"Authorization": "Bearer simcloud"})
    gpus = {gpu["id"]: gpu for gpu in answer.json()["gpus"]}
    assert [place["id"] for place in gpus["NVIDIA A100-SXM4-80GB"]["dataCenters"]] == ["EU-RO-1"]
    assert gpus["NVIDIA RTX A6000"]["availability"] == "HIGH"
    assert gpus["NVIDIA H100 PCIe"]["availability"] == "NONE"
    assert "dataCenters" not in gpus["NVIDIA H100 PCIe"]
    assert "RateLimit-Policy" in answer.headers


def test_data_centres_say_what_they_have(sim: Sim, http: httpx2.Client) -> None:
    url = f"{sim.runpod.url}/v2/catalog/datacenters?include=GPU_AVAILABILITY"
    centers = http.get(url, headers={"Authorization": "Bearer simcloud"}).json()["dataCenters"]
    (romania,) = (center for center in centers if center["id"] == "EU-RO-1")
    assert {"id": "NVIDIA H200", "name": "H200 SXM", "availability": "LOW"} in romania["gpuAvailability"]


# --- AWS: EC2 ---


def spot(ec2: Any, **asked: Any) -> list[dict[str, Any]]:
    pages = ec2.get_paginator("describe_spot_price_history").paginate(**asked)
    return [item for page in pages for item in page["SpotPriceHistory"]]


def test_spot_history_from_now_holds_one_current_price_for_each_zone(ec2: Any) -> None:
    now = datetime.now(UTC)
    items = spot(ec2, StartTime=now, InstanceTypes=["p5.48xlarge"], ProductDescriptions=["Linux/UNIX"])
    prices = {item["AvailabilityZoneId"]: Decimal(item["SpotPrice"]) for item in items}
    assert len(items) == 3
    assert prices["use1-az6"] == Decimal("55.04") * 51 / 100
    assert all(item["Timestamp"] < now for item in items)


def test_spot_history_of_two_days_holds_the_older_price_too(ec2: Any) -> None:
    start = datetime.now(UTC) - timedelta(days=2)
    asked = {"StartTime": start, "InstanceTypes": ["g6.xlarge"], "ProductDescriptions": ["Linux/UNIX"]}
    items = spot(ec2, AvailabilityZone="us-east-1a", **asked)
    newest, older = (Decimal(item["SpotPrice"]) for item in items)
    assert older == (newest * 110 / 100).quantize(Decimal("0.000001"))


def test_spot_history_without_a_product_holds_windows_too_and_comes_in_pages(ec2: Any) -> None:
    asked = {"StartTime": datetime.now(UTC), "MaxResults": 100}
    pages = list(ec2.get_paginator("describe_spot_price_history").paginate(**asked))
    assert len(pages) > 1
    assert ec2.describe_spot_price_history(StartTime=datetime.now(UTC))["NextToken"] == ""
    assert {item["ProductDescription"] for page in pages for item in page["SpotPriceHistory"]} == {
        "Linux/UNIX",
        "Windows",
    }


def test_one_region_calls_the_product_by_its_other_name(sim: Sim) -> None:
    client = ec2_client(sim, "eu-west-1")
    assert spot(client, StartTime=datetime.now(UTC), ProductDescriptions=["Linux/UNIX"]) == []
    assert spot(client, StartTime=datetime.now(UTC), ProductDescriptions=["Linux/UNIX (Amazon VPC)"]) != []
    client.close()


def test_a_spot_price_that_an_event_changed_carries_the_time_of_the_event(sim: Sim, ec2: Any) -> None:
    asked: dict[str, Any] = {"InstanceTypes": ["g6e.xlarge"], "ProductDescriptions": ["Linux/UNIX"]}
    (before,) = spot(ec2, AvailabilityZone="us-east-1a", StartTime=datetime.now(UTC), **asked)
    sim.advance(100)
    (after,) = spot(ec2, AvailabilityZone="us-east-1a", StartTime=datetime.now(UTC) + timedelta(seconds=1), **asked)
    assert Decimal(after["SpotPrice"]) == (Decimal(before["SpotPrice"]) * 70 / 100).quantize(Decimal("0.000001"))
    assert after["Timestamp"] > before["Timestamp"]


def test_a_machine_without_a_spot_market_has_no_spot_price(ec2: Any) -> None:
    items = spot(ec2, InstanceTypes=["p4de.24xlarge"], ProductDescriptions=["Linux/UNIX"])
    assert {item["AvailabilityZone"] for item in items} == {"us-east-1d"}


def test_offerings_take_wildcards(ec2: Any) -> None:
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone-id", Filters=[{"Name": "instance-type", "Values": ["p5.*", "inf*"]}]
    )
    offered = {(item["InstanceType"], item["Location"]) for page in pages for item in page["InstanceTypeOfferings"]}
    assert {("p5.48xlarge", "use1-az5"), ("inf2.xlarge", "use1-az2")} <= offered
    assert {name.split(".")[0] for name, _ in offered} == {"p5", "inf2"}


def test_instance_types_agree_with_motos_copy_of_awss_data(ec2: Any) -> None:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    pages = ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 20})
    machines = {item["InstanceType"]: item for page in pages for item in page["InstanceTypes"]}
    assert len(machines) > 30
    fields = ("GpuInfo", "NeuronInfo", "InferenceAcceleratorInfo", "SupportedUsageClasses", "MemoryInfo")
    for name, machine in machines.items():
        real = INSTANCE_TYPES[name]
        assert {field: _plain(machine.get(field)) for field in fields} == {
            field: _plain(real.get(field)) for field in fields
        }, name
        assert machine["VCpuInfo"]["DefaultVCpus"] == real["VCpuInfo"]["DefaultVCpus"]
        assert machine["NetworkInfo"]["EfaSupported"] == real["NetworkInfo"]["EfaSupported"], name


def _plain(value: Any) -> Any:
    """What gpufare does not read of a GPU, left out."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != "Workloads"}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def test_regions_and_zones_say_whether_they_are_opted_in(ec2: Any) -> None:
    every = {region["RegionName"]: region["OptInStatus"] for region in ec2.describe_regions(AllRegions=True)["Regions"]}
    assert every == dict.fromkeys(["us-east-1", "us-west-2", "eu-west-1"], "opt-in-not-required") | {
        "me-central-1": "not-opted-in"
    }
    assert "me-central-1" not in {region["RegionName"] for region in ec2.describe_regions()["Regions"]}
    zones = ec2.describe_availability_zones(AllAvailabilityZones=True)["AvailabilityZones"]
    assert {(zone["ZoneId"], zone["OptInStatus"]) for zone in zones} >= {("use1-az6", "opt-in-not-required")}


def test_placement_scores_of_one_type_are_low_and_of_three_are_not(ec2: Any) -> None:
    asked = {"TargetCapacity": 1, "SingleAvailabilityZone": True, "RegionNames": ["us-east-1", "us-west-2"]}
    alone = ec2.get_spot_placement_scores(InstanceTypes=["g6.xlarge"], **asked)["SpotPlacementScores"]
    three = ec2.get_spot_placement_scores(InstanceTypes=["g6.xlarge", "g6.2xlarge", "g6.4xlarge"], **asked)
    assert {row["Score"] for row in alone} == {1}
    assert max(row["Score"] for row in three["SpotPlacementScores"]) == 7


@pytest.mark.parametrize(("region", "key_id"), [("me-central-1", "simcloud"), ("us-east-1", "nobody")])
def test_a_closed_region_and_an_unknown_key_are_refused(sim: Sim, region: str, key_id: str) -> None:
    client = ec2_client(sim, region, key_id)
    with pytest.raises(ClientError) as refusal:
        client.describe_availability_zones()
    assert refusal.value.response["Error"]["Code"] == "AuthFailure"
    client.close()


def test_a_throttled_region_says_so_in_ec2s_words(sim: Sim, ec2: Any) -> None:
    sim.fault("aws", "status", status=503, match={"region": "us-east-1"})
    with pytest.raises(ClientError) as refusal:
        ec2.describe_regions()
    assert refusal.value.response["Error"]["Code"] == "RequestLimitExceeded"


# --- AWS: price list ---


def price_list_url(sim: Sim, region: str) -> str:
    return f"{sim.aws.price_list_url}/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"


def read_prices(text: str) -> list[dict[str, str]]:
    lines = text.splitlines(keepends=True)
    assert [line.split(",")[0].strip('"') for line in lines[:5]] == [
        "FormatVersion",
        "Disclaimer",
        "Publication Date",
        "Version",
        "OfferCode",
    ]
    return list(csv.DictReader(io.StringIO("".join(lines[5:]))))


ON_DEMAND = {
    "TermType": "OnDemand",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "CapacityStatus": "Used",
    "MarketOption": "OnDemand",
    "Unit": "Hrs",
    "Pre Installed S/W": "NA",
    "Location Type": "AWS Region",
}


def test_the_price_list_has_one_on_demand_price_for_each_machine_among_the_decoys(
    sim: Sim, http: httpx2.Client
) -> None:
    answer = http.get(price_list_url(sim, "us-east-1"))
    assert answer.headers["Content-Encoding"] == "gzip"
    rows = read_prices(answer.text)
    wanted = [row for row in rows if all(row[field] == value for field, value in ON_DEMAND.items())]
    prices = {row["Instance Type"]: row["PricePerUnit"] for row in wanted}
    assert len(prices) == len(wanted) == 39
    assert (prices["p5.48xlarge"], prices["g6f.xlarge"]) == ("55.0400000000", "0.2375000000")
    decoys = [row for row in rows if row["Instance Type"] == "p5.48xlarge" and row not in wanted]
    assert {"CapacityBlock"} < {row["MarketOption"] for row in decoys}
    assert any(row["Unit"] == "Quantity" and row["PurchaseOption"] == "Partial Upfront" for row in decoys)
    assert {row["PricePerUnit"] for row in decoys if row["CapacityStatus"].startswith("Alloc")} == {"0.0000000000"}


def test_a_machine_sold_as_capacity_blocks_only_has_no_on_demand_price(sim: Sim, http: httpx2.Client) -> None:
    rows = read_prices(http.get(price_list_url(sim, "us-west-2")).text)
    assert {row["MarketOption"] for row in rows if row["Instance Type"] == "p5e.48xlarge"} == {"CapacityBlock"}


def test_an_etag_that_still_holds_answers_304_and_a_new_price_a_new_file(sim: Sim, http: httpx2.Client) -> None:
    url = price_list_url(sim, "us-east-1")
    held = {"If-None-Match": http.get(url).headers["ETag"]}
    unchanged = http.get(url, headers=held)
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    sim.set("aws", {"type": "p5.48xlarge"}, price="54.00")
    assert http.get(url, headers=held).status_code == 200


def test_a_region_without_a_file_is_denied_as_s3_does(sim: Sim, http: httpx2.Client) -> None:
    answer = http.get(price_list_url(sim, "mars-1"))
    assert (answer.status_code, b"AccessDenied" in answer.content) == (403, True)


def test_a_given_file_is_served_as_it_is(sim: Sim, http: httpx2.Client, tmp_path: Path) -> None:
    (tmp_path / "big.csv").write_bytes(b'"FormatVersion","v1.0"\n' * 1000)
    sim.options("aws", files={"us-east-1": str(tmp_path / "big.csv")})
    assert http.get(price_list_url(sim, "us-east-1")).content == (tmp_path / "big.csv").read_bytes()


def test_the_region_index_and_the_spot_advisor_are_served(sim: Sim, http: httpx2.Client) -> None:
    index = http.get(f"{sim.aws.price_list_url}/offers/v1.0/aws/AmazonEC2/current/region_index.json").json()
    assert index["regions"]["us-east-1"]["currentVersionUrl"].endswith("/us-east-1/index.json")
    versioned = index["regions"]["us-east-1"]["currentVersionUrl"].replace(".json", ".csv")
    assert http.get(sim.aws.price_list_url + versioned).status_code == 200
    advice = http.get(f"{sim.aws.spot_advisor_url}/spot-advisor-data.json").json()
    assert advice["spot_advisor"]["us-east-1"]["Linux"]["p5.48xlarge"].keys() == {"s", "r"}


# --- Control, environment, ends ---


def test_the_control_api_advances_changes_breaks_and_tells(sim: Sim, http: httpx2.Client) -> None:
    base = f"{sim.aws.price_list_url}/_sim"
    assert http.post(f"{base}/advance", json={"seconds": 60}).json() == {"elapsed_s": 60.0}
    assert http.get(f"{base}/clock").json()["elapsed_s"] == 60.0
    change = {
        "provider": "tencent",
        "match": {"region": "ap-nanjing", "family": "GN10Xp"},
        "set": {"stock": "UnderStock"},
    }
    assert http.post(f"{base}/set", json=change).json() == {"changed": 12}
    fault = {
        "provider": "tencent",
        "kind": "error",
        "code": "InternalError",
        "for": "10s",
        "match": {"region": "ap-chengdu"},
    }
    assert http.post(f"{base}/fault", json=fault).status_code == 200
    with pytest.raises(TencentCloudSDKException, match="internal error"):
        quotas(sim, "ap-chengdu", instance_charge_type="SPOTPAID")
    assert {row["StatusCategory"] for row in quotas(sim, "ap-nanjing", instance_family="GN10Xp")} == {"UnderStock"}
    first, second = http.get(f"{base}/log?provider=tencent").json()["items"]
    assert (first["action"], first["region"], first["part"], first["credential"], first["fault"]) == (
        "DescribeZoneInstanceConfigInfos",
        "ap-chengdu",
        "SPOTPAID",
        "simcloud",
        "error",
    )
    assert second["status"] == 200


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/_sim/set", {"provider": "tencent", "match": {"zone": "nowhere"}, "set": {"stock": "EnoughStock"}}, 400),
        ("/_sim/set", {"provider": "nimbus", "set": {"price": 1}}, 400),
        ("/_sim/set", {"provider": "tencent", "options": {"rate_limit": 20}}, 400),
        ("/_sim/advance", {"seconds": -1}, 400),
        ("/_sim/advance", {}, 400),
        ("/_sim/fault", {"provider": "tencent", "kind": "meteor"}, 400),
        ("/_sim/fault", {"provider": "tencent", "kind": "reset", "until": "10s"}, 400),
        ("/_sim/rewind", {}, 404),
    ],
)
def test_control_requests_that_mean_nothing_are_refused(
    sim: Sim, http: httpx2.Client, path: str, asked: dict[str, Any], status: int
) -> None:
    answer = http.post(sim.tencent.url + path, json=asked)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_the_environment_points_at_the_servers_with_credentials_they_let_in(sim: Sim) -> None:
    env = sim.env()
    assert env["GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__CVM"] == sim.tencent.url
    assert env["GPUFARE_PROVIDERS__TENCENT__SITE"] == "cn"
    assert env["GPUFARE_PROVIDERS__AWS__ENDPOINTS__PRICE_LIST"] == sim.aws.price_list_url
    assert env["GPUFARE_FALLBACK__AP_GUANGZHOU"] == "ap-nanjing,ap-chongqing"
    key = (env["TENCENTCLOUD_SECRET_ID"], env["TENCENTCLOUD_SECRET_KEY"])
    assert cvm(sim, key=key).call_json("DescribeZones", {})["Response"]["TotalCount"] == 4


def test_stopping_closes_every_port_even_with_a_request_hanging() -> None:
    with simcloud.start("demo") as running:
        ports = [int(running.url(provider).rpartition(":")[2]) for provider in simcloud.PROVIDERS]
        running.fault("runpod", "timeout")
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{running.runpod.url}/graphql", json={"query": DISCOVERY}, timeout=0.2)
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_provider_that_is_not_simulated_is_refused() -> None:
    with pytest.raises(simcloud.ScenarioError, match="nimbus"):
        simcloud.start("demo", providers=("nimbus",))


@pytest.mark.parametrize("end", ["close standard input", "SIGTERM"])
def test_alone_it_prints_the_environment_and_ends_when_told(end: str) -> None:
    command = [sys.executable, "-m", "simcloud", "--env-json", "--exit-with-parent", "--providers", "runpod"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as child:  # noqa: S603 - ours
        assert child.stdin is not None
        assert child.stdout is not None
        env = json.loads(child.stdout.readline())
        url = env["GPUFARE_PROVIDERS__RUNPOD__ENDPOINTS__API"]
        assert httpx2.get(f"{url}/_sim/clock").json()["speed"] == 1.0
        if end == "SIGTERM":
            os.kill(child.pid, signal.SIGTERM)
        else:
            child.stdin.close()
        assert child.wait(timeout=10) == 0


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot serve tencent on 127.0.0.1:{port}"):
            simcloud.start("demo", first_port=port)


def test_the_manual_names_every_fault_option_and_control_request() -> None:
    manual = (ROOT / "docs/simcloud.md").read_text(encoding="utf-8")
    options = {*tencent.OPTIONS, *runpod.OPTIONS, *aws.OPTIONS}
    missing = [name for name in (*KINDS, *options, *control.READS, *control.WRITES) if f"{name}`" not in manual]
    assert missing == []


def test_simcloud_imports_nothing_but_the_standard_library_and_itself() -> None:
    files = list((ROOT / "simcloud").glob("*.py"))
    assert len(files) > 10
    verifies = "receiver_signatures.py"  # signatures are checked by the library of those who made the standard
    imported = {
        name.split(".")[0]
        for file in files
        for name in re.findall(r"^\s*(?:from|import) ([\w.]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert imported - set(sys.stdlib_module_names) == {"simcloud", "standardwebhooks"}
    assert [file.name for file in files if "import standardwebhooks" in file.read_text(encoding="utf-8")] == []
    assert [file.name for file in files if "from standardwebhooks" in file.read_text(encoding="utf-8")] == [verifies]


def test_the_documents_say_when_the_demo_has_faults_of_its_own() -> None:
    files = sorted((ROOT / "simcloud" / "scenarios" / "demo").glob("*.toml"))
    tables = [tomllib.loads(file.read_text()) for file in files]
    faults = [event for table in tables for event in table.get("event", []) if "fault" in event]
    lengths = [_seconds(event["fault"]["for"]) for event in faults]
    starts = [_seconds(event["at"]) for event in faults]
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    (loop,) = (table["loop"] for table in tables if "loop" in table)
    told = " ".join((ROOT / "docs" / "simcloud.md").read_text().split())
    assert (
        f"in each loop of {_seconds(loop)} s, from second {min(starts)} to second {max(ends)}, "
        f"each of the {len({event['provider'] for event in faults})} clouds for {min(lengths)} to {max(lengths)} s "
    ) in told
    assert {event["provider"] for event in faults} == set(simcloud.PROVIDERS)


def _seconds(length: str) -> int:
    return int(length.removesuffix("s"))
