"""Azure on one port: tokens, Resource Manager, the public retail prices, and Azure China's price sheet."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlencode

from simcloud import azure_rows
from simcloud.wire import Reply, Request
from simcloud.world import Identity, Row, World

OPTIONS: Mapping[str, Any] = {
    "tenant_id": "11111111-1111-1111-1111-111111111111",
    "client_id": "22222222-2222-2222-2222-222222222222",
    "client_secret": "simcloud",
    "subscription_id": "00000000-0000-0000-0000-000000000000",
    "any_credentials": False,  # any secret that is not empty
    "any_token": False,  # any bearer token, issued here or not
    "site": "",  # cn: what `environment` says
    "retail_page": 100,  # items a page: 1000 with the real one
    "sku_page": 10,
    "usage_page": 100,
    "scores_per_hour": 0,  # answers in a scenario's hour; 0: no limit. Some four with the real one
    "regional_cores": 10000,
    "spot_cores": 1000,
    "spot_cores_used": 0,
    "may_read_usages": True,  # false: without the right to
}
_SCOPES = {"https://management.azure.com/.default": False, "https://management.chinacloudapi.cn/.default": True}
"""Scope of a token -> whether it is for China."""
_STATUSES = {"InvalidAuthenticationToken": 401, "AuthorizationFailed": 403, "SubscriptionRequestsThrottled": 429}
_CODES = {status: code for code, status in _STATUSES.items()}
_TOKEN = re.compile(r"/([^/]+)/oauth2/v2\.0/token")
_SUBSCRIPTION = re.compile(r"/subscriptions/([^/]+)/(.*)")
_USAGES = re.compile(r"providers/Microsoft\.Compute/locations/([^/]+)/usages")
_SCORES = re.compile(r"providers/Microsoft\.Compute/locations/([^/]+)/placementScores/spot/generate")
_SHEET = "/api/retail/pricesheet/download"
_FILE = "/retailpricesasync/AzureRetailPrices.csv"
_EQUALS = re.compile(r"(\w+) eq '([^']*)'")
_CONTAINS = re.compile(r"contains\((\w+), ?'([^']*)'\)")


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Azure:
    """The answers of `[azure]` in a scenario."""

    name = "azure"

    def __init__(self, world: World) -> None:
        table = world.scenario.providers["azure"]
        self._world = world
        self._regions: dict[str, Mapping[str, Any]] = {region["id"]: region for region in table["region"]}
        self._tokens: dict[str, bool] = {}
        self._scored_at: list[float] = []
        self._lock = Lock()
        world.add("azure", azure_rows.expand(table), {**OPTIONS, **table.get("options", {})})

    @property
    def _options(self) -> Mapping[str, Any]:
        return self._world.options["azure"]

    def identify(self, request: Request) -> Identity:
        """Return the action, the region asked about, and the bearer token or the client's id."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        action, region = self._named(request)
        client = "".join(_form(request).get("client_id", [])) if action == "token" else bearer
        return {"action": action, "region": region, "part": "", "credential": client}

    def _named(self, request: Request) -> tuple[str, str]:
        public = {"/api/retail/prices": "retail_prices", _SHEET: "price_sheet", _FILE: "price_file"}
        wanted = request.query.get("$filter", "")
        if request.path in public:
            return public[request.path], dict(_EQUALS.findall(wanted)).get("armRegionName", "")
        if _TOKEN.fullmatch(request.path):
            return "token", ""
        below = _SUBSCRIPTION.fullmatch(request.path)
        path = below[2] if below else ""
        for action, pattern in (("usages", _USAGES), ("scores", _SCORES)):
            if found := pattern.fullmatch(path):
                return action, found[1]
        known = {"locations": "locations", "providers/Microsoft.Compute/skus": "skus"}
        return known.get(path, request.path), dict(_EQUALS.findall(wanted)).get("location", "")

    def answer(self, request: Request, skew_s: int) -> Reply:  # noqa: ARG002 - nothing is signed
        """Answer one call, or refuse it in Resource Manager's form."""
        action, region = self._named(request)
        public: Mapping[str, Callable[[Request], Reply]] = {
            "token": self._token,
            "retail_prices": self._retail_prices,
            "price_sheet": self._price_sheet,
            "price_file": self._price_file,
        }
        try:
            if action in public:
                return public[action](request)
            return self._managed(request, action, region, china=self._admit(request))
        except _Refused as refusal:
            return _error(refusal.status, refusal.code, refusal.message)

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return Resource Manager's error; 200 stands for the status of the code, as it puts none into a success."""
        if status == 200:
            return _error(_STATUSES.get(code, 400), code, message)
        return _error(status, _CODES.get(status, code), message)

    def environment(self, url: str) -> dict[str, str]:
        """Return endpoints, site and credentials."""
        services = {f"GPUFARE_PROVIDERS__AZURE__ENDPOINTS__{one}": url for one in ("MANAGEMENT", "RETAIL", "LOGIN")}
        site = {"GPUFARE_PROVIDERS__AZURE__SITE": self._options["site"]} if self._options["site"] else {}
        keys = ("client_id", "tenant_id", "client_secret", "subscription_id")
        return services | site | {f"AZURE_{key.upper()}": str(self._options[key]) for key in keys}

    def _token(self, request: Request) -> Reply:
        form = {name: values[0] for name, values in _form(request).items()}
        found = _TOKEN.fullmatch(request.path)
        known = found is not None and found[1] == self._options["tenant_id"]
        if (
            request.method != "POST"
            or form.get("grant_type") != "client_credentials"
            or form.get("scope") not in _SCOPES
        ):
            return _json({"error": "invalid_request", "error_description": "AADSTS900144: The request is wrong."}, 400)
        secret = form.get("client_secret", "")
        if not known or form.get("client_id") != self._options["client_id"]:
            return _json({"error": "unauthorized_client", "error_description": "AADSTS700016: No such client."}, 400)
        if secret != self._options["client_secret"] and not (secret and self._options["any_credentials"]):
            said = {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}
            return _json(said, 401)
        with self._lock:
            token = hashlib.sha256(f"{len(self._tokens)} {form['scope']}".encode()).hexdigest()
            self._tokens[token] = _SCOPES[form["scope"]]
        return _json({"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": token})

    def _admit(self, request: Request) -> bool:
        """Return whether the token is for China."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        below = _SUBSCRIPTION.fullmatch(request.path)
        with self._lock:
            china = self._tokens.get(token)
        if china is None and not (token and self._options["any_token"]):
            raise _Refused(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if below is None or below[1] != self._options["subscription_id"]:
            raise _Refused(404, "SubscriptionNotFound", "The subscription could not be found.")
        return bool(china)

    def _managed(self, request: Request, action: str, region: str, *, china: bool) -> Reply:
        if "api-version" not in request.query:
            raise _Refused(400, "MissingApiVersionParameter", "The api-version query parameter is required.")
        if action == "locations":
            there = [one for one in self._regions.values() if one.get("china", False) == china]
            return _json({"value": [*map(_location, there), _logical("global")]})
        if action == "scores":
            return self._scores(request, china=china)
        rows = [row for row in self._rows(china=china) if row["region"] == region.casefold()]
        if action == "skus":
            return self._skus(request, rows, region)
        if action == "usages":
            return self._usages(request, rows)
        raise _Refused(404, "InvalidResourceType", f"{request.path} is not simulated.")

    def _rows(self, *, china: bool) -> list[Row]:
        rows = (row for row in self._world.rows("azure") if not row["gone"])
        return [row for row in rows if row["place"].get("china", False) == china]

    def _skus(self, request: Request, rows: list[Row], region: str) -> Reply:
        everything = [azure_rows.disk(region), *map(azure_rows.sku, rows)] if rows else []
        return self._paged(request, everything, "sku_page")

    def _usages(self, request: Request, rows: Iterable[Row]) -> Reply:
        if not self._options["may_read_usages"]:
            said = "The client does not have authorization to perform action 'Microsoft.Compute/locations/usages/read'"
            raise _Refused(403, "AuthorizationFailed", f"{said} over scope '{request.path}'.")
        return self._paged(request, azure_rows.usages(rows, self._options), "usage_page")

    def _paged(self, request: Request, everything: Sequence[Mapping[str, Any]], page: str) -> Reply:
        start, size = int(request.query.get("$skiptoken", "0")), self._options[page]
        answer: dict[str, Any] = {"value": everything[start : start + size]}
        if start + size < len(everything):
            answer["nextLink"] = _link(request, "$skiptoken", start + size)
        return _json(answer)

    def _scores(self, request: Request, *, china: bool) -> Reply:
        self._budget()
        asked = json.loads(request.body)
        regions, sizes = asked["desiredLocations"], [one["sku"] for one in asked["desiredSizes"]]
        if not (0 < len(regions) <= 8 and 0 < len(sizes) <= 5):
            raise _Refused(400, "InvalidParameter", "Up to 8 regions and 5 sizes can be asked about.")
        there = {(row["region"], row["type"]): row for row in self._rows(china=china)}
        scores = [
            score for region in regions for size in sizes for score in _scored(region, size, there.get((region, size)))
        ]
        return _json({**asked, "placementScores": scores})

    def _budget(self) -> None:
        limit, now_s = self._options["scores_per_hour"], self._world.clock.elapsed_s()
        with self._lock:
            self._scored_at = [at for at in self._scored_at if at > now_s - 3600]
            if limit and len(self._scored_at) >= limit:
                raise _Refused(429, "TooManyRequests", "The limit of placement scores is reached.")
            self._scored_at.append(now_s)

    def _retail_prices(self, request: Request) -> Reply:
        wanted = request.query.get("$filter", "")
        equal, part = dict(_EQUALS.findall(wanted)), dict(_CONTAINS.findall(wanted))
        found = [
            item
            for row in self._rows(china=False)
            for item in azure_rows.items(row)
            if all(item.get(name) == value for name, value in equal.items())  # by case, as the real one
            and all(value in str(item.get(name)) for name, value in part.items())
        ]
        start, size = int(request.query.get("$skip", "0")), self._options["retail_page"]
        page = found[start : start + size]
        return _json(
            {
                "BillingCurrency": "USD",
                "CustomerEntityId": "Default",
                "CustomerEntityType": "Retail",
                "Items": page,
                "NextPageLink": _link(request, "$skip", start + size) if start + size < len(found) else None,
                "Count": len(page),
            }
        )

    def _price_sheet(self, request: Request) -> Reply:
        link = f"http://{request.headers.get('host', '')}{_FILE}?sig=simcloud"
        return _json(
            {"DownloadUrl": link, "LastRefreshedAt": "2026-11-30T04:00:00Z", "ExpiryTime": "2026-12-30T04:00:00Z"}
        )

    def _price_file(self, request: Request) -> Reply:
        if request.query.get("sig") != "simcloud":
            return Reply(403, b"<Error><Code>AuthenticationFailed</Code></Error>", "application/xml")
        items = [item for row in self._rows(china=True) for item in azure_rows.items(row)]
        out = io.StringIO()
        columns = [name for name in items[0] if name != "savingsPlan"] + ["reservationTerm"]
        writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(items)
        return Reply(200, out.getvalue().encode("utf-8-sig"), "text/csv", compressible=True)


def _form(request: Request) -> Mapping[str, list[str]]:
    return parse_qs(request.body.decode(errors="replace"))


def _json(answer: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(answer, default=_number).encode(), "application/json; charset=utf-8")


def _number(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(type(value).__name__)


def _error(status: int, code: str, message: str) -> Reply:
    return _json({"error": {"code": code, "message": message}}, status)


def _link(request: Request, name: str, start: int) -> str:
    """Return the address of the next page, at the host that was asked."""
    return f"http://{request.headers.get('host', '')}{request.path}?{urlencode({**request.query, name: start})}"


def _location(region: Mapping[str, Any]) -> dict[str, Any]:
    zones = [{"logicalZone": logical, "physicalZone": physical} for logical, physical in region["zones"].items()]
    found = {
        "name": region["id"],
        "displayName": region["name"],
        "regionalDisplayName": region["name"],
        "type": "Region",
        "metadata": {"regionType": "Physical", "physicalLocation": region["city"]},
    }
    return found | ({"availabilityZoneMappings": zones} if zones else {})


def _logical(name: str) -> dict[str, Any]:
    return {"name": name, "displayName": name, "type": "Region", "metadata": {"regionType": "Logical"}}


def _scored(region: str, size: str, row: Row | None) -> Iterable[dict[str, Any]]:
    zones = [zone for zone in str(row["zones"]).split(",") if zone] if row else []
    for zone in zones or [""]:
        refused = row is None or row["restricted"] or (zone and zone in str(row["restricted_zones"]).split(","))
        score = "DataNotFoundOrStale" if row is None else "RestrictedSkuNotAvailable" if refused else row["score"]
        found = {"sku": size, "region": region, "score": score, "isQuotaAvailable": not refused}
        yield found | ({"availabilityZone": zone} if zone else {})
