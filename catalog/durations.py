"""How a length of time is written, in a question and in the settings alike: `60s`, `10m`, `24h`, `7d`."""

import re
from datetime import timedelta

_WRITTEN = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
"""Seconds of each unit, the longest first."""
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(days=3650)  # a longer one, taken from now, leaves the calendar


def duration(text: str) -> timedelta | None:
    """The length of time that is written, from 1s to 3650d; None where the text is none."""
    found = _WRITTEN.fullmatch(text)
    length = timedelta(seconds=int(found[1]) * UNITS[found[2]]) if found else timedelta(0)
    return length if _SHORTEST <= length <= _LONGEST else None


def written(length: timedelta) -> str:
    """A length of whole seconds as it is written, in the longest unit that fits it: `2m`, `90s`; none is `0s`."""
    seconds = length // timedelta(seconds=1)
    unit, of = next(((unit, of) for unit, of in UNITS.items() if seconds and seconds % of == 0), ("s", 1))
    return f"{seconds // of}{unit}"
