"""`gpufare history`: as the endpoints, and as a table for a person."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner, Result

from catalog.parameters import HISTORY_PARAMETERS
from catalog.words import Level
from cli import app
from commands import history_tables
from tests.support.commands import environment
from tests.support.filled import Filled, sold

Run = Callable[..., Result]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    """An hour of polls that ended an hour ago: half of it in stock, half of it out and dearer."""
    filled = Filled(tmp_path)
    filled.now = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=2)
    filled.plan("tencent", ("stock", "ap-nanjing"), site="cn")
    for level, amount in ((Level.IN_STOCK, "8.68"), (Level.OUT, "9.1")):
        for _ in range(15):
            facts = sold("ap-nanjing", "m1", amount, level, currency="CNY", zone="ap-nanjing-1")
            filled.poll("tencent", "stock", "ap-nanjing", facts)
            filled.later(minutes=2)
    yield filled
    filled.engine.dispose()


@pytest.fixture
def run(filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "GPUFARE_URL", "GPUFARE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    url = filled.engine.url.render_as_string(hide_password=False)
    environ = environment(tmp_path, GPUFARE_DATABASE_URL=url)

    def run(*arguments: str) -> Result:
        with monkeypatch.context() as patched:
            for name, value in environ.items():
                patched.setenv(name, value)
            return CliRunner().invoke(app, ["history", *arguments], catch_exceptions=False)

    yield run
    structlog.reset_defaults()


@pytest.fixture
def hour(filled: Filled) -> list[str]:
    """The window of the polls."""
    start, until = (filled.now - timedelta(hours=1), filled.now)
    return ["--from", f"{start:%Y-%m-%dT%H:%M:%SZ}", "--to", f"{until:%Y-%m-%dT%H:%M:%SZ}"]


def test_json_is_the_endpoint_s_own(run: Run, hour: list[str]) -> None:
    asked = run("stock", "h100", *hour, "--json")
    assert asked.exit_code == 0
    (item,) = json.loads(asked.stdout)["items"]
    assert item["shares"] == {"in_stock": "0.5", "low": "0", "out": "0.5", "unknown": "0", "unobserved": "0"}
    (item,) = json.loads(run("prices", "h100", *hour, "--json").stdout)["items"]
    assert [point["amount"] for point in item["points"]] == ["8.68", "9.1"]


def test_stock_is_shown_as_shares_and_since_when_it_is_so(run: Run, hour: list[str], filled: Filled) -> None:
    asked = run("stock", "h100", *hour)
    assert asked.exit_code == 0
    row = next(line for line in asked.stdout.splitlines() if line.startswith("tencent"))
    since = f"{filled.now - timedelta(minutes=30):%Y-%m-%d %H:%M}"
    assert row.split() == [
        *("tencent", "ap-nanjing-1", "m1", "1x", "h100-sxm5-80g", "on_demand"),
        *("50", "%", "0", "%", "50", "%", "0", "%", "0", "%", "out", *since.split()),
    ]
    assert "1 of 1 series" in asked.stdout


@pytest.mark.parametrize("sign", ["+", " "])
def test_a_window_may_be_told_with_an_offset(run: Run, filled: Filled, sign: str) -> None:
    start = filled.now - timedelta(hours=1) + timedelta(hours=8)
    asked = run("stock", "h100", "--from", f"{start:%Y-%m-%dT%H:%M:%S}{sign}08:00", "--json")
    assert asked.exit_code == 0
    assert json.loads(asked.stdout)["from"] == f"{filled.now - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"


def test_a_page_says_how_to_have_the_next_one_and_names_no_server(run: Run, hour: list[str], filled: Filled) -> None:
    facts = [fact for name in ("m1", "m2", "m3") for fact in sold("ap-nanjing", name, "9.1", currency="CNY")]
    filled.poll("tencent", "stock", "ap-nanjing", facts)
    filled.later(minutes=1)
    question = ("stock", "h100", *hour[:2], "--limit", "1")
    first = run(*question, "--json")
    total = json.loads(first.stdout)["total"]
    assert total > 2
    assert json.loads(first.stdout)["next"].startswith("/history/stock?gpu=h100&")
    assert first.stderr == run(*question).stderr == f"gpufare: {total - 1} more: add --offset 1\n"
    assert run(*question, "--offset", str(total - 1)).stderr == ""


def test_prices_are_shown_as_first_last_lowest_and_highest(run: Run, hour: list[str]) -> None:
    asked = run("prices", *hour)
    row = next(line for line in asked.stdout.splitlines() if line.startswith("tencent"))
    amounts = ["8.68", "CNY", "9.1", "CNY", "8.68", "CNY", "9.1", "CNY", "1"]
    assert row.split()[6:-2] == amounts


def test_a_withdrawn_price_and_two_currencies_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    about = {"provider": "aws", "region": "r1", "zone": None, "zone_id": None, "instance_type": "m1", "gpu": None}
    said = [
        ("2026-11-28T01:00:00Z", "10", "CNY"),
        ("2026-11-29T01:00:00Z", "9", "USD"),
        ("2026-11-30T01:00:00Z", None, None),
    ]
    points = [dict(zip(("at", "amount", "currency"), point, strict=True)) for point in said]
    item = about | {"gpu_count": None, "purchase": "spot", "points": points, "shares": None, "observed": []}
    ends = {"from": "2026-11-23T01:00:00Z", "to": "2026-11-30T02:00:00Z"}
    history_tables.show("prices", {"items": [item], "total": 7} | ends)
    told = capsys.readouterr().out
    row = next(line for line in told.splitlines() if line.startswith("aws"))
    assert row.split() == [
        "aws",
        "r1",
        "m1",
        "?x",
        "unknown",
        "spot",
        "10",
        "CNY",
        "withdrawn",
        "2",
        "2026-11-30",
        "01:00",
    ]
    assert "1 of 7 series, 2026-11-23 01:00 to 2026-11-30 02:00 UTC" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stock", "h10"], "h100"),
        (["stock", "--from", "yesterday"], "from=yesterday"),
        (["prices", "--max-price", "3"], "--max-price"),
        (["h100"], "h100"),
        ([], "prices|stock"),
    ],
)
def test_a_question_that_is_not_understood_is_status_2(run: Run, arguments: list[str], said: str) -> None:
    asked = run(*arguments)
    assert asked.exit_code == 2
    assert said in asked.stderr
    assert asked.stdout == ""


def test_every_parameter_is_an_option(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = run("--help").stdout
    options = [f"--{name.replace('_', '-')} " for name in HISTORY_PARAMETERS if name != "gpu"]
    assert [option for option in options if option not in said] == []
