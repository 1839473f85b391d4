"""AWS's price list over a local file host: what is read, what is skipped and why, and a file that is not whole."""

import csv
import gzip
import io
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import pytest

from catalog.facts import Machine, Note, Price
from catalog.words import Purchase
from collectors.aws_pricelist import BLOCK_BYTES, Prices, _File, _linux
from collectors.base import (
    PAGE_BYTES,
    Cell,
    Config,
    Drift,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
    Unchanged,
)
from tests.support.canned import Asked, Canned, canned
from tests.support.pages import NOW

PREAMBLE = (
    '"FormatVersion","v1.0"\n"Disclaimer","Invented, with a, comma."\n"Publication Date","2026-07-20T13:44:30Z"\n'
    '"Version","20260720134430"\n"OfferCode","AmazonEC2"\n'
)
LINUX: Mapping[str, str] = {
    "SKU": "", "OfferTermCode": "JRTCKXETXF", "TermType": "OnDemand", "PriceDescription": "", "Unit": "Hrs",
    "PricePerUnit": "", "Currency": "USD", "LeaseContractLength": "", "PurchaseOption": "", "OfferingClass": "",
    "Product Family": "Compute Instance", "Location": "US East (N. Virginia)", "Location Type": "AWS Region",
    "Instance Type": "", "Instance Family": "General purpose", "vCPU": "8", "Memory": "1,952 GiB", "Tenancy": "Shared",
    "Operating System": "Linux", "License Model": "No License required", "operation": "RunInstances",
    "CapacityStatus": "Used", "GPU": "", "GPU Memory": "", "MarketOption": "OnDemand", "Pre Installed S/W": "NA",
    "Region Code": "us-east-1",
}  # fmt: skip
DECOYS: Mapping[str, Mapping[str, str]] = {
    "other_operation": {"Operating System": "Windows", "operation": "RunInstances:0002"},
    "other_system": {"Operating System": "Windows"},
    "dedicated": {"Tenancy": "Dedicated"},
    "capacity_reservation": {"CapacityStatus": "AllocatedCapacityReservation", "PricePerUnit": "0.0000000000"},
    "local_zone": {"Location Type": "AWS Local Zone", "Region Code": "us-east-1-bos-1"},
    "not_a_machine": {"Product Family": "Dedicated Host", "Instance Type": ""},
    "reserved_convertible": {"TermType": "Reserved", "OfferingClass": "convertible", "LeaseContractLength": "1yr"},
    "reserved_without_accelerator": {
        "TermType": "Reserved", "OfferingClass": "standard", "LeaseContractLength": "3yr",
        "PurchaseOption": "No Upfront",
    },
}  # fmt: skip
UNUSED = {"CapacityStatus": "UnusedCapacityReservation"}
HOST = {"Tenancy": "Host"}
OTHERS: tuple[Mapping[str, str], ...] = (
    UNUSED,
    HOST,
    {"Operating System": "RHEL", "operation": "RunInstances:0010"},
    {"Pre Installed S/W": "SQL Web", "operation": "RunInstances:0200"},
    {"Product Family": "Data Transfer", "operation": "", "Instance Type": ""},
)


def row(instance_type: str, price: str, **other: str) -> dict[str, str]:
    return {**LINUX, "Instance Type": instance_type, "PricePerUnit": price, **other}


def document(rows: list[dict[str, str]], columns: list[str] | None = None) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns or list(LINUX), quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**one, "SKU": f"SKU{number:06}"} for number, one in enumerate(rows))
    return (PREAMBLE + out.getvalue()).encode()


def hundreds() -> tuple[list[dict[str, str]], dict[str, int]]:
    """Rows of 300 machines, each with all its decoys, and the prices that are to be found, in nano-units."""
    rows, expected = [], {}
    for number in range(300):
        name, cents = f"m{number}.large", 10 + number
        rows.append(row(name, f"{cents / 100:.10f}"))
        rows += [{**row(name, "0.0010000000"), **other} for other in (*DECOYS.values(), *OTHERS)]
        expected[name] = cents * 10_000_000
    return rows, expected


