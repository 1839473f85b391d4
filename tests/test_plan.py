"""Planning: what the settings and the providers want becomes cells, and nothing that is known is lost by it."""

import importlib.metadata
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, update

from catalog.facts import Region
from collectors.base import Cell, Config
from scheduler.crew import poll_and_plan
from scheduler.plan import Configured, plan, plan_one
from scheduler.poll import LEASE, Polls, poll
from store import schedule
from store.engine import reading, writing
from store.status import provider_statuses, unread
from store.tables import CELLS, PROVIDERS
from tests.support.feeds import AT_ONCE, HandClock, ScriptedFeed, always, configured, says
from tests.support.stored import MINUTE, T0, machine, opened, price, rows, stock

pytestmark = pytest.mark.both_databases

DAY = timedelta(days=1)
WHOLE = says(machine(), price(), stock())


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


def cells(engine: Engine) -> list[tuple[str, str, str]]:
    """(provider, feed, place) of what is planned."""
    with reading(engine) as connection:
        found = connection.execute(select(CELLS).where(CELLS.c.planned)).all()
    return sorted((row.provider, row.feed, row.place) for row in found)


def the_cell(engine: Engine, **having: Any) -> Any:
    query = select(CELLS)
    for name, value in having.items():
        query = query.where(CELLS.c[name] == value)
    with reading(engine) as connection:
        return connection.execute(query).one()


def poll_due(engine: Engine, one: Configured, now: Any = T0) -> None:
    clock = HandClock(now)
    polls = Polls(engine, clock, clock.sleep, AT_ONCE)
    for lease in schedule.claim(engine, now, LEASE, 100):
        poll_and_plan(polls, one, one.feeds(), lease)


def regional(**changes: Any) -> ScriptedFeed:
    """A feed with a cell for each region."""
    return ScriptedFeed(script=always(WHOLE), places=None, **changes)


def places(*regions: Region, **changes: Any) -> ScriptedFeed:
    return ScriptedFeed(name="places", places=("",), script=always(says(*regions, **changes)))


def test_a_new_cell_is_due_at_once(engine: Engine) -> None:
    assert plan(engine, [configured(ScriptedFeed(places=("r1", "r2")))], T0) == 2
    assert cells(engine) == [("cloud", "stock", "r1"), ("cloud", "stock", "r2")]
    assert len(schedule.claim(engine, T0, LEASE, 9)) == 2


def test_planning_again_changes_nothing(engine: Engine) -> None:
    one = configured(ScriptedFeed(script=always(WHOLE)))
    plan(engine, [one], T0)
    poll_due(engine, one)
    before = {table: rows(engine, table) for table in ("cells", "providers", "machines", "prices", "stocks")}
    for minutes in range(1, 4):
        assert plan(engine, [one], T0 + minutes * MINUTE) == 0
    assert before == {table: rows(engine, table) for table in before}


def test_the_settings_regions_are_polled_and_nobody_is_asked_for_others(engine: Engine) -> None:
    one = configured(places(Region(region="named")), regional(), regions=("r8", "r9"))
    plan(engine, [one], T0)
    poll_due(engine, one)
    assert [place for _, feed, place in cells(engine) if feed == "stock"] == ["r8", "r9"]


def test_without_settings_no_region_is_planned_before_places_named_it(engine: Engine) -> None:
    plan(engine, [configured(places(Region(region="r1")), regional())], T0)
    assert cells(engine) == [("cloud", "places", "")]


@pytest.mark.parametrize("missing", ["", "the second half"])
def test_a_places_answer_plans_the_regions_that_it_names_at_once(engine: Engine, missing: str) -> None:
    regions = [
        Region(region="r1", enabled=True),
        Region(region="r2", enabled=False),
        Region(region="r3", enabled=None),
    ]
    one = configured(places(*regions, missing=missing), regional())
    plan(engine, [one], T0)
    poll_due(engine, one)
    assert [place for _, feed, place in cells(engine) if feed == "stock"] == ["r1", "r3"], "r2 is not this account's"
    assert {lease.place for lease in schedule.claim(engine, T0, LEASE, 9)} == {"r1", "r3"}


