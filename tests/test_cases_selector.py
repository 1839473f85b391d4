"""Field cases of the answer itself, end to end: what is chosen, in which order, why not another, what is refused."""

import itertools
import random
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from catalog.facts import Fact
from catalog.fx import Rates, ecb_rates
from catalog.words import Hosting, Level, Purchase
from collectors.base import Unavailable
from settings import load
from tests.support.endtoend import amount, gpufare, source_of, told
from tests.support.feeds import ScriptedFeed, always, configured, fails, in_turn, says
from tests.support.filled import machine, price, sold, stock
from tests.support.wires import AwsSays, aws, csv_row

SPOT = frozenset({Purchase.SPOT})


def places(answer: Any) -> list[str]:
    """The regions of the best and the next ones, in their order."""
    return [one["region"] for one in (answer["best"], *answer["alternatives"])]


def test_spot_that_nobody_sells_is_never_served_on_demand(tmp_path: Path) -> None:
    """B104."""
    with told(tmp_path, *sold("r1", "m", "3.00")) as app:
        answer = app.cheapest("gpu=h100&spot=true")
        assert (answer["best"], answer["unconfirmed"]) == (None, None)
        assert answer["nearest_misses"][0]["reasons"] == ["no spot market"]
        assert app.cheapest("gpu=h100&purchase=spot,on_demand")["best"]["purchase"] == "on_demand"


def test_the_next_offers_are_what_to_try_when_the_first_launch_fails(tmp_path: Path) -> None:
    """B126."""
    facts = [*sold("r1", "o1", "0.17"), *sold("r1", "o2", "0.19"), *sold("r2", "o3", "0.21")]
    with told(tmp_path, *facts) as app:
        answer = app.cheapest("gpu=h100&limit=3")
        assert answer["best"]["instance_type"] == "o1"
        assert [one["instance_type"] for one in answer["alternatives"]] == ["o2", "o3"]
        assert answer["fallback_used"] is False
        assert {one["tier"] for one in (answer["best"], *answer["alternatives"])} == {0}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_equal_prices_are_ordered_by_level_and_then_by_name(tmp_path: Path, order: tuple[int, ...]) -> None:
    """B127: 1.00, 1.0 and 1.000 are equal, and r2 is low."""
    rows = [sold("r2", "m", "1.00", Level.LOW), sold("r1", "m", "1.0"), sold("r3", "m", "1.000")]
    with told(tmp_path, *(fact for number in order for fact in rows[number])) as app:
        assert places(app.cheapest("gpu=h100")) == ["r1", "r3", "r2"]


def test_a_regions_price_serves_the_zone_that_has_stock(tmp_path: Path) -> None:
    """B128."""
    levels = {"a": Level.OUT, "b": Level.OUT, "c": Level.IN_STOCK}
    stocks = [stock("r1", "m", level, zone=zone) for zone, level in levels.items()]
    with told(tmp_path, machine("r1", "m"), price("r1", "m", "1.00"), *stocks) as app:
        assert app.best("gpu=h100") == ("c", "m", "1")


def test_an_excluded_region_is_no_answer_and_said_to_be_excluded(tmp_path: Path) -> None:
    """B129."""
    with told(tmp_path, *sold("r1", "m", "0.5"), *sold("r2", "m", "0.6")) as app:
        assert app.best("gpu=h100&region=!r1") == ("r2", "m", "0.6")
        answer = app.cheapest("gpu=h100&region=!r1,!r2")
        assert (answer["best"], answer["rejected"]) == (None, {"excluded_place": 2})
        assert answer["verdict"] == "not_offered_here"


def test_prices_are_each_regions_own(tmp_path: Path) -> None:
    """B130."""
    facts = [
        fact
        for region, name, usd in (
            ("r1", "famA", "1.00"),
            ("r1", "famB", "0.90"),
            ("r2", "famA", "0.80"),
            ("r2", "famB", "0.95"),
        )
        for fact in sold(region, name, usd)
    ]
    with told(tmp_path, *facts) as app:
        assert app.best("gpu=h100&region=r1") == ("r1", "famB", "0.9")
        assert app.best("gpu=h100&region=r2") == ("r2", "famA", "0.8")


