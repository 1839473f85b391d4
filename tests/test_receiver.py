"""simcloud's receiver of webhooks: what it keeps, what it answers, what it believes, and how it ends."""

import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from alerts.formats import request_of
from alerts.wire import Request
from catalog.watches import EventType, Format, Target
from simcloud.receiver import KEPT, MAX_BODY_BYTES, Receiver
from simcloud.receiver_behaviour import KINDS
from tests.support.events import HOSTILE, event

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROOMS = {
    "slack": (200, b"ok"),
    "discord": (204, b""),
    "feishu": (200, {"code": 0}),
    "dingtalk": (200, {"errcode": 0, "errmsg": "ok"}),
    "wecom": (200, {"errcode": 0, "errmsg": "ok"}),
}


@pytest.fixture
def hooks() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def http(hooks: Receiver) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=hooks.url, timeout=30) as client:
        yield client


def send(http: httpx2.Client, request: Request) -> httpx2.Response:
    return http.request(request.method, request.url, headers=dict(request.headers), content=request.body)


def signed(hooks: Receiver, form: Format, path: str, secret: str, now: datetime | None = None) -> Request:
    target = Target(name="ops", format=form, url=f"{hooks.url}{path}", secret=secret)
    return request_of(target, event(EventType.STOCK_OUT), now or datetime.now(UTC))


def test_what_arrives_is_kept_and_told(hooks: Receiver, http: httpx2.Client) -> None:
    before = datetime.now(UTC)
    body = '{"type": "stock.out", "data": {"name": "广州"}}'
    assert http.post("/ops?a=b", content=body, headers={"webhook-id": "evt_1"}).text == "ok"
    assert http.post("/other", content=b"\xff no JSON").text == "ok"
    first, second = hooks.received()
    assert (first.id, first.type, first.path, first.query, first.body) == ("evt_1", "stock.out", "/ops", "a=b", body)
    assert before <= first.at <= second.at <= datetime.now(UTC)
    assert (second.id, second.type, second.verified, second.body) == (None, None, None, "\ufffd no JSON")
    told = http.get("/_sim/received").json()
    assert told == json.loads(json.dumps({"items": [first.as_json(), second.as_json()], "total": 2}))
    assert told["items"][0]["headers"]["webhook-id"] == "evt_1"


def test_the_last_are_kept(hooks: Receiver, http: httpx2.Client) -> None:
    for number in range(KEPT + 2):
        http.post("/ops", content=str(number))
    assert [hooks.received()[at].body for at in (0, -1)] == ["2", str(KEPT + 1)]
    assert http.get("/_sim/received").json()["total"] == KEPT + 2


def test_who_waits_is_woken_when_it_arrives(hooks: Receiver, http: httpx2.Client) -> None:
    sending = threading.Timer(0.01, http.post, ("/ops",), {"content": "x"})
    sending.start()
    assert [one.body for one in hooks.wait(1)] == ["x"]
    sending.join()
    with pytest.raises(TimeoutError, match="1 of 2 webhooks arrived"):
        hooks.wait(2, timeout_s=0)


@pytest.mark.parametrize(("room", "answer"), ROOMS.items())
def test_a_room_answers_as_that_room_does(room: str, answer: tuple[int, Any], hooks: Receiver, http: Any) -> None:
    got = http.post(f"/{room}/services/x", json={})
    status, body = answer
    assert got.status_code == status
    assert got.content == body if isinstance(body, bytes) else body.items() <= got.json().items()
    hooks.behave(f"/{room}/services/x", "error")
    refused = http.post(f"/{room}/services/x", json={})
    assert refused.status_code == (404 if room == "discord" else 200)
    assert refused.content != got.content
    assert http.post(f"/{room}/services/y", json={}).content == got.content


def steer(http: httpx2.Client, **asked: Any) -> None:
    assert http.post("/_sim/behave", json=asked).status_code == 200


def test_a_path_answers_the_status_it_was_told(hooks: Receiver, http: httpx2.Client) -> None:
    steer(http, path="/ops", kind="status", status=429, retry_after_s=30)
    got = http.post("/ops", content="x")
    assert (got.status_code, got.headers["retry-after"]) == (429, "30")
    steer(http, path="/ops", kind="status", status=410)
    got = http.post("/ops", content="x")
    assert (got.status_code, got.headers.get("retry-after")) == (410, None)
    for status in (204, 304):
        steer(http, path="/ops", kind="status", status=status)
        assert http.post("/ops", content="x").status_code == status
    steer(http, path="/ops", kind="ok")
    assert http.post("/ops", content="x").status_code == 200
    assert [one.answered for one in hooks.received()] == [429, 410, 204, 304, 200]


def test_half_of_the_time_is_every_other_time(http: httpx2.Client) -> None:
    steer(http, path="/ops", kind="half", status=500)
    assert [http.post("/ops", content="x").status_code for _ in range(4)] == [500, 200, 500, 200]
    assert http.post("/other", content="x").status_code == 200


def test_a_redirect_leads_elsewhere(http: httpx2.Client) -> None:
    steer(http, path="/ops", kind="redirect", location="http://127.0.0.1:1/")
    got = http.post("/ops", content="x")
    assert (got.status_code, got.headers["location"]) == (302, "http://127.0.0.1:1/")


def test_a_closed_connection_has_no_answer_though_the_webhook_arrived(hooks: Receiver, http: httpx2.Client) -> None:
    steer(http, path="/ops", kind="close")
    with pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
        http.post("/ops", content="x")
    (arrived,) = hooks.received()
    assert arrived.answered is None


