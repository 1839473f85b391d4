"""Sparing the garbage collector the offers, so that it does not stop the answers to look at each of them.

A full collection goes over every object: a quarter of a second for 100,000 offers, seconds for a million. Offers hold
no cycles, and go when nothing refers to them any more; the collector never frees one.
"""

import gc
import sys

SWITCH_S = 0.001
"""How long a thread may hold the interpreter while another waits: a fifth of the usual time, so that an answer need not
wait long for the thread that reads changes.
"""
_PART = 4
"""Set aside anew once one in so many offers is a new one. Whatever else is alive then is set aside too, cycles that die
later among it: so not after each change.
"""


class Sparing:
    """Counts the offers that were put in place since they were last set aside."""

    def __init__(self) -> None:
        self._new = 0

    def replaced(self, offers: int, held: int) -> None:
        """So many offers were put in place, of so many that are held now."""
        self._new += offers
        if self._new * _PART > held:
            self._new = 0
            gc.collect(1)
            gc.freeze()


def take_turns_often() -> None:
    """Let the threads of this process, a server's, take shorter turns."""
    sys.setswitchinterval(SWITCH_S)
