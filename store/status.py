"""How the feeds do: for `/providers`, the `sources` of an answer, `/syncs` and metrics."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Engine, RowMapping, and_, func, or_, select

from catalog.offers import SKEW
from catalog.words import Evidence
from store.engine import reading
from store.join import SNAPSHOT_FEED
from store.record import held_back
from store.snapshot import imported_at
from store.tables import CELLS, NOTES, PROVIDERS, SYNCS

FeedState = Literal["ok", "stale", "failing", "off"]
OF_OFFERS = ("machines", "prices", "spot", "stock")
_OF_MACHINES = ("prices", "spot")
"""Feeds of which a place may have a cell for each machine."""
_OF_PLACES = "places"
_NO_REGION = "no region is known yet: `places` has not answered"
_NOTHING_TO_ASK = "none of the regions that are known has anything to ask it for"
_UNTRIED = "not polled yet"
_SHIPPED = "list prices shipped with this version; it does not poll this provider"
_IMPORTED = (
    "imported from a snapshot that was made at {made:%Y-%m-%d %H:%M} UTC; nothing is polled of this provider here"
)
PLACES_NAMED = 5
"""How many places a reason names before it only counts them."""


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """A feed over all its cells. `last_success` is the oldest of its cells' last whole answers, the weakest link: None
    where one that is polled never gave any.
    """

    feed: str
    status: FeedState
    reason: str | None
    """Why it is paused or failing, what is held back, and which places were not polled yet or are off, and why."""
    last_success: datetime | None
    interval: timedelta | None
    offers: int = 0
    """How many offers its last answers state a price or stock of; of a mere list, how many machines."""
    failing: Sequence[str] = ()
    """The places (and parts) whose last poll failed. One that is new, and was not tried yet, is none of them."""
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

    @property
    def off(self) -> str | None:
        """What to set so that its places are asked for offers: where no feed asks, or none names the places and only
        those are asked that the settings name. None where they are asked.
        """
        off = {feed.feed: feed.reason or "off" for feed in self.feeds if feed.status == "off"}
        of_offers = {feed.feed for feed in self.feeds} & {*OF_OFFERS}
        if of_offers <= off.keys() or _OF_PLACES in off:
            return next((off[feed] for feed in (_OF_PLACES, *OF_OFFERS) if feed in off), None)
        return None

    @property
    def fails(self) -> bool:
        """Whether a feed that states what there is fails, or its answers are too old."""
        return any(feed.feed in OF_OFFERS and feed.status in ("failing", "stale") for feed in self.feeds)

    def before_another_site(self, site: str) -> "ProviderStatus":
        """The same while nothing was polled yet under this site: what its cells say is the other one's."""
        reason = f"{_UNTRIED} of site {site}; what was read is of site {self.site}"
        return replace(self, feeds=[_unread_feed(feed, reason) for feed in self.feeds])


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


def _unread_feed(feed: FeedStatus, reason: str) -> FeedStatus:
    return feed if feed.status == "off" else FeedStatus(feed.feed, "stale", reason, None, feed.interval)


Marks = tuple[tuple[tuple[object, ...], ...], tuple[tuple[object, ...], ...]]


def marks(engine: Engine) -> Marks:
    """What differs after every poll and every change of the settings: cheap to read and compare."""
    cells = select(CELLS.c.id, CELLS.c.planned, CELLS.c.revision, CELLS.c.tried_at, CELLS.c.status)
    with reading(engine) as connection:
        polled = connection.execute(cells.order_by(CELLS.c.id)).all()
        configured = connection.execute(select(PROVIDERS).order_by(PROVIDERS.c.name)).all()
    return tuple(map(tuple, polled)), tuple(map(tuple, configured))


