"""Who may ask what, before any route runs: the token, the guard against browsers, the size of a body.

Without a token the server listens on loopback only, and any local program may write. A browser on the same machine is
no such program: a foreign page could send a form, or rebind its own name to 127.0.0.1. So on loopback every request
that does not bear the token must name a loopback host (or the one the server listens on) in `Host`; and everywhere a
write is JSON, which no form can send and no foreign page may without our consent.
"""

import secrets
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.config import ApiConfig, is_loopback
from api.problems import problem_response

MAX_BODY_BYTES = 64 * 1024
MAX_QUERY_BYTES = 8 * 1024
READS = frozenset({"GET", "HEAD", "OPTIONS"})
PROBES = frozenset({"/healthz", "/readyz"})
"""Open to all: what an orchestrator asks, without a header of ours; they tell nothing of the data."""


class Heads:
    """ASGI middleware: HEAD is answered as GET is, without the body. No route that answers GET changes anything."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask for GET in place of HEAD; `scope` keeps the method, and learns the route."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def bare(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        asked = {**scope, "method": "GET"}
        await self._app(asked, receive, bare)
        scope["route"] = asked.get("route")


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, config: ApiConfig) -> None:
        self._app, self._config = app, config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is refused, pass on the rest."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = _too_much_asked(scope) or self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, _limited(receive), send)

    def _refusal(self, method: str, path: str, headers: Headers) -> Response | None:
        return (
            _too_long(headers)
            or self._wrong_token(method, path, headers)
            or self._foreign_host(headers)
            or (None if method in READS else _not_json(headers))
        )

    def _wrong_token(self, method: str, path: str, headers: Headers) -> Response | None:
        config = self._config
        needed = path not in PROBES and (method not in READS or config.reads_need_token)
        if not config.token or not needed or _bears(headers, config.token):
            return None
        return problem_response(
            HTTPStatus.UNAUTHORIZED,
            "This needs the header Authorization: Bearer TOKEN, with the server's GPUFARE_API_TOKEN.",
            {"WWW-Authenticate": "Bearer"},
        )

    def _foreign_host(self, headers: Headers) -> Response | None:
        config, host = self._config, _host_name(headers.get("host", ""))
        if not is_loopback(config.host) or is_loopback(host) or host == config.host.casefold():
            return None
        if config.token and _bears(headers, config.token):
            return None
        return problem_response(
            HTTPStatus.MISDIRECTED_REQUEST,
            "Without the header Authorization: Bearer TOKEN (the server's GPUFARE_API_TOKEN) this server answers under "
            "loopback names only, such as 127.0.0.1 or localhost.",
        )


def _bears(headers: Headers, token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.casefold() == "bearer" and secrets.compare_digest(given.strip().encode(), token.encode())


def _host_name(host: str) -> str:
    """The name in a `Host` header: without the port, and without the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0].casefold()
    return host.partition(":")[0].casefold()


def _not_json(headers: Headers) -> Response | None:
    media_type = headers.get("content-type", "").partition(";")[0].strip().casefold()
    # A browser names the page's origin in every write across sites; without one, an empty body needs no type.
    empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if media_type == "application/json" or (not media_type and empty and "origin" not in headers):
        return None
    return problem_response(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON, with the header Content-Type: application/json."
    )


def _too_much_asked(scope: Scope) -> Response | None:
    if len(scope["query_string"]) <= MAX_QUERY_BYTES:
        return None
    return problem_response(
        HTTPStatus.REQUEST_URI_TOO_LONG, f"A query of at most {MAX_QUERY_BYTES} bytes is read: ask for less at once."
    )


def _too_long(headers: Headers) -> Response | None:
    stated = headers.get("content-length", "0")
    if stated.isdecimal() and len(stated) < 10 and int(stated) <= MAX_BODY_BYTES:
        return None
    return problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LONG)


_TOO_LONG = f"A body of at most {MAX_BODY_BYTES} bytes is read."


def _limited(receive: Receive) -> Receive:
    """Stops a body that grows past the limit without having said so."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LONG)
        return message

    return limited
