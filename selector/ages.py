"""Ages in words."""

from datetime import timedelta

_UNITS = ((timedelta(days=2), timedelta(days=1), "d"), (timedelta(hours=2), timedelta(hours=1), "h"))
_MINUTES = (timedelta(minutes=2), timedelta(minutes=1), "min")


def age_text(age: timedelta) -> str:
    """An age in the largest unit of which there are at least two: `40 s`, `4 min`, `30 d`."""
    for least, unit, name in (*_UNITS, _MINUTES):
        if age >= least:
            return f"{age // unit} {name}"
    return f"{max(age, timedelta(0)) // timedelta(seconds=1)} s"
