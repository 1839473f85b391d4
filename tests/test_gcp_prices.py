"""Google Cloud's prices: which SKU is which part of a machine, and what the parts add up to."""

import itertools
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from catalog.facts import Machine, Note, Price
from catalog.snapshot_data import snapshot_rows
from collectors.base import Page
from collectors.gcp_machine import known_types
from collectors.gcp_skus import _key, core_families, is_of_others, is_relevant, sku_of
from collectors.reading import Record
from tests.support.pages import NOW, cases
from tests.test_gcp import feed, notes, read

Json = dict[str, Any]
REGION = "test-r1"
HOURLY = {"Core": "h", "Ram": "GiBy.h"}


def sku(description: str, amount: str, usage: str = "OnDemand", **more: Any) -> Json:
    """A SKU at so many USD; `unit`, `regions`, `tiers`, `since`, `currency` and `family` where they differ."""
    unit = next((unit for word, unit in HOURLY.items() if word in description), "h")
    units, _, rest = amount.partition(".")
    money = {"currencyCode": more.get("currency", "USD"), "units": units, "nanos": int(f"{rest:0<9}" or 0)}
    tiers = more.get("tiers", [{"startUsageAmount": 0, "unitPrice": money}])
    info = {"pricingExpression": {"usageUnit": more.get("unit", unit), "tieredRates": tiers}}
    return {
        "name": f"services/s/skus/{description}",
        "description": description,
        "category": {"resourceFamily": more.get("family", "Compute"), "usageType": usage},
        "serviceRegions": more.get("regions", [REGION]),
        "pricingInfo": [info | ({"effectiveTime": more["since"]} if "since" in more else {})],
    }


def machine_type(name: str, vcpus: int, memory_gib: int, accelerator: str = "", count: int = 1, **more: Any) -> Json:
    """A machine type of Google's."""
    cards = [{"guestAcceleratorType": accelerator, "guestAcceleratorCount": count}] if accelerator else []
    stated = {"name": name, "guestCpus": vcpus, "memoryMb": memory_gib * 1024}
    return stated | ({"accelerators": cards} if cards else {}) | more


def priced(machines: list[Json], skus: list[Json], cards: list[Json] | None = None) -> list[Any]:
    """What a page of prices states."""
    body = {"machineTypes": machines, "acceleratorTypes": cards or [], "skus": skus}
    return list(feed("prices").parse(Page("prices", json.dumps(body).encode(), NOW, REGION)))


def hours(items: list[Any]) -> dict[tuple[str, str], str]:
    """(machine, purchase) -> USD an hour."""
    found = {(one.instance_type, one.purchase.value): one for one in items if isinstance(one, Price)}
    assert {one.currency for one in found.values()} <= {"USD"}
    return {key: str(Decimal(one.nanos).scaleb(-9).normalize()) for key, one in found.items()}


A2 = machine_type("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100")
A2_SKUS = [
    sku("A2 Instance Core running in Testland", "0.031611"),
    sku("A2 Instance Ram running in Testland", "0.004237"),
    sku("Nvidia Tesla A100 GPU running in Testland", "2.933908"),
]
SSD = sku("SSD backed Local Storage in Testland", "0.08", unit="GiBy.mo", family="Storage")
A2_SPOT = [
    sku("Spot Preemptible A2 Instance Core running in Testland", "0.01659", "Preemptible"),
    sku("Spot Preemptible A2 Instance Ram running in Testland", "0.00223", "Preemptible"),
    sku("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Testland", "1.53939", "Preemptible"),
]


def test_a_machine_costs_exactly_what_its_parts_do() -> None:
    assert hours(priced([A2], A2_SKUS + A2_SPOT)) == {
        ("a2-highgpu-1g", "on_demand"): "3.673385",
        ("a2-highgpu-1g", "spot"): "1.92802",
    }


