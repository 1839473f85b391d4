"""The bundled snapshot in the database: prices with their dates, never stock, never fresh, never polled."""

import importlib.metadata
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from catalog.money import nanos_text
from catalog.snapshot_data import snapshot_rows
from catalog.words import Evidence, Level
from store import planning, schedule, snapshot
from store.engine import writing
from store.offers import load, revisions
from store.snapshot import load_bundled
from store.tables import FLAGS, PRICES
from tests.support.stored import LEASE, T0, opened, plan, planned_cell, planned_provider, rows

pytestmark = pytest.mark.both_databases

AWS = ("aws", "us-east-1")


@pytest.fixture
def loaded(tmp_path: Path) -> Engine:
    engine = opened(tmp_path)
    assert load_bundled(engine) == len(list(snapshot_rows())) > 1000
    return engine


def test_every_list_price_is_there_to_the_last_digit(loaded: Engine) -> None:
    stated = {(row.instance_type, row.purchase.value, row.price_nanos, row.currency) for row in snapshot_rows()}
    found = {(row["instance_type"], row["purchase"], row["nanos"], row["currency"]) for row in rows(loaded, "prices")}
    assert found == stated
    assert len(rows(loaded, "prices")) == len(list(snapshot_rows()))


def test_its_offers_are_priced_by_date_and_never_confirmed_nor_fresh(loaded: Engine) -> None:
    found = load(loaded, AWS, T0)
    dates = {row.as_of for row in snapshot_rows() if (row.provider, row.region) == AWS}
    assert len(found) > 50
    for offer in found:
        assert offer.price is not None
        assert offer.price.seen_at.date() in dates
        assert offer.price.source.startswith("snapshot of ")
        assert (offer.stock.level, offer.stock.evidence) == (Level.UNKNOWN, Evidence.SNAPSHOT)
        just_after = offer.price.seen_at + timedelta(microseconds=1)
        assert offer.price.stale(just_after)
        assert offer.stock.stale(just_after)
        assert not offer.confirmed(just_after)
        assert not offer.confirmed(offer.price.seen_at)


@pytest.mark.parametrize(("site", "currencies"), [("cn", {"CNY"}), ("intl", set()), (None, {"CNY"})])
def test_prices_of_one_site_are_not_shown_where_another_is_set(
    loaded: Engine, site: str | None, currencies: set[str]
) -> None:
    """Alibaba's are those of its Chinese site; AWS has but one."""
    for provider in ("alibaba", "aws"):
        planning.plan(loaded, planned_provider(provider, site=site if provider == "alibaba" else None), [], T0)
    found = load(loaded, ("alibaba", "cn-hangzhou"), T0)
    assert {one.price.currency for one in found if one.price} == currencies
    assert {one.place.site for one in found} <= {"cn"}
    assert {one.place.site for one in load(loaded, AWS, T0)} == {None}
    assert {row.site for row in snapshot_rows() if row.provider == "alibaba"} == {"cn"}
    assert {row.site for row in snapshot_rows() if row.provider != "alibaba"} == {None}


def test_a_known_price_reads_as_its_source_has_it(loaded: Engine) -> None:
    (p4d,) = [offer for offer in load(loaded, AWS, T0) if offer.machine.instance_type == "p4d.24xlarge"]
    assert p4d.price is not None
    assert (p4d.machine.gpu, p4d.machine.gpu_count) == ("a100-sxm4-40g", Fraction(8))
    assert (nanos_text(p4d.price.nanos), p4d.price.currency) == ("21.957642", "USD")
    assert p4d.price.seen_at == datetime(2026, 7, 20, tzinfo=UTC)


def test_it_is_loaded_once(loaded: Engine) -> None:
    before = revisions(loaded)
    assert load_bundled(loaded) == 0
    assert revisions(loaded) == before


def test_another_version_of_the_program_reads_it_anew(loaded: Engine) -> None:
    with writing(loaded) as connection:
        flag = connection.execute(select(FLAGS.c.value).where(FLAGS.c.name == snapshot.FLAG)).scalar_one()
        version, digest = flag.split(" ")
        assert version == importlib.metadata.version("gpufare")
        older = update(FLAGS).where(FLAGS.c.name == snapshot.FLAG).values(value=f"0.0.1 {digest}")
        connection.execute(older)
    assert load_bundled(loaded) > 1000


def test_it_states_nothing_that_the_table_of_accelerators_says(loaded: Engine) -> None:
    assert {row["nvlink"] for row in rows(loaded, "machines")} == {None}


def test_it_is_never_polled_nor_made_due(loaded: Engine) -> None:
    assert schedule.claim(loaded, T0 + timedelta(days=99), LEASE, 10) == []
    assert schedule.make_due(loaded, T0) == []
    assert schedule.providers_due(loaded, T0 + timedelta(days=99)) == []


def test_planning_its_providers_leaves_it_alone(loaded: Engine) -> None:
    before = len(rows(loaded, "prices"))
    plan(loaded, planned_cell("stock", provider="aws", place="us-east-1"), name="aws")
    plan(loaded, name="aws", fingerprint="two")
    planning.forget_providers(loaded, but=[])
    assert len(rows(loaded, "prices")) == before
    assert len(load(loaded, AWS, T0)) > 50


def test_another_snapshot_replaces_it_at_once(loaded: Engine) -> None:
    known = revisions(loaded)
    with writing(loaded) as connection:
        connection.execute(update(FLAGS).where(FLAGS.c.name == snapshot.FLAG).values(value="an older one"))
        gone = update(PRICES).where(PRICES.c.instance_type == "p4d.24xlarge").values(instance_type="gone.24xlarge")
        connection.execute(gone)
    assert load_bundled(loaded) > 1000
    names = {row["instance_type"] for row in rows(loaded, "prices")}
    assert "p4d.24xlarge" in names
    assert "gone.24xlarge" not in names
    assert all(revision > known[cell] for cell, revision in revisions(loaded).items())