def test_a_provider_no_longer_configured_is_not_polled_and_what_it_said_stays(engine: Engine) -> None:
    gone = configured(ScriptedFeed(provider="gone", script=always(WHOLE)))
    stays = configured(ScriptedFeed(provider="stays"))
    plan(engine, [gone, stays], T0)
    (lease,) = schedule.claim(engine, T0, LEASE, 1, provider="gone")
    clock = HandClock(T0)
    poll(Polls(engine, clock, clock.sleep, AT_ONCE), gone.feeds()["stock"], lease, gone.scrubber())
    plan(engine, [stays], T0 + MINUTE)
    assert cells(engine) == [("stays", "stock", "r1")]
    assert [one.name for one in provider_statuses(engine, T0)] == ["stays"]
    assert {lease.provider for lease in schedule.claim(engine, T0 + DAY, LEASE, 9)} == {"stays"}
    assert [row["nanos"] for row in rows(engine, "prices")] == [1_000_000_000]


def test_planning_one_provider_leaves_the_others_alone(engine: Engine) -> None:
    other = configured(ScriptedFeed(provider="other"))
    plan(engine, [other], T0)
    plan_one(engine, configured(ScriptedFeed()), T0)
    assert cells(engine) == [("cloud", "stock", "r1"), ("other", "stock", "r1")]


@pytest.mark.parametrize(
    ("every", "fresh_for"),
    [
        (None, 3 * MINUTE),
        (timedelta(seconds=2), 3 * MINUTE),
        (10 * MINUTE, 13.5 * MINUTE),
        (DAY, 1.05 * DAY + 3 * MINUTE),
    ],
    ids=[
        "its own",
        "shorter: what is known stays fresh as long",
        "longer: one interval more",
        "a day: not three of them",
    ],
)
def test_an_interval_of_the_settings_goes_before_the_feeds(
    engine: Engine, every: timedelta | None, fresh_for: timedelta
) -> None:
    plan(engine, [configured(ScriptedFeed(), intervals={} if every is None else {"stock": every})], T0)
    cell = the_cell(engine)
    assert cell.every_s == (every or MINUTE).total_seconds()
    assert cell.fresh_s == fresh_for.total_seconds()


def test_an_interval_of_another_feed_changes_nothing(engine: Engine) -> None:
    plan(engine, [configured(ScriptedFeed(), intervals={"prices": 10 * MINUTE})], T0)
    assert the_cell(engine).every_s == 60


def test_a_feed_that_is_off_says_what_to_set(engine: Engine) -> None:
    plan(engine, [configured(ScriptedFeed(), off={"spot": "set CLOUD_KEY"})], T0)
    (status,) = provider_statuses(engine, T0)
    assert [(feed.feed, feed.status, feed.reason) for feed in status.feeds if feed.feed == "spot"] == [
        ("spot", "off", "set CLOUD_KEY")
    ]


@pytest.mark.parametrize(
    "changed", [{"environ": {"KEY": "new"}}, {"site": "intl"}, {"endpoints": {"api": "http://127.0.0.1:1"}}], ids=str
)
def test_a_changed_setting_ends_a_pause_and_asks_all_cells_anew(engine: Engine, changed: dict[str, Any]) -> None:
    feed = ScriptedFeed(script=always(says(machine(), memo={"etag": "old"})))
    before = configured(feed, environ={"KEY": "old"})
    plan(engine, [before], T0)
    poll_due(engine, before)
    schedule.pause_provider(engine, "cloud", "the key was refused")
    plan(engine, [before], T0 + MINUTE)
    assert schedule.claim(engine, T0 + DAY, LEASE, 9) == [], "the same settings end no pause"
    plan(engine, [configured(feed, **changed)], T0 + timedelta(seconds=30))
    (lease,) = schedule.claim(engine, T0 + timedelta(seconds=30), LEASE, 9)
    assert lease.memo == {}, "`unchanged` would be about what the old settings made of the answer"


