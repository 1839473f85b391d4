"""The tables. What a provider stated belongs to the cell that stated it, and only that cell settles it."""

from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)
from sqlmodel import Field, SQLModel

from store.times import Instant


def _time(*, null: bool = False, index: bool = False) -> Any:
    return Field(default=None if null else ..., sa_column=Column(Instant, nullable=null, index=index))


def _big(*, null: bool = False) -> Any:
    return Field(default=None if null else ..., sa_column=Column(BigInteger, nullable=null))


class CellRow(SQLModel, table=True):
    """A cell and its schedule. `seen_at` is the time of its last whole answer; `revision` rises with each change."""

    __tablename__ = "cells"
    __table_args__ = (
        UniqueConstraint("provider", "feed", "place", "part"),
        Index("cells_due", "planned", "due_at"),
        {"sqlite_autoincrement": True},  # a reader that knows a cell by its id never meets another one under it
    )

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    provider: str
    feed: str
    place: str
    part: str
    every_s: float
    fresh_s: float
    absent: str
    limit_key: str
    """What pauses together when the provider throttles."""
    limit_per_s: float
    planned: bool = True
    due_at: datetime = _time()
    lease_until: datetime | None = _time(null=True)
    token: str | None = None
    paused_until: datetime | None = _time(null=True)
    memo: str = "{}"
    revision: int = 0
    seen_at: datetime | None = _time(null=True)
    tried_at: datetime | None = _time(null=True)
    status: str = "new"
    error: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    failures: int = 0
    facts: int = 0
    offers: int = 0
    held: str | None = None
    """The digest of a suspicious answer that waits for a second one that says the same."""
    held_at: datetime | None = _time(null=True)
    digest: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Of all that its last whole answer stated, where the rows say just that; else empty."""


class ProviderRow(SQLModel, table=True):
    """A provider as configured, or as it last was. `paused` says why it is not asked; `fingerprint` tells changed
    settings.
    """

    __tablename__ = "providers"

    name: str = Field(primary_key=True)
    account: bool
    site: str | None = None
    evidence: str
    off: str = "{}"
    fingerprint: str
    paused: str | None = None
    configured: bool = True
    feeds: str = ""
    """The names of the feeds that run, also of one that has no cell yet."""


class RegionRow(SQLModel, table=True):
    """A region that a provider named."""

    __tablename__ = "regions"

    cell_id: int = Field(primary_key=True)
    region: str = Field(primary_key=True)
    name: str | None
    country: str | None
    enabled: bool | None
    hash: int = _big()


class ZoneRow(SQLModel, table=True):
    """A zone's name beside its id."""

    __tablename__ = "zones"

    cell_id: int = Field(primary_key=True)
    region: str = Field(primary_key=True)
    zone: str = Field(primary_key=True)
    zone_id: str | None
    hash: int = _big()


class _MachineSaid(SQLModel):
    """What is stated of a machine. `gpu_count` is an exact fraction in text."""

    gpu: str | None
    gpu_count: str | None
    gpu_raw: str
    vram_mib: int | None
    vcpus: int | None
    memory_mib: int | None
    nvlink: bool | None
    rdma: bool | None
    bare_metal: bool | None
    hosting: str
    upstream: str | None
    purchases: str


class MachineRow(_MachineSaid, table=True):
    """A machine as a cell stated it; `seen_at` null is the cell's own."""

    __tablename__ = "machines"

    cell_id: int = Field(primary_key=True)
    region: str = Field(primary_key=True, index=True)
    instance_type: str = Field(primary_key=True)
    hash: int = _big()
    seen_at: datetime | None = _time(null=True)


class OfferedRow(SQLModel, table=True):
    """A machine is sold in a zone."""

    __tablename__ = "offered"

    cell_id: int = Field(primary_key=True)
    region: str = Field(primary_key=True, index=True)
    zone_key: str = Field(primary_key=True)
    instance_type: str = Field(primary_key=True)
    zone: str | None
    zone_id: str | None
    hash: int = _big()
    seen_at: datetime | None = _time(null=True)


class PriceRow(SQLModel, table=True):
    """A price. `missing` counts the whole answers in a row that did not name it; `seen_at` is then its last time."""

    __tablename__ = "prices"

    cell_id: int = Field(primary_key=True)
    region: str = Field(primary_key=True, index=True)
    zone_key: str = Field(primary_key=True)
    instance_type: str = Field(primary_key=True)
    purchase: str = Field(primary_key=True)
    zone: str | None
    zone_id: str | None
    nanos: int = _big()
    currency: str
    source: str
    list_nanos: int | None = _big(null=True)
    upfront_nanos: int | None = _big(null=True)
    term_months: int | None
    window_starts_at: datetime | None = _time(null=True)
    window_ends_at: datetime | None = _time(null=True)
    estimated: bool
    as_of: datetime | None = _time(null=True)
    hash: int = _big()
    seen_at: datetime | None = _time(null=True)
    missing: int = 0


class StockRow(SQLModel, table=True):
    """A stock level under one purchase."""

    __tablename__ = "stocks"

    cell_id: int = Field(primary_key=True)
    region: str = Field(primary_key=True, index=True)
    zone_key: str = Field(primary_key=True)
    instance_type: str = Field(primary_key=True)
    purchase: str = Field(primary_key=True)
    zone: str | None
    zone_id: str | None
    level: str
    evidence: str
    detail: str
    score: str | None
    quantity: int | None
    hash: int = _big()
    seen_at: datetime | None = _time(null=True)


