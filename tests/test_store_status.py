"""How a feed is said to do: the weakest of its cells counts, and what is off or failing is named."""

from datetime import datetime
from pathlib import Path

import pytest

from catalog.facts import Region
from store import planning, record, schedule
from store.record import Answer, Result
from store.status import FeedStatus, provider_statuses, unread
from tests.support.stored import (
    LEASE,
    MINUTE,
    T0,
    Cloud,
    machine,
    opened,
    planned_cell,
    planned_provider,
    price,
    stock,
)

pytestmark = pytest.mark.both_databases

PLACES = ("CZ", "DE", "FR", "SE")


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


def cloud(folder: Path, *places: str) -> Cloud:
    return Cloud(folder, *(planned_cell("stock", place=place) for place in places))


def well(polled: Cloud, minute: int, *places: str) -> None:
    for place in places:
        polled.told(at(minute), machine(region=place), stock(region=place), place=place)


def off(polled: Cloud, place: str, why: str) -> None:
    lease = polled.claimed(at(0), place=place)
    record.failed(polled.engine, lease, Result("off", error=why), at(0), at(600))


def shown(polled: Cloud, minute: int = 1) -> FeedStatus:
    (provider,) = provider_statuses(polled.engine, at(minute))
    (feed,) = provider.feeds
    return feed


def test_the_last_success_is_the_oldest_of_all_places_and_none_while_one_never_answered(tmp_path: Path) -> None:
    polled = cloud(tmp_path, *PLACES)
    well(polled, 0, "CZ", "DE", "FR")
    assert (shown(polled).last_success, shown(polled).failing, shown(polled).status) == (None, [], "stale")
    lease = polled.claimed(at(0), place="SE")
    record.failed(polled.engine, lease, Result("failed", error="timed out"), at(0), at(1))
    assert (shown(polled).last_success, shown(polled).failing, shown(polled).reason) == (None, ["SE"], "timed out")
    well(polled, 1, "DE", "FR", "SE")
    assert (shown(polled).last_success, shown(polled).failing, shown(polled).reason) == (at(0), [], None)


def test_a_feed_that_was_not_polled_yet_says_so_and_so_does_one_whose_some_places_were_not(tmp_path: Path) -> None:
    polled = cloud(tmp_path, *PLACES)
    assert (shown(polled).status, shown(polled).reason) == ("stale", "not polled yet")
    well(polled, 0, "CZ", "DE", "FR")
    assert (shown(polled).status, shown(polled).reason) == ("stale", "not polled yet at 1 of 4 places: SE")
    well(polled, 0, "SE")
    assert (shown(polled).status, shown(polled).reason) == ("ok", None)
    assert (shown(polled, 9).status, shown(polled, 9).reason) == ("stale", None), "old, and asked"


def test_polls_that_fail_are_failing_while_what_was_read_is_fresh_and_then_stale_with_their_reason(
    tmp_path: Path,
) -> None:
    polled = cloud(tmp_path, "CZ", "DE")
    well(polled, 0, "CZ", "DE")
    assert shown(polled, 1).status == "ok"
    record.failed(polled.engine, polled.claimed(at(1), place="CZ"), Result("failed", error="timed out"), at(1), at(2))
    for minute, status in ((1, "failing"), (3, "failing"), (4, "stale"), (600, "stale")):
        found = shown(polled, minute)
        assert (found.status, found.reason, found.failing) == (status, "timed out", ["CZ"])
    well(polled, 5, "CZ", "DE")
    assert shown(polled, 5).status == "ok"


def test_a_provider_that_is_paused_grows_stale_too_and_one_that_never_answered_fails(tmp_path: Path) -> None:
    polled = cloud(tmp_path, "CZ")
    schedule.pause_provider(polled.engine, "cloud", "the key was refused")
    assert (shown(polled, 600).status, shown(polled, 600).last_success) == ("failing", None)
    well(polled, 0, "CZ")
    schedule.pause_provider(polled.engine, "cloud", "the key was refused")
    told = [(shown(polled, minute).status, shown(polled, minute).reason) for minute in (1, 4)]
    assert told == [("failing", "the key was refused"), ("stale", "the key was refused")]


def test_a_first_answer_that_is_partial_counts_what_it_states_and_says_when_it_came(tmp_path: Path) -> None:
    polled = cloud(tmp_path, "CZ")
    two = [fact for name in ("m1", "m2") for fact in (machine(name, region="CZ"), stock(name, region="CZ"))]
    polled.told(at(0), *two, place="CZ", missing="zone b did not answer")
    said = "partial answer of 2026-11-30 12:00 UTC: zone b did not answer"
    assert (shown(polled).offers, shown(polled).last_success, shown(polled).reason) == (2, None, said)
    polled.told(at(1), machine("m3", region="CZ"), price("m3", region="CZ"), place="CZ", missing="more")
    assert shown(polled).offers == 3, "what the first named stays"
    well(polled, 2, "CZ")
    polled.told(at(3), *two, place="CZ", missing="more")
    found = shown(polled, 3)
    assert (found.status, found.offers, found.last_success) == ("ok", 3, at(2)), "m3's price is not withdrawn yet"
    assert found.reason == "partial answer of 2026-11-30 12:03 UTC: more"