def test_the_fingerprint_holds_no_secret_and_is_the_same_in_every_process() -> None:
    one = configured(ScriptedFeed(), environ={"B": "S3cr3t", "A": "1"})
    assert one.fingerprint().partition(".")[2], "the credentials alone"
    again = configured(ScriptedFeed(), environ={"A": "1", "B": "S3cr3t"})
    assert one.fingerprint() == again.fingerprint()
    assert "S3cr3t" not in one.fingerprint()
    assert "S3cr3t" not in repr(one.config)


OTHERWISE: dict[str, Any] = {
    "environ": {"KEY": "S3cr3t"},
    "regions": ("r1",),
    "site": "cn",
    "endpoints": {"api": "http://127.0.0.1:1"},
    "timeout": timedelta(seconds=1),
    "scores": True,
    "price_source": "api",
    "beside": True,
}


@pytest.mark.parametrize("name", [each.name for each in fields(Config)])
def test_whatever_a_provider_is_built_from_changes_the_fingerprint(name: str) -> None:
    before = configured(ScriptedFeed())
    after = replace(before, config=replace(before.config, **{name: OTHERWISE[name]}))
    assert before.fingerprint() != after.fingerprint()


def test_another_version_of_the_program_keeps_no_memo_of_what_the_one_before_read(engine: Engine) -> None:
    before = configured(ScriptedFeed(script=always(says(machine(), memo={"etag": "old"}))))
    assert before.version == importlib.metadata.version("gpufare")
    plan(engine, [before], T0)
    poll_due(engine, before)
    plan(engine, [replace(before, version="99.0")], T0 + timedelta(seconds=1))
    (lease,) = schedule.claim(engine, T0 + timedelta(seconds=1), LEASE, 9)
    assert lease.memo == {}


def test_other_credentials_take_out_all_that_the_ones_before_were_told(engine: Engine) -> None:
    """They may be another account's: its prices must not stand beside what this one is told of stock."""
    feed = ScriptedFeed(script=always(says(machine(), price(), stock(), memo={"etag": "old"})))
    before = configured(feed, environ={"KEY": "a"})
    plan(engine, [before], T0)
    poll_due(engine, before)
    plan(engine, [configured(feed, environ={"KEY": "b"})], T0 + MINUTE)
    assert {table: rows(engine, table) for table in ("machines", "prices", "stocks")} == {
        "machines": [],
        "prices": [],
        "stocks": [],
    }
    cell = the_cell(engine)
    assert (cell.status, cell.seen_at, cell.offers, cell.memo) == ("new", None, 0, "{}")
    assert unread(engine) == {("cloud", "r1")}, "not read yet, and nothing is said to be sold out"


@pytest.mark.parametrize(
    "changed",
    [{"config": Config({"KEY": "a"}, endpoints={"api": "http://127.0.0.1:1"})}, {"version": "99.0"}],
    ids=["a setting", "the version"],
)
def test_the_same_credentials_under_another_setting_or_version_keep_what_was_said(
    engine: Engine, changed: dict[str, Any]
) -> None:
    before = configured(ScriptedFeed(script=always(WHOLE)), environ={"KEY": "a"})
    plan(engine, [before], T0)
    poll_due(engine, before)
    plan(engine, [replace(before, **changed)], T0 + MINUTE)
    assert [row["nanos"] for row in rows(engine, "prices")] == [1_000_000_000]
    assert the_cell(engine).seen_at == T0


def test_a_fingerprint_of_a_version_that_kept_no_credentials_proves_nothing(engine: Engine) -> None:
    one = configured(ScriptedFeed(script=always(WHOLE)), environ={"KEY": "a"})
    plan(engine, [one], T0)
    poll_due(engine, one)
    with writing(engine) as connection:
        connection.execute(update(PROVIDERS).values(fingerprint="a digest without a second part"))
    plan(engine, [one], T0 + MINUTE)
    assert rows(engine, "prices") == []


