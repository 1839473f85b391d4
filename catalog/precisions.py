"""What an architecture of GPUs computes in: precisions.csv, which names the source of each row."""

import csv
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType

COLUMNS = ("fp16", "bf16", "fp8")
"""The precisions that the table tells of."""


class Computes(StrEnum):
    """How an architecture computes in a precision."""

    MATRIX = "matrix"
    VECTOR = "vector"
    """Without matrix units: many times slower."""
    WEIGHTS = "weights"
    """Weights are held in it, and computed with in 16 bits."""
    NONE = "none"
    """Not at all: software refuses it or emulates it."""


def computes(architecture: str, precision: str) -> Computes | None:
    """How the architecture computes in one of `COLUMNS`; None where the table is silent."""
    return _table().get(architecture, {}).get(precision)


def architectures() -> frozenset[str]:
    """Those that the table tells of."""
    return frozenset(_table())


@cache
def _table() -> Mapping[str, Mapping[str, Computes]]:
    text = files("catalog").joinpath("precisions.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return MappingProxyType({row["architecture"]: _stated(row) for row in rows})


def _stated(row: Mapping[str, str]) -> Mapping[str, Computes]:
    return {name: Computes(row[name]) for name in COLUMNS if row[name]}
