"""One pass in the foreground: a row for every cell, whatever becomes of it, and never a wait without end."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from catalog.facts import Region
from collectors.base import AuthFailed, Cell, NotServed, Throttled, Unavailable
from scheduler.plan import Configured, plan
from scheduler.poll import LEASE, LIMIT_PATIENCE, Polls
from scheduler.sync import OTHERS_PATIENCE, Synced, sync
from store import record, schedule
from store.engine import reading
from store.record import Answer, Lease, Result
from store.tables import CELLS, PROVIDERS
from tests.support.feeds import (
    AT_ONCE,
    HandClock,
    Says,
    Script,
    ScriptedFeed,
    Unreadable,
    always,
    configured,
    fails,
    in_turn,
    says,
)
from tests.support.stored import MINUTE, T0, machine, opened, rows, stock
from tests.test_worker import until

pytestmark = pytest.mark.both_databases


class Busy(HandClock):
    """A hand clock beside which other things happen while somebody waits."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.meanwhile()


@dataclass
class Pass:
    """A pass with all that was heard of it."""

    engine: Engine
    clock: Busy = field(default_factory=lambda: Busy(T0))
    started: list[int] = field(default_factory=list)
    ended: list[Synced] = field(default_factory=list)

    @property
    def polls(self) -> Polls:
        return Polls(self.engine, self.clock, self.clock.sleep, AT_ONCE)

    def run(self, *providers: Configured, feeds: tuple[str, ...] = ()) -> dict[tuple[str, str, str], Result]:
        """(provider, feed, place) -> its result."""
        found = sync(self.polls, providers, feeds, self.started.append, self.ended.append)
        assert found == self.ended, "each row is heard of as it ends"
        polled = [one for one in found if one.place or one.result.status != "off"]
        assert sum(self.started) == len(polled), "the totals add up"
        keyed = {(one.provider, one.feed, one.place): one.result for one in found}
        assert len(keyed) == len(found), "a row for each cell"
        return keyed

    def statuses(self, *providers: Configured, feeds: tuple[str, ...] = ()) -> dict[tuple[str, str, str], str]:
        return {key: result.status for key, result in self.run(*providers, feeds=feeds).items()}


@pytest.fixture
def one(tmp_path: Path) -> Pass:
    return Pass(opened(tmp_path))


def whole(cell: Cell, _time: int) -> Says:
    return says(machine(region=cell.place or "r1"), stock(region=cell.place or "r1"))


def named(*regions: str, provider: str = "cloud") -> ScriptedFeed:
    facts = [Region(region=region) for region in regions]
    return ScriptedFeed(provider=provider, name="places", places=("",), script=always(says(*facts)))


def regional(script: Script = whole, provider: str = "cloud", name: str = "stock") -> ScriptedFeed:
    return ScriptedFeed(provider=provider, name=name, script=script, places=None)


def test_there_is_a_row_for_every_cell_and_for_every_feed_that_is_off(one: Pass) -> None:
    cloud = configured(ScriptedFeed(script=whole, places=("r1", "r2")), off={"spot": "set CLOUD_KEY"})
    nothing = configured(name="nothing")
    off = configured(off={"stock": "set OFF_KEY"}, name="off")
    assert one.run(cloud, nothing, off) == {
        ("cloud", "spot", ""): Result("off", error="set CLOUD_KEY"),
        ("off", "stock", ""): Result("off", error="set OFF_KEY"),
        ("cloud", "stock", "r1"): Result("ok", 2),
        ("cloud", "stock", "r2"): Result("ok", 2),
    }


def test_places_come_first_and_then_the_regions_that_they_name(one: Pass) -> None:
    assert one.statuses(configured(named("r1", "r2"), regional())) == {
        ("cloud", "places", ""): "ok",
        ("cloud", "stock", "r1"): "ok",
        ("cloud", "stock", "r2"): "ok",
    }
    assert one.started == [1, 2]


def test_no_provider_waits_for_the_stage_of_another(one: Pass) -> None:
    far = threading.Event()

    def waits(_cell: Cell) -> None:
        assert far.wait(60), "the other provider waits for this one"

    slow = ScriptedFeed(provider="slow", name="places", places=("",), script=always(says()), before=waits)
    quick = regional(provider="quick")
    quick.before = lambda _cell: far.set()
    assert one.statuses(configured(slow), configured(named("r1", provider="quick"), quick)) == {
        ("slow", "places", ""): "ok",
        ("quick", "places", ""): "ok",
        ("quick", "stock", "r1"): "ok",
    }


