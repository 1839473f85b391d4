"""AWS's services through boto3: whole listings, and what each of their errors means to us. One attempt a call: retries
are ours.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, ClassVar

from catalog import partitions
from catalog.accounts import SETTABLE
from collectors.aws_wire import send_bounded
from collectors.base import (
    AuthFailed,
    Config,
    Drift,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
)
from collectors.credentials import sendable, stated
from collectors.http import SHOWN_BYTES, retry_after, status_error
from collectors.reading import JsonValue
from collectors.sdk import extra, log_with_ours

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
CHAIN = (
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""With any of these set, boto3's own credential chain is used; otherwise the keys alone, and nothing is searched."""
OF_PROCESS = ("env", "container-role", "iam-role")
"""What of that chain finds the credentials of the process, in botocore's names: they are the first account's alone."""

HOMES = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1", "aws-eusc": "eusc-de-east-1"}
"""The region of each partition that is asked about the account."""
TOLD_BY = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""What says of which partition the credentials are, where the settings name regions of several or none."""
OWN = SETTABLE["aws"]
"""All that an account beside the first may set: boto3 takes any other variable from the process's environment."""

THROTTLED = ("RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException")
NO_RIGHT = ("UnauthorizedOperation", "AccessDenied")
"""How a code begins that lets us in and forbids this one action: the rest of what the account may ask goes on."""
NOT_HERE = ("InvalidAction", "UnsupportedOperation", "Unsupported")
"""A region that does not have this call, or not for this type."""
EXPIRED = ("ExpiredNextTokenException", "InvalidNextTokenException")
"""A listing that went on for too long: it begins anew at the next poll."""
USED_UP = ("MaxConfigLimitExceeded",)
"""The budget of different questions is spent. It is no word on what was asked."""
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


def has_credentials(config: Config) -> bool:
    """Whether the settings hold something to sign with, that is the account's own."""
    if unusable(config):
        return False
    return all(stated(config.environ, name) for name in KEYS) or any(stated(config.environ, name) for name in CHAIN)


def unusable(config: Config) -> str:
    """What is wrong with the variables of an account beside the first; "" where nothing is, and for the first."""
    others = sorted(name for name in config.environ if name not in OWN and stated(config.environ, name))
    if not config.beside or not others:
        return ""
    named = f"{' and '.join(others)} cannot be set for an account beside the first"
    return f"{named}: boto3 reads such variables of its own process alone; set {' and '.join(KEYS)}, or {CHAIN[0]}"


def partition(region: str) -> str:
    """AWS's partition of a region: its accounts, endpoints and price lists are its own."""
    return partitions.partition("aws", region)


def currency_of(region: str) -> str:
    """What AWS bills a region in: CNY in AWS China, USD everywhere else."""
    return "CNY" if partition(region) == "aws-cn" else "USD"


def partition_of(config: Config) -> str | None:
    """The partition that the credentials are of: that of the region which the environment names, else of the regions
    that the settings name, else `aws`. None where the settings name regions of several: it is not guessed.
    """
    told = told_region(config)
    if told:
        return partition(told)
    named = {partition(region) for region in config.regions} or {"aws"}
    return named.pop() if len(named) == 1 else None


def told_region(config: Config) -> str:
    """The region that the credentials' own variables name; "" for none."""
    return next(filter(None, (stated(config.environ, name) for name in TOLD_BY)), "")


def home_of(config: Config) -> str:
    """The region to ask about the account, in the partition of its credentials."""
    return HOMES[partition_of(config) or "aws"]


