"""Polls that failed, in the log: a line for each feed and cause, however many cells it befell; each cell at debug."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from collectors.base import Cell, Drift, Throttled, Unavailable
from scheduler.failures import GATHER_S, QUIET_S, Failures
from scheduler.poll import Polls
from scheduler.sync import sync
from scheduler.worker import Worker
from store.record import Lease
from tests.support.feeds import AT_ONCE, Answers, HandClock, ScriptedFeed, configured, fails, says
from tests.support.stored import MINUTE, T0, machine, opened, stock
from tests.test_worker import settle, take_no_more

Logs = list[Mapping[str, Any]]


@pytest.fixture
def logs() -> Iterator[Logs]:
    with structlog.testing.capture_logs() as captured:
        yield captured  # type: ignore[misc]


class Hand:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def cell(place: str, part: str = "", feed: str = "stock") -> Lease:
    return Lease(1, "token", "cloud", feed, place, part, MINUTE, {}, T0)


def warned(logs: Logs) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in entry.items() if name not in ("log_level", "event")}
        for entry in logs
        if (entry["log_level"], entry["event"]) == ("warning", "poll failed")
    ]


def at_debug(logs: Logs) -> list[tuple[str, str, str]]:
    return [(entry["place"], entry["part"], entry["error"]) for entry in logs if entry["log_level"] == "debug"]


def test_places_that_fail_alike_are_a_line_with_how_many_they_are_and_some_of_them(logs: Logs) -> None:
    time = Hand()
    failures = Failures(time)
    said = [f"https://ec2.r{number}.example.com:{9000 + number}: refused" for number in range(12)]
    for number in range(12):
        failures.add(cell(f"r{number}"), "Unavailable", said[number])
        time.now_s += 0.1
        failures.tell()
    assert warned(logs) == []
    time.now_s += GATHER_S
    failures.tell()
    (line,) = warned(logs)
    told = {"provider": "cloud", "feed": "stock", "kind": "Unavailable", "error": said[0]}
    assert line == told | {"cells": 12, "examples": "r0, r1, r2"}
    assert at_debug(logs) == [(f"r{number}", "", said[number]) for number in range(12)]


def test_a_cell_that_fails_alone_is_named(logs: Logs) -> None:
    time = Hand()
    failures = Failures(time)
    failures.add(cell("r1", "p5.48xlarge", "prices"), "Drift", "no price")
    time.now_s += GATHER_S
    failures.tell()
    failures.tell()
    told = {"provider": "cloud", "feed": "prices", "place": "r1", "part": "p5.48xlarge", "kind": "Drift"}
    assert warned(logs) == [told | {"error": "no price"}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((cell("r1"), "Unavailable", "refused"), (cell("r2", feed="spot"), "Unavailable", "refused")),
        ((cell("r1"), "Unavailable", "refused"), (cell("r2"), "Throttled", "refused")),
        ((cell("r1"), "Unavailable", "HTTP 502"), (cell("r2"), "Unavailable", "HTTP 503")),
        ((cell("r1"), "Unavailable", "refused"), (replace(cell("r2"), provider="other"), "Unavailable", "refused")),
    ],
    ids=["feed", "kind", "what is said", "provider"],
)
def test_another_cause_is_a_line_of_its_own(
    logs: Logs, one: tuple[Lease, str, str], other: tuple[Lease, str, str]
) -> None:
    failures = Failures(Hand())
    failures.add(*one)
    failures.add(*other)
    failures.tell(everything=True)
    assert [line["place"] for line in warned(logs)] == ["r1", "r2"]


def test_what_goes_on_failing_is_told_again_once_a_minute_with_all_that_failed_meanwhile(logs: Logs) -> None:
    time = Hand()
    failures = Failures(time)
    for _ in range(3 * int(QUIET_S)):
        failures.add(cell(f"r{int(time.now_s) % 7}"), "Unavailable", "refused")
        time.now_s += 1
        failures.tell()
    failures.tell(everything=True)
    lines = warned(logs)
    assert [line["cells"] for line in lines[1:3]] == [7, 7]
    assert len(lines) == 4
    assert len(at_debug(logs)) == 3 * int(QUIET_S)


def down_in_all_but(well: str) -> Any:
    def script(asked: Cell, _time: int) -> Answers:
        return says(machine(), stock()) if asked.place == well else fails(Unavailable(f"{asked.place}: refused"))

    return script


PLACES = tuple(f"r{number}" for number in range(20))
OF_A_STOPPED_CLOUD = {"provider": "cloud", "feed": "stock", "cells": 19, "kind": "Unavailable"}


def _is_of_a_stopped_cloud(lines: list[dict[str, Any]]) -> bool:
    (line,) = lines
    named = line.pop("examples").split(", ")
    assert line.pop("error") == f"{named[0]}: refused"
    return line == OF_A_STOPPED_CLOUD and len(named) == 3 and set(named) < set(PLACES)


def test_a_worker_tells_of_a_stopped_cloud_in_one_line(logs: Logs, tmp_path: Path) -> None:
    time, clock = Hand(), HandClock(T0)
    feed = ScriptedFeed(script=down_in_all_but("r7"), places=PLACES)
    engine = opened(tmp_path)
    worker = Worker(Polls(engine, clock, clock.sleep, AT_ONCE, Failures(time)), [configured(feed)])
    worker._tick_safely()
    settle(worker)
    worker._tick_safely()
    assert warned(logs) == []
    time.now_s += GATHER_S
    worker._tick_safely()
    assert _is_of_a_stopped_cloud(warned(logs))
    assert len(at_debug(logs)) == 19
    take_no_more(worker)


def test_a_worker_that_is_stopped_tells_what_it_gathered(logs: Logs, tmp_path: Path) -> None:
    clock = HandClock(T0)
    failures = Failures(Hand())
    worker = Worker(Polls(opened(tmp_path), clock, clock.sleep, AT_ONCE, failures), [])
    failures.add(cell("r1"), "Unavailable", "refused")
    worker.stop()
    worker.run()
    assert [line["place"] for line in warned(logs)] == ["r1"]


def test_a_sync_tells_of_a_stopped_cloud_in_one_line_and_has_a_row_for_each_place(logs: Logs, tmp_path: Path) -> None:
    clock = HandClock(T0)
    feed = ScriptedFeed(script=down_in_all_but("r7"), places=PLACES)
    polls = Polls(opened(tmp_path), clock, clock.sleep, AT_ONCE, Failures(Hand()))
    rows = sync(polls, [configured(feed)])
    assert _is_of_a_stopped_cloud(warned(logs))
    assert sorted(row.result.status for row in rows) == ["failed"] * 19 + ["ok"]


@pytest.mark.parametrize("error", [Throttled("slow down"), Drift("no list")], ids=lambda error: type(error).__name__)
def test_every_kind_of_failure_is_gathered(logs: Logs, tmp_path: Path, error: Exception) -> None:
    clock = HandClock(T0)
    feed = ScriptedFeed(script=lambda _cell, _time: fails(error), places=PLACES)
    sync(Polls(opened(tmp_path), clock, clock.sleep, AT_ONCE, Failures(Hand())), [configured(feed)])
    assert [(line["kind"], line["cells"]) for line in warned(logs)] == [(type(error).__name__, 20)]
