"""The ledger of cases, `tests/cases.csv`, the tests that carry a case's id, and the page that is made of both.

`python -m tests.support.ledger` writes the page anew.
"""

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent.parent
LEDGER = TESTS / "cases.csv"
PAGE = TESTS.parent / "docs" / "cases.md"
STATUSES = {
    "covered": "shown as it was reported",
    "part": "the same fault is shown here, by another provider or in part; the rest waits",
    "open": "a test is there and expected to fail, until the product is mended",
    "left": "waits as a whole",
}
WAITS = {
    "second_source": "a second source of a live price: each has one feed, and the shipped list serves where none does",
    "gcp": "the provider Google Cloud",
    "alibaba": "the provider Alibaba Cloud",
    "vast": "the provider Vast",
    "lambda": "the provider Lambda",
    "accounts": "launches that another account of the provider told of: they are not shared",
    "mark": "a mark on the offer itself, so that no alert of a price rests on it: it is noted only",
    "distrust": "a measure of how often a state changes, beside launches that fail: `history` has the changes",
}
_CASE = re.compile(r"\b(?:B\d{3}|T\d{1,2})\b")


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the ledger."""

    id: str
    area: str
    proves: str
    status: str
    covered_by: Sequence[str]
    """`file::function` of the tests that show it."""
    waits_for: str
    """A key of `WAITS`, or "" where nothing is missing."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A test function: the ids of the cases it carries, and whether it is expected to fail."""

    ids: frozenset[str]
    fails: bool


def cases() -> list[Case]:
    """The ledger, in its order."""
    with LEDGER.open(encoding="utf-8", newline="") as file:
        return [Case(**(row | {"covered_by": row["covered_by"].split()})) for row in csv.DictReader(file)]


def proofs() -> dict[str, Proof]:
    """`file::function` -> what the test carries, over all test files that are for cases."""
    return {name: proof for file in sorted(TESTS.glob("test_cases_*.py")) for name, proof in _proofs_in(file)}


def _proofs_in(file: Path) -> Iterator[tuple[str, Proof]]:
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = " ".join(ast.unparse(one) for one in node.decorator_list)
            said = [
                one.value for mark in node.decorator_list for one in ast.walk(mark) if isinstance(one, ast.Constant)
            ]
            ids = _CASE.findall(" ".join([ast.get_docstring(node) or "", *map(str, said)]))
            yield f"{file.name}::{node.name}", Proof(frozenset(ids), "mark.xfail" in marks)


def page(rows: Sequence[Case]) -> str:
    """docs/cases.md: how many there are of each status, and what the others wait for."""
    counts: Mapping[str, int] = Counter(row.status for row in rows)
    lines = [
        "# Cases",
        "",
        f"{len(rows)} cases: faults of this kind of program that people met and reported in public, and what is",
        "right instead. A test of `tests/test_cases_*.py` that shows one carries its id. The ledger is",
        "`tests/cases.csv`; `python -m tests.support.ledger` makes this page of it, and a test compares the two.",
        "",
        "| status | cases | |",
        "| --- | --- | --- |",
        *(f"| {status} | {counts.get(status, 0)} | {meaning} |" for status, meaning in STATUSES.items()),
    ]
    for status in (one for one in ("open", "left", "part") if counts.get(one)):
        lines += ["", f"## {status.capitalize()}", "", "| case | proves | waits for |", "| --- | --- | --- |"]
        lines += [_line(row) for row in rows if row.status == status]
    return "\n".join(lines) + "\n"


def _line(row: Case) -> str:
    return f"| {row.id} | {row.proves} | {WAITS[row.waits_for] if row.waits_for else ''} |"


if __name__ == "__main__":
    PAGE.write_text(page(cases()), "utf-8")
