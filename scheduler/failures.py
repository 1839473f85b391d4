"""Polls that failed, told together: a cloud that is down fails every place of a feed, and is one line for it."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import structlog

from store.record import Lease

GATHER_S = 5.0
"""How long the first failure of a cause waits for others of it: what fails at once is told at once."""
QUIET_S = 60.0
"""How long a cause that was told is not told again, while it is gathered."""
MOST_EXAMPLES = 3

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Cause:
    """What one line is about. `said` is without what differs from place to place."""

    provider: str
    feed: str
    kind: str
    said: str


@dataclass(slots=True)
class _Gathered:
    """What failed of a cause and was not told yet: each cell with what was said first."""

    due_at: float
    cells: dict[tuple[str, str], str] = field(default_factory=dict)


class Failures:
    """What failed, by cause, from any thread. Each is logged at `debug` as it comes, and told with others by `tell`."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = Lock()
        self._gathered: dict[_Cause, _Gathered] = {}
        self._quiet_until: dict[_Cause, float] = {}

    def add(self, lease: Lease, kind: str, said: str) -> None:
        """A poll failed."""
        log.debug(
            "a poll failed",
            provider=lease.provider,
            feed=lease.feed,
            place=lease.place,
            part=lease.part,
            kind=kind,
            error=said,
        )
        cause = _Cause(lease.provider, lease.feed, kind, _alike(lease, said))
        with self._lock:
            due_at = max(self._now_s() + GATHER_S, self._quiet_until.get(cause, 0.0))
            gathered = self._gathered.setdefault(cause, _Gathered(due_at))
            gathered.cells.setdefault((lease.place, lease.part), said)

    def tell(self, *, everything: bool = False) -> None:
        """Log a warning for each cause that was gathered for long enough; with `everything`, for each."""
        now_s = self._now_s()
        with self._lock:
            due = {cause: one for cause, one in self._gathered.items() if everything or one.due_at <= now_s}
            self._gathered = {cause: one for cause, one in self._gathered.items() if cause not in due}
            self._quiet_until = {cause: until for cause, until in self._quiet_until.items() if until > now_s}
            self._quiet_until |= dict.fromkeys(due, now_s + QUIET_S)
        for cause, gathered in due.items():
            _warn(cause, gathered.cells)


def _warn(cause: _Cause, cells: dict[tuple[str, str], str]) -> None:
    """One cell is named; of several, how many there are and the first of them."""
    (place, part), said = next(iter(cells.items()))
    which: dict[str, object] = {"place": place, "part": part}
    if len(cells) > 1:
        named = [" ".join(filter(None, cell)) for cell in list(cells)[:MOST_EXAMPLES]]
        which = {"cells": len(cells), "examples": ", ".join(named)}
    log.warning("poll failed", provider=cause.provider, feed=cause.feed, **which, kind=cause.kind, error=said)


_NUMBERS = re.compile(r"[0-9A-Fa-f-]{16,}|\d{4,}")
"""Ids of requests, ports, times."""


def _alike(lease: Lease, said: str) -> str:
    """What an error says without its cell's names and without numbers of its own: the same of each place."""
    for name in sorted(filter(None, (lease.place, lease.part)), key=len, reverse=True):
        said = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "…", said)
    return _NUMBERS.sub("#", said)