def test_only_the_feeds_asked_for_are_polled_and_told_of(one: Pass) -> None:
    cloud = configured(named("r1"), regional(), regional(name="machines"), off={"spot": "set KEY", "scores": "set KEY"})
    one.run(cloud)
    again = Pass(one.engine, Busy(T0 + MINUTE))
    assert again.statuses(cloud, feeds=("machines", "spot")) == {
        ("cloud", "machines", "r1"): "ok",
        ("cloud", "spot", ""): "off",
    }


def test_places_are_polled_unasked_only_where_no_region_is_known(one: Pass) -> None:
    knows, asks = named("r1", provider="knows"), named("r2", provider="asks")
    without = ScriptedFeed(provider="without", script=whole)
    told = named("r3", provider="told")
    first = configured(knows, regional(provider="knows"))
    one.run(first)
    again = Pass(one.engine, Busy(T0 + MINUTE))
    found = again.statuses(
        first,
        configured(asks, regional(provider="asks")),
        configured(without),
        configured(told, regional(provider="told"), regions=("r9",)),
        feeds=("stock",),
    )
    assert found == {
        ("asks", "places", ""): "ok",
        ("knows", "stock", "r1"): "ok",
        ("asks", "stock", "r2"): "ok",
        ("without", "stock", "r1"): "ok",
        ("told", "stock", "r9"): "ok",
    }


def test_what_another_process_polls_with_other_settings_is_not_recorded(one: Pass) -> None:
    """Their site may be another: what is fetched here would stand there, in another currency."""

    def script(cell: Cell, time: int) -> Says:
        plan(one.engine, [configured(ScriptedFeed(script=whole, places=places), site="cn")], T0)
        return whole(cell, time)

    places = tuple(f"r{number}" for number in range(20))
    found = one.run(configured(ScriptedFeed(script=script, places=places), site="intl"))
    assert {result.status for result in found.values()} == {"failed"}
    assert all("other settings" in (result.error or "") for result in found.values())
    assert rows(one.engine, "stocks") == []


def test_one_failing_cell_stops_no_other(one: Pass) -> None:
    def script(cell: Cell, time: int) -> Says:
        if cell.place == "westus":
            return fails(Unavailable("HTTP 500"))
        return says() if cell.place == "zz-euap" else whole(cell, time)

    feed = ScriptedFeed(script=script, places=("eastus", "zz-euap", "westus"))
    assert one.run(configured(feed), configured(ScriptedFeed(provider="other", script=whole))) == {
        ("cloud", "stock", "eastus"): Result("ok", 2),
        ("cloud", "stock", "zz-euap"): Result("ok", 0),
        ("cloud", "stock", "westus"): Result("failed", error="HTTP 500"),
        ("other", "stock", "r1"): Result("ok", 2),
    }
    assert {row["region"] for row in rows(one.engine, "stocks")} == {"eastus", "r1"}


def test_a_region_that_the_account_has_not_enabled_is_off_and_the_others_go_on(one: Pass) -> None:
    refused = fails(NotServed("region ap-zz-1 is not enabled for this account"))
    feed = regional(lambda cell, time: refused if cell.place == "ap-zz-1" else whole(cell, time))
    assert one.run(configured(feed, regions=("us-east-1", "ap-zz-1"))) == {
        ("cloud", "stock", "us-east-1"): Result("ok", 2),
        ("cloud", "stock", "ap-zz-1"): Result("off", error="region ap-zz-1 is not enabled for this account"),
    }


def test_each_outcome_of_a_poll_is_told(one: Pass) -> None:
    def script(cell: Cell, time: int) -> Says | Unreadable:
        if cell.place == "broken":
            return Unreadable(KeyError("gpus"))
        if cell.place == "half":
            return says(machine(region="half"), missing="the second page")
        return says(*[machine(f"m{index}", region="shrunk") for index in range(9 if time == 1 else 1)])

    cloud = configured(ScriptedFeed(script=script, places=("broken", "half", "shrunk")))
    assert set(one.statuses(cloud).values()) == {"failed", "partial", "ok"}
    again = Pass(one.engine, Busy(T0 + MINUTE))
    found = again.run(cloud)
    assert found["cloud", "stock", "half"] == Result("partial", 1, 0, "the second page")
    assert found["cloud", "stock", "shrunk"].status == "suspicious"
    assert found["cloud", "stock", "broken"].error == "a fault of this program, not of the provider: KeyError: 'gpus'"
    assert {row["status"] for row in rows(one.engine, "syncs")} == {"ok", "partial", "suspicious", "failed"}


