"""A file that does not hold is refused with a sentence, whatever is wrong with it, and changes nothing."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from catalog.words import Level
from store.archive import ArchiveError
from store.archive_export import export
from store.archive_import import import_file
from store.archive_reading import opened
from store.engine import open_engine
from store.offers import revisions
from store.snapshot import load_bundled
from tests.support.carried import ALL, engine_in, offers_of
from tests.support.filled import START, Filled, sold

ROOT = Path(__file__).parent.parent
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that holds: two machines in one region, one of them in two zones."""
    folder = tmp_path_factory.mktemp("good")
    filled = Filled(folder)
    filled.plan("aws", ("stock", "us-east-1"))
    facts = [sold("us-east-1", "a", "1", zone=zone) for zone in ("za", "zb")]
    facts.append(sold("us-east-1", "b", "2", Level.OUT))
    filled.poll("aws", "stock", "us-east-1", [fact for some in facts for fact in some])
    export(filled.engine, folder / "good.zip", ALL, filled.now)
    filled.engine.dispose()
    return folder / "good.zip"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Engine]:
    """A database with a state that was imported before: one machine."""
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", "us-east-1"))
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "before", "1"))
    export(filled.engine, tmp_path / "before.zip", ALL, filled.now)
    engine = engine_in(tmp_path / "there")
    import_file(engine, tmp_path / "before.zip", START)
    yield engine
    engine.dispose()


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Engine]:
    """A database with the bundled list."""
    engine = engine_in(tmp_path / "listed")
    load_bundled(engine)
    yield engine
    engine.dispose()


def lines_of(file: Path) -> Lines:
    with ZipFile(file) as archive:
        return [json.loads(line) for line in archive.read("state.jsonl").splitlines()]


def packed(file: Path, state: bytes, method: int = ZIP_DEFLATED, extra: str = "", **manifest: Any) -> Path:
    """A file with this state, whose manifest tells the truth of it unless told otherwise."""
    member = {"bytes": len(state), "rows": state.count(b"\n"), "sha256": sha256(state).hexdigest()}
    member |= manifest.pop("member", {})
    told = {
        "format": 1,
        "program": "gpufare 0.1.0",
        "created_at": START.isoformat(),
        "members": {"state.jsonl": member},
    }
    with ZipFile(file, "w", method) as archive:
        archive.writestr("state.jsonl", state)
        archive.writestr("manifest.json", json.dumps(told | manifest))
        if extra:
            archive.writestr(extra, "x")
    return file


def written(lines: Lines) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def refused(engine: Engine, file: Path) -> str:
    """The sentence that the file is refused with, once nothing was seen to change."""
    before = revisions(engine), offers_of(engine)
    with pytest.raises(ArchiveError) as caught:
        import_file(engine, file, START + timedelta(hours=1))
    assert (revisions(engine), offers_of(engine)) == before
    sentence = str(caught.value)
    assert sentence.startswith(f"{file} cannot be imported: ")
    assert sentence.endswith("; nothing was changed")
    return sentence


def test_what_these_tests_build_on_is_good(good: Path, there: Engine, tmp_path: Path) -> None:
    import_file(there, packed(tmp_path / "same.zip", written(lines_of(good))), START)
    assert [one.machine.instance_type for one in offers_of(there)] == ["a", "a", "b"]


# --- lines ------------------------------------------------------------------------------------------------------------

REGION, MACHINE, OFFER, SECOND = 0, 1, 2, 3


def changed(number: int, *path: str, to: object) -> Callable[[Lines], object]:
    """Sets a field of a line, or of a part of it."""

    def change(lines: Lines) -> None:
        target = lines[number]
        for name in path[:-1]:
            target = target[name]
        target[path[-1]] = to

    return change


def without(number: int, name: str) -> Callable[[Lines], object]:
    return lambda lines: lines[number].pop(name)


