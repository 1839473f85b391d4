"""What `/openapi.json` says beyond what FastAPI sees: parameters, bodies, shapes and errors."""

from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api import examples, recommend_shapes, shapes, watch_shapes
from api.problems import MEDIA_TYPE
from catalog.parameters import HISTORY_PARAMETERS, PARAMETERS, Parameter
from selector.sizing_asked import NEEDED, WORKLOAD_PARAMETERS

_REF = "#/components/schemas/{name}"
_PROBLEM: dict[str, Any] = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="ProblemShape")}}}
_ERRORS = {
    HTTPStatus.BAD_REQUEST: "The body is not JSON.",
    HTTPStatus.UNAUTHORIZED: "The token is missing or wrong.",
    HTTPStatus.NOT_FOUND: "Nothing has this name.",
    HTTPStatus.CONFLICT: "As things stand this cannot be done; `detail` says why.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too long.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not declared as JSON.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database cannot be used.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A parameter or value is not known; `did_you_mean` says what may be meant.",
}
_OF_BODIES = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

Responses = dict[int | str, dict[str, Any]]


def answers(shape: type[msgspec.Struct], *statuses: HTTPStatus, csv: bool = False, bodies: bool = False) -> Responses:
    """The responses of a route: this shape with the first success among the statuses (200 if none), and the errors.

    A route with another success than 200, or with `bodies`, takes a body.
    """
    success = next((status for status in statuses if status < HTTPStatus.BAD_REQUEST), HTTPStatus.OK)
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": _REF.format(name=shape.__name__)}}}
    if (example := examples.ANSWERS.get(shape)) is not None:
        content["application/json"]["example"] = example
    if csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    errors = [status for status in statuses if status >= HTTPStatus.BAD_REQUEST]
    errors += [HTTPStatus.UNAUTHORIZED, HTTPStatus.UNPROCESSABLE_ENTITY]
    errors += _OF_BODIES if bodies or success is not HTTPStatus.OK else ()
    told: Responses = {int(success): {"description": (shape.__doc__ or "").strip(), "content": content}}
    return told | {int(status): {"description": _ERRORS[status], "content": _PROBLEM} for status in errors}


def no_answer(*statuses: HTTPStatus) -> Responses:
    """The responses of a route that has nothing to say but that it is done."""
    errors = [*statuses, HTTPStatus.UNAUTHORIZED, HTTPStatus.UNPROCESSABLE_ENTITY]
    told: Responses = {int(HTTPStatus.NO_CONTENT): {"description": "Done."}}
    return told | {int(status): {"description": _ERRORS[status], "content": _PROBLEM} for status in errors}


def body(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON body of a route."""
    content = {"schema": {"$ref": _REF.format(name=shape.__name__)}, "example": examples.BODIES[shape]}
    return {"requestBody": {"content": {"application/json": content}}}


def install(app: FastAPI) -> None:
    """Make the app describe itself with our shapes, once it is asked to."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _, components = msgspec.json.schema_components(_all_shapes(), ref_template=_REF)
            schema.setdefault("components", {})["schemas"] = components
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{}, {"token": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]  # FastAPI's documented way


def _all_shapes() -> list[type[msgspec.Struct]]:
    named = [(module, one) for module in (shapes, recommend_shapes, watch_shapes) for one in vars(module).values()]
    return [one for module, one in named if isinstance(one, type) and one.__module__ == module.__name__]


def _parameter(name: str, known: Parameter) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": f"{known.meaning}. Repeat it or separate by commas for any of several.",
        "schema": {"type": "array", "items": {"type": "string"}},
        "examples": {text: {"value": [text]} for text in known.examples},
    }


def _of_workload(name: str, known: Parameter) -> dict[str, Any]:
    """A parameter that has one value."""
    return _parameter(name, known) | {
        "required": name in NEEDED,
        "description": f"{known.meaning}.",
        "schema": {"type": "string"},
        "examples": {text: {"value": text} for text in known.examples},
    }


QUESTION: dict[str, Any] = {"parameters": [_parameter(name, known) for name, known in PARAMETERS.items()]}
"""The parameters of a question."""
HISTORY: dict[str, Any] = {"parameters": [_parameter(name, known) for name, known in HISTORY_PARAMETERS.items()]}
"""The parameters of a question for history."""
RECOMMEND: dict[str, Any] = {
    "parameters": [*(_of_workload(name, known) for name, known in WORKLOAD_PARAMETERS.items()), *QUESTION["parameters"]]
}
"""The parameters of a recommendation."""

LIMITED: dict[str, Any] = {
    "parameters": [
        {"name": "limit", "in": "query", "required": False, "description": "how many, the newest; default 100"}
        | {"schema": {"type": "integer", "minimum": 1, "maximum": 1000}}
    ]
}
"""The parameter of a list of past things."""
