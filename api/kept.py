"""Answers of this very second, kept for whoever asks the same in it."""

from datetime import datetime

MOST_KEPT = 1024
"""Answers of a few kilobytes each; a question beyond them is answered anew."""


class KeptAnswers:
    """Bodies by question. An answer depends on the question, on what the board holds and on the time, and shows that in
    whole seconds: within one, and until the board changes, the same question has the same answer to the byte.
    """

    def __init__(self) -> None:
        self._of: tuple[tuple[int, datetime] | None, dict[bytes, bytes]] = (None, {})

    def at(self, version: int, second: datetime) -> dict[bytes, bytes]:
        """What was answered from this version of the board in this second. Any other moment begins with nothing."""
        of, bodies = self._of
        if of != (version, second):
            bodies = {}
            self._of = ((version, second), bodies)
        return bodies
