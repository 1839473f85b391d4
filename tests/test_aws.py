"""AWS: the contract over its recorded pages, and the right values read out of them by hand."""

import json
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from typing import ClassVar

import pytest

from catalog.accelerators import accelerators
from catalog.facts import Fact, Machine, Note, Offered, Price, Region, Stock, Zone
from catalog.words import Evidence, Level, Purchase
from collectors.aws import Aws
from collectors.aws_ec2 import home_of
from collectors.aws_machine import is_accelerated, known_types, machine_of
from collectors.base import Cell, Config, Drift, NotServed
from collectors.reading import JsonValue, Record
from tests.support.contract import SECRET, CollectorContract
from tests.support.pages import NOW, cases, feed_of

ENVIRON = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": f"key-{SECRET}",
    "AWS_SESSION_TOKEN": f"token-{SECRET}",
}


class TestAws(CollectorContract):
    name: ClassVar[str] = "aws"
    config: ClassVar[Config] = Config(ENVIRON)
    regions: ClassVar[tuple[str, ...]] = ("us-east-1",)
    services: ClassVar[tuple[str, ...]] = ("ec2", "pricing", "price_list", "spot_advisor")
    keyless: ClassVar[frozenset[str]] = frozenset({"prices", "scores"})
    unbounded: ClassVar[frozenset[str]] = frozenset({"prices"})
    documented: ClassVar[Mapping[str, str]] = {
        f"machines/SupportedUsageClasses.{number}": "a usage class that is not listed is not sold"
        for number in range(3)
    }


def read(feed: str, name: str) -> list[Fact | Note]:
    """The facts and notes of a recorded page."""
    (case,) = (case for case in cases("aws") if case.feed == feed and case.name == name)
    return list(feed_of(case, Config(ENVIRON)).parse(case.page))


def of(item: object, *fields: str) -> tuple[object, ...]:
    return tuple(getattr(item, field) for field in fields)


def machines(name: str, feed: str = "machines") -> dict[str, Machine]:
    return {item.instance_type: item for item in read(feed, name) if isinstance(item, Machine)}


def prices(name: str = "us_east_1") -> dict[tuple[str, str], int]:
    """(instance type, purchase) -> nano-units an hour."""
    found = [item for item in read("prices", name) if isinstance(item, Price)]
    by_key = {(price.instance_type, price.purchase.value): price.nanos for price in found}
    assert len(by_key) == len(found), "a machine has two prices for one purchase"
    return by_key


def notes(items: list[Fact | Note]) -> list[tuple[str, str]]:
    return [(item.kind, item.value) for item in items if isinstance(item, Note)]


def test_regions_say_whether_the_account_may_use_them() -> None:
    """B061: a region that is not opted in is never asked."""
    enabled = {item.region: item.enabled for item in read("places", "regions") if isinstance(item, Region)}
    assert enabled == {
        "us-east-1": True,
        "us-west-2": True,
        "ap-east-1": True,
        "me-central-1": False,
        "af-south-1": None,
    }
    assert ("unknown_opt_in_status", "paused") in notes(read("places", "regions"))


def test_a_gpu_named_nvidia_alone_is_known_by_its_instance_family() -> None:
    """T7."""
    p5en = machines("types")["p5en.48xlarge"]
    assert of(p5en, "gpu", "gpu_count", "vram_mib") == ("h200-sxm5-141g", 8, 141 * 1024)
    assert p5en.gpu_raw == "NVIDIA"


def test_memory_is_the_nominal_size_even_where_the_total_is_said_of_each() -> None:
    """T8: 22888 MiB, or the machine's 183104, are the 24 GiB of an L4."""
    g6 = machines("types")["g6.48xlarge"]
    assert of(g6, "gpu", "gpu_count", "vram_mib") == ("l4", 8, 24 * 1024)


