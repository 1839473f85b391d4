"""Tencent Cloud through its real SDK: requests, errors in HTTP 200, long answers, settings."""

import json
import logging
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from catalog.facts import Fact, Note, Region, Stock
from catalog.words import Level
from collectors.base import (
    PAGE_BYTES,
    AuthFailed,
    Cell,
    Config,
    Drift,
    Feed,
    NotConfigured,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.registry import provider
from simcloud.sim import Sim, start
from tests.support.canned import Canned, canned
from tests.support.contract import SECRET
from tests.support.pages import NOW, cases, feed_of, line, lines
from tests.support.tencent import (
    JSON,
    JSON_UTF8,
    ON_DEMAND,
    PREPAID,
    REGION,
    SPOT,
    config,
    feed,
    levels,
    of,
    row,
    stock,
)


def fetched(answer: Canned, name: str = "stock", place: str = REGION, part: str = ON_DEMAND) -> list[Page]:
    with canned(answer) as server:
        one = feed(name, config(cvm=server.url, region=server.url))
        return list(one.fetch(Cell("tencent", name, place, part), NOW, {}))


def refused(code: str, headers: dict[str, str], message: str = "as Tencent words it") -> ProviderError:
    body = {"Response": {"Error": {"Code": code, "Message": message}, "RequestId": "r"}}
    with pytest.raises(ProviderError) as caught:
        fetched(Canned(200, json.dumps(body).encode(), headers))
    return caught.value


def test_every_recorded_page_gives_its_facts_through_the_sdk_too() -> None:
    for case in cases("tencent"):
        site = case.config.get("site", "cn")
        with canned(Canned(200, case.page.body, JSON)) as server:
            one = feed_of(case, config(site, cvm=server.url, region=server.url))
            pages = list(one.fetch(Cell("tencent", case.feed, case.page.place, case.page.part), NOW, {}))
        facts = [item for page in pages for item in one.parse(page)]
        assert lines(facts) == case.facts_file.read_text("utf-8").splitlines(), case.name


def test_a_call_is_signed_names_its_region_and_filters_by_charge_type() -> None:
    with canned(Canned(200, b"{}", JSON)) as server:
        one = feed("stock", config(cvm=server.url))
        list(one.fetch(Cell("tencent", "stock", "ap-nanjing", SPOT), NOW, {}))
    ((path, headers, body),) = server.requests
    assert path == "/"
    assert headers["Authorization"].startswith(f"TC3-HMAC-SHA256 Credential=id-{SECRET}/")
    asked = {name: headers[f"X-TC-{name}"] for name in ("Action", "Version", "Region", "Token")}
    assert asked == {
        "Action": "DescribeZoneInstanceConfigInfos",
        "Version": "2017-03-12",
        "Region": "ap-nanjing",
        "Token": f"token-{SECRET}",
    }
    assert json.loads(body) == {"Filters": [{"Name": "instance-charge-type", "Values": [SPOT]}]}


def test_regions_come_from_the_region_service_not_from_the_frozen_action_of_cvm() -> None:
    with canned(Canned(200, b"{}", JSON)) as server:
        list(feed("places", config(region=server.url)).fetch(Cell("tencent", "places"), NOW, {}))
    ((_, headers, body),) = server.requests
    assert (headers["X-TC-Action"], headers["X-TC-Version"]) == ("DescribeRegions", "2022-06-27")
    assert "X-TC-Region" not in headers
    assert json.loads(body) == {"Product": "cvm"}


ERRORS: list[tuple[str, type[ProviderError]]] = [
    ("RequestLimitExceeded", Throttled),
    ("RequestLimitExceeded.UinLimitExceeded", Throttled),
    ("RequestLimitExceeded.GlobalRegionUinLimitExceeded", Throttled),
    ("InternalError", Unavailable),
    ("InternalServerError", Unavailable),
    ("AuthFailure.SignatureFailure", AuthFailed),
    ("AuthFailure.SignatureExpire", AuthFailed),
    ("AuthFailure.SecretIdNotFound", AuthFailed),
    ("UnauthorizedOperation", AuthFailed),
    ("UnauthorizedOperation.CamNoAuth", AuthFailed),
    ("UnsupportedRegion", NotServed),
    ("InvalidRegion.NotFound", NotServed),
    ("InvalidRegion.Unavailable", NotServed),
    ("InvalidParameterValue.InvalidRegion", NotServed),
    ("InvalidZone.MismatchRegion", NotServed),
    ("InvalidParameterValue", Drift),
    ("InvalidAction", Drift),
]


@pytest.mark.parametrize("headers", [JSON, JSON_UTF8, {}], ids=["json", "charset", "none"])
@pytest.mark.parametrize(("code", "expected"), ERRORS, ids=[code for code, _ in ERRORS])
def test_an_error_in_http_200_is_that_error_whatever_its_content_type(
    code: str, expected: type[ProviderError], headers: dict[str, str]
) -> None:
    """Trap: with a charset in the content type the SDK overlooks the error, and nothing would seem to be sold."""
    error = refused(code, headers)
    assert type(error) is expected
    assert code in str(error)
    assert REGION in str(error)


LISTS: dict[str, list[Any]] = {"InstanceTypeQuotaSet": [], "InstanceTypeConfigSet": [], "RegionSet": []}


@pytest.mark.parametrize("name", ["places", "machines", "stock"])
def test_an_error_without_a_message_beside_an_empty_list_is_its_code(name: str) -> None:
    body = {"Response": {"Error": {"Code": "InternalError"}, **LISTS}}
    with pytest.raises(Unavailable, match="InternalError"):
        fetched(Canned(200, json.dumps(body).encode(), JSON), name)


@pytest.mark.parametrize(
    "error", [None, [], {}, "", "InternalError", False, 0, ["x"], {"Code": None}, {"Code": 5}, {"Message": "m"}]
)
def test_an_error_of_any_shape_is_never_an_empty_list(error: object) -> None:
    """Tencent leaves the field out of a good answer: whatever stands there, the list beside is none."""
    body = json.dumps({"Response": {"Error": error, **LISTS}}).encode()
    with pytest.raises(Drift, match="Error"):
        fetched(Canned(200, body, JSON))
    for name in ("places", "machines", "stock"):
        with pytest.raises(Drift, match="Error"):
            list(feed(name).parse(Page("page", body, NOW, REGION, ON_DEMAND)))


def test_an_answer_that_is_nested_without_end_is_drift() -> None:
    for body in (b'{"Error":' * 100_000, b'{"InstanceTypeQuotaSet": [' + b"[" * 5_000_000):
        (page,) = fetched(Canned(200, body, JSON))
        with pytest.raises(Drift):
            list(feed("stock").parse(page))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_sends_the_token_nowhere(status: int) -> None:
    """requests takes the signature off where it follows to another host, and the token along."""
    with (
        canned(Canned(200, b'{"Response": {"InstanceTypeQuotaSet": []}}', JSON)) as other,
        pytest.raises(Drift, match=str(status)),
    ):
        fetched(Canned(status, b"", {"Location": f"{other.url}/"}))
    assert other.requests == []


def test_a_pause_that_is_asked_for_is_handed_on() -> None:
    error = refused("RequestLimitExceeded", JSON | {"Retry-After": "7"})
    assert isinstance(error, Throttled)
    assert error.retry_after == timedelta(seconds=7)


def test_an_expired_signature_speaks_of_the_clock() -> None:
    assert "clock" in str(refused("AuthFailure.SignatureExpire", JSON, "Signature expired."))


def test_the_sdks_debug_log_shows_no_credential(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fetched(Canned(200, b"{}", JSON))
    assert caplog.records, "nothing was logged, so nothing is proved"
    assert SECRET not in caplog.text


@pytest.mark.parametrize("name", ["places", "machines", "stock"])
@pytest.mark.parametrize(
    "answer",
    [
        {"Response": {"RequestId": "r"}},
        {"Response": {"InstanceTypeQuotaSet": None, "InstanceTypeConfigSet": None, "RegionSet": None}},
        {"Response": {"Error": {"Code": "RequestLimitExceeded", "Message": "40 times per second"}}},
        {"Response": {"TotalCount": 1, "ZoneSet": [{"Zone": "ap-nanjing-1", "ZoneState": "AVAILABLE"}]}},
        {"Response": {"Price": {"InstancePrice": {"UnitPrice": 0.2, "UnitPriceDiscount": 0.08}}}},
    ],
    ids=["absent", "null", "error", "DescribeZones", "InquiryPriceRunInstances"],
)
def test_a_missing_list_is_drift_never_nothing_for_sale(name: str, answer: dict[str, Any]) -> None:
    with pytest.raises(Drift, match=r"missing|Error"):
        list(feed(name).parse(Page("page", json.dumps(answer).encode(), NOW, REGION, ON_DEMAND)))


def test_an_empty_list_is_an_answer() -> None:
    assert stock() == []


def test_a_long_answer_is_cut_between_records_and_states_the_same() -> None:
    filler = "x" * 1000
    rows = [row(Zone=f"ap-test-{number}", SoldOutReason=filler, CpuType=filler) for number in range(3000)]
    body = json.dumps({"Response": {"InstanceTypeQuotaSet": rows, "NextToken": "n", "RequestId": "r"}}).encode()
    assert len(body) > PAGE_BYTES
    pages = fetched(Canned(200, body, JSON))
    one = feed("stock")
    facts = [item for page in pages for item in one.parse(page)]
    assert len(pages) == 2
    assert all(len(page.body) <= PAGE_BYTES for page in pages)
    assert of(Stock, facts) == of(Stock, stock(*rows))
    assert Note("unknown_field", "NextToken") in facts


def test_a_long_answer_that_breaks_off_is_drift() -> None:
    body = b'{"Response": {"InstanceTypeQuotaSet": [' + b'{"Zone": "ap-test-1"},' * 300_000
    assert len(body) > PAGE_BYTES
    (page,) = fetched(Canned(200, body, JSON))
    with pytest.raises(Drift):
        list(feed("stock").parse(page))


def at(cloud: Sim, key: str = "simcloud") -> Config:
    keys = {"TENCENTCLOUD_SECRET_ID": "simcloud", "TENCENTCLOUD_SECRET_KEY": key}
    return Config(keys, (), "cn", {"cvm": cloud.tencent.url, "region": cloud.tencent.url}, timedelta(seconds=5))


def polled(one: Feed, cell: Cell) -> list[Fact | Note]:
    return [item for page in one.fetch(cell, NOW, {}) for item in one.parse(page)]


def test_every_region_of_a_cloud_can_be_read_and_what_it_does_not_serve_is_off() -> None:
    with start("demo", providers=("tencent",)) as cloud:
        (places,) = feed("places", at(cloud)).cells([])
        regions = [one.region for one in of(Region, polled(feed("places", at(cloud)), places))]
        read: dict[str, Counter[str]] = {}
        for one in (feed("machines", at(cloud)), feed("stock", at(cloud))):
            for cell in one.cells(regions):
                kinds = read.setdefault(cell.place, Counter())
                try:
                    kinds.update(type(item).__name__ for item in polled(one, cell))
                except NotServed:
                    kinds["off"] += 1
    assert read.pop("ap-xian-ec") == {"off": 4}
    assert len(read) > 5
    assert all(kinds["Stock"] and kinds["Price"] >= kinds["Stock"] and not kinds["off"] for kinds in read.values())


def v100_levels(cloud: Sim) -> set[Level]:
    cell = Cell("tencent", "stock", "ap-guangzhou", ON_DEMAND)
    stocks = of(Stock, polled(feed("stock", at(cloud)), cell))
    return {one.level for one in stocks if one.instance_type.startswith("GN10X")}


def test_v100s_that_sell_out_are_out_and_come_back() -> None:
    with start("demo", providers=("tencent",)) as cloud:
        before = v100_levels(cloud)
        cloud.advance(61)
        sold_out = v100_levels(cloud)
        cloud.advance(120)
        back = v100_levels(cloud)
    assert Level.OUT not in before
    assert sold_out == {Level.OUT}
    assert Level.OUT not in back


def test_a_wrong_key_and_a_wrong_clock_are_refused() -> None:
    cell = Cell("tencent", "stock", "ap-nanjing", ON_DEMAND)
    with start("demo", providers=("tencent",)) as cloud:
        with pytest.raises(AuthFailed, match="SignatureFailure"):
            polled(feed("stock", at(cloud, key="wrong")), cell)
        cloud.fault("tencent", "skew", skew_s=900)
        with pytest.raises(AuthFailed, match="clock"):
            polled(feed("stock", at(cloud)), cell)


def test_too_many_calls_are_throttled_never_sold_out() -> None:
    """B093, behind a proxy that adds a charset."""
    cell = Cell("tencent", "stock", "ap-nanjing", ON_DEMAND)
    with start("demo", providers=("tencent",)) as cloud:
        cloud.options("tencent", content_type=JSON_UTF8["Content-Type"])
        assert of(Stock, polled(feed("stock", at(cloud)), cell))
        cloud.fault("tencent", "error", code="RequestLimitExceeded", message="40 times per second")
        with pytest.raises(Throttled):
            polled(feed("stock", at(cloud)), cell)


@pytest.mark.parametrize("site", [None, "", "de"])
def test_without_a_site_it_is_off_and_names_the_setting(site: str | None) -> None:
    """T22: the currency is never guessed, so nothing is read."""
    built = provider("tencent", config(site))
    assert list(built.feeds()) == []
    assert built.account
    assert set(built.off()) == {"places", "machines", "stock"}
    assert all("GPUFARE_PROVIDERS__TENCENT__SITE" in text and "cn" in text for text in built.off().values())


def test_without_a_key_it_is_off_and_names_both_variables() -> None:
    built = provider("tencent", Config({"TENCENTCLOUD_SECRET_ID": "id", "TENCENTCLOUD_SECRET_KEY": " "}, site="cn"))
    assert not built.account
    assert built.off()["stock"] == "set TENCENTCLOUD_SECRET_ID and TENCENTCLOUD_SECRET_KEY"


def test_an_endpoint_that_is_no_address_is_named() -> None:
    with pytest.raises(NotConfigured, match="ENDPOINTS__CVM"):
        list(feed("stock", config(cvm="127.0.0.1:8001")).fetch(Cell("tencent", "stock", REGION, SPOT), NOW, {}))


def test_stock_has_a_cell_for_each_region_and_charge_type() -> None:
    assert list(feed("stock").cells(["ap-nanjing"])) == [
        Cell("tencent", "stock", "ap-nanjing", part) for part in (ON_DEMAND, SPOT, PREPAID)
    ]


def test_no_more_than_twenty_calls_a_second_over_all_regions() -> None:
    """B093: a public report was throttled above 20, whatever the region."""
    for name in ("places", "machines", "stock"):
        limits = {feed(name).limit(cell) for cell in feed(name).cells(["ap-nanjing", "ap-beijing"])}
        assert len({(limit.key, limit.per_second) for limit in limits}) == 1, name
        assert all(limit.per_second <= 20 for limit in limits), name


def test_a_throttled_region_stops_no_other_and_no_other_action() -> None:
    regions = ["ap-nanjing", "ap-beijing"]
    keys = [feed(name).limit(cell).pause_key for name in ("machines", "stock") for cell in feed(name).cells(regions)]
    assert len(keys) == 2 + 2 * 3
    assert len(set(keys)) == 2 + 2, "the charge types of a region are one action"


def test_thirty_zones_are_thirty_stocks() -> None:
    """B093: none lost, none twice."""
    rows = [row(Zone=f"ap-test-{number}") for number in range(30)]
    assert Counter(zone for zone, _ in levels(*rows)) == Counter(f"ap-test-{number}" for number in range(30))


def test_the_order_of_records_changes_nothing() -> None:
    for case in cases("tencent"):
        answer = json.loads(case.page.body)
        records = answer["Response"][case.records[0].partition(".")[2]]
        one = feed_of(case, config(case.config.get("site", "cn")))
        before = Counter(map(line, one.parse(case.page)))
        for seed in range(3):
            random.Random(seed).shuffle(records)
            shuffled = case.with_body(json.dumps(answer).encode())
            assert Counter(map(line, one.parse(shuffled))) == before, case.name
