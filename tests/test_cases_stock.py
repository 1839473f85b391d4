"""Field cases of stock and of Tencent's prices, end to end: what is for sale, under which purchase, and where."""

from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from catalog.fx import Rates, ecb_rates
from tests.support.endtoend import JsonObject, amount, gpufare
from tests.support.tencent import ON_DEMAND, SPOT, kind, price, row
from tests.support.wires import RunPodSays, TencentSays, quotas, runpod, tencent, tencent_error

SOLD_OUT = {"Status": "SOLD_OUT", "StatusCategory": "WithoutStock"}
V100 = "GN10Xp.2XLARGE40"
EIGHT: dict[str, Any] = {"InstanceType": "GN10Xp.20XLARGE320", "Gpu": 8, "GpuCount": 8.0}


def cny(rate: str) -> Rates:
    """CNY/USD, dated."""
    return ecb_rates().with_override("CNY/USD", Decimal(rate), date(2026, 11, 28), "test")


def test_no_stock_status_is_no_stock_and_high_goes_before_low(tmp_path: Path) -> None:
    """B072: one price everywhere."""
    words = {"US-KS-2": None, "CA-MTL-1": "Low", "EU-RO-1": "High"}

    def types(asked: JsonObject) -> list[JsonObject]:
        lowest = {"stockStatus": words[asked["dataCenterId"]], "minimumBidPrice": 0.09}
        return [{"id": "NVIDIA RTX A4000", "memoryInGb": 16, "securePrice": 0.2, "lowestPrice": lowest}]

    wire = RunPodSays(lambda asked: types(asked) if "dataCenterId" in asked else [], tuple(words))
    with runpod(wire, "US", "CA", "RO") as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        answer = app.cheapest("gpu=a4000&spot=true&hosting=any")
        best, (first, *others) = answer["best"], answer["alternatives"]
        assert (best["zone"], best["stock"]["level"], best["price_per_hour"]) == ("EU-RO-1", "in_stock", "0.09")
        assert (first["zone"], first["stock"]["level"], others) == ("CA-MTL-1", "low", [])
        assert app.levels("gpu=a4000&spot=true&count=1&region=US") == {
            ("US-KS-2", "1x NVIDIA RTX A4000 secure", "spot"): "out"
        }


def test_a_machine_that_is_listed_is_not_for_sale_by_that(tmp_path: Path) -> None:
    """B073, by Tencent: the list of machines has two, the answer of stock on demand one."""
    listed = [
        kind(InstanceType=V100, InstanceFamily="GN10Xp"),
        kind(InstanceType="GN7.2XLARGE32", InstanceFamily="GN7"),
    ]
    with tencent(TencentSays(quotas(row()), listed)) as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "stock")
        in_stock = {key for key, level in app.levels().items() if level == "in_stock"}
        assert in_stock == {("ap-test-1", V100, "on_demand")}
        assert app.offers("spot=true") == []
        assert app.best("gpu=t4") is None


def test_a_zone_that_is_closed_is_out_and_a_limited_one_comes_last(tmp_path: Path) -> None:
    """B075, by Tencent: sold out by one word though another says stock; limited; and in stock."""
    rows = (
        row(Zone="ap-test-1", StatusCategory="UnderStock", **EIGHT),
        row(Zone="ap-test-2", Status="SOLD_OUT", StatusCategory="EnoughStock", **EIGHT),
        row(Zone="ap-test-3", StatusCategory="EnoughStock", **EIGHT),
    )
    with tencent(TencentSays(quotas(*rows))) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        levels = {zone: level for (zone, _, _), level in app.levels().items()}
        assert levels == {"ap-test-1": "low", "ap-test-2": "out", "ap-test-3": "in_stock"}
        answer = app.cheapest("region=ap-test&count=8&gpu=v100")
        assert answer["best"]["zone"] == "ap-test-3"
        assert [one["zone"] for one in answer["alternatives"]] == ["ap-test-1"]


def test_stock_is_each_zones_own_and_a_contradiction_sends_nobody(tmp_path: Path) -> None:
    """B077: sold out; low; SELL with WithoutStock."""
    rows = (
        row(Zone="ap-test-1", **EIGHT, **SOLD_OUT),
        row(Zone="ap-test-2", StatusCategory="UnderStock", **EIGHT),
        row(Zone="ap-test-3", StatusCategory="WithoutStock", **EIGHT),
    )
    with tencent(TencentSays(quotas(*rows))) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        levels = {zone: level for (zone, _, _), level in app.levels().items()}
        assert levels == {"ap-test-1": "out", "ap-test-2": "low", "ap-test-3": "out"}
        assert app.notes() == {("status_contradicts_category", "SELL WithoutStock")}
        answer = app.cheapest("count=8&gpu=v100")
        assert (answer["best"]["zone"], answer["alternatives"]) == ("ap-test-2", [])


