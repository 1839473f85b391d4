"""The names of accounts: `tencent`, and beside it `tencent_intl`, another account of the same provider."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

CREDENTIALS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "alibaba": ("ALIBABA_CLOUD_*",),
        "aws": ("AWS_*",),
        "azure": ("AZURE_*",),
        "gcp": ("GOOGLE_*",),
        "runpod": ("RUNPOD_API_KEY",),
        "tencent": ("TENCENTCLOUD_*",),
        "ucloud": ("UCLOUD_*",),
    }
)
"""By provider, the environment variables that hold its first account's credentials, as globs."""


def kind_of(provider: str) -> str:
    """The provider that an account is one of: what stands before the first `_`, which no provider's name has."""
    return provider.partition("_")[0]


def is_credential(provider: str, variable: str) -> bool:
    """Whether an environment variable holds credentials of a provider."""
    return any(fnmatchcase(variable, pattern) for pattern in CREDENTIALS[kind_of(provider)])
