"""How long each role takes to start, and what it holds in memory then.

The database is there already, with the bundled list prices and nothing to poll. The peer is a Python that imports the
web framework and the database's own packages: what a program of this kind cannot do without.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.databases import SQLITE
from bench.processes import BenchError, answers, environment, memory_mib, started, told_mib, wait_until
from bench.rounds import Pairs
from bench.serving import listening_port
from bench.table import Line

NAME = "starting"
PEER = "import fastapi, sqlalchemy"
SETTINGS = {"GPUFARE_ONLY": "azure,tencent"}
"""One provider with bundled prices, and one that cannot be polled without credentials: nothing goes out."""


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until it was there, and MiB then."""

    seconds: float
    mib: float


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    with tempfile.TemporaryDirectory(prefix="gpufare-bench-") as named, SQLITE.new() as url:
        folder = Path(named)
        environ = environment(**SETTINGS, GPUFARE_DATABASE_URL=url)
        _to_its_end(_module("cli", "migrate"), environ, folder)
        roles: dict[str, Callable[[], Start]] = {
            "gpufare --help": lambda: _to_its_end(_module("cli", "--help"), environ, folder),
            "gpufare api, until ready": lambda: _server("api", environ, folder),
            "gpufare worker, until its first tick": lambda: _worker(environ, folder),
            "gpufare serve, until ready": lambda: _server("serve", environ, folder),
        }
        for name, start in roles.items():
            yield from _lines(name, start, lambda: _to_its_end(PEER, environ, folder), quick)


def _lines(name: str, ours: Callable[[], Start], peer: Callable[[], Start], quick: bool) -> Iterator[Line]:
    found = [(peer(), ours()) for _ in range(1 if quick else 2)]
    seconds = Pairs([one.seconds for one, _ in found], [one.seconds for _, one in found])
    memory = Pairs([one.mib for one, _ in found], [one.mib for _, one in found])
    for unit, pairs, what in (("s", seconds, ""), ("MiB", memory, ", memory")):
        yield Line(
            name=name + what,
            figure=pairs.figure,
            unit=unit,
            peer=PEER,
            peer_figure=pairs.peer_figure,
            ratio=pairs.ratio,
        )


def _module(name: str, *arguments: str) -> str:
    """The code that runs a module as `python -m` does."""
    return f"import runpy, sys; sys.argv = {[name, *arguments]}; runpy.run_module({name!r}, run_name='__main__')"


def _to_its_end(code: str, environ: Mapping[str, str], folder: Path) -> Start:
    """A program that ends by itself; its memory is the most that it held, as it tells when it ends."""
    held = folder / "held"
    tell = f"import atexit, shutil; atexit.register(shutil.copyfile, '/proc/self/status', {str(held)!r})"
    start = perf_counter()
    with started(["-c", f"{tell}; {code}"], environ, folder, python=(sys.executable, "-P")) as process:
        status = process.wait()
    took = perf_counter() - start
    if status:
        raise BenchError(f"{code} ended with status {status}")
    return Start(took, told_mib(held, "VmHWM"))


def _server(role: str, environ: Mapping[str, str], folder: Path) -> Start:
    told = folder / f"{role}.stderr"
    begun = perf_counter()
    with told.open("wb") as stderr, started(["cli", role, "--port", "0"], environ, folder, stderr=stderr) as process:
        port = listening_port(told, process)
        wait_until(f"{role} is ready", lambda: answers(f"http://127.0.0.1:{port}/readyz"))
        took = perf_counter() - begun
        wait_until("its children are there", lambda: role == "api" or _children(process.pid))
        return Start(took, sum(map(memory_mib, [process.pid, *_children(process.pid)])))


def _worker(environ: Mapping[str, str], folder: Path) -> Start:
    alive = folder / f"alive-{perf_counter()}"
    begun = perf_counter()
    with started(["cli", "worker", "--alive-file", str(alive)], environ, folder) as process:
        wait_until("the worker ticks", alive.exists)
        return Start(perf_counter() - begun, memory_mib(process.pid))


def _children(process_id: int) -> list[int]:
    """The processes that a process has started, as Linux tells."""
    told = [task.read_text(encoding="ascii") for task in Path(f"/proc/{process_id}/task").glob("*/children")]
    return [int(number) for text in told for number in text.split()]
