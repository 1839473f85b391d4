"""Another account of a provider: the same feeds under a name of their own, with limits of their own."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.accounts import CREDENTIALS
from catalog.facts import Fact, Note
from catalog.words import Evidence, Level
from collectors.base import ByMachine, Cell, Feed, Limit, Page, Provider, ProviderError


@dataclass(frozen=True, slots=True)
class Account:
    """A configured provider under the name of one of its accounts, such as `tencent_intl`."""

    name: str
    of: Provider

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The provider's."""
        return self.of.evidence

    @property
    def account(self) -> bool:
        """Whether this account's own settings hold credentials."""
        return self.of.account

    def feeds(self) -> Iterable[Feed]:
        """The provider's, with cells of this name."""
        for feed in self.of.feeds():
            named = _MachineFeed if isinstance(feed, ByMachine) else _AccountFeed
            yield named(self.name, feed)

    def off(self) -> Mapping[str, str]:
        """The provider's, of this account's settings."""
        return {feed: _renamed(why, self.of.name, self.name) for feed, why in self.of.off().items()}


def _renamed(said: str, provider: str, account: str) -> str:
    """A sentence about the provider's first account as one about this: its name, its settings, its commands."""
    own = f"GPUFARE_PROVIDERS__{account.upper()}__"
    variables = "|".join(glob.replace("*", "[A-Z][A-Z_]*") for glob in CREDENTIALS[provider])
    said = re.sub(rf"(?<![\w$])(?:{variables})(?!\w)", rf"{own}CREDENTIALS__\g<0>", said)
    said = said.replace(f"GPUFARE_PROVIDERS__{provider.upper()}__", own)
    return re.sub(rf"^{provider}(?=[ :])|(?<=gpufare sync ){provider}(?!\w)", account, said)


@dataclass(frozen=True, slots=True)
class _AccountFeed:
    provider: str
    of: Feed

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def every(self) -> timedelta:
        return self.of.every

    @property
    def fresh_for(self) -> timedelta:
        return self.of.fresh_for

    @property
    def absent(self) -> Level:
        return self.of.absent

    def cells(self, regions: Iterable[str]) -> Iterable[Cell]:
        return [replace(cell, provider=self.provider) for cell in self.of.cells(regions)]

    def limit(self, cell: Cell) -> Limit:
        """The provider counts each account's calls by themselves."""
        limit = self.of.limit(self._theirs(cell))
        own = f"{self.provider}/"
        return replace(limit, key=own + limit.key, pause_key=own + limit.pause_key if limit.pause_key else "")

    def fetch(self, cell: Cell, now: datetime, memo: Mapping[str, str]) -> Iterator[Page]:
        with self._told():
            yield from self.of.fetch(self._theirs(cell), now, memo)

    def parse(self, page: Page) -> Iterator[Fact | Note]:
        with self._told():
            yield from self.of.parse(page)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The provider's errors as this account's: to set the first one's variables would mend nothing."""
        try:
            yield
        except ProviderError as error:
            error.args = (_renamed(str(error), self.of.provider, self.provider),)
            raise

    def _theirs(self, cell: Cell) -> Cell:
        return replace(cell, provider=self.of.provider)


class _MachineFeed(_AccountFeed):
    def cells_of(self, machines: Mapping[str, Iterable[str]]) -> Iterable[Cell]:
        assert isinstance(self.of, ByMachine)  # noqa: S101 - `Account.feeds` chose this class by it
        return [replace(cell, provider=self.provider) for cell in self.of.cells_of(machines)]
