"""Money is an integer of nano-units (1e-9) of a currency, per whole machine and hour. Never a float."""

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from catalog.numbers import decimal_or_none

NANOS = 1_000_000_000
MOST_NANOS = 2**63 - 1
HOURS_PER_MONTH = 730
"""The hours that a month of a prepaid term counts for: 365 x 24 / 12."""


def price_nanos(value: object) -> int | None:
    """The nano-units of a stated amount, exact and rounded once; None for whatever is not a price.

    Not a price: absent, null, zero, negative, not a number in plain decimal notation, not finite, a bool, below half a
    nano-unit, or more than a 64-bit column holds (9.2e9 an hour). An absurd exponent is refused, never computed with.
    A float is refused (TypeError): parse JSON with `parse_float=Decimal`.
    """
    if isinstance(value, float):
        msg = f"a float cannot carry money: {value!r}; parse JSON with parse_float=Decimal"
        raise TypeError(msg)
    amount = _amount(value)
    if amount is None or amount <= 0:
        return None
    nanos = round_nanos(amount)
    return nanos if 0 < nanos <= MOST_NANOS else None


def _amount(value: object) -> Fraction | None:
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        return None
    number = decimal_or_none(value)
    return None if number is None else Fraction(number)


def round_nanos(amount: Fraction) -> int:
    """An exact amount in units as nano-units, rounded half to even."""
    return round(amount * NANOS)


def term_hour_nanos(total_nanos: int, months: int) -> int:
    """What one hour of a prepaid term costs: the term's total over 730 hours a month."""
    return round(Fraction(total_nanos, HOURS_PER_MONTH * months))


def nanos_text(nanos: int) -> str:
    """Nano-units as a plain decimal string: no exponent, no trailing zeros, exact."""
    text = format(Decimal(nanos).scaleb(-9), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def money_text(nanos: int, places: int) -> str:
    """Nano-units for display, rounded half to even to at most so many decimal places, trailing zeros dropped.

    An amount that would round to zero keeps its first significant digits instead: a price is never shown as 0.
    """
    amount = Decimal(nanos).scaleb(-9)
    rounded = amount.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)
    if rounded == 0:
        return nanos_text(nanos)
    text = format(rounded, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
