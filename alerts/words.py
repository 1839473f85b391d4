"""What the words of a message are, in whatever language. What stands in braces is put in where it is used."""

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.spec import Sort
from catalog.watches import EventType
from catalog.words import Level, Purchase


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """One language. Every type of event, level, purchase and unit has its word."""

    headlines: Mapping[EventType, str]
    """What happened, in a few words."""
    grouped: Mapping[EventType, str]
    """The same of everything of a `{provider}` at once."""
    notes: Mapping[EventType, str]
    """What that means, and what to do next, where the facts do not say it."""
    levels: Mapping[Level, str]
    states: Mapping[str, str]
    """Of a watch."""
    purchases: Mapping[Purchase, str]
    units: Mapping[Sort, str]
    """An `{amount}`, and what it is paid for."""

    separator: str
    """Between the parts of a line."""
    titled: str
    labelled: str
    named: str
    """A code and its name."""
    zone: str
    gpus: str
    gpu_unknown: str
    price_unknown: str
    price_stale: str
    estimated: str
    at_once: str
    """What is paid in advance."""
    window: str
    last_seen: str
    """A `{level}` that is stale."""

    watch: str
    watches: str
    since: str
    at: str
    state: str
    target: str
    reason: str
    limit: str
    before: str
    now: str
    last_success: str
    suspicious: str
    unknown: str
    use_instead: str
    nothing_instead: str
    more: str
    start: str
    """Stands before a command."""
    page: str
    """What a link to the page is called."""
