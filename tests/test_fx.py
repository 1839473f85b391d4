"""Exchange rates: exact conversion, rounded once; overrides in both directions; no rate, no conversion."""

from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.fx import Rate, Rates, ecb_rates
from catalog.money import money_text

NANO = 1_000_000_000
DAY = date(2024, 5, 1)
CURRENCIES = ("AUD", "CAD", "CNY", "EUR", "GBP", "HKD", "INR", "JPY", "KRW", "SGD", "USD")


def only(pair: str, rate: str) -> Rates:
    return Rates([]).with_override(pair, Decimal(rate), DAY, "test")


@pytest.mark.parametrize(("rate", "usd_nanos"), [("0.14", 980_000_000), ("0.15", 1_050_000_000)])
def test_seven_yuan_are_worth_what_the_rate_says(rate: str, usd_nanos: int) -> None:
    assert only("CNY/USD", rate).convert_nanos(7 * NANO, "CNY", "USD") == usd_nanos


def test_ten_yuan_at_7_10_are_shown_as_1_4085_dollars() -> None:
    nanos = only("CNY/USD", "0.14084507").convert_nanos(10 * NANO, "CNY", "USD")
    assert nanos == 1_408_450_700
    assert money_text(nanos, 4) == "1.4085"


def test_an_override_serves_both_directions() -> None:
    rates = only("CNY/USD", "0.125")
    assert rates.convert_nanos(NANO, "USD", "CNY") == 8 * NANO
    assert rates.rate("USD", "CNY") == Rate("USD", "CNY", Decimal(8), DAY, "test")


def test_an_override_replaces_the_bundled_rate_whichever_way_round_it_is_written() -> None:
    rates = ecb_rates().with_override("USD/EUR", Decimal("0.5"), DAY, "settings")
    assert rates.convert_nanos(NANO, "EUR", "USD") == 2 * NANO


def test_an_override_leaves_the_rates_it_came_from_alone() -> None:
    before = ecb_rates().convert_nanos(NANO, "CNY", "USD")
    ecb_rates().with_override("CNY/USD", Decimal("0.5"), DAY, "settings")
    assert ecb_rates().convert_nanos(NANO, "CNY", "USD") == before


@pytest.mark.parametrize(("source", "target"), [("VND", "USD"), ("USD", "VND"), ("VND", "CNY")])
def test_a_currency_without_a_rate_is_never_converted(source: str, target: str) -> None:
    assert ecb_rates().convert_nanos(7 * NANO, source, target) is None
    assert ecb_rates().rate(source, target) is None


def test_a_currency_is_worth_itself_even_without_any_rate() -> None:
    assert Rates([]).convert_nanos(8_680_000_001, "CNY", "CNY") == 8_680_000_001
    assert Rates([]).rate("CNY", "CNY") is None


def test_the_bundled_rates_are_those_of_the_ecb_on_its_last_day() -> None:
    assert ecb_rates().rate("EUR", "USD") == Rate("EUR", "USD", Decimal("1.1172"), date(2026, 10, 30), "ECB")
    assert ecb_rates().rate("EUR", "CNY") == Rate("EUR", "CNY", Decimal("7.4326"), date(2026, 10, 30), "ECB")


def test_a_cross_rate_goes_through_the_euro_and_shows_eight_digits() -> None:
    assert ecb_rates().rate("CNY", "USD") == Rate("CNY", "USD", Decimal("0.15031079"), date(2026, 10, 30), "ECB")


def test_a_conversion_uses_the_exact_cross_rate_and_not_the_shown_one() -> None:
    million = 1_000_000 * NANO
    exact = round(million * Fraction("1.1172") / Fraction("7.4326"))
    assert ecb_rates().convert_nanos(million, "CNY", "USD") == exact
    assert exact != round(million * Fraction("0.15031079"))


def test_a_cross_rate_of_two_sources_shows_both_and_the_older_date() -> None:
    rates = ecb_rates().with_override("CNY/EUR", Decimal("0.125"), DAY, "settings")
    assert rates.rate("CNY", "USD") == Rate("CNY", "USD", Decimal("0.13965"), DAY, "settings, ECB")


@pytest.mark.parametrize(("nanos", "rounded"), [(1, 0), (3, 2), (5, 2), (7, 4)])
def test_half_a_nano_is_rounded_to_even(nanos: int, rounded: int) -> None:
    assert only("AAA/BBB", "0.5").convert_nanos(nanos, "AAA", "BBB") == rounded


@pytest.mark.parametrize("currency", CURRENCIES)
def test_every_bundled_currency_converts_to_dollars(currency: str) -> None:
    nanos = ecb_rates().convert_nanos(1000 * NANO, currency, "USD")
    assert nanos is not None
    assert nanos > 0


@given(nanos=st.integers(1, 10**15), pair=st.sampled_from([("CNY", "USD"), ("JPY", "EUR"), ("KRW", "SGD")]))
def test_there_and_back_is_off_by_the_two_roundings_at_most(nanos: int, pair: tuple[str, str]) -> None:
    there = ecb_rates().convert_nanos(nanos, *pair)
    assert there is not None
    back = ecb_rates().convert_nanos(there, *reversed(pair))
    assert back is not None
    one = ecb_rates().convert_nanos(NANO, *reversed(pair))
    assert one is not None
    assert abs(back - nanos) <= Fraction(one, 2 * NANO) + 1


