"""What the server is told when it is built, and where it may listen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address

from catalog.fx import Rates
from catalog.partitions import Account, account_of
from store.times import utc_now


class ListenError(ValueError):
    """The server refuses to listen there. Says why and what to set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """The server's settings. `clock` gives aware UTC times."""

    rates: Rates
    """Those shipped, and over them those set by hand."""
    fetched_rates: bool = True
    """Whether newer rates that a worker fetched are used too."""
    host: str = "127.0.0.1"
    """Where it listens: this, and not the client's address, decides whether reads are on loopback."""
    token: str | None = field(default=None, repr=False)
    public_reads: bool = False
    providers: frozenset[str] = frozenset()
    """Those in use: what the database holds of any other is not shown, and naming one is refused."""
    sites: Mapping[str, str] = field(default_factory=dict)
    """Provider -> the site that is set: what was polled of another one is not shown, also before it is polled anew."""
    partitions: Mapping[str, str | None] = field(default_factory=dict)
    """Provider -> the partition that its credentials are of, where the settings decide that; None where nothing tells.
    Of any other provider its site does.
    """
    defaults: Mapping[str, str] = field(default_factory=dict)
    """The operator's defaults for the parameters of a question."""
    fallback: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Region -> the regions to fall back on, in order."""
    launch_hold: timedelta = timedelta(minutes=30)
    """How long what a launch taught holds."""
    refresh_every: timedelta = timedelta(milliseconds=500)
    version: str = "unknown"
    clock: Callable[[], datetime] = utc_now
    sends_mail: bool = False
    """Whether there is a mail server, so that e-mail targets can be told anything."""
    allow_private: bool = False
    """Whether targets may lie on this machine and in its network."""

    def account(self, provider: str, site: str | None) -> Account | None:
        """The account that the credentials of a provider are; None where nothing tells at which places they count."""
        if provider not in self.partitions:
            return account_of(provider, site)
        partition = self.partitions[provider]
        return None if partition is None else (provider, partition)

    @property
    def reads_need_token(self) -> bool:
        """Whether a read must carry the token: off loopback, unless the operator made reads public."""
        return bool(self.token) and not self.public_reads and not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own loopback. Any other name is not, wherever it may point."""
    name = host.strip("[]").casefold()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def check_listen(host: str, token: str | None) -> None:
    """Raise ListenError unless the host is loopback or a token is set."""
    if not token and not is_loopback(host):
        raise ListenError(
            f"refusing to listen on {host}: anyone who reaches it could use this server. "
            "Set GPUFARE_API_TOKEN to a long random text, or listen on 127.0.0.1."
        )
