"""Alibaba Cloud through its real SDK: requests, signatures, errors by HTTP status and code, pages, endpoints."""

import json
import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

import simcloud
from catalog.facts import Fact, Machine, Note, Price, Region, Stock
from catalog.words import Level
from collectors.alibaba_api import endpoint
from collectors.base import (
    AuthFailed,
    ByMachine,
    Cell,
    Config,
    Drift,
    Feed,
    NotConfigured,
    NotServed,
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.registry import provider
from simcloud.acs3 import Authorization, canonical_request, sign
from simcloud.sim import Sim, start
from simcloud.wire import Request
from tests.support.alibaba import FEEDS, JSON, REGION, TYPE, Json, cell, config, feed, of
from tests.support.canned import Asked, Canned, canned
from tests.support.contract import SECRET
from tests.support.pages import NOW, cases, feed_of, lines

GENTLE = {"Code": "x", "Message": "as Alibaba words it", "RequestId": "r", "HostId": "h", "Recommend": "u"}


def fetched(answer: Canned, name: str = "stock", **changes: Any) -> Asked:
    """What was asked when a feed was fetched whole from a server that always answers this."""
    with canned(answer) as server:
        one = feed(name, replace(config(ecs=server.url), **changes))
        list(one.fetch(cell(name), NOW, {}))
    return server


def query(asked: Asked, number: int = 0) -> Mapping[str, str]:
    return dict(parse_qsl(urlsplit(asked.requests[number][0]).query))


def refused(code: str | None, status: int = 400, name: str = "stock", **headers: str) -> ProviderError:
    body = {field: value for field, value in (GENTLE | {"Code": code}).items() if value is not None}
    with pytest.raises(ProviderError) as caught:
        fetched(Canned(status, json.dumps(body).encode(), JSON | headers), name)
    return caught.value


def test_every_recorded_page_gives_its_facts_through_the_sdk_too() -> None:
    for case in cases("alibaba"):
        status = 400 if b'"Code"' in case.page.body else 200
        with canned(Canned(status, case.page.body, JSON)) as server:
            one = feed_of(case, config(case.config.get("site", "cn"), ecs=server.url))
            unit = case.page.name.rpartition(" ")[2]
            page = next(
                page
                for page in one.fetch(Cell("alibaba", case.feed, case.page.place, case.page.part), NOW, {})
                if case.feed != "prices" or page.name.endswith(unit)
            )
        assert lines(one.parse(page)) == case.facts_file.read_text("utf-8").splitlines(), case.name


# --- What is asked

EMPTY: Mapping[str, Json] = {
    "places": {"Regions": {"Region": []}},
    "machines": {"InstanceTypes": {"InstanceType": []}},
    "stock": {"AvailableZones": {"AvailableZone": []}},
    "prices": {"PriceInfo": {}},
    "spot": {"SpotPrices": {"SpotPriceType": []}},
    "scores": {"AvailableSpotZones": {"AvailableSpotZone": []}},
}


def answer(name: str) -> Canned:
    return Canned(200, json.dumps(EMPTY[name]).encode(), JSON)


@pytest.mark.parametrize(
    ("name", "action", "asked"),
    [
        ("places", "DescribeRegions", {"AcceptLanguage": "en-US"}),
        ("machines", "DescribeInstanceTypes", {"MaxResults": "1000"}),
        (
            "prices",
            "DescribePrice",
            {
                "RegionId": REGION,
                "ResourceType": "instance",
                "InstanceType": TYPE,
                "PriceUnit": "Hour",
                "Period": "1",
            },
        ),
        (
            "spot",
            "DescribeSpotPriceHistory",
            {
                "RegionId": REGION,
                "InstanceType": TYPE,
                "NetworkType": "vpc",
                "OSType": "linux",
                "StartTime": "2026-11-29T12:00:00Z",
            },
        ),
        ("scores", "DescribeSpotAdvice", {"RegionId": REGION}),
    ],
)
def test_what_is_asked(name: str, action: str, asked: Mapping[str, str]) -> None:
    server = fetched(answer(name), name)
    assert query(server) == asked
    path, headers, body = server.requests[0]
    assert (urlsplit(path).path, body, headers["x-acs-action"], headers["x-acs-version"]) == (
        "/",
        b"",
        action,
        "2014-05-26",
    )
    assert headers["x-acs-security-token"] == f"token-{SECRET}"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("PostPaid", {"InstanceChargeType": "PostPaid", "SpotStrategy": "NoSpot"}),
        ("SpotAsPriceGo", {"InstanceChargeType": "PostPaid", "SpotStrategy": "SpotAsPriceGo"}),
        ("PrePaid", {"InstanceChargeType": "PrePaid"}),
    ],
)
def test_stock_is_asked_for_each_way_to_buy_with_a_disk_that_new_machines_can_have(
    part: str, said: dict[str, str]
) -> None:
    with canned(answer("stock")) as server:
        list(feed("stock", config(ecs=server.url)).fetch(cell("stock", part=part), NOW, {}))
    assert query(server) == said | {
        "RegionId": REGION,
        "DestinationResource": "InstanceType",
        "ResourceType": "instance",
        "IoOptimized": "optimized",
        "NetworkCategory": "vpc",
        "SystemDiskCategory": "cloud_essd",
    }


