"""One attempt by HTTP, against receivers on this machine that do what receivers should not."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from alerts.guard import Refused
from alerts.webhook import MAX_BODY_BYTES, NoReply, Sender
from alerts.wire import Reply, Request
from tests.support.certificates import Authority

pytestmark = pytest.mark.anyio
BODY = b'{"type":"test"}'
HUNG = 300
NAMES = ("hooks.example", "other.example")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Receiver:
    """A server of one test: what it was sent, how many came, who went away again."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    came: asyncio.Condition = field(default_factory=asyncio.Condition)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a connection has ended from the other side."""

    async def wait_for(self, connections: int) -> None:
        async with self.came:
            await self.came.wait_for(lambda: self.connections >= connections)


Behave = Callable[[Receiver, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def receiving(behave: Behave, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A server on 127.0.0.1, whose connections end with the block."""
    receiver = Receiver()
    running: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        running.add(task)
        async with receiver.came:
            receiver.connections += 1
            receiver.came.notify_all()
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await behave(receiver, reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    receiver.url = (
        f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook/s3cret?key=s3cret"
    )
    try:
        yield receiver
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()


async def request_to(receiver: Receiver, reader: asyncio.StreamReader) -> None:
    """Read a whole request."""
    head = await reader.readuntil(b"\r\n\r\n")
    receiver.requests.append(head + await reader.readexactly(len(BODY)))


def answering(answer: bytes) -> Behave:
    async def behave(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_to(receiver, reader)
        writer.write(answer)
        await writer.drain()

    return behave


async def hanging(receiver: Receiver, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Never answers; sees when the sender goes."""
    with suppress(ConnectionError):
        while await reader.read(1024):
            continue
    receiver.left.set()


async def refusing_tls(_receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


async def trickling(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Promises an answer, and sends it byte by byte without end."""
    await request_to(receiver, reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while not reader.at_eof():
        writer.write(b".")
        await writer.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.005)
    receiver.left.set()


async def flooding(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends as much as it can get rid of."""
    await request_to(receiver, reader)
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    try:
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
    except ConnectionError:
        receiver.left.set()


OK = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


def request(receiver: Receiver) -> Request:
    return Request("POST", receiver.url, {"Content-Type": "application/json", "webhook-id": "evt_1"}, BODY)


def sender(timeout_s: float = 30.0) -> Sender:
    return Sender(allow_private=True, timeout_s=timeout_s, resolve=lambda _: ["127.0.0.1"])


async def reply_of(behave: Behave) -> Reply:
    async with receiving(behave) as receiver, sender() as sends:
        return await sends.send(request(receiver))


async def reason_of(receiver: Receiver, timeout_s: float = 30.0) -> str:
    """Why there was no reply; no secret is in it."""
    async with sender(timeout_s) as sends:
        with pytest.raises(NoReply) as none:
            await sends.send(request(receiver))
    assert "s3cret" not in str(none.value)
    return str(none.value)


async def test_a_request_goes_out_whole_and_its_reply_comes_back() -> None:
    answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 30\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 4\r\n\r\nsoon"
    async with receiving(answering(answer)) as receiver, sender() as sends:
        reply = await sends.send(request(receiver))
    assert reply == Reply(429, {"retry-after": "30", "x-a": "1, 2", "content-length": "4"}, b"soon")
    (sent,) = receiver.requests
    head, body = sent.split(b"\r\n\r\n", 1)
    line, *headers = head.decode().split("\r\n")
    assert (line, body) == ("POST /hook/s3cret?key=s3cret HTTP/1.1", BODY)
    assert sorted(map(str.lower, headers)) == [
        "accept-encoding: identity",
        "connection: close",
        "content-length: 15",
        "content-type: application/json",
        f"host: {receiver.url.split('/')[2]}",
        f"user-agent: gpufare/{version('gpufare')}",
        "webhook-id: evt_1",
    ]


async def test_an_answer_without_a_body_is_a_reply() -> None:
    assert await reply_of(answering(b"HTTP/1.1 204 No Content\r\n\r\n")) == Reply(204, {}, b"")
    assert (await reply_of(answering(b"HTTP/1.0 200 OK\r\n\r\nup to the end"))).body == b"up to the end"
    assert (
        await reply_of(answering(b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"))
    ).status == 410


async def test_of_a_huge_answer_the_beginning_is_read_and_the_connection_ended() -> None:
    async with receiving(flooding) as receiver, sender() as sends:
        reply = await sends.send(request(receiver))
        assert reply.body == b"x" * MAX_BODY_BYTES
        await asyncio.wait_for(receiver.left.wait(), 30)


async def test_a_compressed_answer_stays_as_it_came() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(bomb)}\r\n\r\n"
    assert (await reply_of(answering(head.encode() + bomb))).body == bomb[:MAX_BODY_BYTES]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_reply_and_is_not_followed(status: int) -> None:
    async with receiving(OK) as other:
        head = f"HTTP/1.1 {status} Moved\r\nlocation: {other.url}\r\ncontent-length: 0\r\n\r\n"
        reply = await reply_of(answering(head.encode()))
    assert reply.status == status
    assert other.connections == 0


async def test_nothing_is_kept_between_requests() -> None:
    cookie = answering(b"HTTP/1.1 200 OK\r\nset-cookie: a=b; Path=/\r\ncontent-length: 0\r\n\r\n")
    async with receiving(cookie) as receiver, sender() as sends:
        for _ in range(2):
            assert (await sends.send(request(receiver))).headers["set-cookie"] == "a=b; Path=/"
    first, second = receiver.requests
    assert first == second
    assert receiver.connections == 2


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await reply_of(OK)).body == b"ok"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhal",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000,
    ],
    ids=["nothing", "no head", "half a body", "half a chunk", "no HTTP", "no length", "a head without end"],
)
async def test_an_answer_that_is_cut_or_none_is_no_reply(answer: bytes) -> None:
    async with receiving(answering(answer)) as receiver:
        said = await reason_of(receiver)
    assert said == "127.0.0.1: the connection ended before a whole answer in HTTP had come"


@pytest.mark.parametrize("behave", [hanging, trickling])
async def test_all_of_an_attempt_has_one_limit_of_time(behave: Behave) -> None:
    async with receiving(behave) as receiver:
        assert await reason_of(receiver, timeout_s=0.2) == "127.0.0.1: no whole answer within 0.2 s"
        await asyncio.wait_for(receiver.left.wait(), 30)


async def test_a_receiver_that_never_agrees_on_tls_keeps_no_connection() -> None:
    async with receiving(hanging) as receiver:
        receiver.url = receiver.url.replace("http:", "https:")
        assert await reason_of(receiver, timeout_s=0.2) == "127.0.0.1: no whole answer within 0.2 s"
        await asyncio.wait_for(receiver.left.wait(), 30)
        receiver.left.clear()
        async with sender() as sends:
            sending = asyncio.ensure_future(sends.send(request(receiver)))
            await receiver.wait_for(2)
            sending.cancel()
            await asyncio.wait_for(receiver.left.wait(), 30)


async def test_nobody_there_is_no_reply() -> None:
    async with receiving(OK) as receiver:
        pass
    assert await reason_of(receiver) == "127.0.0.1: no connection"


async def test_a_name_that_is_not_found_is_no_reply() -> None:
    def resolve(_host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    async with Sender(allow_private=False, resolve=resolve) as sends:
        with pytest.raises(NoReply, match=r"^hooks\.example: its name has no address just now$"):
            await sends.send(Request("POST", "https://hooks.example/s3cret", {}, BODY))


async def test_what_is_not_public_is_refused_though_it_was_taken_before() -> None:
    async with receiving(OK) as receiver, Sender(allow_private=False, resolve=lambda _: ["127.0.0.1"]) as sends:
        for url in (receiver.url, receiver.url.replace("127.0.0.1", "hooks.example"), "http://0x7f.1/s3cret"):
            with pytest.raises(Refused) as refused:
                await sends.send(replace(request(receiver), url=url))
            assert "s3cret" not in str(refused.value)
        assert receiver.connections == 0


async def test_hundreds_that_hang_delay_no_other() -> None:
    async with receiving(hanging) as slow, receiving(OK) as quick, sender(timeout_s=300) as sends:
        hung = [asyncio.ensure_future(sends.send(request(slow))) for _ in range(HUNG)]
        await asyncio.wait_for(slow.wait_for(HUNG), 60)
        assert [(await sends.send(request(quick))).status for _ in range(3)] == [200] * 3
        assert not any(task.done() for task in hung)
        for task in hung:
            task.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*hung, return_exceptions=True)
        )


async def test_the_certificate_is_that_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    async with receiving(OK, authority.server("hooks.example", "127.0.0.1")) as receiver:
        unknown = await reason_of(receiver)
        assert unknown == "127.0.0.1: its certificate is not valid: unable to get local issuer certificate"
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        named = {name: replace(receiver, url=receiver.url.replace("127.0.0.1", name)) for name in NAMES}
        async with sender() as sends:
            assert (await sends.send(request(receiver))).body == b"ok"
            assert (await sends.send(request(named["hooks.example"]))).body == b"ok"
        said = await reason_of(named["other.example"])
        assert said.startswith("other.example: its certificate is not valid: Hostname mismatch")


async def test_http_where_tls_is_expected_is_no_reply() -> None:
    async with receiving(refusing_tls) as receiver:
        receiver.url = receiver.url.replace("http:", "https:")
        assert await reason_of(receiver) == "127.0.0.1: TLS failed: WRONG_VERSION_NUMBER"
