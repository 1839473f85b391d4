"""The database file: opened, brought to this version, and refused in a sentence where it cannot be used."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Boolean, Engine, insert, inspect, make_url, select
from sqlalchemy.exc import StatementError
from sqlmodel import SQLModel

from catalog.facts import Fact, Region
from store import schedule
from store.engine import DatabaseError, migrate, open_engine, placeholder, reading, writing
from store.rows import KINDS, series_of, sort_facts
from store.tables import CELLS, FACTS, LIMITS
from store.times import instant, micros
from tests.support.databases import new_database
from tests.support.stored import T0, Cloud, machine, opened, planned_cell, price, rows, stock

ROOT = Path(__file__).parent.parent


PARTITIONS = {"price_log_rest", "stock_log_rest"}
"""Tables that stand behind others on PostgreSQL."""


def differences(engine: Engine) -> list[Any]:
    """What a database has that the tables do not say, or the other way round."""

    def ours(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
        return not (kind == "table" and name in PARTITIONS)

    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours, "compare_type": True})
        return list(compare_metadata(context, SQLModel.metadata))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database without tables, of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/new.db"
    else:
        with new_database() as url:
            yield url


def test_a_new_database_is_what_the_tables_say(empty: str) -> None:
    engine = open_engine(empty)
    migrate(engine)
    assert len(SQLModel.metadata.tables) > 10
    assert differences(engine) == []
    names = {column["name"] for column in inspect(engine).get_columns("prices")}
    assert {"nanos", "list_nanos", "upfront_nanos", "missing"} <= names
    engine.dispose()


@pytest.fixture
def an_engine(tmp_path: Path) -> Engine:
    """What most tests open before they know of any database."""
    return opened(tmp_path)


@pytest.mark.both_databases
def test_a_test_for_both_databases_runs_on_the_one_that_its_name_says(
    request: pytest.FixtureRequest, an_engine: Engine
) -> None:
    assert request.node.name.endswith(f"[{an_engine.dialect.name}]")


def test_money_has_room_for_more_than_two_units_an_hour() -> None:
    for name in ("nanos", "list_nanos", "upfront_nanos"):
        (column,) = [table.c[name] for table in FACTS if name in table.c]
        assert str(column.type) == "BIGINT"


@pytest.mark.both_databases
def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(T0, stock())
    before = rows(polled.engine, "stocks")
    migrate(polled.engine)
    migrate(opened(tmp_path))
    assert rows(polled.engine, "stocks") == before
    assert len(rows(polled.engine, "alembic_version")) == 1


def test_several_processes_may_make_the_same_database_at_once(empty: str) -> None:
    code = f"from store.engine import *; engine = open_engine({empty!r}); migrate(engine); engine.dispose()"
    command = [sys.executable, "-c", code]
    started = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(3)]  # noqa: S603 - our own code
    errors = [process.communicate(timeout=60)[1].decode() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors
    engine = open_engine(empty)
    assert differences(engine) == []
    engine.dispose()


def test_a_database_of_the_first_version_keeps_what_it_holds(empty: str) -> None:
    from alembic import command
    from alembic.config import Config

    engine = open_engine(empty)
    config = Config()
    config.set_main_option("script_location", str(ROOT / "store" / "migrations"))
    with writing(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        columns = ", ".join(column.name for column in CELLS.columns if column.name != "digest")
        values = "1, 'cloud', 'stock', 'r1', '', 60, 180, 'out', 'k', 1, true, 0, NULL, NULL, NULL, '{}', 7, 5, 5"
        connection.exec_driver_sql(
            f"INSERT INTO cells ({columns}) VALUES ({values}, 'ok', NULL, 0, 3, 2, NULL, NULL)"  # noqa: S608
        )
        connection.exec_driver_sql(
            "INSERT INTO prices VALUES "
            "(1, 'r1', '', 'm1', 'on_demand', NULL, NULL, 7, 'USD', 'x', NULL, NULL, NULL, false, NULL, 1, NULL, 0)"
        )
        connection.exec_driver_sql(
            "INSERT INTO stocks VALUES "
            "(1, 'r1', 'z1', 'm1', 'spot', 'z', 'z1', 'low', 'reported', '', NULL, NULL, 1, 3)"
        )
    migrate(engine)
    assert differences(engine) == []
    with reading(engine) as connection:
        (kept,) = connection.execute(select(CELLS)).mappings()
    assert (kept["provider"], kept["revision"], kept["seen_at"], kept["digest"]) == ("cloud", 7, instant(5), "")
    on_demand, spot = series_of(("r1", "", "m1", "on_demand")), series_of(("r1", "z1", "m1", "spot"))
    assert {(row["id"], row["zone"]) for row in rows(engine, "series")} == {(on_demand, None), (spot, "z")}
    assert [tuple(row.values()) for row in rows(engine, "price_log")] == [(1, on_demand, 5, 7, "USD")]
    assert [tuple(row.values()) for row in rows(engine, "stock_log")] == [(1, spot, 3, "low", "reported")]
    assert [tuple(row.values()) for row in rows(engine, "beats")] == [(1, 5, 180_000_005)]
    engine.dispose()


def test_the_tables_can_be_taken_back_and_made_again(empty: str) -> None:
    from alembic import command
    from alembic.config import Config

    engine = open_engine(empty)
    migrate(engine)
    config = Config()
    config.set_main_option("script_location", str(ROOT / "store" / "migrations"))
    with writing(engine) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]
    migrate(engine)
    assert differences(engine) == []
    engine.dispose()


# --- what each database wants


@pytest.mark.parametrize(("url", "mark"), [("sqlite://", "?"), ("postgresql+psycopg://", "%s")])
def test_a_parameter_is_written_as_the_driver_wants_it(url: str, mark: str) -> None:
    assert placeholder(make_url(url).get_dialect()()) == mark


def test_what_is_true_or_false_is_kept_as_such_and_not_as_a_number() -> None:
    facts: list[Fact] = [machine(nvlink=True, rdma=False), price(estimated=True), Region(region="r1", enabled=False)]
    stated = sort_facts(facts)
    flags = 0
    for kind in KINDS:
        for values in stated.rows[kind.table].values():
            for name, value in zip(kind.values, values, strict=True):
                wanted = isinstance(SQLModel.metadata.tables[kind.table].c[name].type, Boolean)
                flags += wanted and value is not None
                assert value is None or isinstance(value, bool) == wanted, f"{kind.table}.{name}"
    assert flags == 4


# --- what is refused


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql+asyncpg://user:s3cret@db/gpufare", "names the driver asyncpg: write sqlite:///"),
        ("mysql://user:s3cret@db/gpufare", "names mysql: write sqlite:///"),
        ("gpufare.db", "is not a database address like sqlite:////path/gpufare.db"),
        ("", "is not a database address"),
        ("sqlite:///file:gpufare.db?mode=ro&uri=true", "is not a database address"),
        ("postgresql+psycopg://user:half@s3cret@127.0.0.1/gpufare", "has more than one @: write %40"),
        ("postgresql+psycopg://user:half@s3/cret@127.0.0.1/gpufare", "has more than one @: write %40"),
        ("postgresql+psycopg://user@/x?host=127.0.0.1&port=abc&password=s3cret", "is not a database address"),
    ],
)
def test_an_address_of_another_kind_is_refused_in_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(DatabaseError, match=sentence) as caught:
        open_engine(url)
    assert "s3" not in str(caught.value)
    assert str(caught.value).startswith("GPUFARE_DATABASE_URL")


def test_a_folder_that_cannot_be_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DatabaseError, match=r"file/x\.db cannot be used: .*GPUFARE_DATABASE_URL"):
        open_engine(f"sqlite:///{tmp_path}/file/x.db")


def test_a_path_that_is_a_folder_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="cannot be used: it is a folder; name a file in GPUFARE_DATABASE_URL"):
        open_engine(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear database, " * 100)
    with pytest.raises(DatabaseError, match=r"letter\.txt cannot be used: it is not an SQLite database; name another"):
        migrate(open_engine(f"sqlite:///{file}"))
    assert file.read_text() == "Dear database, " * 100


def test_a_server_that_is_not_there_is_told_in_a_sentence_without_its_password() -> None:
    engine = open_engine("postgresql+psycopg://user:s3cret@127.0.0.1:1/gpufare")
    with pytest.raises(
        DatabaseError, match=r"postgresql\+psycopg://user:\*\*\*@127.0.0.1:1/gpufare cannot be used"
    ) as told:
        migrate(engine)
    assert "is the server running, and is GPUFARE_DATABASE_URL right?" in str(told.value)
    assert "s3cret" not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_name_that_the_server_does_not_know_is_told_in_a_sentence() -> None:
    with new_database() as url:
        engine = open_engine(url + "_not")
        with pytest.raises(DatabaseError, match=r'cannot be used: .* database ".*_not" does not exist'):
            migrate(engine)


@pytest.mark.both_databases
def test_a_database_of_a_newer_version_is_never_written(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    ((version,),) = (row.values() for row in rows(engine, "alembic_version"))
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    try:
        with pytest.raises(DatabaseError, match=r"a newer version of gpufare wrote it .*; run that version"):
            migrate(engine)
    finally:
        with writing(engine) as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")  # noqa: S608


def test_the_folder_of_a_new_database_is_made(tmp_path: Path) -> None:
    migrate(open_engine(f"sqlite:///{tmp_path}/a/b/x.db"))
    assert (tmp_path / "a" / "b" / "x.db").is_file()


# --- times


@pytest.mark.both_databases
@pytest.mark.parametrize(
    "at",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 11, 30, 12, 0, 0, 1, tzinfo=UTC),
        datetime(2100, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=8))),
    ],
)
def test_a_time_comes_back_as_the_same_instant_in_utc(tmp_path: Path, at: datetime) -> None:
    engine = opened(tmp_path)
    with writing(engine) as connection:
        connection.execute(insert(LIMITS).values(key="k", next_at=at))
    with reading(engine) as connection:
        (found,) = connection.execute(select(LIMITS.c.next_at)).scalars()
        assert found == at
        assert found.utcoffset() == timedelta(0)
        assert connection.execute(select(LIMITS.c.key).where(LIMITS.c.next_at == at)).scalar_one() == "k"


@given(st.datetimes(timezones=st.timezones()))
def test_microseconds_lose_nothing(at: datetime) -> None:
    assert instant(micros(at)) == at.astimezone(UTC)


def test_a_naive_time_is_refused(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    naive = datetime(2026, 11, 30)  # noqa: DTZ001 - what must be refused
    with pytest.raises(TypeError):
        micros(naive)
    with writing(engine) as connection, pytest.raises(StatementError, match="naive"):
        connection.execute(insert(LIMITS).values(key="k", next_at=naive))
    with pytest.raises((TypeError, StatementError)):
        schedule.claim(engine, naive, timedelta(minutes=1), 1)
    assert rows(engine, "limits") == []


@pytest.mark.both_databases
def test_nothing_stays_of_a_transaction_that_breaks(tmp_path: Path) -> None:
    engine = opened(tmp_path)

    def broken() -> None:
        with writing(engine) as connection:
            connection.execute(insert(LIMITS).values(key="k", next_at=T0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert rows(engine, "limits") == []


@pytest.mark.both_databases
def test_a_reader_waits_for_no_writer_and_sees_one_state(tmp_path: Path) -> None:
    engine, other = opened(tmp_path), opened(tmp_path)
    with writing(engine) as writer:
        writer.execute(insert(LIMITS).values(key="k", next_at=T0))
        with reading(other) as reader:
            assert reader.execute(select(LIMITS.c.key)).all() == []
    with reading(other) as reader:
        assert reader.execute(select(LIMITS.c.key)).scalars().all() == ["k"]
        with writing(engine) as writer:
            writer.execute(insert(LIMITS).values(key="l", next_at=T0))
        assert reader.execute(select(LIMITS.c.key)).scalars().all() == ["k"]


@pytest.mark.both_databases
def test_two_cells_of_one_name_cannot_be(tmp_path: Path) -> None:
    (unique,) = inspect(opened(tmp_path)).get_unique_constraints(CELLS.name)
    assert unique["column_names"] == ["provider", "feed", "place", "part"]
