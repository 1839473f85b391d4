"""How a command ends that cannot go on: with a sentence and a status, never a traceback."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
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
        with _in_a_sentence():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        with _in_a_sentence():
            return super().invoke(ctx)


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
