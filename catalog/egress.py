"""What it costs to send data from a region to the internet: egress.csv, which names the source of each price.

A month's tiers are counted from the first byte, as if the job were all that the account sends. A free allowance is a
tier of its own, of price 0: where no row holds, the price is not known, which is no price of 0.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache, lru_cache
from importlib.resources import files
from itertools import groupby
from types import MappingProxyType

from catalog.accounts import kind_of
from catalog.money import round_nanos

GB_PER_UNIT: Mapping[str, Fraction] = MappingProxyType({"gb": Fraction(1), "gib": Fraction(2**30, 10**9)})
"""A GB that is asked about is 10^9 bytes. What each of the units that providers count in has of them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount in nano-units of a currency."""

    nanos: int
    currency: str


@dataclass(frozen=True, slots=True)
class _Tier:
    ends_at: Fraction | None
    """In units, counted from the first byte; None for a tier without an end."""
    per_unit: Fraction


@dataclass(frozen=True, slots=True)
class _Tariff:
    regions: tuple[str, ...]
    site: str
    currency: str
    gb_per_unit: Fraction
    tiers: tuple[_Tier, ...]

    def holds(self, region: str, site: str | None) -> bool:
        return self.site in ("", site) and any(fnmatchcase(region, glob) for glob in self.regions)

    def cost(self, gb: Fraction) -> Cost | None:
        units, started, amount = gb / self.gb_per_unit, Fraction(0), Fraction(0)
        for tier in self.tiers:
            if tier.ends_at is None or units <= tier.ends_at:
                return Cost(round_nanos(amount + (units - started) * tier.per_unit), self.currency)
            amount += (tier.ends_at - started) * tier.per_unit
            started = tier.ends_at
        return None


def egress_cost(provider: str, region: str, site: str | None, gb: Fraction) -> Cost | None:
    """What `gb` times 10^9 bytes to the internet cost in all, exact and rounded once to nano-units.

    `site` is the provider's site that the machine is bought at, None for a provider of but one. None is returned where
    the price is not known: of this region, at this site, or of so much. ValueError for less than nothing.
    """
    if gb < 0:
        msg = f"{gb} GB cannot be sent"
        raise ValueError(msg)
    return _cost(kind_of(provider), region, site, gb)


@lru_cache(maxsize=4096)
def _cost(provider: str, region: str, site: str | None, gb: Fraction) -> Cost | None:
    """Kept, since one question asks it of every place, and for the exact order again."""
    return next((tariff.cost(gb) for tariff in _table().get(provider, ()) if tariff.holds(region, site)), None)


@cache
def _table() -> Mapping[str, tuple[_Tariff, ...]]:
    text = files("catalog").joinpath("egress.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    table: dict[str, tuple[_Tariff, ...]] = {}
    for (provider, *_), tiers in groupby(rows, key=lambda row: (row["provider"], row["regions"], row["site"])):
        table[provider] = (*table.get(provider, ()), _tariff(tiers))
    return MappingProxyType(table)


def _tariff(rows: Iterator[dict[str, str]]) -> _Tariff:
    """One tariff of its rows, a tier each, which stand together in the file and in order."""
    first, *_ = tiers = list(rows)
    return _Tariff(
        regions=tuple(first["regions"].split()),
        site=first["site"],
        currency=first["currency"],
        gb_per_unit=GB_PER_UNIT[first["unit"]],
        tiers=tuple(_Tier(Fraction(row["up_to"]) if row["up_to"] else None, Fraction(row["amount"])) for row in tiers),
    )
