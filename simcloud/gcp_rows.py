"""What Google Cloud sells in a scenario: rows of zones, of machines and accelerators in them, of SKUs in regions."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import ceil
from typing import Any

from simcloud.scenario import ScenarioError
from simcloud.world import Row, exact

USAGES = {"OnDemand": 100, "Preemptible": None, "Commit1Yr": 63, "Commit3Yr": 45}
"""Percent of the price on demand; a family says what spot is. The terms' are Google's published ones for N1."""
UNITS = {"core": "h", "ram": "GiBy.h", "gpu": "h", "slice": "h", "ssd": "GiBy.mo"}
_GROUPS = {"core": "CPU", "ram": "RAM", "gpu": "GPU", "slice": "GPU", "ssd": "LocalSSD"}
_YEARS = {"Commit1Yr": "1 Year", "Commit3Yr": "3 Years"}


def expand(table: Mapping[str, Any]) -> list[Row]:
    """Return the rows of `[gcp]`; `kind` tells them apart: zone, quota, machine, card, sku."""
    regions = {region["id"]: region for region in table["region"]}
    zones = [
        {"kind": "zone", "region": name, "zone": f"{name}-{letter}", "status": "UP", "warning": ""}
        for name, region in regions.items()
        for letter in region["zones"]
    ]
    rows = [*zones, *_quotas(table, regions)]
    for family in table["family"]:
        _check(family, regions)
        rows += _machines(family)
        rows += [row for name in family["zones"] for row in _family_skus(family, regions[name])]
    for card in table.get("card", []):
        _check(card, regions)
        rows += _cards(card)
        rows += [row for name in card["zones"] for row in _skus(card, regions[name], {"gpu": card["price"]})]
    ssd = {"name": "local-ssd", "spot_percent": 60}
    rows += [row for region in regions.values() for row in _skus(ssd, region, {"ssd": table["local_ssd"]})]
    return rows


def _quotas(table: Mapping[str, Any], regions: Mapping[str, Any]) -> Iterator[Row]:
    """A row for each quota of each region; one of `regions` goes before the others of its metric."""
    for region in regions:
        stated = [quota for quota in table.get("quota", []) if region in quota.get("regions", regions)]
        for metric, quota in {quota["metric"]: quota for quota in stated}.items():
            yield {
                "kind": "quota",
                "region": region,
                "metric": metric,
                "limit": quota["limit"],
                "usage": quota.get("usage", 0),
            }


def quota(row: Row) -> dict[str, Any]:
    """Return a Quota of a region: numbers of Google's are doubles."""
    return {"metric": row["metric"], "limit": float(row["limit"]), "usage": float(row["usage"])}


def _check(sold: Mapping[str, Any], regions: Mapping[str, Any]) -> None:
    for name, letters in sold["zones"].items():
        if name not in regions or set(letters) - set(regions[name]["zones"]):
            raise ScenarioError(f"gcp {sold['name']}: no region has the zones {name!r} {letters}")


def _machines(family: Mapping[str, Any]) -> Iterator[Row]:
    for region, letters in family["zones"].items():
        for letter in letters:
            for size, vcpus, memory_gib, cards, partitions in family["sizes"]:
                yield {
                    "kind": "machine",
                    "region": region,
                    "zone": f"{region}-{letter}",
                    "type": f"{family['name']}-{size}",
                    "family": family["name"],
                    "accelerator": family.get("accelerator", ""),
                    "cards": ceil(cards),
                    "vcpus": vcpus,
                    "memory_mib": int(Decimal(memory_gib) * 1024),
                    "partitions": partitions,
                    "obtainability": Decimal(family.get("obtainability", 50)) / 100,
                }


def _cards(card: Mapping[str, Any]) -> Iterator[Row]:
    for region, letters in card["zones"].items():
        for letter in letters:
            yield {
                "kind": "card",
                "region": region,
                "zone": f"{region}-{letter}",
                "accelerator": card["name"],
                "most": card["most"],
            }


def _family_skus(family: Mapping[str, Any], region: Mapping[str, Any]) -> Iterator[Row]:
    parts = {part: family[part] for part in ("core", "ram", "gpu", "slice") if part in family}
    yield from _skus(family, region, parts)
    if "calendar" in family:
        said = f"DWS Calendar Mode {family['sku']} {family['gpu_sku']} (1 gpu slice) in {region['name']}"
        yield _sku(family, region, "slice", "OnDemand", said, Decimal(family["calendar"]))


