"""`gpufare watch` and `gpufare target`: over the database here, over a server, and a file of both."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from typer.testing import CliRunner, Result

from alerts.format_standard import new_secret
from catalog.parameters import PARAMETERS
from catalog.words import Level
from cli import app
from commands.watching import OF_A_SPEC
from store import watches
from tests.support.commands import environment, run, serving
from tests.support.filled import Filled, sold

ROOT = Path(__file__).parent.parent
Run = Callable[..., Result]
URL = "https://93.184.215.14/services/hunter2"
NEVER_SET = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "GPUFARE_URL", "GPUFARE_CONFIG", "OPS_WEBHOOK_SECRET", "SLACK_URL")


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    """A V100 that is out in Guangzhou and in stock in Nanjing, polled just now."""
    filled = Filled(tmp_path)
    filled.now = datetime.now(UTC).replace(microsecond=0)
    filled.plan("tencent", ("stock", "ap-guangzhou"), ("stock", "ap-nanjing"), site="cn")
    for region, level in (("ap-guangzhou", Level.OUT), ("ap-nanjing", Level.IN_STOCK)):
        facts = sold(region, "m1", "8.68", level, currency="CNY", zone=f"{region}-1", gpu="v100-sxm2-32g")
        filled.poll("tencent", "stock", region, facts)
    yield filled
    filled.engine.dispose()


@pytest.fixture
def gpufare(filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    for name in NEVER_SET:
        monkeypatch.delenv(name, raising=False)
    url = filled.engine.url.render_as_string(hide_password=False)
    environ = environment(tmp_path, GPUFARE_DATABASE_URL=url)

    def run(*arguments: str, **more: str) -> Result:
        with monkeypatch.context() as patched:
            for name, value in (environ | more).items():
                patched.setenv(name, value)
            return CliRunner().invoke(app, list(arguments), catch_exceptions=False)

    yield run
    structlog.reset_defaults()


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def added(gpufare: Run, *arguments: str) -> Any:
    gpufare("target", "add", "ops", URL)
    return answer(gpufare("watch", "add", *arguments, "--notify", "ops", "--json"))


def test_a_target_is_made_with_a_secret_that_is_shown_once(gpufare: Run) -> None:
    made = gpufare("target", "add", "ops", URL)
    assert made.exit_code == 0
    assert re.search(r"^its secret, shown this once: whsec_\S+$", made.stdout, re.MULTILINE)
    listed = gpufare("target", "list").stdout
    assert re.search(r"^ops +standard +https://93\.184\.215\.14/…masked +yes +en +ok", listed, re.MULTILINE)
    assert "hunter2" not in made.stdout + listed
    assert "whsec_" not in listed
    taken = gpufare("target", "add", "ops", URL)
    assert (taken.exit_code, "There is a target named ops already" in taken.stderr) == (2, True)


def test_a_rooms_options_are_passed_on(gpufare: Run) -> None:
    arguments = ("--format", "dingtalk", "--secret", "SEChush", "--keyword", "gpu", "--lang", "zh")
    said = gpufare("target", "add", "room", URL, *arguments)
    assert (said.exit_code, "SEChush" in said.stdout) == (0, False)
    (shown,) = answer(gpufare("target", "list", "--json"))["items"]
    assert (shown["format"], shown["has_secret"], shown["keyword"], shown["lang"]) == ("dingtalk", True, "gpu", "zh")


def test_a_target_that_cannot_be_told_is_said_on_stderr(gpufare: Run) -> None:
    said = gpufare("target", "add", "mail", "mailto:ops@example.com", "--format", "email")
    assert (said.exit_code, "no mail server is set" in said.stderr) == (0, True)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "http://169.254.169.254/latest/meta-data", "ftp://x"])
def test_a_url_that_is_refused_is_status_2(gpufare: Run, url: str) -> None:
    said = gpufare("target", "add", "ops", url)
    assert (said.exit_code, said.stdout) == (2, "")
    assert answer(gpufare("target", "list", "--json")) == {"items": []}


def test_a_watch_is_added_by_the_options_of_cheapest_and_its_own(gpufare: Run) -> None:
    spec = ("v100", "--region", "ap-guangzhou", "--fallback", "ap-nanjing", "--fallback", "ap-chongqing", "--spot")
    rules = ("--events", "stock.out,price.below", "--price-below", "1.80", "--hold", "2m", "--hold-back", "30s")
    more = ("--remind", "6h", "--heartbeat", "1d", "--daily-cap", "5", "--change-percent", "2.5", "--expires", "7d")
    made = added(gpufare, *spec, *rules, *more, "--name", "mine", "--paused")
    assert made["spec"] == {
        "gpu": "v100",
        "region": "ap-guangzhou",
        "fallback": "ap-nanjing,ap-chongqing",
        "spot": "true",
    }
    assert (made["name"], made["events"], made["price_below"]) == ("mine", ["stock.out", "price.below"], "1.80")
    assert (made["hold"], made["hold_back"], made["remind"], made["heartbeat"]) == ("2m", "30s", "6h", "1d")
    assert (made["daily_cap"], made["change_percent"], made["paused"]) == (5, "2.5", True)
    assert made["expires_at"] is not None
    assert answer(gpufare("watch", "show", made["id"], "--json")) == made


def test_a_watch_without_a_name_is_called_what_it_looks_for(gpufare: Run) -> None:
    made = added(gpufare, "v100", "--region", "ap-guangzhou")
    assert (made["name"], made["state"]) == ("v100 ap-guangzhou", "out")
    said = gpufare("watch", "add", "v100", "--region", "ap-nanjing", "--notify", "ops")
    assert re.fullmatch(r"w_\w+ v100 ap-nanjing: available\n", said.stdout)


def test_every_parameter_of_a_spec_is_an_option(gpufare: Run) -> None:
    said = gpufare("watch", "add", "--help", COLUMNS="200").stdout
    assert PARAMETERS.keys() - OF_A_SPEC.keys() == {"limit", "offset", "explain"}
    assert [name for name in OF_A_SPEC if name != "gpu" and f"--{name.replace('_', '-')} " not in said] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a100-8", "--notify", "ops"), "a100-80g"),
        (("v100", "--notify", "opps"), "did you mean: ops"),
        (("v100",), "notify"),
        (("v100", "--notify", "ops", "--hold", "2"), "hold=2"),
        (("v100", "--notify", "ops", "--events", "stock.gone"), "stock.out"),
        (("v100", "--notify", "ops", "--limit", "5"), "--limit"),
    ],
)
def test_a_mistake_is_status_2_with_a_sentence(gpufare: Run, arguments: tuple[str, ...], said: str) -> None:
    gpufare("target", "add", "ops", URL)
    refused = gpufare("watch", "add", *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert answer(gpufare("watch", "list", "--json")) == {"items": []}


def test_watches_are_listed_shown_paused_resumed_tested_and_removed(gpufare: Run, filled: Filled) -> None:
    watch_id = added(gpufare, "v100", "--region", "ap-guangzhou")["id"]
    assert re.search(rf"^{watch_id} +v100 ap-guangzhou +out ", gpufare("watch", "list").stdout, re.MULTILINE)
    assert gpufare("watch", "pause", watch_id).stdout == f"{watch_id} v100 ap-guangzhou: paused, out\n"
    assert re.search(rf"^{watch_id} .* paused ", gpufare("watch", "list").stdout, re.MULTILINE)
    assert answer(gpufare("watch", "resume", watch_id, "--json"))["paused"] is False
    (delivery,) = answer(gpufare("watch", "test", watch_id, "--json"))["deliveries"]
    shown = gpufare("watch", "show", watch_id).stdout
    assert re.search(rf"^{delivery} +test +ops +pending ", shown, re.MULTILINE)
    assert gpufare("target", "test", "ops").stdout.endswith(": on its way, once a worker runs\n")
    assert gpufare("target", "remove", "ops").exit_code == 2, "the watch names it"
    assert gpufare("watch", "remove", watch_id).stdout == f"{watch_id}: removed\n"
    assert gpufare("target", "remove", "ops").exit_code == 0
    assert (watches.watches(filled.engine), watches.targets(filled.engine)) == ([], [])


@pytest.mark.parametrize(
    ("command", "name"),
    [*((each, "w_0") for each in ("remove", "test", "pause")), ("show", "../targets"), ("show", "a/b?c=d#e")],
)
def test_a_watch_that_is_not_there_is_status_2(gpufare: Run, command: str, name: str) -> None:
    said = gpufare("watch", command, name)
    assert (said.exit_code, said.stdout) == (2, "")


# --- the file ---------------------------------------------------------------------------------------------------------

WITH = {"OPS_WEBHOOK_SECRET": new_secret(), "SLACK_URL": URL}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The one of the documentation."""
    text = (ROOT / "docs" / "watches.md").read_text(encoding="utf-8")
    found = re.search(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    made = tmp_path / "watches.toml"
    made.write_text(found[1].replace("example.com", "93.184.215.14"), encoding="utf-8")  # no name is looked up
    return made


def test_the_documentations_file_is_applied_and_a_second_time_changes_nothing(
    gpufare: Run, file: Path, filled: Filled
) -> None:
    dry = gpufare("watch", "apply", str(file), "--dry-run", **WITH)
    assert (dry.exit_code, "target ops: would be added\n" in dry.stdout) == (0, True)
    assert watches.watches(filled.engine) == []
    assert gpufare("watch", "apply", str(file), **WITH).stdout.splitlines() == [
        "target ops: added",
        "target room: added",
        "watch v100 in guangzhou: added",
        "watch cheap h100: added",
        "0 as the file says already",
    ]
    again = gpufare("watch", "apply", str(file), **WITH)
    assert again.stdout == "4 as the file says already\n"
    said = tomllib.loads(file.read_text())
    kept = {one.target.name: one.target for one in watches.targets(filled.engine)}
    assert (kept["ops"].secret, kept["room"].url) == (WITH["OPS_WEBHOOK_SECRET"], URL)
    first, second = watches.watches(filled.engine)
    assert (first.name, first.managed) == (said["watches"][0]["name"], True)
    assert (str(second.price_below), second.expires_at) == ("16.00", said["watches"][1]["expires"])


def test_what_leaves_the_file_is_removed_and_json_says_so(gpufare: Run, file: Path) -> None:
    gpufare("watch", "apply", str(file), **WITH)
    file.write_text(file.read_text().partition('[[watches]]\nname = "cheap h100"')[0].replace('"2m"', '"5m"'))
    told = answer(gpufare("watch", "apply", str(file), "--json", **WITH))
    assert [(one["name"], one["change"], one["fields"]) for one in told["changes"]] == [
        ("v100 in guangzhou", "changed", ["hold"]),
        ("cheap h100", "removed", []),
    ]
    assert [one["name"] for one in answer(gpufare("watch", "list", "--json"))["items"]] == ["v100 in guangzhou"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[targets]\n", "cannot be read as a TOML file"),
        ('[[targets]]\nname = "a"\nurl_env = "NOWHERE"\n', "the environment has no such variable"),
        ('[[targets]]\nname = "a"\nurl = "https://x"\nurl_env = "SLACK_URL"\n', "say one of them"),
        ('[[targets]]\nname = "a"\nurl_env = ["SLACK_URL"]\n', "no such variable"),
        ('[[targets]]\nname = "a"\nform = "slack"\nurl_env = "SLACK_URL"\n', "unknown field `form`"),
        ('[[targets]]\nname = "a"\nurl = "http://10.0.0.1/"\nformat = "slack"\n', "targets[0]: 10.0.0.1 is not on"),
        ('targets = "all"\n', "Expected `array`"),
        ('[[watches]]\nname = "w"\nspec = {gpu = "v100"}\nnotify = ["a"]\n', "watches[0]: there is no target a"),
        ("dry_run = true\n", "dry_run is an option"),
        ('[[watchs]]\nname = "w"\n', "did you mean: watches"),
    ],
)
def test_a_file_that_cannot_be_used_is_status_2(gpufare: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    refused = gpufare("watch", "apply", "bad.toml", **WITH)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert URL not in refused.stderr


def test_a_file_that_is_not_there_is_status_2(gpufare: Run) -> None:
    refused = gpufare("watch", "apply", "nowhere.toml")
    assert (refused.exit_code, "No such file" in refused.stderr) == (2, True)


# --- a server ---------------------------------------------------------------------------------------------------------


def test_a_server_applies_its_file_as_it_starts_and_answers_commands(
    filled: Filled, tmp_path: Path, file: Path
) -> None:
    home = tmp_path / "server"
    home.mkdir()
    database = {"GPUFARE_DATABASE_URL": filled.engine.url.render_as_string(hide_password=False)}
    token = {"GPUFARE_API_TOKEN": "t0ken"}
    with serving(home, GPUFARE_WATCHES_FILE=str(file), **database, **token, **WITH) as server:
        assert WITH["OPS_WEBHOOK_SECRET"] not in server.said()
        asks = {"GPUFARE_URL": server.url} | token
        listed = run(tmp_path, "watch", "list", "--json", **asks)
        assert [one["name"] for one in json.loads(listed.stdout)["items"]] == ["v100 in guangzhou", "cheap h100"]
        made = run(tmp_path, "target", "add", "mine", URL, "--format", "slack", **asks)
        assert (made.returncode, made.stdout) == (0, "mine: slack https://93.184.215.14/…masked\n")
        added = run(tmp_path, "watch", "add", "v100", "--notify", "mine", "--json", **asks)
        watch_id = json.loads(added.stdout)["id"]
        assert httpx2.get(f"{server.url}/watches/{watch_id}").json()["notify"] == ["mine"]
        applied = run(tmp_path, "watch", "apply", str(file), **asks, **WITH)
        assert applied.stdout == "4 as the file says already\n"
        assert run(tmp_path, "watch", "remove", watch_id, **asks).returncode == 0
        refused = run(tmp_path, "target", "remove", "mine", GPUFARE_URL=server.url)
        assert (refused.returncode, "GPUFARE_API_TOKEN" in refused.stderr) == (2, True)


def test_a_server_with_a_file_that_cannot_be_used_does_not_start(filled: Filled, tmp_path: Path) -> None:
    (tmp_path / "watches.toml").write_text('[[watches]]\nname = "w"\nspec = {gpu = "a100-8"}\nnotify = ["a"]\n')
    database = filled.engine.url.render_as_string(hide_password=False)
    said = run(tmp_path, "api", "--port", "0", GPUFARE_DATABASE_URL=database, GPUFARE_WATCHES_FILE="watches.toml")
    assert said.returncode == 2
    assert said.stderr.splitlines()[-1].startswith("gpufare: GPUFARE_WATCHES_FILE: watches.toml: watches[0]: ")
