"""What UCloud sells in a scenario: its tables spread into rows, and its answers made of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from simcloud.faults import fits
from simcloud.scenario import ScenarioError
from simcloud.world import Row, exact

LEVELS = ("Normal", "Beta", "Soldout", "Hidden")
POOLS = ("Exclusive", "Spot")
_TERM_HOURS = {"Dynamic": 1, "Month": 480, "Year": 4800}
"""For how many hours' price a charge type is sold: a month for 20 days, a year for ten months, as UCloud does."""
_DISK_HOUR = Decimal("0.04")


def expand(table: Mapping[str, Any]) -> list[Row]:
    """Two kinds of row: `type` (a machine type in a zone, to keep or as spot) and `card` (CompShare's count of it)."""
    regions = {zone[0]: region["id"] for region in table["region"] for zone in region["zones"]}
    rows = [row for kind in table["type"] for row in _type_rows(kind, regions)]
    rows += [row for card in table.get("card", []) for row in _card_rows(card, regions)]
    for rule in table.get("stock", []):
        touched = [row for row in rows if row["kind"] == "type" and fits(rule["match"], row)]
        if not touched:
            raise ScenarioError(f"ucloud.stock: nothing fits {rule['match']}")
        for row in touched:
            row["stock"] = rule["level"]
    return rows


def _type_rows(kind: Mapping[str, Any], regions: Mapping[str, str]) -> Iterator[Row]:
    for zone in kind["zones"]:
        region = _region_of(zone, regions, kind["name"])
        for instance in ("uhost", "spot") if "spot_percent" in kind else ("uhost",):
            place = {"kind": "type", "region": region, "zone": zone, "type": kind["name"], "instance": instance}
            yield place | {"stock": "Normal", "price_percent": 100, "model": kind}


def _card_rows(card: Mapping[str, Any], regions: Mapping[str, str]) -> Iterator[Row]:
    for zone, counts in card["zones"].items():
        region = _region_of(zone, regions, card["name"])
        for pool, free in zip(POOLS, counts, strict=False):
            place = {"kind": "card", "region": region, "zone": zone, "type": card["name"], "pool": pool}
            yield place | {"free": free, "price_percent": 100, "model": card}


def _region_of(zone: str, regions: Mapping[str, str], name: str) -> str:
    if zone not in regions:
        raise ScenarioError(f"ucloud {name}: no region has the zone {zone!r}")
    return regions[zone]


def available_type(row: Row) -> dict[str, Any]:
    """Return the AvailableInstanceTypes record of a row."""
    model = row["model"]
    record = {
        "Zone": row["zone"],
        "Name": row["type"],
        "ParentType": "G" if model.get("memory_gb") else row["type"],
        "MachineClass": "GPU" if model.get("memory_gb") else "Normal",
        "InstanceType": row["instance"],
        "Status": row["stock"],
        "CpuPlatforms": {"Intel": ["Intel/Auto"], "Amd": [], "Ampere": []},
        "Features": [],
        "Disks": [_DISKS],
        "MachineSizes": list(_machine_sizes(model["sizes"])),
    }
    if model.get("memory_gb"):
        record["GraphicsMemory"] = {"Value": model["memory_gb"], "Rate": 5}
        record["Performance"] = {"Value": float(model["tflops"]), "Rate": 5}
    return record


_DISKS = {
    "Name": "cloudDisk",
    "BootDisk": [{"Name": "CLOUD_RSSD", "Features": ["SNAPSHOT"], "InstantResize": True, "MaximalSize": 500}],
    "DataDisk": [{"Name": "CLOUD_RSSD", "Features": ["SNAPSHOT"], "MinimalSize": 20, "MaximalSize": 32000}],
}


def _machine_sizes(sizes: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    by_cards: dict[int, dict[int, list[int]]] = {}
    for cards, vcpus, memory_gb, _price in sizes:
        by_cards.setdefault(cards, {}).setdefault(vcpus, []).append(memory_gb)
    for cards, collections in by_cards.items():
        sold = [
            {"Cpu": vcpus, "Memory": memory, "MinimalCpuPlatform": ["Intel/Auto"]}
            for vcpus, memory in collections.items()
        ]
        yield {"Gpu": cards, "Collection": sold}


def hour_price(rows: Iterable[Row], cards: int, vcpus: int, memory_gb: int) -> Decimal | None:
    """Return what that size costs an hour in the first of these rows that has it."""
    for row in rows:
        for size in row["model"]["sizes"]:
            if tuple(size[:3]) == (cards, vcpus, memory_gb):
                return exact(size[3]) * exact(row["price_percent"]) / 100
    return None


def price_set(hour: Decimal, spot_percent: int | None, charge: str, *, detailed: bool) -> list[dict[str, Any]]:
    """Return the PriceSet of one machine with its boot disk: of the one charge type that is named; where none is, of
    all but spot, as UCloud's page has it.
    """
    totals = {name: hour * hours for name, hours in _TERM_HOURS.items()}
    if spot_percent is not None and charge == "Spot":
        totals["Spot"] = hour * spot_percent / 100
    return [
        _price(name, total, _DISK_HOUR * _TERM_HOURS.get(name, 1), detailed=detailed)
        for name, total in totals.items()
        if charge in ("", name)
    ]


def _price(charge: str, machine: Decimal, disk: Decimal, *, detailed: bool) -> dict[str, Any]:
    payable, before = float(round(machine + disk, 2)), float(round(machine + disk, 2))
    record: dict[str, Any] = {"ChargeType": charge, "Price": payable, "OriginalPrice": before}
    if detailed:
        part = {"UHost": float(round(machine, 2)), "UDisk": float(round(disk, 2)), "Snapshot": 0, "Volume": 0}
        record |= {"PriceDetail": part, "OriginalPriceDetail": part}
    return record


def gpu_inventory(rows: Iterable[Row], numbers: Mapping[str, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Return GpuInventoryByZone of CompShare's rows."""
    pools: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        of_zone = pools.setdefault(row["pool"], {}).setdefault(str(numbers[row["zone"]]), {})
        of_zone[row["type"]] = int(row["free"])
    return pools


def card_prices(row: Row, charge: str) -> dict[str, Any]:
    """Return the price details of one card of CompShare, under one charge type."""
    percent = exact(row["price_percent"]) * _TERM_HOURS[charge] / 100
    amounts = {name: float(round(exact(row["model"][name]) * percent, 2)) for name in ("price", "list_price")}
    payable, listed = (
        {
            "ChargeType": charge,
            "Instance": amounts[name],
            "Disks": 0.0,
            "CompShareImage": 0.0,
            "OriginalPrice": amounts["list_price"],
            "ListPrice": str(amounts["list_price"]),
        }
        for name in ("price", "list_price")
    )
    return {"PriceDetail": [payable], "OriginalPriceDetail": [listed], "ListPriceDetail": [listed]}
