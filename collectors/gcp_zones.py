"""What Compute Engine lists in every zone, asked for all zones at once: machine types and accelerator types."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from collectors.base import Config, Drift
from collectors.gcp_api import Compute
from collectors.gcp_machine import HOSTS
from collectors.reading import JsonValue, Record
from collectors.zones import region_of

EMPTY = "NO_RESULTS_ON_PAGE"
"""The one warning that says nothing is wrong: a zone's list may be on another page, or it sells none."""
LISTS = {"machineTypes": "MachineTypesClient", "acceleratorTypes": "AcceleratorTypesClient"}
"""Resource, which is also the name of a zone's list, and the SDK's client."""


def short(path: str) -> str:
    """`us-central1-a` of `zones/us-central1-a`, or of a whole address."""
    return path.rstrip("/").rpartition("/")[2]


@dataclass(slots=True)
class Zones:
    """Zone -> list -> records as they came; what could not be told; how many machine types have no accelerator."""

    lists: dict[str, dict[str, list[JsonValue]]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    skipped: int = 0

    @classmethod
    def asked(cls, config: Config, now: datetime) -> Self:
        """Both lists of the whole project. Drift where no zone has any machine, which no whole answer says."""
        zones, compute = cls(), Compute(config, now)
        for listed, client in LISTS.items():
            for answer in compute.listing(client, "aggregated_list", listed):
                zones._read(answer, listed)
            if listed == "machineTypes" and not any(lists.get(listed) for lists in zones.lists.values()):
                raise Drift("gcp: no zone lists any machine type with an accelerator, which no whole answer says")
        return zones

    def _read(self, answer: Record, listed: str) -> None:
        items = answer.raw("items", None)
        if not isinstance(items, dict):
            raise answer.drift("items is missing, or no object")
        for place in answer.list_or_none("unreachables") or ():
            self.faults[short(str(place))] = "unreachable"
        for scope, value in items.items():
            zone, record = short(scope), answer.inside(value, scope)
            warning = record.record_or_none("warning")
            code = warning.text_or_none("code") if warning else None
            if code not in (None, EMPTY):
                self.faults[zone] = str(code)
            found = record.list_or_none(listed) or []
            kept = [one for one in found if listed != "machineTypes" or _may_have_accelerator(one)]
            self.skipped += len(found) - len(kept)
            self.lists.setdefault(zone, {}).setdefault(listed, []).extend(kept)

    def by_region(self) -> dict[str, list[str]]:
        """Region -> its zones, those that could not be told too."""
        found: dict[str, list[str]] = {}
        for zone in sorted({*self.lists, *self.faults}):
            found.setdefault(region_of(zone), []).append(zone)
        return found

    def missing(self, region: str) -> str:
        """The zones of a region that could not be told, with Google's word; "" where none is missing."""
        return ", ".join(f"{zone}: {said}" for zone, said in sorted(self.faults.items()) if region_of(zone) == region)

    def names(self) -> set[str]:
        """The names of all machine types that were kept."""
        records = (one for zone in self.lists for one in self.of(zone, "machineTypes"))
        return {str(one["name"]) for one in records if isinstance(one, dict) and "name" in one}

    def of(self, zone: str, listed: str) -> list[JsonValue]:
        """A zone's list."""
        return self.lists.get(zone, {}).get(listed, [])


def _may_have_accelerator(record: JsonValue) -> bool:
    """Whether a machine type names accelerators, or takes them. What is no object is left to the reader."""
    if not isinstance(record, dict):
        return True
    return "accelerators" in record or str(record.get("name", "")).startswith(HOSTS) or "name" not in record
