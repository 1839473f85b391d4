"""What arrived at the receiver, for people: a page that loads itself again and needs no script."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from html import escape
from typing import Any

SHOWN = 100
"""The page's last requests."""


@dataclass(frozen=True, slots=True)
class Received:
    """One request that arrived."""

    id: str | None
    """Of the event, as Standard Webhooks gives it."""
    type: str | None
    """Of the event, where the body says."""
    at: datetime
    path: str
    query: str
    verified: bool | None
    """None where no secret is known for the path."""
    answered: int | None
    """The status; None where the connection was closed without an answer."""
    headers: Mapping[str, str]
    """Their names in lower case."""
    body: str

    def as_json(self) -> dict[str, Any]:
        """Return it with the time as RFC 3339 text."""
        return asdict(self) | {"at": self.at.isoformat()}


def type_of(body: str) -> str | None:
    """The event's type in a body of Standard Webhooks."""
    match _read(body):
        case {"type": str(kind)}:
            return kind
    return None


def page(received: Iterable[Received]) -> bytes:
    """The page: the newest first."""
    newest = list(received)[::-1]
    rows = "".join(map(_row, newest[:SHOWN])) or "<p>Nothing yet."
    return f"{_HEAD}<h1>{len(newest)} webhooks received</h1>{rows}".encode("utf-8", "replace")


def _row(received: Received) -> str:
    signature = {True: "signature verified", False: "SIGNATURE NOT VALID", None: "signature not checked"}
    answer = "closed without an answer" if received.answered is None else f"answered {received.answered}"
    facts = (f"{received.at:%H:%M:%S} UTC", received.type or "", signature[received.verified], answer)
    told = escape(" · ".join(filter(None, facts)))
    return f"<article><h2>{escape(received.path)}</h2><p>{told}</p><pre>{escape(_words(received.body))}</pre></article>"


def _words(body: str) -> str:
    """What a chat room would show; other JSON in lines; else the body as it is."""
    told = _read(body)
    match told:
        case {"text": str(text)} | {"content": str(text)}:  # Slack, Discord
            return text
        case {"markdown": {"content": str(text)}} | {"text": {"content": str(text)}}:  # WeCom, DingTalk
            return text
        case {"content": {"post": {"zh_cn": {"title": title, "content": list(lines)}}}}:
            return _post(title, lines)
        case {"content": {"post": {"en_us": {"title": title, "content": list(lines)}}}}:
            return _post(title, lines)
        case dict():
            return json.dumps(told, indent=2, ensure_ascii=False)
    return body


def _post(title: object, lines: list[Any]) -> str:
    """Feishu's rich text."""
    return "\n".join([str(title), *("".join(str(part.get("text", "")) for part in line) for line in lines)])


def _read(body: str) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


_HEAD = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>Webhooks received</title><style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
article { border-left: 4px solid #888; padding-left: 1rem; margin: 1.5rem 0 }
h2 { font-size: 1rem; margin: 0 } p { margin: 0; color: #555 } pre { white-space: pre-wrap; overflow-wrap: anywhere }
</style></head>"""
