"""AWS's public price list of EC2, a CSV file a region: fetched in one stream, cut down to Linux machines.

https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
A file holds some 137,000 products of which 2,000 are Linux machines on demand. `fetch` drops the lines that cannot be
such by the quoted words they lack, as every field that is not empty is quoted; `aws_prices.py` reads what is left.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import ClassVar
from urllib.parse import quote

from catalog.facts import Fact, Note
from catalog.words import Level
from collectors.aws_ec2 import partition
from collectors.aws_machine import ACCELERATED_WORD, NAME
from collectors.aws_prices import facts_of, header_fault
from collectors.base import PAGE_BYTES, Cell, Config, Drift, Limit, NotServed, Page, ProviderError, Unavailable
from collectors.http import MAX_BODY_BYTES, SHOWN_BYTES, OpenAnswer, first_bytes, streamed

PUBLIC = "https://pricing.us-east-1.amazonaws.com"
CHINA = "https://pricing.cn-north-1.amazonaws.com.cn"
DEFAULT_REGION = "us-east-1"  # where neither the settings nor the account name one: a file is 70 MB and more
PREAMBLE = (
    b'"FormatVersion","v1.0"',
    b'"Disclaimer",',
    b'"Publication Date",',
    b'"Version",',
    b'"OfferCode","AmazonEC2"',
)
MAX_LINE_BYTES = 64 * 1024
TOTAL = timedelta(minutes=5)
"""What a file may take in all: 70 MB and more, some ten of them compressed."""


@dataclass(frozen=True, slots=True)
class Prices:
    """On-demand prices of a region's Linux machines, and reserved ones of those with accelerators. No credentials."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "prices"
    every: ClassVar[timedelta] = timedelta(hours=24)  # a file is published about daily, its prices move in months
    fresh_for: ClassVar[timedelta] = timedelta(days=7)
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One a region; those of China and GovCloud only where the settings name them."""
        named = self.config.regions
        wanted = tuple(regions) or (DEFAULT_REGION,)
        return [Cell(NAME, self.name, region) for region in wanted if region in named or partition(region) == "aws"]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - one file host serves all regions
        """AWS states none for the files; they are large, so one at a time is plenty."""
        return Limit("aws:price_list", 1.0)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        """The lines of Linux machines, sorted by instance type, all rows of a type in one page."""
        url = _url(self.config, cell.place)
        file = _File(url, Page(f"AmazonEC2 price list of {cell.place}", b"", now, cell.place))
        known = {"If-None-Match": memo["etag"]} if "etag" in memo else {}
        with streamed(
            "GET", url, now=now, headers=known, timeout=self.config.timeout, total=TOTAL, passing=(403, 404)
        ) as answer:
            if not answer.is_success:
                raise _missing(answer, cell.place, url)
            etag = answer.headers.get("etag")
            lines = _records(answer.chunks, file)
            header = _header(lines, file)
            skipped = Counter[str]()
            kept = _kept(lines, header, skipped, file)
        for number, body in enumerate(_cut(header, kept)):
            yield replace(
                file.page,
                body=body,
                skipped={} if number else dict(skipped),
                memo={"etag": etag} if etag else {},
            )

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine and its Prices for each instance type."""
        return facts_of(page)


@dataclass(frozen=True, slots=True)
class _File:
    url: str
    page: Page
    """What its pages have in common; without a body."""

    def drift(self, said: str, seen: bytes) -> Drift:
        """Drift with the bytes that were not understood."""
        return Drift(f"{self.url}: {said}", replace(self.page, body=seen[:SHOWN_BYTES]))


def _url(config: Config, region: str) -> str:
    china = partition(region) == "aws-cn"
    host = config.endpoints.get("price_list") or (CHINA if china else PUBLIC)
    path = f"offers/v1.0/{'cn' if china else 'aws'}/AmazonEC2/current/{quote(region, safe='')}/index.csv"
    return f"{host.rstrip('/')}/{path}"


def _missing(answer: OpenAnswer, region: str, url: str) -> ProviderError:
    """The file host says 403 AccessDenied for a file that does not exist."""
    if answer.status == 404 or b"AccessDenied" in first_bytes(answer.chunks, SHOWN_BYTES):
        return NotServed(f"aws: there is no price list of region {region} at {url}; is the region's name right?")
    return Unavailable(f"GET {url}: HTTP 403, and not from AWS's file host; does a proxy stand between?")


