"""How long one pays for a machine: the provider's steps and minimums, terms paid whole, and what is not known."""

import csv
from datetime import UTC, date, datetime
from fractions import Fraction
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.billing import Billing, billing_of
from catalog.words import Purchase
from collectors.registry import PROVIDERS

TEXT = files("catalog").joinpath("billing.csv").read_text(encoding="utf-8")
ROWS = list(csv.DictReader(line for line in TEXT.splitlines() if not line.startswith("#")))
KEPT = (Purchase.ON_DEMAND, Purchase.SPOT)
"""What one keeps as long as one wants. Every other purchase has a length of its own."""
UNKNOWN = {("ucloud", Purchase.SPOT)}
"""Sold by a provider that is polled, and no source states how it is billed."""

SECOND = Fraction(1, 3600)
WHOLE_TERMS = {Purchase.MONTH: 730, Purchase.RESERVED_1Y: 8760, Purchase.RESERVED_3Y: 26280}


def billed(provider: str, hours: Fraction, purchase: Purchase = Purchase.ON_DEMAND) -> Fraction:
    billing = billing_of(provider, purchase)
    assert billing is not None
    return billing.billed_hours(hours)


@pytest.mark.parametrize(
    ("provider", "seconds", "expected"),
    [
        ("aws", "0", 60),
        ("aws", "1/10", 60),
        ("aws", "59", 60),
        ("aws", "60", 60),
        ("aws", "60.001", 61),
        ("aws", "61", 61),
        ("gcp", "59.5", 60),
        ("gcp", "3600.5", 3601),
        ("azure", "299", 300),
        ("azure", "300", 300),
        ("azure", "301", 301),
        ("alibaba", "1", 1),
        ("alibaba", "1.5", 2),
        ("tencent", "7200", 7200),
        ("runpod", "0.5", 1),
        ("ucloud", "1", 3600),
        ("ucloud", "3600", 3600),
        ("ucloud", "3601", 7200),
        ("ucloud", "36000", 36000),
    ],
)
def test_time_is_billed_in_the_providers_steps_and_its_minimum_at_least(
    provider: str, seconds: str, expected: int
) -> None:
    assert billed(provider, Fraction(seconds) * SECOND) == expected * SECOND


def test_a_third_of_an_hour_is_exact() -> None:
    assert billed("aws", Fraction(1, 3)) == Fraction(1, 3)
    assert billed("aws", Fraction(1, 7)) == 515 * SECOND, "514.28... s"


@pytest.mark.parametrize(("purchase", "whole"), WHOLE_TERMS.items())
@pytest.mark.parametrize("provider", ["aws", "ucloud"])
def test_a_term_is_paid_whole_at_every_provider(provider: str, purchase: Purchase, whole: int) -> None:
    assert billed(provider, Fraction(1, 2), purchase) == whole
    assert billed(provider, Fraction(whole), purchase) == whole
    assert billed(provider, whole + SECOND, purchase) == 2 * whole


def test_an_account_bills_as_its_provider_does() -> None:
    assert billing_of("tencent_intl", Purchase.SPOT) == billing_of("tencent", Purchase.SPOT) == Billing(1, 1)


@pytest.mark.parametrize(
    ("provider", "purchase"),
    [
        ("vast", Purchase.ON_DEMAND),
        ("vast", Purchase.MONTH),
        ("aws", Purchase.CAPACITY_BLOCK),
        ("aws", Purchase.SAVINGS_1Y),
        ("azure", Purchase.SAVINGS_3Y),
        ("ucloud", Purchase.SPOT),
    ],
)
def test_what_no_source_states_is_not_known(provider: str, purchase: Purchase) -> None:
    assert billing_of(provider, purchase) is None


@pytest.mark.parametrize("purchase", KEPT)
@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_every_polled_provider_is_known_or_listed_as_unknown(provider: str, purchase: Purchase) -> None:
    assert (billing_of(provider, purchase) is None) == ((provider, purchase) in UNKNOWN)


def test_every_row_is_of_a_polled_provider_and_stands_once() -> None:
    keys = [(row["provider"], row["purchase"]) for row in ROWS]
    assert len(set(keys)) == len(keys)
    assert {provider for provider, _ in keys} <= PROVIDERS.keys()
    assert {purchase for _, purchase in keys} <= {*KEPT, "*"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']} {row['purchase']}")
def test_every_row_states_whole_steps_a_source_and_a_day(row: dict[str, str]) -> None:
    assert int(row["increment_s"]) > 0
    assert int(row["minimum_s"]) % int(row["increment_s"]) == 0
    assert row["source"]
    assert date.fromisoformat(row["as_of"]) <= datetime.now(UTC).date()


HOURS = st.fractions(min_value=0, max_value=30_000)


@given(st.sampled_from(sorted(PROVIDERS)), st.sampled_from(sorted(WHOLE_TERMS | dict.fromkeys(KEPT))), HOURS, HOURS)
def test_no_fewer_hours_than_asked_and_never_fewer_for_more(
    provider: str, purchase: Purchase, one: Fraction, other: Fraction
) -> None:
    billing = billing_of(provider, purchase)
    if billing is None:
        assert (provider, purchase) in UNKNOWN
        return
    less, more = sorted((one, other))
    assert billing.billed_hours(less) <= billing.billed_hours(more)
    over = (billing.billed_hours(more) - more) * 3600
    assert 0 <= over < max(billing.increment_s, billing.minimum_s + 1)
