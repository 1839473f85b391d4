"""Opening the database, SQLite or PostgreSQL, and its transactions: what differs between the two stands here."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from store.sqlite_file import NOT_SQLITE, FileGone, file_advice, plainly, watch_file

BUSY_MS = 30_000
"""How long a writer waits for another: longer than any transaction of ours."""
CONNECT_S = 10
"""How long a server may take to answer before it counts as not there."""
_ALIVE = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": BUSY_MS}
"""A server that is cut off without a word is given up within half a minute, not when TCP does: after a quarter hour."""
_ADDRESSES = "sqlite:////path/gpufare.db or postgresql+psycopg://USER@HOST/DATABASE"


class DatabaseError(Exception):
    """The database cannot be used. Says which, why and what to do."""


def open_engine(url: str) -> Engine:
    """An engine for the URL; a SQLite file's folder is made. Nothing is connected to yet.

    Raises DatabaseError for an address of another kind, and where the folder cannot be made.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: a port that is no number
        raise _not_an_address() from error
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        return _sqlite(parsed)
    if kind == "postgresql":
        _require_one_at(url)
        return _postgresql(parsed)
    raise DatabaseError(f"GPUFARE_DATABASE_URL names {kind}: write {_ADDRESSES}")


def _require_one_at(url: str) -> None:
    """A second `@` is part of a password that is not escaped: it would be taken for the host, and shown in errors."""
    if url.count("@") > 1:
        raise DatabaseError("GPUFARE_DATABASE_URL has more than one @: write %40 for each in its user and password")


def is_postgresql(engine: Engine | Connection) -> bool:
    """Whether it is PostgreSQL; else it is SQLite."""
    return engine.dialect.name == "postgresql"


def _sqlite(url: URL) -> Engine:
    if (url.database or "").startswith("file:"):
        raise _not_an_address()
    file = None
    if url.database and url.database != ":memory:":
        file = _made_folder_of(Path(url.database).expanduser())
        url = url.set(database=str(file))
    engine = create_engine(url, connect_args={"timeout": BUSY_MS / 1000, "check_same_thread": False})
    if file is not None:
        watch_file(engine, file)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _postgresql(url: URL) -> Engine:
    if url.get_driver_name() not in ("psycopg", "psycopg2"):  # psycopg2: what SQLAlchemy takes a bare postgresql:// for
        raise DatabaseError(f"GPUFARE_DATABASE_URL names the driver {url.get_driver_name()}: write {_ADDRESSES}")
    limits = f"-c lock_timeout={BUSY_MS} -c idle_in_transaction_session_timeout={2 * BUSY_MS}"
    given = url.query.get("options", "")
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,  # after a restart of the server the next transaction finds a new connection
            pool_size=5,
            max_overflow=15,  # threads wait for clouds, not for the database: PostgreSQL's usual 100 serve 5 processes
            connect_args={
                "connect_timeout": CONNECT_S,
                **_ALIVE,
                "application_name": "gpufare",
                "options": f"{limits} {given if isinstance(given, str) else ' '.join(given)}",
            },
        )
    except ArgumentError as error:  # no such driver; a port in the query that is no number
        raise _not_an_address() from error


def _made_folder_of(file: Path) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise _unusable(str(file), "it is a folder", "name a file in GPUFARE_DATABASE_URL")
    except OSError as error:
        why, advice = error.strerror or str(error), "make its folder writable, or name another in GPUFARE_DATABASE_URL"
        raise _unusable(str(file), why, advice) from error
    return file


def _not_an_address() -> DatabaseError:
    return DatabaseError(f"GPUFARE_DATABASE_URL is not a database address like {_ADDRESSES}")


_OTHER_VERSION = "run that version of gpufare, or name another database in GPUFARE_DATABASE_URL"
_SECRET = ("password", "sslpassword", "passfile")
"""What a PostgreSQL address may hold beside its user's password."""
_SERVER = "is the server running, and is GPUFARE_DATABASE_URL right?"


def _unusable(where: str, why: str, advice: str) -> DatabaseError:
    return DatabaseError(unusable(where, why, advice))


def unusable(where: str, why: str, advice: str) -> str:
    """The sentence about a database that cannot be used; without an advice where `why` says what to do."""
    return "; ".join(filter(None, (f"the database {where} cannot be used: {why}", advice)))


def shown(engine: Engine) -> str:
    """Which database it is, for people: the file, or the address without its password."""
    url = engine.url
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.difference_update_query(_SECRET).render_as_string(hide_password=True)


_NO_TABLE = "42P01"
"""PostgreSQL's code for a table that there is not."""


def why_unusable(error: SQLAlchemyError) -> str:
    """What an error means where a person can mend it; else its kind. Names no file and no server."""
    said = getattr(error, "orig", None)
    if isinstance(said, FileGone) or plainly(str(said)) == NOT_SQLITE:
        return plainly(str(said))
    no_table = getattr(said, "sqlstate", None) == _NO_TABLE or "no such table" in str(said)
    return "it has no tables: `gpufare migrate` makes them" if no_table else type(error).__name__


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
    options: dict[str, Any] = {"reads": True}
    if is_postgresql(engine):
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes, all or nothing.

    On SQLite it is the only writer. On PostgreSQL it waits for the rows that it writes: one that changes many cells at
    once asks for its turn first (`in_turn`), so that no two wait for each other.
    """
    with engine.begin() as connection:
        yield connection


def in_turn(connection: Connection, matter: str) -> None:
    """Wait until no other transaction has the turn in this matter; it is ours until this one ends."""
    if is_postgresql(connection):
        key = int.from_bytes(blake2b(matter.encode(), digest_size=8).digest(), "big", signed=True)
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (key,))


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
            in_turn(connection, "migrate")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DBAPIError as error:
        why = " ".join(str(error.orig).split())
        advice = _SERVER if is_postgresql(engine) else file_advice(why)
        raise _unusable(shown(engine), plainly(why), advice) from error
    except CommandError as error:
        why = f"a newer version of gpufare wrote it ({error})"
        raise _unusable(shown(engine), why, _OTHER_VERSION) from error
