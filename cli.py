"""The command. It puts the parts together: settings, database, providers, polls and server.

Nothing heavy is imported before it is used, so that `gpufare --help` takes no time and loads no provider's SDK.
"""

import contextlib
import signal
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.parameters import HISTORY_PARAMETERS
from commands import build, targeting, watching
from commands.asking import ask, print_json, with_parameters
from commands.ending import Group
from commands.output import complain, say
from commands.paging import tell_of_more
from selector.sizing_asked import RECOMMEND_PARAMETERS

CONFIRMED, NOTHING, UNCONFIRMED = 0, 1, 3

app = typer.Typer(
    name="gpufare",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Names = Annotated[list[str], typer.Argument(metavar="PROVIDER", help="Providers; all that are on where none is named.")]
Host = Annotated[str, typer.Option(help="Address to listen on; off loopback needs GPUFARE_API_TOKEN.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="The endpoint's JSON, alone on stdout.")]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"gpufare {version('gpufare')}")
        raise typer.Exit


@app.callback()
def every_command(
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is, and end.")
    ] = False,
) -> None:
    """Where can I get this GPU, in stock, cheapest, right now?"""


def main() -> None:
    """Run the command."""
    app()


@app.command()
def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    demo: Annotated[bool, typer.Option("--demo", help="Simulated clouds and a throwaway database.")] = False,
) -> None:
    """Run the API, with polls in a child process that ends with it."""
    from commands import listening
    from commands.serving import polling_child, simulated_clouds

    with contextlib.ExitStack() as stack:
        listening.end_on_signal()
        if demo:
            stack.enter_context(simulated_clouds())
        loaded = build.settings()
        server = build.watching_server(loaded, host)
        listener = stack.enter_context(listening.bound(host, port))
        stack.enter_context(polling_child(loaded))
        listening.run(server, listener)


@app.command()
def api(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Run the API alone; a worker polls elsewhere over the same database."""
    from commands import listening

    listening.end_on_signal()
    loaded = build.settings()
    server = build.watching_server(loaded, host)
    with listening.bound(host, port) as listener:
        listening.run(server, listener)


@app.command()
def worker(
    alive_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file to touch at each tick that reached the database, for health checks."),
    ] = None,
    exit_with_parent: Annotated[bool, typer.Option("--exit-with-parent", hidden=True)] = False,
) -> None:
    """Poll what is due, until it is told to stop."""
    from commands import handing
    from commands.serving import end_now, end_with_parent, give_way
    from scheduler.worker import Keep, Worker

    if alive_file is not None and not alive_file.parent.is_dir():
        build.refuse(f"--alive-file {alive_file}: there is no folder {alive_file.parent}")
    give_way()
    loaded = handing.settings() if exit_with_parent else build.settings()
    engine = build.database(loaded)
    polls, providers = build.polls(engine), build.providers(loaded)
    keep = Keep(loaded.history.syncs, loaded.history.keep)
    exchange, sending, watching = (
        build.exchange(loaded, polls),
        build.sending(loaded, polls),
        build.watching(loaded, polls),
    )
    running = Worker(polls, providers, keep, loaded.worker.polls, alive_file, exchange, sending, watching)
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: running.stop())
    if exit_with_parent:
        end_with_parent()
    running.run()
    end_now()


@app.command()
def migrate() -> None:
    """Bring the tables of the database to this version, and end."""
    from commands.migrating import run_migrate

    run_migrate()


@app.command()
def sync(
    provider: Names = [],  # noqa: B006 - typer copies it
    feed: Annotated[list[str], typer.Option("--feed", help="Feeds to poll; may be repeated.")] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="A row for each cell, alone on stdout.")] = False,
) -> None:
    """Poll once, in the foreground. Exit status 0: all well, 3: some cells failed, 4: all failed."""
    from commands.syncing import run_sync

    raise typer.Exit(run_sync(provider, feed, as_json=as_json))


def _cheapest(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="Accelerator: id, group, family or a provider's spelling.")],
    asked: Sequence[tuple[str, str]] = (),
    as_json: JsonFlag = False,
    form: Annotated[
        str | None, typer.Option("--format", help="Print the answer in this form, e.g. '{provider} {region} {zone}'.")
    ] = None,
) -> None:
    """The cheapest offer that meets a spec. Exit status 0: confirmed, 3: unconfirmed, 1: nothing."""
    from commands import showing
    from commands.forms import Form

    filled_in = None if form is None else Form(form)
    answer = ask(build.settings(), "GET", "/cheapest", [("gpu", gpu), *asked])
    best = answer["best"]
    if as_json:
        print_json(answer)
    elif filled_in is not None and best is not None:
        say(filled_in.filled(best))
    elif filled_in is not None:
        complain(answer["message"])
    else:
        showing.cheapest(answer, explain=("explain", "true") in asked)
    raise typer.Exit(_status(best))


def _status(best: Mapping[str, Any] | None) -> int:
    return NOTHING if best is None else CONFIRMED if best["stock"]["confirmed"] else UNCONFIRMED


def _offers(asked: Sequence[tuple[str, str]] = (), as_json: JsonFlag = False) -> None:
    """The offers that meet a spec, sold-out and unpriced ones included."""
    from commands import showing

    answer = ask(build.settings(), "GET", "/offers", asked)
    if as_json:
        print_json(answer)
    else:
        showing.offers(answer["items"])
        say(f"{len(answer['items'])} of {answer['total']} offers")
    tell_of_more(answer)


def _recommend(
    params: Annotated[str, typer.Argument(metavar="PARAMS", help="Parameters of the model: 8b, 8e9, 350m.")],
    asked: Sequence[tuple[str, str]] = (),
    as_json: JsonFlag = False,
) -> None:
    """The machine that a model needs for a task, with the arithmetic, and the cheapest. Exit status as `cheapest`."""
    from commands import recommending

    answer = ask(build.settings(), "GET", "/recommend", [("params", params), *asked])
    if as_json:
        print_json(answer)
    else:
        recommending.show(answer, explain=("explain", "true") in asked)
    raise typer.Exit(_status(answer["cheapest"]["best"]))


class Kind(StrEnum):
    """What a history is of."""

    PRICES = "prices"
    STOCK = "stock"


def _history(
    kind: Annotated[Kind, typer.Argument(metavar="prices|stock", help="What the history is of.", show_default=False)],
    gpu: Annotated[
        str, typer.Argument(metavar="GPU", help="Accelerator, as of `cheapest`; all where none is named.")
    ] = "",
    asked: Sequence[tuple[str, str]] = (),
    as_json: JsonFlag = False,
) -> None:
    """What offers cost, or whether they were in stock, in a window of time; the last 7 days unless said otherwise."""
    from commands import history_tables

    params = [("gpu", gpu), *asked] if gpu else asked
    answer = ask(build.settings(), "GET", f"/history/{kind}", params)
    if as_json:
        print_json(answer)
    else:
        history_tables.show(kind, answer)
    tell_of_more(answer)


app.command("cheapest")(with_parameters(_cheapest, leading=("gpu",)))
app.command("offers")(with_parameters(_offers, leading=()))
app.command("recommend")(with_parameters(_recommend, leading=("params",), parameters=RECOMMEND_PARAMETERS))
app.command("history")(with_parameters(_history, leading=("gpu",), parameters=HISTORY_PARAMETERS))


@app.command()
def gpus(as_json: JsonFlag = False) -> None:
    """The accelerators, with how many offers there are and the cheapest now."""
    from commands import showing

    answer = ask(build.settings(), "GET", "/gpus")
    if as_json:
        print_json(answer)
    else:
        showing.gpus(answer["items"])


@app.command()
def regions(as_json: JsonFlag = False) -> None:
    """The places."""
    from commands import showing

    answer = ask(build.settings(), "GET", "/regions")
    if as_json:
        print_json(answer)
    else:
        showing.regions(answer["items"])


@app.command()
def providers(as_json: JsonFlag = False) -> None:
    """The providers: which evidence each gives, how its feeds do, what to set where one is off."""
    from commands import showing

    answer = ask(build.settings(), "GET", "/providers")
    if as_json:
        print_json(answer)
    else:
        showing.providers(answer["items"])


@app.command()
def launched(
    provider: Annotated[str, typer.Option(help="The provider that was asked.")],
    region: Annotated[str, typer.Option(help="The region.")],
    instance_type: Annotated[str, typer.Option(help="The machine.")],
    zone: Annotated[str | None, typer.Option(help="The zone's name or id.")] = None,
    purchase: Annotated[str, typer.Option(help="How it was to be bought.")] = "on_demand",
    code: Annotated[str | None, typer.Option(help="The error code; none: it went well.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell what a launch attempt taught: a capacity error makes exactly that offer out for a while."""
    body = {"provider": provider, "region": region, "zone": zone, "instance_type": instance_type, "purchase": purchase}
    body |= {"outcome": "ok"} if code is None else {"outcome": "error", "code": code}
    answer = ask(build.settings(), "POST", "/launches", body=body)
    if as_json:
        print_json(answer)
    else:
        say(f"{answer['effect']}: {answer['reason']}")


app.add_typer(watching.app, name="watch")
app.add_typer(targeting.app, name="target")
snapshot = typer.Typer(help="The whole current state as a file, for machines without a network.", no_args_is_help=True)
app.add_typer(snapshot, name="snapshot")
File = Annotated[Path, typer.Argument(metavar="FILE", help="A zip; replaced by an export.")]


@snapshot.command("export")
def snapshot_export(file: File) -> None:
    """Write all offers as they stand to a file."""
    from commands.archiving import run_export

    run_export(file)


@snapshot.command("import")
def snapshot_import(file: File) -> None:
    """Load such a file in the place of the snapshot that is here; what was polled here stands."""
    from commands.archiving import run_import

    run_import(file)


@app.command()
def doctor(
    provider: Names = [],  # noqa: B006 - typer copies it
    as_json: JsonFlag = False,
) -> None:
    """For each provider: credentials, endpoint, rights, and what to do. Exit status 1: something is wrong."""
    from commands.examining import run_doctor

    raise typer.Exit(run_doctor(provider, as_json=as_json))


if __name__ == "__main__":
    main()
