"""What the error code of a failed launch says: launch_codes.csv, which names the source of each code."""

import csv
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from catalog.accounts import kind_of

EVERY_PROVIDER = "*"


class CodeKind(StrEnum):
    """What a code is about. Only `CAPACITY` says anything of stock."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    """A limit of this one account."""
    RIGHTS = "rights"
    CONFIG = "config"
    """The request itself, or something beside the machine that it asked for."""


def code_kind(provider: str, code: str) -> CodeKind | None:
    """What the code means at this provider, whatever its case; None for a code that the table does not hold."""
    said = code.strip().casefold()
    return _kind_in(kind_of(provider), said) or _kind_in(EVERY_PROVIDER, said)


def _kind_in(provider: str, said: str) -> CodeKind | None:
    codes = _table().get(provider, {})
    begun = (kind for code, kind in codes.items() if code.endswith("*") and said.startswith(code[:-1]))
    return codes.get(said) or next(begun, None)


@cache
def _table() -> Mapping[str, Mapping[str, CodeKind]]:
    text = files("catalog").joinpath("launch_codes.csv").read_text(encoding="utf-8")
    table: dict[str, dict[str, CodeKind]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        table.setdefault(row["provider"], {})[row["code"].casefold()] = CodeKind(row["kind"])
    return MappingProxyType(table)