def test_of_a_partial_list_the_machines_are_counted(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("machines"))
    polled.told(at(0), machine("m1"), machine("m2"), feed="machines", missing="more")
    assert shown(polled).offers == 2


@pytest.mark.parametrize(("minute", "status"), [(-2, "stale"), (-1, "ok"), (0, "ok"), (3, "ok"), (4, "stale")])
def test_a_feed_seen_in_the_future_is_stale(tmp_path: Path, minute: int, status: str) -> None:
    polled = cloud(tmp_path, "CZ")
    well(polled, 0, "CZ")
    assert shown(polled, minute).status == status


def test_a_feed_that_has_no_cell_yet_is_listed_and_says_what_it_waits_for(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    provider = planned_provider(feeds=["machines", "places", "stock"], off={"spot": "set KEY"})

    def reasons() -> dict[str, tuple[str, str | None]]:
        (found,) = provider_statuses(engine, T0)
        return {one.feed: (one.status, one.reason) for one in found.feeds}

    places = planned_cell("places", place="")
    planning.plan(engine, provider, [places], T0)
    waits = ("stale", "no region is known yet: `places` has not answered")
    off = ("off", "set KEY")
    assert reasons() == {"machines": waits, "places": ("stale", "not polled yet"), "spot": off, "stock": waits}
    (lease,) = schedule.claim(engine, T0, LEASE, 1)
    record.record(engine, lease, Answer([Region(region="r1")]), T0, at(1))
    planning.plan(engine, provider, [places, planned_cell("stock")], T0)
    nothing = ("stale", "none of the regions that are known has anything to ask it for")
    assert reasons() == {"machines": nothing, "places": ("ok", None), "spot": off, "stock": ("stale", "not polled yet")}
    schedule.pause_provider(engine, "cloud", "the key was refused")
    assert reasons()["machines"] == ("failing", "the key was refused")


def test_places_that_are_off_are_named_with_their_reason_and_keep_nothing_from_being_whole(tmp_path: Path) -> None:
    polled = cloud(tmp_path, *PLACES)
    well(polled, 0, "DE", "FR", "SE")
    off(polled, "CZ", "not served")
    found = shown(polled)
    assert (found.status, found.last_success) == ("ok", at(0))
    assert found.reason == "off at 1 of 4 places: CZ: not served"


def test_what_fails_is_told_before_what_is_off(tmp_path: Path) -> None:
    polled = cloud(tmp_path, *PLACES)
    well(polled, 0, "SE")
    off(polled, "CZ", "not served")
    off(polled, "FR", "no quota")
    lease = polled.claimed(at(0), place="DE")
    record.failed(polled.engine, lease, Result("failed", error="timed out"), at(0), at(1))
    assert shown(polled).reason == "timed out; off at 2 of 4 places: CZ: not served; FR: no quota"


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["not served"] * 4, "not served"),
        (["not served"] * 3 + ["no quota"], "off at 4 of 4 places: CZ, DE, FR: not served; SE: no quota"),
    ],
)
def test_a_feed_that_is_off_everywhere_says_why(tmp_path: Path, reasons: list[str], said: str) -> None:
    polled = cloud(tmp_path, *PLACES)
    for place, why in zip(PLACES, reasons, strict=True):
        off(polled, place, why)
    assert (shown(polled).status, shown(polled).reason) == ("off", said)


def test_many_places_that_are_off_are_counted_beyond_the_first_five(tmp_path: Path) -> None:
    names = [f"r{number}" for number in range(1, 9)]
    polled = cloud(tmp_path, *names, "well")
    well(polled, 0, "well")
    for name in names:
        off(polled, name, "not served")
    assert shown(polled).reason == "off at 8 of 9 places: r1, r2, r3, r4, r5 and 3 more: not served"


@pytest.mark.parametrize("feed", ["prices", "spot"])
def test_a_machine_whose_price_is_never_had_does_not_keep_its_region_unread(tmp_path: Path, feed: str) -> None:
    polled = Cloud(tmp_path, *(planned_cell(feed, part=part) for part in ("m1", "m2")), planned_cell(feed, place="r2"))
    assert unread(polled.engine) == {("cloud", "r1"), ("cloud", "r2")}
    record.failed(polled.engine, polled.claimed(at(0), feed, part="m1"), Result("failed", error="drift"), at(0), at(1))
    assert unread(polled.engine) == {("cloud", "r1"), ("cloud", "r2")}, "a failure is no answer"
    polled.told(at(0), price("m2"), feed=feed, part="m2")
    assert unread(polled.engine) == {("cloud", "r2")}


@pytest.mark.parametrize("feed", ["stock", "machines"])
def test_of_a_list_in_parts_each_has_to_be_read(tmp_path: Path, feed: str) -> None:
    """The stock of spot says nothing of the stock on demand."""
    polled = Cloud(tmp_path, *(planned_cell(feed, part=part) for part in ("spot", "on_demand")))
    polled.told(at(0), machine(), feed=feed, part="spot")
    assert unread(polled.engine) == {("cloud", "r1")}
    polled.told(at(0), machine(), feed=feed, part="on_demand")
    assert unread(polled.engine) == frozenset()
