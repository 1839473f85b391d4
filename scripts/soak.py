"""Many processes over one PostgreSQL for a while: python scripts/soak.py --seconds 600 --workers 3 --kill.

Starts the simulated clouds of the demo, one `gpufare api` and some `gpufare worker` over a database of its own, and
asks the server twice a second. With --kill each worker in turn is killed outright and another takes its place; with
--restart-command PostgreSQL is started anew by that command, once. Then the table of past polls must show that no cell
was polled twice within its interval and none was missed, and the server must have answered all the time.

Intervals can be set as for gpufare: GPUFARE_PROVIDERS__TENCENT__INTERVALS__STOCK=2s. Exit status: 0, or 1 with what
was violated. All that it starts ends with it.
"""

import argparse
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that it runs from a checkout that is not installed

import psycopg  # noqa: E402
from sqlalchemy import make_url  # noqa: E402

from scheduler.poll import JITTER, LEASE, THROTTLED_PAUSE  # noqa: E402

SERVER = os.environ.get("GPUFARE_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
QUESTION = "/cheapest?gpu=v100&region=ap-guangzhou&fallback=ap-nanjing,ap-chongqing"
"""Somewhere in these regions there always is one, whatever befalls the demo's clouds."""
ASK_EVERY_S = 0.5
SLACK_S = 2.0
"""A tick, and the time that a claim takes."""
START_S, END_S = 60.0, 15.0
FIRST_RETRY_S = 30.0
PYTHON = (sys.executable, "-P", "-m")
CALLS = 2
"""The most that a poll of the demo's clouds makes."""
MICROSECONDS = 1_000_000
Cell = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a cell is due, in seconds, and how long all under its rate limit take to have their turn."""

    every: float
    turn: float = 0.0


@dataclass(frozen=True, slots=True)
class Poll:
    """A past poll; its times in seconds."""

    cell: Cell
    began: float
    lasted: float
    status: str
    error: str = ""


@dataclass(slots=True)
class Seen:
    """What was met while it ran."""

    under_way: list[Cell] = field(default_factory=list)
    """The cells that were being polled when it ended."""

    answers: Counter[str] = field(default_factory=Counter)
    """By their status and verdict, from the first confirmed one on."""
    waits: list[float] = field(default_factory=list)
    fallen: list[str] = field(default_factory=list)
    """Cells whose revision fell."""
    upsets: list[float] = field(default_factory=list)
    """When a worker was killed or PostgreSQL was started anew."""


def polled_twice(polls: Sequence[Poll], paces: Mapping[Cell, Pace]) -> list[str]:
    """The cells that were polled again within their interval. One that failed may be, but for half a minute."""
    found = []
    for first, second in _pairs(polls):
        every = paces[first.cell].every
        least = every if first.status != "failed" else min(every, FIRST_RETRY_S)
        if second.began - first.began < least:
            after = f"again after {second.began - first.began:.3f} s, not {least:.0f} s"
            found.append(f"{' '.join(first.cell)}: {after}; the first {first.status} {first.error}".rstrip())
    return found


def missed(found: "Found", slack_s: float) -> Iterator[str]:
    """The cells that were not polled when they were due. One that a killed worker had waits for the lease's end; one
    whose provider failed meanwhile, for the pause that it may have asked for; and all wait for their rate limit.
    """
    began, ended = found.between
    last = {poll.cell: poll for poll in sorted(found.polls, key=lambda poll: poll.began)}
    gaps = [(first, second.began) for first, second in _pairs(found.polls)]
    idle = found.paces.keys() - found.seen.under_way
    gaps += [(last.get(cell, Poll(cell, began, START_S, "new")), ended) for cell in idle]
    for first, until in gaps:
        pace = found.paces[first.cell]
        most = max(pace.every * (1 + JITTER), first.lasted) + pace.turn + slack_s + _allowed(found, first, until)
        if first.status != "off" and until - first.began > most:
            yield f"{' '.join(first.cell)}: not for {until - first.began:.1f} s, at most {most:.1f} s"


def _allowed(found: "Found", first: Poll, until: float) -> float:
    """How much later than its interval a cell may be polled for what befell it."""
    upset = any(first.began - SLACK_S <= at <= until for at in found.seen.upsets)
    failed = any(
        one.status == "failed" and one.cell[0] == first.cell[0] and first.began - one.lasted <= one.began <= until
        for one in found.polls
    )
    lease_s = LEASE.total_seconds() + found.paces[first.cell].turn  # the poll that was killed waited for its turn too
    return upset * lease_s + failed * (first.lasted + THROTTLED_PAUSE.total_seconds())


def _pairs(polls: Sequence[Poll]) -> Iterator[tuple[Poll, Poll]]:
    """Each poll with the next of its cell."""
    by_cell = defaultdict(list)
    for poll in sorted(polls, key=lambda poll: poll.began):
        by_cell[poll.cell].append(poll)
    for of_cell in by_cell.values():
        yield from pairwise(of_cell)


class Process:
    """A process of ours, with its log in a file."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [*PYTHON, *arguments],
                env=dict(environ),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours to hear
            )

    def first_line(self) -> bytes:
        """What it says first."""
        return self._process.stdout.readline() if self._process.stdout else b""

    def waited_for(self, pattern: str) -> str:
        """What its log has in the place of the pattern's group, once it has it."""
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up and self._process.poll() is None:
            if found := re.search(pattern, self.log.read_text("utf-8", "replace")):
                return found[1]
            time.sleep(0.1)
        raise SystemExit(f"did not start: {self.log.read_text('utf-8', 'replace')}")

    def kill(self) -> None:
        """Kill it outright, as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Ask it to end, and see that it does."""
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def own_database(server: str) -> Iterator[str]:
    """The address of a new database of that server, dropped in the end."""
    name = f"gpufare_soak_{os.getpid()}"
    with psycopg.connect(_plain(server), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(_plain(server), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def environment(folder: Path, database: str, told: dict[str, str]) -> dict[str, str]:
    """The environment of gpufare's processes: the simulated clouds, this database and no settings but intervals."""
    (folder / "gpufare.toml").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUFARE_")}
    intervals = {name: value for name, value in os.environ.items() if "__INTERVALS__" in name}
    ours = {
        "GPUFARE_DATABASE_URL": database,
        "GPUFARE_CONFIG": str(folder / "gpufare.toml"),
        "GPUFARE_LOG": "info",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
    }
    return kept | told | ours | intervals


def ask(url: str, seen: Seen, stop: Event) -> None:
    """Put the question to the server twice a second."""
    address = urlsplit(url)
    while not stop.wait(ASK_EVERY_S):
        began = time.monotonic()
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
        try:
            connection.request("GET", QUESTION)
            response = connection.getresponse()
            body = json.loads(response.read())
            said = f"{response.status} {body.get('verdict', '')}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            said = f"no answer: {type(error).__name__}"
        finally:
            connection.close()
        if seen.answers or said == GOOD:
            seen.answers[said] += 1
            seen.waits.append(time.monotonic() - began)


GOOD = "200 confirmed"
IN_VAIN = 'event="not recorded'


def watch_revisions(database: str, seen: Seen, stop: Event) -> None:
    """See each second that no cell's revision falls. A database that is away is looked at when it is back."""
    known: dict[int, int] = {}
    while not stop.is_set():
        with suppress(psycopg.OperationalError), psycopg.connect(_plain(database), autocommit=True) as connection:
            while not stop.wait(1):
                for cell, revision in connection.execute("SELECT id, revision FROM cells").fetchall():
                    if revision < known.get(cell, 0):
                        seen.fallen.append(f"cell {cell}: revision {revision} after {known[cell]}")
                    known[cell] = revision
        stop.wait(0.2)


def polls_of(connection: "psycopg.Connection[tuple[Any, ...]]") -> tuple[list[Poll], dict[Cell, Pace]]:
    """All polls that were recorded, and the pace of each cell that is planned."""
    rows = connection.execute(
        "SELECT provider, feed, place, part, started_at, seconds, status, error FROM syncs"
    ).fetchall()
    polls = [Poll(row[:4], row[4] / MICROSECONDS, row[5], row[6], row[7] or "") for row in rows]
    turn = "count(*) OVER (PARTITION BY limit_key) / limit_per_s"
    where = "WHERE planned AND feed <> 'snapshot'"
    cells = f"SELECT provider, feed, place, part, every_s, {turn} FROM cells {where}"  # noqa: S608 - our own words
    found = connection.execute(cells.encode()).fetchall()
    return polls, {row[:4]: Pace(row[4], CALLS * float(row[5])) for row in found}


def leased(connection: "psycopg.Connection[tuple[Any, ...]]", upsets: Sequence[float] = ()) -> list[Cell]:
    """The cells that are leased, but for those that a worker may have which was killed then."""
    rows = connection.execute("SELECT provider, feed, place, part, lease_until FROM cells WHERE token IS NOT NULL")
    lease_s = LEASE.total_seconds() + SLACK_S
    return [row[:4] for row in rows.fetchall() if not any(at <= row[4] / MICROSECONDS <= at + lease_s for at in upsets)]


def run(arguments: argparse.Namespace) -> int:
    """Run it all; returns the exit status."""
    seen, stop = Seen(), Event()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpufare-soak-")))
        database = stack.enter_context(own_database(arguments.database))
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        served = ["--providers", arguments.clouds] if arguments.clouds else []
        clouds = Process(folder, "clouds", ["simcloud", "--env-json", "--exit-with-parent", *served], environ)
        stack.callback(clouds.end)
        environ = environment(folder, database, json.loads(clouds.first_line()))
        server = Process(folder, "api", ["cli", "api", "--port", "0"], environ)
        stack.callback(server.end)
        url = server.waited_for(r"listening on (http://[\d.:]+)")
        workers: list[Process] = []
        logs: list[Path] = []

        def hire() -> Process:
            hired = Process(folder, f"worker{len(logs)}", ["cli", "worker"], environ)
            stack.callback(hired.end)
            logs.append(hired.log)
            return hired

        began = time.time()
        workers += [hire() for _ in range(arguments.workers)]
        watchers = [
            Thread(target=ask, args=(url, seen, stop)),
            Thread(target=watch_revisions, args=(database, seen, stop)),
        ]
        for watcher in watchers:
            watcher.start()
        try:
            for upset in _waited(arguments):
                seen.upsets.append(time.time())
                if upset is None:
                    restart(arguments.restart_command)
                else:
                    workers[upset].kill()
                    workers[upset] = hire()
                seen.upsets.append(time.time())
            ended = time.time()
            with psycopg.connect(_plain(database)) as connection:
                seen.under_way = leased(connection)
        finally:
            stop.set()
            for watcher in watchers:
                watcher.join()
        for worker in workers:
            worker.end()
        with psycopg.connect(_plain(database)) as connection:
            polls, paces = polls_of(connection)
            still = leased(connection, seen.upsets)
        told = [log.read_text("utf-8", "replace") for log in logs]
    return report(Found(seen, polls, paces, still, told, (began, ended)), arguments.slack)


def restart(command: str) -> None:
    """Restart PostgreSQL by the command that was given."""
    status = subprocess.run(shlex.split(command), check=False).returncode  # noqa: S603
    if status:
        raise SystemExit(f"the restart command ended with status {status}")


def _waited(arguments: argparse.Namespace) -> Iterator[int | None]:
    """The workers to kill, by number, and None for a restart: each when its time has come, evenly spread."""
    upsets: list[int | None] = [*range(arguments.workers)] if arguments.kill else []
    upsets += [None] if arguments.restart_command else []
    pause = arguments.seconds / (len(upsets) + 1)
    for upset in upsets:
        time.sleep(pause)
        yield upset
    time.sleep(pause)


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to judge by in the end."""

    seen: Seen
    polls: Sequence[Poll]
    paces: Mapping[Cell, Pace]
    still_leased: Sequence[Cell]
    logs: Sequence[str]
    between: tuple[float, float]
    """When it began and ended."""


def violations(found: Found, slack_s: float) -> Iterator[str]:
    """Whatever must not be."""
    seen = found.seen
    yield from polled_twice(found.polls, found.paces)
    yield from missed(found, slack_s)
    yield from (f"{' '.join(cell)}: left leased" for cell in found.still_leased)
    yield from seen.fallen
    yield from (f"{count} answers were `{said}`" for said, count in seen.answers.items() if said != GOOD)
    if not seen.answers:
        yield "no confirmed answer at all"
    if not seen.upsets and (vain := _lines(found, IN_VAIN)):
        yield f"{vain} polls were fetched in vain though nobody was killed"
    for log in found.logs:
        yield from (line for line in log.splitlines() if "Traceback" in line or "poll broke" in line)


def _lines(found: Found, text: str) -> int:
    return sum(log.count(text) for log in found.logs)


def report(found: Found, slack_s: float) -> int:
    """Print what was seen; returns the exit status."""
    seen = found.seen
    waits = sorted(seen.waits) or [0.0]
    away, back = _lines(found, "did not answer"), _lines(found, "answers again")
    print(f"{len(found.polls)} polls of {len(found.paces)} cells: {dict(Counter(poll.status for poll in found.polls))}")
    print(f"{len(seen.upsets) // 2} kills and restarts; {_lines(found, IN_VAIN)} polls in vain")
    print(f"lines of the log: {away} that the database did not answer, {back} that it did again")
    print(f"answers: {dict(seen.answers)}, median {waits[len(waits) // 2]:.3f} s, longest {waits[-1]:.3f} s")
    wrong = list(violations(found, slack_s))
    for line in wrong:
        print(f"VIOLATED: {line}")
    print("violated" if wrong else "all well")
    return 1 if wrong else 0


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description="Run many processes over one PostgreSQL and see that nothing is lost.")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default 600)")
    parser.add_argument("--clouds", default="", help="which simulated clouds, separated by commas (default all)")
    parser.add_argument("--workers", type=int, default=3, help="how many workers (default 3)")
    parser.add_argument("--database", default=SERVER, help="a database of the server, on which to make another")
    parser.add_argument("--kill", action="store_true", help="kill -9 each worker in turn, and start another")
    parser.add_argument("--restart-command", help="run this once, to restart PostgreSQL")
    parser.add_argument("--slack", type=float, default=SLACK_S, help="seconds that a poll may be late (default 2)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
