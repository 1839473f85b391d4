"""AWS's likelihoods: the spot advisor's classes and the scores of pools. Shown, and never stock."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

import simcloud
from catalog.accelerators import resolve_offer
from catalog.facts import Fact, Note, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.aws import Aws
from collectors.aws_machine import is_accelerated
from collectors.aws_scores import Scores, pool_regions, pools
from collectors.base import Cell, Config, Drift, NotServed, Page, ProviderError, Throttled, Unchanged
from tests.support.canned import Canned, canned
from tests.support.ec2 import Answer, Asked, Call, ec2, refusal
from tests.support.pages import NOW, cases, feed_of

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "invented"}
POOL = "1x-16g-to-48g"
ADVISED = Cell("aws", "scores", "us-east-1", "interruptions")


def case_body(name: str) -> dict[str, Any]:
    (case,) = (case for case in cases("aws") if (case.feed, case.name) == ("scores", name))
    found: dict[str, Any] = json.loads(case.page.body)
    return found


def read(name: str, body: object = None) -> list[Fact | Note]:
    (case,) = (case for case in cases("aws") if (case.feed, case.name) == ("scores", name))
    page = case.page if body is None else case.with_body(json.dumps(body).encode())
    return list(feed_of(case, Config(KEYS)).parse(page))


def scored(items: list[Fact | Note]) -> dict[tuple[str, str | None], str | None]:
    return {(item.instance_type, item.zone_id): item.score for item in items if isinstance(item, Stock)}


def notes(items: list[Fact | Note]) -> list[tuple[str, str]]:
    return [(item.kind, item.value) for item in items if isinstance(item, Note)]


def scores(config: Config) -> Scores:
    (found,) = (one for one in Aws(config).feeds() if isinstance(one, Scores))
    return found


# --- the spot advisor


def test_the_class_of_a_region_is_in_the_advisors_own_words() -> None:
    assert scored(read("interruptions")) == {
        ("p5.48xlarge", None): "interruption >20%",
        ("p4d.24xlarge", None): "interruption >20%",
        ("g6e.xlarge", None): "interruption 15-20%",
        ("g5.2xlarge", None): "interruption 10-15%",
        ("inf2.xlarge", None): "interruption 5-10%",
        ("g6.xlarge", None): "interruption <5%",
    }


def test_a_class_without_words_or_a_type_without_a_class_is_none() -> None:
    assert [note for note in notes(read("interruptions")) if note[0] == "unknown_interruption_class"] == [
        ("unknown_interruption_class", "5"),
        ("unknown_interruption_class", "None"),
    ]
    without = case_body("interruptions") | {"ranges": [{"index": 4}]}
    assert scored(read("interruptions", without)) == {}


@pytest.mark.parametrize("name", ["interruptions", "pool"])
def test_every_score_is_of_spot_and_of_an_unknown_level(name: str) -> None:
    stated = [item for item in read(name) if isinstance(item, Stock)]
    assert stated
    assert {(item.purchases, item.evidence, item.level) for item in stated} == {
        (frozenset({Purchase.SPOT}), Evidence.SCORED, Level.UNKNOWN)
    }


@pytest.mark.parametrize("ranges", [[], None, "x"])
def test_a_file_without_its_classes_is_drift(ranges: object) -> None:
    with pytest.raises(Drift):
        read("interruptions", case_body("interruptions") | {"ranges": ranges})


@pytest.mark.parametrize("linux", [{}, None, [], {"g5.xlarge": 3}])
def test_a_region_without_its_types_is_drift(linux: object) -> None:
    with pytest.raises(Drift):
        read("interruptions", case_body("interruptions") | {"Linux": linux})


def advised(body: object, memo: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Page:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with canned(Canned(200, data, dict(headers or {}))) as server:
        feed = scores(Config(endpoints={"spot_advisor": server.url}))
        (page,) = feed.fetch(ADVISED, NOW, memo or {})
    assert [path for path, _, _ in server.requests] == ["/spot-advisor-data.json"]
    return page


FILE = {
    "global_rate": "<10%",
    "instance_types": {"g5.xlarge": {"emr": True, "cores": 4, "ram_gb": 16.0}},
    "ranges": [{"index": 0, "label": "<5%", "dots": 0, "max": 5}],
    "spot_advisor": {
        "us-east-1": {"Linux": {"g5.xlarge": {"s": 60, "r": 0}}, "Windows": {"g5.xlarge": {"s": 30, "r": 0}}},
        "us-west-2": {"Linux": {"g6.xlarge": {"s": 60, "r": 0}}, "Windows": {}},
    },
}


def test_a_cells_page_is_its_region_of_the_file_and_windows_is_counted() -> None:
    page = advised(FILE, headers={"ETag": '"one"'})
    assert scored(list(scores(Config()).parse(page))) == {("g5.xlarge", None): "interruption <5%"}
    assert (page.skipped, page.memo) == ({"other_system": 1}, {"etag": '"one"'})


def test_the_file_is_not_sent_again_while_it_is_the_same() -> None:
    with simcloud.start("demo", providers=("aws",)) as sim:
        feed = scores(Config(endpoints={"spot_advisor": sim.aws.spot_advisor_url}))
        (page,) = feed.fetch(ADVISED, NOW, {})
        with pytest.raises(Unchanged):
            list(feed.fetch(ADVISED, NOW, page.memo))
        assert scored(list(feed.parse(page)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", Drift),
        (b"<html>", Drift),
        (b"[]", Drift),
        ({}, Drift),
        ({"spot_advisor": {}}, Drift),
        ({"spot_advisor": {"us-east-1": []}}, Drift),
        (b"[" * 5000, Drift),
        ({"spot_advisor": {"us-west-2": {"Linux": {}}}}, NotServed),
    ],
)
def test_a_file_that_is_none_has_its_error(body: object, expected: type[ProviderError]) -> None:
    with pytest.raises(expected):
        advised(body)


# --- the pools


def test_a_pools_score_is_that_of_each_of_its_types_which_the_zone_sells() -> None:
    found = scored(read("pool"))
    assert {what: score for what, score in found.items() if what[1] == "use1-az6"} == {
        ("g5.xlarge", "use1-az6"): "3/10",
        ("g6.xlarge", "use1-az6"): "3/10",
        ("g6e.xlarge", "use1-az6"): "3/10",
    }
    assert found["g4dn.xlarge", "use1-az1"] == "1/10"
    assert ("g4dn.xlarge", "usw2-az2") not in found, "that zone does not sell it"


def test_what_is_no_score_is_noted() -> None:
    assert set(notes(read("pool"))) == {
        ("no_score", "us-west-2: 7"),
        ("no_score", "usw2-az1: 0"),
        ("pool_not_sold_here", "use2-az1"),
    }
    odd = case_body("pool") | {"SpotPlacementScores": [{"Region": "r", "AvailabilityZoneId": "use1-az6", "Score": 11}]}
    assert (scored(read("pool", odd)), notes(read("pool", odd))) == ({}, [("no_score", "use1-az6: 11")])


def test_each_pool_has_at_least_three_types_of_several_families_and_no_type_is_in_two() -> None:
    """With fewer, or with sizes of one family alone, EC2's score is low whatever there is."""
    for name, types in pools().items():
        assert len(types) >= 3, name
        assert len({one.partition(".")[0] for one in types}) >= 2, name
        assert all(resolve_offer("", provider="aws", instance_type=one) for one in types), name
    counted = Counter(one for types in pools().values() for one in types)
    assert set(counted.values()) == {1}
    assert all(map(is_accelerated, counted))


