"""Regions of the main clouds: country, city, coordinates.

places.csv names the source and date of each region code. Where a provider publishes a city, that is the city; where it
publishes only a state or a country ("US East (Ohio)"), the area stands in its place. Where it publishes neither, city
and coordinates are empty. Coordinates are the city's (or the area's main city's), to two decimals: good for "nearest
first", not for a map.
"""

import csv
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

from catalog.accounts import kind_of


@dataclass(frozen=True, slots=True)
class KnownRegion:
    """One region as its provider names it. Country is ISO 3166 alpha-2; coordinates are degrees north and east."""

    provider: str
    region: str
    country: str
    name: str
    city_en: str | None
    city_zh: str | None
    latitude: float | None
    longitude: float | None
    mainland_china: bool


@cache
def known_regions() -> Mapping[tuple[str, str], KnownRegion]:
    """Every region of places.csv by (provider, region). Read once, on the first call."""
    text = files("catalog").joinpath("places.csv").read_text(encoding="utf-8")
    regions = map(_region, csv.DictReader(text.splitlines()))
    return MappingProxyType({(region.provider, region.region): region for region in regions})


def known_region(provider: str, region: str) -> KnownRegion | None:
    """A region of a provider, or of one of its accounts, as the table has it; None where it has none."""
    return known_regions().get((kind_of(provider), region))


@lru_cache(maxsize=16)
def regions_of(providers: frozenset[str]) -> Mapping[tuple[str, str], KnownRegion]:
    """Every region that the table knows of these providers and accounts, by (provider, region)."""
    by_kind: dict[str, list[KnownRegion]] = {}
    for known in known_regions().values():
        by_kind.setdefault(known.provider, []).append(known)
    found = {(name, known.region): known for name in sorted(providers) for known in by_kind.get(kind_of(name), ())}
    return MappingProxyType(found)


def regions_of_city(text: str, providers: frozenset[str]) -> list[tuple[str, str]]:
    """(provider, region) of every region of these whose city (English or Chinese) or display name is `text`, in order.

    The whole name must match; case, spaces and accents do not count (`sao paulo` is `São Paulo`). Empty when no region
    is there.
    """
    there = _regions_by_city().get(_folded(text), ())
    return sorted((name, region) for kind, region in there for name in providers if kind_of(name) == kind)


def mainland_of(country: str | None, known: KnownRegion | None) -> bool | None:
    """Whether a place is in mainland China: from the table, else from the ISO country, else unknown (None).

    Hong Kong, Macau and Taiwan have ISO codes of their own (HK, MO, TW), so CN is the mainland.
    """
    if known is not None:
        return known.mainland_china
    return None if country is None else country.upper() == "CN"


@cache
def _regions_by_city() -> Mapping[str, tuple[tuple[str, str], ...]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for key, region in sorted(known_regions().items()):
        names = {_folded(name) for name in (region.city_en, region.city_zh, region.name) if name}
        for name in names:
            found.setdefault(name, []).append(key)
    return {name: tuple(keys) for name, keys in found.items()}


def _folded(text: str) -> str:
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return "".join("".join(letters).split()).casefold()


def _region(row: Mapping[str, str]) -> KnownRegion:
    return KnownRegion(
        provider=row["provider"],
        region=row["region"],
        country=row["country"],
        name=row["name"],
        city_en=row["city_en"] or None,
        city_zh=row["city_zh"] or None,
        latitude=float(row["latitude"]) if row["latitude"] else None,
        longitude=float(row["longitude"]) if row["longitude"] else None,
        mainland_china={"true": True, "false": False}[row["mainland_china"]],
    )
