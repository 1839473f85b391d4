"""Build catalog/snapshot/list_prices.csv from a table of list prices: python scripts/build_snapshot.py SOURCE.csv.

SOURCE has a row for each provider, region and machine: provider, region, instance_type, vcpus, memory_gib, currency,
on_demand_per_hour, spot_usd_per_hour, as_of, source. The result has a row for each of them and purchase. Accelerators
come from catalog/snapshot/machines.csv; a machine that it lacks is written with an unknown accelerator and reported.
The same input always gives the same bytes.
"""

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that it runs from a checkout that is not installed

from catalog.money import price_nanos  # noqa: E402

FOLDER = ROOT / "catalog" / "snapshot"
COLUMNS = (
    *("provider", "region", "instance_type", "gpu", "gpu_count", "vcpus", "memory_mib"),
    *("purchase", "currency", "price", "as_of", "source"),
)
Row = Mapping[str, str]
Machines = Mapping[tuple[str, str], Row]
UNKNOWN_MACHINE: Row = {"gpu": "", "gpu_count": "", "spot_only": "false"}


def main() -> None:
    """Read SOURCE, write the snapshot, and say what is in it."""
    parser = argparse.ArgumentParser(description="Build the bundled price snapshot.")
    parser.add_argument("source", type=Path, help="table of list prices (CSV)")
    parser.add_argument("--machines", type=Path, default=FOLDER / "machines.csv", help="accelerators by machine (CSV)")
    parser.add_argument("--out", type=Path, default=FOLDER / "list_prices.csv", help="where to write")
    arguments = parser.parse_args()
    machines = {(row["provider"], row["instance_type"]): row for row in read(arguments.machines)}
    rows = sorted(snapshot(read(arguments.source), machines), key=lambda row: [row[column] for column in COLUMNS])
    with arguments.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} prices in {arguments.out}")
    report_unknown(rows)


def read(path: Path) -> list[Row]:
    """The rows of a CSV file with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def snapshot(source: Iterable[Row], machines: Machines) -> Iterator[Row]:
    """A row for each price in `source`; a missing, zero or negative price gives none."""
    for row in source:
        machine = machines.get((row["provider"], row["instance_type"]), UNKNOWN_MACHINE)
        for purchase, currency, price in prices(row, spot_only=machine["spot_only"] == "true"):
            if price_nanos(price) is not None:
                yield snapshot_row(row, machine) | {"purchase": purchase, "currency": currency, "price": price}


def prices(row: Row, *, spot_only: bool) -> Iterator[tuple[str, str, str]]:
    """(purchase, currency, price) as SOURCE states them, per whole machine and hour."""
    if not spot_only:
        yield "on_demand", row["currency"], row["on_demand_per_hour"]
    yield "spot", "USD", row["spot_usd_per_hour"]


def snapshot_row(row: Row, machine: Row) -> dict[str, str]:
    """What all purchases of a machine in a region have in common."""
    taken = {column: row[column] for column in ("provider", "region", "instance_type", "vcpus", "as_of", "source")}
    return taken | {
        "gpu": machine["gpu"],
        "gpu_count": machine["gpu_count"],
        "memory_mib": memory_mib(row["memory_gib"]),
    }


def memory_mib(memory_gib: str) -> str:
    """GiB as MiB; empty stays empty. Raises ValueError where that is not a whole number of MiB."""
    if not memory_gib:
        return ""
    mib = Decimal(memory_gib) * 1024
    if mib != mib.to_integral_value():
        raise ValueError(f"SOURCE: a memory of {memory_gib} GiB is not a whole number of MiB: correct the row.")
    return str(int(mib))


def report_unknown(rows: Iterable[Row]) -> None:
    """Say on stderr which machines have no accelerator or no count."""
    for column in ("gpu", "gpu_count"):
        unknown = sorted({f"{row['provider']}/{row['instance_type']}" for row in rows if not row[column]})
        if unknown:
            print(f"{column} unknown for {len(unknown)} machines: {', '.join(unknown)}", file=sys.stderr)


if __name__ == "__main__":
    main()
