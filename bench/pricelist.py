"""AWS's price list, read: from the bytes to the rows that are kept, and the csv module over the same file.

The reader is `collectors.aws_pricelist` as a poll uses it: it fetches from a file server in another process. What the
HTTP client takes is no reading: the same file is fetched once more and thrown away, and that time is taken off. The csv
module reads the file from disk and keeps the same rows by the same columns. What becomes of the rows, the facts, is a
line of its own. All times are the reading process's own processor time.
"""

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, TypeVar

from bench.processes import BenchError, environment, memory_mib, started, told_by
from bench.rounds import in_turns
from bench.table import Line, at_least, figure_at_most

_S = TypeVar("_S")
_T = TypeVar("_T")
NAME = "pricelist"
REGION = "us-east-1"
MB = 1_000_000
MODULE = "bench.pricelist"
_HEADER = (
    "SKU,OfferTermCode,RateCode,TermType,PriceDescription,EffectiveDate,StartingRange,EndingRange,Unit,PricePerUnit,"
    "Currency,RelatedTo,LeaseContractLength,PurchaseOption,OfferingClass,Product Family,serviceCode,Location,"
    "Location Type,Instance Type,Current Generation,Instance Family,vCPU,Physical Processor,Memory,Storage,"
    "Network Performance,Processor Architecture,Tenancy,Operating System,License Model,usageType,operation,"
    "CapacityStatus,GPU,GPU Memory,MarketOption,Normalization Size Factor,Pre Installed S/W,Region Code,serviceName"
)
COLUMNS = [*_HEADER.split(","), *(f"Unused {number}" for number in range(50))]
"""As many as AWS's file has; those of no interest here are empty, as most of them are in most of its lines."""
PREAMBLE = (
    '"FormatVersion","v1.0"\n"Disclaimer","Invented prices: no offer of anybody."\n'
    '"Publication Date","2026-11-30T00:00:00Z"\n"Version","20261130000000"\n"OfferCode","AmazonEC2"\n'
)
SYSTEMS = (
    ("Linux", "NA", "RunInstances"), ("RHEL", "NA", "RunInstances:0010"), ("SUSE", "NA", "RunInstances:000g"),
    ("Ubuntu Pro", "NA", "RunInstances:0g00"), ("Windows", "NA", "RunInstances:0002"),
    ("Linux", "SQL Web", "RunInstances:0200"), ("Linux", "SQL Std", "RunInstances:0004"),
    ("Linux", "SQL Ent", "RunInstances:0100"), ("Windows", "SQL Web", "RunInstances:0202"),
    ("Windows", "SQL Std", "RunInstances:0006"), ("Windows", "SQL Ent", "RunInstances:0102"),
)  # fmt: skip
KEPT_BY = (
    ("Shared", "Used"), ("Shared", "AllocatedCapacityReservation"), ("Shared", "UnusedCapacityReservation"),
    ("Dedicated", "Used"), ("Dedicated", "AllocatedCapacityReservation"), ("Dedicated", "UnusedCapacityReservation"),
    ("Host", "Used"),
)  # fmt: skip
RESERVED = tuple(
    (lease, option, unit, offering)
    for offering in ("standard", "convertible")
    for lease in ("1yr", "3yr")
    for option, unit in (("No Upfront", "Hrs"), ("All Upfront", "Hrs"), ("All Upfront", "Quantity"))
)
SIZES = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
TYPES_OF_BLOCK = 60
BLOCK_MARK = b"@@@@"
"""Stands for the number of the block in the names of its machines, so that no two blocks name one."""


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    size, rounds = (30, 2) if quick else (300, 3)
    with tempfile.TemporaryDirectory(prefix="gpufare-bench-") as named:
        folder = Path(named)
        file = folder / f"offers/v1.0/aws/AmazonEC2/current/{REGION}/index.csv"
        kept = write_price_list(file, size * MB)
        written = file.stat().st_size / MB
        with file_server(folder) as url:
            told: list[Any] = []

            def ours() -> float:
                told.append(told_by([MODULE, "ours", url], folder))
                return float(written / (told[-1]["read_s"] - told[-1]["fetched_s"]))

            found = in_turns(rounds, lambda: float(written / _csv_alone(file, folder)), ours)
    yield Line(
        name=f"price list of {written:.0f} MB, {kept:.1%} of its lines kept",
        figure=found.figure,
        unit="MB/s",
        peer="csv module",
        peer_figure=found.peer_figure,
        ratio=found.ratio,
        limit=at_least(3),
    )
    facts = [written / (one["read_s"] + one["facts_s"] - one["fetched_s"]) for one in told]
    note = f"{told[-1]['facts']:,} facts"
    yield Line(name="price list, to facts", figure=median(facts), unit="MB/s", note=note)
    whole = [written / (one["read_s"] + one["facts_s"]) for one in told]
    yield Line(name="price list, to facts, with its HTTP client", figure=median(whole), unit="MB/s")
    peaks = [one["peak_mib"] for one in told]
    yield Line(name="price list, memory above the base", figure=max(peaks), unit="MiB", limit=figure_at_most(64, "MiB"))


