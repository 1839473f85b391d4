"""Recording an answer: write only what changed, settle what a whole and plausible answer did not name.

A failed poll touches no fact. A sudden shrink is held back until a second whole answer names the same things.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, RowMapping, delete, insert, select, update

from catalog.facts import Fact, Note
from catalog.words import Evidence, Level
from store.engine import writing
from store.plausible import implausible
from store.rows import KINDS, PRICES, REGIONS, STOCKS, Key, Kind, Row, Sorted, hash_of, sort_facts
from store.tables import CELLS, DRIFTS, NOTES, SYNCS
from store.times import micros

WITHDRAWN_AFTER = 3
"""A price is withdrawn after so many whole answers in a row without it: feeds have left out families for days."""
GONE = 0
"""The hash of a stock row that a whole answer no longer named: no values have it, so what returns is written again."""


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
    """Commit an answer, all of it or nothing. Raises LeaseLost if the cell is no longer ours."""
    stated = sort_facts(answer.facts)
    notes = Counter([*answer.notes, *stated.conflicts, *implausible(stated)])
    notes.update({Note("skipped", reason): count for reason, count in answer.skipped.items()})
    with writing(engine) as connection:
        cell = _held_cell(connection, lease)
        at, seen_at = _later(cell, now), _later(cell, answer.asked_at or now)
        whole = not answer.missing
        if whole and _shrunk(cell, stated):
            result = _hold_back(stated, cell)
            _finish(connection, lease, result, at, due_at, held=stated.digest)
            return result
        notes.update(_region_notes(connection, cell, stated) if whole else ())
        write_facts(connection, cell, stated, whole=whole, now=seen_at)
        _write_notes(connection, lease.cell_id, notes, at)
        result = Result("ok" if whole else "partial", stated.size, sum(notes.values()), answer.missing or None)
        _finish(connection, lease, result, at, due_at, **_learnt(cell, stated, answer, seen_at))
        return result


def _region_notes(connection: Connection, cell: RowMapping, stated: Sorted) -> list[Note]:
    """A note for each region that is not polled, since nobody would miss it: not enabled here, or no longer named."""
    named = stated.rows[REGIONS.table]
    enabled = REGIONS.values.index("enabled")
    gone = _known(connection, REGIONS, cell["id"]).keys() - named.keys()
    return [
        *(Note("region_not_enabled", region) for (region,), values in named.items() if values[enabled] == 0),
        *(Note("region_gone", region) for (region,) in gone),
    ]


def _learnt(cell: RowMapping, stated: Sorted, answer: Answer, at: datetime) -> dict[str, object]:
    """What an answer makes of its cell. A partial one leaves no memo: "unchanged since" would then be about
    facts that are no longer the ones we hold. Nor does it say anything of a shrink.
    """
    revision = cell["revision"] + 1
    if answer.missing:
        return {"revision": revision, "memo": "{}", "held": cell["held"]}
    counts = {"facts": stated.size, "offers": stated.offers}
    return {"revision": revision, "memo": json.dumps(dict(answer.memo)), "seen_at": at, **counts}


def unchanged(engine: Engine, lease: Lease, now: datetime, due_at: datetime) -> Result:
    """The provider says that nothing changed: the cell is seen now, as it stands. One never seen stays so."""
    with writing(engine) as connection:
        cell = _held_cell(connection, lease)
        at = _later(cell, now)
        result = Result("unchanged", cell["facts"])
        seen_at = cell["seen_at"] and at
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
        at = _later(cell, now)
        revision = cell["revision"] + (("off" in (cell["status"], result.status)) and cell["status"] != result.status)
        changes = {"failures": cell["failures"] + 1, "held": cell["held"], "revision": revision}
        _finish(connection, lease, result, at, due_at, **changes)
        return result


def _held_cell(connection: Connection, lease: Lease) -> RowMapping:
    mine = (CELLS.c.id == lease.cell_id) & (CELLS.c.token == lease.token)
    row = connection.execute(select(CELLS).where(mine)).mappings().one_or_none()
    if row is None:
        raise LeaseLost(f"{lease.provider} {lease.feed} {lease.place} {lease.part}".strip())
    return row


def _later(cell: RowMapping, now: datetime) -> datetime:
    """The time of a poll: it never goes back within a cell, whatever the clock does."""
    return max(now, cell["seen_at"] or now, cell["tried_at"] or now)


def _shrunk(cell: RowMapping, stated: Sorted) -> bool:
    """Whether a whole answer names under half of what the last one did, and no second one has said the same."""
    return bool(stated.size * 2 < cell["facts"] and cell["held"] != stated.digest)


def _hold_back(stated: Sorted, cell: RowMapping) -> Result:
    said = f"named {stated.size} where {cell['facts']} were named before"
    return Result("suspicious", stated.size, 0, f"{said}; held back until a second answer says the same")


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
        "failures": 0,
    }
    connection.execute(update(CELLS).where(CELLS.c.id == lease.cell_id).values(fields | changes))
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
    connection.execute(insert(SYNCS).values(poll))


def _write_notes(connection: Connection, cell_id: int, notes: Mapping[Note, int], now: datetime) -> None:
    """The notes of this answer replace the last one's; a note that was there keeps the time it was first seen."""
    of_cell = NOTES.c.cell_id == cell_id
    first = {(row.kind, row.value): row.first_at for row in connection.execute(select(NOTES).where(of_cell))}
    connection.execute(delete(NOTES).where(of_cell))
    rows = [
        {"cell_id": cell_id, "kind": note.kind, "value": note.value, "count": count}
        | {"first_at": first.get((note.kind, note.value), now)}
        for note, count in notes.items()
    ]
    if rows:
        connection.execute(insert(NOTES), rows)


