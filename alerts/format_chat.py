"""Chat rooms: a message as Slack, Discord, Feishu, DingTalk and WeCom take it by their incoming webhooks.

What is told comes from users and providers. So each format has what it takes for that text to be shown as it is,
without mentions and markup. Too long a message is cut at a whole character, before its command and its link.
"""

import hmac
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from urllib.parse import urlencode

from alerts.message import Labelled, Message
from alerts.wire import Request
from alerts.words_offer import printable
from catalog.watches import Format, Lang, Target

_ELLIPSIS = "…"
_HEADERS = MappingProxyType({"content-type": "application/json; charset=utf-8"})
_Json = Mapping[str, object]


def request(target: Target, told: Message, now: datetime) -> Request:
    """What to send to a chat room's webhook. KeyError for a format that is none of a chat room."""
    body, url = _BODIES[target.format](target, told, now), target.url
    if target.format is Format.DINGTALK and target.secret:
        url = _dingtalk_url(url, target.secret, now)
    return Request("POST", url, _HEADERS, _json(body).encode())


def _json(value: object) -> str:
    """Compact, and not in ASCII: WeCom refuses `\\uxxxx` (40033 in its table of codes)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _utf8(text: str) -> int:
    return len(text.encode())


def _utf16(text: str) -> int:
    """What JavaScript counts as characters, never fewer than others do."""
    return len(text.encode("utf-16-le")) // 2


def _in_json(text: str) -> int:
    """The bytes of a text in a JSON string."""
    return _utf8(_json(text)) - 2


_PARAGRAPH = '"}],[{"tag":"text","text":"'


def _in_post(text: str) -> int:
    """The bytes in Feishu's rich text, where each line is a list of its own."""
    return _utf8(_PARAGRAPH) if text == "\n" else _in_json(text)


