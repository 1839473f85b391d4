"""Which addresses may be connected to: what users give as a target must not reach into this machine or its network.

A URL is judged twice: once when it is given, so that a mistake is told at once; and at each connection, by the
addresses that its name has then. Those very addresses are connected to: a name that changes in between gains nothing.
"""

import asyncio
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from httpcore2 import SOCKET_OPTION, AsyncNetworkBackend, AsyncNetworkStream
else:
    AsyncNetworkBackend = object  # the library asks for its methods alone, and is loaded when something is sent

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Iterable[str]]
"""From a name to its addresses as text. It blocks, and raises OSError where there are none."""

MOST_CHARACTERS = 2048
_PORTS = {"http": 80, "https": 443}
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""What is read as an IPv4 address though it does not look like one: https://url.spec.whatwg.org/#ends-in-a-number-checker."""
_INSIDE = (".localhost", ".internal", ".local")
_UNICAST = IPv6Network("2000::/3")
"""All that is given out for the internet: what is mapped, compatible or translated lies outside, as loopback does.
https://www.iana.org/assignments/ipv6-address-space/ipv6-address-space.xhtml"""
_NAT64 = IPv6Network("64:ff9b::/96")
"""RFC 6052: an IPv4 address in the last 32 bits. (64:ff9b:1::/48 is for use inside of a network.)"""
_NOT_GLOBAL = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24",  # for protocols; Oracle's metadata at .192
            "192.88.99.0/24",  # relays of 6to4
            "168.63.129.16/32",  # Azure's machines: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
            "2001::/23",  # for protocols; Teredo, which carries an IPv4 address
            "2002::/16",  # 6to4, which carries an IPv4 address: nobody listens there since RFC 7526
            "3fff::/20",  # documentation, RFC 9637
        ),
    )
)
"""What `is_global` of some Python lets pass, or of all."""
_LOOKUPS = 1024
"""Names looked up at once, each in a thread: more than attempts are made at once, since what hangs outlasts those."""
_TRIED = 4
"""Addresses of one name that are tried one after the other."""


class Refused(Exception):
    """A URL that nothing is sent to. The text is one sentence for people, with the host and nothing else of the URL."""


class Place(NamedTuple):
    """What a URL says, as it goes over the wire."""

    scheme: str
    host: str
    """A name in ASCII, or an address without brackets."""
    port: int
    authority: str
    """Host and port as the header `Host` has them."""
    target: bytes


