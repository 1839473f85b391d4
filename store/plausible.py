"""Prices that nobody would believe are noted, so that a person looks: a unit misread shows as one of them."""

from dataclasses import replace
from fractions import Fraction

from catalog.facts import Note
from catalog.fx import ecb_rates
from catalog.money import NANOS
from store.rows import MACHINES, PRICES, Key, Row, Sorted, fraction_of

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
    low = {key for key, price in prices.items() if _usd_nanos(price) < FLOOR_USD * NANOS}
    high = {key for key, price in prices.items() if _usd_nanos(price) / _gpus(stated, key) > CEILING_USD * NANOS}
    if low:
        kept = {key: price for key, price in prices.items() if key not in low}
        stated = replace(stated, rows={**stated.rows, PRICES.table: kept})
    return stated, [_note(key) for key in prices if key in low | high]


def _note(key: Key) -> Note:
    region, _zone, instance_type, purchase = key
    return Note("implausible_price", f"{instance_type} {region} {purchase}")


def _gpus(stated: Sorted, key: Key) -> Fraction:
    region, _zone, instance_type, _purchase = key
    machine = stated.rows[MACHINES.table].get((region, instance_type))
    return (fraction_of(str(machine[_COUNT])) if machine and machine[_COUNT] else None) or Fraction(1)


def _usd_nanos(price: Row) -> Fraction:
    nanos, currency = int(price[_NANOS] or 0), str(price[_CURRENCY])
    usd_nanos = ecb_rates().convert_nanos(nanos, currency, "USD")
    return Fraction(nanos if usd_nanos is None else usd_nanos)
