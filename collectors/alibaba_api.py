"""Alibaba Cloud's ECS API 2014-05-26: one signed call to a region's own endpoint, and what its errors mean.

Through the generic client of Alibaba's SDK (`alibabacloud_tea_openapi`), which every typed client extends. The typed
one of `alibabacloud-ecs20140526` takes five seconds and 118 MB to import, three times as much, and its models drop the
fields that they do not know and read amounts as floats. The rule for a region's endpoint is the typed client's.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from collectors.base import (
    AuthFailed,
    Cell,
    Config,
    Drift,
    NotConfigured,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
    calling,
)
from collectors.credentials import sendable
from collectors.http import CONNECT_S, MAX_BODY_BYTES, SHOWN_BYTES, deadline, first_bytes, retry_after, status_error
from collectors.sdk import extra, log_with_ours

NAME = "alibaba"
CREDENTIALS = ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET")
SENT = (*CREDENTIALS, "ALIBABA_CLOUD_SECURITY_TOKEN")
VERSION = "2014-05-26"
ENDPOINTS = {
    "cn-hangzhou": "ecs-cn-hangzhou.aliyuncs.com",
    "cn-shanghai-finance-1": "ecs-cn-hangzhou.aliyuncs.com",
    "cn-shenzhen-finance-1": "ecs-cn-hangzhou.aliyuncs.com",
    "cn-hangzhou-finance": "ecs.aliyuncs.com",
    "cn-north-2-gov-1": "ecs.aliyuncs.com",
}
"""Regions whose host does not follow the rule: those of the map in alibabacloud-ecs20140526 7.11.8 that are sold."""
NEXT_MINUTE = timedelta(minutes=1)

_THROTTLED = ("Throttling",)
_CLOCK = ("InvalidTimeStamp", "IllegalTimestamp")
_REFUSED = (
    "InvalidAccessKeyId",
    "MissingAccessKeyId",
    "InvalidSecurityToken",
    "MissingSecurityToken",
    "IncompleteSignature",
    "SignatureDoesNotMatch",
    *_CLOCK,
)
_NO_RIGHT = ("Forbidden", "Forbedden", "NoPermission")
"""`Forbedden.NotSupportRAM` is spelt so in Alibaba's list of errors."""
_NO_REGION = ("Invalid.RegionId", "InvalidRegionId", "InvalidRegion", "RegionId.ApiNotSupported")
_UNAVAILABLE = ("ServiceUnavailable", "UnknownError", "InternalError", "SignatureNonceUsed")


@dataclass(frozen=True, slots=True)
class _Whole:
    """An answer as the SDK reads it: with these names, and its body in one piece."""

    status_code: int
    reason: str
    headers: Mapping[str, str]
    content: bytes


class _Refused(Exception):
    """An answer that is no 200, whole. The SDK would lose its headers, and a body that is no JSON."""

    def __init__(self, answer: _Whole) -> None:
        super().__init__(answer.status_code)
        self.answer = answer


def endpoint(region: str) -> str:
    """The host that answers for a region: another one's answers 500, or an empty success."""
    return ENDPOINTS.get(region, f"ecs.{region}.aliyuncs.com")


def call(
    config: Config,
    region: str,
    action: str,
    asked: Mapping[str, object],
    cell: Cell,
    now: datetime,
    passing: Collection[str] = (),
) -> bytes:
    """The body of an answer; also of a refusal whose code is in `passing`: the reader knows better what that means.

    One attempt, within `config.timeout` in all. The SDK wants that in milliseconds.
    """
    where = " ".join(filter(None, (NAME, action, cell.place, cell.part)))
    with extra(NAME):
        from alibabacloud_tea_openapi.utils import Utils
        from alibabacloud_tea_openapi.utils_models import OpenApiRequest, Params
        from darabonba.exceptions import UnretryableException
        from darabonba.runtime import RuntimeOptions

    client, scheme = _client(config, region)
    params = Params(
        action=action, version=VERSION, protocol=scheme, pathname="/", method="POST", auth_type="AK", style="RPC"
    )
    params.req_body_type, params.body_type = "formData", "byte"
    whole_ms = int(config.timeout.total_seconds() * 1000)
    patience = RuntimeOptions(connect_timeout=min(int(CONNECT_S * 1000), whole_ms), read_timeout=whole_ms)
    request = OpenApiRequest(query=Utils.query(dict(asked)))
    calling()
    try:
        body: bytes = client.call_api(params, request, patience)["body"]
    except UnretryableException as error:
        return _told(error.inner_exception, Page(where, b"", now, cell.place, cell.part), passing, error)
    if len(body) > MAX_BODY_BYTES:
        page = Page(where, body[:SHOWN_BYTES], now, cell.place, cell.part)
        raise Drift(f"{where}: the answer is larger than {MAX_BODY_BYTES} bytes", page)
    return body


def _told(cause: Exception, page: Page, passing: Collection[str], error: Exception) -> bytes:
    """What an SDK's error is about: it wraps whatever happened, and says no code of its own."""
    from darabonba.exceptions import RetryError
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    if isinstance(cause, _Refused):
        code, said = code_of(cause.answer.content)
        if code in passing:
            return cause.answer.content
        raise _refusal(cause.answer, code, said, page) from error
    if isinstance(cause, ProviderError):  # out of our own transport
        raise cause from error
    if isinstance(cause, (RetryError, HTTPError, RequestException)):
        raise Unavailable(f"{page.name}: no answer ({type(cause.__context__ or cause).__name__})") from error
    raise cause from error


