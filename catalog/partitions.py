"""Partitions: the clouds that a provider runs apart from one another, each with accounts of its own. An account of one
can launch nothing in another. partitions.csv says by which prefix of a region's name each is told, with its source.
"""

import csv
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files

from catalog.accounts import kind_of

Account = tuple[str, str]
"""(provider, partition): whose places its credentials can launch at."""
WHOLE = ""
"""The partition of a provider that has but one cloud."""
_AZURE, _AZURE_CN, _CN = "azure", "azure-cn", "cn"


@lru_cache(maxsize=4096)
def partition(provider: str, region: str) -> str:
    """The partition of a provider's region, or of an account's: `aws`, `aws-cn`, `azure-us-gov`. The one of the longest
    prefix; `WHOLE` of a provider that has no partitions.
    """
    prefixes = _table().get(kind_of(provider), {})
    found = max((prefix for prefix in prefixes if region.casefold().startswith(prefix)), key=len, default=None)
    return WHOLE if found is None else prefixes[found]


def account_of(provider: str, site: str | None) -> Account:
    """The account that credentials of a provider are, where nothing but the site that is set says of which partition:
    the one that the public knows by the provider's name.
    """
    if kind_of(provider) == _AZURE and site == _CN:
        return provider, _AZURE_CN
    return provider, partition(provider, "")


def holds(accounts: Iterable[Account], provider: str, region: str) -> bool:
    """Whether one of the accounts can launch in the region; with region "" whether one is the provider's at all."""
    if not region:
        return any(owner == provider for owner, _ in accounts)
    return (provider, partition(provider, region)) in accounts


def on_site(provider: str, region: str, site: str | None) -> bool:
    """Whether a region is one of the site that is set. Azure's two sites are two clouds, told apart by their regions;
    of other providers both sites have the same ones.
    """
    if kind_of(provider) != _AZURE or site is None:
        return True
    return (partition(provider, region) == _AZURE_CN) is (site == _CN)


@cache
def _table() -> dict[str, dict[str, str]]:
    """Kind of provider -> prefix -> partition."""
    found: dict[str, dict[str, str]] = {}
    text = (files("catalog") / "partitions.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        found.setdefault(row["kind"], {})[row["prefix"]] = row["partition"]
    return found
