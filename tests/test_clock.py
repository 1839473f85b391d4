"""The time that processes over one database agree on, and how a reader hears of a change."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, event, text

from catalog.words import Level
from store import record, schedule
from store.clock import QUICK_LOOK_S, STANDS_S, DatabaseClock, clock_of, read_again
from store.engine import open_engine, reading
from store.record import Answer
from store.times import utc_now
from store.waking import Listener, Sleeper, Waker, waker_of
from tests.support.databases import engine_at, running_on
from tests.support.stored import LEASE, T0, Cloud, planned_cell, stock

SECOND = timedelta(seconds=1)


def test_over_a_file_the_time_is_this_machines(tmp_path: Path) -> None:
    clock = clock_of(open_engine(f"sqlite:///{tmp_path}/x.db"))
    assert clock is utc_now
    read_again(clock)


def test_over_a_server_the_time_is_the_servers(tmp_path: Path) -> None:
    with running_on("postgresql"):
        engine = engine_at(tmp_path)
        clock = clock_of(engine)
        assert isinstance(clock, DatabaseClock)
        with reading(engine) as connection:
            theirs = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        assert abs(clock() - theirs) < SECOND
        assert clock().tzinfo is UTC
        clock._read = (datetime(2001, 1, 1, tzinfo=UTC), time.monotonic() - STANDS_S)  # as of a clock that was set back
        assert clock().year == 2001
        read_again(clock)
        assert abs(clock() - theirs) < 10 * SECOND
        engine.dispose()


def test_a_slow_look_changes_nothing_while_an_earlier_one_is_not_old(tmp_path: Path) -> None:
    with running_on("postgresql"):
        engine = engine_at(tmp_path)
        clock = DatabaseClock(engine)

        @event.listens_for(engine, "before_cursor_execute")
        def slowly(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if "clock_timestamp" in statement:
                time.sleep(2 * QUICK_LOOK_S)

        ahead = clock() + timedelta(hours=1)
        clock._read = (ahead, time.monotonic() - 5)
        read_again(clock)
        assert clock() > ahead
        clock._read = (ahead, time.monotonic() - STANDS_S)
        read_again(clock)
        assert clock() < ahead
        engine.dispose()


def test_it_goes_on_while_the_server_is_away(tmp_path: Path) -> None:
    with running_on("postgresql"):
        engine = engine_at(tmp_path)
        clock = DatabaseClock(engine)
        engine.dispose()
        first = clock()
        assert first < clock() < first + SECOND


def heard(waker: Waker) -> threading.Event:
    """Set once `wait` returned."""
    done = threading.Event()

    def wait() -> None:
        waker.wait()
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    return done


def test_a_file_is_looked_at_after_each_interval(tmp_path: Path) -> None:
    waker = waker_of(open_engine(f"sqlite:///{tmp_path}/x.db"), timedelta(milliseconds=20))
    assert isinstance(waker, Sleeper)
    assert heard(waker).wait(10)


def test_one_that_is_stopped_waits_no_longer(tmp_path: Path) -> None:
    with running_on("postgresql"):
        engine = engine_at(tmp_path)
        wakers: list[Waker] = [Sleeper(timedelta(hours=1)), Listener(engine, timedelta(hours=1))]
        for waker in wakers:
            done = heard(waker)
            assert not done.wait(0.05)
            waker.stop()
            assert done.wait(10)
        engine.dispose()


@pytest.fixture
def listening(tmp_path: Path) -> "Iterator[tuple[Cloud, Engine, Waker]]":
    with running_on("postgresql"):
        polled = Cloud(tmp_path, planned_cell("stock"))
        engine = engine_at(tmp_path)
        waker = waker_of(engine, timedelta(milliseconds=200))
        assert isinstance(waker, Listener)
        waker.wait()  # the first look begins to listen
        yield polled, engine, waker
        waker.stop()
        waker.wait()
        engine.dispose()
        polled.engine.dispose()


def test_a_server_calls_when_an_answer_is_recorded_and_not_when_a_cell_is_claimed(
    listening: "tuple[Cloud, Engine, Waker]",
) -> None:
    polled, _, waker = listening
    done = heard(waker)
    (lease,) = schedule.claim(polled.engine, T0, LEASE, 1)
    assert not done.wait(0.5)
    record.record(polled.engine, lease, Answer([stock(level=Level.LOW)]), T0, T0)
    assert done.wait(10)


def test_a_connection_that_is_lost_is_a_call_and_is_opened_again(
    listening: "tuple[Cloud, Engine, Waker]",
) -> None:
    polled, _, waker = listening
    assert isinstance(waker, Listener)
    assert waker._connection is not None
    driver = waker._connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    pid = driver.info.backend_pid
    with reading(polled.engine) as connection:
        connection.exec_driver_sql("SELECT pg_terminate_backend(%s)", (pid,))
    assert heard(waker).wait(10)
    assert heard(waker).wait(10)  # this one connects
    done = heard(waker)
    polled.told(T0, stock(level=Level.LOW))
    assert done.wait(10)
