"""From an event to a request in a target's form, and from the reply to what became of it. No I/O, no retries."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from math import ceil, isfinite
from urllib.parse import quote, unquote, urlsplit

from alerts import format_chat, format_standard
from alerts.format_replies import SAYS_OK, is_limit, json_of, must_say, told_by
from alerts.message import message
from alerts.wire import Outcome, Reply, Request, Result
from alerts.words_offer import printable
from catalog.watches import Event, Format, Target

LONGEST_PAUSE = timedelta(hours=1)
"""Whatever a receiver asks for: what it is told would be old by then."""
_MOST_SHOWN = 200
"""Of a receiver's words, in characters."""
_SHORTEST_KEY = 8
"""A shorter part of an address is a word of its path, and no key."""
_SECONDS = re.compile(r"[0-9]{1,99}(\.[0-9]*)?")
_PAUSES = ("retry-after", "x-ogw-ratelimit-reset")
"""The second is Feishu's: https://open.feishu.cn/document/server-docs/api-call-guide/frequency-control."""


def request_of(target: Target, event: Event, now: datetime, *, page_url: str | None = None) -> Request:
    """What to send to tell a target of an event. It is made anew for each attempt: signatures hold the time.

    `page_url` is where people reach the web page, for a link to it. ValueError where the target's secret cannot sign,
    and for an e-mail target, which is no matter of HTTP.
    """
    if target.format is Format.EMAIL:
        msg = f"target {target.name}: e-mail is not sent by HTTP"
        raise ValueError(msg)
    if target.format is Format.STANDARD:
        return format_standard.request(target, event, now)
    return format_chat.request(target, message(event, target.lang, page_url=page_url), now)


def outcome_of(target: Target, reply: Reply, now: datetime) -> Outcome:
    """What became of an attempt, by the reply to it. Redirects are not followed, so they are refusals."""
    status = reply.status
    if 200 <= status < 300:
        return _answered(target, reply)
    if status == 410:
        return Outcome(Result.REFUSED, _why(target, reply, "the address is dead"), gone=True)
    if status == 429 or status >= 500 or is_limit(target.format, reply):
        told, asked = told_by(target.format, reply), _pause(target, reply, now)
        pause = told.after if asked is None and told is not None else asked
        return Outcome(Result.RETRY, _why(target, reply, "to be tried again"), pause)
    if 300 <= status < 400:
        return Outcome(Result.REFUSED, _why(target, reply, "redirects are not followed; give the address itself"))
    return Outcome(Result.REFUSED, _why(target, reply, "refused"))


def _answered(target: Target, reply: Reply) -> Outcome:
    """A status of success, which is not yet success in every room."""
    if target.format is Format.SLACK:
        took = reply.body.strip() == SAYS_OK
        return Outcome(Result.ACCEPTED) if took else Outcome(Result.RETRY, _why(target, reply, "it does not say ok"))
    told = told_by(target.format, reply)
    if told is None:
        unread = must_say(target.format)
        why = _why(target, reply, "it does not say whether it took the message") if unread else ""
        return Outcome(Result.RETRY if unread else Result.ACCEPTED, why)
    return Outcome(told.result, _shown(target, told.why), told.after)


def _why(target: Target, reply: Reply, meaning: str) -> str:
    """The status, what it means, and the receiver's own words."""
    told = told_by(target.format, reply)
    said = _shown(target, told.why if told and told.why else reply.body.decode(errors="replace"))
    return f"HTTP {reply.status}: {meaning}{f' ({said})' if said else ''}"


def _shown(target: Target, text: str) -> str:
    """A receiver's words, which may repeat what it was sent, in one short line without secrets."""
    shown = printable(text)
    for secret in sorted(set(_secrets(target)), key=len, reverse=True):
        shown = re.sub(re.escape(secret), "***", shown, flags=re.IGNORECASE)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN - 1]}…"


def _secrets(target: Target) -> Iterator[str]:
    """What must not be shown of a target: its secret, its address, and each part of that which may be a key."""
    parts = urlsplit(target.url)
    hidden = [target.secret or "", (target.secret or "").removeprefix(format_standard.PREFIX)]
    keys = re.split(r"[/?&=@:]", f"{parts.netloc.rpartition('@')[0]}/{parts.path}?{parts.query}")
    for key in [*hidden, target.url, *(key for key in keys if len(key) >= _SHORTEST_KEY)]:
        yield from filter(None, (printable(form) for form in (key, unquote(key), quote(key, safe=""))))


def _pause(target: Target, reply: Reply, now: datetime) -> timedelta | None:
    """The pause that is asked for, at most an hour: seconds, or a date. Discord says it in the body too."""
    # https://discord.com/developers/docs/topics/rate-limits: retry_after, in seconds, more exact than the header
    stated = json_of(reply.body).get("retry_after") if target.format is Format.DISCORD else None
    if type(stated) is int or (type(stated) is float and isfinite(stated)):
        return _bounded(stated)
    header = next((reply.headers[name].strip() for name in _PAUSES if name in reply.headers), "")
    if _SECONDS.fullmatch(header):
        return _bounded(float(header))
    return _until(header, now)


def _until(date: str, now: datetime) -> timedelta | None:
    try:
        until = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return _bounded(((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds())


def _bounded(seconds: float) -> timedelta:
    return timedelta(seconds=ceil(max(min(seconds, LONGEST_PAUSE.total_seconds()), 0)))
