"""Azure Resource Manager: whole listings, and what each error means to us. One attempt a call: retries are ours."""

import json
from datetime import datetime
from typing import Any
from urllib.parse import quote

from collectors.azure_login import token
from collectors.azure_wire import KEYS, SUBSCRIPTION, Reply, Wire, endpoint, keys_of, rebased
from collectors.base import AuthFailed, Cell, Config, Drift, NotServed, Page, ProviderError
from collectors.credentials import stated
from collectors.reading import JsonValue, record_of
from collectors.sdk import extra

NO_SUBSCRIPTION = ("SubscriptionNotFound", "InvalidSubscriptionId")
NOT_HERE = (
    "NoRegisteredProviderFound",
    "LocationNotAvailableForResourceType",
    "LocationNotSupported",
    "InvalidLocation",
    "MissingSubscriptionRegistration",
    "SubscriptionNotRegistered",
    "InvalidResourceType",
)
"""A region that does not exist or is not there for this subscription, or a service that it has not registered."""


def has_credentials(config: Config) -> bool:
    """Whether all four are there."""
    return all(stated(config.environ, name) for name in KEYS)


class Arm:
    """Azure Resource Manager of a subscription, for the length of one fetch."""

    def __init__(self, config: Config, cell: Cell, now: datetime) -> None:
        self._wire = Wire(config, cell, now)
        self._keys = keys_of(config)
        self._base = endpoint(config, "management")
        self._token = token(self._wire, self._keys)

    def listing(self, path: str) -> list[JsonValue] | ProviderError:
        """All records of a listing of the subscription, its pages joined, or what the failure of a page means."""
        records: list[JsonValue] = []
        url, seen = self._url(path), set[str]()
        while url:
            reply = self._asked("GET", url)
            if isinstance(reply, ProviderError):
                return reply
            some, url = self._records(reply.page, seen)
            records += some
        return records

    def post(self, path: str, body: object) -> Page | ProviderError:
        """One POST of JSON below the subscription: its answer, or what its failure means."""
        reply = self._asked("POST", self._url(path), json.dumps(body).encode())
        return reply if isinstance(reply, ProviderError) else reply.page

    def skus(self, region: str) -> list[JsonValue]:
        """All resource SKUs of a region, by the SDK. It reads a missing list as an empty one, so its models are not
        used: the bodies are kept as they come, and what goes on to the SDK is the way to the next page.
        """
        with extra("azure"):
            from azure.core.exceptions import AzureError
            from azure.mgmt.compute import ComputeManagementClient

        records: list[JsonValue] = []
        seen = set[str]()

        def read(reply: Reply) -> bytes:
            if not reply.is_success:
                raise self._failure(reply)
            some, following = self._records(reply.page, seen)
            records.extend(some)
            return json.dumps({"value": [], "nextLink": following or None}).encode()

        client = ComputeManagementClient(
            _no_credential(),
            self._keys[SUBSCRIPTION],
            base_url=self._base,
            authentication_policy=_bearer(self._token),
            transport=self._wire.transport(self._base, read),
            retry_total=0,
            permit_redirects=False,
        )
        quoted = region.replace("'", "''")
        try:
            for _ in client.resource_skus.list(filter=f"location eq '{quoted}'").by_page():
                pass  # `read` has it
        except AzureError as error:
            raise Drift(f"{self._wire.where}: the SDK refused the answer ({type(error).__name__})") from error
        return records

    def _url(self, path: str) -> str:
        return f"{self._base}/subscriptions/{quote(self._keys[SUBSCRIPTION], safe='')}/{path}"

    def _asked(self, method: str, url: str, content: bytes | None = None) -> Reply | ProviderError:
        """One call with the token: the answer, or what its failure means."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        more = {} if content is None else {"Content-Type": "application/json"}
        reply = self._wire.call(method, url, headers | more, content)
        return reply if reply.is_success else self._failure(reply)

    def _records(self, page: Page, seen: set[str]) -> tuple[list[JsonValue], str]:
        """A page's records, and where the next page is, "" for the last. Drift where a page links back."""
        answer = record_of(page)
        link = answer.text_or_none("nextLink")
        url = rebased(self._base, link) if link else ""
        if url is None or url in seen:
            raise answer.drift("the link to the next page leads nowhere, or back: the list is not whole")
        seen.add(url)
        return answer.items("value"), url

    def _failure(self, reply: Reply) -> ProviderError:
        """What an error means. Azure's message is used only where it names a right."""
        code, message = reply.error()
        where = f"{self._wire.where}: HTTP {reply.status} {code}".rstrip()
        if reply.status == 429:
            return self._by_status(reply, where)
        if code in NO_SUBSCRIPTION:
            return AuthFailed(f"{where}: look at {SUBSCRIPTION}")
        if reply.status == 403 and "Authorization" in code:
            said = f"the credentials lack the right {_right(message)}; add it to their role"
            return NotServed(f"{where}: {said}, then run `gpufare sync azure`")
        if code in NOT_HERE or reply.status == 404:
            return NotServed(f"{where}: not served here to this subscription")
        return self._by_status(reply, where)

    def _by_status(self, reply: Reply, where: str) -> ProviderError:
        found = reply.failure(where, self._wire.now)
        if isinstance(found, AuthFailed):
            return AuthFailed(f"{where}: the credentials were refused; look at {', '.join(KEYS)}")
        return found


def _no_credential() -> Any:
    """A credential is wanted, and asked for nothing: the policy below has the token."""
    return object()


def _bearer(token: str) -> Any:
    """Sends the token, over http to loopback too, where the SDK's own policy refuses."""
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class Bearer(SansIOHTTPPolicy[Any, Any]):
        def on_request(self, request: Any) -> None:
            request.http_request.headers["Authorization"] = f"Bearer {token}"

    return Bearer()


def _right(message: str) -> str:
    """`Microsoft.Compute/skus/read`, out of the sentence that Azure says."""
    named = (word for word in message.split("'") if word.startswith("Microsoft.") and " " not in word)
    return next(named, "that this feed needs")
