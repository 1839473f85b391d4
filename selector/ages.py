"""Ages in words."""

from datetime import timedelta

_UNITS = ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "min"))


def age_text(age: timedelta) -> str:
    """An age in the largest unit of which there are at least two: `40 s`, `4 min`, `30 d`."""
    for unit, name in _UNITS:
        if age >= 2 * unit:
            return f"{age // unit} {name}"
    return f"{max(age, timedelta(0)) // timedelta(seconds=1)} s"


def ago_text(age: timedelta) -> str:
    """An age as told of a time: `40 s ago`; a negative one is of a clock ahead of ours: `2 h in the future`."""
    return f"{age_text(-age)} in the future" if age < timedelta(0) else f"{age_text(age)} ago"
