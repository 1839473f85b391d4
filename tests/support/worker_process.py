"""A worker in a process of its own, over a scripted provider: python -m tests.support.worker_process URL LEVEL [held].

It prints a line for each fetch; `held`, the fetch then waits for a line on stdin. LEVEL is the stock level it finds.
"""

import signal
import sys
from datetime import timedelta

from catalog.words import Level
from collectors.base import Cell
from commands.logs import log_to_stderr
from commands.serving import end_now
from scheduler.poll import Polls
from scheduler.worker import Worker
from store.clock import clock_of
from store.engine import open_engine
from tests.support.feeds import ScriptedFeed, always, configured, says
from tests.support.stored import machine, stock


def main(url: str, level: str, *held: str) -> None:
    """Work until SIGTERM."""
    log_to_stderr("info")

    def before(_cell: Cell) -> None:
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        if held:
            sys.stdin.readline()

    answer = says(machine(), stock(level=Level(level)))
    feed = ScriptedFeed(script=always(answer), every=timedelta(hours=1), before=before)
    engine = open_engine(url)
    worker = Worker(Polls(engine, clock_of(engine)), [configured(feed)])
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()
    end_now()


if __name__ == "__main__":
    main(*sys.argv[1:])
