"""A server on loopback that speaks EC2's query protocol: answers come from a function, in boto3's plain form.

The XML is written after botocore's own model of EC2, so that what the SDK reads back is what the function gave.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import botocore.session

from tests.support.canned import Canned


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its action, the region and service of its signature's scope, and its parameters."""

    action: str
    region: str
    service: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the request, the names in lower case."""

    def values(self, prefix: str) -> list[str]:
        """The values of all parameters whose name begins so."""
        return [value for name, value in self.parameters.items() if name.startswith(prefix)]


Answer = Mapping[str, Any] | Canned
"""The members of a success, or what to send instead."""


@dataclass(slots=True)
class Asked:
    """Where the server is, and what it was asked."""

    url: str
    calls: list[Call] = field(default_factory=list)

    def actions(self) -> list[str]:
        """`Action region` of each call."""
        return [f"{call.action} {call.region}" for call in self.calls]


def refusal(code: str, status: int) -> Canned:
    """EC2's error envelope."""
    error = f"<Errors><Error><Code>{code}</Code><Message>{code} it is</Message></Error></Errors>"
    return Canned(status, f"<Response>{error}<RequestID>r</RequestID></Response>".encode())


@contextmanager
def ec2(answer: Callable[[Call], Answer]) -> Iterator[Asked]:
    """Serve on 127.0.0.1 for as long as the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            call = _call(headers, self.rfile.read(length).decode())
            asked.calls.append(call)
            found = answer(call)
            canned = found if isinstance(found, Canned) else Canned(200, _xml(call.action, found))
            self.send_response(canned.status)
            for name, value in canned.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(canned.body)))
            self.end_headers()
            self.wfile.write(canned.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own signature
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    asked = Asked(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def plain(body: bytes) -> dict[str, Any]:
    """The members of a recorded page, to be answered."""
    found: dict[str, Any] = json.loads(body)
    return found


def _call(headers: Mapping[str, str], body: str) -> Call:
    parameters = dict(parse_qsl(body, keep_blank_values=True))
    scope = headers.get("authorization", "").partition("Credential=")[2].partition(",")[0].split("/")
    return Call(parameters["Action"], scope[2], scope[3], parameters, headers)


@cache
def _model() -> Any:
    return botocore.session.Session().get_service_model("ec2")


def _xml(action: str, members: Mapping[str, Any]) -> bytes:
    shape = _model().operation_model(action).output_shape
    return f"<{action}Response>{_element(shape, members)}<requestId>r</requestId></{action}Response>".encode()


def _element(shape: Any, value: Any) -> str:
    """The inside of an element. KeyError for a member that EC2 does not have."""
    if shape.type_name == "structure":
        inner = ((shape.members[name], one) for name, one in value.items())
        return "".join(f"<{tag}>{_element(of, one)}</{tag}>" for of, one in inner for tag in [_tag(of)])
    if shape.type_name == "list":
        tag = shape.member.serialization.get("name", "member")
        return "".join(f"<{tag}>{_element(shape.member, one)}</{tag}>" for one in value)
    return escape(str(value).lower() if isinstance(value, bool) else str(value))


def _tag(shape: Any) -> str:
    return str(shape.serialization["name"])
