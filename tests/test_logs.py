"""Logs: one form and one level for all that is logged, whoever logs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPOKEN = """
import json, logging, sys
from commands.logs import log_to_stderr
from collectors.base import ProviderError, Unchanged
from collectors.registry import PROVIDERS, provider
from tests.support.canned import Canned, canned
from tests.support.contract import contract_of

log_to_stderr(sys.argv[1])
with canned(Canned(401, b'{}')) as server:
    for name in PROVIDERS:
        contract = contract_of(name)
        for feed in provider(name, contract.at(server.url)).feeds():
            try:
                contract.drained(feed)
            except (ProviderError, Unchanged):
                pass
print('every SDK is loaded', file=sys.stderr)
sdks = [name for name in logging.root.manager.loggerDict if name.split('.')[0] not in ('asyncio', 'concurrent')]
for name in sdks:
    logging.getLogger(name).info('a %s of %s', 'secret', name)
    logging.getLogger(name).warning('a %s of "%s"', 'warning', name)
    logging.getLogger(name).error('an error of %s', name)
print(json.dumps(sdks))
"""


def spoken(level: str) -> tuple[list[str], list[str]]:
    """The names of all loggers once every SDK was used, and the lines when each of them has said something."""
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", SPOKEN, level], cwd=ROOT, capture_output=True, text=True, check=True
    )
    before, _, after = run.stderr.partition("every SDK is loaded\n")
    assert before == "", "what a provider's refusal means is told by us alone"
    loggers: list[str] = json.loads(run.stdout.splitlines()[-1])
    return loggers, after.splitlines()


@pytest.mark.parametrize(("level", "told"), [("info", {"warning", "error"}), ("error", {"error"})])
def test_what_sdks_log_is_logged_as_ours_is_and_from_the_level_that_is_set(level: str, told: set[str]) -> None:
    loggers, lines = spoken(level)
    used = {name.partition(".")[0] for name in loggers}
    assert {"google", "botocore", "ucloud", "darabonba-core", "tencentcloud_sdk_common", "azure"} <= used
    for line in lines:
        assert line.startswith("timestamp="), line
        assert "secret" not in line
    found = {(line.split()[1].removeprefix("level="), line.rpartition("logger=")[2]) for line in lines}
    assert {level for level, _ in found} == told
    for name in ("google.auth.transport.requests", "ucloud", "botocore.credentials", "darabonba-core"):
        assert ("error", name) in found