def test_a_price_is_asked_for_by_the_hour_and_by_the_month() -> None:
    server = fetched(answer("prices"), "prices")
    assert [query(server, number)["PriceUnit"] for number in range(len(server.requests))] == ["Hour", "Month"]


def test_a_machine_that_cannot_have_the_usual_disk_is_asked_about_with_another() -> None:
    body = json.dumps(GENTLE | {"Code": "InvalidSystemDiskCategory.ValueNotSupported"}).encode()
    server = fetched(Canned(400, body, JSON), "prices")
    asked = [query(server, number) for number in range(len(server.requests))]
    assert [(one["PriceUnit"], one.get("SystemDisk.Category")) for one in asked] == [
        ("Hour", None),
        ("Hour", "cloud_essd"),
        ("Month", "cloud_essd"),
    ]


def test_the_signature_is_the_servers_over_all_that_was_sent() -> None:
    server = fetched(answer("scores"), "scores")
    path, sent, body = server.requests[0]
    headers = {name.lower(): value for name, value in sent.items()}
    request = Request("POST", "/", dict(parse_qsl(urlsplit(path).query)), headers, body)
    claim = Authorization.read(headers["authorization"])
    assert claim is not None
    assert claim.key_id == f"id-{SECRET}"
    assert sign(claim, request, f"key-{SECRET}") == claim.signature
    assert sign(claim, request, "another") != claim.signature
    assert "host:127.0.0.1" in canonical_request(claim, request)
    assert not {"accept-encoding", "connection"} & set(claim.signed_headers), "a proxy on the way may change them"


# --- Endpoints


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("cn-hangzhou", "ecs-cn-hangzhou.aliyuncs.com"),
        ("cn-shanghai", "ecs.cn-shanghai.aliyuncs.com"),
        ("cn-zhangjiakou", "ecs.cn-zhangjiakou.aliyuncs.com"),
        ("ap-southeast-1", "ecs.ap-southeast-1.aliyuncs.com"),
        ("cn-shanghai-finance-1", "ecs-cn-hangzhou.aliyuncs.com"),
        ("cn-north-2-gov-1", "ecs.aliyuncs.com"),
    ],
)
def test_each_region_is_asked_at_its_own_endpoint(region: str, host: str) -> None:
    assert endpoint(region) == host


def test_endpoints_are_those_of_the_typed_sdk() -> None:
    """By its source, which takes five seconds to import."""
    from importlib.metadata import files

    (client,) = [one for one in files("alibabacloud-ecs20140526") or () if one.name == "client.py"]
    told = dict(re.findall(r"'([a-z0-9-]+)': '([a-z0-9.-]+\.aliyuncs\.com)'", client.read_text("utf-8")[:8000]))
    assert len(told) > 20
    for region in ("cn-hangzhou", "cn-shanghai-finance-1", "cn-shenzhen-finance-1", "cn-hangzhou-finance"):
        assert endpoint(region) == told[region]
    assert endpoint("cn-north-2-gov-1") == told["cn-north-2-gov-1"]
    assert "cn-shanghai" not in told


def test_an_endpoint_that_is_no_address_is_named() -> None:
    for address in ("127.0.0.1:8002", "ftp://127.0.0.1", "http://"):
        with pytest.raises(NotConfigured, match="ENDPOINTS__ECS"):
            list(feed("stock", config(ecs=address)).fetch(cell("stock"), NOW, {}))


