"""The words of watching: what can be told, to whom, in which form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction


class EventType(StrEnum):
    """What an event says happened."""

    STOCK_OUT = "stock.out"
    STOCK_LOW = "stock.low"
    STOCK_BACK = "stock.back"
    PRICE_BELOW = "price.below"
    PRICE_CHANGED = "price.changed"
    BEST_CHANGED = "best.changed"
    SOURCE_STALE = "source.stale"
    SOURCE_BACK = "source.back"
    REMINDER = "watch.reminder"
    """Still out."""
    SUMMARY = "watch.summary"
    """What a watch's daily cap held back."""
    HEARTBEAT = "watch.heartbeat"
    """The watching works."""
    EXPIRED = "watch.expired"
    TARGET_DEAD = "target.dead"
    TEST = "test"


CHOSEN = (
    EventType.STOCK_OUT,
    EventType.STOCK_LOW,
    EventType.STOCK_BACK,
    EventType.PRICE_BELOW,
    EventType.PRICE_CHANGED,
    EventType.BEST_CHANGED,
    EventType.SOURCE_STALE,
    EventType.SOURCE_BACK,
)
"""Those that a watch chooses from in `events`."""


class Format(StrEnum):
    """The form in which a target is told."""

    STANDARD = "standard"
    """Standard Webhooks."""
    SLACK = "slack"
    DISCORD = "discord"
    FEISHU = "feishu"
    DINGTALK = "dingtalk"
    WECOM = "wecom"
    EMAIL = "email"


class Lang(StrEnum):
    """The language of a message for people."""

    EN = "en"
    ZH = "zh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Whom to tell, and how. `url` of an e-mail target is `mailto:` and an address."""

    name: str
    format: Format
    url: str
    secret: str | None = None
    """What `standard`, `feishu` and `dingtalk` sign with."""
    keyword: str | None = None
    """What a chat room wants to find in each message."""
    lang: Lang = Lang.EN


@dataclass(frozen=True, slots=True)
class Event:
    """What is told. `id` is the same in every delivery of it, and of no other event."""

    id: str
    type: EventType
    at: datetime
    data: Mapping[str, object]
    """JSON: objects, lists, text, numbers, booleans and null."""


OfferKey = tuple[str, str, str, str, str, str]
"""What tells one offer from all others: provider, region, zone (its id where there is one), machine, purchase, and who
it is sold on from; "" where there is none.
"""


RegionOfProvider = tuple[str, str]
"""Provider and region, as an offer's key begins."""


class State(StrEnum):
    """What is known of the stock that a watch looks for, at its primary places."""

    AVAILABLE = "available"
    """A confirmed offer matches."""
    OUT = "out"
    """At least one matching offer was seen to be out, and no confirmed one remains."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What somebody looks for, what to tell of it, and to whom."""

    id: str
    name: str
    spec: Mapping[str, Sequence[str]]
    """The parameters of a question for the cheapest, as they were written."""
    notify: tuple[str, ...]
    """Names of targets."""
    events: frozenset[EventType] = frozenset({EventType.STOCK_OUT, EventType.STOCK_BACK})
    price_below: Decimal | None = None
    """In the spec's currency, and the unit of its `sort`."""
    change_percent: Decimal = Decimal(1)
    """A price that changes by less is not told as changed."""
    hold: timedelta = timedelta(0)
    """How long out and low must last before they are told."""
    hold_back: timedelta = timedelta(0)
    """The same of back."""
    remind: timedelta | None = None
    """How often to tell that it is still out."""
    heartbeat: timedelta | None = None
    """How often to tell that the watching works."""
    daily_cap: int | None = None
    """Events a day (UTC) at the most; what is held back is told as a summary after midnight."""
    expires_at: datetime | None = None
    paused: bool = False
    managed: bool = False
    """Whether it stands in a file, which says what becomes of it."""
    created_at: datetime
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a watch's primary places hold at one moment, beside what was handled before: all that deciding needs.

    Levels count where they are fresh, and the provider states them or a launch has shown them.
    """

    now: datetime
    confirmed: Mapping[OfferKey, datetime] = field(default_factory=dict)
    """The confirmed matches, and when each was last seen so; what a launch has shown is seen so now."""
    out: Mapping[OfferKey, datetime] = field(default_factory=dict)
    """The same of the matches that are seen to be out."""
    only_low: bool = False
    """Whether there are confirmed matches, and all of them are low."""
    stale: frozenset[OfferKey] = frozenset()
    """Matches whose level is too old to count."""
    unaffordable: frozenset[OfferKey] = frozenset()
    """What is in stock or low and no match for want of a price, or by its price: it may match by a price alone."""
    went_out: frozenset[OfferKey] = frozenset()
    """Of `out` those that were in stock or low when they were last handled."""
    went_low: bool = False
    """Whether a match that is low was in stock then."""
    first_read: frozenset[OfferKey] = frozenset()
    """Of the confirmed matches those of regions of which nothing was handled before: this is how things stand there."""
    at_once: frozenset[RegionOfProvider] = frozenset()
    """Regions of which nearly everything went out or came back since then."""
    intervals: Mapping[str, timedelta] = field(default_factory=dict)
    """How often a provider's stock is polled."""
    best: OfferKey | None = None
    """The first match in the order of an answer, where its facts are fresh."""
    value: Fraction | None = None
    """What `sort` compares of it, in units of the spec's currency."""
    native_nanos: int | None = None
    """Its price in its provider's own currency."""
    native_currency: str | None = None
    lapsed: frozenset[str] = frozenset()
    """Providers with matches that are older than they count for."""
    blind: frozenset[str] = frozenset()
    """Those of them whose feeds fail."""
    seeing: frozenset[str] = frozenset()
    """Providers with matches, none of which is older than it counts for."""

    @property
    def state(self) -> State:
        """Stale matches neither make a state nor mute one."""
        return State.AVAILABLE if self.confirmed else State.OUT if self.out else State.UNKNOWN
