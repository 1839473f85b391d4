"""AWS's bulk price list as CSV, the rows a reader wants among the rows it must not take."""

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from simcloud.aws_rows import on_demand_price
from simcloud.world import Row

_HEADER = (
    "SKU,OfferTermCode,RateCode,TermType,PriceDescription,EffectiveDate,StartingRange,EndingRange,Unit,PricePerUnit,"
    "Currency,RelatedTo,LeaseContractLength,PurchaseOption,OfferingClass,Product Family,serviceCode,Location,"
    "Location Type,Instance Type,Current Generation,Instance Family,vCPU,Physical Processor,Memory,Storage,"
    "Network Performance,Processor Architecture,Tenancy,Operating System,License Model,usageType,operation,"
    "CapacityStatus,GPU,GPU Memory,MarketOption,Normalization Size Factor,Pre Installed S/W,Region Code,serviceName"
)
_ON_DEMAND_TERM = "JRTCKXETXF"
_HOURS = {"1yr": 8760, "3yr": 26280}
# Reserved: term code, lease, option, class, percent of the on-demand price an hour costs in all, percent paid upfront.
# The codes are AWS's; the percentages are typical, not of one machine.
_RESERVED = (
    ("4NA7Y494T4", "1yr", "No Upfront", "standard", 63, 0),
    ("HU7G6KETJZ", "1yr", "Partial Upfront", "standard", 60, 50),
    ("6QCMYABX3D", "1yr", "All Upfront", "standard", 59, 100),
    ("BPH4J8HBKS", "3yr", "No Upfront", "standard", 43, 0),
    ("NQ3QZPMQV9", "3yr", "All Upfront", "standard", 38, 100),
    ("7NE97W5U4E", "1yr", "No Upfront", "convertible", 72, 0),
)
# Products of the same machine: fields that differ from Linux on demand, percent of its price.
_DECOYS: tuple[tuple[dict[str, str], int], ...] = (
    ({"Operating System": "Windows", "operation": "RunInstances:0002"}, 140),
    ({"Operating System": "RHEL", "operation": "RunInstances:0010"}, 103),
    ({"Operating System": "SUSE", "operation": "RunInstances:000g"}, 102),
    ({"Pre Installed S/W": "SQL Web", "operation": "RunInstances:0200"}, 124),
    ({"Tenancy": "Dedicated", "usageType": "DedicatedUsage"}, 110),
    ({"MarketOption": "CapacityBlock", "operation": "RunInstances:CB", "usageType": "CapacityBlock"}, 0),
    ({"CapacityStatus": "AllocatedCapacityReservation", "usageType": "Reservation"}, 0),
    ({"CapacityStatus": "UnusedCapacityReservation", "usageType": "UnusedBox"}, 100),
    ({"Location Type": "AWS Local Zone", "Region Code": "us-west-2-lax-1", "usageType": "LAX1-BoxUsage"}, 80),
)


