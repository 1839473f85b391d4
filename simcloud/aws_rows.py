"""What AWS sells in a scenario: the tables of the file spread into one row for each zone and instance type."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from simcloud.clock import SimClock
from simcloud.scenario import ScenarioError
from simcloud.world import Row, exact

_DAY_S = 86400
_SETTLED_S = -2 * 3600  # the price of the scenario's start dates from two hours before it
_OLDER_PERCENT = 110  # and was this much of it a day earlier


def expand(table: Mapping[str, Any]) -> list[Row]:
    """Return the rows of `[aws]`."""
    places = {zone: (region, zone_id) for region in table["region"] for zone, zone_id in region["zones"].items()}
    rows: list[Row] = []
    for family in table["family"]:
        for zone, spot_percent in family["zones"].items():
            if zone not in places:
                raise ScenarioError(f"aws family {family['name']}: no region has the zone {zone!r}")
            rows += _zone_rows(family, zone, *places[zone], spot_percent)
    return rows


def _zone_rows(
    family: Mapping[str, Any], zone: str, region: Mapping[str, Any], zone_id: str, spot_percent: int
) -> Iterator[Row]:
    for size, vcpus, memory_mib, devices, price in family["sizes"]:
        here = (Decimal(price) * Decimal(region.get("price_percent", 100)) / 100).quantize(Decimal("0.00001"))
        yield {
            "region": region["id"],
            "zone": zone,
            "zone_id": zone_id,
            "type": f"{family['name']}.{size}",
            "family": family["name"],
            "price": here,
            "price_percent": 100,
            "spot": here * spot_percent / 100 if spot_percent else None,
            "spot_percent": 100,
            "score": max(1, 10 - spot_percent // 10),  # the dearer the spot price, the scarcer
            "blocks": family.get("blocks", {}).get(zone, 0),  # percent of the price of an hour; 0 where none is offered
            "on_demand": family.get("on_demand", True),
            "vcpus": vcpus,
            "memory_mib": memory_mib,
            "devices": Decimal(devices),
            "model": family,
        }


def on_demand_price(row: Row) -> Decimal:
    """Return USD for an hour of the whole machine."""
    return exact(row["price"]) * exact(row["price_percent"]) / 100


def spot_points(row: Row, first: Row, clock: SimClock) -> list[tuple[datetime, Decimal]]:
    """Return when the spot price of a zone changed and to what USD an hour, newest first; empty without a market."""
    now, began = _spot(row), _spot(first)
    points = []
    if now is not None and row["since_s"] is not None:
        points.append((clock.wall_time(row["since_s"]), now))
    if began is not None:
        points.append((clock.wall_time(_SETTLED_S), began))
        points.append((clock.wall_time(_SETTLED_S - _DAY_S), began * _OLDER_PERCENT / 100))
    return points


def _spot(row: Row) -> Decimal | None:
    return None if row["spot"] is None else exact(row["spot"]) * exact(row["spot_percent"]) / 100


def machine(row: Row) -> dict[str, Any]:
    """Return the InstanceTypeInfo of a row under its names on the wire."""
    model = row["model"]
    return {
        "instanceType": row["type"],
        "currentGeneration": True,
        "freeTierEligible": False,
        "supportedUsageClasses": model["usage_classes"],
        "bareMetal": False,
        "hypervisor": "nitro",
        "processorInfo": {"supportedArchitectures": ["x86_64"], "manufacturer": model["cpu"]},
        "vCpuInfo": {"defaultVCpus": row["vcpus"]},
        "memoryInfo": {"sizeInMiB": row["memory_mib"]},
        "networkInfo": {"efaSupported": row["vcpus"] >= model.get("efa_from_vcpus", 32)},
        **_accelerators(model, row["devices"]),
    }


def _accelerators(model: Mapping[str, Any], count: Decimal) -> dict[str, Any]:
    if model["device"] == "gpu":
        return {"gpuInfo": _gpu_info(model, count)}
    memory = {"memoryInfo": {"sizeInMiB": model["device_mib"]}}
    device = {"count": int(count), "name": model["gpu"], **memory}
    total = model["device_mib"] * int(count)
    neuron = {
        "neuronDevices": [{**device, "coreInfo": {"count": 2, "version": 2}}],
        "totalNeuronDeviceMemoryInMiB": total,
    }
    if model["device"] == "trainium":
        return {"neuronInfo": neuron}
    # Inferentia machines say the same devices twice
    inference = {"accelerators": _Members([{**device, "manufacturer": "AWS"}]), "totalInferenceMemoryInMiB": total}
    return {"inferenceAcceleratorInfo": inference, "neuronInfo": neuron}


def _gpu_info(model: Mapping[str, Any], count: Decimal) -> dict[str, Any]:
    share = min(count, Decimal(1))
    size_mib = int(model["device_mib"] * share)
    gpu = {
        "name": model["gpu"],
        "manufacturer": "NVIDIA",
        "count": int(count),  # 0 for a part of a GPU: what is real is the logical count times the partition size
        "logicalGpuCount": max(int(count), 1),
        "gpuPartitionSize": float(share),
        "memoryInfo": {"sizeInMiB": size_mib},
    }
    return {"gpus": [gpu], "totalGpuMemoryInMiB": size_mib * max(int(count), 1)}


class _Members(list[Any]):
    """A list whose elements are called `member` on the wire, as in botocore's model of InferenceDeviceInfoList."""

    element = "member"
