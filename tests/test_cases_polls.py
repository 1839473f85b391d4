"""Field cases of polls, end to end: one failure stays one, nothing is lost by an answer that is not whole, launches."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from collectors.base import Throttled
from commands.syncing import ALL_FAILED, ALL_WELL, SOME_FAILED, exit_status
from scheduler.plan import Configured
from store import schedule
from store.engine import writing
from tests.support.canned import Canned, canned
from tests.support.endtoend import START, amount, gpufare, real, source_of
from tests.support.feeds import Says, ScriptedFeed, Unreadable, always, configured, fails, in_turn, says
from tests.support.filled import machine, sold
from tests.support.tencent import ON_DEMAND, row
from tests.support.wires import AwsSays, TencentSays, answering, aws, csv_row, tencent, tencent_error

pytestmark = pytest.mark.both_databases

T4X1 = "GN7.2XLARGE32"


@contextmanager
def everywhere(wire: TencentSays) -> Iterator[Configured]:
    """Tencent whose settings name no region: `places` does."""
    with answering(wire) as url:
        yield real("tencent", site="cn", cvm=url, region=url)


def exit_of(statuses: dict[str, str]) -> int:
    return exit_status(list(statuses.values()), named=False)


def test_every_region_that_is_named_has_a_cell(tmp_path: Path) -> None:
    """B049, by Tencent: each with what became of it."""
    wire = TencentSays(
        lambda region, _charge: tencent_error("InternalError") if region == "ap-r9" else [],
        regions=("ap-r1", "ap-r2", "ap-r9"),
    )
    with everywhere(wire) as provider, gpufare(tmp_path, provider) as app:
        statuses = app.statuses("stock", "places")
        assert statuses["tencent places"] == "ok"
        on_demand = {region: statuses[f"tencent stock {region} {ON_DEMAND}"] for region in ("ap-r1", "ap-r2", "ap-r9")}
        assert on_demand == {"ap-r1": "ok", "ap-r2": "ok", "ap-r9": "failed"}


def test_a_region_that_is_gone_since_yesterday_is_named(tmp_path: Path) -> None:
    """B049, by Tencent."""
    wire = TencentSays(regions=("ap-r1", "ap-r2", "ap-r9"))
    with everywhere(wire) as provider, gpufare(tmp_path, provider) as app:
        app.sync()
        app.later(days=1)
        wire.regions = ("ap-r1", "ap-r2")
        app.sync()
        assert app.feed("tencent", "places")["notes"] == {"region_gone": 1}
        assert app.notes() == {("region_gone", "ap-r9")}


def test_an_answer_slower_than_a_poll_may_take_leaves_what_is_stored(tmp_path: Path) -> None:
    """B057: 900 pages of 2 s each; the price of before stands, and the cell has failed."""
    feed = ScriptedFeed(script=always(says(*sold("r1", "m", "1.00"))))
    with gpufare(tmp_path, configured(feed)) as app:
        app.sync()
        feed.per_second = 0.5
        feed.script = always(Says([sold("r1", "m", "2.00"), *[()] * 899]))
        assert app.statuses() == {"cloud stock r1": "failed"}
        assert "no whole answer" in app.past("cloud", "stock", "r1")["error"]
        one = app.offer()
        assert (amount(one), one["native_price"]["stale"]) == ("1", True)


def test_a_provider_whose_offers_all_vanish_is_suspicious_and_keeps_them(tmp_path: Path) -> None:
    """B058: seven, then none at all."""
    seven = [fact for number in range(7) for fact in sold("r1", f"m{number}", "2.00")]
    with gpufare(tmp_path, configured(ScriptedFeed(script=in_turn(says(*seven), says())))) as app:
        app.sync()
        assert app.statuses() == {"cloud stock r1": "suspicious"}
        assert len(app.offers("gpu=h100")) == 7
        assert app.best("gpu=h100&hosting=any") == ("r1", "m0", "2")
        assert app.feed("cloud", "stock")["failing"] == ["r1"]


def test_a_region_without_prices_and_one_that_fails_cost_no_other_its_own(tmp_path: Path) -> None:
    """B059, by Tencent: one with a machine, one that is empty, one that answers 500 three times."""

    def answer(region: str, charge: str) -> Any:
        if region == "ap-west":
            return tencent_error("InternalError")
        return (
            [row(Zone="ap-east-1", InstanceType=T4X1, InstanceFamily="GN7")]
            if (region, charge) == ("ap-east", ON_DEMAND)
            else []
        )

    wire = TencentSays(answer)
    with tencent(wire, "ap-east", "ap-empty", "ap-west") as provider, gpufare(tmp_path, provider) as app:
        statuses = app.statuses("stock")
        by_region = [statuses[f"tencent stock {region} {ON_DEMAND}"] for region in ("ap-east", "ap-empty", "ap-west")]
        assert by_region == ["ok", "ok", "failed"]
        assert wire.asked.count(f"DescribeZoneInstanceConfigInfos ap-west {ON_DEMAND}") == 3
        assert app.cheapest("gpu=t4")["best"]["region"] == "ap-east"
        assert exit_of(statuses) == SOME_FAILED
        west = {cell: status for cell, status in statuses.items() if "ap-west" in cell}
        east = {cell: status for cell, status in statuses.items() if "ap-east" in cell}
        assert (exit_of(east), exit_of(west)) == (ALL_WELL, ALL_FAILED)


def test_providers_that_refuse_or_hang_delay_no_answer(tmp_path: Path) -> None:
    """B060: one refuses the connection, one is silent, one answers 1.00."""
    with canned(Canned()) as server:
        nobody = server.url
    with (
        canned(Canned(silent_s=60)) as silent,
        aws(AwsSays({"us-east-1": [csv_row("g4dn.xlarge", "1.00", GPU="1")]}), "us-east-1") as p3,
        gpufare(
            tmp_path,
            real("tencent", "ap-test", site="cn", cvm=nobody, region=nobody),
            real("runpod", "US", timeout_s=0.2, api=silent.url),
            p3,
        ) as app,
    ):
        app.sync("stock", "prices")
        answer = app.cheapest("gpu=t4")
        assert (answer["best"]["provider"], answer["best"]["price_per_hour"]) == ("aws", "1")
        for name, said in (("tencent", "ClientNetworkError"), ("runpod", "no answer in time")):
            assert source_of(answer, name, "stock")["status"] == "failing"
            assert app.feed(name, "stock")["status"] == "failing"
            assert said in source_of(answer, name, "stock")["error"]


def test_a_fault_of_ours_in_one_provider_is_seen_and_publishes_the_others(tmp_path: Path) -> None:
    """B063."""
    broken = ScriptedFeed(provider="v7", script=always(Unreadable(KeyError("cpu"))))
    works = ScriptedFeed(provider="v8", script=always(says(*sold("r1", "m", "1.00"))))
    with gpufare(tmp_path, configured(broken), configured(works)) as app:
        assert app.statuses() == {"v7 stock r1": "failed", "v8 stock r1": "ok"}
        assert app.cheapest("gpu=h100")["best"]["provider"] == "v8"
        assert "a fault of this program" in app.past("v7", "stock", "r1")["error"]


def test_a_price_that_a_feed_leaves_out_for_days_ages_and_comes_back(tmp_path: Path) -> None:
    """B067: it is withdrawn after three whole answers without it, and no sooner."""
    s1, s2 = sold("r1", "s1", "1.00"), sold("r1", "s2", "2.00")
    machines = ScriptedFeed(name="machines", script=always(says(machine("r1", "s1"), machine("r1", "s2"))))
    prices = ScriptedFeed(
        name="prices",
        script=in_turn(says(s1[1], s2[1]), *([says(s1[1])] * 10), says(s1[1], s2[1])),
        fresh_for=timedelta(hours=36),
    )
    with gpufare(tmp_path, configured(machines, prices)) as app:
        ages = []
        for _day in range(12):
            app.sync()
            shown = app.offer("instance_type=s2")["native_price"]
            ages.append(None if shown is None else (shown["amount"], shown["age_s"] // 86400, shown["stale"]))
            assert amount(app.offer("instance_type=s1")) == "1"
            app.later(days=1)
    assert ages == [("2", 0, False), ("2", 1, False), ("2", 2, True), *[None] * 8, ("2", 0, False)]


def test_a_provider_that_failed_for_weeks_is_named_with_its_last_success(tmp_path: Path) -> None:
    """B071."""
    feed = ScriptedFeed(provider="p1", script=in_turn(says(*sold("r1", "m", "1.00")), fails(Throttled("no"))))
    with gpufare(tmp_path, configured(feed)) as app:
        app.sync()
        good = app.feed("p1", "stock")["last_success"]
        app.later(days=43)
        app.sync()
        shown = app.feed("p1", "stock")
        assert (shown["status"], shown["last_success"], shown["age_s"] // 86400) == ("stale", good, 43)
        assert shown["reason"] == "no", "the error stays beside it"
        answer = app.cheapest("gpu=h100")
        source = source_of(answer, "p1", "stock")
        assert (source["status"], source["last_success"]) == ("stale", good)
        assert (answer["verdict"], answer["best"]["stock"]["stale"]) == ("unconfirmed", True)
        assert app.get("/readyz")["status"] == "ready"


def test_a_capacity_error_counts_for_half_an_hour_whoever_asks_meanwhile(tmp_path: Path) -> None:
    """B086: asking does not prolong it; a new failure begins anew."""
    feed = ScriptedFeed(script=always(says(*sold("r1", "m", "1.00"))), fresh_for=timedelta(days=1))
    report = {"provider": "cloud", "region": "r1", "instance_type": "m", "purchase": "on_demand", "outcome": "error"}
    with gpufare(tmp_path, configured(feed)) as app:
        app.sync()
        failed_at = {0, 40}
        suppressed = []
        for minute in range(75):
            app.clock.now = START + timedelta(minutes=minute)
            if minute in failed_at:
                app.post("/launches", report | {"code": "InsufficientCapacity"})
            if app.best("gpu=h100") is None:
                suppressed.append(minute)
    assert suppressed == [*range(31), *range(40, 71)]


def test_a_quota_is_no_stock_and_a_capacity_error_is_about_one_offer(tmp_path: Path) -> None:
    """B087: both reports are kept."""
    feed = ScriptedFeed(script=always(says(*sold("r1", "o1", "1.00"), *sold("r1", "o2", "2.00"))))
    report = {"provider": "cloud", "region": "r1", "purchase": "on_demand", "outcome": "error"}
    with gpufare(tmp_path, configured(feed)) as app:
        app.sync()
        quota = app.post("/launches", report | {"instance_type": "o1", "code": "QuotaExceeded"})
        capacity = app.post("/launches", report | {"instance_type": "o2", "code": "InsufficientCapacity"})
        assert (quota["effect"], capacity["effect"].partition(" ")[0]) == ("none", "out")
        found = {one["instance_type"]: (one["stock"]["level"], one["stock"]["evidence"]) for one in app.offers()}
        assert found == {"o1": ("in_stock", "reported"), "o2": ("out", "observed")}
        assert app.best("gpu=h100") == ("r1", "o1", "1")
        kept = {(one["instance_type"], one["code"]) for one in app.get("/launches")["items"]}
        assert kept == {("o1", "QuotaExceeded"), ("o2", "InsufficientCapacity")}


def test_a_call_that_is_blocked_for_a_day_costs_prices_and_stock_nothing(tmp_path: Path) -> None:
    """B095, by a scripted provider: its scores are throttled for 24 hours, and not due sooner."""
    day = timedelta(hours=24)
    scores = ScriptedFeed(
        name="scores", script=always(fails(Throttled("MaxConfigLimitExceeded", day))), limit_key="scores"
    )
    good = ScriptedFeed(script=always(says(*sold("r1", "m", "1.00"))))
    with gpufare(tmp_path, configured(scores, good)) as app:
        assert app.statuses() == {"cloud scores r1": "failed", "cloud stock r1": "ok"}
        one = app.offer()
        assert (amount(one), one["stock"]["level"], one["stock"]["score"]) == ("1", "in_stock", None)
        app.later(hours=23)
        due = schedule.claim(app.engine, app.clock(), timedelta(minutes=10), 9)
        assert [lease.feed for lease in due] == ["stock"]
        app.later(hours=2)
        app.sync()
        assert (len(scores.asked), len(good.asked)) == (2, 2)


def test_rows_of_a_database_without_a_newer_column_are_read(tmp_path: Path) -> None:
    """B135: what an older row does not say is unknown; a provider's new field is noted, and its row read."""
    wire = TencentSays(lambda _region, charge: [row(BrandNew="x")] if charge == ON_DEMAND else [])
    with tencent(wire) as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        assert app.notes() == {("unknown_field", "BrandNew")}
        with writing(app.engine) as connection:
            connection.exec_driver_sql("UPDATE machines SET vcpus = NULL, nvlink = NULL, rdma = NULL, upstream = NULL")
    with gpufare(tmp_path) as later:
        one = later.offer("gpu=v100")
        assert (one["vcpus"], one["upstream"], amount(one)) == (None, None, "80")
