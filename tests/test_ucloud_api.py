"""UCloud through its real SDK: requests, signatures, return codes in HTTP 200, and the simulated cloud."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from ucloud.core.auth import Credential
from ucloud.core.client import Client
from ucloud.core.exc import RetCodeException

import simcloud
from catalog.facts import Machine, Note, Price, Stock
from catalog.launch_codes import CodeKind, code_kind
from catalog.words import Level, Purchase
from collectors.base import (
    AuthFailed,
    ByMachine,
    Cell,
    Config,
    Drift,
    Feed,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.registry import provider
from simcloud import ucloud
from tests.support.canned import Canned, canned
from tests.support.contract import SECRET, counted_calls
from tests.support.pages import NOW, cases, lines
from tests.test_ucloud import config, feed, of

STOCK = Cell("ucloud", "stock", "cn-sh2")
PRICE = Cell("ucloud", "prices", "cn-wlcb", "G.T4/4.1g.4c.8m")


@pytest.fixture
def sim() -> Iterator[simcloud.Sim]:
    with simcloud.start("demo", providers=("ucloud",)) as running:
        yield running


def of_sim(sim: simcloud.Sim, name: str, **environ: str) -> Feed:
    told = sim.env()
    endpoints = {"api": told["GPUFARE_PROVIDERS__UCLOUD__ENDPOINTS__API"]}
    built = provider("ucloud", Config(told | environ, endpoints=endpoints, timeout=timedelta(seconds=5)))
    return {one.name: one for one in built.feeds()}[name]


def items_of(sim: simcloud.Sim, cell: Cell, **environ: str) -> list[Any]:
    one = of_sim(sim, cell.feed, **environ)
    now = datetime.now(UTC)  # it says by this machine's clock when it counted
    return [item for page in one.fetch(cell, now, {}) for item in one.parse(page)]


def asked(answer: Canned, cell: Cell = STOCK, **environ: str) -> tuple[Mapping[str, str], dict[str, str], list[Page]]:
    """The request that a cell makes, the first of two for a price: its parameters, its headers, and the pages."""
    with canned(answer) as server:
        one = feed(cell.feed, config(server.url, (), **environ))
        pages = list(one.fetch(cell, NOW, {}))
    (path, headers, body), *more = server.requests
    assert (path, len(more)) == ("/", int(cell.feed == "prices"))
    return dict(parse_qsl(body.decode(), keep_blank_values=True)), headers, pages


def refused(answer: Canned, cell: Cell = STOCK) -> ProviderError:
    with canned(answer) as server, pytest.raises(ProviderError) as caught:
        list(feed(cell.feed, config(server.url)).fetch(cell, NOW, {}))
    assert len(server.requests) == 1, "the SDK's retries are off"
    return caught.value


def told(code: object, message: object = "as UCloud words it", **headers: str) -> Canned:
    return Canned(200, json.dumps({"RetCode": code, "Message": message}).encode(), headers)


EMPTY = Canned(200, b'{"RetCode": 0, "AvailableInstanceTypes": [], "PriceSet": []}')


def test_every_recorded_page_of_one_call_gives_its_facts_through_the_sdk_too() -> None:
    swept = 0
    for case in cases("ucloud"):
        if case.page.part.startswith("compshare"):
            continue  # made of more than one answer: tested against the simulated cloud
        cell = Cell("ucloud", case.feed, case.page.place, case.page.part)
        _, _, (page, *_) = asked(Canned(200, case.page.body), cell)
        found = list(feed(case.feed).parse(page))
        assert lines(found) == case.facts_file.read_text("utf-8").splitlines(), case.name
        swept += 1
    assert swept > 8


def test_a_call_is_signed_and_names_region_and_project() -> None:
    params, headers, _ = asked(EMPTY)
    signature = dict(params).pop("Signature")
    plain = {name: value for name, value in params.items() if name != "Signature"}
    assert plain == {
        "Action": "DescribeAvailableInstanceTypes",
        "Region": "cn-sh2",
        "ProjectId": "org-own",
        "PublicKey": f"public-{SECRET}",
    }
    text = "".join(f"{name}{plain[name]}" for name in sorted(plain)) + f"private-{SECRET}"
    assert signature == hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - UCloud's own choice
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_without_a_project_none_is_named() -> None:
    params, _, _ = asked(EMPTY, UCLOUD_PROJECT_ID=" ")
    assert "ProjectId" not in params


def test_the_price_of_one_machine_is_asked_for_with_all_its_charge_types_and_its_parts() -> None:
    params, _, _ = asked(EMPTY, PRICE)
    assert {name: params[name] for name in ("Region", "MachineType", "GpuType", "GPU", "CPU", "Memory", "Count")} == {
        "Region": "cn-wlcb",
        "MachineType": "G",
        "GpuType": "T4/4",
        "GPU": "1",
        "CPU": "4",
        "Memory": "8192",
        "Count": "1",
    }
    assert (params["ShowPriceDetails"], params["Disks.0.IsBoot"], params["Disks.0.Size"]) == ("true", "True", "20")
    assert "ChargeType" not in params


def test_the_price_of_spot_is_asked_for_by_name_and_otherwise_alike() -> None:
    with canned(EMPTY) as server:
        first, second = list(feed("prices", config(server.url)).fetch(PRICE, NOW, {}))
    asked_for = [dict(parse_qsl(body.decode())) for _, _, body in server.requests]
    without = [{name: value for name, value in one.items() if name != "Signature"} for one in asked_for]
    assert without[1] == without[0] | {"ChargeType": "Spot"}
    assert (first.name, second.name) == (
        "GetUHostInstancePrice cn-wlcb G.T4/4.1g.4c.8m",
        "GetUHostInstancePrice cn-wlcb G.T4/4.1g.4c.8m Spot",
    )


@pytest.mark.parametrize("code", [8064, 8066, 8039, 99999])
def test_a_size_that_is_refused_has_no_price_and_that_is_no_failure(code: int) -> None:
    with canned(told(code)) as server:
        one = feed("prices", config(server.url))
        items = [item for page in one.fetch(PRICE, NOW, {}) for item in one.parse(page)]
    assert items == [
        Note("not_priced", f"{PRICE.part}: RetCode {code}"),
        Note("not_priced", f"{PRICE.part} Spot: RetCode {code}"),
    ]


@pytest.mark.parametrize(
    ("code", "expected"), [(8090, Unavailable), (153, Throttled), (171, AuthFailed), (299, NotServed), (230, Drift)]
)
def test_what_is_not_about_the_size_is_an_error_of_the_price_too(code: int, expected: type[ProviderError]) -> None:
    assert type(refused(told(code), PRICE)) is expected


@pytest.mark.parametrize("code", [230, 8064, 8039])
def test_a_machine_that_is_not_sold_as_spot_keeps_its_other_prices(code: int) -> None:
    """UCloud has no code of its own for that: a parameter is refused, or the order."""
    hour = {"ChargeType": "Dynamic", "Price": 2.5, "PriceDetail": {"UHost": 2.4}}
    good = Page("GetUHostInstancePrice x", json.dumps({"RetCode": 0, "PriceSet": [hour]}).encode(), NOW, "r", "m")
    bad = replace(good, name=f"{good.name} Spot", body=json.dumps({"RetCode": code, "Message": "no"}).encode())
    items = [item for page in (good, bad) for item in feed("prices").parse(page)]
    assert [(one.purchase, one.nanos) for one in of(Price, items)] == [(Purchase.ON_DEMAND, 2_400_000_000)]
    assert of(Note, items) == [Note("not_priced", f"m Spot: RetCode {code}")]


@pytest.mark.parametrize(("charge", "noted"), [("Dynamic", "other_charge_type"), (None, "other_charge_type")])
def test_an_answer_about_spot_prices_nothing_else(charge: str | None, noted: str) -> None:
    rows = [{"ChargeType": charge, "Price": 2.5, "PriceDetail": {"UHost": 2.4}}]
    page = Page("GetUHostInstancePrice x Spot", json.dumps({"RetCode": 0, "PriceSet": rows}).encode(), NOW, "r", "m")
    assert list(feed("prices").parse(page)) == [Note(noted, charge or "m", record=True)]
    none = replace(page, body=b'{"RetCode": 0, "PriceSet": []}')
    assert list(feed("prices").parse(none)) == [Note("not_priced", "m Spot")]
    with pytest.raises(Drift, match="PriceSet"):
        list(feed("prices").parse(replace(page, body=b'{"RetCode": 0}')))


def test_a_card_of_compshare_that_is_refused_is_noted_too() -> None:
    page = Page("GetCompShareInstancePrice Month z1", b'{"RetCode": 8064, "Message": "no"}', NOW, "r", "compshare.X")
    assert list(feed("prices").parse(page)) == [Note("not_priced", "compshare.X in z1: RetCode 8064")]
    with pytest.raises(Drift):
        list(feed("prices").parse(replace(page, body=b'{"RetCode": 150}')))


def test_a_card_of_compshare_is_priced_for_the_charge_type_that_was_asked_for_alone() -> None:
    hour = [{"ChargeType": "Dynamic", "Instance": 2.5}]
    body = json.dumps({"RetCode": 0, "PriceDetail": hour}).encode()
    page = Page("GetCompShareInstancePrice Month z1", body, NOW, "r", "compshare.X")
    assert list(feed("prices").parse(page)) == [Note("other_charge_type", "Dynamic", record=True)]
    asked = list(feed("prices").parse(replace(page, name="GetCompShareInstancePrice Dynamic z1")))
    assert [(one.purchase, one.nanos) for one in of(Price, asked)] == [(Purchase.ON_DEMAND, 2_500_000_000)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *((code, Unavailable) for code in (110, 130, 150, 8090, 8857, 8916)),
        (153, Throttled),
        *((code, AuthFailed) for code in (170, 171, 172, 174, 292, 294, 295)),
        *((code, NotServed) for code in (293, 299)),
        *((code, Drift) for code in (160, 161, 230, 8039, 8064, 99999, -1)),
    ],
)
def test_a_return_code_in_http_200_is_that_error_and_asked_once(code: int, expected: type[ProviderError]) -> None:
    """The SDK itself would repeat 8039 at once, and never 153."""
    error = refused(told(code))
    assert type(error) is expected
    assert f"RetCode {code}: as UCloud words it" in str(error)
    assert "cn-sh2" in str(error)


def test_a_missing_right_names_the_action_and_a_wrong_project_the_setting() -> None:
    assert "Allow DescribeAvailableInstanceTypes" in str(refused(told(299)))
    assert "UCLOUD_PROJECT_ID" in str(refused(told(292)))


@pytest.mark.parametrize(
    "body",
    [
        b'{"AvailableInstanceTypes": []}',
        b'{"RetCode": null, "AvailableInstanceTypes": []}',
        b'{"RetCode": "ok", "AvailableInstanceTypes": []}',
        b'{"RetCode": 0.5, "AvailableInstanceTypes": []}',
        b'{"RetCode": false, "AvailableInstanceTypes": []}',
        b'[{"RetCode": 0}]',
        b"null",
        b"[" * 100_000,
        b'{"RetCode": ' + b"1" * 5000 + b"}",
    ],
)
def test_an_answer_without_a_return_code_is_drift_and_keeps_what_came(body: bytes) -> None:
    error = refused(Canned(200, body))
    assert type(error) is Drift
    assert error.page is not None


def test_a_message_that_repeats_a_key_is_told_without_it() -> None:
    error = refused(told(171, f"key public-{SECRET} and private-{SECRET} do not fit"))
    assert "key *** and *** do not fit" in str(error)


@pytest.mark.parametrize("message", [None, 17, ["x"], {"a": 1}, "x" * 10_000])
def test_a_message_of_any_shape_is_an_error_all_the_same(message: object) -> None:
    error = refused(told(150, message))
    assert type(error) is Unavailable
    assert len(str(error)) < 400


def test_a_pause_that_is_asked_for_is_handed_on() -> None:
    error = refused(told(153, **{"Retry-After": "7"}))
    assert isinstance(error, Throttled)
    assert error.retry_after == timedelta(seconds=7)


def test_the_sdk_logs_and_prints_nothing(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    asked(EMPTY)
    refused(told(171))
    assert caplog.records, "nothing was logged, so nothing is proved"
    assert not [record for record in caplog.records if record.name.startswith("ucloud")]
    captured = capfd.readouterr()
    assert SECRET not in caplog.text + captured.out + captured.err


def test_without_a_key_every_feed_is_off_and_says_what_to_set() -> None:
    built = provider("ucloud", Config({"UCLOUD_PUBLIC_KEY": "half"}))
    assert (built.account, list(built.feeds())) == (False, [])
    assert set(built.off()) == {"places", "stock", "prices"}
    assert all("UCLOUD_PRIVATE_KEY" in why and "UCLOUD_PROJECT_ID" in why for why in built.off().values())


def test_all_feeds_share_the_accounts_calls_and_a_throttled_one_pauses_no_other() -> None:
    """One rate for whatever the account asks, as nobody says what UCloud counts together; stock waits for no pause."""
    limits = {one.name: one.limit(Cell("ucloud", one.name)) for one in provider("ucloud", config()).feeds()}
    assert {one.key for one in limits.values()} == {"ucloud"}
    assert len({one.pause_key or one.key for one in limits.values()}) == 3
    assert {one.per_second for one in limits.values()} == {2.0}


def test_two_cells_of_a_region_fail_apart() -> None:
    assert list(feed("stock").cells(["cn-sh2", "hk"])) == [
        Cell("ucloud", "stock", region, part) for region in ("cn-sh2", "hk") for part in ("", "compshare")
    ]


# --- the simulated cloud ----------------------------------------------------------------------------------------------


def test_the_signature_is_that_of_ucloud_s_own_example_and_of_its_sdk() -> None:
    """docs.ucloud.cn/api/summary/public"""
    params = {
        "Action": "DescribeUHostInstance",
        "Limit": "10",
        "PublicKey": "ucloudsomeone@example.com1296235120854146120",
        "Region": "cn-bj2",
    }
    private = "46f09bb9fab4f12dfc160dae12273d5332b5debe"
    assert ucloud.signature(params, private) == "cba5cf5ec4d4233d206b1b54951e3787350a642f"
    assert ucloud.signature(params | {"Signature": "x"}, private) == Credential(params["PublicKey"], private).verify_ac(
        dict(params)
    )


def invoked(sim: simcloud.Sim, action: str, keys: Mapping[str, str] | None = None, **params: object) -> dict[str, Any]:
    told = {"public_key": "simcloud", "private_key": "simcloud", "base_url": sim.url("ucloud"), "max_retries": 0}
    answer: dict[str, Any] = Client(told | dict(keys or {}), logger=logging.getLogger("quiet")).invoke(action, params)
    return answer


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"private_key": "another"}, 171),
        ({"public_key": "another"}, 172),
        ({"project_id": "org-another"}, 292),
    ],
)
def test_the_simulated_cloud_lets_nobody_else_in(sim: simcloud.Sim, keys: dict[str, str], code: int) -> None:
    with pytest.raises(RetCodeException) as caught:
        invoked(sim, "GetRegion", keys)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        ("DescribeUHostInstance", {}, 161),
        ("DescribeAvailableInstanceTypes", {"Region": "mars"}, 230),
        ("GetUHostInstancePrice", {"Region": "cn-wlcb", "MachineType": "G", "Count": 1, "GPU": 1, "CPU": 4}, 230),
    ],
)
def test_the_simulated_cloud_refuses_as_ucloud_does(
    sim: simcloud.Sim, action: str, params: dict[str, Any], code: int
) -> None:
    with pytest.raises(RetCodeException) as caught:
        invoked(sim, action, **params)
    assert caught.value.code == code


def test_wrong_keys_are_refused_through_the_collector(sim: simcloud.Sim) -> None:
    with pytest.raises(AuthFailed, match="171"):
        items_of(sim, STOCK, UCLOUD_PRIVATE_KEY="another")
    with pytest.raises(AuthFailed, match="172"):
        items_of(sim, STOCK, UCLOUD_PUBLIC_KEY="another")


def test_more_calls_than_the_limit_are_throttled(sim: simcloud.Sim) -> None:
    sim.options("ucloud", rate_limit_per_s=2)
    for _ in range(2):
        items_of(sim, Cell("ucloud", "places"))
    with pytest.raises(Throttled, match="153"):
        items_of(sim, Cell("ucloud", "places"))


def test_what_happens_in_the_scenario_shows_in_the_stock(sim: simcloud.Sim) -> None:
    cell = Cell("ucloud", "stock", "cn-wlcb")

    def a100() -> set[Level]:
        return {one.level for one in of(Stock, items_of(sim, cell)) if one.instance_type.startswith("G.A100.")}

    assert a100() == {Level.IN_STOCK}
    sim.advance(75)
    assert a100() == {Level.OUT}
    sim.advance(120)
    assert a100() == {Level.IN_STOCK}


def test_the_last_card_of_compshare_goes_and_another_zone_is_not_asked(sim: simcloud.Sim) -> None:
    cell = Cell("ucloud", "stock", "cn-wlcb", "compshare")

    def left() -> dict[tuple[str, bool], int | None]:
        found = of(Stock, items_of(sim, cell))
        return {(one.instance_type, Purchase.SPOT in one.purchases): one.quantity for one in found}

    before = {("compshare.4090", False): 37, ("compshare.4090", True): 5, ("compshare.3090", False): 0}
    assert before.items() <= left().items()
    assert ("compshare.A100", True) not in left()
    sim.advance(115)
    assert left()["compshare.4090", False] == 0
    assert {seen.region for seen in sim.requests("ucloud")} == {"cn-wlcb"}


def test_a_region_without_compshare_is_not_served_after_one_call(sim: simcloud.Sim) -> None:
    with pytest.raises(NotServed, match="no zone in hk"):
        items_of(sim, Cell("ucloud", "stock", "hk", "compshare"))
    assert len(sim.requests("ucloud")) == 1


def test_every_machine_in_the_scenario_has_its_prices(sim: simcloud.Sim) -> None:
    machines: dict[str, list[str]] = {}
    for region in ("cn-wlcb", "cn-sh2", "cn-bj2", "cn-gd"):
        machines[region] = [one.instance_type for one in of(Machine, items_of(sim, Cell("ucloud", "stock", region)))]
    prices = of_sim(sim, "prices")
    assert isinstance(prices, ByMachine)
    cells = list(dict.fromkeys(prices.cells_of(machines)))
    assert len(cells) > 15
    for cell in cells:
        with counted_calls() as calls:
            found = {one.purchase for one in of(Price, items_of(sim, cell))}
        assert {Purchase.ON_DEMAND, Purchase.MONTH, Purchase.RESERVED_1Y} <= found
        assert (Purchase.SPOT in found) is cell.part.startswith("G.4090.")
        assert len(calls) == 2


def test_the_simulated_cloud_tells_spot_only_where_it_is_named_as_ucloud_s_page_does(sim: simcloud.Sim) -> None:
    size: dict[str, Any] = {"MachineType": "G", "GpuType": "4090", "GPU": 1, "CPU": 16, "Memory": 65536, "Count": 1}
    size |= {"Region": "cn-wlcb", "Disks": [{"IsBoot": "True", "Type": "CLOUD_RSSD", "Size": 20}]}

    def charges(**named: Any) -> set[str]:
        return {row["ChargeType"] for row in invoked(sim, "GetUHostInstancePrice", **size, **named)["PriceSet"]}

    assert charges() == {"Dynamic", "Month", "Year"}
    assert charges(ChargeType="Spot") == {"Spot"}
    assert charges(ChargeType="Month") == {"Month"}


def test_a_card_of_compshare_is_priced_in_the_zones_that_name_it(sim: simcloud.Sim) -> None:
    cell = Cell("ucloud", "prices", "cn-wlcb", "compshare.4090")
    with counted_calls() as calls:
        found = of(Price, items_of(sim, cell))
    assert [(one.zone, one.purchase, one.nanos, one.list_nanos) for one in found] == [
        ("cn-wlcb-01", Purchase.ON_DEMAND, 1_880_000_000, 2_080_000_000),
        ("cn-wlcb-01", Purchase.MONTH, 1_236_164_384, 1_367_671_233),
    ]
    assert len(calls) == len(sim.requests("ucloud")) == 4
    with pytest.raises(NotServed, match="no 5090"):
        items_of(sim, Cell("ucloud", "prices", "cn-wlcb", "compshare.5090"))


def test_the_codes_of_a_failed_launch_are_known_and_none_of_them_speaks_of_stock() -> None:
    """UCloud documents no code for "sold out": who is told so reports `InsufficientCapacity`."""
    kinds = {code: code_kind("ucloud", code) for code in ("8095", "520", "299", "8320", "InsufficientCapacity", "8357")}
    assert kinds == {
        "8095": CodeKind.QUOTA,
        "520": CodeKind.RIGHTS,
        "299": CodeKind.RIGHTS,
        "8320": CodeKind.CONFIG,
        "InsufficientCapacity": CodeKind.CAPACITY,
        "8357": None,
    }
