"""AWS's capacity blocks: which offering is shown, what an empty list says, and that nothing is ever bought."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import simcloud
from catalog.facts import Fact, Note, Price, Stock, Window
from catalog.words import Evidence, Level, Purchase
from collectors.aws import Aws
from collectors.base import Cell, Config, Drift, NotServed, Page, ProviderError, Throttled
from tests.support.ec2 import Answer, Asked, Call, ec2, plain, refusal
from tests.support.pages import NOW, cases, feed_of
from tests.support.stored import Cloud, machine, planned_cell, price

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "invented"}
CELL = Cell("aws", "stock", "us-east-1")


def recorded() -> dict[str, Any]:
    (case,) = (case for case in cases("aws") if case.feed == "stock")
    return plain(case.page.body)


def read(body: Mapping[str, Any], at: datetime = NOW) -> list[Fact | Note]:
    (case,) = (case for case in cases("aws") if case.feed == "stock")
    page = replace(case.with_body(json.dumps(body).encode()), at=at)
    return list(feed_of(case, Config(KEYS)).parse(page))


def prices(items: list[Fact | Note]) -> dict[tuple[str, str | None], Price]:
    return {(item.instance_type, item.zone): item for item in items if isinstance(item, Price)}


def levels(items: list[Fact | Note]) -> dict[tuple[str, str | None], Level]:
    return {(item.instance_type, item.zone): item.level for item in items if isinstance(item, Stock)}


def notes(items: list[Fact | Note]) -> list[tuple[str, str]]:
    return [(item.kind, item.value) for item in items if isinstance(item, Note)]


def day(number: int) -> str:
    return f"2026-12-{number:02}T11:30:00+00:00"


def offering(fee: str, start: int, *, zone: str = "us-east-1f", **changes: Any) -> dict[str, Any]:
    """A block of p5.48xlarge for a day of December."""
    return {
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": zone,
        "InstanceCount": 1,
        "StartDate": day(start),
        "EndDate": day(start + 1),
        "CapacityBlockDurationHours": 24,
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
        **changes,
    }


def answered(*offered: Mapping[str, Any]) -> dict[str, Any]:
    zones = ("us-east-1a", "us-east-1f")
    sold = [{"InstanceType": "p5.48xlarge", "Location": zone} for zone in zones]
    lists = {"AskedTypes": ["p5.48xlarge"], "InstanceTypeOfferings": sold, "CapacityBlockOfferings": list(offered)}
    return lists | {"OfferedBefore": [f"p5.48xlarge {zone}" for zone in zones]}


def test_a_block_is_priced_by_the_hour_of_its_window_with_what_is_paid_up_front() -> None:
    found = prices(read(recorded()))
    window = Window(datetime(2026, 12, 2, 11, 30, tzinfo=UTC), datetime(2026, 12, 3, 11, 30, tzinfo=UTC))
    assert found["p5.48xlarge", "us-east-1f"] == Price(
        region="us-east-1",
        instance_type="p5.48xlarge",
        purchase=Purchase.CAPACITY_BLOCK,
        nanos=31_464_000_000,  # 755.136 over 24 h
        currency="USD",
        source="DescribeCapacityBlockOfferings",
        zone="us-east-1f",
        upfront_nanos=755_136_000_000,
        window=window,
    )
    odd = found["p5en.48xlarge", "us-east-1c"]
    assert odd.window is not None
    assert odd.nanos == 41_598_360_656, "1268.75 over 30 h 30 min"
    assert odd.window.hours == Fraction(61, 2)


def test_what_was_offered_before_and_is_not_now_is_out_and_nothing_else_is() -> None:
    """p6-b200 is sold in a zone and was not asked about. An offering that was not understood is not none. Of us-east-1b
    nothing says that it ever has blocks of p5.
    """
    found = levels(read(recorded()))
    assert {what for what, level in found.items() if level is Level.UNKNOWN} == {("p5.48xlarge", "us-east-1b")}
    assert {what for what, level in found.items() if level is Level.OUT} == {("p5.48xlarge", "us-east-1a")}
    assert {what for what, level in found.items() if level is Level.IN_STOCK} == {
        ("p5.48xlarge", "us-east-1f"),
        ("p5.4xlarge", "us-east-1a"),
        ("p5en.48xlarge", "us-east-1c"),
    }


def test_what_is_stated_is_of_capacity_blocks_alone_and_reported() -> None:
    stated = [item for item in read(recorded()) if isinstance(item, Stock)]
    assert {(item.purchases, item.evidence) for item in stated} == {
        (frozenset({Purchase.CAPACITY_BLOCK}), Evidence.REPORTED)
    }
    assert {item.detail for item in stated if item.level is Level.OUT} == {"no block of 24 h within 8 weeks"}


def test_offerings_that_were_not_asked_for_or_make_no_sense_are_noted() -> None:
    assert notes(read(recorded())) == [
        ("non_positive_price", "p5en.48xlarge in us-east-1d"),
        ("window_begun", "p4d.24xlarge in us-east-1b"),
        ("window_of_another_length", "p4d.24xlarge in us-east-1d"),
        ("unknown_currency", "p4de.24xlarge in us-east-1d"),
        ("block_of_several_machines", "trn2.48xlarge in us-east-1e"),
    ]


@pytest.mark.parametrize(
    ("offered", "start", "fee"),
    [
        ([("800", 2), ("755.136", 9), ("755.136", 4)], 4, 755_136_000_000),
        ([("755.136", 4), ("700", 20)], 20, 700_000_000_000),
        ([("700", 3), ("", 2)], 3, 700_000_000_000),
    ],
)
def test_of_several_the_cheapest_is_shown_then_the_earliest(
    offered: list[tuple[str, int]], start: int, fee: int
) -> None:
    for order in (offered, offered[::-1]):
        found = read(answered(*(offering(amount or "0", at) for amount, at in order)))
        shown = prices(found)["p5.48xlarge", "us-east-1f"]
        assert shown.window is not None
        assert (shown.window.starts_at.day, shown.upfront_nanos) == (start, fee)
        assert len(notes(found)) == len(offered) - 1


def test_a_cheaper_hour_wins_over_a_cheaper_block() -> None:
    long = offering("1000", 2, EndDate=day(4), CapacityBlockDurationHours=48)
    shown = prices(read(answered(offering("600", 2), long)))["p5.48xlarge", "us-east-1f"]
    assert (shown.upfront_nanos, shown.nanos) == (1_000_000_000_000, 20_833_333_333)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"InstanceCount": 4}, "block_of_several_machines"),
        ({"UltraserverType": "u-p6e-gb200x72"}, "block_of_several_machines"),
        ({"Tenancy": "dedicated"}, "block_of_another_tenancy"),
        ({"StartDate": "soon"}, "no_window"),
        ({"StartDate": "2026-12-02T11:30:00"}, "no_window"),
        ({"EndDate": day(2)}, "no_window"),
        ({"CapacityBlockDurationMinutes": 30}, "window_of_another_length"),
        ({"CurrencyCode": None}, "unknown_currency"),
        ({"UpfrontFee": None}, "no_price"),
        ({"UpfrontFee": "-3"}, "non_positive_price"),
    ],
)
def test_an_offering_that_cannot_be_shown_says_nothing_of_its_zone(changes: Mapping[str, Any], kind: str) -> None:
    found = read(answered(offering("755.136", 2, **changes)))
    assert notes(found) == [(kind, "p5.48xlarge in us-east-1f")]
    assert (prices(found), levels(found)) == ({}, {("p5.48xlarge", "us-east-1a"): Level.OUT})


def test_a_window_that_has_begun_is_not_offered() -> None:
    begins = datetime(2026, 12, 2, 11, 30, tzinfo=UTC)
    assert prices(read(answered(offering("755.136", 2)), at=begins - timedelta(seconds=1)))
    late = read(answered(offering("755.136", 2)), at=begins)
    assert (prices(late), notes(late)) == ({}, [("window_begun", "p5.48xlarge in us-east-1f")])


@pytest.mark.parametrize("before", [[], None, ["p5.48xlarge us-east-1f"], ["p5.4xlarge us-east-1a"]])
def test_a_zone_where_no_block_was_seen_is_not_out(before: list[str] | None) -> None:
    items = read(answered(offering("755.136", 2)) | {"OfferedBefore": before})
    (never,) = [item for item in items if isinstance(item, Stock) and item.zone == "us-east-1a"]
    said = "no block of 24 h within 8 weeks, and none was seen in this zone before"
    assert (never.level, never.evidence, never.detail) == (Level.UNKNOWN, Evidence.REPORTED, said)


def test_types_that_no_zone_sells_are_half_an_answer() -> None:
    with pytest.raises(Drift, match="InstanceTypeOfferings is empty"):
        read(answered() | {"InstanceTypeOfferings": []})
    assert read({"AskedTypes": [], "InstanceTypeOfferings": [], "CapacityBlockOfferings": []}) == []


# --- over the wire


def sells(*names: str, blocks: Callable[[Call], Answer] | None = None) -> Callable[[Call], Answer]:
    """A region that sells these types by the block, all in us-east-1a."""

    def answer(call: Call) -> Answer:
        if call.action == "DescribeInstanceTypes":
            return {"InstanceTypes": [{"InstanceType": name} for name in names]}
        if call.action == "DescribeInstanceTypeOfferings":
            offered = [{"InstanceType": name, "Location": "us-east-1a"} for name in names]
            return {"InstanceTypeOfferings": offered}
        return blocks(call) if blocks else {"CapacityBlockOfferings": []}

    return answer


def fetched(server: Asked, cell: Cell = CELL, memo: Mapping[str, str] | None = None) -> list[Page]:
    config = Config(KEYS, endpoints={"ec2": server.url})
    (feed,) = (one for one in Aws(config).feeds() if one.name == "stock")
    return list(feed.fetch(cell, NOW, memo or {}))


def test_a_block_that_is_gone_leaves_its_zone_out_and_stays_remembered() -> None:
    """In the order of the polls: never seen, there, booked, and still none a day later."""
    shown: list[Mapping[str, Any]] = [offering("755.136", 2, zone="us-east-1a")]
    found, memo = [], dict[str, str]()
    for offered in ([], shown, [], []):
        said: Answer = {"CapacityBlockOfferings": offered}
        with ec2(sells("p5.48xlarge", blocks=lambda _, said=said: said)) as server:  # type: ignore[misc] # bound now
            (page,) = fetched(server, memo=memo)
        memo = dict(page.memo)
        found.append(levels(read(json.loads(page.body)))["p5.48xlarge", "us-east-1a"])
    assert found == [Level.UNKNOWN, Level.IN_STOCK, Level.OUT, Level.OUT]


def test_one_machine_for_a_day_is_asked_for_of_each_type_sold_by_the_block() -> None:
    with ec2(sells("p5.48xlarge", "trn2.48xlarge")) as server:
        (page,) = fetched(server)
    types, offerings, *blocks = server.calls
    assert types.values("Filter.2.") == ["supported-usage-class", "capacity-block"]
    assert offerings.parameters["LocationType"] == "availability-zone"
    assert [call.parameters["InstanceType"] for call in blocks] == ["p5.48xlarge", "trn2.48xlarge"]
    asked = blocks[0].parameters
    assert (asked["InstanceCount"], asked["CapacityDurationHours"]) == ("1", "24")
    assert (asked["StartDateRange"], asked["EndDateRange"]) == ("2026-11-30T12:00:00Z", "2027-01-25T12:00:00Z")
    assert "AllAvailabilityZones" not in asked
    assert not page.missing


def test_nothing_is_ever_bought() -> None:
    with simcloud.start("demo", providers=("aws",)) as sim:
        endpoints = dict.fromkeys(("ec2", "pricing", "price_list", "spot_advisor"), sim.url("aws"))
        keys = {name: value for name, value in sim.env().items() if name.startswith("AWS_")}
        for feed in Aws(Config(keys, endpoints=endpoints, scores=True)).feeds():
            for cell in feed.cells(("us-east-1",)):
                assert list(feed.fetch(cell, NOW, {}))
        actions = {seen.action for seen in sim.requests("aws")}
    assert "DescribeCapacityBlockOfferings" in actions
    assert all(action.startswith(("Describe", "Get", "price_list", "spot_advisor")) for action in actions)


def test_a_type_that_is_refused_by_itself_is_missing_and_the_others_stand() -> None:
    def blocks(call: Call) -> Answer:
        if call.parameters["InstanceType"] == "p6e-gb200.36xlarge":
            return refusal("Unsupported", 400)
        return {"CapacityBlockOfferings": [offering("755.136", 2, zone="us-east-1a")]}

    with ec2(sells("p6e-gb200.36xlarge", "p5.48xlarge", blocks=blocks)) as server:
        (page,) = fetched(server)
    assert "Unsupported" in page.missing
    found = read(json.loads(page.body))
    assert levels(found) == {("p5.48xlarge", "us-east-1a"): Level.IN_STOCK}, "of the refused one nothing is said"


@pytest.mark.parametrize(
    ("code", "status", "expected", "said"),
    [
        ("UnauthorizedOperation", 403, NotServed, "the right ec2:DescribeCapacityBlockOfferings"),
        ("InvalidAction", 400, NotServed, "EC2 does not answer this here"),
        ("RequestLimitExceeded", 503, Throttled, "RequestLimitExceeded"),
        ("InvalidParameterValue", 400, Drift, "InvalidParameterValue"),
    ],
)
def test_a_refusal_of_all_is_the_cells(code: str, status: int, expected: type[ProviderError], said: str) -> None:
    with (
        ec2(sells("p5.48xlarge", blocks=lambda _: refusal(code, status))) as server,
        pytest.raises(expected, match=said) as caught,
    ):
        fetched(server)
    assert type(caught.value) is expected


def test_a_throttled_type_fails_the_cell_though_others_were_answered() -> None:
    def blocks(call: Call) -> Answer:
        return refusal("Throttling", 400) if call.parameters["InstanceType"] == "b" else {"CapacityBlockOfferings": []}

    with ec2(sells("a", "b", blocks=blocks)) as server, pytest.raises(Throttled):
        fetched(server)


def test_a_region_without_such_types_is_a_whole_answer_that_says_nothing() -> None:
    with ec2(sells()) as server:
        (page,) = fetched(server)
    assert read(json.loads(page.body)) == []
    assert server.actions() == ["DescribeInstanceTypes us-east-1"]


# --- what comes of it


def block(**changes: Any) -> Price:
    window = Window(NOW + timedelta(hours=2), NOW + timedelta(hours=26))
    said: dict[str, Any] = {
        "purchase": Purchase.CAPACITY_BLOCK,
        "zone": "a",
        "upfront_nanos": 24 * 10**9,
        "window": window,
    }
    return price(**(said | changes))


def stated(level: Level, zone: str = "a") -> Stock:
    return Stock(
        region="r1",
        instance_type="m1",
        purchases=frozenset({Purchase.CAPACITY_BLOCK}),
        level=level,
        evidence=Evidence.REPORTED,
        zone=zone,
    )


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """A machine sold on demand and by the block in two zones, its blocks read by a feed whose silence says nothing."""
    found = Cloud(
        tmp_path, planned_cell("machines"), planned_cell("prices"), planned_cell("stock", absent=Level.UNKNOWN.value)
    )
    both = frozenset({Purchase.ON_DEMAND, Purchase.CAPACITY_BLOCK})
    found.told(NOW, machine(purchases=both), feed="machines")
    found.told(NOW, price(), feed="prices")
    return found


@pytest.mark.both_databases
def test_none_offered_is_out_and_leaves_every_other_purchase_alone(cloud: Cloud) -> None:
    cloud.told(NOW, stated(Level.OUT), stated(Level.OUT, "b"))
    found = cloud.offers()
    assert {key[2]: offer.stock.level for key, offer in found.items()} == {
        "on_demand": Level.UNKNOWN,
        "capacity_block": Level.OUT,
    }
    assert found["a", "m1", "on_demand"].stock.evidence is Evidence.LISTED


@pytest.mark.both_databases
def test_a_block_is_confirmed_with_its_window_until_somebody_books_it(cloud: Cloud) -> None:
    cloud.told(NOW, block(), stated(Level.IN_STOCK), stated(Level.OUT, "b"))
    offer = cloud.offers()["a", "m1", "capacity_block"]
    assert offer.confirmed(NOW)
    assert offer.price is not None
    assert (offer.price.window, offer.price.upfront_nanos) == (block().window, 24 * 10**9)
    later = NOW + timedelta(minutes=1)
    cloud.told(later, stated(Level.OUT), stated(Level.OUT, "b"))
    booked = cloud.offers(now=later)["a", "m1", "capacity_block"]
    assert (booked.price, booked.stock.level) == (None, Level.OUT), "the first answer without it withdraws its price"


@pytest.mark.both_databases
def test_the_price_of_an_hour_on_demand_still_waits_for_three_answers(cloud: Cloud) -> None:
    cloud.told(NOW + timedelta(minutes=1), feed="prices")
    assert cloud.offers()[None, "m1", "on_demand"].price is not None
