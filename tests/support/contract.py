"""The contract that every provider keeps, inherited by `tests/test_<provider>.py`.

Over its recorded pages: the facts are the right ones; no record vanishes; a field that is dropped never makes a wrong
fact; whatever stands in place of a value is read or is Drift, and so is a broken body. Over a local server: what a
status or a dead line means; every call waits for its slot; secrets show nowhere.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simcloud
from catalog.facts import Fact, Note
from collectors.base import (
    AuthFailed,
    Cell,
    Config,
    Drift,
    Feed,
    ProviderError,
    Throttled,
    Unavailable,
    Unchanged,
    before_each_call,
)
from collectors.registry import provider
from tests.support.canned import Canned, canned
from tests.support.pages import (
    NOW,
    Case,
    cases,
    enormous_values_of,
    feed_of,
    lines,
    sizes_of,
    values_of,
    weaker,
    with_value,
    without_each_field,
    without_each_record,
)

SECRET = "S3cr3t-that-must-show-nowhere"
ANYTHING = st.one_of(
    st.sampled_from(["0", "-1", "-4", "1e-12", "1e40", "null", "true", "false", "[]", "[1]", "{}", '""', '"-1"']),
    st.sampled_from([str(10**30), f"-{10**30}", "1" * 5000, "1e999999999", "1e-99999999", f"9e{'9' * 18}"]),
    st.sampled_from([f"9e{'9' * 30}", f'"9e{"9" * 30}"', '"1e99999999 GiB"', '"1_5"', '"１５"', '" 15 "', '"0x10"']),
    st.sampled_from([r'"\ud800"', r'{"\udfff": 1}', r'"\ud83d\ude00"', "[null]", '{"a": [{"b": null}]}', "[[[]]]"]),
    st.integers(1, 2000).map(lambda deep: "[" * deep + "]" * deep),
    st.integers(1, 2000).map(lambda deep: '{"a":' * deep + "1" + "}" * deep),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text().map(json.dumps),
)
"""What may stand in place of anything, as JSON."""
HTML = b"<html><head><title>502 Bad Gateway</title></head><body>upstream</body></html>"


class CollectorContract:
    """What a provider's own test class fills in, and the tests that it inherits."""

    name: ClassVar[str]
    config: ClassVar[Config]
    """With credentials, all of whose secrets contain `SECRET`."""
    regions: ClassVar[tuple[str, ...]]
    """Regions to poll in the tests of `fetch`."""
    services: ClassVar[tuple[str, ...]]
    """The names of its ENDPOINTS, all pointed at the local server."""
    unbounded: ClassVar[frozenset[str]] = frozenset()
    """Feeds of a price list, which may take minutes."""
    of_no_zone: ClassVar[frozenset[str]] = frozenset()
    """Feeds whose answers name no zone: what they are about is in the question alone."""
    keyless: ClassVar[frozenset[str]] = frozenset()
    """Feeds that send no credentials, so that none can be refused."""
    documented: ClassVar[Mapping[str, str]] = {}
    """`feed/field` -> why dropping that field makes another fact than before, a right one."""
    faults: ClassVar[Mapping[str, tuple[Canned, type[ProviderError]]]] = {
        "401": (Canned(401, b"{}"), AuthFailed),
        "403": (Canned(403, b"{}"), AuthFailed),
        "304": (Canned(304), Drift),
        "429": (Canned(429, b"{}", {"Retry-After": "7"}), Throttled),
        "500": (Canned(500, b"{}"), Unavailable),
        "503": (Canned(503, HTML, {"Content-Type": "text/html"}), Unavailable),
        "closed": (Canned(0), Unavailable),
        "cut": (Canned(200, b'{"a": [', cut=True), Unavailable),
        "silent": (Canned(200, b"{}", silent_s=3), Unavailable),
        "html": (Canned(200, HTML, {"Content-Type": "text/html"}), Drift),
        "empty": (Canned(200, b""), Drift),
        "truncated": (Canned(200, b'{"Response": {"InstanceTypeQuotaSet": [{"Zone": "ap-'), Drift),
    }

    def config_for(self, case: Case) -> Config:
        """The configuration that a recorded page is read with."""
        config = self.config
        return Config(config.environ, config.regions, case.config.get("site", config.site), config.endpoints)

    def parsed(self, case: Case, body: bytes | None = None) -> list[Fact | Note]:
        feed = feed_of(case, self.config_for(case))
        return list(feed.parse(case.page if body is None else case.with_body(body)))

    def test_each_feed_has_recorded_pages(self) -> None:
        recorded = {case.feed for case in cases(self.name)}
        assert {feed.name for feed in provider(self.name, self.config).feeds()} == recorded

    def test_pages_give_the_facts_that_were_read_over(self) -> None:
        for case in cases(self.name):
            assert lines(self.parsed(case)) == case.facts_file.read_text("utf-8").splitlines(), case.name

    def test_no_record_vanishes(self) -> None:
        for case in cases(self.name):
            whole = Counter(lines(self.parsed(case)))
            left_out = list(without_each_record(case))
            for where, body in left_out:
                try:
                    assert Counter(lines(self.parsed(case, body))) != whole, f"{case.name}: {where} left no trace"
                except Drift:
                    continue

    def test_a_dropped_field_never_makes_a_wrong_fact(self) -> None:
        swept = 0
        for case in cases(self.name):
            whole = self.parsed(case)
            for where, body in without_each_field(case):
                swept += 1
                if f"{case.feed}/{where.rpartition(': ')[2]}" in self.documented:
                    continue
                self._nothing_new(case, where, body, whole)
        assert swept

    def _nothing_new(self, case: Case, where: str, body: bytes, whole: list[Fact | Note]) -> None:
        try:
            found = self.parsed(case, body)
        except Drift:
            return
        facts = [item for item in found if not isinstance(item, Note)]
        known = set(whole)
        wrong = [fact for fact in facts if fact not in known and not any(weaker(fact, one) for one in whole)]
        assert not wrong, f"{case.name}: without {where}: {lines(wrong)}"

    def test_a_broken_body_is_drift(self) -> None:
        for case in cases(self.name):
            body = case.page.body
            for broken in (b"", b"  \n", HTML, b"null", b"17", b'"text"', body[: len(body) // 2], body.rstrip()[:-1]):
                with pytest.raises(Drift):
                    self.parsed(case, broken)

    def test_what_stands_in_place_of_a_value_is_read_or_is_drift(self) -> None:
        """Negative, enormous, a word, half a character, nothing, a thousand lists: no fact that could lie constructs,
        nothing else is raised, and what is stated can be written down.
        """
        places = [(case, path) for case in cases(self.name) for path in values_of(case)]
        assert len(places) > 10

        @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(places), ANYTHING)
        def check(place: tuple[Case, tuple[str | int, ...]], text: str) -> None:
            case, path = place
            try:
                found = self.parsed(case, with_value(case, path, text))
            except Drift:
                return
            "".join(lines(found)).encode()  # raises for half a character; an empty list may be a whole answer

        check()

    def test_no_size_is_beyond_what_a_machine_can_have(self) -> None:
        """A count of 10^12 would make the cheapest GPU of all; above 2^31 no database holds it."""
        swept = 0
        for case in cases(self.name):
            for path, enormous in enormous_values_of(case):
                swept += 1
                try:
                    found = self.parsed(case, with_value(case, path, enormous))
                except Drift:
                    continue
                beyond = [item for item in found if any(size > most for size, most in sizes_of(item))]
                assert not beyond, f"{case.name}: {path}: {enormous}: {lines(beyond)}"
        assert swept

    def test_what_is_of_another_region_states_nothing_here(self) -> None:
        """An answer out of a wrong cache: the page of one region taken for that of another."""
        for case in cases(self.name):
            if not case.page.place or case.feed in self.of_no_zone:
                continue
            elsewhere = replace(case, page=replace(case.page, place="xx-nowhere-9"))
            try:
                found = self.parsed(elsewhere)
            except Drift:
                continue
            zoned = [item for item in found if not isinstance(item, Note) and getattr(item, "zone", None)]
            assert not zoned, f"{case.name}: {lines(zoned)}"

    def test_every_call_waits_for_its_slot(self) -> None:
        """As many slots as requests that came: a limit counts calls, not pages."""
        with simcloud.start("demo", providers=(self.name,)) as sim:
            for feed in provider(self.name, self.of_sim(sim)).feeds():
                for cell in feed.cells(self.regions):
                    before = len(sim.requests(self.name))
                    with counted_calls() as calls:
                        assert list(feed.fetch(cell, NOW, {})), cell
                    assert len(calls) == len(sim.requests(self.name)) - before > 0, cell

    def of_sim(self, sim: simcloud.Sim) -> Config:
        """The configuration pointed at a simulated cloud, with its credentials."""
        endpoints = dict.fromkeys(self.services, sim.url(self.name))
        return Config(sim.env(), self.regions, self.config.site, endpoints)

    def at(self, url: str) -> Config:
        """The configuration pointed at a local server, impatient."""
        endpoints = dict.fromkeys(self.services, url)
        return Config(self.config.environ, self.regions, self.config.site, endpoints, timeout=timedelta(seconds=1))

    def cell_of(self, feed: Feed) -> Cell:
        return next(iter(feed.cells(self.regions)))

    def drained(self, feed: Feed) -> None:
        """All of a cell fetched and read, as a poll does."""
        for page in feed.fetch(self.cell_of(feed), NOW, {}):
            for _ in feed.parse(page):
                pass

    def test_what_goes_wrong_has_its_own_error(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        for fault, (answer, expected) in self.faults.items():
            with canned(answer) as server:
                for feed in provider(self.name, self.at(server.url)).feeds():
                    keyless = expected is AuthFailed and feed.name in self.keyless
                    with pytest.raises((ProviderError, Unchanged)) as caught:
                        self.drained(feed)
                    meant = Unavailable if keyless else expected
                    assert type(caught.value) is meant, f"{feed.name}, {fault}: {caught.value!r}"
                    assert SECRET not in str(caught.value)
        assert SECRET not in caplog.text

    def test_an_answer_that_drips_for_ever_is_given_up(self) -> None:
        """A byte now and then keeps every single wait short."""
        with canned(Canned(200, b" " * 4000, drip_s=0.05)) as server:
            for feed in provider(self.name, self.at(server.url)).feeds():
                if feed.name not in self.unbounded:
                    with pytest.raises(Unavailable):
                        self.drained(feed)

    @pytest.mark.parametrize("key", ["clé", "line\nbreak", "tab\tinside"])
    def test_a_key_that_no_header_can_hold_is_refused_with_a_sentence(self, key: str) -> None:
        with canned(Canned(200, b"{}")) as server:
            for name in self.config.environ:
                bent = replace(self.at(server.url), environ={**self.config.environ, name: key})
                for feed in provider(self.name, bent).feeds():
                    if feed.name not in self.keyless:
                        with pytest.raises(AuthFailed, match=name) as caught:
                            self.drained(feed)
                        assert key not in str(caught.value)
        assert not server.requests

    def test_white_space_around_a_key_is_no_part_of_it(self) -> None:
        with simcloud.start("demo", providers=(self.name,)) as sim:
            told = self.of_sim(sim)
            padded = replace(told, environ={name: f" {value}\n" for name, value in told.environ.items()})
            for feed in provider(self.name, padded).feeds():
                assert list(feed.fetch(self.cell_of(feed), NOW, {}))
        blank = Config(dict.fromkeys(self.config.environ, " \n"), self.regions, self.config.site)
        assert not provider(self.name, blank).account

    @pytest.mark.parametrize("status", [301, 302, 307, 308])  # at 303 botocore fails too, and leaves its socket open
    def test_a_redirect_is_an_error_and_the_other_host_is_sent_nothing(self, status: int) -> None:
        """The key, the token or the signature would go where an answer says, be it no cloud at all."""
        with canned(Canned(200, b"{}")) as other, canned(Canned(status, b"", {"Location": f"{other.url}/x"})) as server:
            for feed in provider(self.name, self.at(server.url)).feeds():
                with pytest.raises((Drift, Unavailable)):
                    self.drained(feed)
        assert server.requests
        assert not other.requests

    def test_nobody_at_the_address_is_unavailable(self) -> None:
        with canned(Canned()) as server:
            gone = server.url
        for feed in provider(self.name, self.at(gone)).feeds():
            with pytest.raises(Unavailable):
                self.drained(feed)

    def test_secrets_are_in_no_text(self) -> None:
        assert any(SECRET in value for value in self.config.environ.values()), "the test's credentials hold no secret"
        built = provider(self.name, self.config)
        for text in (repr(self.config), repr(built), *(repr(feed) for feed in built.feeds()), repr(built.off())):
            assert SECRET not in text


@contextmanager
def counted_calls() -> Iterator[list[str]]:
    """An item for each call that waited for its slot inside the block."""
    calls: list[str] = []
    with before_each_call(lambda: calls.append("call")):
        yield calls


def contract_of(name: str) -> CollectorContract:
    """The contract of a provider, from `tests/test_<name>.py`."""
    module = import_module(f"tests.test_{name}")
    found = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, CollectorContract) and item is not CollectorContract
    ]
    assert len(found) == 1, f"tests/test_{name}.py has {len(found)} contract classes, not one"
    return found[0]()
