"""RunPod's GraphQL: the two queries its clients send, recognised by the fields they ask for."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from simcloud.runpod_catalog import LEVELS, stock_rows, types
from simcloud.world import Identity, Row

_NO_STOCK: dict[str, Any] = {
    "minimumBidPrice": None,
    "uninterruptablePrice": None,
    "minVcpu": None,
    "minMemory": None,
    "stockStatus": None,
    "compliance": None,
    "countryCode": None,
    "maxUnreservedGpuCount": 0,
    "availableGpuCounts": [],
}
_LITERAL = re.compile(r'(\w+)\s*:\s*("[^"]*"|true|false|null|-?\d+(?:\.\d+)?)')


def identify(asked: Mapping[str, Any]) -> Identity:
    """Return `discovery` or `gpuTypes` as action, the data centre or country as region, cloud and count as part."""
    query = str(asked.get("query", ""))
    wanted = argument(query, "lowestPrice", _variables(asked))
    cloud = _cloud(wanted) or ""
    return {
        "action": "discovery" if _asks(query, "dataCenters") else "gpuTypes",
        "region": str(wanted.get("dataCenterId") or wanted.get("countryCode") or ""),
        "part": f"{cloud} {wanted.get('gpuCount') or ''}".strip(),
    }


def execute(asked: Mapping[str, Any], rows: Sequence[Row], centers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Answer a query with the fields it names, of those the scenario knows; errors come as GraphQL's `errors`."""
    query, variables = str(asked["query"]), _variables(asked)
    data: dict[str, Any] = {}
    if _asks(query, "countryCodes"):
        countries = dict.fromkeys(row["country"] for row in rows if row["kind"] == "stock")
        data["countryCodes"] = [*countries, None]  # the null is RunPod's
    if _asks(query, "dataCenters"):
        data["dataCenters"] = [_chosen(query, _center(center)) for center in centers]
    if _asks(query, "gpuTypes"):
        filters = argument(query, "gpuTypes", variables)
        lowest = argument(query, "lowestPrice", variables)
        data["gpuTypes"] = [_gpu_type(query, row, rows, lowest) for row in types(rows) if _passes(row, filters)]
    if not data:
        return {"errors": [{"message": "Cannot query field: simcloud knows countryCodes, dataCenters, gpuTypes."}]}
    return {"data": data}


def argument(query: str, name: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `input` of a field, from the variable it names or written out in the query; empty when it has none."""
    found = re.search(rf"\b{name}\s*\(\s*input\s*:\s*(?:\$(\w+)|\{{([^}}]*)\}})", query)
    if not found:
        return {}
    if found[1]:
        return variables.get(found[1]) or {}
    return {key: json.loads(value) for key, value in _LITERAL.findall(found[2])}


def _variables(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    return asked.get("variables") or {}


def _asks(query: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", query) is not None


def _chosen(query: str, known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if _asks(query, name)}


def _center(center: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": center["id"], "name": center["name"], "listed": center.get("listed", True)}


def _passes(row: Row, filters: Mapping[str, Any]) -> bool:
    by_id = filters.get("id") in (None, row["gpu"])
    return by_id and (filters.get("cluster") is not True or row["cluster_price"] is not None)


def _gpu_type(query: str, row: Row, rows: Sequence[Row], lowest: Mapping[str, Any]) -> dict[str, Any]:
    return _chosen(
        query,
        {
            "id": row["gpu"],
            "displayName": row["name"],
            "manufacturer": row["manufacturer"],
            "memoryInGb": row["memory_gb"],
            "maxGpuCount": row["max_count"],
            "maxGpuCountSecureCloud": row["max_count"] if row["secure_price"] is not None else None,
            "maxGpuCountCommunityCloud": row["max_count"] if row["community_price"] is not None else None,
            "minPodGpuCount": 1,
            "secureCloud": row["secure_price"] is not None,
            "communityCloud": row["community_price"] is not None,
            "securePrice": _number(row["secure_price"]),
            "communityPrice": _number(row["community_price"]),
            "secureSpotPrice": _number(row["secure_spot_price"]),
            "communitySpotPrice": _number(row["community_spot_price"]),
            "clusterPrice": _number(row["cluster_price"]),
            "nodeGroupDatacenters": [],
            "lowestPrice": _chosen(query, _lowest_price(row, rows, lowest)),
        },
    )


def _lowest_price(row: Row, rows: Sequence[Row], wanted: Mapping[str, Any]) -> dict[str, Any]:
    fitting = stock_rows(
        rows,
        gpu=row["gpu"],
        cloud=_cloud(wanted),
        center=wanted.get("dataCenterId"),
        countries=None if wanted.get("countryCode") is None else [wanted["countryCode"]],
        count=int(wanted.get("gpuCount") or 1),
    )
    if not fitting:
        return dict(_NO_STOCK)
    best = max(fitting, key=lambda stock: LEVELS.index(stock["stock"]))
    cloud = best["cloud"].lower()
    return {
        "minimumBidPrice": _number(row[f"{cloud}_spot_price"]),
        "uninterruptablePrice": _number(row[f"{cloud}_price"]),
        "minVcpu": 16,
        "minMemory": 125,
        "stockStatus": best["stock"].capitalize(),
        "compliance": None,
        "countryCode": best["country"],
        "maxUnreservedGpuCount": best["free"],
        "availableGpuCounts": [count for count in (1, 2, 4, 8) if count <= best["free"]],
    }


def _cloud(wanted: Mapping[str, Any]) -> str | None:
    secure = wanted.get("secureCloud")
    return None if secure is None else ("SECURE" if secure else "COMMUNITY")


def _number(price: Any) -> float | None:
    return None if price is None else float(price)
