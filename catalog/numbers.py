"""Numbers as others write them: exact, in plain decimal notation, and of a size that something can have."""

import re
from decimal import Decimal

MOST_DIGITS = 40
FURTHEST_DIGIT = 30
"""How many places from the decimal point a number's first digit may stand: `1e999999999` is a trap, not an amount."""
_LONGEST_TEXT = 100
_PLAIN = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""Decimal itself would also read `1_5`, full-width digits and white space around."""


def decimal_or_none(stated: int | Decimal | str) -> Decimal | None:
    """The number, exact; None for a text that is none, and for one that is absurdly large, small or long.

    What is returned costs nothing to compute with: its digits and its exponent are bounded.
    """
    if isinstance(stated, str) and (len(stated) > _LONGEST_TEXT or not _PLAIN.fullmatch(stated)):
        return None
    try:
        number = Decimal(stated)
    except ArithmeticError:
        return None
    if not number.is_finite() or abs(number.adjusted()) > FURTHEST_DIGIT:
        return None
    return number if len(number.as_tuple().digits) <= MOST_DIGITS else None
