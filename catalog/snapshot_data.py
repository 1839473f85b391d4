"""The bundled list prices (snapshot/list_prices.csv): what things cost before anything was polled. No stock."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from importlib.resources import files

from catalog.money import price_nanos
from catalog.words import Purchase


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One list price: nano-units of `currency` per whole machine and hour, as `source` had it on `as_of`.

    `gpu` is an accelerator id. `gpu` and `gpu_count` are None, each by itself, where no source states them.
    """

    provider: str
    region: str
    instance_type: str
    gpu: str | None
    gpu_count: Fraction | None
    vcpus: int | None
    memory_mib: int | None
    purchase: Purchase
    currency: str
    price_nanos: int
    as_of: date
    source: str
    site: str | None = None
    """Which of a provider's sites the price is of; None for one that has but one."""


def snapshot_rows() -> Iterator[SnapshotRow]:
    """Every row, in the order of the file: provider, region, instance type, purchase."""
    sites = {row["provider"]: row["site"] for row in _table("sites.csv")}
    return (_row(row, sites.get(row["provider"])) for row in _table("list_prices.csv"))


def _table(name: str) -> Iterator[Mapping[str, str]]:
    text = files("catalog").joinpath("snapshot", name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def _row(row: Mapping[str, str], site: str | None) -> SnapshotRow:
    return SnapshotRow(
        provider=row["provider"],
        region=row["region"],
        instance_type=row["instance_type"],
        gpu=row["gpu"] or None,
        gpu_count=Fraction(row["gpu_count"]) if row["gpu_count"] else None,
        vcpus=int(row["vcpus"]) if row["vcpus"] else None,
        memory_mib=int(row["memory_mib"]) if row["memory_mib"] else None,
        purchase=Purchase(row["purchase"]),
        currency=row["currency"],
        price_nanos=_price_nanos(row),
        as_of=date.fromisoformat(row["as_of"]),
        source=row["source"],
        site=site,
    )


def _price_nanos(row: Mapping[str, str]) -> int:
    nanos = price_nanos(row["price"])
    if nanos is None:
        place = "/".join((row["provider"], row["region"], row["instance_type"], row["purchase"]))
        raise ValueError(
            f"catalog/snapshot/list_prices.csv: {place} has no price: {row['price']!r}. "
            "Build the file anew with scripts/build_snapshot.py."
        )
    return nanos
