"""Prices that nobody would believe are noted, so that a person looks: a unit misread shows as one of them."""

from collections.abc import Iterator
from fractions import Fraction

from catalog.facts import Note
from catalog.fx import ecb_rates
from catalog.money import NANOS
from store.rows import MACHINES, PRICES, Row, Sorted, fraction_of

CEILING_USD = 1000
"""An hour of one GPU. The dearest sold (2026) costs about 15; fen read as yuan, or cents as dollars, go over."""
_COUNT = MACHINES.values.index("gpu_count")
_NANOS, _CURRENCY = PRICES.values.index("nanos"), PRICES.values.index("currency")


def implausible(stated: Sorted) -> Iterator[Note]:
    """A note for each price above the ceiling. A machine whose GPU count is not known counts as one GPU."""
    machines = stated.rows[MACHINES.table]
    for (region, _zone, instance_type, purchase), price in stated.rows[PRICES.table].items():
        machine = machines.get((region, instance_type))
        count = fraction_of(str(machine[_COUNT])) if machine and machine[_COUNT] else None
        if _usd_nanos(price) / (count or Fraction(1)) > CEILING_USD * NANOS:
            yield Note("implausible_price", f"{instance_type} {region} {purchase}")


def _usd_nanos(price: Row) -> Fraction:
    nanos, currency = int(price[_NANOS] or 0), str(price[_CURRENCY])
    return Fraction(ecb_rates().convert_nanos(nanos, currency, "USD") or nanos)