@contextmanager
def served(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Iterator[Asked]:
    with canned(Canned(status, body, dict(headers or {}))) as server:
        yield server


def fetched(server: Asked, region: str = "us-east-1", memo: Mapping[str, str] | None = None) -> list[Page]:
    feed = Prices(Config(endpoints={"price_list": server.url}, timeout=timedelta(seconds=2)))
    return list(feed.fetch(Cell("aws", "prices", region), NOW, memo or {}))


def read(pages: list[Page]) -> list[Price | Machine | Note]:
    items = (item for page in pages for item in Prices(Config()).parse(page))
    return [item for item in items if isinstance(item, Price | Machine | Note)]


def on_demand(pages: list[Page]) -> dict[str, int]:
    found = [item for item in read(pages) if isinstance(item, Price) and item.purchase is Purchase.ON_DEMAND]
    assert len({price.instance_type for price in found}) == len(found)
    return {price.instance_type: price.nanos for price in found}


@pytest.mark.parametrize("seed", range(20))
def test_the_linux_prices_are_found_among_all_decoys_in_any_order(seed: int) -> None:
    """B002, B004, B021."""
    rows, expected = hundreds()
    columns = list(LINUX)
    random.Random(seed).shuffle(rows)
    random.Random(seed).shuffle(columns)
    with served(document(rows, columns)) as server:
        assert on_demand(fetched(server)) == expected


def test_lines_that_are_left_out_are_counted_by_reason() -> None:
    rows, _ = hundreds()
    with served(document(rows)) as server:
        (page,) = fetched(server)
    per_reason = dict.fromkeys(DECOYS, 300) | {
        "capacity_reservation": 600,
        "dedicated": 600,
        "other_operation": 1200,
    }
    assert page.skipped == per_reason
    assert len(page.body.splitlines()) == 1 + len(rows) - sum(per_reason.values())


def test_a_large_file_is_cut_between_instance_types_into_pages_that_read_alone() -> None:
    """Reserved options are joined over rows: all rows of a type, wherever in the file, are on one page."""
    filler = "x" * 4000
    rows = [row(f"m{number}.large", "1.0000000000", PriceDescription=filler) for number in range(1500)]
    reserved = {"TermType": "Reserved", "OfferingClass": "standard", "LeaseContractLength": "1yr"}
    halves = [
        row("p5.48xlarge", price, **reserved, PurchaseOption="Partial Upfront", Unit=unit, PriceDescription=filler)
        for price, unit in (("16.5000000000", "Hrs"), ("144540", "Quantity"))
    ]
    windows = {**row("m0.large", "1.5000000000"), **DECOYS["other_operation"]}
    with served(document([halves[0], *rows, halves[1], windows])) as server:
        pages = fetched(server)
    assert len(pages) == 2
    assert all(len(page.body) <= PAGE_BYTES for page in pages)
    assert [dict(page.skipped) for page in pages] == [{"other_operation": 1}, {}], "counted once"
    assert len(on_demand(pages)) == 1500
    (one,) = (item for item in read(pages) if isinstance(item, Price) and item.purchase is Purchase.RESERVED_1Y)
    assert (one.nanos, one.upfront_nanos) == (33_000_000_000, 144_540_000_000_000)


def test_the_file_comes_compressed() -> None:
    body = document([row("m5.large", "0.0960000000")])
    with served(gzip.compress(body), headers={"Content-Encoding": "gzip"}) as server:
        assert on_demand(fetched(server)) == {"m5.large": 96_000_000}
    assert "gzip" in server.requests[0][1]["Accept-Encoding"]


def test_an_unchanged_file_is_not_sent_again() -> None:
    with served(document([row("m5.large", "0.0960000000")]), headers={"ETag": '"abc-5"'}) as server:
        (page,) = fetched(server)
    assert page.memo == {"etag": '"abc-5"'}
    with served(b"", 304) as server, pytest.raises(Unchanged):
        fetched(server, memo=page.memo)
    assert server.requests[0][1]["If-None-Match"] == '"abc-5"'


def test_a_file_without_an_etag_is_asked_for_whole_next_time() -> None:
    with served(document([row("m5.large", "0.0960000000")])) as server:
        (page,) = fetched(server, memo={})
    assert page.memo == {}
    assert "If-None-Match" not in server.requests[0][1]


@pytest.mark.parametrize(
    ("region", "path"),
    [
        ("us-west-2", "/offers/v1.0/aws/AmazonEC2/current/us-west-2/index.csv"),
        ("us-gov-west-1", "/offers/v1.0/aws/AmazonEC2/current/us-gov-west-1/index.csv"),
        ("cn-north-1", "/offers/v1.0/cn/AmazonEC2/current/cn-north-1/index.csv"),
        ("../secret", "/offers/v1.0/aws/AmazonEC2/current/..%2Fsecret/index.csv"),
    ],
)
def test_each_region_has_a_file_and_china_its_own_list(region: str, path: str) -> None:
    """B090."""
    with served(document([])) as server:
        fetched(server, region)
    assert server.requests[0][0] == path
    assert "Authorization" not in server.requests[0][1]


def test_the_public_hosts_are_the_ones_of_the_partition() -> None:
    from collectors.aws_pricelist import _url

    assert _url(Config(), "eu-west-1").startswith("https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/")
    assert _url(Config(), "cn-north-1").startswith("https://pricing.cn-north-1.amazonaws.com.cn/offers/v1.0/cn/")


DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, DENIED, NotServed),
        (404, b"<Error><Code>NoSuchKey</Code></Error>", NotServed),
        (403, b"<html>blocked by the proxy</html>", Unavailable),
        (401, b"", Unavailable),
        (304, b"", Drift),
        (429, b"", Throttled),
        (500, b"", Unavailable),
        (302, b"", Drift),
    ],
)
def test_a_status_has_its_meaning(status: int, body: bytes, expected: type[ProviderError]) -> None:
    """No credentials are sent, so none are refused; and nobody asked whether something has changed."""
    with served(body, status) as server, pytest.raises(expected) as caught:
        fetched(server, "us-nowhere-9")
    assert type(caught.value) is expected


