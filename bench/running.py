"""One bench, run in a process of its own: what one leaves in memory slows no other.

`python -m bench.running NAME [--quick] [--profile]` prints its lines as JSON.
"""

import cProfile
import pstats
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import msgspec

from bench.processes import BenchError, environment, started
from bench.table import Line
from commands.listening import end_on_signal

NAMES = (
    "writes",
    "serving",
    "pricelist",
    "selector",
    "starting",
    "workers",
    "syncing",
    "polling",
    "history",
    "watches",
    "deliveries",
)
QUICK, PROFILE = "--quick", "--profile"
TOP = 25
"""Lines of a profile."""


def lines_of(name: str, options: Sequence[str], environ: dict[str, str]) -> list[Line]:
    """The lines of a bench. Raises BenchError where it could not be run; what it says of that is on stderr."""
    module = ["bench.running", name, *options]
    with started(module, environment(**environ), Path.cwd(), stdout=subprocess.PIPE, stderr=None) as process:
        said, _ = process.communicate()
    if process.returncode:
        raise BenchError(f"{name} could not be run: see above")
    return msgspec.json.decode(said, type=list[Line])


def run(name: str, *, quick: bool, profile: bool) -> list[Line]:
    """The lines of a bench, run here; where this process spends its time goes to stderr on request.

    A quick run is held to no limit: its sizes are none that a limit is meant for.
    """
    measured = cProfile.Profile()
    if profile:
        measured.enable()
    found: list[Line] = list(import_module(f"bench.{name}").lines(quick=quick))
    measured.disable()
    if profile:
        pstats.Stats(measured, stream=sys.stderr).sort_stats("tottime").print_stats(TOP)
    return [replace(line, limit=None) for line in found] if quick else found


def _main(arguments: Sequence[str]) -> int:
    end_on_signal()
    name, *options = arguments
    try:
        found = run(name, quick=QUICK in options, profile=PROFILE in options)
    except BenchError as error:
        print(f"bench: {name}: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
