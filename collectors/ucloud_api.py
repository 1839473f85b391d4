"""UCloud's API: one signed call through the SDK's `invoke`, and what its return codes mean.

Sources of the codes, 2026-11-30: UCloud's pages on its API's public response (docs.ucloud.cn/api/summary/public) and on
UHost's error codes (docs.ucloud.cn/api/uhost-api/error_code).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from collectors.base import AuthFailed, Cell, Config, Drift, NotServed, Page, ProviderError, Throttled, Unavailable
from collectors.credentials import sendable
from collectors.http import MAX_BODY_BYTES, SHOWN_BYTES, first_bytes, retry_after, status_error, streamed
from collectors.reading import Record, record_of
from collectors.sdk import extra, log_with_ours

NAME = "ucloud"
KEYS = ("UCLOUD_PUBLIC_KEY", "UCLOUD_PRIVATE_KEY")
PROJECT = "UCLOUD_PROJECT_ID"
ENVELOPE = frozenset(("RetCode", "Action", "Message"))
"""What every answer has, beside what it is an answer with."""

_ANY_STATUS = range(1000)
_THROTTLED = (153,)
_UNAVAILABLE = (110, 130, 150)  # no answer in 60 s; gateway or authentication out of order; out of service
_TRY_LATER = (8025, 8031, 8041, 8090, 8826, 8828, 8829, 8857, 8916)
"""UHost's: information or a price could not be had, "try again later"."""
_COMMON = 2000
"""The codes up to here are those of all of UCloud; above it each product has its own."""
_REFUSED = (170, 171, 172, 174, 294, 295)  # signature, user, token, address of the caller, security lock
PARAMETER = 230
"""A parameter that cannot have its value."""
_PROJECT, _ZONE, _RIGHT = 292, 293, 299


def failure(
    code: int, message: str, where: str, action: str, pause: timedelta | None = None, page: Page | None = None
) -> ProviderError:
    """What a return code that is not 0 means to the caller. A code that was not learnt is Drift."""
    said = f"{where}: RetCode {code}: {message:.200}"
    if code in _THROTTLED:
        return Throttled(said, pause)
    if code in _UNAVAILABLE + _TRY_LATER:
        return Unavailable(said)
    if code in _REFUSED:
        return AuthFailed(said)
    if code == _PROJECT:
        return AuthFailed(f"{said}. Set {PROJECT} to a project of this account, as its console lists them")
    if code == _RIGHT:
        return NotServed(f"{said}. Allow {action} to this key in IAM, then: gpufare sync {NAME}")
    return NotServed(said) if code == _ZONE else Drift(said, page)


def is_of_order(code: int) -> bool:
    """Whether a code is about what was asked for, as UHost's own codes are but those that ask to try again."""
    return code > _COMMON and code not in _TRY_LATER


def call(
    config: Config,
    action: str,
    params: Mapping[str, object],
    cell: Cell,
    now: datetime,
    passing: Callable[[int], bool] = lambda _code: False,
) -> bytes:
    """The body of an answer whose return code is 0, or `passing`: the reader knows better what that means.

    One attempt, within `config.timeout` in all.
    """
    with extra(NAME):
        from ucloud.core.client import Client
        from ucloud.core.exc import RetCodeException
        from ucloud.core.utils.middleware import Middleware

    log_with_ours("ucloud")
    where = " ".join(filter(None, (NAME, action, cell.place, cell.part)))
    public, private, project = (sendable(config.environ, name) for name in (*KEYS, PROJECT))
    settings = {
        "public_key": public,
        "private_key": private,
        "project_id": project or None,
        "base_url": config.endpoints.get("api", "https://api.ucloud.cn").rstrip("/") + "/",
        "max_retries": 0,  # the SDK's own retries do not pause, and leave out throttling
    }
    transport = _Transport(Page(where, b"", now, cell.place, cell.part), config.timeout)
    # Without middleware of its own the SDK prints every request and answer.
    client = Client(settings, transport=transport, middleware=Middleware())
    try:
        client.invoke(action, dict(params))
    except RetCodeException as error:
        if passing(error.code):
            return transport.page.body
        message = str(error.message or "without a message")
        for secret in filter(None, (public, private)):
            message = message.replace(secret, "***")
        raise failure(error.code, message, where, action, transport.pause, transport.page) from error
    return transport.page.body


class _Transport:
    """What the SDK sends through: our client in place of its own.

    The SDK's own (requests) cannot be bounded as a whole: it reads a body for as long as bytes come, and it follows
    redirects. It also drops what an HTTP error says. `page` is the last answer, `pause` what it asked for.
    """

    def __init__(self, page: Page, timeout: timedelta) -> None:
        self.page = page
        self.pause: timedelta | None = None
        self._timeout = timeout

    def send(self, asked: Any, **_options: object) -> "_Heard":
        """One call. Raises a ProviderError for an HTTP error, and for what is no answer of this API's."""
        page = self.page
        with streamed(
            "POST",
            asked.url,
            now=page.at,
            timeout=self._timeout,
            headers=asked.headers,
            content=urlencode(asked.data).encode(),
            passing=_ANY_STATUS,
        ) as answer:
            body = first_bytes(answer.chunks, MAX_BODY_BYTES + 1)
        shown = replace(page, body=body[:SHOWN_BYTES])
        if not answer.is_success:
            found = status_error(answer.status, answer.headers, page.name, page.at)
            raise Drift(str(found), shown) if isinstance(found, Drift) else found
        if len(body) > MAX_BODY_BYTES:
            raise Drift(f"{page.name}: the answer is larger than {MAX_BODY_BYTES} bytes", shown)
        self.page, self.pause = replace(page, body=body), retry_after(answer.headers, page.at)
        return _Heard(_envelope(record_of(self.page)))


@dataclass(frozen=True, slots=True)
class _Heard:
    """What the SDK asks of an answer."""

    envelope: Mapping[str, object]
    request_uuid: None = None

    def json(self) -> Mapping[str, object]:
        """Return code and message: the SDK needs no more, and would make floats of the rest."""
        return self.envelope


def _envelope(answer: Record) -> Mapping[str, object]:
    """Drift for an answer that does not say its return code: the SDK would take that for code 0 of an error."""
    return {"RetCode": _code(answer), "Message": answer.raw("Message", None)}


def _code(answer: Record) -> int:
    code = answer.number("RetCode")
    if code != code.to_integral_value():
        raise answer.drift(f"RetCode is not a whole number but {code}")
    return int(code)


def refusal(answer: Record, passing: Callable[[int], bool]) -> int:
    """The return code of an answer that was refused so, and passed on; 0 for a good one. Drift for another refusal."""
    code = _code(answer)
    if code and not passing(code):
        raise answer.drift(f"RetCode {code} in an answer that was taken for a good one")
    return code


def answered(answer: Record) -> Record:
    """The answer, for reading. An error beside a list is still an error, and the list no answer."""
    refusal(answer, lambda _code: False)
    return answer
