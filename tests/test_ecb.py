"""The European Central Bank's list of rates: read whole and strictly, or not at all."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from catalog.fx import Rate, ecb_rates
from collectors.base import Drift, Page, ProviderError, Throttled, Unavailable
from collectors.ecb import PATH, fetch, parse
from simcloud.ecb import RATES, daily
from tests.support.canned import Canned, canned

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LIST = """<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
    <gesmes:subject>Reference rates</gesmes:subject>
    <gesmes:Sender>
        <gesmes:name>European Central Bank</gesmes:name>
    </gesmes:Sender>
    <Cube>
        <Cube time='2026-11-27'>
            <Cube currency='USD' rate='1.1201'/>
            <Cube currency='JPY' rate='175.02'/>
            <Cube currency='CNY' rate='7.4511'/>
        </Cube>
    </Cube>
</gesmes:Envelope>"""


def page(body: str | bytes) -> Page:
    return Page("ecb rates", body if isinstance(body, bytes) else body.encode(), NOW)


def test_the_list_is_a_rate_for_each_currency_of_its_day() -> None:
    day = date(2026, 11, 27)
    assert parse(page(LIST)) == [
        Rate("EUR", "USD", Decimal("1.1201"), day, "ECB"),
        Rate("EUR", "JPY", Decimal("175.02"), day, "ECB"),
        Rate("EUR", "CNY", Decimal("7.4511"), day, "ECB"),
    ]


@pytest.mark.parametrize("encoding", ["UTF-8", "utf-8", "US-ASCII"])
def test_the_encodings_of_such_a_list_say_the_same(encoding: str) -> None:
    assert parse(page(LIST.replace("UTF-8", encoding).encode(encoding))) == parse(page(LIST))


@pytest.mark.parametrize(
    "encoding",
    [
        *("foo", "big5", "utf-7", "UTF-16", "utf-32", "ISO-8859-1", "cp1252", "shift_jis", "gb18030", "x" * 5_000),
        *("rot13", "hex", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs"),
    ],
)
def test_a_list_that_is_declared_to_be_written_otherwise_is_drift_and_no_other_error(encoding: str) -> None:
    """Expat asks Python for an encoding that it does not know: LookupError, ValueError, UnicodeError were had."""
    declared = LIST.replace("UTF-8", encoding)
    with pytest.raises(Drift, match=r"written in|no XML"):
        parse(page(declared))
    with pytest.raises(Drift, match=r"written in|no XML"):
        parse(page(declared.encode("utf-16")))


def test_the_day_may_be_today_and_not_tomorrow() -> None:
    assert parse(page(LIST.replace("2026-11-27", "2026-11-30")))[0].date == NOW.date()
    with pytest.raises(Drift, match="future"):
        parse(page(LIST.replace("2026-11-27", "2026-12-01")))


@pytest.mark.parametrize(
    ("was", "stands"),
    [
        *(
            ("1.1201", rate)
            for rate in ("0", "-1.1", "0.0", "", "1,12", "1e1", "NaN", "Infinity", "+1.1", " 1.1", "１.１")
        ),
        *(("1.1201", rate) for rate in ("0.00009", "1000001", "1" * 40, "1.1.1", ".5", "1.")),
        ("'USD'", "'usd'"),
        ("'USD'", "'USDX'"),
        ("'USD'", "'EUR'"),
        ("'USD'", "'JPY'"),
        ("'USD'", "'GBP'"),
        (" currency='USD'", ""),
        (" rate='1.1201'", ""),
        ("rate='1.1201'", "rate='1.1201' multiplier='100'"),
        ("2026-11-27", "27.11.2026"),
        ("2026-11-27", "2026-13-01"),
        ("2026-11-27", "20261127"),
        ("2026-11-27", ""),
        (" time='2026-11-27'", ""),
        ("</gesmes:Envelope>", ""),
        ("eurofxref", "eurofxref2"),
        ("gesmes.org/xml/2002-08-01", "gesmes.org/xml/2030-01-01"),
        ("<Cube currency='JPY' rate='175.02'/>", "<Cube currency='JPY' rate='175.02'><Cube/></Cube>"),
        ("<Cube currency='JPY' rate='175.02'/>", "<Rate currency='JPY' rate='175.02'/>"),
        ("<gesmes:subject>Reference rates</gesmes:subject>", "<Cube><Cube time='2026-11-26'></Cube></Cube>"),
    ],
)
def test_whatever_is_not_as_learnt_is_drift_and_nothing_of_it_is_taken(was: str, stands: str) -> None:
    assert was in LIST
    with pytest.raises(Drift) as caught:
        parse(page(LIST.replace(was, stands)))
    assert caught.value.page is not None


ENTITY = '<!DOCTYPE x [<!ENTITY usd "1.1201">]>'
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize("declared", [ENTITY, BOMB, "<!DOCTYPE x>", '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">'])
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
def test_a_document_type_is_refused_whatever_it_declares(declared: str, encoding: str) -> None:
    body = LIST.replace(' encoding="UTF-8"', "").replace("<gesmes:Envelope ", f"{declared}\n<gesmes:Envelope ", 1)
    with pytest.raises(Drift, match="document type"):
        parse(page(body.encode(encoding)))


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"<html><body>blocked</body></html>", b"<a>", b"\xff\xfe", LIST.encode()[:300], b" " * 70_000]
)
def test_what_is_no_list_is_drift(body: bytes) -> None:
    with pytest.raises(Drift):
        parse(page(body))


def test_it_is_asked_for_at_the_endpoint_without_credentials_and_once() -> None:
    with canned(Canned(200, LIST.encode(), {"Content-Type": "text/xml"})) as server:
        assert parse(fetch(NOW, server.url)) == parse(page(LIST))
    ((path, headers, _),) = server.requests
    assert path == PATH == "/stats/eurofxref/eurofxref-daily.xml"
    assert "authorization" not in {name.lower() for name in headers}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Canned(503), Unavailable),
        (Canned(403, b"<html>no</html>"), Unavailable),
        (Canned(429, b"", {"Retry-After": "9"}), Throttled),
        (Canned(404), Drift),
        (Canned(302, b"", {"Location": "http://127.0.0.1:9/"}), Drift),
        (Canned(0), Unavailable),
        (Canned(200, b"<x>", cut=True), Unavailable),
    ],
)
def test_a_fetch_that_fails_has_its_own_error(answer: Canned, kind: type[ProviderError]) -> None:
    with canned(answer) as server, pytest.raises(ProviderError) as caught:
        fetch(NOW, server.url)
    assert type(caught.value) is kind
    assert len(server.requests) == 1


def test_the_simulated_list_is_of_the_working_day_before_and_reads_like_the_real_one() -> None:
    days = {}
    for number in range(7):
        today = date(2026, 11, 23) + timedelta(days=number)
        rates = parse(Page("ecb rates", daily(today), datetime(today.year, today.month, today.day, tzinfo=UTC)))
        assert {one.quote: str(one.rate) for one in rates} == RATES
        days[f"{today:%a}"] = f"{rates[0].date:%a}"
    assert days == {
        "Mon": "Fri",
        "Tue": "Mon",
        "Wed": "Tue",
        "Thu": "Wed",
        "Fri": "Thu",
        "Sat": "Fri",
        "Sun": "Fri",
    }
    assert all(ecb_rates().rate("EUR", currency) is not None for currency in RATES)
