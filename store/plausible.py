"""Prices that nobody would believe are noted, so that a person looks: a unit misread shows as one of them."""

from dataclasses import replace
from fractions import Fraction
from typing import cast

from catalog.facts import Note
from catalog.fx import ecb_rates
from catalog.money import NANOS
from store.rows import MACHINES, PRICES, Key, Sorted

CEILING_USD = 1000
"""An hour of one GPU. The dearest sold (2026) costs about 15; fen read as yuan, or cents as dollars, go over."""
FLOOR_USD = Fraction(1, 10_000)
"""An hour of a whole machine. The cheapest sold (2026), AWS's t4g.nano, costs 0.0042: what is below is the price of
something else (a second, a placeholder), and would be the cheapest of all if it were believed.
"""
_COUNT = MACHINES.values.index("gpu_count")
_NANOS, _CURRENCY = PRICES.values.index("nanos"), PRICES.values.index("currency")


def believable(stated: Sorted) -> tuple[Sorted, list[Note]]:
    """What is stated without the prices below the floor, and a note for each of them and for each above the ceiling.

    One above the ceiling stays, since it misleads nobody who looks for the cheapest. A machine whose GPU count is not
    known counts as one GPU.
    """
    prices = stated.rows[PRICES.table]
    rates = {currency: _nanos_per_usd(currency) for currency in {str(price[_CURRENCY]) for price in prices.values()}}
    counts = {str(machine[_COUNT] or 1) for machine in stated.rows[MACHINES.table].values()}
    smallest = min([Fraction(1), *map(_gpus, counts)])
    usual = {name: (floor_nanos(name), int(CEILING_USD * smallest * nanos)) for name, nanos in rates.items()}
    low: set[Key] = set()
    high: set[Key] = set()
    for key, price in prices.items():
        nanos, currency = cast("int", price[_NANOS]), cast("str", price[_CURRENCY])
        floor, ceiling = usual[currency]
        if nanos < floor:
            low.add(key)
        elif nanos > ceiling and nanos > CEILING_USD * _gpus_of(stated, key) * rates[currency]:
            high.add(key)
    if low:
        kept = {key: price for key, price in prices.items() if key not in low}
        stated = replace(stated, rows={**stated.rows, PRICES.table: kept})
    return stated, [_note(key) for key in prices if key in low or key in high] if low or high else []


def floor_nanos(currency: str) -> int:
    """The least price that is believed, in nano-units of a currency per machine-hour."""
    return int(FLOOR_USD * _nanos_per_usd(currency))


def _note(key: Key) -> Note:
    region, _zone, instance_type, purchase = key
    return Note("implausible_price", f"{instance_type} {region} {purchase}")


def _gpus_of(stated: Sorted, key: Key) -> Fraction:
    region, _zone, instance_type, _purchase = key
    machine = stated.rows[MACHINES.table].get((region, instance_type))
    return Fraction(1) if machine is None else _gpus(str(machine[_COUNT] or 1))


def _gpus(count: str) -> Fraction:
    return Fraction(count) or Fraction(1)


def _nanos_per_usd(currency: str) -> int:
    """What a US dollar is in nano-units of a currency; of one without a rate it counts as one unit."""
    nanos = ecb_rates().convert_nanos(NANOS, "USD", currency)
    return NANOS if nanos is None else nanos
