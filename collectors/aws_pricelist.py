"""AWS's public price list of EC2, a CSV file a region: fetched in one stream, cut down to Linux machines.

https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
A file holds some 137,000 products of which 2,000 are Linux machines on demand. `fetch` drops the lines that cannot be
such by the quoted words they lack, as every field that is not empty is quoted; `aws_prices.py` reads what is left.
"""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from catalog.facts import Fact, Note
from catalog.words import Level
from collectors.aws_ec2 import partition
from collectors.aws_feed import public_regions
from collectors.aws_machine import ACCELERATED_WORD, NAME
from collectors.aws_prices import facts_of, header_fault
from collectors.aws_query import LIMIT as QUERY_LIMIT
from collectors.aws_query import SOURCE as GET_PRODUCTS
from collectors.aws_query import facts_of_products, queried
from collectors.base import PAGE_BYTES, Cell, Config, Drift, Limit, NotServed, Page, ProviderError, Unavailable
from collectors.http import MAX_BODY_BYTES, SHOWN_BYTES, OpenAnswer, first_bytes, streamed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PUBLIC = "https://pricing.us-east-1.amazonaws.com"
CHINA = "https://pricing.cn-north-1.amazonaws.com.cn"
PREAMBLE = (
    b'"FormatVersion","v1.0"',
    b'"Disclaimer",',
    b'"Publication Date",',
    b'"Version",',
    b'"OfferCode","AmazonEC2"',
)
OPERATIONS = (b'"RunInstances"', b'"RunInstances:CB"')
"""Each line of a plain Linux machine has one of these words, and few others: other software has other codes."""
MAX_LINE_BYTES = 64 * 1024
BLOCK_BYTES = 64 * 1024
"""How much is searched at a time; larger ones are no quicker."""
NO_QUOTE_NOR_LINE_END = bytes(set(range(256)) - set(b'"\n'))
TOTAL = timedelta(minutes=5)
"""What a file may take in all: 70 MB and more, some ten of them compressed."""


