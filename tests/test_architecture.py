"""Who may import whom, where errors are caught, and what is loaded when."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors import base

ROOT = Path(__file__).parents[1]
WORDS = {"catalog"}
INSIDE = WORDS | {"collectors", "store", "selector"}
EVERYTHING = INSIDE | {"alerts", "scheduler", "api", "simcloud", "commands", "cli", "settings", "setting_values"}
MAY_IMPORT = {
    "catalog": WORDS,
    "collectors": WORDS | {"collectors"},
    "store": WORDS | {"store"},
    "selector": WORDS | {"selector"},
    "alerts": WORDS | {"alerts"},
    "scheduler": INSIDE | {"alerts", "scheduler"},
    "api": WORDS | {"store", "selector", "alerts", "api"},
    "simcloud": {"simcloud"},
    "settings": WORDS | {"collectors.base", "collectors.registry", "setting_values"},
    "setting_values": WORDS,
    "commands": EVERYTHING,
    "cli": EVERYTHING,
}
"""A module may import what begins with one of these names, of ours."""
OUTSIDE_THE_HOUSE = {"tests", "scripts", "bench"}
"""They may import everything, and nothing of the house imports them."""
CLOUD_SDKS = {"alibabacloud_tea_openapi", "azure", "boto3", "botocore", "darabonba", "google", "tencentcloud", "ucloud"}
SDKS = CLOUD_SDKS | {"httpcore2", "httpx2", "moto", "requests"}
HEAVY = CLOUD_SDKS | {"httpcore2", "httpx2", "sqlalchemy", "fastapi", "numpy", "psycopg"}
PROVIDER_ERRORS = {
    name for name, value in vars(base).items() if isinstance(value, type) and issubclass(value, base.ProviderError)
}
MAY_CATCH = {"scheduler/poll.py": "gives each error its meaning"}


def _files(top: Path) -> list[Path]:
    return [top] if top.is_file() else sorted(top.rglob("*.py"))


def _tops() -> list[Path]:
    """The top-level modules and packages of this project."""
    hidden = {"build", "dist"}
    folders = [one for one in ROOT.iterdir() if one.is_dir() and not one.name.startswith((".", "_"))]
    return sorted([*ROOT.glob("*.py"), *(one for one in folders if one.name not in hidden and _files(one))])


def _house() -> dict[Path, ast.Module]:
    """Every source file of the product: its path from the root, and its tree."""
    tops = [top for top in _tops() if top.stem not in OUTSIDE_THE_HOUSE]
    found = {path.relative_to(ROOT): ast.parse(path.read_text("utf-8")) for top in tops for path in _files(top)}
    missing = MAY_IMPORT.keys() - {path.parts[0].removesuffix(".py") for path in found}
    assert not missing, f"no files found of {missing}"
    return found


HOUSE = _house()


def _imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported anywhere in a tree, at its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide who imports whom"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _at_import(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _at_import(node.orelse)
            continue
        yield node
        for name in ("body", "orelse", "finalbody"):
            yield from _at_import(getattr(node, name, []))


def _caught(tree: ast.AST) -> Iterator[str]:
    """The names of the exceptions that a tree catches or suppresses; "" for a bare `except`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            if _passes_on(node):
                continue
            yield from [""] if node.type is None else _names(node.type)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress":
            for argument in node.args:
                yield from _names(argument)


def _passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether it always raises what it caught again, after saying it in other words or leaving something out of it."""
    last = handler.body[-1]
    return handler.type is not None and isinstance(last, ast.Raise) and last.exc is None


def _names(node: ast.expr) -> Iterator[str]:
    for one in node.elts if isinstance(node, ast.Tuple) else [node]:
        yield ast.unparse(one).rpartition(".")[2]


def _begins(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def test_nobody_imports_whom_it_may_not() -> None:
    ours = EVERYTHING | OUTSIDE_THE_HOUSE
    crossing = 0
    for path, tree in HOUSE.items():
        top = path.parts[0].removesuffix(".py")
        for module in _imports(tree):
            if module.partition(".")[0] in ours:
                crossing += 1
                assert any(_begins(module, name) for name in MAY_IMPORT[top]), f"{path} imports {module}"
    assert crossing > len(MAY_IMPORT)


def test_every_top_level_name_has_its_rule_and_none_hides_the_standard_library() -> None:
    names = {top.stem for top in _tops()}
    assert names - OUTSIDE_THE_HOUSE == MAY_IMPORT.keys()
    assert not names & sys.stdlib_module_names


def test_a_provider_error_is_caught_where_it_is_given_its_meaning_and_nowhere_else() -> None:
    assert len(PROVIDER_ERRORS) > 5
    catching = {path.as_posix() for path, tree in HOUSE.items() if PROVIDER_ERRORS & set(_caught(tree))}
    assert catching == MAY_CATCH.keys()


def test_nothing_catches_everything() -> None:
    for path, tree in HOUSE.items():
        assert not {"", "Exception", "BaseException"} & set(_caught(tree)), path


def test_a_file_of_a_provider_fits_one_idea() -> None:
    files = {
        path: len((ROOT / path).read_text("utf-8").splitlines()) for path in HOUSE if path.parts[0] == "collectors"
    }
    assert len(files) > 30
    assert {path.name: lines for path, lines in files.items() if lines >= 350} == {}


def test_sdks_are_imported_inside_the_functions_that_use_them() -> None:
    used = set()
    for path, tree in HOUSE.items():
        if path.parts[0] == "simcloud":
            continue
        used |= {module.partition(".")[0] for module in _imports(tree)} & SDKS
        for statement in _at_import(tree.body):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                assert not {module.partition(".")[0] for module in _imports(statement)} & SDKS, path
    assert used >= CLOUD_SDKS | {"httpx2"}


HELP = "import runpy; sys.argv = ['gpufare', '--help']; runpy.run_module('cli', run_name='__main__')"


@pytest.mark.parametrize("code", ["import cli", HELP], ids=["import cli", "python -m cli --help"])
def test_the_command_loads_nothing_heavy_before_it_is_used(code: str) -> None:
    told = f"import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules)))); {code}"
    run = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    loaded = set(json.loads(run.stdout.splitlines()[-1]))
    assert "cli" in loaded or "typer" in loaded
    assert not loaded & HEAVY
