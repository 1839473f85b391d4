"""Demands of one question that nothing could meet together: refused, since an empty answer would not say so."""

from collections.abc import Iterable

from catalog.accelerators import accelerators
from catalog.places import known_region, mainland_of
from catalog.spec import RegionKey, Spec
from selector.asked import Asked, contradiction
from selector.where import World


def refuse_contradictions(spec: Spec, asked: Asked, world: World) -> None:
    """Raise `BadQuestion`, naming both, where what is known of models, regions and countries rules out any answer."""
    if not _may_be_made_by(spec):
        contradiction("vendor", asked, "gpu")
    if not _may_be_mainland(spec):
        contradiction("country", asked, "mainland_china")
    if spec.primary_regions is None:
        return
    place = "region" if spec.regions is not None else "zone"
    every = [*spec.primary_regions, *(key for tier in spec.fallback for key in tier)]
    if spec.providers is not None and not any(provider in spec.providers for provider, _ in every):
        contradiction(place, asked, "provider")
    if not _may_be_in_country(spec, every, world):
        contradiction(place, asked, "country")
    if not _may_be_in_or_out_of_the_mainland(spec, every, world):
        contradiction(place, asked, "mainland_china")
    if spec.zones is not None and all(key in spec.not_regions for key in every):
        contradiction("zone", asked, "region")


def _may_be_made_by(spec: Spec) -> bool:
    if spec.vendors is None or spec.gpus is None:
        return True
    return any(accelerators()[gpu].vendor in spec.vendors for gpu in spec.gpus)


def _may_be_mainland(spec: Spec) -> bool:
    if spec.mainland_china is None or spec.countries is None:
        return True
    return any(mainland_of(country, None) is spec.mainland_china for country in spec.countries)


def _may_be_in_country(spec: Spec, regions: Iterable[RegionKey], world: World) -> bool:
    """Whether a region may be in a country that is asked for; one whose country is not known may be in any."""
    countries = {world.country_of(region) for region in regions}
    return any(country is None or spec.allows_country(country) for country in countries)


def _may_be_in_or_out_of_the_mainland(spec: Spec, regions: Iterable[RegionKey], world: World) -> bool:
    flags = {mainland_of(world.country_of(region), known_region(*region)) for region in regions}
    return spec.mainland_china is None or spec.mainland_china in flags or None in flags
