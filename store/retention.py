"""Forgetting old history, a little at a time.

What was in force at the time before which all is forgotten stays: else a price that never changed would vanish. On
PostgreSQL the points of a month go together once all of it is older (`store.partitions`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, delete, exists, or_, select, tuple_

from catalog.words import Level
from store import partitions
from store.bulk import upsert
from store.engine import in_turn, is_postgresql, placeholder, reading, writing
from store.tables import BEATS, CELLS, FLAGS, LOGS, PAST_MACHINES, PRICE_LOG, PRICES, SERIES, STOCK_LOG, STOCKS
from store.times import MICROSECOND, micros

ROUND_EVERY = timedelta(hours=1)
"""All of the history is gone through once in so long, at the most."""
SERIES_AT_ONCE = 2_000
POINTS_AT_ONCE = 20_000
"""What one call looks at, and takes out of each log, at the most: on SQLite others wait for it."""
_FLAG = "history_pruned"

Source = tuple[int, int]
"""(cell, series), the order in which they are gone through."""


@dataclass(frozen=True, slots=True)
class _Round:
    """How far a round has come: `after` is the last series that was looked at, None once it is over."""

    before: int
    after: Source | None


def prune(engine: Engine, before: datetime) -> None:
    """Forget some of the history from before this time. To be called every minute; cheap where nothing is to be done.

    Any number of workers may call it: each takes its turn, and goes on where the last one was.
    """
    with reading(engine) as connection:
        if not _due(_round(connection), before):
            return
    partitions.drop(engine, before)
    with writing(engine) as connection:
        in_turn(connection, _FLAG)
        current = _round(connection)
        if _due(current, before):
            after = current.after if current is not None and current.after is not None else (-1, 0)
            _keep(connection, _Round(micros(before), _go_on(connection, after, before)))


def _due(current: _Round | None, before: datetime) -> bool:
    """Whether a round is under way, or the last one was long ago (or in the future, by a clock since set back)."""
    if current is None or current.after is not None:
        return True
    return abs(micros(before) - current.before) * MICROSECOND >= ROUND_EVERY


def _round(connection: Connection) -> _Round | None:
    value = connection.execute(select(FLAGS.c.value).where(FLAGS.c.name == _FLAG)).scalar_one_or_none()
    if value is None:
        return None
    before, after = json.loads(value)
    return _Round(before, None if after is None else (after[0], after[1]))


def _keep(connection: Connection, current: _Round) -> None:
    upsert(connection, FLAGS.name, ("name",), ("value",), [(_FLAG, json.dumps([current.before, current.after]))])


def _go_on(connection: Connection, after: Source, before: datetime) -> Source | None:
    """Look at the next series; returns which was the last one, None where there are no more."""
    key = tuple_(SERIES.c.cell_id, SERIES.c.id)
    query = select(SERIES.c.cell_id, SERIES.c.id).where(key > after).order_by(SERIES.c.cell_id, SERIES.c.id)
    some = connection.execute(query.limit(SERIES_AT_ONCE)).all()
    if not some:
        connection.execute(delete(BEATS).where(BEATS.c.until_at <= before))
        connection.execute(delete(PAST_MACHINES).where(PAST_MACHINES.c.gone_at < before))
        return None
    last = (some[-1].cell_id, some[-1].id)
    if not all(_thin(connection, log, (after, last), before) for log in LOGS):
        return after
    _forget(connection, and_(key > after, key <= last), before)
    return last


def _thin(connection: Connection, log: Table, among: tuple[Source, Source], before: datetime) -> bool:
    """Take out the points of these series that others had replaced by then; returns whether that was all of them."""
    mark = placeholder(connection.dialect)
    thinned = f"{log.name}_rest" if is_postgresql(connection) else log.name
    # Series by series along the key of the log: by its time it has no index, which every poll would pay for.
    result = connection.exec_driver_sql(
        f"DELETE FROM {thinned} WHERE (cell_id, series, at) IN (SELECT old.cell_id, old.series, old.at FROM "  # noqa: S608
        f"(SELECT cell_id, id, (SELECT max(at) FROM {log.name} AS earlier WHERE earlier.cell_id = series.cell_id "
        f"AND earlier.series = series.id AND earlier.at <= {mark}) AS last FROM series "
        f"WHERE (cell_id, id) > ({mark}, {mark}) AND (cell_id, id) <= ({mark}, {mark})) AS kept "
        f"CROSS JOIN {thinned} AS old WHERE old.cell_id = kept.cell_id AND old.series = kept.id AND old.at < kept.last "
        f"LIMIT {mark})",
        (micros(before), *among[0], *among[1], POINTS_AT_ONCE),
    )
    return result.rowcount < POINTS_AT_ONCE


def _forget(connection: Connection, among: ColumnElement[bool], before: datetime) -> None:
    """Take out the series that say nothing of any later time: nobody states them now, and nothing was stated since.

    Their cells are locked first, as by whoever records an answer; those that are busy are left to the next round.
    """
    silent = _silent(before)
    cells = connection.execute(select(SERIES.c.cell_id).where(among, silent).distinct()).scalars().all()
    if not cells:
        return
    lock = select(CELLS.c.id).where(CELLS.c.id.in_(cells)).with_for_update(skip_locked=True)
    locked = SERIES.c.cell_id.in_(connection.execute(lock).scalars().all())
    gone = connection.execute(select(SERIES.c.cell_id, SERIES.c.id).where(among, locked, silent)).all()
    _delete(connection, [(row.cell_id, row.id) for row in gone])


def _silent(before: datetime) -> ColumnElement[bool]:
    """No price or stock has the series' key now; no point is newer; and what was said last had ended by then, or the
    cell was not observed since.
    """
    keys = ("region", "zone_key", "instance_type", "purchase")
    stated = [
        exists().where(facts.c.cell_id == SERIES.c.cell_id, *(facts.c[name] == SERIES.c[name] for name in keys))
        for facts in (PRICES, STOCKS)
    ]
    newer = [exists().where(_of(log), log.c.at > before) for log in LOGS]
    in_force = or_(
        exists().where(_of(PRICE_LOG), PRICE_LOG.c.nanos.is_not(None)),
        exists().where(_of(STOCK_LOG), STOCK_LOG.c.level != Level.UNKNOWN.value),
    )
    observed = exists().where(BEATS.c.cell_id == SERIES.c.cell_id, BEATS.c.until_at > before)
    return ~or_(*stated, *newer, and_(in_force, observed))


def _of(log: Table) -> ColumnElement[bool]:
    return and_(log.c.cell_id == SERIES.c.cell_id, log.c.series == SERIES.c.id)


def _delete(connection: Connection, sources: Sequence[Source]) -> None:
    mark = placeholder(connection.dialect)
    if sources:
        for table, name in ((PRICE_LOG, "series"), (STOCK_LOG, "series"), (SERIES, "id")):
            here = f"cell_id = {mark} AND {name} = {mark}"
            connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE {here}", list(sources))  # noqa: S608