BAD_LINES: dict[str, tuple[Callable[[Lines], object], int, str]] = {
    "price 0": (changed(OFFER, "price", "nanos", to=0), 3, "nanos"),
    "price below 0": (changed(OFFER, "price", "nanos", to=-1), 3, "nanos"),
    "price in text": (changed(OFFER, "price", "nanos", to="1"), 3, "nanos"),
    "price as a float": (changed(OFFER, "price", "nanos", to=1.5), 3, "nanos"),
    "price as a flag": (changed(OFFER, "price", "nanos", to=True), 3, "nanos"),
    "price too large": (changed(OFFER, "price", "nanos", to=2**63), 3, "nanos"),
    "list price 0": (changed(OFFER, "price", "list_nanos", to=0), 3, "list_nanos"),
    "up-front without a term": (changed(OFFER, "price", "upfront_nanos", to=5), 3, "names its term"),
    "currency": (changed(OFFER, "price", "currency", to="dollars"), 3, "ISO 4217"),
    "no source": (changed(OFFER, "price", "source", to=""), 3, "source"),
    "level": (changed(OFFER, "stock", "level", to="plenty"), 3, "plenty"),
    "evidence": (changed(OFFER, "stock", "evidence", to="hearsay"), 3, "hearsay"),
    "a score as stock": (changed(OFFER, "stock", "evidence", to="scored"), 3, "never stock"),
    "quantity": (changed(OFFER, "stock", "quantity", to=-1), 3, "quantity"),
    "quantity too large": (changed(OFFER, "stock", "quantity", to=2**31), 3, "quantity"),
    "purchase": (changed(OFFER, "purchase", to="barter"), 3, "barter"),
    "no zone by an empty name": (changed(OFFER, "zone", to=""), 3, "zone"),
    "time without a zone": (changed(OFFER, "stock", "seen_at", to="2026-11-30T08:00:00"), 3, "seen_at"),
    "time to come": (changed(OFFER, "stock", "seen_at", to="2026-11-30T08:00:01Z"), 3, "after"),
    "price time to come": (changed(OFFER, "price", "seen_at", to="2027-11-30T08:00:01Z"), 3, "after"),
    "no time": (changed(OFFER, "stock", to={"level": "out", "evidence": "reported"}), 3, "seen_at"),
    "unknown field": (changed(OFFER, "colour", to="red"), 3, "colour"),
    "unknown kind": (changed(OFFER, "is", to="wish"), 3, "wish"),
    "no kind": (without(OFFER, "is"), 3, "is"),
    "no stock": (without(OFFER, "stock"), 3, "stock"),
    "no name": (changed(MACHINE, "instance_type", to=""), 2, "instance_type"),
    "count below 0": (changed(MACHINE, "gpu_count", to="-1"), 2, "gpu_count"),
    "count over 0": (changed(MACHINE, "gpu_count", to="1/0"), 2, "gpu_count"),
    "count in powers": (changed(MACHINE, "gpu_count", to="1e9"), 2, "gpu_count"),
    "accelerator without a count": (changed(MACHINE, "gpu_count", to="0"), 2, "count"),
    "vcpus 0": (changed(MACHINE, "vcpus", to=0), 2, "vcpus"),
    "memory too large": (changed(MACHINE, "memory_mib", to=2**31), 2, "memory_mib"),
    "hosting": (changed(MACHINE, "hosting", to="garage"), 2, "garage"),
    "purchases": (changed(MACHINE, "purchases", to=["barter"]), 2, "barter"),
    "nvlink in text": (changed(MACHINE, "nvlink", to="false"), 2, "nvlink"),
    "a NUL": (changed(MACHINE, "gpu_raw", to="a\0b"), 2, "NUL"),
    "twice": (lambda lines: lines.insert(SECOND, lines[OFFER]), 4, "twice"),
    "out of order": (lambda lines: lines.insert(OFFER, lines.pop(SECOND)), 4, "twice, or in the wrong place"),
    "a machine twice": (lambda lines: lines.insert(SECOND, lines[MACHINE]), 4, "twice"),
    "no machine": (lambda lines: lines.pop(MACHINE), 2, "does not stand before it"),
    "no region": (lambda lines: lines.pop(REGION), 1, "does not stand before it"),
    "of another region": (changed(SECOND, "region", to="us-west-9"), 4, "does not stand before it"),
    "of another provider": (changed(SECOND, "provider", to="azure"), 4, "does not stand before it"),
}


@pytest.mark.parametrize("what", BAD_LINES)
def test_a_line_that_cannot_be_true_is_named(what: str, good: Path, there: Engine, tmp_path: Path) -> None:
    change, number, told = BAD_LINES[what]
    lines = lines_of(good)
    change(lines)
    sentence = refused(there, packed(tmp_path / "bad.zip", written(lines)))
    assert f"state.jsonl line {number}: " in sentence
    assert told in sentence


