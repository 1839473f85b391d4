"""Which providers there are: a line each. A provider's module is imported when it is used, its SDK later still."""

from importlib import import_module

from catalog.accounts import kind_of
from collectors.account import Account
from collectors.base import Config, Provider

PROVIDERS = {
    "alibaba": "collectors.alibaba:Alibaba",
    "aws": "collectors.aws:Aws",
    "azure": "collectors.azure:Azure",
    "gcp": "collectors.gcp:Gcp",
    "runpod": "collectors.runpod:RunPod",
    "tencent": "collectors.tencent:Tencent",
    "ucloud": "collectors.ucloud:UCloud",
}


def provider(name: str, config: Config) -> Provider:
    """The provider of that name, or the account, built from its configuration. KeyError for one that there is not."""
    module, _, attribute = PROVIDERS[kind_of(name)].partition(":")
    built: Provider = getattr(import_module(module), attribute)(config)
    return built if name in PROVIDERS else Account(name, built)