class SeriesRow(SQLModel, table=True):
    """What a history is of: a machine at a place under a purchase, as one cell states it. It outlives the offer."""

    __tablename__ = "series"

    cell_id: int = Field(primary_key=True)
    id: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    """A hash of the region, the zone's key, the machine and the purchase."""
    region: str
    zone_key: str
    instance_type: str
    purchase: str
    zone: str | None
    zone_id: str | None


_LOG: dict[str, Any] = {"sqlite_with_rowid": False, "postgresql_partition_by": "RANGE (at)"}
"""A log is one tree on SQLite, and on PostgreSQL a partition a month (`store.partitions`)."""


class PriceLogRow(SQLModel, table=True):
    """A price from a time on, until the next row of its series; null where it is withdrawn."""

    __tablename__ = "price_log"
    __table_args__ = _LOG

    cell_id: int = Field(primary_key=True)
    series: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    at: datetime = Field(sa_column=Column(Instant, primary_key=True))
    nanos: int | None = _big(null=True)
    currency: str | None


class StockLogRow(SQLModel, table=True):
    """A stock level from a time on, until the next row of its series; `unknown` where it is no longer stated."""

    __tablename__ = "stock_log"
    __table_args__ = _LOG

    cell_id: int = Field(primary_key=True)
    series: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    at: datetime = Field(sa_column=Column(Instant, primary_key=True))
    level: str
    evidence: str


class BeatRow(SQLModel, table=True):
    """A time during which a cell was observed without a gap: its whole answers came before the last was stale.

    Between its beats a series is not unchanged but unobserved.
    """

    __tablename__ = "beats"

    cell_id: int = Field(primary_key=True)
    start_at: datetime = Field(sa_column=Column(Instant, primary_key=True))
    until_at: datetime = _time()
    """When the last answer of it goes stale."""


class PastMachineRow(_MachineSaid, table=True):
    """A machine as it last was, of those that are gone: so that its history can still be asked for."""

    __tablename__ = "past_machines"

    provider: str = Field(primary_key=True)
    region: str = Field(primary_key=True)
    instance_type: str = Field(primary_key=True)
    gone_at: datetime = _time(index=True)


class NoteRow(SQLModel, table=True):
    """A record left out or a value not understood, as a cell's last whole answer has it."""

    __tablename__ = "notes"

    cell_id: int = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    value: str = Field(primary_key=True)
    count: int
    first_at: datetime = _time()


class DriftRow(SQLModel, table=True):
    """The last page of a cell that could not be read: what a new fixture is made from."""

    __tablename__ = "drifts"

    cell_id: int = Field(primary_key=True)
    at: datetime = _time()
    page: str
    error: str = Field(sa_column=Column(Text, nullable=False))
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class SyncRow(SQLModel, table=True):
    """A past poll."""

    __tablename__ = "syncs"

    id: int | None = Field(
        default=None, sa_column=Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    )
    provider: str
    feed: str
    place: str
    part: str
    status: str
    facts: int
    notes: int
    seconds: float
    error: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    started_at: datetime = _time(index=True)


class LimitRow(SQLModel, table=True):
    """A rate limit shared by all workers: when the next call may go out."""

    __tablename__ = "limits"

    key: str = Field(primary_key=True)
    next_at: datetime = _time()


class LaunchRow(SQLModel, table=True):
    """What a launch attempt taught. `until` is null where it changes nothing."""

    __tablename__ = "launches"

    id: str = Field(primary_key=True)
    provider: str
    region: str
    zone_key: str
    instance_type: str
    purchase: str
    outcome: str
    code: str | None
    level: str | None
    at: datetime = _time()
    until: datetime | None = _time(null=True, index=True)


class FlagRow(SQLModel, table=True):
    """A small thing to remember about this database: which snapshot it holds, how far the launches were read."""

    __tablename__ = "flags"

    name: str = Field(primary_key=True)
    value: str


def table_of(model: type[SQLModel]) -> Table:
    """The table of a model, for statements that need no objects."""
    return cast("Table", getattr(model, "__table__"))  # noqa: B009 - SQLModel's own attribute, unknown to its types


CELLS = table_of(CellRow)
PROVIDERS = table_of(ProviderRow)
REGIONS, ZONES, MACHINES = table_of(RegionRow), table_of(ZoneRow), table_of(MachineRow)
OFFERED, PRICES, STOCKS = table_of(OfferedRow), table_of(PriceRow), table_of(StockRow)
FACTS = (REGIONS, ZONES, MACHINES, OFFERED, PRICES, STOCKS)
"""The tables of facts."""
SERIES, BEATS, PAST_MACHINES = table_of(SeriesRow), table_of(BeatRow), table_of(PastMachineRow)
PRICE_LOG, STOCK_LOG = table_of(PriceLogRow), table_of(StockLogRow)
LOGS = (PRICE_LOG, STOCK_LOG)
NOTES = table_of(NoteRow)
DRIFTS = table_of(DriftRow)
SYNCS = table_of(SyncRow)
LIMITS = table_of(LimitRow)
LAUNCHES = table_of(LaunchRow)
FLAGS = table_of(FlagRow)
