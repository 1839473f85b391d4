"""Field cases of AWS's scores and blocks, end to end: what is refused is no word on stock, what is booked is gone."""

from datetime import timedelta
from pathlib import Path

import pytest

from collectors.aws_scores import pools
from store import schedule
from tests.support.ec2 import Answer, Call, refusal
from tests.support.endtoend import amount, gpufare
from tests.support.wires import AwsSays, aws, csv_row, ec2_type, spot_row

pytestmark = pytest.mark.both_databases

BLOCKS = ["capacity-block", "on-demand", "spot"]


def budget_used_up(call: Call) -> Answer | None:
    return refusal("MaxConfigLimitExceeded", 400) if call.action == "GetSpotPlacementScores" else None


def test_a_budget_of_scores_that_is_used_up_costs_prices_and_stock_nothing(tmp_path: Path) -> None:
    """B095: it is told as refused, the score is unknown, and nobody asks again for a day."""
    says = AwsSays(
        prices={"us-east-1": [csv_row("g5.xlarge", "1.006")]},
        types={"us-east-1": [ec2_type("g5.xlarge", "A10G")]},
        spot={"us-east-1": [spot_row("g5.xlarge", "us-east-1a", "0.44")]},
        ec2=budget_used_up,
    )
    with aws(says, "us-east-1", scores=True) as provider, gpufare(tmp_path, provider) as app:
        statuses = app.statuses()
        assert {statuses[f"aws {feed} us-east-1"] for feed in ("machines", "prices", "spot", "stock")} == {"ok"}
        assert {statuses[f"aws scores {pool}"] for pool in pools()} == {"off"}
        assert "MaxConfigLimitExceeded: refused" in app.feed("aws", "scores")["reason"]
        found = {(one["purchase"], one["zone"]): (amount(one), one["stock"]["score"]) for one in app.offers()}
        assert found["spot", "us-east-1a"] == ("0.44", None)
        assert found["on_demand", "us-east-1a"] == ("1.006", None)
        app.later(hours=23)
        due = schedule.claim(app.engine, app.clock(), timedelta(minutes=10), 99)
        assert "scores" not in {lease.feed for lease in due if lease.part in pools()}


def test_a_block_is_an_answer_for_its_own_purchase_alone(tmp_path: Path) -> None:
    """B002, T2: neither the list's 0 for a block nor a block's own price is one of the machine on demand."""
    block = {
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": "us-east-1b",
        "InstanceCount": 1,
        "StartDate": "2026-12-02T11:30:00Z",
        "EndDate": "2026-12-03T11:30:00Z",
        "CapacityBlockDurationHours": 24,
        "UpfrontFee": "755.1360",
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }
    says = AwsSays(
        prices={
            "us-east-1": [
                csv_row("p5.48xlarge", "55.04"),
                csv_row("p5.48xlarge", "0.0000000000", MarketOption="CapacityBlock", operation="RunInstances:CB"),
            ]
        },
        types={"us-east-1": [ec2_type("p5.48xlarge", "H100", 8, 81920, SupportedUsageClasses=BLOCKS)]},
        blocks={"us-east-1": [block]},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync()
        question = "gpu=h100&count=8"
        assert app.best(f"{question}&purchase=capacity_block") == ("us-east-1b", "p5.48xlarge", "31.464")
        assert app.best(question) == ("us-east-1a", "p5.48xlarge", "55.04")
        zones = {one["zone"]: one["stock"]["level"] for one in app.offers(f"{question}&purchase=capacity_block")}
        assert zones == {"us-east-1a": "unknown", "us-east-1b": "in_stock"}, "no block was ever seen in the other"
        on_demand = {one["stock"]["level"] for one in app.offers(f"{question}&purchase=on_demand")}
        assert on_demand == {"unknown"}
        says.blocks = {}
        app.later(hours=1)
        app.sync("stock")
        booked = app.cheapest(f"{question}&purchase=capacity_block")
        assert (booked["verdict"], booked["best"]) == ("out_of_stock", None)
        assert app.cheapest(question)["best"]["purchase"] == "on_demand"


def test_the_advisors_class_is_shown_with_a_spot_price_and_confirms_nothing(tmp_path: Path) -> None:
    """And offers no spot machine in a zone that has no spot price."""
    says = AwsSays(
        types={"us-east-1": [ec2_type("g5.xlarge", "A10G")]},
        spot={"us-east-1": [spot_row("g5.xlarge", "us-east-1a", "0.44")]},
        prices={"us-east-1": [csv_row("g5.xlarge", "1.006")]},
        advice={"us-east-1": {"g5.xlarge": {"s": 56, "r": 0}}},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync()
        (spot,) = app.offers("purchase=spot")
        assert (spot["zone"], amount(spot)) == ("us-east-1a", "0.44")
        stock = spot["stock"]
        assert (stock["evidence"], stock["score"], stock["level"]) == ("scored", "interruption <5%", "unknown")
        answer = app.cheapest("gpu=a10g&spot=true")
        assert (answer["verdict"], answer["best"]["stock"]["confirmed"]) == ("unconfirmed", False)
        assert {one["stock"]["evidence"] for one in app.offers("purchase=on_demand")} == {"listed"}
