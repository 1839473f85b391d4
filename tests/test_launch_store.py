"""What launch attempts taught: exactly that offer, until it expires, counted from the report."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.offers import Offer
from catalog.words import Evidence, Level, Purchase
from store import launches
from store.launches import Launch
from tests.support.stored import MINUTE, T0, Cloud, machine, offered, opened, planned_cell, price, stock

pytestmark = pytest.mark.both_databases

BOTH = frozenset({Purchase.ON_DEMAND, Purchase.SPOT})


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


def launch(until: datetime | None, level: Level | None = Level.OUT, **changes: Any) -> Launch:
    fields: dict[str, Any] = {
        "provider": "cloud",
        "region": "r1",
        "zone_key": "a",
        "instance_type": "m1",
        "purchase": Purchase.ON_DEMAND,
        "outcome": "ok" if level is Level.IN_STOCK else "error",
        "code": None if level is Level.IN_STOCK else "InsufficientInstanceCapacity",
    }
    return Launch(level=level, until=until, **(fields | changes))


@pytest.fixture
def polled(tmp_path: Path) -> Cloud:
    cloud = Cloud(tmp_path, planned_cell("stock", fresh_for=timedelta(days=9)))
    said = [
        fact for name in ("m1", "m2") for zone in ("a", "b") for fact in (offered(zone, name), price(name, zone=zone))
    ]
    cloud.told(at(0), machine("m1"), machine("m2"), *said, stock("m1", purchases=BOTH), stock("m2", purchases=BOTH))
    return cloud


def the_offer(polled: Cloud) -> Offer:
    return polled.offers()["a", "m1", "on_demand"]


def test_a_report_is_about_exactly_one_place_machine_and_purchase(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(at(30)), at(0))
    taught = {key for key, offer in polled.offers().items() if offer.stock_at(at(1)).level is Level.OUT}
    assert taught == {("a", "m1", "on_demand")}
    assert len(polled.offers()) == 8


@pytest.mark.parametrize(
    "elsewhere",
    [{"provider": "other"}, {"region": "r2"}, {"zone_key": "c"}, {"zone_key": ""}, {"instance_type": "m3"}],
)
def test_a_report_of_something_else_teaches_nothing_here(polled: Cloud, elsewhere: dict[str, Any]) -> None:
    launches.keep(polled.engine, launch(at(30), **elsewhere), at(0))
    assert [offer.observed for offer in polled.offers().values()] == [None] * 8


def test_it_is_out_until_the_report_expires_and_then_as_stated(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(at(30)), at(0))
    levels = {minute: the_offer(polled).stock_at(at(minute)).level for minute in (1, 29, 31)}
    assert levels == {1: Level.OUT, 29: Level.OUT, 31: Level.IN_STOCK}
    assert the_offer(polled).stock_at(at(1)).evidence is Evidence.OBSERVED
    launches.keep(polled.engine, launch(at(70)), at(40))
    levels = {minute: the_offer(polled).stock_at(at(minute)).level for minute in (41, 69, 71)}
    assert levels == {41: Level.OUT, 69: Level.OUT, 71: Level.IN_STOCK}


def test_a_report_says_why_and_since_when(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(at(30)), at(2))
    observed = the_offer(polled).observed
    assert observed is not None
    assert (observed.detail, observed.seen_at, observed.fresh_for) == (
        "InsufficientInstanceCapacity",
        at(2),
        timedelta(minutes=28),
    )


def test_the_newest_report_counts_and_an_older_one_never_comes_back(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(at(60)), at(0))
    launches.keep(polled.engine, launch(at(15), Level.IN_STOCK), at(5))
    assert the_offer(polled).stock_at(at(6)).level is Level.IN_STOCK
    assert the_offer(polled).stock_at(at(6)).evidence is Evidence.OBSERVED
    polled.told(at(16), *(fact for fact in (machine("m1"), offered("a"), stock("m1", Level.LOW))))
    polled.told(at(17), *(fact for fact in (machine("m1"), offered("a"), stock("m1", Level.LOW))))
    assert the_offer(polled).stock_at(at(20)).level is Level.LOW


def test_a_report_that_arrives_late_does_not_hide_a_newer_one(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(at(35), Level.IN_STOCK), at(5))
    launches.keep(polled.engine, launch(at(34)), at(4))
    assert the_offer(polled).stock_at(at(6)).level is Level.IN_STOCK


def test_a_report_that_changes_nothing_is_kept_and_changes_nothing(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(at(30)), at(0))
    quota = launch(None, None, code="VcpuLimitExceeded")
    kept = launches.keep(polled.engine, quota, at(1))
    assert the_offer(polled).stock_at(at(2)).level is Level.OUT
    newest = launches.reports(polled.engine, 1)
    assert [(one.id, one.at, one.launch) for one in newest] == [(kept, at(1), quota)]
    assert kept not in launches.in_force(polled.engine, at(1))


def test_reports_in_force_are_told_with_their_region_until_they_expire(polled: Cloud) -> None:
    first = launches.keep(polled.engine, launch(at(30)), at(0))
    launches.keep(polled.engine, launch(None, None), at(0))
    second = launches.keep(polled.engine, launch(at(60), region="r2"), at(0))
    assert launches.in_force(polled.engine, at(30)) == {first: ("cloud", "r1"), second: ("cloud", "r2")}
    assert launches.in_force(polled.engine, at(31)) == {second: ("cloud", "r2")}


def test_old_reports_are_forgotten_only_once_they_have_expired(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(None, None), at(0))
    launches.keep(polled.engine, launch(at(30)), at(0))
    holding = launches.keep(polled.engine, launch(at(90)), at(0))
    launches.prune(polled.engine, at(60))
    assert [one.id for one in launches.reports(polled.engine, 10)] == [holding]


def test_reports_survive_a_restart(polled: Cloud, tmp_path: Path) -> None:
    launches.keep(polled.engine, launch(at(30)), at(0))
    polled.engine.dispose()
    polled.engine = opened(tmp_path)
    assert the_offer(polled).stock_at(at(29)).level is Level.OUT


def test_polls_do_not_prolong_a_report(polled: Cloud) -> None:
    launches.keep(polled.engine, launch(at(30)), at(0))
    polled.unchanged(at(29))
    assert the_offer(polled).stock_at(at(31)).level is Level.IN_STOCK
