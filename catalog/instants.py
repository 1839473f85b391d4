"""How a moment is written wherever it is told, and how old what was stamped with it is."""

from datetime import UTC, datetime, timedelta


def time_text(at: datetime) -> str:
    """RFC 3339 in UTC with `Z`, in whole seconds. The time must know its zone."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def age_s(at: datetime, now: datetime) -> int:
    """Whole seconds since then; 0 for what a clock ahead of ours has stamped."""
    return max(0, (now - at) // timedelta(seconds=1))