def test_a_machine_without_gpus_is_no_answer_where_one_is_asked_for(tmp_path: Path) -> None:
    """B131."""
    cpu = sold("r1", "cpu", "0.03", gpu=None, gpu_count=Fraction(0))
    with told(tmp_path, *cpu, *sold("r1", "t4", "0.19", gpu="t4")) as app:
        assert app.best("gpu=t4") == ("r1", "t4", "0.19")
        assert app.best("gpu=t4&count=0..") == ("r1", "t4", "0.19")
        assert [one["instance_type"] for one in app.offers("gpu=t4&count=0..")] == ["t4"]


def test_the_cheapest_with_enough_memory_may_be_the_bigger_card(tmp_path: Path) -> None:
    """B132."""
    shared: Any = {"hosting": Hosting.COMMUNITY}
    facts = [
        *sold("r1", "small", "0.08", gpu="k80", **shared),
        *sold("r1", "middle", "0.35", gpu="rtx4090", **shared),
        *sold("r1", "big", "0.32", gpu="a100-sxm4-80g", **shared),
    ]
    with told(tmp_path, *facts) as app:
        assert app.best("min_vram=16&hosting=any") == ("r1", "big", "0.32")


def test_price_decides_among_machines_with_enough_vcpus_per_gpu(tmp_path: Path) -> None:
    """B134: fitting them better does not."""
    rows = (("a", 2, 8, "2.0"), ("b", 2, 6, "1.8"), ("c", 2, 32, "1.9"), ("d", 4, 16, "1.95"))
    facts = [
        fact
        for name, count, vcpus, usd in rows
        for fact in sold("r1", name, usd, gpu="t4", gpu_count=Fraction(count), vcpus=vcpus)
    ]
    with told(tmp_path, *facts) as app:
        query = "gpu=t4&min_vcpus_per_gpu=4"
        two = app.cheapest(f"{query}&count=2&explain=true")
        assert (two["best"]["instance_type"], two["best"]["price_per_hour"]) == ("c", "1.9")
        assert [(one["instance_type"], one["price_per_hour"]) for one in two["alternatives"]] == [("a", "2")]
        reasons = {miss["offer"]["instance_type"]: miss["reasons"] for miss in two["nearest_misses"]}
        assert reasons["b"] == ["vcpus_per_gpu 3 < 4"]
        more = app.cheapest(f"{query}&count=2..")
        found = [(one["instance_type"], one["price_per_hour"]) for one in (more["best"], *more["alternatives"])]
        assert found == [("c", "1.9"), ("d", "1.95"), ("a", "2")]
        problem = app.get(f"/cheapest?{query}&max_vcpus_per_gpu=8", 422)
        assert problem["parameter"] == "max_vcpus_per_gpu"