def write_facts(connection: Connection, cell: RowMapping, stated: Sorted, *, whole: bool, now: datetime) -> None:
    """Write what differs from what the cell is known to state, and settle what a whole answer does not name."""
    for kind in KINDS:
        _write_kind(connection, kind, cell, stated.rows[kind.table], whole=whole, now=now)


def _write_kind(
    connection: Connection, kind: Kind, cell: RowMapping, stated: Mapping[Key, Row], *, whole: bool, now: datetime
) -> None:
    stamp = None if whole or not kind.stamped else micros(now)
    known = _known(connection, kind, cell["id"])
    changed = []
    for key, values in stated.items():
        row_hash = hash_of(values)
        if known.get(key) != (row_hash, stamp):
            changed.append((cell["id"], *key, *values, row_hash, *_stamp(kind, stamp)))
    _upsert(connection, kind, changed)
    if whole:
        _settle(connection, kind, cell, [key for key in known if key not in stated and known[key] != (GONE, None)])


def _stamp(kind: Kind, stamp: int | None) -> tuple[int | None, ...]:
    """The columns beside the values: when the row itself was last seen, and how often it was missing since."""
    return (stamp, 0)[: len(_stamp_columns(kind))]


def _stamp_columns(kind: Kind) -> tuple[str, ...]:
    if kind is PRICES:
        return ("seen_at", "missing")
    return ("seen_at",) if kind.stamped else ()


def _known(connection: Connection, kind: Kind, cell_id: int) -> dict[Key, tuple[int, int | None]]:
    seen = "seen_at" if kind.stamped else "NULL"
    sql = f"SELECT {', '.join(kind.key)}, hash, {seen} FROM {kind.table} WHERE cell_id = ?"  # noqa: S608 - our own names
    width = len(kind.key)
    rows = connection.exec_driver_sql(sql, (cell_id,))
    return {tuple(row[:width]): (row[width], row[width + 1]) for row in rows}


def _upsert(connection: Connection, kind: Kind, rows: Sequence[tuple[object, ...]]) -> None:
    if not rows:
        return
    columns = ("cell_id", *kind.key, *kind.values, "hash", *_stamp_columns(kind))
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns[1 + len(kind.key) :])
    sql = (
        f"INSERT INTO {kind.table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "  # noqa: S608
        f"ON CONFLICT ({', '.join(('cell_id', *kind.key))}) DO UPDATE SET {changes}"
    )
    connection.exec_driver_sql(sql, list(rows))


def _settle(connection: Connection, kind: Kind, cell: RowMapping, gone: Iterable[Key]) -> None:
    """What a whole answer's silence means for each kind of fact."""
    keys = [(cell["id"], *key) for key in gone]
    if not keys:
        return
    where = " AND ".join(f"{name} = ?" for name in ("cell_id", *kind.key))
    if kind is PRICES:
        _age_prices(connection, cell, keys, where)
    elif kind is STOCKS and cell["absent"] == Level.OUT:
        values = (Level.OUT.value, Evidence.REPORTED.value, "no longer listed", GONE)
        sql = (
            "UPDATE stocks SET level = ?, evidence = ?, detail = ?, score = NULL, quantity = NULL, hash = ?, "  # noqa: S608
            f"seen_at = NULL WHERE {where}"
        )
        connection.exec_driver_sql(sql, [(*values, *key) for key in keys])
    else:
        connection.exec_driver_sql(f"DELETE FROM {kind.table} WHERE {where}", keys)  # noqa: S608


def _age_prices(connection: Connection, cell: RowMapping, keys: Sequence[tuple[object, ...]], where: str) -> None:
    last_seen = None if cell["seen_at"] is None else micros(cell["seen_at"])
    connection.exec_driver_sql(
        f"UPDATE prices SET missing = missing + 1, seen_at = coalesce(seen_at, ?) WHERE {where}",  # noqa: S608
        [(last_seen, *key) for key in keys],
    )
    connection.exec_driver_sql("DELETE FROM prices WHERE cell_id = ? AND missing >= ?", (cell["id"], WITHDRAWN_AFTER))
