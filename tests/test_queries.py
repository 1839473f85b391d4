"""docs/queries.md holds: a gpufare that has polled the simulated clouds answers its questions as it shows."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

import simcloud
from catalog.parameters import PARAMETERS
from collectors.registry import PROVIDERS, provider
from scheduler.plan import Configured
from settings import load
from store.snapshot import load_bundled
from store.times import utc_now
from tests.support.endtoend import Gpufare, gpufare

PAGE = (Path(__file__).parents[1] / "docs" / "queries.md").read_text("utf-8")
EXAMPLE = re.compile(r"^## (.+?)\n.*?^```sh\n(.+?)^```\n+^```text\n(.+?)^```", re.MULTILINE | re.DOTALL)
AGE = re.compile(r"\d+(?:\.\d+)? (?:s|min|h|d) (?=ago|old)")
SOLD_OUT_S = 75
"""When V100s are sold out in Guangzhou, by the scenario's clock."""


class Example(NamedTuple):
    """A question of the page: its heading, the command, and the lines that are answered."""

    heading: str
    command: str
    lines: list[str]


EXAMPLES = [
    Example(heading, " ".join(command.split()), told.splitlines()) for heading, command, told in EXAMPLE.findall(PAGE)
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpufare]:
    """All simulated clouds, polled while V100s are sold out in Guangzhou, beside the shipped price list."""
    folder = tmp_path_factory.mktemp("queries")
    with simcloud.start("demo") as sim:
        sim.advance(SOLD_OUT_S)
        environ = {"HOME": str(folder), **sim.env()}
        loaded = load(environ, folder)
        configs = {name: loaded.config_of(name, environ) for name in sorted(PROVIDERS)}
        made = [Configured(provider(name, one), one, loaded.provider(name).intervals) for name, one in configs.items()]
        with gpufare(folder, *made, fallback=loaded.fallback) as running:
            load_bundled(running.engine)
            running.sync()
            ahead = running.clock() - utc_now()  # by what was slept; UCloud says by the real clock when it counted
            sim.options("ucloud", update_lag_s=-int(ahead.total_seconds()))
            running.sync("stock", "spot")  # what the first pass found is younger than their limits
            yield running


def asked(command: str) -> str:
    """The path of a command's question."""
    words = shlex.split(command)
    assert words[0] == "gpufare"
    verb, subject, *options = words[1:]
    leading = {"cheapest": "gpu", "recommend": "params"}[verb]
    found = [(leading, subject)]
    while options:
        name = options.pop(0).removeprefix("--").replace("-", "_")
        flag = name in PARAMETERS and PARAMETERS[name].flag
        found.append((name, "true" if flag else options.pop(0)))
    return f"/{verb}?{urlencode(found)}"


def told(app: Gpufare, command: str) -> list[str]:
    """What is answered, a line each: of `recommend` what is needed, then the sentence of `cheapest`."""
    answer = app.get(asked(command))
    cheapest = answer.get("cheapest", answer)
    lines = [cheapest["message"]]
    best = cheapest["best"]
    if best is not None and best["job_cost"] is not None:
        lines.append(f"job_cost {best['job_cost']} {best['currency']}")
    return lines


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.heading))
def test_a_question_of_the_page_is_answered_as_shown(app: Gpufare, example: Example) -> None:
    shown = [AGE.sub("… ", line) for line in example.lines]
    assert [AGE.sub("… ", line) for line in told(app, example.command)] == shown


def test_the_page_has_a_dozen_questions_and_each_is_run() -> None:
    assert len(EXAMPLES) >= 12
    assert len(EXAMPLES) == PAGE.count("\n```sh\n") == PAGE.count("\n## ")
