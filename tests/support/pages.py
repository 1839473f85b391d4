"""Recorded pages: the body a provider sends, where it comes from, and the facts it must give.

`tests/pages/<provider>/<feed>/<case>.toml` describes a page; beside it lie the body and `<case>.facts`, one fact or
note a line. Write the `.facts` of a new page with `python -m tests.support.pages`, then read every line of it.
"""

import csv
import io
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from catalog.facts import Fact, Note
from collectors.base import Config, Feed, Page
from collectors.reading import MOST_CARDS, MOST_SIZE
from collectors.registry import PROVIDERS, provider

PAGES = Path(__file__).parent.parent / "pages"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded page. `records` are the dotted paths of the lists whose items are records; none for CSV."""

    provider: str
    feed: str
    name: str
    page: Page
    records: tuple[str, ...]
    facts_file: Path
    config: Mapping[str, str]

    @property
    def is_csv(self) -> bool:
        return not self.page.body.lstrip().startswith((b"{", b"["))

    def with_body(self, body: bytes) -> Page:
        page = self.page
        return Page(page.name, body, page.at, page.place, page.part, page.skipped, page.memo)


def cases(provider_name: str) -> list[Case]:
    """The recorded pages of a provider. None is an error: a sweep of nothing proves nothing."""
    found = [_case(path) for path in sorted((PAGES / provider_name).glob("*/*.toml"))]
    assert found, f"no recorded pages for {provider_name}"
    return found


def _case(path: Path) -> Case:
    meta = tomllib.loads(path.read_text("utf-8"))
    assert meta["source"], f"{path} does not say where its figures come from"
    page = Page(
        name=meta["name"],
        body=(path.parent / meta["body"]).read_bytes(),
        at=NOW,
        place=meta.get("place", ""),
        part=meta.get("part", ""),
        skipped=meta.get("skipped", {}),
    )
    return Case(
        provider=path.parent.parent.name,
        feed=path.parent.name,
        name=path.stem,
        page=page,
        records=tuple(meta.get("records", ())),
        facts_file=path.with_suffix(".facts"),
        config=meta.get("config", {}),
    )


def line(item: Fact | Note) -> str:
    """A fact or note as one line: what differs from the defaults, units in the names."""
    shown = [f"{f.name}={_plain(getattr(item, f.name))}" for f in fields(item) if getattr(item, f.name) != f.default]
    return f"{type(item).__name__} " + " ".join(shown)


def _plain(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, frozenset):
        return "|".join(sorted(_plain(item) for item in value))
    if isinstance(value, (Fraction, int)) or value is None:
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(str(value), ensure_ascii=False)


def lines(items: Iterable[Fact | Note]) -> list[str]:
    """The facts and notes of a page, in the order stated."""
    return [line(item) for item in items]


def weaker(item: Fact | Note, original: Fact | Note) -> bool:
    """Whether `item` says nothing that `original` does not: equal field by field, or not stated."""
    if type(item) is not type(original):
        return False
    return all(_says_less(getattr(item, f.name), getattr(original, f.name), f.default) for f in fields(item))


def _says_less(value: object, original: object, default: object) -> bool:
    unstated = value is None or value in ("", frozenset()) or str(value) == "unknown"
    return value == original or unstated or (default is not MISSING and value == default and value is not False)


def without_each_record(case: Case) -> Iterator[tuple[str, bytes]]:
    """The body with each record left out in turn, named."""
    if case.is_csv:
        header, rows = csv_rows(case.page.body)
        for number in range(len(rows)):
            yield f"row {number}", csv_body(header, rows[:number] + rows[number + 1 :])
        return
    for path in case.records:
        for number in range(len(_at(_load(case), path))):
            changed = _load(case)
            del _at(changed, path)[number]
            yield f"{path}[{number}]", _dump(changed)


def _load(case: Case) -> object:
    root: object = json.loads(case.page.body)
    return root


def _at(root: object, path: str) -> list[object]:
    here = root
    for step in path.split("."):
        if not step:
            continue
        assert isinstance(here, (dict, list))
        here = here[int(step)] if isinstance(here, list) else here[step]
    assert isinstance(here, list), f"{path} is not a list"
    return here


def _dump(root: object) -> bytes:
    return json.dumps(root, ensure_ascii=False).encode()


def without_each_field(case: Case) -> Iterator[tuple[str, bytes]]:
    """The body with each field of each record dropped in turn, nested ones too, named `record: field.field`."""
    if case.is_csv:
        yield from _without_each_column(case.page.body)
        return
    for path in case.records:
        for number, record in enumerate(_at(_load(case), path)):
            for field_path in _field_paths(record):
                changed = _load(case)
                holder = _at(changed, path)[number]
                *steps, last = field_path
                for step in steps:
                    holder = holder[step]  # type: ignore[index]  # a path made from this very body
                del holder[last]  # type: ignore[attr-defined]
                yield f"{path}[{number}]: {'.'.join(map(str, field_path))}", _dump(changed)


_NUMBER = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?(?= |$)")
ValuePath = tuple[str | int, ...]


def values_of(case: Case) -> list[ValuePath]:
    """Where the values of a body stand, lists and objects too: keys and indices, or row and column of a CSV."""
    if case.is_csv:
        _, rows = csv_rows(case.page.body)
        return [(at, column) for at, row in enumerate(rows) for column in range(len(row))]
    return list(_values(_load(case)))


def enormous_values_of(case: Case) -> Iterator[tuple[ValuePath, str]]:
    """Where numbers stand in a body, with an enormous one to put in place of each: as large as a list of accelerators
    can never be, and as a disk can hardly be. What stands beside a number in its text, a unit say, stays.
    """
    rows = csv_rows(case.page.body)[1] if case.is_csv else _load(case)
    for path in values_of(case):
        here: Any = rows
        for step in path:
            here = here[step]
        if isinstance(here, bool) or not isinstance(here, (int, float, str)):
            continue
        for enormous in ("20000000", "1" + "0" * 12):
            if not isinstance(here, str):
                yield path, enormous
            elif _NUMBER.match(here):
                yield path, json.dumps(_NUMBER.sub(enormous, here, count=1), ensure_ascii=False)


def sizes_of(item: Fact | Note) -> Iterator[tuple[Fraction | int, int]]:
    """The sizes that a fact states, each with the most that it can be."""
    limits = {"gpu_count": MOST_CARDS, "vcpus": MOST_SIZE, "memory_mib": MOST_SIZE, "vram_mib": MOST_SIZE}
    for name, most in {**limits, "quantity": MOST_SIZE}.items():
        if (size := getattr(item, name, None)) is not None:
            yield size, most


def _values(value: object) -> Iterator[ValuePath]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield (key,)
        for path in _values(child):
            yield (key, *path)


def with_value(case: Case, path: ValuePath, text: str) -> bytes:
    """The body with this JSON in place of a value."""
    if case.is_csv:
        header, rows = csv_rows(case.page.body)
        at, column = path
        rows[int(at)][int(column)] = text.strip('"')
        return csv_body(header, rows)
    root = _load(case)
    *steps, last = path
    holder: Any = root
    for step in steps:
        holder = holder[step]
    holder[last] = "in place of a value"
    return _dump(root).replace(b'"in place of a value"', text.encode())


def _field_paths(value: object) -> Iterator[list[str | int]]:
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inner = value.items()
        for key in value:
            yield [key]
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, child in inner:
        for path in _field_paths(child):
            yield [key, *path]


def csv_rows(body: bytes) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV body."""
    header, *rows = list(csv.reader(io.StringIO(body.decode())))
    return header, rows


def csv_body(header: list[str], rows: Iterable[list[str]]) -> bytes:
    """A CSV body with every field quoted."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


def _without_each_column(body: bytes) -> Iterator[tuple[str, bytes]]:
    header, rows = csv_rows(body)
    for number, column in enumerate(header):
        kept = [i for i in range(len(header)) if i != number]
        yield f"column {column} absent", csv_body([header[i] for i in kept], [[row[i] for i in kept] for row in rows])
        blank = [[*row[:number], "", *row[number + 1 :]] for row in rows]
        yield f"column {column} blank", csv_body(header, blank)


def feed_of(case: Case, config: Config) -> Feed:
    """The feed that reads a case."""
    found = {feed.name: feed for feed in provider(case.provider, config).feeds()}
    assert case.feed in found, f"{case.provider} has no feed {case.feed} with this configuration"
    return found[case.feed]


if __name__ == "__main__":
    from tests.support.contract import contract_of

    for name in sys.argv[1:] or PROVIDERS:
        for one in cases(name):
            parsed = feed_of(one, contract_of(name).config_for(one)).parse(one.page)
            one.facts_file.write_text("\n".join(lines(parsed)) + "\n", "utf-8")
