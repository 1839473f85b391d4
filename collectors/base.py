"""The contract of a collector: cells, pages, facts, notes and errors.

A cell is what is due, fails and settles alone. `fetch` does all I/O and attaches no meaning; `parse` attaches all
meaning and does no I/O. Retries, limits, schedules, storing and comparing are nobody's business here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from catalog.facts import Fact, Note
from catalog.words import Evidence, Level

PAGE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cell:
    """What one whole answer covers: a provider's feed, at a place, in a part (a charge type, say; "" for most)."""

    provider: str
    feed: str
    place: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer, or at most 4 MiB of one, cut at record boundaries.

    `name` says what it is an answer to, in the collector's own words; `place` and `part` are its cell's.
    `skipped` counts the records dropped by a byte test, by reason.
    """

    name: str
    body: bytes
    at: datetime
    place: str = ""
    part: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    memo: Mapping[str, str] = field(default_factory=dict)
    """What the next fetch of this cell wants to know (an ETag, a cursor); kept only if the whole answer is."""
    missing: str = ""
    """What of the whole this answer lacks, where the provider says so: the answer is then partial."""


class ProviderError(Exception):
    """Something between us and a provider went wrong. The message is for a person and holds no secret."""


class NotConfigured(ProviderError):
    """No credentials or a missing setting: the provider is off, which is no failure. Says what to set."""


class NotServed(ProviderError):
    """This feed is not served at this place, or not to this account: the cell is off, and asked again a day later."""


class AuthFailed(ProviderError):
    """The credentials were refused: the provider pauses until its settings change, and a person is told once."""


class Throttled(ProviderError):
    """Too many calls: the cells that share the limit pause. `retry_after` is what the provider asked for."""

    def __init__(self, message: str, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(ProviderError):
    """Timeout, reset or 5xx: this cell only."""


class Drift(ProviderError):
    """The answer is not as learnt: this cell only, and nothing of it is recorded. `page` is what came, for a report."""

    def __init__(self, message: str, page: Page | None = None) -> None:
        super().__init__(message)
        self.page = page


class Unchanged(Exception):
    """The provider says that nothing changed since the memo: the cell is confirmed as it stands."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How many calls a second a provider takes from all of us, over the cells that share a key."""

    key: str
    per_second: float
    pause_key: str = ""
    """The cells that pause together when one of them is throttled; "" means those that share `key`."""


_before_call: ContextVar[Callable[[], None]] = ContextVar("before_call", default=lambda: None)


def calling() -> None:
    """Said by an adapter right before each call that it makes: a poll waits here for its slot under the limit."""
    _before_call.get()()


@contextmanager
def before_each_call(wait: Callable[[], None]) -> Iterator[None]:
    """Have `wait` run before each call that is made inside the block, in this thread."""
    token = _before_call.set(wait)
    try:
        yield
    finally:
        _before_call.reset(token)


class Feed(Protocol):
    """One thing a provider can be asked: machines, prices, spot, stock, scores or places."""

    @property
    def provider(self) -> str:
        """The provider's name, or its account's."""
        ...

    @property
    def name(self) -> str:
        """Which of its feeds."""
        ...

    @property
    def every(self) -> timedelta:
        """How often it is polled, where the settings do not say."""
        ...

    @property
    def fresh_for(self) -> timedelta:
        """How long a fact of it counts as fresh."""
        ...

    @property
    def absent(self) -> Level:
        """What a whole answer's silence about a machine means: out, or unknown."""
        ...

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        """The cells to poll. `regions` are those the settings name, else those the provider's `places` feed named."""
        ...

    def limit(self, cell: Cell) -> Limit:
        """The limit that the cell's calls come under."""
        ...

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        """All pages of a whole answer. Raises only ProviderError, or Unchanged."""
        ...

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        """What the page states. Raises only Drift."""
        ...


@runtime_checkable
class ByMachine(Protocol):
    """A feed that asks about one machine at a time, and polls those that the provider's other feeds found in stock or
    sold out; its `cells` of regions alone are none.
    """

    def cells_of(self, machines: Mapping[str, Iterable[str]]) -> Iterable[Cell]:
        """The cells to poll, by the instance types of each region. The instance type is a cell's part."""
        ...


@dataclass(frozen=True, slots=True)
class Config:
    """What a provider is built from. Reading it costs nothing; a missing credential shows in `off`, not as an error."""

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where the SDK's own credential variables stand. Never printed."""
    regions: tuple[str, ...] = ()
    """The regions that the settings name; empty means all that the account has."""
    site: str | None = None
    """`cn` or `intl`, where a provider has two. Decides the currency; never guessed."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Service -> scheme, host and port, instead of the public ones."""
    timeout: timedelta = timedelta(seconds=30)
    """How long a call may take in all before it counts as unavailable: connecting, waiting, and the whole body.

    Checked whenever bytes come, and no wait for some is longer, so that at worst a call takes twice as long. One
    exception: a price list is tens of MB. It may take five minutes, and this is the longest wait for its next bytes.
    What comes before the body, status and headers, is bounded by this wait for some and by its size alone.
    """
    scores: bool = False
    """Whether to ask for likelihood scores, where that costs a right or a budget of its own."""
    price_source: str = "list"
    """`list` or `api`, where a provider tells its prices in two ways."""
    beside: bool = False
    """Whether it is an account beside the provider's first: `environ` is all that it has, and nothing that an SDK finds
    in the process's own environment is its.
    """


class Provider(Protocol):
    """A configured provider: its feeds, ready to poll. Built from a Config without I/O."""

    @property
    def name(self) -> str:
        """The provider's name, or its account's."""
        ...

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The kinds of evidence that it can give, strongest first."""
        ...

    @property
    def account(self) -> bool:
        """Whether this installation has credentials for it."""
        ...

    def feeds(self) -> Iterable[Feed]:
        """The feeds that its settings and credentials allow."""
        ...

    def off(self) -> Mapping[str, str]:
        """Feed name -> what to set so that it runs, for every feed that `feeds` leaves out."""
        ...
