"""Feeds that ask about one machine at a time: what is planned of them, when it is due, and how a pass polls them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from sqlalchemy import Engine, select

from catalog.facts import Region
from catalog.words import Evidence, Level, Purchase
from collectors.account import Account
from collectors.base import ByMachine, Cell, Unavailable
from scheduler import plan
from scheduler.crew import poll_and_plan
from scheduler.plan import Configured
from scheduler.poll import LEASE, Polls
from scheduler.sync import Synced, sync
from scheduler.worker import POLLS_AT_ONCE, Worker
from store import schedule
from store.engine import reading
from store.tables import CELLS
from tests.support.feeds import (
    AT_ONCE,
    HandClock,
    Says,
    ScriptedFeed,
    always,
    as_feed,
    configured,
    fails,
    in_turn,
    says,
)
from tests.support.stored import MINUTE, T0, machine, opened, price, rows, stock
from tests.test_worker import until

pytestmark = pytest.mark.both_databases

DAY = timedelta(days=1)
OUT = Level.OUT


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


class AskedByMachine(ScriptedFeed):
    """A feed with a cell for each machine that it is told of."""

    def cells(self, _regions: Iterable[str]) -> Iterable[Cell]:
        return ()

    def cells_of(self, machines: Mapping[str, Iterable[str]]) -> Iterable[Cell]:
        return [Cell(self.provider, self.name, place, name) for place, those in machines.items() for name in those]


def priced(cell: Cell, _time: int) -> Says:
    return says(price(cell.part, region=cell.place))


def prices(**changes: Any) -> AskedByMachine:
    usual: dict[str, Any] = {"name": "prices", "script": priced, "every": DAY, "fresh_for": 3 * DAY}
    return AskedByMachine(**(usual | changes))


def stocks(*answers: Says, **changes: Any) -> ScriptedFeed:
    return ScriptedFeed(script=in_turn(*answers), places=None, absent=Level.UNKNOWN, **changes)


def known(**regions: str) -> Says:
    """An answer that states the stock of machines: `r1="m1 m2"`."""
    return says(*(stock(name, region=region) for region, names in regions.items() for name in names.split()))


def polled(engine: Engine, one: Configured, now: datetime = T0) -> list[tuple[str, str, str]]:
    """Poll what is due, in the order of the claims; (feed, place, part) of each."""
    clock = HandClock(now)
    polls = Polls(engine, clock, clock.sleep, AT_ONCE)
    leases = schedule.claim(engine, now, LEASE, 1000)
    for lease in leases:
        poll_and_plan(polls, one, one.feeds(), lease)
    return [(lease.feed, lease.place, lease.part) for lease in leases]


def asked(engine: Engine, feed: str = "prices") -> list[tuple[str, str]]:
    """(place, part) of the cells of a feed that are planned."""
    with reading(engine) as connection:
        found = connection.execute(select(CELLS).where(CELLS.c.planned, CELLS.c.feed == feed)).all()
    return sorted((row.place, row.part) for row in found)


def due_in_s(engine: Engine, since: datetime = T0) -> dict[str, float]:
    """Machine -> in how many seconds its price is due."""
    with reading(engine) as connection:
        found = connection.execute(select(CELLS).where(CELLS.c.feed == "prices")).all()
    return {f"{row.place} {row.part}": (row.due_at - since).total_seconds() for row in found}


def test_a_scripted_feed_by_machine_is_one() -> None:
    assert isinstance(prices(), ByMachine)
    assert not isinstance(stocks(known(r1="m1")), ByMachine)


def test_nothing_is_asked_before_a_machine_is_known(engine: Engine) -> None:
    one = configured(stocks(known(r1="m1")), prices(), regions=("r1",))
    assert plan.plan(engine, [one], T0) == 1
    assert asked(engine) == []
    assert polled(engine, one) == [("stock", "r1", "")]


def test_a_machine_that_is_found_is_asked_about_at_once_be_it_sold_out(engine: Engine) -> None:
    one = configured(stocks(says(stock("m1"), stock("m2", level=OUT))), prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    assert asked(engine) == [("r1", "m1"), ("r1", "m2")]
    assert polled(engine, one) == [("prices", "r1", "m1"), ("prices", "r1", "m2")]
    assert {row["instance_type"] for row in rows(engine, "prices")} == {"m1", "m2"}


def test_a_partial_answer_names_machines_too(engine: Engine) -> None:
    one = configured(stocks(says(stock("m1"), missing="the second half")), prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    assert asked(engine) == [("r1", "m1")]


def test_a_failed_answer_changes_nothing_of_what_is_asked(engine: Engine) -> None:
    feed = stocks(known(r1="m1"), fails(Unavailable("down")))
    one = configured(feed, prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    polled(engine, one, T0 + 2 * MINUTE)
    plan.plan_one(engine, one, T0 + 3 * MINUTE)
    assert asked(engine) == [("r1", "m1")]


def test_a_machine_of_several_zones_and_purchases_is_asked_about_once(engine: Engine) -> None:
    kinds = [frozenset({Purchase.ON_DEMAND}), frozenset({Purchase.SPOT})]
    said = says(*(stock("m1", zone=zone, purchases=kind) for zone in ("z1", "z2") for kind in kinds))
    one = configured(stocks(said), prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    assert asked(engine) == [("r1", "m1")]


@pytest.mark.parametrize("evidence", [Evidence.SCORED, Evidence.LISTED])
def test_what_only_a_score_or_a_list_names_is_not_asked_about_nor_planned_for_ever(
    engine: Engine, evidence: Evidence
) -> None:
    one = configured(stocks(says(stock("m1", level=Level.UNKNOWN, evidence=evidence))), prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    assert asked(engine) == []
    assert not plan.names_more(engine, one, "stock")


def test_a_machine_in_a_region_that_is_no_longer_polled_is_not_asked_about(engine: Engine) -> None:
    both = configured(stocks(known(r1="m1", r2="m2"), known(r1="m1")), prices(), regions=("r1", "r2"))
    plan.plan(engine, [both], T0)
    polled(engine, both)
    assert asked(engine) == [("r1", "m1"), ("r2", "m2")]
    one = configured(*both.provider.running, regions=("r1",))  # type: ignore[attr-defined]  # a scripted provider's
    plan.plan(engine, [one], T0 + MINUTE)
    assert asked(engine) == [("r1", "m1")]
    assert not plan.names_more(engine, one, "stock"), "or each poll would plan anew"


def test_without_settings_the_regions_are_those_that_places_named(engine: Engine) -> None:
    places = ScriptedFeed(name="places", places=("",), script=always(says(Region(region="r1"))))
    one = configured(places, stocks(known(r1="m1", elsewhere="m2")), prices())
    plan.plan(engine, [one], T0)
    polled(engine, one)
    polled(engine, one)
    assert asked(engine) == [("r1", "m1")]
    assert not plan.names_more(engine, one, "stock")


def test_a_machine_that_a_feed_cannot_ask_about_is_not_planned_for_ever(engine: Engine) -> None:
    class Choosy(AskedByMachine):
        def cells_of(self, machines: Mapping[str, Iterable[str]]) -> Iterable[Cell]:
            return [cell for cell in super().cells_of(machines) if cell.part != "unnamed"]

    feed = Choosy(name="prices", script=priced, every=DAY, fresh_for=3 * DAY)
    one = configured(stocks(known(r1="m1 unnamed"), known(r1="m1 unnamed m2")), feed, regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    assert asked(engine) == [("r1", "m1")]
    assert not plan.names_more(engine, one, "stock"), "or each poll would plan anew"
    polled(engine, one, T0 + 2 * MINUTE)
    assert asked(engine) == [("r1", "m1"), ("r1", "m2")]


def test_only_what_may_name_more_is_looked_at(engine: Engine) -> None:
    one = configured(stocks(known(r1="m1")), prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    assert plan.names_more(engine, one, "places")
    assert not plan.names_more(engine, one, "stock"), "nothing was said yet"
    clock = HandClock(T0)
    (lease,) = schedule.claim(engine, T0, LEASE, 9)
    polled_alone = Polls(engine, clock, clock.sleep, AT_ONCE)
    poll_and_plan(polled_alone, configured(stocks(known(r1="m1")), regions=("r1",)), one.feeds(), lease)
    assert plan.names_more(engine, one, "stock")
    assert not plan.names_more(engine, one, "prices"), "a price names no machine"
    assert not plan.names_more(engine, configured(stocks(known(r1="m1"))), "stock"), "no feed asks about machines"


def test_a_new_machine_is_planned_beside_the_others_which_stay_as_they_are(engine: Engine) -> None:
    one = configured(stocks(known(r1="m1"), known(r1="m1 m2")), prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    polled(engine, one)
    before = due_in_s(engine)
    assert before["r1 m1"] > 86400
    polled(engine, one, T0 + 2 * MINUTE)
    assert due_in_s(engine) == before | {"r1 m2": 120.0}
    assert polled(engine, one, T0 + 2 * MINUTE) == [("prices", "r1", "m2")]


def test_a_machine_that_is_no_longer_listed_is_asked_no_more_and_keeps_its_price(engine: Engine) -> None:
    one = configured(stocks(known(r1="m1 m2 m3"), known(r1="m1 m2")), prices(), regions=("r1",))
    plan.plan(engine, [one], T0)
    for _ in range(2):
        polled(engine, one)
    polled(engine, one, T0 + 2 * MINUTE)
    plan.plan_one(engine, one, T0 + 3 * MINUTE)
    assert asked(engine) == [("r1", "m1"), ("r1", "m2")]
    assert {row["instance_type"] for row in rows(engine, "prices")} == {"m1", "m2", "m3"}, "they grow old"


def test_new_cells_under_one_limit_are_due_one_after_the_other(engine: Engine) -> None:
    """Due all at once they would be the longest due of all, and hold up the feeds that are polled often."""
    slow = prices(per_second=1.0)
    one = configured(stocks(known(r1="m1 m2 m3", r2="m1 m2")), slow, regions=("r1", "r2"))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    assert due_in_s(engine) == {"r1 m1": 0.0, "r1 m2": 2.0, "r1 m3": 4.0, "r2 m1": 0.0, "r2 m2": 2.0}
    for minutes in (1, 2):
        plan.plan_one(engine, one, T0 + minutes * MINUTE)
    assert due_in_s(engine)["r1 m3"] == 4.0, "planning again moves nothing"


def test_changed_settings_ask_anew_one_after_the_other(engine: Engine) -> None:
    feeds = (stocks(known(r1="m1 m2 m3")), prices(per_second=1.0))
    one = configured(*feeds, regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    plan.plan(engine, [configured(*feeds, regions=("r1",), environ={"KEY": "new"})], T0 + MINUTE)
    assert due_in_s(engine, T0 + MINUTE) == {"r1 m1": 0.0, "r1 m2": 2.0, "r1 m3": 4.0}
    with reading(engine) as connection:
        (at,) = connection.execute(select(CELLS.c.due_at).where(CELLS.c.feed == "stock")).scalars()
    assert at == T0 + MINUTE, "other feeds are asked at once"


def test_a_restart_goes_on_where_it_was_with_what_was_never_read_or_longest_ago(engine: Engine) -> None:
    feeds = (stocks(known(r1="m1 m2 m3")), prices())
    one = configured(*feeds, regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    clock = HandClock(T0)
    (lease,) = schedule.claim(engine, T0, LEASE, 1, provider="cloud")
    assert lease.part == "m1"
    poll_and_plan(Polls(engine, clock, clock.sleep, AT_ONCE), one, one.feeds(), lease)
    plan.plan(engine, [configured(*feeds, regions=("r1",))], T0 + timedelta(seconds=5))
    unread = polled(engine, one, T0 + timedelta(seconds=5))
    assert unread == [("prices", "r1", "m2"), ("prices", "r1", "m3")]
    later = [part for feed, _, part in polled(engine, one, T0 + 2 * DAY) if feed == "prices"]
    assert sorted(later) == ["m1", "m2", "m3"]


def test_one_machine_that_fails_harms_no_other(engine: Engine) -> None:
    def script(cell: Cell, time: int) -> Says:
        return fails(Unavailable("down")) if cell.part == "m1" else priced(cell, time)

    one = configured(stocks(known(r1="m1 m2")), prices(script=script), regions=("r1",))
    plan.plan(engine, [one], T0)
    polled(engine, one)
    polled(engine, one)
    assert {row["instance_type"] for row in rows(engine, "prices")} == {"m2"}
    with reading(engine) as connection:
        found = connection.execute(select(CELLS.c.part, CELLS.c.status).where(CELLS.c.feed == "prices")).all()
    assert {tuple(row) for row in found} == {("m1", "failed"), ("m2", "ok")}


def test_another_account_of_a_provider_asks_about_its_own_machines(engine: Engine) -> None:
    built = configured(stocks(known(r1="m1")), prices(), regions=("r1",))
    one = Configured(Account("cloud_two", built.provider), built.config)
    plan.plan(engine, [one], T0)
    polled(engine, one)
    with reading(engine) as connection:
        found = connection.execute(select(CELLS.c.provider, CELLS.c.feed, CELLS.c.part).order_by(CELLS.c.feed)).all()
    assert [tuple(row) for row in found] == [("cloud_two", "prices", "m1"), ("cloud_two", "stock", "")]
    assert as_feed(prices()).name in plan.by_machine(one)


def passed(engine: Engine, one: Configured, *feeds: str, at: datetime = T0) -> list[tuple[str, str]]:
    """(feed, place or machine) of what a pass polled, in its order."""
    clock = HandClock(at)
    found: list[Synced] = sync(Polls(engine, clock, clock.sleep, AT_ONCE), [one], feeds)
    assert all(row.result.status == "ok" for row in found), found
    return [(row.feed, row.part or row.place) for row in found]


def test_a_pass_asks_about_machines_once_it_knows_them(engine: Engine) -> None:
    places = ScriptedFeed(name="places", places=("",), script=always(says(Region(region="r1"))))
    machines = ScriptedFeed(name="machines", places=None, script=always(says(machine("m1"))))
    one = configured(places, machines, stocks(known(r1="m1 m2")), prices())
    found = passed(engine, one)
    assert found[0] == ("places", "")
    assert set(found[1:3]) == {("machines", "r1"), ("stock", "r1")}
    assert set(found[3:]) == {("prices", "m1"), ("prices", "m2")}


def test_a_pass_over_prices_alone_reads_the_stock_first_where_no_machine_is_known(engine: Engine) -> None:
    one = configured(stocks(known(r1="m1")), prices(), regions=("r1",))
    assert passed(engine, one, "prices") == [("stock", "r1"), ("prices", "m1")]
    assert passed(engine, one, "prices", at=T0 + MINUTE) == [("prices", "m1")]


def test_a_pass_asks_in_many_regions_at_a_time(engine: Engine) -> None:
    """The calls of a region share a limit: all threads would wait for it while the others' lie idle."""
    together, met = Barrier(POLLS_AT_ONCE), []

    def before(cell: Cell) -> None:
        met.append(cell.place)
        together.wait(timeout=60)

    regions = tuple(f"r{number}" for number in range(POLLS_AT_ONCE))
    one = configured(stocks(known(**dict.fromkeys(regions, "m1 m2 m3"))), prices(before=before), regions=regions)
    passed(engine, one)
    assert [set(met[start : start + POLLS_AT_ONCE]) for start in range(0, len(met), POLLS_AT_ONCE)] == [
        set(regions)
    ] * 3


