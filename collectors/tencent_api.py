"""Tencent Cloud's API 3.0: one signed call, what its errors mean, and long answers cut in pieces."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from collectors.base import (
    PAGE_BYTES,
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

NAME = "tencent"
CREDENTIALS = ("TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY")
SENT = (*CREDENTIALS, "TENCENTCLOUD_TOKEN")
HOSTS = {"cn": "{service}.tencentcloudapi.com", "intl": "{service}.intl.tencentcloudapi.com"}
SERVICES = {
    "cvm": ("2017-03-12", "zh-CN"),  # remarks that name a GPU were seen in Chinese only
    "region": ("2022-06-27", "en-US"),
}
"""Version, and the language of its free text."""

_THROTTLED = ("RequestLimitExceeded",)
_UNAVAILABLE = ("InternalError", "InternalServerError", "ServiceUnavailable", "ClientNetworkError")
_REFUSED = ("AuthFailure", "UnauthorizedOperation", "InvalidCredential")
_BETWEEN = frozenset(" \t\r\n,")
_NOT_SERVED = (
    "UnsupportedRegion",
    "InvalidRegion",
    "InvalidParameterValue.InvalidRegion",
    "InvalidZone.MismatchRegion",
)


def failure(
    code: str, message: str, where: str, pause: timedelta | None = None, page: Page | None = None
) -> ProviderError:
    """What an error code of Tencent's, or of its SDK, means to the caller."""
    said = f"{where}: {code}: {message:.200}"
    if _is(code, _THROTTLED):
        return Throttled(said, pause)
    if _is(code, _UNAVAILABLE):
        return Unavailable(said)
    if code == "AuthFailure.SignatureExpire":
        return AuthFailed(f"{said} Set this machine's clock: it is more than five minutes from Tencent's.")
    if _is(code, _REFUSED):
        return AuthFailed(said)
    return NotServed(said) if _is(code, _NOT_SERVED) else Drift(said, page)


def _is(code: str, classes: Iterable[str]) -> bool:
    return any(code == one or code.startswith(f"{one}.") for one in classes)


def call(config: Config, service: str, action: str, params: Mapping[str, Any], cell: Cell, now: datetime) -> bytes:
    """The body of an answer that is no error. One attempt, within `config.timeout` in all."""
    with extra(NAME):
        import requests
        from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException
        from urllib3.exceptions import HTTPError

    where = " ".join(filter(None, (NAME, action, cell.place, cell.part)))
    client = _client(config, service, cell)
    calling()
    in_time = deadline(config.timeout, where)
    try:
        with client.asked(action, dict(params)) as answer:
            body = first_bytes(in_time(_chunks(answer.raw)), MAX_BODY_BYTES + 1)
    except TencentCloudSDKException as error:
        # The SDK's own words may hold the request with its credentials: the cause's type is enough
        said = type(error.__context__).__name__ if error.__context__ else "refused by the SDK"
        raise failure(str(error.code), said, where) from error
    except (requests.RequestException, HTTPError) as error:
        raise Unavailable(f"{where}: the answer broke off ({type(error).__name__})") from error
    page = Page(where, body, now, cell.place, cell.part)
    _raise_refusal(page, answer.status_code, answer.headers)
    return body


def _chunks(raw: Any) -> Iterator[bytes]:
    """What has come so far, again and again to the end. `iter_content` would wait until a whole piece is there."""
    while chunk := raw.read1(SHOWN_BYTES, decode_content=True):
        yield chunk