def region_csv(rows: Iterable[Row], region: Mapping[str, Any], published: str) -> bytes:
    """Return a region's file: five lines of preamble, the header, quoted fields.

    `published` is the publication date, RFC 3339 in UTC.
    """
    out = io.StringIO()
    out.write(
        '"FormatVersion","v1.0"\n"Disclaimer","Simulated prices: no offer of anybody."\n'
        f'"Publication Date","{published}"\n"Version","{version(published)}"\n"OfferCode","AmazonEC2"\n'
    )
    writer = csv.DictWriter(out, _HEADER.split(","), restval="", quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(region_lines(rows, region))
    return out.getvalue().encode()


def region_lines(rows: Iterable[Row], region: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Return the lines of a region by the names of the columns."""
    for row in {row["type"]: row for row in rows}.values():
        yield from _machine_lines(row, region)


def version(published: str) -> str:
    """Return the version number AWS derives from a publication date: `20260720134430`."""
    return "".join(character for character in published if character.isdigit())


def _machine_lines(row: Row, region: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    hour = on_demand_price(row)
    linux = _product(row, region, {})
    if row["on_demand"]:
        yield _on_demand(linux, hour)
        yield from _reserved(linux, hour)
    for fields, percent in _DECOYS:
        by_block = "capacity-block" in row["model"]["usage_classes"]
        if by_block if "MarketOption" in fields else row["on_demand"]:
            yield _on_demand(_product(row, region, fields), hour * percent / 100)


def _product(row: Row, region: Mapping[str, Any], differs: Mapping[str, str]) -> dict[str, str]:
    model, memory_gib = row["model"], Decimal(row["memory_mib"]) / 1024
    fields = {
        "Product Family": "Compute Instance",
        "serviceCode": "AmazonEC2",
        "Location": region["location"],
        "Location Type": region.get("location_type", "AWS Region"),
        "Instance Type": row["type"],
        "Current Generation": "Yes",
        "Instance Family": "GPU instance" if model["device"] == "gpu" else "Machine Learning ASIC Instances",
        "vCPU": str(row["vcpus"]),
        "Physical Processor": model["cpu"],
        "Memory": f"{memory_gib.normalize():,f} GiB",
        "Processor Architecture": "64-bit",
        "Tenancy": "Shared",
        "Operating System": "Linux",
        "License Model": "No License required",
        "usageType": "BoxUsage",
        "operation": "RunInstances",
        "CapacityStatus": "Used",
        "GPU": f"{row['devices'].normalize():f}",
        "MarketOption": "OnDemand",
        "Normalization Size Factor": "NA",
        "Pre Installed S/W": "NA",
        "Region Code": region["id"],
        "serviceName": "Amazon Elastic Compute Cloud",
        **differs,
    }
    fields["usageType"] = f"{fields['usageType']}:{row['type']}"
    identity = "|".join([region["id"], fields["usageType"], fields["operation"], fields["Pre Installed S/W"]])
    return fields | {"SKU": hashlib.sha256(identity.encode()).hexdigest()[:16].upper()}


def _on_demand(product: Mapping[str, str], hour: Decimal) -> dict[str, str]:
    description = f"${hour.normalize():f} per {product['Operating System']} {product['Instance Type']} Instance Hour"
    return _line(product, _ON_DEMAND_TERM, "6YS6EN2CT7", "OnDemand", description, "Hrs", hour)


def _reserved(product: Mapping[str, str], hour: Decimal) -> Iterator[dict[str, str]]:
    for code, lease, option, offering, percent, upfront_percent in _RESERVED:
        terms = {"LeaseContractLength": lease, "PurchaseOption": option, "OfferingClass": offering}
        each_hour = hour * percent / 100
        running = each_hour * (100 - upfront_percent) / 100
        applied = f"Linux/UNIX (Amazon VPC), {product['Instance Type']} reserved instance applied"
        yield _line(product, code, "6YS6EN2CT7", "Reserved", applied, "Hrs", running) | terms
        if upfront_percent:
            total = (each_hour * upfront_percent / 100 * _HOURS[lease]).quantize(Decimal(1))
            yield _line(product, code, "2TG2D8R56U", "Reserved", "Upfront Fee", "Quantity", total) | terms


def _line(
    product: Mapping[str, str], term: str, rate: str, kind: str, description: str, unit: str, price: Decimal
) -> dict[str, str]:
    return {
        **product,
        "OfferTermCode": term,
        "RateCode": f"{product['SKU']}.{term}.{rate}",
        "TermType": kind,
        "PriceDescription": description,
        "EffectiveDate": "2026-07-01",
        "StartingRange": "0" if unit == "Hrs" else "",
        "EndingRange": "Inf" if unit == "Hrs" else "",
        "Unit": unit,
        "PricePerUnit": f"{price:.10f}",
        "Currency": "CNY" if product["Region Code"].startswith("cn-") else "USD",
    }
