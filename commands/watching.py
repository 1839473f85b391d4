"""`gpufare watch`: what to look for, and whom to tell of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from catalog.parameters import PARAMETERS
from commands import build
from commands.asking import ask, print_json, with_parameters
from commands.output import complain, say, warn_of

OF_A_SPEC = {name: about for name, about in PARAMETERS.items() if name not in ("limit", "offset", "explain")}
"""The parameters of a question that say what is looked for."""
_MOST_NAME = 64

app = typer.Typer(help="Watches: what to look for, what to tell of it, and whom.", no_args_is_help=True)
JsonFlag = Annotated[bool, typer.Option("--json", help="The endpoint's JSON, alone on stdout.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The watch's id, as `watch list` shows it.")]
Names = Annotated[
    list[str], typer.Option("--notify", metavar="TARGET", help="Targets to tell; separated by commas, or repeated.")
]


def _add(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="Accelerator, as of `cheapest`.", show_default=False)] = "",
    notify: Names = [],  # noqa: B006 - typer copies it
    events: Annotated[
        list[str],
        typer.Option(metavar="EVENT", help="What to tell of, such as stock.out,stock.back, which is the default."),
    ] = [],  # noqa: B006
    name: Annotated[
        str | None, typer.Option(help="What to call it; else what it looks for.", show_default=False)
    ] = None,
    price_below: Annotated[str | None, typer.Option(metavar="AMOUNT", help="The limit of price.below.")] = None,
    hold: Annotated[str | None, typer.Option(metavar="DURATION", help="How long out and low must last: 2m.")] = None,
    hold_back: Annotated[str | None, typer.Option(metavar="DURATION", help="How long back must last: 2m.")] = None,
    remind: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How often to say it is still out: 6h.")
    ] = None,
    heartbeat: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How often to say that it works: 24h.")
    ] = None,
    change_percent: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="What price.changed needs; else 1.")
    ] = None,
    daily_cap: Annotated[int | None, typer.Option(help="Events a day at the most.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Until when: a time, or 7d.")] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Begin later: `watch resume`.")] = False,
    asked: Sequence[tuple[str, str]] = (),
    as_json: JsonFlag = False,
) -> None:
    """Watch for a spec. The first look is before the answer, and tells nothing."""
    spec = _spec([("gpu", gpu), *asked] if gpu else asked)
    rules = {
        "price_below": price_below,
        "hold": hold,
        "hold_back": hold_back,
        "remind": remind,
        "heartbeat": heartbeat,
        "change_percent": change_percent,
        "daily_cap": daily_cap,
        "expires": expires,
    }
    body: dict[str, object] = {"name": name or _called(spec), "spec": spec, "notify": _items(notify)}
    body |= {field: value for field, value in rules.items() if value is not None}
    body |= ({"events": _items(events)} if events else {}) | ({"paused": True} if paused else {})
    made = ask(build.settings(), "POST", "/watches", body=body)
    if as_json:
        print_json(made)
    else:
        _say_state(made)


app.command("add")(with_parameters(_add, leading=("gpu",), parameters=OF_A_SPEC))


def _spec(asked: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    spec: dict[str, list[str]] = {}
    for name, text in asked:
        spec.setdefault(name, []).append(text)
    return spec


def _called(spec: Mapping[str, Sequence[str]]) -> str:
    """A name for a watch that was given none: what it looks for."""
    said = " ".join(",".join(texts) for texts in spec.values())
    return (said[: _MOST_NAME - 1] + "…" if len(said) > _MOST_NAME else said).strip() or "everything"


def _items(given: Sequence[str]) -> list[str]:
    return [item.strip() for text in given for item in text.split(",") if item.strip()]


def _say_state(watch: Mapping[str, Any]) -> None:
    """A watch in a line, and what is wrong with it on stderr."""
    say(f"{watch['id']} {watch['name']}: {'paused, ' if watch['paused'] else ''}{watch['state']}")
    warn_of(watch)


@app.command("list")
def list_(as_json: JsonFlag = False) -> None:
    """The watches, with what is known of each."""
    from commands import showing

    answer = ask(build.settings(), "GET", "/watches")
    if as_json:
        print_json(answer)
        return
    columns = ("id", "name", "state", "since", "events", "notify", "last event")
    showing.table(columns, map(_row, answer["items"]))
    for watch in answer["items"]:
        warn_of(watch)


def _row(watch: Mapping[str, Any]) -> tuple[str, ...]:
    last = watch["last_event"]
    return (
        watch["id"],
        watch["name"],
        "paused" if watch["paused"] else watch["state"],
        watch["since"] or "",
        " ".join(watch["events"]),
        " ".join(watch["notify"]),
        f"{last['type']} {last['at']}" if last else "",
    )


@app.command()
def show(watch_id: Id, as_json: JsonFlag = False) -> None:
    """A watch, and what became of what was told of it."""
    from commands import showing

    loaded = build.settings()
    watch = ask(loaded, "GET", _path(watch_id))
    if as_json:
        print_json(watch)
        return
    told = ask(loaded, "GET", f"{_path(watch_id)}/deliveries")["items"]
    shown = ((name, _shown(value)) for name, value in watch.items() if name not in ("query", "warnings"))
    showing.table(("field", "value"), shown)
    columns = ("delivery", "event", "to", "status", "attempts", "at", "last error")
    showing.table(columns, map(_delivery_row, told), title="")
    warn_of(watch)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _delivery_row(told: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("id", "type", "target", "status", "attempts", "at", "last_error")
    return tuple(_shown(told[name]) for name in names)


@app.command()
def remove(watch_id: Id) -> None:
    """Forget a watch, and tell nothing more of it."""
    ask(build.settings(), "DELETE", _path(watch_id))
    say(f"{watch_id}: removed")


@app.command("test")
def send_test(watch_id: Id, as_json: JsonFlag = False) -> None:
    """Send a test to all targets of a watch."""
    say_tests(ask(build.settings(), "POST", f"{_path(watch_id)}/test", body={}), as_json=as_json)


def say_tests(answer: dict[str, Any], *, as_json: bool) -> None:
    """The deliveries that were put on their way."""
    if as_json:
        print_json(answer)
        return
    for delivery_id in answer["deliveries"]:
        say(f"{delivery_id}: on its way, once a worker runs")


@app.command()
def pause(watch_id: Id, as_json: JsonFlag = False) -> None:
    """Tell nothing of a watch until it is resumed."""
    _change(watch_id, {"paused": True}, as_json=as_json)


@app.command()
def resume(watch_id: Id, as_json: JsonFlag = False) -> None:
    """Watch on. It looks anew, and tells nothing of what changed meanwhile."""
    _change(watch_id, {"paused": False}, as_json=as_json)


def _change(watch_id: str, body: Mapping[str, object], *, as_json: bool) -> None:
    watch = ask(build.settings(), "PATCH", _path(watch_id), body=body)
    if as_json:
        print_json(watch)
    else:
        _say_state(watch)


def _path(watch_id: str) -> str:
    return f"/watches/{quote(watch_id, safe='')}"


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML, such as watches.toml: docs/watches.md.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make targets and watches as a file says, and remove what it made and no longer has."""
    from commands import watch_file

    loaded = build.settings()
    body = watch_file.read(file)
    answer = ask(loaded, "POST", "/watches/apply", body=body | {"dry_run": dry_run})
    if as_json:
        print_json(answer)
        return
    for change in answer["changes"]:
        say(watch_file.in_words(change, dry_run=dry_run))
    say(f"{answer['unchanged']} as the file says already")
    for said in answer["warnings"]:
        complain(said)
