"""Places as people name them: codes, globs, `provider:region` and cities, as the regions and zones meant."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from catalog.partitions import Account
from catalog.places import known_region, regions_of, regions_of_city
from catalog.spec import RegionKey, ZoneKey
from selector.values import BadQuestion, alike

AUTO = "auto"
"""In a list of fallback regions: the others of the same account and country, the nearest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What exists here, so that what does not can be refused by name."""

    providers: frozenset[str]
    """Those in use: no other has a place here."""
    accounts: frozenset[Account] = frozenset()
    """Those with credentials here."""
    regions: frozenset[RegionKey] = frozenset()
    zones: frozenset[tuple[str, str, str | None, str | None]] = frozenset()
    """(provider, region, zone name, zone id)."""
    countries: frozenset[str] = frozenset()
    region_countries: Mapping[RegionKey, str] = field(default_factory=dict, hash=False)
    """What the offers of a region say of its country, where they say anything."""
    machines: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The names of the machines that are offered: case folded -> as their provider writes them."""
    unread: frozenset[RegionKey] = frozenset()
    """Where no source was read yet, so that a name may still turn up; a place "" is all of its provider."""
    currencies: frozenset[str] = frozenset()
    """Those with a rate to the dollar: shipped, fetched or set by hand. The dollar needs none."""
    fallback: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    """Region -> the regions configured to fall back on, in order."""

    def all_regions(self) -> frozenset[RegionKey]:
        """Those with data, and those that the table of places knows of the providers in use.

        Of a provider that the table does not know, those still to be read: else a misspelt setting would be a region.
        """
        known = regions_of(self.providers).keys()
        in_table = {provider for provider, _ in known}
        return self.regions | known | {key for key in self.unread if key[1] and key[0] not in in_table}

    def country_of(self, region: RegionKey) -> str | None:
        """The country of a region, by the table of places, else by what its offers state; None where nothing says."""
        known = known_region(*region)
        return self.region_countries.get(region) if known is None else known.country

    def all_countries(self) -> frozenset[str]:
        """Those with data and those that the table of places knows, of the providers in use."""
        return self.countries | {known.country for known in regions_of(self.providers).values()}


def regions_named(parameter: str, text: str, world: World) -> frozenset[RegionKey]:
    """Every region that a code, a glob, `provider:…` or a city means; a name that means none is refused."""
    provider, name = _split(parameter, text, world)
    known = [key for key in world.all_regions() if provider in (None, key[0])]
    city = set(regions_of_city(name, frozenset({provider}) if provider else world.providers))
    found = city | {key for key in known if _named(name, key[1])}
    if not found:
        raise BadQuestion(
            parameter,
            f"{parameter}={text}: no region or city here has this name{_so_far(world)}. `GET /regions` lists them.",
            alike(name, (region for _, region in known)),
        )
    return frozenset(found)


def zones_named(parameter: str, text: str, world: World) -> frozenset[ZoneKey]:
    """Every zone whose name or id a code, glob, `provider:…` means, or that lies in a city; none is refused.

    While nothing is known of a region's zones, a name that begins with the region's is taken at its word.
    """
    provider, name = _split(parameter, text, world)
    zones = [zone for zone in world.zones if provider in (None, zone[0])]
    city = set(regions_of_city(name, world.providers))
    found = {
        (owner, region, zone_id or zone or "")
        for owner, region, zone, zone_id in zones
        if (owner, region) in city or _named(name, zone) or _named(name, zone_id)
    }
    found = found or _taken_at_its_word(provider, name, world)
    if not found:
        names = (word for zone in zones for word in zone[2:] if word)
        message = f"{parameter}={text}: no zone here has this name or id{_so_far(world)}."
        raise BadQuestion(parameter, message, alike(name, names))
    return frozenset(found)


def _taken_at_its_word(provider: str | None, name: str, world: World) -> set[ZoneKey]:
    seen = {zone[:2] for zone in world.zones}
    return {
        (owner, region, name.casefold())
        for owner, region in world.all_regions()
        if provider in (None, owner)
        and (owner, region) not in seen
        and name.casefold().startswith(region)
        and len(region) < len(name) <= len(region) + 3
    }


def configured_fallback(primary: Iterable[RegionKey], world: World) -> Mapping[str, frozenset[RegionKey]]:
    """The names in the lists configured for the primary regions, in order -> the regions whose lists they stand in."""
    lists = {_setting_name(region): texts for region, texts in world.fallback.items()}
    found: dict[str, frozenset[RegionKey]] = {}
    for key in sorted(primary):
        for text in lists.get(_setting_name(key[1]), ()):
            found[text] = found.get(text, frozenset()) | {key}
    return found


def regions_known(parameter: str, text: str, world: World) -> frozenset[RegionKey]:
    """As `regions_named`, and empty where the name means none."""
    try:
        return regions_named(parameter, text, world)
    except BadQuestion:
        return frozenset()


def _so_far(world: World) -> str:
    return " so far; not every source was read yet" if world.unread else ""


def _setting_name(region: str) -> str:
    """Environment variables write `-` as `_`."""
    return region.casefold().replace("_", "-")


def _split(parameter: str, text: str, world: World) -> tuple[str | None, str]:
    provider, colon, name = (part.strip() for part in text.rpartition(":"))
    if not colon:
        return None, text
    if provider.casefold() not in world.providers:
        raise BadQuestion(
            parameter,
            f"{parameter}={text}: there is no provider {provider} here, or it is not in use.",
            alike(provider, world.providers),
        )
    return provider.casefold(), name


def _named(text: str, name: str | None) -> bool:
    return name is not None and fnmatchcase(name.casefold(), text.casefold())
