"""Which version of the program this is: what one version read of an answer, another may read differently."""

from importlib.metadata import PackageNotFoundError, version


def program_version() -> str:
    """The version; `unknown` where the program runs without being installed."""
    try:
        return version("gpufare")
    except PackageNotFoundError:
        return "unknown"
