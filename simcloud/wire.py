"""HTTP on 127.0.0.1: one server for each cloud, its faults, and the control API below `/_sim/`."""

import gzip
import json
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from simcloud import control, ecb
from simcloud.faults import Fault
from simcloud.loopback import LoopbackServer
from simcloud.world import Identity, World

_HTML = b"<!DOCTYPE html><html><head><title>Welcome</title></head><body>Please sign in to the network.</body></html>"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as received; header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `compressible` ones are sent in gzip to whoever accepts it."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    compressible: bool = False


class Cloud(Protocol):
    """A provider's side of the conversation."""

    name: str

    def identify(self, request: Request) -> Identity:
        """Return the `action`, `region`, `part` and `credential` a request names, without judging them."""

    def answer(self, request: Request, skew_s: int) -> Reply:
        """Answer as the provider would, its clock `skew_s` ahead."""

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return an error in the provider's own form; `status` 200 is for providers that put errors there."""

    def environment(self, url: str) -> dict[str, str]:
        """Return the variables that point gpufare at this cloud, served at `url`, with credentials it lets in."""


class _Broken(Exception):
    """The connection is to be dropped without another byte."""


class SimServer(LoopbackServer):
    """A cloud's server on 127.0.0.1, in threads of this process. `stop` closes the port and every connection."""

    may_break = (ConnectionError, _Broken)

    def __init__(self, cloud: Cloud, world: World, port: int = 0) -> None:
        super().__init__(_Handler, port, f"sim-{cloud.name}")
        self.cloud = cloud
        self.world = world
        self.begin()


class _Handler(BaseHTTPRequestHandler):
    server: SimServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: its body would wait for the other side to have seen the head

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Keep quiet: `/_sim/log` has it."""

    def _serve(self) -> None:
        request = self._request()
        if request.path.startswith("/_sim/"):
            status, answer = control.handle(
                self.server.world, request.method, request.path, request.query, request.body
            )
            self._send(Reply(status, json.dumps(answer).encode(), "application/json"), request)
            return
        if request.path == ecb.PATH:
            self.server.world.saw("ecb", {"action": "daily"}).status = HTTPStatus.OK
            self._send(Reply(HTTPStatus.OK, ecb.daily(datetime.now(UTC).date()), "text/xml"), request)
            return
        self._converse(request)

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, self.rfile.read(length))

    def _converse(self, request: Request) -> None:
        cloud, world = self.server.cloud, self.server.world
        identity = cloud.identify(request)
        seen = world.saw(cloud.name, identity)
        fault = world.fault_for(cloud.name, identity)
        seen.fault = fault.kind if fault else None
        reply = self._answer(request, fault)
        seen.status = reply.status
        self._send(reply, request, cut_short=fault is not None and fault.kind == "truncate")

    def _answer(self, request: Request, fault: Fault | None) -> Reply:
        cloud = self.server.cloud
        if fault is None:
            return cloud.answer(request, 0)
        if fault.kind in ("timeout", "reset"):
            self._abandon(fault)
        if fault.kind in ("status", "error"):
            return _refusal(cloud, fault)
        if fault.kind == "html":
            return Reply(200, _HTML, "text/html; charset=utf-8")
        self.server.stopping.wait(fault.delay_ms / 1000)
        reply = cloud.answer(request, fault.skew_s)
        if fault.kind == "empty200":
            return replace(reply, status=200, body=b"")
        return drop_field(reply, fault.name) if fault.kind == "drop_field" else reply

    def _abandon(self, fault: Fault) -> None:
        if fault.kind == "timeout":
            self.server.stopping.wait(fault.hold_s)
        else:  # linger of 0 s: the close sends RST, not FIN
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        raise _Broken

    def _send(self, reply: Reply, request: Request, *, cut_short: bool = False) -> None:
        body, headers = reply.body, dict(reply.headers)
        if reply.compressible and body and "gzip" in request.headers.get("accept-encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body, 6, mtime=0), "gzip"
        self.send_response(reply.status)
        for name, value in ({"Content-Type": reply.content_type, "Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if request.method != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut_short else body)
        self.close_connection = self.close_connection or cut_short


def _refusal(cloud: Cloud, fault: Fault) -> Reply:
    status = fault.status if fault.kind == "status" else 200
    reply = cloud.failure(status, fault.code, fault.message)
    if fault.retry_after_s is None:
        return reply
    return replace(reply, headers={**reply.headers, "Retry-After": str(fault.retry_after_s)})


def drop_field(reply: Reply, name: str) -> Reply:
    """Return the reply without any field of that name, at any depth of its JSON or XML."""
    if "json" in reply.content_type:
        return replace(reply, body=json.dumps(_without(json.loads(reply.body), name)).encode())
    if "xml" in reply.content_type:
        element = re.escape(name).encode()
        return replace(reply, body=re.sub(rb"<%b>.*?</%b>|<%b/>" % (element, element, element), b"", reply.body))
    return Reply(500, f"simcloud: drop_field knows no fields in {reply.content_type}".encode(), "text/plain")


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, name) for key, item in value.items() if key != name}
    return [_without(item, name) for item in value] if isinstance(value, list) else value
