"""Requests a second of `/cheapest`, over a route of the same server that returns the same ready-made bytes.

The server is a process of its own, as `gpufare api` runs it; the load comes from another one, over kept-alive
connections on loopback. `/cheapest` keeps an answer for the rest of its second: one question asked again and again is
mostly answered so, and of many in turn those that come round within it.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.databases import SQLITE
from bench.offers import market
from bench.processes import BenchError, environment, started, wait_until
from bench.rounds import Pairs, no_collection
from bench.selector import questions
from bench.table import Line, at_least
from bench.writes import claimed, opened, planned, recorded, stated
from store.times import utc_now

NAME = "serving"
CONNECTIONS = 16
ONE = "gpu=a100-80g"


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    size, rounds, seconds = (5_000, 3, 1.0) if quick else (100_000, 5, 3.0)
    with tempfile.TemporaryDirectory(prefix="gpufare-bench-") as named, SQLITE.new() as url:
        folder = Path(named)
        fill(url, size)
        with serving(url, folder) as port:
            for name, asked in (("one question", [first_plain()]), ("200 questions in turn", questions())):
                yield from _line(f"/cheapest, {name}", port, asked, rounds, seconds, folder)


def fill(url: str, size: int) -> None:
    """A database with so many offers, recorded now."""
    with no_collection():
        answers = stated(market(size))
    with opened(url) as engine:
        planned(engine, list(answers), utc_now())
        now = utc_now()
        recorded(engine, claimed(engine, now), answers, now)


def first_plain() -> str:
    """The first stored question that names an accelerator and nothing else."""
    return next(question for question in questions() if re.fullmatch(r"gpu=[^&,]+", question))


@contextmanager
def serving(url: str, folder: Path) -> Iterator[int]:
    """The port of a server over the database, once it answers."""
    told = folder / "server.stderr"
    with told.open("wb") as stderr, started(["bench.server", url], environment(), folder, stderr=stderr) as process:
        yield listening_port(told, process)


def listening_port(told: Path, process: "subprocess.Popen[bytes]") -> int:
    """The port that a server of ours says it listens on."""

    def said() -> "re.Match[str] | None":
        if process.poll() is not None:
            raise BenchError(f"the server ended: {told.read_text(encoding='utf-8')[-2000:]}")
        return re.search(r"listening on http://127\.0\.0\.1:(\d+)", told.read_text(encoding="utf-8"))

    wait_until("the server listens", said, patience_s=180)
    found = said()
    if found is None:
        raise BenchError("the server said where it listens, and then no more")
    return int(found[1])


def load(port: int, targets: Sequence[str], folder: Path, **how: float) -> Any:
    """What `bench.load` measures, in a process of its own."""
    asked = json.dumps({"port": port, "targets": list(targets), **how}).encode()
    pipe = subprocess.PIPE
    with started(["bench.load"], environment(), folder, stdin=pipe, stdout=pipe) as process:
        said, _ = process.communicate(asked)
    told = json.loads(said)
    if told["failed"]:
        raise BenchError(f"{told['failed']:.0f} requests of {targets[0]} … did not end in a 200")
    return told


def _line(name: str, port: int, asked: Sequence[str], rounds: int, seconds: float, folder: Path) -> Iterator[Line]:
    measured: dict[str, list[Any]] = {"ready-made": [], "cheapest": []}
    for _ in range(rounds):
        for route, told in measured.items():
            targets = [f"/{route}?{question}" for question in asked]
            told.append(load(port, targets, folder, connections=CONNECTIONS, seconds=seconds))
    peer, ours = measured["ready-made"], measured["cheapest"]
    found = Pairs([one["per_s"] for one in peer], [one["per_s"] for one in ours])
    yield Line(
        name=name,
        figure=found.figure,
        unit="requests/s",
        peer="ready-made bytes",
        peer_figure=found.peer_figure,
        ratio=found.ratio,
        limit=at_least(0.6),
        note=f"{CONNECTIONS} connections",
    )
    for percent in ("p50", "p99"):
        yield Line(
            name=f"{name}, {percent}",
            figure=median(one[f"{percent}_ms"] for one in ours),
            unit="ms",
            peer="ready-made bytes",
            peer_figure=median(one[f"{percent}_ms"] for one in peer),
        )
