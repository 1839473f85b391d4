"""The contract that every provider keeps, inherited by `tests/test_<provider>.py`.

Over its recorded pages: the facts are the right ones; no record vanishes; a field that is dropped never makes a wrong
fact; a broken body is Drift. Over a local server: what a status or a dead line means; secrets show nowhere.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import ClassVar

import pytest

from catalog.facts import Fact, Note
from collectors.base import AuthFailed, Cell, Config, Drift, Feed, ProviderError, Throttled, Unavailable, Unchanged
from collectors.registry import provider
from tests.support.canned import Canned, canned
from tests.support.pages import NOW, Case, cases, feed_of, lines, weaker, without_each_field, without_each_record

SECRET = "S3cr3t-that-must-show-nowhere"
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
    documented: ClassVar[Mapping[str, str]] = {}
    """`feed/field` -> why dropping that field makes another fact than before, a right one."""
    faults: ClassVar[Mapping[str, tuple[Canned, type[ProviderError]]]] = {
        "401": (Canned(401, b"{}"), AuthFailed),
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

    def at(self, url: str) -> Config:
        """The configuration pointed at a local server, impatient."""
        endpoints = dict.fromkeys(self.services, url)
        return Config(self.config.environ, self.regions, self.config.site, endpoints, timedelta(seconds=1))

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
                    with pytest.raises((ProviderError, Unchanged)) as caught:
                        self.drained(feed)
                    assert type(caught.value) is expected, f"{feed.name}, {fault}: {caught.value!r}"
                    assert SECRET not in str(caught.value)
        assert SECRET not in caplog.text

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
