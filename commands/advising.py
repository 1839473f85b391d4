"""What to do about an error: the advice that fits it, and none where the error says itself what to do."""

import re
from collections.abc import Mapping

from collectors.base import NotServed, ProviderError
from store.sqlite_file import file_advice

_ADVICE: Mapping[str, str] = {
    "AuthFailed": "check the key, its rights and this machine's clock; docs/providers.md has the policy to paste",
    "Throttled": "wait a minute; if it stays, poll less often: GPUFARE_PROVIDERS__{name}__INTERVALS__{feed}",
    "Unavailable": "check the network, a proxy (HTTPS_PROXY) and GPUFARE_PROVIDERS__{name}__ENDPOINTS__<SERVICE>",
    "Drift": "the answer is not as this version knows it: upgrade gpufare, or report it",
    "NotServed": "leave the place out of GPUFARE_PROVIDERS__{name}__REGIONS, or enable it for the account",
}
"""By the name of the error; one that says itself what to do is not here."""
_SAYS_WHAT_TO_DO = re.compile(r"\b(add it|allow|grant|enable|set|look at|asked again|is used up)\b", re.IGNORECASE)
"""Of what is not served: a right or a setting that is missing, or a matter of time. All else is about the place."""

_OF_DATABASES = (
    (r'database "[^"]*" does not exist', "make it (`createdb NAME`), or name another in GPUFARE_DATABASE_URL"),
    (
        r'password authentication failed|no password supplied|role "[^"]*" does not exist|no pg_hba.conf entry',
        "look at the user in GPUFARE_DATABASE_URL, and at PGPASSWORD or ~/.pgpass",
    ),
    (r"permission denied", "the user in GPUFARE_DATABASE_URL must own the database: docs/operations.md"),
    (
        r"Connection refused|could not translate host name|failed to resolve host|timeout expired|No route to host",
        "is the server running, and is GPUFARE_DATABASE_URL right?",
    ),
)
"""What PostgreSQL or its driver says -> what to do. A server that speaks another language gets the general advice."""
_OF_SERVER = "is the server running and well, and its disk not full?"


def advice_for(error: ProviderError, provider: str, feed: str) -> str:
    """What to do about a provider's error; "" where it says so itself."""
    if isinstance(error, NotServed) and _SAYS_WHAT_TO_DO.search(str(error)):
        return ""
    return _ADVICE.get(type(error).__name__, "").format(name=provider.upper(), feed=feed.upper())


def database_advice(where: str, why: str) -> str:
    """What to do about a database, at an address or in a file, that cannot be used; "" where it is said already."""
    if "://" not in where:
        return file_advice(why)
    return next((advice for said, advice in _OF_DATABASES if re.search(said, why)), _OF_SERVER)
