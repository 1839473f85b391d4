"""Watches and targets as they are kept."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Engine, RowMapping, delete, insert, select, update

from catalog.watches import EventType, Format, Lang, Target, Watch
from store.engine import in_turn, reading, writing
from store.watch_tables import DELIVERIES, TARGETS, WATCH_STATES, WATCHES

WATCHING = "watching"
"""The matter in which writers of watches and targets take turns."""
_DELETED = "the watch was removed"
_NO_TARGET = "the target was removed"


@dataclass(frozen=True, slots=True)
class KeptTarget:
    """A target beside how it does. `dead_why` is None while it is told things; `managed` is by a file."""

    target: Target
    created_at: datetime
    managed: bool = False
    dead_at: datetime | None = None
    dead_why: str | None = None


@dataclass(frozen=True, slots=True)
class KeptState:
    """What is known of a watch: JSON of `alerts.memory`, and of the event that was told last."""

    memory: str
    last_event: str | None = None


class Taken(Exception):
    """The name is another target's already."""


class InUse(Exception):
    """A target that watches name. `watches` are their names."""

    def __init__(self, watches: Sequence[str]) -> None:
        super().__init__(f"watches name it: {', '.join(watches)}")
        self.watches = tuple(watches)


class UnknownTargets(Exception):
    """Names of no target."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(", ".join(self.names))


def new_watch_id() -> str:
    """An id that no other watch has."""
    return f"w_{uuid4().hex[:16]}"


# --- targets


def targets(engine: Engine) -> list[KeptTarget]:
    """All, by name."""
    with reading(engine) as connection:
        return [_target(row) for row in connection.execute(select(TARGETS).order_by(TARGETS.c.name)).mappings()]


def targets_in(connection: Connection, names: Iterable[str]) -> list[KeptTarget]:
    """Those of these names that there are, in a transaction."""
    query = select(TARGETS).where(TARGETS.c.name.in_(list(names)))
    return [_target(row) for row in connection.execute(query).mappings()]


def target(engine: Engine, name: str) -> KeptTarget | None:
    """One; None where there is none of that name."""
    with reading(engine) as connection:
        row = connection.execute(select(TARGETS).where(TARGETS.c.name == name)).mappings().first()
    return None if row is None else _target(row)


def add_target(engine: Engine, kept: KeptTarget) -> None:
    """Keep a new one. Raises Taken where its name is another's."""
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        name = kept.target.name
        if connection.execute(select(TARGETS.c.name).where(TARGETS.c.name == name)).first() is not None:
            raise Taken(name)
        connection.execute(insert(TARGETS).values(_target_values(kept)))


def replace_target(engine: Engine, kept: KeptTarget) -> bool:
    """Write one anew, alive again unless it says otherwise; whether there was one of that name."""
    with writing(engine) as connection:
        return replace_target_in(connection, kept)


def replace_target_in(connection: Connection, kept: KeptTarget) -> bool:
    """The same, in a transaction."""
    there = TARGETS.c.name == kept.target.name
    return connection.execute(update(TARGETS).where(there).values(_target_values(kept))).rowcount > 0


def put_target_in(connection: Connection, kept: KeptTarget) -> None:
    """Write one anew, or keep a new one, in a transaction that has the turn in `WATCHING`."""
    if not replace_target_in(connection, kept):
        connection.execute(insert(TARGETS).values(_target_values(kept)))


def change_target(engine: Engine, name: str, change: Callable[[KeptTarget], KeptTarget]) -> KeptTarget | None:
    """Write one as `change` makes it of what it is, whoever else changes it; None where there is none of that name."""
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        found = targets_in(connection, [name])
        if not found:
            return None
        changed = change(found[0])
        replace_target_in(connection, changed)
        return changed


def remove_target(engine: Engine, name: str, now: datetime) -> bool:
    """Forget one; whether there was one. Raises InUse where watches name it."""
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        return remove_target_in(connection, name, now)


def remove_target_in(connection: Connection, name: str, now: datetime) -> bool:
    """The same, in a transaction that has the turn in `WATCHING`."""
    using = [watch.name for watch in _watches(connection) if name in watch.notify]
    if using:
        raise InUse(using)
    end_pending(connection, DELIVERIES.c.target == name, _NO_TARGET, now)
    return connection.execute(delete(TARGETS).where(TARGETS.c.name == name)).rowcount > 0


def end_pending(connection: Connection, which: ColumnElement[bool], why: str, now: datetime) -> None:
    """Let these deliveries be dead, as far as they are pending, those under way among them."""
    ended = {"status": "dead", "last_error": why, "ended_at": now, "token": None, "lease_until": None}
    connection.execute(update(DELIVERIES).where(which, DELIVERIES.c.status == "pending").values(ended))


def _target_values(kept: KeptTarget) -> dict[str, Any]:
    target = kept.target
    return {
        "name": target.name,
        "format": target.format.value,
        "url": target.url,
        "secret": target.secret,
        "keyword": target.keyword,
        "lang": target.lang.value,
        "managed": kept.managed,
        "created_at": kept.created_at,
        "dead_at": kept.dead_at,
        "dead_why": kept.dead_why,
        "paused_until": None,
    }


def _target(row: RowMapping) -> KeptTarget:
    target = Target(
        name=row["name"],
        format=Format(row["format"]),
        url=row["url"],
        secret=row["secret"],
        keyword=row["keyword"],
        lang=Lang(row["lang"]),
    )
    return KeptTarget(target, row["created_at"], row["managed"], row["dead_at"], row["dead_why"])


# --- watches


def watches(engine: Engine) -> list[Watch]:
    """All, the oldest first."""
    with reading(engine) as connection:
        return _watches(connection)


