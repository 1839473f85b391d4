"""The commands, their exit statuses and what they print where. Against simulated clouds and a database of its own."""

import contextlib
import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import stamina.instrumentation
import structlog
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner, Result

import simcloud
from catalog.parameters import PARAMETERS
from cli import app
from collectors.registry import PROVIDERS
from commands.showing import place
from simcloud import Sim
from tests.support.commands import environment, run_into

ROOT = Path(__file__).parent.parent
COMMANDS = (
    "serve",
    "api",
    "worker",
    "sync",
    "cheapest",
    "offers",
    "gpus",
    "regions",
    "providers",
    "launched",
    "doctor",
    "history",
    "snapshot",
    "migrate",
    "watch",
    "target",
)
PROBLEM = {"type": "about:blank", "title": "Problem", "status": 422, "detail": "down"}
NANJING = {"GPUFARE_PROVIDERS__TENCENT__REGIONS": "ap-nanjing"}
"""One region: five cells."""


@dataclass
class Shell:
    """Runs commands in this process, in a home of its own."""

    environ: dict[str, str]
    monkeypatch: pytest.MonkeyPatch

    def run(self, *arguments: str, **environ: str) -> Result:
        with self.monkeypatch.context() as patched:
            for name, value in (self.environ | environ).items():
                patched.setenv(name, value)
            return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "GPUFARE_URL", "GPUFARE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield Shell(environment(tmp_path), monkeypatch)
    structlog.reset_defaults()
    stamina.instrumentation.set_on_retry_hooks(None)
    logging.getLogger().setLevel(logging.WARNING)


@pytest.fixture
def sim() -> Iterator[Sim]:
    with simcloud.start("demo", providers=("tencent",)) as started:
        yield started


@pytest.fixture
def synced(shell: Shell, sim: Sim) -> Shell:
    """A shell whose database holds one pass over Nanjing."""
    shell.environ |= sim.env() | NANJING
    assert shell.run("sync").exit_code == 0
    return shell


# --- help -------------------------------------------------------------------------------------------------------------


def test_help_names_every_command(shell: Shell) -> None:
    said = shell.run("--help")
    assert said.exit_code == 0
    assert [name for name in COMMANDS if name not in said.stdout] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_needs_no_usable_settings_and_no_database(shell: Shell, tmp_path: Path, command: str) -> None:
    said = shell.run(command, "--help", GPUFARE_DATABASE_URL="mysql://nowhere/x", GPUFARE_NONSENSE="1")
    assert said.exit_code == 0
    assert f"gpufare {command}" in said.stdout.replace("root", "gpufare")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["cheapest", "offers"])
def test_every_parameter_of_this_version_is_an_option(shell: Shell, command: str) -> None:
    said = shell.run(command, "--help", COLUMNS="200").stdout
    leading = {"gpu"} if command == "cheapest" else set()
    options = [f"--{name.replace('_', '-')} " for name in PARAMETERS if name not in leading]
    assert [option for option in options if option not in said] == []


