"""What providers answer in the cases: local servers in the providers' own protocols, filled by the test."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from scheduler.plan import Configured
from tests.support.ec2 import Answer, Call, ec2, refusal
from tests.support.ec2 import Asked as Ec2Asked
from tests.support.endtoend import Gpufare, gpufare, real
from tests.test_aws_pricelist import document, row

Json = dict[str, Any]


@contextmanager
def answering(answer: Callable[[Request], Response]) -> Iterator[str]:
    """A server that asks the function for each answer; its address."""
    with HTTPServer("127.0.0.1", threaded=True) as server:
        server.expect_request(re.compile("")).respond_with_handler(answer)
        yield server.url_for("").rstrip("/")
        server.check_assertions()


def as_json(value: object) -> Response:
    """A 200 with this JSON."""
    return Response(json.dumps(value), content_type="application/json")


# --- Tencent

Quotas = Callable[[str, str], Sequence[Json] | Response]
"""(region, charge type) -> the rows of DescribeZoneInstanceConfigInfos, or what is answered instead."""


@dataclass(slots=True)
class TencentSays:
    """Tencent's answers; `asked` is every action with its region and charge type."""

    quotas: Quotas = lambda _region, _charge: ()
    types: Sequence[Json] = ()
    regions: Sequence[str] = ()
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Response:
        """Answer one action."""
        action, region = request.headers["X-TC-Action"], request.headers.get("X-TC-Region", "")
        filters = (json.loads(request.data or b"{}").get("Filters") or [{}])[0]
        charge = (filters.get("Values") or [""])[0]
        self.asked.append(" ".join(filter(None, (action, region, charge))))
        if action == "DescribeRegions":
            return self._set("RegionSet", [{"Region": one, "RegionState": "AVAILABLE"} for one in self.regions])
        if action == "DescribeInstanceTypeConfigs":
            return self._set("InstanceTypeConfigSet", self.types)
        rows = self.quotas(region, charge)
        return rows if isinstance(rows, Response) else self._set("InstanceTypeQuotaSet", rows)

    def _set(self, name: str, rows: Sequence[Json]) -> Response:
        return as_json({"Response": {name: list(rows), "RequestId": "r"}})


def tencent_error(code: str) -> Response:
    """An error of Tencent's own, in HTTP 200."""
    return as_json({"Response": {"Error": {"Code": code, "Message": "so it is"}, "RequestId": "r"}})


def quotas(*rows: Json) -> Quotas:
    """These rows, each where its charge type is asked for, in every region."""
    return lambda _region, charge: [one for one in rows if one["InstanceChargeType"] == charge]


@contextmanager
def tencent(says: TencentSays, *regions: str, site: str | None = "cn") -> Iterator[Configured]:
    """Tencent with these answers."""
    with answering(says) as url:
        yield real("tencent", *(regions or ("ap-test",)), site=site, cvm=url, region=url)


# --- RunPod


@dataclass(slots=True)
class RunPodSays:
    """RunPod's GraphQL: the GPU types, by data centre or country, cloud and count that are asked for."""

    gpu_types: Callable[[Json], Sequence[Json]]
    centres: Sequence[str] = ("US-KS-2",)
    countries: Sequence[str | None] = ("US",)

    def __call__(self, request: Request) -> Response:
        """Answer one query."""
        variables = json.loads(request.data).get("variables") or {}
        if "lowestPriceInput" in variables:
            return as_json({"data": {"gpuTypes": list(self.gpu_types(variables["lowestPriceInput"]))}})
        centres = [{"id": one, "listed": True} for one in self.centres]
        return as_json({"data": {"countryCodes": list(self.countries), "dataCenters": centres}})


@contextmanager
def runpod(says: RunPodSays, *regions: str) -> Iterator[Configured]:
    """RunPod without a key, with these answers."""
    with answering(says) as url:
        yield real("runpod", *(regions or ("US",)), api=url)


def a_type(gpu_type: str, **more: Any) -> Json:
    """A GPU type of RunPod's, in the secure cloud at 1 an hour, unless more is said."""
    return {"id": gpu_type, "secureCloud": True, "securePrice": 1.0, "lowestPrice": {"stockStatus": "High"}} | more


@contextmanager
def pods(folder: Path, *types: Json) -> Iterator[Gpufare]:
    """gpufare after a pass over RunPod with these GPU types."""
    with runpod(RunPodSays(lambda _asked: types)) as provider, gpufare(folder, provider) as app:
        app.sync("stock")
        yield app


# --- AWS

PriceFile = Sequence[Mapping[str, str]] | Response


