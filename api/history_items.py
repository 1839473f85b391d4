"""Which histories a question means: of offers as they stand, and of machines that are gone. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.facts import Machine
from catalog.offers import Offer, Place
from catalog.spec import RegionKey, Spec
from catalog.words import Purchase
from selector.question import World
from selector.why_not import Reasons
from store.history import MachineKey, PastMachine, Series, Source

Zone = tuple[str, str, str | None, str | None]
"""(provider, region, zone name, zone id)."""
_Sold = tuple[MachineKey, Purchase]
_Named = tuple[MachineKey, str, Purchase]
"""A machine, the key of its zone, a purchase."""


@dataclass(frozen=True, slots=True)
class Item:
    """One history: what several cells may state of a machine at a place under a purchase."""

    place: Place
    machine: Machine
    purchase: Purchase
    sources: Sequence[Source]

    def sort_key(self) -> tuple[str, ...]:
        """Provider, region, zone, machine; then the purchase, and the zone's id, so that nothing ever ties."""
        place = self.place
        names = (place.provider, place.region, place.zone or "", self.machine.instance_type)
        return (*names, self.purchase, place.zone_id or "")


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines that a question means, each with its region. `here`: those with an offer in a zone asked for."""

    known: Mapping[MachineKey, tuple[Place, Machine]]
    present: frozenset[MachineKey]
    here: frozenset[_Sold]


def world_of_the_past(world: World, past: Iterable[PastMachine], zones: Iterable[Zone]) -> World:
    """What exists or existed, so that what is gone can be asked for by name."""
    gone = list(past)
    return replace(
        world,
        regions=world.regions | {(one.place.provider, one.place.region) for one in gone},
        zones=world.zones | frozenset(zones),
        countries=world.countries | {one.place.country for one in gone if one.place.country},
        machines={one.machine.instance_type.casefold(): one.machine.instance_type for one in gone}
        | dict(world.machines),
    )


def machines_of(offers: Iterable[Offer], past: Iterable[PastMachine], spec: Spec, reasons: Reasons) -> Machines:
    """The machines that meet the demands on machines. Of one that came back, what is offered now is believed."""
    known: dict[MachineKey, tuple[Place, Machine]] = {}
    present: set[MachineKey] = set()
    here: set[_Sold] = set()
    for offer in offers:
        key = _key(offer.place, offer.machine)
        if key not in present:
            present.add(key)
            if _fits(offer.machine, reasons):
                known[key] = (replace(offer.place, zone=None, zone_id=None), offer.machine)
        if spec.zones is not None and key in known and (*key[:2], offer.place.zone_key) in spec.zones:
            here.add((key, offer.purchase))
    for one in past:
        key = _key(one.place, one.machine)
        if key not in present and _fits(one.machine, reasons):
            known[key] = (one.place, one.machine)
    return Machines(known, frozenset(present), frozenset(here))


def _fits(machine: Machine, reasons: Reasons) -> bool:
    return reasons.fits(machine) and reasons.fits_by_name(machine)


def _key(place: Place, machine: Machine) -> MachineKey:
    return (place.provider, place.region, machine.instance_type)


def items_of(
    found: Iterable[Series], machines: Machines, zones: Iterable[Zone], spec: Spec, reasons: Reasons
) -> list[Item]:
    """The histories at the places and under the purchases asked for, in order.

    A region's history is shown for a zone asked for that has none of its own.
    """
    bought = [one for one in found if spec.purchases is None or one.purchase in spec.purchases]
    places = _Places(
        [*zones, *((one.provider, one.region, one.zone, one.zone_id) for one in bought)], machines, reasons
    )
    grouped: dict[_Named, list[Series]] = defaultdict(list)
    for one in bought:
        grouped[one.machine_key, places.zone_key(one), one.purchase].append(one)
    shown = (
        Item(places[key, zone], machines.known[key][1], purchase, sorted(one.source for one in some))
        for (key, zone, purchase), some in grouped.items()
        if places.asked(key, zone) or (not zone and _serves((key, purchase), grouped.keys(), machines, places, spec))
    )
    return sorted(shown, key=Item.sort_key)


def _serves(sold: _Sold, named: Collection[_Named], machines: Machines, places: "_Places", spec: Spec) -> bool:
    """Whether a region's history is that of a zone asked for: the zone has none of its own, and sold the machine."""
    key, purchase = sold
    if key in machines.present and sold not in machines.here:
        return False
    asked = (zone for provider, region, zone in spec.zones or () if (provider, region) == key[:2])
    return any(places.asked(key, zone) and (key, zone, purchase) not in named for zone in asked)


class _ZoneNames:
    """One key for each zone, its id where it has one, whether it is named by id or by name."""

    def __init__(self, zones: Iterable[Zone]) -> None:
        ids: dict[tuple[RegionKey, str], set[str]] = defaultdict(set)
        self._names: dict[tuple[RegionKey, str], str] = {}
        for provider, region, zone, zone_id in sorted(zones, key=repr):
            if zone and zone_id:
                ids[(provider, region), zone].add(zone_id)
                self._names[(provider, region), zone_id] = zone
            elif zone_id:
                self._names.setdefault(((provider, region), zone_id), "")
        self._ids = {key: found.pop() for key, found in ids.items() if len(found) == 1}

    def key(self, one: Series) -> str:
        """The key of the zone that a series is of; "" for the region itself."""
        here = (one.provider, one.region)
        return one.zone_id or self._ids.get((here, one.zone or "")) or one.zone or ""

    def at(self, region: Place, key: str) -> Place:
        """The place of a zone's key."""
        if not key:
            return region
        name = self._names.get(((region.provider, region.region), key))
        return replace(region, zone=key) if name is None else replace(region, zone=name or None, zone_id=key)


class _Places(dict[tuple[MachineKey, str], Place]):
    """(machine, zone key) -> its place."""

    def __init__(self, zones: Iterable[Zone], machines: Machines, reasons: Reasons) -> None:
        self._names = _ZoneNames(zones)
        self._machines = machines
        self._reasons = reasons
        self._asked: dict[tuple[RegionKey, str], bool] = {}

    def zone_key(self, one: Series) -> str:
        """The key of the zone that a series is of; "" for the region itself."""
        return self._names.key(one)

    def asked(self, key: MachineKey, zone: str) -> bool:
        """Whether the zone is at a place that the question means."""
        here = (key[:2], zone)
        if here not in self._asked:
            self._asked[here] = self._reasons.tier(self[key, zone]) >= 0
        return self._asked[here]

    def __missing__(self, key: tuple[MachineKey, str]) -> Place:
        self[key] = self._names.at(self._machines.known[key[0]][0], key[1])
        return self[key]
