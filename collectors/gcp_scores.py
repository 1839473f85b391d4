"""Google's advice: how likely a spot machine is to be had now, and when capacity may be booked (DWS calendar mode).

Neither is stock, but for a zone in which nothing can be booked: that is out, of this purchase. Asked only where the
settings say so, for a few machine types: an answer is about this project, one machine and this moment. Shapes:
google-cloud-compute 1.57.0, `AdviceClient`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from catalog.facts import Fact, Note, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.base import Cell, Config, Limit, NotServed, Page
from collectors.gcp_api import NAME, Compute
from collectors.gcp_zones import short
from collectors.reading import Record, record_of
from collectors.zones import region_of

SPOT, CALENDAR = "spot", "calendar"
POOLS = {
    SPOT: (
        "a2-highgpu-1g",
        "a2-highgpu-8g",
        "a2-ultragpu-8g",
        "a3-highgpu-8g",
        "a3-megagpu-8g",
        "a4-highgpu-8g",
        "g2-standard-4",
        "g2-standard-48",
        "g4-standard-48",
    ),
    CALENDAR: ("a3-highgpu-8g", "a3-megagpu-8g", "a3-ultragpu-8g", "a4-highgpu-8g"),
}
"""What is asked about. Each costs two calls a region and poll."""
WINDOW = timedelta(days=7)
AHEAD = timedelta(days=28)
"""How long a booking is asked for, and how far ahead it may begin."""
NO_WINDOW = frozenset({"NO_CAPACITY", "CONDITIONS_NOT_MET"})
"""Of a zone that sells the machine so, and in which no such booking can be made: Google says that it is out."""
NOT_SUPPORTED = "NOT_SUPPORTED"
"""Of a zone that does not sell the machine so: no offer, and not one without a window."""
SPEC = "spec"
RIGHTS = {SPOT: "compute.advice.capacity", CALENDAR: "compute.advice.calendarMode"}
METHODS = {SPOT: "capacity", CALENDAR: "calendar_mode"}


@dataclass(frozen=True, slots=True)
class Scores:
    """The obtainability of spot machines by zone, and the next window that may be booked."""

    config: Config
    provider: ClassVar[str] = NAME
    name: ClassVar[str] = "scores"
    every: ClassVar[timedelta] = timedelta(minutes=30)  # Google says that it is about the moment
    fresh_for: ClassVar[timedelta] = timedelta(hours=1)
    absent: ClassVar[Level] = Level.UNKNOWN

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """One for each region, kind of advice and machine type: a type that a region does not sell is off there."""
        parts = [f"{kind} {machine}" for kind, machines in POOLS.items() for machine in machines]
        return [Cell(NAME, self.name, region, part) for region in regions for part in parts]

    def limit(self, cell: Cell) -> Limit:  # noqa: ARG002 - the contract's argument
        """Its own, so that it holds up no list."""
        return Limit(f"{NAME}:advice", 2)

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:  # noqa: ARG002 - no memo
        """One page; the zones to ask about come from the list of regions."""
        kind, machine = cell.part.split(" ")
        compute = Compute(self.config, now)
        asked = _spot(machine, _zones_of(compute, cell.place)) if kind == SPOT else _calendar(machine, now)
        answer = compute.asked("AdviceClient", METHODS[kind], RIGHTS[kind], {"region": cell.place} | asked)
        yield Page(f"{METHODS[kind]} {cell.place} {machine}", answer.body, now, cell.place, cell.part)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """A Stock for each zone that the advice names: out where nothing can be booked, else of unknown level."""
        kind, machine = page.part.split(" ")
        answer = record_of(page)
        for record in answer.records("recommendations"):
            if kind == SPOT:
                yield _score(record, machine, page.place)
            else:
                yield from _windows(record.record("recommendationsPerSpec").record(SPEC), machine, page.place)
            yield from record.leftovers(frozenset())


def _zones_of(compute: Compute, region: str) -> list[str]:
    for answer in compute.listing("RegionsClient", "list", "regions"):
        for record in answer.records("items"):
            if record.text("name") == region:
                return [short(str(zone)) for zone in record.items("zones")]
    raise NotServed(f"{NAME}: the project has no region {region}; asked again in a day")


def _spot(machine: str, zones: Iterable[str]) -> dict[str, Any]:
    wanted = {
        "size": 1,
        "distribution_policy": {
            "target_shape": "ANY_SINGLE_ZONE",
            "zones": [{"zone": f"zones/{zone}"} for zone in zones],
        },
        "instance_properties": {"scheduling": {"provisioning_model": "SPOT"}},
        "instance_flexibility_policy": {"instance_selections": {SPEC: {"machine_types": [machine]}}},
    }
    return {"capacity_advice_request_resource": wanted}


def _calendar(machine: str, now: datetime) -> dict[str, Any]:
    seconds = f"{int(WINDOW.total_seconds())}s"
    wanted = {
        "target_resources": {"specific_sku_resources": {"instance_count": 1, "machine_type": machine}},
        "time_range_spec": {
            "start_time_not_earlier_than": _stamp(now),
            "start_time_not_later_than": _stamp(now + AHEAD),
            "min_duration": seconds,
            "max_duration": seconds,
        },
    }
    return {"calendar_mode_advice_request_resource": {"future_resources_specs": {SPEC: wanted}}}


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _score(record: Record, machine: str, region: str) -> Stock | Note:
    """JSON of Google's may leave a 0 out, so that a missing obtainability says nothing."""
    scores = record.record_or_none("scores") or Record({}, record.where)
    obtainability, uptime = scores.number_or_none("obtainability"), scores.text_or_none("estimatedUptime")
    shards = [record.inside(one, "shards") for one in record.list_or_none("shards") or ()]
    zones = {short(shard.text_or_none("zone") or "") for shard in shards}
    types = {shard.text_or_none("machineType") or machine for shard in shards}
    if len(zones) != 1 or "" in zones or types != {machine}:
        return Note("advice_of_no_single_zone", machine, record=True)
    if region_of(*zones) != region:
        return Note("other_region", f"{machine} in {zones.pop()}", record=True)
    if obtainability is None or not 0 <= obtainability <= 1:
        return Note("no_score", machine, record=True)
    return Stock(
        region=region,
        zone=zones.pop(),
        instance_type=machine,
        purchases=frozenset({Purchase.SPOT}),
        level=Level.UNKNOWN,
        evidence=Evidence.SCORED,
        detail=f"obtainability of one; estimated uptime {uptime}" if uptime else "obtainability of one",
        score=format(obtainability, "f"),
    )


