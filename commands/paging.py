"""The pages of a long answer, as a command asks for them: by `--offset`."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from commands.output import complain


def without_server(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer that no server gave: its `next` names the path and the parameters, and no address where nobody is."""
    following = answer.get("next")
    if following is None:
        return answer
    return answer | {"next": urlunsplit(("", "", *urlsplit(following)[2:]))}


def tell_of_more(answer: Mapping[str, Any]) -> None:
    """Say on stderr how many there are after this page, and how to have them; nothing where it is the last."""
    found = re.search(r"[?&]offset=(\d{1,9})(?=&|$)", answer["next"] or "")
    if found:
        complain(f"{answer['total'] - int(found[1])} more: add --offset {found[1]}")