def test_a_slow_path_keeps_no_other_waiting_and_ends_with_the_receiver() -> None:
    before = threading.active_count()
    with Receiver() as hooks, httpx2.Client(base_url=hooks.url, timeout=300) as http:
        hooks.behave("/slow", "slow", delay_s=3600)
        failed: list[Exception] = []

        def wait() -> None:
            try:
                http.post("/slow", content="x")
            except httpx2.HTTPError as error:
                failed.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        hooks.wait(1)
        assert http.post("/quick", content="x").text == "ok"
        assert waiting.is_alive()
        with socket.create_connection(("127.0.0.1", int(hooks.url.rpartition(":")[2]))):  # sends nothing at all
            hooks.stop()
        waiting.join(30)
    assert len(failed) == 1
    assert threading.active_count() == before
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(hooks.url)


@pytest.mark.parametrize(
    ("form", "secret", "other"),
    [
        (Format.STANDARD, SECRET, OTHER),
        (Format.FEISHU, "SECinvented", "SECother"),
        (Format.DINGTALK, "SECinvented", "SECother"),
    ],
)
def test_a_signature_is_believed_with_its_secret_alone(
    form: Format, secret: str, other: str, hooks: Receiver, http: httpx2.Client
) -> None:
    path = "/feishu/bot" if form is Format.FEISHU else "/dingtalk/bot" if form is Format.DINGTALK else "/ops"
    send(http, signed(hooks, form, path, secret))
    assert http.post("/_sim/secret", json={"path": path, "secret": secret, "format": form}).status_code == 200
    send(http, signed(hooks, form, path, secret))
    send(http, signed(hooks, form, path, other))
    send(http, signed(hooks, form, path, secret, now=datetime.now(UTC) - timedelta(hours=2)))
    for body in (b"", b"{}", b"[]", b'"x"', b"\xff", b'{"timestamp": 1, "sign": "\xc3\xa9"}', b"[" * 100_000):
        http.post(path, content=body)
    http.post(f"{path}?timestamp=%C2%B2&sign=x", content=b"{}")
    assert [one.verified for one in hooks.received()] == [None, True, *[False] * 10]


def test_a_changed_body_is_not_believed(hooks: Receiver, http: httpx2.Client) -> None:
    hooks.secret("/ops", SECRET, "standard")
    now = datetime.now(UTC)
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("evt_1", now, '{"a":1}'),
    }
    for body, wrong in (('{"a":1}', {}), ('{"a":2}', {}), ('{"a":1}', {"webhook-signature": "nonsense"})):
        http.post("/ops", content=body, headers=headers | wrong)
    assert [one.verified for one in hooks.received()] == [True, False, False]


def test_the_page_shows_the_newest_first_and_runs_nothing(hooks: Receiver, http: httpx2.Client) -> None:
    assert "Nothing yet" in http.get("/").text
    http.post("/first", json={"type": "stock.out", "note": HOSTILE})
    http.post("/<script>alert(1)</script>", content="<script>alert(1)</script>")
    hooks.secret("/first", SECRET, "standard")
    http.post("/first", content="last")
    got = http.get("/")
    page = got.text
    assert page.index("last") < page.index("&lt;script&gt;") < page.index("stock.out")
    assert "<script" not in page
    assert "SIGNATURE NOT VALID" in page
    assert '<meta http-equiv="refresh"' in page
    assert got.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize("form", [Format.SLACK, Format.DISCORD, Format.FEISHU, Format.DINGTALK, Format.WECOM])
def test_the_page_shows_the_words_of_a_room(form: Format, hooks: Receiver, http: httpx2.Client) -> None:
    send(http, signed(hooks, form, f"/{form}/bot", "SECinvented"))
    shown = http.get("/").text.partition("<pre>")[2].partition("</pre>")[0]
    assert shown
    assert not shown.startswith(("{", "&#x27;{"))
    assert "\n" in shown


@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("/_sim/behave", {"path": "/ops", "kind": "explode"}, "unknown kind 'explode': one of ok, status"),
        ("/_sim/behave", {"path": "/ops", "kind": "status", "status": 99}, "status 99 is no answer"),
        ("/_sim/behave", {"path": "/ops", "kind": "status", "status": "503"}, "'<='"),
        ("/_sim/behave", {"path": "/ops", "kind": "slow", "delay_s": -1}, "delay_s -1 is no delay"),
        ("/_sim/behave", {"path": "/ops", "kind": "slow", "delay": 1}, "unexpected keyword argument 'delay'"),
        ("/_sim/behave", {"kind": "ok"}, "missing 1 required positional argument: 'path'"),
        ("/_sim/behave", [], "must be a mapping"),
        ("/_sim/secret", {"path": "/ops", "secret": "x", "format": "slack"}, "format 'slack' signs nothing"),
    ],
)
def test_what_cannot_be_done_is_refused(path: str, asked: Any, said: str, http: httpx2.Client) -> None:
    got = http.post(path, json=asked)
    assert got.status_code == 400
    assert said in got.json()["error"]


def test_what_is_not_there_is_said(http: httpx2.Client) -> None:
    assert http.get("/ops").json()["known"] == ["GET /", "GET /_sim/received"]
    assert http.post("/_sim/nothing", json={}).json()["known"] == ["POST /_sim/behave", "POST /_sim/secret"]
    assert http.post("/_sim/behave", content=b"{").status_code == 400


def test_a_body_without_a_length_or_without_an_end_is_not_read(hooks: Receiver, http: httpx2.Client) -> None:
    assert http.post("/ops", content=iter([b"x"])).status_code == 413
    head = f"POST /ops HTTP/1.1\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(hooks.url.rpartition(":")[2]))) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1024).startswith(b"HTTP/1.1 413 ")
    assert not hooks.received()


def test_every_kind_has_been_met_here() -> None:
    text = Path(__file__).read_text("utf-8")
    assert [kind for kind in KINDS if f'"{kind}"' not in text] == []
