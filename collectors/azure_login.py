"""A token for Azure Resource Manager, by azure-identity over https, and by a call of ours to a server on loopback."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote, urlencode

from collectors.azure_wire import CLIENT, KEYS, SECRET, TENANT, Reply, Wire, cloud_of, endpoint, is_open
from collectors.base import AuthFailed, Drift, ProviderError
from collectors.credentials import obtained
from collectors.reading import record_of
from collectors.sdk import extra, log_with_ours

NO_TOKEN = "local"  # noqa: S105 - what is sent to a server on loopback where there is nobody to ask for a token
_REFUSED = (400, 401)  # OAuth 2.0, RFC 6749 5.2: the credentials, or the tenant, are wrong


def token(wire: Wire, keys: Mapping[str, str]) -> str:
    """A token of these credentials. It is not kept for the next fetch: a secret that was changed counts at once.

    NotConfigured where it, or the secret, would go over plain HTTP to another machine.
    """
    login = endpoint(wire.config, "login")
    is_local = is_open(wire.config, "management")
    if is_open(wire.config, "login"):
        with _kept_nowhere():
            return _by_form(wire, keys, login)
    if is_local and "login" not in wire.config.endpoints:
        return NO_TOKEN  # what is meant for a server on loopback is never sent to Microsoft's
    with _kept_nowhere():
        return _by_entra(wire, keys, login)


@contextmanager
def _kept_nowhere() -> Iterator[None]:
    """No answer about a login is kept for a report: one that cannot be read may hold a token, or repeat the secret."""
    try:
        yield
    except Drift as error:
        error.page = None
        raise


def _scope(wire: Wire) -> str:
    return f"{cloud_of(wire.config).management}/.default"


def _by_form(wire: Wire, keys: Mapping[str, str], login: str) -> str:
    """The call that azure-identity makes too, but never over http. A server that issues no tokens (404) takes any."""
    form = {
        "grant_type": "client_credentials",
        "client_id": keys[CLIENT],
        "client_secret": keys[SECRET],
        "scope": _scope(wire),
    }
    url = f"{login}/{quote(keys[TENANT], safe='')}/oauth2/v2.0/token"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = wire.call("POST", url, headers, urlencode(form).encode())
    if reply.status == 404:
        return NO_TOKEN
    if not reply.is_success:
        raise _failure(wire, reply)
    return obtained(record_of(reply.page).text("access_token"))


def _by_entra(wire: Wire, keys: Mapping[str, str], login: str) -> str:
    with extra("azure"):
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import ClientSecretCredential

    def read(reply: Reply) -> bytes:
        """What azure-identity may read: a token, or that the credentials are wrong."""
        if not reply.is_success and reply.status not in _REFUSED:
            raise _failure(wire, reply)
        record_of(reply.page)
        return reply.page.body

    log_with_ours("azure", "msal", level=logging.ERROR)  # they warn of each refusal, which is told by our own error
    try:
        credential = ClientSecretCredential(
            keys[TENANT],
            keys[CLIENT],
            keys[SECRET],
            authority=login,
            disable_instance_discovery=True,  # it would ask login.microsoft.com about a host of the settings
            transport=wire.transport(login, read),
            retry_total=0,
        )
        return obtained(str(credential.get_token(_scope(wire)).token))
    except ClientAuthenticationError as error:
        cause = error.__cause__  # azure-identity wraps whatever its transport raises
        raise (cause if isinstance(cause, ProviderError) else _refused(wire, "")) from error


def _failure(wire: Wire, reply: Reply) -> ProviderError:
    code = reply.error()[0]
    found = reply.failure(f"{wire.where}: login", wire.now)
    wrong = isinstance(found, AuthFailed) or (code and reply.status in _REFUSED)
    return _refused(wire, code) if wrong else found


def _refused(wire: Wire, code: str) -> AuthFailed:
    return AuthFailed(f"{wire.where}: login {code}".rstrip() + f": no token; look at {', '.join(KEYS[:3])}")
