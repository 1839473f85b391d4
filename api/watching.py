"""What a watch sees when it is made, what it may ever see, and what is shown of it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from alerts.deciding import first
from alerts.memory import Memory
from api.answers import time_or_none, time_text
from api.serving import Serving
from api.targets import warnings_of
from api.watch_rules import require_understood, understood
from api.watch_shapes import LastEvent, WatchShape
from catalog.durations import written
from catalog.watches import CHOSEN, EventType, Watch
from selector.question import BadQuestion
from selector.watchable import Prospects, prospects
from selector.watching import Handled, View, level_told, look, offer_key
from store.watches import KeptState, KeptTarget

MOST_BEGUN = 5000
"""Offers whose levels a new watch remembers until its first evaluation."""
_MOST_NAMED = 5
"""Of places that were not read."""
_OF_STOCK = frozenset({EventType.STOCK_OUT, EventType.STOCK_LOW, EventType.STOCK_BACK})
NEVER_STOCK = "no provider here reports stock for this spec: stock.* cannot fire"


def first_look(serving: Serving, watch: Watch, now: datetime) -> Memory:
    """How things stand for a new watch, or one that looks anew; it tells nothing. Problem for a spec that means nothing
    here and now.
    """
    spec = require_understood(watch, serving.board.view.world, serving.config.defaults)
    failing = frozenset(one.name for one in serving.board.view.providers if one.fails)
    view = look(serving.board.index, spec, serving.board.context(now), Handled(failing=failing))
    return msgspec.structs.replace(first(watch, view.sight), begun=tuple(islice(_levels(view, now), MOST_BEGUN)))


def _levels(view: View, now: datetime) -> Iterator[tuple[tuple[str, str, str, str, str, str], object]]:
    for offer in sorted((*view.confirmed, *view.out), key=offer_key):
        level = level_told(offer, now)
        if level is not None:
            yield offer_key(offer), level


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a spec means, and what may ever be seen of it; else why it is not understood."""

    query: dict[str, object] | None
    prospects: Prospects | None
    problem: str | None


@dataclass(slots=True)
class Shown:
    """Shows watches. What a spec means is worked out anew when the watch or what is known has changed."""

    serving: Serving
    _known: dict[str, tuple[int, int, _Meaning]] = field(default_factory=dict)

    def shape(
        self, watch: Watch, state: KeptState | None, targets: Mapping[str, KeptTarget], now: datetime
    ) -> WatchShape:
        """A watch with what is known of it."""
        memory = Memory() if state is None else Memory.read(state.memory)
        meaning = self._meaning(watch, now)
        return WatchShape(
            **_as_written(watch),
            query=meaning.query,
            state=memory.state.value,
            seen=memory.seen.value,
            since=time_or_none(memory.since),
            last_event=_last(state),
            warnings=[*self._warnings(watch, meaning, now), *self._of_targets(watch, targets)],
        )

    def warnings(self, watch: Watch, now: datetime) -> list[str]:
        """What is wrong with a watch, whoever is told of it."""
        return list(self._warnings(watch, self._understood(watch, now), now))

    def _meaning(self, watch: Watch, now: datetime) -> _Meaning:
        version = self.serving.board.view.version
        known = self._known.get(watch.id)
        if known is None or known[:2] != (watch.revision, version):
            known = self._known[watch.id] = (watch.revision, version, self._understood(watch, now))
        return known[2]

    def _understood(self, watch: Watch, now: datetime) -> _Meaning:
        board = self.serving.board
        try:
            spec = understood(watch, board.view.world, self.serving.config.defaults)
        except BadQuestion as error:
            return _Meaning(None, None, str(error))
        return _Meaning(spec.described(), prospects(board.index, spec, board.context(now)), None)

    def forget(self, *, all_but: Iterable[str]) -> None:
        """Forget what is known of watches that are gone."""
        stay = set(all_but)
        for watch_id in [one for one in list(self._known) if one not in stay]:  # others add to it meanwhile
            self._known.pop(watch_id, None)

    def _of_targets(self, watch: Watch, targets: Mapping[str, KeptTarget]) -> Iterator[str]:
        for name in watch.notify:
            if name in targets:
                yield from warnings_of(targets[name], self.serving.config)

    def _warnings(self, watch: Watch, meaning: _Meaning, now: datetime) -> Iterator[str]:
        if meaning.problem is not None:
            yield f"the spec is no longer understood, so nothing is seen: {meaning.problem}"
        if meaning.prospects is not None:
            yield from _of_prospects(watch, meaning.prospects)
        if watch.price_below is not None and EventType.PRICE_BELOW not in watch.events:
            yield "price_below is set, and events has no price.below: it is not told"
        if watch.expires_at is not None and watch.expires_at <= now:
            yield f"it expired at {time_text(watch.expires_at)}: set expires anew to watch on"


def _of_prospects(watch: Watch, seen: Prospects) -> Iterator[str]:
    asks_stock = bool(watch.events & _OF_STOCK)
    for off in seen.off:
        yield f"{off.provider} is off: {off.reason}"
    if seen.unread:
        more = len(seen.unread) - _MOST_NAMED
        yield f"not read yet: {', '.join(seen.unread[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"
    if not seen.matching:
        yield "no known offer matches this spec: nothing can be told until one does"
    elif not seen.stated and not seen.unread and asks_stock:
        yield NEVER_STOCK
    if seen.too_dear:
        yield "every offer that matches is dearer than the price limit of the spec now"


def _last(state: KeptState | None) -> LastEvent | None:
    if state is None or state.last_event is None:
        return None
    told = json.loads(state.last_event)
    return LastEvent(told["id"], told["type"], told["at"])


def _as_written(watch: Watch) -> dict[str, Any]:
    """The fields that its user decides, and those that never change."""
    return {
        "id": watch.id,
        "name": watch.name,
        "spec": {name: ",".join(texts) for name, texts in watch.spec.items()},
        "notify": list(watch.notify),
        "events": [event.value for event in CHOSEN if event in watch.events],
        "price_below": None if watch.price_below is None else f"{watch.price_below:f}",
        "hold": written(watch.hold),
        "hold_back": written(watch.hold_back),
        "remind": None if watch.remind is None else written(watch.remind),
        "heartbeat": None if watch.heartbeat is None else written(watch.heartbeat),
        "change_percent": f"{watch.change_percent:f}",
        "daily_cap": watch.daily_cap,
        "expires_at": time_or_none(watch.expires_at),
        "paused": watch.paused,
        "managed": watch.managed,
        "created_at": time_text(watch.created_at),
    }
