"""Field cases of the schedule and the database, end to end: workers over one database, the server beside them."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import select

from scheduler.poll import Polls
from scheduler.worker import Worker
from store import schedule
from store.engine import open_engine, reading
from store.tables import CELLS
from tests.support.endtoend import Gpufare, gpufare
from tests.support.feeds import AT_ONCE, ScriptedFeed, SharedClock, always, configured, in_turn, says
from tests.support.filled import sold
from tests.test_worker import settle, take_no_more, under_way, until, working

WHOLE = says(*sold("r1", "m", "1.00"))
MINUTE = timedelta(minutes=1)


@contextmanager
def workers(app: Gpufare, number: int) -> Iterator[list[Worker]]:
    """Workers that tick when the test says so, each with a connection of its own to the database."""
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            engine = open_engine(app.engine.url.render_as_string(hide_password=False))
            stack.callback(engine.dispose)
            polls = Polls(engine, app.clock, app.clock.sleep, AT_ONCE)
            made.append(stack.enter_context(working(polls, *app.configured)))
        yield made


def run(app: Gpufare, workers: list[Worker], span: timedelta, step: timedelta = timedelta(seconds=5)) -> None:
    """Tick all of them at each step of the clock."""
    until_then = app.clock() + span
    while app.clock() < until_then:
        for worker in workers:
            worker.tick()
        for worker in workers:
            settle(worker)
        app.clock.now += step


@pytest.mark.both_databases
def test_four_processes_poll_a_cell_as_often_as_one(tmp_path: Path) -> None:
    """B105: five minutes at one poll a minute."""
    feed = ScriptedFeed(script=always(WHOLE))
    with gpufare(tmp_path, configured(feed)) as app, workers(app, 4) as four:
        run(app, four, 5 * MINUTE)
        assert 4 <= len(feed.asked) <= 6
        assert len(app.get("/syncs")["items"]) == len(feed.asked)
        assert app.best("gpu=h100") == ("r1", "m", "1")


@pytest.mark.parametrize(
    ("case", "every", "down"),
    [
        ("B107", MINUTE, timedelta(seconds=70)),
        ("B108", timedelta(hours=6), timedelta(hours=6, minutes=20)),
        ("B108", timedelta(hours=6), timedelta(days=3)),
    ],
    ids=["B107 five seconds late", "B108 half an hour down", "B108 three days down"],
)
def test_a_poll_that_is_late_runs_once_and_at_once(
    tmp_path: Path, case: str, every: timedelta, down: timedelta
) -> None:
    feed = ScriptedFeed(script=always(WHOLE), every=every, fresh_for=3 * every)
    with gpufare(tmp_path, configured(feed)) as app:
        with workers(app, 1) as before:
            run(app, before, timedelta(seconds=10))
        assert len(feed.asked) == 1
        app.clock.now += down
        with workers(app, 1) as after:
            run(app, after, timedelta(seconds=30))
        assert len(feed.asked) == 2, case
        newest = datetime.fromisoformat(app.past("cloud", "stock", "r1")["started_at"])
        assert app.clock() - newest <= MINUTE


def test_a_clock_that_steps_back_neither_doubles_a_poll_nor_makes_a_time_older(tmp_path: Path) -> None:
    """B109: 900 s for three hours, 2 s back each hour."""
    feed = ScriptedFeed(script=always(WHOLE), every=timedelta(seconds=900), fresh_for=timedelta(hours=1))
    with gpufare(tmp_path, configured(feed)) as app, workers(app, 1) as one:
        seen = []
        for _hour in range(3):
            for _ in range(60):
                run(app, one, MINUTE, timedelta(seconds=10))
                seen.append(app.feed("cloud", "stock")["last_success"])
            app.clock.now -= timedelta(seconds=2)
        assert 11 <= len(feed.asked) <= 13
        assert seen == sorted(seen)


def test_an_observation_of_an_older_time_overwrites_no_newer_one(tmp_path: Path) -> None:
    """B109."""
    with gpufare(tmp_path, configured(ScriptedFeed(script=always(WHOLE)))) as app:
        app.sync()
        first = app.offer()["stock"]["observed_at"]
        app.clock.now -= timedelta(seconds=2)
        app.sync()
        assert app.offer()["stock"]["observed_at"] == first


def test_a_poll_longer_than_its_period_is_never_beside_itself(tmp_path: Path) -> None:
    """B110: 150 s at one a minute, ten minutes long; the other provider keeps its period."""
    with gpufare(tmp_path) as app:
        clock = SharedClock(app.clock())
        slow = ScriptedFeed(provider="slow", script=always(WHOLE), before=lambda _cell: clock.sleep(150), clock=clock)
        fast = ScriptedFeed(provider="fast", script=always(WHOLE), clock=clock)
        with working(Polls(app.engine, clock, clock.sleep, AT_ONCE), configured(slow), configured(fast)) as worker:
            for _ in range(119):
                worker.renew()
                worker.tick()
                until(lambda: under_way(worker) == clock.sleepers)
                clock.move(timedelta(seconds=5))
            take_no_more(worker)
            clock.move(timedelta(seconds=150))
            settle(worker)
        assert slow.most_at_once == 1
        assert len(slow.calls) == 4
        assert 9 <= len(fast.calls) <= 10
        assert all(after - before <= MINUTE + timedelta(seconds=10) for before, after in pairwise(fast.calls))


def test_twenty_readers_and_two_writers_meet_no_lock(tmp_path: Path) -> None:
    """B111: 20,000 offers are written while they are read, and launches reported."""
    one = sold("r1", "m", "1.00")
    many = [fact for number in range(20_000) for fact in sold("r1", f"m{number:05}", "1.00")]
    feed = ScriptedFeed(script=in_turn(says(*one), says(*one, *many)))
    report = {"provider": "cloud", "region": "r1", "instance_type": "m", "purchase": "on_demand", "outcome": "error"}
    statuses: list[int] = []
    with gpufare(tmp_path, configured(feed), refresh_every=timedelta(milliseconds=200)) as app:
        app.sync()
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                statuses.append(app.client.get("/cheapest?gpu=h100").status_code)
                statuses.append(app.client.get("/providers").status_code)

        def tell() -> None:
            while not done.is_set():
                body = report | {"code": "InsufficientCapacity"}
                statuses.append(app.client.post("/launches", json=body).status_code)

        app.board.refresh(app.clock())
        threads = [threading.Thread(target=target) for target in (*[read] * 20, tell)]
        for thread in threads:
            thread.start()
        try:
            app.clock.now += MINUTE
            assert app.statuses() == {"cloud stock r1": "ok"}
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert set(statuses) == {200, 201}
        assert app.get("/offers?instance_type=m*&limit=1")["total"] == 20_001


@pytest.mark.both_databases
def test_two_workers_of_one_instant_never_share_a_cell(tmp_path: Path) -> None:
    """B113: 50 times, both at once."""
    feed = ScriptedFeed(script=always(WHOLE), every=MINUTE)
    with gpufare(tmp_path, configured(feed)) as app, workers(app, 2) as two:
        app.plan()
        for turn in range(50):
            schedule.make_due(app.engine, app.clock())
            start = threading.Barrier(2)

            def tick(worker: Worker, start: threading.Barrier = start) -> None:
                start.wait()
                worker.tick()

            threads = [threading.Thread(target=tick, args=(worker,)) for worker in two]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for worker in two:
                settle(worker)
            assert len(feed.asked) == turn + 1
            app.clock.now += timedelta(seconds=1)
        assert feed.most_at_once == 1
        assert {one["status"] for one in app.get("/syncs?limit=1000")["items"]} == {"ok"}
        assert len(app.offers()) == 1
        with reading(app.engine) as connection:
            assert len(connection.execute(select(CELLS)).all()) == 1
