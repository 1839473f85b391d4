"""A state exported here and imported there: the same offers, never more believed than where they came from."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import Engine, select
from structlog.testing import capture_logs

from catalog.facts import Fact, Offered, Zone
from catalog.offers import StockNow
from catalog.snapshot_data import snapshot_rows
from catalog.words import Evidence, Level, Purchase
from store import launches, planning
from store.archive_export import Used, export
from store.archive_import import Imported, import_file
from store.engine import reading, writing
from store.launches import Launch
from store.offers import load, revisions
from store.snapshot import load_bundled
from store.status import snapshots
from store.tables import CELLS, FLAGS
from tests.support.carried import ALL, engine_in, offers_of, same
from tests.support.filled import START, Filled, machine, price, served, sold, stock

pytestmark = pytest.mark.both_databases

US, EU = "us-east-1", "eu-west-1"
KEPT = (
    "provider", "site", "region", "region_name", "country", "mainland_china", "zone", "zone_id", "instance_type", "gpu",
    "gpu_name", "gpu_count", "gpu_vram_gib", "nvlink", "vcpus", "memory_gib", "purchase", "hosting", "upstream",
    "price_per_hour", "price_per_gpu_hour", "currency",
)  # fmt: skip
"""What of an offer is the same before and after."""


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Engine]:
    """An empty database."""
    engine = engine_in(tmp_path / "there")
    yield engine
    engine.dispose()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Filled]:
    """A database with live facts of several feeds."""
    folder = tmp_path / "here"
    folder.mkdir()
    filled = Filled(folder)
    filled.plan("aws", ("machines", US), ("prices", US), ("stock", US), ("stock", EU))
    filled.plan("tencent", ("stock", "ap-nanjing"), site="cn")
    filled.poll("aws", "machines", US, [
        machine(US, "a", gpu_raw="NVIDIA H100"), machine(US, "b", gpu_count=Fraction(1, 4), vram_mib=20480),
        Offered(region=US, instance_type="a", zone="us-east-1a", zone_id="use1-az4"),
        Offered(region=US, instance_type="a", zone="us-east-1b"),
        Zone(region=US, zone="us-east-1b", zone_id="use1-az6"),
    ])  # fmt: skip
    filled.poll("aws", "prices", US, [
        machine(US, "a"), machine(US, "b"), price(US, "a", "3.000000001"), price(US, "b", "1.5", list_nanos=2 * 10**9),
        price(US, "a", "2.5", purchase=Purchase.MONTH, upfront_nanos=1825 * 10**9, term_months=1, estimated=True),
    ])  # fmt: skip
    filled.later(seconds=20)
    filled.poll("aws", "stock", US, [
        stock(US, "a", zone="us-east-1a", zone_id="use1-az4", detail="plenty", quantity=3),
        stock(US, "a", Level.OUT, zone="us-east-1b"), stock(US, "b", Level.LOW, score="7"),
    ])  # fmt: skip
    filled.poll("aws", "stock", EU, sold(EU, "c", "4", Level.OUT))
    filled.poll(
        "tencent", "stock", "ap-nanjing", sold("ap-nanjing", "GN10", "8.68", currency="CNY", zone="ap-nanjing-1")
    )
    filled.later(seconds=20)
    yield filled
    filled.engine.dispose()


def carried(filled: Filled, there: Engine, used: Used = ALL, later: timedelta = timedelta(hours=2)) -> Imported:
    """Exported, and imported two hours later."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "state.zip"
        export(filled.engine, file, used, filled.now)
        return import_file(there, file, filled.now + later)


# --- the same offers --------------------------------------------------------------------------------------------------


def test_every_offer_arrives_as_it_stood(here: Filled, there: Engine) -> None:
    load_bundled(here.engine)
    brought = carried(here, there)
    before, after = offers_of(here.engine), offers_of(there)
    assert len(before) > 2000
    same(before, after, here.now)
    assert sum(one.offers for one in brought.providers.values()) == len(before)
    assert brought.created_at == here.now


