"""An HTTP client that measures a server on this machine: raw sockets kept alive, one process, nothing else in it.

`python -m bench.load` reads a JSON object from standard input (`port`, `targets`, `seconds`, and `connections` or
`rate`) and prints one: `per_s`, `p50_ms`, `p99_ms`, `failed`.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter
from typing import Any, cast

from bench.rounds import percentile

WARM_UP = 50
"""Requests before the clock runs."""
MOST_OPEN = 64
"""Connections of an open loop: more requests than that at once wait, and their waiting counts."""


class _Connection(asyncio.Protocol):
    """A connection with at most one request under way."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._whole: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = cast("asyncio.Transport", transport)  # a TCP connection's

    def connection_lost(self, _error: Exception | None) -> None:
        """Fail the request under way."""
        if self._whole is not None and not self._whole.done():
            self._whole.set_result(0)

    async def ask(self, request: bytes) -> int:
        """The status of the answer, once its body is in; 0 where the connection was closed."""
        if self._transport is None or self._transport.is_closing():
            return 0
        self._whole = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._whole

    def close(self) -> None:
        """Leave the server alone."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """End the request when the whole answer is in."""
        self._buffer += data
        head, blank, body = self._buffer.partition(b"\r\n\r\n")
        if blank and len(body) >= _length(head) and self._whole is not None:
            self._buffer = b""
            self._whole.set_result(int(head.split(b" ", 2)[1]))


def _length(head: bytes) -> int:
    lower = head.lower()
    start = lower.index(b"content-length:") + len(b"content-length:")
    return int(lower[start:].split(b"\r\n", 1)[0])


@dataclass(slots=True)
class _Seen:
    """What was measured: seconds of each request, and how many did not end in a 200."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def add(self, started: float, status: int) -> None:
        self.seconds.append(perf_counter() - started)
        self.failed += status != 200

    def told(self, took_s: float) -> dict[str, float]:
        return {
            "per_s": len(self.seconds) / took_s,
            "p50_ms": percentile(self.seconds, 50) * 1000,
            "p99_ms": percentile(self.seconds, 99) * 1000,
            "failed": self.failed,
        }


@asynccontextmanager
async def _connected(port: int, count: int) -> AsyncIterator[list[_Connection]]:
    """So many connections, closed afterwards."""
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(_Connection, "127.0.0.1", port))[1] for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.close()


async def closed_loop(port: int, targets: Sequence[str], connections: int, seconds: float) -> dict[str, float]:
    """Each connection asks again as soon as it was answered."""
    requests = _requests(targets)
    async with _connected(port, connections) as opened:
        for _ in range(WARM_UP):
            await opened[0].ask(next(requests))
        seen, start = _Seen(), perf_counter()

        async def ask(connection: _Connection) -> None:
            while (asked := perf_counter()) < start + seconds:
                seen.add(asked, await connection.ask(next(requests)))

        await asyncio.gather(*map(ask, opened))
        return seen.told(perf_counter() - start)


async def open_loop(port: int, targets: Sequence[str], rate: float, seconds: float) -> dict[str, float]:
    """So many requests a second, whether or not the last ones were answered; each counts from when it was due."""
    requests = _requests(targets)
    async with _connected(port, MOST_OPEN) as opened:
        free: asyncio.Queue[_Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)
        seen, start = _Seen(), perf_counter()

        async def ask(due: float) -> None:
            connection = await free.get()
            seen.add(due, await connection.ask(next(requests)))
            free.put_nowait(connection)

        under_way = set()
        for number in range(round(rate * seconds)):
            due = start + number / rate
            await asyncio.sleep(due - perf_counter())
            under_way.add(asyncio.create_task(ask(due)))
        await asyncio.gather(*under_way)
        return seen.told(perf_counter() - start)


def _requests(targets: Sequence[str]) -> Iterator[bytes]:
    """The requests for the targets, in turn and without end."""
    return cycle([f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for target in targets])


def _main() -> None:
    asked: dict[str, Any] = json.load(sys.stdin)
    loop = open_loop(**asked) if "rate" in asked else closed_loop(**asked)
    sys.stdout.write(json.dumps(asyncio.run(loop)))


if __name__ == "__main__":
    _main()
