"""Standard Webhooks: the event as JSON, signed.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import json
import secrets
from base64 import b64encode
from datetime import UTC, datetime

from alerts.wire import Request
from catalog.instants import time_text
from catalog.watches import Event, Target

PREFIX = "whsec_"
_SECRET_BYTES = 32
"""The specification asks for 24 to 64."""


def new_secret() -> str:
    """A secret to sign with, as Standard Webhooks writes it: `whsec_` and 32 random bytes in base64."""
    return f"{PREFIX}{b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"


def request(target: Target, event: Event, now: datetime) -> Request:
    """The event for a program. It is signed anew at each attempt, under the id that it has in all of them.

    ValueError where the target has no secret that can sign.
    """
    told = {"type": event.type, "timestamp": time_text(event.at), "data": dict(event.data)}
    body = json.dumps(told, separators=(",", ":"))
    headers = {
        "content-type": "application/json",
        "webhook-id": event.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": _signature(target, event.id, now, body),
    }
    return Request("POST", target.url, headers, body.encode())


def _signature(target: Target, event_id: str, now: datetime, body: str) -> str:
    from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

    try:
        # The library takes the time as UTC, whatever its time zone.
        return Webhook(target.secret or "").sign(event_id, now.astimezone(UTC), body)
    except (ValueError, EmptyWebhookSecretError):
        msg = f"target {target.name}: its secret cannot sign; set one that is {PREFIX} and base64"
        raise ValueError(msg) from None  # the library's words may show the secret
