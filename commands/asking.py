"""Commands that ask: the same question as over HTTP, put to the server of `GPUFARE_URL`, else to the database here.

Either way the answer is the server's own, so that a command and an endpoint cannot differ.
"""

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from keyword import iskeyword
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import msgspec
import typer

from catalog.parameters import PARAMETERS, Parameter
from commands import build
from commands.output import NO_ANSWER, complain, say
from commands.paging import without_server

if TYPE_CHECKING:
    from fastapi import FastAPI

    from api.shapes import ProblemShape
    from settings import Settings

PATIENCE_S = 60.0

Params = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: a status and bytes, which may be anything."""

    status: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, wherever it goes."""

    method: str
    path: str
    params: Params
    body: object
    headers: Mapping[str, str]

    def sent(self) -> dict[str, Any]:
        """As a client's arguments, but for where to."""
        return {"method": self.method, "params": list(self.params), "json": self.body, "headers": dict(self.headers)}


def ask(
    loaded: "Settings",
    method: Literal["GET", "POST", "PATCH", "DELETE"],
    path: str,
    params: Params = (),
    body: object = None,
) -> dict[str, Any]:
    """Ask and return the answer, which has the published shape of that path, and is JSON's own types.

    A mistake in the question ends the command with the server's own words, status 2; what is no answer of ours, 5.
    """
    token = loaded.api_token
    question = _Question(
        method, path, params, body, {"Authorization": f"Bearer {token.get_secret_value()}"} if token else {}
    )
    reply = _ask_server(loaded.url, question) if loaded.url else asyncio.run(_ask_app(build.server(loaded), question))
    try:
        answer, problem = _understood(reply, method, path)
    except (msgspec.DecodeError, RecursionError) as error:
        _no_answer(
            f"{loaded.url} answered with {reply.status}, but not as this version of gpufare does ({error}); "
            "is GPUFARE_URL right, and does the server run this version?"
        )
    if problem and reply.status >= 500:
        _no_answer(f"{loaded.url or 'the database here'}: {problem}")
    if problem:
        build.refuse(problem)
    return answer if loaded.url else without_server(answer)


def _understood(reply: Reply, method: str, path: str) -> tuple[dict[str, Any], str | None]:
    """The answer, and in words what it says instead of one. Raises DecodeError for what is not of its shape."""
    from api import shapes

    if reply.status == HTTPStatus.NO_CONTENT and method == "DELETE":
        return {}, None
    body: dict[str, Any] = msgspec.json.decode(reply.content)
    if reply.status >= 300:  # a redirect is not followed: it could lead the token elsewhere
        return body, _sentence(msgspec.convert(body, shapes.ProblemShape))
    msgspec.convert(body, _published(method, path))
    return body, None


def _published(method: str, path: str) -> "type[msgspec.Struct]":
    """The shape of a success there."""
    from api import recommend_shapes, shapes, watch_shapes

    published: dict[str, type[msgspec.Struct]] = {
        "GET /cheapest": shapes.CheapestShape,
        "GET /offers": shapes.OffersShape,
        "GET /recommend": recommend_shapes.RecommendShape,
        "GET /gpus": shapes.GpusShape,
        "GET /regions": shapes.RegionsShape,
        "GET /providers": shapes.ProvidersShape,
        "POST /launches": shapes.LaunchTaken,
        "GET /history/prices": shapes.PriceHistoryShape,
        "GET /history/stock": shapes.StockHistoryShape,
        "GET /watches": watch_shapes.WatchesShape,
        "POST /watches": watch_shapes.WatchShape,
        "POST /watches/apply": watch_shapes.Applied,
        "GET /watches/*": watch_shapes.WatchShape,
        "PATCH /watches/*": watch_shapes.WatchShape,
        "GET /watches/*/deliveries": watch_shapes.DeliveriesShape,
        "POST /watches/*/test": watch_shapes.StartedTest,
        "GET /targets": watch_shapes.TargetsShape,
        "POST /targets": watch_shapes.TargetMade,
        "POST /targets/*/test": watch_shapes.StartedTest,
    }
    asked = f"{method} {path}"
    return published.get(asked) or published[re.sub(r"(?<=/(?:watches|targets)/)[^/]+", "*", asked)]


def _ask_server(url: str, question: "_Question") -> Reply:
    import httpx2

    try:
        answer = httpx2.request(url=f"{url}{question.path}", timeout=PATIENCE_S, **question.sent())
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:  # ValueError: a host or proxy that cannot be
        _no_answer(f"{url} did not answer ({type(error).__name__}); is it running, and is GPUFARE_URL right?")
    return Reply(answer.status_code, answer.content)


async def _ask_app(app: "FastAPI", question: "_Question") -> Reply:
    import httpx2

    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.request(url=question.path, **question.sent())
            return Reply(answer.status_code, answer.content)


def _no_answer(sentence: str) -> NoReturn:
    complain(sentence)
    raise typer.Exit(NO_ANSWER)


def _sentence(problem: "ProblemShape") -> str:
    said, near = problem.detail or problem.title, problem.did_you_mean
    return f"{said}\n  did you mean: {', '.join(near)}" if not all(name in said for name in near) else said


def with_parameters(
    function: Callable[..., None], leading: Sequence[str], parameters: Mapping[str, Parameter] = PARAMETERS
) -> Callable[..., None]:
    """A command with an option for every parameter of a question but those of `leading`, beside its own.

    The function gets the parameters that were given as `asked`, in the form of a query string's.
    """
    own = [one for one in inspect.signature(function).parameters.values() if one.name != "asked"]
    options = {name: about for name, about in parameters.items() if name not in leading}

    def command(**given: Any) -> None:
        function(asked=params_of({name: given.pop(_argument(name)) for name in options}), **given)

    every = [*own, *(_option(name, about) for name, about in options.items())]
    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every]
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in every}
    command.__doc__ = function.__doc__
    return command


def _option(name: str, about: Parameter) -> inspect.Parameter:
    """A parameter as a typer option: `_` written `-`, flags without a value, all others text that may be repeated."""
    shown = about.meaning if about.flag else f"{about.meaning}; e.g. {', '.join(about.examples)}"
    metavar = None if about.flag else "VALUE"
    spelt = f"--{name.replace('_', '-')}"
    option = typer.Option(spelt, metavar=metavar, help=shown, show_default=False)
    default, kind = (False, bool) if about.flag else ([], list[str])
    named = _argument(name)
    return inspect.Parameter(named, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _argument(name: str) -> str:
    """The parameter as Python can name it: `from` is a word of the language."""
    return f"{name}_" if iskeyword(name) else name


def params_of(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Options as query parameters; what was not given is left to the server's defaults."""
    found: list[tuple[str, str]] = []
    for name, value in options.items():
        if value is True:
            found.append((name, "true"))
        elif isinstance(value, (list, tuple)):
            found += [(name, one) for one in value]
        elif value:
            found.append((name, str(value)))
    return found


def print_json(body: object) -> None:
    """The endpoint's JSON, alone on stdout."""
    say(json.dumps(body, ensure_ascii=False, indent=2))