def test_an_a100_is_told_apart_by_its_machine() -> None:
    found = machines("types")
    assert found["p4d.24xlarge"].gpu == "a100-sxm4-40g"
    assert found["p4de.24xlarge"].gpu == "a100-sxm4-80g"


@pytest.mark.parametrize("name", ["g6f.large", "g6f.xlarge"])
def test_a_slice_counts_its_part_of_a_card_and_has_that_part_of_the_memory(name: str) -> None:
    """Whether EC2 says 0 of them with a partition, or, as it once did, 1 with no memory."""
    found = machines("types")[name]
    assert of(found, "gpu", "gpu_count", "vram_mib") == ("l4", Fraction(1, 8), 3 * 1024)


def test_accelerators_outside_gpu_info_are_seen_and_those_named_twice_counted_once() -> None:
    """B035."""
    found = machines("types")
    assert of(found["inf2.48xlarge"], "gpu", "gpu_count") == ("inferentia2", 12)
    assert of(found["trn2.48xlarge"], "gpu", "gpu_count") == ("trainium2", 16)
    assert found["trn2.48xlarge"].vram_mib == 96 * 1024, "not the bundle's 512 GiB"
    assert of(found["dl2q.24xlarge"], "gpu", "gpu_count") == ("qualcomm-ai100", 8)
    assert of(found["vt1.3xlarge"], "gpu", "gpu_count") == ("xilinx-u30", 1)
    odd = machines("odd_types")
    assert odd["zzg.xlarge"].gpu == "t4"
    assert of(odd["zzinf.xlarge"], "gpu", "gpu_raw") == (None, "InfX")
    assert ("unknown_gpu", "InfX") in notes(read("machines", "odd_types"))


def test_a_type_that_one_region_alone_has_is_read_there() -> None:
    """B034."""
    found = machines("odd_types")["zz6a.48xlarge"]
    assert of(found, "region", "vcpus", "memory_mib") == ("us-east-2", 96, 393216)
    assert of(found, "gpu", "gpu_count") == ("l4", 1)


def test_link_network_and_bare_metal_are_as_stated_or_unknown() -> None:
    """EC2 says nothing of links between accelerators: the form of the accelerator does, where it is asked for."""
    found = machines("types")
    assert of(found["p4d.24xlarge"], "nvlink", "rdma", "bare_metal") == (None, True, False)
    assert of(found["g5g.metal"], "nvlink", "rdma", "bare_metal") == (None, False, True)


@pytest.mark.parametrize(
    ("instance_type", "efa", "rdma"),
    [
        ("p5.48xlarge", True, True),
        ("p4d.24xlarge", True, True),
        ("trn1.32xlarge", True, True),
        ("g5.48xlarge", True, False),
        ("g4dn.metal", True, False),
        ("p3dn.24xlarge", True, False),
        ("dl1.24xlarge", True, None),
        ("zz9.48xlarge", True, None),
        ("g5.xlarge", False, False),
        ("p5.48xlarge", None, True),
        ("g5.xlarge", None, None),
    ],
)
def test_efa_is_no_promise_of_rdma_which_the_table_knows_type_by_type(
    instance_type: str, efa: bool | None, rdma: bool | None
) -> None:
    """EFA of the first generation has no RDMA, but on p4d and p4de."""
    gpus: list[JsonValue] = [{"Name": "GPU", "Count": 8}]
    said: JsonValue = {
        "InstanceType": instance_type,
        "GpuInfo": {"Gpus": gpus},
        "NetworkInfo": {"EfaSupported": efa},
    }
    machine, *_ = machine_of(Record(said, instance_type), "us-east-1")
    assert isinstance(machine, Machine)
    assert machine.rdma is rdma


def test_the_price_list_knows_the_rdma_of_the_table_alone() -> None:
    found = machines("us_east_1", "prices")
    assert (found["p5.48xlarge"].rdma, found["zz9.48xlarge"].rdma) == (True, None)


