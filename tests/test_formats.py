"""The form in which each target is told, against what its receiver documents; and what a receiver's answer means."""

import base64
import hmac
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from alerts.format_standard import new_secret
from alerts.formats import LONGEST_PAUSE, outcome_of, request_of
from alerts.wire import Outcome, Reply, Request, Result
from catalog.watches import Event, EventType, Format, Lang, Target
from tests.support.events import EVERY_EVENT, HOSTILE, NANJING, event, longest, named

NOW = datetime(2026, 12, 1, tzinfo=UTC)
PAGE = "https://gpufare.example"
SECRET = "SECinvented0123456789"
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CHAT = (Format.SLACK, Format.DISCORD, Format.FEISHU, Format.DINGTALK, Format.WECOM)
URLS = {
    Format.STANDARD: "https://receiver.example/hook?key=k3yk3yk3yk3y",
    Format.SLACK: "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    Format.DISCORD: "https://discord.com/api/webhooks/123456789012345678/tok3n-tok3n-tok3n",
    Format.FEISHU: "https://open.feishu.cn/open-apis/bot/v2/hook/00000000-1111-2222-3333-444444444444",
    Format.DINGTALK: "https://oapi.dingtalk.com/robot/send?access_token=t0k3nt0k3nt0k3n",
    Format.WECOM: "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693a91f6-7xxx-4bc4-97a0-0ec2sifa5aaa",
    Format.EMAIL: "mailto:ops@example.com",
}
SIGNING = {Format.STANDARD: STANDARD_SECRET, Format.FEISHU: SECRET, Format.DINGTALK: SECRET}


def target(form: Format, **more: Any) -> Target:
    made = Target(name="ops", format=form, url=URLS[form], secret=SIGNING.get(form))
    return replace(made, **more)


def sent(form: Format, what: Event, **more: Any) -> Request:
    return request_of(target(form, **more), what, NOW, page_url=PAGE)


def body(form: Format, what: Event, **more: Any) -> Any:
    return json.loads(sent(form, what, **more).body)


# What the receivers document, as shapes: a type, a constant, a list of one shape, or an object with exactly these keys,
# those with a ? left out where they like.
FEISHU_POST = {"title": str, "content": [[{"tag": "text", "text": str}]]}
DOCUMENTED: dict[Format, Any] = {
    # https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
    Format.SLACK: {"text": str},
    # https://discord.com/developers/docs/resources/webhook#execute-webhook, and #allowed-mentions-object beside it
    Format.DISCORD: {"content": str, "allowed_mentions": {"parse": []}},
    # https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
    Format.FEISHU: {
        "timestamp?": str,
        "sign?": str,
        "msg_type": "post",
        "content": {"post": {"en_us?": FEISHU_POST, "zh_cn?": FEISHU_POST}},
    },
    # https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages
    Format.DINGTALK: {"msgtype": "text", "text": {"content": str}, "at": {"isAtAll": False}},
    # https://developer.work.weixin.qq.com/document/path/91770
    Format.WECOM: {"msgtype": "markdown", "markdown": {"content": str}},
}


def fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, type):
        return type(value) is shape
    if isinstance(shape, list):
        return isinstance(value, list) and all(len(shape) == 1 and fits(one, shape[0]) for one in value)
    if not isinstance(shape, dict):
        return type(value) is type(shape) and value == shape
    known = {key.removesuffix("?"): one for key, one in shape.items()}
    needed = {key for key in shape if not key.endswith("?")}
    return (
        isinstance(value, dict)
        and needed <= value.keys() <= known.keys()
        and all(fits(one, known[key]) for key, one in value.items())
    )


