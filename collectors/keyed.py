"""Providers that answer nothing without their key: all of their feeds, or none and what to set."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from collectors.base import Config, Feed
from collectors.credentials import stated


class Keyed:
    """A configured provider all of whose feeds need its key, and its site where it has two."""

    name: ClassVar[str]
    all_feeds: ClassVar[tuple[Any, ...]]
    """The classes of its feeds, each built from the configuration."""
    keys: ClassVar[tuple[str, ...]]
    """The variables that make its key."""
    besides: ClassVar[str] = ""
    """What else may have to be set, in brackets."""
    currencies: ClassVar[Mapping[str, str]] = {}
    """The currency that each of its sites bills in; empty where it has one site."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def account(self) -> bool:
        """Whether all parts of the key are there."""
        return all(stated(self._config.environ, key) for key in self.keys)

    def feeds(self) -> Iterable[Feed]:
        """All of them, or none."""
        return [] if self._missing() else [feed(self._config) for feed in self.all_feeds]

    def off(self) -> Mapping[str, str]:
        """The same for every feed: the key, the site, or both."""
        missing = self._missing()
        return {feed.name: f"set {missing}" for feed in self.all_feeds} if missing else {}

    def _missing(self) -> str:
        wanted = [] if self.account else [" and ".join(self.keys) + self.besides]
        if self.currencies and self._config.site not in self.currencies:
            billed = self.currencies.items()
            sites = " or ".join(f"{site} (an account billed in {currency})" for site, currency in billed)
            setting = f"GPUFARE_PROVIDERS__{self.name.upper()}__SITE"
            wanted.append(f"{setting} to {sites}; it is never guessed")
        return ", and ".join(wanted)