def test_a_region_where_all_is_sold_out_has_no_best(tmp_path: Path) -> None:
    """B084, by Tencent."""
    rows = [row(InstanceType=f"GN10Xp.{number}", **SOLD_OUT) for number in range(40)]
    with tencent(TencentSays(quotas(*rows))) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        answer = app.cheapest("region=ap-test&gpu=v100")
        assert (answer["best"], answer["unconfirmed"], answer["verdict"]) == (None, None, "out_of_stock")
        assert answer["rejected"] == {"out_of_stock": 40}


def test_the_amount_in_yuan_is_kept_and_converted_by_the_rate_of_the_day(tmp_path: Path) -> None:
    """B089: 7.00 CNY is 0.98, then 1.05, with no poll between."""
    wire = TencentSays(quotas(row(Price=price(UnitPrice=7.0, UnitPriceDiscount=7.0))))
    with tencent(wire) as provider:
        with gpufare(tmp_path, provider, rates=cny("0.14")) as app:
            app.sync("stock")
            first = app.offer()
        asked = len(wire.asked)
        with gpufare(tmp_path, provider, rates=cny("0.15")) as app:
            second = app.offer()
    assert len(wire.asked) == asked
    assert [(amount(one), one["native_price"]["currency"]) for one in (first, second)] == [("7", "CNY")] * 2
    assert [(one["price_per_hour"], one["currency"]) for one in (first, second)] == [("0.98", "USD"), ("1.05", "USD")]


def test_what_is_payable_is_the_price_in_the_currency_of_the_account(tmp_path: Path) -> None:
    """B091, by Tencent: 80 of 100 CNY on the Chinese site, 15 USD on the international one."""
    chinese = row(Price=price(UnitPrice=100.0, UnitPriceDiscount=80.0, Discount=80.0))
    with tencent(TencentSays(quotas(chinese)), site="cn") as provider, gpufare(tmp_path / "cn", provider) as app:
        app.sync("stock")
        shown = app.offer()["native_price"]
        assert (shown["amount"], shown["list_amount"], shown["currency"]) == ("80", "100", "CNY")
    abroad = row(Price=price(UnitPrice=15.0))
    with tencent(TencentSays(quotas(abroad)), site="intl") as provider, gpufare(tmp_path / "intl", provider) as app:
        app.sync("stock")
        shown = app.offer()["native_price"]
        assert (shown["amount"], shown["list_amount"], shown["currency"]) == ("15", "15", "USD")


def test_the_price_beside_a_spot_price_is_not_it(tmp_path: Path) -> None:
    """B092, by Tencent: 12.5 as spot, beside the 80 on demand."""
    spot = row(InstanceChargeType=SPOT, Price=price(UnitPrice=80.0, UnitPriceDiscount=12.5, Discount=15.6))
    with tencent(TencentSays(quotas(spot))) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        shown = app.offer()["native_price"]
        assert (app.offer()["purchase"], shown["amount"], shown["currency"]) == ("spot", "12.5", "CNY")
        assert shown["list_amount"] == "12.5"


def test_a_price_with_half_its_fields_null_is_read(tmp_path: Path) -> None:
    """B096."""
    wire = TencentSays(quotas(row(Price=price(UnitPrice=16.67))))
    with tencent(wire) as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("stock")[f"tencent stock ap-test {ON_DEMAND}"] == "ok"
        assert app.native() == {("ap-test-1", V100, "on_demand"): "16.67"}


def test_thirty_zones_are_read_once_each_at_no_more_than_the_rate(tmp_path: Path) -> None:
    """B093: the server counts calls in each second of the clock, and throttles above 20 and the first call of all."""
    calls: Counter[int] = Counter()
    throttled: list[str] = []

    def answer(region: str, charge: str) -> Any:
        second = int(app.clock().timestamp())
        calls[second] += 1
        if calls[second] > 20 or not throttled:
            throttled.append(region)
            return tencent_error("RequestLimitExceeded")
        return [row(Zone=f"{region}-{zone}") for zone in (1, 2, 3)] if charge == ON_DEMAND else []

    regions = [f"ap-test{number}" for number in range(10)]
    with tencent(TencentSays(answer), *regions) as provider, gpufare(tmp_path, provider) as app:
        statuses = app.statuses("stock")
        assert (set(statuses.values()), len(statuses)) == ({"ok"}, 30)
        assert len(throttled) == 1, "asked again after the first, and never throttled for too many calls"
        zones = [one["zone"] for one in app.offers("purchase=on_demand")]
        assert (len(zones), len(set(zones))) == (30, 30)
        assert set(app.levels().values()) == {"in_stock"}


