"""Field cases of list prices, end to end: which row is a machine's price, and what is no price at all."""

import itertools
import random
from pathlib import Path

import pytest
from werkzeug import Response

from collectors.aws_pricelist import PUBLIC
from collectors.base import Cell
from tests.support.endtoend import amount, gpufare, source_of
from tests.support.wires import AwsSays, aws, csv_row, ec2_type, spot_row

BLOCK = {"MarketOption": "CapacityBlock"}
RESERVED_3Y = {
    "TermType": "Reserved",
    "LeaseContractLength": "3yr",
    "PurchaseOption": "No Upfront",
    "OfferingClass": "standard",
}
ALL_UPFRONT = RESERVED_3Y | {"PurchaseOption": "All Upfront"}
G4DN = "g4dn.xlarge"
A100X8 = "p4d.24xlarge"


@pytest.mark.parametrize(("price", "shown"), [("32.7726000000", "32.7726"), ("32.77", "32.77")], ids=["B002", "T2"])
def test_a_capacity_block_at_zero_is_a_note_and_the_hour_on_demand_the_only_price(
    tmp_path: Path, price: str, shown: str
) -> None:
    says = AwsSays({"us-east-1": [csv_row(A100X8, "0.0000000000", GPU="8", **BLOCK), csv_row(A100X8, price, GPU="8")]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices")
        assert app.native("gpu=a100-40g&purchase=on_demand") == {("us-east-1", A100X8, "on_demand"): shown}
        assert app.best("gpu=a100&count=8") == ("us-east-1", A100X8, shown)
        assert {amount(one) for one in app.offers("gpu=a100")} == {shown, None}
        assert app.feed("aws", "prices")["notes"]["non_positive_price"] == 1


def test_a_list_price_of_zero_is_no_price_and_the_next_region_is_the_answer(tmp_path: Path) -> None:
    """B001, by AWS: listed at 0 in one region and at 6.98 in another; no on-demand stock is published."""
    says = AwsSays(
        {
            "us-east-1": [csv_row("p5.4xlarge", "0.0000000000", GPU="1")],
            "us-west-2": [csv_row("p5.4xlarge", "6.98", "us-west-2", GPU="1")],
        }
    )
    with aws(says, "us-east-1", "us-west-2") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices")
        answer = app.cheapest("gpu=h100")
        assert (answer["verdict"], answer["best"]["region"]) == ("unconfirmed", "us-west-2")
        assert (answer["best"]["price_per_hour"], answer["best"]["currency"]) == ("6.98", "USD")
        assert answer["alternatives"] == []
        assert app.native("gpu=h100")["us-east-1", "p5.4xlarge", "on_demand"] is None
        assert app.feed("aws", "prices")["notes"]["non_positive_price"] == 1


def test_a_machine_that_can_only_be_reserved_is_listed_without_a_price(tmp_path: Path) -> None:
    """B003."""
    usage = {"SupportedUsageClasses": ["capacity-block"]}
    says = AwsSays(
        {
            "us-east-1": [
                csv_row("p5e.48xlarge", "0.0000000000", CapacityStatus="AllocatedCapacityReservation"),
                csv_row(G4DN, "0.526", GPU="1"),
            ]
        },
        {"us-east-1": [ec2_type("p5e.48xlarge", "H200", 8, 144384, **usage), ec2_type(G4DN, "T4", 1, 16384)]},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices")
        offers = app.offers("gpu=h200")
        assert {(one["purchase"], amount(one)) for one in offers} == {("capacity_block", None)}
        answer = app.cheapest("gpu=h200&count=8")
        assert (answer["best"], answer["unconfirmed"], answer["alternatives"]) == (None, None, [])


def test_reservations_at_zero_are_not_the_price_in_whatever_order(tmp_path: Path) -> None:
    """B004: the list is read anew in all 6 orders."""
    rows = [
        csv_row(G4DN, "0.0000000000", CapacityStatus="UnusedCapacityReservation"),
        csv_row(G4DN, "0.0000000000", CapacityStatus="AllocatedCapacityReservation"),
        csv_row(G4DN, "1.7280000000"),
    ]
    says = AwsSays()
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        for order in itertools.permutations(rows):
            says.prices["us-east-1"] = order
            assert app.statuses("prices") == {"aws prices us-east-1": "ok"}
            assert app.native(f"instance_type={G4DN}") == {("us-east-1", G4DN, "on_demand"): "1.728"}


def test_the_shared_linux_price_is_found_among_its_variants_in_any_order(tmp_path: Path) -> None:
    """B021."""
    rows = [
        csv_row(G4DN, "0.0850000000"),
        csv_row(G4DN, "0.1020000000", Tenancy="Dedicated"),
        csv_row(G4DN, "0.1450000000", Operating_System="RHEL"),
        csv_row(G4DN, "0.5650000000", Pre_Installed_SW="SQL Std", operation="RunInstances:0004"),
        csv_row(G4DN, "0.1770000000", Operating_System="Windows", operation="RunInstances:0002"),
        csv_row(G4DN, "0.0850000000", Tenancy="Host"),
    ]
    rows = [{key.replace("SW", "S/W"): value for key, value in one.items()} for one in rows]
    says = AwsSays()
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        for seed in range(20):
            random.Random(seed).shuffle(rows)
            says.prices["us-east-1"] = rows
            app.sync("prices")
            assert app.native(f"instance_type={G4DN}") == {("us-east-1", G4DN, "on_demand"): "0.085"}


@pytest.mark.parametrize(
    ("on_demand", "third", "spot"),
    [("27.197", "5.4394", "9.52"), ("3.673", "0.735", "1.10")],
    ids=["B017", "T4"],
)
def test_a_third_meter_of_a_machine_is_neither_its_price_on_demand_nor_its_spot_price(
    tmp_path: Path, on_demand: str, third: str, spot: str
) -> None:
    """B017, T4, by AWS: the third meter is the fee of a capacity block, which is lower than both; in all orders."""
    rows = [
        csv_row(A100X8, on_demand, GPU="8"),
        csv_row(A100X8, third, GPU="8", **BLOCK),
        csv_row(A100X8, "99", Operating_System="Windows"),
    ]
    says = AwsSays(spot={"us-east-1": [spot_row(A100X8, "us-east-1a", spot)]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        for order in itertools.permutations(rows):
            says.prices["us-east-1"] = order
            app.sync("prices", "spot")
            found = {(one["purchase"], amount(one)) for one in app.offers("gpu=a100")}
            assert found == {("on_demand", on_demand), ("spot", f"{float(spot):g}"), ("capacity_block", None)}


def test_a_terms_whole_price_is_never_an_hours(tmp_path: Path) -> None:
    """B019, by AWS's All Upfront: 48318 for three years is 1.8386… an hour of the term, and says nothing on demand."""
    whole_term = [
        csv_row(A100X8, "48318.0", GPU="8", Unit="Quantity", **ALL_UPFRONT),
        csv_row(A100X8, "0.0", GPU="8", **ALL_UPFRONT),
    ]
    says = AwsSays()
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        says.prices["us-east-1"] = whole_term
        app.sync("prices")
        assert {one["purchase"] for one in app.offers("gpu=a100") if one["native_price"]} == {"reserved_3y"}
        assert app.best("gpu=a100&count=8") is None, "the reservation alone: the price on demand is unknown"
        for order in itertools.permutations([*whole_term, csv_row(A100X8, "27.197", GPU="8")]):
            says.prices["us-east-1"] = order
            app.sync("prices")
            assert app.best("gpu=a100&count=8") == ("us-east-1", A100X8, "27.197")
        term = app.offer("gpu=a100&purchase=reserved_3y")["native_price"]
        assert (term["amount"], term["upfront"]) == ("1.838584475", {"amount": "48318", "months": 36, "hours": None})


def test_a_list_without_the_right_meter_leaves_yesterdays_price_to_age(tmp_path: Path) -> None:
    """B020, by AWS: today the list holds Windows alone, at 0.0096."""
    says = AwsSays({"us-east-1": [csv_row(G4DN, "0.526", GPU="1")]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices")
        yesterday = app.offer(f"instance_type={G4DN}")["native_price"]["observed_at"]
        app.later(days=1)
        says.prices["us-east-1"] = [csv_row(G4DN, "0.0096", Operating_System="Windows", operation="RunInstances:0002")]
        assert app.statuses("prices") == {"aws prices us-east-1": "failed"}
        price = app.offer(f"instance_type={G4DN}")["native_price"]
        assert (price["amount"], price["observed_at"]) == ("0.526", yesterday)
        assert price["age_s"] >= 86400
        assert "other_operation" in app.past("aws", "prices", "us-east-1")["error"]


def test_a_price_on_demand_below_the_reserved_one_is_kept_and_noted(tmp_path: Path) -> None:
    """B022: that a suspicious price is announced by no alert has to wait for watches."""
    says = AwsSays(
        {"us-east-1": [csv_row(G4DN, "0.7160000000", GPU="1"), csv_row(G4DN, "1.1", GPU="1", **RESERVED_3Y)]}
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices")
        assert app.native(f"instance_type={G4DN}&purchase=on_demand") == {("us-east-1", G4DN, "on_demand"): "0.716"}
        assert app.feed("aws", "prices")["notes"]["on_demand_below_reserved"] == 1


def test_a_commitment_is_never_the_price_on_demand_or_spot(tmp_path: Path) -> None:
    """B026, by AWS: three years at 0.16, on demand 0.35."""
    says = AwsSays({"us-east-1": [csv_row(G4DN, "0.16", GPU="1", **RESERVED_3Y), csv_row(G4DN, "0.35", GPU="1")]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices")
        found = {(one["purchase"], amount(one)) for one in app.offers("gpu=t4")}
        assert found == {("on_demand", "0.35"), ("reserved_3y", "0.16")}
        assert app.best("gpu=t4&purchase=on_demand,spot") == ("us-east-1", G4DN, "0.35")


@pytest.mark.parametrize(
    ("case", "file"),
    [("B006", []), ("B078", [csv_row(G4DN, "0.526", GPU="1")]), ("B079", None)],
    ids=["B006", "B078", "B079"],
)
def test_a_machine_that_nobody_prices_is_listed_without_a_price_and_never_the_answer(
    tmp_path: Path, case: str, file: list[dict[str, str]] | None
) -> None:
    """B006, B078, B079, by AWS: the list is empty, lacks the machine, or does not exist for the region."""
    usage = {"SupportedUsageClasses": ["on-demand"]}
    says = AwsSays(types={"us-east-1": [ec2_type(A100X8, "A100", 8, 40960, **usage)]})
    if file is not None:
        says.prices["us-east-1"] = file
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices")
        assert set(app.native("gpu=a100-40g&count=8&purchase=on_demand").values()) == {None}, case
        answer = app.cheapest("gpu=a100-40g&count=8")
        assert (answer["best"], answer["unconfirmed"]) == (None, None)
        assert answer["rejected"]["no_price"] == 2, "the machine in two zones"


def test_a_snapshots_price_says_so_and_a_live_one_says_its_call(tmp_path: Path) -> None:
    """B007: neither is 0."""
    from store.snapshot import load_bundled

    says = AwsSays(spot={"us-east-1": [spot_row("g6.xlarge", "us-east-1a", "0.1234")]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        load_bundled(app.engine)
        app.sync("spot")
        listed = app.offer("instance_type=g6.xlarge&region=us-east-1&purchase=on_demand&zone=us-east-1a")
        assert float(amount(listed) or 0) > 0
        assert listed["native_price"]["source"].startswith("snapshot")
        assert listed["native_price"]["stale"] is True
        live = app.offer("instance_type=g6.xlarge&region=us-east-1&purchase=spot")
        assert (amount(live), live["native_price"]["source"]) == ("0.1234", "DescribeSpotPriceHistory")


def test_prices_are_read_from_the_file_host_whatever_region_the_environment_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B008, B136, B137: no region, or eu-west-1, in the environment; the files need no signature."""
    says = AwsSays({"eu-west-1": [csv_row(G4DN, "0.587", "eu-west-1", GPU="1")]})
    assert PUBLIC == "https://pricing.us-east-1.amazonaws.com"
    with aws(says, "eu-west-1") as provider, gpufare(tmp_path, provider) as app:
        for set_to in (None, "eu-west-1"):
            monkeypatch.delenv("AWS_REGION", raising=False)
            monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
            if set_to:
                monkeypatch.setenv("AWS_DEFAULT_REGION", set_to)
            assert app.statuses("prices") == {"aws prices eu-west-1": "ok"}
        assert app.native() == {("eu-west-1", G4DN, "on_demand"): "0.587"}
        assert set(says.files) == {"/offers/v1.0/aws/AmazonEC2/current/eu-west-1/index.csv"}
        assert says.server is not None
        assert says.server.calls == []


def test_a_region_without_prices_is_a_cell_that_says_why_and_no_row_at_zero(tmp_path: Path) -> None:
    """B008."""
    says = AwsSays({"eu-west-1": Response("<html>", 503)})
    with aws(says, "eu-west-1") as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("prices") == {"aws prices eu-west-1": "failed"}
        assert "HTTP 503" in app.past("aws", "prices", "eu-west-1")["error"]
        assert app.offers() == []


def test_the_global_list_prices_no_region_of_china(tmp_path: Path) -> None:
    """B090: the row at USD 0 is a note; and cn-* is no cell unless the settings name it."""
    strange = csv_row(G4DN, "0.0000000000", "cn-northwest-1", GPU="1")
    says = AwsSays({"us-east-1": [strange, csv_row(G4DN, "0.526", GPU="1")]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices")
        assert app.native() == {("us-east-1", G4DN, "on_demand"): "0.526"}
        assert app.feed("aws", "prices")["notes"]["another_product"] == 1
        prices = provider.feeds()["prices"]
        assert list(prices.cells(["us-east-1", "cn-north-1"])) == [Cell("aws", "prices", "us-east-1")]


def test_a_partition_without_a_price_list_is_off_and_borrows_no_other_ones_prices(tmp_path: Path) -> None:
    """B138, by AWS China: its list is asked for under its own path; there is none."""
    says = AwsSays({"us-east-1": [csv_row(G4DN, "0.526", GPU="1")]})
    with aws(says, "us-east-1", "cn-north-1") as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("prices") == {"aws prices us-east-1": "ok", "aws prices cn-north-1": "off"}
        assert "/offers/v1.0/cn/AmazonEC2/current/cn-north-1/index.csv" in says.files
        assert set(app.native()) == {("us-east-1", G4DN, "on_demand")}
        assert "no price list of region cn-north-1" in app.past("aws", "prices", "cn-north-1")["error"]


def test_a_price_list_out_of_reach_for_a_month_shows_its_age_everywhere(tmp_path: Path) -> None:
    """B068."""
    says = AwsSays({"us-east-1": [csv_row(G4DN, "1.00", GPU="1")]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices")
        seen = app.offer()["native_price"]["observed_at"]
        says.prices["us-east-1"] = Response("", 503)
        app.later(days=30)
        assert app.statuses("prices") == {"aws prices us-east-1": "failed"}
        answer = app.cheapest("gpu=t4")
        best = answer["best"]
        assert (best["native_price"]["observed_at"], best["native_price"]["stale"]) == (seen, True)
        assert (best["stock"]["confirmed"], answer["verdict"]) == (False, "unconfirmed")
        source = source_of(answer, "aws", "prices")
        assert (source["status"], source["last_success"], source["age_s"] // 86400) == ("stale", seen, 30)
        assert app.feed("aws", "prices")["age_s"] // 86400 == 30
        assert app.metric("gpufare_feed_age_seconds", provider="aws", feed="prices") // 86400 == 30
        assert app.get("/readyz")["status"] == "ready"
