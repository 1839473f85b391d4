"""A SQLite file that is deleted or replaced while it is open: noticed at each transaction, and the new one used.

An open connection goes on with a file that nobody else can see any more: polls would be recorded there, and answers be
read from it. So each connection remembers its file, and is closed where another stands in its place by now.
"""

import sqlite3
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

GONE = "its file is gone: put it back, or start gpufare anew, which makes a new one"
NOT_SQLITE = "it is not an SQLite database"
_WRITABLE = "make it writable, or name another in GPUFARE_DATABASE_URL"
_ADVICE = (
    (NOT_SQLITE, "name another in GPUFARE_DATABASE_URL, or move this one away and `gpufare sync` fills a new one"),
    ("readonly database", _WRITABLE),
    ("unable to open", _WRITABLE),
    ("disk is full", "make room on its disk"),
    ("is locked", "another program holds it: end that one, or wait for it"),
    (GONE, ""),
)
"""What SQLite says -> what to do. Of all else, such as "database disk image is malformed", the file is the cause."""
_DAMAGED = "if the disk is well and not full, the file is damaged: move it away, and `gpufare sync` fills a new one"
_FILE = "gpufare_file"
"""Under what a connection keeps which file it is of."""


class FileGone(sqlite3.OperationalError):
    """The file was there, and is no more. A connection would make an empty one in its place."""

    def __init__(self) -> None:
        super().__init__(GONE)


def plainly(why: str) -> str:
    """What SQLite says of a file, in words that say what it means."""
    return NOT_SQLITE if why == "file is not a database" else why


def file_advice(why: str) -> str:
    """What to do about a file of which SQLite says that; "" where it is said already."""
    return next((advice for said, advice in _ADVICE if said in plainly(why)), _DAMAGED)


class _File:
    """Which file an engine has open, and how often it turned out to be another one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._known: tuple[int, int] | None = None
        self._gone = False
        self.generation = 0

    def on_disk(self) -> tuple[int, int] | None:
        """The file that stands at the path; None where there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def connecting(self, *_about: object) -> None:
        """Raises FileGone rather than have an empty file made, once there was one."""
        if self._known is not None and self.on_disk() is None:
            self._gone = True
            raise FileGone

    def connected(self, _connection: object, record: Any) -> None:
        """Note the connection's file. One that was made in the place of a deleted one may have its very number."""
        found = record.info[_FILE] = self.on_disk()
        with self._lock:
            other = self._known is not None and (self._gone or found != self._known)
            self._known, self._gone = found, False
            self.generation += other
        if other:
            structlog.get_logger().warning("the database's file was replaced: going on with the new one")

    def taken(self, _connection: object, record: Any, _proxy: object) -> None:
        """Have a connection closed, and another opened, where its file is no longer the one at the path."""
        if record.info.get(_FILE) != self.on_disk():
            raise DisconnectionError("another file stands at the path")


_files: "WeakKeyDictionary[Engine, _File]" = WeakKeyDictionary()


def watch_file(engine: Engine, path: Path) -> None:
    """Have each transaction of the engine look whether its file is still the one at the path.

    From then on a transaction fails with FileGone inside while there is none, and uses the new one once it is there.
    """
    file = _files[engine] = _File(path)
    event.listen(engine, "do_connect", file.connecting)
    event.listen(engine, "connect", file.connected)
    event.listen(engine, "checkout", file.taken)


def generation(engine: Engine) -> int:
    """How often the file turned out to be another one: what was read of the one before does not hold. 0: PostgreSQL."""
    file = _files.get(engine)
    return 0 if file is None else file.generation
