"""Alibaba Cloud's ECS 2014-05-26 on one port, for all regions, signatures verified."""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any
from uuid import uuid4

from simcloud import alibaba_rows
from simcloud.acs3 import Authorization, Refused, verify
from simcloud.wire import Reply, Request
from simcloud.world import Identity, Row, World

OPTIONS = {
    "access_key_id": "simcloud",
    "access_key_secret": "simcloud",
    "site": "cn",  # what the account is; decides what currency the prices are in
    "any_credentials": False,  # any key id, as long as it signs with `access_key_secret`
    "rate_limit_per_minute": 0,  # requests of one action in one region within a minute; 0: no limit
    "types_per_page": 6,  # of DescribeInstanceTypes, however many are asked for
    "spot_rows_per_page": 1000,
    "details": True,  # whether a price says what its parts cost
}
_VERSION = "2014-05-26"
_CODES = {
    401: "InvalidAccessKeyId.NotFound",
    403: "Forbidden.RAM",
    404: "Invalid.RegionId",
    429: "Throttling.User",
    503: "ServiceUnavailable",
}
Answer = Mapping[str, Any]


class Alibaba:
    """The answers of `[alibaba]` in a scenario."""

    name = "alibaba"

    def __init__(self, world: World) -> None:
        table = world.scenario.providers["alibaba"]
        self._world = world
        self._regions: dict[str, Mapping[str, Any]] = {region["id"]: region for region in table["region"]}
        self._recent: dict[tuple[str, str], deque[float]] = {}
        self._lock = Lock()
        world.add("alibaba", alibaba_rows.expand(table), OPTIONS | table.get("options", {}), alibaba_rows.LEVELS)

    @property
    def _options(self) -> Mapping[str, Any]:
        return self._world.options["alibaba"]

    def identify(self, request: Request) -> Identity:
        """Return action, region, the machine or way to buy asked for as `part`, and the key id."""
        claim = Authorization.read(request.headers.get("authorization", ""))
        return {
            "action": request.headers.get("x-acs-action", ""),
            "region": request.query.get("RegionId", ""),
            "part": request.query.get("InstanceType", _charge(request.query)),
            "credential": claim.key_id if claim else "",
        }

    def answer(self, request: Request, skew_s: int) -> Reply:
        """Answer one action, or refuse it with an HTTP status that is no 200."""
        try:
            return _reply(200, self._act(request, skew_s))
        except Refused as refusal:
            return self.failure(refusal.status, refusal.code, refusal.message)

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return an error; 200 stands for 400, as Alibaba puts no error into a success."""
        known = _CODES.get(status, code) if code == "InternalError" else code
        link = f"https://api.aliyun.com/troubleshoot?q={known}"
        error = {"HostId": "ecs.aliyuncs.com", "Code": known, "Message": message, "Recommend": link}
        return _reply(400 if status == 200 else status, error)

    def environment(self, url: str) -> dict[str, str]:
        """Return site, endpoint and credentials."""
        return {
            "GPUFARE_PROVIDERS__ALIBABA__SITE": self._options["site"],
            "GPUFARE_PROVIDERS__ALIBABA__ENDPOINTS__ECS": url,
            "ALIBABA_CLOUD_ACCESS_KEY_ID": self._options["access_key_id"],
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": self._options["access_key_secret"],
        }

    def _act(self, request: Request, skew_s: int) -> Answer:
        self._admit(request, skew_s)
        action, asked = request.headers.get("x-acs-action", ""), request.query
        act = self._actions.get(action)
        if act is None or request.headers.get("x-acs-version") != _VERSION:
            raise Refused(
                404, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."
            )
        region = asked.get("RegionId", "")
        self._throttle(action, region)
        if region and region not in self._regions:
            raise Refused(404, "Invalid.RegionId", "The specified RegionId does not exist.")
        return act(region, asked)

    def _admit(self, request: Request, skew_s: int) -> None:
        claim = Authorization.read(request.headers.get("authorization", ""))
        if claim is None:
            raise Refused(400, "IncompleteSignature", "The request signature does not conform to Aliyun standards.")
        if claim.key_id != self._options["access_key_id"] and not self._options["any_credentials"]:
            raise Refused(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
        now = datetime.now(UTC) + timedelta(seconds=skew_s)
        verify(claim, request, self._options["access_key_secret"], now)

    def _throttle(self, action: str, region: str) -> None:
        limit, now_s = self._options["rate_limit_per_minute"], time.monotonic()
        with self._lock:
            recent = self._recent.setdefault((action, region), deque())
            while recent and recent[0] <= now_s - 60:
                recent.popleft()
            if limit and len(recent) >= limit:
                raise Refused(400, "Throttling.User", "Request was denied due to user flow control.")
            recent.append(now_s)

    @property
    def _actions(self) -> Mapping[str, Callable[[str, Mapping[str, str]], Answer]]:
        return {
            "DescribeRegions": self._describe_regions,
            "DescribeInstanceTypes": self._describe_instance_types,
            "DescribeAvailableResource": self._describe_available_resource,
            "DescribePrice": self._describe_price,
            "DescribeSpotPriceHistory": self._describe_spot_price_history,
            "DescribeSpotAdvice": self._describe_spot_advice,
        }

    def _describe_regions(self, _region: str, _asked: Mapping[str, str]) -> Answer:
        rows = [
            {
                "RegionId": region["id"],
                "RegionEndpoint": region.get("endpoint", f"ecs.{region['id']}.aliyuncs.com"),
                "LocalName": region["name"],
                "Status": "available",
            }
            for region in self._regions.values()
        ]
        return {"Regions": {"Region": rows}}

    def _describe_instance_types(self, _region: str, asked: Mapping[str, str]) -> Answer:
        rows = {row["type"]: row for row in self._world.rows("alibaba")}
        start, size = int(asked.get("NextToken", "0")), self._options["types_per_page"]
        page = list(rows.values())[start : start + size]
        following = str(start + size) if start + size < len(rows) else ""
        return {"NextToken": following, "InstanceTypes": {"InstanceType": [alibaba_rows.machine(row) for row in page]}}

    def _describe_available_resource(self, region: str, asked: Mapping[str, str]) -> Answer:
        """What a wrong endpoint says of a region is what the scenario says that it answers."""
        odd = self._regions.get(region, {}).get("answers")
        if odd == "error":
            raise Refused(500, "UnknownError", "The request processing has failed due to some unknown error.")
        if odd == "nothing":
            return {}
        _require(asked, "RegionId", "DestinationResource")
        rows = [row for row in self._here(region) if row["charge"] == _charge(asked)]
        if asked.get("SystemDiskCategory") != "cloud_essd":  # the default cannot be had with machines since gn7
            rows = [row for row in rows if not row["model"].get("essd_only", False)]
        return {"AvailableZones": {"AvailableZone": alibaba_rows.zones(rows)}}

    def _describe_price(self, region: str, asked: Mapping[str, str]) -> Answer:
        _require(asked, "RegionId", "InstanceType")
        sold = [row for row in self._of_type(region, asked) if row["charge"] == "PostPaid"]
        if not sold:
            message = "The specified InstanceType does not exist or beyond the permitted range."
            raise Refused(400, "InvalidInstanceType.ValueNotSupported", message)
        if sold[0]["model"].get("essd_only", False) and asked.get("SystemDisk.Category") != "cloud_essd":
            message = "The specified parameter SystemDisk.Category is not valid."
            raise Refused(400, "InvalidSystemDiskCategory.ValueNotSupported", message)
        info = alibaba_rows.price(sold[0], asked.get("PriceUnit", "Hour"), self._options["site"])
        if not self._options["details"]:
            del info["Price"]["DetailInfos"]
        return {"PriceInfo": info}

    def _describe_spot_price_history(self, region: str, asked: Mapping[str, str]) -> Answer:
        _require(asked, "RegionId", "InstanceType", "NetworkType")
        site, start, size = self._options["site"], int(asked.get("Offset", "0")), self._options["spot_rows_per_page"]
        rows = [row for row in self._of_type(region, asked) if row["charge"] == "SpotAsPriceGo"]
        points = [point for row in rows for point in alibaba_rows.spot_points(row, site, datetime.now(UTC))]
        page, following = points[start : start + size], start + size if start + size < len(points) else 0
        currency = alibaba_rows.currency(site)
        return {"Currency": currency, "NextOffset": following, "SpotPrices": {"SpotPriceType": page}}

    def _describe_spot_advice(self, region: str, asked: Mapping[str, str]) -> Answer:
        _require(asked, "RegionId")
        rows = [row for row in self._here(region) if row["charge"] == "SpotAsPriceGo"]
        return {"RegionId": region, "AvailableSpotZones": {"AvailableSpotZone": alibaba_rows.advice(rows)}}

    def _here(self, region: str) -> list[Row]:
        return [row for row in self._world.rows("alibaba") if row["region"] == region and not row["gone"]]

    def _of_type(self, region: str, asked: Mapping[str, str]) -> list[Row]:
        return [row for row in self._here(region) if row["type"] == asked["InstanceType"]]


def _charge(asked: Mapping[str, str]) -> str:
    if asked.get("InstanceChargeType") == "PrePaid":
        return "PrePaid"
    return "SpotAsPriceGo" if asked.get("SpotStrategy", "NoSpot") != "NoSpot" else "PostPaid"


def _require(asked: Mapping[str, str], *names: str) -> None:
    for name in names:
        if not asked.get(name):
            raise Refused(400, f"Missing{name}", f"{name} is mandatory for this action.")


def _reply(status: int, answer: Answer) -> Reply:
    body = json.dumps({"RequestId": str(uuid4()).upper(), **answer}, ensure_ascii=False).encode()
    return Reply(status, body, "application/json;charset=utf-8", compressible=True)
