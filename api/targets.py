"""From what a request says of a target to the target, or a refusal; and from a target to what is shown of it."""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from alerts.format_standard import PREFIX, new_secret
from alerts.guard import Refused, check_url, parsed
from alerts.mail import check_mailto
from api.answers import time_text
from api.config import ApiConfig
from api.problems import refused
from api.watch_shapes import TargetChange, TargetMade, TargetRequest, TargetShape
from catalog.watches import Format, Lang, Target
from selector.values import alike, member
from store.watches import KeptTarget

MOST_NAME = 64
"""Characters of a name."""
_SECRET_BYTES = range(24, 65)
"""Of a secret of Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md."""
_SIGNED = (Format.STANDARD, Format.FEISHU, Format.DINGTALK)
_WITHOUT_KEYWORD = (Format.STANDARD, Format.EMAIL)
_VISIBLE = re.compile(r"[!-~]{1,256}")
_MASK = "…masked"
_T = TypeVar("_T")


def name_of(field: str, name: str) -> str:
    """A name that people can tell from others: printable, without blanks at its ends. Problem for any other."""
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable() or name != name.strip():
        said = f"{field}: write 1 to {MOST_NAME} printable characters, without blanks at the ends."
        raise refused(field, said)
    return name


def _target_name(name: str) -> str:
    """One that an address and a list separated by commas can hold."""
    if set(name) & set("/,") or not name_of("name", name).strip("."):
        raise refused("name", "name: a target's has no slash and no comma, and is no mere dots.")
    return name


def new_target(asked: TargetRequest) -> Target:
    """The target that is asked for. Problem for what cannot be one; whether its URL may be reached is not asked."""
    name = _target_name(asked.name)
    return changed_target(Target(name=name, format=Format.STANDARD, url=asked.url), asked)


def changed_target(target: Target, asked: TargetChange) -> Target:
    """The target with what is asked for. In another format, it has no secret and keyword but those said with it."""
    form = target.format if asked.format is UNSET else member("format", asked.format, Format)
    fresh = form is not target.format or not target.secret
    return replace(
        target,
        format=form,
        url=_said(asked.url, target.url),
        secret=_secret(form, None if asked.secret is UNSET and fresh else asked.secret, target.secret),
        keyword=_keyword(form, _said(asked.keyword, None if form is not target.format else target.keyword)),
        lang=target.lang if asked.lang is UNSET else member("lang", asked.lang, Lang),
    )


def _said(said: _T | UnsetType, before: _T) -> _T:
    return before if said is UNSET else said


def _secret(form: Format, said: str | UnsetType | None, before: str | None) -> str | None:
    """A secret that this format can sign with; a new one where `standard` has none."""
    if said is UNSET:
        return before
    if said is None:
        return new_secret() if form is Format.STANDARD else None
    if form not in _SIGNED:
        raise refused("secret", f"secret: {form} signs nothing, so leave it out; its URL is what must be kept secret.")
    if form is Format.STANDARD and not _can_sign(said):
        raise refused(
            "secret", f"secret: write {PREFIX} and 24 to 64 bytes in base64, or leave it out to have one made."
        )
    if not _VISIBLE.fullmatch(said):
        raise refused("secret", "secret: write 1 to 256 letters, digits and signs of ASCII, as the chat room shows it.")
    return said


def _can_sign(secret: str) -> bool:
    if not secret.startswith(PREFIX):
        return False
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (NotBase64, ValueError):  # ValueError: what is not ASCII
        return False
    return len(key) in _SECRET_BYTES


def _keyword(form: Format, keyword: str | None) -> str | None:
    if keyword is None:
        return None
    if form in _WITHOUT_KEYWORD:
        raise refused("keyword", f"keyword: only chat rooms want one, and {form} is none.")
    return name_of("keyword", keyword)


def check_reachable(target: Target, config: ApiConfig) -> None:
    """Raise Problem unless the target's URL may be sent to. It looks names up, so it blocks."""
    try:
        if target.format is Format.EMAIL:
            check_mailto(target.url)
        else:
            check_url(target.url, allow_private=config.allow_private)
    except Refused as error:
        raise refused("url", str(error)) from None


# --- what is shown


def masked(target: Target) -> str:
    """The URL without what may be secret in it: of a chat room it is a key."""
    if target.format is Format.EMAIL:
        return f"mailto:{_MASK}@{target.url.rpartition('@')[2]}"
    try:
        place = parsed(target.url)
    except Refused:  # by the rules of another version
        return _MASK
    return f"{place.scheme}://{place.authority}/{_MASK}"


def warnings_of(kept: KeptTarget, config: ApiConfig) -> list[str]:
    """Why a target is not told anything, as sentences."""
    name, found = kept.target.name, []
    if kept.dead_at is not None:
        found.append(f"target {name} is dead since {time_text(kept.dead_at)}: {kept.dead_why}; change it to revive it")
    if kept.target.format is Format.EMAIL and not config.sends_mail:
        found.append(f"target {name}: no mail server is set (GPUFARE_SMTP__HOST), so it cannot be told anything")
    return found


def target_shape(kept: KeptTarget, config: ApiConfig) -> TargetShape:
    """A target without its secrets."""
    target = kept.target
    return TargetShape(
        name=target.name,
        format=target.format.value,
        url=masked(target),
        has_secret=target.secret is not None,
        keyword=target.keyword,
        lang=target.lang.value,
        status=_status(kept.dead_at),
        why=kept.dead_why,
        managed=kept.managed,
        created_at=time_text(kept.created_at),
        warnings=warnings_of(kept, config),
    )


def made_shape(kept: KeptTarget, secret: str | None, config: ApiConfig) -> TargetMade:
    """The same with the secret that was set just now."""
    return TargetMade(secret=secret, **msgspec.structs.asdict(target_shape(kept, config)))


def _status(dead_at: datetime | None) -> Literal["ok", "dead"]:
    return "ok" if dead_at is None else "dead"


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The names of targets that look like this one, the likest first."""
    folded = {one.casefold(): one for one in known}
    return [folded[found] for found in alike(name, folded)]