@dataclass(frozen=True, slots=True)
class _Style:
    """How a room shows text, and how much of it: `most`, as `size` counts."""

    most: int
    size: Callable[[str], int]
    escapes: Mapping[int, str]
    """What stands for a character that would be markup."""
    code_escapes: Mapping[int, str]
    """The same inside of a command."""
    title: str = "{}"
    code: str = "{}"
    link: str = "{label} {url}"

    def text(self, told: Message, keyword: str | None, title: str | None = None) -> str:
        """The message in this style, with the room's keyword in it."""
        word = printable(keyword or "").translate(self.escapes)
        pieces = [*self._title(told.title if title is None else title), *self._lines(told.lines)]
        text = self._fitted(pieces, self._end(told))
        return text if word in text else self._fitted(pieces, self._end(told, word))

    def _title(self, title: str) -> Iterator[str]:
        """Piece by piece, as all that is cut: no piece is ever cut in two."""
        if title:
            before, after = self.title.split("{}")
            yield from (before, *self._escaped(title), f"{after}\n")

    def _lines(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            yield from (*self._escaped(line), "\n")

    def _escaped(self, text: str) -> Iterator[str]:
        return (character.translate(self.escapes) for character in text)

    def _fitted(self, pieces: Iterable[str], end: str) -> str:
        return f"{self._cut(pieces, self.most - self._sized(end))}{end}".rstrip("\n")

    def _end(self, told: Message, word: str = "") -> str:
        """The command, the links and a word, each where it leaves half of the room to what happened."""
        end = f"{word}\n" if word else ""
        for part in [*map(self._link, told.links), *([self._command(told.command)] if told.command else [])]:
            if self._sized(f"{part}\n{end}") <= self.most // 2:
                end = f"{part}\n{end}"
        return end

    def _command(self, command: Labelled) -> str:
        code = self.code.format(command.value.translate(self.code_escapes))
        return f"{command.label.translate(self.escapes)}\n{code}"

    def _link(self, link: Labelled) -> str:
        return self.link.format(label=link.label.translate(self.escapes), url=link.value)

    def _sized(self, text: str) -> int:
        return sum(map(self.size, text))

    def _cut(self, pieces: Iterable[str], room: int) -> str:
        """As many whole pieces as there is room for; an ellipsis where some were left out."""
        kept, used = [], 0
        for piece in pieces:
            used += self._sized(piece)
            kept.append(piece)
            if used > room:
                break
        else:
            return "".join(kept)
        while kept and used > room - self._sized(f"{_ELLIPSIS}\n"):
            used -= self._sized(kept.pop())
        return f"{''.join(kept)}{_ELLIPSIS}\n"


def _full_width(characters: str) -> dict[int, str]:
    """The full-width forms of ASCII characters: they look alike and are no markup. Quotes stay closed."""
    return {ord(one): chr(ord(one) + 0xFEE0) for one in characters}


_PLAIN: Mapping[int, str] = MappingProxyType({})
_SLACK_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_SLACK = _Style(
    # https://api.slack.com/reference/surfaces/formatting#escaping: mrkdwn has three escapes, and none for what else is
    # markup; links are <url|label>.
    # https://api.slack.com/changelog/2018-04-truncating-really-long-messages: text over 40,000 characters is cut off
    most=40_000,
    size=_utf16,
    escapes=MappingProxyType(_SLACK_ESCAPES | _full_width("*`~")),
    title="*{}*",
    code="```{}```",
    code_escapes=MappingProxyType(_SLACK_ESCAPES | _full_width("`")),
    link="<{url}|{label}>",
)
_DISCORD = _Style(
    # https://discord.com/developers/docs/resources/webhook#execute-webhook: content, up to 2000 characters. A slash is
    # escaped so that a foreign address is no link, whose page would be shown.
    most=2000,
    size=_utf16,
    escapes=MappingProxyType({ord(one): f"\\{one}" for one in "\\*_~`|>#<@[]/"}),
    title="**{}**",
    code="```\n{}\n```",
    code_escapes=MappingProxyType(_full_width("`")),
    link="[{label}](<{url}>)",
)
_FEISHU = _Style(
    # https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot: a request of up to 20 KB, of which this is the
    # text; the rest is for the title, the signature and the braces. The text of a `post` is shown as it is.
    most=18_000,
    size=_in_post,
    escapes=_PLAIN,
    code_escapes=_PLAIN,
)
_DINGTALK = _Style(
    # "message too long, exceed 20000 bytes" is error 460101. A message of type `text` is shown as it is.
    # https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages
    most=19_800,
    size=_in_json,
    escapes=_PLAIN,
    code_escapes=_PLAIN,
)
_WECOM = _Style(
    # https://developer.work.weixin.qq.com/document/path/91770: markdown of up to 4096 bytes of UTF-8; <@userid> is a
    # mention. There is no escape, so what could be markup is written full-width.
    most=4096,
    size=_utf8,
    escapes=MappingProxyType(_full_width("<>[]`*#")),
    title="**{}**",
    code_escapes=MappingProxyType(_full_width("<>[]`*#")),
    link="[{label}]({url})",
)


def _slack(target: Target, told: Message, _now: datetime) -> _Json:
    return {"text": _SLACK.text(told, target.keyword)}


def _discord(target: Target, told: Message, _now: datetime) -> _Json:
    """https://discord.com/developers/docs/resources/message#allowed-mentions-object: an empty `parse` pings nobody."""
    return {"content": _DISCORD.text(told, target.keyword), "allowed_mentions": {"parse": []}}


def _feishu(target: Target, told: Message, now: datetime) -> _Json:
    """The keyword stands in the text: of the title it is not documented that it is looked for there."""
    lines = _FEISHU.text(told, target.keyword, title="").split("\n")
    language = "zh_cn" if target.lang is Lang.ZH else "en_us"
    content = [[{"tag": "text", "text": line}] for line in lines]
    post = {language: {"title": told.title, "content": content}}
    signed = _feishu_signature(target.secret, now) if target.secret else {}
    return {**signed, "msg_type": "post", "content": {"post": post}}


def _dingtalk(target: Target, told: Message, _now: datetime) -> _Json:
    return {"msgtype": "text", "text": {"content": _DINGTALK.text(told, target.keyword)}, "at": {"isAtAll": False}}


def _wecom(target: Target, told: Message, _now: datetime) -> _Json:
    return {"msgtype": "markdown", "markdown": {"content": _WECOM.text(told, target.keyword)}}


_BODIES: Mapping[Format, Callable[[Target, Message, datetime], _Json]] = MappingProxyType(
    {
        Format.SLACK: _slack,
        Format.DISCORD: _discord,
        Format.FEISHU: _feishu,
        Format.DINGTALK: _dingtalk,
        Format.WECOM: _wecom,
    }
)


def _feishu_signature(secret: str, now: datetime) -> dict[str, str]:
    """Of no message at all, under a key that holds the time in seconds. From the page above."""
    timestamp = str(int(now.timestamp()))
    return {"timestamp": timestamp, "sign": _hmac(f"{timestamp}\n{secret}", "")}


def _dingtalk_url(url: str, secret: str, now: datetime) -> str:
    """The time in milliseconds, as public code has it; the page could not be opened:
    https://open.dingtalk.com/document/robots/customize-robot-security-settings.
    """
    timestamp = (now - datetime.fromtimestamp(0, now.tzinfo)) // timedelta(milliseconds=1)
    signed = urlencode({"timestamp": timestamp, "sign": _hmac(secret, f"{timestamp}\n{secret}")})
    return f"{url}{'&' if '?' in url else '?'}{signed}"


def _hmac(key: str, text: str) -> str:
    return b64encode(hmac.digest(key.encode(), text.encode(), "sha256")).decode()