def test_nothing_that_arrives_is_confirmed_or_fresh_or_known_to_be_out(here: Filled, there: Engine) -> None:
    carried(here, there)
    levels = {offer.stock.level for offer in offers_of(there)}
    assert levels == set(Level)
    for offer in offers_of(there):
        for now in (here.now, offer.stock.seen_at, here.now + timedelta(days=1)):
            assert not offer.confirmed(now, timedelta(days=3650))
            assert offer.stock.evidence is Evidence.SNAPSHOT
            assert offer.stock.stale(now, timedelta(days=3650))
            assert offer.price is None or (offer.price.stale(now) and offer.price.source.startswith("snapshot of "))


def test_a_second_hand_state_is_the_first_one(here: Filled, there: Engine, tmp_path: Path) -> None:
    carried(here, there)
    third = engine_in(tmp_path / "third")
    export(there, tmp_path / "again.zip", ALL, here.now + timedelta(hours=3))
    import_file(third, tmp_path / "again.zip", here.now + timedelta(hours=4))
    assert offers_of(third) == offers_of(there)
    assert not any("snapshot of snapshot" in offer.price.source for offer in offers_of(third) if offer.price)
    third.dispose()


def test_the_same_state_is_the_same_file(here: Filled, tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        export(here.engine, tmp_path / name, ALL, here.now)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_what_a_launch_taught_goes_along_while_it_holds(here: Filled, there: Engine) -> None:
    taught = Launch(
        "aws", EU, "", "c", Purchase.ON_DEMAND, "ok", None, Level.IN_STOCK, here.now + timedelta(minutes=30)
    )
    launches.keep(here.engine, taught, here.now)
    carried(here, there)
    (offer,) = [one for one in load(there, ("aws", EU), START) if one.machine.instance_type == "c"]
    assert (offer.stock.level, offer.stock.evidence, offer.stock.seen_at) == (
        Level.IN_STOCK,
        Evidence.SNAPSHOT,
        here.now,
    )


def test_a_time_from_a_wrong_clock_is_at_most_the_files_own(here: Filled, there: Engine) -> None:
    here.later(days=1)
    here.poll("aws", "stock", EU, sold(EU, "c", "4"))
    here.later(days=-1)
    carried(here, there)
    found = [one for one in load(there, ("aws", EU), START) if one.machine.instance_type == "c"]
    assert [one.stock.seen_at for one in found] == [here.now]


def test_what_is_switched_off_or_of_another_site_stays_at_home(here: Filled, there: Engine) -> None:
    used = Used(frozenset({"tencent", "aws"}), {"tencent": "intl"})
    assert carried(here, there, used).providers.keys() == {"aws"}


# --- what the server answers ------------------------------------------------------------------------------------------


def test_the_server_over_an_imported_state_answers_unconfirmed(here: Filled, tmp_path: Path) -> None:
    (tmp_path / "air").mkdir()
    gapped = Filled(tmp_path / "air")
    with served(here, providers=ALL.providers) as server:
        ours = server.get("/offers?gpu=h100-sxm5-80g&limit=10000")
        assert server.get("/cheapest?gpu=h100-sxm5-80g&region=us-east-1")["verdict"] == "confirmed"
    carried(here, gapped.engine)
    gapped.now = here.now + timedelta(hours=2)
    with served(gapped, providers=ALL.providers) as server:
        theirs = server.get("/offers?gpu=h100-sxm5-80g&limit=10000")
        answer = server.get("/cheapest?gpu=h100-sxm5-80g&region=us-east-1")
        sold_out = server.get("/cheapest?gpu=h100-sxm5-80g&region=eu-west-1&instance_type=c&max_age=3650d")
        sure = server.get("/cheapest?gpu=h100-sxm5-80g&stock=confirmed")
        providers = {one["provider"]: one for one in server.get("/providers")["items"]}
    assert theirs["total"] == ours["total"] > 3
    key = [tuple(one[name] for name in KEPT) for one in ours["items"]]
    assert sorted(map(repr, key)) == sorted(repr(tuple(one[name] for name in KEPT)) for one in theirs["items"])
    assert answer["verdict"] == "unconfirmed"
    assert answer["best"]["stock"]["evidence"] == "snapshot"
    assert answer["best"]["native_price"]["source"].startswith("snapshot of ")
    sources = {(one["provider"], one["feed"], one["status"]) for one in answer["sources"]}
    assert ("aws", "snapshot", "stale") in sources
    assert sold_out["verdict"] == "unconfirmed"
    assert "out of stock when last seen" in sold_out["message"]
    assert sold_out["best"]["stock"]["level"] == "out"
    assert sure["verdict"] == "no_source"
    (feed,) = providers["tencent"]["feeds"]
    assert (feed["feed"], feed["status"], feed["offers"]) == ("snapshot", "stale", 1)
    assert feed["reason"].startswith("imported from a snapshot that was made at 2026-11-30 08:00 UTC")
    gapped.engine.dispose()


def test_what_is_sold_out_there_is_in_stock_nowhere(here: Filled, there: Engine) -> None:
    carried(here, there)
    (out,) = [one for one in load(there, ("aws", EU), START) if one.machine.instance_type == "c"]
    assert out.stock.level is Level.OUT
    assert not out.stock.tells_level


# --- beside what was polled here --------------------------------------------------------------------------------------


def test_live_facts_stand_and_go_before_imported_ones(here: Filled, tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    live = Filled(tmp_path / "live")
    live.plan("aws", ("stock", US))
    live.now = here.now + timedelta(hours=1)
    live.poll("aws", "stock", US, sold(US, "a", "5", Level.OUT))
    before = load(live.engine, ("aws", US), START)
    carried(here, live.engine)
    after = [one for one in load(live.engine, ("aws", US), START) if one.machine.instance_type == "a"]
    (on_demand,) = [one for one in after if one.purchase is Purchase.ON_DEMAND]
    assert [(one.price, one.stock, one.place) for one in before] == [
        (on_demand.price, on_demand.stock, on_demand.place)
    ]
    assert on_demand.machine.gpu_raw == "NVIDIA H100"  # what nothing live says is filled in
    live.engine.dispose()


def test_a_machine_listed_live_takes_neither_zones_nor_stock_from_an_imported_state(
    here: Filled, tmp_path: Path
) -> None:
    (tmp_path / "live").mkdir()
    live = Filled(tmp_path / "live")
    live.plan("aws", ("machines", US))
    live.poll("aws", "machines", US, [machine(US, "a"), Offered(region=US, instance_type="a", zone="us-east-1c")])
    carried(here, live.engine)
    (offer,) = load(live.engine, ("aws", US), START)
    assert (offer.place.zone, offer.stock.level, offer.stock.evidence) == ("us-east-1c", Level.UNKNOWN, Evidence.LISTED)
    live.engine.dispose()


def test_imported_regions_are_not_polled(here: Filled, there: Engine) -> None:
    carried(here, there)
    assert planning.known_regions(there, "aws") == []


def test_prices_of_another_site_are_not_shown_under_the_one_that_is_set(here: Filled, there: Engine) -> None:
    nanjing = ("tencent", "ap-nanjing")
    carried(here, there)
    assert [one.place.site for one in load(there, nanjing, START)] == ["cn"]
    for site, shown in (("intl", 0), ("cn", 1), (None, 1)):
        provider = planning.PlannedProvider("tencent", False, site, ["reported"], {}, fingerprint=str(site))
        planning.plan(there, provider, [], here.now)
        assert len(load(there, nanjing, START)) == shown, site


# --- one snapshot after another ---------------------------------------------------------------------------------------


def test_an_import_takes_the_place_of_the_bundled_list_and_of_the_import_before(here: Filled, there: Engine) -> None:
    load_bundled(there)
    load_bundled(here.engine)
    known = revisions(there)
    first = Used(frozenset({"tencent"}), {})
    carried(here, there, first)
    assert {one.place.provider for one in offers_of(there)} == {"tencent"}
    assert all(revision > known[cell] for cell, revision in revisions(there).items() if cell in known)
    assert [one.name for one in snapshots(there)] == ["tencent"]
    carried(here, there)
    assert [one.name for one in snapshots(there)] == ["alibaba", "aws", "azure", "gcp", "tencent"]


def test_importing_a_file_again_changes_nothing_that_is_seen(here: Filled, there: Engine) -> None:
    carried(here, there)
    before = offers_of(there), snapshots(there)
    carried(here, there, later=timedelta(days=3))
    assert (offers_of(there), snapshots(there)) == before


def test_a_start_leaves_an_imported_state_unless_the_bundled_list_is_newer(here: Filled, there: Engine) -> None:
    carried(here, there, Used(frozenset({"tencent"}), {}))
    assert load_bundled(there) == 0
    assert [one.name for one in snapshots(there)] == ["tencent"]
    newest = max(row.as_of for row in snapshot_rows())
    older = datetime(newest.year, newest.month, newest.day, tzinfo=UTC) - timedelta(seconds=1)
    with writing(there) as connection:
        connection.execute(
            FLAGS.update().values(value=f"imported {older.isoformat()} x").where(FLAGS.c.name == "snapshot")
        )
    assert load_bundled(there) == len(list(snapshot_rows()))
    assert "tencent" not in [one.name for one in snapshots(there)]


def test_the_bundled_list_comes_back_by_a_file_of_it(here: Filled, there: Engine, tmp_path: Path) -> None:
    fresh = engine_in(tmp_path / "fresh")
    load_bundled(fresh)
    carried(here, there)
    export(fresh, tmp_path / "bundled.zip", ALL, here.now)
    import_file(there, tmp_path / "bundled.zip", here.now)
    assert offers_of(there) == offers_of(fresh)
    fresh.dispose()


def test_nothing_but_offers_is_in_the_file(here: Filled, there: Engine) -> None:
    carried(here, there)
    with reading(there) as connection:
        cells = connection.execute(select(CELLS.c.feed, CELLS.c.planned, CELLS.c.token).distinct()).all()
    assert [tuple(cell) for cell in cells] == [("snapshot", False, None)]


def test_a_snapshots_word_is_never_stock() -> None:
    said = StockNow(level=Level.IN_STOCK, evidence=Evidence.SNAPSHOT, seen_at=START, fresh_for=timedelta(days=1))
    assert said.stale(START)
    assert not said.tells_level


def test_a_third_of_a_card_as_a_provider_rounds_it_is_carried_exactly(tmp_path: Path) -> None:
    here, there = Filled(tmp_path), engine_in(tmp_path / "there")
    here.plan("aws", ("stock", US))
    facts = [
        *sold(US, "third", "1", gpu_count=Fraction("0.3333333")),
        *sold(US, "many", "1", gpu_count=Fraction(10**6)),
    ]
    here.poll("aws", "stock", US, facts)
    assert export(here.engine, tmp_path / "state.zip", ALL, here.now) == {"aws": 2}
    import_file(there, tmp_path / "state.zip", here.now)
    counts = {one.machine.instance_type: one.machine.gpu_count for one in offers_of(there)}
    assert counts == {"third": Fraction(3333333, 10**7), "many": Fraction(10**6)}


def test_what_no_import_takes_is_left_out_of_the_file_and_told(tmp_path: Path) -> None:
    here, there = Filled(tmp_path), engine_in(tmp_path / "there")
    here.plan("aws", ("stock", US))
    odd = sold(US, "odd", "1", gpu_count=Fraction(1, 10**50))
    old: list[Fact] = [
        machine(US, "old"),
        price(US, "old", "1", as_of=datetime(1980, 1, 1, tzinfo=UTC)),
        stock(US, "old"),
    ]
    here.poll("aws", "stock", US, [*sold(US, "well", "1"), *odd, *old])
    with capture_logs() as logs:
        assert export(here.engine, tmp_path / "state.zip", ALL, here.now) == {"aws": 1}
    (told,) = [entry for entry in logs if "left out" in entry["event"]]
    assert (told["log_level"], told["provider"], told["offers"]) == ("warning", "aws", 2)
    assert told["first"].startswith(f"aws {US} o")
    import_file(there, tmp_path / "state.zip", here.now)
    assert [one.machine.instance_type for one in offers_of(there)] == ["well"]
