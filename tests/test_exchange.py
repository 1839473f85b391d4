"""Exchange rates that were fetched: by one worker a day, believed or held, and what answers make of them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Engine
from structlog.testing import capture_logs

import simcloud
from catalog.fx import Rate, Rates, ecb_rates
from commands import build
from scheduler.exchange import Exchange
from scheduler.poll import Polls
from scheduler.worker import Worker
from settings import load
from store import exchange
from tests.support.canned import Canned, canned
from tests.support.databases import address
from tests.support.feeds import AT_ONCE, HandClock
from tests.support.filled import Filled, config_for, served, sold
from tests.support.stored import T0, opened
from tests.test_ecb import LIST
from tests.test_worker import until

pytestmark = pytest.mark.both_databases

DAY = date(2026, 11, 27)
HOUR = timedelta(hours=1)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


def rate(currency: str, amount: str, day: date = DAY) -> Rate:
    return Rate("EUR", currency, Decimal(amount), day, "ECB")


def kept(engine: Engine) -> dict[str, tuple[str, str]]:
    return {one.quote: (str(one.rate), f"{one.date:%m-%d}") for one in exchange.rates(engine)}


def later(days: int) -> date:
    return DAY + timedelta(days=days)


# --- What is believed


def test_before_anything_was_fetched_there_is_nothing(engine: Engine) -> None:
    assert exchange.rates(engine) == ()


def test_a_list_is_kept_whole_and_survives_a_restart(engine: Engine, tmp_path: Path) -> None:
    told = [rate("USD", "1.1201"), rate("CNY", "7.4511"), rate("ZAR", "19.5")]
    assert exchange.keep(engine, told, T0) == []
    engine.dispose()
    assert exchange.rates(opened(tmp_path)) == tuple(told)


def test_a_newer_list_replaces_the_older_one_and_never_the_other_way_round(engine: Engine) -> None:
    exchange.keep(engine, [rate("USD", "1.13", later(1)), rate("CNY", "7.5", later(1))], T0)
    exchange.keep(engine, [rate("USD", "1.12"), rate("JPY", "170")], T0)
    assert kept(engine) == {"USD": ("1.13", "11-28"), "CNY": ("7.5", "11-28"), "JPY": ("170", "11-27")}
    exchange.keep(engine, [rate("USD", "1.14", later(3))], T0)
    assert kept(engine)["USD"] == ("1.14", "11-30")
    assert kept(engine)["CNY"] == ("7.5", "11-28"), "a currency that is no longer listed keeps its rate and its day"


def test_a_rate_that_moved_too_far_is_kept_out_until_another_day_says_the_same(engine: Engine) -> None:
    """7.4326 is the bundled rate. Of the currencies beside it nothing is held."""
    out = exchange.keep(engine, [rate("CNY", "9.2"), rate("USD", "1.13")], T0)
    assert out == [rate("CNY", "9.2")]
    assert kept(engine) == {"USD": ("1.13", "11-27")}
    exchange.keep(engine, [rate("CNY", "9.2"), rate("USD", "1.13")], T0)
    assert "CNY" not in kept(engine), "the same list again is no second one"
    assert exchange.keep(engine, [rate("CNY", "9.3", later(3)), rate("USD", "1.13", later(3))], T0) == []
    assert kept(engine)["CNY"] == ("9.3", "11-30")


@pytest.mark.parametrize(("second", "found"), [("7.5", {"CNY": ("7.5", "11-30")}), ("0.07", {})])
def test_a_rate_that_comes_back_was_a_mistake_and_another_absurd_one_waits_anew(
    engine: Engine, second: str, found: dict[str, tuple[str, str]]
) -> None:
    exchange.keep(engine, [rate("CNY", "74.326")], T0)
    exchange.keep(engine, [rate("CNY", second, later(3))], T0)
    assert kept(engine) == found


@pytest.mark.parametrize(
    ("amount", "believed"), [("8.91912", True), ("8.92", False), ("5.94608", True), ("5.94", False)]
)
def test_a_fifth_is_not_too_far(engine: Engine, amount: str, believed: bool) -> None:
    exchange.keep(engine, [rate("CNY", amount)], T0)
    assert ("CNY" in kept(engine)) is believed


# --- Whose turn it is


def test_one_of_many_workers_has_the_turn(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as pool:
        turns = list(pool.map(lambda _: exchange.claim(engine, T0), range(8)))
    assert sorted(turns) == [False] * 7 + [True]


@pytest.mark.parametrize("succeeds", [True, False])
def test_the_next_turn_comes_a_day_after_a_list_and_an_hour_after_a_failure(engine: Engine, succeeds: bool) -> None:
    assert exchange.claim(engine, T0)
    if succeeds:
        exchange.keep(engine, [rate("USD", "1.12")], T0)
    wait = timedelta(days=1) if succeeds else HOUR
    assert not exchange.claim(engine, T0 + wait - timedelta(seconds=1))
    assert exchange.claim(engine, T0 + wait)
    assert not exchange.claim(engine, T0 + wait)


def test_a_turn_that_a_wrong_clock_wrote_stops_nobody(engine: Engine) -> None:
    exchange.keep(engine, [rate("USD", "1.12")], T0 + timedelta(days=400))
    assert exchange.claim(engine, T0)


# --- Fetching


def at(engine: Engine, url: str, clock: HandClock | None = None) -> Exchange:
    return Exchange(engine, clock or HandClock(T0), url)


def test_what_is_fetched_is_kept_and_what_fails_changes_nothing_and_is_told_once(engine: Engine) -> None:
    with canned(Canned(200, LIST.encode())) as server:
        at(engine, server.url).refresh()
    before = kept(engine)
    assert before == {"USD": ("1.1201", "11-27"), "JPY": ("175.02", "11-27"), "CNY": ("7.4511", "11-27")}
    for answer in (Canned(503), Canned(0), Canned(200, b"<html>"), Canned(200, LIST.replace("1.1201", "0").encode())):
        with canned(answer) as server, capture_logs() as logs:
            one = at(engine, server.url)
            one.refresh()
            one.refresh()
        assert kept(engine) == before
        assert [line["log_level"] for line in logs] == ["warning"]
        assert len(server.requests) == 2


def test_a_rate_that_is_kept_out_is_told(engine: Engine) -> None:
    with canned(Canned(200, LIST.replace("7.4511", "74.511").encode())) as server, capture_logs() as logs:
        at(engine, server.url).refresh()
    (said,) = (line for line in logs if line["log_level"] == "warning")
    assert (said["pair"], said["rate"], said["day"]) == ("EUR/CNY", "74.511", "2026-11-27")


def test_a_worker_fetches_them_once_a_day_and_no_tick_waits_for_it(engine: Engine) -> None:
    clock = HandClock(T0)
    with canned(Canned(200, LIST.encode(), silent_s=0.3)) as server:
        polls = Polls(engine, clock, clock.sleep, AT_ONCE)
        workers = [Worker(polls, [], exchange=at(engine, server.url, clock)) for _ in range(3)]
        for _ in range(2):
            for worker in workers:
                worker.tick()
            clock.now += timedelta(minutes=2)
        until(lambda: kept(engine))
        assert len(server.requests) == 1
        clock.now += timedelta(days=1)
        workers[1].tick()
        until(lambda: len(server.requests) == 2)
        until(lambda: not exchange.claim(engine, clock.now + HOUR))
        until(lambda: not [one for one in threading.enumerate() if one.name == "exchange-rates"])


def test_a_worker_without_it_asks_nobody(engine: Engine) -> None:
    clock = HandClock(T0)
    Worker(Polls(engine, clock, clock.sleep, AT_ONCE), []).tick()
    assert exchange.claim(engine, T0)


def test_every_simulated_cloud_serves_the_list_and_names_itself(engine: Engine) -> None:
    with simcloud.start("demo", providers=("tencent", "runpod")) as sim:
        assert sim.env()["GPUFARE_FX_ENDPOINT"] in (sim.url("tencent"), sim.url("runpod"))
        clock = HandClock(datetime.now(tz=T0.tzinfo))
        for url in (sim.url("tencent"), sim.url("runpod")):
            Exchange(engine, clock, url).refresh()
        assert [(seen.action, seen.status) for seen in sim.requests("ecb")] == [("daily", 200)] * 2
    assert {"USD", "CNY", "JPY"} <= kept(engine).keys()


# --- What answers make of them


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    """One machine of Tencent's at 7.4326 yuan: 1.1172 dollars by the rates that are shipped."""
    filled = Filled(tmp_path)
    filled.plan("tencent", ("stock", "ap-guangzhou"))
    filled.poll("tencent", "stock", "ap-guangzhou", sold("ap-guangzhou", "m", "7.4326", currency="CNY"))
    yield filled
    filled.engine.dispose()


