"""Many rows at once: what is written is what was said, on both databases, in small and in large numbers."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.exc import DBAPIError

from catalog.words import Level
from store import record, schedule
from store.bulk import FEW, upsert
from store.engine import writing
from store.record import Answer
from store.tables import CELLS, PRICES
from tests.support.stored import (
    LEASE,
    MINUTE,
    T0,
    Cloud,
    machine,
    opened,
    plan,
    planned_cell,
    price,
    rows,
    stock,
    without_syncs,
)

pytestmark = pytest.mark.both_databases

ODD = ("plain", "tab\tline\nreturn\r", "back\\slash \\N \\.", "quote ' \" ,", "南京 é 🚀", "", " ")
MANY = FEW * 3


def written(engine: Engine, said: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    with writing(engine) as connection:
        upsert(connection, "flags", ("name",), ("value",), said)
    return [(row["name"], row["value"]) for row in rows(engine, "flags")]


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, MANY])
def test_rows_come_back_as_they_were_said_and_said_again_are_replaced(tmp_path: Path, count: int) -> None:
    engine = opened(tmp_path)
    said = [(f"{number:04}", ODD[number % len(ODD)]) for number in range(count)]
    assert written(engine, said) == said
    again = [(name, f"{value}!") for name, value in said]
    assert written(engine, again) == again
    assert written(engine, []) == again


def test_a_large_answer_is_kept_value_for_value(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    facts = [
        fact
        for number in range(MANY)
        for fact in (
            machine(
                f"m{number}", gpu_raw=ODD[number % len(ODD)], nvlink=(None, True, False)[number % 3], vcpus=number + 1
            ),
            price(
                f"m{number}", nanos=2**40 + number, list_nanos=None if number % 2 else 2**41, estimated=number % 2 == 0
            ),
            stock(f"m{number}", detail=ODD[number % len(ODD)], quantity=number or None),
        )
    ]
    polled.told(T0, *facts)
    found = {one.machine.instance_type: one for one in polled.offers().values()}
    assert len(found) == MANY
    for number in range(MANY):
        offer = found[f"m{number}"]
        assert (offer.machine.nvlink, offer.machine.vcpus) == ((None, True, False)[number % 3], number + 1)
        assert offer.price is not None
        assert (offer.price.nanos, offer.price.estimated) == (2**40 + number, number % 2 == 0)
        assert offer.price.list_nanos == (None if number % 2 else 2**41)
        assert (offer.stock.detail, offer.stock.quantity) == (ODD[number % len(ODD)], number or None)
    before = rows(polled.engine, "stocks")
    polled.told(T0 + MINUTE, *facts)
    assert rows(polled.engine, "stocks") == before
    polled.told(T0 + 2 * MINUTE, *facts[: MANY * 2])
    levels = [row["level"] for row in rows(polled.engine, "stocks")]
    assert (levels.count("in_stock"), levels.count("out")) == (MANY * 2 // 3, MANY - MANY * 2 // 3)


def test_many_workers_claim_each_cell_once_and_record_what_they_claimed(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    plan(engine, *(planned_cell("stock", place=f"r{number}") for number in range(60)))
    claimed: list[int] = []

    def work() -> None:
        while leases := schedule.claim(engine, T0, LEASE, 3):
            for lease in leases:
                claimed.append(lease.cell_id)
                answer = Answer([machine(region=lease.place), stock(region=lease.place)])
                record.record(engine, lease, answer, T0, T0 + timedelta(hours=1))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(claimed) == len(set(claimed)) == 60
    assert {row["status"] for row in rows(engine, "cells")} == {"ok"}
    assert len(rows(engine, "stocks")) == 60


def test_planning_pausing_and_recording_at_once_wait_for_each_other_and_lose_nothing(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, *(planned_cell("stock", place=f"r{number}") for number in range(20)))
    engine = polled.engine

    def ten_times(work: Callable[[int], None]) -> None:
        for number in range(10):
            work(number)

    def replan(number: int) -> None:
        plan(
            engine, *(planned_cell("stock", place=f"r{place}", every=MINUTE * (1 + number % 2)) for place in range(20))
        )

    def pause(_number: int) -> None:
        schedule.pause_limit(engine, "cloud", timedelta(seconds=0), T0)
        schedule.make_due(engine, T0)

    def poll(number: int) -> None:
        for lease in schedule.claim(engine, T0 + MINUTE * number, LEASE, 5):
            level = Level.LOW if number % 2 else Level.IN_STOCK
            answer = Answer([machine(region=lease.place), stock(region=lease.place, level=level)])
            record.record(engine, lease, answer, T0 + MINUTE * number, T0 + MINUTE * (number + 1))

    with ThreadPoolExecutor(5) as pool:
        for future in [pool.submit(ten_times, work) for work in (replan, pause, poll, poll, replan)]:
            future.result(60)
    assert len(rows(engine, "cells")) == 20


def test_an_answer_that_cannot_be_written_leaves_nothing_of_it(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    lease = polled.claimed(T0)
    facts = [price(f"m{number}") for number in range(MANY)]
    with without_syncs(polled.engine), pytest.raises(DBAPIError):  # written last of all
        record.record(polled.engine, lease, Answer(facts), T0, T0)
    assert rows(polled.engine, "prices") == []
    assert rows(polled.engine, "price_log") == []
    schedule.release(polled.engine, lease, T0)
    polled.told(T0, *facts)
    with writing(polled.engine) as connection:
        assert len(connection.execute(select(PRICES.c.nanos)).all()) == MANY
        assert connection.execute(select(CELLS.c.digest)).scalar_one() != ""


UNFIT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "half a pair": ({"detail": "half \ud800"}, {"detail": "half \\ud800"}),
    "a number of 33 bits": ({"quantity": 2**31}, {"quantity": None}),
    "a NUL": ({"detail": "nul \0"}, {"detail": "nul \\u0000"}),
}


@pytest.mark.parametrize("many", [0, MANY])
@pytest.mark.parametrize("case", UNFIT)
def test_what_no_database_can_hold_is_changed_and_noted_and_says_nothing_of_its_machine(
    tmp_path: Path, case: str, many: int
) -> None:
    """A machine that was known before such an answer is neither out nor gone by it."""
    said, held = UNFIT[case]
    polled = Cloud(tmp_path, planned_cell("stock", absent=Level.OUT))
    others = [stock(f"m{number}") for number in range(many)]
    polled.told(T0, stock("odd"), machine("odd"), *others)
    odd = stock("odd", level=Level.UNKNOWN, **said)
    polled.told(T0 + MINUTE, odd, machine("odd", gpu_raw="odd \0"), *others)
    (kept,) = [row for row in rows(polled.engine, "stocks") if row["instance_type"] == "odd"]
    noted = [row["value"] for row in rows(polled.engine, "notes") if row["kind"] == "unstorable"]
    assert kept["level"] == "unknown"
    changed = {name: kept[name] for name in held}
    if noted:
        assert changed == held
        assert "stocks r1 odd on_demand" in noted
    else:
        assert changed == said, "SQLite holds what PostgreSQL does not"
    assert [row["instance_type"] for row in rows(polled.engine, "machines")] == ["odd"]
    assert rows(polled.engine, "past_machines") == []


def test_a_name_that_no_database_can_hold_is_left_out_and_noted_whatever_else_is_wrong_with_it(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("prices"))
    odd = "a\0b"
    result = polled.told(
        T0, price("m1"), price(odd), price(odd, nanos=2 * price(odd).nanos), price(odd + "c", nanos=1), feed="prices"
    )
    assert result.status == "ok"
    assert "m1" in {row["instance_type"] for row in rows(polled.engine, "prices")}
    kinds = {row["kind"] for row in rows(polled.engine, "notes")}
    assert {"contradicting_prices", "implausible_price"} <= kinds
    assert all("\0" not in row["value"] for row in rows(polled.engine, "notes"))
