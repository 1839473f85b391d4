"""A sender in a process of its own, in no hurry to end well: python -m tests.support.sending_process URL."""

import signal
import sys
from datetime import timedelta
from threading import Event

from commands.logs import log_to_stderr
from scheduler.attempts import Pauses, SendingRules
from scheduler.sending import Sending
from store.clock import clock_of
from store.engine import open_engine

SOON = timedelta(seconds=0.05)
QUICK = SendingRules(
    allow_private=True,
    pauses=Pauses(SOON, SOON),
    timeout=timedelta(seconds=5),
    look_every=SOON,
    margin=-timedelta(seconds=4),
)
"""The lease of what a killed process had is over in a second; whoever holds it longer loses it."""


def main(url: str) -> None:
    """Send until SIGTERM."""
    log_to_stderr("warning")
    engine = open_engine(url)
    sending, asked = Sending(engine, clock_of(engine), QUICK), Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    sending.start()
    asked.wait()
    sending.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