def test_a_file_that_is_cut_off_is_no_price_list() -> None:
    """At its end no line says how many there are: a line without an end, or fewer bytes than promised, is the sign."""
    whole = document([row(f"m{number}.large", "1.0000000000") for number in range(50)])
    with served(whole[:-20]) as server, pytest.raises(Unavailable, match="cut off"):
        fetched(server)
    with canned(Canned(200, whole, cut=True)) as server, pytest.raises(Unavailable):
        fetched(server)


def test_a_compressed_file_that_is_cut_at_a_line_end_is_no_price_list() -> None:
    """What was unzipped so far ends with a line: only the missing end of the stream tells that there was more."""
    whole = document([row(f"m{number}.large", "1.0000000000") for number in range(50)])
    packer = zlib.compressobj(wbits=31)
    at = whole.index(b"\n", len(whole) // 2) + 1
    half = packer.compress(whole[:at]) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = packer.compress(whole[at:]) + packer.flush()
    gzipped = {"Content-Encoding": "gzip"}
    with served(half + rest, headers=gzipped) as server:
        assert len(on_demand(fetched(server))) == 50
    for cut in (half, half + rest[:-8]):
        with served(cut, headers=gzipped) as server, pytest.raises(Unavailable, match="cut off"):
            fetched(server)


def test_blanks_around_an_instance_type_make_no_second_one() -> None:
    rows = [row("m5.large", "0.0960000000"), row(" m5.large ", "0.0960000000"), row("m6.large", "0.1000000000")]
    with served(document(rows)) as server:
        pages = fetched(server)
    assert on_demand(pages) == {"m5.large": 96_000_000, "m6.large": 100_000_000}
    assert {item.instance_type for item in read(pages) if isinstance(item, Machine)} == {"m5.large", "m6.large"}
    with served(document([row("m5.large", "0.0960000000"), row("m5.large ", "0.0010000000")])) as server:
        assert on_demand(fetched(server)) == {}, "two prices for one machine are none"


def test_a_column_that_is_there_twice_is_drift() -> None:
    body = document([row("m5.large", "0.0960000000")], [*LINUX, "PricePerUnit"])
    with served(body) as server, pytest.raises(Drift, match="PricePerUnit are there twice"):
        fetched(server)
    page = Page("prices", body.removeprefix(PREAMBLE.encode()), NOW, "us-east-1")
    with pytest.raises(Drift, match="PricePerUnit are there twice"):
        read([page])


@pytest.mark.parametrize(
    ("region", "currency", "priced"),
    [("us-east-1", "USD", True), ("us-east-1", "CNY", False), ("us-east-1", "EUR", False),
     ("us-gov-west-1", "USD", True), ("cn-north-1", "CNY", True), ("cn-north-1", "USD", False),
     ("us-east-1", "usd", False), ("us-east-1", "", False)],
)  # fmt: skip
def test_a_price_is_in_what_aws_bills_the_region_in_or_none(region: str, currency: str, priced: bool) -> None:
    rows = [
        row(name, "1.5000000000", Currency=currency, **{"Region Code": region}) for name in ("m5.large", "m6.large")
    ]
    rows.append(row("m7.large", "0.0000000000", Currency="JPY", **{"Region Code": region}))
    with served(document(rows)) as server:
        items = read(fetched(server, region))
    found = {(item.instance_type, item.currency) for item in items if isinstance(item, Price)}
    assert found == ({("m5.large", currency), ("m6.large", currency)} if priced else set())
    assert (Note("unknown_currency", f"m5.large on_demand {currency}", record=True) in items) is not priced


@pytest.mark.parametrize("amount", ["1e999999999", "1e-999999999", f"9e{'9' * 18}", "1" * 5000, "1_5", "１５", "0x10"])
def test_an_amount_that_is_no_number_is_no_price_at_once(amount: str) -> None:
    with served(document([row("m5.large", amount), row("m6.large", "0.1000000000")])) as server:
        pages = fetched(server)
    assert on_demand(pages) == {"m6.large": 100_000_000}
    assert Note("no_price", "m5.large on_demand", record=True) in read(pages)


@pytest.mark.parametrize(
    "said", [{"GPU": "1e99999999"}, {"Memory": "1e99999999 GiB"}, {"vCPU": "1" * 5000}, {"vCPU": "1e99999999"}]
)
def test_a_size_that_is_no_number_is_unknown_at_once(said: dict[str, str]) -> None:
    with served(document([row("p5.48xlarge", "55.0400000000", GPU="8") | said])) as server:
        (machine,) = (item for item in read(fetched(server)) if isinstance(item, Machine))
    assert (machine.vcpus is None, machine.memory_mib is None) == ("vCPU" in said, "Memory" in said)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('"FormatVersion","v1.0"', '"FormatVersion","v2.0"'),
        ('"OfferCode","AmazonEC2"', '"OfferCode","AmazonRDS"'),
        ('"Version","20260720134430"\n', ""),
        ('"Version"', '"Also","here"\n"Version"'),
        ('"MarketOption"', '"Market Option"'),
        ('"Region Code"', '"Region"'),
        ('"m5.large"', '"m5.large","one more"'),
        ('"m5.large"', '"m5"x"large"'),
        ('"m5.large"', '"m5.large'),
    ],
)
def test_a_file_that_is_not_as_learnt_is_drift(was: str, becomes: str) -> None:
    body = document([row("m5.large", "0.0960000000")]).decode()
    assert was in body
    with served(body.replace(was, becomes, 1).encode()) as server, pytest.raises(Drift) as caught:
        fetched(server)
    page = caught.value.page
    assert page is not None
    assert (page.place, bool(page.body)) == ("us-east-1", True), "the line is kept for a report"


