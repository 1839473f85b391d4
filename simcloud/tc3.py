"""Tencent Cloud's signature TC3-HMAC-SHA256, judged on the server's side.

Source: https://www.tencentcloud.com/document/api/213/31575
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_SKEW_S = 300
_AUTHORIZATION = re.compile(
    r"TC3-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<date>\d{4}-\d\d-\d\d)/(?P<service>\w+)/tc3_request,\s*"
    r"SignedHeaders=(?P<signed>[\w;-]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)


class Refused(Exception):
    """The request is not let in; `code` is Tencent's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Authorization:
    """What the Authorization header claims."""

    secret_id: str
    date: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str

    @classmethod
    def read(cls, header: str) -> "Authorization | None":
        """Read the header; None when it has another form."""
        found = _AUTHORIZATION.fullmatch(header.strip())
        if found is None:
            return None
        return cls(found["id"], found["date"], found["service"], tuple(found["signed"].split(";")), found["signature"])


def verify(claim: Authorization, headers: Mapping[str, str], body: bytes, secret_key: str, now: datetime) -> None:
    """Let a `POST /` in, or raise `Refused`. Header names are in lower case."""
    timestamp = headers.get("x-tc-timestamp", "")
    if not timestamp.isdecimal():
        raise Refused("MissingParameter", "The request is missing the header `X-TC-Timestamp`.")
    if abs(now.timestamp() - int(timestamp)) > MAX_SKEW_S:
        message = "Signature expired. Timestamp and server time cannot differ by more than five minutes."
        raise Refused("AuthFailure.SignatureExpire", message)
    signed_on = datetime.fromtimestamp(int(timestamp), UTC).strftime("%Y-%m-%d")
    covered = {"content-type", "host"} <= set(claim.signed_headers) <= headers.keys()
    expected = sign(claim, headers, body, secret_key) if covered and signed_on == claim.date else ""
    if not hmac.compare_digest(expected, claim.signature):
        message = "The provided credentials could not be validated. Please check your signature is correct."
        raise Refused("AuthFailure.SignatureFailure", message)


def sign(claim: Authorization, headers: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature that `claim` should carry, in hex."""
    canonical = canonical_request(claim.signed_headers, headers, body)
    scope = f"{claim.date}/{claim.service}/tc3_request"
    to_sign = f"TC3-HMAC-SHA256\n{headers['x-tc-timestamp']}\n{scope}\n{_sha256(canonical.encode())}"
    key = f"TC3{secret_key}".encode()
    for part in (claim.date, claim.service, "tc3_request", to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def canonical_request(signed_headers: Sequence[str], headers: Mapping[str, str], body: bytes) -> str:
    """Return the text whose hash is signed."""
    canonical_headers = "".join(f"{name}:{headers[name].strip().lower()}\n" for name in signed_headers)
    unsigned = headers.get("x-tc-content-sha256") == "UNSIGNED-PAYLOAD"
    payload_hash = _sha256(b"UNSIGNED-PAYLOAD" if unsigned else body)
    return f"POST\n/\n\n{canonical_headers}\n{';'.join(signed_headers)}\n{payload_hash}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
