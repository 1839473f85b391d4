"""The clock of a simulated cloud: seconds since its start, moved by real time, by hand, or by both."""

import time
from datetime import UTC, datetime, timedelta
from threading import Lock


class SimClock:
    """Seconds since the start of a scenario.

    `speed` is how many scenario seconds pass in one real second; 0 is a clock that only `advance` moves.
    """

    def __init__(self, speed: float = 1.0) -> None:
        if speed < 0:
            raise ValueError(f"clock speed {speed}: must be 0 (moved by hand) or more")
        self.speed = speed
        self._started_at = datetime.now(UTC)
        self._started_monotonic_s = time.monotonic()
        self._advanced_s = 0.0
        self._jumps: list[tuple[float, float, datetime]] = []  # from and to scenario second, and when in UTC
        self._lock = Lock()

    def elapsed_s(self) -> float:
        """Return the scenario seconds since the start."""
        return (time.monotonic() - self._started_monotonic_s) * self.speed + self._advanced_s

    def advance(self, seconds: float) -> float:
        """Move the clock forward and return the new `elapsed_s`. Time never runs backwards: negative is refused."""
        if seconds < 0:
            raise ValueError(f"cannot advance by {seconds} s: scenario time does not run backwards")
        with self._lock:
            before_s = self.elapsed_s()
            self._advanced_s += seconds
            self._jumps.append((before_s, before_s + seconds, datetime.now(UTC)))
        return self.elapsed_s()

    def wall_time(self, elapsed_s: float) -> datetime:
        """Return when a past scenario second was, in UTC: one that was skipped was when the clock was advanced.

        Seconds before the start, negative, are as long as real ones.
        """
        if elapsed_s < 0:
            return self._started_at + timedelta(seconds=elapsed_s)
        since_s, since = 0.0, self._started_at
        for from_s, to_s, at in self._jumps:
            if from_s < elapsed_s <= to_s:
                return at
            if to_s < elapsed_s:
                since_s, since = to_s, at
        return since + timedelta(seconds=(elapsed_s - since_s) / self.speed) if self.speed else since