def test_answers_compare_at_the_rates_that_were_fetched_and_show_their_day(filled: Filled) -> None:
    with served(filled) as server:
        first = server.get("/cheapest?gpu=h100")
        assert (first["best"]["price_per_hour"], first["fx"][0]["date"]) == ("1.1172", "2026-10-30")
        exchange.keep(filled.engine, [rate("USD", "1.2"), rate("CNY", "7.4326")], filled.now)
        filled.later(seconds=6)
        second = server.get("/cheapest?gpu=h100")
        assert second["best"]["price_per_hour"] == "1.2"
        (shown,) = second["fx"]
        assert (shown["pair"], shown["date"], shown["source"]) == ("CNY/USD", "2026-11-27", "ECB")
        version = server.board.view.version
        filled.later(seconds=30)
        server.board.refresh(filled.now)
        assert server.board.view.version == version, "the same rates are no change"


def test_a_rate_by_way_of_two_days_shows_the_older_one(filled: Filled) -> None:
    exchange.keep(filled.engine, [rate("USD", "1.2"), rate("CNY", "74.326")], filled.now)
    with served(filled) as server:
        (shown,) = server.get("/cheapest?gpu=h100")["fx"]
    assert (shown["date"], shown["rate"]) == ("2026-10-30", "0.16145091")


