"""RunPod: `POST /graphql` (no key needed) and the REST catalogue `/v2/catalog/...` (key needed)."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from simcloud import runpod_catalog, runpod_graphql
from simcloud.wire import Reply, Request
from simcloud.world import Identity, World

OPTIONS = {
    "api_key": "simcloud",
    "any_credentials": False,  # any key that is not empty
}
_RATE_LIMIT = {
    "RateLimit": '"minute";r=59;t=60, "hour";r=2990;t=3600, "day";r=49900;t=86400',
    "RateLimit-Policy": '"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400',
}
_TITLES = {400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 422: "Unprocessable Entity"}
_TITLES |= {429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}


class RunPod:
    """The answers of `[runpod]` in a scenario."""

    name = "runpod"

    def __init__(self, world: World) -> None:
        table = world.scenario.providers["runpod"]
        self._world = world
        self._centers: list[Mapping[str, Any]] = table["data_center"]
        world.add("runpod", runpod_catalog.expand(table), OPTIONS | table.get("options", {}), runpod_catalog.LEVELS)

    def identify(self, request: Request) -> Identity:
        """Return the action (`discovery`, `gpuTypes` or the path), the place, and cloud and count as `part`."""
        if request.path == "/graphql":
            return runpod_graphql.identify(_graphql(request)) | {"credential": _key(request)}
        part = f"{request.query.get('cloud', '')} {request.query.get('count', '')}".strip()
        return {"action": request.path, "region": "", "part": part, "credential": _key(request)}

    def answer(self, request: Request, skew_s: int) -> Reply:  # noqa: ARG002 - nothing here is signed
        """Answer a query or a catalogue page."""
        if request.path == "/graphql":
            return self._graphql(request)
        if not self._admits(request):
            return self.failure(401, "", "A valid API key is required.")
        try:
            return _json(200, self._catalog(request), _RATE_LIMIT)
        except runpod_catalog.Problem as problem:
            return self.failure(problem.status, "", problem.detail)

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return an error: GraphQL's in HTTP 200, problem+json for any other status."""
        if status == 200:
            return _json(200, {"errors": [{"message": message, "extensions": {"code": code}}], "data": None})
        problem = {"title": _TITLES.get(status, "Error"), "status": status, "detail": message}
        headers = _RATE_LIMIT | ({"Retry-After": "12"} if status == 429 else {})
        return Reply(status, json.dumps(problem).encode(), "application/problem+json", headers)

    def environment(self, url: str) -> dict[str, str]:
        """Return endpoint and key."""
        key = self._world.options["runpod"]["api_key"]
        return {"GPUFARE_PROVIDERS__RUNPOD__ENDPOINTS__API": url, "RUNPOD_API_KEY": key}

    def _admits(self, request: Request) -> bool:
        key, options = _key(request), self._world.options["runpod"]
        return bool(key) and (options["any_credentials"] or key == options["api_key"])

    def _graphql(self, request: Request) -> Reply:
        if _key(request) and not self._admits(request):
            return Reply(401, b'{"errors":[{"message":"Unauthorized"}]}', "application/json")
        asked = _graphql(request)
        if request.method != "POST" or not asked.get("query"):
            return _json(
                400, {"errors": [{"message": "POST body missing, invalid Content-Type, or JSON object has no keys."}]}
            )
        return _json(200, runpod_graphql.execute(asked, self._world.rows("runpod"), self._centers))

    def _catalog(self, request: Request) -> Mapping[str, Any]:
        rows = [row for row in self._world.rows("runpod") if not row["gone"]]
        path = request.path.rstrip("/")
        if path == "/v2/catalog/gpus":
            return {"gpus": runpod_catalog.gpus(rows, self._centers, request.query)}
        if path == "/v2/catalog/datacenters":
            return {"dataCenters": runpod_catalog.data_centers(rows, self._centers, request.query)}
        wanted = unquote(path.removeprefix("/v2/catalog/gpus/"))
        found = [gpu for gpu in runpod_catalog.gpus(rows, self._centers, request.query) if gpu["id"] == wanted]
        if not found:
            raise runpod_catalog.Problem(404, f"nothing at {request.path}")
        return found[0]


def _json(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, json.dumps(value).encode(), "application/json", headers or {})


def _key(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ") or request.query.get("api_key", "")


def _graphql(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
