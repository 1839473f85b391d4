"""Providers' SDKs are extras of this package: what to say where one is not installed, and where their logs go."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from collectors.base import NotConfigured


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around the imports of a provider's SDK. NotConfigured, with the extra to install, where a module is missing, or a
    name in one: packages share namespaces, and what one of them brought is gone while the others' is still there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotConfigured(f"the package {error.name} is not installed: {_advice(name)}") from error
    except ImportError as error:
        raise NotConfigured(f"the package {error.name or name} is not installed whole: {_advice(name)}") from error


def _advice(name: str) -> str:
    return f"pip install 'gpufare[{name}]'"


def log_with_ours(*names: str, level: int = logging.WARNING) -> None:
    """Have an SDK's loggers write where all of this program does, as it does, and nothing below `level`: at DEBUG most
    of them print what they send, tokens too. Some bring a handler of their own, which would ignore our settings.
    """
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(level)
