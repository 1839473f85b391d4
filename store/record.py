"""Recording an answer: all of it or nothing, and only while the cell is still ours.

A failed poll touches no fact. A sudden shrink is held back until a second whole answer names the same things.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, RowMapping, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import DataError

from catalog.facts import Fact, Note
from catalog.words import Evidence
from store.engine import writing
from store.history_log import beat, bring_back
from store.plausible import believable
from store.rows import REGIONS, Sorted, sort_facts, storable, written
from store.settle import known_rows, stated_offers, write_facts
from store.tables import CELLS, DRIFTS, NOTES, STOCKS, SYNCS
from store.times import LONGEST_PAUSE

HELD_FOR = timedelta(days=1)
"""How long, beyond the cell's interval, a held answer waits for a second one that says the same."""


# Made once: to make them anew takes longer than to run them, for each answer that is recorded.
_HELD = select(CELLS).where(CELLS.c.id == bindparam("cell"), CELLS.c.token == bindparam("mine")).with_for_update()
_FINISH = update(CELLS).where(CELLS.c.id == bindparam("cell"))
_POLLED = insert(SYNCS)
_NOTES = select(NOTES.c.kind, NOTES.c.value, NOTES.c.first_at).where(NOTES.c.cell_id == bindparam("cell"))
_NO_NOTES = delete(NOTES).where(NOTES.c.cell_id == bindparam("cell"))
_RESTRICTIONS = select(func.count()).where(
    STOCKS.c.cell_id == bindparam("cell"), STOCKS.c.evidence == Evidence.LISTED.value
)