@dataclass(frozen=True, slots=True)
class Prices:
    """On-demand prices of a region's Linux machines, and reserved ones of those with accelerators: from the public
    file, without credentials, or where the settings say so from the query API.
    """

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "prices"
    every: ClassVar[timedelta] = timedelta(hours=24)  # a file is published about daily, its prices move in months
    fresh_for: ClassVar[timedelta] = timedelta(days=7)
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One a region; those of China and GovCloud only where the settings name them."""
        return [Cell(NAME, self.name, region) for region in public_regions(self.config, regions)]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - one file host serves all regions
        """AWS states none for the files; they are large, so one at a time is plenty. The query API has its own."""
        return QUERY_LIMIT if self._queries else Limit("aws:price_list", 1.0)

    @property
    def _queries(self) -> bool:
        return self.config.price_source == "api"

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        """The lines of Linux machines, or the API's products, sorted by instance type, all of a type in one page."""
        return queried(self.config, cell, now) if self._queries else self._from_file(cell, now, memo)

    def _from_file(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        url = _url(self.config, cell.place)
        file = _File(url, Page(f"AmazonEC2 price list of {cell.place}", b"", now, cell.place))
        known = {"If-None-Match": memo["etag"]} if "etag" in memo else {}
        with streamed(
            "GET", url, now=now, headers=known, timeout=self.config.timeout, total=TOTAL, passing=(403, 404)
        ) as answer:
            if not answer.is_success:
                raise _missing(answer, cell.place, url)
            etag = answer.headers.get("etag")
            skipped = Counter[str]()
            header, kept = _linux(answer.chunks, skipped, file)
        for number, body in enumerate(_cut(header, kept)):
            yield replace(
                file.page,
                body=body,
                skipped={} if number else dict(skipped),
                memo={"etag": etag} if etag else {},
            )

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine and its Prices for each instance type."""
        return facts_of_products(page) if page.name.startswith(GET_PRODUCTS) else facts_of(page)


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


def _linux(chunks: Iterator[bytes], skipped: Counter[str], file: _File) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The line of column names, and (instance type, line) of the lines that may be Linux machines."""
    lines = _Lines(chunks, file)
    header = _header(lines, file)
    return header, _kept(_with_operation(lines, skipped), header, skipped, file)


class _Body(io.RawIOBase):
    """A body's chunks as a stream, so that io.BufferedReader reads lines and blocks of them."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = filter(None, chunks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        self._rest = self._rest or memoryview(next(self._chunks, b""))
        room = memoryview(buffer)
        size = min(len(room), len(self._rest))
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class _Lines:
    """The lines of a file, one at a time or many at once, with their ends.

    Records come without theirs, but for the CR of a file whose lines end in CR LF: the csv module takes it for none.
    """

    def __init__(self, chunks: Iterator[bytes], file: _File) -> None:
        self._body = io.BufferedReader(_Body(chunks))
        self._file = file
        self._begun = False

    def line(self) -> bytes:
        """The next line, b"" after the last. The file ends with a line's end: otherwise it is cut off."""
        return self._ended(self._body.readline(PAGE_BYTES))

    def block(self) -> bytes:
        """Some BLOCK_BYTES of whole lines, b"" after the last."""
        block = self._body.read(BLOCK_BYTES)
        return block and self._ended(block + self._body.readline(PAGE_BYTES))

    def _ended(self, lines: bytes) -> bytes:
        if lines and not lines.endswith(b"\n"):
            last = lines.rpartition(b"\n")[2]
            if len(last) >= PAGE_BYTES:
                raise self._file.drift(f"a line of {len(last)} bytes and more is not a price list's", last)
            if not self._begun:
                raise self._file.drift(f"{len(last)} bytes without a line end are not a price list", last)
            raise Unavailable(f"{self._file.url}: the file is cut off in the middle of a line")
        self._begun = True
        return lines

    def record(self) -> bytes:
        """The next record, b"" after the last."""
        return self._record(self.line(), self.line)

    def records(self, block: bytes) -> Iterator[bytes]:
        """The records that begin in this block, the last one read to its end beyond it where it is not in it."""
        inside = io.BytesIO(block)
        while line := inside.readline():
            yield self._record(line, lambda: inside.readline() or self.line())

    def _record(self, line: bytes, following: Callable[[], bytes]) -> bytes:
        """The record that begins with this line, without its end. A line break inside quotes is part of it."""
        while line.count(b'"') % 2:
            more = following()
            if not more or len(line) > MAX_LINE_BYTES:
                raise self._file.drift("a quoted field has no end", line)
            line += more
        return line.removesuffix(b"\n")


def _header(lines: _Lines, file: _File) -> bytes:
    """The line of column names, after the five of the preamble."""
    for expected in PREAMBLE:
        line = lines.record()
        if not line.startswith(expected):
            raise file.drift(f"{expected.decode()} was expected where the file says {line[:60]!r}", line)
    header = lines.record()
    if fault := header_fault(_cells(header, file)):
        raise file.drift(fault, header)
    return header


def _cells(line: bytes, file: _File) -> list[str]:
    try:
        return next(csv.reader([line.decode()], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise file.drift(f"a line that is not CSV: {line[:60]!r}", line) from error


def _with_operation(lines: _Lines, skipped: Counter[str]) -> Iterator[bytes]:
    """The records with one of OPERATIONS in them; the number of the others is added to `skipped`.

    Where every line of a block has an even number of quotes, every line is a record, and only those around the words
    are cut out. The quotes are counted for all lines at once: by what is left of a line without its other bytes.
    """
    while block := lines.block():
        quotes = block.translate(None, NO_QUOTE_NOR_LINE_END).split(b"\n")
        if any(size % 2 for size in set(map(len, quotes))):
            records = list(lines.records(block))
            found, total = [one for one in records if any(word in one for word in OPERATIONS)], len(records)
        else:
            found, total = _lines_with(OPERATIONS, block), len(quotes) - 1
        if total > len(found):
            skipped["other_operation"] += total - len(found)
        yield from found


def _lines_with(words: Iterable[bytes], block: bytes) -> list[bytes]:
    """The lines of a block that have one of the words, each once, without their ends."""
    found: dict[int, bytes] = {}
    for word in words:
        at = block.find(word)
        while at >= 0:
            start, end = block.rfind(b"\n", 0, at) + 1, block.index(b"\n", at)
            found[start] = block[start:end]
            at = block.find(word, end)
    return list(found.values())


def _kept(lines: Iterable[bytes], header: bytes, skipped: Counter[str], file: _File) -> list[tuple[str, bytes]]:
    """(instance type, line) of the lines that may be Linux machines; the others are counted by reason.

    All of them have one of OPERATIONS.
    """
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
    """Why a line with one of OPERATIONS cannot be a Linux machine's price, by a quoted word that it lacks, else None.

    What most lines lack comes first, and what takes longest to look for comes last.
    """
    reserved = b'"Reserved"' in line
    if reserved and b'"standard"' not in line:
        return "reserved_convertible"
    if b'"Shared"' not in line and b'(bare metal)"' not in line:
        return "dedicated"
    if b'"Used"' not in line:
        return "capacity_reservation"
    return _dropped_rarely(line) or (_dropped_reserved(line) if reserved else None)


def _dropped_rarely(line: bytes) -> str | None:
    if b'"AWS Region"' not in line:
        return "local_zone"
    if b'"Linux"' not in line:
        return "other_system"
    return None if b'"Compute Instance' in line else "not_a_machine"


def _dropped_reserved(line: bytes) -> str | None:
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
