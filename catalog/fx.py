"""Dated exchange rates, and exact conversion between currencies.

fx/ecb.csv holds the European Central Bank's euro foreign exchange reference rates of one day: 1 EUR in each currency.
A currency without a rate is never converted, so prices in it are never compared with others.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cache
from importlib.resources import files

HUB = "EUR"
"""The currency that the European Central Bank quotes every other against."""

_DISPLAY = Context(prec=8, rounding=ROUND_HALF_EVEN)


@dataclass(frozen=True, slots=True)
class Rate:
    """One unit of `base` is `rate` units of `quote` (CNY/USD 0.14: 1 CNY is 0.14 USD), as `source` said on `date`."""

    base: str
    quote: str
    rate: Decimal
    date: date
    source: str


class Rates:
    """A set of dated rates. Immutable: `with_override` gives a new one."""

    def __init__(self, rates: Iterable[Rate]) -> None:
        """Keep `rates`, each for both directions; a later rate of a pair replaces an earlier one."""
        self._rates: dict[frozenset[str], Rate] = {frozenset((rate.base, rate.quote)): rate for rate in rates}

    def convert_nanos(self, nanos: int, from_currency: str, to_currency: str) -> int | None:
        """The amount in `to_currency`, exact and rounded once (half to even) to a nano-unit; None without a rate."""
        path = self._path(from_currency, to_currency)
        return None if path is None else round(nanos * _factor(from_currency, path))

    def rate(self, from_currency: str, to_currency: str) -> Rate | None:
        """The rate that `convert_nanos` uses, to 8 significant digits, for people to see.

        A rate across the hub carries the older date and both sources. None without a rate, and for a currency with
        itself, where nothing is converted.
        """
        path = self._path(from_currency, to_currency)
        if not path:
            return None
        factor = _factor(from_currency, path)
        return Rate(
            base=from_currency,
            quote=to_currency,
            rate=_DISPLAY.divide(Decimal(factor.numerator), Decimal(factor.denominator)),
            date=min(leg.date for leg in path),
            source=", ".join(dict.fromkeys(leg.source for leg in path)),
        )

    def with_override(self, pair: str, rate: Decimal, on: date, source: str) -> "Rates":
        """These rates with `pair` ("CNY/USD": USD for 1 CNY) replaced, in both directions.

        Raises ValueError for a pair that is not two different currency codes, and for a rate that is not positive.
        """
        if not re.fullmatch(r"[A-Z]{3}/[A-Z]{3}", pair) or pair[:3] == pair[4:]:
            raise ValueError(f'Exchange rate pair {pair!r}: write two different currency codes, such as "CNY/USD".')
        if not (rate.is_finite() and rate > 0):
            raise ValueError(f"Exchange rate {pair} is {rate}: give a number above 0.")
        override = Rate(base=pair[:3], quote=pair[4:], rate=rate, date=on, source=source)
        return Rates([*self._rates.values(), override])

    def _path(self, from_currency: str, to_currency: str) -> tuple[Rate, ...] | None:
        """The rates to apply in turn: none for one currency, the pair's own, else the two through the hub."""
        if from_currency == to_currency:
            return ()
        direct = self._rates.get(frozenset((from_currency, to_currency)))
        if direct is not None:
            return (direct,)
        inward = self._rates.get(frozenset((from_currency, HUB)))
        outward = self._rates.get(frozenset((HUB, to_currency)))
        return None if inward is None or outward is None else (inward, outward)


@cache
def ecb_rates() -> Rates:
    """The bundled rates of fx/ecb.csv. Read once, on the first call."""
    text = files("catalog").joinpath("fx", "ecb.csv").read_text(encoding="utf-8")
    return Rates(map(_rate, csv.DictReader(text.splitlines())))


def _factor(from_currency: str, path: tuple[Rate, ...]) -> Fraction:
    """What 1 `from_currency` is worth at the end of `path`, exactly."""
    factor, currency = Fraction(1), from_currency
    for leg in path:
        forward = leg.base == currency
        factor = factor * Fraction(leg.rate) if forward else factor / Fraction(leg.rate)
        currency = leg.quote if forward else leg.base
    return factor


def _rate(row: Mapping[str, str]) -> Rate:
    return Rate(
        base=row["base"],
        quote=row["quote"],
        rate=Decimal(row["rate"]),
        date=date.fromisoformat(row["date"]),
        source=row["source"],
    )