def test_a_far_limit_is_given_up_after_30_s_and_the_other_cells_go_on(one: Pass) -> None:
    slow = ScriptedFeed(script=whole, limit_key="slow", per_second=0.001)
    quick = ScriptedFeed(provider="quick", script=whole, places=("r1", "r2", "r3"))
    schedule.reserve(one.engine, "slow", 0.001, T0, LIMIT_PATIENCE)
    found = one.run(configured(slow), configured(quick))
    assert [found["quick", "stock", place].status for place in ("r1", "r2", "r3")] == ["ok"] * 3
    given_up = found["cloud", "stock", "r1"]
    assert given_up.status == "failed"
    assert given_up.error == (
        "not polled in this pass: waited 30 s for its rate limit, under which the next call may go out at 12:16:40 UTC"
    )
    assert slow.asked == []
    assert timedelta(seconds=30) <= one.clock.now - T0 <= timedelta(seconds=31)
    assert timedelta(seconds=30) == OTHERS_PATIENCE


def test_a_near_limit_is_waited_for(one: Pass) -> None:
    shared = ScriptedFeed(script=whole, places=("r1", "r2", "r3"), limit_key="slow", per_second=0.5)
    assert set(one.statuses(configured(shared)).values()) == {"ok"}
    assert len(shared.calls) == 3


def test_a_limit_that_a_provider_paused_is_not_overrun(one: Pass) -> None:
    script = in_turn(fails(Throttled("slow down", timedelta(minutes=5))))
    feed = ScriptedFeed(script=script, places=tuple(f"r{index}" for index in range(9)), limit_key="shared")
    found = one.run(configured(feed))
    assert {result.status for result in found.values()} == {"failed"}
    assert len(found) == 9
    assert len(feed.asked) <= 4, "only those that were under way together"


def test_a_pass_says_until_when_a_provider_asked_for_a_pause(one: Pass) -> None:
    cloud = configured(ScriptedFeed(script=whole, limit_key="shared"))
    plan(one.engine, [cloud], T0)
    schedule.pause_limit(one.engine, "shared", 40 * MINUTE, T0)
    (result,) = one.run(cloud).values()
    assert result.error == (
        "not polled in this pass: waited 30 s for the pause that its provider asked for, until 12:40:00 UTC"
    )


def test_after_a_clock_was_set_back_by_days_a_pass_polls_everything_and_its_times_are_right(one: Pass) -> None:
    feed = ScriptedFeed(script=whole, places=("r1", "r2", "r3"), limit_key="shared", per_second=1.0)
    cloud = configured(feed)
    wrong = T0 + timedelta(days=9)
    assert set(Pass(one.engine, Busy(wrong)).statuses(cloud).values()) == {"ok"}
    schedule.make_due(one.engine, wrong + MINUTE)
    schedule.pause_limit(one.engine, "shared", MINUTE, wrong)
    assert len(schedule.claim(one.engine, wrong + MINUTE, LEASE, 1)) == 1, "by a worker that was killed"
    assert set(one.statuses(cloud).values()) == {"ok"}
    with reading(one.engine) as connection:
        seen = list(connection.execute(select(CELLS.c.seen_at)).scalars())
    assert len(feed.calls) == 6
    assert all(T0 <= at <= T0 + MINUTE for at in seen)


def claimed_elsewhere(one: Pass, *providers: Configured) -> Lease:
    """A cell that failed an hour ago, and that another worker has had since a minute ago and renewed by now."""
    plan(one.engine, providers, T0 - 60 * MINUTE)
    (failed,) = schedule.claim(one.engine, T0 - 60 * MINUTE, LEASE, 1)
    record.failed(one.engine, failed, Result("failed", error="long ago"), T0 - 59 * MINUTE, T0 - MINUTE)
    (lease,) = schedule.claim(one.engine, T0 - MINUTE, LEASE, 1)
    schedule.renew(one.engine, [lease], T0 + LEASE)
    return lease


def test_a_cell_that_another_worker_holds_is_waited_for_and_told_with_its_result(one: Pass) -> None:
    feed = ScriptedFeed(script=whole)
    lease = claimed_elsewhere(one, configured(feed))

    def after_a_while() -> None:
        if len(one.clock.slept) == 20:
            answer = Answer([machine(), stock()])
            record.record(one.engine, lease, answer, one.clock.now, one.clock.now + MINUTE)

    one.clock.meanwhile = after_a_while
    assert one.run(configured(feed)) == {("cloud", "stock", "r1"): Result("ok", 2)}
    assert feed.asked == []
    assert one.clock.now < T0 + timedelta(seconds=5)


