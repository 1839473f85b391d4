"""How far regions are from one another, and so which others `fallback=auto` means, and in which order. Pure.

A round trip is estimated from coordinates, never measured: docs/selection.md has the published round trips that the
constants were chosen by, and how far off they are.
"""

import math
from collections.abc import Iterable, Iterator

from catalog.offers import Place
from catalog.places import KnownRegion, known_region, mainland_of
from catalog.spec import Nearness, RegionKey, Spec
from selector.demands import place_demands
from selector.where import World

_EARTH_RADIUS_M = 6_371_009
"""The mean radius of the IUGG."""
_FIBRE_KM_PER_MS = 200
"""Light in glass: two thirds of its speed in a vacuum."""
_STRETCH = 1.65
"""Kilometres of path for each of the great circle: by the shortest cables 1.3, over the public Internet 2.1."""
_ENDS_MS = 4
"""What a round trip takes that no distance explains: inside the two regions, and on the way to the backbone."""
FORMULA = (
    f"round trip in ms = {_ENDS_MS} + 2 x {_STRETCH} x great-circle distance in km / {_FIBRE_KM_PER_MS} km per ms, "
    "from the coordinates of the regions' cities; an estimate, not a measurement"
)


def distance_m(one: KnownRegion, other: KnownRegion) -> int | None:
    """The great-circle distance in whole metres (haversine); None where the coordinates of either are not known.

    In whole metres, so that the last bits of a float never decide which region is nearer.
    """
    if one.latitude is None or one.longitude is None or other.latitude is None or other.longitude is None:
        return None
    latitude, to_latitude = math.radians(one.latitude), math.radians(other.latitude)
    north, east = to_latitude - latitude, math.radians(other.longitude - one.longitude)
    half = math.sin(north / 2) ** 2 + math.cos(latitude) * math.cos(to_latitude) * math.sin(east / 2) ** 2
    return round(2 * _EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, half))))


def estimated_rtt_ms(metres: int | None) -> int | None:
    """The round trip over that distance as `FORMULA` says, in whole milliseconds; None where it is not known."""
    return None if metres is None else round(_ENDS_MS + 2 * _STRETCH * metres / 1000 / _FIBRE_KM_PER_MS)


def others_nearest_first(origins: Iterable[RegionKey], spec: Spec, world: World) -> tuple[Nearness, ...]:
    """The regions that `fallback=auto` means for these primary ones, the nearest first; none twice.

    They are of the same account, not primary, not excluded, and meet the question's demands on places. They are in the
    country of a primary one of that account, and as it in mainland China or not, unless the question names countries or
    the mainland. Equally near ones come by provider, then by region; one whose distance is not known comes last.
    """
    starts = frozenset(origins)
    left_out = starts | spec.not_regions | (spec.primary_regions or frozenset())
    found = (_nearness(key, starts) for key in _allowed(world.all_regions() - left_out, starts, spec, world))
    return tuple(sorted(found, key=_order))


def _allowed(keys: Iterable[RegionKey], starts: frozenset[RegionKey], spec: Spec, world: World) -> Iterator[RegionKey]:
    """Those where the question may be answered.

    A region that is in no table has the country that its offers state. Where nothing does, it is left out: it could be
    anywhere, and unknown meets no demand.
    """
    demands = place_demands(spec, world.accounts)
    accounts = {provider for provider, _ in starts}
    lands = {_land(_place(key, world)) for key in starts}
    asked = spec.countries is not None or spec.mainland_china is True
    for key in keys:
        place = _place(key, world)
        here = place.provider in accounts if asked else _land(place) in lands
        if here and place.country is not None and all(demand.unmet(place) is None for demand in demands):
            yield key


def _place(key: RegionKey, world: World) -> Place:
    known = known_region(*key)
    country = world.country_of(key)
    return Place(provider=key[0], region=key[1], country=country, mainland_china=mainland_of(country, known))


def _land(place: Place) -> tuple[str, str | None, bool | None]:
    return (place.provider, place.country, place.mainland_china)


def _nearness(key: RegionKey, starts: Iterable[RegionKey]) -> Nearness:
    """Measured from the nearest of the primary regions of its account whose distance is known."""
    measured = [(metres, start) for start in starts if (metres := _between(start, key)) is not None]
    if not measured:
        return Nearness(key)
    metres, origin = min(measured)
    return Nearness(key, origin, metres)


def _between(start: RegionKey, key: RegionKey) -> int | None:
    one, other = known_region(*start), known_region(*key)
    if start[0] != key[0] or one is None or other is None:
        return None
    return distance_m(one, other)


def _order(near: Nearness) -> tuple[bool, int, RegionKey]:
    return (near.distance_m is None, near.distance_m or 0, near.region)
