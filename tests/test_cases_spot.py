"""Field cases of AWS's spot prices, end to end: EC2 by its own protocol, with its pages and its errors."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from scheduler.plan import Configured
from tests.support.ec2 import Answer, Call, refusal
from tests.support.endtoend import amount, gpufare
from tests.support.wires import AwsSays, aws, csv_row, ec2_type, spot_row

G4DN = "g4dn.xlarge"
V100 = "p3.16xlarge"


def paged(pages: Mapping[str, Answer]) -> Callable[[Call], Answer | None]:
    """Spot prices by the token that the request carries."""
    return lambda call: (
        pages[call.parameters.get("NextToken", "")] if call.action == "DescribeSpotPriceHistory" else None
    )


def spot_prices(*rows: object, token: str | None = None) -> Answer:
    return {"SpotPriceHistory": list(rows)} | ({} if token is None else {"NextToken": token})


def test_a_page_that_fails_once_costs_no_zone_its_price(tmp_path: Path) -> None:
    """B005: the second page answers 500 once."""
    failures = [refusal("InternalError", 500)]

    def answer(call: Call) -> Answer | None:
        if call.action != "DescribeSpotPriceHistory":
            return None
        if "NextToken" not in call.parameters:
            return spot_prices(spot_row(G4DN, "us-east-1a", "0.006900"), token="t2")
        return failures.pop() if failures else spot_prices(spot_row(G4DN, "us-east-1b", "0.006900"), token="")

    says = AwsSays(types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]}, ec2=answer)
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        assert set(app.statuses("machines", "spot").values()) == {"ok"}
        assert failures == []
        assert app.native("purchase=spot") == {
            ("us-east-1a", G4DN, "spot"): "0.0069",
            ("us-east-1b", G4DN, "spot"): "0.0069",
        }
        assert "out" not in app.levels().values()


def test_a_windows_spot_price_is_compared_with_nothing(tmp_path: Path) -> None:
    """B023: 0.075 against 0.20 on demand is 62.5 % off; 0.2821 is in no row."""
    says = AwsSays(
        {
            "us-east-1": [
                csv_row(G4DN, "0.20", GPU="1"),
                csv_row(G4DN, "0.38", Operating_System="Windows", operation="RunInstances:0002"),
            ]
        },
        {"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]},
        ec2=paged(
            {
                "": spot_prices(
                    spot_row(G4DN, "us-east-1a", "0.2821", ProductDescription="Windows"),
                    spot_row(G4DN, "us-east-1a", "0.0750"),
                )
            }
        ),
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices", "spot")
        spot = app.offer("purchase=spot")
        on_demand = app.offer("zone=us-east-1a&purchase=on_demand")
        assert (amount(spot), amount(on_demand)) == ("0.075", "0.2")
        assert 1 - float(spot["price_per_hour"]) / float(on_demand["price_per_hour"]) == pytest.approx(0.625)
        assert "0.2821" not in {amount(one) for one in app.offers()}
        assert app.feed("aws", "spot")["notes"] == {"other_system": 1}


def test_a_linux_spot_price_is_found_under_either_description(tmp_path: Path) -> None:
    """B024: the server filters by the descriptions that are asked for."""
    vpc = spot_row(G4DN, "us-east-1a", "0.2100", ProductDescription="Linux/UNIX (Amazon VPC)")
    says = AwsSays(types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]}, spot={"us-east-1": [vpc]})
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "spot")
        assert app.native("purchase=spot") == {("us-east-1a", G4DN, "spot"): "0.21"}
        assert says.server is not None
        (call,) = [one for one in says.server.calls if one.action == "DescribeSpotPriceHistory"]
        assert call.values("ProductDescription") == ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]


def test_a_type_without_spot_prices_keeps_its_price_on_demand(tmp_path: Path) -> None:
    """B033, by AWS: 64.0 on demand, no spot price there; the other type is as it was."""
    says = AwsSays(
        {"us-east-1": [csv_row(V100, "64.0", GPU="8"), csv_row(G4DN, "0.526", GPU="1")]},
        spot={"us-east-1": [spot_row(G4DN, "us-east-1a", "0.2")]},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("prices", "spot")
        assert app.native(f"instance_type={V100}") == {("us-east-1", V100, "on_demand"): "64"}
        assert app.native(f"instance_type={G4DN}&purchase=spot") == {("us-east-1a", G4DN, "spot"): "0.2"}


def test_spot_pages_are_followed_to_an_empty_token_and_no_further(tmp_path: Path) -> None:
    """B053: an empty first page is not the end; no request carries an empty token."""
    pages = {
        "": spot_prices(token="t1"),
        "t1": spot_prices(spot_row(G4DN, "us-east-1a", "0.11"), token="t2"),
        "t2": spot_prices(spot_row(G4DN, "us-east-1b", "0.12"), token=""),
    }
    says = AwsSays(types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]}, ec2=paged(pages))
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines")
        app.sync("spot")
        assert app.native("purchase=spot") == {
            ("us-east-1a", G4DN, "spot"): "0.11",
            ("us-east-1b", G4DN, "spot"): "0.12",
        }
        assert says.server is not None
        tokens = [
            one.parameters.get("NextToken") for one in says.server.calls if one.action == "DescribeSpotPriceHistory"
        ]
        assert tokens == [None, "t1", "t2"]


def test_a_listing_of_fourteen_pages_is_read_to_its_last_row(tmp_path: Path) -> None:
    """B055, by AWS: 13 pages of 1000 and one of 7, the wanted machine on the last."""

    def answer(call: Call) -> Answer | None:
        if call.action != "DescribeSpotPriceHistory":
            return None
        page = int(call.parameters.get("NextToken", "0"))
        if page == 13:
            last = [spot_row(f"g8.last{number}", "us-east-1a", "0.3") for number in range(6)]
            return spot_prices(*last, spot_row(G4DN, "us-east-1a", "0.15"))
        rows = (spot_row(f"g8.t{page}n{number}", "us-east-1a", "0.3") for number in range(1000))
        return spot_prices(*rows, token=str(page + 1))

    says = AwsSays(types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]}, ec2=answer)
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines")
        (row,) = app.sync("spot")
        assert (row.result.status, row.result.facts + row.result.notes) == ("ok", 13007)
        assert app.native("purchase=spot&gpu=t4") == {("us-east-1a", G4DN, "spot"): "0.15"}
        assert says.server is not None
        assert says.server.actions().count("DescribeSpotPriceHistory us-east-1") == 14


def test_the_latest_price_of_each_zone_counts_however_old_its_change(tmp_path: Path) -> None:
    """B056: 7.34 since eleven days, 7.90 before that."""
    says = AwsSays(
        types={"us-west-2": [ec2_type(V100, "V100", 8, 16384)]},
        zones={"us-west-2": ["us-west-2a", "us-west-2b"]},
        spot={
            "us-west-2": [
                spot_row(V100, "us-west-2a", "9.50", "2026-11-30T10:00:00Z"),
                spot_row(V100, "us-west-2b", "7.34", "2026-11-19T02:00:00Z"),
                spot_row(V100, "us-west-2b", "7.90", "2026-09-30T02:00:00Z"),
            ]
        },
    )
    with aws(says, "us-west-2") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "spot")
        assert app.best("gpu=v100&count=8&spot=true") == ("us-west-2b", V100, "7.34")
        assert "7.9" not in app.native().values()
        assert app.feed("aws", "spot")["notes"] == {"superseded_spot_price": 1}


def test_half_a_listing_leaves_all_rows_as_they_were(tmp_path: Path) -> None:
    """B065, by AWS: the second page answers 503 each time; both old prices stand, with their old time."""
    before = [spot_row(G4DN, "us-east-1a", "0.50"), spot_row(V100, "us-east-1a", "27.197")]
    says = AwsSays(
        types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384), ec2_type(V100, "V100", 8, 16384)]},
        spot={"us-east-1": before},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "spot")
        seen = {one["native_price"]["observed_at"] for one in app.offers("purchase=spot")}
        app.later(minutes=10)
        says.ec2 = paged(
            {"": spot_prices(spot_row(G4DN, "us-east-1a", "0.526"), token="p2"), "p2": refusal("Unavailable", 503)}
        )
        assert app.statuses("spot") == {"aws spot us-east-1": "failed"}
        assert app.native("purchase=spot") == {
            ("us-east-1a", G4DN, "spot"): "0.5",
            ("us-east-1a", V100, "spot"): "27.197",
        }
        assert {one["native_price"]["observed_at"] for one in app.offers("purchase=spot")} == seen


def test_a_zone_without_a_spot_price_has_an_offer_on_demand_alone(tmp_path: Path) -> None:
    """B080: 1b has a spot price, 1a none."""
    with a_zone_without_spot() as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices", "spot")
        assert set(app.native()) == {
            ("us-east-1a", G4DN, "on_demand"),
            ("us-east-1b", G4DN, "on_demand"),
            ("us-east-1b", G4DN, "spot"),
        }
        assert app.native("purchase=spot") == {("us-east-1b", G4DN, "spot"): "2.1"}
        assert app.cheapest("gpu=t4&spot=true&zone=us-east-1a")["best"] is None


def test_a_zone_without_a_spot_price_is_said_to_have_no_spot_market(tmp_path: Path) -> None:
    """T14."""
    with a_zone_without_spot() as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices", "spot")
        misses = app.cheapest("gpu=t4&spot=true&zone=us-east-1a")["nearest_misses"]
        reasons = {
            miss["offer"]["zone"]: miss["reasons"] for miss in misses if miss["offer"]["purchase"] == "on_demand"
        }
        assert reasons["us-east-1a"] == ["no spot market"]


def a_zone_without_spot() -> AbstractContextManager[Configured]:
    """A machine that is sold as spot, with a spot price in 1b alone."""
    says = AwsSays(
        {"us-east-1": [csv_row(G4DN, "3.00", GPU="1")]},
        {"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]},
        spot={"us-east-1": [spot_row(G4DN, "us-east-1b", "2.10")]},
    )
    return aws(says, "us-east-1")


def test_the_cheapest_spot_price_is_the_one_of_the_zone_asked_for(tmp_path: Path) -> None:
    """B081: 0.40 is in another zone; and a spot price is not stock."""
    says = AwsSays(
        types={"us-east-1": [ec2_type(G4DN, "T4", 1, 16384), ec2_type("g4dn.8xlarge", "T4", 1, 16384)]},
        zones={"us-east-1": ["us-east-1c", "us-east-1d"]},
        spot={"us-east-1": [spot_row(G4DN, "us-east-1c", "0.40"), spot_row("g4dn.8xlarge", "us-east-1d", "0.70")]},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "spot")
        answer = app.cheapest("gpu=t4&spot=true&zone=us-east-1d")
        assert (answer["best"]["instance_type"], answer["best"]["price_per_hour"]) == ("g4dn.8xlarge", "0.7")
        assert (answer["verdict"], answer["best"]["stock"]["confirmed"]) == ("unconfirmed", False)


def test_an_empty_spot_feed_leaves_the_last_price_and_its_age(tmp_path: Path) -> None:
    """B101: 0.38 of two hours ago, never the 1.00 on demand."""
    says = AwsSays(
        {"us-east-1": [csv_row(G4DN, "1.00", GPU="1")]},
        {"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]},
        spot={"us-east-1": [spot_row(G4DN, "us-east-1a", "0.38")]},
    )
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices", "spot")
        seen = app.offer("purchase=spot")["native_price"]["observed_at"]
        app.later(hours=2)
        says.spot = {}
        app.sync("spot")
        price = app.offer("purchase=spot")["native_price"]
        assert (price["amount"], price["observed_at"], price["stale"]) == ("0.38", seen, True)
        assert price["age_s"] // 3600 == 2


def test_a_zone_whose_spot_price_nobody_states_is_listed_without_one(tmp_path: Path) -> None:
    """B103: EC2 says that spot is sold; no price is known anywhere."""
    says = AwsSays({"us-east-1": [csv_row(G4DN, "0.526")]}, {"us-east-1": [ec2_type(G4DN, "T4", 1, 16384)]})
    says.zones = {"us-east-1": ["us-east-1a"]}
    with aws(says, "us-east-1") as provider, gpufare(tmp_path, provider) as app:
        app.sync("machines", "prices", "spot")
        listed = app.offer("zone=us-east-1a&purchase=spot")
        assert (listed["native_price"], listed["stock"]["level"]) == (None, "unknown")
        answer = app.cheapest("gpu=t4&spot=true&zone=us-east-1a")
        assert (answer["best"], answer["rejected"]["no_price"]) == (None, 1)
        assert "no spot price" in [reason for miss in answer["nearest_misses"] for reason in miss["reasons"]]
