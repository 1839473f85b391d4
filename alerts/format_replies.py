"""What chat rooms mean by their answers: an error may come with HTTP 200, and a limit with HTTP 400.

A code that no table has is tried again: attempts are bounded, and a limit under a new number must lose no message.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from alerts.wire import Outcome, Reply, Result
from catalog.watches import Format

Json = Mapping[str, object]
SAYS_OK = b"ok"
"""Slack's whole answer to what it took, as others quote its page, which could not be opened:
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks.
"""


@dataclass(frozen=True, slots=True)
class _Room:
    """The codes in a room's answers. The first name that an answer has tells; 0 is success."""

    names: tuple[str, ...]
    words: str
    """Where the answer says in words what is wrong."""
    later: Mapping[int, timedelta | None]
    """What passes, with the pause that the documents state for it."""
    never: Mapping[int, str]
    """What does not, and what to do."""


_FEISHU = _Room(
    # https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot; StatusCode is of the older answer.
    # 11232 is the bot's own limit. 9499 is told of a body that is no message, and also of "too many request".
    # https://open.feishu.cn/document/server-docs/api-call-guide/frequency-control: 99991400, with HTTP 429 or 400
    names=("code", "StatusCode"),
    words="msg",
    later=MappingProxyType({9499: None, 11232: None, 99991400: None}),
    never=MappingProxyType(
        {
            19001: "the address is not a bot's; copy it from the bot again",
            19002: "the message is not understood",
            19021: "the signature does not match; compare the secret, and this machine's clock",
            19022: "this machine's address is not on the bot's list",
            19024: "the bot's keyword is missing; set it as the target's keyword",
        }
    ),
)
_DINGTALK = _Room(
    # https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages: the codes; 20 messages a minute, else
    # ten minutes of none. 310000, 130101 ("send too fast"), 410100 and 460101 ("message too long") are known from what
    # others quote alone, as https://blog.csdn.net/jialiuyang/article/details/118615052 does; 300001 and 300005 are
    # "token is not exist", as met with.
    names=("errcode",),
    words="errmsg",
    later=MappingProxyType({-1: None, 130101: timedelta(minutes=10), 410100: timedelta(minutes=10)}),
    never=MappingProxyType(
        {
            300001: "the access token is not known; copy the address from the robot again",
            300005: "the access token is not known; copy the address from the robot again",
            310000: "its security settings refuse it: compare keyword, secret, this machine's address and clock",
            400013: "the group was dissolved",
            400101: "the access token is not known; copy the address from the robot again",
            400102: "the robot is switched off",
            400105: "the message is not understood",
            400106: "the robot is not in the group any more",
            430101: "it refuses the links in the message",
            430102: "it refuses the text of the message",
            430103: "it refuses the pictures of the message",
            430104: "it refuses the message",
            460101: "the message is too long",
        }
    ),
)
_WECOM = _Room(
    # https://developer.work.weixin.qq.com/document/path/90455: the codes; -1 is "busy", to be tried again. A bot may
    # send 20 messages a minute: https://developer.work.weixin.qq.com/document/path/91770
    names=("errcode",),
    words="errmsg",
    later=MappingProxyType({-1: None, 45009: timedelta(minutes=1), 45033: None}),
    never=MappingProxyType(
        {
            40008: "the message is not understood",
            40033: "the message has characters that it does not take",
            44004: "the message is empty",
            45002: "the message is too long",
            93000: "the address is not a bot's, or the bot was removed; copy the address from the bot again",
        }
    ),
)
_ROOMS: Mapping[Format, _Room] = MappingProxyType(
    {Format.FEISHU: _FEISHU, Format.DINGTALK: _DINGTALK, Format.WECOM: _WECOM}
)


def told_by(room: Format, reply: Reply) -> Outcome | None:
    """What the body says, whatever the status; None where this room says nothing there, or nothing that is understood.

    `why` is what to do, or the room's own words: they may repeat what they were sent.
    """
    rules = _ROOMS.get(room)
    answer = json_of(reply.body)
    code = _code(answer, rules.names) if rules else None
    if rules is None or code is None:
        return None
    said = answer.get(rules.words)
    why = f"code {code}: {rules.never.get(code) or (said if isinstance(said, str) else 'no reason given')}"
    if code == 0:
        return Outcome(Result.ACCEPTED)
    return Outcome(Result.REFUSED, why) if code in rules.never else Outcome(Result.RETRY, why, rules.later.get(code))


def is_limit(room: Format, reply: Reply) -> bool:
    """Whether the body says that too much was sent in too short a time, or that the room is busy."""
    rules = _ROOMS.get(room)
    return rules is not None and _code(json_of(reply.body), rules.names) in rules.later


def must_say(room: Format) -> bool:
    """Whether the room tells in the body whether it took the message, so that a status is not enough."""
    return room in _ROOMS


def json_of(body: bytes) -> Json:
    """The JSON object that a body is; an empty one for whatever is none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # a hostile body may be nested as deep as it is long
        return {}
    return answer if isinstance(answer, dict) else {}


def _code(answer: Json, names: tuple[str, ...]) -> int | None:
    stated = next((answer[name] for name in names if name in answer), None)
    return stated if isinstance(stated, int) and not isinstance(stated, bool) else None
