"""`gpufare snapshot`: the current state as a file, and back."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from commands import build
from commands.output import say
from selector.ages import age_text
from settings import Settings
from store.archive import ArchiveError
from store.archive_export import Used, export
from store.archive_import import Imported, Loaded, import_file
from store.clock import clock_of


def run_export(file: Path) -> None:
    """Write what is known of the providers in use to the file."""
    loaded = build.settings()
    engine = build.database(loaded)
    try:
        offers = export(engine, file, _used(loaded), clock_of(engine)())
    except ArchiveError as error:
        build.refuse(str(error))
    told = ", ".join(f"{count} of {provider}" for provider, count in sorted(offers.items()))
    say(f"{file}: {sum(offers.values())} offers: {told}")


def run_import(file: Path) -> None:
    """Load the file, and say what it brought."""
    loaded = build.settings()
    engine = build.database(loaded)
    now = clock_of(engine)()
    try:
        brought = import_file(engine, file, now)
    except ArchiveError as error:
        build.refuse(str(error))
    for line in _told(brought, loaded, now):
        say(line)


def _used(loaded: Settings) -> Used:
    names = loaded.names()
    sites = {name: site for name in names if (site := loaded.provider(name).site)}
    return Used(frozenset(filter(loaded.enabled, names)), sites)


def _told(brought: Imported, loaded: Settings, now: datetime) -> Iterator[str]:
    used = _used(loaded)
    total = sum(one.offers for one in brought.providers.values())
    yield f"{total} offers as they stood {_ago(brought.created_at, now)} ({brought.created_at:%Y-%m-%d %H:%M} UTC)"
    for name, one in sorted(brought.providers.items()):
        yield f"{name}: {one.offers} offers, seen {_seen(one, now)}{_hidden(name, one, used)}"


def _seen(one: Loaded, now: datetime) -> str:
    newest, oldest = (_ago(at, now) for at in (one.newest or now, one.oldest or now))
    return newest if newest == oldest else f"between {oldest} and {newest}"


def _ago(at: datetime, now: datetime) -> str:
    return f"{age_text(max(now, at) - at)} ago"


def _hidden(name: str, one: Loaded, used: Used) -> str:
    """Why nothing of a provider will be shown here, if so."""
    site = used.sites.get(name)
    if name not in used.providers:
        return "; not shown here: this version does not know it, or the settings switch it off"
    if one.site is not None and site not in (None, one.site):
        return f"; not shown here: these are prices of the site {one.site}, and the site set here is {site}"
    return ""
