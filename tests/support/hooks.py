"""Receivers of webhooks on this machine: real HTTP, hundreds at once, that do as a test tells them path by path."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any

CLOSE = "close"
"""Read the request, and end the connection without a word."""
HANG = "hang"
"""Read the request, and never answer."""
HOLD = "hold"
"""Read the request, and take it once it is released."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""

    def written(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} X", f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, *(f"{k}: {v}" for k, v in self.headers.items()), "", self.body]).encode()


OK = Answer(200)
Behave = Callable[[int], Answer | str]
"""From the number of a request to its path, from 0, to what becomes of it."""


@dataclass(frozen=True)
class Got:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.body)
        return told


class Hooks:
    """All receivers of a test, on one port. `behave[path]` says what each does; by itself it takes what comes."""

    def __init__(self) -> None:
        self.behave: dict[str, Behave] = {}
        self.hanging = 0
        self._got: list[Got] = []
        self._lock = Lock()

    def got(self, path: str | None = None) -> list[Got]:
        """What came so far, in order."""
        with self._lock:
            return [one for one in self._got if path in (None, one.path)]

    def ids(self, path: str | None = None) -> list[str]:
        return [one.id for one in self.got(path)]

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, ready: Event) -> None:
        self._ended, self._released = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0, backlog=2000)
        self.port: int = server.sockets[0].getsockname()[1]
        ready.set()
        await self._ended.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def release(self) -> None:
        """Answer what is held, and hold nothing from now on."""
        self._loop.call_soon_threadsafe(self._released.set)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            answer = self._answer(await _request(reader))
            if answer == HOLD:
                await self._released.wait()
                answer = OK
            if answer == HANG:
                self.hanging += 1
                await reader.read()
                self.hanging -= 1
            elif isinstance(answer, Answer):
                writer.write(answer.written())
                await writer.drain()
        writer.close()

    def _answer(self, got: Got) -> Answer | str:
        with self._lock:
            number = sum(one.path == got.path for one in self._got)
            self._got.append(got)
        behave = self.behave.get(got.path)
        return OK if behave is None else behave(number)


async def _request(reader: asyncio.StreamReader) -> Got:
    line, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    known = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in headers)}
    return Got(line.split(" ")[1], known, await reader.readexactly(int(known["content-length"])))


@contextmanager
def hooks() -> Iterator[Hooks]:
    """Receivers, until the block ends."""
    found, ready = Hooks(), Event()
    thread = Thread(target=lambda: asyncio.run(found.serve(ready)))
    thread.start()
    assert ready.wait(30)
    try:
        yield found
    finally:
        found.end()
        thread.join()