def test_a_cell_that_another_worker_gives_back_is_polled(one: Pass) -> None:
    feed = ScriptedFeed(script=whole)
    lease = claimed_elsewhere(one, configured(feed))

    def after_a_while() -> None:
        if len(one.clock.slept) == 5:
            schedule.release(one.engine, lease, one.clock.now)

    one.clock.meanwhile = after_a_while
    assert one.run(configured(feed)) == {("cloud", "stock", "r1"): Result("ok", 2)}
    assert len(feed.asked) == 1


def test_a_cell_that_another_worker_never_ends_is_given_up(one: Pass) -> None:
    held = ScriptedFeed(script=whole)
    claimed_elsewhere(one, configured(held))
    found = one.run(configured(held), configured(ScriptedFeed(provider="other", script=whole)))
    assert found["other", "stock", "r1"].status == "ok"
    given_up = found["cloud", "stock", "r1"]
    assert given_up.status == "failed"
    said = "another worker, which polls it; if that was killed, its lease ends at 12:01:00 UTC"
    assert said in (given_up.error or ""), "what it said long ago is not what became of it now"
    assert held.asked == []


def test_a_pass_renews_the_leases_of_its_polls(one: Pass) -> None:
    def later(cell: Cell) -> None:
        if cell.place == "slow":
            one.clock.now += LEASE / 2
            until(lambda: _lease_until(one, "slow") == one.clock.now + LEASE)

    feed = ScriptedFeed(script=whole, places=("slow",), before=later)
    assert set(one.statuses(configured(feed)).values()) == {"ok"}
    assert one.clock.now == T0 + LEASE / 2


def _lease_until(one: Pass, place: str) -> datetime | None:
    with reading(one.engine) as connection:
        found: datetime | None = connection.execute(
            select(CELLS.c.lease_until).where(CELLS.c.place == place)
        ).scalar_one()
    return found


def test_refused_credentials_end_the_pass_of_that_provider_at_once(one: Pass) -> None:
    feed = ScriptedFeed(
        script=always(fails(AuthFailed("the key was refused"))), places=tuple(f"r{index:02}" for index in range(20))
    )
    other = ScriptedFeed(provider="other", script=whole)
    found = one.run(configured(feed), configured(other))
    assert found["other", "stock", "r1"].status == "ok"
    refused = [result for (provider, _, _), result in found.items() if provider == "cloud"]
    assert len(refused) == 20
    assert all(result.status == "failed" and "the key was refused" in (result.error or "") for result in refused)
    assert len(feed.asked) < 20
    assert one.clock.now == T0, "nobody waits for a pause that only a person ends"


def test_asking_for_a_pass_ends_a_pause(one: Pass) -> None:
    feed = ScriptedFeed(script=in_turn(fails(AuthFailed("refused")), says(machine())))
    assert set(one.statuses(configured(feed)).values()) == {"failed"}
    again = Pass(one.engine, Busy(T0 + MINUTE))
    assert set(again.statuses(configured(feed)).values()) == {"ok"}
    with reading(one.engine) as connection:
        assert connection.execute(select(PROVIDERS.c.paused)).scalar_one() is None


def test_a_pass_polls_what_is_not_due_and_makes_it_due_an_interval_later(one: Pass) -> None:
    feed = ScriptedFeed(script=whole, every=timedelta(hours=6))
    one.run(configured(feed))
    again = Pass(one.engine, Busy(T0 + MINUTE))
    assert set(again.statuses(configured(feed)).values()) == {"ok"}
    with reading(one.engine) as connection:
        due = connection.execute(select(CELLS.c.due_at)).scalar_one()
    assert isinstance(due, datetime)
    assert timedelta(hours=6) <= due - (T0 + MINUTE) <= timedelta(hours=6) * 1.05


def test_a_pass_over_one_provider_leaves_the_others_planned(one: Pass) -> None:
    other = configured(ScriptedFeed(provider="other", script=whole))
    plan(one.engine, [other], T0)
    assert set(one.statuses(configured(ScriptedFeed(script=whole)))) == {("cloud", "stock", "r1")}
    assert len(schedule.claim(one.engine, T0, LEASE, 9, provider="other")) == 1


def test_a_pass_over_no_provider_polls_nothing(one: Pass) -> None:
    other = configured(ScriptedFeed(provider="other", script=whole))
    plan(one.engine, [other], T0)
    assert one.run() == {}
