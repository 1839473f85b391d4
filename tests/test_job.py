"""What a job costs: the hours that are billed for, what is sent out, in one currency, exactly; or not known."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from catalog.facts import Window
from catalog.offers import Offer
from catalog.spec import Job
from selector.job import JobCosts
from tests.support.offers import NOW, RATES, Here, best_of, offer


def in_aws(**given: Any) -> Offer:
    return offer("aws", "us-east-1", country="US", **given)


def cost(each: Offer, hours: str, egress_gb: str = "0", currency: str = "USD") -> Decimal | None:
    nanos = JobCosts(Job(Fraction(hours), Fraction(egress_gb)), currency, RATES).nanos(each)
    return None if nanos is None else Decimal(nanos) / 10**9


def test_hours_are_billed_in_the_providers_own_steps() -> None:
    assert cost(in_aws(price="3.6"), "10") == 36
    assert cost(in_aws(price="3.6"), "1/200") == Decimal("0.06"), "18 s: a minute at least, then by the second"
    assert cost(in_aws(price="3.6"), "1/48") == Decimal("0.075"), "75 s"


def test_what_is_sent_out_is_added_tier_by_tier() -> None:
    assert cost(in_aws(price="1"), "1", "100") == 1, "100 GB a month are free"
    assert cost(in_aws(price="1"), "1", "300") == 1 + 200 * Decimal("0.09")


def test_two_currencies_are_one_in_the_end() -> None:
    assert cost(in_aws(price="7.1", currency="CNY"), "2", "300") == Decimal("14.2") * Decimal("0.14084507") + 18


@pytest.mark.parametrize("purchase", ["month", "reserved_1y"])
def test_a_term_is_paid_whole_however_short_the_job(purchase: str) -> None:
    months = {"month": 1, "reserved_1y": 12}[purchase]
    assert cost(in_aws(price="2", purchase=purchase), "5") == 2 * 730 * months
    assert cost(in_aws(price="2", purchase=purchase), str(730 * months + 1)) == 2 * 730 * months * 2


def windowed(days: int) -> Offer:
    each, starts = in_aws(price="4", purchase="capacity_block"), NOW + timedelta(days=1)
    assert each.price is not None
    window = Window(starts_at=starts, ends_at=starts + timedelta(days=days))
    return replace(each, price=replace(each.price, window=window))


def test_a_window_is_paid_whole_and_holds_no_longer_job() -> None:
    assert cost(windowed(2), "5") == 4 * 48
    assert cost(windowed(2), "48") == 4 * 48
    assert cost(windowed(2), "48.0001") is None


@pytest.mark.parametrize(
    ("each", "egress_gb"),
    [
        (in_aws(price=None), "0"),
        (in_aws(currency="ISK"), "0"),
        (offer("vast", "US", country="US"), "0"),
        (offer("aws", "xx-nowhere-1"), "1"),
    ],
    ids=["no price", "no rate", "billing not known", "egress not known"],
)
def test_what_is_not_known_makes_no_cost(each: Offer, egress_gb: str) -> None:
    assert cost(each, "3", egress_gb) is None


def test_sorted_by_what_the_job_costs_and_the_unknown_last() -> None:
    cheap_hour = in_aws(price="1", purchase="month", instance_type="MONTH")
    dear_hour = in_aws(price="3", instance_type="HOUR")
    unknown = offer("vast", "US", country="US", price="0.1", instance_type="UNKNOWN")
    here = Here(offers=[cheap_hour, dear_hour, unknown])
    asked = {"gpu": "a100-80g", "purchase": "on_demand,month", "sort": "job_cost"}
    short, long = here.cheapest(**asked, hours="10"), here.cheapest(**asked, hours="700")
    names = [[m.offer.machine.instance_type for m in (r.best, *r.alternatives) if m] for r in (short, long)]
    assert names == [["HOUR", "MONTH", "UNKNOWN"], ["MONTH", "HOUR", "UNKNOWN"]]


def test_what_is_sent_out_can_turn_the_order() -> None:
    machine_cheap = in_aws(price="1.00")
    egress_free = offer("runpod", "US", country="US", price="1.50", instance_type="FREE")
    here = Here(offers=[machine_cheap, egress_free])
    asked = {"gpu": "a100-80g", "sort": "job_cost", "hours": "10"}
    assert best_of(here.cheapest(**asked)) == machine_cheap
    assert best_of(here.cheapest(**asked, egress_gb="500")) == egress_free


def test_a_window_that_is_shorter_than_the_job_is_no_answer_to_it() -> None:
    short, long = windowed(1), replace(windowed(2), machine=replace(windowed(2).machine, instance_type="LONG"))
    asked = {"gpu": "a100-80g", "purchase": "capacity_block"}
    assert best_of(Here(offers=[short]).cheapest(**asked, hours="24")) == short
    both = Here(offers=[short, long]).cheapest(**asked, hours="25", explain="true")
    assert (best_of(both), both.alternatives) == (long, ())
    assert both.rejected == {"window_too_short": 1}
    alone = Here(offers=[short]).cheapest(**asked, hours="25", sort="job_cost")
    assert alone.verdict == "not_offered_here"
    assert [str(reason) for reason in alone.nearest_misses[0].reasons] == ["window 24 h < 25 h"]
    assert alone.fix is not None
    assert (str(alone.fix.change), alone.fix.match.offer) == ("with hours=24", short)
    assert Here(offers=[short]).listed(gpu="a100-80g", hours="25")[1] == 0


def test_what_would_cost_less_for_the_job_is_named_where_the_price_is_compared() -> None:
    month, hour = in_aws(price="1", purchase="month", instance_type="MONTH"), in_aws(price="3", instance_type="HOUR")
    here, asked = Here(offers=[month, hour]), {"gpu": "a100-80g", "purchase": "on_demand,month", "hours": "10"}
    assert best_of(here.cheapest(**asked)) == month
    assert here.said(**asked) == (
        "1 x NVIDIA A100 80GB SXM4, MONTH at aws us-east-1: 1 USD per hour, month, 730 USD the job, in stock (reported "
        "40 s ago); with sort=job_cost there is 1 x NVIDIA A100 80GB SXM4, HOUR at aws us-east-1, 3 USD per hour, "
        "on-demand, 30 USD the job."
    )
    for same in ({"hours": "730"}, {"hours": "10", "sort": "job_cost"}, {"hours": "10", "purchase": "month"}):
        assert "there is" not in here.said(**asked | same)


def test_the_answer_of_a_changed_job_costs_what_that_job_does() -> None:
    here = Here(offers=[windowed(1)])
    asked = {"gpu": "a100-80g", "purchase": "capacity_block", "hours": "49", "sort": "job_cost"}
    shown = here.shown(**asked).fix
    assert shown is not None
    assert (shown.parameter, shown.value, shown.offer.job_cost) == ("hours", "24", "96")
