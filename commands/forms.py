"""`--format`: a text with the names of an offer's fields in braces."""

from collections.abc import Mapping
from string import Formatter
from typing import Any, NoReturn, get_args

import msgspec

from api.shapes import OfferShape
from commands.build import refuse


class Form:
    """A form whose fields are known; the command ends with status 2 where they are not."""

    def __init__(self, text: str) -> None:
        try:
            pieces = list(Formatter().parse(text))
        except ValueError as error:
            _refuse(f"{text!r} cannot be read ({error})")
        for _, name, spec, conversion in pieces:
            if spec or conversion:
                _refuse(f"{{{name}}} stands alone, without ':' or '!'")
            if name is not None and name not in FIELDS:
                _refuse(f"there is no field {name!r} to print")
        self._pieces = [(literal, name) for literal, name, _, _ in pieces]

    def filled(self, offer: Mapping[str, Any]) -> str:
        """The text with an offer's fields as JSON has them, text without quotes. Unknown is empty."""
        return "".join(literal + (_shown(offer[name]) if name else "") for literal, name in self._pieces)


def _plain(kind: object) -> bool:
    return not any(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in (kind, *get_args(kind)))


FIELDS = tuple(field.name for field in msgspec.structs.fields(OfferShape) if _plain(field.type))
"""An offer's fields that are one value."""


def _shown(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _refuse(what: str) -> NoReturn:
    refuse(f"--format: {what}; write fields like '{{provider}} {{region}}', of {', '.join(FIELDS)}")