@dataclass(slots=True)
class AwsSays:
    """AWS's answers by region. `ec2` answers before all else, where it does not return None."""

    prices: dict[str, PriceFile] = field(default_factory=dict)
    types: dict[str, list[Json]] = field(default_factory=dict)
    zones: dict[str, list[str]] = field(default_factory=lambda: {"us-east-1": ["us-east-1a", "us-east-1b"]})
    spot: dict[str, list[Json]] = field(default_factory=dict)
    blocks: dict[str, list[Json]] = field(default_factory=dict)
    advice: dict[str, Json] = field(default_factory=dict)
    """What the spot advisor says of Linux, by region."""
    regions: list[Json] = field(default_factory=list)
    ec2: Callable[[Call], Answer | None] = lambda _call: None
    files: list[str] = field(default_factory=list)
    """The paths of the price lists that were asked for."""
    server: Ec2Asked | None = None

    def file(self, request: Request) -> Response:
        """A region's price list; 403 as the file host says it where there is none. Or the spot advisor's file."""
        if request.path == "/spot-advisor-data.json":
            ranges = [{"index": index, "label": label} for index, label in enumerate(("<5%", "5-10%", ">20%"))]
            advice = {region: {"Linux": rated} for region, rated in (self.advice or {"xx-none-1": {}}).items()}
            return as_json({"ranges": ranges, "spot_advisor": advice})
        self.files.append(request.path)
        rows = self.prices.get(request.path.split("/")[-2])
        if rows is None:
            return Response("<Error><Code>AccessDenied</Code></Error>", 403)
        if isinstance(rows, Response):
            return rows
        return Response(document([dict(one) for one in rows]), content_type="text/csv")

    def answer(self, call: Call) -> Answer:
        """One call of EC2."""
        own = self.ec2(call)
        if own is not None:
            return own
        here = call.region
        if call.action == "DescribeRegions":
            return {"Regions": self.regions}
        if call.action == "DescribeInstanceTypes":
            blocks = "capacity-block" in call.values("Filter.")
            types = [one for one in self.types.get(here, []) if not blocks or "capacity-block" in _usage(one)]
            return {"InstanceTypes": types}
        if call.action == "DescribeAvailabilityZones":
            return {"AvailabilityZones": [_zone(name, here) for name in self.zones.get(here, [])]}
        if call.action == "DescribeInstanceTypeOfferings":
            return {"InstanceTypeOfferings": list(self._offerings(call))}
        if call.action == "DescribeSpotPriceHistory":
            asked = call.values("ProductDescription")
            return {"SpotPriceHistory": [one for one in self.spot.get(here, []) if one["ProductDescription"] in asked]}
        if call.action == "DescribeCapacityBlockOfferings":
            asked_type = call.parameters["InstanceType"]
            return {
                "CapacityBlockOfferings": [
                    one for one in self.blocks.get(here, []) if one["InstanceType"] == asked_type
                ]
            }
        return refusal("InvalidAction", 400)

    def _offerings(self, call: Call) -> Iterator[Json]:
        names, by_id = call.values("Filter.1.Value"), call.parameters["LocationType"] == "availability-zone-id"
        for one in self.types.get(call.region, []):
            for zone in self.zones.get(call.region, []):
                if one["InstanceType"] in names:
                    yield {"InstanceType": one["InstanceType"], "Location": zone_id(zone) if by_id else zone}


def _usage(instance_type: Json) -> Sequence[str]:
    return instance_type.get("SupportedUsageClasses") or ()


def zone_id(zone: str) -> str:
    """`us-east-1a` -> `use1-az1`, and so on: one account's names."""
    first, second, number = zone[:-1].split("-")
    return f"{first}{second[0]}{number}-az{'abcdefg'.index(zone[-1]) + 1}"


def _zone(name: str, region: str) -> Json:
    return {
        "ZoneName": name,
        "ZoneId": zone_id(name),
        "ZoneType": "availability-zone",
        "State": "available",
        "RegionName": region,
    }


@contextmanager
def aws(
    says: AwsSays, *regions: str, environ: Mapping[str, str] | None = None, scores: bool = False
) -> Iterator[Configured]:
    """AWS with these answers."""
    with ExitStack() as stack:
        says.server = stack.enter_context(ec2(says.answer))
        files = stack.enter_context(answering(says.file))
        ec2_url = says.server.url
        yield real("aws", *regions, ec2=ec2_url, price_list=files, spot_advisor=files, environ=environ, scores=scores)


def ec2_type(name: str, gpu: str, count: int = 1, each_mib: int = 24576, **more: Any) -> Json:
    """A record of DescribeInstanceTypes: 8 vCPUs, 32 GiB, sold on demand and as spot, unless more is said."""
    known = {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "VCpuInfo": {"DefaultVCpus": 8},
        "MemoryInfo": {"SizeInMiB": 32768},
        "GpuInfo": {
            "Gpus": [{"Name": gpu, "Manufacturer": "NVIDIA", "Count": count, "MemoryInfo": {"SizeInMiB": each_mib}}],
            "TotalGpuMemoryInMiB": each_mib * count,
        },
    }
    return {key: value for key, value in (known | more).items() if value is not None}


def spot_row(name: str, zone: str, price: str, at: str = "2026-11-30T11:00:00Z", **more: str) -> Json:
    """A record of DescribeSpotPriceHistory."""
    known = {
        "InstanceType": name,
        "AvailabilityZone": zone,
        "AvailabilityZoneId": zone_id(zone),
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": price,
        "Timestamp": at,
    }
    return known | more


def csv_row(name: str, price: str, region: str = "us-east-1", **more: str) -> Mapping[str, str]:
    """A row of the price list: Linux on demand in the region, unless more is said; `_` in a column is a space."""
    columns = {key.replace("_", " "): value for key, value in more.items()}
    return row(name, price, **{"Region Code": region, **columns})
