"""How a command ends that cannot go on: with a sentence and a status, never a traceback."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from typer.core import TyperGroup

from commands.build import refuse, refuse_database
from commands.output import lost


class Group(TyperGroup):
    """All commands together. What may befall any of them is told here, once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments. What is not UTF-8 is refused: no name or address here can hold it."""
        for number, given in enumerate(args, start=1):
            if any("\ud800" <= character <= "\udfff" for character in given):
                shown = os.fsencode(given).decode("utf-8", "backslashreplace")
                refuse(f"argument {number} is not valid UTF-8: '{shown}'; write it in the terminal's encoding, UTF-8")
        _refuse_valued_flags(self.commands, args)
        with _in_a_sentence():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        with _in_a_sentence():
            return super().invoke(ctx)


_TRUTHS = ("true", "false", "yes", "no", "on", "off", "1", "0")


def _refuse_valued_flags(commands: Any, args: Sequence[str]) -> None:
    """Say of a flag that it takes no value, rather than of what was meant as one that it is an argument too many."""
    command = next((commands[given] for given in args if given in commands), None)
    flags = {name for one in getattr(command, "params", ()) if getattr(one, "is_flag", False) for name in one.opts}
    for flag, value in pairwise(args):
        if flag in flags and value.casefold() in _TRUTHS:
            refuse(f"{flag} is a flag and takes no value: leave out '{value}', and to say no, leave out {flag} too")


@contextlib.contextmanager
def _in_a_sentence() -> Iterator[None]:
    try:
        yield
    except _database_errors() as error:
        refuse_database(", ".join(getattr(error, "__notes__", ())), str(getattr(error, "orig", error)))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        lost(error)  # help, which typer prints itself


def _database_errors() -> tuple[type[Exception], ...]:
    """What the database raises, where it was used at all: it is not loaded for this."""
    loaded = sys.modules.get("sqlalchemy.exc")
    return () if loaded is None else (loaded.DBAPIError,)
