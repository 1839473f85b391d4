"""Providers' SDKs are extras of this package: what to say where one is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from collectors.base import NotConfigured


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around the imports of a provider's SDK. NotConfigured, with the extra to install, where a module is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotConfigured(f"the package {error.name} is not installed: pip install 'gpufare[{name}]'") from error
