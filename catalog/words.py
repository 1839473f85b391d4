"""The enumerations: how a machine is bought, what its stock is, why we believe it, who hosts it."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Purchase(StrEnum):
    """How a machine is bought. No purchase inherits another's price or stock."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    MONTH = "month"
    RESERVED_1Y = "reserved_1y"
    RESERVED_3Y = "reserved_3y"
    SAVINGS_1Y = "savings_1y"
    """A commitment for a year to spend so much an hour, on whatever machine."""
    SAVINGS_3Y = "savings_3y"
    CAPACITY_BLOCK = "capacity_block"


TERM_MONTHS: Mapping[Purchase, int] = MappingProxyType(
    {Purchase.MONTH: 1, Purchase.RESERVED_1Y: 12, Purchase.RESERVED_3Y: 36}
)
"""The months of the terms that are paid in advance, wholly or in part. A savings plan is paid by the hour."""


class Level(StrEnum):
    """A stock level, best first. `UNKNOWN` is what we do not know, never a kind of `OUT`."""

    IN_STOCK = "in_stock"
    LOW = "low"
    UNKNOWN = "unknown"
    OUT = "out"


class Evidence(StrEnum):
    """Why a stock level is believed, strongest first."""

    OBSERVED = "observed"
    """A launch attempt told us, until that expires."""
    REPORTED = "reported"
    """The provider states stock."""
    SCORED = "scored"
    """A likelihood: shown, never stock."""
    LISTED = "listed"
    """Sold there; the provider publishes no stock."""
    SNAPSHOT = "snapshot"
    """Shipped or imported data."""

    @property
    def is_stock(self) -> bool:
        """Whether this evidence can say that something is in stock or out."""
        return self in (Evidence.OBSERVED, Evidence.REPORTED)


class Hosting(StrEnum):
    """Who runs the host."""

    DATACENTER = "datacenter"
    COMMUNITY = "community"


LEVELS = tuple(Level)
EVIDENCES = tuple(Evidence)
