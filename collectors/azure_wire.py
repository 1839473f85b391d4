"""The wire to Azure: its clouds, one call of any status, and the same call as what Azure's SDKs send through.

Their own transport would follow redirects, read a body for as long as bytes come, and wait for no slot.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from collectors.azure_machine import NAME
from collectors.base import AuthFailed, Cell, Config, Drift, NotConfigured, Page, ProviderError, Throttled, Unavailable
from collectors.credentials import sendable
from collectors.http import MAX_BODY_BYTES, SHOWN_BYTES, first_bytes, retry_after, status_error, streamed

CLIENT, TENANT, SECRET, SUBSCRIPTION = KEYS = (
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_SUBSCRIPTION_ID",
)
NOT_A_SUCCESS = range(300, 600)
PAUSE = timedelta(minutes=1)
"""After throttling that names no time: by then Resource Manager has refilled, and no poll asks again within itself."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_WRITTEN_BY_SENDER = frozenset(("connection", "accept-encoding", "content-length"))


@dataclass(frozen=True, slots=True)
class Cloud:
    """One of Azure's clouds: accounts, hosts and currency of its own."""

    management: str
    login: str
    retail: str
    currency: str


GLOBAL = Cloud("https://management.azure.com", "https://login.microsoftonline.com", "https://prices.azure.com", "USD")
CHINA = Cloud(
    "https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn", "https://prices.azure.cn", "CNY"
)  # run by 21Vianet


def cloud_of(config: Config) -> Cloud:
    """The cloud of the settings' site."""
    return CHINA if config.site == "cn" else GLOBAL


def endpoint(config: Config, service: str) -> str:
    """Scheme, host and port of a service."""
    own: str = getattr(cloud_of(config), service)
    return config.endpoints.get(service, own).rstrip("/")


def is_open(config: Config, service: str) -> bool:
    """Whether a service is asked over plain HTTP, on this machine. NotConfigured where it is another one."""
    try:
        parts = urlsplit(endpoint(config, service))
    except ValueError as error:
        raise Unavailable(f"{NAME}: the {service} ENDPOINTS setting is not a usable address") from error
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        said = "is plain HTTP to another machine, where no credentials are sent: use https"
        raise NotConfigured(f"{NAME}: the {service} ENDPOINTS setting {said}")
    return parts.scheme == "http"


def rebased(base: str, link: str) -> str | None:
    """The link's path and query at our own host; None where it has none. What an answer links to gets no say in the
    host: a token goes nowhere else, and an alias of the host or a port in the link is no other place.
    """
    try:
        parts = urlsplit(link)
    except ValueError:
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{base}{parts.path}{query}" if parts.path.startswith("/") else None


def keys_of(config: Config) -> Mapping[str, str]:
    """The credentials, to be sent. AuthFailed for what cannot be."""
    keys = {name: sendable(config.environ, name) for name in KEYS}
    for name in (TENANT, SUBSCRIPTION):
        if not keys[name].replace("-", "").replace(".", "").isalnum():
            raise AuthFailed(f"{name} is no id: copy it anew")
    return keys


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer of any status."""

    status: int
    headers: Mapping[str, str]
    page: Page

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return self.status not in NOT_A_SUCCESS

    def failure(self, where: str, now: datetime) -> ProviderError:
        """What its status means, where its code says nothing. A refusal that is no JSON at all is a proxy's."""
        if self.status == 429:
            return Throttled(where, retry_after(self.headers, now) or PAUSE)
        if self.status == 403 and not self._is_json:
            return Unavailable(f"{where}: not Azure's words; does a proxy refuse?")
        found = status_error(self.status, self.headers, where, now)
        if isinstance(found, Drift):
            found.page = replace(self.page, body=self.page.body[:SHOWN_BYTES])
        return found

    @property
    def _is_json(self) -> bool:
        try:
            json.loads(self.page.body)
        except (ValueError, RecursionError):
            return False
        return True

    def error(self) -> tuple[str, str]:
        """Code and message of an error of Resource Manager's form or of OAuth's; "" where it has none."""
        try:
            answer = json.loads(self.page.body)
        except (ValueError, RecursionError):
            return "", ""
        error = answer.get("error") if isinstance(answer, dict) else None
        said = error if isinstance(error, dict) else {"code": error}
        code, message = said.get("code"), said.get("message")
        return code[:80] if isinstance(code, str) else "", message if isinstance(message, str) else ""


@dataclass(frozen=True, slots=True)
class Wire:
    """What the calls of one fetch have in common."""

    config: Config
    cell: Cell
    now: datetime

    @property
    def where(self) -> str:
        """What is asked, for a message."""
        return " ".join(filter(None, (NAME, self.cell.feed, self.cell.place, self.cell.part)))

    def call(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None = None) -> Reply:
        """One call, no redirect, within the settings' time in all: its answer, of whatever status."""
        with streamed(
            method,
            url,
            now=self.now,
            timeout=self.config.timeout,
            headers=headers,
            content=content,
            passing=NOT_A_SUCCESS,
        ) as answer:
            body = first_bytes(answer.chunks, MAX_BODY_BYTES + 1)
        page = Page(self.where, body, self.now, self.cell.place, self.cell.part)
        if len(body) > MAX_BODY_BYTES:
            shown = replace(page, body=body[:SHOWN_BYTES])
            raise Drift(f"{self.where}: the answer is larger than {MAX_BODY_BYTES} bytes", shown)
        return Reply(answer.status, answer.headers, page)

    def transport(self, base: str, read: Callable[[Reply], bytes]) -> Any:
        """For Azure's SDKs: each request goes to `base`, and they are handed what `read` makes of its answer."""
        import requests
        from azure.core.pipeline.transport import RequestsTransport
        from requests.adapters import BaseAdapter
        from urllib3 import HTTPResponse

        call = self.call

        class House(BaseAdapter):
            """Sends by `call`."""

            def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
                body = request.body.encode() if isinstance(request.body, str) else request.body
                sent = {key: text for key, text in request.headers.items() if key.casefold() not in _WRITTEN_BY_SENDER}
                reply = call(request.method or "GET", rebased(base, request.url or "") or base, sent, body or None)
                found = requests.Response()
                found.status_code, found.request, found.url = reply.status, request, request.url or base
                found.headers["Content-Type"] = "application/json"
                found.raw = HTTPResponse(BytesIO(read(reply)), preload_content=False)
                return found

            def close(self) -> None:
                """Nothing is held open."""

        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, House())
        return RequestsTransport(session=session, session_owner=False)
