"""UCloud's API: every action on one port by its `Action`, signatures verified, errors in HTTP 200."""

import hashlib
import hmac
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl

from simcloud import ucloud_rows
from simcloud.wire import Reply, Request
from simcloud.world import Identity, Row, World

OPTIONS = {
    "public_key": "simcloud",
    "private_key": "simcloud",
    "project": "org-simcloud",
    "any_credentials": False,  # any public key, as long as it signs with `private_key`
    "rate_limit_per_s": 0,  # requests of one action within a second; 0: no limit
    "update_lag_s": 60,  # how old CompShare's counts are
}
_UNSIGNED = {"Signature"}
_Params = Mapping[str, str]


class Refused(Exception):
    """The request is refused; `code` is UCloud's return code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def signature(params: _Params, private_key: str) -> str:
    """Return what `Signature` should be: SHA-1 of every name and value in order of the names, and the private key."""
    signed = "".join(f"{name}{params[name]}" for name in sorted(params.keys() - _UNSIGNED))
    return hashlib.sha1(f"{signed}{private_key}".encode()).hexdigest()  # noqa: S324 - UCloud's own choice


class UCloud:
    """The answers of `[ucloud]` in a scenario."""

    name = "ucloud"

    def __init__(self, world: World) -> None:
        table = world.scenario.providers["ucloud"]
        self._world = world
        self._regions: dict[str, Mapping[str, Any]] = {region["id"]: region for region in table["region"]}
        self._numbers = {zone[0]: zone[1] for region in table["region"] for zone in region["zones"]}
        self._recent: dict[str, deque[float]] = {}
        self._lock = Lock()
        world.add("ucloud", ucloud_rows.expand(table), OPTIONS | table.get("options", {}), ucloud_rows.LEVELS)

    @property
    def _options(self) -> Mapping[str, Any]:
        return self._world.options["ucloud"]

    def identify(self, request: Request) -> Identity:
        """Return action, region, the GPU type asked about as `part`, and the public key."""
        asked = _params(request)
        names = {"action": "Action", "region": "Region", "part": "GpuType", "credential": "PublicKey"}
        return {key: asked.get(name, "") for key, name in names.items()}

    def answer(self, request: Request, skew_s: int) -> Reply:  # noqa: ARG002 - a signature of UCloud's has no time
        """Answer one action, or refuse it in a body of HTTP 200, as UCloud does."""
        asked = _params(request)
        try:
            return _reply(asked.get("Action", ""), {"RetCode": 0, **self._act(asked)})
        except Refused as refusal:
            return _reply(asked.get("Action", ""), {"RetCode": refusal.code, "Message": refusal.message})

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return an error: the API's own in HTTP 200 (its code a number, else 150), any other status as a page."""
        if status != 200:
            return Reply(status, f"<html><body><h1>{status}</h1></body></html>".encode(), "text/html")
        return _reply("", {"RetCode": int(code) if code.isdecimal() else 150, "Message": message})

    def environment(self, url: str) -> dict[str, str]:
        """Return endpoint and credentials."""
        return {
            "GPUFARE_PROVIDERS__UCLOUD__ENDPOINTS__API": url,
            "UCLOUD_PUBLIC_KEY": self._options["public_key"],
            "UCLOUD_PRIVATE_KEY": self._options["private_key"],
            "UCLOUD_PROJECT_ID": self._options["project"],
        }

    def _act(self, asked: _Params) -> Mapping[str, Any]:
        action = asked.get("Action", "")
        if not action:
            raise Refused(160, "Missing Action")
        if action not in self._actions:
            raise Refused(161, f"Action [{action}] not exist")
        self._admit(asked)
        self._throttle(action)
        if asked.get("ProjectId", self._options["project"]) != self._options["project"]:
            raise Refused(292, "Project not exist")
        return self._actions[action](asked)

    def _admit(self, asked: _Params) -> None:
        if "Signature" not in asked:
            raise Refused(170, "Missing signature")
        if asked.get("PublicKey") != self._options["public_key"] and not self._options["any_credentials"]:
            raise Refused(172, "User not found")
        if not hmac.compare_digest(signature(asked, self._options["private_key"]), asked["Signature"]):
            raise Refused(171, "Signature VerifyAC Error")

    def _throttle(self, action: str) -> None:
        limit, now_s = self._options["rate_limit_per_s"], time.monotonic()
        with self._lock:
            recent = self._recent.setdefault(action, deque())
            while recent and recent[0] <= now_s - 1:
                recent.popleft()
            if limit and len(recent) >= limit:
                raise Refused(153, "Request too frequently")
            recent.append(now_s)

    @property
    def _actions(self) -> Mapping[str, Callable[[_Params], Mapping[str, Any]]]:
        return {
            "GetRegion": self._get_region,
            "GetProjectList": self._get_project_list,
            "DescribeAvailableInstanceTypes": self._describe_available_instance_types,
            "GetUHostInstancePrice": self._get_uhost_instance_price,
            "DescribeCompShareSupportZone": self._describe_comp_share_support_zone,
            "DescribeCompShareGpuInventory": self._describe_comp_share_gpu_inventory,
            "GetCompShareInstancePrice": self._get_comp_share_instance_price,
        }

    def _get_region(self, _asked: _Params) -> Mapping[str, Any]:
        rows = [
            {
                "RegionId": region["number"],
                "RegionName": region["name"],
                "IsDefault": False,
                "BitMaps": "1",
                "Region": region["id"],
                "Zone": zone[0],
            }
            for region in self._regions.values()
            for zone in region["zones"]
        ]
        return {"Regions": [row | {"IsDefault": at == 0} for at, row in enumerate(rows)]}

    def _get_project_list(self, _asked: _Params) -> Mapping[str, Any]:
        counts = {"MemberCount": 1, "ResourceCount": 0, "CreateTime": 1700000000, "ParentId": "", "ParentName": ""}
        project = {"ProjectId": self._options["project"], "ProjectName": "Default", "IsDefault": True}
        return {"ProjectCount": 1, "ProjectSet": [project | counts]}

    def _describe_available_instance_types(self, asked: _Params) -> Mapping[str, Any]:
        region, zone = self._region(asked), asked.get("Zone")
        rows = [row for row in self._rows("type", region) if zone in (None, row["zone"])]
        return {"Status": "Normal", "AvailableInstanceTypes": [ucloud_rows.available_type(row) for row in rows]}

    def _get_uhost_instance_price(self, asked: _Params) -> Mapping[str, Any]:
        cards, vcpus, memory_mb = (_number(asked, name) for name in ("GPU", "CPU", "Memory"))
        if _number(asked, "Count") < 1 or asked.get("MachineType") != "G":
            raise Refused(230, "Params [MachineType] not available")
        if "Disks.0.Size" not in asked and "ImageId" not in asked:
            raise Refused(8066, "Invalid disk size")
        rows = [row for row in self._rows("type", self._region(asked)) if row["type"] == asked.get("GpuType")]
        hour = ucloud_rows.hour_price(rows, cards, vcpus, memory_mb // 1024)
        if hour is None:
            raise Refused(8064, "Invalid CPU size")
        spot = next((row["model"]["spot_percent"] for row in rows if row["instance"] == "spot"), None)
        detailed = asked.get("ShowPriceDetails") == "true"
        return {"PriceSet": ucloud_rows.price_set(hour, spot, asked.get("ChargeType", ""), detailed=detailed)}

    def _describe_comp_share_support_zone(self, asked: _Params) -> Mapping[str, Any]:
        self._region(asked)
        sold = {row["zone"] for row in self._world.rows("ucloud") if row["kind"] == "card"}
        zones = [
            {"Region": region, "RegionId": one["number"], "Zone": zone, "ZoneId": number, "Describe": name}
            for region, one in self._regions.items()
            for zone, number, name in one["zones"]
            if zone in sold
        ]
        return {"ZoneInfo": zones}

    def _describe_comp_share_gpu_inventory(self, asked: _Params) -> Mapping[str, Any]:
        self._region(asked)
        rows = [row for row in self._world.rows("ucloud") if row["kind"] == "card" and not row["gone"]]
        spot = {row["type"] for row in rows if row["pool"] == "Spot"}
        return {
            "UpdateTime": int(time.time()) - self._options["update_lag_s"],
            "SpotUnsupportedGpuTypes": sorted({row["type"] for row in rows} - spot),
            "GpuInventoryByZone": ucloud_rows.gpu_inventory(rows, self._numbers),
        }

    def _get_comp_share_instance_price(self, asked: _Params) -> Mapping[str, Any]:
        region, charge = self._region(asked), asked.get("ChargeType", "Month")
        found = [row for row in self._rows("card", region) if row["type"] == asked.get("GpuType")]
        rows = [row for row in found if row["zone"] == asked.get("Zone")]
        if not rows or charge not in ("Dynamic", "Month", "Year"):
            raise Refused(230, "Params [GpuType] not available")
        return ucloud_rows.card_prices(rows[0], charge)

    def _region(self, asked: _Params) -> str:
        region = asked.get("Region", "")
        if region not in self._regions:
            raise Refused(230, "Params [Region] not available")
        return region

    def _rows(self, kind: str, region: str) -> list[Row]:
        rows = self._world.rows("ucloud")
        return [row for row in rows if row["kind"] == kind and row["region"] == region and not row["gone"]]


def _number(asked: _Params, name: str) -> int:
    if not asked.get(name, "").isdecimal():
        raise Refused(230, f"Params [{name}] not available")
    return int(asked[name])


def _params(request: Request) -> _Params:
    return dict(parse_qsl(request.body.decode(errors="replace"), keep_blank_values=True))


def _reply(action: str, said: Mapping[str, Any]) -> Reply:
    body = json.dumps({"Action": f"{action}Response", **said}, ensure_ascii=False).encode()
    return Reply(200, body, "application/json")
