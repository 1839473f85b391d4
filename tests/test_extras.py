"""SDKs are extras: where one is missing its provider says what to install, and nothing else minds."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from collectors.base import NotConfigured, ProviderError, Unchanged
from collectors.registry import PROVIDERS, provider
from collectors.sdk import extra
from tests.support.canned import Canned, canned
from tests.support.contract import contract_of

ROOT = Path(__file__).parents[1]
SDKS = {
    "alibaba": ("alibabacloud_tea_openapi", "alibabacloud_ecs20140526", "darabonba"),
    "aws": ("boto3", "botocore"),
    "azure": ("azure",),
    "gcp": ("google.auth", "google.cloud"),
    "tencent": ("tencentcloud",),
    "ucloud": ("ucloud",),
}
"""What each extra brings that its provider imports."""
NEVER_IMPORTED = {"alibabacloud_ecs20140526"}
"""What an extra brings whose names alone are used."""
ALWAYS_THERE = {"httpx2"}
"""What collectors import from outside that is no extra."""
WITH_EVERY_SDK = {"requests", "urllib3"}
"""What SDKs send through: never there without one."""


def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def _provider_of(path: Path) -> str:
    return path.stem.partition("_")[0]


def _top(module: str) -> str:
    return module.partition(".")[0]


def _named_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _imports(nodes: list[ast.stmt], inside: str = "") -> Iterator[tuple[str, str]]:
    """(module, the `extra(...)` that it stands in) of each import of a tree."""
    for node in nodes:
        yield from ((module, inside) for module in _named_by(node))
        around = inside
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.With):
            said = ast.unparse(node.items[0].context_expr)
            around = said if said.startswith("extra(") else inside
        for field in ("body", "orelse", "finalbody", "handlers"):
            yield from _imports(getattr(node, field, []), around)


def _from_outside() -> list[tuple[Path, str, str]]:
    """(file, module, `extra(...)`) of each import in the collectors that is neither ours nor Python's."""
    ours = {path.stem for path in ROOT.iterdir()}
    found = [
        (path, module, around)
        for path in sorted((ROOT / "collectors").glob("*.py"))
        for module, around in _imports(ast.parse(path.read_text("utf-8")).body)
        if _top(module) not in ours | set(sys.stdlib_module_names)
    ]
    assert found, "no collector imports anything: nothing would be proved"
    return found


def test_every_provider_with_an_sdk_has_its_extra_and_all_has_all() -> None:
    extras = _extras()
    with_sdk = {_provider_of(path) for path, _, around in _from_outside() if around}
    assert with_sdk == extras.keys() - {"all"} == SDKS.keys()
    (everything,) = extras["all"]
    assert set(re.fullmatch(r"gpufare\[(.*)\]", everything)[1].split(",")) == with_sdk  # type: ignore[index]


def test_an_sdk_is_first_imported_where_its_absence_is_told() -> None:
    """Functions that run after that import what they need: the next test has each provider without its SDK."""
    guarded = {(_provider_of(path), _top(module)) for path, module, around in _from_outside() if around}
    for path, module, around in _from_outside():
        name = _provider_of(path)
        if around:
            assert around in ("extra(NAME)", f"extra('{name}')"), f"{path.name}: {module}"
        elif _top(module) not in ALWAYS_THERE | WITH_EVERY_SDK:
            assert (name, _top(module)) in guarded, f"{path.name} imports {module} outside of extra({name!r})"


@pytest.mark.parametrize("name", [name for name in SDKS if name in PROVIDERS])
def test_a_provider_whose_sdk_is_missing_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed that needs no SDK may fail otherwise, as nobody is at the address; none breaks."""
    contract = contract_of(name)
    with canned(Canned()) as server:
        gone = server.url
    feeds = list(provider(name, contract.at(gone)).feeds())
    for module in list(sys.modules):
        if any(module == sdk or module.startswith(f"{sdk}.") for sdk in SDKS[name]):
            monkeypatch.delitem(sys.modules, module)
    for sdk in SDKS[name]:
        monkeypatch.setitem(sys.modules, sdk, None)
    said = []
    for feed in feeds:
        with pytest.raises((ProviderError, Unchanged)) as caught:
            contract.drained(feed)
        if isinstance(caught.value, NotConfigured):
            said.append(str(caught.value))
    assert said
    for sentence in said:
        assert re.fullmatch(rf"the package \S+ is not installed: pip install 'gpufare\[{name}\]'", sentence), sentence


@pytest.mark.parametrize(
    ("name", "sdk"),
    [(name, sdk) for name, sdks in SDKS.items() for sdk in sdks if sdk not in NEVER_IMPORTED],
)
def test_a_namespace_that_another_package_left_behind_is_no_sdk(
    name: str, sdk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip uninstall google-cloud-compute`, and `google.cloud` is still there: without what is imported from it."""
    contract = contract_of(name)
    with canned(Canned()) as server:
        gone = server.url
    feeds = list(provider(name, contract.at(gone)).feeds())
    for module in list(sys.modules):
        if module == sdk or module.startswith(f"{sdk}."):
            monkeypatch.delitem(sys.modules, module)
    left = ModuleType(sdk)
    left.__path__ = []
    monkeypatch.setitem(sys.modules, sdk, left)
    said = []
    for feed in feeds:
        with pytest.raises((ProviderError, Unchanged)) as caught:
            contract.drained(feed)
        if isinstance(caught.value, NotConfigured):
            said.append(str(caught.value))
    assert said
    for sentence in said:
        wanted = rf"the package \S+ is not installed( whole)?: pip install 'gpufare\[{name}\]'"
        assert re.fullmatch(wanted, sentence), sentence


def test_a_name_that_a_package_lacks_is_told_like_a_missing_package() -> None:
    with pytest.raises(NotConfigured) as caught, extra("gcp"):
        from collectors.sdk import no_such_thing  # type: ignore[attr-defined]  # noqa: F401 - that is the point
    assert str(caught.value) == "the package collectors.sdk is not installed whole: pip install 'gpufare[gcp]'"
    assert isinstance(caught.value.__cause__, ImportError)


def test_the_command_line_loads_no_sdk() -> None:
    told = "import json, sys, cli; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    loaded = json.loads(run.stdout.splitlines()[-1])
    assert "cli" in loaded
    sdks = {module for _, module, around in _from_outside() if around} | {
        sdk for names in SDKS.values() for sdk in names
    }
    assert [module for module in loaded if any(module == sdk or module.startswith(f"{sdk}.") for sdk in sdks)] == []
