"""The EC2 query protocol: form-encoded questions, XML answers, AWS's filters and paging."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from simcloud.wire import Reply, Request

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"
_REQUEST_ID = "59dbff89-35bd-4eac-99ed-be587e8a1f00"


class Ec2Error(Exception):
    """An error EC2 answers; `status` is the HTTP status it comes with."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class Question:
    """One EC2 request: the region and key id of its signature's scope, and its parameters."""

    region: str
    key_id: str
    parameters: Mapping[str, str]

    @classmethod
    def read(cls, request: Request) -> "Question":
        """Read a request; region and key id are empty when it is not signed."""
        _, _, rest = request.headers.get("authorization", "").partition("Credential=")
        scope = rest.partition(",")[0].split("/")
        key_id, region = (scope[0], scope[2]) if len(scope) == 5 else ("", "")
        return cls(region, key_id, dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)))

    @property
    def action(self) -> str:
        """The operation's name."""
        return self.parameters.get("Action", "")

    def one(self, name: str) -> str | None:
        """Return a parameter, by its name in any case of the first letter (EC2 has both)."""
        return self.parameters.get(name) or self.parameters.get(name[0].lower() + name[1:])

    def many(self, name: str) -> list[str]:
        """Return a list parameter: `Name.1`, `Name.2` …"""
        return _numbered(self.parameters, f"{name}.")

    def filters(self) -> dict[str, list[str]]:
        """Return the filters by name."""
        found = {}
        number = 1
        while name := self.parameters.get(f"Filter.{number}.Name"):
            found[name] = _numbered(self.parameters, f"Filter.{number}.Value.")
            number += 1
        return found


def _numbered(parameters: Mapping[str, str], prefix: str) -> list[str]:
    values: list[str] = []
    while (value := parameters.get(f"{prefix}{len(values) + 1}")) is not None:
        values.append(value)
    return values


def select(
    items: Sequence[Any], filters: Mapping[str, list[str]], known: Mapping[str, Callable[[Any], object]]
) -> list[Any]:
    """Return the items that meet every filter; values may hold `*` and `?`. A filter not in `known` is refused."""
    for name in filters:
        if name not in known:
            raise Ec2Error("InvalidParameterValue", f"The filter '{name}' is invalid")
    tests = [(known[name], values) for name, values in filters.items()]
    return [item for item in items if all(_meets(value_of(item), values) for value_of, values in tests)]


def _meets(value: object, patterns: Sequence[str]) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    return any(fnmatchcase(_text(one), pattern) for one in values for pattern in patterns)


def page(question: Question, items: Sequence[Any], most: int) -> tuple[Sequence[Any], str]:
    """Return the page asked for and the token of the next, "" on the last."""
    asked, token = question.one("MaxResults"), question.one("NextToken") or "page-0"
    size = min(int(asked), most) if asked else most
    start = token.removeprefix("page-")
    if not start.isdecimal() or int(start) > len(items):
        raise Ec2Error("InvalidNextToken", "The token is not valid.")
    end = int(start) + size
    return items[int(start) : end], f"page-{end}" if end < len(items) else ""


def answer(action: str, content: Mapping[str, Any]) -> Reply:
    """Return the XML answer to an action."""
    body = (
        f'<{action}Response xmlns="{_NAMESPACE}"><requestId>{_REQUEST_ID}</requestId>{xml(content)}</{action}Response>'
    )
    return _reply(200, body)


def error(code: str, message: str, status: int) -> Reply:
    """Return EC2's XML error."""
    inner = xml({"Code": code, "Message": message})
    body = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{_REQUEST_ID}</RequestID></Response>"
    return _reply(status, body)


def _reply(status: int, body: str) -> Reply:
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return Reply(status, (declaration + body).encode(), "text/xml;charset=UTF-8")


def xml(content: Any) -> str:
    """Return content as XML: dicts become elements, lists `item` elements, unless the list names its `element`."""
    if isinstance(content, Mapping):
        return "".join(f"<{name}>{xml(value)}</{name}>" for name, value in content.items())
    if isinstance(content, list | tuple):
        name = getattr(content, "element", "item")
        return "".join(f"<{name}>{xml(value)}</{name}>" for value in content)
    return escape(_text(content))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return str(value)
