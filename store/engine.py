"""Opening the database, and bringing its tables to this version."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

BUSY_MS = 30_000
"""How long a writer waits for another: longer than any transaction of ours."""


class DatabaseError(Exception):
    """The database cannot be used. Says which, why and what to do."""


def open_engine(url: str) -> Engine:
    """An engine for the URL; a SQLite file's folder is made.

    Raises DatabaseError for an address of another kind, and where the folder cannot be made.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise _not_an_address() from error
    if parsed.get_backend_name() != "sqlite":
        raise DatabaseError(f"GPUFARE_DATABASE_URL names {parsed.get_backend_name()}: this version keeps SQLite only")
    if (parsed.database or "").startswith("file:"):
        raise _not_an_address()
    if parsed.database and parsed.database != ":memory:":
        parsed = parsed.set(database=str(_made_folder_of(Path(parsed.database).expanduser())))
    engine = create_engine(parsed, connect_args={"timeout": BUSY_MS / 1000, "check_same_thread": False})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _made_folder_of(file: Path) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(str(file), error.strerror or str(error)) from error
    return file


def _not_an_address() -> DatabaseError:
    return DatabaseError("GPUFARE_DATABASE_URL is not a database address like sqlite:////path/gpufare.db")


def _unusable(where: str, why: str) -> DatabaseError:
    return DatabaseError(
        f"the database {where} cannot be used: {why}; make it writable, or name another in GPUFARE_DATABASE_URL"
    )


def _on_connect(connection: Any, _record: object) -> None:
    # The driver's own BEGIN is deferred, and a deferred transaction that turns to writing fails when another wrote
    # first (20 of 40 concurrent merges did). So we begin ourselves, below.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", f"busy_timeout={BUSY_MS}", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
"""How a driver writes a parameter that is given by position, by its DB-API paramstyle."""


def placeholder(dialect: Dialect) -> str:
    """A parameter of a raw statement, as the database's driver writes it."""
    return PLACEHOLDERS[dialect.paramstyle]


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads: it sees one state and waits for no writer."""
    with engine.connect().execution_options(reads=True) as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes, all or nothing."""
    with engine.begin() as connection:
        yield connection


def migrate(engine: Engine) -> None:
    """Bring the tables to this version. Safe to call from several processes at once.

    Raises DatabaseError for what cannot be opened or written, is no database, or was written by a newer version.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with writing(engine) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DBAPIError as error:
        raise _unusable(str(engine.url.database), str(error.orig)) from error
    except CommandError as error:
        why = f"a newer version of gpufare wrote it ({error})"
        raise _unusable(str(engine.url.database), why) from error
