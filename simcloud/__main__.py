"""`python -m simcloud`: serve a scenario until told to stop."""

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Sequence
from threading import Event, Thread
from types import FrameType

from simcloud.scenario import ScenarioError
from simcloud.sim import PROVIDERS, Clock, Sim, start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0 stopped as asked, 2 a scenario or port that cannot be served."""
    asked = _parser().parse_args(arguments)
    stop = Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    clock: Clock = "manual" if asked.manual else "real"
    try:
        providers = asked.providers.split(",")
        sim = start(asked.scenario, providers, clock, asked.speed, asked.first_port, receiver=asked.receiver)
    except (ScenarioError, OSError, ValueError) as error:
        sys.stderr.write(f"simcloud: {error}\n")
        return 2
    with sim:
        _announce(sim, as_json=asked.env_json)
        if asked.exit_with_parent:
            Thread(target=_wait_for_end_of_input, args=(stop,), daemon=True).start()
        stop.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m simcloud", description="Local simulated GPU clouds.")
    parser.add_argument("--scenario", default="demo", help="a shipped scenario's name, or a TOML file or folder")
    parser.add_argument("--providers", default=",".join(PROVIDERS), help="which to serve, separated by commas")
    parser.add_argument("--speed", type=float, default=1.0, help="scenario seconds in one real second")
    parser.add_argument("--manual", action="store_true", help="the clock moves only by POST /_sim/advance")
    parser.add_argument("--first-port", type=int, default=0, help="ports from here on; else free ones are chosen")
    parser.add_argument("--receiver", action="store_true", help="serve a receiver of webhooks too")
    parser.add_argument("--print-env", action="store_true", help="print shell export lines (the default)")
    parser.add_argument("--env-json", action="store_true", help="print one line of JSON instead, for a parent process")
    parser.add_argument("--exit-with-parent", action="store_true", help="stop when standard input ends")
    return parser


def _announce(sim: Sim, *, as_json: bool) -> None:
    env = sim.env()
    lines = [json.dumps(env)] if as_json else [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _wait_for_end_of_input(stop: Event) -> None:
    while sys.stdin.read(4096):
        continue
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