def _windows(advice: Record, machine: str, region: str) -> Iterator[Stock | Note]:
    """The zone that is recommended with its window, the others with Google's word on why they are not."""
    place, begin, end = (advice.text_or_none(name) for name in ("location", "startTime", "endTime"))
    if place and region_of(short(place)) != region:
        yield Note("other_region", f"{machine} in {short(place)}", record=True)
    elif place and begin and end:
        yield _window(region, place, machine, f"RECOMMENDED {begin} to {end}")
    else:
        yield Note("no_window", machine)
    others = advice.raw("otherLocations", {})
    if not isinstance(others, dict):
        raise advice.drift("otherLocations is no object")
    for zone, value in others.items():
        told = advice.inside(value, zone)
        status = told.text_or_none("status") or ""
        if region_of(short(zone)) != region:
            yield Note("other_region", f"{machine} in {short(zone)}", record=True)
        elif status == NOT_SUPPORTED:
            yield Note("no_calendar_mode", f"{machine} {short(zone)}")
        else:
            yield _window(region, zone, machine, status)
        yield from told.leftovers(frozenset({"details"}))
    yield from advice.leftovers(frozenset({"recommendationId", "recommendationType"}))


def _window(region: str, place: str, machine: str, said: str) -> Stock:
    """A dated window is no stock now: shown, level unknown. That there is none is told of this purchase alone."""
    is_out = said in NO_WINDOW
    return Stock(
        region=region,
        zone=short(place),
        instance_type=machine,
        purchases=frozenset({Purchase.CAPACITY_BLOCK}),
        level=Level.OUT if is_out else Level.UNKNOWN,
        evidence=Evidence.REPORTED if is_out else Evidence.LISTED,
        detail=f"calendar mode, 7 days: {said}",
    )
