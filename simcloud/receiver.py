"""A receiver of webhooks on 127.0.0.1: it keeps what arrives, checks signatures, shows both, and misbehaves as told."""

import json
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from threading import Condition
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from simcloud.loopback import LoopbackServer
from simcloud.receiver_behaviour import Behaviour, as_json, text
from simcloud.receiver_page import Received, page, type_of
from simcloud.receiver_signatures import FORMATS, verified
from simcloud.wire import Reply, Request

KEPT = 1000
"""How many of the last requests are kept."""
KEPT_CHARACTERS = 64 * 1024
"""Of each body."""
MAX_BODY_BYTES = 1024 * 1024


class Receiver:
    """A running receiver. Leaving the `with` block, or `stop`, closes its port and ends every thread.

    Any path takes webhooks; those below /slack/, /discord/, /feishu/, /dingtalk/ and /wecom/ answer as these rooms do.
    `GET /` is a page for people, `GET /_sim/received` the same as JSON; `POST /_sim/behave` and `POST /_sim/secret` are
    `behave` and `secret`, their arguments as JSON.
    """

    def __init__(self, port: int = 0) -> None:
        self._arrived = Condition()
        self._kept: deque[Received] = deque(maxlen=KEPT)
        self._total = 0
        self._behaviours: dict[str, Behaviour] = {}
        self._answered: Counter[str] = Counter()
        self._secrets: dict[str, tuple[str, str]] = {}
        self._server = _Server(self, port)

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return self._server.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop listening, cut what is still open, and wait until every thread has ended."""
        self._server.stop()

    def received(self) -> list[Received]:
        """What has arrived, oldest first; of more than `KEPT` the last."""
        with self._arrived:
            return list(self._kept)

    def wait(self, count: int, timeout_s: float = 30.0) -> list[Received]:
        """What has arrived, once that many have in all. TimeoutError where they do not come."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._total >= count, timeout_s):
                raise TimeoutError(f"{self._total} of {count} webhooks arrived within {timeout_s:g} s")
            return list(self._kept)

    def behave(self, path: str, kind: str, **details: Any) -> None:
        """How this path answers from now on; `details` are the other fields of `Behaviour`."""
        behaviour = Behaviour(kind, **details)
        with self._arrived:
            self._behaviours[path] = behaviour
            self._answered[path] = 0

    def secret(self, path: str, secret: str, format: str) -> None:  # noqa: A002 - the word of gpufare's own API
        """From now on check what arrives at this path: signed with the secret, as this format signs."""
        if format not in FORMATS:
            raise ValueError(f"format {format!r} signs nothing: one of {', '.join(FORMATS)}")
        with self._arrived:
            self._secrets[path] = (format, secret)

    def take(self, request: Request, query: str) -> tuple[Reply | None, float]:
        """Keep a webhook; returns what to answer, None for nothing, and after how many seconds."""
        with self._arrived:
            behaviour = self._behaviours.get(request.path, Behaviour())
            known = self._secrets.get(request.path)
            signed = verified(*known, request) if known else None
            reply = behaviour.reply(request.path, self._answered[request.path], forged=signed is False)
            self._answered[request.path] += 1
            self._kept.append(self._received(request, query, reply.status if reply else None, signed))
            self._total += 1
            self._arrived.notify_all()
        return reply, behaviour.delay_s if behaviour.kind == "slow" else 0.0

    def _received(self, request: Request, query: str, answered: int | None, signed: bool | None) -> Received:
        body = request.body.decode(errors="replace")
        return Received(
            id=request.headers.get("webhook-id"),
            type=type_of(body),
            at=datetime.now(UTC),
            path=request.path,
            query=query,
            verified=signed,
            answered=answered,
            headers=request.headers,
            body=body[:KEPT_CHARACTERS],
        )

    def show(self, path: str) -> Reply:
        """Answer a GET."""
        if path == "/":
            # The page shows what strangers sent: it may load and run nothing.
            policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
            return Reply(200, page(self.received()), "text/html; charset=utf-8", policy)
        if path == "/_sim/received":
            with self._arrived:
                return as_json(200, {"items": [one.as_json() for one in self._kept], "total": self._total})
        return as_json(404, {"error": f"no GET {path}", "known": ["GET /", "GET /_sim/received"]})

    def steer(self, path: str, body: bytes) -> Reply:
        """Answer a POST below /_sim/."""
        steers: dict[str, Callable[..., None]] = {"/_sim/behave": self.behave, "/_sim/secret": self.secret}
        if path not in steers:
            return as_json(404, {"error": f"no POST {path}", "known": [f"POST {known}" for known in steers]})
        try:
            steers[path](**json.loads(body))
        except (ValueError, TypeError) as error:
            return as_json(400, {"error": f"{path}: {error}"})
        return as_json(200, {})


class _Server(LoopbackServer):
    def __init__(self, receiver: Receiver, port: int) -> None:
        super().__init__(_Handler, port, "sim-receiver")
        self.receiver = receiver
        self.begin()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: its body would wait for the other side to have seen the head

    def do_GET(self) -> None:
        self._send(self.server.receiver.show(urlsplit(self.path).path))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True  # what is not read would be taken for the next request
            self._send(text(413, f"Content-Length must be there, and at most {MAX_BODY_BYTES}"))
            return
        body, parts = self.rfile.read(int(length)), urlsplit(self.path)
        if parts.path.startswith("/_sim/"):
            self._send(self.server.receiver.steer(parts.path, body))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request("POST", parts.path, dict(parse_qsl(parts.query)), headers, body)
        reply, delay_s = self.server.receiver.take(request, parts.query)
        if reply is None or self.server.stopping.wait(delay_s):
            self.close_connection = True
            return
        self._send(reply)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Keep quiet: `/_sim/received` has it."""

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        headers = {"Content-Type": reply.content_type, "Content-Length": str(len(reply.body))}
        if reply.status in (204, 304):  # RFC 9110: they have neither a body nor a length
            headers = {}
        for name, value in {**headers, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if headers:
            self.wfile.write(reply.body)
