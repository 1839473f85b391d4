"""Google's two APIs: Compute Engine through its SDK, the Cloud Billing catalogue by plain HTTP; what their errors mean.

One attempt a call, within the time it may take in all: retries are ours. The SDK's own would go on for ten minutes,
whatever its `timeout` says. An answer is read as it came, not as the SDK understands it: the SDK drops fields that it
does not know. Sources: google-cloud-compute 1.57.0; Google's pages on errors and quotas.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from urllib.parse import urlencode, urlsplit

from collectors.base import (
    PAGE_BYTES,
    AuthFailed,
    Config,
    Drift,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
    calling,
)
from collectors.gcp_auth import PROJECT, guarded, headers_of, is_json, project_of
from collectors.http import MAX_BODY_BYTES, SHOWN_BYTES, deadline, first_bytes, retry_after, status_error, streamed
from collectors.reading import Record, record_of
from collectors.sdk import extra, log_with_ours

NAME = "gcp"
COMPUTE, BILLING = "compute", "billing"
HOSTS = {COMPUTE: "https://compute.googleapis.com", BILLING: "https://cloudbilling.googleapis.com"}
ALL_OK = frozenset(range(400, 600))
ADVICE = "compute.advice."
MOST_RESULTS = 500  # the most that Compute Engine puts into one page

_THROTTLED = frozenset(
    {"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "RATE_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED"}
)
"""Compute Engine says the first with HTTP 403, not 429."""
_NOT_ENABLED = frozenset({"accessNotConfigured", "SERVICE_DISABLED", "API_KEY_SERVICE_BLOCKED", "BILLING_DISABLED"})
_REFUSED = frozenset({"API_KEY_INVALID", "keyInvalid", "keyExpired", "authError", "ACCESS_TOKEN_EXPIRED"})


class _Asking:
    """Calls of one fetch, and the time that has passed since it began."""

    def __init__(self, config: Config, now: datetime) -> None:
        self._config, self._began_at, self._began_s = config, now, monotonic()

    @property
    def _now(self) -> datetime:
        return self._began_at + timedelta(seconds=monotonic() - self._began_s)

    def _listing(self, ask: Callable[[str], Page]) -> Iterator[Record]:
        """The answers of a paged listing. Drift where a page token comes twice: such a list has no end."""
        token, seen = "", set[str]()
        while True:
            answer = record_of(ask(token))
            token = answer.text_or_none("nextPageToken") or ""
            yield answer
            if not token:
                return
            if token in seen:
                raise answer.drift("the same page token came twice, the list is not whole")
            seen.add(token)


class Compute(_Asking):
    """Compute Engine of one project."""

    def __init__(self, config: Config, now: datetime) -> None:
        super().__init__(config, now)
        self._project = project_of(config)
        self._headers = headers_of(config, COMPUTE)
        self._clients: dict[str, Any] = {}
        self._status, self._answer_headers, self._body = 0, dict[str, str](), b""

    def listing(self, client: str, method: str, resource: str) -> Iterator[Record]:
        """The pages of a listing, such as `RegionsClient`, `list`, `regions`."""
        return self._listing(lambda token: self._page(client, method, resource, token))

    def listing_or_refusal(self, client: str, method: str, resource: str) -> Sequence[Record] | NotServed:
        """The same, or why this account may not read it. Any other failure is raised."""
        first = self._answered(client, method, f"compute.{resource}.list", _from(""))
        if isinstance(first, NotServed):
            return first
        whole = _or_raised(first)
        return list(self._listing(lambda token: self._page(client, method, resource, token) if token else whole))

    def _page(self, client: str, method: str, resource: str, token: str) -> Page:
        return self.asked(client, method, f"compute.{resource}.list", _from(token))

    def asked(self, name: str, method: str, right: str, asked: Mapping[str, Any]) -> Page:
        """One call; the answer as it came."""
        return _or_raised(self._answered(name, method, right, asked))

    def _answered(self, name: str, method: str, right: str, asked: Mapping[str, Any]) -> Page | ProviderError:
        """The same, or what Google's refusal means."""
        client = self._client(name)
        import requests
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.protobuf.json_format import ParseError

        where = f"{NAME} {right}"
        call = getattr(client, method)
        seconds = self._config.timeout.total_seconds()
        calling()
        self._status, self._answer_headers, self._body = 0, {}, b""
        session = client.transport._session  # noqa: SLF001 - there is no other way to a body in bounded time
        guarded(session, deadline(self._config.timeout, where), where)
        session.hooks["response"].append(self._remember)
        try:
            call(request={"project": self._project, **asked}, timeout=seconds, retry=None)
        except (GoogleAPICallError, GoogleAuthError, ParseError, UnicodeDecodeError) as error:
            # Their own text may quote the request. Where the answer is no JSON, or no text, who reads it says so.
            if not self._status:
                raise Unavailable(f"{where}: {type(error).__name__}") from error
        except requests.RequestException as error:
            raise Unavailable(f"{where}: {type(error).__name__}") from error
        page = Page(where, self._body, self._now)
        good = 200 <= self._status < 300
        return page if good else failure(self._status, self._answer_headers, page, right)

    def _client(self, name: str) -> Any:
        if name not in self._clients:
            self._clients[name] = self._connected(name)
        return self._clients[name]

    def _connected(self, name: str) -> Any:
        with extra(NAME):
            from google.auth.credentials import Credentials
            from google.auth.exceptions import RefreshError
            from google.cloud import compute_v1

        sent = self._headers

        class Fixed(Credentials):
            """What was found before the first call. It is never had anew behind our back, which would be a call."""

            def before_request(self, _request: object, _method: str, _url: str, headers: dict[str, str]) -> None:
                headers.update(sent)

            def refresh(self, _request: object) -> None:
                raise RefreshError("refused")  # type: ignore[no-untyped-call]

        log_with_ours("google")
        at = endpoint(self._config, COMPUTE)
        fixed = Fixed()  # type: ignore[no-untyped-call]  # the SDK has no types
        return getattr(compute_v1, name)(credentials=fixed, client_options={"api_endpoint": at})

    def _remember(self, response: Any, **_: object) -> None:
        """Keep the answer as it came: the SDK's errors do not say what it was."""
        self._status, self._body = response.status_code, response.content
        self._answer_headers = {name.lower(): value for name, value in response.headers.items()}


