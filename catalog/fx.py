"""Dated exchange rates, and exact conversion between currencies.

fx/ecb.csv holds the European Central Bank's euro foreign exchange reference rates of one day: 1 EUR in each currency.
A currency without a rate is never converted, so prices in it are never compared with others.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cache
from importlib.resources import files

_DOLLAR = "USD"

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
    """A set of dated rates that never contradict each other: one path, if any, leads from a currency to another.

    So an amount is worth the same whichever way it is converted, and two amounts stand in the same order in every
    currency. Immutable: `with_override` gives a new one.
    """

    def __init__(self, rates: Iterable[Rate], overrides: Iterable[Rate] = ()) -> None:
        """Keep `rates`, each for both directions; a later rate of a pair replaces an earlier one.

        `overrides` go before them: a rate that would be a second path beside theirs is left out.
        """
        self._given, self._overrides = _by_pair(rates), _by_pair(overrides)
        own = self._overrides.values()
        given = [rate for pair, rate in self._given.items() if pair not in self._overrides]
        self._legs = _tree([*own, *sorted(given, key=_gives_way_to(own))])
        self._factors: dict[tuple[str, str], Fraction | None] = {}
        """What one unit is worth in another currency, kept once it was asked for."""
        self._shown: dict[tuple[str, str], Rate | None] = {}

    def convert_nanos(self, nanos: int, from_currency: str, to_currency: str) -> int | None:
        """The amount in `to_currency`, exact and rounded once (half to even) to a nano-unit; None without a rate."""
        factor = self._factor(from_currency, to_currency)
        if factor is None:
            return None
        # As `round(nanos * factor)` does, without a Fraction for each price.
        whole, rest = divmod(nanos * factor.numerator, factor.denominator)
        return whole + (2 * rest > factor.denominator or (2 * rest == factor.denominator and whole % 2 == 1))

    def exact(self, nanos: int, from_currency: str, to_currency: str) -> int | Fraction | None:
        """The same without rounding, to compare by: equal amounts stay equal, however many share them."""
        if from_currency == to_currency:
            return nanos
        factor = self._factor(from_currency, to_currency)
        return None if factor is None else nanos * factor

    def rate(self, from_currency: str, to_currency: str) -> Rate | None:
        """The rate that `convert_nanos` uses, to 8 significant digits, for people to see.

        A rate by way of other currencies carries the oldest date and every source. None without a rate, and for a
        currency with itself, where nothing is converted.
        """
        pair = (from_currency, to_currency)
        if pair not in self._shown:
            self._shown[pair] = self._rate(from_currency, to_currency)
        return self._shown[pair]

    def _rate(self, from_currency: str, to_currency: str) -> Rate | None:
        path = _path(self._legs, from_currency, to_currency)
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

    def currencies(self) -> frozenset[str]:
        """Every currency that has a rate to the dollar, by way of others too, and the dollar."""
        return frozenset(each for each in self._legs if self._factor(each, _DOLLAR) is not None) | {_DOLLAR}

    def with_override(self, pair: str, rate: Decimal, on: date, source: str) -> "Rates":
        """These rates with `pair` ("CNY/USD": USD for 1 CNY) set by hand, in both directions and on every way.

        It says what one of the two is worth: the other keeps its rate, which is the euro's or else the dollar's, or
        else that of the second one written. What was set by hand before stays. Raises ValueError for a pair that is
        not two different currency codes, for a rate that is not positive, and for a pair that follows from others set
        by hand.
        """
        if not re.fullmatch(r"[A-Z]{3}/[A-Z]{3}", pair) or pair[:3] == pair[4:]:
            raise ValueError(f'Exchange rate pair {pair!r}: write two different currency codes, such as "CNY/USD".')
        if not (rate.is_finite() and rate > 0):
            raise ValueError(f"Exchange rate {pair} is {rate}: give a number above 0.")
        override = Rate(base=pair[:3], quote=pair[4:], rate=rate, date=on, source=source)
        others = [each for each in self._overrides.values() if _pair(each) != _pair(override)]
        if _path(_tree(others), override.base, override.quote):
            raise ValueError(f"Exchange rate {pair} follows from the other rates set by hand: leave one of them out.")
        return Rates(self._given.values(), [*others, override])

    def updated(self, rates: Iterable[Rate]) -> "Rates":
        """These rates with those of a pair replaced by ones of a later day. What was set by hand stays."""
        given = dict(self._given)
        for pair, rate in _by_pair(rates).items():
            if pair not in given or given[pair].date < rate.date:
                given[pair] = rate
        return Rates(given.values(), self._overrides.values())

    def _factor(self, from_currency: str, to_currency: str) -> Fraction | None:
        pair = (from_currency, to_currency)
        if pair not in self._factors:
            path = _path(self._legs, *pair)
            self._factors[pair] = None if path is None else _factor(from_currency, path)
        return self._factors[pair]


@cache
def ecb_rates() -> Rates:
    """The bundled rates of fx/ecb.csv. Read once, on the first call."""
    text = files("catalog").joinpath("fx", "ecb.csv").read_text(encoding="utf-8")
    return Rates(map(_rate, csv.DictReader(text.splitlines())))


_Legs = Mapping[str, Mapping[str, Rate]]
"""Currency -> each currency that a rate leads to, and that rate. No two ways lead from one to another."""


def _pair(rate: Rate) -> frozenset[str]:
    return frozenset((rate.base, rate.quote))


def _by_pair(rates: Iterable[Rate]) -> dict[frozenset[str], Rate]:
    return {_pair(rate): rate for rate in rates}


def _gives_way_to(overrides: Iterable[Rate]) -> Callable[[Rate], tuple[bool, bool]]:
    """What sorts those last that an override goes before: never the dollar's, first those of its first currency."""
    moved = {rate.base for rate in overrides}
    return lambda rate: (_DOLLAR not in _pair(rate), bool(_pair(rate) & moved))


def _tree(rates: Iterable[Rate]) -> _Legs:
    """The rates, each unless those before it lead from its one currency to the other already."""
    legs: dict[str, dict[str, Rate]] = defaultdict(dict)
    for rate in rates:
        if _path(legs, rate.base, rate.quote) is None:
            legs[rate.base][rate.quote] = legs[rate.quote][rate.base] = rate
    return dict(legs)


def _path(legs: _Legs, start: str, end: str, seen: frozenset[str] = frozenset()) -> tuple[Rate, ...] | None:
    """The rates to apply in turn; none from a currency to itself, None where no way leads there."""
    if start == end:
        return ()
    for currency, rate in legs.get(start, {}).items():
        if currency not in seen:
            onward = _path(legs, currency, end, seen | {start})
            if onward is not None:
                return (rate, *onward)
    return None


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
