"""Prices that nobody would believe are noted."""

from fractions import Fraction

import pytest

from catalog.facts import Fact, Machine, Note, Price
from catalog.words import Purchase
from store.plausible import implausible
from store.rows import sort_facts


@pytest.mark.parametrize(
    ("count", "amount", "currency", "noted"),
    [
        (1, 1000, "USD", False),
        (1, 1001, "USD", True),
        (8, 8000, "USD", False),
        (1, 1667, "CNY", False),
        (1, 166_700, "CNY", True),
        (None, 1001, "USD", True),
        (0, 1001, "USD", True),
    ],
)
def test_an_hour_of_a_gpu_above_a_thousand_dollars_is_noted(
    count: int | None, amount: int, currency: str, noted: bool
) -> None:
    """B098: fen read as yuan would be such a price."""
    facts: list[Fact] = [
        Machine(region="r1", instance_type="M1", gpu=None, gpu_count=count if count is None else Fraction(count)),
        Price(
            region="r1",
            instance_type="M1",
            purchase=Purchase.ON_DEMAND,
            nanos=amount * 1_000_000_000,
            currency=currency,
            source="list",
        ),
    ]
    expected = [Note("implausible_price", "M1 r1 on_demand")] if noted else []
    assert list(implausible(sort_facts(facts))) == expected
