"""A sudden shrink is held back until a second whole answer names the same things."""

from datetime import datetime
from pathlib import Path

import pytest

from catalog.words import Level
from store.record import Result
from store.status import provider_statuses
from tests.support.stored import (
    MINUTE,
    T0,
    Cloud,
    cell,
    planned_cell,
    rows,
    stock,
)

pytestmark = pytest.mark.both_databases


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


def cloud(folder: Path, absent: Level = Level.OUT) -> Cloud:
    return Cloud(folder, planned_cell("stock", absent=absent.value))


TEN = [stock(f"m{number}") for number in range(10)]


def levels(polled: Cloud) -> list[str]:
    return [row["level"] for row in rows(polled.engine, "stocks")]


@pytest.mark.parametrize(("left", "status"), [(5, "ok"), (4, "suspicious"), (0, "suspicious")])
def test_an_answer_under_half_of_the_last_is_held_back(tmp_path: Path, left: int, status: str) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN)
    assert polled.told(at(1), *TEN[:left]).status == status
    assert levels(polled) == (["in_stock"] * left + ["out"] * (10 - left) if status == "ok" else ["in_stock"] * 10)


def test_a_suspicious_answer_says_what_is_strange_and_keeps_no_memo(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN, memo={"etag": "a"})
    result = polled.told(at(1), TEN[0], memo={"etag": "b"})
    since = "held back since 2026-11-30 12:01 UTC until a second answer says the same"
    assert result.error == f"named 1 where 10 were named before; {since}"
    assert polled.claimed(at(2)).memo == {"etag": "a"}


def test_a_shrink_is_applied_when_a_second_whole_answer_names_the_same(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN)
    polled.told(at(1), *TEN[:3])
    assert polled.told(at(2), stock("m0", Level.LOW), *TEN[1:3]).status == "ok"
    assert levels(polled) == ["low", "in_stock", "in_stock"] + ["out"] * 7
    assert polled.told(at(3), *TEN[:3]).status == "ok"


def test_an_empty_answer_counts_when_it_comes_twice(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN)
    assert polled.told(at(1)).status == "suspicious"
    assert polled.told(at(2)).status == "ok"
    assert levels(polled) == ["out"] * 10


def test_a_first_answer_may_be_empty(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    assert polled.told(at(0)) == Result("ok")
    assert cell(polled.engine)["seen_at"] == at(0)


def test_a_second_shrunk_answer_that_names_others_waits_for_its_own_second(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN)
    assert polled.told(at(1), *TEN[:3]).status == "suspicious"
    assert polled.told(at(2), *TEN[3:6]).status == "suspicious"
    assert polled.told(at(3), *TEN[:3]).status == "suspicious"
    assert polled.told(at(4), *TEN[:3]).status == "ok"


@pytest.mark.parametrize("between", ["failed", "partial"])
def test_what_says_nothing_of_the_whole_leaves_a_shrink_pending(tmp_path: Path, between: str) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN)
    polled.told(at(1), *TEN[:3])
    if between == "failed":
        polled.failed(at(2))
    else:
        polled.told(at(2), TEN[0], missing="page 2")
    assert polled.told(at(3), *TEN[:3]).status == "ok"


@pytest.mark.parametrize("between", ["grown", "unchanged"])
def test_a_whole_answer_of_the_old_size_clears_a_pending_shrink(tmp_path: Path, between: str) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN)
    polled.told(at(1), *TEN[:3])
    if between == "grown":
        polled.told(at(2), *TEN)
    else:
        polled.unchanged(at(2))
    assert polled.told(at(3), *TEN[:3]).status == "suspicious"
    assert levels(polled) == ["in_stock"] * 10


@pytest.mark.parametrize(("every", "waits"), [(1, 24 * 60 + 1), (24 * 60, 48 * 60)])
@pytest.mark.parametrize("left", [0, 3])
def test_a_held_answer_confirms_nothing_after_a_day_without_any_beyond_the_interval(
    tmp_path: Path, every: int, waits: int, left: int
) -> None:
    for minutes, status in ((waits, "ok"), (waits + 1, "suspicious")):
        folder = tmp_path / status
        folder.mkdir()
        polled = Cloud(folder, planned_cell("stock", every=every * MINUTE))
        polled.told(at(0), *TEN)
        polled.told(at(1), *TEN[:left])
        polled.failed(at(2))
        assert polled.told(at(1 + minutes), *TEN[:left]).status == status
        again = polled.told(at(2 + minutes), *TEN[:left])
        assert again.status == "ok", "what was held anew is confirmed by the next"


def test_a_feed_says_since_when_an_answer_is_held_back_also_after_a_failure(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), *TEN)
    since = "held back since 2026-11-30 12:01 UTC until a second answer says the same"
    polled.told(at(1))
    assert reason(polled) == f"named 0 where 10 were named before; {since}"
    polled.failed(at(2))
    assert reason(polled) == f"timed out; an answer that named far less is {since}"
    polled.told(at(3), *TEN)
    assert reason(polled) is None


def reason(polled: Cloud) -> str | None:
    (provider,) = provider_statuses(polled.engine, at(4))
    (feed,) = provider.feeds
    return feed.reason
