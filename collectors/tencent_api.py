"""Tencent Cloud's API 3.0: one signed call, what its errors mean, and long answers cut in pieces."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
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
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.http import CONNECT_S, retry_after, status_error

NAME = "tencent"
CREDENTIALS = ("TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY")
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


def failure(code: str, message: str, where: str, pause: timedelta | None = None) -> ProviderError:
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
    return NotServed(said) if _is(code, _NOT_SERVED) else Drift(said)


def _is(code: str, classes: Iterable[str]) -> bool:
    return any(code == one or code.startswith(f"{one}.") for one in classes)


def call(config: Config, service: str, action: str, params: Mapping[str, Any], cell: Cell, now: datetime) -> bytes:
    """The body of an answer that is no error. One attempt."""
    import requests
    from tencentcloud.common.exception.tencent_cloud_sdk_exception import TencentCloudSDKException

    where = " ".join(filter(None, (NAME, action, cell.place, cell.part)))
    try:
        body: bytes = _client(config, service, cell, where, now).call(action, dict(params))
    except TencentCloudSDKException as error:
        # The SDK's own words may hold the request with its credentials: the cause's type is enough
        said = type(error.__context__).__name__ if error.__context__ else "refused by the SDK"
        raise failure(str(error.code), said, where) from error
    except requests.RequestException as error:
        raise Unavailable(f"{where}: the answer broke off ({type(error).__name__})") from error
    return body


def _client(config: Config, service: str, cell: Cell, where: str, now: datetime) -> Any:
    from tencentcloud.common.common_client import CommonClient
    from tencentcloud.common.credential import Credential
    from tencentcloud.common.profile.client_profile import ClientProfile
    from tencentcloud.common.profile.http_profile import HttpProfile

    class Client(CommonClient):  # type: ignore[misc]  # the SDK has no types
        """The SDK's, but what an answer means is ours to say.

        The SDK drops the HTTP status, and overlooks an error whose content type is not exactly `application/json`:
        behind a proxy, throttling would read as "nothing is sold here".
        """

        def _check_status(self, answer: Any) -> None:
            if answer.status_code != 200:
                answer.close()
                raise status_error(answer.status_code, answer.headers, where, now)

        def _check_error(self, answer: Any) -> None:
            _raise_error(answer.content, where, retry_after(answer.headers, now))

    logging.getLogger("tencentcloud_sdk_common").setLevel(logging.INFO)  # its DEBUG shows tokens
    scheme, host = _endpoint(config, service)
    version, language = SERVICES[service]
    seconds = config.timeout.total_seconds()
    profile = HttpProfile(protocol=scheme, endpoint=host, reqTimeout=(min(CONNECT_S, seconds), seconds))
    credential = Credential(*credentials(config), config.environ.get("TENCENTCLOUD_TOKEN", "").strip() or None)
    return Client(service, version, credential, cell.place, ClientProfile(httpProfile=profile, language=language))


def _raise_error(body: bytes, where: str, pause: timedelta | None) -> None:
    """Raise the error of an answer that is one. What is no JSON is left to who reads it."""
    if b'"Error"' not in body:
        return
    try:
        answer = json.loads(body)
        error = answer["Response"]["Error"]
        code, message = str(error["Code"]), str(error["Message"])
    except (ValueError, LookupError, TypeError):
        return
    raise failure(code, message, where, pause)


def _endpoint(config: Config, service: str) -> tuple[str, str]:
    """Scheme, and host with port."""
    if (stated := config.endpoints.get(service)) is None:
        return "https", HOSTS[config.site or ""].format(service=service)
    parts = urlsplit(stated)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        setting = f"GPUFARE_PROVIDERS__TENCENT__ENDPOINTS__{service.upper()}"
        raise NotConfigured(f"{setting} is no address: write scheme, host and port, as in http://127.0.0.1:8001")
    return parts.scheme, parts.netloc


def credentials(config: Config) -> list[str]:
    """Secret id and key, each empty where it is not set."""
    return [config.environ.get(name, "").strip() for name in CREDENTIALS]


def cut(body: bytes, listed: str) -> Iterator[bytes]:
    """The body, or pieces of at most 4 MiB: each whole, with a part of the records of the list `listed`."""
    try:
        head, records, tail = _taken_apart(body.decode(), listed) if len(body) > PAGE_BYTES else ("", [], "")
    except ValueError:
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