def test_an_override_holds_on_every_way_that_touches_its_pair() -> None:
    """10 CNY are 1 USD by hand, and so what 1 USD is in euros, which the override does not change."""
    rates = ecb_rates().with_override("CNY/USD", Decimal("0.1"), DAY, "settings")
    assert rates.convert_nanos(10 * NANO, "CNY", "EUR") == ecb_rates().convert_nanos(NANO, "USD", "EUR")
    assert rates.convert_nanos(10 * NANO, "CNY", "JPY") == ecb_rates().convert_nanos(NANO, "USD", "JPY")
    shown = rates.rate("CNY", "EUR")
    assert shown is not None
    assert (shown.rate, shown.date, shown.source) == (Decimal("0.089509488"), DAY, "settings, ECB")


@pytest.mark.parametrize(
    ("pair", "still"),
    [
        ("CNY/USD", "USD"),
        ("USD/CNY", "USD"),
        ("USD/EUR", "EUR"),
        ("EUR/CNY", "EUR"),
        ("CNY/EUR", "EUR"),
        ("GBP/JPY", "JPY"),
        ("JPY/GBP", "GBP"),
    ],
)
def test_an_override_moves_one_currency_and_leaves_every_other_where_it_was(pair: str, still: str) -> None:
    rates = ecb_rates().with_override(pair, Decimal("0.123"), DAY, "settings")
    moved = pair.replace(still, "").strip("/")
    for currency in {*CURRENCIES} - {moved, still}:
        assert rates.rate(currency, still) == ecb_rates().rate(currency, still)
        assert rates.rate(currency, moved) != ecb_rates().rate(currency, moved)


def test_a_currency_without_a_rate_gets_one_to_all_by_an_override() -> None:
    rates = ecb_rates().with_override("VND/USD", Decimal("0.00004"), DAY, "settings")
    assert rates.convert_nanos(25_000 * NANO, "VND", "CNY") == ecb_rates().convert_nanos(NANO, "USD", "CNY")


def test_two_overrides_both_hold_and_decide_what_lies_between_them() -> None:
    rates = ecb_rates().with_override("CNY/USD", Decimal("0.125"), DAY, "settings")
    rates = rates.with_override("CNY/EUR", Decimal("0.1"), DAY, "settings")
    assert rates.convert_nanos(8 * NANO, "CNY", "USD") == NANO
    assert rates.convert_nanos(10 * NANO, "CNY", "EUR") == NANO
    assert rates.convert_nanos(NANO, "EUR", "USD") == NANO * 5 // 4


def test_the_currencies_are_those_that_lead_to_the_dollar() -> None:
    assert {"USD", "EUR", "CNY"} <= ecb_rates().currencies()
    assert "VND" not in ecb_rates().currencies()
    lone = Rates([Rate("XAF", "XOF", Decimal(1), DAY, "test")])
    assert lone.currencies() == {"USD"}
    by_hand = lone.with_override("VND/USD", Decimal("0.00004"), DAY, "settings")
    assert by_hand.currencies() == {"USD", "VND"}
    assert by_hand.updated([Rate("EUR", "VND", Decimal(29000), DAY, "ECB")]).currencies() == {"USD", "VND", "EUR"}


def test_an_override_that_follows_from_others_is_refused() -> None:
    rates = ecb_rates()
    for pair in ("CNY/USD", "CNY/EUR"):
        rates = rates.with_override(pair, Decimal("0.125"), DAY, "settings")
    with pytest.raises(ValueError, match="USD/EUR follows from the other rates set by hand"):
        rates.with_override("USD/EUR", Decimal("0.9"), DAY, "settings")
    assert rates.with_override("USD/CNY", Decimal(10), DAY, "settings").convert_nanos(NANO, "USD", "CNY") == 10 * NANO


@given(
    pair=st.sampled_from([f"{a}/{b}" for a in CURRENCIES for b in CURRENCIES if a != b]),
    rate=st.decimals("0.0001", "10000", places=4),
    amounts=st.tuples(st.integers(1, 10**13), st.integers(1, 10**13)),
    currencies=st.tuples(st.sampled_from(CURRENCIES), st.sampled_from(CURRENCIES)),
)
def test_two_amounts_stand_in_the_same_order_in_every_currency_whatever_is_set_by_hand(
    pair: str, rate: Decimal, amounts: tuple[int, int], currencies: tuple[str, str]
) -> None:
    rates = ecb_rates().with_override(pair, rate, DAY, "settings")
    orders = set()
    for target in ("USD", "CNY", "EUR", *currencies):
        first, second = (rates.convert_nanos(n, c, target) for n, c in zip(amounts, currencies, strict=True))
        assert first is not None
        assert second is not None
        if abs(first - second) > 1:  # two that are equal but for their rounding have no order
            orders.add(first > second)
    assert len(orders) <= 1


@pytest.mark.parametrize("pair", ["CNYUSD", "CNY/CNY", "cny/usd", "CNY/USDT", "", "CNY/USD\n"])
def test_a_pair_that_is_not_two_currencies_is_refused_with_an_example(pair: str) -> None:
    with pytest.raises(ValueError, match="CNY/USD"):
        ecb_rates().with_override(pair, Decimal("0.14"), DAY, "settings")


@pytest.mark.parametrize("rate", ["0", "-0.14", "NaN", "Infinity"])
def test_a_rate_that_is_not_a_positive_number_is_refused(rate: str) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ecb_rates().with_override("CNY/USD", Decimal(rate), DAY, "settings")


@given(st.integers(1, 2**63 - 1), st.decimals("0.0001", "9999", places=6))
def test_a_conversion_is_the_exact_product_rounded_once_half_to_even(nanos: int, rate: Decimal) -> None:
    rates = only("CNY/USD", str(rate))
    assert rates.convert_nanos(nanos, "CNY", "USD") == round(nanos * Fraction(rate))
    assert rates.convert_nanos(nanos, "USD", "CNY") == round(nanos / Fraction(rate))
