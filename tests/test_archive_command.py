"""`gpufare snapshot` as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.support.commands import run


def test_a_state_goes_from_one_machine_to_another_and_back(tmp_path: Path) -> None:
    for home in ("one", "two"):
        (tmp_path / home).mkdir()
    file = tmp_path / "state.zip"
    exported = run(tmp_path / "one", "snapshot", "export", str(file))
    assert (exported.returncode, exported.stderr) == (0, "")
    assert exported.stdout.startswith(f"{file}: 2013 offers: 540 of alibaba, ")
    imported = run(tmp_path / "two", "snapshot", "import", str(file))
    assert (imported.returncode, imported.stderr) == (0, "")
    first, *more = imported.stdout.splitlines()
    assert first.startswith("2013 offers as they stood ")
    assert [line.split(":")[0] for line in more] == ["alibaba", "azure", "gcp"]
    asked = run(tmp_path / "two", "cheapest", "a100-80g", "--json")
    answer = json.loads(asked.stdout)
    assert asked.returncode == 3
    assert (answer["verdict"], answer["best"]["stock"]["evidence"]) == ("unconfirmed", "snapshot")
    sources = {(one["provider"], one["feed"], one["status"]) for one in answer["sources"]}
    assert ("azure", "snapshot", "stale") in sources
    unused = run(tmp_path / "two", "snapshot", "import", str(file), GPUFARE_ONLY="azure")
    assert sum("not shown here" in line for line in unused.stdout.splitlines()) == 2


@pytest.mark.parametrize("what", ["import", "export"])
def test_a_file_that_cannot_be_used_is_status_2_and_a_sentence(what: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    ended = run(tmp_path / "home", "snapshot", what, str(tmp_path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"gpufare: {tmp_path} ")
    assert len(ended.stderr.splitlines()) == 1


def test_an_export_to_a_link_that_leads_to_itself_is_status_2_and_a_sentence(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    ended = run(tmp_path, "snapshot", "export", "loop/state.zip")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("gpufare: loop/state.zip ")
    assert len(ended.stderr.splitlines()) == 1