def test_a_pass_over_other_feeds_asks_about_no_machine(engine: Engine) -> None:
    machines = ScriptedFeed(name="machines", places=None, script=always(says(machine("m1"))))
    one = configured(machines, stocks(known(r1="m1")), prices(), regions=("r1",))
    assert passed(engine, one, "machines") == [("machines", "r1")]
    assert passed(engine, one, "stock") == [("stock", "r1")]


def test_a_pass_over_prices_without_a_stock_feed_ends(engine: Engine) -> None:
    assert passed(engine, configured(prices(), regions=("r1",)), "prices") == []


def test_stock_waits_for_no_thread_of_those_that_ask_about_machines(engine: Engine) -> None:
    """Twenty slow cells are due first, and every thread that asks them hangs."""
    opened_gate = Event()
    quick = stocks(known(r1=" ".join(f"m{number}" for number in range(20))), every=MINUTE)
    slow = prices(before=lambda _cell: opened_gate.wait(60))
    clock = HandClock(T0)
    worker = Worker(Polls(engine, clock, clock.sleep, AT_ONCE), [configured(quick, slow, regions=("r1",))])
    try:
        worker.tick()
        until(lambda: len(quick.asked) == 1 and not [one for one in worker.under_way() if one.feed == "stock"])
        for minute in range(1, 4):
            clock.now = T0 + 2 * minute * MINUTE
            worker.tick()
            until(lambda at=minute: len(quick.asked) == 1 + at)  # type: ignore[misc] # bound now
            assert {lease.feed for lease in worker.under_way()} <= {"stock", "prices"}
        assert sum(lease.feed == "prices" for lease in worker.under_way()) == POLLS_AT_ONCE
    finally:
        opened_gate.set()
        for crew in worker._all_crews():
            crew.close()
            crew._pool.shutdown(wait=True)
