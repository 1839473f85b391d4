"""Recording an answer: what is written, what a whole answer settles, what a failed one leaves alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError

from catalog.facts import Fact, Note, Zone
from catalog.words import Evidence, Level, Purchase
from store import record, schedule
from store.record import Answer, LeaseLost, Result
from store.times import micros
from tests.support.stored import (
    LEASE,
    MINUTE,
    NANO,
    T0,
    Cloud,
    cell,
    machine,
    offered,
    opened,
    plan,
    planned_cell,
    price,
    rows,
    stock,
    without_syncs,
)

pytestmark = pytest.mark.both_databases

FACT_TABLES = ("regions", "zones", "machines", "offered", "prices", "stocks")


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


def cloud(folder: Path, absent: Level = Level.OUT) -> Cloud:
    return Cloud(folder, planned_cell("stock", absent=absent.value))


@contextmanager
def written(engine: Engine) -> Iterator[list[str]]:
    """The fact tables that are written to meanwhile, once for each statement."""
    found: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, _parameters: Any, _context: Any, _many: bool) -> None:
        words = statement.replace("(", " ").split()
        if words[0] in ("INSERT", "UPDATE", "DELETE"):
            found.extend(word for word in words[:4] if word in FACT_TABLES)

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


EVERYTHING: tuple[Fact, ...] = (
    Zone(region="r1", zone="a", zone_id="r1-az1"),
    machine("m1"),
    offered("a", "m1"),
    price("m1"),
    stock("m1"),
)


def test_an_unchanged_answer_writes_no_fact_row(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *EVERYTHING)
    with written(polled.engine) as tables:
        polled.told(at(1), *EVERYTHING)
    assert tables == []
    assert cell(polled.engine)["seen_at"] == at(1)


def test_only_the_row_that_changed_is_written(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *EVERYTHING, stock("m2"))
    with written(polled.engine) as tables:
        polled.told(at(1), *EVERYTHING, stock("m2", Level.LOW))
    assert tables == ["stocks"]
    before = {row["instance_type"]: row["hash"] for row in rows(polled.engine, "stocks")}
    polled.told(at(2), *EVERYTHING, stock("m2", Level.IN_STOCK))
    after = {row["instance_type"]: row["hash"] for row in rows(polled.engine, "stocks")}
    assert before["m1"] == after["m1"]
    assert before["m2"] != after["m2"]


def test_what_stays_absent_is_written_once(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock("m1"), stock("m2"))
    polled.told(at(1), stock("m1"))
    with written(polled.engine) as tables:
        polled.told(at(2), stock("m1"))
    assert tables == []
    assert [row["level"] for row in rows(polled.engine, "stocks")] == ["in_stock", "out"]


def test_a_whole_answer_is_seen_once_for_the_cell_and_not_in_its_rows(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *EVERYTHING)
    stamps = [
        row["seen_at"] for table in ("machines", "offered", "prices", "stocks") for row in rows(polled.engine, table)
    ]
    assert stamps == [None] * 4
    assert {offer.stock.seen_at for offer in polled.offers().values()} == {at(0)}


def test_a_partial_answer_stamps_the_rows_it_names_and_settles_nothing(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), machine("m1"), machine("m2"), price("m1"), price("m2"), stock("m1"), stock("m2"))
    result = polled.told(at(1), stock("m2", Level.LOW), price("m2", 2 * NANO), missing="page 2 of 3")
    assert result == Result("partial", 2, 0, "page 2 of 3")
    assert cell(polled.engine)["seen_at"] == at(0)
    one, two = polled.offers()[None, "m1", "on_demand"], polled.offers()[None, "m2", "on_demand"]
    assert (one.stock.level, one.stock.seen_at) == (Level.IN_STOCK, at(0))
    assert (two.stock.level, two.stock.seen_at) == (Level.LOW, at(1))
    assert one.price is not None
    assert two.price is not None
    assert (one.price.seen_at, two.price.nanos, two.price.seen_at) == (at(0), 2 * NANO, at(1))


def test_a_partial_answer_writes_no_row_that_keeps_no_time_and_did_not_change(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *EVERYTHING)
    with written(polled.engine) as tables:
        polled.told(at(1), EVERYTHING[0], missing="page 2")
    assert tables == []


def test_a_first_answer_that_is_partial_stays_visible_when_the_next_poll_fails(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), machine(), price(), stock(), missing="page 2")
    polled.failed(at(1))
    offer = polled.offers()[None, "m1", "on_demand"]
    assert (offer.stock.level, offer.stock.seen_at) == (Level.IN_STOCK, at(0))


@pytest.mark.parametrize(
    ("absent", "left"), [(Level.OUT, [("m1", "in_stock"), ("m2", "out")]), (Level.UNKNOWN, [("m1", "in_stock")])]
)
def test_a_whole_answer_settles_stock_it_does_not_name_at_once(
    tmp_path: Path, absent: Level, left: list[tuple[str, str]]
) -> None:
    polled = cloud(tmp_path, absent)
    polled.told(at(0), stock("m1"), stock("m2", score="7", quantity=3))
    polled.told(at(1), stock("m1"))
    found = rows(polled.engine, "stocks")
    assert [(row["instance_type"], row["level"]) for row in found] == left
    assert all(row["score"] is None and row["quantity"] is None and row["seen_at"] is None for row in found)


def test_what_went_out_comes_back_with_the_same_words(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    for minute, facts in enumerate(([stock("m1"), stock("m2")], [stock("m1")], [stock("m1"), stock("m2")])):
        polled.told(at(minute), *facts)
    assert [row["level"] for row in rows(polled.engine, "stocks")] == ["in_stock", "in_stock"]


def test_machines_and_offerings_go_at_once(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), machine("m1"), machine("m2"), offered("a", "m1"), offered("a", "m2"), stock("m1"))
    polled.told(at(1), machine("m1"), offered("a", "m1"), stock("m1"))
    assert [row["instance_type"] for row in rows(polled.engine, "machines")] == ["m1"]
    assert [row["instance_type"] for row in rows(polled.engine, "offered")] == ["m1"]


def price_of_m2(polled: Cloud) -> tuple[int, datetime] | None:
    offer = polled.offers()[None, "m2", "on_demand"]
    return None if offer.price is None else (offer.price.nanos, offer.price.seen_at)


def test_a_price_ages_is_withdrawn_after_three_answers_and_is_fresh_when_it_returns(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    rest: list[Fact] = [machine("m1"), machine("m2"), price("m1"), stock("m1"), stock("m2")]
    polled.told(at(0), *rest, price("m2"))
    polled.told(at(1), *rest)
    assert price_of_m2(polled) == (NANO, at(0))
    polled.told(at(2), *rest)
    assert price_of_m2(polled) == (NANO, at(0))
    polled.told(at(3), *rest)
    assert price_of_m2(polled) is None
    polled.told(at(4), *rest, price("m2"))
    assert price_of_m2(polled) == (NANO, at(4))


def test_a_price_that_returns_in_time_starts_its_count_over(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    rest: list[Fact] = [machine("m1"), machine("m2"), price("m1")]
    for minute in range(8):
        polled.told(at(minute), *rest, *([price("m2")] if minute % 3 == 0 else []))
    assert price_of_m2(polled) == (NANO, at(6))


def test_a_partial_answer_that_names_a_missing_price_starts_its_count_over(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    rest: list[Fact] = [machine("m1"), machine("m2"), price("m1")]
    polled.told(at(0), *rest, price("m2"))
    polled.told(at(1), *rest)
    polled.told(at(2), *rest)
    polled.told(at(3), price("m2"), missing="page 2")
    polled.told(at(4), *rest)
    assert price_of_m2(polled) == (NANO, at(3))


def test_a_failure_between_does_not_count_as_an_answer_without_the_price(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    rest: list[Fact] = [machine("m1"), machine("m2"), price("m1")]
    polled.told(at(0), *rest, price("m2"))
    for minute in (1, 2):
        polled.told(at(minute), *rest)
    for minute in (3, 4, 5):
        polled.failed(at(minute))
    polled.unchanged(at(6))
    polled.told(at(7), missing="page 1")
    assert price_of_m2(polled) == (NANO, at(0))


def facts_of(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    return {table: rows(engine, table) for table in FACT_TABLES}


@pytest.mark.parametrize("what", ["failed", "unchanged", "suspicious"])
def test_what_is_no_new_answer_changes_no_fact(tmp_path: Path, what: str) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *EVERYTHING)
    before = facts_of(polled.engine)
    with written(polled.engine) as tables:
        result = {
            "failed": lambda: polled.failed(at(9)),
            "unchanged": lambda: polled.unchanged(at(9)),
            "suspicious": lambda: polled.told(at(9)),
        }[what]()
    assert result.status == what
    assert tables == []
    assert facts_of(polled.engine) == before
    assert cell(polled.engine)["seen_at"] == (at(9) if what == "unchanged" else at(0))


def test_only_what_changes_an_answer_raises_the_revision(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *EVERYTHING)
    polled.failed(at(1))
    polled.told(at(2))
    assert cell(polled.engine)["revision"] == 1
    polled.unchanged(at(3))
    polled.told(at(4), *EVERYTHING, missing="page 2")
    assert cell(polled.engine)["revision"] == 3


def test_unchanged_since_nothing_is_no_whole_answer(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.unchanged(at(1))
    assert cell(polled.engine)["seen_at"] is None


def test_failures_are_counted_until_an_answer(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    for minute in (1, 2):
        polled.failed(at(minute))
    failing = cell(polled.engine)
    assert (failing["failures"], failing["status"], failing["error"]) == (2, "failed", "timed out")
    assert polled.claimed(at(3)).failures == 2
    polled.told(at(20), stock())
    well = cell(polled.engine)
    assert (well["failures"], well["status"], well["error"], well["facts"]) == (0, "ok", None, 1)


def test_each_poll_is_kept_with_what_became_of_it(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock(), notes=[Note("unknown_gpu", "X9")])
    polled.failed(at(1))
    found = rows(polled.engine, "syncs", "status, facts, notes, seconds, error, started_at")
    assert [tuple(row.values()) for row in found] == [
        ("ok", 1, 1, 0.0, None, micros(at(0))),
        ("failed", 0, 0, 0.0, "timed out", micros(at(1))),
    ]


# --- leases


def test_a_worker_whose_cell_was_reclaimed_records_nothing(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock("m1", Level.LOW))
    dead = polled.claimed(at(1))
    (alive,) = schedule.claim(polled.engine, at(1) + LEASE, LEASE, 5)
    late = at(2) + LEASE
    with pytest.raises(LeaseLost, match="cloud stock r1"):
        record.record(polled.engine, dead, Answer([stock("m1")]), late, late)
    with pytest.raises(LeaseLost):
        record.unchanged(polled.engine, dead, late, late)
    with pytest.raises(LeaseLost):
        record.failed(polled.engine, dead, Result("failed", error="x"), late, late, ("page", b"body"))
    assert [row["level"] for row in rows(polled.engine, "stocks")] == ["low"]
    assert rows(polled.engine, "drifts") == []
    assert len(rows(polled.engine, "syncs")) == 1
    assert record.record(polled.engine, alive, Answer([stock("m1")]), late, late).status == "ok"


def test_a_lease_records_once(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    lease = polled.claimed(at(0))
    record.record(polled.engine, lease, Answer([stock()]), at(0), at(1))
    with pytest.raises(LeaseLost):
        record.record(polled.engine, lease, Answer([]), at(0), at(1))


def test_a_released_lease_records_nothing(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    lease = polled.claimed(at(0))
    schedule.release(polled.engine, lease, at(5))
    assert cell(polled.engine)["due_at"] == at(5)
    with pytest.raises(LeaseLost):
        record.record(polled.engine, lease, Answer([stock()]), at(0), at(1))


def test_a_lease_that_ran_out_but_that_nobody_took_still_records(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    lease = polled.claimed(at(0))
    late = at(0) + 2 * LEASE
    assert record.record(polled.engine, lease, Answer([stock()]), late, late).status == "ok"


# --- time


def test_the_time_of_a_cell_never_goes_back(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(10), machine(), stock())
    polled.told(at(8), machine(), stock("m1", Level.LOW))
    offer = polled.offers()[None, "m1", "on_demand"]
    assert (offer.stock.level, offer.stock.seen_at) == (Level.LOW, at(10))
    polled.unchanged(at(7))
    assert cell(polled.engine)["seen_at"] == at(10)


def test_the_time_of_a_row_never_goes_back(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(10), machine(), stock())
    polled.told(at(8), stock("m1", Level.LOW), missing="page 2")
    assert polled.offers()[None, "m1", "on_demand"].stock.seen_at == at(10)
    polled.told(at(20), stock("m1", Level.LOW), missing="page 2")
    polled.told(at(15), machine(), stock())
    assert polled.offers()[None, "m1", "on_demand"].stock.seen_at == at(20)


# --- notes, drift, memo


def test_notes_are_counted_replaced_and_keep_the_time_they_were_first_seen(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock(), notes=[Note("unknown_gpu", "X9"), Note("zero_price", "m7", record=True)])
    polled.told(at(1), stock(), notes=[Note("unknown_gpu", "X9")] * 3, skipped={"windows": 40})
    found = {(row["kind"], row["value"]): (row["count"], row["first_at"]) for row in rows(polled.engine, "notes")}
    assert found == {
        ("unknown_gpu", "X9"): (3, micros(at(0))),
        ("skipped", "windows"): (40, micros(at(1))),
    }


def test_the_last_page_not_understood_is_kept_once_for_a_cell(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.failed(at(1), drift=("page 1", b"{}"))
    polled.failed(at(2), drift=("page 2", b"\x00<html>"))
    polled.failed(at(3))
    (drift,) = rows(polled.engine, "drifts")
    assert (drift["page"], drift["body"], drift["at"]) == ("page 2", b"\x00<html>", micros(at(2)))


def test_a_memo_is_kept_only_after_a_whole_answer(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock(), memo={"etag": "a"})
    polled.failed(at(1))
    assert polled.claimed(at(2)).memo == {"etag": "a"}
    polled.unchanged(at(20))
    assert polled.claimed(at(21)).memo == {"etag": "a"}


def test_a_partial_answer_leaves_no_memo_so_that_unchanged_is_never_about_other_facts(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock(), memo={"etag": "a"})
    polled.told(at(1), stock("m1", Level.LOW), missing="page 2", memo={"etag": "b"})
    assert polled.claimed(at(2)).memo == {}


def test_an_answer_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *EVERYTHING, memo={"etag": "a"})
    before, known = facts_of(polled.engine), cell(polled.engine)
    lease = polled.claimed(at(1))
    answer = Answer([*EVERYTHING, machine("m3"), price("m3")], [Note("k", "v")])
    with without_syncs(polled.engine), pytest.raises(DBAPIError):  # written last of all
        record.record(polled.engine, lease, answer, at(1), at(2))
    assert facts_of(polled.engine) == before
    assert rows(polled.engine, "notes") == []
    now = cell(polled.engine)
    assert {key for key in now if now[key] != known[key]} == {"due_at", "lease_until", "token"}
    assert record.record(polled.engine, lease, Answer(EVERYTHING), at(1), at(2)).status == "ok"


def test_a_stock_for_two_purchases_is_two_rows_and_settles_each_alone(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    both = frozenset({Purchase.ON_DEMAND, Purchase.SPOT})
    polled.told(at(0), stock("m1", purchases=both))
    polled.told(at(1), stock("m1", purchases=frozenset({Purchase.SPOT})))
    found = {row["purchase"]: row["level"] for row in rows(polled.engine, "stocks")}
    assert found == {"on_demand": "out", "spot": "in_stock"}


def test_a_cell_settles_only_its_own_facts(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, planned_cell("stock", part="spot"), planned_cell("stock", part="hourly"))
    for part, facts in (("spot", [stock("m1", evidence=Evidence.REPORTED)]), ("hourly", [stock("m2")])):
        one = cell(engine, part=part)
        (lease,) = schedule.claim(engine, at(0), timedelta(minutes=1), 1, only=[one["id"]])
        record.record(engine, lease, Answer(facts), at(0), at(1))
    assert [row["level"] for row in rows(engine, "stocks")] == ["in_stock", "in_stock"]