NEEDED = {
    "cheapest": ["v100"],
    "history": ["stock"],
    "launched": ["--provider", "tencent", "--region", "ap-nanjing", "--instance-type", "GN10Xp.2XLARGE40"],
    "serve": ["--port", "0"],
    "snapshot": ["export", "state.zip"],
    "target": ["list"],
    "watch": ["list"],
}
"""What some commands cannot do without."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_working_folder_that_was_deleted_is_status_2_in_a_sentence(
    shell: Shell, tmp_path: Path, command: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with shell.monkeypatch.context() as patched:
        patched.chdir(gone)
        gone.rmdir()
        said = shell.run(command, *NEEDED.get(command, []))
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.startswith("gpufare: the working folder cannot be used (No such file or directory)")
    assert list(tmp_path.iterdir()) == []


def test_version_is_one_line_and_loads_nothing_heavy() -> None:
    code = "import atexit, sys; atexit.register(lambda: print(*sorted(sys.modules))); import cli; cli.main()"
    asked = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said, loaded = asked.stdout.splitlines()
    assert said == f"gpufare {version('gpufare')}"
    assert not {"boto3", "sqlalchemy", "fastapi", "tencentcloud", "settings"} & set(loaded.split())


# --- cheapest ---------------------------------------------------------------------------------------------------------


def test_cheapest_on_a_fresh_machine_answers_from_the_snapshot_with_status_3(shell: Shell) -> None:
    asked = shell.run("cheapest", "a100-80g", "--json")
    assert asked.exit_code == 3
    answer = json.loads(asked.stdout)
    assert answer["verdict"] == "unconfirmed"
    assert answer["best"]["stock"]["evidence"] == "snapshot"


def test_cheapest_with_a_confirmed_answer_is_status_0(synced: Shell) -> None:
    asked = synced.run("cheapest", "v100", "--region", "ap-nanjing")
    assert asked.exit_code == 0
    assert "tencent ap-nanjing" in asked.stdout.splitlines()[0]


def test_cheapest_without_an_answer_is_status_1_and_says_why(synced: Shell) -> None:
    asked = synced.run("cheapest", "v100", "--region", "ap-nanjing", "--max-price", "0.01")
    assert asked.exit_code == 1
    assert "too_dear" in asked.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a100-81g"], "a100-80g"),
        (["a100-80g", "--region", "ap-guangzou"], "ap-guangzhou"),
        (["a100-80g", "--egress-gb", "3"], "egress_gb: say hours too"),
        (["a100-80g", "--format", "{provder}"], "there is no field 'provder' to print"),
        (["a100-80g", "--format", "{provider:>99999999999}"], "{provider} stands alone"),
        (["a100-80g", "--format", "{provider!r}"], "{provider} stands alone"),
        (["a100-80g", "--format", "{stock[level]}"], "there is no field 'stock[level]' to print"),
        (["a100-80g", "--format", "{provider.__class__}"], "there is no field 'provider.__class__' to print"),
        (["a100-80g", "--format", "{stock}"], "there is no field 'stock' to print"),
        (["a100-80g", "--format", "{0}"], "of provider, account, site, "),
        (["a100-80g", "--format", "{}"], "there is no field '' to print"),
        (["a100-80g", "--format", "{provider"], "cannot be read"),
        (["a100-80g", "--format", "provider}"], "cannot be read"),
        (["a100-\udcff"], r"argument 2 is not valid UTF-8: 'a100-\xff'"),
        (["a100-80g", "--colour", "red"], "--colour"),
        ([], "gpu"),
    ],
)
def test_a_question_that_is_not_understood_is_status_2(shell: Shell, arguments: list[str], said: str) -> None:
    asked = shell.run("cheapest", *arguments)
    assert asked.exit_code == 2
    assert said in asked.stderr
    assert asked.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "flag", "value"),
    [
        (["cheapest", "v100", "--spot", "true"], "--spot", "true"),
        (["cheapest", "--spot", "false", "v100"], "--spot", "false"),
        (["cheapest", "v100", "--explain", "1", "--json"], "--explain", "1"),
        (["offers", "--json", "yes"], "--json", "yes"),
        (["history", "stock", "--spot", "true"], "--spot", "true"),
        (["recommend", "8b", "--task", "lora", "--spot", "True"], "--spot", "True"),
        (["serve", "--demo", "true"], "--demo", "true"),
        (["sync", "--json", "false"], "--json", "false"),
    ],
)
def test_a_flag_with_a_value_is_status_2_and_called_a_flag(
    shell: Shell, arguments: list[str], flag: str, value: str
) -> None:
    asked = shell.run(*arguments)
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.startswith(f"gpufare: {flag} is a flag and takes no value: leave out '{value}'")


def test_format_prints_the_fields_of_the_best_offer(synced: Shell) -> None:
    question = ("cheapest", "v100", "--region", "ap-nanjing")
    best = json.loads(synced.run(*question, "--json").stdout)["best"]
    form = "{provider}/{region} {{{zone}}} {price_per_hour} {account} [{gpu_name}][{job_cost}]"
    assert synced.run(*question, "--format", form).stdout == (
        f"tencent/ap-nanjing {{{best['zone']}}} {best['price_per_hour']} true [{best['gpu_name']}][]\n"
    )


def test_format_prints_nothing_on_stdout_where_there_is_no_answer(synced: Shell) -> None:
    asked = synced.run("cheapest", "v100", "--region", "ap-nanjing", "--max-price", "0.01", "--format", "{region}")
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert asked.stderr != ""


def test_options_are_the_parameters_of_the_endpoint(synced: Shell) -> None:
    options = ["--spot", "--explain", "--nvlink", "true", "--min-vcpus-per-gpu", "4", "--region", "ap-nanjing"]
    query = json.loads(synced.run("cheapest", "v100", *options, "--json").stdout)["query"]
    assert (query["purchase"], query["nvlink"], query["min_vcpus_per_gpu"], query["explain"]) == (
        ["spot"],
        True,
        "4",
        True,
    )


def test_explain_shows_why_other_offers_were_not_chosen(synced: Shell) -> None:
    asked = synced.run("cheapest", "v100", "--region", "ap-nanjing", "--explain")
    assert "rejected because" in asked.stdout
    assert "nearest misses" in asked.stdout


def test_a_table_in_a_pipe_has_a_whole_line_for_each_offer(shell: Shell) -> None:
    asked = shell.run("cheapest", "a100-80g", "--limit", "3", COLUMNS="80")
    lines = [line for line in asked.stdout.splitlines() if "Standard_NC24ads_A100_v4  1x a100-pcie-80g" in line]
    assert len(lines) == 4
    assert "…" not in asked.stdout


@pytest.mark.parametrize(
    ("region", "zone", "zone_id", "shown"),
    [
        ("eastus", "1", "eastus-az1", "eastus 1"),
        ("eastus", None, None, "eastus"),
        ("us-east-1", "us-east-1a", "use1-az1", "us-east-1a"),
        ("us-east-1", None, "use1-az1", "us-east-1 use1-az1"),
        ("us-west-2", "us-west-2-lax-1a", None, "us-west-2-lax-1a"),
        ("CA", "CA-MTL-1", None, "CA-MTL-1"),
    ],
)
def test_a_place_in_a_table_has_its_region(region: str, zone: str | None, zone_id: str | None, shown: str) -> None:
    assert place({"region": region, "zone": zone, "zone_id": zone_id}) == shown


def test_the_table_of_offers_has_the_region_of_azures_zones(shell: Shell) -> None:
    with simcloud.start("demo", providers=("azure",)) as azure:
        shell.environ |= azure.env() | {"GPUFARE_PROVIDERS__AZURE__REGIONS": "eastus"}
        shell.run("sync", "azure")
    asked = shell.run("offers", "--provider", "azure", "--limit", "1000")
    places = set(re.findall(r"^azure +(\S+(?: \S+)?)  ", asked.stdout, re.MULTILINE))
    assert {"eastus 1", "eastus 2", "eastus 3"} <= places
    assert not {"1", "2", "3"} & places


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed goes to a terminal of 80 columns."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def _plain(text: str) -> list[str]:
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in text.splitlines()]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("command", ["offers", "gpus", "regions", "providers", "doctor"])
def test_a_table_on_a_terminal_fits_80_columns_and_is_never_cut(shell: Shell, command: str) -> None:
    lines = _plain(shell.run(command).stdout)
    assert len(lines) > 2
    assert [line for line in lines if len(line) > 80 or "…" in line] == []


@pytest.mark.usefixtures("terminal")
def test_the_table_of_a_sync_fits_80_columns(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    lines = _plain(shell.run("sync").stdout)
    assert len(lines) == 6
    assert [line for line in lines if len(line) > 80 or "…" in line] == []


# --- settings against what exists -------------------------------------------------------------------------------------


def test_a_fallback_region_of_a_provider_that_is_switched_off_stops_nothing(shell: Shell) -> None:
    asked = shell.run("gpus", GPUFARE_ONLY="ucloud", GPUFARE_FALLBACK__AP_GUANGZHOU="ap-nanjing")
    assert asked.exit_code == 0, asked.stderr
    refused = shell.run("gpus", GPUFARE_ONLY="ucloud", GPUFARE_FALLBACK__AP_GUANGZHOU="ap-nanjng")
    assert refused.exit_code == 2
    assert "ap-nanjing" in refused.stderr


def test_a_fallback_region_that_may_yet_turn_up_is_only_warned_of(shell: Shell) -> None:
    asked = shell.run("cheapest", "h100", GPUFARE_ONLY="runpod,azure", GPUFARE_FALLBACK__US="CA", GPUFARE_LOG="warning")
    assert asked.exit_code == 3
    assert "GPUFARE_FALLBACK__US" in asked.stderr


def test_a_region_to_poll_that_is_in_no_list_is_warned_of_with_what_may_be_meant(shell: Shell) -> None:
    asked = shell.run("cheapest", "h100", GPUFARE_PROVIDERS__TENCENT__REGIONS="ap-nanjin")
    assert asked.exit_code == 3
    assert "ap-nanjin " in asked.stderr
    assert "ap-nanjing" in asked.stderr


# --- sync -------------------------------------------------------------------------------------------------------------

SYNC_FIELDS = ["provider", "feed", "place", "part", "status", "facts", "notes", "seconds", "error"]


def _sync(shell: Shell, *arguments: str, **environ: str) -> tuple[int, list[dict[str, Any]]]:
    asked = shell.run("sync", *arguments, "--json", **environ)
    answer = json.loads(asked.stdout)
    assert list(answer) == ["items"]
    return asked.exit_code, answer["items"]


def test_sync_says_a_row_for_each_cell_in_the_published_shape(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    status, rows = _sync(shell)
    assert status == 0
    assert [list(row) for row in rows] == [SYNC_FIELDS] * 5
    assert {(row["feed"], row["place"], row["part"]) for row in rows} == {
        ("places", "", ""),
        ("machines", "ap-nanjing", ""),
        ("stock", "ap-nanjing", "POSTPAID_BY_HOUR"),
        ("stock", "ap-nanjing", "SPOTPAID"),
        ("stock", "ap-nanjing", "PREPAID"),
    }
    assert {(row["provider"], row["status"], row["error"]) for row in rows} == {("tencent", "ok", None)}
    assert all(row["facts"] > 0 and row["seconds"] >= 0 for row in rows)


def test_sync_of_one_feed_polls_that_feed_alone(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    assert {row["feed"] for row in _sync(shell, "tencent", "--feed", "machines")[1]} == {"machines"}


def test_sync_with_some_cells_failed_is_status_3(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    sim.fault("tencent", "html", match={"part": "SPOTPAID"})
    status, rows = _sync(shell)
    assert status == 3
    assert [row["part"] for row in rows if row["status"] == "failed"] == ["SPOTPAID"]
    assert [bool(row["error"]) for row in rows if row["status"] == "failed"] == [True]


def test_sync_with_all_cells_failed_is_status_4(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    sim.fault("tencent", "html")
    status, rows = _sync(shell)
    assert status == 4
    assert {row["status"] for row in rows} == {"failed"}


def test_sync_of_a_named_provider_that_is_off_is_status_4_and_says_what_to_set(shell: Shell) -> None:
    status, rows = _sync(shell, "tencent")
    assert status == 4
    assert {row["status"] for row in rows} == {"off"}
    assert all("TENCENTCLOUD_SECRET_ID" in row["error"] for row in rows)


def test_sync_with_nothing_to_poll_is_all_well(shell: Shell) -> None:
    assert _sync(shell, GPUFARE_ONLY="gcp")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (["tencnt"], {}, f"tencnt is not a provider; there are {', '.join(PROVIDERS)}"),
        (["--feed", "stok"], {}, "stok is not a feed"),
        (["aws"], {}, "aws is switched off by GPUFARE_ONLY"),
        (
            ["tencent"],
            {"GPUFARE_PROVIDERS__TENCENT__ENABLED": "false"},
            "tencent is switched off by GPUFARE_PROVIDERS__TENCENT__ENABLED",
        ),
    ],
)
def test_sync_of_what_there_is_not_or_is_switched_off_is_status_2(
    shell: Shell, arguments: list[str], environ: Mapping[str, str], said: str
) -> None:
    asked = shell.run("sync", *arguments, "--json", **environ)
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert said in asked.stderr


def test_logs_and_progress_of_a_sync_go_to_stderr(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    asked = shell.run("sync")
    assert "event=polled" in asked.stderr
    assert "event=polled" not in asked.stdout
    assert "tencent stock ap-nanjing POSTPAID_BY_HOUR" in asked.stdout


def test_a_poll_that_is_tried_again_does_not_tell_of_it(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    sim.fault("tencent", "reset", match={"action": "DescribeRegions"}, times=1)
    asked = shell.run("sync", "--feed", "places")
    assert asked.exit_code == 0
    assert "callable" not in asked.stderr


# --- the others -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["gpus", "regions", "providers", "offers"])
def test_reading_commands_print_the_endpoints_json_alone(synced: Shell, command: str) -> None:
    asked = synced.run(command, "--json")
    assert asked.exit_code == 0
    assert json.loads(asked.stdout)["items"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("gpus", "v100-sxm2-32g"),
        ("regions", "Nanjing"),
        ("providers", "reported"),
        ("offers", "offers"),
    ],
)
def test_reading_commands_show_a_table(synced: Shell, command: str, said: str) -> None:
    asked = synced.run(command)
    assert asked.exit_code == 0
    assert said in asked.stdout


def _tencent(shell: Shell) -> dict[str, Any]:
    items = json.loads(shell.run("providers", "--json").stdout)["items"]
    (found,) = [one for one in items if one["provider"] == "tencent"]
    return dict(found)


def test_providers_on_a_fresh_machine_say_what_to_set(shell: Shell) -> None:
    tencent = _tencent(shell)
    assert {feed["status"] for feed in tencent["feeds"]} == {"off"}
    assert all("TENCENTCLOUD_SECRET_ID" in feed["reason"] for feed in tencent["feeds"])


def _launch(offer: Mapping[str, Any], *more: str) -> list[str]:
    named = [f"--{name.replace('_', '-')}={offer[name]}" for name in ("provider", "region", "zone", "instance_type")]
    return ["launched", *named, *more]


def test_launched_with_a_capacity_error_makes_exactly_that_offer_out(synced: Shell) -> None:
    question = ["cheapest", "v100", "--region", "ap-nanjing", "--json"]
    best = json.loads(synced.run(*question).stdout)["best"]
    told = synced.run(*_launch(best, "--code", "ResourcesSoldOut.SpecifiedInstanceType"))
    assert told.exit_code == 0
    assert told.stdout.startswith("out until ")
    after = json.loads(synced.run(*question).stdout)["best"]
    assert (after["zone"], after["instance_type"]) != (best["zone"], best["instance_type"])


def test_launched_writes_also_where_a_token_is_set(synced: Shell) -> None:
    best = json.loads(synced.run("cheapest", "v100", "--region", "ap-nanjing", "--json").stdout)["best"]
    told = synced.run(*_launch(best, "--json"), GPUFARE_API_TOKEN="a-long-random-text")
    assert told.exit_code == 0
    assert json.loads(told.stdout)["effect"].startswith("in_stock until ")


def test_launched_of_an_offer_that_there_is_not_is_status_2(synced: Shell) -> None:
    offer = {"provider": "tencent", "region": "ap-nanjing", "zone": "ap-nanjing-1", "instance_type": "GN99.NONE"}
    assert synced.run(*_launch(offer)).exit_code == 2


def test_doctor_with_all_well_is_status_0(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env()
    asked = shell.run("doctor", "--json")
    found = {one["feed"]: one["state"] for one in json.loads(asked.stdout)["items"] if one["provider"] == "tencent"}
    assert found == {"places": "answers", "machines": "answers", "stock": "answers"}
    assert asked.exit_code == 0


def test_doctor_says_each_thing_once(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env()
    lines = [line for line in shell.run("doctor", "tencent").stdout.splitlines() if line.startswith("tencent")]
    assert len(lines) == 3
    assert [line.count("answers") for line in lines] == [1, 1, 1]


def test_a_failing_cell_without_a_place_is_shown_to_fail_everywhere(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING
    sim.fault("tencent", "html", match={"action": "DescribeRegions"})
    shell.run("sync", "--feed", "places")
    assert {feed["feed"]: feed["failing"] for feed in _tencent(shell)["feeds"]}["places"] == ["everywhere"]


def test_doctor_with_a_wrong_key_is_status_1_and_says_what_to_do(shell: Shell, sim: Sim) -> None:
    shell.environ |= sim.env() | NANJING | {"TENCENTCLOUD_SECRET_KEY": "wrong"}
    asked = shell.run("doctor", "--json")
    found = [one for one in json.loads(asked.stdout)["items"] if one["provider"] == "tencent"]
    assert asked.exit_code == 1
    assert {one["state"] for one in found} == {"wrong"}
    assert all("check the key" in one["advice"] for one in found)


def test_doctor_minds_missing_credentials_only_of_a_provider_that_is_named(shell: Shell) -> None:
    assert shell.run("doctor", GPUFARE_ONLY="tencent,gcp").exit_code == 0
    named = shell.run("doctor", "tencent")
    assert named.exit_code == 1
    assert "TENCENTCLOUD_SECRET_ID" in named.stdout


def test_doctor_names_the_providers_that_settings_switch_off(shell: Shell) -> None:
    found = json.loads(shell.run("doctor", "--json").stdout)["items"]
    assert ("aws", "off", "switched off by GPUFARE_ONLY") in {
        (one["provider"], one["state"], one["found"]) for one in found
    }


# --- asking a server --------------------------------------------------------------------------------------------------


def test_with_a_url_the_server_is_asked_with_the_token_and_its_json_printed(
    shell: Shell, httpserver: HTTPServer
) -> None:
    items = json.loads(shell.run("offers", "--limit", "1", "--json").stdout)
    assert len(items["items"]) == 1
    expected = httpserver.expect_oneshot_request(
        "/offers",
        query_string={"gpu": "v100", "region": "us-*", "spot": "true"},
        headers={"Authorization": "Bearer a-token"},
    )
    expected.respond_with_json(items)
    asked = shell.run(
        *["offers", "--gpu", "v100", "--region", "us-*", "--spot", "--json"],
        GPUFARE_URL=httpserver.url_for(""),
        GPUFARE_API_TOKEN="a-token",
    )
    httpserver.check_assertions()
    assert asked.exit_code == 0
    assert json.loads(asked.stdout) == items


def test_a_refusal_of_the_server_is_status_2_in_its_own_words(shell: Shell, httpserver: HTTPServer) -> None:
    problem = PROBLEM | {"detail": "gpu=x is not known.", "did_you_mean": ["h100"]}
    httpserver.expect_request("/cheapest").respond_with_json(problem, status=422)
    asked = shell.run("cheapest", "x", GPUFARE_URL=httpserver.url_for(""))
    assert asked.exit_code == 2
    assert "gpu=x is not known." in asked.stderr
    assert "did you mean: h100" in asked.stderr


WRONG = (
    "<html>",
    "[]",
    "null",
    "{}",
    '{"items": null}',
    '{"items": [{}]}',
    '{"items": 5}',
    '{"verdict": "confirmed", "best": 5}',
    '{"effect": null}',
    "[" * 100_000,
    b"\xff",
)


@pytest.mark.parametrize("body", WRONG)
@pytest.mark.parametrize(
    "command",
    [
        ("cheapest", "h100"),
        ("offers",),
        ("gpus",),
        ("regions",),
        ("providers",),
        ("launched", "--provider=aws", "--region=r", "--instance-type=t"),
    ],
    ids=lambda command: command[0],
)
def test_an_answer_of_another_shape_is_status_5_in_a_sentence(
    shell: Shell, httpserver: HTTPServer, command: tuple[str, ...], body: str | bytes
) -> None:
    httpserver.expect_request(re.compile("/.*")).respond_with_data(body)
    asked = shell.run(*command, GPUFARE_URL=httpserver.url_for(""))
    assert (asked.exit_code, asked.stdout) == (5, "")
    assert "answered with 200, but not as this version of gpufare does" in asked.stderr


@pytest.mark.parametrize(
    ("field", "wrong"), [("price_per_hour", 3), ("stock", {}), ("stock", None), ("region", None), ("gpu_count", [])]
)
def test_a_best_offer_with_a_field_of_another_type_is_status_5(
    shell: Shell, httpserver: HTTPServer, field: str, wrong: object
) -> None:
    answer = json.loads(shell.run("cheapest", "a100-80g", "--json").stdout)
    httpserver.expect_request("/cheapest").respond_with_json(answer | {"best": answer["best"] | {field: wrong}})
    asked = shell.run("cheapest", "a100-80g", GPUFARE_URL=httpserver.url_for(""))
    assert (asked.exit_code, asked.stdout) == (5, "")
    assert f"$.best.{field}" in asked.stderr


@pytest.mark.parametrize("wrong", [{"did_you_mean": 5}, {"detail": None}, {"title": []}, {"did_you_mean": [1]}])
def test_a_problem_of_another_shape_is_status_5(shell: Shell, httpserver: HTTPServer, wrong: dict[str, object]) -> None:
    httpserver.expect_request("/gpus").respond_with_json(PROBLEM | wrong, status=422)
    asked = shell.run("gpus", GPUFARE_URL=httpserver.url_for(""))
    assert (asked.exit_code, asked.stdout) == (5, "")
    assert "answered with 422, but not as" in asked.stderr


@pytest.mark.parametrize(
    ("status", "body"),
    [(302, '{"items": [], "total": 0}'), (503, '{"detail": "down"}'), (502, "no"), (503, json.dumps(PROBLEM))],
)
def test_a_server_that_gives_no_answer_of_ours_is_status_5(
    shell: Shell, httpserver: HTTPServer, status: int, body: str
) -> None:
    httpserver.expect_request("/gpus").respond_with_data(body, status=status)
    asked = shell.run("gpus", "--json", GPUFARE_URL=httpserver.url_for(""))
    assert (asked.exit_code, asked.stdout) == (5, "")
    assert httpserver.url_for("").rstrip("/") in asked.stderr


def test_a_server_that_cannot_be_reached_is_status_5_in_a_sentence(shell: Shell) -> None:
    asked = shell.run("cheapest", "h100", GPUFARE_URL="http://127.0.0.1:1")
    assert (asked.exit_code, asked.stdout) == (5, "")
    assert asked.stderr.startswith("gpufare: http://127.0.0.1:1 did not answer")


@pytest.mark.parametrize("url", ["http://a..b:80", f"http://{'a' * 70}"])
def test_a_server_whose_name_cannot_be_one_is_status_5_in_a_sentence(shell: Shell, url: str) -> None:
    asked = shell.run("cheapest", "h100", GPUFARE_URL=url)
    assert (asked.exit_code, asked.stdout) == (5, "")
    assert asked.stderr.startswith(f"gpufare: {url} did not answer")


# --- what a terminal must not see -------------------------------------------------------------------------------------

NASTY = "\x1b]0;x\x07\x9b2J\u202e\r"
SEEN = r"\u001b]0;x\u0007\u009b2J\u202e\u000d"


@pytest.mark.parametrize("form", [[], ["--json"], ["--format", "{instance_type}"]], ids=["table", "json", "format"])
def test_control_characters_of_a_provider_are_printed_as_text(
    shell: Shell, httpserver: HTTPServer, form: list[str]
) -> None:
    answer = json.loads(shell.run("cheapest", "a100-80g", "--json").stdout)
    answer |= {"message": NASTY, "best": answer["best"] | {"instance_type": NASTY}}
    httpserver.expect_request("/cheapest").respond_with_json(answer)
    asked = shell.run("cheapest", "a100-80g", *form, GPUFARE_URL=httpserver.url_for(""), COLUMNS="400")
    assert [found for found in NASTY if found < " " or found > "~" if found in asked.stdout] == []
    if form == ["--json"]:
        assert json.loads(asked.stdout) == answer
    else:
        assert SEEN in asked.stdout


def test_control_characters_of_a_problem_and_of_a_log_line_are_printed_as_text(
    shell: Shell, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/gpus").respond_with_json(PROBLEM | {"detail": NASTY}, status=422)
    asked = shell.run("gpus", GPUFARE_URL=httpserver.url_for(""))
    assert (asked.exit_code, asked.stderr) == (2, f"gpufare: {SEEN}\n")
    logged = shell.run("cheapest", "h100", GPUFARE_PROVIDERS__TENCENT__REGIONS="\x1b[2J")
    assert "region not known here" in logged.stderr
    assert "\x1b" not in logged.stderr


# --- a stdout that cannot be written ----------------------------------------------------------------------------------

OUTPUTS = (["cheapest", "a100-80g"], ["cheapest", "a100-80g", "--json"], ["cheapest", "a100-80g", "--format", "{gpu}"])


@pytest.mark.parametrize("command", [*OUTPUTS, ["gpus"], ["--help"], ["sync", "--help"]], ids=" ".join)
def test_a_full_stdout_is_status_5_in_a_sentence(tmp_path: Path, command: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ended = run_into(full, tmp_path, *command)
    assert ended.returncode == 5
    assert ended.stderr == "gpufare: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("command", OUTPUTS, ids=" ".join)
def test_a_reader_that_has_gone_is_status_5_and_not_told(tmp_path: Path, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as gone:
        ended = run_into(gone, tmp_path, *command)
    assert (ended.returncode, ended.stderr) == (5, "")


# --- pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["table", "json"])
def test_offers_without_a_server_come_to_an_end_page_by_page(synced: Shell, as_json: list[str]) -> None:
    question = ("offers", "--region", "ap-nanjing")
    whole = json.loads(synced.run(*question, "--limit", "10000", "--json").stdout)
    size = whole["total"] // 2
    asked = synced.run(*question, "--limit", str(size), *as_json)
    assert asked.stderr == f"gpufare: {whole['total'] - size} more: add --offset {size}\n"
    last = synced.run(*question, "--limit", str(size + 1), "--offset", str(size), *as_json)
    assert (asked.exit_code, last.exit_code, last.stderr) == (0, 0, "")


def test_the_next_page_without_a_server_is_named_without_an_address(synced: Shell) -> None:
    page = json.loads(synced.run("offers", "--region", "ap-nanjing", "--limit", "1", "--json").stdout)
    assert page["next"] == "/offers?region=ap-nanjing&offset=1&limit=1"
    assert page["total"] > 2


def test_the_next_page_of_a_server_is_named_as_the_server_does(shell: Shell, httpserver: HTTPServer) -> None:
    following = httpserver.url_for("/offers?offset=7&limit=1")
    httpserver.expect_request("/offers").respond_with_json({"items": [], "total": 10, "next": following})
    asked = shell.run("offers", "--json", GPUFARE_URL=httpserver.url_for("").rstrip("/"))
    assert json.loads(asked.stdout)["next"] == following
    assert asked.stderr == "gpufare: 3 more: add --offset 7\n"


# --- a database that is damaged ---------------------------------------------------------------------------------------

PAGE_BYTES = 4096


def _damage(shell: Shell, table: str) -> Path:
    """Overwrite the first page of a table."""
    file = Path(shell.environ["HOME"]) / ".local/share/gpufare/gpufare.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        asked = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        (page,) = asked.fetchone()
    with file.open("r+b") as opened:
        opened.seek((page - 1) * PAGE_BYTES)
        opened.write(b"\xa5" * PAGE_BYTES)
    return file


READING = (["cheapest", "v100"], ["offers"], ["gpus"], ["regions"], ["providers"])


@pytest.mark.parametrize("command", [*READING, ["sync"], ["doctor"], ["worker"]], ids=lambda command: command[0])
@pytest.mark.parametrize("table", ["cells", "providers"])
def test_a_damaged_database_is_status_2_in_a_sentence(synced: Shell, command: list[str], table: str) -> None:
    file = _damage(synced, table)
    asked = synced.run(*command)
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert f"gpufare: the database {file} cannot be used: " in asked.stderr
    assert "Traceback" not in asked.stderr


WITH_DATABASE = [*READING, ["migrate"], ["sync"], ["doctor"], ["worker"], ["serve"], ["snapshot", "export", "x.zip"]]


@pytest.mark.parametrize("command", WITH_DATABASE, ids=lambda command: command[0])
def test_a_file_that_is_no_database_is_status_2_and_called_that(
    shell: Shell, tmp_path: Path, command: list[str]
) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear database, " * 100)
    asked = shell.run(*command, GPUFARE_DATABASE_URL=f"sqlite:///{file}")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr == (
        f"gpufare: the database {file} cannot be used: it is not an SQLite database; "
        "name another in GPUFARE_DATABASE_URL, or move this one away and `gpufare sync` fills a new one\n"
    )
    assert file.read_text() == "Dear database, " * 100


@pytest.mark.parametrize("command", [*READING, ["migrate"], ["sync"], ["worker"]], ids=lambda command: command[0])
@pytest.mark.parametrize("address", ["user:half@s3cret@127.0.0.1:1/x", "/x?host=127.0.0.1&port=abc&password=s3cret"])
def test_a_database_address_that_cannot_be_read_is_status_2_and_no_half_of_its_password_shown(
    shell: Shell, command: list[str], address: str
) -> None:
    asked = shell.run(*command, GPUFARE_DATABASE_URL=f"postgresql+psycopg://{address}")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert asked.stderr.startswith("gpufare: GPUFARE_DATABASE_URL ")
    assert "s3cret" not in asked.stderr


# --- the providers in use ---------------------------------------------------------------------------------------------


def test_a_provider_of_list_prices_alone_answers_where_it_alone_is_to_be_used(shell: Shell) -> None:
    found = {
        name: json.loads(shell.run("offers", "--gpu", "a100", "--json", GPUFARE_ONLY=name).stdout)
        for name in ("azure", "gcp")
    }
    assert {name: {one["provider"] for one in answer["items"]} for name, answer in found.items()} == {
        "azure": {"azure"},
        "gcp": {"gcp"},
    }
    asked = shell.run("cheapest", "a100-80g", GPUFARE_ONLY="azure")
    assert (asked.exit_code, "azure" in asked.stdout) == (3, True)


def test_a_provider_of_list_prices_alone_can_be_switched_off(shell: Shell) -> None:
    question = ("cheapest", "a100-80g", "--json")
    assert json.loads(shell.run(*question).stdout)["best"]["provider"] == "azure"
    without = json.loads(shell.run(*question, GPUFARE_PROVIDERS__AZURE__ENABLED="false").stdout)
    assert without["best"]["provider"] == "alibaba"


def test_a_region_of_a_fallback_list_that_is_not_known_leaves_the_others_to_fall_back_on(synced: Shell) -> None:
    question = ("cheapest", "v100", "--region", "ap-guangzhou", "--json")
    lists = {"GPUFARE_FALLBACK__AP_GUANGZHOU": "CA,ap-nanjing", "GPUFARE_ONLY": "tencent,runpod"}
    asked = synced.run(*question, **lists)
    assert json.loads(asked.stdout)["query"]["fallback"] == [["tencent:ap-nanjing"]]
    assert "fallback=CA" in asked.stderr


def test_the_cost_of_a_job_is_a_column_where_it_was_asked(synced: Shell) -> None:
    asked = ("cheapest", "v100", "--region", "ap-nanjing", "--currency", "CNY")
    with_job, without = synced.run(*asked, "--hours", "10"), synced.run(*asked)
    best = json.loads(synced.run(*asked, "--hours", "10", "--json").stdout)["best"]
    assert "the job" not in without.stdout
    assert "the job" in with_job.stdout
    assert f"{best['job_cost']} CNY" in with_job.stdout
    assert Decimal(best["job_cost"]) == Decimal(best["price_per_hour"]) * 10
