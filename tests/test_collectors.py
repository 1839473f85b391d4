"""All providers: each keeps the inherited contract, and none is known in two places."""

import gzip
from datetime import timedelta
from decimal import Decimal

import pytest

from catalog.facts import Note
from collectors.base import Config, Drift, Page, Unavailable, Unchanged
from collectors.http import request, retry_after
from collectors.reading import record_of
from collectors.registry import PROVIDERS, provider
from collectors.unzipped import PIECE_BYTES, plain
from tests.support.canned import Canned, canned
from tests.support.contract import contract_of
from tests.support.pages import NOW

FEED_NAMES = {"machines", "prices", "spot", "stock", "scores", "places"}


def test_every_provider_keeps_the_contract() -> None:
    assert PROVIDERS
    for name in PROVIDERS:
        assert contract_of(name).name == name


def test_a_provider_answers_to_its_name_and_feeds_have_known_names() -> None:
    for name in PROVIDERS:
        built = provider(name, contract_of(name).config)
        feeds = list(built.feeds())
        assert built.name == name
        assert feeds
        assert {feed.name for feed in feeds} <= FEED_NAMES
        assert all(feed.provider == name and feed.fresh_for >= feed.every for feed in feeds)


def test_a_provider_without_credentials_says_what_to_set() -> None:
    for name in PROVIDERS:
        built = provider(name, Config())
        missing = built.off()
        assert not built.account
        assert not ({feed.name for feed in built.feeds()} & set(missing)), "a feed is both on and off"
        assert all("GPUFARE_" in text or "_" in text for text in missing.values()), missing


# What all share


SECOND = timedelta(seconds=1)


def test_nothing_has_changed_only_for_who_asked_whether_it_has() -> None:
    with canned(Canned(304)) as server:
        with pytest.raises(Unchanged):
            request("GET", server.url, now=NOW, timeout=SECOND, headers={"If-None-Match": '"a"'})
        with pytest.raises(Drift, match="304"):
            request("GET", server.url, now=NOW, timeout=SECOND)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("3600", 3600),
        ("86400", 86_400),
        ("999999999", 999_999_999),
        ("9" * 5000, 999_999_999),
        ("Mon, 30 Nov 2026 12:00:09 GMT", 9),
        ("Mon, 30 Nov 2026 12:00:09 -0000", 9),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0),
        ("Tue, 01 Dec 2026 12:00:00 GMT", 86_400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 2_912_109 * 86_400 + 43_199),
        ("Sat, 01 Jan 0001 00:00:00 +2359", 0),
        (f"Mon, 30 Nov 2026 12:00:09 +{'9' * 40}", None),
        (f"Mon, 30 Nov {'9' * 40} 12:00:09 GMT", None),
        ("-7", None),
        ("1.5", None),
        ("\u0664", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_pause_is_what_is_asked_for_and_how_long_it_is_kept_is_the_stores_to_say(
    value: str, seconds: int | None
) -> None:
    asked = retry_after({"Retry-After": value}, NOW)
    assert asked == (None if seconds is None else timedelta(seconds=seconds))


def test_an_answer_that_is_not_known_is_kept_for_a_report() -> None:
    with canned(Canned(418, b"I am a teapot")) as server, pytest.raises(Drift, match="418") as caught:
        request("GET", f"{server.url}/tea?key=secret", now=NOW, timeout=SECOND)
    assert caught.value.page == Page(f"GET {server.url}/tea", b"I am a teapot", NOW)


def test_a_call_has_its_time_in_all_and_not_for_each_byte() -> None:
    with canned(Canned(200, b" " * 4000, drip_s=0.02)) as server, pytest.raises(Unavailable, match="no whole answer"):
        request("GET", server.url, now=NOW, timeout=SECOND / 4)


NO_NUMBERS = (
    *("1e99999999", "1e99999999999", "1e-99999999", "9e999999999999999999", f"9e{'9' * 40}", "1" * 5000, "1" * 41),
    *('"1_5"', '"１５"', '" 15 "', '"0x10"', '"1e99999999"', '"15\\n"', '"NaN"', '""', "true", "[]"),
)


@pytest.mark.parametrize("said", NO_NUMBERS, ids=[said[:20] for said in NO_NUMBERS])
def test_what_is_no_number_in_plain_decimal_notation_is_drift_at_once(said: str) -> None:
    page = Page("page", f'{{"size": {said}}}'.encode(), NOW)
    with pytest.raises(Drift):
        record_of(page).number_or_none("size")


@pytest.mark.parametrize(
    ("said", "number"),
    [("1e30", 10**30), ('"-1.5"', Decimal("-1.5")), ("15.", None), ('"15."', 15), ('".5"', Decimal("0.5"))],
)
def test_a_number_is_exact(said: str, number: object) -> None:
    page = Page("page", f'{{"size": {said}}}'.encode(), NOW)
    if number is None:
        with pytest.raises(Drift):
            record_of(page)
    else:
        assert record_of(page).number_or_none("size") == number


@pytest.mark.parametrize(
    "body",
    [rb'{"name": "GN\ud800"}', rb'{"\uDFFF": 1}', b'{"name": "\xed\xa0\x80"}', rb'{"a": [{"b": "\udfff\ud800"}]}'],
)
def test_half_a_character_is_drift(body: bytes) -> None:
    with pytest.raises(Drift):
        record_of(Page("page", body, NOW))


def test_a_whole_character_of_two_halves_is_read() -> None:
    assert record_of(Page("page", rb'{"name": "GN\ud83d\ude00"}', NOW)).text("name") == "GN\U0001f600"


@pytest.mark.parametrize(("said", "count", "noted"), [("0", 0, 0), ("8", 8, 0), ("-1", None, 1), ("null", None, 0)])
def test_a_negative_count_is_unknown_and_noted(said: str, count: int | None, noted: int) -> None:
    record = record_of(Page("page", f'{{"most": {said}}}'.encode(), NOW))
    assert record.count_or_none("most") == count
    assert record.notes == [Note("impossible_size", "most -1")] * noted


def test_a_redirect_is_drift_and_the_other_host_is_sent_nothing() -> None:
    with canned(Canned(200, b"{}")) as other, canned(Canned(302, b"", {"Location": other.url})) as server:
        with pytest.raises(Drift, match="302"):
            request("GET", server.url, now=NOW, timeout=SECOND, headers={"Authorization": "Bearer key"})
        assert (len(server.requests), other.requests) == (1, [])


TEXT = b"".join(b"%d\n" % number for number in range(100_000))
ZIPPED = gzip.compress(TEXT)


def unzipped(body: bytes, encoding: str = "gzip", step: int = 1000, most: int = 2**24) -> bytes:
    return b"".join(plain((body[at : at + step] for at in range(0, len(body), step)), encoding, "here", most))


@pytest.mark.parametrize("step", [1, 7, 1000, 2**20])
def test_a_compressed_body_comes_out_whole_however_it_is_cut(step: int) -> None:
    assert unzipped(ZIPPED, step=step) == TEXT
    assert unzipped(gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"end\n"), step=step) == TEXT + b"end\n"