def test_a_region_that_no_host_can_be_named_after_is_unavailable() -> None:
    for region in (".", "a" * 300):
        with pytest.raises(Unavailable):
            list(feed("stock").fetch(cell("stock", region), NOW, {}))


# --- Errors

ERRORS: list[tuple[str, int, type[ProviderError]]] = [
    ("Throttling", 400, Throttled),
    ("Throttling.User", 400, Throttled),
    ("Throttling.Api", 400, Throttled),
    ("ServiceUnavailable", 503, Unavailable),
    ("UnknownError", 500, Unavailable),
    ("InternalError", 500, Unavailable),
    ("SomethingNew", 502, Unavailable),
    ("SignatureNonceUsed", 400, Unavailable),
    ("Forbidden.RAM", 403, NotServed),
    ("Forbidden.SubUser", 403, NotServed),
    ("Forbedden.NotSupportRAM", 403, NotServed),
    ("NoPermission", 403, NotServed),
    ("InvalidAccessKeyId.NotFound", 404, AuthFailed),
    ("InvalidAccessKeyId.Inactive", 403, AuthFailed),
    ("InvalidSecurityToken.Expired", 400, AuthFailed),
    ("SignatureDoesNotMatch", 400, AuthFailed),
    ("IncompleteSignature", 400, AuthFailed),
    ("InvalidTimeStamp.Expired", 400, AuthFailed),
    ("Invalid.RegionId", 404, NotServed),
    ("InvalidRegionId.NotFound", 404, NotServed),
    ("InvalidParameter", 400, Drift),
    ("InvalidAction.NotFound", 404, Drift),
]


@pytest.mark.parametrize("name", ["stock", "prices", "spot"])
@pytest.mark.parametrize(("code", "status", "expected"), ERRORS, ids=[code for code, _, _ in ERRORS])
def test_an_error_is_what_its_code_says(code: str, status: int, expected: type[ProviderError], name: str) -> None:
    error = refused(code, status, name)
    assert type(error) is expected
    assert code in str(error)
    assert REGION in str(error)
    assert "as Alibaba words it" in str(error)


def test_a_missing_right_is_named() -> None:
    assert "ecs:DescribePrice" in str(refused("Forbidden.RAM", 403, "prices"))
    assert "ecs:DescribeAvailableResource" in str(refused("Forbidden.RAM", 403))


def test_an_expired_time_speaks_of_the_clock() -> None:
    assert "clock" in str(refused("InvalidTimeStamp.Expired"))


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, timedelta(minutes=1)),
        ({"Retry-After": "7"}, timedelta(seconds=7)),
        ({"x-acs-retry-after": "2500"}, timedelta(seconds=2.5)),
        ({"x-acs-retry-after": "soon"}, timedelta(minutes=1)),
    ],
    ids=str,
)
def test_who_is_throttled_waits_as_long_as_asked_or_until_the_next_minute(
    headers: dict[str, str], pause: timedelta
) -> None:
    """With HTTP 400: throttling is no error of the request."""
    error = refused("Throttling.User", 400, **headers)
    assert isinstance(error, Throttled)
    assert error.retry_after == pause


@pytest.mark.parametrize("code", [None, "", 5, ["Throttling"]])
@pytest.mark.parametrize(
    ("status", "expected"), [(400, Drift), (403, AuthFailed), (429, Throttled), (500, Unavailable)]
)
def test_an_error_without_a_code_is_what_its_status_says(code: Any, status: int, expected: type[ProviderError]) -> None:
    assert type(refused(code, status)) is expected


@pytest.mark.parametrize("status", [400, 404, 500, 503])
@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"[1]", b"null", b'"text"', b'{"Code":' * 10_000])
def test_an_error_that_is_no_json_is_what_its_status_says(status: int, body: bytes) -> None:
    """The SDK says no code of it, only that something went wrong."""
    with pytest.raises(Unavailable if status >= 500 else Drift):
        fetched(Canned(status, body, {"Content-Type": "text/html"}))


@pytest.mark.parametrize("name", FEEDS)
@pytest.mark.parametrize("status", [400, 500])
def test_a_refused_call_is_made_once(name: str, status: int) -> None:
    """Retrying is the scheduler's."""
    body = json.dumps(GENTLE | {"Code": "UnknownError"}).encode()
    with canned(Canned(status, body, JSON)) as server, pytest.raises(Unavailable):
        list(feed(name, config(ecs=server.url)).fetch(cell(name), NOW, {}))
    assert len(server.requests) == 1


