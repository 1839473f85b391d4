"""What a look at a watch's places changes in what is remembered of it, and what there is to tell. Pure.

The rules stand as tables in docs/alerts.md. Stock is told of where it was SEEN to change: neither a price, a filter, a
poll that failed nor time makes an event of stock, they only keep one from being seen.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import msgspec

from alerts.memory import Memory, Pending, PriceTold
from catalog.watches import CHOSEN, EventType, OfferKey, Sight, State, Watch

SETTLES = timedelta(seconds=15)
"""How long at least nearly everything of a region must be out, or back, before that is told."""
MOST_PENDING = 50
"""Offers that a change under way remembers."""
_COUNTED = frozenset({*CHOSEN, EventType.REMINDER})
"""What the daily cap is about: the rest is about the watching itself."""
_ALWAYS = frozenset(EventType) - frozenset(CHOSEN)
"""What a watch does not choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Something to tell. Which of `before`, `after`, `offers` it has depends on its type."""

    type: EventType
    since: datetime
    states: tuple[State, State] | None = None
    """Of stock: before and after."""
    amounts: tuple[PriceTold, PriceTold] | None = None
    """Of a changed price, in the provider's currency."""
    offers: tuple[OfferKey, OfferKey] | None = None
    """Of a changed best offer."""
    providers: frozenset[str] = frozenset()
    """Of sources."""
    at_once: str | None = None
    """The provider of which nearly everything changed at once."""
    held: dict[str, int] = field(default_factory=dict)
    """Of a summary."""


def first(watch: Watch, sight: Sight) -> Memory:
    """What is remembered of a new watch, or of one that looks anew: how things stand, and nothing to tell."""
    memory, _ = decide(replace(watch, remind=None, heartbeat=None, expires_at=None), Memory(), sight)
    return msgspec.structs.replace(memory, blind=sight.blind, beat_at=sight.now)


def is_over(watch: Watch, memory: Memory) -> bool:
    """Whether the watch has ended and said so."""
    return memory.expired is not None and memory.expired == watch.expires_at


