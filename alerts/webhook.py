"""One attempt to tell by HTTP: a request goes out, a reply comes back, and nothing is kept between the two."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from alerts.guard import GuardedBackend, Place, Resolve, addresses_of, parsed
from alerts.wire import Reply, Request

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkStream

MAX_BODY_BYTES = 64 * 1024
"""Of an answer; what comes after is left unread."""


class NoReply(Exception):
    """No whole answer came; another attempt may go well. The text is one sentence, with the host alone of the URL."""


class Sender:
    """Sends requests, any number at once; one is enough for a process, inside of `async with`, under asyncio.

    Each request has a connection of its own: none waits for another, and each is judged by the addresses of its moment.
    Redirects are not followed, cookies not kept, proxies not used. Certificates are checked against the machine's
    authorities, or those of `SSL_CERT_FILE`.
    """

    def __init__(self, *, allow_private: bool, timeout_s: float = 10.0, resolve: Resolve = addresses_of) -> None:
        """`timeout_s` is all that an attempt may take, from looking up the name to the end of the answer."""
        import httpcore2

        self._timeout_s = timeout_s
        self._backend = GuardedBackend(allow_private=allow_private, resolve=resolve)
        self._tls = httpcore2.default_ssl_context()
        self._headers = {
            "user-agent": f"gpufare/{version('gpufare')}",
            "accept-encoding": "identity",
            "connection": "close",
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._backend.close()

    async def send(self, request: Request) -> Reply:
        """Make one attempt. Raises NoReply, or Refused where the URL leads to what must not be connected to.

        Of the answer's body `MAX_BODY_BYTES` are read, just as they came.
        """
        import httpcore2

        place = parsed(request.url)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._exchanged(place, request)
        except (TimeoutError, httpcore2.TimeoutException) as error:
            raise NoReply(f"{place.host}: no whole answer within {self._timeout_s:g} s") from error
        except (httpcore2.ConnectError, OSError) as error:
            raise NoReply(f"{place.host}: {unconnected(error)}") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise NoReply(f"{place.host}: the connection ended before a whole answer in HTTP had come") from error

    async def _exchanged(self, place: Place, request: Request) -> Reply:
        import httpcore2

        scheme, host = place.scheme.encode(), place.host.encode()
        origin = httpcore2.Origin(scheme, host, place.port)
        url = httpcore2.URL(scheme=scheme, host=host, port=place.port, target=place.target)
        sent = {name.lower(): value for name, value in request.headers.items()}
        sent |= {**self._headers, "host": place.authority}
        opened: list[AsyncNetworkStream] = []

        async def remember(step: str, info: Mapping[str, Any]) -> None:
            if step == "connection.connect_tcp.complete":
                opened.append(info["return_value"])

        connection = httpcore2.AsyncHTTPConnection(origin, self._tls, network_backend=self._backend)
        try:
            async with connection.stream(
                request.method,
                url,
                headers=list(sent.items()),
                content=request.body,
                extensions={"timeout": {"connect": self._timeout_s}, "trace": remember},
            ) as response:
                return Reply(response.status, _headers(response.headers), await _beginning(response.aiter_stream()))
        finally:
            for stream in opened:  # httpcore2 leaves it open where it is cancelled while TLS is agreed on
                await stream.aclose()


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        known, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[known] = f"{headers[known]}, {text}" if known in headers else text
    return headers


async def _beginning(chunks: AsyncGenerator[bytes, None]) -> bytes:
    body = bytearray()
    async with aclosing(chunks) as coming:
        async for chunk in coming:
            body += chunk
            if len(body) >= MAX_BODY_BYTES:
                break
    return bytes(body[:MAX_BODY_BYTES])


def unconnected(error: Exception) -> str:
    """Why there is no connection. Refused and unreachable are the same: whose port is open is not told."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {cause.reason}"
    if isinstance(cause, socket.gaierror):
        return "its name has no address just now"
    return "no connection"
