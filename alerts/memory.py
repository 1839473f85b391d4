"""What is remembered of a watch between two looks, and how it is written down."""

from datetime import datetime
from typing import Self

import msgspec

from catalog.watches import OfferKey, State
from catalog.words import Level


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A change of stock that was seen and is not told yet: it must last."""

    since: datetime
    offers: tuple[tuple[OfferKey, datetime], ...]
    """Those that changed, and when each was last seen so as the change began."""
    at_once: str | None = None
    """The provider of which nearly everything changed with it."""


class PriceTold(msgspec.Struct, frozen=True, kw_only=True):
    """The price of the best offer, as it was told last."""

    offer: OfferKey
    nanos: int
    currency: str


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it. A new one has seen nothing."""

    state: State = State.UNKNOWN
    """The last state that was known."""
    since: datetime | None = None
    seen: State = State.UNKNOWN
    """What the last look saw."""
    told: State = State.UNKNOWN
    """What those who are told believe: the first known state, and from then on what was told."""
    told_at: datetime | None = None
    going_out: Pending | None = None
    coming_back: Pending | None = None
    getting_low: Pending | None = None
    low: bool = False
    """Whether low was told, and has been so ever since."""
    had: frozenset[OfferKey] = frozenset()
    """While out is believed: what is in stock all along and did not match by its price. Any other offer that is
    confirmed was out, unseen or not there when out was told, so it brings stock back.
    """
    below: bool | None = None
    """Whether the price was below the limit; None until one was seen."""
    limit: str | None = None
    """The limit that this is about: below another one is no news."""
    price: PriceTold | None = None
    best: OfferKey | None = None
    blind: frozenset[str] = frozenset()
    """Providers that were told to be stale."""
    reminded_at: datetime | None = None
    beat_at: datetime | None = None
    day: str = ""
    """The UTC day that `count` is of."""
    count: int = 0
    held: dict[str, int] = {}
    """Types of events that the daily cap held back, and how many."""
    begun: tuple[tuple[OfferKey, Level], ...] = ()
    """The levels that a new watch's first look saw, until its first evaluation."""
    expired: datetime | None = None
    """The end of the watch that was told."""
    problem: str | None = None
    """Why the watch can no longer be understood."""

    @classmethod
    def read(cls, text: str) -> Self:
        """From what `written` gave. Raises msgspec.DecodeError for anything else."""
        return msgspec.json.decode(text, type=cls)

    def written(self) -> str:
        """As JSON, the same for the same memory."""
        return msgspec.json.encode(self, order="deterministic").decode()
