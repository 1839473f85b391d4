"""How a receiver of webhooks answers: as its kind does, or as it was told to."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from simcloud.wire import Reply

KINDS = {
    "ok": "takes what comes",
    "status": "answers HTTP `status`, with Retry-After when `retry_after_s` is set",
    "half": "answers so every other time, beginning with the next",
    "slow": "takes it, and answers after `delay_s`",
    "close": "closes the connection without an answer",
    "redirect": "answers 302 to `location`",
    "error": "a chat room's path: the room's own error, in HTTP 200 (Discord has none there, and says 404)",
}


class _Room(NamedTuple):
    took: Reply
    error: Reply
    forged: Reply | None = None
    """To a signature that is not valid; None where the room does not sign."""


def text(status: int, words: str, headers: Mapping[str, str] | None = None) -> Reply:
    """An answer in plain text."""
    return Reply(status, words.encode(), "text/plain; charset=utf-8", headers or {})


def as_json(status: int, value: object) -> Reply:
    """An answer in JSON."""
    return Reply(status, json.dumps(value).encode(), "application/json")


_ROOMS = {
    "slack": _Room(text(200, "ok"), text(200, "no_service")),
    "discord": _Room(text(204, ""), as_json(404, {"message": "Unknown Webhook", "code": 10015})),
    "feishu": _Room(
        as_json(200, {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"}),
        as_json(200, {"code": 19024, "data": {}, "msg": "Key Words Not Found"}),
        as_json(200, {"code": 19021, "data": {}, "msg": "sign match fail or timestamp is not within one hour"}),
    ),
    "dingtalk": _Room(
        as_json(200, {"errcode": 0, "errmsg": "ok"}),
        as_json(200, {"errcode": 310000, "errmsg": "keywords not in content"}),
        as_json(200, {"errcode": 310000, "errmsg": "sign not match"}),
    ),
    "wecom": _Room(
        as_json(200, {"errcode": 0, "errmsg": "ok"}),
        as_json(200, {"errcode": 93000, "errmsg": "invalid webhook url"}),
    ),
}
"""By the first part of the path."""
_ANYBODY = _Room(text(200, "ok"), text(500, "error"))


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a path answers; see `KINDS`."""

    kind: str = "ok"
    status: int = 503
    retry_after_s: int | None = None
    delay_s: float = 2.0
    location: str = "/elsewhere"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}: one of {', '.join(KINDS)}")
        if not 200 <= self.status <= 599:
            raise ValueError(f"status {self.status} is no answer: 200 to 599")
        if not 0 <= self.delay_s <= 3600:
            raise ValueError(f"delay_s {self.delay_s} is no delay: 0 to 3600")

    def reply(self, path: str, number: int, *, forged: bool = False) -> Reply | None:
        """What is answered at the path to the request of this number, counted from 0; None for nothing. `forged`: its
        signature is not valid, which rooms that sign refuse.
        """
        room = _ROOMS.get(path.lstrip("/").partition("/")[0], _ANYBODY)
        if self.kind == "close":
            return None
        if self.kind == "redirect":
            return text(HTTPStatus.FOUND, "", {"Location": self.location})
        if self.kind == "status" or (self.kind == "half" and number % 2 == 0):
            pause = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
            return text(self.status, f"told to answer {self.status}", pause)
        if self.kind == "error":
            return room.error
        return room.forged if forged and room.forged is not None else room.took
