"""What there is to tell, as events: with the offers as the answers show them, once for each watch or whole provider."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from alerts.deciding import Telling
from alerts.memory import PriceTold
from catalog.instants import age_s, time_text
from catalog.money import nanos_text
from catalog.offers import Offer
from catalog.spec import Spec
from catalog.watches import Event, EventType, OfferKey, State, Watch
from selector.context import Context
from selector.index import Index
from selector.ranking import Match
from selector.watching import View, offer_key, use_instead
from store.outbox import new_event_id
from store.status import OF_OFFERS, FeedStatus, ProviderStatus

MOST_SHOWN = 20
"""Offers in an event: a watch may match thousands."""
Json = dict[str, object]
OfferJson = Callable[[Match, Spec, Context], Json]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a watch was seen to be like, and what it was asked with."""

    view: View
    spec: Spec
    context: Context


class Looked(Protocol):
    """A look at a watch, and what there is to tell of it."""

    @property
    def watch(self) -> Watch:
        """Whose it is."""

    @property
    def tellings(self) -> Sequence[Telling]:
        """What there is to tell, in order."""

    @property
    def seen(self) -> Seen | None:
        """What was seen; None of a watch that is not understood."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event and whom it goes to. `watches` are the ids of those it is about."""

    event: Event
    watches: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def watch_id(self) -> str | None:
        """The watch, where it is about one."""
        return self.watches[0] if len(self.watches) == 1 else None

    def brief(self) -> Json:
        """What a watch shows of its last event."""
        return {"id": self.event.id, "type": self.event.type.value, "at": time_text(self.event.at)}


@dataclass(frozen=True, slots=True)
class _Item:
    """A telling beside its watch."""

    looked: Looked
    telling: Telling

    @property
    def watch(self) -> Watch:
        return self.looked.watch


@dataclass(frozen=True, slots=True)
class Shown:
    """What events are written from, beside what each watch saw."""

    index: Index
    providers: Sequence[ProviderStatus]
    offer_json: OfferJson
    now: datetime


def events_of(looked: Iterable[Looked], shown: Shown) -> Iterator[Told]:
    """The events. Where nearly all of a provider changed at once, a target is told once, not for each watch."""
    at_once: dict[tuple[str, EventType], list[_Item]] = defaultdict(list)
    for one in looked:
        for telling in one.tellings:
            item = _Item(one, telling)
            if telling.at_once is None:
                yield _single(item, one.watch.notify, shown)
            else:
                at_once[telling.at_once, telling.type].append(item)
    for (provider, _), items in at_once.items():
        yield from _at_once(provider, items, shown)


def _at_once(provider: str, items: Sequence[_Item], shown: Shown) -> Iterator[Told]:
    """One event for each target; one that has a single watch in it is told of that as usual, with the doubt."""
    of_target: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        for target in item.watch.notify:
            of_target[target].append(item)
    alone: dict[str, tuple[_Item, list[str]]] = {}
    for target, some in of_target.items():
        if len(some) > 1:
            yield _grouped(provider, some, target, shown)
        else:
            alone.setdefault(some[0].watch.id, (some[0], []))[1].append(target)
    for item, targets in alone.values():
        yield _single(item, targets, shown)


def _single(item: _Item, targets: Iterable[str], shown: Shown) -> Told:
    telling = item.telling
    data: Json = {"watch": watch_json(item.watch), "since": time_text(telling.since)}
    if telling.at_once is not None:
        data |= {"suspicious": True, "provider": telling.at_once}
    data |= _about(item, shown)
    return Told(_event(telling.type, data, shown), (item.watch.id,), tuple(targets))


def _grouped(provider: str, items: Sequence[_Item], target: str, shown: Shown) -> Told:
    first = items[0].telling
    before, after = first.states or (State.UNKNOWN, State.UNKNOWN)
    offers: dict[str, Json] = {}
    for item in items:
        if item.looked.seen is not None and len(offers) < MOST_SHOWN:
            showing = _Showing(item.looked.seen, shown.offer_json)
            found = _of_state(item.telling, item.looked.seen)[:MOST_SHOWN]
            offers |= {repr(offer_key(match.offer)): showing.one(match) for match in found}
    data: Json = {
        "watch": None,
        "suspicious": True,
        "provider": provider,
        "watches": [{"id": item.watch.id, "name": item.watch.name} for item in items],
        "before": before.value,
        "after": after.value,
        "since": time_text(min(item.telling.since for item in items)),
        "offers": list(offers.values())[:MOST_SHOWN],
        "unknown": [],
        "fallback": None,
    }
    return Told(_event(first.type, data, shown), tuple(item.watch.id for item in items), (target,))


def _event(kind: EventType, data: Json, shown: Shown) -> Event:
    return Event(new_event_id(), kind, shown.now, data)


