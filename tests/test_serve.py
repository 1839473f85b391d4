"""`gpufare serve` as a user runs it: the demo's story, and how it ends."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import simcloud
from catalog.fx import ecb_rates
from collectors.base import Page
from collectors.ecb import parse
from simcloud.ecb import daily
from store.times import utc_now
from tests.support.commands import Served, alive, run, serving, until
from tests.support.databases import new_database

QUESTION = {"gpu": "v100", "region": "ap-guangzhou"}
SOLD_OUT_AT_S, BACK_AT_S, LOOP_S = 60, 180, 300
"""Of the demo's scenario."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("demo"), "--demo") as served:
        yield served


def _answer_from(served: Served, region: str) -> dict[str, Any]:
    def asked() -> dict[str, Any] | None:
        answer = httpx2.get(f"{served.url}/cheapest", params=QUESTION).json()
        best = answer["best"]
        return answer if best and best["region"] == region and best["stock"]["confirmed"] else None

    return until(asked, f"a confirmed answer from {region}")


def _advance_to(cloud: str, second: int) -> None:
    """Move the scenario's clock forward to this second of its loop."""
    elapsed_s = httpx2.get(f"{cloud}/_sim/clock").json()["elapsed_s"]
    httpx2.post(f"{cloud}/_sim/advance", json={"seconds": (second - elapsed_s) % LOOP_S}).raise_for_status()


def _story(served: Served, move_to: Callable[[int], None]) -> None:
    """Guangzhou; Nanjing while Guangzhou is sold out; Guangzhou again."""
    first = _answer_from(served, "ap-guangzhou")
    assert (first["verdict"], first["fallback_used"], first["best"]["tier"]) == ("confirmed", False, 0)

    move_to(SOLD_OUT_AT_S + 1)
    fallen_back = _answer_from(served, "ap-nanjing")
    assert (fallen_back["verdict"], fallen_back["fallback_used"], fallen_back["best"]["tier"]) == ("confirmed", True, 1)
    assert [tier["passed_over"] for tier in fallen_back["tiers"]][:2] == ["out_of_stock", None]

    move_to(BACK_AT_S + 1)
    again = _answer_from(served, "ap-guangzhou")
    assert (again["verdict"], again["fallback_used"], again["best"]["tier"]) == ("confirmed", False, 0)


def test_demo_answers_guangzhou_then_nanjing_while_it_is_sold_out_then_guangzhou_again(demo: Served) -> None:
    cloud = demo.cloud("tencent")
    _story(demo, lambda second: _advance_to(cloud, second))


def test_the_clouds_of_the_demo_give_the_same_answers_over_postgresql(tmp_path: Path) -> None:
    with (
        new_database() as url,
        simcloud.start("demo", providers=("tencent", "runpod", "aws")) as sim,
        serving(tmp_path, GPUFARE_DATABASE_URL=url, **sim.env()) as served,
    ):
        elapsed_s = 0

        def move_to(second: int) -> None:
            nonlocal elapsed_s
            sim.advance(second - elapsed_s)
            elapsed_s = second

        _story(served, move_to)
        shares = httpx2.get(f"{served.url}/history/stock", params=QUESTION | {"from": "1h"}).json()["items"]
        levels = [[point["level"] for point in one["points"]] for one in shares]
        assert ["in_stock", "out", "in_stock"] in levels


def test_demo_logs_no_poll_that_goes_well_and_says_where_to_look(demo: Served) -> None:
    _answer_from(demo, "ap-guangzhou")
    syncs = httpx2.get(f"{demo.url}/syncs").json()["items"]
    assert {"ok"} <= {one["status"] for one in syncs}
    said = demo.said()
    assert "level=info" not in said
    assert "GET /syncs and GET /providers have them all" in said


def test_demo_logs_as_the_setting_says(tmp_path: Path) -> None:
    with serving(tmp_path, "--demo", GPUFARE_LOG="info") as served:
        assert until(lambda: "event=polled" in served.said() or None, "a poll is logged")