@pytest.mark.parametrize(
    ("feed", "listed"),
    [("places", "Regions"), ("machines", "AvailabilityZones"), ("machines", "InstanceTypeOfferings")],
)
def test_a_list_that_no_region_leaves_empty_is_drift_when_it_is(feed: str, listed: str) -> None:
    """Types of a region that no zone of it sells: half an answer, which would take every zone's offer away."""
    name = {"Regions": "regions"}.get(listed, "offerings")
    (case,) = (case for case in cases("aws") if (case.feed, case.name) == (feed, name))
    body = json.loads(case.page.body) | {listed: []}
    with pytest.raises(Drift, match=f"{listed} is empty"):
        list(feed_of(case, Config(ENVIRON)).parse(case.with_body(json.dumps(body).encode())))


def test_a_type_sold_by_capacity_block_alone_is_not_listed_on_demand() -> None:
    """B003. p5e lists on-demand too, which is not so: with blocks the price list alone decides."""
    assert machines("odd_types")["zz5e.48xlarge"].purchases == {Purchase.CAPACITY_BLOCK}
    assert machines("types")["p5e.48xlarge"].purchases == {Purchase.CAPACITY_BLOCK, Purchase.SPOT}
    assert machines("us_east_1", "prices")["p5e.48xlarge"].purchases == {Purchase.CAPACITY_BLOCK}
    assert not [key for key in prices() if key[0] == "p5e.48xlarge"], "neither 0 nor the fee for Ubuntu is a price"


def test_spot_is_listed_by_its_usage_class_and_priced_zone_by_zone() -> None:
    """B080, B103, T14: where no zone has a spot price the machine is listed unpriced; else its zones are the priced."""
    listed = machines("types").values()
    assert {purchase for machine in listed for purchase in machine.purchases} == {
        Purchase.ON_DEMAND,
        Purchase.CAPACITY_BLOCK,
        Purchase.SPOT,
    }
    zones = {item.zone for item in spot_prices() if item.instance_type == "p5.48xlarge"}
    assert zones == {"us-east-1a", "us-east-1b"}


def test_a_type_of_a_known_family_is_known_even_where_ec2_leaves_its_accelerator_out() -> None:
    """As it does for trn2u: never assume GpuInfo."""
    machine, *noted = machine_of(Record({"InstanceType": "trn2u.48xlarge"}, "trn2u"), "us-east-1")
    assert isinstance(machine, Machine)
    assert of(machine, "gpu", "gpu_count", "vram_mib") == ("trainium2", 16, 96 * 1024)
    assert noted == [Note("accelerator_not_stated", "trn2u.48xlarge")]


def test_two_models_in_one_machine_are_none_that_can_be_named() -> None:
    gpus: list[JsonValue] = [{"Name": "L4", "Count": 1}, {"Name": "T4", "Count": 1}]
    twin: JsonValue = {"InstanceType": "g0.twin", "GpuInfo": {"Gpus": gpus}}
    assert list(machine_of(Record(twin, "twin"), "us-east-1")) == [Note("several_accelerators", "g0.twin")]


def test_a_count_that_the_table_knows_better_is_noted() -> None:
    assert ("count_differs", "g6f.xlarge: AWS says 1, the table 1/8") in notes(read("machines", "types"))


def test_records_that_are_no_accelerator_are_noted() -> None:
    found = notes(read("machines", "odd_types"))
    for note in (
        ("no_accelerator", "g0.large"),
        ("no_accelerator", "g0.odd"),
        ("unknown_usage_class", "flex"),
        ("unknown_field", "QuantumInfo"),
    ):
        assert note in found