def _about(item: _Item, shown: Shown) -> Json:
    """What an event of this type has beside its watch."""
    telling, seen = item.telling, item.looked.seen
    if telling.held:
        return {"held": dict(telling.held)}
    if telling.providers:
        return {"sources": list(_sources(telling.providers, shown))}
    if seen is None or telling.type is EventType.EXPIRED:
        return {}
    if telling.states is not None:
        return _of_stock(telling, seen, shown)
    if telling.type is EventType.HEARTBEAT:
        return {"state": seen.view.sight.state.value}
    return _of_best(item, seen, shown)


def _of_stock(telling: Telling, seen: Seen, shown: Shown) -> Json:
    before, after = telling.states or (State.UNKNOWN, State.UNKNOWN)
    showing = _Showing(seen, shown.offer_json)
    instead = use_instead(shown.index, seen.spec, seen.context) if after is State.OUT else None
    return {
        "before": before.value,
        "after": after.value,
        "offers": [showing.one(match) for match in _of_state(telling, seen)[:MOST_SHOWN]],
        "unknown": [showing.one(_match(offer, seen)) for offer in _sorted(seen.view.stale)[:MOST_SHOWN]],
        "fallback": None if instead is None else showing.one(instead),
    }


def _of_best(item: _Item, seen: Seen, shown: Shown) -> Json:
    """Of the best offer: its price before and now, the offer before, or the limit that it is below."""
    telling, showing, best = item.telling, _Showing(seen, shown.offer_json), seen.view.best
    data: Json = {"offers": [] if best is None else [showing.one(best)]}
    if telling.amounts is not None:
        data |= {"before": _amount(telling.amounts[0]), "after": _amount(telling.amounts[1])}
    elif telling.offers is not None:
        before = _found(shown.index, telling.offers[0])
        named = _named(telling.offers[0]) if before is None else showing.one(_match(before, seen))
        data |= {"before": named, "after": None if best is None else showing.one(best)}
    elif item.watch.price_below is not None:
        data |= {"price_below": f"{item.watch.price_below:f}", "currency": seen.spec.currency}
    return data


def _of_state(telling: Telling, seen: Seen) -> list[Match]:
    """The offers that the state after it rests on."""
    out = telling.states is not None and telling.states[1] is State.OUT
    return [_match(offer, seen) for offer in _sorted(seen.view.out if out else seen.view.confirmed)]


def _sorted(offers: Iterable[Offer]) -> list[Offer]:
    return sorted(offers, key=offer_key)


def _match(offer: Offer, seen: Seen) -> Match:
    context = seen.context
    confirmed = offer.confirmed(context.now, seen.spec.max_age)
    return Match(offer, 0, context.nanos(offer, seen.spec.currency), confirmed)


@dataclass(frozen=True, slots=True)
class _Showing:
    """Shows offers as the answers to the watch's own question do."""

    seen: Seen
    offer_json: OfferJson

    def one(self, match: Match) -> Json:
        return self.offer_json(match, self.seen.spec, self.seen.context)


def _sources(providers: Iterable[str], shown: Shown) -> Iterator[Json]:
    """The feeds of these providers that state what there is, the unhealthy ones where there are any."""
    for one in shown.providers:
        if one.name in providers:
            polled = [feed for feed in one.feeds if feed.feed in OF_OFFERS and feed.status != "off"]
            for feed in [feed for feed in polled if feed.status != "ok"] or polled:
                yield _source(one.name, feed, shown.now)


def _source(provider: str, feed: FeedStatus, now: datetime) -> Json:
    last = feed.last_success
    return {
        "provider": provider,
        "feed": feed.feed,
        "last_success": None if last is None else time_text(last),
        "age_s": None if last is None else age_s(last, now),
        "status": feed.status,
        "error": feed.reason,
    }


def _amount(price: PriceTold) -> Json:
    return {"amount": nanos_text(price.nanos), "currency": price.currency}


def _found(index: Index, key: OfferKey) -> Offer | None:
    return next((offer for offer in index.offers_of(key[:2]) if offer_key(offer) == key), None)


def _named(key: OfferKey) -> Json:
    """An offer that is gone, by what is still known of it."""
    provider, region, zone, machine, purchase, _ = key
    place: Json = {"provider": provider, "region": region, "zone": zone or None}
    return place | {"instance_type": machine, "purchase": purchase}


def watch_json(watch: Watch) -> Json:
    """The watch as an event names it."""
    limit = None if watch.price_below is None else f"{watch.price_below:f}"
    spec = {name: ",".join(texts) for name, texts in watch.spec.items()}
    return {"id": watch.id, "name": watch.name, "spec": spec, "price_below": limit}