def test_a_line_break_inside_quotes_is_part_of_its_record() -> None:
    rows = [row("m5.large", "0.0960000000", PriceDescription='a "break"\nhere'), row("m6.large", "0.1000000000")]
    with served(document(rows)) as server:
        assert on_demand(fetched(server)) == {"m5.large": 96_000_000, "m6.large": 100_000_000}


FILE = _File("https://files.example/index.csv", Page("prices", b"", NOW, "us-east-1"))
MARKED = (
    {"Product Family": "Compute Instance (bare metal)", "Tenancy": "Dedicated"},
    {"MarketOption": "CapacityBlock", "operation": "RunInstances:CB"},
    {"operation": "RunInstances:CB", "PriceDescription": "RunInstances"},
    {"TermType": "Reserved", "OfferingClass": "standard", "Instance Type": "p5.48xlarge"},
    {"TermType": "Reserved", "OfferingClass": "standard", "Instance Family": "GPU instance"},
)
TEXTS = ("", "plain", 'a "quoted" word', "with, a comma", "héé", '"', '""', '"RunInstances"', "x" * 3000)
BROKEN = ("a\nbreak", "\n", '"\n"', 'a "Linux"\r\nbreak', '\n"RunInstances",', "m5.large\n\n", "y\n" * 3000)


