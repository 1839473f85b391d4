"""EC2 through boto3: whole listings, and what each of its errors means to us. One attempt a call: retries are ours."""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from collectors.base import (
    AuthFailed,
    Config,
    Drift,
    NotServed,
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.http import CONNECT_S, retry_after, status_error
from collectors.reading import JsonValue

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
CHAIN = (
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""With any of these set, boto3's own credential chain is used; otherwise the keys alone, and nothing is searched."""

HOMES = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
"""The region of each partition that is asked about the account."""

THROTTLED = ("RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException")
NO_RIGHT = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
REFUSED = (
    "AuthFailure",
    "OptInRequired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "MissingAuthenticationToken",
    "IncompleteSignature",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "RequestExpired",
    "Blocked",
    "PendingVerification",
)
"""Who we are was refused. A region that the account has not enabled answers with the first two."""


def has_credentials(environ: Mapping[str, str]) -> bool:
    """Whether the settings hold something to sign with."""
    return all(environ.get(name) for name in KEYS) or any(environ.get(name) for name in CHAIN)


def partition(region: str) -> str:
    """AWS's partition of a region: its accounts, endpoints and price lists are its own."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def home_of(config: Config) -> str:
    """The region to ask about the account. Its partition: that of the settings' regions, `aws` before the others."""
    partitions = [partition(region) for region in config.regions]
    return HOMES["aws" if "aws" in partitions or not partitions else partitions[0]]


class Ec2:
    """EC2 of one region, for the length of one fetch."""

    def __init__(self, config: Config, region: str, now: datetime) -> None:
        self._config, self._region, self._now = config, region, now
        self._status, self._headers, self._cut_off = 0, dict[str, str](), False
        self._client = self._connected()

    def _connected(self) -> Any:
        import boto3
        from botocore.config import Config as SdkConfig
        from botocore.exceptions import BotoCoreError

        # At DEBUG botocore prints each request with its headers, the session token among them.
        logging.getLogger("botocore").setLevel(logging.INFO)
        seconds = self._config.timeout.total_seconds()
        try:
            client = boto3.Session(**_credentials(self._config.environ)).client(
                "ec2",
                region_name=self._region,
                endpoint_url=self._config.endpoints.get("ec2"),
                config=SdkConfig(
                    connect_timeout=min(CONNECT_S, seconds),
                    read_timeout=seconds,
                    retries={"mode": "standard", "total_max_attempts": 1},
                    user_agent_extra="gpufare",
                ),
            )
        except BotoCoreError as error:
            raise self._failure(error, "connecting") from error
        except ValueError as error:
            raise Unavailable("aws: the ec2 ENDPOINTS setting is not a usable address") from error
        client.meta.events.register("before-parse.ec2", self._remember)
        return client

    def _remember(self, response_dict: Mapping[str, Any], **_: object) -> None:
        """Keep what the SDK's error for an unreadable body does not say: the status, and whether the body is whole."""
        self._status = response_dict["status_code"]
        self._headers = {name.lower(): value for name, value in response_dict["headers"].items()}
        promised = "0" if "content-encoding" in self._headers else self._headers.get("content-length", "0")
        self._cut_off = len(response_dict["body"]) < int(promised)

    def listing(self, operation: str, key: str, **asked: object) -> list[JsonValue]:
        """All records of a listing, its pages joined. Drift where the list is missing, or a page token comes twice."""
        records: list[JsonValue] = []
        token, seen = None, set[str]()
        while True:
            answer = self._answer(operation, {**asked, "NextToken": token} if token else asked)
            if key not in answer:
                raise Drift(f"{self._where(operation)}: the answer holds no {key}")
            records += answer[key]
            token = answer.get("NextToken")
            if not token:
                return records
            if token in seen:
                raise Drift(f"{self._where(operation)}: the same page token came twice, the list is not whole")
            seen.add(token)

    def _answer(self, operation: str, asked: Mapping[str, object]) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**asked)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise self._failure(error, operation) from error
        return answer

    def _where(self, operation: str) -> str:
        return f"aws ec2 {_right(operation)} in {self._region}"

    def _failure(self, error: Exception, operation: str) -> ProviderError:
        """What an exception of the SDK means. Its own text is left out: it can quote the request."""
        from botocore import exceptions as sdk
        from botocore.parsers import ResponseParserError

        where = self._where(operation)
        if isinstance(error, sdk.ClientError):
            return self._refusal(str(error.response.get("Error", {}).get("Code", "")), error.response, operation)
        if isinstance(error, ResponseParserError):
            return self._by_status(where)
        if isinstance(error, (sdk.NoCredentialsError, sdk.PartialCredentialsError, sdk.CredentialRetrievalError)):
            return AuthFailed(f"{where}: no usable credentials; set {' and '.join(KEYS)}")
        if isinstance(error, sdk.ProfileNotFound):
            return AuthFailed(f"{where}: the profile that AWS_PROFILE names does not exist")
        return Unavailable(f"{where}: {type(error).__name__}")

    def _refusal(self, code: str, response: Mapping[str, Any], operation: str) -> ProviderError:
        where = f"{self._where(operation)}: {code}"
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        if code in THROTTLED:
            return Throttled(where, retry_after(headers, self._now))
        if code in NO_RIGHT:
            return AuthFailed(
                f"{where}: the credentials lack the right ec2:{_right(operation)}; add it to their policy"
            )
        if code in REFUSED:
            return self._refused(AuthFailed(f"{where}: the credentials were refused; look at {' and '.join(KEYS)}"))
        return self._by_status(where)

    def _by_status(self, where: str) -> ProviderError:
        if self._cut_off:
            return Unavailable(f"{where}: the answer is cut off")
        if 200 <= self._status < 300:
            return Drift(f"{where}: the answer is not EC2's XML")
        found = status_error(self._status, self._headers, where, self._now)
        return found if isinstance(found, ProviderError) else Drift(f"{where}: HTTP {self._status}")

    def _refused(self, said: AuthFailed) -> ProviderError:
        """A region that is not enabled refuses good credentials: the home region knows which of the two it is."""
        home = home_of(self._config)
        if self._region == home:
            return said
        try:
            found = Ec2(self._config, home, self._now).listing(
                "describe_regions", "Regions", RegionNames=[self._region], AllRegions=True
            )
        except ProviderError as error:
            return error
        if any(isinstance(one, dict) and one.get("OptInStatus") == "not-opted-in" for one in found):
            return NotServed(f"aws: region {self._region} is not enabled for this account; enable it in AWS's settings")
        return said


def _credentials(environ: Mapping[str, str]) -> dict[str, str | None]:
    if all(environ.get(name) for name in KEYS):
        return {
            "aws_access_key_id": environ[KEYS[0]],
            "aws_secret_access_key": environ[KEYS[1]],
            "aws_session_token": environ.get("AWS_SESSION_TOKEN") or None,
        }
    return {"profile_name": environ.get("AWS_PROFILE") or None}


def _right(operation: str) -> str:
    """`describe_regions` as EC2 and its policies call it: `DescribeRegions`."""
    return "".join(word.capitalize() for word in operation.split("_"))
