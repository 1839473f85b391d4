"""The state of the simulated clouds: rows as they stand now, faults in force, and a log of what was asked."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from threading import Lock
from typing import Any

from simcloud.clock import SimClock
from simcloud.faults import Fault, fits
from simcloud.scenario import Change, Scenario, ScenarioError

Row = dict[str, Any]
Identity = dict[str, str]


@dataclass(slots=True)
class Seen:
    """One request that a cloud received; `status` is None while, or because, it was never answered."""

    provider: str
    action: str
    region: str
    part: str
    credential: str
    at: datetime
    elapsed_s: float
    fault: str | None = None
    status: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it with the time as RFC 3339 text."""
        return asdict(self) | {"at": self.at.isoformat()}


def exact(number: Any) -> Decimal:
    """Return a number of a scenario, or one set by hand as text or float, as the decimal that was written."""
    return Decimal(str(number))


class World:
    """Everything the servers of one scenario share. Safe to use from several threads.

    Rows are a function of the clock: the rows of the start, then the scenario's changes up to now in this loop, then
    the changes made by hand, which outlive the loop.
    """

    def __init__(self, scenario: Scenario, clock: SimClock) -> None:
        self.scenario = scenario
        self.clock = clock
        self.options: dict[str, dict[str, Any]] = {}
        self._levels: dict[str, Collection[str]] = {}
        self._first: dict[str, list[Row]] = {}
        self._scripted: dict[str, list[tuple[Change, list[int]]]] = {}
        self._manual: list[tuple[Change, list[int]]] = []
        self._faults: list[Fault] = []
        self._struck: dict[int, int] = {}
        self._log: list[Seen] = []
        self._lock = Lock()

    def add(self, provider: str, rows: Iterable[Row], options: Mapping[str, Any], levels: Collection[str] = ()) -> None:
        """Give a provider the rows and options it starts with, and the words that `stock` may be.

        Refuses a scenario with an event that touches no row.
        """
        self._levels[provider] = levels
        self.options[provider] = dict(options)
        self._first[provider] = [row | {"gone": False, "since_s": None} for row in rows]
        changes = [change for change in self.scenario.changes if change.provider == provider]
        self._scripted[provider] = [(change, self._touched(change)) for change in changes]

    def first_rows(self, provider: str) -> list[Row]:
        """Return the rows of the start, in the order of `rows`."""
        return self._first[provider]

    def rows(self, provider: str) -> list[Row]:
        """Return copies of the rows as they stand now, rows that are `gone` included.

        `since_s` is the scenario second of the last change to the row, None where there was none.
        """
        rows = [dict(row) for row in self._first[provider]]
        loop_start_s, within_s = self._loop_position()
        if loop_start_s > 0:
            for _change, touched in self._scripted[provider]:
                _apply(rows, touched, {}, loop_start_s)
        for change, touched in self._scripted[provider]:
            if change.at_s <= within_s:
                _apply(rows, touched, change.values, loop_start_s + change.at_s)
        for change, touched in list(self._manual):
            if change.provider == provider:
                _apply(rows, touched, change.values, change.at_s)
        return rows

    def set(self, provider: str, match: Mapping[str, str], values: Mapping[str, Any]) -> int:
        """Change by hand the rows that fit, from now on. Returns how many; refuses a change that touches none."""
        change = Change(self.clock.elapsed_s(), provider, dict(match), dict(values))
        touched = self._touched(change)
        with self._lock:
            self._manual.append((change, touched))
        return len(touched)

    def set_options(self, provider: str, options: Mapping[str, Any]) -> None:
        """Change a server's own settings; refuses one it does not have."""
        self._known(provider)
        if stray := sorted(options.keys() - self.options[provider].keys()):
            raise ScenarioError(f"{provider} has no option {stray[0]!r}; it has {', '.join(self.options[provider])}")
        self.options[provider].update(options)

    def add_fault(self, fault: Fault) -> None:
        """Put a fault in force."""
        self._known(fault.provider)
        with self._lock:
            self._faults.append(fault)

    def clear_faults(self) -> None:
        """End every fault that was not the scenario's."""
        with self._lock:
            self._faults.clear()

    def fault_for(self, provider: str, identity: Identity) -> Fault | None:
        """Return the fault that strikes this request, the newest first, and count the strike."""
        now_s = self.clock.elapsed_s()
        within_s = self._loop_position()[1]
        with self._lock:
            made = [fault for fault in reversed(self._faults) if fault.active(now_s)]
            scripted = [fault for fault in self.scenario.faults if fault.active(within_s)]
            return next((fault for fault in made + scripted if self._strikes(fault, provider, identity)), None)

    def _strikes(self, fault: Fault, provider: str, identity: Identity) -> bool:
        if not fault.meets(provider, identity):
            return False
        self._struck[id(fault)] = self._struck.get(id(fault), 0) + 1
        return fault.times is None or self._struck[id(fault)] <= fault.times

    def saw(self, provider: str, identity: Identity) -> Seen:
        """Log a request and return its entry, for the server to complete."""
        action, region, part, credential = (identity.get(key, "") for key in ("action", "region", "part", "credential"))
        seen = Seen(provider, action, region, part, credential, datetime.now(UTC), self.clock.elapsed_s())
        with self._lock:
            self._log.append(seen)
        return seen

    def requests(self, provider: str | None = None) -> list[Seen]:
        """Return the requests received so far, in order of arrival."""
        with self._lock:
            return [seen for seen in self._log if provider in (None, seen.provider)]

    def _loop_position(self) -> tuple[float, float]:
        elapsed_s, loop_s = self.clock.elapsed_s(), self.scenario.loop_s
        if loop_s is None:
            return 0.0, elapsed_s
        return elapsed_s // loop_s * loop_s, elapsed_s % loop_s

    def _known(self, provider: str) -> None:
        if provider not in self._first:
            raise ScenarioError(f"provider {provider!r} is not simulated here; running: {', '.join(self._first)}")

    def _touched(self, change: Change) -> list[int]:
        self._known(change.provider)
        first, levels = self._first[change.provider], self._levels[change.provider]
        if "stock" in change.values and change.values["stock"] not in levels:
            raise ScenarioError(
                f"{change.provider}: stock {change.values['stock']!r} is not one of {', '.join(levels)}"
            )
        fitting = [i for i, row in enumerate(first) if fits(change.match, row) and change.values.keys() <= row.keys()]
        if not fitting:
            wanted = f"match {dict(change.match)} and have {sorted(change.values)}"
            raise ScenarioError(f"{change.provider}: no row that would {wanted}; the change would do nothing")
        return fitting


def _apply(rows: list[Row], touched: list[int], values: Mapping[str, Any], at_s: float) -> None:
    for index in touched:
        rows[index].update(values, since_s=at_s)