def some_rows(random_: random.Random, breaks: float) -> list[dict[str, str]]:
    """Rows of all kinds, of a few blocks in all; this part of them have line breaks in a field."""
    kinds = ({}, *DECOYS.values(), *OTHERS, *MARKED)
    rows = []
    for number in range(500):
        text = random_.choice(BROKEN if random_.random() < breaks else TEXTS)
        rows.append({**row(f"m{number}.large", "1.0000000000", PriceDescription=text), **random_.choice(kinds)})
    return rows


def kept_by_csv(body: bytes) -> tuple[list[list[str]], Counter[str]]:
    """The rows that are kept and the reasons of the others, by the csv module and by what their fields are."""
    kept, dropped = [], Counter[str]()
    names, *rows = list(csv.reader(io.StringIO(body.decode(), newline=""), strict=True))[5:]
    for cells in rows:
        # A quoted word inside a field counts as well: a reader that looks for words drops no line on account of it.
        words = {*cells, *(word for cell in cells for word in cell.split('"')[1::2])}
        reason = reason_of(dict(zip(names, cells, strict=True)), words)
        if reason is None:
            kept.append(cells)
        else:
            dropped[reason] += 1
    return kept, dropped


def reason_of(cells: Mapping[str, str], words: set[str]) -> str | None:
    reserved = cells["TermType"] == "Reserved"
    accelerated = cells["Instance Type"].startswith("p5.") or cells["Instance Family"] == "GPU instance"
    reasons = {
        "other_operation": not words & {"RunInstances", "RunInstances:CB"},
        "reserved_convertible": reserved and cells["OfferingClass"] != "standard",
        "dedicated": cells["Tenancy"] != "Shared" and "(bare metal)" not in cells["Product Family"],
        "capacity_reservation": cells["CapacityStatus"] != "Used",
        "local_zone": cells["Location Type"] != "AWS Region",
        "other_system": "Linux" not in words,
        "not_a_machine": "Compute Instance" not in cells["Product Family"],
        "reserved_without_accelerator": reserved and not accelerated,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


@pytest.mark.parametrize("seed", range(24))
def test_what_is_read_is_what_the_csv_module_reads(seed: int) -> None:
    """Whole blocks are searched where no field has a line break in it, records one by one where one has."""
    random_ = random.Random(seed)
    body = document(some_rows(random_, breaks=(0, 0.002, 0.2)[seed % 3]))
    body = body.replace(b"\n", b"\r\n") if seed % 2 else body
    body = re.sub(rb',""(?=[,\r\n])', b",", body) if seed % 4 < 2 else body
    size = random_.choice((1000, 65536, len(body)))
    skipped = Counter[str]()
    header, kept = _linux((body[at : at + size] for at in range(0, len(body), size)), skipped, FILE)
    read_back = list(csv.reader(io.StringIO(b"\n".join(line for _, line in kept).decode(), newline=""), strict=True))
    expected, dropped = kept_by_csv(body)
    assert len(body) > 3 * BLOCK_BYTES
    assert sorted(read_back) == sorted(expected)
    assert [name for name, _ in kept] == [cells[header.split(b",").index(b'"Instance Type"')] for cells in read_back]
    assert skipped == dropped


@pytest.mark.parametrize("at", [0, 1, 250, 498, 499])
def test_a_quoted_field_without_an_end_is_drift_wherever_it_is(at: int) -> None:
    rows = some_rows(random.Random(at), breaks=0)
    rows[at] = row("m0.large", "1.0000000000", PriceDescription="broken here")
    body = document(rows).replace(b'broken here"', b"broken here")
    with pytest.raises(Drift):
        _linux(iter([body]), Counter(), FILE)


def test_a_line_of_megabytes_is_drift_before_all_of_it_is_read() -> None:
    start, sent = document([row("m5.large", "0.0960000000")]), 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        yield start
        for _ in range(1000):
            sent += 100_000
            yield b"x" * 100_000

    with pytest.raises(Drift, match="a line of"):
        _linux(chunks(), Counter(), FILE)
    assert sent < 2 * PAGE_BYTES


def test_a_line_without_an_end_is_a_file_cut_off_where_lines_came_before_it() -> None:
    body = document([row(f"m{number}.large", "1.0000000000", PriceDescription="x" * 900) for number in range(300)])
    assert len(body) > 3 * BLOCK_BYTES
    for size in (1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, len(body) - 1):
        assert not body[:size].endswith(b"\n")
        expected = Unavailable if b"\n" in body[:size] else Drift
        with pytest.raises(expected) as caught:
            _linux(iter([body[:size]]), Counter(), FILE)
        assert type(caught.value) is expected


def test_lines_may_end_as_windows_ends_them() -> None:
    with served(document([row("m5.large", "0.0960000000")]).replace(b"\n", b"\r\n")) as server:
        assert on_demand(fetched(server)) == {"m5.large": 96_000_000}


def test_empty_fields_may_stand_without_quotes() -> None:
    with served(document([row("m5.large", "0.0960000000")]).replace(b',""', b",")) as server:
        assert on_demand(fetched(server)) == {"m5.large": 96_000_000}


def test_bare_metal_is_shared_where_it_says_so_and_dedicated_by_nature_else() -> None:
    metal = {"Product Family": "Compute Instance (bare metal)"}
    rows = [
        row("c5.metal", "4.0800000000", **metal),
        row("c5.metal", "4.4880000000", **metal, Tenancy="Dedicated"),
        row("c6.metal", "5.0000000000", **metal, Tenancy="Dedicated"),
        row("mac1.metal", "1.0000000000", **metal, Tenancy="Host"),
    ]
    with served(document(rows)) as server:
        pages = fetched(server)
    assert on_demand(pages) == {"c5.metal": 4_080_000_000, "c6.metal": 5_000_000_000}
    assert Note("dedicated_beside_shared", "c5.metal on_demand") in read(pages)


def test_a_region_without_machines_is_a_whole_answer() -> None:
    with served(document([])) as server:
        (page,) = fetched(server)
    assert read([page]) == []


def test_a_file_in_which_nothing_is_recognised_is_drift_and_not_nothing_for_sale() -> None:
    body = document([row("m5.large", "0.0960000000", **{"Operating System": "linux"})])
    with served(body) as server, pytest.raises(Drift, match="other_system"):
        fetched(server)
