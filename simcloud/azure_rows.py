"""What Azure sells in a scenario: its tables spread into a row for each region and size, and what is said of a row."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from simcloud.faults import fits
from simcloud.scenario import ScenarioError
from simcloud.world import Row, exact

LOW_PRIORITY_PERCENT = 20
WINDOWS_PERCENT = 125
_YEARS = (("1 Year", 8760, 75), ("3 Years", 26280, 55))  # of a term: hours, and percent of the price on demand


def expand(table: Mapping[str, Any]) -> list[Row]:
    """Return the rows of `[azure]`, with `[[azure.rule]]` applied in order."""
    regions = {region["id"]: region for region in table["region"]}
    rows = [row for family in table["family"] for row in _family_rows(family, regions)]
    for rule in table.get("rule", []):
        touched = [row for row in rows if fits(rule["match"], row)]
        if not touched or rule["set"].keys() - touched[0].keys():
            raise ScenarioError(f"azure.rule: nothing fits {rule['match']}, or has {sorted(rule['set'])}")
        for row in touched:
            row.update(rule["set"])
    return rows


def _family_rows(family: Mapping[str, Any], regions: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    for region, zones in family["regions"].items():
        if region not in regions:
            raise ScenarioError(f"azure family {family['name']}: there is no region {region!r}")
        for size, vcpus, memory_gib, gpus, price in family["sizes"]:
            percent = regions[region].get("price_percent", 100)
            yield {
                "region": region,
                "type": f"Standard_{size}",
                "family": family["name"],
                "price": (Decimal(price) * Decimal(percent) / 100).quantize(Decimal("0.0001")),
                "price_percent": 100,
                "spot_percent": family["spot_percent"],
                "zones": zones,
                "restricted": "",  # why the whole region's is not for this subscription
                "restricted_zones": "",  # the zones that are not, such as "1,3"
                "quota": 1000,  # of the family in the region, in vCPUs
                "quota_used": 0,
                "score": "Medium",
                "vcpus": vcpus,
                "memory_gib": memory_gib,
                "gpus": gpus,
                "model": family,
                "place": regions[region],
            }


def sku(row: Row) -> dict[str, Any]:
    """Return the resource SKU of a row."""
    region, model = row["region"], row["model"]
    stated = {
        "vCPUs": row["vcpus"],
        "vCPUsAvailable": row["vcpus"],
        "MemoryGB": row["memory_gib"],
        "LowPriorityCapable": bool(row["spot_percent"]),
        "RdmaEnabled": model.get("rdma", False),
        "HyperVGenerations": "V2",
    }
    if row["gpus"]:
        stated["GPUs"] = row["gpus"]
    return {
        "resourceType": "virtualMachines",
        "name": row["type"],
        "tier": "Standard",
        "size": row["type"].removeprefix("Standard_"),
        "family": row["family"],
        "locations": [region],
        "locationInfo": [{"location": region, "zones": _several(row["zones"]), "zoneDetails": []}],
        "capabilities": [{"name": name, "value": str(value)} for name, value in stated.items()],
        "restrictions": list(_restrictions(row)),
    }


def _several(text: str) -> list[str]:
    return list(filter(None, text.split(",")))


def _restrictions(row: Row) -> Iterator[dict[str, Any]]:
    region, info = row["region"], {"locations": [row["region"]]}
    if zones := _several(row["restricted_zones"]):
        reason = "NotAvailableForSubscription"
        yield {
            "type": "Zone",
            "values": [region],
            "restrictionInfo": {**info, "zones": zones},
            "reasonCode": reason,
        }
    if row["restricted"]:
        yield {"type": "Location", "values": [region], "restrictionInfo": info, "reasonCode": row["restricted"]}


def usages(rows: Iterable[Row], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the quotas of a region's rows, and what is used of each, as Microsoft.Compute lists them."""
    families = {row["family"]: (row["quota"], row["quota_used"]) for row in rows}
    used = sum(part for _, part in families.values())
    regional = {"cores": (options["regional_cores"], used)}
    regional |= {"lowPriorityCores": (options["spot_cores"], options["spot_cores_used"])}
    return [
        {"limit": limit, "unit": "Count", "currentValue": part, "name": {"value": name, "localizedValue": name}}
        for name, (limit, part) in {**regional, **families}.items()
    ]


def disk(region: str) -> dict[str, Any]:
    """Return a resource SKU that is no machine: they are in the same list."""
    return {
        "resourceType": "disks",
        "name": "Premium_LRS",
        "tier": "Premium",
        "locations": [region],
        "locationInfo": [{"location": region, "zones": []}],
        "capabilities": [],
        "restrictions": [],
    }


def items(row: Row) -> Iterator[dict[str, Any]]:
    """Yield what the price list says of a row: its Linux meters among those that a reader must not take."""
    hour = exact(row["price"]) * exact(row["price_percent"]) / 100
    name = row["type"].removeprefix("Standard_").replace("_", " ")
    plans = [{"unitPrice": hour * percent / 100, "term": term} for term, _, percent in _YEARS]
    saving = [{**plan, "retailPrice": plan["unitPrice"]} for plan in plans]
    yield _item(row, name, hour, savingsPlan=saving)
    yield _item(row, f"{name} Low Priority", hour * LOW_PRIORITY_PERCENT / 100)
    if row["spot_percent"]:
        yield _item(row, f"{name} Spot", hour * exact(row["spot_percent"]) / 100)
        yield _item(row, f"{name} Spot", hour * exact(row["spot_percent"]) / 80, " Windows")
    yield _item(row, name, hour * WINDOWS_PERCENT / 100, row["model"].get("windows", " Windows"))
    yield _item(row, name, hour * 90 / 100, " Windows", type="DevTestConsumption")
    yield _item(row, name, hour * 110 / 100, " Cloud Services")
    yield _item(row, name, Decimal(0))
    for term, hours, percent in _YEARS if row["model"].get("reserved", True) else ():
        total = (hour * percent / 100 * hours).quantize(Decimal(1))
        yield _item(row, name, total, type="Reservation", reservationTerm=term)


def _item(row: Row, name: str, price: Decimal, product: str = "", **more: Any) -> dict[str, Any]:
    place = row["place"]
    series = f"Virtual Machines {row['model']['series']} Series{product}"
    identity = "|".join([row["region"], series, name, *map(str, more.values())])
    return {
        "currencyCode": "CNY" if place.get("china") else "USD",
        "tierMinimumUnits": Decimal(0),
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": row["region"],
        "location": place["location"],
        "effectiveStartDate": "2026-06-01T00:00:00Z",
        "meterId": hashlib.sha256(identity.encode()).hexdigest()[:32],
        "meterName": name,
        "productName": series,
        "skuName": name,
        "serviceName": "Virtual Machines",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": row["type"],
        **more,
    }