def test_a_stale_spot_price_does_not_beat_a_fresh_dearer_one(tmp_path: Path) -> None:
    """B070: the age is each purchase's own."""
    spot = price("r1", "m", "0.90", purchase=Purchase.SPOT)
    both = frozenset({Purchase.ON_DEMAND, Purchase.SPOT})
    stocks = [fact for region in ("r1", "r2") for fact in (machine(region, "m"), stock(region, "m", purchases=both))]
    fresh = [price("r1", "m", "3.67"), price("r2", "m", "1.20", purchase=Purchase.SPOT)]
    limit: Any = {"fresh_for": timedelta(hours=6)}
    feeds = [
        ScriptedFeed(name="spot", script=in_turn(says(spot), fails(Unavailable("down"))), **limit),
        ScriptedFeed(name="prices", script=always(says(*fresh)), **limit),
        ScriptedFeed(name="stock", script=always(says(*stocks)), **limit),
    ]
    with gpufare(tmp_path, configured(*feeds)) as app:
        app.sync()
        app.later(days=10)
        app.sync()
        on_demand = app.offer("region=r1&purchase=on_demand")["native_price"]
        old = app.offer("region=r1&purchase=spot")["native_price"]
        assert (on_demand["stale"], old["stale"], old["age_s"] // 86400) == (False, True, 10)
        answer = app.cheapest("gpu=h100&spot=true")
        assert (answer["verdict"], answer["best"]["region"], answer["best"]["price_per_hour"]) == (
            "confirmed",
            "r2",
            "1.2",
        )
        assert answer["unconfirmed"]["region"] == "r1"


def test_a_region_nobody_knows_is_refused_with_what_may_be_meant(tmp_path: Path) -> None:
    """B050: never an empty success; and nothing is polled under a name that AWS does not have."""
    wire = AwsSays({"us-east-1": [csv_row("p5.4xlarge", "6.88", GPU="1")]})
    spaced = load({"HOME": str(tmp_path), "GPUFARE_PROVIDERS__AWS__REGIONS": "us-east-1, us-west-2,"}, tmp_path)
    assert spaced.provider("aws").regions == ("us-east-1", "us-west-2")
    with aws(wire, "us-east-1", "us-east-99") as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("prices") == {"aws prices us-east-1": "ok", "aws prices us-east-99": "off"}
        assert "us-east-99" in app.past("aws", "prices", "us-east-99")["error"]
        problem = app.get("/cheapest?gpu=h100&region=us-east-99", 422)
        assert problem["parameter"] == "region"
        assert "us-east-1" in problem["did_you_mean"]


def test_one_provider_that_fails_leaves_the_others_answer_and_says_since_when(tmp_path: Path) -> None:
    """T1."""
    a = ScriptedFeed(provider="a", script=always(says(*sold("r1", "m", "2.00"))))
    b = ScriptedFeed(provider="b", script=in_turn(says(*sold("r1", "m", "9.00")), fails(Unavailable("HTTP 500"))))
    with gpufare(tmp_path, configured(a), configured(b)) as app:
        app.sync()
        good = app.feed("b", "stock")["last_success"]
        app.later(minutes=10)
        app.sync()
        answer = app.cheapest("gpu=h100")
        assert (answer["best"]["provider"], answer["best"]["price_per_hour"]) == ("a", "2")
        source = source_of(answer, "b", "stock")
        assert (source["status"], source["last_success"], source["error"]) == ("stale", good, "HTTP 500")


def test_a_model_is_told_from_its_family(tmp_path: Path) -> None:
    """T5."""
    facts = [*sold("r1", "small", "1.00", gpu="a100-sxm4-40g"), *sold("r1", "big", "2.00", gpu="a100-sxm4-80g")]
    with told(tmp_path, *facts) as app:
        assert app.best("gpu=a100-80g") == ("r1", "big", "2")
        family = app.cheapest("gpu=a100")["best"]
        assert (family["instance_type"], family["gpu"]) == ("small", "a100-sxm4-40g")


def test_a_name_that_nobody_has_is_refused_and_never_matched(tmp_path: Path) -> None:
    """T6."""
    with told(tmp_path, *sold("r1", "m", "1.00", gpu="a100-sxm4-80g")) as app:
        problem = app.get("/cheapest?gpu=A100-8", 422)
        assert (problem["parameter"], problem["did_you_mean"]) == ("gpu", ["a100-80g", "a100-40g"])


def test_yuan_are_kept_and_shown_in_dollars_by_a_dated_rate(tmp_path: Path) -> None:
    """T12: without a rate the offer is rejected for that reason."""
    rates = ecb_rates().with_override("CNY/USD", Decimal("0.14084507"), date(2026, 11, 28), "test")
    wire = AwsSays({"cn-northwest-1": [csv_row("g4dn.xlarge", "10.00", "cn-northwest-1", Currency="CNY", GPU="1")]})
    with aws(wire, "cn-northwest-1") as provider:
        with gpufare(tmp_path, provider, rates=rates) as app:
            app.sync("prices")
            answer = app.cheapest("gpu=t4")
            best = answer["best"]
            assert (amount(best), best["native_price"]["currency"]) == ("10", "CNY")
            assert (best["price_per_hour"], best["currency"]) == ("1.4085", "USD")
            dated = {"pair": "CNY/USD", "rate": "0.14084507", "date": "2026-11-28", "source": "test"}
            assert answer["fx"] == [dated]
        with gpufare(tmp_path, provider, rates=Rates([])) as app:
            answer = app.cheapest("gpu=t4")
            assert (answer["best"], answer["rejected"]) == (None, {"no_rate": 1})
            assert answer["nearest_misses"][0]["reasons"] == ["no CNY/USD rate"]


def test_spot_is_compared_with_spot(tmp_path: Path) -> None:
    """T15: P is cheaper on demand, Q as spot."""
    facts: list[Fact] = []
    for region, on_demand, spot in (("p", "2.95", "1.04"), ("q", "3.20", "0.81")):
        facts += sold(region, "m", on_demand)
        facts += [price(region, "m", spot, purchase=Purchase.SPOT), stock(region, "m", purchases=SPOT)]
    with told(tmp_path, *facts) as app:
        assert app.best("gpu=h100&spot=true") == ("q", "m", "0.81")
        assert app.best("gpu=h100") == ("p", "m", "2.95")


def test_the_same_question_has_the_same_answer_whatever_the_order_of_the_data(tmp_path: Path) -> None:
    """T16: 500 times, and nothing above the limit; equal is allowed."""
    rows = [sold(f"r{number % 7}", f"m{number}", f"0.0{400 + number % 12}") for number in range(60)]
    answers = []
    for seed in range(10):
        random.Random(seed).shuffle(rows)
        (tmp_path / str(seed)).mkdir()
        with told(tmp_path / str(seed), *(fact for row in rows for fact in row)) as app:
            for _ in range(50):
                answer = app.cheapest("gpu=h100&max_price=0.0408&limit=100")
                answers.append(
                    [(one["instance_type"], one["price_per_hour"]) for one in (answer["best"], *answer["alternatives"])]
                )
    assert len(answers) == 500
    assert all(one == answers[0] for one in answers)
    prices = [Decimal(usd) for _, usd in answers[0]]
    assert (max(prices), len(prices)) == (Decimal("0.0408"), 45)


def test_the_nearest_miss_names_all_its_reasons(tmp_path: Path) -> None:
    """T17."""
    with told(tmp_path, *sold("r1", "m", "1.00", Level.OUT, vcpus=6)) as app:
        answer = app.cheapest("gpu=h100&min_vcpus_per_gpu=12")
        assert answer["best"] is None
        (miss,) = answer["nearest_misses"]
        assert miss["reasons"] == ["vcpus_per_gpu 6 < 12", "out of stock"]


def test_two_accounts_names_of_zones_meet_in_their_ids(tmp_path: Path) -> None:
    """T11: X calls us-east-1a what Y calls us-east-1d; one id is one row."""

    def account(letter: str, zone: str, other: str) -> list[Fact]:
        at: Any = {"zone": zone, "zone_id": "use1-az6"}
        also: Any = {"zone": other, "zone_id": f"use1-az{letter}"}
        return [
            machine("us-east-1", "m"),
            price("us-east-1", "m", "0.50", **at),
            price("us-east-1", "m", "0.60", **also),
        ]

    feeds = [
        ScriptedFeed(name="spot", places=("x",), script=always(says(*account("1", "us-east-1a", "us-east-1b")))),
        ScriptedFeed(name="prices", places=("y",), script=always(says(*account("4", "us-east-1d", "us-east-1a")))),
    ]
    with gpufare(tmp_path, configured(*feeds)) as app:
        app.sync()
        named = {one["zone_id"]: one["zone"] for one in app.offers()}
        assert (len(app.offers()), set(named)) == (3, {"use1-az1", "use1-az4", "use1-az6"})
        assert (named["use1-az1"], named["use1-az4"]) == ("us-east-1b", "us-east-1a")
        assert app.best("gpu=h100") == ("us-east-1", "m", "0.5"), "az6 has two names, so it shows none"
