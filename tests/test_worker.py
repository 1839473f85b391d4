"""Workers: what is due is polled, once, by whoever is free; nothing that goes wrong stops them."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from psycopg.errors import AdminShutdown, DeadlockDetected, LockNotAvailable, SerializationFailure
from sqlalchemy import Engine, select
from sqlalchemy.exc import DBAPIError, ProgrammingError

from catalog.facts import Region
from collectors.base import Cell, Unavailable
from commands.serving import CHILD_PATIENCE_S
from scheduler.crew import poll_and_plan, submit
from scheduler.outages import patiently
from scheduler.plan import Configured, plan, plan_one
from scheduler.poll import LEASE, LONGEST_LEASE, RENEW_EVERY, Polls
from scheduler.worker import POLLS_AT_ONCE, STOP_PATIENCE, Worker, _go_on, _ticker
from store import schedule
from store.clock import clock_of
from store.engine import reading, writing
from store.status import provider_statuses
from store.tables import CELLS, SYNCS
from store.times import utc_now
from tests.support.feeds import (
    AT_ONCE,
    HandClock,
    ScriptedFeed,
    SharedClock,
    Unreadable,
    always,
    configured,
    fails,
    in_turn,
    says,
)
from tests.support.stored import MINUTE, T0, machine, opened, rows, stock

pytestmark = pytest.mark.both_databases

WHOLE = says(machine(), stock())
PATIENCE_S = 60.0


def until(true: Callable[[], object]) -> None:
    """Wait for threads to bring something about."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "the threads did not get there"
        time.sleep(0.002)


