"""The exchange rates that were fetched since those shipped with the product, and whose turn it is to fetch them.

Both are flags: a list of some thirty rates that is read and written whole needs no table of its own.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from sqlalchemy import Connection, Engine, select

from catalog.fx import Rate, ecb_rates
from store.bulk import upsert
from store.engine import in_turn, reading, writing
from store.tables import FLAGS
from store.times import instant, micros

EVERY = timedelta(days=1)
"""How often they are fetched: there are new ones once a working day."""
RETRY = timedelta(hours=1)
"""How long whoever has the turn keeps it, so that a fetch that failed is tried again by anybody after that."""
MOST_MOVE = Fraction(1, 5)
"""How far from the rate before one may be without a second day's list that says the same."""
_RATES, _DUE = "fx_rates", "fx_due"


@dataclass(frozen=True, slots=True)
class Kept:
    """By currency: the rates in use, and those that wait for another day's list to say the same."""

    rates: Mapping[str, Rate]
    held: Mapping[str, Rate]


def claim(engine: Engine, now: datetime) -> bool:
    """Whether it is the caller's turn to fetch: never two callers' at a time, however many ask."""
    with reading(engine) as connection:
        if not _due(connection, now):
            return False
    with writing(engine) as connection:
        in_turn(connection, _RATES)
        due = _due(connection, now)
        if due:
            _write(connection, _DUE, str(micros(now + RETRY)))
        return due


def _due(connection: Connection, now: datetime) -> bool:
    """A time further ahead than any that is written is that of a clock since set back."""
    value = _value(connection, _DUE)
    return value is None or not now < instant(int(value)) <= now + EVERY + RETRY


def rates(engine: Engine) -> tuple[Rate, ...]:
    """The rates that were fetched; none where none were yet."""
    with reading(engine) as connection:
        return tuple(_kept(connection).rates.values())


def keep(engine: Engine, told: Iterable[Rate], now: datetime) -> list[Rate]:
    """Keep a list of rates, and be done for a day; returns those that are kept out for now."""
    with writing(engine) as connection:
        in_turn(connection, _RATES)
        kept = believed(told, _kept(connection))
        _write(connection, _RATES, json.dumps({"rates": _texts(kept.rates), "held": _texts(kept.held)}))
        _write(connection, _DUE, str(micros(now + EVERY)))
        return list(kept.held.values())


def believed(told: Iterable[Rate], before: Kept) -> Kept:
    """What to use after another list: a rate of an older day changes nothing, and one that moved too far is held until
    the list of a later day says the same. Pure.
    """
    known = ecb_rates().updated(before.rates.values())
    found, held = dict(before.rates), dict(before.held)
    for rate in told:
        last, waiting = known.rate(rate.base, rate.quote), before.held.get(rate.quote)
        if last is not None and rate.date < last.date:
            continue
        said_again = waiting is not None and waiting.date < rate.date and _near(rate, waiting)
        if last is None or _near(rate, last) or said_again:
            found[rate.quote] = rate
            held.pop(rate.quote, None)
        else:
            held[rate.quote] = rate
    return Kept(found, held)


def _near(rate: Rate, other: Rate) -> bool:
    return abs(Fraction(rate.rate) / Fraction(other.rate) - 1) <= MOST_MOVE


def _texts(rates: Mapping[str, Rate]) -> dict[str, list[str]]:
    return {name: [one.base, str(one.rate), one.date.isoformat(), one.source] for name, one in rates.items()}


def _kept(connection: Connection) -> Kept:
    stored = json.loads(_value(connection, _RATES) or "{}")
    rates, held = (
        {
            name: Rate(base, name, Decimal(rate), date.fromisoformat(day), source)
            for name, (base, rate, day, source) in stored.get(which, {}).items()
        }
        for which in ("rates", "held")
    )
    return Kept(rates, held)


def _value(connection: Connection, name: str) -> str | None:
    found: str | None = connection.execute(select(FLAGS.c.value).where(FLAGS.c.name == name)).scalar_one_or_none()
    return found


def _write(connection: Connection, name: str, value: str) -> None:
    upsert(connection, FLAGS.name, ("name",), ("value",), [(name, value)])
