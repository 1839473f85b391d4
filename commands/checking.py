"""Settings against what exists: defaults as the selector understands them, regions as far as regions are known."""

from collections.abc import Iterator
from dataclasses import replace

import structlog

from catalog.places import known_regions, regions_of
from selector.question import BadQuestion, World, understand
from selector.values import alike
from selector.where import AUTO, regions_named
from settings import Settings


def problems(loaded: Settings, world: World) -> list[str]:
    """A sentence for each setting that no question could be answered with. A region that may yet turn up is logged."""
    return [*_defaults(loaded, world), *_fallback(loaded, world)]


def warn_of_regions(loaded: Settings, world: World) -> None:
    """Log the regions to poll that are in no list: a misspelling, or newer than the list."""
    for provider, own in loaded.providers.items():
        known = {region for owner, region in world.all_regions() if owner == provider}
        for region in own.regions:
            if known and region not in known:
                structlog.get_logger().warning(
                    "region not known here, polled all the same",
                    setting=f"GPUFARE_PROVIDERS__{provider.upper()}__REGIONS",
                    region=region,
                    did_you_mean=", ".join(alike(region, known)) or None,
                )


def _defaults(loaded: Settings, world: World) -> Iterator[str]:
    try:
        understand({}, world, loaded.defaults, endpoint="cheapest")
    except BadQuestion as error:
        yield f"GPUFARE_DEFAULTS__{error.parameter.upper()}: {_with_near(error)}"


def _fallback(loaded: Settings, world: World) -> Iterator[str]:
    """What no region is called. Those of a provider that is switched off are regions: they are left out of answers."""
    world = replace(world, providers=world.providers | {provider for provider, _ in known_regions()})
    for primary, regions in loaded.fallback.items():
        setting = f"GPUFARE_FALLBACK__{primary.upper().replace('-', '_')}"
        wrong = [*_not_a_code(primary, world), *(said for name in regions for said in _not_a_place(name, world))]
        for said in wrong:
            if _all_regions_known(loaded, world):
                yield f"{setting}: {said}"
            else:
                structlog.get_logger().warning("region not known yet", setting=setting, reason=said)


def _not_a_code(primary: str, world: World) -> Iterator[str]:
    """The list is looked up by the region's code: a city, glob or `provider:region` would never be found."""
    codes = {region.casefold() for _, region in world.all_regions()}
    if primary.casefold().replace("_", "-") not in codes:
        near = alike(primary, codes)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        yield f"{primary} is not the code of a region here.{hint}"


def _not_a_place(name: str, world: World) -> Iterator[str]:
    if name.casefold() == AUTO:
        return
    try:
        regions_named("fallback", name, world)
    except BadQuestion as error:
        yield _with_near(error)


def _all_regions_known(loaded: Settings, world: World) -> bool:
    """Whether each provider that is on has regions in the table of places, or was polled for them."""
    listed = {provider for provider, _ in regions_of(world.providers).keys() | world.regions}
    return all(name in listed for name in loaded.names() if loaded.enabled(name))


def _with_near(error: BadQuestion) -> str:
    near = [name for name in error.did_you_mean if name not in str(error)]
    return f"{error} Did you mean {' or '.join(near)}?" if near else str(error)
