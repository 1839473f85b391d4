"""The board: it reads what changed and nothing else, and outlives a database that fails."""

import gc
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text, update
from structlog.testing import capture_logs

from api.board import Board
from catalog.words import Level
from commands import build
from scheduler.poll import Polls
from settings import load
from store import snapshot
from store.engine import open_engine, writing
from store.planning import PlannedProvider, plan
from store.tables import PROVIDERS
from tests.support.filled import Filled, config_for, machine, price, served, sold, stock

pytestmark = pytest.mark.both_databases


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", "us-east-1"), ("stock", "us-west-2"), ("prices", "us-east-1"))
    yield filled
    filled.engine.dispose()


def board_of(filled: Filled, engine: Engine | None = None) -> Board:
    board = Board(engine or filled.engine, config_for(filled))
    board.refresh(filled.now)
    return board


def names(board: Board) -> set[tuple[str, str]]:
    return {(offer.place.region, offer.machine.instance_type) for offer in board.index.candidates(None)}


def test_a_refresh_reads_what_a_poll_changed(filled: Filled) -> None:
    board = board_of(filled)
    assert not board.ready
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))
    assert names(board) == set()
    board.refresh(filled.now)
    assert names(board) == {("us-east-1", "a")}
    assert board.ready


def test_what_a_cell_no_longer_states_leaves_the_board(filled: Filled) -> None:
    facts = [*sold("us-east-1", "a", "1"), *sold("us-east-1", "b", "1")]
    filled.poll("aws", "stock", "us-east-1", facts)
    board = board_of(filled)
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "b", "1"))
    board.refresh(filled.now)
    assert names(board) == {("us-east-1", "b")}


def test_a_cell_that_moves_to_another_region_leaves_the_old_one(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", sold("eu-west-1", "a", "1"))
    board = board_of(filled)
    filled.poll("aws", "stock", "us-east-1", sold("eu-west-2", "a", "1"))
    board.refresh(filled.now)
    assert names(board) == {("eu-west-2", "a")}


def test_only_the_regions_that_changed_are_read_again(filled: Filled) -> None:
    for region in ("us-east-1", "us-west-2"):
        filled.poll("aws", "stock", region, sold(region, "a", "1"))
    board = board_of(filled)
    read: list[str] = []

    @event.listens_for(filled.engine, "before_cursor_execute")
    def note(_c: object, _cursor: object, statement: str, parameters: Any, *_more: object) -> None:
        if "FROM machines" in statement and "machines.region = " in statement:
            read.extend(map(str, parameters.values() if isinstance(parameters, dict) else parameters))

    board.refresh(filled.now)
    assert read == []
    filled.poll("aws", "stock", "us-west-2", sold("us-west-2", "b", "1"))
    board.refresh(filled.now)
    assert read == ["us-west-2"]


def test_a_failed_poll_changes_no_offer_and_is_seen(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))
    board = board_of(filled)
    filled.fail("aws", "stock", "us-east-1", "timed out")
    board.refresh(filled.now)
    assert names(board) == {("us-east-1", "a")}
    feeds = {feed.feed: feed for feed in board.view.providers[0].feeds}
    assert (feeds["stock"].status, feeds["stock"].failing) == ("failing", ["us-east-1"])


def test_how_the_feeds_do_is_read_again_when_something_happened_or_time_went_by(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))
    board = board_of(filled)
    reads: list[str] = []

    @event.listens_for(filled.engine, "before_cursor_execute")
    def note(_c: object, _cursor: object, statement: str, *_more: object) -> None:
        if "FROM notes" in statement:
            reads.append(statement)

    def read_anew() -> bool:
        reads.clear()
        board.refresh(filled.now)
        return bool(reads)

    filled.later(seconds=4)
    assert not read_anew()
    filled.later(seconds=1)
    assert read_anew()
    assert not read_anew()
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))  # nothing new, and yet a newer success
    assert read_anew()
    filled.fail("aws", "stock", "us-east-1", "timed out")
    assert read_anew()
    plan(filled.engine, PlannedProvider("aws", False, None, ["reported"], {}, "2"), [], filled.now)
    assert read_anew()
    assert not read_anew()