def _skus(sold: Mapping[str, Any], region: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[Row]:
    for part, price in parts.items():
        for usage, percent in USAGES.items():
            share = percent or sold.get("spot_percent", 40)
            if usage in sold.get("usages", USAGES):
                said = _description(sold, part, usage, region["name"])
                yield _sku(sold, region, part, usage, said, Decimal(price) * share / 100)


def _sku(sold: Mapping[str, Any], region: Mapping[str, Any], part: str, usage: str, said: str, price: Decimal) -> Row:
    return {
        "kind": "sku",
        "region": region["id"],
        "family": sold["name"],
        "part": part,
        "usage": usage,
        "description": said,
        "price": (price * region.get("price_percent", 100) / 100).quantize(Decimal("1e-9")),
        "price_percent": 100,
    }


def _description(sold: Mapping[str, Any], part: str, usage: str, where: str) -> str:
    """Return what Google calls it: every kind has its own grammar."""
    spot = usage == "Preemptible"
    gpu, family = sold.get("gpu_sku", ""), sold.get("sku", "")
    if usage in _YEARS:
        names = {"core": f"{family} Cpu", "ram": f"{family} Ram", "gpu": f"{gpu} running", "ssd": "Local SSD"}
        what = names.get(part, f"{family} {gpu} (1 gpu slice)").removeprefix("N1 Predefined ")
        return f"Commitment v1: {what} in {where} for {_YEARS[usage]}"
    before, after = ("Spot Preemptible ", " attached to Spot Preemptible VMs") if spot else ("", "")
    return {
        "core": f"{before}{family} Instance Core running in {where}",
        "ram": f"{before}{family} Instance Ram running in {where}",
        "gpu": f"{gpu}{after} running in {where}",
        "slice": f"{before}{family} {gpu} (1 gpu slice) in {where}",
        "ssd": f"SSD backed Local Storage{after} in {where}",
    }[part]


def sku(row: Row) -> dict[str, Any]:
    """Return a Sku of the catalogue."""
    amount = exact(row["price"]) * exact(row["price_percent"]) / 100
    units = int(amount)
    money = {"currencyCode": "USD", "units": str(units), "nanos": int((amount - units) * 10**9)}
    number = f"{abs(hash_of(row['description'])):012X}"
    sku_id = f"{number[:4]}-{number[4:8]}-{number[8:12]}"
    expression = {
        "usageUnit": UNITS[row["part"]],
        "displayQuantity": 1,
        "tieredRates": [{"startUsageAmount": 0, "unitPrice": money}],
    }
    return {
        "name": f"services/6F81-5844-456A/skus/{sku_id}",
        "skuId": sku_id,
        "description": row["description"],
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Storage" if row["part"] == "ssd" else "Compute",
            "resourceGroup": _GROUPS[row["part"]],
            "usageType": row["usage"],
        },
        "serviceRegions": [row["region"]],
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": expression,
                "currencyConversionRate": 1,
                "effectiveTime": "2026-11-01T08:00:00Z",
            }
        ],
        "serviceProviderName": "Google",
        "geoTaxonomy": {"type": "REGIONAL", "regions": [row["region"]]},
    }


def hash_of(text: str) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(text.encode()[-5:], "big")


def machine_type(row: Row) -> dict[str, Any]:
    """Return a MachineType."""
    item = {
        "kind": "compute#machineType",
        "name": row["type"],
        "description": f"{row['vcpus']} vCPUs",
        "guestCpus": row["vcpus"],
        "memoryMb": row["memory_mib"],
        "maximumPersistentDisksSizeGb": "263168",
        "zone": row["zone"],
        "isSharedCpu": False,
        "architecture": "X86_64",
    }
    if row["accelerator"]:
        item["accelerators"] = [{"guestAcceleratorType": row["accelerator"], "guestAcceleratorCount": row["cards"]}]
    if row["partitions"]:
        item["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": row["partitions"]}
    return item


def accelerator_type(name: str, zone: str, most: int) -> dict[str, Any]:
    """Return an AcceleratorType."""
    return {
        "kind": "compute#acceleratorType",
        "name": name,
        "description": name.replace("-", " ").upper(),
        "maximumCardsPerInstance": most,
        "zone": zone,
    }
