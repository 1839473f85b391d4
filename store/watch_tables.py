"""The tables of watching: who looks for what, whom to tell, what is known of it, and what is still to be told."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Index, Text
from sqlmodel import Field, SQLModel

from store.tables import table_of
from store.times import Instant


def _time(*, null: bool = False) -> Any:
    return Field(default=None if null else ..., sa_column=Column(Instant, nullable=null))


def _text(*, null: bool = False) -> Any:
    return Field(default=None if null else ..., sa_column=Column(Text, nullable=null))


class TargetRow(SQLModel, table=True):
    """Whom to tell. `managed` is by a file; `dead_why` says why it is told nothing more, `paused_until` for how long it
    asked to be left alone.
    """

    __tablename__ = "targets"

    name: str = Field(primary_key=True)
    format: str
    url: str = _text()
    secret: str | None = None
    keyword: str | None = None
    lang: str
    managed: bool = False
    created_at: datetime = _time()
    dead_at: datetime | None = _time(null=True)
    dead_why: str | None = _text(null=True)
    paused_until: datetime | None = _time(null=True)


class WatchRow(SQLModel, table=True):
    """A watch as its user wrote it: `spec`, `notify` and `events` are JSON. Durations are in seconds."""

    __tablename__ = "watches"

    id: str = Field(primary_key=True)
    name: str
    spec: str = _text()
    notify: str = _text()
    events: str = _text()
    price_below: str | None = None
    change_percent: str
    """What a price must change by to be told."""
    hold_s: float
    hold_back_s: float
    remind_s: float | None = None
    heartbeat_s: float | None = None
    daily_cap: int | None = None
    expires_at: datetime | None = _time(null=True)
    paused: bool = False
    managed: bool = False
    created_at: datetime = _time()
    revision: int = 0
    """Rises with each change that its user makes."""


class WatchStateRow(SQLModel, table=True):
    """What is known of a watch: the one table of states. `memory` is JSON that `alerts.memory` reads and writes."""

    __tablename__ = "watch_states"

    watch_id: str = Field(primary_key=True)
    memory: str = _text()
    last_event: str | None = _text(null=True)
    """The event that was told last, as JSON: its id, type and time."""


class SeenLevelRow(SQLModel, table=True):
    """The last fresh level of an offer whose stock somebody states, as the evaluator has handled it."""

    __tablename__ = "seen_levels"

    provider: str = Field(primary_key=True)
    region: str = Field(primary_key=True)
    zone_key: str = Field(primary_key=True)
    instance_type: str = Field(primary_key=True)
    purchase: str = Field(primary_key=True)
    upstream: str = Field(primary_key=True)
    level: str
    at: datetime = _time()


class EventRow(SQLModel, table=True):
    """What happened, as it is told: never changed. `data` is JSON."""

    __tablename__ = "events"

    id: str = Field(primary_key=True)
    type: str
    watch_id: str | None = Field(default=None, index=True)
    at: datetime = Field(sa_column=Column(Instant, nullable=False, index=True))
    data: str = _text()


class EventWatchRow(SQLModel, table=True):
    """A watch of an event that is about several."""

    __tablename__ = "event_watches"

    watch_id: str = Field(primary_key=True)
    event_id: str = Field(primary_key=True, index=True)


class DeliveryRow(SQLModel, table=True):
    """An event on its way to a target: the outbox. `attempts` counts those that were begun."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("deliveries_due", "status", "target", "next_at", "id"),  # a target's oldest, whatever waits for others
        Index("deliveries_leased", "lease_until"),
        Index("deliveries_ended", "ended_at"),
        Index("deliveries_of", "watch_id", "at"),
    )

    id: str = Field(primary_key=True)
    event_id: str = Field(index=True)
    watch_id: str | None = None
    target: str
    status: str = "pending"
    attempts: int = 0
    next_at: datetime = _time()
    token: str | None = None
    lease_until: datetime | None = _time(null=True)
    last_status: int | None = None
    last_error: str | None = _text(null=True)
    at: datetime = _time()
    ended_at: datetime | None = _time(null=True)


class DutyRow(SQLModel, table=True):
    """What one process at a time does, such as to evaluate the watches; another may once `until` is over."""

    __tablename__ = "duties"

    name: str = Field(primary_key=True)
    token: str
    until: datetime = _time()


TARGETS, WATCHES, WATCH_STATES = table_of(TargetRow), table_of(WatchRow), table_of(WatchStateRow)
SEEN_LEVELS, EVENTS, DELIVERIES = table_of(SeenLevelRow), table_of(EventRow), table_of(DeliveryRow)
DUTIES, EVENT_WATCHES = table_of(DutyRow), table_of(EventWatchRow)