def test_offerings_name_zone_and_zone_id_and_leave_other_kinds_of_zone_out() -> None:
    """T11: the name is this account's, the id everybody's."""
    items = read("machines", "offerings")
    zones = {(item.zone, item.zone_id) for item in items if isinstance(item, Zone)}
    assert zones == {("us-west-2a", "usw2-az1"), ("us-west-2b", "usw2-az2"), ("us-west-2c", "usw2-az3")}
    offered = {(item.instance_type, item.zone, item.zone_id) for item in items if isinstance(item, Offered)}
    assert offered == {
        ("p5.48xlarge", "us-west-2a", "usw2-az1"),
        ("p5.48xlarge", "us-west-2c", "usw2-az3"),
        ("g4dn.xlarge", "us-west-2a", "usw2-az1"),
        ("g4dn.xlarge", "us-west-2b", "usw2-az2"),
    }
    assert {
        ("zone_of_another_kind", "us-west-2-lax-1a: local-zone"),
        ("offered_elsewhere", "usw2-lax1-az1"),
        ("offered_elsewhere", "usw2-az9"),
        ("zone_state", "us-west-2c: constrained"),
    } <= set(notes(items))


def spot_prices() -> list[Price]:
    return [item for item in read("spot", "history") if isinstance(item, Price)]


def test_a_spot_price_is_the_latest_of_its_zone_however_old() -> None:
    """B056."""
    found = {(item.instance_type, item.zone_id): item.nanos for item in spot_prices()}
    assert found["p3.16xlarge", "use1-az1"] == 7_340_000_000
    assert found["p3.16xlarge", "use1-az6"] == 9_500_000_000


def test_a_spot_price_is_linux_under_either_description_and_never_windows() -> None:
    """B023, B024."""
    found = {(item.instance_type, item.zone): item.nanos for item in spot_prices()}
    assert found["g6e.xlarge", "us-east-1d"] == 891_700_000
    assert found["g4dn.xlarge", "us-east-1a"] == 75_000_000
    assert 282_100_000 not in found.values()
    assert ("other_system", "Windows") in notes(read("spot", "history"))


def test_a_spot_price_of_zero_is_a_note() -> None:
    """B005."""
    assert "g6.xlarge" not in {item.instance_type for item in spot_prices()}
    assert ("non_positive_price", "g6.xlarge spot in us-east-1a") in notes(read("spot", "history"))


def test_of_two_spot_prices_at_one_time_the_dearer_is_shown() -> None:
    assert [item.nanos for item in spot_prices() if item.instance_type == "g5.xlarge"] == [410_000_000]


def test_spot_prices_carry_zone_id_currency_and_source() -> None:
    p5 = next(item for item in spot_prices() if of(item, "instance_type", "zone") == ("p5.48xlarge", "us-east-1a"))
    assert p5 == Price(
        region="us-east-1",
        instance_type="p5.48xlarge",
        purchase=Purchase.SPOT,
        nanos=27_883_100_000,
        currency="USD",
        source="DescribeSpotPriceHistory",
        zone="us-east-1a",
        zone_id="use1-az6",
    )


def test_the_price_list_gives_linux_prices_among_its_decoys() -> None:
    """B002, T2: 0 for a capacity block is a note. B004, B021: nor Windows, SQL, dedicated or a reservation."""
    assert {key: nanos for key, nanos in prices().items() if key[1] == "on_demand"} == {
        ("p5.48xlarge", "on_demand"): 55_040_000_000,
        ("g6f.large", "on_demand"): 202_000_000,
        ("x1.32xlarge", "on_demand"): 13_338_000_000,
        ("c7i.metal-24xl", "on_demand"): 4_712_400_000,
        ("inf2.48xlarge", "on_demand"): 12_981_270_000,
        ("zz9.48xlarge", "on_demand"): 32_772_600_000,
        ("g0x.large", "on_demand"): 1_000_000_000,
    }
    found = notes(read("prices", "us_east_1"))
    assert ("non_positive_price", "p5.48xlarge capacity_block") in found
    assert ("non_positive_price", "zz9.48xlarge on_demand") in found
    assert ("fee_is_no_price", "p5e.48xlarge capacity_block") in found
    assert ("same_price_again", "g0x.large on_demand") in found


