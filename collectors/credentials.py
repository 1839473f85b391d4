"""Keys out of the settings: without the white space that copying brings along, and only such as can be sent. And the
tokens that are had for them, which are as secret.
"""

from collections import deque
from collections.abc import Mapping

from collectors.base import AuthFailed

MOST_TOKENS = 64
"""The latest that are remembered, of all threads together: more than there are polls at once."""
SHORTEST_TOKEN = 16
"""What is shorter is no cloud's, but a word that a server on this machine answers with."""
_tokens: deque[str] = deque(maxlen=MOST_TOKENS)


def stated(environ: Mapping[str, str], name: str) -> str:
    """The variable without the white space around it; "" where it is not set."""
    return environ.get(name, "").strip()


def sendable(environ: Mapping[str, str], name: str) -> str:
    """The same, to be sent. AuthFailed for a text that no key is and no HTTP header can hold; it is not shown."""
    key = stated(environ, name)
    if not (key.isascii() and key.isprintable()):
        raise AuthFailed(f"{name} holds a character that is in no key (a line break, or not ASCII): copy it anew")
    return key


def obtained(token: str) -> str:
    """The token, which is from now on taken out of whatever is shown, logged or kept: see `scheduler/scrub.py`."""
    if len(token) >= SHORTEST_TOKEN and token not in _tokens:
        _tokens.append(token)
    return token


def tokens() -> tuple[str, ...]:
    """The tokens that were obtained lately."""
    return tuple(_tokens)
