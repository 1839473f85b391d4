"""A window to book: what a price of one says, how it is kept and answered, and that it is gone once it has begun."""

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from api.csv_text import offers_csv
from catalog.facts import Fact, Price, Window
from catalog.offers import PriceNow, microseconds
from catalog.words import Level, Purchase
from commands.showing import offer_row
from store.archive_export import export
from store.archive_import import import_file
from store.rows import PRICES, sort_facts
from tests.support.carried import ALL, engine_in
from tests.support.filled import START, Filled, Server, machine, price, served, stock
from tests.support.offers import NOW, offer
from tests.support.stored import rows

BLOCK = Purchase.CAPACITY_BLOCK
WINDOW = Window(START + timedelta(minutes=3, hours=2), START + timedelta(minutes=3, hours=26))


def block(window: Window = WINDOW, amount: str = "31.464", **more: Any) -> Price:
    return price(
        "us-east-1",
        "p5.48xlarge",
        amount,
        purchase=BLOCK,
        zone="us-east-1f",
        upfront_nanos=755_136_000_000,
        window=window,
        **more,
    )


def answer(*prices: Price, level: Level = Level.IN_STOCK) -> list[Fact]:
    h100 = machine("us-east-1", "p5.48xlarge", gpu_count=Fraction(8), purchases=frozenset({BLOCK}))
    said = stock("us-east-1", "p5.48xlarge", level, purchases=frozenset({BLOCK}), zone="us-east-1f")
    return [h100, said, *prices]


# --- the fact


