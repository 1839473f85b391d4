"""The shapes between a message and the network: what is sent, what came back, and what that means."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, ready to be sent. Its URL and its headers may hold secrets."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. The names of its headers are in lower case; `body` may be but the beginning."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Result(StrEnum):
    """What became of one attempt to tell."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    """It failed, and may go well later."""
    REFUSED = "refused"
    """It failed, and would fail again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reply means for the delivery."""

    result: Result
    why: str = ""
    """One sentence for a person where it failed. It holds no secret and no URL."""
    after: timedelta | None = None
    """The pause that the receiver asks for before a retry, at most an hour; None where it asks for none."""
    gone: bool = False
    """Whether the receiver says that its address is dead, for this message and for every other."""