@pytest.mark.parametrize("lacking", range(3))
def test_a_machine_one_of_whose_parts_has_no_price_has_none(lacking: int) -> None:
    items = priced([A2], [one for number, one in enumerate(A2_SKUS) if number != lacking])
    assert not hours(items)
    part = ("core a2", "ram a2", "gpu a100")[lacking]
    assert ("part_not_priced", f"on_demand {part}") in notes(items)
    assert [kind for kind, _ in notes(items)].count("unused_sku") == 2


def test_bundled_local_ssd_is_part_of_the_price_over_730_hours_a_month() -> None:
    ultra = machine_type("a2-ultragpu-1g", 12, 170, "nvidia-a100-80gb", bundledLocalSsds={"partitionCount": 1})
    skus = [*A2_SKUS, sku("Nvidia Tesla A100 80GB GPU running in Testland", "3.92808"), SSD]
    assert hours(priced([ultra], skus))["a2-ultragpu-1g", "on_demand"] == "5.06879789"
    assert not hours(priced([ultra], skus[:-1])), "without the SSD's price there is none"


def test_a_type_without_local_ssd_is_priced_without_it() -> None:
    """12 x 0.031611 + 170 x 0.004237 + 3.92808."""
    bare = machine_type("a2-ultragpu-1g-nolssd", 12, 170, "nvidia-a100-80gb")
    skus = [*A2_SKUS, sku("Nvidia Tesla A100 80GB GPU running in Testland", "3.92808"), SSD]
    assert hours(priced([bare], skus))["a2-ultragpu-1g-nolssd", "on_demand"] == "5.027702"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"bundledLocalSsds": {"partitionCount": 2}}, "0.450191781"),
        ({"bundledLocalSsds": {"partitionCount": 1, "partitionSizeGb": 750}}, "0.450191781"),
        ({"bundledLocalSsds": {}}, None),
        ({}, "0.368"),
    ],
)
def test_a_type_that_the_table_does_not_know_has_the_ssd_that_it_states(said: Json, expected: str | None) -> None:
    machine = machine_type("n9-standard-8-lssd", 8, 32, "nvidia-x", **said)
    skus = [sku("N9 Instance Core", "0.03"), sku("N9 Instance Ram", "0.004"), SSD, sku("Nvidia X GPU", "0.000000001")]
    found = hours(priced([machine], skus)).get(("n9-standard-8-lssd", "on_demand"))
    assert found == (None if expected is None else str(Decimal(expected) + Decimal("1e-9")))


def test_the_table_says_how_much_ssd_is_paid_for_where_the_answer_leaves_it_out_or_differs() -> None:
    skus = [*A2_SKUS, sku("Nvidia Tesla A100 80GB GPU running in Testland", "3.92808"), SSD]
    silent = machine_type("a2-ultragpu-1g", 12, 170, "nvidia-a100-80gb")
    assert hours(priced([silent], skus))["a2-ultragpu-1g", "on_demand"] == "5.06879789"
    items = priced([silent | {"bundledLocalSsds": {"partitionCount": 2}}], skus)
    assert hours(items)["a2-ultragpu-1g", "on_demand"] == "5.06879789"
    assert ("local_ssd_differs", "a2-ultragpu-1g: Google says 750 GiB, the table 375") in notes(items)


@pytest.mark.parametrize("word", ["Mega", "Plus"])
def test_mega_and_plus_are_one_card_and_its_machine_has_cores_of_its_own(word: str) -> None:
    mega = machine_type("a3-megagpu-8g", 208, 1872, "nvidia-h100-mega-80gb", 8)
    high = machine_type("a3-highgpu-8g", 208, 1872, "nvidia-h100-80gb", 8)
    skus = [
        sku("A3 Instance Core running in Testland", "0.02"),
        sku("A3 Instance Ram running in Testland", "0.002"),
        sku("Nvidia H100 80GB GPU running in Testland", "9"),
        sku("A3Plus Instance Core running in Testland", "0.03"),
        sku("A3Plus Instance Ram running in Testland", "0.003"),
        sku(f"Nvidia H100 80GB {word} GPU running in Testland", "10"),
        SSD,
    ]
    assert hours(priced([mega, high], skus)) == {
        ("a3-megagpu-8g", "on_demand"): "92.513534247",
        ("a3-highgpu-8g", "on_demand"): "80.561534247",
    }


