"""What users give as a target reaches the public internet alone: by its text, by its name, and at the connection."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Event

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.guard import MOST_CHARACTERS, GuardedBackend, Refused, addresses_of, check_url, may_reach, parsed

PUBLIC = "93.184.215.14"
PUBLIC_6 = "2606:4700:4700::1111"

INSIDE = [  # each with what it is
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "this network"),
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("192.168.1.1", "private"),
    ("100.64.0.1", "shared"),
    ("100.127.255.254", "shared"),
    ("169.254.1.1", "link-local"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("192.0.0.8", "protocols"),
    ("192.0.2.1", "documentation"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.7", "documentation"),
    ("198.18.0.1", "benchmarks"),
    ("192.88.99.1", "relay of 6to4"),
    ("169.254.169.254", "metadata: AWS, Azure, GCP, Tencent's link-local"),
    ("169.254.0.23", "metadata: Tencent"),
    ("100.100.100.200", "metadata: Alibaba"),
    ("100.80.80.80", "metadata: UCloud"),
    ("192.0.0.192", "metadata: Oracle"),
    ("168.63.129.16", "Azure's wire server"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("fe80::1", "link-local"),
    ("fec0::1", "site-local"),
    ("fc00::1", "private"),
    ("fd12:3456::1", "private"),
    ("fd00:ec2::254", "metadata: AWS"),
    ("fd20:ce::254", "metadata: GCP"),
    ("ff02::1", "multicast"),
    ("ff0e::1", "multicast, global"),
    ("100::1", "discard"),
    ("2001:db8::1", "documentation"),
    ("3fff::1", "documentation"),
    ("4000::1", "not given out"),
    ("5f00::1", "segments"),
    ("::ffff:127.0.0.1", "mapped loopback"),
    ("::ffff:a9fe:a9fe", "mapped metadata"),
    ("::ffff:0:127.0.0.1", "translated loopback"),
    ("::127.0.0.1", "compatible loopback"),
    ("::10.0.0.1", "compatible private"),
    ("64:ff9b::7f00:1", "NAT64 of loopback"),
    ("64:ff9b::a9fe:a9fe", "NAT64 of metadata"),
    ("64:ff9b::6464:64c8", "NAT64 of Alibaba's metadata"),
    ("64:ff9b::e000:1", "NAT64 of multicast"),
    ("64:ff9b:1::7f00:1", "NAT64 inside of a network"),
    ("64:ff9b:1:fffe::808:808", "NAT64 inside of a network"),
    ("2002:7f00:1::", "6to4 of loopback"),
    ("2002:a9fe:a9fe::1", "6to4 of metadata"),
    ("2001:0:7f00:1::1", "Teredo by a server on loopback"),
    ("2001:0:4136:e378:8000:63bf:80ff:fffe", "Teredo of a client on loopback"),
]
OUTSIDE = [PUBLIC, "8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.1", "192.0.1.1", PUBLIC_6]
OUTSIDE += ["2a00:1450:4001:81b::200e", "64:ff9b::808:808"]

UNREADABLE = [
    # an address in another coat
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0x7F.0.0.0x1/",
    "http://0177.0.0.1/",
    "http://0177.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0x/",
    "http://1.2.3.4.5/",
    "http://256.256.256.256/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://hook.0x7f/",
    "http://127.0.0.1./",
    "http://１２７.０.０.１/",
    "http://①②⑦.0.0.1/",
    "http://127.0.0.%31/",
    "http://%31%32%37.0.0.1/",
    "http://[::1%25eth0]/",
    "http://[fe80::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://[v1.::1]/",
    "http://[127.0.0.1]/",
    "http://[::1/",
    "http://localhost./",
    "http://ⓛocalhost/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://hook.internal./",
    # another target than it looks like
    "http://example.com@127.0.0.1/",
    "http://user:word@example.com/",
    "http://:word@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com/",
    "http://1.1.1.1 &@127.0.0.1# @1.1.1.1/",
    "http://example.com\r\nHost: localhost/",
    "http://example.com/\r\nX: y",
    "http://example.com/\thook",
    " http://example.com/",
    "http://exam\u200bple.com/",
    "http://exam\u00adple.com/",
    "http://example.com/\u202egnp",
    "http://example.com\x00.localhost/",
    "http://example.com%00.localhost/",
    "http://exam ple.com/",
    "http://\ud800.com/",
    # no URL of the web
    "",
    "example.com/hook",
    "//example.com/hook",
    "http:example.com",
    "http:/example.com",
    "http:///hook",
    "http://",
    "http://?hook",
    "http://:80/",
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://example.com:70/_x",
    "unix:/var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "ws://example.com/",
    "javascript:alert(1)",
    "mailto:ops@example.com",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:-1/",
    "http://example.com:80:80/",
    "http://example.com:http/",
    "http://example.com./",
    "http://example..com/",
    "http://.example.com/",
    "http://-example.com/",
    "http://example.com-/",
    "http://exa$mple.com/",
    "http://*.example.com/",
    f"http://{'a' * 64}.com/",
    f"http://{'a.' * 127}com/",
    f"http://example.com/{'a' * MOST_CHARACTERS}",
]
INNER = [  # plain URLs, of what is not public
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://[::ffff:127.0.0.1]:80/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://localhost/",
    "http://LOCALHOST:8080/",
    "http://hook.localhost/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://printer.local/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
]


def literal(address: str) -> str:
    return f"http://[{address}]/hook" if ":" in address else f"http://{address}/hook"


def nothing(_host: str) -> list[str]:
    return []


def never(host: str) -> list[str]:
    raise AssertionError(f"asked for {host}")


def unknown(host: str) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, f"no such name: {host}")


@contextmanager
def listener() -> Iterator[socket.socket]:
    """A port of this machine that counts nobody in: who connects waits in its queue."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def nobody_came(listening: socket.socket) -> bool:
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return True
    return False


