"""Where a question could be answered and no source was read yet: there, nothing found is no finding."""

from collections.abc import Iterable

from catalog.offers import Place
from catalog.places import known_region
from catalog.spec import RegionKey, Spec
from selector.context import Context
from selector.demands import PlaceDemand, place_demands
from selector.reasons import Code

_LEFT_OPEN = frozenset({Code.COUNTRY_UNKNOWN, Code.MAINLAND_CHINA_UNKNOWN})


def unread_places(spec: Spec, context: Context, regions: Iterable[RegionKey] | None) -> tuple[str, ...]:
    """Names of the unread places among these regions (None: anywhere) at which the question allows an answer, sorted.

    A provider of which nothing was read is named by the regions asked for, or by itself where none are.
    """
    if not context.unread:
        return ()
    demands = place_demands(spec, context.accounts)
    asked = None if regions is None else frozenset(regions)
    names: set[str] = set()
    for key in context.unread:
        if _allowed(key, spec, demands):
            names.update(_names(key, asked))
    return tuple(sorted(names))


def _allowed(key: RegionKey, spec: Spec, demands: Iterable[PlaceDemand]) -> bool:
    known = known_region(*key)
    country, mainland = (None, None) if known is None else (known.country, known.mainland_china)
    place = Place(provider=key[0], region=key[1], country=country, mainland_china=mainland)
    against = (demand.unmet(place) for demand in demands)
    return key not in spec.not_regions and all(code is None or code in _LEFT_OPEN for code in against)


def _names(key: RegionKey, asked: frozenset[RegionKey] | None) -> Iterable[str]:
    provider, place = key
    if asked is None:
        return (f"{provider} {place}".strip(),)
    return (region for owner, region in asked if owner == provider and place in ("", region))