def test_a_machine_of_a_family_that_is_not_known_takes_no_cores_of_its_series() -> None:
    edge = machine_type("a3-edgegpu-8g", 208, 1872, "nvidia-h100-80gb", 8)
    skus = [sku("A3 Instance Core", "0.02"), sku("A3 Instance Ram", "0.002"), sku("Nvidia H100 80GB GPU", "9"), SSD]
    assert not hours(priced([edge], skus))


def test_an_rtx_is_a_gpu_though_its_sku_does_not_say_so() -> None:
    """And a slice of it costs its part."""
    types = [
        machine_type("g4-standard-48", 48, 180, "nvidia-rtx-pro-6000"),
        machine_type("g4-standard-12", 12, 45, "nvidia-rtx-pro-6000"),
    ]
    skus = [
        sku("G4 Instance Core running in Testland", "0.03"),
        sku("G4 Instance Ram running in Testland", "0.004"),
        sku("RTX 6000 96GB running in Testland", "2.33993"),
    ]
    assert hours(priced(types, skus)) == {
        ("g4-standard-48", "on_demand"): "4.49993",
        ("g4-standard-12", "on_demand"): "1.1249825",
    }


B200 = machine_type("a4-highgpu-8g", 224, 3968, "nvidia-b200", 8, bundledLocalSsds={"partitionCount": 32})
SLICE = "A4 Nvidia B200 (1 gpu slice) in Testland"


def test_a_slice_is_all_in_and_calendar_mode_is_no_hour_on_demand() -> None:
    """Google calls calendar mode's usage OnDemand."""
    skus = [
        sku(f"Spot Preemptible {SLICE}", "4.8301", "Preemptible"),
        sku(f"DWS Calendar Mode {SLICE}", "8.06"),
        sku(f"Commitment v1: {SLICE} for 1 Year", "7", "Commit1Yr"),
        sku(f"DWS Defined Duration {SLICE}", "5"),
        sku(SLICE, "11"),
    ]
    items = priced([B200], skus)
    assert hours(items) == {
        ("a4-highgpu-8g", "spot"): "38.6408",
        ("a4-highgpu-8g", "capacity_block"): "64.48",
        ("a4-highgpu-8g", "reserved_1y"): "56",
    }
    assert ("another_product", "dws defined") in notes(items)
    assert ("unused_sku", "on_demand gpu slice a4 b200") in notes(items), "a4 is not sold on demand"


def test_what_is_not_sold_on_demand_has_no_such_price_though_its_parts_add_up() -> None:
    """Fewer than eight H100s of a3-highgpu are sold as spot alone."""
    small = machine_type("a3-highgpu-2g", 52, 468, "nvidia-h100-80gb", 2)
    skus = [
        sku("A3 Instance Core running in Testland", "0.02"),
        sku("A3 Instance Ram running in Testland", "0.002"),
        sku("Nvidia H100 80GB GPU running in Testland", "9"),
        SSD,
        sku("Spot Preemptible A3 Instance Core running in Testland", "0.01", "Preemptible"),
        sku("Spot Preemptible A3 Instance Ram running in Testland", "0.001", "Preemptible"),
        sku("Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Testland", "5", "Preemptible"),
        sku("SSD backed Local Storage attached to Spot Preemptible VMs", "0.0365", unit="GiBy.mo", family="Storage"),
        *(
            sku(f"Commitment v1: {what} in Testland for 3 Years", "1", "Commit3Yr", unit=unit)
            for what, unit in {
                "A3 Cpu": "h",
                "A3 Ram": "GiBy.h",
                "Nvidia H100 80GB GPU": "h",
                "Local SSD": "GiBy.mo",
            }.items()
        ),
    ]
    assert hours(priced([small], skus)) == {("a3-highgpu-2g", "spot"): "11.063"}


