"""Workers as processes over one PostgreSQL, killed, stopped, cut off from it: nothing is lost or done twice."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, make_url

from scheduler.poll import LEASE
from scripts.soak import Found, Pace, Poll, Seen, missed, polled_twice
from store.clock import clock_of
from store.engine import migrate, open_engine, writing
from store.times import instant
from tests.support.commands import PATIENCE_S, alive, environment, run, serving, until
from tests.support.databases import new_database
from tests.support.stored import rows

ROOT = Path(__file__).parents[1]
NOBODY_ANSWERS = "postgresql+psycopg://postgres@127.0.0.1:1/gpufare"


@pytest.fixture
def url() -> Iterator[str]:
    with new_database() as made:
        yield made


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = open_engine(url)
    migrate(made)
    yield made
    made.dispose()


@dataclass(frozen=True)
class Running:
    """A worker in a process of its own."""

    process: "subprocess.Popen[str]"
    stderr: Path

    def asked(self) -> None:
        """Wait until it asks its provider."""
        assert self.process.stdout
        assert self.process.stdout.readline() == "asked\n", self.said()

    def answer(self) -> None:
        """Let its provider answer."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self) -> str:
        """Its log so far."""
        return self.stderr.read_text()

    def logged(self, text: str) -> None:
        """Wait for a line of its log."""
        until(lambda: True if text in self.said() else None, text)


@contextmanager
def worker(folder: Path, url: str, name: str, level: str, *held: str) -> Iterator[Running]:
    stderr = folder / f"{name}.txt"
    command = [sys.executable, "-m", "tests.support.worker_process", url, level, *held]
    with (
        stderr.open("wb") as told,
        subprocess.Popen(  # noqa: S603
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, text=True
        ) as process,
    ):
        try:
            yield Running(process, stderr)
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
            process.wait(PATIENCE_S)


def polled(engine: Engine, count: int = 1) -> list[dict[str, Any]]:
    """The polls that were recorded, once there are so many."""
    return until(lambda: found if len(found := rows(engine, "syncs")) >= count else None, f"{count} polls")


def time_passes(engine: Engine) -> None:
    """Let all leases run out, as a minute would."""
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE cells SET lease_until = 0 WHERE lease_until IS NOT NULL")


def test_what_a_killed_worker_had_waits_for_no_more_than_a_lease(tmp_path: Path, url: str, engine: Engine) -> None:
    with worker(tmp_path, url, "killed", "out", "held") as killed:
        killed.asked()
        killed.process.kill()
        killed.process.wait()
    (cell,) = rows(engine, "cells")
    assert instant(cell["lease_until"]) <= clock_of(engine)() + LEASE
    time_passes(engine)
    with worker(tmp_path, url, "next", "in_stock") as after:
        after.asked()
        (poll,) = polled(engine)
    assert poll["status"] == "ok"
    (cell,) = rows(engine, "cells")
    assert (cell["token"], cell["lease_until"], cell["revision"]) == (None, None, 1)


def test_a_worker_that_slept_longer_than_its_lease_records_nothing(tmp_path: Path, url: str, engine: Engine) -> None:
    with worker(tmp_path, url, "slow", "out", "held") as slow:
        slow.asked()
        slow.process.send_signal(signal.SIGSTOP)
        time_passes(engine)
        with worker(tmp_path, url, "other", "in_stock"):
            polled(engine)
        slow.process.send_signal(signal.SIGCONT)
        slow.answer()
        slow.logged("not recorded: another worker has the cell by now")
    assert len(rows(engine, "syncs")) == 1
    assert [row["level"] for row in rows(engine, "stocks")] == ["in_stock"]


@contextmanager
def away(url: str) -> Iterator[None]:
    """A database that takes no connections, and ends those that there are: a server that is started anew."""
    name = make_url(url).database
    server = create_engine(make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        connection.exec_driver_sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608 - ours
        )
        try:
            yield
        finally:
            connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    server.dispose()


def test_an_answer_that_came_while_the_database_was_away_is_recorded_once(
    tmp_path: Path, url: str, engine: Engine
) -> None:
    with worker(tmp_path, url, "worker", "in_stock", "held") as one:
        one.asked()
        with away(url):
            one.answer()
            one.logged("the database did not answer; trying again until it does")
        one.logged("the database answers again")
        (poll,) = polled(engine)
        said = one.said()
    assert poll["status"] == "ok"
    assert [row["level"] for row in rows(engine, "stocks")] == ["in_stock"]
    assert said.count("did not answer") == said.count("answers again") == 1
    assert "Traceback" not in said