class Gate:
    """Holds every fetch that reaches it until it is opened."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def __call__(self, _cell: Cell) -> None:
        assert self._open.wait(5 * PATIENCE_S)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


@pytest.fixture
def gate() -> Iterator[Gate]:
    one = Gate()
    yield one
    one.open()


@contextmanager
def working(polls: Polls, *providers: Configured) -> Iterator[Worker]:
    """A worker that ticks when the test says so; its threads end with the block."""
    worker = Worker(polls, providers)
    try:
        yield worker
    finally:
        take_no_more(worker)
        for crew in worker._all_crews():
            crew._pool.shutdown(wait=True)


def by_hand(engine: Engine) -> tuple[HandClock, Polls]:
    clock = HandClock(T0)
    return clock, Polls(engine, clock, clock.sleep, AT_ONCE)


def under_way(worker: Worker) -> int:
    return len(worker.under_way())


def settle(worker: Worker) -> None:
    until(lambda: under_way(worker) == 0)


def take_no_more(worker: Worker) -> None:
    for crew in worker._all_crews():
        crew.close()


def cells(engine: Engine) -> list[Mapping[str, Any]]:
    with reading(engine) as connection:
        return [dict(row) for row in connection.execute(select(CELLS)).mappings()]


def statuses(engine: Engine) -> list[str]:
    return [cell["status"] for cell in cells(engine)]


def places(number: int) -> tuple[str, ...]:
    return tuple(f"r{index:02}" for index in range(number))


def test_only_what_has_an_idle_thread_is_claimed_and_nobody_waits_for_the_next_tick(engine: Engine, gate: Gate) -> None:
    feed = ScriptedFeed(script=always(WHOLE), places=places(10), before=gate)
    _, polls = by_hand(engine)
    with working(polls, configured(feed)) as worker:
        for _ in range(3):
            worker.tick()
        until(lambda: len(feed.asked) == POLLS_AT_ONCE)
        assert sum(cell["token"] is not None for cell in cells(engine)) == POLLS_AT_ONCE
        gate.open()
        settle(worker)
    assert statuses(engine) == ["ok"] * 10, "who has ended one takes the next, without a tick"
    assert len(feed.asked) == 10


def test_a_provider_that_hangs_delays_no_other(engine: Engine, gate: Gate) -> None:
    hangs = ScriptedFeed(provider="p2", script=always(WHOLE), places=places(20), before=gate)
    refused = ScriptedFeed(provider="p1", script=always(fails(Unavailable("connection refused"))))
    well = ScriptedFeed(provider="p3", script=always(WHOLE))
    clock, polls = by_hand(engine)
    with working(polls, configured(refused), configured(hangs), configured(well)) as worker:
        for minute in range(5):
            clock.now = T0 + minute * 2 * MINUTE
            worker.tick()
            until(lambda: under_way(worker) == POLLS_AT_ONCE)
        assert len(well.asked) == 5
        until(lambda: len(hangs.asked) == POLLS_AT_ONCE)
        found = {(cell["provider"], cell["status"]) for cell in cells(engine)}
        gate.open()
    assert found == {("p1", "failed"), ("p2", "new"), ("p3", "ok")}


def test_two_workers_never_poll_a_cell_twice_within_its_interval(tmp_path: Path) -> None:
    every = timedelta(milliseconds=300)
    feed = ScriptedFeed(script=lambda cell, _time: says(machine(region=cell.place)), places=places(12), every=every)
    engines = [opened(tmp_path), opened(tmp_path)]
    enough = threading.Event()

    def work(engine: Engine) -> None:
        with working(Polls(engine, clock_of(engine)), configured(feed)) as worker:
            while not enough.is_set():
                worker.tick()
                enough.wait(0.005)

    threads = [threading.Thread(target=work, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(feed.asked) >= 60)
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    with reading(engines[0]) as connection:
        polls = connection.execute(select(SYNCS.c.place, SYNCS.c.started_at).order_by(SYNCS.c.started_at)).all()
    began: dict[str, list[datetime]] = defaultdict(list)
    for place, at in polls:
        began[place].append(at)
    assert len(polls) == len(feed.asked), "each fetch was recorded, so no cell was fetched by both"
    assert feed.most_at_once == 1
    assert len(began) == 12
    assert all(after - before >= every for times in began.values() for before, after in pairwise(times))


def test_stop_ends_run_and_its_threads_once_the_polls_under_way_are_recorded(engine: Engine, gate: Gate) -> None:
    feed = ScriptedFeed(script=always(WHOLE), before=gate)
    before = set(threading.enumerate())
    worker = Worker(Polls(engine, clock_of(engine)), [configured(feed)])
    running = threading.Thread(target=worker.run)
    running.start()
    until(lambda: feed.asked)
    worker.stop()
    gate.open()
    running.join(PATIENCE_S)
    assert not running.is_alive()
    assert set(threading.enumerate()) <= before
    assert statuses(engine) == ["ok"]
    assert cells(engine)[0]["token"] is None


def test_a_poll_that_outlasts_the_patience_of_a_stop_is_given_back_and_not_recorded(engine: Engine, gate: Gate) -> None:
    feed = ScriptedFeed(script=always(WHOLE), places=places(2), before=gate)
    worker = Worker(Polls(engine, clock_of(engine)), [configured(feed)])
    running = threading.Thread(target=worker.run)
    running.start()
    until(lambda: len(feed.asked) == 2)
    worker.stop()
    running.join(PATIENCE_S)
    assert not running.is_alive(), "it hangs with its polls"
    assert [(cell["token"], cell["lease_until"], cell["status"]) for cell in cells(engine)] == [(None, None, "new")] * 2
    assert len(schedule.claim(engine, utc_now(), LEASE, 9)) == 2, "another worker need not wait"
    gate.open()
    settle(worker)
    assert rows(engine, "stocks") == []
    assert statuses(engine) == ["new"] * 2


def test_a_worker_ends_before_serve_kills_it() -> None:
    assert timedelta(seconds=CHILD_PATIENCE_S) > STOP_PATIENCE


def test_two_workers_with_different_providers_poll_no_cell_more_often_than_its_interval(tmp_path: Path) -> None:
    feeds = [ScriptedFeed(provider=name, script=always(WHOLE), every=5 * MINUTE) for name in ("one", "two")]
    clock = HandClock(T0)
    with ExitStack() as stack:
        workers = []
        for feed in feeds:
            polls = Polls(opened(tmp_path), clock, clock.sleep, AT_ONCE)
            workers.append(stack.enter_context(working(polls, configured(feed))))
        for _ in range(20 * 6):
            for worker in workers:
                worker.tick()
                settle(worker)
            clock.now += timedelta(seconds=10)
        with reading(workers[0]._engine) as connection:
            polls_of = connection.execute(select(SYNCS.c.provider, SYNCS.c.started_at).order_by(SYNCS.c.started_at))
            began = defaultdict(list)
            for provider, at in polls_of:
                began[provider].append(at)
    assert {provider: len(times) for provider, times in began.items()} == {"one": 4, "two": 4}
    assert all(after - before >= 5 * MINUTE for times in began.values() for before, after in pairwise(times))
    assert [one.name for one in provider_statuses(workers[0]._engine, clock.now)] == ["one", "two"]


def test_two_workers_with_different_settings_are_told_of_once_and_ask_nothing_anew_for_ever(tmp_path: Path) -> None:
    feed = ScriptedFeed(script=always(WHOLE), places=None, every=timedelta(days=1), fresh_for=timedelta(days=3))
    clock = HandClock(T0)
    polls = Polls(opened(tmp_path), clock, clock.sleep, AT_ONCE)
    settings = [configured(feed, regions=regions) for regions in (("r1", "r2"), ("r1",))]
    with ExitStack() as stack, structlog.testing.capture_logs() as logs:
        workers = [stack.enter_context(working(polls, one)) for one in settings]
        for _ in range(30):
            for worker in workers:
                worker.tick()
                settle(worker)
            clock.now += MINUTE
        told = [entry for entry in logs if entry["event"].startswith("another process polls this provider")]
        assert [(entry["log_level"], entry["provider"]) for entry in told] == [("warning", "cloud")] * 2
        assert len(feed.asked) <= 5, "each of the cells once for each start, not once a minute"
        plan_one(polls.engine, configured(feed, regions=("r3",)), clock.now)
        clock.now += MINUTE
        workers[0].tick()
        assert len([entry for entry in logs if "another process" in entry["event"]]) == 3, (
            "a third one is another matter"
        )


def test_run_goes_on_polling_by_itself(engine: Engine) -> None:
    feed = ScriptedFeed(script=always(WHOLE), every=timedelta(milliseconds=100))
    worker = Worker(Polls(engine, clock_of(engine)), [configured(feed)])
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        until(lambda: len(feed.asked) >= 3)
    finally:
        worker.stop()
        running.join(PATIENCE_S)
    assert feed.most_at_once == 1


@contextmanager
def without_cells(engine: Engine) -> Iterator[None]:
    """A database that cannot be used for a while."""
    _rename(engine, "cells", "away")
    try:
        yield
    finally:
        _rename(engine, "away", "cells")


def _rename(engine: Engine, old: str, new: str) -> None:
    with writing(engine) as connection:
        connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")


def test_a_database_error_in_a_tick_is_survived(engine: Engine) -> None:
    feed = ScriptedFeed(script=always(WHOLE))
    _, polls = by_hand(engine)
    with working(polls, configured(feed)) as worker:
        with without_cells(engine), structlog.testing.capture_logs() as logs:
            worker._tick_safely()
            worker._tick_safely()
            worker._renew_safely()
            worker._tick_safely()
        assert [(entry["log_level"], entry["event"]) for entry in logs] == [
            ("error", "the database did not answer; trying again until it does")
        ], "one line, however long it takes"
        with structlog.testing.capture_logs() as logs:
            worker._tick_safely()
            settle(worker)
            worker._tick_safely()
        assert sorted(entry["event"] for entry in logs) == ["polled", "the database answers again"]
    assert statuses(engine) == ["ok"]


def test_a_database_error_in_a_poll_leaves_its_cell_due_when_the_lease_ends(engine: Engine) -> None:
    feed = ScriptedFeed(script=always(WHOLE))
    clock, polls = by_hand(engine)
    polls = replace(polls, patience=replace(AT_ONCE, database=timedelta(milliseconds=1)))
    with working(polls, configured(feed)) as worker:
        feed.before = lambda _cell: _rename(engine, "cells", "away")
        with structlog.testing.capture_logs() as logs:
            worker.tick()
            until(lambda: [entry for entry in logs if "the cell is due again when its lease ends" in entry["event"]])
            settle(worker)
        _rename(engine, "away", "cells")
        feed.before = lambda _cell: None
        clock.now = T0 + LEASE - timedelta(seconds=1)
        worker.tick()
        settle(worker)
        assert len(feed.asked) == 1
        clock.now = T0 + LEASE
        worker.tick()
        settle(worker)
    assert statuses(engine) == ["ok"]


def test_a_fault_of_our_own_ends_neither_the_worker_nor_the_other_cells(engine: Engine) -> None:
    broken, well = Unreadable(KeyError("gpus")), WHOLE
    feed = ScriptedFeed(
        script=lambda cell, time: broken if cell.place == "r00" and time == 1 else well, places=places(2)
    )
    clock, polls = by_hand(engine)
    with working(polls, configured(feed)) as worker:
        worker.tick()
        until(lambda: sorted(statuses(engine)) == ["failed", "ok"])
        (failed,) = [cell for cell in cells(engine) if cell["status"] == "failed"]
        assert failed["error"] == "a fault of this program, not of the provider: KeyError: 'gpus'"
        assert failed["token"] is None
        settle(worker)
        clock.now = T0 + 2 * MINUTE
        worker.tick()
        until(lambda: statuses(engine) == ["ok", "ok"])


def test_a_claimed_cell_that_never_started_is_due_again_at_once(engine: Engine) -> None:
    one = configured(ScriptedFeed(script=always(WHOLE)))
    _, polls = by_hand(engine)
    plan(engine, [one], T0)
    (lease,) = schedule.claim(engine, T0, LEASE, 1)
    blocked = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(blocked.wait, PATIENCE_S)
        future = submit(pool, polls, one, one.feeds(), lease)
        assert future.cancel()
        blocked.set()
    assert len(schedule.claim(engine, T0, LEASE, 1)) == 1


def test_a_cell_of_a_feed_that_is_not_built_here_goes_back(engine: Engine) -> None:
    one = configured(ScriptedFeed(script=always(WHOLE)))
    _, polls = by_hand(engine)
    plan(engine, [one], T0)
    (lease,) = schedule.claim(engine, T0, LEASE, 1)
    assert poll_and_plan(polls, one, {}, lease).status == "off"
    assert [(cell["token"], cell["due_at"]) for cell in cells(engine)] == [(None, T0 + MINUTE)]


def test_the_regions_that_places_names_are_polled_from_the_next_tick(engine: Engine) -> None:
    named = ScriptedFeed(name="places", places=("",), script=always(says(Region(region="r1"), Region(region="r2"))))
    feed = ScriptedFeed(script=lambda cell, _time: says(machine(region=cell.place)), places=None)
    _, polls = by_hand(engine)
    with working(polls, configured(named, feed)) as worker:
        worker.tick()
        settle(worker)
        worker.tick()
        settle(worker)
    assert {cell.place for cell, _ in feed.asked} == {"r1", "r2"}
    assert {row["region"] for row in rows(engine, "machines")} == {"r1", "r2"}


def test_polls_older_than_the_settings_keep_are_forgotten(engine: Engine) -> None:
    feed = ScriptedFeed(script=always(WHOLE), every=timedelta(days=1))
    clock, polls = by_hand(engine)
    with working(polls, configured(feed)) as worker:
        for day in range(0, 20, 2):
            clock.now = T0 + timedelta(days=day)
            worker.tick()
            settle(worker)
    with reading(engine) as connection:
        kept = list(connection.execute(select(SYNCS.c.started_at)).scalars())
    assert min(kept) >= T0 + timedelta(days=18 - 7)
    assert len(kept) == 4


def test_a_poll_longer_than_its_period_never_overlaps_itself_and_delays_no_other(engine: Engine) -> None:
    clock = SharedClock(T0)
    slow = ScriptedFeed(provider="slow", script=always(WHOLE), before=lambda _cell: clock.sleep(150), clock=clock)
    fast = ScriptedFeed(provider="fast", script=always(WHOLE), clock=clock)
    with working(Polls(engine, clock, clock.sleep, AT_ONCE), configured(slow), configured(fast)) as worker:
        for _ in range(595 // 5):
            worker.renew()
            worker.tick()
            until(lambda: under_way(worker) == clock.sleepers)
            clock.move(timedelta(seconds=5))
        take_no_more(worker)
        clock.move(timedelta(seconds=150))
        settle(worker)
    assert slow.most_at_once == 1
    assert len(slow.calls) == 4, "one after the other: 4 of 150 s in 10 minutes"
    assert 9 <= len(fast.calls) <= 10
    assert all(MINUTE <= after - before <= MINUTE + timedelta(seconds=10) for before, after in pairwise(fast.calls))


@pytest.mark.parametrize("stopped", [timedelta(minutes=30), timedelta(days=3)])
def test_polls_that_fell_due_while_nobody_worked_are_caught_up_once(tmp_path: Path, stopped: timedelta) -> None:
    feed = ScriptedFeed(script=always(WHOLE), every=timedelta(hours=6))
    restart = T0 + timedelta(hours=5, minutes=50) + stopped
    for began in (T0, restart):
        clock, polls = by_hand(opened(tmp_path))
        clock.now = began
        with working(polls, configured(feed)) as worker:
            for _ in range(3):
                worker.tick()
                settle(worker)
                clock.now += timedelta(seconds=10)
    assert len(feed.asked) == 2


def test_a_killed_workers_cell_comes_back_when_its_lease_ends(engine: Engine) -> None:
    feed = ScriptedFeed(script=in_turn(WHOLE))
    clock, polls = by_hand(engine)
    plan(engine, [configured(feed)], T0)
    assert len(schedule.claim(engine, T0, LEASE, 1)) == 1
    with working(polls, configured(feed)) as worker:
        for now in (T0, T0 + LEASE - timedelta(seconds=1), T0 + LEASE):
            assert feed.asked == []
            clock.now = now
            worker.tick()
            settle(worker)
    assert len(feed.asked) == 1


def test_the_cell_of_a_long_poll_is_kept_by_renewing_its_lease_but_not_for_ever(engine: Engine, gate: Gate) -> None:
    feed = ScriptedFeed(script=always(WHOLE), before=gate)
    clock, polls = by_hand(engine)
    with working(polls, configured(feed)) as worker:
        worker.tick()
        until(lambda: feed.asked)
        while clock.now + LEASE <= T0 + LONGEST_LEASE:
            worker.renew()
            assert cells(engine)[0]["lease_until"] == clock.now + LEASE
            assert schedule.claim(engine, clock.now, LEASE, 9) == []
            clock.now += RENEW_EVERY
        worker.renew()
        assert cells(engine)[0]["lease_until"] <= T0 + LONGEST_LEASE
        assert len(schedule.claim(engine, T0 + LONGEST_LEASE, LEASE, 9)) == 1, "it hangs: another may try"
        gate.open()
        settle(worker)
    assert statuses(engine) == ["new"], "and what still comes of it is too late"


def test_a_lease_that_another_worker_has_by_now_is_not_renewed(engine: Engine, gate: Gate) -> None:
    feed = ScriptedFeed(script=always(WHOLE), before=gate)
    clock, polls = by_hand(engine)
    with working(polls, configured(feed)) as worker:
        worker.tick()
        until(lambda: feed.asked)
        clock.now = T0 + LEASE
        assert len(schedule.claim(engine, clock.now, LEASE, 9)) == 1
        clock.now += MINUTE / 2
        worker.renew()
        found = cells(engine)[0]["lease_until"]
        gate.open()
    assert found == T0 + 2 * LEASE


def test_three_renewals_may_fail_before_a_lease_is_lost() -> None:
    assert LEASE > 3 * RENEW_EVERY


def test_cells_whose_limit_has_no_slot_are_left_to_the_next_tick(engine: Engine) -> None:
    feed = ScriptedFeed(script=always(WHOLE), places=places(20), limit_key="slow", per_second=0.001)
    clock, polls = by_hand(engine)
    schedule.reserve(engine, "slow", 0.001, T0, timedelta(0))
    with working(polls, configured(feed)) as worker:
        worker.tick()
        settle(worker)
        put_off = [cell for cell in cells(engine) if cell["due_at"] > clock.now]
    assert len(put_off) == POLLS_AT_ONCE, "not all at once, over and over"


def test_the_alive_file_is_touched_by_ticks_that_reached_the_database_and_by_no_others(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "alive"
    _, polls = by_hand(engine)
    worker = Worker(polls, [], alive_file=file)
    with without_cells(engine):
        worker._tick_safely()
        assert not file.exists()
    worker._tick_safely()
    assert file.exists()
    file.unlink()
    worker._tick_safely()
    assert file.exists()


def test_an_alive_file_that_cannot_be_written_stops_no_poll_and_is_told_once(engine: Engine, tmp_path: Path) -> None:
    _, polls = by_hand(engine)
    feed = ScriptedFeed(script=always(WHOLE))
    worker = Worker(polls, [configured(feed)], alive_file=tmp_path / "gone" / "alive")
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            worker._tick_safely()
            settle(worker)
    assert statuses(engine) == ["ok"]
    assert len([entry for entry in logs if entry["log_level"] == "error"]) == 1


def test_a_machine_whose_clock_is_set_back_goes_on_ticking() -> None:
    ticked = threading.Event()
    ticker = _ticker()
    ticker.add_job(ticked.set, "interval", seconds=1, next_run_time=utc_now() + timedelta(hours=1))
    ticker.start()
    try:
        _go_on(ticker)
        assert ticked.wait(PATIENCE_S)
    finally:
        ticker.shutdown(wait=True)


@pytest.mark.parametrize("error", [DeadlockDetected(), SerializationFailure(), AdminShutdown(), LockNotAvailable()])
def test_what_a_database_may_answer_in_passing_is_tried_again(error: psycopg.Error) -> None:
    wrapped = DBAPIError.instance("UPDATE", {}, error, psycopg.Error)
    answers: list[Exception] = [wrapped, wrapped]

    def work() -> str:
        if answers:
            raise answers.pop()
        return "done"

    assert patiently(work, timedelta(minutes=1)) == "done"


def test_what_would_fail_again_is_not_tried_again() -> None:
    tries: list[int] = []
    wrong = DBAPIError.instance("UPDATE", {}, psycopg.errors.UndefinedTable(), psycopg.Error)

    def work() -> None:
        tries.append(1)
        raise wrong

    with pytest.raises(ProgrammingError):
        patiently(work, timedelta(minutes=1))
    assert tries == [1]
