"""The shapes of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from catalog.fx import Rate
from catalog.offers import Offer
from catalog.spec import Nearness, Spec
from selector.reasons import Reason


class Verdict(StrEnum):
    """What an answer is worth; `docs/selection.md` says when each applies. The first that applies, in this order."""

    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    OUT_OF_STOCK = "out_of_stock"
    STALE = "stale"
    TOO_DEAR = "too_dear"
    NOT_OFFERED_HERE = "not_offered_here"
    NO_SUCH_MACHINE = "no_such_machine"
    NO_SOURCE = "no_source"


@dataclass(frozen=True, slots=True)
class Match:
    """An offer beside its tier and its price in the question's currency (nano-units; None without price or rate)."""

    offer: Offer
    tier: int
    nanos: int | None
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Miss:
    """An offer that is not the answer, and why."""

    offer: Offer
    nanos: int | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A parameter of the question, and what to say there instead; None is to leave it out."""

    parameter: str
    value: str | None

    def __str__(self) -> str:
        return f"without {self.parameter}" if self.value is None else f"with {self.parameter}={self.value}"


@dataclass(frozen=True, slots=True)
class Fix:
    """The one change that would give an answer, and what the question so changed is answered with."""

    change: Change
    match: Match
    spec: Spec
    """What the question so changed means."""


class OffPlace(NamedTuple):
    """A place that nobody asks, and of which nothing is known."""

    provider: str
    place: str
    """The region; "" is all of the provider."""
    reason: str
    """What to set so that it is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A tier's offers that meet every demand but those on stock: `matching` is the sum of the four counts."""

    tier: int
    regions: tuple[str, ...]
    """Codes, sorted; empty where the question names no region, and every place is primary."""
    matching: int
    confirmed: int
    out: int
    unknown: int
    """Fresh, yet neither confirmed nor out."""
    stale: int
    passed_over: Verdict | None
    """Why the answer is not from this tier; None for the one that answered and those after it."""
    about: tuple[str, ...] = ()
    """The regions that `passed_over` is said of, or the zones where these are asked for, sorted: those with the offers
    that are out, too dear, unconfirmed.
    """
    unread: tuple[str, ...] = ()
    """The places of this tier of which a source was not read yet, sorted; told of each tier up to the answer's."""
    off: tuple[OffPlace, ...] = ()
    """The places asked for of which nothing is known, since their provider is off; told of a tier without anything."""
    nearness: Nearness | None = None
    """Of a tier that `fallback=auto` made: how far its region is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The answer to a question. `rejected` and `nearest_misses` are empty unless asked for or nothing was found."""

    verdict: Verdict
    best: Match | None
    unconfirmed: Match | None
    alternatives: tuple[Match, ...]
    tiers: tuple[Tier, ...]
    fallback_used: bool
    rejected: Mapping[str, int]
    nearest_misses: tuple[Miss, ...]
    fix: Fix | None
    """Where nothing was found: the change that gives the best answer. Who says no count is told a count."""
    cheapest_job: Match | None = None
    """Where a job is asked about and its cost is not compared: what would cost less for it than `best`."""
    rates: tuple[Rate, ...]
    """Those that the offers shown were converted at."""
