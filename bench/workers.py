"""Polls a second, by the number of `gpufare worker` processes.

The simulated Tencent Cloud answers each call 200 ms late. Every cell is due each second, which is more than all workers
together can poll. Each worker polls one cell at a time, so that four of them stay below the shared rate limit of 20
calls a second and action: what is measured is what a further process adds, and not the limit.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqlalchemy import Engine, func, select

from bench.clouds import LATENCY_MS, simulated, workers
from bench.databases import POSTGRESQL, SQLITE, Kind, missing
from bench.processes import BenchError, environment, wait_until
from bench.table import Line, at_least, skipped
from bench.writes import opened
from store.engine import reading
from store.tables import SYNCS

NAME = "workers"
COUNTS = (1, 2, 4)
SETTINGS = {
    "GPUFARE_ONLY": "tencent",
    "GPUFARE_WORKER__POLLS": "1",
    "GPUFARE_PROVIDERS__TENCENT__INTERVALS__STOCK": "1s",
    "GPUFARE_PROVIDERS__TENCENT__INTERVALS__MACHINES": "1s",
}


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    seconds = 2.0 if quick else 8.0
    counts = (1, 4) if quick else COUNTS
    for kind in (POSTGRESQL, SQLITE)[: 1 if quick else 2]:
        why = missing(kind)
        if why is not None:
            yield skipped(f"workers, {kind.name}", why)
            continue
        with tempfile.TemporaryDirectory(prefix="gpufare-bench-") as named:
            folder = Path(named)
            with simulated(["tencent"], folder) as clouds:
                yield from _on(kind, {count: _rate(kind, count, clouds, folder, seconds) for count in counts})


def _on(kind: Kind, rates: Mapping[int, float]) -> Iterator[Line]:
    yield Line(
        name=f"1 worker, {kind.name}",
        figure=rates[1],
        unit="polls/s",
        note=f"answers {LATENCY_MS} ms late, 1 at a time",
    )
    for count in list(rates)[1:]:
        held = at_least(3) if (kind, count) == (POSTGRESQL, 4) else None
        yield Line(
            name=f"{count} workers, {kind.name}",
            figure=rates[count],
            unit="polls/s",
            peer="1 worker",
            peer_figure=rates[1],
            limit=held,
        )


def _rate(kind: Kind, count: int, clouds: Mapping[str, str], folder: Path, seconds: float) -> float:
    """Polls a second of so many workers over a new database, once all regions are planned."""
    with kind.new() as url, opened(url) as engine:
        environ = environment(**{**clouds, **SETTINGS, "GPUFARE_DATABASE_URL": url})
        with workers(count, environ, folder):
            wait_until("the workers poll", lambda: _polls(engine) > 10 * count)
            before, start = _polls(engine), time.perf_counter()
            time.sleep(seconds)
            done, took = _polls(engine) - before, time.perf_counter() - start
        if failed := _polls(engine, failed=True):
            raise BenchError(f"{failed} polls failed: see {folder}")
        return done / took


def _polls(engine: Engine, *, failed: bool = False) -> int:
    query = select(func.count()).select_from(SYNCS)
    with reading(engine) as connection:
        return connection.execute(query.where(SYNCS.c.status == "failed") if failed else query).scalar_one()
