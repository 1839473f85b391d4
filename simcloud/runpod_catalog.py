"""What RunPod offers in a scenario, and its REST catalogue v2."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from simcloud.scenario import ScenarioError
from simcloud.world import Row

LEVELS = ("NONE", "LOW", "MEDIUM", "HIGH")
_PRICES = ("secure_price", "community_price", "secure_spot_price", "community_spot_price", "cluster_price")


class Problem(Exception):
    """A request the catalogue refuses, with the HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def expand(table: Mapping[str, Any]) -> list[Row]:
    """Return two kinds of row: `type` (a GPU model with its prices) and `stock` (its level in one place and cloud)."""
    centers = {center["id"]: center["country"] for center in table["data_center"]}
    return [row for gpu in table["gpu"] for row in _gpu_rows(gpu, centers)]


def _gpu_rows(gpu: Mapping[str, Any], centers: Mapping[str, str]) -> Iterator[Row]:
    facts = {key: gpu[key] for key in ("name", "memory_gb", "max_count")}
    prices = {key: gpu.get(key) for key in _PRICES}
    maker = gpu.get("manufacturer", "Nvidia")
    yield {"kind": "type", "gpu": gpu["id"], "manufacturer": maker, "pool": gpu.get("pool"), **facts, **prices}
    for center, level in gpu.get("secure", {}).items():
        if center not in centers:
            raise ScenarioError(f"runpod gpu {gpu['id']!r}: no data centre {center!r}")
        yield _stock_row(gpu["id"], "SECURE", center, centers[center], level)
    for country, level in gpu.get("community", {}).items():
        yield _stock_row(gpu["id"], "COMMUNITY", "", country, level)


def _stock_row(gpu: str, cloud: str, center: str, country: str, level: Sequence[Any]) -> Row:
    stock, free = level
    if stock not in LEVELS:
        raise ScenarioError(f"runpod gpu {gpu!r}: level {stock!r} is not one of {', '.join(LEVELS)}")
    place = {"data_center": center, "country": country, "region": center or country}
    return {"kind": "stock", "gpu": gpu, "cloud": cloud, **place, "stock": stock, "free": free}


def types(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of GPU models that are still offered."""
    return [row for row in rows if row["kind"] == "type" and not row["gone"]]


def stock_rows(
    rows: Sequence[Row],
    gpu: str,
    cloud: str | None = None,
    center: str | None = None,
    countries: Collection[str] | None = None,
    count: int = 1,
) -> list[Row]:
    """Return the places where `count` GPUs of a model can be had now, of those the other arguments allow."""
    return [
        row
        for row in rows
        if row["kind"] == "stock"
        and not row["gone"]
        and row["gpu"] == gpu
        and cloud in (None, row["cloud"])
        and center in (None, row["data_center"])
        and (countries is None or row["country"] in countries)
        and row["stock"] != "NONE"
        and row["free"] >= count
    ]


def gpus(rows: Sequence[Row], centers: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the body of `/v2/catalog/gpus`; raises `Problem` for parameters that do not go together."""
    available = "AVAILABILITY" in query.get("include", "").split(",")
    if available != ("product" in query):
        raise Problem(400, "product is required with include=AVAILABILITY, and only allowed with it")
    if "cudaVersions" in query and "minCudaVersion" in query:
        raise Problem(400, "cudaVersions and minCudaVersion are mutually exclusive")
    count, cloud = query.get("count", "1"), query.get("cloud")
    if not count.isdecimal() or int(count) < 1:
        raise Problem(422, f"count must be a positive integer, not {count!r}")
    if cloud not in (None, "SECURE", "COMMUNITY"):
        raise Problem(422, f"cloud must be SECURE or COMMUNITY, not {cloud!r}")
    countries = query["countryCodes"].split(",") if "countryCodes" in query else None
    names = {center["id"]: center["name"] for center in centers}
    items = []
    for row in types(rows):
        fitting = stock_rows(rows, row["gpu"], cloud, None, countries, int(count))
        if countries is not None and not fitting:
            continue
        items.append(_gpu(row) | (_availability(fitting, names) if available else {}))
    return items


def _gpu(row: Row) -> dict[str, Any]:
    secure, community = row["secure_price"], row["community_price"]
    return {
        "id": row["gpu"],
        "name": row["name"],
        "pool": row["pool"],
        "manufacturer": row["manufacturer"].upper(),
        "memory": row["memory_gb"],
        "secure": secure is not None,
        "community": community is not None,
        "price": {"secure": float(secure or 0), "community": float(community or 0)},
        "maxCount": {
            "secure": row["max_count"] if secure is not None else 0,
            "community": row["max_count"] if community is not None else 0,
        },
    }


def _availability(fitting: Sequence[Row], names: Mapping[str, str]) -> dict[str, Any]:
    best = max((row["stock"] for row in fitting), key=LEVELS.index, default="NONE")
    places = [
        {"id": row["data_center"], "name": names[row["data_center"]], "availability": row["stock"]}
        for row in fitting
        if row["data_center"]
    ]
    return {"availability": best} | ({"dataCenters": places} if places else {})


def data_centers(
    rows: Sequence[Row], centers: Sequence[Mapping[str, Any]], query: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the body of `/v2/catalog/datacenters`."""
    wanted = "GPU_AVAILABILITY" in query.get("include", "").split(",")
    return [_data_center(rows, center, wanted) for center in centers if center.get("listed", True)]


def _data_center(rows: Sequence[Row], center: Mapping[str, Any], with_gpus: bool) -> dict[str, Any]:
    item = {"id": center["id"], "name": center["name"], "region": center["region"], "compliance": []}
    if not with_gpus:
        return item
    names = {row["gpu"]: row["name"] for row in types(rows)}
    levels = [row for row in rows if row["kind"] == "stock" and row["data_center"] == center["id"]]
    gpus_here = [
        {"id": row["gpu"], "name": names[row["gpu"]], "availability": row["stock"]}
        for row in levels
        if row["gpu"] in names and not row["gone"]
    ]
    return item | {"gpuAvailability": gpus_here}
