"""What every route is built with, and how answers and bodies are coded."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import ParamSpec, TypeVar, get_args

import msgspec
import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from api.board import Board
from api.bodies import BODY, refuse_ambiguous
from api.config import ApiConfig
from api.kept import KeptAnswers
from api.metrics import Metrics
from api.problems import Problem, refused
from catalog.spec import Spec
from selector.question import Endpoint, World, understand
from selector.values import BadQuestion, alike, whole

_S = TypeVar("_S", bound=msgspec.Struct)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_DEFAULT_PAST, _MOST_PAST = 100, 1000
_MOST_UNDERSTOOD = 2048
"""Questions kept: a query is at most 8 KiB."""


class Understood:
    """Questions as they were understood, so that one that is asked again and again is read once.

    What a question means depends on the world (which names there are): another one begins anew.
    """

    def __init__(self) -> None:
        self._of: tuple[World | None, dict[tuple[Endpoint, bytes], Spec]] = (None, {})

    def spec(self, request: Request, world: World, defaults: Mapping[str, str], endpoint: Endpoint) -> Spec:
        """The spec of a request. Raises BadQuestion for what is not understood."""
        of, specs = self._of  # read at once: another thread may begin anew meanwhile
        if of is not world or len(specs) >= _MOST_UNDERSTOOD:
            specs = {}
            self._of = (world, specs)
        key = (endpoint, request.scope["query_string"])
        known = specs.get(key)
        if known is None:
            known = specs[key] = understand(asked_of(request), world, defaults, endpoint=endpoint)
        return known


@dataclass(frozen=True, slots=True)
class Serving:
    """The parts of one app."""

    engine: Engine
    config: ApiConfig
    board: Board
    metrics: Metrics
    understood: Understood = field(default_factory=Understood)
    kept: KeptAnswers = field(default_factory=KeptAnswers)

    def now(self) -> datetime:
        """The app's time."""
        return self.config.clock()


def json_response(answer: msgspec.Struct, status: int = HTTPStatus.OK) -> Response:
    """An answer as JSON. `no-store`: a price that a cache kept is not the price now."""
    return json_of(msgspec.json.encode(answer), status)


def json_of(body: bytes, status: int = HTTPStatus.OK) -> Response:
    """The same, of an answer that is written already."""
    return Response(body, status, {"Cache-Control": "no-store"}, media_type="application/json")


def asked_of(request: Request) -> dict[str, list[str]]:
    """The query's parameters, each with all its values."""
    return {name: request.query_params.getlist(name) for name in request.query_params}


def only_parameters(request: Request, known: Iterable[str] = ()) -> None:
    """Refuse any query parameter but these."""
    names = list(known)
    for name in request.query_params:
        if name not in names:
            raise refused(name, f"There is no parameter {name} here.", alike(name, names))


def limit_of(request: Request) -> int:
    """The parameter `limit` of a list of past things, the only one that it has."""
    only_parameters(request, ["limit"])
    values = asked_of(request).get("limit", [str(_DEFAULT_PAST)])
    if len(values) > 1:
        raise BadQuestion("limit", "limit: one value, please.")
    return whole("limit", values[0], 1, _MOST_PAST)


async def in_database(work: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
    """What a function that uses the database returns, in a thread; Problem 503 where the database does not answer."""
    try:
        return await run_in_threadpool(work, *given, **named)
    except SQLAlchemyError as error:
        structlog.get_logger().error("database cannot be used", error=str(error))
        said = f"The database cannot be used ({type(error).__name__}). /cheapest still answers."
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, said) from error


async def body_as(request: Request, shape: type[_S]) -> _S:
    """The JSON body in this shape; an empty one is `{}`. Problem 400 for what is no JSON, 422 for another shape and for
    what could be read in two ways.
    """
    body = await request.body()
    refuse_ambiguous(body)
    try:
        return msgspec.json.decode(body or b"{}", type=shape)
    except msgspec.ValidationError as error:
        raise misshapen(error, shape) from None
    except msgspec.DecodeError as error:
        raise Problem(HTTPStatus.BAD_REQUEST, f"The body is not JSON: {error}.") from None


def misshapen(error: msgspec.ValidationError, shape: type[msgspec.Struct]) -> Problem:
    """The problem of what is not of this shape: it names the field, and those that may have been meant."""
    complaint = str(error)
    fields = _fields_at(shape, complaint)
    name = _field_in(complaint)
    near = [] if name in (*fields, BODY) else alike(name, fields)
    return refused(name, f"The body is not as expected: {complaint}.", near)


def _fields_at(shape: type[msgspec.Struct], complaint: str) -> list[str]:
    """The fields of the object that is complained of: the body itself, or an object in a list of it."""
    fields = msgspec.structs.fields(shape)
    if found := re.search(r"unknown field .* at `\$\.(\w+)\[", complaint):
        inner = (one for field in fields if field.name == found[1] for one in get_args(field.type))
        fields = next((msgspec.structs.fields(one) for one in inner if isinstance(one, type)), fields)
    return [field.name for field in fields]


def _field_in(complaint: str) -> str:
    """The field that msgspec complains of: named in backticks, or else by its path (`$.feeds[0]`)."""
    found = re.search(r"field `([^`]*)`", complaint) or re.search(r"`\$\.(\w+)", complaint)
    return found[1] if found else BODY