def _client(config: Config, service: str, cell: Cell) -> Any:
    with extra(NAME):
        from tencentcloud.common.common_client import CommonClient
        from tencentcloud.common.credential import Credential
        from tencentcloud.common.http.request import ProxyConnection
        from tencentcloud.common.profile.client_profile import ClientProfile
        from tencentcloud.common.profile.http_profile import HttpProfile

    class Connection(ProxyConnection):  # type: ignore[misc]  # the SDK has no types
        """The SDK's, but it follows no redirect: another host would be sent the signature and the token."""

        def __init__(self, host: str, **settings: Any) -> None:
            super().__init__(host, **settings)
            self._session.get_redirect_target = lambda _answer: None

    class Client(CommonClient):  # type: ignore[misc]  # the SDK has no types
        """The SDK's, but what an answer means is ours to say, and its body ours to read.

        The SDK drops the HTTP status, and overlooks an error whose content type is not exactly `application/json`:
        behind a proxy, throttling would read as "nothing is sold here". It reads a body for as long as bytes come.
        """

        def asked(self, action: str, params: dict[str, Any]) -> Any:
            """The answer as it comes, its body unread."""
            return self._call(action, params)

    log_with_ours("tencentcloud_sdk_common")
    scheme, host = _endpoint(config, service)
    version, language = SERVICES[service]
    seconds = config.timeout.total_seconds()
    profile = HttpProfile(protocol=scheme, endpoint=host, reqTimeout=(min(CONNECT_S, seconds), seconds))
    keys = [sendable(config.environ, name) for name in SENT]
    credential = Credential(keys[0], keys[1], keys[2] or None)
    client = Client(service, version, credential, cell.place, ClientProfile(httpProfile=profile, language=language))
    client.request.conn = Connection(host, timeout=profile.reqTimeout, is_http=scheme == "http")
    return client


def _raise_refusal(page: Page, status: int, headers: Mapping[str, str]) -> None:
    """Raise the error of an answer that is one. What is no JSON is left to who reads it."""
    shown = replace(page, body=page.body[:SHOWN_BYTES])
    if status != 200:
        found = status_error(status, headers, page.name, page.at)
        raise Drift(str(found), shown) if isinstance(found, Drift) else found
    if len(page.body) > MAX_BODY_BYTES:
        raise Drift(f"{page.name}: the answer is larger than {MAX_BODY_BYTES} bytes", shown)
    if b'"Error"' not in page.body:
        return
    try:
        error = json.loads(page.body)["Response"]["Error"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return  # no error of Tencent's: who reads the page says what it is
    code = error.get("Code") if isinstance(error, dict) else None
    if not isinstance(code, str) or not code:
        raise Drift(f"{page.name}: an Error that does not say its Code", shown)
    message = error.get("Message")
    said = message if isinstance(message, str) else "without a message"
    raise failure(code, said, page.name, retry_after(headers, page.at), shown)


def _endpoint(config: Config, service: str) -> tuple[str, str]:
    """Scheme, and host with port."""
    if (stated := config.endpoints.get(service)) is None:
        return "https", HOSTS[config.site or ""].format(service=service)
    parts = urlsplit(stated)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        setting = f"GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__{service.upper()}"
        raise NotConfigured(f"{setting} is no address: write scheme, host and port, as in http://127.0.0.1:8001")
    return parts.scheme, parts.netloc


def cut(body: bytes, listed: str) -> Iterator[bytes]:
    """The body, or pieces of at most 4 MiB: each whole, with a part of the records of the list `listed`."""
    try:
        head, records, tail = _taken_apart(body.decode(), listed) if len(body) > PAGE_BYTES else ("", [], "")
    except (ValueError, RecursionError):
        records = []  # not as learnt: whoever reads it says so
    if not records:
        yield body
        return
    piece: list[bytes] = []
    room = limit = PAGE_BYTES - len(f"{head}{tail}".encode())
    for record in (text.encode() for text in records):
        if piece and len(record) >= room:
            yield head.encode() + b",".join(piece) + tail.encode()
            piece, room = [], limit
        piece.append(record)
        room -= len(record) + 1
    yield head.encode() + b",".join(piece) + tail.encode()


def _taken_apart(text: str, listed: str) -> tuple[str, list[str], str]:
    """What comes before a list's records, the records as they stand, what comes after. ValueError for no such list."""
    decoder = json.JSONDecoder()
    start = at = text.index("[", text.index(f'"{listed}"')) + 1
    records: list[str] = []
    while True:
        while text[at : at + 1] in _BETWEEN:
            at += 1
        if text[at : at + 1] == "]":
            return text[:start], records, text[at:]
        _, end = decoder.raw_decode(text, at)
        records.append(text[at:end])
        at = end
