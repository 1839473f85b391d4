"""The settings of a server, handed to its polling child as a line on standard input.

Both go by what was read once: a child that is started again neither needs the working folder, which may be gone by
then, nor takes up a file that was changed meanwhile and that the server does not know of.
"""

import json
import sys
from datetime import date, timedelta
from decimal import Decimal

import typer
from pydantic import SecretStr

from commands.logs import log_to_stderr
from settings import Settings


def line_of(loaded: Settings) -> bytes:
    """What is set, secrets too, as one line: for a pipe, and no place where it is kept."""
    tree = loaded.model_dump(exclude_unset=True)
    if "fx" in tree:
        tree["fx"] = {pair.replace("/", "_"): rate for pair, rate in tree["fx"].items()}
    return json.dumps(tree, default=_text).encode() + b"\n"


def _text(value: object) -> str:
    """A value as it is written in the environment."""
    match value:
        case SecretStr():
            return value.get_secret_value()
        case timedelta():
            return f"{value // timedelta(seconds=1)}s"
        case Decimal():
            return f"{value:f}"
        case date():
            return value.isoformat()
    raise TypeError(f"a setting of type {type(value).__name__} cannot be handed over")


def settings_of(line: bytes) -> Settings:
    """The settings that such a line was made of."""
    return Settings(**json.loads(line))


def settings() -> Settings:
    """The settings that the parent hands over. Logging follows them from here on. Ends where the parent has gone."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        raise typer.Exit
    loaded = settings_of(line)
    log_to_stderr(loaded.log)
    return loaded
