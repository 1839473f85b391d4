"""A SQLite file that is deleted, replaced or put back while a worker and a server have it open."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from sqlalchemy import Engine, select
from sqlalchemy.exc import OperationalError

from api.board import Board
from scheduler.plan import plan
from scheduler.poll import Polls
from scheduler.worker import Worker
from store.engine import migrate, open_engine, reading
from store.sqlite_file import GONE, FileGone, generation
from store.tables import CELLS
from tests.support.feeds import AT_ONCE, HandClock, ScriptedFeed, always, configured, says
from tests.support.filled import START, Filled, config_for, served, sold
from tests.support.stored import MINUTE, T0, machine, stock
from tests.test_worker import settle, take_no_more


def delete(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", "us-east-1"))
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "old", "1"))
    yield filled
    filled.engine.dispose()


def another(folder: Path, *facts: str) -> Filled:
    """A database like the first one in all its numbers, whose machines have these names."""
    folder.mkdir()
    made = Filled(folder)
    made.plan("aws", ("stock", "us-east-1"))
    made.poll("aws", "stock", "us-east-1", [fact for name in facts for fact in sold("us-east-1", name, "2")])
    made.engine.dispose()
    return made


def cells(engine: Engine) -> int:
    with reading(engine) as connection:
        return len(connection.execute(select(CELLS.c.id)).all())


def names(board: Board) -> set[str]:
    return {offer.machine.instance_type for offer in board.index.candidates(None)}


def test_a_deleted_file_is_an_error_and_no_empty_one_is_made(filled: Filled, tmp_path: Path) -> None:
    file = tmp_path / "gpufare.db"
    delete(file)
    for _ in range(3):
        with pytest.raises(OperationalError, match="its file is gone") as caught:
            cells(filled.engine)
        assert isinstance(caught.value.orig, FileGone)
    assert not file.exists()


def test_a_new_file_is_not_the_old_one_even_under_the_same_number(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'gpufare.db'}")
    migrate(engine)
    assert generation(engine) == 0
    for times in (1, 2):
        delete(tmp_path / "gpufare.db")
        with pytest.raises(OperationalError):
            cells(engine)
        other = open_engine(f"sqlite:///{tmp_path / 'gpufare.db'}")
        migrate(other)
        with structlog.testing.capture_logs() as logs:
            assert cells(engine) == 0
            cells(engine)
        assert [entry["log_level"] for entry in logs] == ["warning"], "told once"
        assert (generation(engine), generation(other)) == (times, 0)
        other.dispose()
    engine.dispose()


def test_a_server_says_that_its_file_is_gone_and_goes_on_with_the_next_one(filled: Filled, tmp_path: Path) -> None:
    file = tmp_path / "gpufare.db"
    another(tmp_path / "new", "new")
    with served(filled) as server:
        assert server.get("/cheapest?gpu=h100")["best"]["instance_type"] == "old"
        delete(file)
        with structlog.testing.capture_logs() as logs:
            assert server.get("/cheapest?gpu=h100")["best"]["instance_type"] == "old", "from memory"
            server.board.refresh(filled.now)
        assert [(entry["log_level"], GONE in entry["error"]) for entry in logs] == [("error", True)]
        ready = server.client.get("/readyz")
        assert (ready.status_code, ready.json()["detail"]) == (503, f"the database cannot be read ({GONE})")
        file.touch()
        server.board.refresh(filled.now)
        ready = server.client.get("/readyz")
        assert (ready.status_code, "it has no tables" in ready.json()["detail"]) == (503, True)
        delete(file)
        shutil.copy(tmp_path / "new" / "gpufare.db", file)
        server.board.refresh(filled.now)
        assert names(server.board) == {"new"}, "its cells have the numbers and revisions of the old ones"
        assert server.get("/readyz")["status"] == "ready"


def test_a_file_that_takes_the_others_place_at_once_is_read_whole(filled: Filled, tmp_path: Path) -> None:
    another(tmp_path / "new", "new")
    board = Board(filled.engine, config_for(filled))
    board.refresh(START)
    assert names(board) == {"old"}
    for suffix in ("-wal", "-shm"):  # what is left of these would be read into whatever file stands beside them
        (tmp_path / f"gpufare.db{suffix}").unlink()
    (tmp_path / "new" / "gpufare.db").replace(tmp_path / "gpufare.db")
    board.refresh(START)
    assert names(board) == {"new"}


def test_a_server_whose_file_becomes_another_kind_says_which_kind_it_is_not(filled: Filled, tmp_path: Path) -> None:
    with served(filled) as server:
        delete(tmp_path / "gpufare.db")
        (tmp_path / "gpufare.db").write_text("Dear database, " * 100)
        server.board.refresh(filled.now)
        ready = server.client.get("/readyz")
    detail = "the database cannot be read (it is not an SQLite database)"
    assert (ready.status_code, ready.json()["detail"]) == (503, detail)


def test_a_worker_polls_on_in_the_file_that_takes_the_deleted_ones_place(tmp_path: Path) -> None:
    file = tmp_path / "gpufare.db"
    engine = open_engine(f"sqlite:///{file}")
    migrate(engine)
    feed = ScriptedFeed(script=always(says(machine(), stock())))
    clock = HandClock(T0)
    worker = Worker(Polls(engine, clock, clock.sleep, AT_ONCE), [configured(feed)])
    worker._tick_safely()
    settle(worker)
    assert len(feed.asked) == 1
    delete(file)
    clock.now += MINUTE * 2
    with structlog.testing.capture_logs() as logs:
        worker._tick_safely()
        worker._tick_safely()
    assert [(entry["log_level"], GONE in entry["error"]) for entry in logs] == [("error", True)]
    assert not file.exists()
    made = open_engine(f"sqlite:///{file}")
    migrate(made)
    plan(made, [], clock.now)
    worker._tick_safely()
    settle(worker)
    assert len(feed.asked) == 2, "planned and polled at once, in the new file"
    with reading(made) as connection:
        assert connection.execute(select(CELLS.c.status)).scalars().all() == ["ok"]
    take_no_more(worker)
    made.dispose()
    engine.dispose()