def test_the_shapes_tell_right_from_wrong() -> None:
    shape = DOCUMENTED[Format.FEISHU]
    post = {"title": "t", "content": [[{"tag": "text", "text": "x"}]]}
    right = {"msg_type": "post", "content": {"post": {"en_us": post}}}
    assert fits(right, shape)
    assert not fits(right | {"more": 1}, shape)
    assert not fits(right | {"msg_type": "text"}, shape)
    assert not fits(right | {"content": {"post": {"en_us": {**post, "content": [[{"tag": "at"}]]}}}}, shape)
    assert not fits({"content": "x", "allowed_mentions": {"parse": ["everyone"]}}, DOCUMENTED[Format.DISCORD])


def text_in(form: Format, content: Any) -> str:
    """All the text that a room would show."""
    if form is Format.FEISHU:
        (post,) = content["content"]["post"].values()
        return "\n".join([post["title"], *("".join(part["text"] for part in line) for line in post["content"])])
    found = {
        "slack": ["text"],
        "discord": ["content"],
        "dingtalk": ["text", "content"],
        "wecom": ["markdown", "content"],
    }
    for key in found[form]:
        content = content[key]
    assert isinstance(content, str)
    return content


def size(form: Format, request: Request) -> tuple[int, int]:
    """The size of what the receiver limits, and the limit. Sources: alerts/format_chat.py."""
    text = text_in(form, json.loads(request.body))
    return {
        Format.SLACK: (len(text.encode("utf-16-le")) // 2, 40_000),
        Format.DISCORD: (len(text.encode("utf-16-le")) // 2, 2000),
        Format.FEISHU: (len(request.body), 20_000),
        Format.DINGTALK: (len(request.body), 20_000),
        Format.WECOM: (len(text.encode()), 4096),
    }[form]


@pytest.mark.parametrize("lang", Lang)
@pytest.mark.parametrize("form", CHAT)
@pytest.mark.parametrize("what", EVERY_EVENT, ids=lambda one: one.id + one.type)
def test_every_chat_body_is_as_documented_and_says_it(form: Format, lang: Lang, what: Event) -> None:
    request = sent(form, what, lang=lang, keyword="gpu-alarm")
    assert request.method == "POST"
    assert request.headers["content-type"].startswith("application/json")
    content = json.loads(request.body)
    assert fits(content, DOCUMENTED[form]), content
    text = text_in(form, content).replace("\\", "")
    assert PAGE in text
    for no_word in ("None", "null", SECRET, "isAtAll", STANDARD_SECRET):
        assert no_word not in text
    assert SECRET not in request.body.decode()
    assert SECRET not in f"{request.url}{request.headers}"
    used, most = size(form, request)
    assert used <= most


@pytest.mark.parametrize("form", CHAT)
def test_the_command_and_the_price_are_readable_in_every_room(form: Format) -> None:
    text = text_in(form, body(form, event(EventType.STOCK_OUT)))
    assert "--Placement.Zone ap-nanjing-1 --InstanceType GN10Xp.2XLARGE40 --ImageId IMAGE_ID" in text
    assert "8.68 CNY (1.2057 USD) per machine-hour" in text
    assert f"{PAGE}/?gpu=v100" in text


def test_feishu_says_its_language() -> None:
    assert body(Format.FEISHU, event(EventType.TEST))["content"]["post"].keys() == {"en_us"}
    assert body(Format.FEISHU, event(EventType.TEST), lang=Lang.ZH)["content"]["post"].keys() == {"zh_cn"}


@pytest.mark.parametrize("unit", ["x", "显", "😀", '"', "\\", "<", "&", "*", "显x😀<"])
@pytest.mark.parametrize("lang", Lang)
@pytest.mark.parametrize("form", CHAT)
def test_too_long_is_cut_at_a_whole_character_and_keeps_link_and_keyword(form: Format, lang: Lang, unit: str) -> None:
    request = sent(form, longest(EventType.STOCK_OUT, unit), lang=lang, keyword="报警")
    used, most = size(form, request)
    text = text_in(form, json.loads(request.body))
    assert used > most * 0.85, "as much as there is room for"
    assert "…\n" in text
    assert used <= most
    assert "报警" in text
    assert f"{PAGE}/?gpu=v100" in text
    assert "\ufffd" not in request.body.decode()
    for half in re.findall(r"&[a-z]*", text.split(PAGE)[0]) if form is Format.SLACK else ():
        assert half in ("&amp", "&lt", "&gt"), "an escape is never cut"
    if form is Format.DISCORD:
        assert not re.search(r"(?<!\\)(\\\\)*\\…", text), "an escape is never cut"


@given(st.sampled_from(CHAT), st.integers(0, 2500), st.sampled_from(["a", "显", "😀", "<", '"']))
def test_no_length_is_over_the_limit(form: Format, count: int, unit: str) -> None:
    held = {f"{unit * 30}{n}": n for n in range(count // 20)}
    request = sent(form, event(EventType.SUMMARY, held=held), keyword=unit)
    used, most = size(form, request)
    assert used <= most


@pytest.mark.parametrize("kind", EventType)
@pytest.mark.parametrize("form", CHAT)
def test_no_name_is_a_mention_or_markup(form: Format, kind: EventType) -> None:
    content = body(form, named(kind, HOSTILE))
    assert fits(content, DOCUMENTED[form])
    text = text_in(form, content)
    assert "\x1b" not in text
    assert "\u202e" not in text
    for line in text.split("\n"):
        assert not line.startswith(("#", "# h"))
    if form is Format.SLACK:
        assert re.findall(r"<[^>]*>", text) == [
            one for one in re.findall(r"<[^>]*>", text) if one.startswith(f"<{PAGE}")
        ]
        assert "&lt;!channel&gt;" in text
        assert not re.search(r"[*`~]", re.sub(r"^\*.*\*$|```.*?```", "", text, flags=re.MULTILINE))
    if form is Format.DISCORD:
        plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        assert not re.search(r"(?<!\\)@everyone|(?<!\\)<@|https?://(?!gpufare)", plain)
        assert content["allowed_mentions"] == {"parse": []}
    if form is Format.WECOM:
        assert "<" not in text
        assert re.findall(r"\]\(([^)]*)\)", text) == [one for one in re.findall(r"\]\(([^)]*)\)", text) if PAGE in one]
        assert "`" not in text


def test_a_command_with_a_hostile_name_stays_one_quoted_command() -> None:
    offer = {**NANJING, "instance_type": "x' ``` <@all> * $(reboot)"}
    what = event(EventType.STOCK_BACK, offers=[offer])
    slack, discord, wecom = (text_in(form, body(form, what)) for form in (Format.SLACK, Format.DISCORD, Format.WECOM))
    assert slack.count("```") == discord.count("```") == 2
    assert "<@all>" not in slack + wecom
    for text in (slack, discord, wecom):
        line = next(line for line in text.split("\n") if "tccli" in line)
        assert line.count("'") % 2 == 1, "as many quotes as shlex.quote writes"


# Keywords


@pytest.mark.parametrize("keyword", ["库存报警", "a*b<c>", "@所有人"])
@pytest.mark.parametrize("form", [Format.DINGTALK, Format.FEISHU])
def test_the_keyword_stands_in_the_text_as_it_is(form: Format, keyword: str) -> None:
    content = body(form, event(EventType.TEST), keyword=keyword)
    without = text_in(form, body(form, event(EventType.TEST)))
    shown = content["text"]["content"] if form is Format.DINGTALK else text_in(form, content).split("\n", 1)[1]
    assert keyword in shown
    assert keyword not in without


@pytest.mark.parametrize("form", CHAT)
def test_a_keyword_that_the_message_has_is_not_said_again(form: Format) -> None:
    what = event(EventType.STOCK_OUT)
    assert body(form, what, keyword="Use instead") == body(form, what)
    assert body(form, what, keyword="") == body(form, what)


# Signatures


def test_feishu_signs_nothing_under_time_and_secret() -> None:
    """The expected signature was made by `openssl dgst -sha256 -mac HMAC -macopt hexkey:…` of an empty input."""
    content = body(Format.FEISHU, event(EventType.TEST))
    assert content["timestamp"] == "1796083200"
    assert content["sign"] == "qX5HnYdRz+HHg0Go9AJoQklsArPfyLWy33k9fWNaOjA="
    by_hand = hmac.new(f"1796083200\n{SECRET}".encode(), b"", "sha256").digest()
    assert base64.b64decode(content["sign"]) == by_hand
    assert not body(Format.FEISHU, event(EventType.TEST), secret=None).keys() & {"timestamp", "sign"}


def test_dingtalk_signs_in_the_address_in_milliseconds() -> None:
    """The expected signature was made by `openssl dgst`, as above."""
    url = sent(Format.DINGTALK, event(EventType.TEST)).url
    assert url.startswith(f"{URLS[Format.DINGTALK]}&timestamp=1796083200000&sign=")
    assert url.endswith("sign=fv0jOYosGylc1VjU2%2BkLobK4tx%2B3v2nd2ga3Hac%2F5J0%3D")
    assert parse_qs(urlsplit(url).query)["sign"] == ["fv0jOYosGylc1VjU2+kLobK4tx+3v2nd2ga3Hac/5J0="]
    assert sent(Format.DINGTALK, event(EventType.TEST), secret=None).url == URLS[Format.DINGTALK]
    bare = sent(Format.DINGTALK, event(EventType.TEST), url="https://receiver.example/send").url
    assert bare.startswith("https://receiver.example/send?timestamp=1796083200000&sign=")


@pytest.mark.parametrize("form", [Format.SLACK, Format.DISCORD, Format.WECOM])
def test_what_does_not_sign_shows_no_secret(form: Format) -> None:
    assert sent(form, event(EventType.TEST), secret=SECRET) == sent(form, event(EventType.TEST))


# Standard Webhooks


@pytest.mark.parametrize("what", EVERY_EVENT, ids=lambda one: one.id + one.type)
def test_the_librarys_own_check_accepts_what_is_signed(what: Event) -> None:
    now = datetime.now(timezone(timedelta(hours=8)))  # it checks against the clock; any time zone is right
    request = request_of(target(Format.STANDARD), what, now)
    told = Webhook(STANDARD_SECRET).verify(request.body, dict(request.headers))
    assert told == {"type": what.type, "timestamp": "2026-11-30T08:02:31Z", "data": dict(what.data)}
    assert request.url == URLS[Format.STANDARD]
    assert request.headers["webhook-id"] == what.id
    assert STANDARD_SECRET.removeprefix("whsec_") not in f"{request.headers}{request.body!r}"
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(request.body, dict(request.headers))


def test_the_signature_is_of_id_time_and_body() -> None:
    request = sent(Format.STANDARD, event(EventType.STOCK_OUT))
    headers = request.headers
    assert headers.keys() == {"content-type", "webhook-id", "webhook-timestamp", "webhook-signature"}
    assert headers["content-type"] == "application/json"
    assert headers["webhook-timestamp"] == "1796083200"
    signed = f"evt_stock.out.1796083200.{request.body.decode()}".encode()
    by_hand = hmac.new(base64.b64decode(STANDARD_SECRET.removeprefix("whsec_")), signed, "sha256").digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(by_hand).decode()}"
    assert list(json.loads(request.body)) == ["type", "timestamp", "data"]
    assert b'": ' not in request.body
    assert b'", ' not in re.sub(rb'"[^"]*"', b'""', request.body), "compact"


def test_an_event_has_one_id_and_one_body_in_every_attempt() -> None:
    first, second = (
        request_of(target(Format.STANDARD), event(EventType.STOCK_OUT), NOW + timedelta(seconds=late))
        for late in (0, 90)
    )
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_a_time_between_two_seconds_is_signed_as_the_header_says() -> None:
    now = NOW + timedelta(microseconds=999_999)
    assert request_of(target(Format.STANDARD), event(EventType.TEST), now) == sent(
        Format.STANDARD, event(EventType.TEST)
    )


def test_new_secrets_are_random_and_of_the_right_length() -> None:
    made = {new_secret() for _ in range(20)}
    assert len(made) == 20
    for secret in made:
        assert secret.startswith("whsec_")
        assert 24 <= len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) <= 32
        request_of(target(Format.STANDARD, secret=secret), event(EventType.TEST), NOW)


@pytest.mark.parametrize("secret", [None, "", "whsec_", "whsec_A", "whsec_\u00e9"])
def test_a_secret_that_cannot_sign_is_named_and_not_shown(secret: str | None) -> None:
    with pytest.raises(ValueError, match="target ops: its secret cannot sign") as raised:
        request_of(target(Format.STANDARD, secret=secret), event(EventType.TEST), NOW)
    assert raised.value.__cause__ is None
    assert "\u00e9" not in str(raised.value)


def test_mail_is_not_sent_by_http() -> None:
    with pytest.raises(ValueError, match="e-mail"):
        request_of(target(Format.EMAIL), event(EventType.TEST), NOW)


# Replies


def outcome(form: Format, status: int, said: object = b"", headers: dict[str, str] | None = None) -> Outcome:
    content = said if isinstance(said, bytes) else json.dumps(said, ensure_ascii=False).encode()
    return outcome_of(target(form), Reply(status, headers or {}, content), NOW)


ACCEPTED = Outcome(Result.ACCEPTED)
FORMS = [Format.STANDARD, *CHAT]


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        (Format.STANDARD, 200, b""),
        (Format.STANDARD, 202, b"<html>"),
        (Format.STANDARD, 204, b""),
        (Format.SLACK, 200, b"ok"),
        (Format.SLACK, 200, b"ok\n"),
        (Format.DISCORD, 204, b""),
        (Format.DISCORD, 200, {"id": "1"}),
        (Format.FEISHU, 200, {"code": 0, "msg": "success", "data": {}}),
        (Format.FEISHU, 200, {"StatusCode": 0, "StatusMessage": "success"}),
        (Format.FEISHU, 200, {"StatusCode": 0, "code": 0, "msg": "success"}),
        (Format.DINGTALK, 200, {"errcode": 0, "errmsg": "ok"}),
        (Format.WECOM, 200, {"errcode": 0, "errmsg": "ok"}),
    ],
)
def test_accepted(form: Format, status: int, said: object) -> None:
    assert outcome(form, status, said) == ACCEPTED