def test_a_server_that_says_nothing_is_left_in_time() -> None:
    """The SDK counts in milliseconds."""
    with pytest.raises(Unavailable, match="ReadTimeout"):
        fetched(Canned(200, b"{}", silent_s=30), timeout=timedelta(milliseconds=300))


def test_the_sdks_debug_log_shows_no_credential(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUG", "sdk")
    caplog.set_level(logging.DEBUG)
    fetched(answer("stock"))
    assert caplog.records, "nothing was logged, so nothing is proved"
    assert SECRET not in caplog.text


# --- Pages


def at(cloud: Sim, **changes: Any) -> Config:
    keys = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "simcloud", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "simcloud"}
    usual = Config(keys, (), "cn", {"ecs": cloud.url("alibaba")}, timeout=timedelta(seconds=5))
    return replace(usual, **changes)


def polled(one: Feed, where: Cell, now: datetime | None = None) -> list[Fact | Note]:
    return [item for page in one.fetch(where, now or datetime.now(UTC), {}) for item in one.parse(page)]


def test_machines_come_in_pages_by_their_token_to_the_end() -> None:
    with start("demo", providers=("alibaba",)) as cloud:
        whole = polled(feed("machines", at(cloud)), cell("machines", "cn-shanghai"))
        calls = len(cloud.requests("alibaba", "DescribeInstanceTypes"))
        cloud.options("alibaba", types_per_page=1000)
        at_once = polled(feed("machines", at(cloud)), cell("machines", "cn-shanghai"))
    assert whole == at_once
    assert calls == 3
    assert len(of(Machine, whole)) == 13


def test_a_token_that_repeats_is_drift_not_an_endless_poll() -> None:
    body = json.dumps(EMPTY["machines"] | {"NextToken": "again"}).encode()
    with canned(Canned(200, body, JSON)) as server, pytest.raises(Drift, match="NextToken"):
        list(feed("machines", config(ecs=server.url)).fetch(cell("machines"), NOW, {}))
    assert len(server.requests) == 2


def test_a_spot_history_of_several_pages_is_read_as_one() -> None:
    """The latest price of a zone may be on any of them."""
    where = cell("spot", "cn-shanghai")
    with start("demo", providers=("alibaba",)) as cloud:
        at_once = of(Price, polled(feed("spot", at(cloud)), where))
        cloud.options("alibaba", spot_rows_per_page=1)
        pages = list(feed("spot", at(cloud)).fetch(where, datetime.now(UTC), {}))
        in_pages = of(Price, feed("spot", at(cloud)).parse(pages[0]))
        calls = len(cloud.requests("alibaba", "DescribeSpotPriceHistory"))
    assert len(pages) == 1
    assert in_pages == at_once
    assert {one.zone: one.nanos for one in at_once} == {"cn-shanghai-b": 1_906_500_000, "cn-shanghai-l": 1_906_500_000}
    assert calls == 1 + 6


# --- Against the simulated cloud


def test_every_region_of_a_cloud_can_be_read() -> None:
    with start("demo", providers=("alibaba",)) as cloud:
        regions = [one.region for one in of(Region, polled(feed("places", at(cloud)), cell("places")))]
        read: dict[str, Counter[str]] = {}
        for name in ("stock", "scores"):
            for where in feed(name).cells(regions):
                kinds = read.setdefault(where.place, Counter())
                kinds.update(type(item).__name__ for item in polled(feed(name, at(cloud)), where))
    assert len(read) == 6
    assert all(kinds["Stock"] > 10 for kinds in read.values())


def test_what_a_stock_answer_names_has_a_price_and_a_spot_price() -> None:
    with start("demo", providers=("alibaba",)) as cloud:
        found = of(Stock, polled(feed("stock", at(cloud)), cell("stock", "cn-wulanchabu")))
        names = sorted({one.instance_type for one in found})
        for name in ("prices", "spot"):
            one = feed(name, at(cloud))
            assert isinstance(one, ByMachine)
            for where in one.cells_of({"cn-wulanchabu": names}):
                assert of(Price, polled(one, where)), where
    assert "ecs.gn7e-c16g1.4xlarge" in names


