"""The current offers, as an evaluator of watches needs them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from catalog.spec import RegionKey, Spec
from selector.context import Context
from selector.index import Index
from selector.question import World
from selector.ranking import Match
from store.status import ProviderStatus


class Known(Protocol):
    """What is known at one moment beside the offers."""

    @property
    def world(self) -> World:
        """What the names of a question mean."""

    @property
    def providers(self) -> Sequence[ProviderStatus]:
        """How the feeds do."""

    @property
    def error(self) -> str | None:
        """Why the last attempt to read failed; None where it did not."""


class Market(Protocol):
    """The current offers."""

    @property
    def index(self) -> Index:
        """All of them."""

    @property
    def view(self) -> Known:
        """What is known beside them."""

    def refresh(self, now: datetime) -> None:
        """Read what changed; what fails is in `view.error`."""

    def replaced(self) -> set[RegionKey]:
        """The regions whose offers were read anew since this was last asked."""

    def context(self, now: datetime) -> Context:
        """What an answer at this time depends on beside the offers."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the evaluator sees the market. `defaults` are the operator's, of the parameters of a question."""

    market: Callable[[], Market]
    """Makes one: it is read whole, so nobody does who has nothing to evaluate."""
    offer_json: Callable[[Match, Spec, Context], dict[str, object]]
    """OFFER, as the answers show it."""
    defaults: Mapping[str, str] = field(default_factory=dict)
