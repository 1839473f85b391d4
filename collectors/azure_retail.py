"""Azure's public prices, which need no credentials: pages of items a region, and for Azure China one CSV file of all.

Only what can be a machine with an accelerator is kept; `azure_prices.py` reads it.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import ClassVar
from urllib.parse import quote, urlsplit

from catalog.facts import Fact, Note
from catalog.words import Level
from collectors.azure_machine import NAME, PREFIX
from collectors.azure_prices import SERVICE, facts_of
from collectors.azure_wire import Wire, cloud_of, endpoint, rebased
from collectors.base import PAGE_BYTES, Cell, Config, Drift, Limit, Page, Unavailable
from collectors.http import MAX_BODY_BYTES, streamed
from collectors.reading import JsonValue, Record, record_of

DEFAULT_REGION = "eastus"  # where neither the settings nor the account name one
PRICES = "/api/retail/prices?api-version=2023-01-01-preview&currencyCode=USD&$filter="
"""Savings plans, and meters beside the primary region's, are in this version. Its values are compared by case."""
SHEET = "/api/retail/pricesheet/download?api-version=2023-06-01-preview"
SHEET_HOSTS = ".blob.core.chinacloudapi.cn"
"""Where Azure China keeps the file that `SHEET` links to; a link to another host is not followed."""
COLUMNS = (
    "armRegionName", "armSkuName", "currencyCode", "meterName", "productName", "retailPrice", "serviceName", "skuName",
    "type", "unitOfMeasure",
)  # fmt: skip
OPTIONAL = ("effectiveStartDate", "effectiveEndDate", "isPrimaryMeterRegion", "reservationTerm", "tierMinimumUnits")
TOTAL = timedelta(minutes=5)
"""What the file may take in all: it lists all services of all regions."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Linux prices of the sizes with accelerators: on demand, spot, and reserved for one year and three."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "prices"
    every: ClassVar[timedelta] = timedelta(hours=6)  # spot prices change within days, the others within months
    fresh_for: ClassVar[timedelta] = timedelta(hours=36)
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One a region; one in all for Azure China, whose price sheet is a single file."""
        if self._china:
            return [Cell(NAME, self.name)]
        wanted = dict.fromkeys(region.casefold() for region in regions) or (DEFAULT_REGION,)
        return [Cell(NAME, self.name, region) for region in wanted]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - one host serves all regions
        """Microsoft states none; 32 threads of a public project were throttled at once."""
        return Limit(f"{NAME}:retail", 1.0)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """The items of sizes with accelerators, sorted by region and size, all items of a size in one page."""
        skipped = Counter[str]()
        items = self._rows(cell, now, skipped) if self._china else self._items(cell, now)
        kept = list(_accelerated(items, skipped))
        if self._china and not kept:
            raise Drift(f"{NAME} {self.name}: none of the price sheet's {skipped.total()} rows is a size with a GPU")
        for number, body in enumerate(_cut(kept)):
            name = f"{NAME} {self.name} {cell.place}".rstrip()
            yield Page(name, body, now, cell.place, skipped={} if number else dict(skipped))

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Machine and its Prices for each size."""
        return facts_of(page, cloud_of(self.config).currency)

    @property
    def _china(self) -> bool:
        return self.config.site == "cn"

    def _items(self, cell: Cell, now: datetime) -> Iterator[Mapping[str, JsonValue]]:
        """The items of all pages. There is no most number of pages: the last one says that it is."""
        base, region = endpoint(self.config, "retail"), cell.place.replace("'", "''")
        wanted = f"serviceName eq '{SERVICE}' and armRegionName eq '{region}' and contains(armSkuName, '{PREFIX}')"
        url, seen = f"{base}{PRICES}{quote(wanted)}", set[str]()
        while url:
            seen.add(url)
            record = self._asked(url, cell, now)
            for number, item in enumerate(record.items("Items")):
                if not isinstance(item, dict):
                    raise record.drift(f"Items[{number}] is no object")
                yield item
            link = record.text_or_none("NextPageLink")
            following = rebased(base, link) if link else ""
            if following is None or following in seen:
                raise record.drift("NextPageLink leads nowhere, or back: the list is not whole")
            url = following

    def _asked(self, url: str, cell: Cell, now: datetime) -> Record:
        """One call without credentials, so that none can be refused."""
        reply = Wire(self.config, cell, now).call("GET", url, {})
        if reply.is_success:
            return record_of(reply.page)
        where = f"{reply.page.name}: HTTP {reply.status}"
        if reply.status in (401, 403):
            raise Unavailable(f"{where}, though no credentials are needed; does a proxy refuse?")
        raise reply.failure(where, now)

    def _rows(self, cell: Cell, now: datetime, skipped: Counter[str]) -> Iterator[Mapping[str, JsonValue]]:
        """The rows of the price sheet, as items."""
        base = endpoint(self.config, "retail")
        record = self._asked(f"{base}{SHEET}", cell, now)
        url = self._file(base, record.text("DownloadUrl"))
        if url is None:
            raise record.drift(f"DownloadUrl is not https at a host of {SHEET_HOSTS}")
        wanted = {region.casefold() for region in self.config.regions}
        page = Page(f"{NAME} {self.name}: the price sheet", b"", now, cell.place)
        with streamed("GET", url, now=now, timeout=self.config.timeout, total=TOTAL) as file:
            for item in _csv_items(file.chunks, page):
                if wanted and (item["armRegionName"] or "").casefold() not in wanted:
                    skipped["other_region"] += 1
                else:
                    yield {name: text for name, text in item.items() if text}

    def _file(self, base: str, link: str) -> str | None:
        """Where the file is; None for a link to a host that is not Azure's."""
        if "retail" in self.config.endpoints:
            return rebased(base, link)
        try:
            parts = urlsplit(link)
        except ValueError:
            return None
        return link if parts.scheme == "https" and (parts.hostname or "").endswith(SHEET_HOSTS) else None


