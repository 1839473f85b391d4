"""Which providers there are: a line each. A provider's module is imported when it is used, its SDK later still."""

from importlib import import_module

from collectors.base import Config, Provider

PROVIDERS = {
    "aws": "collectors.aws:Aws",
    "runpod": "collectors.runpod:RunPod",
    "tencent": "collectors.tencent:Tencent",
}


def provider(name: str, config: Config) -> Provider:
    """The provider of that name, built from its configuration. KeyError for a name that is not in `PROVIDERS`."""
    module, _, attribute = PROVIDERS[name].partition(":")
    built: Provider = getattr(import_module(module), attribute)(config)
    return built
