"""Whom Google is told that we are: an API key for the price list alone, Application Default Credentials for all."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collectors.base import AuthFailed, Config, NotConfigured, Unavailable, calling
from collectors.credentials import obtained, sendable, stated
from collectors.http import MAX_BODY_BYTES, SHOWN_BYTES, deadline, first_bytes
from collectors.sdk import extra, log_with_ours

KEY, FILE, PROJECT = "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"
SCOPES = (
    "https://www.googleapis.com/auth/compute.readonly",
    "https://www.googleapis.com/auth/cloud-billing.readonly",
)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PERSON = "authorized_user"
"""What `gcloud auth application-default login` writes: Google wants a quota project with each of its calls."""
STAND_IN = "loopback"
"""What is sent to a server on this machine that is asked over plain HTTP, in place of a token of Google's."""


def is_loopback(config: Config, service: str) -> bool:
    """Whether the service is asked over plain HTTP on this machine, where any credentials do."""
    try:
        parts = urlsplit(config.endpoints.get(service, ""))
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname in LOOPBACK


def _refuse_plain(config: Config, service: str) -> None:
    """NotConfigured for an address over plain HTTP that is another machine's."""
    if config.endpoints.get(service, "").casefold().startswith("http:") and not is_loopback(config, service):
        said = "is plain HTTP to another machine, where no credentials are sent: use https"
        raise NotConfigured(f"gcp: the {service} ENDPOINTS setting {said}")


def may_ask(config: Config, service: str) -> bool:
    """Whether the settings hold what the service wants: for Compute Engine an account and a project, else any."""
    environ = config.environ
    account = bool(stated(environ, FILE))
    if is_loopback(config, service):
        return account or bool(stated(environ, KEY))
    if service == "billing":
        return account or bool(stated(environ, KEY))
    return account and bool(stated(environ, PROJECT))


def project_of(config: Config) -> str:
    """The project to ask about."""
    project = sendable(config.environ, PROJECT)
    if not project and not is_loopback(config, "compute"):
        raise NotConfigured(f"set {PROJECT}")
    return project or "gpufare"


def headers_of(config: Config, service: str) -> Mapping[str, str]:
    """The headers that say who we are. Asks Google for a token where an account is set and this is Google."""
    key = sendable(config.environ, KEY)
    _refuse_plain(config, service)
    if key and (service == "billing" or is_loopback(config, service)):
        return {"X-Goog-Api-Key": key}
    if is_loopback(config, service):
        return {"Authorization": f"Bearer {STAND_IN}"}
    return {"Authorization": f"Bearer {_token(stated(config.environ, FILE), config.timeout)}"}


def _token(path: str, timeout: timedelta) -> str:
    """An access token, good for longer than any poll."""
    with extra("gcp"):
        import requests
        from google.auth.exceptions import GoogleAuthError, TransportError

    log_with_ours("google")
    credentials = _credentials(path)
    with requests.Session() as session:
        try:
            credentials.refresh(_asked_once(session, timeout))
        except TransportError as error:
            raise Unavailable("gcp: no token could be had: nobody answers at the credentials' address") from error
        except GoogleAuthError as error:
            raise AuthFailed(f"gcp: the credentials in {FILE} were refused") from error
    return obtained(str(credentials.token))


def _asked_once(session: Any, timeout: timedelta) -> Any:
    """google-auth's transport with our time, each call in its slot. What it would ask again is told at once."""
    from google.auth.transport.requests import Request

    where = "gcp token"
    transport = Request(session)

    def asked(url: str, method: str = "GET", body: object = None, headers: object = None, **_: object) -> Any:
        calling()
        guarded(session, deadline(timeout, where), where)
        answer = transport(url=url, method=method, body=body, headers=headers, timeout=timeout.total_seconds())
        by_proxy = answer.status == 403 and not is_json(answer.data)
        if answer.status in (408, 429) or answer.status >= 500 or by_proxy:
            raise Unavailable(f"{where}: HTTP {answer.status}: none could be had")
        return answer

    return asked


def guarded(session: Any, in_time: Callable[[Iterable[bytes]], Iterator[bytes]], where: str) -> None:
    """Have a session of `requests` read each body within the call's time, and follow no redirect.

    By itself it would read for as long as bytes come, and send the key to another host.
    """
    from urllib3.exceptions import HTTPError

    def read(response: Any, **_: object) -> None:
        try:
            body = first_bytes(in_time(_chunks(response.raw)), MAX_BODY_BYTES)
        except HTTPError as error:
            raise Unavailable(f"{where}: the answer broke off ({type(error).__name__})") from error
        finally:
            response.close()
        response._content, response._content_consumed = body, True  # noqa: SLF001 - where `requests` keeps it

    session.get_redirect_target = lambda _answer: None
    session.stream = True
    session.hooks["response"] = [read]


def _chunks(raw: Any) -> Iterator[bytes]:
    """What has come so far, again and again to the end. `iter_content` would wait until a whole piece is there."""
    while chunk := raw.read1(SHOWN_BYTES, decode_content=True):
        yield chunk


def is_json(body: bytes) -> bool:
    """Whether it is JSON of any form: a refusal of Google's is."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _credentials(path: str) -> Any:
    """The credentials in a file: of a service account, or of another cloud's workload."""
    with extra("gcp"):
        from google.auth import identity_pool
        from google.oauth2 import service_account

    makers: dict[str, Any] = {
        "service_account": service_account.Credentials.from_service_account_info,
        "external_account": identity_pool.Credentials.from_info,
    }
    try:
        told = json.loads(Path(path).read_text("utf-8"))
        kind = told.get("type")
    except (OSError, ValueError, AttributeError) as error:
        raise AuthFailed(f"gcp: {FILE} names no file with credentials in JSON") from error
    if kind == PERSON:
        raise NotConfigured(f"gcp: {FILE}: a person's credentials are not read: name a service account's file")
    if kind not in makers:
        raise AuthFailed(f"gcp: {FILE}: credentials of the type {kind!r:.40} are not read; use {', '.join(makers)}")
    try:
        return makers[kind](told, scopes=SCOPES)
    except (ValueError, KeyError, TypeError) as error:
        raise AuthFailed(f"gcp: {FILE}: the credentials are not whole") from error