def test_a_feed_grows_stale_by_time_alone(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-west-2", sold("us-west-2", "a", "1"))
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))
    board = board_of(filled)
    filled.later(minutes=4)
    board.refresh(filled.now)
    assert {feed.feed: feed.status for feed in board.view.providers[0].feeds}["stock"] == "stale"


def test_a_site_that_is_set_anew_is_shown_by_every_place_that_still_has_offers(filled: Filled) -> None:
    snapshot.load_bundled(filled.engine)
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "polled", "1"))
    board = board_of(filled)
    assert ("us-east-1", "polled") in names(board)
    plan(filled.engine, PlannedProvider("aws", True, "intl", ["reported"], {}, "2"), [], filled.now)
    board.refresh(filled.now)
    assert ("us-east-1", "polled") not in names(board)
    sites = {offer.place.site for offer in board.index.candidates(None) if offer.place.provider == "aws"}
    assert sites == {"intl"}


def test_what_was_polled_of_another_site_is_not_shown_even_before_the_next_poll(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "polled", "1"))
    with writing(filled.engine) as connection:
        connection.execute(update(PROVIDERS).where(PROVIDERS.c.name == "aws").values(site="cn"))
    for site, shown in (("intl", False), ("cn", True)):
        board = Board(filled.engine, replace(config_for(filled), sites={"aws": site}))
        board.refresh(filled.now)
        assert (("us-east-1", "polled") in names(board)) is shown


def test_what_was_read_of_another_site_leaves_this_one_unread(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "polled", "1"))
    with writing(filled.engine) as connection:
        connection.execute(update(PROVIDERS).where(PROVIDERS.c.name == "aws").values(site="cn"))
    board = Board(filled.engine, replace(config_for(filled), sites={"aws": "intl"}))
    board.refresh(filled.now)
    assert ("aws", "") in board.context(filled.now).unread
    assert not any(provider == "aws" for provider, _ in board.context(filled.now).read)
    feeds = [feed for one in board.view.providers if one.name == "aws" for feed in one.feeds if feed.feed == "stock"]
    assert [(feed.status, feed.offers, feed.last_success) for feed in feeds] == [("stale", 0, None)]
    assert feeds[0].reason == "not polled yet of site intl; what was read is of site cn"


def test_the_bundled_snapshot_is_there_from_the_start(filled: Filled) -> None:
    loaded = snapshot.load_bundled(filled.engine)
    every = {"alibaba", "aws", "azure", "gcp", "tencent"}
    board = Board(filled.engine, replace(config_for(filled), providers=frozenset(every)))
    board.refresh(filled.now)
    assert len(board.index) >= loaded > 1000
    assert board.ready


def test_a_database_that_fails_leaves_the_last_good_offers_and_is_told_of_once(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))
    with served(filled) as server:
        with writing(filled.engine) as connection:
            connection.execute(text("ALTER TABLE cells RENAME TO hidden"))
        with capture_logs() as logs:
            assert server.get("/cheapest?gpu=h100")["best"]["instance_type"] == "a"
            server.board.refresh(filled.now)
        assert [entry["log_level"] for entry in logs] == ["error"]
        response = server.client.get("/readyz")
        assert (response.status_code, response.json()["detail"]) == (
            503,
            "the database cannot be read (it has no tables: `gpufare migrate` makes them)",
        )
        with writing(filled.engine) as connection:
            connection.execute(text("ALTER TABLE hidden RENAME TO cells"))
        assert server.get("/readyz")["status"] == "ready"


def test_a_server_starts_without_a_database_and_is_not_ready(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    empty = open_engine(f"sqlite:///{tmp_path / 'empty.db'}")
    filled.engine.dispose()
    filled.engine = empty
    with served(filled) as server:
        assert server.client.get("/readyz").status_code == 503
        assert server.client.get("/healthz").status_code == 200
    empty.dispose()


def test_the_server_follows_changes_by_itself(filled: Filled) -> None:
    with served(filled, refresh_every=timedelta(milliseconds=5)) as server:
        seen = threading.Event()
        replace = server.board.index.replace

        def noted(shelf: tuple[str, str], offers: list[object]) -> None:
            replace(shelf, offers)  # type: ignore[arg-type]
            seen.set()

        server.board.index.replace = noted  # type: ignore[method-assign,assignment]
        filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))
        assert seen.wait(20)
        assert names(server.board) == {("us-east-1", "a")}