def test_a_reserved_price_is_the_cheapest_whole_option_of_its_term() -> None:
    """All Upfront: 288000 over 8760 hours. Of the three-year one the up-front row is missing: it is no option."""
    found = {item.purchase: item for item in read("prices", "us_east_1") if isinstance(item, Price)}
    one, three = found[Purchase.RESERVED_1Y], found[Purchase.RESERVED_3Y]
    assert of(one, "nanos", "upfront_nanos", "term_months") == (32_876_712_329, 288_000_000_000_000, 12)
    assert of(three, "nanos", "upfront_nanos", "term_months") == (22_016_000_000, None, 36)
    counted = notes(read("prices", "us_east_1"))
    assert counted.count(("dearer_reserved_option", "1yr Partial Upfront")) == 2
    assert ("incomplete_reserved_option", "3yr All Upfront") in counted
    assert ("other_reservation", "1yr convertible No Upfront") in counted


def test_the_price_list_knows_the_machines_too() -> None:
    found = machines("us_east_1", "prices")
    p5, g6f, x1 = found["p5.48xlarge"], found["g6f.large"], found["x1.32xlarge"]
    assert of(p5, "gpu", "gpu_count", "vcpus", "memory_mib") == ("h100-sxm5-80g", 8, 192, 2048 * 1024)
    assert of(g6f, "gpu", "gpu_count", "vram_mib") == ("l4", Fraction(1, 8), 3 * 1024)
    assert of(x1, "gpu", "gpu_count", "memory_mib") == (None, 0, 1952 * 1024)
    assert of(found["inf2.48xlarge"], "gpu", "gpu_count") == ("inferentia2", 12)
    assert found["c7i.metal-24xl"].bare_metal
    assert found["zz9.48xlarge"].memory_mib == 31232, "30.5 GiB"


def test_an_accelerator_that_nobody_knows_stays_visible() -> None:
    found = machines("us_east_1", "prices")
    assert of(found["zz9.48xlarge"], "gpu", "gpu_count") == (None, 8)
    assert of(found["g0x.large"], "gpu", "gpu_count") == (None, None), "unknown, not none"
    assert {("unknown_gpu", "zz9"), ("unknown_gpu", "g0x"), ("unknown_count", "g0x.large")} <= set(
        notes(read("prices", "us_east_1"))
    )


def test_china_is_priced_in_its_own_currency_and_strangers_are_left_out() -> None:
    """B090."""
    found = [item for item in read("prices", "china") if isinstance(item, Price)]
    assert [(item.region, item.nanos, item.currency) for item in found] == [("cn-north-1", 5_223_000_000, "CNY")]
    assert ("another_product", "Region Code 'us-east-1'") in notes(read("prices", "china"))


def test_nothing_of_aws_is_stock_but_capacity_blocks() -> None:
    """A score is of an unknown level; what is stated of blocks is of that purchase alone."""
    stated = [item for case in cases("aws") for item in read(case.feed, case.name) if isinstance(item, Stock)]
    reported = {purchase for item in stated if item.evidence is Evidence.REPORTED for purchase in item.purchases}
    others = {(item.evidence, item.level) for item in stated if item.evidence is not Evidence.REPORTED}
    assert (reported, others) == ({Purchase.CAPACITY_BLOCK}, {(Evidence.SCORED, Level.UNKNOWN)})


def test_facts_are_the_same_in_every_order_of_the_records() -> None:
    """B004, B021: in every order, by attributes and never by position."""
    for case in cases("aws"):
        if not case.is_csv:
            continue
        header, *rows = case.page.body.splitlines(keepends=True)
        assert len(rows) > 2
        feed = feed_of(case, Config(ENVIRON))
        whole = {item for item in feed.parse(case.page) if not isinstance(item, Note)}
        for shift in range(len(rows)):
            turned = [*rows[shift:], *rows[:shift]][:: 1 - 2 * (shift % 2)]
            again = feed.parse(case.with_body(header + b"".join(turned)))
            assert {item for item in again if not isinstance(item, Note)} == whole


