"""Prices that nobody would believe are noted, and those that are too low to be one are no prices."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from catalog.facts import Fact, Machine, Note, Price
from catalog.words import Purchase
from store.plausible import believable
from store.rows import PRICES, sort_facts
from tests.support.stored import MINUTE, NANO, T0, Cloud, machine, planned_cell, price, rows

NOTED = [Note("implausible_price", "M1 r1 on_demand")]


def priced(amount: str, currency: str = "USD", count: int | None = 1) -> list[Fact]:
    return [
        Machine(region="r1", instance_type="M1", gpu=None, gpu_count=count if count is None else Fraction(count)),
        Price(
            region="r1",
            instance_type="M1",
            purchase=Purchase.ON_DEMAND,
            nanos=int(Decimal(amount) * NANO),
            currency=currency,
            source="list",
        ),
    ]


@pytest.mark.parametrize(
    ("count", "amount", "currency", "noted"),
    [
        (1, "1000", "USD", False),
        (1, "1001", "USD", True),
        (8, "8000", "USD", False),
        (1, "1667", "CNY", False),
        (1, "166700", "CNY", True),
        (None, "1001", "USD", True),
        (0, "1001", "USD", True),
    ],
)
def test_an_hour_of_a_gpu_above_a_thousand_dollars_is_noted_and_kept(
    count: int | None, amount: str, currency: str, noted: bool
) -> None:
    """B098: fen read as yuan would be such a price."""
    stated, notes = believable(sort_facts(priced(amount, currency, count)))
    assert notes == (NOTED if noted else [])
    assert len(stated.rows[PRICES.table]) == 1


@pytest.mark.parametrize(
    ("amount", "currency", "kept"),
    [
        ("0.000000001", "USD", False),
        ("0.000099999", "USD", False),
        ("0.0001", "USD", True),
        ("0.0042", "USD", True),
        ("0.0001", "CNY", False),
        ("0.000000001", "JPY", False),
        ("0.000000001", "XXX", False),
    ],
)
@pytest.mark.parametrize("count", [0, 8])
def test_an_hour_of_a_machine_below_a_hundredth_of_a_cent_is_noted_and_no_price(
    amount: str, currency: str, kept: bool, count: int
) -> None:
    stated, notes = believable(sort_facts(priced(amount, currency, count)))
    assert len(stated.rows[PRICES.table]) == int(kept)
    assert notes == ([] if kept else NOTED)


def test_a_machine_whose_price_is_too_low_is_offered_without_one(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("machines"))
    result = polled.told(
        T0, machine("low"), price("low", 1), machine("t4g.nano"), price("t4g.nano", 4_200_000), feed="machines"
    )
    assert (result.status, result.facts, result.notes) == ("ok", 3, 1)
    nanos = {name: offer.price and offer.price.nanos for (_, name, _), offer in polled.offers().items()}
    assert nanos == {"low": None, "t4g.nano": 4_200_000}
    assert [(row["kind"], row["value"]) for row in rows(polled.engine, "notes")] == [
        ("implausible_price", "low r1 on_demand")
    ]


def test_a_price_that_becomes_too_low_grows_old_as_it_was_and_is_then_withdrawn(tmp_path: Path) -> None:
    polled = Cloud(tmp_path, planned_cell("machines"))
    polled.told(T0, machine(), price(), feed="machines")
    shown = []
    for minute in (1, 2, 3):
        polled.told(T0 + minute * MINUTE, machine(), price(nanos=1), feed="machines")
        (offer,) = polled.offers().values()
        shown.append(offer.price and (offer.price.nanos, offer.price.seen_at))
    assert shown == [(NANO, T0), (NANO, T0), None]
