"""Whatever polls leave in a database is the same after an export and an import, only as a snapshot."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.facts import Fact, Machine, Offered, Price, Region, Stock, Zone
from catalog.words import Evidence, Hosting, Level, Purchase
from store.archive_export import export
from store.archive_import import import_file
from tests.support.carried import ALL, engine_in, offers_of, same
from tests.support.filled import Filled, sold

US = "us-east-1"
names = st.sampled_from(["m1", "m2", "m3"])
PAIRS = [(None, None), ("z1", "i1"), ("z1", None), (None, "i1"), ("z2", None)]
"""Zones by name and id: a name stands for one id, where it has one."""
purchases = st.sampled_from([Purchase.ON_DEMAND, Purchase.SPOT, Purchase.MONTH])
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
positive = st.none() | st.integers(1, 2**31 - 1)
machine_facts = st.builds(
    Machine,
    region=st.just(US),
    instance_type=names,
    gpu=st.sampled_from([None, "t4-16g", "h100-sxm5-80g"]),
    gpu_count=st.none()
    | st.fractions(1, 8, max_denominator=8)
    | st.sampled_from([Fraction("0.3333333"), Fraction(10**6), Fraction(10**39, 7)]),
    gpu_raw=text,
    vram_mib=positive,
    vcpus=positive,
    memory_mib=positive,
    nvlink=st.none() | st.booleans(),
    rdma=st.none() | st.booleans(),
    hosting=st.sampled_from(Hosting),
    upstream=st.none() | text,
    purchases=st.frozensets(purchases),
)
places = st.sampled_from([{"zone": zone, "zone_id": zone_id} for zone, zone_id in PAIRS])


def at_places(build: Any, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(lambda place, said: build(**said, **place), places, st.fixed_dictionaries(fields))


price_facts = at_places(
    Price,
    region=st.just(US),
    instance_type=names,
    purchase=purchases,
    nanos=st.integers(10**6, 2**62),
    currency=st.sampled_from(["USD", "CNY"]),
    source=text.filter(bool),
    list_nanos=st.none() | st.integers(1, 2**62),
    estimated=st.booleans(),
    as_of=st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2026, 11, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
stock_facts = at_places(
    Stock,
    region=st.just(US),
    instance_type=names,
    purchases=st.frozensets(purchases, min_size=1),
    level=st.sampled_from(Level),
    evidence=st.sampled_from([Evidence.REPORTED, Evidence.OBSERVED]),
    detail=text,
    score=st.none() | text,
    quantity=st.none() | st.integers(0, 2**31 - 1),
)
scores = st.builds(
    Stock, region=st.just(US), instance_type=names, purchases=st.just(frozenset({Purchase.SPOT})),
    level=st.just(Level.UNKNOWN), evidence=st.just(Evidence.SCORED), score=text,
)  # fmt: skip
offered_facts = st.builds(Offered, region=st.just(US), instance_type=names, zone=st.sampled_from(["z1", "z2", "z3"]))
zone_facts = st.just(Zone(region=US, zone="z1", zone_id="i1"))
regions = st.builds(Region, region=st.just(US), name=st.none() | text, country=st.sampled_from([None, "US"]))
answers = st.lists(
    machine_facts | price_facts | stock_facts | scores | offered_facts | zone_facts | regions, max_size=12
)


@given(polls=st.tuples(answers, answers, answers))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_polled_arrives_as_it_stood(polls: tuple[list[Fact], ...], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "here").mkdir()
    filled, there = Filled(folder / "here"), engine_in(folder / "there")
    feeds = ("machines", "prices", "stock")
    filled.plan("aws", *((feed, US) for feed in feeds))
    filled.plan("tencent", ("stock", "x"))
    filled.poll("tencent", "stock", "x", sold("x", "always", "1"))
    for feed, facts in zip(feeds, polls, strict=True):
        filled.poll("aws", feed, US, facts)
        filled.later(seconds=1)
    export(filled.engine, folder / "state.zip", ALL, filled.now)
    import_file(there, folder / "state.zip", filled.now)
    same(offers_of(filled.engine), offers_of(there), filled.now)
    filled.engine.dispose()
    there.dispose()


strange_names = st.sampled_from(["m1", "m\0", "m\ufffd", "m\ufffe", "n" * 10])
past_days = st.datetimes(datetime(1970, 1, 2), datetime(2026, 11, 1), timezones=st.just(UTC))  # noqa: DTZ001
strange_machines = st.builds(
    Machine,
    region=st.just(US),
    instance_type=strange_names,
    gpu=st.just("t4-16g"),
    gpu_count=st.none() | st.fractions(min_value=Fraction(1, 10**50)).filter(bool) | st.just(Fraction(10**60, 7)),
    gpu_raw=st.sampled_from(["", "x" * 10, "x" * (1 << 16), "a\0b"]),
    vcpus=st.none() | st.integers(1, 2**62),
    memory_mib=st.none() | st.integers(1, 2**62),
)
strange_prices = at_places(
    Price,
    region=st.just(US),
    instance_type=strange_names,
    purchase=purchases,
    nanos=st.integers(10**6, 2**62),
    currency=st.just("USD"),
    source=text.filter(bool),
    as_of=st.none() | past_days,
)
strange_stocks = at_places(
    Stock,
    region=st.just(US),
    instance_type=strange_names,
    purchases=st.frozensets(purchases, min_size=1),
    level=st.sampled_from(Level),
    evidence=st.just(Evidence.REPORTED),
    quantity=st.none() | st.integers(-(2**62), 2**62),
)


@given(facts=st.lists(strange_machines | strange_prices | strange_stocks | price_facts | machine_facts, max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_store_holds_an_export_of_it_is_one_that_an_import_takes(
    facts: list[Fact], tmp_path_factory: Any
) -> None:
    """One record that no import takes must not cost the others: it is left out, and the rest arrives as it stood."""
    folder = tmp_path_factory.mktemp("strange")
    (folder / "here").mkdir()
    filled, there = Filled(folder / "here"), engine_in(folder / "there")
    filled.plan("aws", ("stock", US))
    filled.plan("tencent", ("stock", "x"))
    filled.poll("tencent", "stock", "x", sold("x", "always", "1"))
    filled.poll("aws", "stock", US, facts)
    counted = export(filled.engine, folder / "state.zip", ALL, filled.now)
    brought = import_file(there, folder / "state.zip", filled.now)
    assert {name: one.offers for name, one in brought.providers.items() if one.offers} == counted
    assert counted["tencent"] == 1
    filled.engine.dispose()
    there.dispose()
