"""10,000 events to ten receivers that fail half of the time, while the sender is killed every few seconds.

Every event must arrive, each under its one id with its one body, however often. The sender is a process of its own,
`python -m bench.deliveries URL`, which is ended by SIGKILL and begun again; the receivers are in this process.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from sqlalchemy import Engine

from bench.databases import POSTGRESQL, SQLITE, Kind, missing
from bench.processes import BenchError, environment, started
from bench.table import Line, skipped
from catalog.watches import Event, EventType, Format, Target
from scheduler.attempts import Pauses, SendingRules
from scheduler.sending import Sending
from store import outbox, watches
from store.clock import clock_of
from store.engine import migrate, open_engine, writing
from store.times import utc_now

NAME = "deliveries"
RECEIVERS = 10
KILLED_EVERY_S = 3.0
PATIENCE_S = 600.0
RULES = SendingRules(
    allow_private=True,
    timeout=timedelta(seconds=5),
    attempts=60,
    pauses=Pauses(timedelta(milliseconds=100), timedelta(seconds=2)),
    margin=timedelta(0),
)
"""As the settings may be; the lease of what a killed sender had is over after 5 s."""


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table. BenchError where an event is lost, or has two bodies."""
    count = 300 if quick else 10_000
    for kind in (SQLITE, POSTGRESQL):
        name, why = f"deliveries, {kind.name}, {count:,} events, half fail, sender killed", missing(kind)
        yield skipped(name, why) if why else _line(name, kind, count)


@dataclass(slots=True)
class _Receivers:
    """Ten paths on one port: each refuses every other request with 503, and keeps what it took."""

    port: int = 0
    requests: int = 0
    bodies: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    ready: Flag = field(default_factory=Flag)
    _loop: asyncio.AbstractEventLoop | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self) -> None:
        """Until `end`."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self._ended.wait()
        server.close()

    def end(self) -> None:
        """Let `serve` return; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ended.set)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests += 1
            took = self.requests % 2 == 0
            if took:
                self.bodies[headers["webhook-id"]].add(body)
            writer.write(f"HTTP/1.1 {200 if took else 503} X\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()


def _line(name: str, kind: Kind, count: int) -> Line:
    receivers = _Receivers()
    thread = Thread(target=lambda: asyncio.run(receivers.serve()))
    thread.start()
    try:
        receivers.ready.wait()
        with kind.new() as url:
            engine = open_engine(url)
            migrate(engine)
            ids = _put(engine, receivers.port, count)
            began = time.perf_counter()
            kills = _send(url, receivers, count)
            took_s = time.perf_counter() - began
            engine.dispose()
    finally:
        receivers.end()
        thread.join()
    _check(ids, receivers)
    note = f"{kills} kills, {receivers.requests:,} requests, all ids arrived, each with one body"
    return Line(name=name, figure=count / took_s, unit="events/s", note=note)


def _put(engine: Engine, port: int, count: int) -> set[str]:
    now = utc_now()
    names = [f"r{number}" for number in range(RECEIVERS)]
    for name in names:
        target = Target(name=name, format=Format.STANDARD, url=f"http://127.0.0.1:{port}/{name}", secret=_SECRET)
        watches.add_target(engine, watches.KeptTarget(target, now))
    events = [Event(outbox.new_event_id(), EventType.STOCK_OUT, now, {"number": number}) for number in range(count)]
    with writing(engine) as connection:
        for number, event in enumerate(events):
            outbox.put(connection, event, None, [names[number % RECEIVERS]], now)
    return {event.id for event in events}


_SECRET = "whsec_YSBzZWNyZXQgb2YgdGhlIGJlbmNoIGFsb25lIQ=="  # noqa: S105 - of receivers of this process


def _send(url: str, receivers: _Receivers, count: int) -> int:
    """Run senders one after the other until all has arrived; returns how many were killed."""
    module = ["bench.deliveries", url]
    kills, give_up = 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        with started(module, environment(), Path.cwd(), stdout=subprocess.DEVNULL, stderr=None) as process:
            end = time.monotonic() + KILLED_EVERY_S
            while len(receivers.bodies) < count and time.monotonic() < end:
                time.sleep(0.05)
            process.kill()
        if len(receivers.bodies) >= count:
            return kills
        kills += 1
    raise BenchError(f"{len(receivers.bodies)} of {count} events arrived within {PATIENCE_S:.0f} s")


def _check(ids: set[str], receivers: _Receivers) -> None:
    if receivers.bodies.keys() != ids:
        raise BenchError("what arrived has other ids than what was put")
    twice = [one for one, bodies in receivers.bodies.items() if len({_data(body) for body in bodies}) != 1]
    if twice:
        raise BenchError(f"{len(twice)} ids came with two bodies, such as {twice[0]}")


def _data(body: bytes) -> str:
    return json.dumps(json.loads(body), sort_keys=True)


def _main(url: str) -> None:
    engine = open_engine(url)
    Sending(engine, clock_of(engine), RULES).start()
    Flag().wait()


if __name__ == "__main__":
    _main(*sys.argv[1:])
