"""The table that a run prints: a figure, its peer's, their ratio, and what the ratio is held to."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limit:
    """What a line is held to. `of_figure`: the figure itself is, and not its ratio to the peer's."""

    text: str
    low: float | None = None
    high: float | None = None
    of_figure: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value is within the limit, its ends included."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


def at_least(low: float) -> Limit:
    """The ratio is held to be this, or more."""
    return Limit(f">= {low:g} x", low=low)


def at_most(high: float) -> Limit:
    """The ratio is held to be this, or less."""
    return Limit(f"<= {high:g} x", high=high)


def figure_at_most(high: float, unit: str) -> Limit:
    """The figure is held to be this, or less."""
    return Limit(f"<= {high:g} {unit}", high=high, of_figure=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure. `ratio` is the figure over the peer's unless a bench measured it better, round by round."""

    name: str
    figure: float | None
    unit: str
    peer: str = ""
    peer_figure: float | None = None
    ratio: float | None = None
    limit: Limit | None = None
    note: str = ""

    @property
    def over_peer(self) -> float | None:
        """The figure over its peer's; None where one of them was not measured."""
        if self.ratio is not None or self.figure is None or not self.peer_figure:
            return self.ratio
        return self.figure / self.peer_figure

    @property
    def verdict(self) -> str:
        """`met`, `falls short`, or why there is neither."""
        value = None if self.limit is None else self.figure if self.limit.of_figure else self.over_peer
        if self.figure is None or self.limit is None:
            return "reported" if self.figure is not None else "skipped"
        if value is None:
            return "no peer"
        return "met" if self.limit.holds(value) else "falls short"


def skipped(name: str, why: str) -> Line:
    """A line that could not be measured here, and why."""
    return Line(name=name, figure=None, unit="", note=why)


HEADER = ("bench", "figure", "unit", "peer", "peer's", "ratio", "limit", "", "")


def text(lines: Sequence[Line]) -> str:
    """The lines in columns, for people."""
    rows = [HEADER, *(_cells(line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cells(line: Line) -> tuple[str, ...]:
    ratio = line.over_peer
    shown = "" if ratio is None else f"{_number(ratio)} x"
    limit = line.limit.text if line.limit else ""
    peers = _number(line.peer_figure)
    return (line.name, _number(line.figure), line.unit, line.peer, peers, shown, limit, line.verdict, line.note)


def _number(value: float | None) -> str:
    """Three significant digits, thousands set apart."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write_json(path: Path, lines: Sequence[Line], about: dict[str, object]) -> None:
    """The same for programs, with what the run was made on."""
    found = [asdict(line) | {"ratio": line.over_peer, "verdict": line.verdict} for line in lines]
    path.write_text(json.dumps(about | {"lines": found}, indent=1) + "\n", encoding="utf-8")
