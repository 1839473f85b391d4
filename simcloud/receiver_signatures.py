"""Whether a webhook was signed with a secret, by the rules of those who take it: written from their documents alone."""

import hmac
import json
import time
from base64 import b64encode
from collections.abc import Callable, Mapping

from simcloud.wire import Request

_TOLERANCE_S = 3600
"""Feishu and DingTalk take a signature for an hour."""


def verified(form: str, secret: str, request: Request) -> bool:
    """Whether the request was signed with the secret as this format signs, one of `FORMATS`, a short while ago."""
    return FORMATS[form](secret, request)


def _standard(secret: str, request: Request) -> bool:
    from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook, WebhookVerificationError

    try:
        Webhook(secret).verify(request.body, dict(request.headers), json_parse=False)
    except (WebhookVerificationError, EmptyWebhookSecretError, ValueError):
        return False
    return True


def _feishu(secret: str, request: Request) -> bool:
    """https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot: in the body, seconds."""
    try:
        told = json.loads(request.body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(told, dict):
        return False
    at = str(told.get("timestamp"))
    return _is_recent(at, 1) and _same(_hmac(f"{at}\n{secret}", ""), str(told.get("sign")))


def _dingtalk(secret: str, request: Request) -> bool:
    """https://open.dingtalk.com/document/robots/customize-robot-security-settings: in the query, milliseconds."""
    at = request.query.get("timestamp", "")
    return _is_recent(at, 1000) and _same(_hmac(secret, f"{at}\n{secret}"), request.query.get("sign", ""))


def _is_recent(at: str, in_a_second: int) -> bool:
    return at.isdecimal() and len(at) < 20 and abs(time.time() - int(at) / in_a_second) <= _TOLERANCE_S


def _hmac(key: str, text: str) -> str:
    return b64encode(hmac.digest(key.encode(), text.encode(), "sha256")).decode()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


FORMATS: Mapping[str, Callable[[str, Request], bool]] = {
    "standard": _standard,
    "feishu": _feishu,
    "dingtalk": _dingtalk,
}