def test_a_rate_set_by_hand_wins(filled: Filled) -> None:
    exchange.keep(filled.engine, [rate("USD", "1.2"), rate("CNY", "7.4326")], filled.now)
    rates = config_for(filled).rates.with_override("CNY/USD", Decimal("0.14"), date(2026, 11, 1), "settings")
    with served(filled, rates=rates) as server:
        assert server.get("/cheapest?gpu=h100")["fx"] == [
            {"pair": "CNY/USD", "rate": "0.14", "date": "2026-11-01", "source": "settings"}
        ]


def test_rates_that_were_fetched_are_not_used_where_the_operator_switched_that_off(filled: Filled) -> None:
    exchange.keep(filled.engine, [rate("USD", "1.2"), rate("CNY", "7.4326"), rate("VND", "29000")], filled.now)
    with served(filled, fetched_rates=False) as server:
        answer = server.get("/cheapest?gpu=h100")
        assert (answer["best"]["price_per_hour"], answer["fx"][0]["date"]) == ("1.1172", "2026-10-30")
        assert server.client.get("/cheapest?gpu=h100&currency=VND").status_code == 422
    with served(filled) as server:
        assert server.get("/cheapest?gpu=h100")["best"]["price_per_hour"] == "1.2"


def test_the_setting_that_ends_the_fetching_ends_the_use_of_what_was_fetched(filled: Filled, tmp_path: Path) -> None:
    exchange.keep(filled.engine, [rate("USD", "1.2")], filled.now)
    environ = {"HOME": str(tmp_path), "GPUFARE_DATABASE_URL": address(tmp_path)}
    days = {}
    for refresh in ("true", "false"):
        app = build.server(load(environ | {"GPUFARE_FX_REFRESH": refresh}, tmp_path))
        used = app.state.board.view.rates.rate("EUR", "USD")
        days[refresh] = (str(used.rate), str(used.date))
    assert days == {"true": ("1.2", "2026-11-27"), "false": ("1.1172", "2026-10-30")}


def test_any_currency_with_a_rate_in_force_can_be_asked_in(filled: Filled) -> None:
    """Set by hand, and fetched alone: the list that is shipped has neither."""
    rates = config_for(filled).rates.with_override("VND/USD", Decimal("0.00004"), date(2026, 11, 1), "settings")
    with served(filled, rates=rates) as server:
        assert server.get("/cheapest?gpu=h100&currency=vnd")["best"]["price_per_hour"] == "27930"
        refused = server.client.get("/cheapest?gpu=h100&currency=ARS")
        assert (refused.status_code, "no exchange rate is known" in refused.text) == (422, True)
        exchange.keep(filled.engine, [rate("USD", "1.1172"), rate("ARS", "1117.2")], filled.now)
        filled.later(seconds=6)
        server.board.refresh(filled.now)
        assert server.get("/cheapest?gpu=h100&currency=ARS")["best"]["price_per_hour"] == "1117.2"


def test_rates_that_are_older_than_those_shipped_are_not_used(filled: Filled) -> None:
    old = date(2026, 9, 1)
    exchange.keep(filled.engine, [rate("USD", "1.2", old), rate("CNY", "7.4326", old)], filled.now)
    with served(filled) as server:
        assert server.get("/cheapest?gpu=h100")["fx"][0]["date"] == "2026-10-30"


def test_updated_rates_are_of_the_later_day_and_leave_the_others_alone() -> None:
    before = ecb_rates()
    after = before.updated([rate("USD", "1.2"), rate("CNY", "9", date(2020, 1, 1)), rate("ZAR", "19.5")])
    assert after.rate("EUR", "USD") == rate("USD", "1.2")
    assert after.rate("EUR", "CNY") == before.rate("EUR", "CNY")
    assert after.rate("EUR", "ZAR") == rate("ZAR", "19.5")
    assert before.rate("EUR", "ZAR") is None
    assert Rates([]).updated([]).rate("EUR", "USD") is None
