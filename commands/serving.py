"""`gpufare serve`: the API in this process, polls in a child process that ends with it, simulated clouds on request."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import structlog
import typer

from catalog.accounts import CREDENTIALS, is_credential
from commands.build import refuse
from commands.handing import line_of

if TYPE_CHECKING:
    from settings import Settings

CHILD_PATIENCE_S = 3.0
"""How long the polling process may take to end: more than its `STOP_PATIENCE` and the giving back of what is left."""
RESTART_PAUSE_S = 5.0
PYTHON = (sys.executable, "-P", "-m")
"""-P: what lies in the working folder stands for no module of ours."""

log = structlog.get_logger()


@contextlib.contextmanager
def polling_child(loaded: "Settings") -> Iterator[None]:
    """A child process that polls by these settings for as long as the block runs. One that dies is started again."""
    child = _Child([*PYTHON, "cli", "worker", "--exit-with-parent"], line_of(loaded))
    child.start()
    try:
        yield
    finally:
        child.stop()


class _Child:
    """A process whose standard input we hold: it begins with this line, and ends when that closes, also if we are
    killed.
    """

    def __init__(self, command: list[str], line: bytes) -> None:
        self._command = command
        self._line = line
        self._stopping = threading.Event()
        self._process = self._spawn()
        self._watch = threading.Thread(target=self._restart_when_dead, daemon=True)

    def start(self) -> None:
        self._watch.start()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        # In a session of its own: Ctrl-C in a terminal is ours to hear, and the child is ended after the server.
        process = subprocess.Popen(  # noqa: S603
            self._command, stdin=subprocess.PIPE, stdout=sys.stderr, start_new_session=True
        )
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # one that died at once is started again
                process.stdin.write(self._line)
                process.stdin.flush()
        return process

    def _restart_when_dead(self) -> None:
        while True:
            status = self._process.wait()
            if self._stopping.wait(RESTART_PAUSE_S):
                return
            log.error("the polling process ended; starting it again", exit_status=status)
            self._process = self._spawn()

    def stop(self) -> None:
        self._stopping.set()
        _end(self._process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(CHILD_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_QUIET = {"GPUFARE_LOG": "warning"}
"""A demo logs what its clouds get wrong, on purpose, and not a line for each of the ten polls a second."""
_WHERE_TO_LOOK = (
    "polls that go well are not logged (GPUFARE_LOG=info tells of each); GET /syncs and GET /providers have them all"
)


@contextlib.contextmanager
def simulated_clouds() -> Iterator[None]:
    """The simulated clouds of `simcloud/`, running; meanwhile this process's environment points at them.

    The environment has a database of its own and nothing of real accounts. A line on stderr says where each cloud
    listens: `POST /_sim/advance` at any of them moves their clock.
    """
    with tempfile.TemporaryDirectory(prefix="gpufare-demo-") as folder:
        command = [*PYTHON, "simcloud", "--receiver", "--env-json", "--exit-with-parent"]
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        with process:
            try:
                told = _told(process)
                typer.echo(f"gpufare: simulated clouds: {', '.join(_addresses(told))}; see docs/simcloud.md", err=True)
                typer.echo(f"gpufare: {_WHERE_TO_LOOK}", err=True)
                receiver = told.pop(_RECEIVER)
                typer.echo(f"gpufare: what is told of the watch of the demo arrives at {receiver}/", err=True)
                watching = _watching(Path(folder), receiver)
                with _environment(_QUIET | _without_settings(os.environ) | told | _own(Path(folder)) | watching):
                    yield
            finally:
                _end(process)


@contextlib.contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _told(process: "subprocess.Popen[bytes]") -> dict[str, str]:
    line = process.stdout.readline() if process.stdout is not None else b""
    if not line:
        refuse("the simulated clouds did not start: see above")
    told: dict[str, str] = json.loads(line)
    return told


def _addresses(told: Mapping[str, str]) -> list[str]:
    """`tencent http://127.0.0.1:PORT`, once for each cloud."""
    endpoints = [(name.split("__"), url) for name, url in told.items() if "__ENDPOINTS__" in name]
    return list(dict.fromkeys(f"{parts[1].lower()} {url}" for parts, url in endpoints))


def _own(folder: Path) -> dict[str, str]:
    """A database and a settings file of the demo's own, and no proxy before the simulated clouds."""
    config = folder / "gpufare.toml"
    config.touch()
    direct = ",".join(filter(None, (os.environ.get("NO_PROXY"), "127.0.0.1")))
    return {
        "GPUFARE_DATABASE_URL": f"sqlite:///{folder}/demo.db",
        "GPUFARE_CONFIG": str(config),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


_RECEIVER = "SIMCLOUD_RECEIVER"
_HOOK = "/hook"
_WATCHES = """
[[targets]]
name = "demo"
url = "{url}"
secret = "{secret}"

[[watches]]
name = "V100 in Guangzhou"
spec = {{ gpu = "v100", region = "ap-guangzhou", fallback = "ap-nanjing,ap-chongqing", currency = "CNY" }}
notify = ["demo"]
events = ["stock.out", "stock.low", "stock.back", "source.stale", "source.back"]
"""


def _watching(folder: Path, receiver: str) -> dict[str, str]:
    """A watch of the demo's own, told to the receiver, which checks the signatures of what it is told."""
    import httpx2

    from alerts.format_standard import new_secret

    secret, file = new_secret(), folder / "watches.toml"
    file.write_text(_WATCHES.format(url=f"{receiver}{_HOOK}", secret=secret), encoding="utf-8")
    known = {"path": _HOOK, "secret": secret, "format": "standard"}
    httpx2.post(f"{receiver}/_sim/secret", json=known, trust_env=False).raise_for_status()
    return {"GPUFARE_WATCHES_FILE": str(file)}


KEPT = ("GPUFARE_API_TOKEN", "GPUFARE_PUBLIC_READS", "GPUFARE_LOG")
"""Settings of the server itself, which a demo obeys."""


def _without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without anything that would point a demo at a real account."""
    return {name: value for name, value in environ.items() if name in KEPT or not _points_somewhere(name)}


def _points_somewhere(variable: str) -> bool:
    return variable.startswith("GPUFARE_") or any(is_credential(provider, variable) for provider in CREDENTIALS)


NICENESS = 5


def give_way() -> None:
    """Leave the processor to others that want it, where the platform has a way: answers go before polls."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)


def end_with_parent() -> None:
    """End this process when standard input closes, since whoever started us is gone: politely, then at once."""
    threading.Thread(target=_end_at_eof, daemon=True).start()


def end_now() -> NoReturn:
    """End this process well, without waiting for threads: a poll that was given back may hang in a call for long."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_at_eof() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(CHILD_PATIENCE_S)
    os._exit(1)
