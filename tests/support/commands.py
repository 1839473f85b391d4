"""The command as a user runs it: in a process of its own, away from the user's own settings and accounts."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

COMMAND = (sys.executable, "-P", "-m", "cli")
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1
_T = TypeVar("_T")


BUNDLED = {
    "GPUFARE_ONLY": "tencent,azure,gcp,alibaba",
    "GPUFARE_PROVIDERS__AZURE__ENDPOINTS__RETAIL": "http://127.0.0.1:9",
    "GPUFARE_FX_REFRESH": "false",
}
"""Providers of the bundled list prices, and no call to any of them that leaves this machine."""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of ours but `more`, no credentials, a home of its own.

    All are off for want of a key but Azure, whose public prices nobody serves here; there are bundled list prices.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"HOME": str(home), **BUNDLED} | more


def until(found: Callable[[], _T | None], what: str) -> _T:
    """What `found` gives as soon as it gives something; AssertionError where that never happens."""
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        if (value := found()) is not None:
            return value
        time.sleep(LOOK_EVERY_S)
    raise AssertionError(f"{what}: not within {PATIENCE_S:.0f} s")


@dataclass(frozen=True)
class Served:
    """A running `gpufare serve`."""

    process: "subprocess.Popen[bytes]"
    stderr: Path
    url: str

    def said(self) -> str:
        """What it wrote to stderr so far."""
        return self.stderr.read_text()

    def cloud(self, name: str) -> str:
        """The address of a simulated cloud, from the line of a demo that names them."""
        found = re.search(rf"simulated clouds: .*\b{name} (http://[\d.:]+)", self.said())
        assert found, self.said()
        return found[1]

    def children(self) -> list[int]:
        """The processes that it started."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)  # noqa: S607
        pairs = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, parent in pairs if int(parent) == self.process.pid]


@contextmanager
def serving(home: Path, *arguments: str, **environ: str) -> Iterator[Served]:
    """`gpufare serve` on a free port, until the block is left."""
    with serving_in(home, home, *arguments, **environ) as served:
        yield served


@contextmanager
def serving_in(folder: Path, home: Path, *arguments: str, **environ: str) -> Iterator[Served]:
    """The same, with a working folder that is not its home."""
    stderr = home / "stderr.txt"
    command = [*COMMAND, "serve", "--port", "0", *arguments]
    with (
        stderr.open("wb") as told,
        subprocess.Popen(command, env=environment(home, **environ), cwd=folder, stderr=told) as process,  # noqa: S603
    ):
        try:
            url = until(lambda: _listening(process, stderr), "the server says where it listens")
            yield Served(process, stderr, url)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            process.wait(PATIENCE_S)


def _listening(process: "subprocess.Popen[bytes]", stderr: Path) -> str | None:
    found = re.search(r"listening on (http://[\d.:]+)", stderr.read_text())
    assert found or process.poll() is None, stderr.read_text()
    return found[1] if found else None


def run(home: Path, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """A command run to its end."""
    return run_into(subprocess.PIPE, home, *arguments, **environ)


def run_into(
    stdout: int | IO[bytes], home: Path, *arguments: str, **environ: str
) -> "subprocess.CompletedProcess[str]":
    """A command run to its end, with this for its stdout."""
    return subprocess.run(  # noqa: S603
        [*COMMAND, *arguments],
        env=environment(home, **environ),
        cwd=home,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    asked = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    return bool(state.stdout.strip()) and not state.stdout.strip().startswith("Z")
