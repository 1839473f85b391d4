"""`/docs`: the OpenAPI description as one page, without scripts and without anything from elsewhere."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}code,pre{font:14px/1.45 ui-monospace,monospace}pre{background:#f3f3f3;padding:1rem;overflow:auto}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;"
    "border-bottom:1px solid #ddd}h2{margin-top:2.5rem;border-top:1px solid #ddd;padding-top:1rem}"
    "@media(prefers-color-scheme:dark){body{background:#141414;color:#e6e6e6}pre{background:#222}a{color:#8ab4f8}}"
)


def docs_page(schema: Mapping[str, Any]) -> str:
    """The page for this OpenAPI description."""
    title = f"{schema['info']['title']} {schema['info']['version']}"
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(title)}</title>',
            f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
            f"<p>{escape(schema['info']['description'])}</p>",
            '<p>For programs: <a href="/openapi.json">/openapi.json</a></p>',
            *(_endpoint(*each) for each in _endpoints(schema)),
            "</body></html>",
        )
    )


def _endpoints(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _endpoint(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation['description'])}</p>"]
    if parameters := operation.get("parameters"):
        parts.append(f"<table><tr><th>parameter<th>meaning<th>examples{''.join(map(_row, parameters))}</table>")
    parts += (_example("Body", each) for each in _examples(operation.get("requestBody", {})))
    parts += (
        _example(f"Answer {status}", each)
        for status, answer in operation["responses"].items()
        for each in _examples(answer)
    )
    return "".join(parts)


def _row(parameter: Mapping[str, Any]) -> str:
    examples = ", ".join(f"<code>{escape(text)}</code>" for text in parameter.get("examples", {}))
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter.get('description', ''))}<td>{examples}"
    )


def _examples(told: Mapping[str, Any]) -> Iterator[Any]:
    return (content["example"] for content in told.get("content", {}).values() if "example" in content)


def _example(title: str, value: object) -> str:
    return f"<h3>{escape(title)}</h3><pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
