"""Google Cloud on one port: Compute Engine v1 and the Cloud Billing catalogue. The key or token is checked."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simcloud import gcp_rows
from simcloud.wire import Reply, Request
from simcloud.world import Identity, Row, World

OPTIONS: Mapping[str, Any] = {
    "api_key": "simcloud",
    "access_token": "simcloud-token",
    "any_credentials": False,  # any key or token that is not empty
    "page_size": 500,  # the most records in one page
    "may_list_regions": True,  # false: without the right to
}
_COMPUTE = re.compile(r"/compute/v1/projects/([^/]+)/(.+)")
_ADVICE = re.compile(r"regions/([^/]+)/advice/(capacity|calendarMode)")
_SKUS = "/v1/services/6F81-5844-456A/skus"
_STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_STATUSES |= {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}


class Refused(Exception):
    """An error of Google's."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Gcp:
    """The answers of `[gcp]` in a scenario."""

    name = "gcp"

    def __init__(self, world: World) -> None:
        table = world.scenario.providers["gcp"]
        self._world = world
        self._regions: Sequence[Mapping[str, Any]] = table["region"]
        world.add("gcp", gcp_rows.expand(table), {**OPTIONS, **table.get("options", {})})

    @property
    def _options(self) -> Mapping[str, Any]:
        return self._world.options["gcp"]

    def identify(self, request: Request) -> Identity:
        """Return the method's name, the region that advice is about, and the key or token."""
        found = _COMPUTE.fullmatch(request.path)
        advice = _ADVICE.fullmatch(found[2]) if found else None
        action = f"advice.{advice[2]}" if advice else found[2] if found else request.path
        credential = _credential(request)
        action = "skus.list" if request.path == _SKUS else action
        return {"action": action, "region": advice[1] if advice else "", "part": "", "credential": credential}

    def answer(self, request: Request, skew_s: int) -> Reply:  # noqa: ARG002 - nothing here is signed
        """Answer one call, or refuse it."""
        try:
            self._admit(request)
            return _json(200, self._act(request))
        except Refused as refusal:
            return self.failure(refusal.status, refusal.reason, refusal.message)

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return an error with `code` as its reason; 200 stands for 400, as Google puts no error into a success."""
        status = 400 if status == 200 else status
        error = {
            "code": status,
            "message": message,
            "errors": [{"message": message, "domain": "usageLimits", "reason": code}],
            "status": _STATUSES.get(status, "INTERNAL"),
        }
        return _json(status, {"error": error})

    def environment(self, url: str) -> dict[str, str]:
        """Return endpoints and an API key, which is enough on loopback."""
        services = {f"GPUFARE_PROVIDERS__GCP__ENDPOINTS__{name}": url for name in ("COMPUTE", "BILLING")}
        return services | {"GOOGLE_API_KEY": self._options["api_key"], "GOOGLE_CLOUD_PROJECT": "simcloud"}

    def _admit(self, request: Request) -> None:
        said, options = _credential(request), self._options
        if said in (options["api_key"], options["access_token"]) or (said and options["any_credentials"]):
            return
        if request.headers.get("x-goog-api-key"):
            raise Refused(400, "API_KEY_INVALID", "API key not valid. Please pass a valid API key.")
        raise Refused(401, "authError", "Request had invalid authentication credentials.")

    def _act(self, request: Request) -> Mapping[str, Any]:
        if request.path == _SKUS:
            return self._skus(request)
        found = _COMPUTE.fullmatch(request.path)
        if found is None:
            raise Refused(404, "notFound", f"nothing at {request.path}")
        if advice := _ADVICE.fullmatch(found[2]):
            asked = json.loads(request.body or b"{}")
            return (self._capacity if advice[2] == "capacity" else self._calendar)(advice[1], asked)
        lists: dict[str, Callable[[Request, str], Mapping[str, Any]]] = {
            "regions": self._region_list,
            "zones": self._zone_list,
            "aggregated/machineTypes": self._machine_types,
            "aggregated/acceleratorTypes": self._accelerator_types,
        }
        if found[2] not in lists:
            raise Refused(404, "notFound", f"nothing at {request.path}")
        return lists[found[2]](request, found[1])

    def _rows(self, kind: str) -> list[Row]:
        return [row for row in self._world.rows("gcp") if row["kind"] == kind and not row["gone"]]

    def _page(self, records: Sequence[Any], request: Request, asked: str) -> tuple[Sequence[Any], Mapping[str, str]]:
        """Return the records of the page that is asked for, and what leads to the next one."""
        size = min(int(request.query.get(asked, self._options["page_size"])), self._options["page_size"])
        start = int(request.query.get("pageToken") or 0)
        more = {"nextPageToken": str(start + size)} if start + size < len(records) else {}
        return records[start : start + size], more

    def _region_list(self, request: Request, project: str) -> Mapping[str, Any]:
        if not self._options["may_list_regions"]:
            raise Refused(403, "forbidden", f"Required 'compute.regions.list' permission for 'projects/{project}'")
        base = f"https://www.googleapis.com/compute/v1/projects/{project}"
        quotas: dict[str, list[Any]] = {}
        for row in self._rows("quota"):
            quotas.setdefault(row["region"], []).append(gcp_rows.quota(row))
        regions = [
            {
                "kind": "compute#region",
                "name": region["id"],
                "description": region["id"],
                "status": "UP",
                "zones": [f"{base}/zones/{region['id']}-{letter}" for letter in region["zones"]],
                "quotas": quotas.get(region["id"], []),
            }
            for region in self._regions
        ]
        found, more = self._page(regions, request, "maxResults")
        return {"kind": "compute#regionList", "items": found, **more}

    def _zone_list(self, request: Request, project: str) -> Mapping[str, Any]:
        base = f"https://www.googleapis.com/compute/v1/projects/{project}"
        zones = [
            {
                "kind": "compute#zone",
                "name": row["zone"],
                "description": row["zone"],
                "status": row["status"],
                "region": f"{base}/regions/{row['region']}",
            }
            for row in self._rows("zone")
        ]
        found, more = self._page(zones, request, "maxResults")
        return {"kind": "compute#zoneList", "items": found, **more}

    def _machine_types(self, request: Request, _project: str) -> Mapping[str, Any]:
        rows = [(row["zone"], gcp_rows.machine_type(row)) for row in self._rows("machine")]
        return self._aggregated(request, "machineTypes", rows)

    def _accelerator_types(self, request: Request, _project: str) -> Mapping[str, Any]:
        held: dict[tuple[str, str], int] = {}
        for row in self._rows("machine"):
            key = (row["zone"], row["accelerator"])
            held[key] = max(held.get(key, 0), row["cards"])
        held |= {(row["zone"], row["accelerator"]): row["most"] for row in self._rows("card")}
        found = [(zone, gcp_rows.accelerator_type(name, zone, most)) for (zone, name), most in held.items() if name]
        return self._aggregated(request, "acceleratorTypes", found)

    def _aggregated(self, request: Request, listed: str, found: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
        zones = {row["zone"]: row["warning"] for row in self._rows("zone")}
        told = [one for one in found if not zones[one[0]]]
        page, more = self._page(told, request, "maxResults")
        items: dict[str, Any] = {}
        for zone, warning in zones.items():
            here = [item for at, item in page if at == zone]
            code = warning or "NO_RESULTS_ON_PAGE"
            told_of = {"code": code, "message": f"{code} of scope 'zones/{zone}'", "data": [{"key": "scope"}]}
            items[f"zones/{zone}"] = {listed: here} if here else {"warning": told_of}
        return {"kind": f"compute#{listed[:-1]}AggregatedList", "items": items, **more}

    def _skus(self, request: Request) -> Mapping[str, Any]:
        found, more = self._page([gcp_rows.sku(row) for row in self._rows("sku")], request, "pageSize")
        return {"skus": found, "nextPageToken": more.get("nextPageToken", "")}

    def _of_type(self, region: str, machine: str) -> list[Row]:
        rows = [row for row in self._rows("machine") if row["region"] == region and row["type"] == machine]
        if not rows:
            raise Refused(400, "invalid", f"Machine type {machine} is not available in {region}.")
        return rows

    def _capacity(self, region: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        (selection,) = asked["instanceFlexibilityPolicy"]["instanceSelections"].values()
        (machine,) = selection["machineTypes"]
        zones = {one["zone"].rpartition("/")[2] for one in asked["distributionPolicy"]["zones"]}
        return {
            "recommendations": [
                {
                    "scores": {"obtainability": float(row["obtainability"]), "estimatedUptime": "3600s"},
                    "shards": [
                        {
                            "instanceCount": asked["size"],
                            "machineType": machine,
                            "provisioningModel": "SPOT",
                            "zone": f"https://www.googleapis.com/compute/v1/projects/simcloud/zones/{row['zone']}",
                        }
                    ],
                }
                for row in self._of_type(region, machine)
                if row["zone"] in zones
            ]
        }

    def _calendar(self, region: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        ((name, spec),) = asked["futureResourcesSpecs"].items()
        first, *others = self._of_type(region, spec["targetResources"]["specificSkuResources"]["machineType"])
        advice = {
            "recommendationType": "FUTURE_RESERVATION",
            "location": f"zones/{first['zone']}",
            "startTime": spec["timeRangeSpec"]["startTimeNotEarlierThan"],
            "endTime": spec["timeRangeSpec"]["startTimeNotLaterThan"],
            "otherLocations": {f"zones/{row['zone']}": {"status": "NO_CAPACITY"} for row in others},
        }
        return {"recommendations": [{"recommendationsPerSpec": {name: advice}}]}


def _credential(request: Request) -> str:
    return request.headers.get("x-goog-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")


def _json(status: int, value: Any) -> Reply:
    return Reply(status, json.dumps(value).encode(), "application/json; charset=UTF-8", compressible=True)