def provider_statuses(engine: Engine, now: datetime) -> list[ProviderStatus]:
    """Every configured provider, by name."""
    with reading(engine) as connection:
        configured = select(PROVIDERS).where(PROVIDERS.c.configured).order_by(PROVIDERS.c.name)
        providers = connection.execute(configured).mappings().all()
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
    feeds += _without_cells(row, {one.feed for one in feeds}, by_feed)
    ordered = sorted(feeds, key=lambda one: one.feed)
    return ProviderStatus(row["name"], row["account"], row["site"], row["evidence"].split(","), row["paused"], ordered)


def _without_cells(
    row: RowMapping, shown: Collection[str], by_feed: Mapping[tuple[str, str], Sequence[RowMapping]]
) -> Iterator[FeedStatus]:
    """The feeds that run and have nothing to ask yet."""
    places = by_feed.get((row["name"], _OF_PLACES), ())
    waits = any(cell["seen_at"] is None for cell in places)
    reason = row["paused"] or (_NO_REGION if waits else _NOTHING_TO_ASK)
    for feed in row["feeds"].split(","):
        if feed and feed not in shown:
            yield FeedStatus(feed, "failing" if row["paused"] else "stale", reason, None, None)


def _feed(
    feed: str,
    cells: Sequence[RowMapping],
    by_cell: Mapping[int, Mapping[str, int]],
    paused: str | None,
    now: datetime,
) -> FeedStatus:
    polled = [cell for cell in cells if cell["status"] != "off"]
    failing = sorted({_where(cell) for cell in polled if cell["status"] in ("failed", "suspicious")})
    seen = [cell["seen_at"] for cell in polled]
    notes: dict[str, int] = defaultdict(int)
    for cell in cells:
        for kind, count in by_cell.get(cell["id"], {}).items():
            notes[kind] += count
    return FeedStatus(
        feed=feed,
        status=_status(polled, now, doing_badly=bool(failing or paused)),
        reason=_reason(cells, paused),
        last_success=min(seen) if seen and None not in seen else None,
        interval=timedelta(seconds=min(cell["every_s"] for cell in cells)),
        offers=sum(cell["offers"] for cell in cells),
        failing=failing,
        notes=dict(sorted(notes.items())),
    )


def _reason(cells: Sequence[RowMapping], paused: str | None) -> str | None:
    off = [cell for cell in cells if cell["status"] == "off"]
    errors = [_told(cell) for cell in cells if cell["error"] and cell["status"] != "off"]
    told = [paused or (errors[0] if errors else ""), _held(cells), _untried(cells), _off(off, len(cells))]
    return "; ".join(filter(None, told)) or None


def _told(cell: RowMapping) -> str:
    """What a cell's last poll lacked or failed of; of a partial answer also when it came, which is how old it is."""
    error: str = cell["error"]
    return f"partial answer of {cell['tried_at']:%Y-%m-%d %H:%M} UTC: {error}" if cell["status"] == "partial" else error


def _held(cells: Sequence[RowMapping]) -> str:
    """Since when an answer waits for its second, where the last poll said something else."""
    since = [cell["held_at"] for cell in cells if cell["held_at"] is not None and cell["status"] != "suspicious"]
    return f"an answer that named far less is {held_back(min(since))}" if since else ""


def _untried(cells: Sequence[RowMapping]) -> str:
    """Which places were not asked yet: the mere fact where none was."""
    new = [_where(cell) for cell in cells if cell["status"] == "new"]
    if not new or len(new) == len(cells):
        return _UNTRIED if new else ""
    return f"{_UNTRIED} at {len(new)} of {len(cells)} places: {_named(new)}"


