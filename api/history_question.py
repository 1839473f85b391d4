"""A question for history: the window it is about, and the parameters that say which offers are meant."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from catalog.durations import duration
from catalog.instants import time_text
from catalog.parameters import HISTORY_PARAMETERS, PARAMETERS
from selector.values import BadQuestion, alike, whole
from store.timeline import Span

WINDOW = timedelta(days=7)
"""How far back a window begins that says nothing else."""
DEFAULT_LIMIT, MOST_LIMIT, MOST_OFFSET = 100, 1000, 100_000_000
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[ +-]\d\d:\d\d)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OWN = ("from", "to", "limit", "offset")


@dataclass(frozen=True, slots=True)
class HistoryQuestion:
    """What is asked: `offers` say which ones, as to `/offers`; `defaults` are the operator's of those."""

    window: Span
    limit: int
    offset: int
    offers: Mapping[str, Sequence[str]]
    defaults: Mapping[str, str]


def history_question(
    params: Mapping[str, Sequence[str]], defaults: Mapping[str, str], now: datetime
) -> HistoryQuestion:
    """Read the parameters. Raises BadQuestion for one that is not known, or that a history cannot heed."""
    for name in params:
        _check(name)
    start = _time(params, "from", now) or now - WINDOW
    until = _time(params, "to", now) or now
    if start >= until:
        raise BadQuestion("from", f"from ({time_text(start)}) is not before to ({time_text(until)}).")
    limit, offset = _one(params, "limit"), _one(params, "offset")
    return HistoryQuestion(
        window=Span(start, until),
        limit=DEFAULT_LIMIT if limit is None else whole("limit", limit, 1, MOST_LIMIT),
        offset=0 if offset is None else whole("offset", offset, 0, MOST_OFFSET),
        offers={name: texts for name, texts in params.items() if name not in _OWN},
        defaults={name: text for name, text in defaults.items() if name.casefold() in HISTORY_PARAMETERS},
    )


def _check(name: str) -> None:
    if name in HISTORY_PARAMETERS:
        return
    if name in PARAMETERS:
        said = "a history shows what was stated, in its own currency, and compares nothing with now: leave it out."
        raise BadQuestion(name, f"{name} has no meaning here: {said}")
    raise BadQuestion(name, f"There is no parameter {name}.", alike(name, HISTORY_PARAMETERS))


def _one(params: Mapping[str, Sequence[str]], name: str) -> str | None:
    """The one value; None where the parameter is not there."""
    texts = {text.strip() for text in params.get(name, ())}
    if len(texts) > 1:
        raise BadQuestion(name, f"{name}: one value, please.")
    if "" in texts:
        raise BadQuestion(name, f"{name} is empty: give it a value or leave it out.")
    return next(iter(texts), None)


def _time(params: Mapping[str, Sequence[str]], name: str, now: datetime) -> datetime | None:
    text = _one(params, name)
    if text is None:
        return None
    try:
        found = _read(text, now)
    except (ValueError, OverflowError):  # a day that no calendar has
        found = None
    if found is None:
        said = "write a time with its zone (2026-11-01T08:00:00Z), a day (2026-11-01, from 00:00 UTC) or an age (7d)."
        said += " In an address + is written %2B: as it stands it is a blank." if " " in text else ""
        raise BadQuestion(name, f"{name}={text}: {said}")
    return found


def _read(text: str, now: datetime) -> datetime | None:
    if (age := duration(text)) is not None:
        return now - age
    if _DAY.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    if _TIME.fullmatch(text):
        # In a query string a plus sign that is not written %2B arrives as a blank.
        return datetime.fromisoformat(text.upper().replace(" ", "+")).astimezone(UTC)
    return None