@pytest.mark.parametrize(
    "state",
    [b"{}\n", b"[]\n", b"null\n", b"{\n", b"\xff\xfe\n", b'"' + b"a" * 9 + b"\n", b"[" * 10_000 + b"\n", b"\n", b"{}"],
)
def test_a_state_that_is_not_lines_of_objects_is_refused(state: bytes, there: Engine, tmp_path: Path) -> None:
    rows = {"rows": 1} if not state.endswith(b"\n") else {}
    assert "state.jsonl line 1: " in refused(there, packed(tmp_path / "bad.zip", state, member=rows))


def test_a_line_without_an_end_is_not_read_into_memory(there: Engine, tmp_path: Path) -> None:
    sentence = refused(there, packed(tmp_path / "bad.zip", b'{"is":"' + b"a" * (5 << 20) + b"\n"))
    assert "line 1: it has no end, or more than 1048576 bytes" in sentence


# --- the manifest -----------------------------------------------------------------------------------------------------

BAD_MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "newer": ({"format": 2, "program": "gpufare 9.1", "new": 1}, "import it with gpufare 9.1 or later"),
    "format 0": ({"format": 0}, "there is no format 0"),
    "no number": ({"format": "1"}, "manifest.json: "),
    "time without a zone": ({"created_at": "2026-11-30T08:00:00"}, "manifest.json: "),
    "made in the future": ({"created_at": "2026-12-30T08:00:00Z"}, "still to come here"),
    "unknown field": ({"colour": "red"}, "manifest.json: "),
    "other members": ({"members": {}}, "in the place of"),
    "a member outside": (
        {"members": {"../state.jsonl": {"bytes": 1, "rows": 1, "sha256": "0" * 64}}},
        "in the place of",
    ),
    "wrong digest": ({"member": {"sha256": "0" * 64}}, "is not what manifest.json says"),
    "digest in text": ({"member": {"sha256": "x"}}, "manifest.json: "),
    "too few rows": ({"member": {"rows": 3}}, "more than the manifest says"),
    "too many rows": ({"member": {"rows": 99}}, "is not what manifest.json says"),
    "rows below 0": ({"member": {"rows": -1}}, "manifest.json: "),
    "no rows": ({"member": {"rows": 0}}, "empty"),
    "too few bytes": ({"member": {"bytes": 10}}, "not of the size"),
    "a huge size": ({"member": {"bytes": 1 << 50}}, "too large"),
}


@pytest.mark.parametrize("what", BAD_MANIFESTS)
def test_a_manifest_that_does_not_hold_is_refused(what: str, good: Path, there: Engine, tmp_path: Path) -> None:
    manifest, told = BAD_MANIFESTS[what]
    assert told in refused(there, packed(tmp_path / "bad.zip", written(lines_of(good)), **manifest))


def test_a_manifest_without_bounds_is_not_read(good: Path, there: Engine, tmp_path: Path) -> None:
    file = packed(tmp_path / "bad.zip", written(lines_of(good)), program="a" * (1 << 20))
    assert "manifest.json has more than 65536 bytes" in refused(there, file)


# --- the zip ----------------------------------------------------------------------------------------------------------


def test_another_member_is_refused(good: Path, there: Engine, tmp_path: Path) -> None:
    for extra in ("more.jsonl", "../../etc/passwd"):
        assert "in the place of" in refused(there, packed(tmp_path / "bad.zip", written(lines_of(good)), extra=extra))


def test_a_missing_member_is_refused(good: Path, there: Engine, tmp_path: Path) -> None:
    for kept in ("manifest.json", "state.jsonl"):
        with ZipFile(good) as whole, ZipFile(tmp_path / "bad.zip", "w") as half:
            half.writestr(kept, whole.read(kept))
        assert "manifest.json" in refused(there, tmp_path / "bad.zip")


def test_another_compression_is_refused(good: Path, there: Engine, tmp_path: Path) -> None:
    assert "deflate" in refused(there, packed(tmp_path / "bad.zip", written(lines_of(good)), ZIP_BZIP2))


