"""Keys out of the settings: without the white space that copying brings along, and only such as can be sent."""

from collections.abc import Mapping

from collectors.base import AuthFailed


def stated(environ: Mapping[str, str], name: str) -> str:
    """The variable without the white space around it; "" where it is not set."""
    return environ.get(name, "").strip()


def sendable(environ: Mapping[str, str], name: str) -> str:
    """The same, to be sent. AuthFailed for a text that no key is and no HTTP header can hold; it is not shown."""
    key = stated(environ, name)
    if not (key.isascii() and key.isprintable()):
        raise AuthFailed(f"{name} holds a character that is in no key (a line break, or not ASCII): copy it anew")
    return key