def _records(chunks: Iterable[bytes], file: _File) -> Iterator[bytes]:
    """CSV records without their line ends. A line break inside quotes is part of its record."""
    held = b""
    for line in _lines(chunks, file):
        held = held + b"\n" + line if held else line
        if held.count(b'"') % 2 == 0:
            yield held.removesuffix(b"\r")
            held = b""
        elif len(held) > MAX_LINE_BYTES:
            break
    if held:
        raise file.drift("a quoted field has no end", held)


def _lines(chunks: Iterable[bytes], file: _File) -> Iterator[bytes]:
    """Lines without their ends. The file ends with one: otherwise it is cut off."""
    rest, begun = b"", False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        begun = begun or bool(lines)
        yield from lines
        if len(rest) > PAGE_BYTES:
            raise file.drift(f"a line of {len(rest)} bytes is not a price list's", rest)
    if rest and begun:
        raise Unavailable(f"{file.url}: the file is cut off in the middle of a line")
    if rest:
        raise file.drift(f"{len(rest)} bytes without a line end are not a price list", rest)


def _header(lines: Iterator[bytes], file: _File) -> bytes:
    """The line of column names, after the five of the preamble."""
    for expected in PREAMBLE:
        line = next(lines, b"")
        if not line.startswith(expected):
            raise file.drift(f"{expected.decode()} was expected where the file says {line[:60]!r}", line)
    header = next(lines, b"")
    if fault := header_fault(_cells(header, file)):
        raise file.drift(fault, header)
    return header


def _cells(line: bytes, file: _File) -> list[str]:
    try:
        return next(csv.reader([line.decode()], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise file.drift(f"a line that is not CSV: {line[:60]!r}", line) from error


def _kept(lines: Iterable[bytes], header: bytes, skipped: Counter[str], file: _File) -> list[tuple[str, bytes]]:
    """(instance type, line) of the lines that may be Linux machines; the others are counted by reason."""
    names = _cells(header, file)
    column = names.index("Instance Type")
    kept: list[tuple[str, bytes]] = []
    size = 0
    for line in lines:
        if reason := _dropped(line):
            skipped[reason] += 1
            continue
        cells = _cells(line, file)
        size += len(line)
        if len(cells) != len(names) or size > MAX_BODY_BYTES:
            said = f"a row of {len(cells)} columns, {len(names)} expected, at {size} bytes of Linux rows"
            raise file.drift(said, line)
        kept.append((cells[column].strip(), line))
    if skipped and not kept:
        raise file.drift(f"none of its {skipped.total()} lines is a Linux machine's: {dict(skipped)}", header)
    return kept


def _dropped(line: bytes) -> str | None:
    """Why a line cannot be a Linux machine's price, by a quoted word that it lacks; None where it may be one."""
    if b'"Compute Instance' not in line:
        return "not_a_machine"
    if b'"Linux"' not in line:
        return "other_system"
    if b'"Used"' not in line:
        return "capacity_reservation"
    if b'"RunInstances"' not in line and b'"RunInstances:CB"' not in line:
        return "with_other_software"
    if b'"AWS Region"' not in line:
        return "local_zone"
    if b'"Shared"' not in line and b'(bare metal)"' not in line:
        return "dedicated"
    return _dropped_reserved(line) if b'"Reserved"' in line else None


def _dropped_reserved(line: bytes) -> str | None:
    if b'"standard"' not in line:
        return "reserved_convertible"
    return None if ACCELERATED_WORD.search(line) else "reserved_without_accelerator"


def _cut(header: bytes, kept: list[tuple[str, bytes]]) -> Iterator[bytes]:
    """Bodies of at most a page's size, the header on top of each, cut between instance types."""
    body = bytearray(header + b"\n")
    for _, rows in groupby(sorted(kept), key=itemgetter(0)):
        block = b"".join(line + b"\n" for _, line in rows)
        if len(body) + len(block) > PAGE_BYTES:
            yield bytes(body)
            body = bytearray(header + b"\n")
        body += block
    yield bytes(body)