@pytest.mark.parametrize("left_out", [1, 4, 8, 9, 1000, len(ZIPPED) - 1])
def test_a_compressed_body_without_its_end_is_cut_off(left_out: int) -> None:
    with pytest.raises(Unavailable, match="cut off"):
        unzipped(ZIPPED[:-left_out])
    with pytest.raises(Unavailable, match="cut off"):
        unzipped(gzip.compress(b"begin\n") + ZIPPED[:-left_out])


@pytest.mark.parametrize("body", [b"not gzip", ZIPPED[:-8] + bytes(8), ZIPPED + b"more"], ids=["text", "sum", "tail"])
def test_a_broken_compressed_body_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable, match="broken"):
        unzipped(body)


def test_a_body_that_swells_is_given_up_piece_by_piece() -> None:
    bomb = gzip.compress(bytes(64 * PIECE_BYTES))
    pieces = plain([bomb], "gzip", "here", 3 * PIECE_BYTES)
    with pytest.raises(Drift, match="larger"):
        assert all(len(piece) <= PIECE_BYTES for piece in pieces)
    with pytest.raises(Drift, match="larger"):
        unzipped(TEXT, "", most=1000)


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip"])
def test_a_compression_that_was_not_asked_for_is_drift(encoding: str) -> None:
    with pytest.raises(Drift, match=encoding):
        unzipped(TEXT, encoding)


@pytest.mark.parametrize("body", [b"[]", b'{"size": [1]}', b'{"size": "1e99"}', b'{"size": 1.5}', b"{"])
def test_drift_about_a_record_carries_its_page(body: bytes) -> None:
    page = Page("page", body, NOW)
    with pytest.raises(Drift) as caught:
        record_of(page).size_or_none("size")
    assert caught.value.page is page