@pytest.mark.parametrize(("query", "best"), [("", None), ("&spot=true", "spot"), ("&purchase=on_demand,spot", "spot")])
def test_what_is_sold_out_on_demand_is_offered_as_spot_alone(tmp_path: Path, query: str, best: str | None) -> None:
    """T13."""
    rows = (row(**SOLD_OUT), row(InstanceChargeType=SPOT, Price=price(UnitPrice=80.0, UnitPriceDiscount=16.0)))
    with tencent(TencentSays(quotas(*rows))) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        found = app.cheapest(f"gpu=v100{query}")["best"]
        assert (None if found is None else found["purchase"]) == best


def test_the_first_region_of_the_list_with_stock_is_the_answer_though_dearer(tmp_path: Path) -> None:
    """T21: Guangzhou is sold out; Nanjing is dearer than Chongqing, and named first."""
    costs = {"ap-guangzhou": 8.0, "ap-nanjing": 9.0, "ap-chongqing": 7.0}

    def answer(region: str, charge: str) -> list[JsonObject]:
        gone = SOLD_OUT if region == "ap-guangzhou" else {}
        payable = price(UnitPrice=costs[region], UnitPriceDiscount=costs[region])
        return [row(Zone=f"{region}-1", Price=payable, **gone)] if charge == ON_DEMAND else []

    with tencent(TencentSays(answer), *costs) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        answered = app.cheapest("gpu=v100&region=ap-guangzhou&fallback=ap-nanjing,ap-chongqing")
        assert (answered["best"]["region"], answered["best"]["tier"]) == ("ap-nanjing", 1)
        assert (answered["fallback_used"], answered["tiers"][0]["passed_over"]) == (True, "out_of_stock")
        assert amount(answered["best"]) == "9"


@pytest.mark.parametrize(("site", "currency"), [("cn", "CNY"), ("intl", "USD")])
def test_the_site_decides_the_currency(tmp_path: Path, site: str, currency: str) -> None:
    """T22."""
    wire = TencentSays(quotas(row(Price=price(UnitPrice=10.0))))
    with tencent(wire, site=site) as provider, gpufare(tmp_path, provider, rates=cny("0.14")) as app:
        app.sync("stock")
        answer = app.cheapest("gpu=v100")
        native = answer["best"]["native_price"]
        assert (native["amount"], native["currency"]) == ("10", currency)
        assert answer["best"]["price_per_hour"] == {"cn": "1.4", "intl": "10"}[site]
        dated = [{"pair": "CNY/USD", "rate": "0.14", "date": "2026-11-28", "source": "test"}]
        assert answer["fx"] == (dated if site == "cn" else [])


def test_without_a_site_nothing_is_read_and_the_setting_is_named(tmp_path: Path) -> None:
    """T22."""
    wire = TencentSays(quotas(row()))
    with tencent(wire, site=None) as provider, gpufare(tmp_path, provider) as app:
        assert set(app.statuses().values()) == {"off"}
        feed = app.feed("tencent", "stock")
        assert feed["status"] == "off"
        assert "GPUFARE_PROVIDERS__TENCENT__SITE" in feed["reason"]
        assert (app.offers(), wire.asked) == ([], [])


def test_a_failed_poll_leaves_the_last_level_with_its_age(tmp_path: Path) -> None:
    """T19, by Tencent, whose stock counts for three minutes: 240 s later it is stale, unconfirmed, and not out."""
    answers: list[Any] = [[row()]]
    wire = TencentSays(lambda _region, charge: answers[-1] if charge == ON_DEMAND else [])
    with tencent(wire) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        seen = app.offer()["stock"]
        answers.append(tencent_error("InternalError"))
        app.later(minutes=1)
        app.sync("stock")
        app.clock.now = datetime.fromisoformat(seen["observed_at"]) + timedelta(minutes=4, seconds=0.5)
        answer = app.cheapest("gpu=v100")
        stock = answer["best"]["stock"]
        assert (stock["level"], stock["age_s"], stock["stale"]) == ("in_stock", 240, True)
        assert (stock["confirmed"], stock["observed_at"]) == (False, seen["observed_at"])
        assert answer["verdict"] == "unconfirmed"
