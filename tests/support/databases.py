"""The databases that tests use: a SQLite file in the test's folder, or a schema of a PostgreSQL database of our own.

A test module marked `both_databases` runs on both. Where no PostgreSQL answers, its second run is skipped and says so.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import Engine, make_url

from store.engine import migrate, open_engine
from store.tables import CELLS

SERVER = os.environ.get("GPUFARE_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
_NAME = f"gpufare_test_{os.getpid()}"
_kinds = ["sqlite"]
"""That of the running test is the last. No context variable: the threads that a test starts would not have it."""
_engines: list[Engine] = []
_taken: dict[Path, str] = {}
"""Folder -> the schema that stands for it, in the test that runs."""
_free: list[str] = []
"""Schemas with empty tables, left by earlier tests."""


def kind() -> str:
    """`sqlite` or `postgresql`: that of the test that runs."""
    return _kinds[-1]


def address(folder: Path) -> str:
    """The database of a folder: the same one each time within a test, and empty at first."""
    if kind() == "sqlite":
        return f"sqlite:///{folder / 'gpufare.db'}"
    if folder not in _taken:
        _taken[folder] = _free.pop() if _free else f"t{len(_taken)}_{len(_made())}"
        _make(_taken[folder])
    return _schema(_taken[folder])


def engine_at(folder: Path) -> Engine:
    """An engine over the database of a folder; its connections are closed when the test ends."""
    engine = open_engine(address(folder))
    _engines.append(engine)
    return engine


@contextmanager
def running_on(wanted: str) -> Iterator[None]:
    """What `address` gives meanwhile: `sqlite` or `postgresql`. Skips the test where that is not there."""
    if wanted == "postgresql":
        _database()
    _kinds.append(wanted)
    try:
        yield
    finally:
        _kinds.pop()
        for engine in _engines:
            engine.dispose()
        _engines.clear()
        for schema in _taken.values():
            _empty(schema)
            _free.append(schema)
        _taken.clear()


@contextmanager
def new_database() -> Iterator[str]:
    """The address of a PostgreSQL database of its own, without tables; dropped in the end. Skips without a server."""
    name = f"{_NAME}_{len(_counted())}"
    _counted().append(name)
    with _admin() as server:
        server.execute(f"CREATE DATABASE {name}")
    try:
        yield make_url(SERVER).set(database=name).render_as_string(hide_password=False)
    finally:
        with _admin() as server:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def drop() -> None:
    """Drop what was made, at the end of all tests."""
    if _database.cache_info().currsize:
        with _admin() as server:
            server.execute(f"DROP DATABASE {_NAME} WITH (FORCE)")


@cache
def _counted() -> list[str]:
    return []


@cache
def _made() -> list[str]:
    return []


@cache
def _missing() -> str | None:
    """Why there is no PostgreSQL to test on."""
    try:
        with psycopg.connect(_plain(SERVER), connect_timeout=3):
            return None
    except psycopg.OperationalError as error:
        return " ".join(str(error).split())


def _admin() -> "psycopg.Connection[tuple[object, ...]]":
    if missing := _missing():
        pytest.skip(f"no PostgreSQL at GPUFARE_TEST_POSTGRESQL, so this ran on SQLite alone: {missing}")
    return psycopg.connect(_plain(SERVER), autocommit=True)


@cache
def _database() -> str:
    with _admin() as server:
        server.execute(f"CREATE DATABASE {_NAME}")
    return make_url(SERVER).set(database=_NAME).render_as_string(hide_password=False)


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _schema(schema: str) -> str:
    return f"{_database()}?options={quote(f'-c search_path={schema}')}"


def _make(schema: str) -> None:
    if schema in _made():
        return
    _made().append(schema)
    with psycopg.connect(_plain(_database()), autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {schema}")
    engine = open_engine(_schema(schema))
    migrate(engine)
    engine.dispose()


def _empty(schema: str) -> None:
    tables = [f"{schema}.{name}" for name in CELLS.metadata.tables]
    with psycopg.connect(_plain(_database()), autocommit=True) as server:
        for (table,) in server.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall():
            if f"{schema}.{table}" not in tables and table != "alembic_version" and not table.endswith("_rest"):
                server.execute(f"DROP TABLE IF EXISTS {schema}.{table} CASCADE")
        server.execute("; ".join(f"DELETE FROM {table}" for table in tables))  # noqa: S608 - our own names
