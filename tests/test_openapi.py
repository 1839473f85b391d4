"""The descriptions of the server: OpenAPI, its page, the examples and the written documentation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.routing import Route

from api import examples
from api.app import create_app
from api.shapes import OfferShape
from catalog.parameters import PARAMETERS
from tests.support.filled import Server, config_for, served, v100_at_tencent


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    filled = v100_at_tencent(tmp_path)
    with served(filled) as server:
        yield server
    filled.engine.dispose()


def test_openapi_describes_every_route_parameter_and_shape(server: Server) -> None:
    schema = server.get("/openapi.json")
    for path in ("/cheapest", "/offers"):
        assert [one["name"] for one in schema["paths"][path]["get"]["parameters"]] == list(PARAMETERS)
    offer = schema["components"]["schemas"]["OfferShape"]
    assert (
        list(offer["properties"]) == offer["required"] == [field.name for field in msgspec.structs.fields(OfferShape)]
    )
    assert schema["paths"]["/launches"]["post"]["requestBody"]["content"]["application/json"]["example"]["code"]
    references = _references(schema)
    assert references
    assert references <= {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(_references, node.values()))
    return set().union(*map(_references, node)) if isinstance(node, list) else set()


@pytest.mark.parametrize("shape", [*examples.ANSWERS, *examples.BODIES])
def test_the_examples_have_the_shape_that_they_stand_for(shape: type[msgspec.Struct]) -> None:
    example = (examples.ANSWERS | examples.BODIES)[shape]
    assert msgspec.to_builtins(msgspec.convert(example, shape)) == example


def test_the_documentation_page_loads_nothing_and_names_every_endpoint(server: Server) -> None:
    page = server.client.get("/docs").text
    assert "<script" not in page
    assert "src=" not in page
    for path in server.get("/openapi.json")["paths"]:
        assert f" {path}</code>" in page


def test_the_first_page_points_on(server: Server) -> None:
    welcome = server.get("/")
    assert welcome["docs"] == "/docs"
    for example in welcome["examples"]:
        assert server.client.get(example).status_code == 200


def test_each_route_is_in_the_documentation(server: Server) -> None:
    text = Path(__file__).parent.parent.joinpath("docs", "api.md").read_text("utf-8")
    app = create_app(server.filled.engine, config_for(server.filled))
    routes = [
        (method, path)
        for path, methods in app.openapi()["paths"].items()
        for method in (name.upper() for name in methods)
    ]
    assert len(routes) > 12
    assert [f"{method} {path}" for method, path in routes if f"`{method} {path}`" not in text] == []
    undocumented = {route.path for route in app.routes if isinstance(route, Route)} - {path for _, path in routes}
    assert undocumented <= {"/docs", "/openapi.json"}
