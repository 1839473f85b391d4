"""The README is run as it stands: its commands against servers started for it, its JSON against their answers."""

import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from settings import load
from tests.support.commands import Served, run, serving, until

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "localhost:8000"
CLOCK = re.compile(r"<!-- the demo's clock: (\d+) s -->")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(language: str) -> list[str]:
    found = [text for name, text in BLOCK.findall(README) if name == language]
    assert found, f"the README has no {language} block"
    return found


def _lines(word: str) -> list[str]:
    found = [line for block in _blocks("sh") for line in block.splitlines() if line.split()[0].endswith(word)]
    assert found, f"the README has no line that runs {word}"
    return found


@dataclass
class Reader:
    """Somebody who follows the README: the servers that were started, and the last question that was put."""

    stack: ExitStack
    folder: Path
    served: Served | None = None
    question: str = ""

    def does(self, line: str) -> None:
        command, *arguments = shlex.split(line)
        if command == "make":
            self._makes(arguments[0])
        elif command == "curl":
            self.question = arguments[0]
            assert httpx2.get(self._here(self.question)).status_code == 200
        elif command.endswith("/gpufare"):
            ended = run(self.folder, *arguments, GPUFARE_URL=self._here(ADDRESS))
            assert ended.returncode in (0, 3), ended.stderr
        else:
            raise AssertionError(f"nobody runs this line of the README: {line}")

    def _makes(self, target: str) -> None:
        home = self.folder / target
        home.mkdir()
        self.served = self.stack.enter_context(serving(home, *{"serve": [], "demo": ["--demo"]}[target]))

    def _here(self, address: str) -> str:
        assert self.served is not None, "the README asks before it starts a server"
        assert address.startswith(ADDRESS)
        return self.served.url + address.removeprefix(ADDRESS)

    def winds_to(self, second: int) -> None:
        assert self.served is not None
        cloud = self.served.cloud("tencent")
        elapsed_s = httpx2.get(f"{cloud}/_sim/clock").json()["elapsed_s"]
        httpx2.post(f"{cloud}/_sim/advance", json={"seconds": max(0, second - elapsed_s)}).raise_for_status()

    def sees(self, shown: Mapping[str, Any]) -> None:
        """The answer holds all that is shown, sooner or later: polls take a while."""
        last: dict[str, Any] = {}

        def same() -> bool | None:
            last.update(httpx2.get(self._here(self.question)).json())
            return True if _shown_in(shown, last) else None

        try:
            until(same, f"the answer to {self.question} as in the README")
        except AssertionError as error:
            raise AssertionError(f"{error}: it is {json.dumps(last)[:2000]}") from None


def _shown_in(shown: Any, real: Any) -> bool:
    """Whether every field that is shown is real, ages aside."""
    if isinstance(shown, dict):
        return isinstance(real, dict) and all(
            name in real and (name == "age_s" or _shown_in(value, real[name])) for name, value in shown.items()
        )
    if isinstance(shown, str) and isinstance(real, str):
        return _without_ages(shown) == _without_ages(real)
    return type(shown) is type(real) and bool(shown == real)


def _without_ages(text: str) -> str:
    return re.sub(r"\d+ (s|min|h|d)\b", r"N", text)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with ExitStack() as stack:
        yield Reader(stack, tmp_path)


def test_following_the_readme_shows_what_it_shows(reader: Reader) -> None:
    steps = re.findall(rf"{CLOCK.pattern}|{BLOCK.pattern}", README, re.MULTILINE | re.DOTALL)
    for second, language, text in steps:
        if second:
            reader.winds_to(int(second))
        elif language == "sh":
            for line in text.splitlines():
                reader.does(line)
        elif language == "json":
            reader.sees(json.loads(text))
    assert {"json", "sh", "toml"} == {language for _, language, _ in steps if language}


def test_ages_aside_a_wrong_field_is_seen() -> None:
    assert _shown_in({"a": {"age_s": 3, "b": "2 s ago"}}, {"a": {"age_s": 9, "b": "4 min ago", "c": 1}})
    assert not _shown_in({"a": "3.67 USD"}, {"a": "3.68 USD"})
    assert not _shown_in({"a": None}, {})
    assert not _shown_in({"a": False}, {"a": 0})


def test_make_lines_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {line.split()[1] for line in _lines("make")} | set(re.findall(r"`make (\w+)`", README))
    assert named <= targets


@pytest.mark.parametrize(("target", "command"), [("serve", "gpufare serve"), ("demo", "gpufare serve --demo")])
def test_a_server_of_make_listens_where_port_says(target: str, command: str) -> None:
    """A variable of the environment that is called PORT means something else."""

    def runs(*arguments: str) -> str:
        asked = ["make", "--dry-run", target, *arguments]
        return subprocess.run(  # noqa: S603
            asked, cwd=ROOT, env=os.environ | {"PORT": "9"}, capture_output=True, text=True, check=True
        ).stdout

    assert f"{command} --port 8000\n" in runs()
    assert f"{command} --port 8001\n" in runs("PORT=8001")


def test_the_readme_says_what_is_not_in_this_version() -> None:
    said, api = README.partition("## Out of scope")[2], (ROOT / "docs/api.md").read_text("utf-8")
    for name in ("watches", "targets"):
        assert (name in said) == (f"### `GET /{name}`" not in api), name


def test_settings_of_the_readme_can_be_used(tmp_path: Path) -> None:
    (text,) = _blocks("toml")
    (tmp_path / "gpufare.toml").write_text(text)
    loaded = load({"HOME": str(tmp_path)}, tmp_path)
    assert loaded.defaults == {"currency": "CNY"}
    assert loaded.fallback == {"ap-guangzhou": ("ap-nanjing", "ap-chongqing")}
    assert loaded.provider("tencent").site == "cn"
    assert tomllib.loads(text, parse_float=Decimal)