def _off(cells: Sequence[RowMapping], of: int) -> str:
    """Which places are off and why: `off at 1 of 12 places: CZ: not served`. The mere reason where all have one."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        by_reason[cell["error"] or "off"].append(_where(cell))
    if len(cells) == of and len(by_reason) == 1:
        return next(iter(by_reason))
    said = sorted(f"{_named(places)}: {reason}" for reason, places in by_reason.items())  # cells come in any order
    return f"off at {len(cells)} of {of} places: {'; '.join(said)}" if said else ""


def _named(places: Sequence[str]) -> str:
    more = len(places) - PLACES_NAMED
    return ", ".join(sorted(places)[:PLACES_NAMED]) + (f" and {more} more" if more > 0 else "")


def _fresh(cell: RowMapping, now: datetime) -> bool:
    """Whether it was seen, not too long ago, and not in the future."""
    seen_at = cell["seen_at"]
    return seen_at is not None and -SKEW <= now - seen_at <= timedelta(seconds=cell["fresh_s"])


def _where(cell: RowMapping) -> str:
    return " ".join(filter(None, (cell["place"], cell["part"]))) or "everywhere"


def _status(polled: Sequence[RowMapping], now: datetime, *, doing_badly: bool) -> FeedState:
    """`failing` while polls fail and what was read is still fresh, and where nothing was read yet that could grow old;
    `stale` once anything that was read is older, whether or not polls fail.
    """
    if not polled:
        return "off"
    if any(cell["seen_at"] is not None and not _fresh(cell, now) for cell in polled):
        return "stale"
    if doing_badly:
        return "failing"
    return "ok" if all(_fresh(cell, now) for cell in polled) else "stale"


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


def unread(engine: Engine) -> frozenset[tuple[str, str]]:
    """(provider, place) of each planned source of offers that never gave a whole answer; "" is all of the provider.

    While a provider's places were not read, none of its regions is polled. Of prices a place was read once one of its
    cells was: there is one for each machine, and a machine that is never answered for hides none of the others.
    """
    of_place = select(CELLS.c.provider, CELLS.c.feed, CELLS.c.place).group_by(
        CELLS.c.provider, CELLS.c.feed, CELLS.c.place
    )
    seen, of_feed = func.count(CELLS.c.seen_at), CELLS.c.feed.in_((*OF_OFFERS, _OF_PLACES))
    waiting = of_place.where(CELLS.c.planned, CELLS.c.status != "off", of_feed).having(
        or_(seen == 0, and_(seen < func.count(), CELLS.c.feed.not_in(_OF_MACHINES)))
    )
    with reading(engine) as connection:
        rows = connection.execute(waiting).all()
    return frozenset((row.provider, "" if row.feed == _OF_PLACES else row.place) for row in rows)


def read_places(engine: Engine) -> frozenset[tuple[str, str]]:
    """(provider, place) of each planned source of offers that gave a whole answer, be it that there is nothing; "" is
    all of the provider.
    """
    of_offers = CELLS.c.planned & CELLS.c.seen_at.is_not(None) & CELLS.c.feed.in_(OF_OFFERS)
    with reading(engine) as connection:
        rows = connection.execute(select(CELLS.c.provider, CELLS.c.place).where(of_offers).distinct()).all()
    return frozenset((row.provider, row.place) for row in rows)


def snapshots(engine: Engine) -> list[ProviderStatus]:
    """Each provider in the price list that is shipped or imported, by name: what it is to `/providers`."""
    counted = select(
        CELLS.c.provider, func.min(CELLS.c.seen_at).label("since"), func.sum(CELLS.c.offers).label("offers")
    )
    query = counted.where(CELLS.c.feed == SNAPSHOT_FEED, CELLS.c.offers > 0)
    with reading(engine) as connection:
        rows = connection.execute(query.group_by(CELLS.c.provider).order_by(CELLS.c.provider)).all()
        made = imported_at(connection)
    reason = _SHIPPED if made is None else _IMPORTED.format(made=made)
    return [_snapshot(row.provider, reason, row.since, row.offers) for row in rows]


def _snapshot(provider: str, reason: str, since: datetime, offers: int) -> ProviderStatus:
    feed = FeedStatus(SNAPSHOT_FEED, "stale", reason, since, None, offers)
    return ProviderStatus(provider, False, None, (Evidence.SNAPSHOT.value,), None, (feed,))