def decide(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    """What is remembered after a look, and what there is to tell, of the types that the watch asks for."""
    if is_over(watch, memory):
        return memory, []
    memory, tellings = _not_ahead(memory, sight.now), list[Telling]()
    for rule in (_stock, _low, _below, _best, _price, _sources, _clock):
        memory, told = rule(watch, memory, sight)
        tellings += told
    memory = _known(memory, sight)
    asked = [telling for telling in tellings if telling.type in watch.events | _ALWAYS]
    return _capped(watch, memory, sight.now, asked)


def due_at(watch: Watch, memory: Memory) -> datetime | None:
    """When time alone may change something: a hold runs out, a reminder is due. None where it does not."""
    if is_over(watch, memory):
        return None
    waits: tuple[tuple[datetime | None, timedelta | None], ...] = (
        *(
            (pending.since, _needed(pending, hold))
            for pending, hold in (
                (memory.going_out, watch.hold),
                (memory.getting_low, watch.hold),
                (memory.coming_back, watch.hold_back),
            )
            if pending is not None
        ),
        ((memory.reminded_at or memory.told_at) if memory.told is State.OUT else None, watch.remind),
        (memory.beat_at, watch.heartbeat),
        (watch.expires_at, timedelta(0)),
    )
    times = [begun + after for begun, after in waits if begun is not None and after is not None]
    if memory.held:
        times.append(_next_day(memory.day))
    return min(times, default=None)


def _needed(pending: Pending, hold: timedelta) -> timedelta:
    """How long a change must last. One of nearly everything is doubted: it waits for a full minute, together with what
    other regions of the provider say until then.
    """
    if pending.at_once is None:
        return hold
    settled = pending.since + SETTLES
    minute = settled.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return max(hold, minute - pending.since)


def _not_ahead(memory: Memory, now: datetime) -> Memory:
    """Without times that are yet to come: a clock that was since set back has written them."""

    def held(pending: Pending | None) -> Pending | None:
        if pending is None:
            return None
        offers = tuple((key, min(seen, now)) for key, seen in pending.offers)
        return msgspec.structs.replace(pending, since=min(pending.since, now), offers=offers)

    def at(time: datetime | None) -> datetime | None:
        return time and min(time, now)

    return msgspec.structs.replace(
        memory,
        going_out=held(memory.going_out),
        coming_back=held(memory.coming_back),
        getting_low=held(memory.getting_low),
        told_at=at(memory.told_at),
        beat_at=at(memory.beat_at),
        reminded_at=at(memory.reminded_at),
    )


# --- stock


def _stock(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    if memory.told is State.UNKNOWN:
        return _begun(memory, sight), []
    if memory.told is State.AVAILABLE:
        return _going_out(watch, memory, sight)
    return _coming_back(watch, memory, sight)


def _begun(memory: Memory, sight: Sight) -> Memory:
    """The first known state is what there was before anybody was told."""
    if sight.state is State.UNKNOWN:
        return memory
    had = sight.unaffordable if sight.state is State.OUT else frozenset[OfferKey]()
    return msgspec.structs.replace(memory, told=sight.state, told_at=sight.now, had=had, low=sight.only_low)


def _going_out(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    pending = _pending(memory.going_out, sight, State.OUT, sight.out, sight.went_out)
    if pending is None or not _lasted(pending, watch.hold, sight, sight.out):
        return msgspec.structs.replace(memory, going_out=pending), []
    told = msgspec.structs.replace(
        memory,
        told=State.OUT,
        told_at=sight.now,
        going_out=None,
        had=sight.unaffordable,
        low=False,
        reminded_at=None,
    )
    return told, [_of_stock(EventType.STOCK_OUT, State.AVAILABLE, State.OUT, pending)]


def _coming_back(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    had = (memory.had - sight.out.keys()) | sight.first_read
    changed = frozenset(sight.confirmed.keys() - had)
    memory = msgspec.structs.replace(memory, had=had)
    pending = _pending(memory.coming_back, sight, State.AVAILABLE, sight.confirmed, changed)
    if pending is None or not _lasted(pending, watch.hold_back, sight, sight.confirmed):
        return msgspec.structs.replace(memory, coming_back=pending), []
    told = msgspec.structs.replace(
        memory,
        told=State.AVAILABLE,
        told_at=sight.now,
        coming_back=None,
        had=frozenset(),
        low=sight.only_low,
        reminded_at=None,
    )
    return told, [_of_stock(EventType.STOCK_BACK, State.OUT, State.AVAILABLE, pending)]


def _low(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    """All that is left is low, and was seen to become so."""
    if memory.told is not State.AVAILABLE or sight.state is State.OUT:
        return msgspec.structs.replace(memory, getting_low=None), []
    if sight.confirmed and not sight.only_low:
        return msgspec.structs.replace(memory, getting_low=None, low=False), []
    if memory.low:
        return memory, []
    worse = sight.only_low and (sight.went_low or sight.went_out)
    changed = frozenset(sight.confirmed) if worse else frozenset[OfferKey]()
    pending = _pending(memory.getting_low, sight, State.AVAILABLE, sight.confirmed, changed)
    if pending is None or not _lasted(pending, watch.hold, sight, sight.confirmed):
        return msgspec.structs.replace(memory, getting_low=pending), []
    told = msgspec.structs.replace(memory, getting_low=None, low=True)
    return told, [_of_stock(EventType.STOCK_LOW, State.AVAILABLE, State.AVAILABLE, pending)]


def _pending(
    pending: Pending | None,
    sight: Sight,
    wanted: State,
    there: Mapping[OfferKey, datetime],
    changed: AbstractSet[OfferKey],
) -> Pending | None:
    """The change that is under way: begun by what was seen to change, ended by the contrary, or where nothing that
    changed is seen any more.

    While nothing is seen at all it begins anew, since nobody knows that it lasts.
    """
    if sight.state is State.UNKNOWN:
        return pending and msgspec.structs.replace(pending, since=sight.now)
    if sight.state is not wanted:
        return None
    if pending is not None and any(key in there for key, _ in pending.offers):
        return pending
    if not changed:
        return None
    offers = tuple((key, there[key]) for key in sorted(changed)[:MOST_PENDING])
    return Pending(since=sight.now, offers=offers, at_once=_at_once(changed, sight))


def _at_once(changed: AbstractSet[OfferKey], sight: Sight) -> str | None:
    """The one provider that all of it is of, where nearly everything of those regions changed."""
    providers = {key[0] for key in changed}
    return min(providers) if len(providers) == 1 and {key[:2] for key in changed} <= sight.at_once else None


def _lasted(pending: Pending, hold: timedelta, sight: Sight, there: Mapping[OfferKey, datetime]) -> bool:
    """Whether it has lasted, and was seen by a second poll where there are two in that time."""
    if sight.now - pending.since < _needed(pending, hold) or not there:
        return False
    return any(_seen_again(key, at, hold, sight, there) for key, at in pending.offers if key in there)


def _seen_again(key: OfferKey, at: datetime, hold: timedelta, sight: Sight, there: Mapping[OfferKey, datetime]) -> bool:
    interval = sight.intervals.get(key[0])
    return interval is None or 2 * interval > hold or there[key] > at


def _of_stock(kind: EventType, before: State, after: State, pending: Pending) -> Telling:
    return Telling(type=kind, since=pending.since, states=(before, after), at_once=pending.at_once)


def _known(memory: Memory, sight: Sight) -> Memory:
    """The state that the watch is said to be in: the last known one, whatever made it so."""
    if sight.state is State.UNKNOWN:
        return msgspec.structs.replace(memory, seen=State.UNKNOWN)
    since = memory.since if sight.state is memory.state else sight.now
    return msgspec.structs.replace(memory, seen=sight.state, state=sight.state, since=since)


# --- prices


def _below(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    """Told once below the limit, and again once it was at it or above."""
    limit = None if watch.price_below is None else f"{watch.price_below:f}"
    if limit != memory.limit:  # the first look at it: without a price it is not below
        below = watch.price_below is not None and sight.value is not None and sight.value < Fraction(watch.price_below)
        return msgspec.structs.replace(memory, below=below, limit=limit), []
    if watch.price_below is None or sight.value is None:
        return memory, []
    below = sight.value < Fraction(watch.price_below)
    crossed = below and memory.below is False
    told = [Telling(type=EventType.PRICE_BELOW, since=sight.now)] if crossed else []
    return msgspec.structs.replace(memory, below=below), told


def _best(_watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    """Another place or machine, not another price."""
    if sight.best is None:
        return memory, []
    before, after = memory.best, sight.best
    changed = before is not None and before != after
    told = [Telling(type=EventType.BEST_CHANGED, since=sight.now, offers=(before, after))] if changed and before else []
    return msgspec.structs.replace(memory, best=after), told


def _price(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    """Of the same offer in its own currency, so that no exchange rate changes it; small steps add up until told."""
    if sight.best is None or sight.native_nanos is None or sight.native_currency is None:
        return memory, []
    now = PriceTold(offer=sight.best, nanos=sight.native_nanos, currency=sight.native_currency)
    before = memory.price
    if before is None or (before.offer, before.currency) != (now.offer, now.currency):
        return msgspec.structs.replace(memory, price=now), []
    least = Fraction(watch.change_percent) / 100 * before.nanos
    if now.nanos == before.nanos or abs(now.nanos - before.nanos) < least:
        return memory, []
    told = Telling(type=EventType.PRICE_CHANGED, since=sight.now, amounts=(before, now))
    return msgspec.structs.replace(memory, price=now), [told]


# --- sources and the clock


def _sources(_watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    gone, back = sight.blind - memory.blind, memory.blind & sight.seeing
    tellings = [
        Telling(type=kind, since=sight.now, providers=providers)
        for kind, providers in ((EventType.SOURCE_STALE, gone), (EventType.SOURCE_BACK, back))
        if providers
    ]
    # Of a provider that has no match any more nothing is believed.
    return msgspec.structs.replace(memory, blind=(memory.blind & sight.lapsed) | gone), tellings


def _clock(watch: Watch, memory: Memory, sight: Sight) -> tuple[Memory, list[Telling]]:
    """What is told by the clock alone."""
    now = sight.now
    if watch.expires_at is not None and now >= watch.expires_at:
        held = [Telling(type=EventType.SUMMARY, since=now, held=memory.held)] if memory.held else []
        memory = msgspec.structs.replace(memory, expired=watch.expires_at, held={})
        return memory, [*held, Telling(type=EventType.EXPIRED, since=watch.expires_at)]
    tellings: list[Telling] = []
    reminded = memory.reminded_at or memory.told_at
    still_out = memory.told is State.OUT and sight.state is not State.AVAILABLE
    if still_out and _over(reminded, watch.remind, now):
        since = memory.told_at or now
        tellings.append(Telling(type=EventType.REMINDER, since=since, states=(State.OUT, State.OUT)))
        memory = msgspec.structs.replace(memory, reminded_at=now)
    if _over(memory.beat_at, watch.heartbeat, now):
        tellings.append(Telling(type=EventType.HEARTBEAT, since=memory.since or now))
        memory = msgspec.structs.replace(memory, beat_at=now)
    return memory, tellings


def _over(begun: datetime | None, every: timedelta | None, now: datetime) -> bool:
    return begun is not None and every is not None and now - begun >= every


# --- the daily cap


def _capped(watch: Watch, memory: Memory, now: datetime, tellings: list[Telling]) -> tuple[Memory, list[Telling]]:
    """So many a day; the rest is counted, and told of as a summary on the next."""
    told = list(_summary(memory, now))
    memory = _of_today(memory, now)
    for telling in tellings:
        if watch.daily_cap is not None and telling.type in _COUNTED and memory.count >= watch.daily_cap:
            held = memory.held | {telling.type.value: memory.held.get(telling.type.value, 0) + 1}
            memory = msgspec.structs.replace(memory, held=held)
        else:
            told.append(telling)
            memory = msgspec.structs.replace(memory, count=memory.count + (telling.type in _COUNTED))
    return memory, told


def _summary(memory: Memory, now: datetime) -> Iterator[Telling]:
    if memory.held and memory.day != _day(now):
        yield Telling(type=EventType.SUMMARY, since=now, held=memory.held)


def _of_today(memory: Memory, now: datetime) -> Memory:
    if memory.day == _day(now):
        return memory
    return msgspec.structs.replace(memory, day=_day(now), count=0, held={})


def _day(now: datetime) -> str:
    return now.date().isoformat()


def _next_day(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=1)