def test_the_regions_of_a_question_are_ten_at_most() -> None:
    assert 0 < len(pool_regions()) == len(set(pool_regions())) <= 10


def cells(*regions: str, **more: Any) -> list[tuple[str, str]]:
    config = Config(more.pop("environ", KEYS), **more)
    return [(cell.place, cell.part) for cell in scores(config).cells(regions)]


def test_pools_are_asked_about_only_where_the_setting_says_so() -> None:
    advisor = [("us-east-1", "interruptions"), ("us-west-2", "interruptions")]
    assert cells("us-east-1", "us-west-2") == advisor
    assert cells("us-east-1", "us-west-2", scores=True) == [*advisor, *(("", pool) for pool in pools())]
    assert cells("us-east-1", scores=True, environ={}) == advisor[:1], "without credentials there is nobody to ask for"


def test_aws_china_is_asked_in_each_region_since_it_scores_no_other() -> None:
    found = cells("cn-north-1", "cn-northwest-1", regions=("cn-north-1", "cn-northwest-1"), scores=True)
    assert [place for place, part in found if part == POOL] == ["cn-north-1", "cn-northwest-1"]


def pool_of(call: Call) -> Answer:
    """A pool that scores in two regions, each of which says what it sells."""
    if call.action == "GetSpotPlacementScores":
        found = [("us-east-1", "use1-az6", 3), ("us-west-2", "usw2-az2", 9)]
        return {
            "SpotPlacementScores": [
                {"Region": region, "AvailabilityZoneId": zone, "Score": score} for region, zone, score in found
            ]
        }
    zone = {"us-east-1": "use1-az6", "us-west-2": "usw2-az2"}[call.region]
    return {"InstanceTypeOfferings": [{"InstanceType": "g5.xlarge", "Location": zone}]}


def fetched(server: Asked, place: str = "", **more: Any) -> Page:
    feed = scores(Config(KEYS, endpoints={"ec2": server.url}, scores=True, **more))
    (page,) = feed.fetch(Cell("aws", "scores", place, POOL), NOW, {})
    return page


def asked_regions(server: Asked) -> list[str]:
    return server.calls[0].values("RegionName.")