N1 = machine_type("n1-standard-8", 8, 30)
T4 = {"name": "nvidia-tesla-t4", "maximumCardsPerInstance": 4}
N1_SKUS = [
    sku("N1 Predefined Instance Core running in Testland", "0.031611"),
    sku("N1 Predefined Instance Ram running in Testland", "0.004237"),
    sku("Nvidia Tesla T4 GPU running in Testland", "0.35"),
]


def test_an_attached_gpu_is_added_for_each_of_them_and_a_commitment_is_its_own_purchase() -> None:
    commitments = [
        sku("Commitment v1: Cpu in Testland for 1 Year", "0.02", "Commit1Yr"),
        sku("Commitment v1: Ram in Testland for 1 Year", "0.003", "Commit1Yr"),
        sku("Commitment v1: Nvidia Tesla T4 GPU running in Testland for 1 Year", "0.22", "Commit1Yr"),
        sku("Commitment v1: Nvidia Tesla T4 GPU running in Testland for 3 Years", "0.16", "Commit3Yr"),
    ]
    items = priced([N1], N1_SKUS + commitments, [T4])
    assert hours(items) == {
        ("n1-standard-8+nvidia-tesla-t4x1", "on_demand"): "0.729998",
        ("n1-standard-8+nvidia-tesla-t4x1", "reserved_1y"): "0.47",
        ("n1-standard-8+nvidia-tesla-t4x2", "on_demand"): "1.079998",
        ("n1-standard-8+nvidia-tesla-t4x2", "reserved_1y"): "0.69",
        ("n1-standard-8+nvidia-tesla-t4x4", "on_demand"): "1.779998",
        ("n1-standard-8+nvidia-tesla-t4x4", "reserved_1y"): "1.13",
    }
    assert {one.term_months for one in items if isinstance(one, Price)} == {None, 12}
    assert ("unused_sku", "reserved_3y gpu t4") in notes(items)


@pytest.mark.parametrize(
    ("description", "usage", "why"),
    [
        ("Reserved Nvidia Tesla A100 GPU in Americas", "OnDemand", "reserved"),
        ("A2 Instance Core running in Americas Sole Tenancy Premium", "OnDemand", "sole tenancy"),
        ("N1 Custom Instance Core running in Americas", "OnDemand", "custom"),
        ("Nvidia Tesla A100 GPU running in suspended state", "OnDemand", "suspended"),
        ("VM state: preserved local SSD in Bangkok", "OnDemand", "preserved"),
        ("Nvidia Tesla T4 Virtual Workstation GPU running in Iowa", "OnDemand", "virtual workstation"),
        ("Commitment v1: A2 Cpu in Americas for 1 Year", "OnDemand", "description not understood"),
        ("A2 Instance Core running in Americas", "Commit1Yr", "description not understood"),
        ("Spot Preemptible A2 Instance Core running in Americas", "Commit3Yr", "description not understood"),
        ("A4 Nvidia B200 (8 gpu slice) in Iowa", "OnDemand", "description not understood"),
        ("Commitment v1: C4D Local SSD in Americas for 3 Years", "Commit3Yr", "description not understood"),
        ("A2 Instance Core running in Americas", "Flex", "usageType Flex"),
        ("Network Inter Zone Egress", "OnDemand", "description not understood"),
    ],
)
def test_another_product_is_left_out_and_says_why(description: str, usage: str, why: str) -> None:
    first, *_ = sku_of(Record(sku(description, "0.1", usage), "sku"), REGION)
    assert first == Note("another_product", why, record=True)


def test_a_spot_ssd_is_one_by_its_description_though_google_calls_it_on_demand() -> None:
    one = sku("SSD backed Local Storage attached to Spot Preemptible VMs in Iowa", "0.03", unit="GiBy.mo")
    found, *_ = sku_of(Record(one, "sku"), REGION)
    assert getattr(found, "key", None) == ("spot", "local ssd", "")


