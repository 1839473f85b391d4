"""The schedule: what is planned, what can be claimed by whom, what pauses, how calls are spaced."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from catalog.facts import Note, Region
from store import planning, record, schedule
from store.engine import placeholder
from store.offers import revisions
from store.planning import PlannedCell
from store.record import Answer, Lease, LeaseLost, Result
from store.status import provider_statuses
from store.times import micros
from tests.support.databases import engine_at
from tests.support.stored import (
    LEASE,
    MINUTE,
    T0,
    Cloud,
    cell,
    machine,
    opened,
    plan,
    planned_cell,
    planned_provider,
    price,
    rows,
    stock,
)

pytestmark = pytest.mark.both_databases

PATIENCE = timedelta(seconds=30)
THREADS = 4


def at(minutes: float) -> datetime:
    return T0 + minutes * MINUTE


def in_threads(folder: Path, work: Callable[[Engine], list[Any]]) -> list[list[Any]]:
    """The same work in four threads at once, each with an engine of its own on one file."""

    def run(_: int) -> list[Any]:
        engine = engine_at(folder)
        try:
            return work(engine)
        finally:
            engine.dispose()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def parts(count: int) -> list[PlannedCell]:
    return [planned_cell("stock", part=f"{number:04}") for number in range(count)]


def claimed(engine: Engine, now: datetime, most: int = 10) -> list[str]:
    return [lease.part or lease.feed for lease in schedule.claim(engine, now, LEASE, most)]


# --- plan


def test_planning_twice_changes_nothing(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    assert plan(engine, planned_cell("stock"), planned_cell("prices")) == 2
    before = rows(engine, "cells"), rows(engine, "providers")
    assert plan(engine, planned_cell("stock"), planned_cell("prices"), now=at(5)) == 0
    assert (rows(engine, "cells"), rows(engine, "providers")) == before


def test_a_new_cell_is_due_at_once_and_a_known_one_keeps_its_time(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), stock())
    assert plan(polled.engine, planned_cell("stock"), planned_cell("prices"), now=at(0.5)) == 1
    assert cell(polled.engine, "stock")["due_at"] == at(1)
    assert cell(polled.engine, "prices")["due_at"] == at(0.5)
    assert claimed(polled.engine, at(0.5)) == ["prices"]


def test_the_cell_of_a_feed_that_stopped_is_not_polled_but_keeps_its_facts(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), stock())
    plan(polled.engine, planned_cell("prices"), now=at(1))
    assert claimed(polled.engine, at(60)) == ["prices"]
    assert len(rows(polled.engine, "stocks")) == 1
    plan(polled.engine, planned_cell("stock"), now=at(61))
    assert claimed(polled.engine, at(61)) == ["stock"]


def test_a_place_that_is_no_longer_named_is_not_polled_but_keeps_its_facts(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("stock", place="r2"))
    polled.told(at(0), stock(region="r2"), place="r2")
    plan(polled.engine, planned_cell("stock"), now=at(1))
    assert claimed(polled.engine, at(60)) == ["stock"]
    assert [row["region"] for row in rows(polled.engine, "stocks")] == ["r2"]


def test_a_place_that_changed_settings_leave_out_goes_with_all_that_was_said_of_it(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("stock", place="r2"))
    polled.told(at(0), stock())
    polled.told(at(0), stock(region="r2"), machine(region="r2"), place="r2", notes=[Note("k", "v")])
    polled.failed(at(0), drift=("page", b"body"))
    plan(polled.engine, planned_cell("stock"), now=at(1), fingerprint="two")
    retired = cell(polled.engine, place="r2")
    assert (retired["planned"], retired["seen_at"], retired["status"], retired["digest"]) == (False, None, "new", "")
    assert [row["region"] for row in rows(polled.engine, "stocks")] == ["r1"]
    assert (rows(polled.engine, "machines"), rows(polled.engine, "notes")) == ([], [])
    assert len(rows(polled.engine, "drifts")) == 1


def test_a_place_that_comes_back_goes_on_as_the_cell_that_it_was_and_asks_at_once(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"), planned_cell("stock", place="r2"))
    before = cell(engine, place="r2")
    plan(engine, planned_cell("stock"), fingerprint="two")
    plan(engine, planned_cell("stock"), planned_cell("stock", place="r2"), fingerprint="two")
    after = cell(engine, place="r2")
    assert (after["id"], after["planned"], after["due_at"]) == (before["id"], True, T0)
    assert after["revision"] > before["revision"]


def test_the_cells_of_another_provider_are_left_alone(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    plan(engine, planned_cell("stock", provider="other"), name="other")
    assert [row["planned"] for row in rows(engine, "cells")] == [True, True]


def test_what_a_cell_is_planned_with_follows_the_settings(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    plan(engine, planned_cell("stock", every=10 * MINUTE, fresh_for=30 * MINUTE, limit_key="k", limit_per_s=0.5))
    known = cell(engine)
    assert {name: known[name] for name in ("every_s", "fresh_s", "limit_key", "limit_per_s")} == {
        "every_s": 600.0,
        "fresh_s": 1800.0,
        "limit_key": "k",
        "limit_per_s": 0.5,
    }


def test_a_shorter_interval_counts_from_now_and_not_after_the_old_one(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock", every=timedelta(days=1)))
    lease = polled.claimed(at(0))
    record.record(polled.engine, lease, Answer([stock()]), at(0), at(0) + timedelta(days=1))
    plan(polled.engine, planned_cell("stock"), now=at(10))
    assert cell(polled.engine)["due_at"] == at(11)


def test_changed_settings_end_a_pause_and_the_same_ones_keep_it(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    assert schedule.pause_provider(engine, "cloud", "refused") is True
    assert schedule.pause_provider(engine, "cloud", "refused again") is False
    plan(engine, planned_cell("stock"), now=at(1))
    assert claimed(engine, at(1)) == []
    plan(engine, planned_cell("stock"), now=at(2), fingerprint="two")
    assert claimed(engine, at(2)) == ["stock"]


def test_changed_settings_ask_everything_anew(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("prices"))
    polled.told(at(0), stock(), memo={"etag": "in yuan"})
    under_old_settings = polled.claimed(at(0), "prices")
    plan(polled.engine, planned_cell("stock"), planned_cell("prices"), now=at(0.1), fingerprint="two")
    with pytest.raises(LeaseLost):
        record.record(polled.engine, under_old_settings, Answer([]), at(0.1), at(1))
    leases = schedule.claim(polled.engine, at(0.1), LEASE, 10)
    assert [(lease.feed, dict(lease.memo)) for lease in leases] == [("stock", {}), ("prices", {})]


TEN_IN_YUAN = [fact for n in range(10) for fact in (machine(f"m{n}"), price(f"m{n}", currency="CNY"), stock(f"m{n}"))]


def test_nothing_of_another_site_is_shown_and_a_smaller_first_answer_is_no_shrink(tmp_path: Path) -> None:
    polled = Cloud(tmp_path)
    cells = [planned_cell("stock"), planned_cell("prices", place="")]
    planning.plan(polled.engine, planned_provider(site="cn", fingerprint="cn"), cells, at(0))
    polled.told(at(0), *TEN_IN_YUAN)
    polled.told(at(0), *TEN_IN_YUAN, feed="prices", place="")
    assert all(offer.confirmed(at(0)) for offer in polled.offers().values())
    before = revisions(polled.engine)
    planning.plan(polled.engine, planned_provider(site="intl", fingerprint="intl"), cells, at(1))
    assert polled.offers() == {}
    assert all(revision > before[one] for one, revision in revisions(polled.engine).items())
    (shown,) = provider_statuses(polled.engine, at(1))
    assert [(feed.last_success, feed.offers) for feed in shown.feeds] == [(None, 0)] * 2
    three = [fact for n in (1, 2, 3) for fact in (machine(f"m{n}"), price(f"m{n}"), stock(f"m{n}"))]
    assert polled.told(at(1), *three) == Result("ok", 9)
    offers = polled.offers()
    assert {name for _, name, _ in offers} == {"m1", "m2", "m3"}, "m0 is not confirmed in yuan, nor there at all"
    assert {offer.price.currency for offer in offers.values() if offer.price} == {"USD"}
    assert {offer.place.site for offer in offers.values()} == {"intl"}


def test_other_changed_settings_keep_what_was_said_but_measure_no_shrink_by_it(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), *TEN_IN_YUAN)
    assert polled.told(at(1), *TEN_IN_YUAN[:3]).status == "suspicious"
    plan(polled.engine, planned_cell("stock"), now=at(2), fingerprint="another")
    known = cell(polled.engine)
    assert (known["held"], known["facts"], known["offers"], known["seen_at"]) == (None, 0, 10, at(0))
    assert len(polled.offers()) == 10
    assert polled.told(at(2), *TEN_IN_YUAN[:6]) == Result("ok", 6)


def test_a_provider_that_comes_back_under_the_same_settings_goes_on_where_it_was(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), stock(), memo={"etag": "x"})
    schedule.pause_provider(polled.engine, "cloud", "refused")
    before = cell(polled.engine)
    planning.forget_providers(polled.engine, but=[])
    forgotten = cell(polled.engine)
    assert forgotten["revision"] > before["revision"]
    assert plan(polled.engine, planned_cell("stock"), now=at(0.5)) == 0
    after = cell(polled.engine)
    assert after["revision"] > forgotten["revision"]
    assert {**after, "revision": 0} == {**before, "revision": 0}
    (shown,) = provider_statuses(polled.engine, at(1))
    assert shown.paused == "refused"


def test_forgotten_providers_are_not_polled(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    plan(engine, planned_cell("prices", provider="other"), name="other")
    planning.forget_providers(engine, but=["other"])
    assert claimed(engine, at(1)) == ["prices"]
    assert [one.name for one in provider_statuses(engine, at(1))] == ["other"]


# --- claim


def test_each_of_two_thousand_cells_is_claimed_once_by_four_workers(tmp_path: Path) -> None:
    plan(opened(tmp_path), *parts(2000))

    def work(engine: Engine) -> list[int]:
        found: list[int] = []
        while leases := schedule.claim(engine, at(1), LEASE, 25):
            found += [lease.cell_id for lease in leases]
        return found

    by_worker = in_threads(tmp_path, work)
    everything = [cell_id for found in by_worker for cell_id in found]
    assert len(everything) == len(set(everything)) == 2000


@pytest.mark.parametrize("most", [1, 5])
def test_workers_that_ask_in_the_same_instant_never_share_a_cell(tmp_path: Path, most: int) -> None:
    plan(opened(tmp_path), planned_cell("stock"))
    all_there = threading.Barrier(THREADS)  # else a quick one claims the next turn while others are at this one

    def turn_of(engine: Engine, turn: int) -> list[Lease]:
        all_there.wait(60)
        return schedule.claim(engine, at(turn * 60), LEASE, most)

    def work(engine: Engine) -> list[Lease]:
        return [lease for turn in range(50) for lease in turn_of(engine, turn)]

    leases = [lease for found in in_threads(tmp_path, work) for lease in found]
    held = sorted(lease.started_at for lease in leases)
    assert held == [at(turn * 60) for turn in range(50)]


def test_the_longest_due_goes_first(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    for minute, part in ((3, "late"), (1, "early"), (2, "middle")):
        plan(engine, planned_cell("stock", provider=part, part=part), now=at(minute), name=part)
    assert claimed(engine, at(10), 2) == ["early", "middle"]
    assert claimed(engine, at(10), 2) == ["late"]


def test_nothing_is_due_before_its_time(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"), now=at(5))
    assert claimed(engine, at(5) - timedelta(microseconds=1)) == []
    assert schedule.providers_due(engine, at(5)) == ["cloud"]
    assert claimed(engine, at(5)) == ["stock"]
    assert schedule.providers_due(engine, at(5)) == []


def test_a_lease_that_ran_out_is_due_again_with_another_token(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    (first,) = schedule.claim(engine, at(0), LEASE, 1)
    assert schedule.claim(engine, at(0) + LEASE - timedelta(microseconds=1), LEASE, 1) == []
    (second,) = schedule.claim(engine, at(0) + LEASE, LEASE, 1)
    assert second.cell_id == first.cell_id
    assert second.token != first.token


def test_a_lease_knows_its_cell(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock", part="spot"))
    polled.told(at(0), stock(), part="spot", memo={"etag": "x"})
    lease = polled.claimed(at(3), part="spot")
    assert (lease.provider, lease.feed, lease.place, lease.part) == ("cloud", "stock", "r1", "spot")
    assert (lease.every, dict(lease.memo), lease.started_at, lease.failures) == (MINUTE, {"etag": "x"}, at(3), 0)


def test_after_three_days_down_there_is_one_catch_up(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), stock())
    start = at(0) + timedelta(days=3)
    (lease,) = schedule.claim(polled.engine, start, LEASE, 100)
    record.record(polled.engine, lease, Answer([stock()]), start, start + MINUTE)
    assert claimed(polled.engine, start) == []
    assert claimed(polled.engine, start + MINUTE) == ["stock"]


def test_a_cell_that_is_being_polled_longer_than_its_interval_is_not_polled_beside(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    assert claimed(engine, at(0)) == ["stock"]
    schedule.make_due(engine, at(1))
    assert claimed(engine, at(1)) == []


def test_a_claim_of_one_provider_or_of_some_cells_takes_no_others(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    plan(engine, planned_cell("prices", provider="other"), planned_cell("spot", provider="other"), name="other")
    ids = {row["feed"]: row["id"] for row in rows(engine, "cells")}
    assert [one.feed for one in schedule.claim(engine, at(0), LEASE, 9, only=[ids["spot"]])] == ["spot"]
    assert [one.feed for one in schedule.claim(engine, at(0), LEASE, 9, provider="other")] == ["prices"]
    assert schedule.claim(engine, at(0), LEASE, 9, only=[]) == []


# --- pauses


def test_cells_that_share_a_limit_pause_together_and_no_others(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"), planned_cell("prices"), planned_cell("spot", limit_key="else"))
    assert schedule.pause_limit(engine, "cloud", 5 * MINUTE, at(0)) == at(5)
    assert claimed(engine, at(1)) == ["spot"]
    assert claimed(engine, at(5)) == ["stock", "prices"]


def test_a_shorter_pause_does_not_end_a_longer_one(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    schedule.pause_limit(engine, "cloud", 60 * MINUTE, at(0))
    schedule.pause_limit(engine, "cloud", MINUTE, at(0))
    assert claimed(engine, at(2)) == []
    assert claimed(engine, at(60)) == ["stock"]


def test_making_due_wakes_a_refused_provider_but_not_a_throttled_limit(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("prices", limit_key="slow"))
    polled.told(at(0), stock())
    schedule.pause_provider(polled.engine, "cloud", "refused")
    schedule.pause_limit(polled.engine, "slow", 5 * MINUTE, at(0))
    assert len(schedule.make_due(polled.engine, at(0.1), ["cloud"])) == 2
    assert claimed(polled.engine, at(0.1)) == ["stock"]


@pytest.mark.parametrize(
    ("providers", "feeds", "due"),
    [([], [], 3), (["cloud"], [], 2), ([], ["stock"], 2), (["cloud"], ["prices"], 1), (["nobody"], [], 0)],
)
def test_what_is_made_due_is_what_was_named(tmp_path: Path, providers: list[str], feeds: list[str], due: int) -> None:
    engine = opened(tmp_path)
    later = at(100)
    plan(engine, planned_cell("stock"), planned_cell("prices"), now=later)
    plan(engine, planned_cell("stock", provider="other"), now=later, name="other")
    assert len(schedule.make_due(engine, at(0), providers, feeds)) == due
    assert len(claimed(engine, at(0))) == due


def test_a_released_cell_is_due_when_it_is_told_to_be(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    (lease,) = schedule.claim(engine, at(0), LEASE, 1)
    schedule.release(engine, lease, at(2))
    assert claimed(engine, at(1)) == []
    assert claimed(engine, at(2)) == ["stock"]


def test_who_lost_a_lease_cannot_give_it_back(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    (dead,) = schedule.claim(engine, at(0), LEASE, 1)
    (alive,) = schedule.claim(engine, at(0) + LEASE, LEASE, 1)
    schedule.release(engine, dead, at(0))
    assert cell(engine)["token"] == alive.token


# --- rate limits


@pytest.mark.parametrize("per_second", [0.5, 3, 100])
def test_slots_are_spaced_however_many_workers_ask(tmp_path: Path, per_second: float) -> None:
    opened(tmp_path)
    long = timedelta(days=1)

    def work(engine: Engine) -> list[datetime]:
        return [schedule.reserve(engine, "key", per_second, T0, long) for _ in range(25)]

    slots = sorted(slot for found in in_threads(tmp_path, work) for slot in found)
    apart = timedelta(seconds=1 / per_second)
    assert slots == [T0 + number * apart for number in range(25 * THREADS)]


def test_a_first_call_that_meets_anothers_first_call_takes_the_slot_after_it(tmp_path: Path) -> None:
    engine = opened(tmp_path)

    @event.listens_for(engine, "before_cursor_execute")
    def another_comes_first(_connection: Any, cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("INSERT INTO limits"):
            mark = placeholder(engine.dialect)
            cursor.execute(f"INSERT INTO limits (key, next_at) VALUES ('key', {mark})", (micros(at(1)),))  # noqa: S608

    assert schedule.reserve(engine, "key", 1 / 60, T0, PATIENCE) == at(1)
    assert rows(engine, "limits") == [{"key": "key", "next_at": micros(at(1))}], "told, but not taken"


def test_a_slot_out_of_patience_is_told_but_not_taken(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    assert schedule.reserve(engine, "key", 1 / 60, T0, PATIENCE) == T0
    assert [schedule.reserve(engine, "key", 1 / 60, T0, PATIENCE) for _ in range(3)] == [at(1)] * 3
    assert schedule.reserve(engine, "key", 1 / 60, at(1), PATIENCE) == at(1)


def test_limits_are_apart_and_an_idle_one_saves_nothing_up(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    assert schedule.reserve(engine, "one", 1, T0, PATIENCE) == T0
    assert schedule.reserve(engine, "two", 1, T0, PATIENCE) == T0
    assert schedule.reserve(engine, "one", 1, at(60), PATIENCE) == at(60)
    assert schedule.reserve(engine, "one", 1, at(60), PATIENCE) == at(60) + timedelta(seconds=1)


def test_a_slot_further_ahead_than_any_pause_is_that_of_a_clock_since_set_back(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    schedule.reserve(engine, "key", 1, at(0) + timedelta(days=9), PATIENCE)
    assert schedule.reserve(engine, "key", 1, at(0), PATIENCE) == at(0)
    assert schedule.reserve(engine, "key", 1, at(0), PATIENCE) == at(0) + timedelta(seconds=1)


def test_the_longest_pause_is_kept_to_its_end_and_no_pause_is_longer(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"))
    schedule.reserve(engine, "cloud", 1, at(0), PATIENCE)
    assert schedule.pause_limit(engine, "cloud", timedelta(days=1), at(0)) == at(60)
    assert schedule.reserve(engine, "cloud", 1, at(0), PATIENCE) == at(60), "the calls of polls under way"
    assert claimed(engine, at(59)) == []
    assert claimed(engine, at(60)) == ["stock"]


def test_a_pause_of_a_clock_since_set_back_holds_nothing_up_and_hides_no_pause_of_now(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"), planned_cell("prices", limit_key="else"))
    for key in ("cloud", "else"):
        schedule.pause_limit(engine, key, MINUTE, at(0) + timedelta(days=9))
    schedule.pause_limit(engine, "else", MINUTE, at(0))
    assert claimed(engine, at(0)) == ["stock"]


# --- regions


def test_known_regions_are_those_that_may_be_used_as_far_as_is_known(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("places", place=""))
    named = {"r-off": False, "r-on": True, "r-unknown": None}
    polled.told(at(0), *(Region(region=name, enabled=on) for name, on in named.items()), feed="places", place="")
    assert planning.known_regions(polled.engine, "cloud") == ["r-on", "r-unknown"]
    assert planning.known_regions(polled.engine, "other") == []


def test_old_polls_are_forgotten_and_young_ones_kept(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    for minute in (0, 1, 2):
        polled.told(at(minute), stock())
    schedule.prune_syncs(polled.engine, at(1))
    assert len(rows(polled.engine, "syncs")) == 2


def test_a_provider_is_kept_as_it_is_configured(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    off = {"stock": "set GPUFARE_PROVIDERS__CLOUD__SITE"}
    planning.plan(engine, planned_provider(site="cn", off=off, evidence=["reported", "listed"]), [], T0)
    (row,) = rows(engine, "providers")
    assert (row["name"], row["site"], row["evidence"], row["paused"]) == ("cloud", "cn", "reported,listed", None)
    assert row["off"] == '{"stock": "set GPUFARE_PROVIDERS__CLOUD__SITE"}'


# --- settings that change while others poll


def test_a_worker_that_still_has_other_settings_claims_nothing(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock"), fingerprint="new")
    assert schedule.claim(engine, at(0), LEASE, 9, provider="cloud", fingerprint="old") == []
    (lease,) = schedule.claim(engine, at(0), LEASE, 9, provider="cloud", fingerprint="new")
    assert lease.provider == "cloud"


def test_an_answer_that_is_being_recorded_while_the_site_changes_never_stands_under_the_new_one(tmp_path: Path) -> None:
    """The record is held back in its last step, until planning waits for it or has gone by."""
    polled = Cloud(tmp_path, planned_cell("stock"))
    cells = [planned_cell("stock")]
    planning.plan(polled.engine, planned_provider(fingerprint="cn", site="cn"), cells, at(0))
    (lease,) = schedule.claim(polled.engine, at(0), LEASE, 1)
    last_step, planned = threading.Event(), threading.Event()

    def hold(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith("INSERT INTO syncs"):
            last_step.set()
            planned.wait(1)  # on SQLite, and where planning waits for the cell, it only goes on after us

    recording = engine_at(tmp_path)
    event.listen(recording, "before_cursor_execute", hold)
    answer = Answer([machine(), price(currency="CNY"), stock()])
    with ThreadPoolExecutor(2) as pool:
        recorded = pool.submit(record.record, recording, lease, answer, at(0), at(1))
        assert last_step.wait(30)
        planning.plan(polled.engine, planned_provider(fingerprint="intl", site="intl"), cells, at(1))
        planned.set()
        assert recorded.result(30).status == "ok"
    for table in ("machines", "prices", "stocks"):
        assert rows(polled.engine, table) == [], table
    assert polled.offers() == {}
