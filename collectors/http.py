"""One HTTP client for the providers that need no SDK: what an answer's status means, once for all of them."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from time import monotonic

from collectors.base import AuthFailed, Drift, Page, ProviderError, Throttled, Unavailable, Unchanged, calling
from collectors.unzipped import ACCEPTED, plain

CONNECT_S = 5.0
MAX_BODY_BYTES = 64 * 1024 * 1024
SHOWN_BYTES = 64 * 1024
"""How much of an answer that cannot be used is kept for a report."""
_MOST_DIGITS = 9
"""Of the seconds in `Retry-After`: more are read as so many nines. How long a pause is kept is not decided here."""
_CONDITIONS = ("if-none-match", "if-modified-since")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer with a 2xx status. The names of its headers are in lower case."""

    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """An answer whose body is still to come."""

    status: int
    headers: Mapping[str, str]
    """Their names in lower case."""
    chunks: Iterator[bytes]
    """The body, decompressed. Unavailable where it is cut off, or once the whole call takes longer than it may."""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


def request(
    method: str,
    url: str,
    *,
    now: datetime,
    timeout: timedelta,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> Answer:
    """One call, no retry, no redirect, within `timeout` in all. Raises ProviderError by the status, or Unchanged."""
    with streamed(method, url, now=now, headers=headers, content=content, timeout=timeout) as answer:
        body = first_bytes(answer.chunks, MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            where = f"{method} {_shown(url)}"
            page = Page(where, body[:SHOWN_BYTES], now)
            raise Drift(f"{where}: the answer is larger than {MAX_BODY_BYTES} bytes", page)
        return Answer(body, answer.headers)


@contextmanager
def streamed(
    method: str,
    url: str,
    *,
    now: datetime,
    timeout: timedelta,
    total: timedelta | None = None,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    passing: Container[int] = (),
) -> Iterator[OpenAnswer]:
    """An open answer with a 2xx status, to be read piece by piece inside the block; the same errors as `request`.

    `timeout` is the longest wait for anything, `total` (else the same) what the whole call may take. An answer whose
    status is in `passing` is handed over as it is: the caller knows better what that status means.
    """
    import httpx2

    where = f"{method} {_shown(url)}"
    seconds = timeout.total_seconds()
    limits = httpx2.Timeout(seconds, connect=min(CONNECT_S, seconds))
    sent = {"Accept-Encoding": ACCEPTED, **(headers or {})}
    calling()
    in_time = deadline(total or timeout, where)
    try:
        # A redirect is an error like any status that was not learnt: no other host is sent the key.
        with httpx2.stream(
            method, url, headers=sent, content=content, timeout=limits, follow_redirects=False
        ) as answer:
            body = plain(answer.iter_raw(), answer.headers.get("content-encoding", ""), where)
            opened = OpenAnswer(answer.status_code, dict(answer.headers), in_time(body))
            if not opened.is_success and opened.status not in passing:
                raise _refusal(opened, where, now, {name.lower() for name in headers or ()})
            yield opened
    except httpx2.InvalidURL as error:
        raise Unavailable(f"{where}: not a usable address; look at the provider's ENDPOINTS setting") from error
    except httpx2.TimeoutException as error:
        raise Unavailable(f"{where}: no answer in time") from error
    except httpx2.HTTPError as error:
        raise Unavailable(f"{where}: {type(error).__name__}") from error


def deadline(total: timedelta, where: str) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """From now on the clock runs: what is returned hands chunks on, or raises Unavailable once `total` is over."""
    end = monotonic() + total.total_seconds()

    def in_time(chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if monotonic() > end:
                raise Unavailable(f"{where}: no whole answer within {total.total_seconds():g} s")
            yield chunk

    return in_time


def first_bytes(chunks: Iterable[bytes], most: int) -> bytes:
    """The bytes of the chunks, no more than `most`; what comes after is left unread."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= most:
            break
    return bytes(body[:most])


def _refusal(answer: OpenAnswer, where: str, now: datetime, sent: Container[str]) -> ProviderError | Unchanged:
    """What a status that is not 2xx means to who sent these headers (their names in lower case)."""
    if answer.status == 304 and any(name in sent for name in _CONDITIONS):
        return Unchanged()
    if answer.status in (401, 403) and "authorization" not in sent:
        return Unavailable(f"{where}: HTTP {answer.status}, though no credentials are needed; does a proxy refuse?")
    found = status_error(answer.status, answer.headers, where, now)
    if isinstance(found, Drift):
        found.page = Page(where, first_bytes(answer.chunks, SHOWN_BYTES), now)
    return found


def status_error(status: int, headers: Mapping[str, str], where: str, now: datetime) -> ProviderError:
    """What a status that is not 2xx means to a call that had credentials and made no condition."""
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
    if re.fullmatch("[0-9]+", value):
        return timedelta(seconds=int(value) if len(value) <= _MOST_DIGITS else 10**_MOST_DIGITS - 1)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    pause = (until if until.tzinfo else until.replace(tzinfo=UTC)) - now
    return max(pause, timedelta(0))


def _shown(url: str) -> str:
    """The address without its query and user info, which may hold a key."""
    bare = url.split("?", 1)[0]
    scheme, mark, rest = bare.partition("://")
    return scheme + mark + rest.rsplit("@", 1)[-1] if mark else bare