@pytest.mark.parametrize(
    ("starts_at", "ends_at", "said"),
    [
        (START, START, "ends after it starts"),
        (START, START - timedelta(hours=1), "ends after it starts"),
        (START.replace(tzinfo=None), START, "in UTC"),
        (START, START.replace(tzinfo=None), "in UTC"),
        (START, START.astimezone(timezone(timedelta(hours=8))) + timedelta(hours=9), "in UTC"),
    ],
)
def test_a_window_that_could_not_be_does_not_construct(starts_at: datetime, ends_at: datetime, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Window(starts_at, ends_at)


def test_an_up_front_amount_is_of_a_term_or_of_a_window() -> None:
    assert block().upfront_nanos == 755_136_000_000
    with pytest.raises(ValueError, match="names its term or its window"):
        price("r", "m", "1", upfront_nanos=1)
    with pytest.raises(ValueError, match="not of both"):
        price("r", "m", "1", upfront_nanos=1, window=WINDOW, term_months=1)


def test_a_windows_length_is_exact() -> None:
    assert WINDOW.hours == 24
    assert Window(START, START + timedelta(hours=30, minutes=20)).hours == Fraction(91, 3)
    assert str(WINDOW) == "2026-11-30 10:03 to 2026-12-01 10:03 UTC"


def test_a_price_is_stale_from_the_moment_its_window_begins() -> None:
    said = PriceNow(nanos=1, currency="USD", source="x", seen_at=START, fresh_for=timedelta(days=3), window=WINDOW)
    before = WINDOW.starts_at - timedelta(microseconds=1)
    assert (said.begun(before), said.stale(before)) == (False, False)
    assert (said.begun(WINDOW.starts_at), said.stale(WINDOW.starts_at)) == (True, True)
    assert said.fresh_span()[1] == microseconds(before)
    short = replace(said, fresh_for=timedelta(minutes=1))
    assert short.fresh_span()[1] == microseconds(START + timedelta(minutes=1))


def test_an_offer_of_a_window_that_has_begun_is_never_confirmed() -> None:
    begun = Window(NOW, NOW + timedelta(hours=24))
    known = offer(purchase="capacity_block")
    assert known.price is not None
    one = replace(known, price=replace(known.price, window=begun))
    assert known.confirmed(NOW)
    assert not one.confirmed(NOW)
    assert one.confirmed(NOW - timedelta(microseconds=1)), "the moment before it could still be booked"


# --- kept


def test_two_windows_stated_of_one_place_are_no_price() -> None:
    other = Window(WINDOW.starts_at + timedelta(hours=24), WINDOW.ends_at + timedelta(hours=24))
    found = sort_facts([block(), block(other)])
    assert found.rows[PRICES.table] == {}
    assert [note.kind for note in found.conflicts] == ["contradicting_prices"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", "us-east-1"), fresh_for=timedelta(days=1))
    filled.poll("aws", "stock", "us-east-1", answer(block()))
    with served(filled) as server:
        yield server
    filled.engine.dispose()


QUESTION = "/cheapest?gpu=h100&count=8&purchase=capacity_block"


@pytest.mark.both_databases
def test_an_offer_tells_its_window_and_what_is_paid_for_it_at_once(server: Server) -> None:
    best = server.get(QUESTION)["best"]
    assert best["window"] == {"from": "2026-11-30T10:03:00Z", "to": "2026-12-01T10:03:00Z"}
    assert best["native_price"]["upfront"] == {"amount": "755.136", "months": None, "hours": 24}
    assert (best["native_price"]["amount"], best["purchase"]) == ("31.464", "capacity_block")
    assert best["stock"]["confirmed"]


def test_the_sentence_and_the_table_name_the_window(server: Server) -> None:
    found = server.get(QUESTION)
    assert "capacity-block, 2026-11-30 10:03 to 2026-12-01 10:03 UTC, in stock" in found["message"]
    upfront = found["best"]["native_price"]["upfront"]["amount"]
    window = "from 2026-11-30T10:03:00Z to 2026-12-01T10:03:00Z"
    assert offer_row(found["best"])[6] == f"capacity_block {window}, {upfront} USD at once"
    assert offer_row(found["best"] | {"window": None, "native_price": None})[6] == "capacity_block"


def test_a_table_for_other_programs_has_the_windows_ends(server: Server) -> None:
    server.board.refresh(server.filled.now)
    text = server.client.get("/offers?purchase=capacity_block", headers={"Accept": "text/csv"}).text
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["window_from"], row["window_to"]) == ("2026-11-30T10:03:00Z", "2026-12-01T10:03:00Z")
    assert (row["native_price_upfront_hours"], row["native_price_upfront_months"]) == ("24", "")
    assert offers_csv([]).count("window_") == 2


@pytest.mark.both_databases
def test_a_window_that_has_begun_is_gone_though_nothing_was_polled(server: Server) -> None:
    """The machine is still sold by the block: of when and for how much nothing is known any more."""
    server.filled.now = WINDOW.starts_at - timedelta(seconds=1)
    assert server.get(QUESTION)["verdict"] == "confirmed"
    server.filled.now = WINDOW.starts_at
    found = server.get(QUESTION)
    assert (found["verdict"], found["best"], found["alternatives"]) == ("no_source", None, [])
    (left,) = server.get("/offers?purchase=capacity_block&stock=all")["items"]
    assert (left["native_price"], left["window"], left["zone"]) == (None, None, None)
    assert (left["stock"]["level"], left["stock"]["evidence"]) == ("unknown", "listed")


def test_the_next_window_takes_the_place_of_one_that_has_begun(server: Server) -> None:
    server.filled.now = WINDOW.starts_at
    server.get(QUESTION)
    later = Window(WINDOW.starts_at + timedelta(hours=24), WINDOW.ends_at + timedelta(hours=24))
    server.filled.poll("aws", "stock", "us-east-1", answer(block(later)))
    assert server.get(QUESTION)["best"]["window"]["from"] == "2026-12-01T10:03:00Z"
    server.filled.now = later.starts_at
    assert server.get(QUESTION)["best"] is None


def test_before_the_board_looks_again_an_index_calls_it_stale(server: Server) -> None:
    """The columns of the selector know the window's start, so that the moment is met between two looks."""
    server.get(QUESTION)
    server.filled.now = WINDOW.starts_at
    found = server.client.get(QUESTION).json()
    assert (found["verdict"], found["best"]["native_price"]["stale"]) == ("unconfirmed", True)
    assert not found["best"]["stock"]["confirmed"]


@pytest.mark.both_databases
def test_a_state_that_is_carried_keeps_its_windows(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "state.zip"
    export(server.filled.engine, file, ALL, server.filled.now)
    there = engine_in(tmp_path / "there")
    import_file(there, file, server.filled.now)
    filled = Filled.__new__(Filled)
    filled.engine, filled.now = there, server.filled.now
    with served(filled) as other:
        (one,) = other.get("/offers?purchase=capacity_block&provider=aws")["items"]
        assert one["window"] == {"from": "2026-11-30T10:03:00Z", "to": "2026-12-01T10:03:00Z"}
        assert one["native_price"]["upfront"]["hours"] == 24
        filled.now = WINDOW.starts_at
        (left,) = other.get("/offers?purchase=capacity_block&provider=aws")["items"]
        assert (left["native_price"], left["window"], left["stock"]["evidence"]) == (None, None, "snapshot")
    server.filled.now = WINDOW.starts_at
    late = tmp_path / "late.zip"
    export(server.filled.engine, late, ALL, server.filled.now)
    import_file(there, late, server.filled.now)
    assert [row["nanos"] for row in rows(there, "prices")] == [], "one that has begun is not carried"
    there.dispose()