@pytest.mark.parametrize(
    ("form", "said", "after_s"),
    [
        (Format.FEISHU, {"code": 9499, "msg": "too many request"}, None),
        (Format.FEISHU, {"code": 11232, "msg": "frequency limited"}, None),
        (Format.FEISHU, {"code": 424242, "msg": "new"}, None),
        (Format.FEISHU, {"StatusCode": 424242}, None),
        (Format.DINGTALK, {"errcode": 130101, "errmsg": "send too fast, exceed 20 times per minute"}, 600),
        (Format.DINGTALK, {"errcode": 410100, "errmsg": "发送速度太快而限流"}, 600),
        (Format.DINGTALK, {"errcode": -1, "errmsg": "busy"}, None),
        (Format.DINGTALK, {"errcode": 424242}, None),
        (Format.WECOM, {"errcode": 45009, "errmsg": "api freq out of limit"}, 60),
        (Format.WECOM, {"errcode": -1, "errmsg": "busy"}, None),
        (Format.WECOM, {"errcode": 424242, "errmsg": "new"}, None),
    ],
)
def test_an_error_in_http_200_that_may_pass_is_tried_again(form: Format, said: dict[str, object], after_s: int) -> None:
    found = outcome(form, 200, said)
    assert found.result is Result.RETRY
    assert found.after == (None if after_s is None else timedelta(seconds=after_s))
    assert str(next(iter(said.values()))) in found.why


