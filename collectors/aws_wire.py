"""What boto3 sends through: our client in place of its own, which would read a body of any size for as long as bytes
come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from collectors.base import Drift, Page
from collectors.credentials import obtained
from collectors.http import MAX_BODY_BYTES, SHOWN_BYTES, first_bytes, streamed

_ANY_STATUS = range(1000)


def send_bounded(session: Any, timeout: timedelta, now: datetime) -> None:
    """Have every client that a session of botocore makes send by our client: within `timeout` in all, following no
    redirect, 64 MiB at most. Those that fetch the credentials of a profile too.

    What goes wrong on the way is raised as a ProviderError out of the client's own method.
    """
    session.register("before-send", _Sender(timeout, now).send)


@dataclass(frozen=True, slots=True)
class _Sender:
    timeout: timedelta
    now: datetime

    def send(self, request: Any, **_: object) -> Any:
        """The answer to a prepared request: botocore then sends nothing. It is signed, so it goes out as it is."""
        from botocore.awsrequest import AWSResponse

        method, body = request.method, request.body
        content = body.encode() if isinstance(body, str) else body
        headers = _headers(request.headers)
        obtained(headers.get("X-Amz-Security-Token", ""))  # that of a role is in no variable
        with streamed(
            method,
            request.url,
            now=self.now,
            timeout=self.timeout,
            headers=headers,
            content=content,
            passing=_ANY_STATUS,
        ) as answer:
            found = first_bytes(answer.chunks, MAX_BODY_BYTES + 1)
        if len(found) > MAX_BODY_BYTES:
            where = f"aws {method} {request.url.partition('?')[0]}"
            page = Page(where, found[:SHOWN_BYTES], self.now)
            raise Drift(f"{where}: the answer is larger than {MAX_BODY_BYTES} bytes", page)
        return AWSResponse(request.url, answer.status, answer.headers, _Read(found))


def _headers(prepared: Mapping[str, str | bytes]) -> dict[str, str]:
    """Botocore holds some of them as bytes."""
    return {name: text if isinstance(text, str) else text.decode() for name, text in prepared.items()}


@dataclass(frozen=True, slots=True)
class _Read:
    """A body as botocore asks for it."""

    body: bytes

    def stream(self) -> Iterator[bytes]:
        """All of it."""
        yield self.body