def test_connections_that_are_cut_in_the_middle_cost_no_poll(tmp_path: Path, url: str, engine: Engine) -> None:
    with ExitStack() as stack:
        two = [stack.enter_context(worker(tmp_path, url, name, "in_stock")) for name in ("one", "two")]
        polled(engine)
        for turn in range(2, 8):
            with away(url):
                pass
            with writing(engine) as connection:
                connection.exec_driver_sql("UPDATE cells SET due_at = 0")
            polled(engine, turn)
        said = [one.said() for one in two]
    polls = rows(engine, "syncs")
    assert {poll["status"] for poll in polls} == {"ok"}
    assert len({poll["started_at"] for poll in polls}) == len(polls), "none was recorded twice"
    assert "Traceback" not in "".join(said)


def test_the_soak_finds_nothing_wrong(tmp_path: Path) -> None:
    """Two of the demo's clouds, short: two workers, each killed outright once."""
    with new_database() as made:
        server = made
    command = [sys.executable, "scripts/soak.py", "--seconds", "45", "--workers", "2", "--kill", "--slack", "60"]
    command += ["--clouds", "tencent,runpod"]
    environ = environment(tmp_path, GPUFARE_TEST_POSTGRESQL=_server(server)) | {
        "GPUFARE_PROVIDERS__TENCENT__INTERVALS__STOCK": "2s",
    }
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith("all well\n")
    found = re.match(r"(\d+) polls of (\d+) cells", ran.stdout)
    assert found
    assert int(found[1]) > 0
    assert int(found[2]) > 50


def _server(url: str) -> str:
    return make_url(url).set(database="postgres").render_as_string(hide_password=False)


def test_migrate_says_in_a_line_what_it_did(tmp_path: Path, url: str) -> None:
    first, second = (run(tmp_path, "migrate", GPUFARE_DATABASE_URL=url) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0)
    (version,) = _versions(url)
    shown = make_url(url).render_as_string(hide_password=True)
    assert first.stdout == f"the database {shown} is at version {version}: it was empty\n"
    assert second.stdout == f"the database {shown} is at version {version}: nothing was to be done\n"


def _versions(url: str) -> list[str]:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        return [version for (version,) in connection.execute("SELECT version_num FROM alembic_version").fetchall()]


@pytest.mark.parametrize("command", ["migrate", "worker", "sync"])
def test_a_server_that_does_not_answer_is_status_2_in_a_sentence(tmp_path: Path, command: str) -> None:
    ended = run(tmp_path, command, GPUFARE_DATABASE_URL=NOBODY_ANSWERS)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"gpufare: the database {NOBODY_ANSWERS} cannot be used: ")
    assert "is the server running" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_an_alive_file_without_a_folder_is_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, "worker", "--alive-file", str(tmp_path / "none" / "alive"))
    assert ended.returncode == 2
    assert ended.stderr == f"gpufare: --alive-file {tmp_path}/none/alive: there is no folder {tmp_path}/none\n"


def test_answers_go_before_the_polls_of_a_server(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (child,) = until(served.children, "a child")
        assert alive(child)
        until(lambda: _niceness(child) == _niceness(os.getpid()) + 5 or None, "the child gives way")
        assert _niceness(served.process.pid) == _niceness(os.getpid())


def _niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


CELL = ("cloud", "stock", "r1", "")


def a_cell(*began: float, status: str = "ok", upsets: Sequence[float] = ()) -> Found:
    """A cell that is due each 10 s, polled at these seconds of 100."""
    polls = [Poll(CELL, at, 0.5, status) for at in began]
    return Found(Seen(upsets=list(upsets)), polls, {CELL: Pace(10)}, [], [], (0, 100))


EACH_TEN = [float(second) for second in range(0, 100, 10)]


def test_the_soak_sees_a_cell_that_is_polled_twice_within_its_interval() -> None:
    assert polled_twice(a_cell(*EACH_TEN).polls, {CELL: Pace(10)}) == []
    assert polled_twice(a_cell(0, 9.9).polls, {CELL: Pace(10)}) == [
        "cloud stock r1 : again after 9.900 s, not 10 s; the first ok"
    ]


def test_the_soak_sees_a_cell_that_is_missed_in_the_middle_at_the_end_or_altogether() -> None:
    assert list(missed(a_cell(*EACH_TEN), 2)) == []
    assert list(missed(a_cell(*EACH_TEN[:5], *EACH_TEN[6:]), 2)) == ["cloud stock r1 : not for 20.0 s, at most 12.5 s"]
    assert list(missed(a_cell(*EACH_TEN[:5]), 2)) == ["cloud stock r1 : not for 60.0 s, at most 12.5 s"]
    assert list(missed(a_cell(), 2)) == ["cloud stock r1 : not for 100.0 s, at most 62.0 s"]
    assert list(missed(a_cell(0, 60, *EACH_TEN[7:], upsets=[5]), 2)) == [], "within a lease of a kill"
    assert list(missed(a_cell(0, 90, upsets=[5]), 2)) == ["cloud stock r1 : not for 90.0 s, at most 72.5 s"]
