"""What Tencent sells in a scenario: its tables spread into a row for each zone, machine and charge type."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import ceil
from typing import Any

from simcloud.faults import fits
from simcloud.scenario import ScenarioError
from simcloud.world import Row, exact

CHARGE_TYPES = ("POSTPAID_BY_HOUR", "SPOTPAID", "PREPAID")
LEVELS = ("EnoughStock", "NormalStock", "UnderStock", "WithoutStock")
_YEAR_PERCENT = 83  # what Tencent's own example charges for twelve months


def expand(table: Mapping[str, Any]) -> list[Row]:
    """Return the rows of `[tencent]`, with the levels of `[[tencent.stock]]` applied in order."""
    regions = {zone[0]: region["id"] for region in table["region"] for zone in region["zones"]}
    rows = [row for family in table["family"] for row in _family_rows(family, regions)]
    for rule in table.get("stock", []):
        touched = [row for row in rows if fits(rule["match"], row)]
        if not touched:
            raise ScenarioError(f"tencent.stock: nothing fits {rule['match']}")
        for row in touched:
            row["stock"] = rule["level"]
    return rows


def _family_rows(family: Mapping[str, Any], regions: Mapping[str, str]) -> Iterator[Row]:
    for zone, percent in family["zones"].items():
        if zone not in regions:
            raise ScenarioError(f"tencent family {family['name']}: no region has the zone {zone!r}")
        for size, vcpus, memory_gib, gpus, price in family["sizes"]:
            for charge in CHARGE_TYPES:
                yield {
                    "region": regions[zone],
                    "zone": zone,
                    "type": f"{family['name']}.{size}",
                    "family": family["name"],
                    "charge": charge,
                    "stock": "NormalStock",
                    "price": Decimal(price) * Decimal(percent) / 100,
                    "price_percent": 100,
                    "vcpus": vcpus,
                    "memory_gib": memory_gib,
                    "gpus": Decimal(gpus),
                    "model": family,
                }


def quota_item(row: Row) -> dict[str, Any]:
    """Return the InstanceTypeQuotaItem of a row (DescribeZoneInstanceConfigInfos)."""
    model, sold_out = row["model"], row["stock"] == "WithoutStock"
    return {
        "Zone": row["zone"],
        "InstanceType": row["type"],
        "InstanceChargeType": row["charge"],
        "NetworkCard": 25,
        "Externals": {},
        "Cpu": row["vcpus"],
        "Memory": row["memory_gib"],
        "InstanceFamily": row["family"],
        "TypeName": f"{'GPU计算型' if row['gpus'] else '标准型'}{row['family']}",
        "LocalDiskTypeList": [],
        "Status": "SOLD_OUT" if sold_out else "SELL",
        "Price": item_price(row),
        "SoldOutReason": "ResourcesSoldOut.SpecifiedInstanceType" if sold_out else "",
        "InstanceBandwidth": 25.0,
        "InstancePps": 600,
        "StorageBlockAmount": 0,
        "CpuType": model["cpu_type"],
        "Gpu": ceil(row["gpus"]),
        "Fpga": 0,
        "Remark": _remark(model.get("gpu", ""), row["gpus"]),
        "GpuCount": float(row["gpus"]),
        "Frequency": model["frequency"],
        "StatusCategory": row["stock"],
    }


def item_price(row: Row) -> dict[str, Any]:
    """Return the ItemPrice of a row: by the hour, or a month's total for PREPAID."""
    hour = exact(row["price"]) * exact(row["price_percent"]) / 100
    model = row["model"]
    if row["charge"] == "PREPAID":
        month = (hour * model["month_hours"]).quantize(Decimal(1))
        payable, year = month * model["month_percent"] / 100, month * 12
        return _prices(
            OriginalPrice=month,
            DiscountPrice=payable,
            Discount=model["month_percent"],
            OriginalPriceOneYear=year,
            DiscountPriceOneYear=year * _YEAR_PERCENT / 100,
            DiscountOneYear=_YEAR_PERCENT,
        )
    percent = model["spot_percent"] if row["charge"] == "SPOTPAID" else 100
    return _prices(UnitPrice=hour, UnitPriceDiscount=hour * percent / 100, Discount=percent)


def _prices(**given: Decimal | int) -> dict[str, Any]:
    steps = [f"UnitPrice{kind}{step}Step" for kind in ("", "Discount") for step in ("Second", "Third")]
    terms = [
        f"{kind}{years}Year" for kind in ("OriginalPrice", "DiscountPrice", "Discount") for years in ("One", "Three")
    ]
    names = ["UnitPrice", "UnitPriceDiscount", *steps, "OriginalPrice", "DiscountPrice", "Discount", *terms]
    known = {name: float(round(Decimal(given.get(name, 0)), 4)) for name in names}
    return known | {"ChargeUnit": "HOUR"}


def _remark(gpu: str, count: Decimal) -> str:
    if not gpu or count < 1:
        return ""
    return f"1 颗 {gpu}" if count == 1 else f"{int(count)} * {gpu}"


def type_config(row: Row) -> dict[str, Any]:
    """Return the InstanceTypeConfig of a row; GpuType and GpuMemory only where the family states them."""
    model, whole = row["model"], ceil(row["gpus"])
    item = {
        "Zone": row["zone"],
        "InstanceType": row["type"],
        "InstanceFamily": row["family"],
        "CPU": row["vcpus"],
        "Memory": row["memory_gib"],
        "GPU": whole,
        "FPGA": 0,
        "GpuCount": float(row["gpus"]),
    }
    if "gpu" in model:
        item["GpuType"] = model["gpu"]
    if "gpu_memory_gib" in model:
        item["GpuMemory"] = float(model["gpu_memory_gib"] * min(row["gpus"], Decimal(1)))
    return item
