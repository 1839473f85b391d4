"""What a subscription of Azure may not have, and its quotas: restrictions of a resource SKU, and Microsoft.Compute's
usages of the region. Nothing of it is stock: the level is unknown, the evidence that the size is listed.
"""

from collections.abc import Iterator, Sequence

from catalog.facts import Note, Stock
from catalog.words import Evidence, Level, Purchase
from collectors.quotas import Quota, Quotas, restricted
from collectors.reading import JsonValue, Record

DEPLOYED = frozenset(
    {Purchase.ON_DEMAND, Purchase.RESERVED_1Y, Purchase.RESERVED_3Y, Purchase.SAVINGS_1Y, Purchase.SAVINGS_3Y}
)
"""Purchases of one quota: a reservation is a discount on what is deployed on demand."""
SPOT = frozenset({Purchase.SPOT})
NO_SPOT = "not capable of spot"
UNIT = "vCPUs"
_ALL_CORES, _SPOT_CORES = "cores", "lowPriorityCores"


def quotas_of(records: Iterator[Record]) -> Iterator[Quota | Note]:
    """The quotas of a region, and a note for each whose name or limit is not stated."""
    for record in records:
        name = record.record_or_none("name")
        quota = name.text_or_none("value") if name else None
        limit, used = record.unlimited_or_none("limit"), record.unlimited_or_none("currentValue")
        if quota is None or limit is None:
            yield Note("quota_without_limit", quota or "", record=True)
        else:
            yield Quota(quota, UNIT, limit, used)


def texts(values: Sequence[JsonValue] | None) -> Iterator[str]:
    """Those of a list that are texts, and not empty."""
    return (one for one in values or () if isinstance(one, str) and one)


class Account:
    """What is said of a size and this subscription: in the region, by purchase, and in its zones."""

    def __init__(self, region: str, size: str) -> None:
        self._region, self._size = region, size
        self._of_region: dict[Purchase, str] = {}
        self._of_zones: dict[str, str] = {}
        self._understood = True

    def read(self, record: Record) -> Iterator[Note]:
        """What the row says. A missing list of restrictions is not none: it is noted."""
        stated = record.list_or_none("restrictions")
        if stated is None:
            self._understood = False
            yield Note("restrictions_not_stated", self._size)
        for value in stated or ():
            one = record.inside(value, "restrictions")
            kind, reason = one.text_or_none("type"), one.text_or_none("reasonCode") or "no reason stated"
            info = one.record_or_none("restrictionInfo")
            zones = list(texts(info.list_or_none("zones"))) if info else []
            if kind == "Location":
                self.refuse(DEPLOYED | SPOT, reason)
            elif kind == "Zone" and zones:
                self._of_zones |= dict.fromkeys(zones, restricted(reason))
            else:
                self._understood = False
                yield Note("unknown_restriction", f"{self._size}: {kind} {reason}")

    def refuse(self, purchases: frozenset[Purchase], reason: str) -> None:
        """What cannot be had in the whole region. The first reason counts."""
        self._say(purchases, restricted(reason))

    def quotas(self, family: str | None, vcpus: int | None, quotas: Quotas, sold: frozenset[Purchase]) -> None:
        """A quota whose limit is below what one machine takes restricts it; else what is `sold` shows them, unless
        something keeps the subscription from it that was not understood. One that is not known says nothing.
        """
        needed = vcpus or 1
        for names, purchases in (((family, _ALL_CORES), DEPLOYED), ((_SPOT_CORES,), SPOT)):
            known = [quota for name in names if name and (quota := quotas.of(name))]
            for quota in known:
                if not quota.lets(needed):
                    self.refuse(purchases, quota.refusal(needed))
            if known and self._understood:
                self._say(purchases & sold, "; ".join(quota.words for quota in known))

    def _say(self, purchases: frozenset[Purchase], detail: str) -> None:
        for purchase in purchases:
            self._of_region.setdefault(purchase, detail)

    def stocks(self) -> Iterator[Stock]:
        """A Stock for each place and detail."""
        for detail in dict.fromkeys(self._of_region[purchase] for purchase in Purchase if purchase in self._of_region):
            purchases = frozenset(purchase for purchase, said in self._of_region.items() if said == detail)
            yield self._stock(purchases, None, detail)
        for zone, detail in sorted(self._of_zones.items()):
            yield self._stock(DEPLOYED | SPOT, zone, detail)

    def _stock(self, purchases: frozenset[Purchase], zone: str | None, detail: str) -> Stock:
        return Stock(
            region=self._region,
            instance_type=self._size,
            purchases=purchases,
            level=Level.UNKNOWN,
            evidence=Evidence.LISTED,
            zone=zone,
            detail=detail,
        )
