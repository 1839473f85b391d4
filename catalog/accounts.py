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

SETTABLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "alibaba": (
            "ALIBABA_CLOUD_ACCESS_KEY_ID",
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
            "ALIBABA_CLOUD_SECURITY_TOKEN",
        ),
        "aws": (
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_PROFILE",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
        ),
        "azure": ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_SUBSCRIPTION_ID"),
        "gcp": ("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"),
        "runpod": ("RUNPOD_API_KEY",),
        "tencent": ("TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY", "TENCENTCLOUD_TOKEN"),
        "ucloud": ("UCLOUD_PUBLIC_KEY", "UCLOUD_PRIVATE_KEY", "UCLOUD_PROJECT_ID"),
    }
)
"""By provider, those that an account's own settings may hold: all that is read of them. What an SDK reads by itself, it
reads of its process's environment, which is the first account's.
"""


def kind_of(provider: str) -> str:
    """The provider that an account is one of: what stands before the first `_`, which no provider's name has."""
    return provider.partition("_")[0]


def is_credential(provider: str, variable: str) -> bool:
    """Whether an environment variable holds credentials of a provider."""
    return any(fnmatchcase(variable, pattern) for pattern in CREDENTIALS[kind_of(provider)])
