"""JSON that readers understand in different ways is refused before it is read: its sender may have meant another."""

import json
import re
from collections import Counter
from collections.abc import Iterator

from api.problems import refused

BODY = "body"
"""What a problem is about that is about no field of the body."""
_MOST_LETTERS = 100
_HALF = re.compile("[\ud800-\udfff]")


class _Object(list[tuple[str, object]]):
    """An object as it was written."""


def refuse_ambiguous(body: bytes) -> None:
    """Raise Problem 422 for a name that an object has twice, and for half of a surrogate pair, at any depth.

    What is no JSON at all is left to whoever reads it.
    """
    try:
        tree = json.loads(body.decode(), object_pairs_hook=_Object, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return
    for path, found in _below(tree):
        if isinstance(found, _Object):
            _refuse_twice(path, found)
        if isinstance(found, str) and (half := _HALF.search(found)):
            detail = f"{_shown(path)} holds half of a surrogate pair, {_shown(half[0])}: send both halves, or neither."
            raise refused(_field(path), detail)


def _below(tree: object) -> Iterator[tuple[str, object]]:
    """Every value and every name of a tree, with where it stands: `spec.gpu`, `notify[0]`."""
    left = [("", tree)]
    while left:
        path, value = left.pop()
        yield path or BODY, value
        if isinstance(value, _Object):
            for name, under in value:
                yield _joined(path, name), name
                left.append((_joined(path, name), under))
        elif isinstance(value, list):
            left += [(f"{path or BODY}[{number}]", under) for number, under in enumerate(value)]


def _refuse_twice(path: str, found: _Object) -> None:
    for name, times in Counter(name for name, _ in found).items():
        if times > 1:
            where = _joined("" if path == BODY else path, name)
            raise refused(_field(where), f"{_shown(where)} is there {times} times: say it once.")


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _field(path: str) -> str:
    """The body's own field that a path begins with."""
    return _shown(re.split(r"[.\[]", path, maxsplit=1)[0]) or BODY


def _shown(text: str) -> str:
    """As every answer can hold it."""
    return text[:_MOST_LETTERS].encode("utf-8", "backslashreplace").decode()
