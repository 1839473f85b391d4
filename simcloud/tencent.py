"""Tencent Cloud API 3.0: `cvm` and `region` on one port, signatures verified."""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any
from uuid import uuid4

from simcloud import tencent_rows
from simcloud.tc3 import Authorization, Refused, verify
from simcloud.wire import Reply, Request
from simcloud.world import Identity, Row, World

OPTIONS = {
    "secret_id": "simcloud",
    "secret_key": "simcloud",
    "site": "cn",  # what the account is; decides what currency the prices are in
    "any_credentials": False,  # any secret id, as long as it signs with `secret_key`
    "rate_limit_per_s": 0,  # requests of one action to one region within a second; 0: no limit
    "content_type": "application/json",  # the real one; with "; charset=utf-8" the SDK overlooks errors
}
_SERVICES = {"2022-06-27": "region", "2017-03-12": "cvm"}
_FILTERS = {
    "zone": "zone",
    "instance-family": "family",
    "instance-type": "type",
    "instance-charge-type": "charge",
    "sort-keys": None,
}


class Tencent:
    """The answers of `[tencent]` in a scenario."""

    name = "tencent"

    def __init__(self, world: World) -> None:
        table = world.scenario.providers["tencent"]
        self._world = world
        self._regions: dict[str, Mapping[str, Any]] = {region["id"]: region for region in table["region"]}
        self._recent: dict[tuple[str, str], deque[float]] = {}
        self._lock = Lock()
        world.add("tencent", tencent_rows.expand(table), OPTIONS | table.get("options", {}), tencent_rows.LEVELS)

    @property
    def _options(self) -> Mapping[str, Any]:
        return self._world.options["tencent"]

    def identify(self, request: Request) -> Identity:
        """Return action, region, the charge types asked for as `part`, and the secret id."""
        claim = Authorization.read(request.headers.get("authorization", ""))
        return {
            "action": request.headers.get("x-tc-action", ""),
            "region": request.headers.get("x-tc-region", ""),
            "part": ",".join(_filters(_body(request)).get("instance-charge-type", [])),
            "credential": claim.secret_id if claim else "",
        }

    def answer(self, request: Request, skew_s: int) -> Reply:
        """Answer one action, or refuse it in a body of HTTP 200, as Tencent does."""
        try:
            return self._reply(self._act(request, skew_s))
        except Refused as refusal:
            return self.failure(200, refusal.code, refusal.message)

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return an error: the API's own in HTTP 200, any other status as its gateway's page."""
        if status != 200:
            return Reply(status, f"<html><body><h1>{status}</h1></body></html>".encode(), "text/html")
        return self._reply({"Error": {"Code": code, "Message": message}})

    def environment(self, url: str) -> dict[str, str]:
        """Return site, endpoints and credentials."""
        return {
            "GPUFARE_PROVIDERS__TENCENT__SITE": self._options["site"],
            "GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__CVM": url,
            "GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__REGION": url,
            "TENCENTCLOUD_SECRET_ID": self._options["secret_id"],
            "TENCENTCLOUD_SECRET_KEY": self._options["secret_key"],
        }

    def _reply(self, response: Mapping[str, Any]) -> Reply:
        body = json.dumps({"Response": {**response, "RequestId": str(uuid4())}}, ensure_ascii=False).encode()
        return Reply(200, body, self._options["content_type"])

    def _act(self, request: Request, skew_s: int) -> Mapping[str, Any]:
        headers = request.headers
        action, region = headers.get("x-tc-action", ""), headers.get("x-tc-region", "")
        service = _SERVICES.get(headers.get("x-tc-version", ""))
        if service is None:
            raise Refused("NoSuchVersion", "The request version does not exist.")
        self._admit(request, service, skew_s)
        actions = self._region_actions if service == "region" else self._cvm_actions
        if action not in actions:
            raise Refused("InvalidAction", f"The request action `{action}` is invalid.")
        self._throttle(action, region)
        if service == "cvm":
            self._check_region(region)
        return actions[action](region, _body(request))

    def _admit(self, request: Request, service: str, skew_s: int) -> None:
        claim = Authorization.read(request.headers.get("authorization", ""))
        if claim is None:
            raise Refused("AuthFailure.InvalidAuthorization", "The request header `Authorization` is invalid.")
        if claim.secret_id != self._options["secret_id"] and not self._options["any_credentials"]:
            raise Refused("AuthFailure.SecretIdNotFound", "The SecretId is not found, please ensure it is correct.")
        if claim.service != service:
            message = f"The credential scope is for `{claim.service}`, the request for `{service}`."
            raise Refused("AuthFailure.SignatureFailure", message)
        now = datetime.now(UTC) + timedelta(seconds=skew_s)
        verify(claim, request.headers, request.body, self._options["secret_key"], now)

    def _throttle(self, action: str, region: str) -> None:
        limit, now_s = self._options["rate_limit_per_s"], time.monotonic()
        with self._lock:
            recent = self._recent.setdefault((action, region), deque())
            while recent and recent[0] <= now_s - 1:
                recent.popleft()
            if limit and len(recent) >= limit:
                message = f"Your current request times exceed the limit of {limit} times per second."
                raise Refused("RequestLimitExceeded", message)
            recent.append(now_s)

    def _check_region(self, region: str) -> None:
        if not region:
            raise Refused("MissingParameter", "The request is missing the required parameter `Region`.")
        if region not in self._regions:
            raise Refused("InvalidRegion.NotFound", f"The region `{region}` does not exist.")
        if self._regions[region].get("unsupported", False):
            raise Refused("UnsupportedRegion", f"Unsupported region: `{region}`.")

    @property
    def _region_actions(self) -> Mapping[str, Callable[[str, Mapping[str, Any]], Mapping[str, Any]]]:
        return {"DescribeRegions": self._describe_regions}

    @property
    def _cvm_actions(self) -> Mapping[str, Callable[[str, Mapping[str, Any]], Mapping[str, Any]]]:
        return {
            "DescribeZones": self._describe_zones,
            "DescribeZoneInstanceConfigInfos": self._describe_zone_instance_config_infos,
            "DescribeInstanceTypeConfigs": self._describe_instance_type_configs,
        }

    def _describe_regions(self, _region: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if asked.get("Product") != "cvm":
            raise Refused("InvalidParameterValue", f"The product `{asked.get('Product')}` is not simulated.")
        unused = dict.fromkeys(("RegionTypeMC", "LocationMC", "RegionNameMC", "RegionIdMC"))
        regions = [
            {"Region": region["id"], "RegionName": region["name"], "RegionState": "AVAILABLE", **unused}
            for region in self._regions.values()
        ]
        return {"TotalCount": len(regions), "RegionSet": regions}

    def _describe_zones(self, region: str, _asked: Mapping[str, Any]) -> Mapping[str, Any]:
        zones = [
            {"Zone": zone, "ZoneName": name, "ZoneId": zone_id, "ZoneState": "AVAILABLE"}
            for zone, name, zone_id in self._regions[region]["zones"]
        ]
        return {"TotalCount": len(zones), "ZoneSet": zones}

    def _describe_zone_instance_config_infos(self, region: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        rows = self._selected(region, _filters(asked), most_values=100)
        return {"InstanceTypeQuotaSet": [tencent_rows.quota_item(row) for row in rows]}

    def _describe_instance_type_configs(self, region: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        rows = self._selected(region, _filters(asked), most_values=1)
        machines = {(row["zone"], row["type"]): row for row in rows}
        return {"InstanceTypeConfigSet": [tencent_rows.type_config(row) for row in machines.values()]}

    def _selected(self, region: str, filters: Mapping[str, list[str]], most_values: int) -> list[Row]:
        for name, values in filters.items():
            if name not in _FILTERS:
                raise Refused("InvalidFilter", f"The filter `{name}` is not supported.")
            if len(values) > most_values:
                raise Refused("InvalidFilterValue.LimitExceeded", f"The filter `{name}` has over {most_values} values.")
        wanted = {key: values for name, values in filters.items() if (key := _FILTERS[name])}
        rows = (row for row in self._world.rows("tencent") if row["region"] == region and not row["gone"])
        return [row for row in rows if all(row[key] in values for key, values in wanted.items())]


def _body(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _filters(asked: Mapping[str, Any]) -> dict[str, list[str]]:
    return {entry["Name"]: list(entry.get("Values") or []) for entry in asked.get("Filters") or []}