def test_a_plan_that_another_process_undid_is_made_again_without_asking_anew(engine: Engine) -> None:
    feed = ScriptedFeed(script=always(WHOLE), places=None, every=DAY, fresh_for=DAY)
    ours, theirs = (configured(feed, regions=regions) for regions in (("r1", "r2"), ("r1",)))
    for one in (ours, theirs):
        plan_one(engine, one, T0)
        poll_due(engine, one)
    plan_one(engine, ours, T0 + MINUTE, again=True)
    poll_due(engine, ours, T0 + MINUTE)
    assert [cell.place for cell, _ in feed.asked] == ["r1", "r2", "r1", "r2"], "each once under each; r2 was taken out"
    for minute in range(2, 10):
        plan_one(engine, theirs, T0 + minute * MINUTE, again=True)
        plan_one(engine, ours, T0 + minute * MINUTE, again=True)
        poll_due(engine, ours, T0 + minute * MINUTE)
    assert len(feed.asked) == 4
    assert cells(engine) == [("cloud", "stock", "r1"), ("cloud", "stock", "r2")]
    assert len(rows(engine, "prices")) == 2, "neither took out what the other was told"


class KeyedFeed(ScriptedFeed):
    """Cells differ with a key and without, as RunPod's do: one catalogue, or a cell for each place."""

    keyed = False

    def cells(self, _regions: Any) -> list[Cell]:
        return [Cell(self.provider, self.name, place) for place in (("r1", "r2") if self.keyed else ("",))]


def test_a_cell_that_others_take_the_place_of_does_not_go_on_serving_what_it_said(engine: Engine) -> None:
    feed = KeyedFeed(script=always(WHOLE))
    one = configured(feed)
    plan(engine, [one], T0)
    poll_due(engine, one)
    assert len(rows(engine, "stocks")) == 1
    feed.keyed = True
    assert plan(engine, [configured(feed, environ={"KEY": "k"})], T0 + MINUTE) == 2
    assert cells(engine) == [("cloud", "stock", "r1"), ("cloud", "stock", "r2")]
    for table in ("machines", "prices", "stocks", "notes"):
        assert rows(engine, table) == [], f"{table}: a dropped cell's facts stand beside its successors'"


def test_a_feed_that_is_off_as_a_whole_keeps_what_it_said(engine: Engine) -> None:
    feed, other = ScriptedFeed(script=always(WHOLE)), ScriptedFeed(name="machines")
    one = configured(feed, other)
    plan(engine, [one], T0)
    poll_due(engine, one)
    plan(engine, [configured(other, off={"stock": "set KEY"})], T0 + MINUTE)
    assert cells(engine) == [("cloud", "machines", "r1")]
    assert [row["level"] for row in rows(engine, "stocks")] == ["in_stock"]


def test_a_region_that_is_named_again_is_polled_again(engine: Engine) -> None:
    for regions, planned in (("r1", "r2"), ["r1", "r2"]), (("r1",), ["r1"]), (("r1", "r2"), ["r1", "r2"]):
        plan(engine, [configured(regional(), regions=regions)], T0)
        assert [place for _, _, place in cells(engine)] == planned


def test_nothing_is_written_about_providers_that_are_not_planned(engine: Engine) -> None:
    plan(engine, [], T0)
    with reading(engine) as connection:
        assert connection.execute(select(PROVIDERS)).all() == []


def test_the_start_of_a_process_switches_off_what_it_does_not_poll_and_planning_again_does_not(engine: Engine) -> None:
    ours, theirs = configured(ScriptedFeed()), configured(ScriptedFeed(provider="theirs"))
    plan(engine, [theirs], T0)
    plan(engine, [ours], T0)
    assert cells(engine) == [("cloud", "stock", "r1")]
    plan_one(engine, theirs, T0)
    plan_one(engine, ours, T0 + MINUTE)
    assert cells(engine) == [("cloud", "stock", "r1"), ("theirs", "stock", "r1")]