@pytest.mark.parametrize(
    ("form", "said", "hint"),
    [
        (Format.FEISHU, {"code": 19021, "msg": "sign match fail"}, "secret"),
        (Format.FEISHU, {"code": 19021, "StatusCode": 0}, "secret"),
        (Format.FEISHU, {"code": 19022, "msg": "Ip Not Allowed"}, "address"),
        (Format.FEISHU, {"code": 19024, "msg": "Key Words Not Found"}, "keyword"),
        (Format.FEISHU, {"code": 19001, "msg": "param invalid: incoming webhook access token invalid"}, "copy"),
        (Format.DINGTALK, {"errcode": 310000, "errmsg": "keywords not in content"}, "keyword"),
        (Format.DINGTALK, {"errcode": 400101}, "token"),
        (Format.DINGTALK, {"errcode": 400102}, "switched off"),
        (Format.WECOM, {"errcode": 93000, "errmsg": "invalid webhook url"}, "removed"),
        (Format.WECOM, {"errcode": 40008, "errmsg": "invalid message type"}, "message"),
    ],
)
def test_an_error_in_http_200_that_stays_is_refused(form: Format, said: dict[str, object], hint: str) -> None:
    found = outcome(form, 200, said)
    assert found.result is Result.REFUSED
    assert not found.gone
    assert hint in found.why