class LeaseLost(Exception):
    """Another worker has the cell: what this one fetched is not recorded."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed cell: the token proves it, `started_at` is when the poll began."""

    cell_id: int
    token: str
    provider: str
    feed: str
    place: str
    part: str
    every: timedelta
    memo: Mapping[str, str]
    started_at: datetime
    failures: int = 0
    off: str | None = None
    """What its last poll said that is to be set, or is not served; None where it was not off."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A parsed answer. `missing` says what of the whole it lacks ("" where nothing): it is then partial.

    `asked_at` is when its first page was asked for: what it states was so then, however long the others took.
    """

    facts: Sequence[Fact]
    notes: Sequence[Note] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    memo: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a poll: ok, unchanged, partial, failed, suspicious or off."""

    status: str
    facts: int = 0
    notes: int = 0
    error: str | None = None


def record(engine: Engine, lease: Lease, answer: Answer, now: datetime, due_at: datetime) -> Result:
    """Commit an answer, all of it or nothing. Raises LeaseLost if the cell is no longer ours.

    What no database of ours can hold is changed and noted.
    """
    stated, strange = believable(sort_facts(answer.facts))
    notes = Counter([*answer.notes, *stated.conflicts, *strange])
    notes.update({Note("skipped", reason): count for reason, count in answer.skipped.items()})
    try:
        return _record(engine, lease, answer, stated, notes, now, due_at)
    except (DataError, OverflowError, UnicodeEncodeError):  # seldom: not looked for in every answer
        kept, changed = storable(stated)
        if not changed:
            raise
        notes.update(changed)
        return _record(engine, lease, answer, kept, notes, now, due_at)


def _record(
    engine: Engine,
    lease: Lease,
    answer: Answer,
    stated: Sorted,
    notes: Counter[Note],
    now: datetime,
    due_at: datetime,
) -> Result:
    digest = stated.digest
    with writing(engine) as connection:
        cell = _held_cell(connection, lease)
        at, seen_at = later(cell, now), later(cell, answer.asked_at or now)
        _mend_future(connection, cell, min(at, seen_at))
        whole = not answer.missing
        if whole and _shrunk(connection, cell, stated, at):
            result = _hold_back(stated, cell, at)
            _finish(connection, lease, result, at, due_at, held=stated.names_digest, held_at=at)
            return result
        notes.update(_region_notes(connection, cell, stated) if whole else ())
        same = whole and cell["digest"] == digest
        just_this = same or write_facts(connection, cell, stated, whole=whole, now=seen_at)
        if whole:
            beat(connection, cell, seen_at)
        _write_notes(connection, lease.cell_id, notes, at)
        result = Result("ok" if whole else "partial", stated.size, sum(notes.values()), answer.missing or None)
        offers = stated.offers if whole else stated_offers(connection, cell["id"])
        learnt = _learnt(cell, stated, answer, seen_at, offers)
        _finish(connection, lease, result, at, due_at, digest=digest if just_this else "", **learnt)
        return result


def _region_notes(connection: Connection, cell: RowMapping, stated: Sorted) -> list[Note]:
    """A note for each region that is not polled, since nobody would miss it: not enabled here, or no longer named."""
    named = stated.rows[REGIONS.table]
    enabled = REGIONS.values.index("enabled")
    gone = known_rows(connection, REGIONS, cell["id"]).keys() - named.keys()
    return [
        *(Note("region_not_enabled", region) for (region,), values in named.items() if values[enabled] is False),
        *(Note("region_gone", region) for (region,) in gone),
    ]


def _learnt(cell: RowMapping, stated: Sorted, answer: Answer, at: datetime, offers: int) -> dict[str, object]:
    """What an answer makes of its cell. A partial one leaves no memo: "unchanged since" would then be about
    facts that are no longer the ones we hold. Nor does it say anything of a shrink.
    """
    learnt: dict[str, object] = {"revision": cell["revision"] + 1, "offers": offers}
    if answer.missing:
        return learnt | {"memo": "{}"} | _held(cell)
    return learnt | {"memo": json.dumps(dict(answer.memo)), "seen_at": at, "facts": stated.size}


def unchanged(engine: Engine, lease: Lease, now: datetime, due_at: datetime) -> Result:
    """The provider says that nothing changed: the cell is seen now, as it stands. One never seen stays so."""
    with writing(engine) as connection:
        cell = _held_cell(connection, lease)
        at = later(cell, now)
        _mend_future(connection, cell, at)
        result = Result("unchanged", cell["facts"])
        seen_at = cell["seen_at"] and at
        if seen_at is not None:
            beat(connection, cell, seen_at)
        _finish(connection, lease, result, at, due_at, seen_at=seen_at, revision=cell["revision"] + 1)
        return result


def failed(
    engine: Engine,
    lease: Lease,
    result: Result,
    now: datetime,
    due_at: datetime,
    drift: tuple[str, bytes] | None = None,
) -> Result:
    """A poll failed: nothing that is known changes, it only grows older. `drift` is the page not understood.

    A cell that goes off, or was off, is read again: what is not served here keeps no list from being whole.
    """
    with writing(engine) as connection:
        cell = _held_cell(connection, lease)
        if drift is not None:
            page, body = drift
            connection.execute(delete(DRIFTS).where(DRIFTS.c.cell_id == lease.cell_id))
            row = {"cell_id": lease.cell_id, "at": now, "page": page, "error": result.error or "", "body": body}
            connection.execute(insert(DRIFTS).values(row))
        at = later(cell, now)
        revision = cell["revision"] + (("off" in (cell["status"], result.status)) and cell["status"] != result.status)
        changes = {"failures": cell["failures"] + 1, "revision": revision}
        _finish(connection, lease, result, at, due_at, **changes, **_held(cell))
        return result


def _held_cell(connection: Connection, lease: Lease) -> RowMapping:
    mine = {"cell": lease.cell_id, "mine": lease.token}
    row = connection.execute(_HELD, mine).mappings().one_or_none()
    if row is None:
        raise LeaseLost(f"{lease.provider} {lease.feed} {lease.place} {lease.part}".strip())
    return row


def later(cell: RowMapping, now: datetime) -> datetime:
    """The time of a poll: it never goes back within a cell, however the clock steps.

    Only a time further ahead than `LONGEST_PAUSE` is let go: the clock that it was read from was wrong by hours, and
    until then no answer could be told from an old one.
    """
    known = [at for at in (cell["seen_at"], cell["tried_at"]) if at is not None and at <= now + LONGEST_PAUSE]
    return max(now, *known) if known else now


def _mend_future(connection: Connection, cell: RowMapping, at: datetime) -> None:
    """Take the history back that was written by a clock which was ahead by hours."""
    if any(known is not None and known > at + LONGEST_PAUSE for known in (cell["seen_at"], cell["tried_at"])):
        bring_back(connection, cell["id"], at)


def _shrunk(connection: Connection, cell: RowMapping, stated: Sorted, now: datetime) -> bool:
    """Whether a whole answer names under half of what the last one did, and no second one has said the same.

    Restrictions count on neither side: to lift them all takes no machine away.
    """
    if stated.size * 2 >= cell["facts"] or _said_before(cell, stated, now):
        return False
    lifted = connection.execute(_RESTRICTIONS, {"cell": cell["id"]}).scalar_one()
    return bool((stated.size - stated.restrictions) * 2 < cell["facts"] - lifted)


def _said_before(cell: RowMapping, stated: Sorted, now: datetime) -> bool:
    """Whether a held answer names the same. One from before a day without any answer confirms nothing: what was wrong
    then, an outage say, may be what is wrong now.
    """
    waits = HELD_FOR + timedelta(seconds=cell["every_s"])
    return bool(cell["held"] == stated.names_digest and cell["held_at"] is not None and now - cell["held_at"] <= waits)


def _hold_back(stated: Sorted, cell: RowMapping, now: datetime) -> Result:
    said = f"named {stated.size} where {cell['facts']} were named before"
    return Result("suspicious", stated.size, 0, f"{said}; {held_back(now)}")


def held_back(since: datetime) -> str:
    """How a person is told of a held answer."""
    return f"held back since {since:%Y-%m-%d %H:%M} UTC until a second answer says the same"


def _held(cell: RowMapping) -> dict[str, object]:
    """The held answer, for what says nothing of it."""
    return {"held": cell["held"], "held_at": cell["held_at"]}


def _finish(
    connection: Connection, lease: Lease, result: Result, now: datetime, due_at: datetime, **changes: object
) -> None:
    fields: dict[str, object] = {
        "status": result.status,
        "error": result.error,
        "tried_at": now,
        "due_at": due_at,
        "lease_until": None,
        "token": None,
        "held": None,
        "held_at": None,
        "failures": 0,
    }
    connection.execute(_FINISH, fields | changes | {"cell": lease.cell_id})
    poll = {
        "provider": lease.provider,
        "feed": lease.feed,
        "place": lease.place,
        "part": lease.part,
        "status": result.status,
        "facts": result.facts,
        "notes": result.notes,
        "seconds": max((now - lease.started_at).total_seconds(), 0.0),
        "error": result.error,
        "started_at": lease.started_at,
    }
    connection.execute(_POLLED, poll)


def _write_notes(connection: Connection, cell_id: int, notes: Mapping[Note, int], now: datetime) -> None:
    """The notes of this answer replace the last one's; a note that was there keeps the time it was first seen."""
    counts = Counter[tuple[str, str]]()
    for note, count in notes.items():
        counts[written(note.kind), written(note.value)] += count
    first = {(row.kind, row.value): row.first_at for row in connection.execute(_NOTES, {"cell": cell_id})}
    if first:
        connection.execute(_NO_NOTES, {"cell": cell_id})
    rows = [
        {"cell_id": cell_id, "kind": kind, "value": value, "count": count, "first_at": first.get((kind, value), now)}
        for (kind, value), count in counts.items()
    ]
    if rows:
        connection.execute(insert(NOTES), rows)
