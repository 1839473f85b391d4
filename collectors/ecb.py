"""The European Central Bank's euro foreign exchange reference rates of one day: how much of each currency 1 EUR is.

GET https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml, public; new about 16:00 CET on working days. It is
read strictly, since a wrong rate misprices all that is sold in a currency: whatever is not as learnt is Drift.
"""

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from xml.parsers import expat

from catalog.fx import Rate
from collectors.base import Drift, Page
from collectors.http import SHOWN_BYTES, request

HOST = "https://www.ecb.europa.eu"
PATH = "/stats/eurofxref/eurofxref-daily.xml"
SOURCE, BASE = "ECB", "EUR"
MUST_HAVE = "USD"
"""A list without it is no whole list."""
LEAST, MOST = Decimal("0.0001"), Decimal(1_000_000)
"""The smallest and the greatest rate that is believed: the ECB's own have been between 0.2 and 25,000."""
TIMEOUT = timedelta(seconds=20)
ENCODINGS = frozenset({"utf-8", "us-ascii"})
"""What a list may be declared to be written in: expat asks Python for any other, which knows some hundred."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ENVELOPE = "http://www.gesmes.org/xml/2002-08-01 Envelope"
_CUBE = "http://www.ecb.int/vocabulary/2002-08-01/eurofxref Cube"
_DAY = (_ENVELOPE, _CUBE, _CUBE)
_RATE = (*_DAY, _CUBE)


def fetch(now: datetime, endpoint: str | None = None) -> Page:
    """The list of the last working day, from scheme, host and port of `endpoint`, else from the ECB.

    Raises ProviderError.
    """
    return Page("ecb rates", request("GET", (endpoint or HOST) + PATH, now=now, timeout=TIMEOUT).body, now)


def parse(page: Page) -> list[Rate]:
    """The rates, each currency once, all of one day. Raises Drift for anything else, a day in the future too."""
    if len(page.body) > SHOWN_BYTES:
        raise _drift(page, f"{len(page.body)} bytes are far more than this list ever had")
    reader = _Reader(page)
    try:
        reader.read()
    except expat.ExpatError as error:
        raise _drift(page, f"no XML ({error})") from error
    if reader.day is None or MUST_HAVE not in reader.rates:
        raise _drift(page, f"no day, or no {MUST_HAVE}: the list is not whole")
    return [Rate(BASE, currency, rate, reader.day, SOURCE) for currency, rate in reader.rates.items()]


def _drift(page: Page, said: str) -> Drift:
    return Drift(f"{page.name}: {said}", Page(page.name, page.body[:SHOWN_BYTES], page.at))


class _Reader:
    """Walks the document. No entity is ever expanded: a document type, where they are declared, is refused."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open: tuple[str, ...] = ()
        self.day: date | None = None
        self.rates: dict[str, Decimal] = {}

    def read(self) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.XmlDeclHandler = self._refuse_encoding
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.Parse(self._page.body, True)

    def _refuse_encoding(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.casefold() not in ENCODINGS:
            raise _drift(self._page, f"it is declared to be written in {encoding[:20]!r}, which this list never was")

    def _refuse_doctype(self, *_: object) -> None:
        raise _drift(self._page, "a document type is declared, which this list never had")

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._open = (*self._open, name)
        if self._open == _DAY:
            self._read_day(attributes)
        elif self._open == _RATE:
            self._read_rate(attributes)
        elif self._open[:1] != (_ENVELOPE,) or (_CUBE in self._open and self._open != _DAY[:2]):
            raise _drift(self._page, f"the element {name[-60:]} is not where it was learnt")

    def _end(self, _name: str) -> None:
        self._open = self._open[:-1]

    def _read_day(self, attributes: dict[str, str]) -> None:
        stated = attributes.get("time", "")
        if self.day is not None or attributes.keys() != {"time"} or not _DATE.fullmatch(stated):
            raise _drift(self._page, f"not one day: {stated[:20]!r}")
        try:
            self.day = date.fromisoformat(stated)
        except ValueError as error:
            raise _drift(self._page, f"no day: {stated!r}") from error
        if self.day > self._page.at.date():
            raise _drift(self._page, f"the rates are of {stated}, which is in the future")

    def _read_rate(self, attributes: dict[str, str]) -> None:
        currency, stated = attributes.get("currency", ""), attributes.get("rate", "")
        known = attributes.keys() == {"currency", "rate"} and re.fullmatch("[A-Z]{3}", currency)
        if not known or currency == BASE or currency in self.rates:
            raise _drift(self._page, f"not one rate of a currency: {currency[:20]!r}")
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", stated) or not LEAST <= Decimal(stated) <= MOST:
            raise _drift(self._page, f"{currency}: {stated[:20]!r} is no rate")
        self.rates[currency] = Decimal(stated)