def test_demo_asks_its_own_clouds_for_exchange_rates_and_shows_their_day(demo: Served) -> None:
    cloud = demo.cloud("tencent")
    log = {"provider": "ecb"}
    asked = until(lambda: httpx2.get(f"{cloud}/_sim/log", params=log).json()["items"] or None, "a fetch")
    assert {seen["status"] for seen in asked} == {200}
    simulated = parse(Page("ecb", daily(utc_now().date()), utc_now()))[0].date
    shipped = ecb_rates().rate("EUR", "USD")
    assert shipped is not None

    def shown() -> dict[str, Any] | None:
        rates: list[dict[str, Any]] = httpx2.get(f"{demo.url}/cheapest", params={"gpu": "v100"}).json()["fx"]
        found = [rate for rate in rates if rate["date"] == max(simulated, shipped.date).isoformat()]
        return found[0] if found else None

    assert until(shown, "rates of that day")["source"] == "ECB"


def test_demo_leaves_the_users_own_database_and_accounts_alone(demo: Served) -> None:
    home = Path(demo.stderr).parent
    assert [file.name for file in home.iterdir()] == ["stderr.txt"]
    _answer_from(demo, "ap-guangzhou")
    said = httpx2.get(f"{demo.url}/providers").json()["items"]
    assert [one["provider"] for one in said] == sorted(simcloud.PROVIDERS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_ends_with_its_children_and_says_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    with serving(tmp_path, "--demo", TMPDIR=str(tmp_path)) as served:
        children = until(lambda: found if len(found := served.children()) == 2 else None, "two children")
        served.process.send_signal(number)
        assert served.process.wait(20) == 0
        assert not [pid for pid in children if alive(pid)]
        said = served.said()
    assert "Traceback" not in said
    assert "level=error" not in said
    assert not list(tmp_path.glob("gpufare-demo-*"))


def test_children_end_when_the_server_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path, "--demo", TMPDIR=str(tmp_path)) as served:
        children = until(lambda: found if len(found := served.children()) == 2 else None, "two children")
        served.process.kill()
        until(lambda: True if not any(map(alive, children)) else None, "the children have ended")


def test_a_server_without_demo_has_one_child_and_answers_from_the_snapshot(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        best = httpx2.get(f"{served.url}/cheapest", params={"gpu": "a100-80g"}).json()["best"]
        assert best["stock"]["evidence"] == "snapshot"
        assert len(until(served.children, "a child")) == 1


def test_a_busy_port_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        ended = run(tmp_path, "serve", "--port", port)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"gpufare: cannot listen on 127.0.0.1 port {port}: ")


@pytest.mark.parametrize("command", ["serve", "api"])
def test_listening_off_loopback_without_a_token_is_refused(tmp_path: Path, command: str) -> None:
    ended = run(tmp_path, command, "--host", "0.0.0.0")
    assert ended.returncode == 2
    assert ended.stderr.startswith("gpufare: refusing to listen on 0.0.0.0")
    assert "GPUFARE_API_TOKEN" in ended.stderr


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("GPUFARE_DATABASE_URL", "mysql://somewhere/x", "GPUFARE_DATABASE_URL"),
        ("GPUFARE_DATABASE_URL", "sqlite:////dev/null/no/folder.db", "cannot be used"),
        ("GPUFARE_DEFAULTS__CURRENCY", "XYZ", "GPUFARE_DEFAULTS__CURRENCY: currency=XYZ"),
        ("GPUFARE_FALLBACK__AP_GUANGZHOU", "ap-nanjin", "GPUFARE_FALLBACK__AP_GUANGZHOU: fallback=ap-nanjin"),
        ("GPUFARE_FALLBACK__AP_GUANGZOU", "ap-nanjing", "GPUFARE_FALLBACK__AP_GUANGZOU: ap-guangzou is not the code"),
        ("GPUFARE_FALLBACK__GUANGZHOU", "ap-nanjing", "GPUFARE_FALLBACK__GUANGZHOU: guangzhou is not the code"),
        ("GPUFARE_WORKERS", "3", "GPUFARE_WORKERS (environment): there is no such setting"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_a_sentence(
    tmp_path: Path, variable: str, value: str, said: str
) -> None:
    ended = run(tmp_path, "serve", "--port", "0", **{variable: value})
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
