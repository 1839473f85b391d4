"""gpufare's own processes and the simulated clouds, as a bench runs them."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.processes import BenchError, environment, started

LATENCY_MS = 200


@contextmanager
def simulated(providers: Sequence[str], folder: Path, latency_ms: int = LATENCY_MS) -> Iterator[dict[str, str]]:
    """The clouds, each answer so much late, their clock standing; yields the variables that point gpufare at them."""
    arguments = ["simcloud", "--env-json", "--manual", "--providers", ",".join(providers)]
    with started(arguments, environment(), folder, stdout=subprocess.PIPE) as process:
        line = process.stdout.readline() if process.stdout is not None else b""
        if not line:
            raise BenchError(f"the simulated clouds did not start: see {folder}")
        environ: dict[str, str] = json.loads(line)
        for provider in providers:
            steer(environ, "fault", {"provider": provider, "kind": "delay_ms", "delay_ms": latency_ms})
        yield environ


def steer(environ: Mapping[str, str], what: str, order: Mapping[str, Any]) -> None:
    """Tell the simulated clouds something: `POST /_sim/…` at any of them steers all."""
    url = next(text for name, text in environ.items() if "__ENDPOINTS__" in name)
    body = json.dumps(order).encode()
    asked = urllib.request.Request(f"{url.rstrip('/')}/_sim/{what}", body, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - on this machine
        answer.read()


@contextmanager
def workers(count: int, environ: Mapping[str, str], folder: Path) -> Iterator[list[int]]:
    """So many `gpufare worker` processes, their ids."""
    with ExitStack() as running:
        made = [running.enter_context(started(["cli", "worker"], environ, folder)) for _ in range(count)]
        yield [process.pid for process in made]
