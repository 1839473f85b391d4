"""What is forgotten of the history, and what stays; the months of the logs on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import Engine

from catalog.facts import Fact
from catalog.offers import Place
from catalog.words import Level
from store import partitions, retention
from store.engine import is_postgresql, reading
from store.history import PRICE_POINTS, STOCK_POINTS, past_machines, series, tracks
from store.timeline import Span, changes, durations, pieces
from store.times import micros
from tests.support.stored import MINUTE, NANO, REGION, T0, Cloud, machine, plan, planned_cell, price, rows, stock

pytestmark = pytest.mark.both_databases

DAY = timedelta(days=1)
M1 = {("cloud", REGION, "m1")}


@pytest.fixture
def cloud(tmp_path: Path, database: str) -> Cloud:
    cells = (planned_cell("stock"), planned_cell("prices", absent=Level.UNKNOWN.value), planned_cell("machines"))
    found = Cloud(tmp_path, *cells)
    assert is_postgresql(found.engine) == (database == "postgresql")
    return found


def prune(engine: Engine, before: datetime, calls: int = 10) -> None:
    """As a worker does it, minute by minute, until a round is over."""
    for _ in range(calls):
        retention.prune(engine, before)


def points(engine: Engine, log: str = "price_log") -> list[tuple[timedelta, int | str | None]]:
    """What a log holds, in order: since `T0`, and what it says."""
    said = "nanos" if log == "price_log" else "level"
    found = [(timedelta(microseconds=row["at"] - micros(T0)), row[said]) for row in rows(engine, log)]
    return sorted(found, key=lambda point: point[0])


def test_points_that_others_replaced_by_then_go_and_what_was_in_force_stays(cloud: Cloud) -> None:
    for day in range(5):
        cloud.told(T0 + day * DAY, price(nanos=(day + 1) * NANO), feed="prices")
    prune(cloud.engine, T0 + 2 * DAY + MINUTE)
    assert points(cloud.engine) == [(2 * DAY, 3 * NANO), (3 * DAY, 4 * NANO), (4 * DAY, 5 * NANO)]


def test_a_price_that_never_changed_does_not_vanish(cloud: Cloud) -> None:
    cloud.told(T0, price(), feed="prices")
    for day in (200, 400, 600):
        cloud.told(T0 + day * DAY, price(), feed="prices")
        prune(cloud.engine, T0 + (day - 1) * DAY)
    (found,) = series(cloud.engine, PRICE_POINTS, M1, T0 + 601 * DAY)
    window = Span(T0 + 600 * DAY, T0 + 600 * DAY + MINUTE)
    (track,) = tracks(cloud.engine, PRICE_POINTS, [found.source], window).values()
    parts = pieces([track], window, T0 + 700 * DAY)
    assert [(point.at, point.said.nanos) for point in changes(parts)] == [(T0, NANO)]
    assert all(part.observed for part in parts)


def test_a_point_at_the_very_time_is_in_force_then(cloud: Cloud) -> None:
    for day in range(3):
        cloud.told(T0 + day * DAY, price(nanos=(day + 1) * NANO), feed="prices")
    prune(cloud.engine, T0 + DAY)
    assert points(cloud.engine) == [(DAY, 2 * NANO), (2 * DAY, 3 * NANO)]


def test_what_history_says_of_the_time_since_is_the_same_as_before(cloud: Cloud) -> None:
    levels = [Level.IN_STOCK, Level.OUT, Level.IN_STOCK, Level.LOW, Level.OUT]
    for hour in range(48):
        cloud.told(T0 + hour * 60 * MINUTE, stock(level=levels[hour % 5]))
    before, until = T0 + 20 * 60 * MINUTE + MINUTE, T0 + 3 * DAY
    (found,) = series(cloud.engine, STOCK_POINTS, M1, until)

    def said() -> object:
        window = Span(before, until)
        (track,) = tracks(cloud.engine, STOCK_POINTS, [found.source], window).values()
        parts = pieces([track], window, until)
        return changes(parts), durations(parts)

    told = said()
    prune(cloud.engine, before)
    assert said() == told
    assert len(rows(cloud.engine, "stock_log")) == 48 - 20


def test_beats_that_ended_by_then_go(cloud: Cloud) -> None:
    for day in range(3):
        cloud.told(T0 + day * DAY, stock())
    assert len(rows(cloud.engine, "beats")) == 3
    prune(cloud.engine, T0 + DAY + MINUTE)
    assert [row["start_at"] for row in rows(cloud.engine, "beats")] == [micros(T0 + day * DAY) for day in (1, 2)]


def test_a_series_that_says_nothing_of_any_later_time_goes(cloud: Cloud) -> None:
    cloud.told(T0, price("m1"), price("m2"), feed="prices")
    for minute in range(1, 4):
        cloud.told(T0 + minute * MINUTE, price("m2"), feed="prices")
    assert points(cloud.engine) == [(timedelta(0), NANO), (timedelta(0), NANO), (3 * MINUTE, None)]
    prune(cloud.engine, T0 + 2 * MINUTE)  # it was still offered then
    assert {row["instance_type"] for row in rows(cloud.engine, "series")} == {"m1", "m2"}
    prune(cloud.engine, T0 + DAY)
    assert {row["instance_type"] for row in rows(cloud.engine, "series")} == {"m2"}
    assert points(cloud.engine) == [(timedelta(0), NANO)]


def test_a_series_whose_cell_went_silent_stays_as_long_as_it_was_observed(cloud: Cloud) -> None:
    cloud.told(T0, stock())
    later = T0 + 2 * MINUTE
    plan(cloud.engine, planned_cell("stock", place="r2"), now=later, fingerprint="two")  # what the cell said goes
    assert rows(cloud.engine, "stocks") == []
    prune(cloud.engine, T0 + MINUTE)
    assert len(rows(cloud.engine, "series")) == 1
    prune(cloud.engine, T0 + DAY)
    assert rows(cloud.engine, "series") == rows(cloud.engine, "stock_log") == []


def test_what_is_offered_stays_whatever_is_said_of_it(cloud: Cloud) -> None:
    cloud.told(T0, stock(level=Level.UNKNOWN))
    prune(cloud.engine, T0 + 500 * DAY)
    assert points(cloud.engine, "stock_log") == [(timedelta(0), "unknown")]


def test_machines_that_went_before_then_are_forgotten(cloud: Cloud) -> None:
    cloud.told(T0, machine("m1"), machine("m2"), machine("m3"), feed="machines")
    cloud.told(T0 + DAY, machine("m2"), machine("m3"), feed="machines")
    cloud.told(T0 + 2 * DAY, machine("m3"), feed="machines")
    found = past_machines(cloud.engine, ["cloud"])
    assert {(one.machine, one.gone_at) for one in found} == {(machine("m1"), T0 + DAY), (machine("m2"), T0 + 2 * DAY)}
    assert {one.place for one in found} == {Place(provider="cloud", region=REGION)}
    prune(cloud.engine, T0 + DAY + MINUTE)
    assert [one.machine.instance_type for one in past_machines(cloud.engine, ["cloud"])] == ["m2"]


# --- little by little


def test_a_call_looks_at_few_series_and_the_next_one_goes_on(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SERIES_AT_ONCE", 2)
    monkeypatch.setattr(retention, "POINTS_AT_ONCE", 3)
    for day in range(4):
        cloud.told(T0 + day * DAY, *(price(f"m{name}", (day + 1) * NANO) for name in range(5)), feed="prices")
    sizes = [len(points(cloud.engine))]
    for _ in range(12):
        retention.prune(cloud.engine, T0 + 3 * DAY)
        sizes.append(len(points(cloud.engine)))
    assert sizes[0] == 20
    assert sizes[-1] == 5
    assert max(before - after for before, after in pairwise(sizes)) == 3
    assert points(cloud.engine) == [(3 * DAY, 4 * NANO)] * 5


def test_a_round_that_is_over_is_not_begun_again_within_the_hour(cloud: Cloud) -> None:
    cloud.told(T0, price(nanos=NANO), feed="prices")
    prune(cloud.engine, T0 + DAY)
    cloud.told(T0 + DAY, price(nanos=2 * NANO), feed="prices")
    prune(cloud.engine, T0 + DAY + 59 * MINUTE)
    assert len(points(cloud.engine)) == 2
    prune(cloud.engine, T0 + DAY + 60 * MINUTE)
    assert points(cloud.engine) == [(DAY, 2 * NANO)]


def test_a_clock_that_was_ahead_stops_no_round(cloud: Cloud) -> None:
    cloud.told(T0, price(nanos=NANO), feed="prices")
    prune(cloud.engine, T0 - 1 * DAY + 4000 * DAY)
    cloud.told(T0 + DAY, price(nanos=2 * NANO), feed="prices")
    prune(cloud.engine, T0 + 2 * DAY)
    assert points(cloud.engine) == [(DAY, 2 * NANO)]


def test_several_workers_may_prune_while_another_records(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SERIES_AT_ONCE", 3)
    names = [f"m{number}" for number in range(20)]
    for day in range(6):
        cloud.told(T0 + day * DAY, *(price(name, (day + 1) * NANO) for name in names), feed="prices")

    def pruned() -> None:
        prune(cloud.engine, T0 + 5 * DAY, calls=12)

    def told() -> None:
        for minute in range(1, 6):
            facts: list[Fact] = [price(name, (10 + minute) * NANO) for name in names]
            cloud.told(T0 + 6 * DAY + minute * MINUTE, *facts, feed="prices")

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(work) for work in (pruned, pruned, told)]:
            future.result(60)
    assert len(rows(cloud.engine, "series")) == 20
    assert sorted({at for at, _ in points(cloud.engine)}) == [5 * DAY, *(6 * DAY + n * MINUTE for n in range(1, 6))]
    assert len(points(cloud.engine)) == 20 * 6


# --- months

NOV, DEC = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def postgresql(cloud: Cloud, database: str) -> Cloud:
    if database != "postgresql":
        pytest.skip("a log on SQLite is one tree")
    return cloud


def months(engine: Engine, log: str = "price_log") -> list[str]:
    with reading(engine) as connection:
        return [name for name, _ in partitions._months(connection, log)]


def size(engine: Engine, table: str) -> int:
    with reading(engine) as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())  # noqa: S608


def test_on_sqlite_there_is_nothing_to_prepare(cloud: Cloud) -> None:
    before = tables(cloud.engine)
    partitions.prepare(cloud.engine, T0)
    partitions.drop(cloud.engine, T0 + 1000 * DAY)
    assert is_postgresql(cloud.engine) or tables(cloud.engine) == before


def tables(engine: Engine) -> set[str]:
    from sqlalchemy import inspect

    return set(inspect(engine).get_table_names())


def test_this_month_and_the_next_are_prepared_once(postgresql: Cloud) -> None:
    engine = postgresql.engine
    for _ in range(2):
        partitions.prepare(engine, T0)
        assert months(engine) == ["price_log_2026_11", "price_log_2026_12"]
        assert months(engine, "stock_log") == ["stock_log_2026_11", "stock_log_2026_12"]
    partitions.prepare(engine, datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert months(engine)[-1] == "price_log_2027_01"


def test_points_lie_in_their_months(postgresql: Cloud) -> None:
    engine = postgresql.engine
    partitions.prepare(engine, T0)
    last = DEC - timedelta(microseconds=1)
    for number, at in enumerate((T0, last, DEC, DEC + 40 * DAY)):
        postgresql.told(at, price(nanos=(number + 1) * NANO), feed="prices")
    sizes = [size(engine, f"price_log_{name}") for name in ("2026_11", "2026_12", "rest")]
    assert sizes == [2, 1, 1]


def test_a_month_that_the_default_partition_holds_points_of_stays_there(postgresql: Cloud) -> None:
    engine = postgresql.engine
    postgresql.told(T0, price(), feed="prices")
    partitions.prepare(engine, T0)
    assert months(engine) == ["price_log_2026_12"]
    assert months(engine, "stock_log") == ["stock_log_2026_11", "stock_log_2026_12"]
    assert size(engine, "price_log_rest") == 1


def test_several_processes_may_prepare_at_once(postgresql: Cloud) -> None:
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(partitions.prepare, postgresql.engine, T0) for _ in range(4)]:
            future.result(60)
    assert months(postgresql.engine) == ["price_log_2026_11", "price_log_2026_12"]


def test_a_month_is_dropped_whole_and_what_was_in_force_goes_on(postgresql: Cloud) -> None:
    engine = postgresql.engine
    partitions.prepare(engine, T0)
    postgresql.told(T0, price("still"), price("changed"), feed="prices")
    postgresql.told(T0 + MINUTE, price("still"), price("changed", 2 * NANO), feed="prices")
    postgresql.told(DEC + DAY, price("still"), price("changed", 3 * NANO), feed="prices")
    partitions.drop(engine, DEC - MINUTE)
    assert months(engine) == ["price_log_2026_11", "price_log_2026_12"]  # not all of it is older
    partitions.drop(engine, DEC)
    assert months(engine) == ["price_log_2026_12"]
    kept = {(row["at"], row["nanos"]) for row in rows(engine, "price_log")}
    assert kept == {(micros(T0), NANO), (micros(T0 + MINUTE), 2 * NANO), (micros(DEC + DAY), 3 * NANO)}
    assert size(engine, "price_log_rest") == 2


def test_what_was_carried_goes_once_another_point_replaced_it(postgresql: Cloud) -> None:
    engine = postgresql.engine
    partitions.prepare(engine, T0)
    postgresql.told(T0, price(nanos=NANO), feed="prices")
    postgresql.told(DEC + DAY, price(nanos=2 * NANO), feed="prices")
    prune(engine, DEC)
    assert months(engine) == ["price_log_2026_12"]
    assert size(engine, "price_log_rest") == 1
    prune(engine, DEC + 2 * DAY)
    assert [row["nanos"] for row in rows(engine, "price_log")] == [2 * NANO]
    prune(engine, datetime(2027, 1, 1, tzinfo=UTC))
    assert months(engine) == []
    assert [row["nanos"] for row in rows(engine, "price_log")] == [2 * NANO]
    assert size(engine, "price_log_rest") == 1


def test_a_log_of_many_months_is_read_as_one(postgresql: Cloud) -> None:
    engine = postgresql.engine
    for month in range(6):
        now = T0 + month * 30 * DAY
        partitions.prepare(engine, now)
        postgresql.told(now, price(nanos=(month + 1) * NANO), feed="prices")
    (found,) = series(engine, PRICE_POINTS, M1, T0 + 200 * DAY)
    window = Span(T0 + 45 * DAY, T0 + 125 * DAY)
    (track,) = tracks(engine, PRICE_POINTS, [found.source], window).values()
    parts = pieces([track], window, T0 + 200 * DAY)
    assert [point.said.nanos for point in changes(parts)] == [month * NANO for month in (2, 3, 4, 5)]
