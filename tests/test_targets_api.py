"""Targets over HTTP: what may be one, what is never shown, what becomes of one that is dead or in use."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from api.guard import MAX_BODY_BYTES
from catalog.watches import Format, Target
from store import outbox, watches
from tests.support.filled import Server, problem_of, served, v100_at_tencent
from tests.test_guard import INNER, INSIDE, UNREADABLE, literal

URL = "https://93.184.215.14/services/T0/B0/hunter2"
"""An address of the public internet, so that no name is looked up."""
OPS = {"name": "ops", "url": URL}
JSON = {"Content-Type": "application/json"}
DINGTALK = {"name": "room", "format": "dingtalk", "url": URL, "secret": "SEChush"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    filled = v100_at_tencent(tmp_path)
    with served(filled) as running:
        yield running
    filled.engine.dispose()


def patch(server: Server, name: str, body: object, status: int = 200) -> Any:
    response = server.client.patch(f"/targets/{name}", json=body)
    assert response.status_code == status, response.text
    return response.json() if status < 400 else problem_of(response, status)


def kept(server: Server, name: str = "ops") -> watches.KeptTarget:
    found = watches.target(server.filled.engine, name)
    assert found is not None
    return found


def test_a_target_is_made_with_a_secret_that_is_shown_once(server: Server) -> None:
    made = server.post("/targets", OPS, 201)
    assert made["secret"].startswith("whsec_")
    assert (made["name"], made["format"], made["lang"]) == ("ops", "standard", "en")
    assert made["url"] == "https://93.184.215.14/…masked"
    assert kept(server).target == Target(name="ops", format=Format.STANDARD, url=URL, secret=made["secret"])
    (shown,) = server.get("/targets")["items"]
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert (shown["status"], shown["why"], shown["has_secret"], shown["warnings"]) == ("ok", None, True, [])


def test_nothing_that_is_secret_is_ever_shown_again(server: Server) -> None:
    made = server.post("/targets", OPS, 201)
    server.post("/targets", DINGTALK, 201)
    server.post("/watches", {"name": "w", "spec": {"gpu": "v100"}, "notify": ["ops", "room"]}, 201)
    server.post("/targets/ops/test", {}, 202)
    (watch,) = server.get("/watches")["items"]
    paths = ("/targets", "/watches", f"/watches/{watch['id']}", f"/watches/{watch['id']}/deliveries", "/metrics")
    said = "".join(server.client.get(path).text for path in paths) + json.dumps(patch(server, "room", {"lang": "zh"}))
    for secret in (made["secret"], "hunter2", "hush", "/services/"):
        assert secret not in said


@pytest.mark.parametrize("form", ["slack", "discord", "wecom"])
def test_a_room_that_signs_nothing_has_no_secret(server: Server, form: str) -> None:
    room = {"name": "room", "format": form, "url": URL, "secret": None, "keyword": "gpu", "lang": "zh"}
    made = server.post("/targets", room, 201)
    assert (made["secret"], made["has_secret"], made["keyword"], made["lang"]) == (None, False, "gpu", "zh")
    refused = server.post("/targets", room | {"name": "another", "secret": "hush"}, 422)
    assert (refused["parameter"], "hush" in refused["detail"]) == ("secret", False)


@pytest.mark.parametrize("form", ["feishu", "dingtalk"])
def test_a_room_that_signs_has_the_secret_that_it_was_given(server: Server, form: str) -> None:
    assert server.post("/targets", DINGTALK | {"format": form}, 201)["secret"] == "SEChush"
    assert server.post("/targets", {"name": "open", "format": form, "url": URL}, 201)["secret"] is None
    assert kept(server, "room").target.secret == "SEChush"


def test_e_mail_is_warned_of_without_a_mail_server(server: Server) -> None:
    mail = {"name": "mail", "format": "email", "url": "mailto:ops@example.com"}
    made = server.post("/targets", mail, 201)
    assert made["url"] == "mailto:…masked@example.com"
    assert made["warnings"] == [
        "target mail: no mail server is set (GPUFARE_SMTP__HOST), so it cannot be told anything"
    ]
    with served(server.filled, sends_mail=True) as another:
        assert another.get("/targets")["items"][0]["warnings"] == []


@pytest.mark.parametrize(
    "url", ["https://example.com/", "mailto:", "mailto:a@b.example,c@d.example", "mailto:a@b.example?subject=x", ""]
)
def test_e_mail_goes_to_exactly_one_address(server: Server, url: str) -> None:
    refused = server.post("/targets", {"name": "mail", "format": "email", "url": url}, 422)
    assert refused["parameter"] == "url"
    assert server.get("/targets")["items"] == []


HOSTILE = [*(literal(address) for address, _ in INSIDE), *INNER, *(url for url in UNREADABLE if "\ud800" not in url)]


def test_no_url_that_reaches_inside_or_is_not_plain_becomes_a_target(server: Server) -> None:
    server.post("/targets", OPS, 201)
    assert len(HOSTILE) > 100
    for url in HOSTILE:
        for form in ("standard", "slack"):
            refused = server.post("/targets", {"name": "evil", "format": form, "url": url}, 422)
            assert (refused["parameter"], refused["did_you_mean"]) == ("url", []), url
        assert patch(server, "ops", {"url": url}, 422)["parameter"] == "url", url
    assert [one["name"] for one in server.get("/targets")["items"]] == ["ops"]
    assert kept(server).target.url == URL


def test_the_operator_may_allow_what_lies_inside(server: Server) -> None:
    with served(server.filled, allow_private=True) as another:
        made = another.post("/targets", {"name": "here", "url": "http://127.0.0.1:9000/hook"}, 201)
        assert made["url"] == "http://127.0.0.1:9000/…masked"
        assert another.post("/targets", {"name": "there", "url": "http://user:word@127.0.0.1/"}, 422)


def base64_of(count: int) -> str:
    return b64encode(b"k" * count).decode()


@pytest.mark.parametrize("size", [24, 32, 64])
def test_a_secret_of_standard_webhooks_may_be_given(server: Server, size: int) -> None:
    secret = f"whsec_{base64_of(size)}"
    assert server.post("/targets", OPS | {"secret": secret}, 201)["secret"] == secret


@pytest.mark.parametrize(
    "secret",
    [
        *("", "hush", "whsec_", "whsec_hush!", "whsec_ü", base64_of(32), f"whsk_{base64_of(32)}"),
        *(f"whsec_{key}" for key in (base64_of(23), base64_of(65), base64_of(32)[:-1], f"{base64_of(32)} ")),
    ],
)
def test_a_secret_that_cannot_sign_is_refused_and_not_repeated(server: Server, secret: str) -> None:
    refused = server.post("/targets", OPS | {"secret": secret}, 422)
    assert refused["parameter"] == "secret"
    assert not secret or secret not in refused["detail"].replace("whsec_ and", "")


@pytest.mark.parametrize("secret", ["", "two words", "ü", "line\nend", "k" * 257])
def test_a_rooms_secret_is_visible_ascii(server: Server, secret: str) -> None:
    assert server.post("/targets", DINGTALK | {"secret": secret}, 422)["parameter"] == "secret"


@pytest.mark.parametrize("name", ["ops", "n" * 64, "值班 群", "a.b:c@d?e#f%g&h+i=j", "👩"])
def test_a_name_of_printable_characters_is_found_again(server: Server, name: str) -> None:
    server.post("/targets", OPS | {"name": name}, 201)
    assert patch(server, quote(name, safe=""), {"lang": "zh"})["name"] == name
    assert server.client.delete(f"/targets/{quote(name, safe='')}").status_code == 204
    assert server.get("/targets")["items"] == []


@pytest.mark.parametrize(
    "name", ["", " ", "n" * 65, " ops", "ops ", "a\nb", "a\tb", "a\u200bb", "\u202eops", "a/b", "a,b", ".", ".."]
)
def test_a_name_that_nobody_could_tell_from_another_is_refused(server: Server, name: str) -> None:
    assert server.post("/targets", OPS | {"name": name}, 422)["parameter"] == "name"


def test_a_name_is_one_targets(server: Server) -> None:
    server.post("/targets", OPS, 201)
    assert "There is a target named ops already" in server.post("/targets", OPS, 409)["detail"]


@pytest.mark.parametrize(
    ("body", "parameter", "near"),
    [
        ({"name": "ops"}, "url", []),
        ({"url": URL}, "name", []),
        (OPS | {"formt": "slack"}, "formt", ["format"]),
        (OPS | {"format": "slak"}, "format", ["slack"]),
        (OPS | {"format": "teams"}, "format", None),
        (OPS | {"lang": "de"}, "lang", None),
        (OPS | {"name": 7}, "name", []),
        (OPS | {"url": ["https://example.com"]}, "url", []),
        (OPS | {"keyword": "gpu"}, "keyword", []),
        (OPS | {"format": "slack", "keyword": ""}, "keyword", []),
        (OPS | {"managed": True}, "managed", None),
        ([], "body", []),
        ("ops", "body", []),
    ],
)
def test_a_body_of_another_shape_is_refused_by_name(
    server: Server, body: object, parameter: str, near: list[str] | None
) -> None:
    refused = server.post("/targets", body, 422)
    assert refused["parameter"] == parameter
    assert near is None or refused["did_you_mean"] == near
    assert server.get("/targets")["items"] == []


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b'{"name": "ops", "name": "ops", "url": "https://93.184.215.14/"}', 422),
        (b'{"name": "ops", "url": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", 422),
        (b'{"name": "ops", "url": ' + b"9" * 5000 + b"}", 422),
        (b'{"name": "' + b"n" * (MAX_BODY_BYTES - 60) + b'", "url": "https://93.184.215.14/"}', 422),
        (b'{"name": "ops", "url": "https://93.184.215.14/' + b"a" * MAX_BODY_BYTES + b'"}', 413),
    ],
)
def test_a_hostile_body_is_a_problem(server: Server, content: bytes, status: int) -> None:
    problem_of(server.client.post("/targets", content=content, headers=JSON), status)
    assert server.get("/targets")["items"] == []


def test_a_change_leaves_what_it_does_not_say(server: Server) -> None:
    secret = server.post("/targets", OPS, 201)["secret"]
    changed = patch(server, "ops", {"url": "https://8.8.8.8/other"})
    assert (changed["url"], changed["secret"], changed["has_secret"]) == ("https://8.8.8.8/…masked", None, True)
    assert kept(server).target.secret == secret
    rotated = patch(server, "ops", {"secret": None})["secret"]
    assert kept(server).target.secret == rotated != secret


def test_another_format_has_no_secret_and_keyword_but_its_own(server: Server) -> None:
    server.post("/targets", DINGTALK | {"keyword": "gpu"}, 201)
    standard = patch(server, "room", {"format": "standard"})
    assert standard["secret"].startswith("whsec_")
    assert (standard["keyword"], kept(server, "room").target.secret) == (None, standard["secret"])
    slack = patch(server, "room", {"format": "slack"})
    assert (slack["secret"], slack["has_secret"]) == (None, False)
    assert patch(server, "room", {"format": "email"}, 422)["parameter"] == "url"


def test_a_dead_target_is_shown_is_not_tested_and_is_revived_by_a_change(server: Server) -> None:
    server.post("/targets", OPS, 201)
    assert outbox.target_gone(server.filled.engine, kept(server).target, "HTTP 410: it is gone", server.filled.now)
    (shown,) = server.get("/targets")["items"]
    assert (shown["status"], shown["why"]) == ("dead", "HTTP 410: it is gone")
    assert len(shown["warnings"]) == 1
    assert "HTTP 410" in server.post("/targets/ops/test", {}, 409)["detail"]
    assert patch(server, "ops", {})["status"] == "ok"
    assert server.get("/targets")["items"][0]["status"] == "ok"
    (delivery_id,) = server.post("/targets/ops/test", {}, 202)["deliveries"]
    assert server.get(f"/deliveries/{delivery_id}")["status"] == "pending"


def test_a_target_that_a_watch_names_stays(server: Server) -> None:
    server.post("/targets", OPS, 201)
    watch = server.post("/watches", {"name": "v100 anywhere", "spec": {"gpu": "v100"}, "notify": ["ops"]}, 201)
    assert "v100 anywhere" in problem_of(server.client.delete("/targets/ops"), 409)["detail"]
    assert server.client.delete(f"/watches/{watch['id']}").status_code == 204
    assert server.client.delete("/targets/ops").status_code == 204
    assert server.get("/targets")["items"] == []


def test_a_name_of_none_is_404(server: Server) -> None:
    for response in (
        server.client.patch("/targets/ops", json={}),
        server.client.delete("/targets/ops"),
        server.client.post("/targets/ops/test"),
    ):
        assert problem_of(response, 404)["detail"] == "There is no target named ops. `GET /targets` lists them."


def test_writes_need_the_token(server: Server) -> None:
    with served(server.filled, token="t0ken") as another:
        client = another.client
        for response in (
            client.post("/targets", json=OPS),
            client.patch("/targets/ops", json={}),
            client.delete("/targets/ops"),
            client.post("/targets/ops/test"),
        ):
            problem_of(response, 401)
        assert client.get("/targets").json() == {"items": []}
        assert client.post("/targets", json=OPS, headers={"Authorization": "Bearer t0ken"}).status_code == 201


def test_a_database_that_is_gone_is_503(server: Server) -> None:
    with server.filled.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE targets RENAME TO hidden")
    try:
        for response in (server.client.get("/targets"), server.client.post("/targets", json=OPS)):
            assert "The database cannot be used" in problem_of(response, 503)["detail"]
    finally:
        with server.filled.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE hidden RENAME TO targets")
