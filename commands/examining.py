"""`gpufare doctor`: for each provider, are there credentials, does it answer, are the rights enough, what to do."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from traceback import format_exception
from typing import Literal

import structlog
from sqlalchemy.exc import SQLAlchemyError

from collectors.base import AuthFailed, ByMachine, Feed, NotConfigured, ProviderError
from commands import build
from commands.advising import advice_for
from commands.asking import print_json
from commands.output import complain
from commands.showing import table
from scheduler import plan
from scheduler.plan import Configured
from scheduler.poll import Polls, fault, try_out
from scheduler.sync import sync
from settings import Settings
from store import planning

State = Literal["answers", "unchecked", "off", "wrong"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Finding:
    """How a feed is, or several that share a cause: what its first call met, or why it is off or was not asked.
    `advice` is empty where nothing is to be done.
    """

    provider: str
    feed: str
    state: State
    found: str
    advice: str = ""


def run_doctor(names: list[str], *, as_json: bool) -> int:
    """Examine, print, and return the exit status: 1 where something is wrong. stderr hears of each that is done."""
    loaded = build.settings()
    engine = build.database(loaded)
    configured = build.providers(loaded, names)
    findings = examine(build.polls(engine), configured, meant_to_run(loaded, configured), _tell_of(len(configured)))
    if not names:
        findings += _switched_off(loaded)
    if as_json:
        print_json({"items": [asdict(one) for one in findings]})
    else:
        table(("provider", "feed", "state", "found, and what to do"), map(_row, findings))
    return int(any(one.state == "wrong" for one in findings) or _named_in_vain(names, findings))


def meant_to_run(loaded: Settings, configured: Iterable[Configured]) -> set[str]:
    """The providers that are meant to run: they have credentials, or the settings switch them on by name."""
    named = {*loaded.only, *(name for name, own in loaded.providers.items() if own.enabled)}
    return {one.name for one in configured if one.provider.account or one.name in named}


def _tell_of(providers: int) -> Callable[[str], None]:
    done: list[str] = []

    def tell(name: str) -> None:
        done.append(name)
        complain(f"examined {name}, {len(done)} of {providers}")

    return tell


def examine(
    polls: Polls,
    providers: Sequence[Configured],
    meant: Collection[str],
    on_done: Callable[[str], None] = lambda _name: None,
) -> list[Finding]:
    """One call of each feed of each provider, of all providers at once: one that waits for its limits delays no other.

    Where no region is known yet, `places` are polled for them. A provider of `meant` whose package is not installed is
    wrong, any other off. `on_done` hears each provider's name as its last call is over.
    """
    with ThreadPoolExecutor(max(1, len(providers))) as pool:
        running = {pool.submit(_found, polls, one, one.name in meant): one for one in providers}
        for done in as_completed(running):
            on_done(running[done].name)
    return [finding for done, one in running.items() for finding in _told(done, one)]


def _found(polls: Polls, one: Configured, meant: bool) -> list[Finding]:
    return list(_findings(polls, one, meant=meant))


def _told(done: "Future[list[Finding]]", one: Configured) -> list[Finding]:
    """What was found; a fault of our own ends the examination of its provider alone."""
    error = done.exception()
    if error is None:
        return done.result()
    if isinstance(error, SQLAlchemyError):  # of the database that all share
        raise error
    log.error("examination broke", provider=one.name, exception=one.scrubber().lines("".join(format_exception(error))))
    said = fault(error, one.scrubber()).error or ""
    return [Finding(one.name, "all", "wrong", said, "report it, with the lines above")]


def _findings(polls: Polls, one: Configured, *, meant: bool) -> Iterator[Finding]:
    """What is off, what was asked, a line for each cause, and what could not be asked."""
    yield from _off(one)
    met = _asked(polls, one)
    waiting = {name: feed for name, feed in one.feeds().items() if name not in met}
    regions = _regions(polls, one)
    for feeds in _by_cause(met):
        error = met[feeds[0]]
        if any(_stops(name, error, regions) for name in feeds):
            feeds += sorted(waiting)
            waiting = {}
        yield _finding(one.name, feeds, error, meant=meant)
    yield from (_unchecked(one.name, feed, regions) for _, feed in sorted(waiting.items()))


def _off(one: Configured) -> Iterator[Finding]:
    """Feeds that are off, a line for each reason."""
    reasons = one.provider.off()
    for reason in dict.fromkeys(reasons.values()):
        yield Finding(one.name, ", ".join(feed for feed, why in reasons.items() if why == reason), "off", reason)


def _asked(polls: Polls, one: Configured) -> dict[str, ProviderError | None]:
    """What each feed's first call met, places first; without the feeds that have nothing to ask about."""
    feeds, met = one.feeds(), dict[str, ProviderError | None]()
    for name in sorted(feeds, key=lambda name: (name != "places", name)):
        if cells := list(plan.cells_of(polls.engine, one, feeds[name])):
            met[name] = try_out(polls, feeds[name], cells, one.scrubber())
        if name == "places" and met.get(name) is None and not _regions(polls, one):
            sync(polls, [one], ["places"])
    return met


def _regions(polls: Polls, one: Configured) -> list[str]:
    return list(one.config.regions) or planning.known_regions(polls.engine, one.name)


def _by_cause(met: Mapping[str, ProviderError | None]) -> list[list[str]]:
    """The feeds that met the same, together. Each that answers stands by itself."""
    found: dict[object, list[str]] = {}
    for name, error in met.items():
        found.setdefault(name if error is None else _cause(error), []).append(name)
    return list(found.values())


def _cause(error: ProviderError) -> object:
    """The same for errors with one cause: a missing package, or credentials that are refused in the same words."""
    if _is_missing_package(error):
        return ModuleNotFoundError
    where, _, said = str(error).partition(": ")
    return (AuthFailed, said or where) if isinstance(error, AuthFailed) else str(error)


def _is_missing_package(error: ProviderError | None) -> bool:
    return isinstance(error, NotConfigured) and isinstance(error.__cause__, ImportError)


def _stops(feed: str, error: ProviderError | None, regions: Collection[str]) -> bool:
    """Whether what this feed met is why others have nothing to ask about."""
    if error is None:
        return False
    return isinstance(error, AuthFailed) or _is_missing_package(error) or (feed == "places" and not regions)


def _finding(provider: str, feeds: Sequence[str], met: ProviderError | None, *, meant: bool) -> Finding:
    named = ", ".join(feeds)
    if met is None:
        return Finding(provider, named, "answers", "its first page is understood")
    if isinstance(met, NotConfigured) and not (meant and _is_missing_package(met)):
        return Finding(provider, named, "off", str(met))
    return Finding(provider, named, "wrong", str(met), advice_for(met, provider, feeds[0]))


def _unchecked(provider: str, feed: Feed, regions: Collection[str]) -> Finding:
    """A feed that has nothing to ask about yet, which is no fault."""
    if isinstance(feed, ByMachine):
        why = "it is asked about each machine that `stock` names, and none is known here yet"
        advice = f"`gpufare sync {provider}` asks both"
    elif regions:
        why, advice = "none of the regions that are known has anything to ask it for", ""
    else:
        why, advice = "no region is known", f"name some in GPUFARE_PROVIDERS__{provider.upper()}__REGIONS"
    return Finding(provider, feed.name, "unchecked", f"not checked: {why}", advice)


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
