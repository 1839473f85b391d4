"""`gpufare sync`: one pass in the foreground, with progress on stderr and a row for each cell at the end."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from commands import build
from commands.asking import print_json
from commands.showing import syncs
from scheduler.plan import Configured
from scheduler.poll import Polls
from scheduler.sync import Synced, sync
from settings import FEEDS

WELL = ("ok", "unchanged", "off")
ALL_WELL, SOME_FAILED, ALL_FAILED = 0, 3, 4


def run_sync(names: Sequence[str], feeds: Sequence[str], *, as_json: bool) -> int:
    """Poll, print, and return the exit status. A name of no feed, or of no provider that is on, is refused."""
    for feed in feeds:
        if feed not in FEEDS:
            build.refuse(f"{feed} is not a feed; there are {', '.join(FEEDS)}")
    loaded = build.settings()
    engine = build.database(loaded)
    rows = [_item(one) for one in _with_progress(build.polls(engine), build.providers(loaded, names), feeds)]
    if as_json:
        print_json({"items": rows})
    else:
        syncs(rows)
    return exit_status([str(row["status"]) for row in rows], named=bool(names))


def _with_progress(polls: Polls, providers: Sequence[Configured], feeds: Sequence[str]) -> list[Synced]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("polling", total=0)
        total = 0

        def more(cells: int) -> None:
            nonlocal total
            total += cells
            progress.update(task, total=total)

        def ended(one: Synced) -> None:
            if one.result.status != "off":
                progress.update(
                    task, advance=1, description=f"{one.provider} {one.feed} {one.place} {one.part}".strip()
                )

        return sync(polls, providers, feeds, more, ended)


def _item(one: Synced) -> dict[str, object]:
    return {
        "provider": one.provider,
        "feed": one.feed,
        "place": one.place,
        "part": one.part,
        "status": one.result.status,
        "facts": one.result.facts,
        "notes": one.result.notes,
        "seconds": round(one.seconds, 3),
        "error": one.result.error,
    }


def exit_status(statuses: Sequence[str], *, named: bool) -> int:
    """0 all well, 3 some cells failed, 4 all did. A provider that was named and is wholly off has failed."""
    tried = [status for status in statuses if status != "off"]
    if not tried:
        return ALL_FAILED if named else ALL_WELL
    bad = [status for status in tried if status not in WELL]
    if not bad:
        return ALL_WELL
    return ALL_FAILED if len(bad) == len(tried) else SOME_FAILED
