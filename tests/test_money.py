"""Money: exact nano-units from whatever a provider writes, and what is no price at all."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.fx import Rates
from catalog.money import MOST_NANOS, NANOS, money_text, nanos_text, price_nanos, round_nanos, term_hour_nanos


@pytest.mark.parametrize(
    ("stated", "nanos"),
    [
        ("32.77", 32_770_000_000),
        ("0.0349", 34_900_000),
        ("0.0346", 34_600_000),
        ("3.5E-2", 35_000_000),
        (Decimal("12.0640000000"), 12_064_000_000),
        (Fraction(1, 3), 333_333_333),
        (8, 8_000_000_000),
        ("0.000000001", 1),
        ("1e9", 10**18),
    ],
)
def test_a_stated_amount_is_exact(stated: object, nanos: int) -> None:
    assert price_nanos(stated) == nanos


@pytest.mark.parametrize(
    "stated",
    [None, "", "0", "0.0000000000", 0, Decimal(0), "-1", -3, "free", "1,5", "NaN", "Infinity", "-Infinity", True, False,
     [], {}, b"1", "1e-10", Fraction(1, 10**10), " 1.5 ", "1_5", "１５", "0x10", "1.5\n", "1e", "."],
)  # fmt: skip
def test_what_is_no_price_is_none(stated: object) -> None:
    assert price_nanos(stated) is None


@pytest.mark.parametrize("exponent", ["999999999", "-999999999", "9" * 18, "-" + "9" * 18, "9" * 40])
def test_an_absurd_exponent_is_no_price_and_costs_nothing(exponent: str) -> None:
    """Written out, the number would fill a gigabyte and more, and hold a worker for minutes."""
    assert price_nanos(f"9e{exponent}") is None
    assert len(exponent) > 20 or price_nanos(Decimal(f"9e{exponent}")) is None


def test_digits_are_counted() -> None:
    assert price_nanos("1." + "0" * 30 + "1") == NANOS
    assert price_nanos("1." + "0" * 39 + "1") is None
    assert price_nanos("0." + "1" * 5000) is None
    assert price_nanos(10**5000) is None


@pytest.mark.parametrize("stated", [1.5, 0.0, float("nan")])
def test_a_float_is_refused(stated: float) -> None:
    with pytest.raises(TypeError, match="parse_float=Decimal"):
        price_nanos(stated)


def test_prices_below_a_cent_keep_their_order_and_digits() -> None:
    a, b, c = (price_nanos(text) or 0 for text in ("0.0349", "0.0346", "3.5E-2"))
    assert sorted([a, b, c]) == [b, a, c]
    assert [nanos_text(nanos) for nanos in (a, b, c)] == ["0.0349", "0.0346", "0.035"]
    assert money_text(a, 4) == "0.0349"


def test_three_tenths_are_three_tenths() -> None:
    tenth = price_nanos("0.1")
    assert tenth is not None
    assert nanos_text(tenth * 3) == "0.3"


def test_parts_add_up_exactly() -> None:
    cores, memory, gpu = Decimal("0.0316") * 12, Decimal("0.0042") * 85, Decimal("2.93")
    assert price_nanos(cores + memory + gpu) == 3_666_200_000


@given(st.integers(1, MOST_NANOS))
def test_text_and_nanos_are_the_same_amount(nanos: int) -> None:
    text = nanos_text(nanos)
    assert "e" not in text.lower()
    assert "." not in text or not text.endswith(("0", "."))
    assert price_nanos(text) == nanos


@given(st.decimals("0.000000001", "9e9", places=9))
def test_an_amount_of_nine_places_is_kept_to_the_last(amount: Decimal) -> None:
    nanos = price_nanos(amount)
    assert nanos is not None
    assert Fraction(nanos, NANOS) == Fraction(amount)


@pytest.mark.parametrize(("amount", "nanos"), [(Fraction(5, 2), 2), (Fraction(7, 2), 4), (Fraction(9, 4), 2)])
def test_rounding_is_half_to_even(amount: Fraction, nanos: int) -> None:
    assert round_nanos(amount / NANOS) == nanos


def test_a_prepaid_term_is_its_total_over_730_hours_a_month() -> None:
    assert term_hour_nanos(730 * NANOS, 1) == NANOS
    assert term_hour_nanos(8760 * NANOS, 12) == NANOS
    assert term_hour_nanos(6336 * NANOS, 1) == 8_679_452_055


@pytest.mark.parametrize(
    ("nanos", "places", "text"),
    [
        (1_408_450_700, 4, "1.4085"),
        (1_205_700_000, 4, "1.2057"),
        (2_000_000_000, 4, "2"),
        (10 * NANOS, 2, "10"),
        (100 * NANOS, 0, "100"),
        (34_900_000, 2, "0.03"),
        (1_000, 4, "0.000001"),
        (125_000_000, 2, "0.12"),
        (135_000_000, 2, "0.14"),
    ],
)
def test_money_is_shown_without_exponent_and_never_as_zero(nanos: int, places: int, text: str) -> None:
    assert money_text(nanos, places) == text


def test_without_a_rate_nothing_is_compared() -> None:
    assert Rates([]).convert_nanos(10 * NANOS, "CNY", "USD") is None


def test_more_than_a_column_holds_is_no_price() -> None:
    most = Decimal(MOST_NANOS).scaleb(-9)
    assert price_nanos(most) == MOST_NANOS
    assert price_nanos(most + Decimal("0.000000001")) is None
