"""All providers: each keeps the inherited contract, and none is known in two places."""

from collectors.base import Config
from collectors.registry import PROVIDERS, provider
from tests.support.contract import contract_of

FEED_NAMES = {"machines", "prices", "spot", "stock", "scores", "places"}


def test_every_provider_keeps_the_contract() -> None:
    assert PROVIDERS
    for name in PROVIDERS:
        assert contract_of(name).name == name


def test_a_provider_answers_to_its_name_and_feeds_have_known_names() -> None:
    for name in PROVIDERS:
        built = provider(name, contract_of(name).config)
        feeds = list(built.feeds())
        assert built.name == name
        assert feeds
        assert {feed.name for feed in feeds} <= FEED_NAMES
        assert all(feed.provider == name and feed.fresh_for >= feed.every for feed in feeds)


def test_a_provider_without_credentials_says_what_to_set() -> None:
    for name in PROVIDERS:
        built = provider(name, Config())
        missing = built.off()
        assert not built.account
        assert not ({feed.name for feed in built.feeds()} & set(missing)), "a feed is both on and off"
        assert all("GPUFARE_" in text or "_" in text for text in missing.values()), missing