def _csv_alone(file: Path, folder: Path) -> float:
    return float(told_by([MODULE, "csv", str(file)], folder)["whole_s"])


def write_price_list(file: Path, size: int) -> float:
    """Write a price list of about this size; returns the part of its lines that a reader keeps.

    A machine is there in every system, software, tenancy and reservation of capacity, with the reserved terms of each,
    beside lines that are no machine's, as in AWS's own file. All types have an accelerator here, since the standard
    terms of those are kept: else far less than one line in fifty would be.
    """
    file.parent.mkdir(parents=True)
    rows = [row for number in range(TYPES_OF_BLOCK) for row in _rows_of_type(number)]
    block = "".join(_line(row) for row in rows).encode()
    with file.open("wb") as out:
        out.write((PREAMBLE + ",".join(f'"{name}"' for name in COLUMNS) + "\n").encode())
        for number in range(max(1, size // len(block))):
            out.write(block.replace(BLOCK_MARK, b"%04d" % number))
    return sum(is_kept(row) for row in rows) / len(rows)


def _line(row: dict[str, str]) -> str:
    return ",".join(f'"{row[name]}"' if row.get(name) else "" for name in COLUMNS) + "\n"


def _rows_of_type(number: int) -> Iterator[dict[str, str]]:
    machine = _machine(number)
    for system, software, operation in SYSTEMS:
        product = {"Operating System": system, "Pre Installed S/W": software, "operation": operation}
        for tenancy, capacity in KEPT_BY:
            yield machine | _term("OnDemand", "Hrs", number) | product | _held(tenancy, capacity)
        for lease, option, unit, offering in RESERVED:
            terms = {"LeaseContractLength": lease, "PurchaseOption": option, "OfferingClass": offering}
            for tenancy in ("Shared", "Dedicated"):
                yield machine | _term("Reserved", unit, number) | product | _held(tenancy, "Used") | terms
    for _ in range(11):
        yield _term("OnDemand", "GB-Mo", number) | {
            "SKU": f"{number:04d}{BLOCK_MARK.decode()}GP3STORAGE", "Product Family": "Storage",
            "PriceDescription": "$0.08 per GB-month of General Purpose (gp3) provisioned storage",
            "Location": "US East (N. Virginia)", "Location Type": "AWS Region", "Region Code": REGION,
        }  # fmt: skip


def _machine(number: int) -> dict[str, str]:
    vcpus = 2 << number % 6
    instance_type = f"g{BLOCK_MARK.decode()}x{number // 6}.{SIZES[number % 6]}"
    return {
        "SKU": f"{number:04d}{BLOCK_MARK.decode()}K3ZXUSD9PQ",
        "Product Family": "Compute Instance",
        "serviceCode": "AmazonEC2",
        "Location": "US East (N. Virginia)",
        "Location Type": "AWS Region",
        "Instance Type": instance_type,
        "Current Generation": "Yes",
        "Instance Family": "GPU instance",
        "vCPU": str(vcpus),
        "Physical Processor": "Intel Xeon Platinum 8175 (Skylake)",
        "Memory": f"{vcpus * 4} GiB",
        "Storage": "EBS only",
        "Network Performance": "Up to 10 Gigabit",
        "Processor Architecture": "64-bit",
        "License Model": "No License required",
        "usageType": f"BoxUsage:{instance_type}",
        "GPU": "1",
        "MarketOption": "OnDemand",
        "Normalization Size Factor": "NA",
        "Region Code": REGION,
        "serviceName": "Amazon Elastic Compute Cloud",
    }


def _held(tenancy: str, capacity: str) -> dict[str, str]:
    return {"Tenancy": tenancy, "CapacityStatus": capacity}


def _term(kind: str, unit: str, number: int) -> dict[str, str]:
    amount = f"{0.05 * (number + 1) * (2000 if unit == 'Quantity' else 1):.10f}"
    return {
        "OfferTermCode": "JRTCKXETXF",
        "RateCode": f"{number:04d}{BLOCK_MARK.decode()}K3ZXUSD9PQ.JRTCKXETXF.6YS6EN2CT7",
        "TermType": kind,
        "PriceDescription": f"${amount} per Instance Hour",
        "EffectiveDate": "2026-07-01",
        "StartingRange": "0",
        "EndingRange": "Inf",
        "Unit": unit,
        "PricePerUnit": amount,
        "Currency": "USD",
    }


def is_kept(row: dict[str, str]) -> bool:
    """Whether a row is a plain Linux machine's, on demand, or its standard term where it has an accelerator."""
    plain = ("Linux", "NA", "RunInstances", "Shared", "Used", "AWS Region", "Compute Instance")
    columns = (
        "Operating System", "Pre Installed S/W", "operation", "Tenancy", "CapacityStatus", "Location Type",
        "Product Family",
    )  # fmt: skip
    if tuple(row.get(name, "") for name in columns) != plain:
        return False
    return row["TermType"] == "OnDemand" or (row["OfferingClass"] == "standard" and row["GPU"] != "")


@contextmanager
def file_server(folder: Path) -> Iterator[str]:
    """The address of a file server over the folder, in a process of its own."""
    arguments = ["http.server", "--bind", "127.0.0.1", "--directory", str(folder), "0"]
    unbuffered = environment(PYTHONUNBUFFERED="1")
    with started(arguments, unbuffered, folder, stdout=subprocess.PIPE) as process:
        said = process.stdout.readline().decode() if process.stdout is not None else ""
        if "port" not in said:
            raise BenchError(f"the file server did not start: it said {said!r}")
        yield f"http://127.0.0.1:{said.split('port')[1].split()[0]}"


def read_with_csv(file: Path) -> list[list[str]]:
    """The rows to be kept, by the csv module alone."""
    with file.open(newline="", encoding="utf-8") as opened:
        rows = csv.reader(opened)
        for _ in range(5):
            next(rows)
        at = {name: number for number, name in enumerate(next(rows))}
        system, software, operation = at["Operating System"], at["Pre Installed S/W"], at["operation"]
        tenancy, capacity, product = at["Tenancy"], at["CapacityStatus"], at["Product Family"]
        location, term, offering, gpu = at["Location Type"], at["TermType"], at["OfferingClass"], at["GPU"]
        return [
            row
            for row in rows
            if row[system] == "Linux"
            and row[software] == "NA"
            and row[operation] == "RunInstances"
            and row[tenancy] == "Shared"
            and row[capacity] == "Used"
            and row[location] == "AWS Region"
            and row[product] == "Compute Instance"
            and (row[term] == "OnDemand" or (row[offering] == "standard" and row[gpu] != ""))
        ]


def read_with_ours(url: str) -> list[Any]:
    """The pages of rows that are kept, as a poll fetches them."""
    from collectors.aws_pricelist import Prices
    from collectors.base import Cell, Config

    prices = Prices(Config(endpoints={"price_list": url}, timeout=timedelta(minutes=1)))
    return list(prices.fetch(Cell(prices.provider, prices.name, REGION), datetime.now(UTC), {}))


def facts_of(pages: list[Any]) -> list[Any]:
    """What the pages say."""
    from collectors.aws_pricelist import Prices
    from collectors.base import Config

    prices = Prices(Config())
    return [fact for page in pages for fact in prices.parse(page)]


def fetch_alone(url: str) -> None:
    """The same file by the same HTTP client, its bytes thrown away."""
    from collectors.http import streamed

    address = f"{url}/offers/v1.0/aws/AmazonEC2/current/{REGION}/index.csv"
    with streamed("GET", address, now=datetime.now(UTC), timeout=timedelta(minutes=1)) as answer:
        for _ in answer.chunks:
            pass


def _main(arguments: Sequence[str]) -> None:
    """One reading in this process, told as JSON: `csv FILE`, or `ours URL`."""
    import httpx2  # noqa: F401 - what is loaded only once is neither the reader's time nor its memory

    import collectors.aws_pricelist  # noqa: F401

    kind, source = arguments
    base = memory_mib("self")
    told: dict[str, float] = {}
    if kind == "csv":
        told["whole_s"], _ = _timed(read_with_csv, Path(source))
    else:
        told["read_s"], pages = _timed(read_with_ours, source)
        told["facts_s"], facts = _timed(facts_of, pages)
        told["facts"] = len(facts)
        told["peak_mib"] = memory_mib("self", "VmHWM") - base
        told["fetched_s"], _ = _timed(fetch_alone, source)
    sys.stdout.write(json.dumps(told))


def _timed(read: Callable[[_S], _T], source: _S) -> tuple[float, _T]:
    """The processor time of a reading, and what was read."""
    start = process_time()
    found = read(source)
    return process_time() - start, found


if __name__ == "__main__":
    _main(sys.argv[1:])
