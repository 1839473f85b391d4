"""The command that starts a machine with its provider's own tool: launch_commands.csv, which names the sources,
and which of them nobody could read yet.

Nothing here runs one. Names come from providers, so each is quoted for a POSIX shell, and what no name looks like gives
no command at all: a name must not act as an option, or have the tool read a file.
"""

import csv
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from catalog.accounts import kind_of

UNKNOWN_ZONE = "ZONE"
"""What the user has to put in where a command needs a zone and none is known."""
_WITH_ZONE = re.compile(r"\[([^\]]*)\] ")


@dataclass(frozen=True, slots=True)
class _Way:
    """One row. `machine` is the pattern of the names that it is for."""

    machine: re.Pattern[str]
    command: str

    def command_of(self, region: str, zone: str | None, instance_type: str) -> str | None:
        found = self.machine.fullmatch(instance_type)
        if found is None:
            return None
        names = {"region": region, "instance_type": instance_type, **found.groupdict()}
        quoted = {part: shlex.quote(name) for part, name in names.items()}
        template = _WITH_ZONE.sub("" if zone is None else r"\1 ", self.command)
        return template.format(**quoted, zone=UNKNOWN_ZONE if zone is None else shlex.quote(zone))


def launch_command(provider: str, purchase: str, region: str, zone: str | None, instance_type: str) -> str | None:
    """The command line, in one line, that starts one such machine at a provider, or an account of it.

    Words in capitals are for the user to put in. None where no command is known for this purchase or this machine.
    """
    if not all(map(_is_name, [region, instance_type] if zone is None else [region, instance_type, zone])):
        return None
    ways = _table().get((kind_of(provider), purchase), ())
    commands = (way.command_of(region, zone, instance_type) for way in ways)
    return next((command for command in commands if command is not None), None)


def _is_name(text: str) -> bool:
    """Whether it can only be a name: `-` begins an option, and `@` or a scheme what some tools read from elsewhere."""
    return text.isprintable() and text != "" and text[0] not in "-@" and "://" not in text


@cache
def _table() -> Mapping[tuple[str, str], tuple[_Way, ...]]:
    text = files("catalog").joinpath("launch_commands.csv").read_text(encoding="utf-8")
    table: dict[tuple[str, str], tuple[_Way, ...]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        key, way = (row["provider"], row["purchase"]), _Way(re.compile(row["machine"] or ".+"), row["command"])
        table[key] = (*table.get(key, ()), way)
    return MappingProxyType(table)
