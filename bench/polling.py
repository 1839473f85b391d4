"""One pass of `gpufare sync` over every region of every simulated cloud that has an SDK, each answer 200 ms late.

Its process loads all the SDKs. The slow price feed of Alibaba Cloud, which asks about one machine at a time, has a line
of its own: the other one tells when the last poll beside it had ended.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter

from sqlalchemy import Engine, func, select

from bench.clouds import LATENCY_MS, simulated
from bench.databases import SQLITE
from bench.processes import BenchError, environment, started, told_mib
from bench.table import Line, figure_at_most
from bench.writes import opened
from store.engine import reading
from store.tables import SYNCS

NAME = "polling"
CLOUDS = ("alibaba", "aws", "azure", "gcp", "tencent", "ucloud")
SLOW = ("alibaba", "prices")
SOME_FAILED = 3
"""The exit status of a pass of which some cells failed: the demo has regions that refuse every call."""


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    clouds = ("tencent", "ucloud") if quick else CLOUDS
    with tempfile.TemporaryDirectory(prefix="gpufare-bench-") as named, SQLITE.new() as url, opened(url) as engine:
        folder = Path(named)
        with simulated(clouds, folder) as told:
            began = perf_counter()
            held = _synced(environment(**{**told, "GPUFARE_DATABASE_URL": url}), folder)
            took = perf_counter() - began
        polls, first, last = _beside_the_slow(engine)
        note = f"{polls} polls, answers {LATENCY_MS} ms late"
        beside = (last - first).total_seconds()
        yield Line(
            name="all regions, without Alibaba's price feed",
            figure=beside,
            unit="s",
            limit=figure_at_most(60, "s"),
            note=note,
        )
        yield Line(name="all regions, with it", figure=took, unit="s", note="its start too")
        yield Line(name="memory with all SDKs in use", figure=held, unit="MiB", limit=figure_at_most(600, "MiB"))


def _synced(environ: dict[str, str], folder: Path) -> float:
    """One pass; the most that its process held, in MiB."""
    held = folder / "held"
    tell = f"import atexit, shutil; atexit.register(shutil.copyfile, '/proc/self/status', {str(held)!r})"
    run = "import runpy, sys; sys.argv = ['cli', 'sync', '--json']; runpy.run_module('cli', run_name='__main__')"
    with started(["-c", f"{tell}; {run}"], environ, folder, python=(sys.executable, "-P")) as process:
        status = process.wait()
    if status not in (0, SOME_FAILED):
        kept = shutil.copytree(folder, tempfile.mkdtemp(prefix="gpufare-bench-failed-"), dirs_exist_ok=True)
        raise BenchError(f"gpufare sync ended with status {status}: see {kept}")
    return told_mib(held, "VmHWM")


def _beside_the_slow(engine: Engine) -> tuple[int, datetime, datetime]:
    """How many polls there were but for the slow feed's, when the first began and when the last had ended."""
    slow = (SYNCS.c.provider == SLOW[0]) & (SYNCS.c.feed == SLOW[1])
    query = select(SYNCS.c.started_at, SYNCS.c.seconds).where(~slow)
    with reading(engine) as connection:
        polls = connection.execute(query).all()
        first = connection.execute(select(func.min(SYNCS.c.started_at))).scalar_one()
    if not polls:
        raise BenchError("nothing was polled")
    return len(polls), first, max(started_at + timedelta(seconds=seconds) for started_at, seconds in polls)
