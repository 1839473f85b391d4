"""What a server hands its polling child: the settings as it read them, whatever became of the file since."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest

import simcloud
from commands.handing import line_of, settings_of
from settings import History, Launches, ProviderSettings, Settings, Smtp, Webhooks, Worker, load
from tests.support.commands import COMMAND, environment, serving_in, until

EVERY_SETTING = """
database_url = "postgresql+psycopg://ada:pass%40word@db.example/gpufare"
url = "https://example.com:8000"
api_token = "hemmelig"
public_reads = true
watches_file = "watches.toml"
fx_date = 2026-11-28
fx_refresh = false
fx_endpoint = "http://127.0.0.1:9000"
log = "debug"
only = ["aws", "tencent_intl"]
defaults = {currency = "CNY", nvlink = true, provider = ["aws", "!gcp"]}
fallback = {ap-guangzhou = ["ap-nanjing", "auto"], US = "CA"}
fx = {CNY_USD = "0.0000001389", EUR_USD = "1.1"}
worker.polls = 7
launches.hold = "90s"
history = {syncs = "3d", keep = "400d"}

[webhooks]
allow_private = true
timeout = "8s"
attempts = 7
first_pause = "3s"
longest_pause = "30m"
keep = "9d"
page_url = "https://example.com/page"

[smtp]
host = "mail.example"
port = 2525
security = "starttls"
user = "gpufare"
password = "hemmelig"
sender = "gpufare@example.com"

[providers.aws]
enabled = true
regions = ["us-east-1"]
intervals = {spot = "90s"}
scores = true
price_source = "api"
endpoints = {ec2 = "http://127.0.0.1:1"}

[providers.tencent_intl]
site = "intl"
credentials = {TENCENTCLOUD_SECRET_ID = "AKID", TENCENTCLOUD_SECRET_KEY = "secret"}
"""


def of(folder: Path, text: str) -> Settings:
    (folder / "gpufare.toml").write_text(text)
    return load({"HOME": str(folder)}, folder)


def test_every_setting_is_handed_over_as_it_is(tmp_path: Path) -> None:
    found = of(tmp_path, EVERY_SETTING)
    set_of_providers = {name for one in found.providers.values() for name in one.model_fields_set}
    assert found.model_fields_set == set(Settings.model_fields), "a setting that is missing above"
    assert found.worker.model_fields_set == set(Worker.model_fields)
    assert found.launches.model_fields_set == set(Launches.model_fields)
    assert found.history.model_fields_set == set(History.model_fields)
    assert found.webhooks.model_fields_set == set(Webhooks.model_fields)
    assert found.smtp.model_fields_set == set(Smtp.model_fields)
    assert set_of_providers == set(ProviderSettings.model_fields)
    line = line_of(found)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert settings_of(line) == found


def test_settings_of_defaults_alone_are_handed_over(tmp_path: Path) -> None:
    found = of(tmp_path, "")
    assert settings_of(line_of(found)) == found


@pytest.mark.parametrize("given", [b"", b'{"log": "deb'], ids=["nothing", "half a line"])
def test_a_child_whose_parent_has_gone_ends_and_says_nothing(tmp_path: Path, given: bytes) -> None:
    command = [*COMMAND, "worker", "--exit-with-parent"]
    ended = subprocess.run(  # noqa: S603 - our own code
        command, input=given, env=environment(tmp_path), cwd=tmp_path, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_child_that_is_started_again_polls_as_the_first_did_though_the_working_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "gpufare.toml").write_text(f"""
        database_url = "sqlite:///{tmp_path}/named.db"
        providers.tencent.regions = "ap-nanjing"
    """)
    with simcloud.start("demo", providers=("tencent",)) as sim, serving_in(folder, tmp_path, **sim.env()) as served:
        first = until(lambda: served.children() or None, "a child")
        shutil.rmtree(folder)
        for child in first:
            os.kill(child, signal.SIGKILL)
        again = until(lambda: [one for one in served.children() if one not in first] or None, "another child")
        httpx2.post(f"{served.url}/sync").raise_for_status()
        places = until(lambda: _polled_places(served.url), "the other child polls")
        assert places == {"ap-nanjing"}
        assert served.children() == again
        said = served.said()
    assert "Traceback" not in said
    assert said.count("starting it again") == 1
    assert not (tmp_path / ".local").exists(), "no database but the named one"


def _polled_places(url: str) -> set[str] | None:
    items = httpx2.get(f"{url}/syncs", params={"limit": "1000"}).json()["items"]
    return {item["place"] for item in items if item["place"]} or None
