"""The documents cannot rot: what there is stands in them, links lead somewhere, no machine's own paths are named."""

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import typer

import simcloud
from api.app import create_app
from api.config import ApiConfig
from catalog.fx import ecb_rates
from cli import app
from collectors.registry import PROVIDERS
from settings import FEEDS, OUTSIDE, describe
from simcloud import Sim
from store.engine import open_engine

ROOT = Path(__file__).parent.parent
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _files(*patterns: str) -> list[Path]:
    """What is or will be committed, as git sees it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    found = [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]
    assert found, f"no file is {patterns}"
    return found


PAGES = _files("*.md")
ADRS = _files("docs/adr/*.md")


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


# --- what there is stands in the documents ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [setting.name for setting in describe()])
def test_every_setting_is_in_docs_settings(name: str) -> None:
    assert f"| `{name}` |" in _text("docs/settings.md"), f"docs/settings.md has no row for {name}"


def _endpoints() -> list[str]:
    paths = create_app(open_engine("sqlite://"), ApiConfig(rates=ecb_rates())).openapi()["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize("endpoint", _endpoints())
def test_every_endpoint_is_in_docs_api(endpoint: str) -> None:
    assert f"### `{endpoint}`" in _text("docs/api.md"), f"docs/api.md has no section `{endpoint}`"


def _commands() -> dict[str, list[str]]:
    """Command -> its options."""
    made = typer.main.get_command(app)
    commands = getattr(made, "commands", {})
    assert commands, "the command line has no commands"
    return {
        name: [
            option
            for parameter in command.params
            if parameter.param_type_name == "option" and not parameter.hidden
            for option in parameter.opts
        ]
        for name, command in commands.items()
    }


COMMANDS = _commands()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_docs_commands(command: str) -> None:
    rows = re.findall(r"^\| `gpufare (\w+)[^`]*` \|", _text("docs/commands.md"), re.MULTILINE)
    assert command in rows, f"docs/commands.md has no row for gpufare {command}"


@pytest.mark.parametrize(
    ("command", "option"), [(name, option) for name, options in COMMANDS.items() for option in options]
)
def test_every_option_is_in_docs_commands(command: str, option: str) -> None:
    assert f"`{option}`" in _text("docs/commands.md"), f"docs/commands.md does not say what {command} {option} does"


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_has_a_section_and_a_row(name: str) -> None:
    headings = re.findall(r"^## (.*)$", _text("docs/providers.md"), re.MULTILINE)
    assert any(heading.casefold().startswith(name) for heading in headings), f"docs/providers.md has no section {name}"
    for page in ("README.md", "docs/providers.md"):
        assert re.search(rf"^\| (\[{name}\]|{name}\b)", _text(page), re.MULTILINE), f"{page}: no row of {name}"


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_service_of_a_provider_is_in_docs_settings(name: str) -> None:
    services = f"{name} {', '.join(OUTSIDE[name].services)}"
    assert services in _text("docs/settings.md"), f"docs/settings.md: services of {name}"


def test_every_page_of_docs_is_in_its_index() -> None:
    index = _text("docs/README.md")
    pages = [page.name for page in PAGES if page.parent == ROOT / "docs" and page.name != "README.md"]
    assert [page for page in pages if f"]({page})" not in index] == []


@pytest.mark.parametrize("feed", FEEDS)
def test_every_feed_is_in_docs_settings(feed: str) -> None:
    assert re.search(rf"Feeds: [\w, ]*\b{feed}\b", _text("docs/settings.md")), f"docs/settings.md: feed {feed}"


@pytest.fixture(scope="module")
def sim() -> Iterator[Sim]:
    with simcloud.start("demo") as started:
        yield started


@pytest.mark.parametrize("name", simcloud.PROVIDERS)
def test_every_simulated_cloud_has_a_section_with_its_options_and_a_row(name: str, sim: Sim) -> None:
    text = _text("docs/simcloud.md")
    found = re.findall(r"^### (.*)\n((?:(?!##).*\n)*)", text, re.MULTILINE)
    sections = {heading.casefold(): said for heading, said in found}
    assert name in sections, f"docs/simcloud.md has no section {name}"
    missing = [option for option in sim.world.options[name] if f"`{option}`" not in sections[name]]
    assert missing == [], f"docs/simcloud.md, {name}: options"
    assert re.search(rf"^\| {name} \|", text, re.MULTILINE), f"docs/simcloud.md: no row of fields of {name}"


@pytest.mark.parametrize("name", simcloud.PROVIDERS)
def test_every_field_that_the_row_of_a_simulated_cloud_names_is_one(name: str, sim: Sim) -> None:
    row = re.search(rf"^\| {name} \|(.*)$", _text("docs/simcloud.md"), re.MULTILINE)
    known = {field for one in sim.world.first_rows(name) for field in one}
    named = re.findall(r"`(\w+)`", row[1] if row else "")
    assert len(named) > 5
    assert [field for field in named if field not in known] == []


# --- links ------------------------------------------------------------------------------------------------------------


def _links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text(encoding="utf-8"))):
            if not re.match(r"[a-z]+:", target):
                yield page, target


def _anchors(page: Path) -> set[str]:
    """The names that a forge gives to the headings."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.casefold()).replace(" ", "-") for heading in headings}


def test_every_relative_link_leads_somewhere() -> None:
    links = list(_links())
    assert links, "no page has a relative link"
    broken = []
    for page, target in links:
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(f"{_relative(page)}: {target}")
    assert broken == []


# --- what must not be in the tree -------------------------------------------------------------------------------------

FORBIDDEN = {
    "a folder of one machine": r"(?<![\w.}>])/(?:work|root|home/(?!ada/)\w+|Users/\w+)/",  # ada is invented
    "a folder beside the project": r"\.\./" + "sha" + "red",
    "a package registry": "|".join(
        re.escape(".".join(parts))
        for parts in (("py" + "pi", "org"), ("python" + "hosted", "org"), ("npm" + "js", "org"), ("crates", "io"))
    ),
    "a mirror of packages": r"(?m)^\s*--(?:extra-)?index-" + "url",
}
"""Each written so that this file does not hold what it looks for."""


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_tree_names_no(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for file in _files():
        text = file.read_bytes().decode("utf-8", errors="replace")
        if match := pattern.search(text):
            found.append(f"{_relative(file)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}")
    assert found == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a folder of one machine", "see /" + "root/x"),
        ("a package registry", "https://py" + "pi.org/simple"),
        ("a mirror of packages", "--index-" + "url x"),
        ("a folder beside the project", "../sha" + "red/x"),
    ],
)
def test_what_is_looked_for_is_found(what: str, text: str) -> None:
    assert re.search(FORBIDDEN[what], text)


# --- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adr", ADRS, ids=lambda path: path.stem)
def test_every_decision_has_its_number_a_date_and_a_status_and_is_short(adr: Path) -> None:
    lines = adr.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 40, f"{adr.name} has {len(lines)} lines"
    assert lines[0].startswith(f"# {int(adr.stem[:4])}. "), f"{adr.name} begins with {lines[0]!r}"
    stated = re.search(
        r"^Date: (\S+)\. Status: (accepted|proposed|superseded by \d+)\.$", "\n".join(lines), re.MULTILINE
    )
    assert stated, f"{adr.name} has no line like `Date: 2026-11-30. Status: accepted.`"
    assert date.fromisoformat(stated[1]) <= datetime.now(UTC).date()


def test_no_two_decisions_have_the_same_number() -> None:
    numbers = [adr.name[:4] for adr in ADRS]
    assert len(numbers) == len(set(numbers))
