"""AWS's public price list of EC2, a CSV file a region: fetched in one stream, cut down to Linux machines.

https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
A file holds some 137,000 products of which 2,000 are Linux machines on demand. `fetch` drops the lines that cannot be
such by the quoted words they lack, as every field that is not empty is quoted; `aws_prices.py` reads what is left.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from catalog.facts import Fact, Note
from catalog.words import Level
from collectors.aws_ec2 import partition
from collectors.aws_machine import ACCELERATED_WORD, NAME
from collectors.aws_prices import COLUMNS, facts_of
from collectors.base import PAGE_BYTES, Cell, Config, Drift, Limit, NotServed, Page, ProviderError, Unavailable
from collectors.http import MAX_BODY_BYTES, streamed

if TYPE_CHECKING:
    import httpx2

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
        known = {"If-None-Match": memo["etag"]} if "etag" in memo else {}
        with streamed("GET", url, now=now, headers=known, timeout=self.config.timeout, passing=(403, 404)) as answer:
            if not answer.is_success:
                raise _missing(answer, cell.place, url)
            etag = answer.headers.get("etag")
            lines = _records(answer.iter_bytes(), url)
            header = _header(lines, url)
            skipped = Counter[str]()
            kept = _kept(lines, header, skipped, url)
        for number, body in enumerate(_cut(header, kept)):
            yield Page(
                name=f"AmazonEC2 price list of {cell.place}",
                body=body,
                at=now,
                place=cell.place,
                skipped={} if number else dict(skipped),
                memo={"etag": etag} if etag else {},
            )

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine and its Prices for each instance type."""
        return facts_of(page)


def _url(config: Config, region: str) -> str:
    china = partition(region) == "aws-cn"
    host = config.endpoints.get("price_list") or (CHINA if china else PUBLIC)
    path = f"offers/v1.0/{'cn' if china else 'aws'}/AmazonEC2/current/{quote(region, safe='')}/index.csv"
    return f"{host.rstrip('/')}/{path}"


def _missing(answer: "httpx2.Response", region: str, url: str) -> ProviderError:
    """The file host says 403 AccessDenied for a file that does not exist."""
    if answer.status_code == 404 or b"AccessDenied" in answer.read():
        return NotServed(f"aws: there is no price list of region {region} at {url}; is the region's name right?")
    return Unavailable(f"GET {url}: HTTP 403, and not from AWS's file host; does a proxy stand between?")


def _records(chunks: Iterable[bytes], url: str) -> Iterator[bytes]:
    """CSV records without their line ends. A line break inside quotes is part of its record."""
    held = b""
    for line in _lines(chunks, url):
        held = held + b"\n" + line if held else line
        if held.count(b'"') % 2 == 0:
            yield held.removesuffix(b"\r")
            held = b""
        elif len(held) > MAX_LINE_BYTES:
            break
    if held:
        raise Drift(f"{url}: a quoted field has no end")


def _lines(chunks: Iterable[bytes], url: str) -> Iterator[bytes]:
    """Lines without their ends. The file ends with one: otherwise it is cut off."""
    rest, begun = b"", False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        begun = begun or bool(lines)
        yield from lines
        if len(rest) > PAGE_BYTES:
            raise Drift(f"{url}: a line of {len(rest)} bytes is not a price list's")
    if rest and begun:
        raise Unavailable(f"{url}: the file is cut off in the middle of a line")
    if rest:
        raise Drift(f"{url}: {len(rest)} bytes without a line end are not a price list")


def _header(lines: Iterator[bytes], url: str) -> bytes:
    """The line of column names, after the five of the preamble."""
    for expected in PREAMBLE:
        line = next(lines, b"")
        if not line.startswith(expected):
            raise Drift(f"{url}: {expected.decode()} was expected where the file says {line[:60]!r}")
    header = next(lines, b"")
    if lacking := COLUMNS - set(_cells(header, url)):
        raise Drift(f"{url}: the file lacks the columns {', '.join(sorted(lacking))}")
    return header


def _cells(line: bytes, url: str) -> list[str]:
    try:
        return next(csv.reader([line.decode()], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise Drift(f"{url}: a line that is not CSV: {line[:60]!r}") from error


def _kept(lines: Iterable[bytes], header: bytes, skipped: Counter[str], url: str) -> list[tuple[str, bytes]]:
    """(instance type, line) of the lines that may be Linux machines; the others are counted by reason."""
    names = _cells(header, url)
    column = names.index("Instance Type")
    kept: list[tuple[str, bytes]] = []
    size = 0
    for line in lines:
        if reason := _dropped(line):
            skipped[reason] += 1
            continue
        cells = _cells(line, url)
        size += len(line)
        if len(cells) != len(names) or size > MAX_BODY_BYTES:
            raise Drift(f"{url}: a row of {len(cells)} columns, {len(names)} expected, at {size} bytes of Linux rows")
        kept.append((cells[column], line))
    if skipped and not kept:
        raise Drift(f"{url}: none of its {skipped.total()} lines is a Linux machine's: {dict(skipped)}")
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