def code_of(body: bytes) -> tuple[str, str]:
    """Code and message of an error; "" for a body that is none."""
    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    found = [error.get(name) if isinstance(error, dict) else None for name in ("Code", "Message")]
    code, said = (text if isinstance(text, str) else "" for text in found)
    return code, said


def _refusal(answer: _Whole, code: str, said: str, page: Page) -> ProviderError:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    shown = Page(page.name, answer.content[:SHOWN_BYTES], page.at, page.place, page.part)
    if code:
        return failure(code, said, page.name, answer.status_code, _pause(headers, page.at), shown)
    found = status_error(answer.status_code, headers, page.name, page.at)
    return Drift(str(found), shown) if isinstance(found, Drift) else found


def _pause(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """What is asked for, by the usual header or by Alibaba's own, which the SDK reads as milliseconds."""
    own = headers.get("x-acs-retry-after", "")
    if own.isascii() and own.isdigit() and len(own) <= 9:
        return timedelta(milliseconds=int(own))
    return retry_after(headers, now)


def failure(
    code: str, said: str, where: str, status: int, pause: timedelta | None = None, page: Page | None = None
) -> ProviderError:
    """What an error code of ECS means. Throttling comes with HTTP 400, so the status speaks only for other codes.

    Who is throttled in a minute is let in again in the next (page 437902 of Alibaba's documentation).
    """
    told = f"{where}: {code}: {said:.200}"
    if _is(code, _THROTTLED):
        return Throttled(told, pause or NEXT_MINUTE)
    if _is(code, _CLOCK):
        return AuthFailed(f"{told} Set this machine's clock: it is more than 15 minutes from Alibaba's.")
    if _is(code, _REFUSED):
        return AuthFailed(told)
    if _is(code, _NO_RIGHT):
        action = where.split()[1]
        return NotServed(f"{told} Allow the action ecs:{action} in the RAM user's policy (resource *).")
    if _is(code, _NO_REGION):
        return NotServed(told)
    return Unavailable(told) if status >= 500 or _is(code, _UNAVAILABLE) else Drift(told, page)


def _is(code: str, classes: Iterable[str]) -> bool:
    return any(code == one or code.startswith(f"{one}.") for one in classes)


def _client(config: Config, region: str) -> tuple[Any, str]:
    """A client for the region's own endpoint, and its scheme."""
    from alibabacloud_tea_openapi.client import Client
    from alibabacloud_tea_openapi.utils_models import Config as SdkConfig

    scheme, host = _address(config, region)
    key_id, secret, token = (sendable(config.environ, name) for name in SENT)
    _own_transport(scheme, host)
    log_with_ours("darabonba-core", "alibabacloud-tea", "credentials")  # with DEBUG=sdk set they print the token
    settings = SdkConfig(
        access_key_id=key_id,
        access_key_secret=secret,
        security_token=token or None,
        region_id=region,
        endpoint=host,
        protocol=scheme.upper(),
    )
    return Client(settings), scheme.upper()


def _address(config: Config, region: str) -> tuple[str, str]:
    """Scheme, and host with port: the one that is set for every region, else the region's own."""
    if (stated := config.endpoints.get("ecs")) is None:
        return "https", endpoint(region)
    parts = urlsplit(stated)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        setting = "GPUFARE_PROVIDERS__ALIBABA__ENDPOINTS__ECS"
        raise NotConfigured(f"{setting} is no address: write scheme, host and port, as in http://127.0.0.1:8002")
    return parts.scheme, parts.netloc


def _own_transport(scheme: str, host: str) -> None:
    """Have the SDK send what goes to this host our way: it keeps a session for each host, by this name.

    A test with a redirect fails where a version of the SDK names them otherwise.
    """
    from darabonba.core import DEFAULT_POOL_MAXSIZE, DaraCore

    key = f"{scheme}://{host}:80:pool={DEFAULT_POOL_MAXSIZE}"
    DaraCore._sessions.setdefault(key, _Transport())  # noqa: SLF001 - there is no other way to it


class _Transport:
    """In place of a session of the SDK's, which follows redirects and reads a body for as long as bytes come."""

    def send(self, request: Any, **settings: Any) -> _Whole:
        """The answer, whole, over a connection of its own; _Refused for what is no 200."""
        from requests import Session
        from requests.utils import get_environ_proxies

        in_time = deadline(timedelta(seconds=settings["timeout"][1]), f"{NAME} {request.headers['x-acs-action']}")
        request.headers["Accept-Encoding"] = "gzip"  # not signed, as what was there before is
        settings |= {"stream": True, "proxies": get_environ_proxies(request.url)}  # the SDK ignores NO_PROXY
        with Session() as session:
            session.get_redirect_target = _nowhere  # type: ignore[assignment, method-assign]
            with session.send(request, **settings) as answer:
                body = first_bytes(in_time(_chunks(answer.raw)), MAX_BODY_BYTES + 1)
        whole = _Whole(answer.status_code, answer.reason or "", answer.headers, body)
        if whole.status_code != 200:
            raise _Refused(whole)
        return whole


def _nowhere(_answer: object) -> None:
    """Where to follow a redirect: another host would be sent the signature and the token."""


def _chunks(raw: Any) -> Iterator[bytes]:
    """What has come so far, again and again to the end. `iter_content` would wait until a whole piece is there."""
    while chunk := raw.read1(SHOWN_BYTES, decode_content=True):
        yield chunk
