"""`gpufare doctor`: for each provider, are there credentials, does it answer, are the rights enough, what to do."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from collectors.base import Feed, NotConfigured, ProviderError
from commands import build
from commands.asking import print_json
from commands.showing import table
from scheduler import plan
from scheduler.plan import Configured
from scheduler.poll import Polls, try_out
from scheduler.sync import sync
from settings import Settings
from store import planning

State = Literal["answers", "off", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """How a feed is: what its first call met, or why it is off. `advice` is empty where nothing is to be done."""

    provider: str
    feed: str
    state: State
    found: str
    advice: str = ""


_ADVICE: Mapping[str, str] = {
    "AuthFailed": "check the key, its rights and this machine's clock; docs/providers.md has the policy to paste",
    "Throttled": "wait a minute; if it stays, poll less often: GPUFARE_PROVIDERS__{name}__INTERVALS__{feed}",
    "Unavailable": "check the network, a proxy (HTTPS_PROXY) and GPUFARE_PROVIDERS__{name}__ENDPOINTS__<SERVICE>",
    "Drift": "the answer is not as this version knows it: upgrade gpufare, or report it",
    "NotServed": "leave the place out of GPUFARE_PROVIDERS__{name}__REGIONS, or enable it for the account",
}
"""By the name of the error; one that says itself what to do is not here."""


def run_doctor(names: list[str], *, as_json: bool) -> int:
    """Examine, print, and return the exit status: 1 where something is wrong."""
    loaded = build.settings()
    engine = build.database(loaded)
    findings = [*examine(build.polls(engine), build.providers(loaded, names))]
    if not names:
        findings += _switched_off(loaded)
    if as_json:
        print_json({"items": [asdict(one) for one in findings]})
    else:
        table(("provider", "feed", "state", "found, and what to do"), map(_row, findings))
    return int(any(one.state == "wrong" for one in findings) or _named_in_vain(names, findings))


def examine(polls: Polls, providers: Iterable[Configured]) -> Iterator[Finding]:
    """One call of each feed of each provider. Where no region is known yet, `places` are polled for them."""
    for one in providers:
        yield from _off(one)
        feeds = one.feeds()
        if "places" in feeds:
            met = _met(polls, one, feeds.pop("places"))
            yield _finding(one.name, "places", met)
            if met is None and not _regions(polls, one):
                sync(polls, [one], ["places"])
        for name, feed in sorted(feeds.items()):
            yield _finding(one.name, name, _met(polls, one, feed))


def _off(one: Configured) -> Iterator[Finding]:
    """Feeds that are off, a line for each reason."""
    reasons = one.provider.off()
    for reason in dict.fromkeys(reasons.values()):
        yield Finding(one.name, ", ".join(feed for feed, why in reasons.items() if why == reason), "off", reason)


def _regions(polls: Polls, one: Configured) -> list[str]:
    return list(one.config.regions) or planning.known_regions(polls.engine, one.name)


def _met(polls: Polls, one: Configured, feed: Feed) -> ProviderError | None:
    return try_out(polls, feed, plan.cells_of(polls.engine, one, feed), one.scrubber())


def _finding(provider: str, feed: str, met: ProviderError | None) -> Finding:
    if met is None:
        return Finding(provider, feed, "answers", "its first page is understood")
    if isinstance(met, NotConfigured):  # no region or machine is known, or its SDK is not installed
        return Finding(provider, feed, "off", str(met))
    advice = _ADVICE.get(type(met).__name__, "").format(name=provider.upper(), feed=feed.upper())
    return Finding(provider, feed, "wrong", str(met), advice)


def _switched_off(loaded: Settings) -> Iterator[Finding]:
    for name in loaded.names():
        if not loaded.enabled(name):
            yield Finding(name, "all", "off", f"switched off by {build.switch(loaded, name)}")


def _named_in_vain(names: Iterable[str], findings: Iterable[Finding]) -> bool:
    """Whether a provider was named of which nothing runs: asked for by name, that is wrong."""
    running = {one.provider for one in findings if one.state != "off"}
    return not set(names) <= running


def _row(one: Finding) -> tuple[str, str, str, str]:
    return (one.provider, one.feed, one.state, "\n".join(filter(None, (one.found, one.advice))))
