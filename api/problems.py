"""Errors as RFC 9457 problem details: the one shape of every answer that is not a success."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from selector.question import BadQuestion

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """An error answer on its way out. `parameter` and `did_you_mean` are told with 422 alone."""

    def __init__(self, status: int, detail: str, parameter: str | None = None, near: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.status, self.detail, self.parameter, self.near = status, detail, parameter, list(near)


def refused(parameter: str, detail: str, near: Sequence[str] = ()) -> Problem:
    """422: this parameter or field is not understood; `near` is what may have been meant."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, parameter, near)


def problem_response(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, object] = MappingProxyType({}),
) -> Response:
    """The answer that carries a problem; `more` are members beside those of the standard."""
    known = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": int(status), "detail": detail}
    body = msgspec.json.encode(known | dict(more))
    return Response(body, status, dict(headers or {}), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every error of the app a problem."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(BadQuestion, _bad_question)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - what it is registered for
    if error.status == HTTPStatus.UNPROCESSABLE_ENTITY or error.near:
        return _near(error.status, error.detail, error.parameter, error.near)
    return problem_response(error.status, error.detail)


def _bad_question(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BadQuestion)  # noqa: S101 - what it is registered for
    return _near(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), error.parameter, error.did_you_mean)


def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    first = error.errors()[0]
    parameter = str(first["loc"][-1])
    return _near(HTTPStatus.UNPROCESSABLE_ENTITY, f"{parameter}: {first['msg']}.", parameter, [])


def _near(status: int, detail: str, parameter: str | None, near: Sequence[str]) -> Response:
    return problem_response(status, detail, more={"parameter": parameter, "did_you_mean": list(near)})


_HINTS = {
    HTTPStatus.NOT_FOUND: "There is nothing at this address. /docs lists what there is.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address does not know the method. /docs lists what there is.",
}


def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    detail = _HINTS.get(HTTPStatus(error.status_code), str(error.detail))
    return problem_response(error.status_code, detail, error.headers)


CLIENT_GONE = 499
"""What proxies log where the client left before its answer: no fault of anybody's here."""


def _gone(_request: Request, _error: Exception) -> Response:
    """Sent to nobody, and counted."""
    return Response(status_code=CLIENT_GONE)


def _unexpected(_request: Request, _error: Exception) -> Response:
    """A fault of ours: the client is told no more than that; the server's log has the traceback."""
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed to answer. Its log says why; please report it."
    )