async def connect(backend: GuardedBackend, host: str, port: int) -> str:
    """The address that was connected to."""
    try:
        stream = await backend.connect_tcp(host, port, timeout=10)
        reached: str = stream.get_extra_info("server_addr")[0]
        await stream.aclose()
    finally:
        backend.close()
    return reached


@pytest.mark.parametrize(("address", "what"), INSIDE, ids=[f"{address} {what}" for address, what in INSIDE])
def test_an_address_that_is_not_public_is_refused_however_it_is_reached(address: str, what: str) -> None:
    assert not may_reach(ip_address(address)), what
    with pytest.raises(Refused):
        check_url(literal(address), allow_private=False, resolve=unknown)
    with pytest.raises(Refused, match=r"hooks\.example is not on the public internet"):
        check_url("https://hooks.example/", allow_private=False, resolve=lambda _: [address])
    for name, resolve in ((address, unknown), ("hooks.example", lambda _: [PUBLIC, address])):
        with pytest.raises(Refused):
            asyncio.run(connect(GuardedBackend(allow_private=False, resolve=resolve), name, 80))


@pytest.mark.parametrize("address", OUTSIDE)
def test_a_public_address_is_taken(address: str) -> None:
    assert may_reach(ip_address(address))
    check_url(literal(address), allow_private=False, resolve=unknown)
    check_url("https://hooks.example/", allow_private=False, resolve=lambda _: [PUBLIC, address])


@given(st.integers(0, 2**32 - 1))
def test_no_coat_makes_an_address_more_public(number: int) -> None:
    inner = IPv4Address(number)
    coats = [0xFFFF << 32, 0xFFFF << 48, 0x64FF9B << 96, 0]
    wrapped = [IPv6Address(coat | number) for coat in coats] + [IPv6Address(0x2002 << 112 | number << 80)]
    assert not any(may_reach(address) for address in wrapped) or may_reach(inner)


@pytest.mark.parametrize("url", UNREADABLE)
@pytest.mark.parametrize("allow_private", [False, True])
def test_a_url_that_is_not_plain_is_refused_whatever_the_operator_allows(url: str, *, allow_private: bool) -> None:
    with pytest.raises(Refused, match=r"^[^ ].*\.$"):
        check_url(url, allow_private=allow_private, resolve=never)


@pytest.mark.parametrize("url", INNER)
def test_a_name_or_an_address_inside_is_refused_without_asking_for_it(url: str) -> None:
    with pytest.raises(Refused, match="is not on the public internet"):
        check_url(url, allow_private=False, resolve=never)
    check_url(url, allow_private=True, resolve=lambda _: ["127.0.0.1"])


@pytest.mark.parametrize("host", ["localhost", "hook.localhost", "metadata.google.internal", "printer.local"])
def test_a_name_inside_is_refused_at_the_connection_too(host: str) -> None:
    with pytest.raises(Refused):
        asyncio.run(connect(GuardedBackend(allow_private=False, resolve=never), host, 80))


@given(st.text() | st.text("htp:/@[]%.0x7\\#?").map("http://{}".format))
def test_no_text_at_all_is_anything_but_read_or_refused(text: str) -> None:
    try:
        place = parsed(text)
    except Refused:
        return
    assert place.host
    assert 0 < place.port < 65536


def test_what_a_url_says_is_kept_as_it_goes_over_the_wire() -> None:
    place = parsed("HTTPS://Hooks.Example:8443/a%20b/é?key=ü#part")
    assert place == ("https", "hooks.example", 8443, "hooks.example:8443", b"/a%20b/%C3%A9?key=%C3%BC")
    assert parsed("https://例子.测试/hook").host == "xn--fsqu00a.xn--0zwm56d"
    assert parsed("https://straße.example/").host == "xn--strae-oqa.example"
    assert parsed("http://[2606:4700:4700:0::1111]:81/")[1:4] == (PUBLIC_6, 81, "[2606:4700:4700:0::1111]:81")
    assert parsed("http://hooks_1.example:80/").port == 80


def test_a_name_without_an_address_has_a_sentence_of_its_own() -> None:
    for resolve in (unknown, nothing):
        with pytest.raises(Refused, match=r"hooks\.example has no address that .* knows: look at its spelling"):
            check_url("https://hooks.example/s3cret", allow_private=True, resolve=resolve)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1", "::1"])