@pytest.mark.parametrize(("site", "nanos"), [("cn", 9_532_600_000), ("intl", 1_334_600_000)])
def test_the_site_of_the_account_decides_the_currency(site: str, nanos: int) -> None:
    with start("demo", providers=("alibaba",)) as cloud:
        cloud.options("alibaba", site=site)
        hour, month = of(Price, polled(feed("prices", at(cloud, site=site)), cell("prices", "cn-shanghai")))
        other = polled(feed("prices", at(cloud, site="intl" if site == "cn" else "cn")), cell("prices", "cn-shanghai"))
    assert {hour.currency, month.currency} == {"CNY" if site == "cn" else "USD"}
    assert hour.nanos == nanos
    assert of(Price, other) == []


def a100s(cloud: Sim) -> set[Level]:
    found = of(Stock, polled(feed("stock", at(cloud)), cell("stock", "cn-wulanchabu")))
    return {one.level for one in found if one.instance_type.startswith("ecs.gn7e")}


def test_a100s_that_sell_out_are_out_and_come_back() -> None:
    with start("demo", providers=("alibaba",)) as cloud:
        before = a100s(cloud)
        cloud.advance(71)
        sold_out = a100s(cloud)
        cloud.advance(120)
        back = a100s(cloud)
    assert before == {Level.IN_STOCK, Level.LOW}
    assert sold_out == {Level.OUT}
    assert Level.OUT not in back


def test_an_empty_success_and_an_unknown_error_are_no_stock() -> None:
    """What a region's stock was answered with at another region's endpoint."""
    text = (simcloud.scenario.SCENARIOS / "demo" / "alibaba.toml").read_text("utf-8")
    for region, odd in (("cn-beijing", "error"), ("cn-hongkong", "nothing")):
        text = text.replace(f'id = "{region}"\n', f'id = "{region}"\nanswers = "{odd}"\n')
    with start(simcloud.parse(text), providers=("alibaba",)) as cloud:
        with pytest.raises(Unavailable, match="UnknownError"):
            polled(feed("stock", at(cloud)), cell("stock", "cn-beijing"))
        with pytest.raises(Drift, match="AvailableZones is missing"):
            polled(feed("stock", at(cloud)), cell("stock", "cn-hongkong"))
        assert of(Stock, polled(feed("stock", at(cloud)), cell("stock", "cn-shanghai")))


def test_a_wrong_key_and_a_wrong_clock_are_refused() -> None:
    where = cell("stock", "cn-shanghai")
    with start("demo", providers=("alibaba",)) as cloud:
        keys = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "simcloud", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "wrong"}
        with pytest.raises(AuthFailed, match="SignatureDoesNotMatch"):
            polled(feed("stock", at(cloud, environ=keys)), where)
        with pytest.raises(AuthFailed, match="InvalidAccessKeyId"):
            polled(feed("stock", at(cloud, environ=keys | {"ALIBABA_CLOUD_ACCESS_KEY_ID": "other"})), where)
        cloud.fault("alibaba", "skew", skew_s=1000)
        with pytest.raises(AuthFailed, match="clock"):
            polled(feed("stock", at(cloud)), where)


def test_a_region_that_there_is_not_is_off() -> None:
    with start("demo", providers=("alibaba",)) as cloud, pytest.raises(NotServed, match="RegionId"):
        polled(feed("stock", at(cloud)), cell("stock", "cn-nowhere"))


def test_too_many_calls_are_throttled_never_sold_out() -> None:
    where = cell("stock", "cn-shanghai")
    with start("demo", providers=("alibaba",)) as cloud:
        cloud.options("alibaba", rate_limit_per_minute=1)
        assert of(Stock, polled(feed("stock", at(cloud)), where))
        with pytest.raises(Throttled):
            polled(feed("stock", at(cloud)), where)
        assert of(Stock, polled(feed("stock", at(cloud)), cell("stock", "cn-beijing"))), "each region by itself"


def test_any_key_does_where_the_cloud_lets_it_in() -> None:
    with start("demo", providers=("alibaba",)) as cloud:
        cloud.options("alibaba", any_credentials=True, access_key_secret="mine")
        keys = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "any", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "mine"}
        built = provider("alibaba", at(cloud, environ=keys))
        (places,) = [one for one in built.feeds() if one.name == "places"]
        assert of(Region, polled(places, cell("places")))
