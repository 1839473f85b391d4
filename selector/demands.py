"""The demands of a question on the machine and on its place: each says by a code that it is not met, and tells why."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from fractions import Fraction
from typing import Generic, TypeVar

from catalog.compliance import tags_of
from catalog.facts import Machine
from catalog.offers import Place
from catalog.partitions import Account, holds, partition
from catalog.spec import Accounts, Spec, number_text
from catalog.units import MIB_PER_GIB
from catalog.words import Hosting
from selector import measures
from selector.reasons import Code, Reason

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Demand(Generic[_T]):
    """One demand. The text is made only where it is shown, which is of few of the things that are looked at."""

    unmet: Callable[[_T], Code | None]
    """The code of the reason why a thing does not meet it, else None."""
    text: Callable[[_T], str]
    """That reason for a person, of a thing that does not meet it."""
    on_name: bool = False
    """Whether it reads nothing but the machine's name, and no other demand does."""

    def reason(self, thing: _T) -> Reason | None:
        """Why the thing does not meet it, else None."""
        code = self.unmet(thing)
        if code is None:
            return None
        return Reason(code, f"{code.removesuffix('_unknown')} unknown" if code.tells_unknown else self.text(thing))


MachineDemand = Demand[Machine]
PlaceDemand = Demand[Place]


def machine_demands(spec: Spec) -> tuple[MachineDemand, ...]:
    """Those that the spec makes, in the order in which their reasons are told."""
    return (*_identity(spec), *_minima(spec), *_features(spec))


def place_demands(spec: Spec, accounts: frozenset[Account]) -> tuple[PlaceDemand, ...]:
    """Those that hold in every tier; which tier a place belongs to is `tier_of`'s to say."""
    demands: list[PlaceDemand] = []
    if (providers := spec.providers) is not None:
        demands.append(_among(Code.PROVIDER, lambda place: place.provider, providers))
    if spec.accounts is Accounts.MINE:
        demands.append(_mine(accounts))
    if spec.countries is not None or spec.not_countries:
        demands.append(_country(spec))
    if spec.compliance is not None or spec.not_compliance:
        demands.append(_certified(spec))
    if spec.mainland_china is not None:
        demands.append(_flag("mainland_china", lambda place: place.mainland_china, spec.mainland_china))
    return tuple(demands)


def _mine(accounts: frozenset[Account]) -> PlaceDemand:
    def text(place: Place) -> str:
        other = holds(accounts, place.provider, "")
        return f"no account with {place.provider}" + (f" in {partition(place.provider, place.region)}" if other else "")

    return Demand(lambda place: None if holds(accounts, place.provider, place.region) else Code.NO_ACCOUNT, text)


def tier_of(place: Place, spec: Spec) -> int | Code:
    """0 for a primary place, n for the n-th fallback region, else the code of the reason why it is none."""
    region = (place.provider, place.region)
    if region in spec.not_regions or (spec.not_zones and (*region, place.zone_key) in spec.not_zones):
        return Code.EXCLUDED_PLACE
    here = spec.regions is None or region in spec.regions
    if here and (spec.zones is None or (*region, place.zone_key) in spec.zones):
        return 0
    for tier, regions in enumerate(spec.fallback, start=1):
        if region in regions:
            return tier
    return Code.NOT_HERE


def no_tier(place: Place, code: Code, spec: Spec) -> Reason:
    """The reason of a place that `tier_of` gives this code."""
    if code is Code.EXCLUDED_PLACE:
        return Reason(code, f"{place.finest} is excluded by the question")
    here = spec.regions is None or (place.provider, place.region) in spec.regions
    text = "zone unknown" if here and not place.zone_key else f"{place.finest} is not asked for"
    return Reason(code, text)


def _among(code: Code, value_of: Callable[[_T], str], names: frozenset[str]) -> Demand[_T]:
    return Demand(lambda thing: None if value_of(thing) in names else code, lambda thing: f"{code} {value_of(thing)}")


def _identity(spec: Spec) -> Iterator[MachineDemand]:
    if (gpus := spec.gpus) is not None:
        yield Demand(
            lambda machine: None if machine.gpu in gpus else Code.GPU,
            lambda machine: f"gpu {machine.gpu or 'unknown'} is not asked for",
        )
    if spec.instance_types or spec.not_instance_types:
        yield _named(spec)
    if spec.counts:
        yield _count(spec)
    if (vendors := spec.vendors) is not None:
        yield _among(Code.VENDOR, _vendor, vendors)
    yield _among(Code.HOSTING, lambda machine: machine.hosting, frozenset(spec.hosting))


MINIMA: Mapping[str, Callable[[Machine], Fraction | None]] = {
    "vram": measures.vram_gib,
    "total_vram": measures.total_vram_gib,
    "tflops": measures.tflops,
    "bandwidth": measures.bandwidth_gbs,
    "vcpus": measures.vcpus,
    "vcpus_per_gpu": measures.vcpus_per_gpu,
    "memory": measures.memory_gib,
    "memory_per_vcpu": measures.memory_gib_per_vcpu,
    "memory_per_vram": measures.memory_per_vram,
}
"""What a parameter `min_…` asks of a machine, in that parameter's own unit."""