def watch(engine: Engine, watch_id: str) -> Watch | None:
    """One; None where there is none of that id."""
    with reading(engine) as connection:
        row = connection.execute(select(WATCHES).where(WATCHES.c.id == watch_id)).mappings().first()
    return None if row is None else _watch(row)


def state(engine: Engine, watch_id: str) -> KeptState | None:
    """What is known of one watch."""
    with reading(engine) as connection:
        row = connection.execute(select(WATCH_STATES).where(WATCH_STATES.c.watch_id == watch_id)).first()
    return None if row is None else KeptState(row.memory, row.last_event)


def states(engine: Engine) -> dict[str, KeptState]:
    """What is known of each watch, by its id."""
    with reading(engine) as connection:
        return states_in(connection)


def states_in(connection: Connection) -> dict[str, KeptState]:
    """The same, in a transaction."""
    return {row.watch_id: KeptState(row.memory, row.last_event) for row in connection.execute(select(WATCH_STATES))}


def add_watch(engine: Engine, watch: Watch, memory: str) -> None:
    """Keep a new one with its first state. Raises UnknownTargets for names of none."""
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        add_watch_in(connection, watch, memory)


def add_watch_in(connection: Connection, watch: Watch, memory: str) -> None:
    """The same, in a transaction that has the turn in `WATCHING`."""
    _require_targets(connection, watch.notify)
    connection.execute(insert(WATCHES).values(_watch_values(watch)))
    connection.execute(insert(WATCH_STATES).values({"watch_id": watch.id, "memory": memory}))


def replace_watch(engine: Engine, watch: Watch, memory: str | None, *, at: int | None = None) -> bool:
    """Write one anew, with a new first state where `memory` is given; whether there is one of that id, and of that
    revision where `at` names one.

    Its revision rises by one, whatever it says: an evaluation under way of the one before is not kept.
    """
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        return replace_watch_in(connection, watch, memory, at=at)


def replace_watch_in(connection: Connection, watch: Watch, memory: str | None, *, at: int | None = None) -> bool:
    """The same, in a transaction that has the turn in `WATCHING`."""
    _require_targets(connection, watch.notify)
    values = _watch_values(watch) | {"revision": WATCHES.c.revision + 1}
    this = (WATCHES.c.id == watch.id) if at is None else (WATCHES.c.id == watch.id) & (WATCHES.c.revision == at)
    changed = connection.execute(update(WATCHES).where(this).values(values))
    if changed.rowcount and memory is not None:
        of_watch = WATCH_STATES.c.watch_id == watch.id
        connection.execute(update(WATCH_STATES).where(of_watch).values({"memory": memory}))
    return changed.rowcount > 0


def remove_watch(engine: Engine, watch_id: str, now: datetime) -> bool:
    """Forget one, and tell nothing more of it; whether there was one."""
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        return remove_watch_in(connection, watch_id, now)


def remove_watch_in(connection: Connection, watch_id: str, now: datetime) -> bool:
    """The same, in a transaction that has the turn in `WATCHING`."""
    removed = connection.execute(delete(WATCHES).where(WATCHES.c.id == watch_id)).rowcount > 0
    connection.execute(delete(WATCH_STATES).where(WATCH_STATES.c.watch_id == watch_id))
    end_pending(connection, DELIVERIES.c.watch_id == watch_id, _DELETED, now)
    return removed


def _watches(connection: Connection) -> list[Watch]:
    query = select(WATCHES).order_by(WATCHES.c.created_at, WATCHES.c.id)
    return [_watch(row) for row in connection.execute(query).mappings()]


def watches_in(connection: Connection) -> list[Watch]:
    """All, the oldest first, in a transaction."""
    return _watches(connection)


def _require_targets(connection: Connection, names: Iterable[str]) -> None:
    known = set(connection.execute(select(TARGETS.c.name)).scalars())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnknownTargets(unknown)


def _watch_values(watch: Watch) -> dict[str, Any]:
    return {
        "id": watch.id,
        "name": watch.name,
        "spec": json.dumps({name: list(texts) for name, texts in watch.spec.items()}, ensure_ascii=False),
        "notify": json.dumps(list(watch.notify), ensure_ascii=False),
        "events": json.dumps(sorted(watch.events)),
        "price_below": None if watch.price_below is None else f"{watch.price_below:f}",
        "change_percent": f"{watch.change_percent:f}",
        "hold_s": watch.hold.total_seconds(),
        "hold_back_s": watch.hold_back.total_seconds(),
        "remind_s": _seconds(watch.remind),
        "heartbeat_s": _seconds(watch.heartbeat),
        "daily_cap": watch.daily_cap,
        "expires_at": watch.expires_at,
        "paused": watch.paused,
        "managed": watch.managed,
        "created_at": watch.created_at,
        "revision": watch.revision,
    }


def _watch(row: RowMapping) -> Watch:
    spec: Mapping[str, Sequence[str]] = json.loads(row["spec"])
    return Watch(
        id=row["id"],
        name=row["name"],
        spec={name: tuple(texts) for name, texts in spec.items()},
        notify=tuple(json.loads(row["notify"])),
        events=frozenset(map(EventType, json.loads(row["events"]))),
        price_below=None if row["price_below"] is None else Decimal(row["price_below"]),
        change_percent=Decimal(row["change_percent"]),
        hold=timedelta(seconds=row["hold_s"]),
        hold_back=timedelta(seconds=row["hold_back_s"]),
        remind=_duration(row["remind_s"]),
        heartbeat=_duration(row["heartbeat_s"]),
        daily_cap=row["daily_cap"],
        expires_at=row["expires_at"],
        paused=row["paused"],
        managed=row["managed"],
        created_at=row["created_at"],
        revision=row["revision"],
    )


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
