"""The loop that keeps the board up to date while the server runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError

from api.board import Board
from api.config import ApiConfig
from store.clock import read_again
from store.waking import Waker


class Refreshing:
    """Reads the changes again and again, the database work in a thread. `died` once it ended before it was told to."""

    def __init__(self, board: Board, config: ApiConfig, waker: Waker) -> None:
        self._board, self._config, self._waker = board, config, waker
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def died(self) -> bool:
        """Whether the loop ended by a fault of ours: what the board holds only grows older then."""
        return self._task is not None and self._task.done() and not self._stop.is_set()

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        """Load everything before the first request is taken, then follow the changes until the server ends."""
        await self._refresh()
        self._task = asyncio.create_task(self._follow())
        self._task.add_done_callback(_tell_of_death)
        yield
        self._stop.set()
        self._waker.stop()
        await self._task

    async def _follow(self) -> None:
        while not self._stop.is_set():
            await asyncio.to_thread(self._waker.wait)
            if not self._stop.is_set():
                await self._refresh()

    async def _refresh(self) -> None:
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        with suppress(SQLAlchemyError):  # the board tells of a database that does not answer
            read_again(self._config.clock)
        self._board.refresh(self._config.clock())


def _tell_of_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        structlog.get_logger().error("no longer reading changes: restart the server", exc_info=error)
