"""Scenario files: what the simulated clouds sell at the start, and what happens to them when."""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from simcloud.faults import Fault

SCENARIOS = Path(__file__).parent / "scenarios"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS_IN = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EVENT_KEYS = {"at", "provider", "match", "set", "fault", "note"}


class ScenarioError(ValueError):
    """A scenario, or a change asked for over the control API, that cannot be what its author meant."""


@dataclass(frozen=True, slots=True)
class Change:
    """From `at_s` on, the rows of `provider` that fit `match` (field: glob) carry `values`."""

    at_s: float
    provider: str
    match: Mapping[str, str]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file, read: a table for each provider, the changes and faults in order of time, and settings for the reader.

    `loop_s` is the length after which everything starts again, or None. `folder` is where relative paths begin.
    """

    name: str
    providers: Mapping[str, Mapping[str, Any]]
    changes: tuple[Change, ...]
    faults: tuple[Fault, ...]
    loop_s: float | None
    settings: Mapping[str, str] = field(default_factory=dict)
    folder: Path = SCENARIOS


def seconds(text: object) -> float:
    """Read a duration such as `90s`, `2m` or `500ms` into seconds."""
    found = _DURATION.fullmatch(str(text))
    if not found:
        raise ScenarioError(f"duration {text!r}: write a number and a unit, such as 500ms, 90s, 2m, 1h")
    return float(found[1]) * _SECONDS_IN[found[2]]


def load(scenario: str | Path) -> Scenario:
    """Read a shipped scenario by name (`demo`), or by path: a TOML file, or a folder of them that make one."""
    shipped = SCENARIOS / scenario
    path = shipped if shipped.is_dir() else Path(scenario)
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        names = ", ".join(sorted(folder.name for folder in SCENARIOS.iterdir() if folder.is_dir()))
        raise ScenarioError(f"no scenario {str(scenario)!r}: name one of {names}, or give the path of a TOML file")
    documents = [_document(file.read_text(encoding="utf-8")) for file in files]
    return _scenario(_joined(documents), path.stem, files[0].parent)


def parse(text: str, name: str = "unnamed", folder: Path = SCENARIOS) -> Scenario:
    """Read the text of a scenario file. Numbers with a point become exact decimals."""
    return _scenario(_document(text), name, folder)


def _document(text: str) -> dict[str, Any]:
    return tomllib.loads(text, parse_float=Decimal)


def _joined(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One document of several: events one after the other, settings together, anything else in one of them alone."""
    joined: dict[str, Any] = {"event": [], "settings": {}}
    for document in documents:
        for key, value in document.items():
            if key == "event":
                joined["event"] += value
            elif key == "settings":
                joined["settings"] |= value
            elif key in joined:
                raise ScenarioError(f"{key!r} stands in two files of the scenario")
            else:
                joined[key] = value
    return joined


def _scenario(document: dict[str, Any], name: str, folder: Path) -> Scenario:
    loop = document.pop("loop", None)
    settings = document.pop("settings", {})
    events = sorted((_event(entry) for entry in document.pop("event", [])), key=_start)
    providers = {key: table for key, table in document.items() if isinstance(table, dict)}
    if stray := sorted(document.keys() - providers.keys() - {"title"}):
        raise ScenarioError(f"scenario {name}: unknown key {stray[0]!r}")
    return Scenario(
        name=name,
        providers=providers,
        changes=tuple(event for event in events if isinstance(event, Change)),
        faults=tuple(event for event in events if isinstance(event, Fault)),
        loop_s=None if loop is None else _loop(loop),
        settings={key: str(value) for key, value in settings.items()},
        folder=folder,
    )


def _loop(text: object) -> float:
    length = seconds(text)
    if not length > 0 or math.isinf(length):
        raise ScenarioError(f"loop = {text!r}: must be longer than nothing")
    return length


def _start(event: Change | Fault) -> float:
    return event.at_s if isinstance(event, Change) else event.from_s


def _event(entry: Mapping[str, Any]) -> Change | Fault:
    if stray := sorted(entry.keys() - _EVENT_KEYS):
        raise ScenarioError(f"event at {entry.get('at')}: unknown key {stray[0]!r}; known: {', '.join(_EVENT_KEYS)}")
    if ("set" in entry) == ("fault" in entry):
        raise ScenarioError(f"event at {entry.get('at')}: needs either `set` or `fault`")
    at_s, provider, match = seconds(entry["at"]), str(entry["provider"]), entry.get("match", {})
    if "set" in entry:
        return Change(at_s, provider, match, entry["set"])
    return read_fault({"provider": provider, "match": match, **entry["fault"]}, at_s)


def read_fault(entry: Mapping[str, Any], from_s: float) -> Fault:
    """Read a fault from a scenario or the control API; it begins at `from_s` and lasts `for`, or until cleared."""
    fields = dict(entry)
    lasts = fields.pop("for", None)
    try:
        return Fault(from_s=from_s, for_s=None if lasts is None else seconds(lasts), **fields)
    except TypeError as error:
        raise ScenarioError(f"fault {dict(entry)}: {error}") from error