@pytest.mark.parametrize("column", ["TermType", "MarketOption", "operation", "PricePerUnit", "OfferingClass"])
def test_a_column_that_is_empty_throughout_is_drift(column: str) -> None:
    (case,) = (case for case in cases("aws") if case.name == "us_east_1")
    lines = case.page.body.decode().splitlines()
    at = lines[0].split(",").index(f'"{column}"')
    blank = [line.split('","') for line in lines]
    for cells in blank[1:]:
        cells[at] = ""
    body = ("\n".join('","'.join(cells) for cells in blank) + "\n").encode()
    with pytest.raises(Drift, match=column):
        list(feed_of(case, Config()).parse(case.with_body(body)))


def test_on_demand_below_its_own_reserved_price_is_flagged() -> None:
    """B022."""
    (case,) = (case for case in cases("aws") if case.name == "us_east_1")
    cheap = case.page.body.replace(
        b'"55.0400000000","USD","","","","p5.48xlarge"', b'"0.7160000000","USD","","","","p5.48xlarge"'
    )
    assert cheap != case.page.body
    assert ("on_demand_below_reserved", "p5.48xlarge") in notes(
        list(feed_of(case, Config()).parse(case.with_body(cheap)))
    )
    assert "on_demand_below_reserved" not in dict(notes(read("prices", "us_east_1")))


def test_two_prices_for_one_machine_are_none() -> None:
    (case,) = (case for case in cases("aws") if case.name == "us_east_1")
    body = case.page.body + next(
        line.replace(b"1.0000000000", b"0.0100000000")
        for line in case.page.body.splitlines(keepends=True)
        if b"g0x.large" in line
    )
    items = list(feed_of(case, Config()).parse(case.with_body(body)))
    assert not [item for item in items if isinstance(item, Price) and item.instance_type == "g0x.large"]
    assert notes(items).count(("ambiguous_price", "g0x.large on_demand")) == 3


def test_without_credentials_the_public_files_alone_are_read() -> None:
    built = Aws(Config())
    assert not built.account
    assert [feed.name for feed in built.feeds()] == ["prices", "scores"]
    assert set(built.off()) == {"places", "machines", "spot", "stock"}
    assert all("AWS_ACCESS_KEY_ID" in text and "AWS_SECRET_ACCESS_KEY" in text for text in built.off().values())
    assert Aws(Config(ENVIRON)).off() == {}
    assert Aws(Config({"AWS_PROFILE": "work"})).account
    assert not Aws(Config({"AWS_ACCESS_KEY_ID": "alone"})).account


def places_of(feed: str, regions: tuple[str, ...], config: Config) -> list[str]:
    (found,) = (one for one in Aws(config).feeds() if one.name == feed)
    return [cell.place for cell in found.cells(regions)]


def test_a_price_list_is_read_for_us_east_1_until_regions_are_known() -> None:
    assert places_of("prices", (), Config()) == ["us-east-1"]
    assert places_of("prices", ("us-west-2", "eu-west-1"), Config()) == ["us-west-2", "eu-west-1"]


def test_china_and_govcloud_are_read_only_where_they_are_named() -> None:
    """B090: they never come in with the account's regions; nor are credentials of one partition shown to another."""
    offered = ("us-east-1", "cn-north-1", "us-gov-west-1")
    assert places_of("prices", offered, Config(ENVIRON)) == ["us-east-1"]
    assert places_of("prices", offered, Config(ENVIRON, regions=offered)) == list(offered)
    assert places_of("spot", ("cn-north-1",), Config(ENVIRON, regions=("cn-north-1",))) == ["cn-north-1"]


SEVERAL = ("us-east-1", "cn-north-1", "us-gov-west-1")


