"""The demands of a question on the machine and on its place: each gives a reason where it is not met, else None."""

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from fractions import Fraction

from catalog.facts import Machine
from catalog.offers import Place
from catalog.spec import Accounts, Spec, number_text
from catalog.units import MIB_PER_GIB
from selector import measures
from selector.reasons import Code, Reason

MachineDemand = Callable[[Machine], Reason | None]
PlaceDemand = Callable[[Place], Reason | None]


def machine_demands(spec: Spec) -> tuple[MachineDemand, ...]:
    """Those that the spec makes, in the order in which their reasons are told."""
    return (*_identity(spec), *_minima(spec), *_features(spec))


def place_demands(spec: Spec, accounts: frozenset[str]) -> tuple[PlaceDemand, ...]:
    """Those that hold in every tier; which tier a place belongs to is `tier_of`'s to say."""
    demands: list[PlaceDemand] = []
    if (providers := spec.providers) is not None:
        demands.append(
            lambda place: None if place.provider in providers else Reason(Code.PROVIDER, f"provider {place.provider}")
        )
    if spec.accounts is Accounts.MINE:
        demands.append(
            lambda place: (
                None if place.provider in accounts else Reason(Code.NO_ACCOUNT, f"no account with {place.provider}")
            )
        )
    if spec.countries is not None or spec.not_countries:
        demands.append(lambda place: _country(place, spec))
    if spec.mainland_china is not None:
        demands.append(lambda place: _flag("mainland_china", place.mainland_china, spec.mainland_china))
    return tuple(demands)


def tier_of(place: Place, spec: Spec) -> int | Reason:
    """0 for a primary place, n for the n-th fallback region, else why it is none."""
    region, zone = (place.provider, place.region), (place.provider, place.region, place.zone_key)
    if region in spec.not_regions or zone in spec.not_zones:
        return Reason(Code.EXCLUDED_PLACE, f"{place.zone or place.region} is excluded by the question")
    here = spec.regions is None or region in spec.regions
    if here and (spec.zones is None or zone in spec.zones):
        return 0
    for tier, regions in enumerate(spec.fallback, start=1):
        if region in regions:
            return tier
    text = "zone unknown" if here and not place.zone_key else f"{place.zone or place.region} is not asked for"
    return Reason(Code.NOT_HERE, text)


def _identity(spec: Spec) -> Iterator[MachineDemand]:
    if (gpus := spec.gpus) is not None:
        yield (
            lambda machine: (
                None if machine.gpu in gpus else Reason(Code.GPU, f"gpu {machine.gpu or 'unknown'} is not asked for")
            )
        )
    if spec.instance_types or spec.not_instance_types:
        yield _named(spec)
    if spec.counts:
        yield lambda machine: _count(machine, spec)
    if (vendors := spec.vendors) is not None:
        yield lambda machine: None if _vendor(machine) in vendors else Reason(Code.VENDOR, f"vendor {_vendor(machine)}")
    yield (
        lambda machine: None if machine.hosting in spec.hosting else Reason(Code.HOSTING, f"hosting {machine.hosting}")
    )


def _minima(spec: Spec) -> Iterator[MachineDemand]:
    asked = (
        ("vram", spec.min_vram_mib, MIB_PER_GIB, measures.vram_gib),
        ("total_vram", spec.min_total_vram_mib, MIB_PER_GIB, measures.total_vram_gib),
        ("tflops", spec.min_tflops, 1, measures.tflops),
        ("bandwidth", spec.min_bandwidth_gbs, 1, measures.bandwidth_gbs),
        ("vcpus", spec.min_vcpus, 1, measures.vcpus),
        ("vcpus_per_gpu", spec.min_vcpus_per_gpu, 1, measures.vcpus_per_gpu),
        ("memory", spec.min_memory_mib, MIB_PER_GIB, measures.memory_gib),
        ("memory_per_vcpu", spec.min_memory_mib_per_vcpu, MIB_PER_GIB, measures.memory_gib_per_vcpu),
        ("memory_per_vram", spec.min_memory_per_vram, 1, measures.memory_per_vram),
    )
    return (_at_least(name, least / unit, measure) for name, least, unit, measure in asked if least is not None)


def _at_least(name: str, least: Fraction, measure: Callable[[Machine], Fraction | None]) -> MachineDemand:
    def demand(machine: Machine) -> Reason | None:
        value = measure(machine)
        if value is None:
            return Reason(Code(f"{name}_unknown"), f"{name} unknown")
        if value >= least:
            return None
        return Reason(Code(f"{name}_too_small"), f"{name} {number_text(value)} < {number_text(least)}")

    return demand


def _features(spec: Spec) -> Iterator[MachineDemand]:
    if spec.nvlink is not None:
        yield lambda machine: _flag("nvlink", measures.nvlink(machine), spec.nvlink)
    if spec.rdma is not None:
        yield lambda machine: _flag("rdma", machine.rdma, spec.rdma)
    if spec.bare_metal is not None:
        yield lambda machine: _flag("bare_metal", machine.bare_metal, spec.bare_metal)


def _named(spec: Spec) -> MachineDemand:
    wanted = [re.compile(translate(glob)) for glob in spec.instance_types]
    unwanted = [re.compile(translate(glob)) for glob in spec.not_instance_types]

    def demand(machine: Machine) -> Reason | None:
        name = machine.instance_type.casefold()
        fits = not wanted or any(glob.match(name) for glob in wanted)
        fits = fits and not any(glob.match(name) for glob in unwanted)
        return None if fits else Reason(Code.INSTANCE_TYPE, f"instance_type {machine.instance_type} is not asked for")

    return demand


def _count(machine: Machine, spec: Spec) -> Reason | None:
    count = machine.gpu_count
    if count is None:
        return Reason(Code.GPU_COUNT_UNKNOWN, "gpu_count unknown")
    fits = any(asked.holds(count) for asked in spec.counts)
    if fits:
        return None
    asked = " or ".join(map(str, spec.counts))
    return Reason(Code.GPU_COUNT, f"gpu_count {number_text(count)} is not {asked}")


def _vendor(machine: Machine) -> str:
    row = measures.accelerator_of(machine)
    return "unknown" if row is None else row.vendor


def _country(place: Place, spec: Spec) -> Reason | None:
    if place.country is None:
        return Reason(Code.COUNTRY_UNKNOWN, "country unknown")
    fits = (spec.countries is None or place.country in spec.countries) and place.country not in spec.not_countries
    return None if fits else Reason(Code.COUNTRY, f"country {place.country}")


def _flag(name: str, value: bool | None, wanted: bool | None) -> Reason | None:
    if value is None:
        return Reason(Code(f"{name}_unknown"), f"{name} unknown")
    return None if value is wanted else Reason(Code(name), f"{name} {'true' if value else 'false'}")
