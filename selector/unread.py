"""Where a question could be answered and no source was read: there, nothing found is no finding."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from catalog.offers import Place
from catalog.places import known_region
from catalog.spec import RegionKey, Spec
from selector.context import Context
from selector.demands import PlaceDemand, place_demands
from selector.ranking import OffPlace
from selector.reasons import Code

_LEFT_OPEN = frozenset({Code.COUNTRY_UNKNOWN, Code.MAINLAND_CHINA_UNKNOWN})


class Silent(NamedTuple):
    """The places of a tier of which no source was read, each sorted."""

    unread: tuple[str, ...]
    """Those to be polled, by name."""
    off: tuple[OffPlace, ...]
    """Those asked for that are not polled."""

    @property
    def any(self) -> bool:
        """Whether there are such places."""
        return bool(self.unread or self.off)


def silent_places(
    spec: Spec, context: Context, regions: frozenset[RegionKey] | None, known: frozenset[RegionKey]
) -> Silent:
    """The places among these regions (None: anywhere) at which the question allows an answer, and of which no source
    was read. `known` are those of which something is.
    """
    if not context.unread and not context.off:
        return Silent((), ())
    demands = place_demands(spec, context.accounts)
    here = None if regions is None else {key for key in regions if _allowed(key, spec, demands)}
    whole = {(provider, "") for provider, place in context.unread if not place}
    unread = (
        name
        for key in context.unread
        if (key in whole or (key[0], "") not in whole) and _allowed(key, spec, demands)
        for name in _names(key, here)
    )
    asked = frozenset((name, "") for name in spec.provider_names) if regions is None else regions
    return Silent(tuple(sorted(set(unread))), tuple(sorted(_off(asked, spec, context, known))))


def _off(asked: Iterable[RegionKey], spec: Spec, context: Context, known: frozenset[RegionKey]) -> Iterable[OffPlace]:
    """Of the places that the question names: where none is restricted, those that can be read answer for all.

    A provider that is off has no account here. Under `accounts=mine` it counts where it is all that is asked for.
    """
    off = [key for key in asked if key[0] in context.off and not _is_known(key, known)]
    if not off:
        return ()
    demands = place_demands(spec, context.accounts)
    mine = any(_allowed(key, spec, demands) for key in asked)
    found = (key for key in off if _allowed(key, spec, demands, but=() if mine else (Code.NO_ACCOUNT,)))
    return (OffPlace(*key, context.off[key[0]]) for key in found)


def _is_known(key: RegionKey, known: frozenset[RegionKey]) -> bool:
    """Of a provider as a whole anything that is known of it counts."""
    provider, region = key
    if not region:
        return any(owner == provider for owner, _ in known)
    return key in known or (provider, "") in known


def _allowed(key: RegionKey, spec: Spec, demands: Iterable[PlaceDemand], but: Collection[Code] = ()) -> bool:
    known = known_region(*key)
    country, mainland = (None, None) if known is None else (known.country, known.mainland_china)
    place = Place(provider=key[0], region=key[1], country=country, mainland_china=mainland)
    against = (demand.unmet(place) for demand in demands)
    return key not in spec.not_regions and all(code is None or code in _LEFT_OPEN or code in but for code in against)


def _names(key: RegionKey, asked: Collection[RegionKey] | None) -> Iterable[str]:
    """A provider of which nothing was read is named by the regions asked for, or by itself where none are."""
    provider, place = key
    if asked is None:
        return (f"{provider} {place}".strip(),)
    return (region for owner, region in asked if owner == provider and place in ("", region))
