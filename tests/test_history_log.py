"""What recording adds to the history: changes alone, ends, and when anybody looked."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.words import Level, Purchase
from store.planning import plan as plan_provider
from store.rows import series_of
from store.times import micros
from tests.support.stored import (
    MINUTE,
    NANO,
    T0,
    Cloud,
    machine,
    plan,
    planned_cell,
    planned_provider,
    price,
    rows,
    stock,
)

pytestmark = pytest.mark.both_databases

FRESH = 3 * MINUTE
"""Of a planned cell."""


def at(minutes: float) -> Any:
    return T0 + minutes * MINUTE


def levels(polled: Cloud, name: str = "m1") -> list[tuple[float, str, str]]:
    """(minute, level, evidence) of a machine's stock log."""
    series = series_of(("r1", "", name, "on_demand"))
    found = [row for row in rows(polled.engine, "stock_log") if row["series"] == series]
    return [((row["at"] - micros(T0)) / 6e7, row["level"], row["evidence"]) for row in found]


def amounts(polled: Cloud, name: str = "m1") -> list[tuple[float, int | None, str | None]]:
    """(minute, nano-units, currency) of a machine's price log."""
    series = series_of(("r1", "", name, "on_demand"))
    found = [row for row in rows(polled.engine, "price_log") if row["series"] == series]
    return [((row["at"] - micros(T0)) / 6e7, row["nanos"], row["currency"]) for row in found]


def beats(polled: Cloud) -> list[tuple[float, float]]:
    """(from, until) in minutes."""
    found = [(row["start_at"], row["until_at"]) for row in rows(polled.engine, "beats")]
    return [((start - micros(T0)) / 6e7, (until - micros(T0)) / 6e7) for start, until in found]


def test_a_first_answer_begins_a_series_and_the_same_again_adds_nothing_but_time(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    for minute in range(3):
        polled.told(at(minute), machine(), price(zone="z", zone_id="z1"), stock(zone="z", zone_id="z1"))
    (series,) = rows(polled.engine, "series")
    assert {name: series[name] for name in ("region", "zone_key", "zone", "zone_id", "instance_type", "purchase")} == {
        "region": "r1", "zone_key": "z1", "zone": "z", "zone_id": "z1", "instance_type": "m1", "purchase": "on_demand",
    }  # fmt: skip
    (priced,), (stocked,) = rows(polled.engine, "price_log"), rows(polled.engine, "stock_log")
    assert (priced["series"], priced["at"], priced["nanos"], priced["currency"]) == (
        series["id"],
        micros(T0),
        NANO,
        "USD",
    )
    assert (stocked["series"], stocked["at"], stocked["level"]) == (series["id"], micros(T0), "in_stock")
    assert beats(polled) == [(0, 5)]


def test_only_what_changed_is_added(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), price(nanos=NANO), stock(detail="plenty"))
    polled.told(at(1), price(nanos=NANO, source="another list"), stock(detail="enough"))
    polled.told(at(2), price(nanos=2 * NANO), stock(level=Level.LOW))
    polled.told(at(3), price(nanos=2 * NANO, currency="CNY"), stock(level=Level.LOW))
    assert amounts(polled) == [(0, NANO, "USD"), (2, 2 * NANO, "USD"), (3, 2 * NANO, "CNY")]
    assert levels(polled) == [(0, "in_stock", "reported"), (2, "low", "reported")]


def test_a_partial_answer_is_a_change_and_no_beat(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), stock(), stock("m2"))
    polled.told(at(1), stock(level=Level.OUT), missing="a page")
    polled.told(at(2), stock(level=Level.OUT), missing="a page")
    assert levels(polled) == [(0, "in_stock", "reported"), (1, "out", "reported")]
    assert levels(polled, "m2") == [(0, "in_stock", "reported")]
    assert beats(polled) == [(0, 3)]


def test_a_failed_poll_says_nothing_and_a_gap_begins_a_new_beat(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), stock())
    polled.told(at(3), stock())
    polled.failed(at(4))
    polled.told(at(6), stock())
    polled.told(at(9.5), stock())
    polled.unchanged(at(10))
    assert levels(polled) == [(0, "in_stock", "reported")]
    assert beats(polled) == [(0, 9), (9.5, 13)]


def test_stock_that_a_whole_answer_does_not_name_is_out_where_the_feed_says_so_and_else_no_longer_stated(
    tmp_path: Path,
) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("spot", absent="unknown"))
    spot: dict[str, Any] = {"purchases": frozenset({Purchase.SPOT})}
    polled.told(at(0), stock(), stock("m2"), stock("m3"))
    polled.told(at(0), stock(**spot), stock("m2", **spot), stock("m3", **spot), feed="spot")
    polled.told(at(1), stock(), stock("m2"))
    polled.told(at(1), stock(**spot), stock("m2", **spot), feed="spot")
    polled.told(at(2), stock(), stock("m2"))
    assert levels(polled, "m3") == [(0, "in_stock", "reported"), (1, "out", "reported")]
    spots = [row for row in rows(polled.engine, "stock_log") if row["series"] == series_of(("r1", "", "m3", "spot"))]
    assert [row["level"] for row in spots] == ["in_stock", "unknown"]
    polled.told(at(3), stock(), stock("m2"), stock("m3", Level.OUT))
    assert len(levels(polled, "m3")) == 2, "it was out before"
    polled.told(at(4), stock(), stock("m2"), stock("m3"))
    assert levels(polled, "m3")[-1] == (4, "in_stock", "reported")


