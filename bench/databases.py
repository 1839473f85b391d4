"""Databases for a bench: new ones, gone afterwards. PostgreSQL only where there is one."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

SERVER = "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
VARIABLE = "GPUFARE_BENCH_POSTGRESQL"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of database, and how to make a new one: its URL, for as long as the block runs."""

    name: str
    new: Callable[[], AbstractContextManager[str]]


@contextmanager
def new_sqlite() -> Iterator[str]:
    """A file in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="gpufare-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'bench.db'}"


@contextmanager
def new_postgresql() -> Iterator[str]:
    """A database of the server that the variable names."""
    name = f"gpufare_bench_{os.getpid()}_{os.urandom(4).hex()}"
    _at_server(f'CREATE DATABASE "{name}"')
    try:
        yield make_url(_server()).set(database=name).render_as_string(hide_password=False)
    finally:
        _at_server(f'DROP DATABASE "{name}" WITH (FORCE)')


SQLITE = Kind("SQLite", new_sqlite)
POSTGRESQL = Kind("PostgreSQL", new_postgresql)


def missing(kind: Kind) -> str | None:
    """Why there is no database of this kind here; None where there is one."""
    if kind is SQLITE:
        return None
    import psycopg

    try:
        _at_server("SELECT 1")
    except psycopg.OperationalError:
        return f"skipped: no PostgreSQL at {make_url(_server()).render_as_string()} ({VARIABLE})"
    return None


def driver_url(url: str) -> str:
    """The address as the driver writes it, without SQLAlchemy's own words."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _server() -> str:
    return os.environ.get(VARIABLE, SERVER)


def _at_server(statement: str) -> None:
    import psycopg

    with psycopg.connect(driver_url(_server()), autocommit=True, connect_timeout=5) as connection:
        connection.execute(statement.encode())