def test_a_loop_that_ended_by_a_fault_of_ours_makes_the_server_unhealthy(filled: Filled) -> None:
    def broken(_now: object) -> None:
        raise RuntimeError("a fault of ours")

    def ask() -> None:
        with served(filled, refresh_every=timedelta(milliseconds=5)) as server:
            assert server.client.get("/healthz").status_code == 200
            server.board.refresh = broken  # type: ignore[method-assign,assignment]
            until = time.monotonic() + 20
            while server.client.get("/healthz").status_code == 200 and time.monotonic() < until:
                time.sleep(0.005)
            answers.append(server.client.get("/healthz").status_code)
            answers.append(server.client.get("/readyz").status_code)

    answers: list[int] = []
    with capture_logs() as logs, pytest.raises(RuntimeError, match="a fault of ours"):
        ask()
    assert answers == [503, 503]
    assert "restart the server" in logs[0]["event"]


def test_readers_and_a_writer_disturb_each_other_in_nothing(filled: Filled) -> None:
    rounds = 15
    wrong: list[tuple[str, int]] = []

    def write() -> None:
        for turn in range(rounds):
            facts = [fact for each in range(200) for fact in sold("us-east-1", f"m{each}", f"{1 + turn + each}")]
            filled.poll("aws", "stock", "us-east-1", facts)

    with served(filled, refresh_every=timedelta(milliseconds=1)) as server:

        def read() -> None:
            while writer.is_alive():
                for path in ("/cheapest?gpu=h100", "/offers?gpu=h100&limit=50", "/providers", "/syncs", "/metrics"):
                    status = server.client.get(path).status_code
                    if status != 200:
                        wrong.append((path, status))

        writer = threading.Thread(target=write)
        readers = [threading.Thread(target=read) for _ in range(4)]
        writer.start()
        for reader in readers:
            reader.start()
        for thread in (writer, *readers):
            thread.join(60)
        assert wrong == []
        assert server.get("/cheapest?gpu=h100")["best"]["price_per_hour"] == str(rounds)
        assert server.get("/offers?gpu=h100")["total"] == 200


def test_a_stock_level_that_is_reported_again_confirms_the_offer(filled: Filled) -> None:
    filled.poll("aws", "prices", "us-east-1", [machine("us-east-1", "a"), price("us-east-1", "a", "1")])
    filled.poll("aws", "stock", "us-east-1", [machine("us-east-1", "a"), stock("us-east-1", "a", Level.OUT)])
    with served(filled) as server:
        assert server.get("/cheapest?gpu=h100")["verdict"] == "out_of_stock"
        filled.poll("aws", "stock", "us-east-1", [machine("us-east-1", "a"), stock("us-east-1", "a")])
        assert server.get("/cheapest?gpu=h100")["verdict"] == "confirmed"


def test_in_a_process_that_polls_nothing_is_kept_from_the_garbage_collector(filled: Filled) -> None:
    """What SDKs leave in cycles would never be freed: a worker grew by 25 MB a minute."""
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "a", "1"))
    gc.unfreeze()
    Board(filled.engine, config_for(filled), spares=False).refresh(filled.now)
    assert gc.get_freeze_count() == 0
    Board(filled.engine, config_for(filled)).refresh(filled.now)
    assert gc.get_freeze_count() > 0
    gc.unfreeze()


def test_the_evaluator_of_a_worker_keeps_nothing_from_it(tmp_path: Path, filled: Filled) -> None:
    (tmp_path / "gpufare.toml").write_text("")
    loaded = load({"HOME": str(tmp_path)}, tmp_path)
    watching = build.watching(loaded, Polls(filled.engine, lambda: filled.now))
    gc.unfreeze()
    watching._evaluator._rules.market().refresh(filled.now)
    assert gc.get_freeze_count() == 0