def test_the_question_is_always_the_same() -> None:
    """One machine, in one zone, in the same regions: repeating it costs nothing of the account's budget."""
    with ec2(pool_of) as server:
        page = fetched(server)
        again = fetched(server)
    first, second = (call for call in server.calls if call.action == "GetSpotPlacementScores")
    assert first.parameters == second.parameters
    assert first.values("InstanceType.") == list(pools()[POOL])
    asked = first.parameters
    assert (asked["TargetCapacity"], asked["TargetCapacityUnitType"]) == ("1", "units")
    assert asked["SingleAvailabilityZone"] == "true"
    assert asked_regions(server) == list(pool_regions())
    assert page == again
    assert scored(list(scores(Config(KEYS)).parse(page))) == {
        ("g5.xlarge", "use1-az6"): "3/10",
        ("g5.xlarge", "usw2-az2"): "9/10",
    }


def test_the_regions_of_the_settings_are_asked_about_in_one_order_and_ten_at_most() -> None:
    with ec2(pool_of) as server:
        fetched(server, regions=("us-west-2", "us-east-1"))
    assert asked_regions(server) == ["us-east-1", "us-west-2"]
    many = tuple(f"zz-west-{number:02}" for number in range(12))
    with ec2(pool_of) as server:
        fetched(server, regions=many)
    assert asked_regions(server) == list(many[:10])


def test_a_region_of_china_is_asked_about_itself() -> None:
    def answer(call: Call) -> Answer:
        found = {"Region": "cn-north-1", "AvailabilityZoneId": "cnn1-az1", "Score": 2}
        offered = {"InstanceType": "g5.xlarge", "Location": "cnn1-az1"}
        scores_wanted = call.action == "GetSpotPlacementScores"
        return {"SpotPlacementScores": [found]} if scores_wanted else {"InstanceTypeOfferings": [offered]}

    with ec2(answer) as server:
        page = fetched(server, "cn-north-1", regions=("cn-north-1",))
    assert asked_regions(server) == ["cn-north-1"]
    assert {call.region for call in server.calls} == {"cn-north-1"}
    assert page.place == "cn-north-1"


def test_a_budget_that_is_used_up_is_a_refusal_and_no_empty_answer() -> None:
    with simcloud.start("demo", providers=("aws",)) as sim:
        sim.options("aws", score_questions=1)
        keys = {name: value for name, value in sim.env().items() if name.startswith("AWS_")}
        feed = scores(Config(keys, endpoints={"ec2": sim.aws.ec2_url}, scores=True))
        first, second, *_ = pools()
        assert list(feed.fetch(Cell("aws", "scores", "", first), NOW, {}))
        with pytest.raises(NotServed, match="MaxConfigLimitExceeded: refused: the account's budget"):
            list(feed.fetch(Cell("aws", "scores", "", second), NOW, {}))
        assert list(feed.fetch(Cell("aws", "scores", "", first), NOW, {})), "the same question is answered again"


def test_a_missing_right_is_named() -> None:
    with (
        ec2(lambda _: refusal("UnauthorizedOperation", 403)) as server,
        pytest.raises(NotServed, match="the right ec2:GetSpotPlacementScores"),
    ):
        fetched(server)


def test_a_region_that_does_not_say_what_it_sells_is_missing_and_its_scores_are_nobodys() -> None:
    def answer(call: Call) -> Answer:
        if call.action == "DescribeInstanceTypeOfferings" and call.region == "us-west-2":
            return refusal("UnauthorizedOperation", 403)
        return pool_of(call)

    with ec2(answer) as server:
        page = fetched(server)
    assert "in us-west-2" in page.missing
    found = list(scores(Config(KEYS)).parse(page))
    assert scored(found) == {("g5.xlarge", "use1-az6"): "3/10"}
    assert notes(found) == [("pool_not_sold_here", "usw2-az2")]


def test_throttling_while_asking_what_is_sold_fails_the_pool() -> None:
    def answer(call: Call) -> Answer:
        return refusal("Throttling", 400) if call.action == "DescribeInstanceTypeOfferings" else pool_of(call)

    with ec2(answer) as server, pytest.raises(Throttled):
        fetched(server)


def test_a_pool_that_this_version_does_not_have_is_off() -> None:
    feed = scores(Config(KEYS, scores=True))
    with pytest.raises(NotServed, match="no pool of-old"):
        list(feed.fetch(Cell("aws", "scores", "", "of-old"), NOW, {}))


def test_intervals_and_limits() -> None:
    feed = scores(Config(KEYS, scores=True))
    assert (feed.every, feed.absent) == (timedelta(minutes=30), Level.UNKNOWN)
    assert feed.limit(ADVISED).key == "aws:spot_advisor"
    assert feed.limit(Cell("aws", "scores", "", POOL)).key == "aws:us-east-1"