def may_reach(address: Address) -> bool:
    """Whether it is an address of the public internet, and carries none that is not.

    `is_private` is no measure: it is False of 100.100.100.200, where Alibaba's machines find their credentials.
    """
    if not address.is_global or address.is_multicast or any(address in network for network in _NOT_GLOBAL):
        return False
    if isinstance(address, IPv4Address):
        return True
    if address in _NAT64:
        return may_reach(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _UNICAST


def addresses_of(host: str) -> list[str]:
    """The addresses that this machine's name service has for a name. It blocks; OSError where there are none."""
    # As bytes: text would be encoded once more, by older rules.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(socket_address[0]) for *_, socket_address in found))


def check_url(url: str, *, allow_private: bool, resolve: Resolve = addresses_of) -> None:
    """Raise Refused unless a target may have this URL. It looks the name up, so it blocks; it connects to nothing."""
    host = parsed(url).host
    _judge_name(host, allow_private=allow_private)
    try:
        found = _found(host, resolve)
    except OSError:
        raise Refused(
            f"{host} has no address that this machine's name service knows: look at its spelling, or try again later."
        ) from None
    _judge(host, found, allow_private=allow_private)


def parsed(url: str) -> Place:
    """What a URL says. Refused where it is no plain http or https URL: nothing in it is left to be guessed."""
    import httpx2

    if len(url) > MOST_CHARACTERS:
        raise Refused(f"The URL is longer than {MOST_CHARACTERS} characters.")
    if not url.isprintable() or " " in url or "\\" in url:
        raise Refused("The URL has a blank, a backslash or a character that cannot be seen in it: copy it again.")
    try:
        read = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        raise Refused("The URL cannot be read: write it as https://example.com/hook.") from None
    if read.scheme not in _PORTS:
        raise Refused("The URL must begin with https:// or http://.")
    if read.userinfo:
        raise Refused("The URL must have no user name and no password in it.")
    host = _host(read.raw_host.decode("ascii"))
    port = _PORTS[read.scheme] if read.port is None else read.port
    if not 0 < port < 65536:
        raise Refused(f"The port of {host} must be a number from 1 to 65535.")
    return Place(read.scheme, host, port, read.netloc.decode("ascii"), read.raw_path)


def _host(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        return _name(text)
    if "%" in text:
        raise Refused("The address must have no zone (what follows the % sign).")
    return str(address)


def _name(text: str) -> str:
    if text.endswith(".") and text.strip("."):
        raise Refused(f"Write {text[:-1]} without the dot at its end.")
    if not _NAME.fullmatch(text):
        raise Refused("The URL has no host that can be read: write it as https://example.com/hook.")
    if _NUMBER.fullmatch(text):
        raise Refused(f"{text} is no name: write an address as four decimal numbers, such as 192.0.2.1.")
    return text


def _found(host: str, resolve: Resolve) -> Sequence[Address]:
    """The addresses of a host that `parsed` let pass. OSError where there are none."""
    try:
        return [ip_address(host)]
    except ValueError:
        found = [ip_address(one) for one in resolve(host)]
    if not found:
        raise OSError(f"{host} has no address")
    return found


def _judge_name(host: str, *, allow_private: bool) -> None:
    if not allow_private and (host == "localhost" or host.endswith(_INSIDE)):
        raise _not_public(host)


def _judge(host: str, addresses: Iterable[Address], *, allow_private: bool) -> None:
    if not allow_private and not all(map(may_reach, addresses)):
        raise _not_public(host)


def _not_public(host: str) -> Refused:
    """It does not say which address is inside, nor how: that is no user's business."""
    return Refused(f"{host} is not on the public internet: to send there, set GPUFARE_WEBHOOKS__ALLOW_PRIVATE=true.")


class GuardedBackend(AsyncNetworkBackend):
    """A network backend of httpcore2, for asyncio: it looks a name up, judges every address, then connects to those.

    Refused is raised before anything is connected to, so it is the same whether a port is open or not. Each name is
    looked up once at a time, by threads of its own: a name that takes long keeps no other waiting.
    """

    def __init__(self, *, allow_private: bool, resolve: Resolve = addresses_of) -> None:
        import httpcore2

        self._allow_private, self._resolve = allow_private, resolve
        self._network = httpcore2.AnyIOBackend()
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="lookup")
        self._lookups: dict[str, asyncio.Future[Sequence[Address]]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the name is the base class's
        local_address: str | None = None,
        socket_options: "Iterable[SOCKET_OPTION] | None" = None,
    ) -> "AsyncNetworkStream":
        """Connect to the first address that answers; each is given its share of the `timeout`, in seconds."""
        import httpcore2

        _judge_name(host, allow_private=self._allow_private)
        try:
            found = await self._looked_up(host)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} has no address") from error
        _judge(host, found, allow_private=self._allow_private)
        *others, last = [str(address) for address in found[:_TRIED]]
        share_s = None if timeout is None else timeout / (len(others) + 1)
        for address in others:
            try:
                return await self._network.connect_tcp(address, port, share_s, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, share_s, local_address, socket_options)

    async def _looked_up(self, host: str) -> Sequence[Address]:
        if host not in self._lookups:
            lookup = asyncio.get_running_loop().run_in_executor(self._threads, _found, host, self._resolve)
            self._lookups[host] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(host))
        return await asyncio.shield(self._lookups[host])  # others may wait for the same

    def close(self) -> None:
        """Give up what is still being looked up. Nothing may be connecting any more."""
        for lookup in list(self._lookups.values()):
            lookup.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