def _from(token: str) -> Mapping[str, Any]:
    """What asks for a page of a listing."""
    return {"max_results": MOST_RESULTS} | ({"page_token": token} if token else {})


def _or_raised(found: Page | ProviderError) -> Page:
    if isinstance(found, ProviderError):
        raise found
    return found


class Billing(_Asking):
    """The Cloud Billing catalogue: public prices, for whoever has an API key or an account."""

    def __init__(self, config: Config, now: datetime) -> None:
        super().__init__(config, now)
        self._headers = headers_of(config, BILLING)

    def skus(self, service: str) -> Iterator[Record]:
        """The pages of a service's SKUs, in USD."""

        def ask(token: str) -> Page:
            asked = {"pageSize": "5000", "currencyCode": "USD"} | ({"pageToken": token} if token else {})
            return self._asked(f"/v1/services/{service}/skus?{urlencode(asked)}")

        return self._listing(ask)

    def _asked(self, path: str) -> Page:
        where, url = f"{NAME} cloudbilling skus", endpoint(self._config, BILLING) + path
        with streamed(
            "GET", url, now=self._now, timeout=self._config.timeout, headers=self._headers, passing=ALL_OK
        ) as answer:
            body = first_bytes(answer.chunks, MAX_BODY_BYTES)
            page = Page(where, body, self._now)
            if not answer.is_success:
                raise failure(answer.status, answer.headers, page, "the Cloud Billing API")
            return page


def endpoint(config: Config, service: str) -> str:
    """Scheme, host and port of a service."""
    stated = config.endpoints.get(service, HOSTS[service]).rstrip("/")
    parts = urlsplit(stated)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Unavailable(f"{NAME}: the {service} ENDPOINTS setting is not a usable address")
    return stated


def failure(status: int, headers: Mapping[str, str], page: Page, right: str) -> ProviderError:
    """What an error of Google's means. `right` is what the call needs. `page.at` is when it came."""
    reasons, message = _said(page.body)
    where = f"{page.name}: HTTP {status} {' '.join(sorted(reasons))}".rstrip()
    if status == 429 or (status == 403 and reasons & _THROTTLED):
        return Throttled(where, retry_after(headers, page.at) or _next_minute(page.at))
    if reasons & _NOT_ENABLED:
        return NotServed(f"{where}: the API is not enabled for this project or key; enable it, then `gpufare sync gcp`")
    if reasons & _REFUSED:
        return AuthFailed(f"{where}: the credentials were refused")
    if status == 403 and message is not None:
        return NotServed(f"{where}: the credentials lack {right}; grant it, then run `gpufare sync gcp`")
    if status == 400 and right.startswith(ADVICE):
        return NotServed(f"{where}: Google gives no such advice here: {message or '':.200}; asked again in a day")
    if status == 404 and message is not None:
        return NotServed(f"{where}: Google knows no such thing; look at {PROJECT}")
    if status == 400 and message is not None:
        return Drift(f"{where}: {message:.200}", _short(page))
    if status == 403 and not is_json(page.body):
        return Unavailable(f"{where}: not Google's words; does a proxy refuse?")
    found = status_error(status, headers, page.name, page.at)
    return Drift(str(found), _short(page)) if isinstance(found, Drift) else found


def _short(page: Page) -> Page:
    return Page(page.name, page.body[:SHOWN_BYTES], page.at)


def _next_minute(at: datetime) -> timedelta:
    """Until the quota of so many calls a minute is whole again: Google refills it at the full minute."""
    return timedelta(minutes=1) - timedelta(seconds=at.second, microseconds=at.microsecond)


def _said(body: bytes) -> tuple[frozenset[str], str | None]:
    """The reasons that an error states, and its message; None where the body is no error of Google's."""
    try:
        error = json.loads(body)["error"]
        listed = [*error.get("errors", ()), *error.get("details", ())]
        reasons = {one.get("reason") for one in listed} | {error.get("status")}
        return frozenset(one for one in reasons if isinstance(one, str)), str(error.get("message", ""))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return frozenset(), None


def page_of(
    name: str, region: str, body: Mapping[str, object], now: datetime, skipped: Mapping[str, int], missing: str
) -> Page:
    """A region's page of what was read from several answers. Drift where it is larger than any can be."""
    dropped = {reason: count for reason, count in skipped.items() if count}
    page = Page(f"{name} {region}", dumped(body), now, region, skipped=dropped, missing=missing)
    if len(page.body) > PAGE_BYTES:
        said = f"{NAME} {name} {region}: {len(page.body)} bytes are far more than a region ever had"
        raise Drift(said, _short(page))
    return page


def dumped(value: object) -> bytes:
    """JSON of what was read; numbers with a point become texts, so that they stay exact."""
    return json.dumps(value, default=str).encode()