@pytest.mark.parametrize(
    ("money", "amount"),
    [
        ({"units": "2", "nanos": 933908000}, "2.933908"),
        ({"units": 2, "nanos": 933908000}, "2.933908"),
        ({"units": "2"}, "2"),
        ({"nanos": 350000000}, "0.35"),
        ({"units": "0.0", "nanos": 350000000}, "0.35"),
        ({"units": "0", "nanos": 0}, "non_positive_price"),
        ({"units": "-1", "nanos": 0}, "non_positive_price"),
        ({}, "no_price"),
        ({"units": "2", "currencyCode": "EUR"}, "unknown_currency"),
        ({"units": "2", "currencyCode": None}, "unknown_currency"),
    ],
)
def test_an_amount_is_whole_units_and_nano_units(money: Json, amount: str) -> None:
    """Units dropped would take the dollars off a GPU."""
    tiers = [{"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD"} | money}]
    first, *_ = sku_of(Record(sku("Nvidia T4 GPU running in Testland", "0", tiers=tiers), "sku"), REGION)
    if isinstance(first, Note):
        assert (first.kind, first.record) == (amount, True)
    else:
        assert first.amount == Fraction(amount)


def test_the_first_tier_above_zero_counts() -> None:
    tiers = [
        {"startUsageAmount": start, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": nanos}}
        for start, nanos in ((0, 0), (1, 350_000_000), (1000, 300_000_000))
    ]
    first, *_ = sku_of(Record(sku("Nvidia T4 GPU running in Testland", "0", tiers=tiers), "sku"), REGION)
    assert getattr(first, "amount", None) == Fraction(35, 100)


@pytest.mark.parametrize(
    ("sinces", "expected"),
    [
        (("2026-08-01T00:00:00Z", "2026-09-01T00:00:00Z"), "3.739477"),
        (("2026-09-01T00:00:00Z", "2026-08-01T00:00:00Z"), "3.673385"),
        (("2026-09-01T00:00:00Z", "2026-09-01T00:00:00Z"), None),
        ((None, "2026-09-01T00:00:00Z"), None),
    ],
)
def test_of_two_prices_of_one_part_the_later_counts_and_none_where_that_is_not_said(
    sinces: tuple[str | None, str | None], expected: str | None
) -> None:
    twice = [
        sku(f"Nvidia Tesla A100 GPU running in {place}", amount, **({"since": since} if since else {}))
        for place, amount, since in zip(("Iowa", "Ohio"), ("2.933908", "3"), sinces, strict=True)
    ]
    for order in itertools.permutations(twice):
        items = priced([A2], [*A2_SKUS[:2], *order])
        assert hours(items).get(("a2-highgpu-1g", "on_demand")) == expected
        kinds = [kind for kind, _ in notes(items)]
        assert kinds.count("superseded_price") == (expected is not None)
        assert kinds.count("ambiguous_price") == (0 if expected else 2)


def test_the_same_price_twice_is_one() -> None:
    items = priced([A2], [*A2_SKUS, sku("Nvidia Tesla A100 GPU running in Iowa", "2.933908")])
    assert hours(items)["a2-highgpu-1g", "on_demand"] == "3.673385"
    assert ("same_price_again", "on_demand gpu a100") in notes(items)


@pytest.mark.parametrize("unit", ["mo", "GiBy.mo", "100 h", ""])
def test_another_unit_is_no_price_of_an_hour(unit: str) -> None:
    items = priced([A2], [*A2_SKUS[:2], sku("Nvidia Tesla A100 GPU running in Iowa", "2.933908", unit=unit)])
    assert not hours(items)
    assert "unknown_unit" in [kind for kind, _ in notes(items)]


def test_machines_that_zones_describe_otherwise_have_no_price() -> None:
    items = priced([A2, A2 | {"guestCpus": 13}], A2_SKUS)
    assert not hours(items)
    assert ("zones_disagree", "a2-highgpu-1g") in notes(items)


def test_what_may_price_a_part_is_kept_and_most_else_is_not() -> None:
    kept = [one["description"] for one in (*A2_SKUS, *A2_SPOT, *N1_SKUS, SSD)]
    assert all(map(is_relevant, kept))
    assert is_relevant("Commitment v1: Cpu in Iowa for 1 Year")
    assert is_relevant("RTX 6000 96GB running in Iowa")
    others = ["Network Vpn Internet Egress from Americas", "Storage PD Capacity", "Licensing Fee for SQL Server", None]
    assert not any(map(is_relevant, others))


@pytest.mark.parametrize(
    ("description", "dropped"),
    [
        ("E2 Instance Core running in Americas", True),
        ("Spot Preemptible N2D AMD Instance Ram running in Americas", True),
        ("Commitment v1: C3 Cpu in Iowa for 1 Year", True),
        ("Custom Instance Core running in Americas", True),
        ("A4 Instance Core running in Americas", True),
        ("A2 Instance Core running in Americas", False),
        ("Spot Preemptible A3Plus Instance Ram running in Americas", False),
        ("A3Mega Instance Core running in Americas", False),
        ("Commitment v1: A3 Cpu in Iowa for 3 Years", False),
        ("N1 Predefined Instance Core running in Americas", False),
        ("Commitment v1: Ram in Iowa for 1 Year", False),
        ("DWS Flex A3 Instance Core running in Americas", False),
        ("Nvidia Tesla A100 GPU running in Americas", False),
        ("A4 Nvidia B200 (1 gpu slice) in Iowa", False),
        ("SSD backed Local Storage in Iowa", False),
    ],
)
def test_cores_and_memory_of_families_without_accelerators_are_not_kept(description: str, dropped: bool) -> None:
    families = core_families(["a2-highgpu-1g", "a3-megagpu-8g", "n1-standard-8"])
    assert is_of_others(description, families) is dropped


def test_no_sku_that_a_machine_of_the_table_needs_is_dropped() -> None:
    families = core_families(known_types())
    for case in (one for one in cases("gcp") if one.feed == "prices"):
        used = [one["description"] for one in json.loads(case.page.body)["skus"]]
        understood = [one for one in used if _key(one, "OnDemand") and not one.startswith(("E2", "N2", "C3"))]
        assert understood
        assert not [one for one in understood if is_of_others(one, families)]


SPLITS = {("g4-standard-6", "on_demand")} | {(f"a3-highgpu-{n}g", "spot") for n in (1, 2, 4, 8)}
"""Where the page's SKUs are a split that was made up so that it fits other machines: it differs by 0.2 % at most."""


def test_recorded_machine_prices_are_met_exactly_wherever_their_skus_are_known() -> None:
    """The page's SKUs over all machines of the table, against the machine prices that others recorded."""
    (page,) = [one for one in cases("gcp") if (one.feed, one.name) == ("prices", "us_central1")]
    body = json.loads(page.page.body)
    g2 = [
        sku("G2 Instance Core running in Americas", "0.024988", regions=["us-central1"]),
        sku("G2 Instance Ram running in Americas", "0.002927501", regions=["us-central1"]),
        sku("Nvidia L4 GPU running in Americas", "0.560040239", regions=["us-central1"]),
    ]
    bundled = {"bundled": True, "machineTypes": [], "acceleratorTypes": [], "skus": [*body["skus"], *g2]}
    items = feed("prices").parse(Page("prices", json.dumps(bundled).encode(), NOW, "us-central1"))
    found = {(one.instance_type, one.purchase.value): one.nanos for one in items if isinstance(one, Price)}
    met = 0
    for price in snapshot_rows():
        key = (price.instance_type, price.purchase.value)
        if (price.provider, price.region) == ("gcp", "us-central1") and key in found:
            difference = abs(found[key] - price.price_nanos)
            assert difference == 0 or (key in SPLITS and difference * 500 < price.price_nanos), key
            met += difference == 0
    assert met > 20


def test_with_a_key_alone_the_machines_of_the_table_are_priced_where_all_their_parts_are() -> None:
    items = read("prices", "europe_west6_key_alone")
    names = {item.instance_type for item in items if isinstance(item, Machine)}
    assert names
    assert all("+nvidia-tesla-p4x" in name for name in names)
    assert "n1-standard-32+nvidia-tesla-p4x1" not in names, "one P4 goes with 24 vCPUs at most"
    assert len(known_types()) > 50
