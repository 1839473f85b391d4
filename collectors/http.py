"""One HTTP client for the providers that need no SDK: what an answer's status means, once for all of them."""

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from collectors.base import AuthFailed, Drift, ProviderError, Throttled, Unavailable, Unchanged

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 5.0
READ_TIMEOUT = timedelta(seconds=30)
MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer with a 2xx status."""

    body: bytes
    headers: Mapping[str, str]


def request(
    method: str,
    url: str,
    *,
    now: datetime,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    timeout: timedelta = READ_TIMEOUT,
) -> Answer:
    """One call, no retry, no redirect. Raises ProviderError by the status, Unchanged for 304."""
    with streamed(method, url, now=now, headers=headers, content=content, timeout=timeout) as answer:
        body = bytearray()
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise Drift(f"{method} {_shown(url)}: the answer is larger than {MAX_BODY_BYTES} bytes")
        return Answer(bytes(body), dict(answer.headers))


@contextmanager
def streamed(
    method: str,
    url: str,
    *,
    now: datetime,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    timeout: timedelta = READ_TIMEOUT,
    passing: Container[int] = (),
) -> "Iterator[httpx2.Response]":
    """An open answer with a 2xx status, to be read piece by piece inside the block; the same errors as `request`.

    An answer whose status is in `passing` is handed over as it is: the caller knows better what that status means.
    """
    import httpx2

    where = f"{method} {_shown(url)}"
    seconds = timeout.total_seconds()
    limits = httpx2.Timeout(seconds, connect=min(CONNECT_S, seconds))
    try:
        with httpx2.stream(method, url, headers=headers, content=content, timeout=limits) as answer:
            if not answer.is_success and answer.status_code not in passing:
                raise status_error(answer.status_code, dict(answer.headers), where, now)
            yield answer
    except httpx2.InvalidURL as error:
        raise Unavailable(f"{where}: not a usable address; look at the provider's ENDPOINTS setting") from error
    except httpx2.TimeoutException as error:
        raise Unavailable(f"{where}: no answer in time") from error
    except httpx2.HTTPError as error:
        raise Unavailable(f"{where}: {type(error).__name__}") from error


def status_error(status: int, headers: Mapping[str, str], where: str, now: datetime) -> ProviderError | Unchanged:
    """What a status that is not 2xx means to the caller."""
    if status == 304:
        return Unchanged()
    said = f"{where}: HTTP {status}"
    if status in (401, 403):
        return AuthFailed(f"{said}: the credentials were refused")
    if status == 429:
        return Throttled(f"{said}: too many calls", retry_after(headers, now))
    if status == 408 or status >= 500:
        return Unavailable(said)
    return Drift(f"{said}: not an answer this version knows")


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """The pause that `Retry-After` asks for, in seconds or as a date; None where it does not."""
    value = {name.lower(): text for name, text in headers.items()}.get("retry-after", "").strip()
    if value.isdecimal():
        return timedelta(seconds=int(value))
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(until.astimezone(UTC) - now, timedelta(0))


def _shown(url: str) -> str:
    """The address without its query and user info, which may hold a key."""
    bare = url.split("?", 1)[0]
    scheme, mark, rest = bare.partition("://")
    return scheme + mark + rest.rsplit("@", 1)[-1] if mark else bare