class Client:
    """A service in one region, for the length of one fetch."""

    service: ClassVar[str]
    title: ClassVar[str]
    form: ClassVar[str]
    """How its answers are written, for a message."""

    def __init__(self, config: Config, region: str, now: datetime) -> None:
        self._config, self._region, self._now = config, region, now
        self._status, self._headers, self._body = 0, dict[str, str](), b""
        self._client = self._connected()

    def _connected(self) -> Any:
        with extra("aws"):
            from botocore.config import Config as SdkConfig
            from botocore.exceptions import BotoCoreError

        log_with_ours("boto3", "botocore")
        try:
            client = _session(self._config, self._now).client(
                self.service,
                region_name=self._region,
                endpoint_url=self._config.endpoints.get(self.service),
                config=SdkConfig(
                    retries={"mode": "standard", "total_max_attempts": 1},
                    user_agent_extra="gpufare",
                ),
            )
        except BotoCoreError as error:
            raise self._failure(error, "connecting") from error
        except ValueError as error:
            raise Unavailable(f"aws: the {self.service} ENDPOINTS setting is not a usable address") from error
        client.meta.events.register(f"before-parse.{self.service}", self._remember)
        return client

    def _remember(self, response_dict: Mapping[str, Any], **_: object) -> None:
        """Keep what the SDK's error for an unreadable body does not say: the body, and its status."""
        self._status = response_dict["status_code"]
        self._headers = {name.lower(): value for name, value in response_dict["headers"].items()}
        self._body = response_dict["body"]

    def listing(self, operation: str, key: str, **asked: object) -> list[JsonValue]:
        """All records of a listing, its pages joined. Drift where the list is missing, or a page token comes twice."""
        found = self.listed(operation, key, **asked)
        if isinstance(found, ProviderError):
            raise found
        return found

    def listed(self, operation: str, key: str, **asked: object) -> list[JsonValue] | ProviderError:
        """The same, or what the failure of one of its calls means, for who can go on without."""
        records: list[JsonValue] = []
        token, seen = None, set[str]()
        while True:
            answer = self.asked(operation, {**asked, "NextToken": token} if token else asked)
            if isinstance(answer, ProviderError):
                return answer
            if key not in answer:
                raise self._drift(f"{self._where(operation)}: the answer holds no {key}")
            records += answer[key]
            token = answer.get("NextToken")
            if not token:
                return records
            if token in seen:
                raise self._drift(f"{self._where(operation)}: the same page token came twice, the list is not whole")
            seen.add(token)

    def asked(self, operation: str, asked: Mapping[str, object]) -> dict[str, Any] | ProviderError:
        """One call: the answer, or what its failure means."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**asked)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            return self._failure(error, operation)
        return answer

    def _drift(self, said: str) -> Drift:
        return Drift(said, Page(said, self._body[:SHOWN_BYTES], self._now, self._region))

    def _where(self, operation: str) -> str:
        return f"aws {self.service} {_right(operation)} in {self._region}"

    def _failure(self, error: Exception, operation: str) -> ProviderError:
        """What an exception of the SDK means. Its own text is left out: it can quote the request."""
        from botocore import exceptions as sdk
        from botocore.parsers import ResponseParserError

        where = self._where(operation)
        if isinstance(error, sdk.ClientError):
            return self._refusal(error, operation)
        if isinstance(error, ResponseParserError):
            return self._by_status(where)
        if isinstance(error, (sdk.NoCredentialsError, sdk.PartialCredentialsError, sdk.CredentialRetrievalError)):
            return AuthFailed(f"{where}: no usable credentials; set {' and '.join(KEYS)}")
        if isinstance(error, sdk.ProfileNotFound):
            return AuthFailed(f"{where}: the profile that AWS_PROFILE names does not exist")
        return Unavailable(f"{where}: {type(error).__name__}")

    def _refusal(self, error: Any, operation: str) -> ProviderError:
        code, right = str(error.response.get("Error", {}).get("Code", "")), _right(operation)
        where = f"{self._where(operation)}: {code}"
        if code in THROTTLED:
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            return Throttled(where, retry_after(headers, self._now))
        if error.operation_name != right:  # not the service but who hands out its credentials
            said = f"{where} on {error.operation_name}: no credentials could be had"
            is_down = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
            return Unavailable(said) if is_down else AuthFailed(f"{said}; look at the profile")
        if code.startswith(NO_RIGHT):
            lacking = f"the credentials lack the right {self.service}:{right}"
            return NotServed(f"{where}: {lacking}; add it to their policy, then run `gpufare sync aws`")
        if code in NOT_HERE:
            return NotServed(f"{where}: {self.title} does not answer this here")
        if code in USED_UP:
            said = (
                "refused: the account's budget of different questions within a day is used up; nothing is known by it"
            )
            return NotServed(f"{where}: {said}")
        if code in EXPIRED:
            return Unavailable(f"{where}: the listing took longer than its page tokens last")
        if code in REFUSED:
            return self._refused(AuthFailed(f"{where}: the credentials were refused; look at {' and '.join(KEYS)}"))
        return self._by_status(where)

    def _by_status(self, where: str) -> ProviderError:
        if 200 <= self._status < 300:
            return self._drift(f"{where}: the answer is not {self.title}'s {self.form}")
        found = status_error(self._status, self._headers, where, self._now)
        return self._drift(str(found)) if isinstance(found, Drift) else found

    def _refused(self, said: AuthFailed) -> ProviderError:
        """A region that is not enabled refuses good credentials: the home region knows which of the two it is."""
        home = home_of(self._config)
        if self._region == home:
            return said
        asked = {"RegionNames": [self._region], "AllRegions": True}
        answer = Ec2(self._config, home, self._now).asked("describe_regions", asked)
        if isinstance(answer, ProviderError):
            return answer
        if any(one.get("OptInStatus") == "not-opted-in" for one in answer.get("Regions", ())):
            return NotServed(f"aws: region {self._region} is not enabled for this account; enable it in AWS's settings")
        return said


class Ec2(Client):
    """EC2 of one region."""

    service = "ec2"
    title = "EC2"
    form = "XML"


def _session(config: Config, now: datetime) -> Any:
    """boto3's session. That of an account beside the first never looks for the credentials of this process, which boto3
    would fall back on where a profile holds none.
    """
    with extra("aws"):
        from boto3 import Session as Boto3Session
        from botocore.session import Session

    if config.beside and not has_credentials(config):
        raise AuthFailed("aws: " + (unusable(config) or f"set {' and '.join(KEYS)}"))
    core = Session()
    core.register_component("data_loader", _descriptions())
    send_bounded(core, config.timeout, now)
    session = Boto3Session(**_credentials(config.environ), botocore_session=core)
    paths = _descriptions().search_paths
    paths[:] = dict.fromkeys(paths)  # each session of boto3 adds its own to them
    if config.beside:
        for method in OF_PROCESS:
            core.get_component("credential_provider").remove(method)
    return session


@cache
def _descriptions() -> Any:
    """botocore's reader of what it knows of the services, one for all sessions: with one for each, as is its way, every
    poll would parse a megabyte of JSON.
    """
    from botocore.loaders import create_loader

    return create_loader()


def _credentials(environ: Mapping[str, str]) -> dict[str, str | None]:
    if all(stated(environ, name) for name in KEYS):
        return {
            "aws_access_key_id": sendable(environ, KEYS[0]),
            "aws_secret_access_key": sendable(environ, KEYS[1]),
            "aws_session_token": sendable(environ, "AWS_SESSION_TOKEN") or None,
        }
    return {"profile_name": stated(environ, "AWS_PROFILE") or None}


def _right(operation: str) -> str:
    """`describe_regions` as EC2 and its policies call it: `DescribeRegions`."""
    return "".join(word.capitalize() for word in operation.split("_"))
