"""How long `/cheapest` takes while everything is polled anew, over idle.

`gpufare api` and `gpufare worker` are processes over one database with list prices of some ten thousand offers and what
the simulated clouds say. Requests come at a fixed rate, whether or not the last ones were answered. Idle, no cell is
due; then every cell is made due every two seconds, and every price is another one each time.
"""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from bench.clouds import simulated, steer, workers
from bench.databases import POSTGRESQL, SQLITE, Kind, missing
from bench.offers import market
from bench.processes import answers, environment, started, wait_until
from bench.rounds import Pairs, no_collection
from bench.selector import questions
from bench.serving import listening_port, load
from bench.table import Line, at_most, skipped
from bench.writes import claimed, opened, planned, recorded, stated
from store.engine import reading
from store.schedule import make_due
from store.tables import CELLS, SYNCS
from store.times import utc_now

NAME = "syncing"
RATE = 100.0
POLLED = ("tencent", "aws")
LISTED = frozenset({"azure", "gcp", "alibaba"})
"""Providers that are not polled: their offers are there, and stay as they are."""
AGAIN_S = 2.0
FEEDS = {"TENCENT": ("STOCK", "MACHINES", "PLACES"), "AWS": ("SPOT", "MACHINES", "PLACES", "PRICES", "SCORES")}


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    rounds, seconds, size = (1, 2.0, 3_000) if quick else (4, 5.0, 60_000)
    for kind in (POSTGRESQL, SQLITE)[: 1 if quick else 2]:
        why = missing(kind)
        if why is not None:
            yield skipped(f"API during a full sync, {kind.name}", why)
            continue
        with tempfile.TemporaryDirectory(prefix="gpufare-bench-") as named:
            yield from _on(kind, Path(named), rounds, seconds, size)


def _on(kind: Kind, folder: Path, rounds: int, seconds: float, size: int) -> Iterator[Line]:
    with (
        kind.new() as url,
        opened(url) as engine,
        simulated(POLLED, folder, latency_ms=50) as clouds,
        _running(engine, url, clouds, folder, size) as port,
    ):
        asked = [f"/cheapest?{one}" for one in questions() if answers(f"http://127.0.0.1:{port}/cheapest?{one}")]

        def measured() -> Any:
            return load(port, asked, folder, rate=RATE, seconds=seconds)

        idle, busy, polls = [], [], 0
        for _ in range(rounds):
            idle.append(measured())
            before = _polls(engine)
            with _everything_anew(engine, clouds):
                busy.append(measured())
            polls += _polls(engine) - before
            _wait_for_idle(engine)
    for percent in ("p50", "p99"):
        found = Pairs([one[f"{percent}_ms"] for one in idle], [one[f"{percent}_ms"] for one in busy])
        yield Line(
            name=f"/cheapest during a full sync, {kind.name}, {percent}",
            figure=found.figure,
            unit="ms",
            peer="idle",
            peer_figure=found.peer_figure,
            ratio=found.ratio,
            limit=at_most(2) if percent == "p99" else None,
            note=f"{RATE:g} requests/s, {polls / rounds / seconds:.0f} polls/s" if percent == "p99" else "",
        )


@contextmanager
def _running(engine: Engine, url: str, clouds: Mapping[str, str], folder: Path, size: int) -> Iterator[int]:
    """The port of the API, a worker beside it, once all cells were polled and nothing is due."""
    listed(engine, size)
    environ = environment(**{**clouds, **_hourly(), "GPUFARE_DATABASE_URL": url})
    told = folder / "api.stderr"
    with (
        workers(1, environ, folder),
        told.open("wb") as stderr,
        started(["cli", "api", "--port", "0"], environ, folder, stderr=stderr) as process,
    ):
        port = listening_port(told, process)
        wait_until("the API is ready", lambda: answers(f"http://127.0.0.1:{port}/readyz"))
        wait_until("all regions are planned", lambda: _cells(engine) > 30)
        _wait_for_idle(engine)
        yield port


def listed(engine: Engine, size: int) -> None:
    """Offers of the providers that are not polled, recorded now."""
    with no_collection():
        answered = stated({key: sales for key, sales in market(size).items() if key[0] in LISTED})
    now = utc_now()
    planned(engine, list(answered), now)
    recorded(engine, claimed(engine, now), answered, now)


def _hourly() -> dict[str, str]:
    """Intervals so long that nothing is due unless it is made so."""
    only = {"GPUFARE_ONLY": ",".join([*POLLED, *sorted(LISTED)])}
    intervals = {
        f"GPUFARE_PROVIDERS__{provider}__INTERVALS__{feed}": "6h" for provider, feeds in FEEDS.items() for feed in feeds
    }
    return intervals | only


@contextmanager
def _everything_anew(engine: Engine, clouds: Mapping[str, str]) -> Iterator[None]:
    """Every price is changed and every cell made due, again and again."""
    stop = threading.Event()
    percents = cycle((103, 100))

    def again() -> None:
        while not stop.is_set():
            percent = next(percents)
            for provider in POLLED:
                steer(
                    clouds, "set", {"provider": provider, "match": {"region": "*"}, "set": {"price_percent": percent}}
                )
            make_due(engine, utc_now(), POLLED)
            stop.wait(AGAIN_S)

    running = threading.Thread(target=again)
    running.start()
    try:
        yield
    finally:
        stop.set()
        running.join()


def _wait_for_idle(engine: Engine) -> None:
    wait_until("everything was polled", lambda: not _due(engine), every_s=0.2)


def _due(engine: Engine) -> int:
    waiting = (CELLS.c.due_at <= utc_now()) | CELLS.c.token.is_not(None)
    query = select(func.count()).where(CELLS.c.planned, CELLS.c.provider.in_(POLLED), waiting)
    return _number(engine, query)


def _polls(engine: Engine) -> int:
    return _number(engine, select(func.count()).select_from(SYNCS))


def _cells(engine: Engine) -> int:
    return _number(engine, select(func.count()).where(CELLS.c.planned, CELLS.c.provider.in_(POLLED)))


def _number(engine: Engine, query: Any) -> int:
    with reading(engine) as connection:
        return int(connection.execute(query).scalar_one())
