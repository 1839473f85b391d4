"""Processes that a bench starts: each is ended, by its id, however the bench ends."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

PYTHON = (sys.executable, "-P", "-m")
"""-P: what lies in the working folder stands for no module of ours."""
PATIENCE_S = 60.0
END_PATIENCE_S = 30.0
"""A bench that is told to end has processes of its own to end first."""


class BenchError(Exception):
    """A bench could not be run. Says what did not happen."""


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without gpufare's settings and any proxy, with these changes."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GPUFARE_", "TENCENTCLOUD_"))}
    return kept | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"} | changes


@contextmanager
def started(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    *,
    python: Sequence[str] = PYTHON,
    **streams: Any,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A Python module run as a process for as long as the block runs. What it says goes to a file in the folder."""
    with ExitStack() as files:
        kept: dict[str, Any] = {"stdin": subprocess.DEVNULL} | streams
        if {"stdout", "stderr"} - kept.keys():
            told = files.enter_context((folder / f"process-{time.monotonic_ns()}.log").open("wb"))
            kept = {"stdout": told, "stderr": told} | kept
        # In a session of its own: Ctrl-C is ours to hear, and this process is ended below.
        process = subprocess.Popen(  # noqa: S603 - our own modules
            [*python, *arguments], env=dict(environ), cwd=folder, start_new_session=True, **kept
        )
        try:
            yield process
        finally:
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process of ours: asked politely, then killed."""
    process.terminate()
    try:
        process.wait(END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def told_by(arguments: Sequence[str], folder: Path) -> Any:
    """The JSON that a module of ours prints when it is run to its end in a process of its own."""
    with started(arguments, environment(), folder, stdout=subprocess.PIPE) as process:
        said, _ = process.communicate()
        if process.returncode:
            raise BenchError(f"{' '.join(arguments)} ended with status {process.returncode}: see {folder}")
    return json.loads(said)


def wait_until(what: str, holds: Callable[[], object], patience_s: float = PATIENCE_S, every_s: float = 0.02) -> None:
    """Return once it holds. Raises BenchError where it does not in time."""
    end_at = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end_at:
            raise BenchError(f"{what}: not within {patience_s:g} s")
        time.sleep(every_s)


def answers(url: str) -> bool:
    """Whether there is a 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - on this machine
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def memory_mib(process_id: int | str, field: str = "VmRSS") -> float:
    """What a process holds in memory (`VmRSS`), or the most it ever held (`VmHWM`), as Linux tells."""
    return told_mib(Path(f"/proc/{process_id}/status"), field)


def told_mib(status: Path, field: str) -> float:
    """The same, of a status file."""
    for line in status.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise BenchError(f"{status} has no {field}")
