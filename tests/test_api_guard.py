"""Who may ask what: tokens, hosts, browsers, sizes."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from starlette.types import Message, Scope

from api.config import ListenError, check_listen
from api.guard import MAX_BODY_BYTES, MAX_QUERY_BYTES
from tests.support.filled import Filled, problem_of, served

TOKEN = "a long random text"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
FOREIGN = "http://gpu.example.com"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    filled = Filled(tmp_path)
    yield filled
    filled.engine.dispose()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token(host: str) -> None:
    check_listen(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.5", "gpu.example.com", "localhost.example.com"])
def test_any_other_host_needs_a_token(host: str) -> None:
    with pytest.raises(ListenError, match="GPUFARE_API_TOKEN"):
        check_listen(host, None)
    with pytest.raises(ListenError, match="GPUFARE_API_TOKEN"):
        check_listen(host, "")
    check_listen(host, TOKEN)


def test_the_server_itself_refuses_such_a_host(filled: Filled) -> None:
    with pytest.raises(ListenError), served(filled, host="0.0.0.0"):
        pass


def test_on_loopback_with_a_token_only_writes_need_it(filled: Filled) -> None:
    with served(filled, token=TOKEN) as server:
        assert server.client.get("/providers").status_code == 200
        assert problem_of(server.client.post("/sync", json={}), 401)["title"] == "Unauthorized"
        assert server.client.post("/sync", json={}, headers=BEARER).status_code == 202


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer ü"])
def test_a_wrong_token_is_refused(filled: Filled, authorization: str) -> None:
    with served(filled, token=TOKEN) as server:
        response = server.client.post("/sync", json={}, headers={b"Authorization": authorization.encode()})
        problem_of(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"


def test_off_loopback_reads_need_the_token_too(filled: Filled) -> None:
    with served(filled, FOREIGN, token=TOKEN, host="0.0.0.0") as server:
        for path in ("/providers", "/cheapest?gpu=t4", "/metrics", "/docs", "/openapi.json"):
            problem_of(server.client.get(path), 401)
            assert server.client.get(path, headers=BEARER).status_code == 200
        assert server.client.get("/healthz").status_code == 200
        assert server.client.get("/readyz").status_code == 503


def test_public_reads_need_no_token_and_writes_still_do(filled: Filled) -> None:
    with served(filled, FOREIGN, token=TOKEN, host="0.0.0.0", public_reads=True) as server:
        assert server.client.get("/providers").status_code == 200
        problem_of(server.client.post("/sync", json={}), 401)


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:8000"])
def test_without_a_token_loopback_names_are_answered(filled: Filled, base_url: str) -> None:
    with served(filled, base_url) as server:
        assert server.client.post("/sync", json={}).status_code == 202


@pytest.mark.parametrize("base_url", [FOREIGN, "http://127.0.0.1.example.com:8000"])
def test_without_a_token_a_name_rebound_to_loopback_is_not_answered(filled: Filled, base_url: str) -> None:
    with served(filled, base_url) as server:
        problem_of(server.client.get("/providers"), 421)
        problem_of(server.client.post("/sync", json={}), 421)


@pytest.mark.parametrize("path", ["/providers", "/cheapest?gpu=t4", "/healthz"])
def test_on_loopback_a_token_lets_no_rebound_name_read(filled: Filled, path: str) -> None:
    with served(filled, FOREIGN, token=TOKEN) as server:
        problem_of(server.client.get(path), 421)
        assert server.client.get(path, headers={"Host": "127.0.0.1:8000"}).status_code == 200


def test_who_bears_the_token_may_name_any_host(filled: Filled) -> None:
    with served(filled, FOREIGN, token=TOKEN) as server:
        assert server.client.get("/providers", headers=BEARER).status_code == 200
        assert server.client.post("/sync", json={}, headers=BEARER).status_code == 202
        problem_of(server.client.get("/providers", headers={"Authorization": "Bearer wrong"}), 421)


def test_a_long_query_is_refused_before_anything_is_looked_up(filled: Filled) -> None:
    with served(filled) as server:
        fits = "/providers?" + "x" * MAX_QUERY_BYTES
        problem_of(server.client.get(fits), 422)
        problem_of(server.client.get(fits + "x"), 414)


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"{}", {"Content-Type": "text/plain"}),
        (b"{}", {"Content-Type": "application/x-www-form-urlencoded"}),
        (b"{}", {}),
        (b"", {"Origin": "http://evil.example.com"}),
    ],
)
def test_what_a_foreign_page_could_send_is_refused(filled: Filled, content: bytes, headers: dict[str, str]) -> None:
    with served(filled) as server:
        problem_of(server.client.post("/sync", content=content, headers=headers), 415)


def test_an_empty_body_of_a_program_needs_no_type(filled: Filled) -> None:
    with served(filled) as server:
        assert server.client.post("/sync").status_code == 202


def test_a_long_body_is_refused_whether_or_not_it_says_so(filled: Filled) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(9):
            yield b" " * (MAX_BODY_BYTES // 8)

    headers = {"Content-Type": "application/json"}
    with served(filled) as server:
        problem_of(server.client.post("/sync", content=b" " * (MAX_BODY_BYTES + 1), headers=headers), 413)
        problem_of(server.client.post("/sync", content=chunks(), headers=headers), 413)


def test_a_client_that_leaves_within_its_body_is_no_fault_of_ours(filled: Filled) -> None:
    """As ASGI tells it: a part of the body, then that nobody is there."""
    coming: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return coming.pop(0)

    async def send(_message: Message) -> None:
        pass

    with served(filled) as server:
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"50")]
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": "POST",
            "path": "/sync",
            "raw_path": b"/sync",
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        anyio.run(server.client.app, scope, receive, send)
        counted = [line for line in server.client.get("/metrics").text.splitlines() if 'route="/sync"' in line]
    assert any('status="499"' in line for line in counted), counted
    assert not any('status="500"' in line for line in counted)


def test_the_token_is_shown_nowhere(filled: Filled) -> None:
    with served(filled, FOREIGN, token=TOKEN, host="0.0.0.0") as server:
        for path in ("/metrics", "/openapi.json", "/docs", "/providers", "/"):
            assert TOKEN not in server.client.get(path, headers=BEARER).text