def test_what_is_no_file_of_ours_is_refused(there: Engine, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    (tmp_path / "empty.zip").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, told in (("text.zip", "no snapshot"), ("empty.zip", "no snapshot"), ("pipe", "no file"), ("", "no file")):
        assert told in refused(there, tmp_path / name)
    assert "No such file" in refused(there, tmp_path / "nowhere.zip")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(good: Path, there: Engine, tmp_path: Path) -> None:
    file = tmp_path / "mine.zip"
    file.write_bytes(good.read_bytes())
    file.chmod(0)
    assert "Permission denied" in refused(there, file)


def test_a_file_that_was_cut_is_refused_wherever_it_was_cut(good: Path, there: Engine, tmp_path: Path) -> None:
    whole = good.read_bytes()
    for length in range(0, len(whole), 41):
        (tmp_path / "cut.zip").write_bytes(whole[:length])
        refused(there, tmp_path / "cut.zip")


@given(where=st.integers(0, 10**6), bit=st.integers(0, 7))
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_bit_is_refused_or_changes_nothing_that_is_read(where: int, bit: int, good: Path) -> None:
    damaged = bytearray(good.read_bytes())
    damaged[where % len(damaged)] ^= 1 << bit
    bad = good.with_name("bad.zip")
    bad.write_bytes(damaged)
    with contextlib.suppress(ArchiveError), opened(bad, START) as archive:
        read = list(archive.lines())
        with opened(good, START) as whole:
            assert read == list(whole.lines())


# --- in the middle ----------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from sqlalchemy import event
from store.archive_import import import_file
from store.engine import open_engine

engine = open_engine(sys.argv[1])

@event.listens_for(engine, "after_cursor_execute")
def kill(_connection, _cursor, statement, *_more):
    if statement.startswith("INSERT INTO stocks"):
        os.kill(os.getpid(), signal.SIGKILL)

import_file(engine, Path(sys.argv[2]), datetime(2026, 11, 30, 9, tzinfo=UTC))
"""


def test_an_import_that_is_killed_leaves_the_state_before(good: Path, there: Engine, tmp_path: Path) -> None:
    before = revisions(there), offers_of(there)
    url = f"sqlite:///{tmp_path / 'there' / 'gpufare.db'}"
    killed = subprocess.run([sys.executable, "-c", KILLED, url, str(good)], cwd=ROOT, check=False)  # noqa: S603
    assert killed.returncode == -signal.SIGKILL
    again = open_engine(url)
    assert (revisions(again), offers_of(again)) == before
    import_file(again, good, START)
    assert [one.machine.instance_type for one in offers_of(again)] == ["a", "a", "b"]
    again.dispose()


# --- writing ----------------------------------------------------------------------------------------------------------

FULL = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
from store.archive import ArchiveError
from store.archive_export import Used, export
from store.engine import open_engine

engine = open_engine(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    export(engine, Path(sys.argv[2]), Used({"aws", "azure", "gcp", "alibaba"}, {}), datetime(2026, 11, 30, tzinfo=UTC))
except ArchiveError as error:
    print(error)
"""


@pytest.mark.usefixtures("listed")
def test_an_export_without_room_leaves_the_file_before_and_nothing_beside(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "state.zip").write_bytes(b"the one before")
    url = f"sqlite:///{tmp_path / 'listed' / 'gpufare.db'}"
    command = [sys.executable, "-c", FULL, url, str(folder / "state.zip")]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    assert re.search(r"state.zip cannot be written: File too large; make room", said.stdout), said
    assert [(one.name, one.read_bytes()) for one in folder.iterdir()] == [("state.zip", b"the one before")]


def test_an_export_goes_nowhere_but_to_a_file(there: Engine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, told in (
        ("", "no file that could be replaced"),
        ("pipe", "no file that"),
        ("no/where.zip", "No such file"),
    ):
        with pytest.raises(ArchiveError, match=told):
            export(there, tmp_path / name, ALL, START)


def test_nothing_is_not_exported(tmp_path: Path) -> None:
    engine = engine_in(tmp_path / "empty")
    (tmp_path / "state.zip").write_bytes(b"the one before")
    with pytest.raises(ArchiveError, match="nothing is known"):
        export(engine, tmp_path / "state.zip", ALL, START)
    assert (tmp_path / "state.zip").read_bytes() == b"the one before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["empty", "state.zip"]
    engine.dispose()


def test_an_export_follows_a_link_and_takes_its_mode_from_the_user(listed: Engine, tmp_path: Path) -> None:
    (tmp_path / "real.zip").touch()
    (tmp_path / "link.zip").symlink_to("real.zip")
    export(listed, tmp_path / "link.zip", ALL, START)
    assert (tmp_path / "link.zip").is_symlink()
    assert (tmp_path / "real.zip").stat().st_size > 1000
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "real.zip").stat().st_mode & 0o777 == 0o666 & ~mask