UNREADABLE = [
    b"",
    b"ok",
    b"<html>",
    b"[]",
    b"{}",
    b'{"errcode": "0"}',
    b'{"code": true}',
    b'{"errcode": false}',
    b"\xff",
]


@pytest.mark.parametrize("said", [*UNREADABLE, b"[" * 60_000, b'{"errcode": ' + b"9" * 60_000])
@pytest.mark.parametrize("form", [Format.FEISHU, Format.DINGTALK, Format.WECOM])
def test_an_answer_that_does_not_say_so_is_no_success(form: Format, said: bytes) -> None:
    found = outcome(form, 200, said)
    assert found.result is Result.RETRY
    assert len(found.why) < 400


def test_slack_says_ok_and_nothing_else() -> None:
    assert outcome(Format.SLACK, 200, b"<html>captive portal").result is Result.RETRY
    assert outcome(Format.SLACK, 200, b"").result is Result.RETRY


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
def test_limits_and_faults_of_servers_are_tried_again(form: Format, status: int) -> None:
    found = outcome(form, status, b"oops")
    assert found.result is Result.RETRY
    assert found.after is None
    assert f"HTTP {status}" in found.why
    assert "oops" in found.why


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 408, 413, 422])
def test_other_errors_and_redirects_are_refused(form: Format, status: int) -> None:
    found = outcome(form, status, b"no_service", {"location": "https://elsewhere.example/", "retry-after": "5"})
    assert found.result is Result.REFUSED
    assert not found.gone
    assert found.after is None
    assert ("redirects are not followed" in found.why) == (status < 400)
    assert "elsewhere" not in found.why