def test_the_machines_own_name_service_makes_no_address_public(host: str) -> None:
    # Where it does not read these forms, it has no address for them.
    with pytest.raises((Refused, httpcore2.ConnectError)):
        asyncio.run(connect(GuardedBackend(allow_private=False), host, 80))


def test_the_machines_own_name_service_is_asked() -> None:
    assert set(addresses_of("localhost")) <= {"127.0.0.1", "::1"}
    check_url("http://localhost/", allow_private=True)


def test_a_name_that_changes_after_it_was_checked_gains_nothing() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"], ["127.0.0.1"], [PUBLIC]])
    with listener() as listening:
        port = listening.getsockname()[1]

        def resolve(_host: str) -> list[str]:
            return next(answers)

        check_url(f"http://hooks.example:{port}/", allow_private=False, resolve=resolve)
        with pytest.raises(Refused):
            asyncio.run(connect(GuardedBackend(allow_private=False, resolve=resolve), "hooks.example", port))
        assert nobody_came(listening)
        # Asked once for each connection: what was judged is what is connected to.
        reached = asyncio.run(connect(GuardedBackend(allow_private=True, resolve=resolve), "hooks.example", port))
        assert reached == "127.0.0.1"
        assert next(answers) == [PUBLIC]


def test_one_refused_address_among_others_refuses_the_name_wherever_it_stands() -> None:
    with listener() as listening:
        port = listening.getsockname()[1]
        for answer in (["127.0.0.1", PUBLIC], [PUBLIC, PUBLIC_6, PUBLIC, PUBLIC, "::1"]):
            backend = GuardedBackend(allow_private=False, resolve=lambda _, answer=answer: answer)  # type: ignore[misc]
            with pytest.raises(Refused):
                asyncio.run(connect(backend, "hooks.example", port))
        assert nobody_came(listening)


def test_whether_an_inner_port_is_open_cannot_be_told() -> None:
    told = set()
    with listener() as listening:
        open_port = listening.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as closing:
            closed_port = closing.getsockname()[1]
        for port in (open_port, closed_port):
            for host, resolve in (
                ("hooks.example", lambda _: ["127.0.0.1"]),
                ("hooks.example", lambda _: ["10.0.0.1"]),
            ):
                with pytest.raises(Refused) as refused:
                    asyncio.run(connect(GuardedBackend(allow_private=False, resolve=resolve), host, port))
                told.add(str(refused.value))
        assert nobody_came(listening)
    assert len(told) == 1


def test_the_next_address_is_tried_where_nobody_answers() -> None:
    with listener() as listening:
        port = listening.getsockname()[1]
        backend = GuardedBackend(allow_private=True, resolve=lambda _: ["127.0.0.2", "127.0.0.1"])
        assert asyncio.run(connect(backend, "hooks.example", port)) == "127.0.0.1"


def test_a_name_that_is_not_found_at_the_connection_may_be_found_later() -> None:
    for resolve in (unknown, nothing):
        with pytest.raises(httpcore2.ConnectError, match="has no address"):
            asyncio.run(connect(GuardedBackend(allow_private=False, resolve=resolve), "hooks.example", 80))


def test_a_slow_name_is_asked_for_once_and_keeps_no_other_waiting() -> None:
    released, asked = Event(), []

    def resolve(host: str) -> list[str]:
        asked.append(host)
        if host == "slow.example":
            released.wait(30)
        return ["10.0.0.1"]

    async def many() -> None:
        backend = GuardedBackend(allow_private=False, resolve=resolve)
        slow = [asyncio.ensure_future(backend.connect_tcp("slow.example", 80)) for _ in range(100)]
        await asyncio.sleep(0)  # they have begun
        with pytest.raises(Refused):
            await backend.connect_tcp("quick.example", 80)
        assert not any(task.done() for task in slow)
        slow[0].cancel()
        released.set()
        first, *others = await asyncio.gather(*slow, return_exceptions=True)
        assert isinstance(first, asyncio.CancelledError)
        assert all(isinstance(one, Refused) for one in others)
        backend.close()

    asyncio.run(many())
    assert sorted(asked) == ["quick.example", "slow.example"]


def test_hundreds_of_names_that_hang_delay_no_other() -> None:
    released = Event()

    def resolve(host: str) -> list[str]:
        if host != "quick.example":
            released.wait(60)
        return ["10.0.0.1"]

    async def many() -> None:
        backend = GuardedBackend(allow_private=False, resolve=resolve)
        slow = [asyncio.ensure_future(backend.connect_tcp(f"slow{number}.example", 80)) for number in range(500)]
        await asyncio.sleep(0)  # they have begun
        try:
            with pytest.raises(Refused):
                await asyncio.wait_for(backend.connect_tcp("quick.example", 80), 30)
            assert not any(task.done() for task in slow)
        finally:
            released.set()
            await asyncio.gather(*slow, return_exceptions=True)
            backend.close()

    asyncio.run(many())
