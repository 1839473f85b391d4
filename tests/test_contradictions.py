"""One answer that says two things of one thing: never resolved by the order of its records."""

from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog.facts import Fact
from catalog.words import Hosting, Level, Purchase
from store.rows import sort_facts
from tests.support.stored import (
    MINUTE,
    NANO,
    T0,
    Cloud,
    machine,
    planned_cell,
    price,
    rows,
    stock,
)


def at(minutes: int) -> datetime:
    return T0 + minutes * MINUTE


def cloud(folder: Path, absent: Level = Level.OUT) -> Cloud:
    return Cloud(folder, planned_cell("stock", absent=absent.value))


def test_a_price_stated_twice_differently_is_no_price(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), price("m1", NANO), price("m1", 2 * NANO), price("m2"))
    assert [row["instance_type"] for row in rows(polled.engine, "prices")] == ["m2"]
    assert [(row["kind"], row["value"]) for row in rows(polled.engine, "notes")] == [
        ("contradicting_prices", "r1 m1 on_demand: nanos")
    ]


def test_a_stock_stated_twice_differently_is_unknown(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock("m1", Level.OUT), stock("m1", Level.IN_STOCK))
    (row,) = rows(polled.engine, "stocks")
    assert (row["level"], row["evidence"], row["detail"]) == ("unknown", "reported", "contradicting answers")
    assert [row["kind"] for row in rows(polled.engine, "notes")] == ["contradicting_stocks"]


def test_a_stock_whose_quantity_alone_is_contradicted_keeps_its_level(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), stock("m1", quantity=3), stock("m1", quantity=5))
    (row,) = rows(polled.engine, "stocks")
    assert (row["level"], row["quantity"]) == ("in_stock", None)


def test_a_price_stated_by_two_sources_alike_is_one_price(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), price(zone_id="az1", source="list"), price(zone_id="az1", zone="a", source="query"))
    (row,) = rows(polled.engine, "prices", "zone, zone_id, nanos, source")
    assert row == {"zone": "a", "zone_id": "az1", "nanos": NANO, "source": "query"}
    assert rows(polled.engine, "notes") == []


def test_a_machine_described_twice_is_described_by_what_both_allow(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    full = machine("m1", vcpus=8, memory_mib=1024, nvlink=True, purchases=frozenset({Purchase.SPOT}))
    bare = machine("m1", vcpus=16, nvlink=None, gpu=None, gpu_count=Fraction(0), hosting=Hosting.COMMUNITY)
    polled.told(at(0), full, bare)
    (row,) = rows(polled.engine, "machines")
    known = {name: row[name] for name in ("gpu", "gpu_count", "vcpus", "memory_mib", "nvlink", "hosting", "purchases")}
    assert known == {
        "gpu": "t4-16g",
        "gpu_count": None,
        "vcpus": None,
        "memory_mib": 1024,
        "nvlink": 1,
        "hosting": "community",
        "purchases": "on_demand,spot",
    }
    assert [row["value"] for row in rows(polled.engine, "notes")] == ["r1 m1: gpu_count, hosting, vcpus"]


def test_a_machine_that_is_half_with_and_half_without_a_gpu_can_be_read_again(tmp_path: Path) -> None:
    polled = cloud(tmp_path)
    polled.told(at(0), machine(gpu_count=None), machine(gpu=None, gpu_count=Fraction(0)))
    (offer,) = polled.offers().values()
    assert (offer.machine.gpu, offer.machine.gpu_count) == ("t4-16g", None)


_LEVELS = st.sampled_from(Level)
_STATEMENTS = st.one_of(
    st.builds(
        machine,
        st.sampled_from(["m1", "m2"]),
        gpu=st.sampled_from(["t4-16g", "v100-sxm2-16g", None]),
        gpu_count=st.sampled_from([Fraction(1), Fraction(1, 4), None]),
        vcpus=st.sampled_from([None, 9, 10]),
        nvlink=st.sampled_from([None, True, False]),
        hosting=st.sampled_from(Hosting),
        purchases=st.frozensets(st.sampled_from(Purchase), max_size=2),
    ),
    st.builds(
        price,
        st.just("m1"),
        st.sampled_from([NANO, 9 * NANO, 10 * NANO]),
        zone=st.sampled_from([None, "a", "b"]),
        zone_id=st.sampled_from([None, "az1"]),
        estimated=st.booleans(),
        source=st.sampled_from(["x", "y"]),
    ),
    st.builds(stock, st.just("m1"), _LEVELS, detail=st.sampled_from(["", "x"]), quantity=st.sampled_from([None, 1, 2])),
)


@given(st.lists(_STATEMENTS, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_an_answer_and_repeats_in_it_never_matter(facts: list[Fact], shuffled: Any) -> None:
    one = sort_facts(facts)
    other = [*facts, *facts]
    shuffled.shuffle(other)
    again = sort_facts(other)
    assert (again.rows, again.conflicts, again.names_digest) == (one.rows, one.conflicts, one.names_digest)