def _csv_items(chunks: Iterable[bytes], page: Page) -> Iterator[Mapping[str, str]]:
    """The rows under the columns that are read. Drift for what is no such file."""
    rows = csv.reader(_lines(chunks, page), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        if lacking := set(COLUMNS) - set(header):
            raise Drift(f"{page.name}: the columns {', '.join(sorted(lacking))} are missing", page)
        places = {name: header.index(name) for name in (*COLUMNS, *OPTIONAL) if name in header}
        for row in rows:
            if row and len(row) != len(header):
                raise Drift(f"{page.name}: a row of {len(row)} columns where there are {len(header)}", page)
            if row:  # not a blank line
                yield {name: row[at].strip() for name, at in places.items()}
    except csv.Error as error:
        raise Drift(f"{page.name}: a line that is not CSV", page) from error


def _lines(chunks: Iterable[bytes], page: Page) -> Iterator[str]:
    """The lines of a file in UTF-8, with their ends."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > PAGE_BYTES:
            raise Drift(f"{page.name}: a line of more than {PAGE_BYTES} bytes", page)
        for line in whole:
            yield _text(line + b"\n", page)
    if rest:
        yield _text(rest, page)


def _text(line: bytes, page: Page) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Drift(f"{page.name}: a line that is not UTF-8", page) from error


def _accelerated(items: Iterable[Mapping[str, JsonValue]], skipped: Counter[str]) -> Iterator[Mapping[str, JsonValue]]:
    """The items of sizes whose name is of the N-series; the others are counted by reason."""
    room = MAX_BODY_BYTES
    for item in items:
        size = _size_key(item)
        if not size:
            skipped["without_size"] += 1
        elif not size.startswith(PREFIX.casefold()):
            skipped["without_accelerator"] += 1
        else:
            room -= len(str(item))
            if room < 0:
                raise Drift(f"{NAME} prices: more than {MAX_BODY_BYTES} bytes of items of sizes with accelerators")
            yield item


def _size_key(item: Mapping[str, JsonValue]) -> str:
    return str(item.get("armSkuName") or "").strip().casefold()


def _place_key(item: Mapping[str, JsonValue]) -> tuple[str, str]:
    return str(item.get("armRegionName") or "").strip().casefold(), _size_key(item)


def _cut(items: Sequence[Mapping[str, JsonValue]]) -> Iterator[bytes]:
    """Bodies of at most a page's size, cut between sizes; one of no items where there are none."""
    body: list[str] = []
    size = 0
    for _, group in groupby(sorted(items, key=_place_key), key=_place_key):
        # Numbers that were read exactly go on as text, which is as exact.
        texts = [json.dumps(item, default=str) for item in group]
        length = sum(len(text) + 2 for text in texts)
        if body and size + length > PAGE_BYTES - 64:
            yield _body(body)
            body, size = [], 0
        body += texts
        size += length
    yield _body(body)


def _body(texts: Sequence[str]) -> bytes:
    return f'{{"Items": [{", ".join(texts)}]}}'.encode()