def test_a_price_ends_when_it_is_withdrawn_and_not_while_it_ages(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), price(), price("m2"))
    for minute in (1, 2, 3, 4):
        polled.told(at(minute), price("m2"))
    assert amounts(polled) == [(0, NANO, "USD"), (3, None, None)]
    polled.told(at(5), price(), price("m2"))
    assert amounts(polled)[-1] == (5, NANO, "USD")


def test_the_same_answer_still_ages_a_price_that_it_does_not_name(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), price(), price("m2"))
    for minute in (1, 2):
        polled.told(at(minute), price("m2"))
        assert polled_digest(polled) == "", "a price still ages: the next answer must be compared"
    polled.told(at(3), price("m2"))
    assert polled_digest(polled) != ""
    assert [row["instance_type"] for row in rows(polled.engine, "prices")] == ["m2"]


def polled_digest(polled: Cloud) -> str:
    (row,) = rows(polled.engine, "cells")
    return str(row["digest"])


def test_an_answer_that_says_the_same_after_a_partial_one_is_compared_again(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    whole = (stock(), stock("m2"))
    polled.told(at(0), *whole)
    polled.told(at(1), stock(level=Level.OUT), missing="a page")
    polled.told(at(2), *whole)
    assert [row["level"] for row in rows(polled.engine, "stocks")] == ["in_stock", "in_stock"]
    assert {row["seen_at"] for row in rows(polled.engine, "stocks")} == {None}
    assert levels(polled) == [(0, "in_stock", "reported"), (1, "out", "reported"), (2, "in_stock", "reported")]


def test_a_machine_that_goes_is_kept_as_it_was(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), machine(gpu_raw="NVIDIA T4", nvlink=False), machine("m2"))
    polled.told(at(1), machine("m2"))
    (past,) = rows(polled.engine, "past_machines")
    assert (past["provider"], past["region"], past["instance_type"]) == ("cloud", "r1", "m1")
    assert (past["gpu"], past["gpu_raw"], past["gone_at"]) == ("t4-16g", "NVIDIA T4", micros(at(1)))
    assert past["nvlink"] in (False, 0)


def test_what_other_settings_take_out_ends_when_they_do(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"), planned_cell("stock", place="r2"))
    polled.told(at(0), machine(), price(), stock())
    polled.told(at(0), stock(region="r2"), place="r2")
    plan(polled.engine, planned_cell("stock", place="r2"), now=at(1), fingerprint="two")
    assert amounts(polled) == [(0, NANO, "USD"), (1, None, None)]
    assert levels(polled) == [(0, "in_stock", "reported"), (1, "unknown", "reported")]
    assert beats(polled) == [(0, 1), (0, 3)]
    assert [row["instance_type"] for row in rows(polled.engine, "past_machines")] == ["m1"]


def test_another_site_ends_what_the_one_before_said(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    cells = [planned_cell("stock")]
    plan_provider(polled.engine, planned_provider(fingerprint="cn", site="cn"), cells, at(0))
    polled.told(at(0), price(currency="CNY"), stock())
    plan_provider(polled.engine, planned_provider(fingerprint="intl", site="intl"), cells, at(1))
    polled.told(at(2), price("m2"), stock("m2"))
    assert amounts(polled) == [(0, NANO, "CNY"), (1, None, None)]
    assert levels(polled) == [(0, "in_stock", "reported"), (1, "unknown", "reported")]
    assert beats(polled) == [(0, 1), (2, 5)]


def test_what_a_clock_hours_ahead_wrote_happened_now_at_the_latest(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), price(), stock(), stock("m2"))
    polled.told(at(600), price(nanos=2 * NANO), stock(level=Level.LOW), stock("m2"))
    polled.told(at(601), price(nanos=3 * NANO), stock(level=Level.OUT), stock("m2"))
    polled.told(at(2), price(nanos=3 * NANO), stock(level=Level.OUT), stock("m2"))
    assert amounts(polled) == [(0, NANO, "USD"), (2, 3 * NANO, "USD")]
    assert levels(polled) == [(0, "in_stock", "reported"), (2, "out", "reported")]
    assert levels(polled, "m2") == [(0, "in_stock", "reported")]
    assert beats(polled) == [(0, 5)]
    polled.told(at(3), price(nanos=3 * NANO), stock(), stock("m2"))
    assert levels(polled)[-1] == (3, "in_stock", "reported")


def test_nothing_is_logged_of_an_answer_that_is_held_back(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("stock"))
    polled.told(at(0), *(stock(f"m{number}") for number in range(5)))
    assert polled.told(at(1), stock("m0")).status == "suspicious"
    assert len(rows(polled.engine, "stock_log")) == 5
    assert beats(polled) == [(0, 3)]
    assert timedelta(minutes=3) == FRESH