@pytest.mark.parametrize("form", FORMS)
def test_gone_is_for_ever(form: Format) -> None:
    found = outcome(form, 410, b"channel_is_archived")
    assert (found.result, found.gone) == (Result.REFUSED, True)
    assert "channel_is_archived" in found.why


def test_a_limit_that_is_told_with_http_400_is_a_limit() -> None:
    limited = {"code": 99991400, "msg": "request trigger frequency limit"}
    found = outcome(Format.FEISHU, 400, limited, {"x-ogw-ratelimit-reset": "52"})
    assert (found.result, found.after) == (Result.RETRY, timedelta(seconds=52))
    assert outcome(Format.FEISHU, 400, {"code": 19024}).result is Result.REFUSED
    assert outcome(Format.STANDARD, 400, {"code": 11232}).result is Result.REFUSED


@pytest.mark.parametrize(
    ("header", "after_s"),
    [
        ("0", 0),
        ("30", 30),
        (" 30 ", 30),
        ("1.2", 2),
        ("3600", 3600),
        ("3601", 3600),
        ("999999999", 3600),
        ("9" * 400, None),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("٣", None),
        ("Tue, 01 Dec 2026 00:00:45 GMT", 45),
        ("Tue, 01 Dec 2026 00:00:45", 45),
        ("Mon, 30 Nov 2026 23:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", FORMS)
def test_retry_after_is_obeyed_up_to_an_hour(form: Format, status: int, header: str, after_s: int | None) -> None:
    found = outcome(form, status, b"", {"retry-after": header})
    assert found.result is Result.RETRY
    assert found.after == (None if after_s is None else timedelta(seconds=after_s))
    assert found.after is None or timedelta(0) <= found.after <= LONGEST_PAUSE


@pytest.mark.parametrize(
    ("said", "after_s"),
    [
        (b'{"message": "You are being rate limited.", "retry_after": 64.57, "global": false}', 65),
        (b'{"retry_after": 0.1}', 1),
        (b'{"retry_after": 7200}', 3600),
        (b'{"retry_after": 1' + b"0" * 400 + b"}", 3600),
        (b'{"retry_after": -1}', 0),
        (b'{"retry_after": NaN}', 7),
        (b'{"retry_after": Infinity}', 7),
        (b'{"retry_after": "5"}', 7),
        (b'{"retry_after": true}', 7),
        (b"<html>banned by a proxy", 7),
    ],
)
def test_discord_says_the_pause_in_the_body(said: bytes, after_s: int) -> None:
    found = outcome(Format.DISCORD, 429, said, {"retry-after": "7"})
    assert (found.result, found.after) == (Result.RETRY, timedelta(seconds=after_s))
    assert outcome(Format.STANDARD, 429, said, {"retry-after": "7"}).after == timedelta(seconds=7)


@pytest.mark.parametrize("status", [200, 302, 400, 404, 410, 429, 500])
@pytest.mark.parametrize("form", FORMS)
def test_no_reason_shows_a_secret_or_an_address(form: Format, status: int) -> None:
    url, secret = URLS[form], SIGNING.get(form, SECRET)
    key = re.split(r"[/=]", url)[-1]
    said = f"bad key {key} {key.upper()} of {url}, {secret} {secret.removeprefix('whsec_')}\x1b\n\u202e"
    answers = [said.encode(), json.dumps({"code": 424242, "errcode": 424242, "msg": said, "errmsg": said}).encode()]
    for answer in answers:
        why = outcome_of(target(form, secret=secret), Reply(status, {}, answer), NOW).why
        for hidden in (key, url, secret, secret.removeprefix("whsec_")):
            assert hidden.lower() not in why.lower()
        assert "https://" not in why
        assert why.isprintable()


def test_a_receivers_words_are_cut_after_secrets_are_hidden() -> None:
    padded = b"x" * 190 + STANDARD_SECRET.encode() + b"y" * 60_000
    why = outcome(Format.STANDARD, 500, padded).why
    assert "MfKQ" not in why
    assert len(why) < 260
    assert why.endswith("…)")


@given(st.sampled_from(FORMS), st.integers(100, 599), st.binary(max_size=80), st.text(max_size=30))
def test_whatever_comes_back_there_is_an_outcome(form: Format, status: int, said: bytes, header: str) -> None:
    found = outcome_of(target(form), Reply(status, {"retry-after": header}, said), NOW)
    assert found.why.isprintable()
    assert (found.why == "") == (found.result is Result.ACCEPTED)
    assert found.after is None or timedelta(0) <= found.after <= LONGEST_PAUSE
    assert not found.gone or status == 410
