"""`python -m bench`: run the benches, all or those named, and print their table."""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import table
from bench.databases import VARIABLE
from bench.processes import BenchError
from bench.running import NAMES, PROFILE, QUICK, lines_of
from bench.table import Line
from commands.listening import end_on_signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status is 0 where all was measured, whatever the figures are, and 1 where a bench could not run."""
    asked = _parser().parse_args(arguments)
    end_on_signal()
    options = [option for option, wanted in ((QUICK, asked.quick), (PROFILE, asked.profile)) if wanted]
    environ = {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
    found: list[Line] = []
    failed = False
    for name in asked.names or NAMES:
        print(f"bench: {name} …", file=sys.stderr, flush=True)
        try:
            found += lines_of(name, options, environ)
        except BenchError as error:
            print(f"bench: {error}", file=sys.stderr)
            failed = True
    print(_about())
    print(table.text(found))
    if asked.json is not None:
        table.write_json(asked.json, found, {"about": _about(), "quick": asked.quick})
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="What gpufare costs, beside peers: docs/bench.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", type=_name, help=f"of {', '.join(NAMES)}; else all")
    parser.add_argument(QUICK, action="store_true", help="small sizes: shows that all of it runs, no figure of note")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the lines there too")
    parser.add_argument(PROFILE, action="store_true", help="print where each bench's own process spends its time")
    return parser


def _name(text: str) -> str:
    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"{text} is no bench; there are {', '.join(NAMES)}")
    return text


def _about() -> str:
    """On what, and when."""
    now = datetime.now(UTC)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    return f"{now:%Y-%m-%d %H:%M} UTC, {machine}, load average {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
