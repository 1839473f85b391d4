"""A file of targets and watches, as TOML: what a request of `/watches/apply` says, its secrets from the environment."""

import os
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands.build import refuse

if TYPE_CHECKING:
    from fastapi import FastAPI

FROM_ENVIRONMENT = ("url", "secret")
"""Fields of a target that may be named by a variable: `url_env`, `secret_env`."""


def read(file: Path) -> dict[str, Any]:
    """What the file says, as a request's body. The command ends with status 2 for what cannot be read."""
    try:
        tree = tomllib.loads(file.read_bytes().decode(), parse_float=Decimal)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        refuse(f"{file}: it cannot be read as a TOML file: {reason}")
    body: dict[str, Any] = _as_json(tree)
    if "dry_run" in body:
        refuse(f"{file}: dry_run is an option of the command")
    targets = body.get("targets")
    if isinstance(targets, list):
        body["targets"] = [_filled(one, file) if isinstance(one, dict) else one for one in targets]
    return body


def _as_json(value: object) -> Any:
    """TOML's values as JSON has them: numbers exact, as text; times as text."""
    match value:
        case dict():
            return {name: _as_json(one) for name, one in value.items()}
        case list():
            return [_as_json(one) for one in value]
        case Decimal():
            return f"{value:f}"
        case datetime() | date() | time():
            return value.isoformat()
    return value


def _filled(target: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """A target with what the environment has of it."""
    filled = {name: value for name, value in target.items() if name.removesuffix("_env") not in FROM_ENVIRONMENT}
    for name in FROM_ENVIRONMENT:
        variable = target.get(f"{name}_env")
        if variable is None:
            filled |= {name: target[name]} if name in target else {}
            continue
        where = f"{file}: target {target.get('name')}: {name}_env = {variable!r}"
        if name in target:
            refuse(f"{where}: {name} is there too; say one of them")
        value = os.environ.get(str(variable), "").strip()
        if not value:
            refuse(f"{where}: the environment has no such variable")
        filled[name] = value
    return filled


def in_words(change: Mapping[str, Any], *, dry_run: bool) -> str:
    """A change in a line."""
    fields = f" ({', '.join(change['fields'])})" if change["fields"] else ""
    would = "would be " if dry_run else ""
    return f"{change['kind']} {change['name']}: {would}{change['change']}{fields}"


def apply_at_start(app: "FastAPI", named: str) -> None:
    """Apply the file that the settings name, before the server answers. What cannot be used ends it, with status 2."""
    import msgspec
    import structlog

    from api import watch_file
    from api.problems import Problem
    from api.serving import misshapen
    from api.watch_shapes import ApplyRequest

    file = Path(named)
    try:
        try:
            asked = msgspec.convert(read(file), ApplyRequest)
        except msgspec.ValidationError as error:
            raise misshapen(error, ApplyRequest) from None
        applied = watch_file.apply(app.state.serving, asked)
    except Problem as problem:
        near = f" Did you mean {' or '.join(problem.near)}?" if problem.near else ""
        refuse(f"GPUFARE_WATCHES_FILE: {file}: {problem.detail}{near}")
    log = structlog.get_logger()
    for change in applied.changes:
        log.info("watches file", what=in_words(msgspec.to_builtins(change), dry_run=False))
    for said in applied.warnings:
        log.warning("watches file", reason=said)
