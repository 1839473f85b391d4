"""What a provider states that it is certified for, and where: compliance.csv, which names the source of each statement.

A tag says that the provider's own part is covered in that region. What the customer has to do beside (sign an
agreement, encrypt, order a support plan) is the customer's. No tag means not known, not refused.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

from catalog.accounts import kind_of
from catalog.words import Hosting

EVERY_HOSTING = "*"


@dataclass(frozen=True, slots=True)
class _Statement:
    regions: tuple[str, ...]
    hosting: str
    tag: str

    def holds(self, region: str, hosting: Hosting) -> bool:
        return self.hosting in (EVERY_HOSTING, hosting) and any(fnmatchcase(region, glob) for glob in self.regions)


@lru_cache(maxsize=4096)
def tags_of(provider: str, region: str, hosting: Hosting) -> frozenset[str]:
    """The tags that are stated of a provider's region, or of an account's, on hosts run so. Lower-case words."""
    statements = _table().get(kind_of(provider), ())
    return frozenset(statement.tag for statement in statements if statement.holds(region, hosting))


@cache
def all_tags() -> frozenset[str]:
    """Every tag that is stated of anything."""
    return frozenset(statement.tag for statements in _table().values() for statement in statements)


@cache
def _table() -> Mapping[str, tuple[_Statement, ...]]:
    text = files("catalog").joinpath("compliance.csv").read_text(encoding="utf-8")
    table: dict[str, tuple[_Statement, ...]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        statement = _Statement(tuple(row["regions"].split()), row["hosting"], row["tag"])
        table[row["provider"]] = (*table.get(row["provider"], ()), statement)
    return MappingProxyType(table)
