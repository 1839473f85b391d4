"""The words of watching: what can be told, to whom, in which form."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


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