def test_credentials_of_an_unknown_partition_are_sent_nowhere() -> None:
    """Regions of several are named, and nothing says which of them the account is of."""
    built = Aws(Config(ENVIRON, regions=SEVERAL))
    assert [feed.name for feed in built.feeds()] == ["prices", "scores"]
    assert set(built.off()) == {"places", "machines", "spot", "stock"}
    (said,) = set(built.off().values())
    assert all(word in said for word in ("aws and aws-cn and aws-us-gov", "AWS_REGION", "sent to no other"))
    assert SECRET not in said
    assert places_of("scores", SEVERAL, Config(ENVIRON, regions=SEVERAL, scores=True)) == list(SEVERAL)


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
@pytest.mark.parametrize(("region", "first"), [("cn-northwest-1", "cn-north-1"), ("eu-west-1", "us-east-1")])
def test_the_environments_region_says_which_account_it_is(variable: str, region: str, first: str) -> None:
    """B090: the regions of the others are off, each with a sentence, and are not asked."""
    config = Config({**ENVIRON, variable: region}, regions=SEVERAL)
    assert Aws(config).off() == {}
    others = [one for one in SEVERAL if one != first]
    for feed in Aws(config).feeds():
        if feed.name in ("machines", "spot", "stock"):
            assert [cell.place for cell in feed.cells(SEVERAL)] == [first, *others]
            for other in others:
                with pytest.raises(NotServed, match=f"{other} is in the partition .* not sent there"):
                    list(feed.fetch(Cell("aws", feed.name, other), NOW, {}))


def test_prices_of_another_partition_are_read_from_the_list_alone() -> None:
    config = Config({**ENVIRON, "AWS_REGION": "us-east-1"}, regions=SEVERAL, price_source="api")
    (prices_feed,) = (feed for feed in Aws(config).feeds() if feed.name == "prices")
    with pytest.raises(NotServed, match="cn-north-1 is in the partition aws-cn"):
        list(prices_feed.fetch(Cell("aws", "prices", "cn-north-1"), NOW, {}))


@pytest.mark.parametrize(
    ("environ", "regions", "home"),
    [
        ({}, (), "us-east-1"),
        ({}, ("cn-northwest-1",), "cn-north-1"),
        ({}, ("us-gov-east-1",), "us-gov-west-1"),
        ({"AWS_REGION": "cn-north-1"}, (), "cn-north-1"),
        ({"AWS_REGION": "us-east-1"}, ("cn-north-1",), "us-east-1"),
        ({"AWS_REGION": " ", "AWS_DEFAULT_REGION": "cn-north-1"}, (), "cn-north-1"),
    ],
)
def test_the_account_is_asked_about_in_its_own_partition(
    environ: Mapping[str, str], regions: tuple[str, ...], home: str
) -> None:
    assert home_of(Config({**ENVIRON, **environ}, regions)) == home


def test_intervals_and_limits() -> None:
    feeds = {feed.name: feed for feed in Aws(Config(ENVIRON)).feeds()}
    assert feeds["prices"].every == timedelta(hours=24)
    assert feeds["spot"].fresh_for == timedelta(minutes=30)
    assert feeds["spot"].limit(Cell("aws", "spot", "us-west-2")).key == "aws:us-west-2"
    assert feeds["machines"].limit(Cell("aws", "machines", "us-west-2")).key == "aws:us-west-2"
    assert feeds["places"].limit(Cell("aws", "places")).key == "aws:us-east-1"


def test_every_counted_machine_has_an_accelerator_that_is_known() -> None:
    families = {
        name for row in accelerators().values() for provider, name in row.instance_families if provider == "aws"
    }
    counts = {name: known.gpu_count for name, known in known_types().items() if known.gpu_count is not None}
    assert len(counts) > 20
    assert {name.partition(".")[0] for name in counts} <= families
    assert all(count > 0 for count in counts.values())


def test_a_machine_whose_rdma_is_known_is_one_with_an_accelerator() -> None:
    told = [name for name, known in known_types().items() if known.rdma is not None]
    assert len(told) > 40
    assert all(is_accelerated(name) for name in told)