def _minima(spec: Spec) -> Iterator[MachineDemand]:
    asked = {
        "vram": _gib(spec.min_vram_mib),
        "total_vram": _gib(spec.min_total_vram_mib),
        "tflops": spec.min_tflops,
        "bandwidth": spec.min_bandwidth_gbs,
        "vcpus": spec.min_vcpus,
        "vcpus_per_gpu": spec.min_vcpus_per_gpu,
        "memory": _gib(spec.min_memory_mib),
        "memory_per_vcpu": _gib(spec.min_memory_mib_per_vcpu),
        "memory_per_vram": spec.min_memory_per_vram,
    }
    return (_at_least(name, least, MINIMA[name]) for name, least in asked.items() if least is not None)


def _gib(mib: Fraction | None) -> Fraction | None:
    return None if mib is None else mib / MIB_PER_GIB


def _at_least(name: str, least: Fraction, measure: Callable[[Machine], Fraction | None]) -> MachineDemand:
    unknown, too_small = Code(f"{name}_unknown"), Code(f"{name}_too_small")

    def unmet(machine: Machine) -> Code | None:
        value = measure(machine)
        if value is None:
            return unknown
        return None if value >= least else too_small

    return Demand(
        unmet, lambda machine: f"{name} {number_text(measure(machine) or Fraction(0))} < {number_text(least)}"
    )


def _features(spec: Spec) -> Iterator[MachineDemand]:
    if spec.nvlink is not None:
        yield _flag("nvlink", measures.nvlink, spec.nvlink)
    if spec.rdma is not None:
        yield _flag("rdma", lambda machine: machine.rdma, spec.rdma)
    if spec.bare_metal is not None:
        yield _flag("bare_metal", lambda machine: machine.bare_metal, spec.bare_metal)


def _named(spec: Spec) -> MachineDemand:
    wanted = [re.compile(translate(glob)) for glob in spec.instance_types]
    unwanted = [re.compile(translate(glob)) for glob in spec.not_instance_types]

    def unmet(machine: Machine) -> Code | None:
        name = machine.instance_type.casefold()
        fits = not wanted or any(glob.match(name) for glob in wanted)
        return None if fits and not any(glob.match(name) for glob in unwanted) else Code.INSTANCE_TYPE

    return Demand(unmet, lambda machine: f"instance_type {machine.instance_type} is not asked for", on_name=True)


def _count(spec: Spec) -> MachineDemand:
    known: dict[tuple[int, int], bool] = {}

    def unmet(machine: Machine) -> Code | None:
        count = machine.gpu_count
        if count is None:
            return Code.GPU_COUNT_UNKNOWN
        ratio = count.as_integer_ratio()
        if ratio not in known:  # most machines have one of a few counts, and fractions compare slowly
            known[ratio] = any(asked.holds(count) for asked in spec.counts)
        return None if known[ratio] else Code.GPU_COUNT

    def text(machine: Machine) -> str:
        return f"gpu_count {number_text(machine.gpu_count or Fraction(0))} is not {' or '.join(map(str, spec.counts))}"

    return Demand(unmet, text)


def _vendor(machine: Machine) -> str:
    row = measures.accelerator_of(machine)
    return "unknown" if row is None else row.vendor


def _certified(spec: Spec) -> PlaceDemand:
    """Any of the tags, of the provider's own data centres there, and none that is excluded; unstated is not had."""
    wanted, unwanted = spec.compliance, spec.not_compliance

    def unmet(place: Place) -> Code | None:
        tags = tags_of(place.provider, place.region, Hosting.DATACENTER)
        return None if (wanted is None or tags & wanted) and not tags & unwanted else Code.COMPLIANCE

    def text(place: Place) -> str:
        had = tags_of(place.provider, place.region, Hosting.DATACENTER) & unwanted
        if had:
            return f"{' and '.join(sorted(had))} of {place.region} is excluded by the question"
        return f"{' or '.join(sorted(wanted or ()))} is not stated of {place.region}"

    return Demand(unmet, text)


def _country(spec: Spec) -> PlaceDemand:
    def unmet(place: Place) -> Code | None:
        if place.country is None:
            return Code.COUNTRY_UNKNOWN
        return None if spec.allows_country(place.country) else Code.COUNTRY

    return Demand(unmet, lambda place: f"country {place.country}")


def _flag(name: str, value_of: Callable[[_T], bool | None], wanted: bool) -> Demand[_T]:
    unknown, other = Code(f"{name}_unknown"), Code(name)

    def unmet(thing: _T) -> Code | None:
        value = value_of(thing)
        if value is None:
            return unknown
        return None if value is wanted else other

    return Demand(unmet, lambda thing: f"{name} {'true' if value_of(thing) else 'false'}")
