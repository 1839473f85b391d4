"""What Alibaba sells in a scenario: its tables spread into a row for each zone, machine and way to buy."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from simcloud.faults import fits
from simcloud.scenario import ScenarioError
from simcloud.world import Row, exact

CHARGES = ("PostPaid", "SpotAsPriceGo", "PrePaid")
LEVELS = ("WithStock", "ClosedWithStock", "WithoutStock", "ClosedWithoutStock")
CNY_IN_USD = Decimal("0.14")
_DISK_HOUR, _DISK_MONTH = Decimal("0.035"), Decimal(20)
_MONTH_HOURS, _MONTH_PERCENT = 329, 85  # a month costs less than its hours, and is discounted besides
_SPOT_STEPS = (118, 100, 107)  # percent of the price now: of three hours, as unordered as Alibaba sends them
_LATEST = 1


def expand(table: Mapping[str, Any]) -> list[Row]:
    """Return the rows of `[alibaba]`, with the levels of `[[alibaba.stock]]` applied in order."""
    regions = {zone: region["id"] for region in table["region"] for zone in region["zones"]}
    rows = [row for family in table["family"] for row in _family_rows(family, regions)]
    for rule in table.get("stock", []):
        touched = [row for row in rows if fits(rule["match"], row)]
        if not touched:
            raise ScenarioError(f"alibaba.stock: nothing fits {rule['match']}")
        for row in touched:
            row["zone_stock" if rule.get("of_zone") else "stock"] = rule["level"]
    return rows


def _family_rows(family: Mapping[str, Any], regions: Mapping[str, str]) -> Iterator[Row]:
    for zone, percent in family["zones"].items():
        if zone not in regions:
            raise ScenarioError(f"alibaba family {family['name']}: no region has the zone {zone!r}")
        for size, vcpus, memory_gib, gpus, spec, gpu_gib, price in family["sizes"]:
            for charge in CHARGES:
                yield {
                    "region": regions[zone],
                    "zone": zone,
                    "type": f"ecs.{family['name']}{size}",
                    "family": family["name"],
                    "charge": charge,
                    "stock": "WithStock",
                    "zone_stock": "WithStock",
                    "price": Decimal(str(price)) * percent / 100,
                    "price_percent": 100,
                    "spot_percent": family.get("spot_percent", 20),
                    "vcpus": vcpus,
                    "memory_gib": memory_gib,
                    "gpus": gpus,
                    "spec": spec,
                    "gpu_gib": gpu_gib,
                    "model": family,
                }


def zones(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the AvailableZone list of rows that are of one region and way to buy."""
    by_zone: dict[str, list[Row]] = {}
    for row in rows:
        by_zone.setdefault(row["zone"], []).append(row)
    return [_zone(zone, those) for zone, those in by_zone.items()]


def _zone(zone: str, rows: list[Row]) -> dict[str, Any]:
    listed = [{"Value": row["type"], **_words(row["stock"])} for row in rows]
    resource = {"Type": "InstanceType", "SupportedResources": {"SupportedResource": listed}}
    return {
        "RegionId": rows[0]["region"],
        "ZoneId": zone,
        **_words(rows[0]["zone_stock"]),
        "AvailableResources": {"AvailableResource": [resource]},
    }


def _words(stock: str) -> dict[str, str]:
    return {"Status": "SoldOut" if stock.endswith("WithoutStock") else "Available", "StatusCategory": stock}


def machine(row: Row) -> dict[str, Any]:
    """Return the InstanceType of a row (DescribeInstanceTypes)."""
    model = row["model"]
    return {
        "InstanceTypeId": row["type"],
        "InstanceTypeFamily": f"ecs.{row['family']}",
        "InstanceFamilyLevel": "EnterpriseLevel",
        "InstanceCategory": model["category"],
        "CpuCoreCount": row["vcpus"],
        "MemorySize": float(row["memory_gib"]),
        "GPUAmount": row["gpus"],
        "GPUSpec": row["spec"],
        "GPUMemorySize": float(row["gpu_gib"]),
        "CpuArchitecture": "X86",
        "InstanceBandwidthRx": 16384000,
        "InstanceBandwidthTx": 16384000,
        "EriQuantity": model.get("rdma_interfaces", 0),
        "EniQuantity": 4,
        "DiskQuantity": 17,
    }


def _hour(row: Row, site: str) -> Decimal:
    return exact(row["price"]) * exact(row["price_percent"]) / 100 * (CNY_IN_USD if site == "intl" else 1)


def price(row: Row, unit: str, site: str) -> dict[str, Any]:
    """Return the PriceInfo of a row on demand, for an hour or a month: in it a disk, and parts that cost nothing."""
    month = unit == "Month"
    before = (_hour(row, site) * (_MONTH_HOURS if month else 1)).quantize(Decimal("0.0001"))
    off = (before * (100 - _MONTH_PERCENT) / 100).quantize(Decimal("0.0001")) if month else Decimal(0)
    disk = _DISK_MONTH if month else _DISK_HOUR
    parts = [_amounts(before, off, Resource="instanceType"), _amounts(disk, Decimal(0), Resource="systemDisk")]
    parts += [_amounts(Decimal(0), Decimal(0), Resource=name) for name in ("image", "bandwidth")]
    whole = _amounts(before + disk, off, Currency=currency(site), DetailInfos={"DetailInfo": parts})
    return {"Price": whole, "Rules": {"Rule": []}}


def currency(site: str) -> str:
    """Return what an account of a site pays in."""
    return {"cn": "CNY", "intl": "USD"}[site]


def _amounts(before: Decimal, off: Decimal, **more: Any) -> dict[str, Any]:
    """Return the three amounts of a price: before, taken off, and to pay."""
    known = {"OriginalPrice": before, "DiscountPrice": off, "TradePrice": before - off}
    return {**more, **{name: float(amount) for name, amount in known.items()}}


def spot_points(row: Row, site: str, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield what a machine cost as spot in a zone at the last three full hours, the latest in the middle."""
    latest = now.replace(minute=0, second=0, microsecond=0)
    price_now = _hour(row, site) * exact(row["spot_percent"]) / 100
    for number, percent in enumerate(_SPOT_STEPS):
        at = latest - timedelta(hours=abs(number - _LATEST) * (1 + number))
        yield {
            "IoOptimized": "optimized",
            "NetworkType": "vpc",
            "ZoneId": row["zone"],
            "InstanceType": row["type"],
            "Timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "SpotPrice": float(round(price_now * percent / 100, 4)),
            "OriginPrice": float(round(_hour(row, site), 4)),
        }


def advice(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the AvailableSpotZone list of rows that are of one region, numbers as texts as in Alibaba's example."""
    by_zone: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        rate = exact(row["spot_percent"]) / 8
        band = next(name for most, name in ((3, "0-3%"), (5, "3-5%"), (10, "5-10%"), (100, "10-100%")) if rate <= most)
        said = {"AverageSpotDiscount": str(row["spot_percent"]), "InterruptionRate": f"{rate:.1f}"}
        by_zone.setdefault(row["zone"], []).append({"InstanceType": row["type"], "InterruptRateDesc": band, **said})
    return [
        {"ZoneId": zone, "AvailableSpotResources": {"AvailableSpotResource": those}} for zone, those in by_zone.items()
    ]
