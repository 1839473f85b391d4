"""`gpufare target`: whom watches tell."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from commands import build
from commands.asking import ask, print_json
from commands.output import say, warn_of
from commands.watching import JsonFlag, say_tests

app = typer.Typer(help="Targets: whom watches tell.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The target's name.")]


@app.command()
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to send: https://…, or mailto: and an address.")],
    form: Annotated[
        str,
        typer.Option("--format", help="standard, slack, discord, feishu, dingtalk, wecom or email."),
    ] = "standard",
    secret: Annotated[
        str | None,
        typer.Option(help="What to sign with: the chat room's own; of standard one is made.", show_default=False),
    ] = None,
    keyword: Annotated[str | None, typer.Option(help="A word that the chat room wants.", show_default=False)] = None,
    lang: Annotated[str, typer.Option(help="The language of messages for people: en or zh.")] = "en",
    as_json: JsonFlag = False,
) -> None:
    """Make a target. Its secret is shown here, and never again."""
    body: dict[str, object] = {"name": name, "url": url, "format": form, "lang": lang}
    body |= {field: said for field, said in (("secret", secret), ("keyword", keyword)) if said is not None}
    made = ask(build.settings(), "POST", "/targets", body=body)
    if as_json:
        print_json(made)
        return
    say(f"{made['name']}: {made['format']} {made['url']}")
    if made["secret"] is not None and secret is None:
        say(f"its secret, shown this once: {made['secret']}")
    warn_of(made)


@app.command("list")
def list_(as_json: JsonFlag = False) -> None:
    """Whom to tell. Secrets and whole URLs are not shown."""
    from commands import showing

    answer = ask(build.settings(), "GET", "/targets")
    if as_json:
        print_json(answer)
        return
    columns = ("name", "format", "url", "secret", "lang", "status", "why")
    showing.table(columns, map(_row, answer["items"]))
    for target in answer["items"]:
        warn_of(target)


def _row(target: dict[str, Any]) -> tuple[str, ...]:
    secret = "yes" if target["has_secret"] else "no"
    shown = (target["name"], target["format"], target["url"], secret, target["lang"], target["status"])
    return (*shown, target["why"] or "")


@app.command()
def remove(name: Name) -> None:
    """Forget a target that no watch names."""
    ask(build.settings(), "DELETE", _path(name))
    say(f"{name}: removed")


@app.command("test")
def send_test(name: Name, as_json: JsonFlag = False) -> None:
    """Send a test to a target."""
    say_tests(ask(build.settings(), "POST", f"{_path(name)}/test", body={}), as_json=as_json)


def _path(name: str) -> str:
    return f"/targets/{quote(name, safe='')}"
