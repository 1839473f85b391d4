"""How the feeds do: for `/providers`, the `sources` of an answer, `/syncs` and metrics."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Engine, RowMapping, func, select

from store.engine import reading
from store.join import SNAPSHOT_FEED
from store.tables import CELLS, NOTES, PROVIDERS, SYNCS


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """A feed over all its cells. `last_success` is the oldest of its cells' last whole answers: the weakest link."""

    feed: str
    status: str
    """ok, stale, failing or off."""
    reason: str | None
    last_success: datetime | None
    interval: timedelta | None
    offers: int = 0
    """How many offers its last whole answers state a price or stock of; of a mere list, how many machines."""
    failing: Sequence[str] = ()
    """The places (and parts) whose last poll failed."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """Kind of note -> how many."""


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """A provider and its feeds."""

    name: str
    account: bool
    site: str | None
    evidence: Sequence[str]
    paused: str | None
    feeds: Sequence[FeedStatus]


@dataclass(frozen=True, slots=True)
class Sync:
    """A past poll."""

    provider: str
    feed: str
    place: str
    part: str
    status: str
    facts: int
    notes: int
    seconds: float
    error: str | None
    started_at: datetime


@dataclass(frozen=True, slots=True)
class NoteSeen:
    """A note as it stands: how often, and since when."""

    provider: str
    feed: str
    place: str
    kind: str
    value: str
    count: int
    first_at: datetime


def provider_statuses(engine: Engine, now: datetime) -> list[ProviderStatus]:
    """Every configured provider, by name."""
    with reading(engine) as connection:
        providers = connection.execute(select(PROVIDERS).order_by(PROVIDERS.c.name)).mappings().all()
        cells = connection.execute(select(CELLS).where(CELLS.c.planned)).mappings().all()
        counts = select(NOTES.c.cell_id, NOTES.c.kind, func.sum(NOTES.c.count).label("total"))
        notes = connection.execute(counts.group_by(NOTES.c.cell_id, NOTES.c.kind)).all()
    by_cell: dict[int, dict[str, int]] = defaultdict(dict)
    for row in notes:
        by_cell[row.cell_id][row.kind] = row.total
    by_feed: dict[tuple[str, str], list[RowMapping]] = defaultdict(list)
    for cell in cells:
        by_feed[cell["provider"], cell["feed"]].append(cell)
    return [_provider(row, by_feed, by_cell, now) for row in providers]


def _provider(
    row: RowMapping,
    by_feed: Mapping[tuple[str, str], Sequence[RowMapping]],
    by_cell: Mapping[int, Mapping[str, int]],
    now: datetime,
) -> ProviderStatus:
    off: dict[str, str] = json.loads(row["off"])
    feeds = [FeedStatus(feed, "off", reason, None, None) for feed, reason in off.items()]
    for (provider, feed), cells in by_feed.items():
        if provider == row["name"] and feed != SNAPSHOT_FEED and feed not in off:
            feeds.append(_feed(feed, cells, by_cell, row["paused"], now))
    ordered = sorted(feeds, key=lambda one: one.feed)
    return ProviderStatus(row["name"], row["account"], row["site"], row["evidence"].split(","), row["paused"], ordered)


def _feed(
    feed: str,
    cells: Sequence[RowMapping],
    by_cell: Mapping[int, Mapping[str, int]],
    paused: str | None,
    now: datetime,
) -> FeedStatus:
    polled = [cell for cell in cells if cell["status"] != "off"]
    failing = sorted({_where(cell) for cell in polled if cell["status"] in ("failed", "suspicious")})
    last = min((cell["seen_at"] for cell in polled if cell["seen_at"] is not None), default=None)
    errors = [cell["error"] for cell in (polled or cells) if cell["error"]]
    notes: dict[str, int] = defaultdict(int)
    for cell in cells:
        for kind, count in by_cell.get(cell["id"], {}).items():
            notes[kind] += count
    return FeedStatus(
        feed=feed,
        status=_status(polled, failing, paused, stale=any(_stale(cell, now) for cell in polled)),
        reason=paused or (errors[0] if errors else None),
        last_success=last,
        interval=timedelta(seconds=min(cell["every_s"] for cell in cells)),
        offers=sum(cell["offers"] for cell in cells),
        failing=failing,
        notes=dict(sorted(notes.items())),
    )


def _stale(cell: RowMapping, now: datetime) -> bool:
    return cell["seen_at"] is None or now - cell["seen_at"] > timedelta(seconds=cell["fresh_s"])


def _where(cell: RowMapping) -> str:
    return " ".join(filter(None, (cell["place"], cell["part"])))


def _status(polled: Sequence[RowMapping], failing: Sequence[str], paused: str | None, *, stale: bool) -> str:
    if not polled:
        return "off"
    if failing or paused:
        return "failing"
    return "stale" if stale else "ok"


def syncs(engine: Engine, limit: int = 100, ids: Sequence[int] | None = None) -> list[Sync]:
    """Past polls, newest first."""
    query = select(SYNCS).order_by(SYNCS.c.id.desc()).limit(limit)
    if ids is not None:
        query = query.where(SYNCS.c.id.in_(ids))
    with reading(engine) as connection:
        rows = connection.execute(query).mappings().all()
    return [Sync(**{key: value for key, value in row.items() if key != "id"}) for row in rows]


def notes(engine: Engine, limit: int) -> list[NoteSeen]:
    """What was left out or not understood, most frequent first."""
    query = (
        select(CELLS.c.provider, CELLS.c.feed, CELLS.c.place)
        .add_columns(NOTES.c.kind, NOTES.c.value, NOTES.c.count, NOTES.c.first_at)
        .join(CELLS, CELLS.c.id == NOTES.c.cell_id)
        .order_by(NOTES.c.count.desc(), CELLS.c.provider, CELLS.c.feed, CELLS.c.place, NOTES.c.kind, NOTES.c.value)
        .limit(limit)
    )
    with reading(engine) as connection:
        return [NoteSeen(**row) for row in connection.execute(query).mappings()]
