"""What is written: text that no terminal can misunderstand, and a way out where it cannot be written."""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import typer

NO_ANSWER = 5
"""Exit status where no answer could be got, or none could be told: nothing is known, so no other status is true."""

_HIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Unicode's controls but the line feed, its invisible and direction-changing characters, and lone surrogates."""


def visible(text: str) -> str:
    """The text with each control character written as JSON writes it, so that JSON stays the same JSON.

    A provider's text could otherwise move a terminal's cursor, hide what stands there, or type for its user.
    """
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(text: str) -> None:
    """Print a line, or several, on stdout."""
    write(visible(text) + "\n")


def write(text: str) -> None:
    """Write on stdout what may hold a terminal's colours. Where that cannot be done, the command ends with status 5."""
    if sys.stdout is None:
        lost(OSError(errno.EBADF, "it is closed"))
    try:
        sys.stdout.write(_writable(text, sys.stdout.encoding))
        sys.stdout.flush()
    except OSError as error:
        lost(error)


def _writable(text: str, encoding: str) -> str:
    """What the encoding of stdout lacks is escaped."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def lost(error: OSError) -> NoReturn:
    """End the command since its output cannot be written. A reader that has gone, as `head` does, is not told."""
    if error.errno != errno.EPIPE:
        complain(f"the output cannot be written: {error.strerror}")
    if sys.stdout is not None:
        with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:  # else Python tries again as it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    raise typer.Exit(NO_ANSWER)


def complain(sentence: str) -> None:
    """Say on stderr what is wrong; where that cannot be written either, the exit status must do."""
    with contextlib.suppress(OSError):
        typer.echo(f"gpufare: {visible(sentence)}", err=True)


def warn_of(thing: Mapping[str, Any]) -> None:
    """Say on stderr what a server warns of in something that has a name."""
    for said in thing["warnings"]:
        complain(f"{thing['name']}: {said}")
