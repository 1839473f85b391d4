"""A database that is polled and watched: what is told of its watches, without sending any of it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from sqlalchemy import select

from alerts.deciding import first
from alerts.memory import Memory
from api.answers import offer_json
from api.board import Board
from catalog.watches import CHOSEN, EventType, Format, Target, Watch
from scheduler.evaluator import Evaluator
from scheduler.market import Rules
from selector.question import understand
from selector.watching import Handled, level_told, look, offer_key
from store import watches
from store.engine import reading
from store.watch_tables import DELIVERIES, EVENTS
from tests.support.filled import Filled, config_for


class Watched:
    """The filled database with targets and watches, evaluated by hand."""

    def __init__(self, filled: Filled, *targets: str) -> None:
        self.filled = filled
        self.evaluator = self.another()
        for name in targets or ("ops",):
            target = Target(name=name, format=Format.STANDARD, url="https://example.com/hook", secret="whsec_c2VjcmV0")
            watches.add_target(filled.engine, watches.KeptTarget(target, filled.now))

    def another(self) -> Evaluator:
        """An evaluator of a process of its own."""
        filled = self.filled
        rules = Rules(lambda: Board(filled.engine, config_for(filled)), offer_json)
        return Evaluator(filled.engine, lambda: filled.now, rules)

    def add(self, name: str = "w", notify: tuple[str, ...] = ("ops",), **rules: Any) -> Watch:
        """A watch of the spec's parameters, told of everything, looked at as the server does when it is made."""
        spec: Mapping[str, str] = rules.pop("spec", {"gpu": "h100"})
        more: dict[str, Any] = {"events": frozenset(CHOSEN)} | rules
        watch = Watch(
            id=watches.new_watch_id(),
            name=name,
            spec={key: (text,) for key, text in spec.items()},
            notify=notify,
            created_at=self.filled.now,
            **more,
        )
        watches.add_watch(self.filled.engine, watch, self._first(watch).written())
        return watch

    def _first(self, watch: Watch) -> Memory:
        board = Board(self.filled.engine, config_for(self.filled))
        board.refresh(self.filled.now)
        spec = understand(watch.spec, board.view.world, {}, endpoint="cheapest")
        view = look(board.index, spec, board.context(self.filled.now), Handled())
        levels = {offer_key(one): level_told(one, self.filled.now) for one in (*view.confirmed, *view.out)}
        begun = tuple((key, level) for key, level in levels.items() if level is not None)
        return msgspec.structs.replace(first(watch, view.sight), begun=begun)

    def memory(self, watch: Watch) -> Memory:
        """What is remembered of it."""
        return Memory.read(watches.states(self.filled.engine)[watch.id].memory)

    def change(self, watch: Watch, **changes: Any) -> Watch:
        """Write it anew, as the server does."""
        changed = replace(watch, **changes)
        watches.replace_watch(self.filled.engine, changed, None)
        return changed

    def tick(self, seconds: float = 1) -> list[str]:
        """Let time pass, evaluate, and say what was told: the types."""
        before = {event["id"] for event in self.events()}
        self.filled.now += timedelta(seconds=seconds)
        self.evaluator.tick()
        return [event["type"] for event in self.events() if event["id"] not in before]

    def events(self) -> list[dict[str, Any]]:
        """All events in order, as they are kept: `id`, `type`, `watch_id`, `data`, and the `targets` they go to."""
        with reading(self.filled.engine) as connection:
            rows = connection.execute(select(EVENTS).order_by(EVENTS.c.at)).mappings().all()
            to = connection.execute(select(DELIVERIES.c.event_id, DELIVERIES.c.target)).all()
        return [
            {**row, "data": json.loads(row["data"]), "targets": sorted(t for e, t in to if e == row["id"])}
            for row in rows
        ]

    def told(self, kind: EventType) -> list[dict[str, Any]]:
        """The data of the events of a type."""
        return [event["data"] for event in self.events() if event["type"] == kind]
