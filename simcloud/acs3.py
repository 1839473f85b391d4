"""Alibaba Cloud's signature ACS3-HMAC-SHA256, judged on the server's side.

Source: https://help.aliyun.com/document_detail/2593177.html, and what alibabacloud-tea-openapi 0.4.6 sends.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from simcloud.wire import Request

MAX_SKEW_S = 900
ALGORITHM = "ACS3-HMAC-SHA256"
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=(?P<id>[^,]+),\s*"
    r"SignedHeaders=(?P<signed>[\w;-]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)
_MUST_BE_SIGNED = {
    "host",
    "x-acs-action",
    "x-acs-content-sha256",
    "x-acs-date",
    "x-acs-signature-nonce",
    "x-acs-version",
}


class Refused(Exception):
    """The request is not answered; `status`, `code` and `message` are Alibaba's."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Authorization:
    """What the Authorization header claims."""

    key_id: str
    signed_headers: tuple[str, ...]
    signature: str

    @classmethod
    def read(cls, header: str) -> "Authorization | None":
        """Read the header; None when it has another form."""
        found = _AUTHORIZATION.fullmatch(header.strip())
        return None if found is None else cls(found["id"], tuple(found["signed"].split(";")), found["signature"])


def verify(claim: Authorization, request: Request, secret: str, now: datetime) -> None:
    """Let a request in, or raise `Refused`."""
    try:
        signed_at = datetime.strptime(request.headers.get("x-acs-date", ""), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise Refused(400, "InvalidTimeStamp.Format", "Specified time stamp is not well formatted.") from error
    if abs((now - signed_at).total_seconds()) > MAX_SKEW_S:
        raise Refused(400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")
    if not _MUST_BE_SIGNED <= set(claim.signed_headers) <= request.headers.keys():
        message = "The request signature does not conform to Aliyun standards."
        raise Refused(400, "IncompleteSignature", message)
    honest = request.headers["x-acs-content-sha256"] == _sha256(request.body)
    if not honest or not hmac.compare_digest(sign(claim, request, secret), claim.signature):
        message = "Specified signature is not matched with our calculation."
        raise Refused(400, "SignatureDoesNotMatch", message)


def sign(claim: Authorization, request: Request, secret: str) -> str:
    """Return the signature that the request should carry, in hex."""
    to_sign = f"{ALGORITHM}\n{_sha256(canonical_request(claim, request).encode())}"
    return hmac.new(secret.encode(), to_sign.encode(), "sha256").hexdigest()


def canonical_request(claim: Authorization, request: Request) -> str:
    """Return the text whose hash is signed."""
    headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in sorted(claim.signed_headers))
    return "\n".join(
        (
            request.method,
            request.path,
            _canonical_query(request.query),
            headers,
            ";".join(claim.signed_headers),
            request.headers["x-acs-content-sha256"],
        )
    )


def _canonical_query(query: Mapping[str, str]) -> str:
    return "&".join(f"{quote(name, safe='~')}={quote(query[name], safe='~')}" for name in sorted(query))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
