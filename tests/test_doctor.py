"""`gpufare doctor`: one cause is told once, with the advice that fits it, and no provider hides another."""

import json
import logging
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import stamina.instrumentation
import structlog
from typer.testing import CliRunner, Result

import simcloud
from cli import app
from collectors.base import AuthFailed, Cell, Config, NotConfigured, NotServed, Provider, ProviderError, Unavailable
from collectors.sdk import extra
from commands.advising import advice_for, database_advice
from commands.examining import Finding, examine, meant_to_run
from scheduler.plan import Configured
from scheduler.poll import Polls
from settings import load
from simcloud import Sim
from store.clock import clock_of
from store.engine import migrate
from store.sqlite_file import GONE
from tests.support.commands import environment, run
from tests.support.databases import engine_at
from tests.support.feeds import AT_ONCE, Says, ScriptedFeed, ScriptedProvider, always, configured, fails


@dataclass
class Shell:
    """Runs `gpufare doctor` in this process, in a home of its own."""

    environ: dict[str, str]
    monkeypatch: pytest.MonkeyPatch

    def doctor(self, *arguments: str, **environ: str) -> Result:
        with self.monkeypatch.context() as patched:
            for name, value in (self.environ | environ).items():
                patched.setenv(name, value)
            return CliRunner().invoke(app, ["doctor", *arguments], catch_exceptions=False)

    def found(self, *arguments: str, **environ: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """The exit status, and the findings by provider and feeds; of providers that are on."""
        asked = self.doctor(*arguments, "--json", **environ)
        items = [one for one in json.loads(asked.stdout)["items"] if "switched off" not in one["found"]]
        return asked.exit_code, {f"{one['provider']}: {one['feed']}": one for one in items}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "GPUFARE_URL", "GPUFARE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield Shell(environment(tmp_path, GPUFARE_LOG="error"), monkeypatch)
    structlog.reset_defaults()
    stamina.instrumentation.set_on_retry_hooks(None)
    logging.getLogger().setLevel(logging.WARNING)


def _cloud(name: str) -> Iterator[Sim]:
    with simcloud.start("demo", providers=(name,)) as started:
        yield started


@pytest.fixture
def tencent() -> Iterator[Sim]:
    yield from _cloud("tencent")


@pytest.fixture
def aws() -> Iterator[Sim]:
    yield from _cloud("aws")


@pytest.fixture
def alibaba() -> Iterator[Sim]:
    yield from _cloud("alibaba")


def _without_sdk(monkeypatch: pytest.MonkeyPatch, sdk: str) -> None:
    for module in list(sys.modules):
        if module == sdk or module.startswith(f"{sdk}."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, sdk, None)


# --- packages that are not installed ----------------------------------------------------------------------------------


def test_credentials_without_their_sdk_are_wrong_and_told_once(
    shell: Shell, tencent: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_sdk(monkeypatch, "tencentcloud")
    status, found = shell.found(**tencent.env())
    assert status == 1
    assert list(found) == ["tencent: places, machines, stock"]
    (only,) = found.values()
    assert only["state"] == "wrong"
    assert only["found"].startswith("the package tencentcloud")
    assert "gpufare[tencent]" in only["found"]
    assert only["advice"] == ""


def _refused_by(package: str) -> NotConfigured:
    """What `extra` makes of a package that is not there."""
    with pytest.raises(NotConfigured) as caught, extra("cloud"):
        __import__(package)
    return caught.value


@pytest.fixture
def polls(tmp_path: Path) -> Polls:
    engine = engine_at(tmp_path)
    migrate(engine)
    return Polls(engine, clock_of(engine), patience=AT_ONCE)


def _examined(polls: Polls, *providers: Configured, meant: str = "") -> list[Finding]:
    return examine(polls, providers, meant.split())


def test_a_package_that_nobody_asked_for_is_off(polls: Polls) -> None:
    feed = ScriptedFeed(script=always(fails(_refused_by("no_such_package"))))
    (found,) = _examined(polls, configured(feed))
    assert (found.state, "no_such_package" in found.found) == ("off", True)
    (found,) = _examined(polls, configured(feed), meant="cloud")
    assert (found.state, "no_such_package" in found.found) == ("wrong", True)


@pytest.mark.parametrize(
    ("variable", "value", "meant"),
    [
        ("GPUFARE_ONLY", "aws", {"tencent", "aws"}),
        ("GPUFARE_PROVIDERS__GCP__ENABLED", "true", {"tencent", "gcp"}),
        ("GPUFARE_PROVIDERS__GCP__REGIONS", "us-east1", {"tencent"}),
    ],
)
def test_what_has_credentials_or_is_switched_on_by_name_is_meant_to_run(
    tmp_path: Path, variable: str, value: str, meant: set[str]
) -> None:
    """Tencent has credentials."""
    built = [ScriptedProvider(name, [], account=name == "tencent") for name in ("tencent", "aws", "gcp")]
    loaded = load({"HOME": str(tmp_path), variable: value}, tmp_path)
    assert meant_to_run(loaded, [Configured(cast("Provider", one), Config()) for one in built]) == meant


# --- one cause, one line ----------------------------------------------------------------------------------------------


def test_a_wrong_key_is_told_once_and_asks_for_no_sync(shell: Shell, tencent: Sim) -> None:
    status, found = shell.found(**tencent.env() | {"TENCENTCLOUD_SECRET_KEY": "wrong"})
    assert status == 1
    assert list(found) == ["tencent: places, machines, stock"]
    assert "AuthFailure.SignatureFailure" in found["tencent: places, machines, stock"]["found"]
    assert not [one for one in found.values() if "sync" in one["found"] + one["advice"]]


def test_feeds_that_wait_for_places_go_with_what_places_met(polls: Polls) -> None:
    places = ScriptedFeed(name="places", places=("",), script=always(fails(Unavailable("cloud places: HTTP 503"))))
    stock = ScriptedFeed(name="stock", places=None)
    (found,) = _examined(polls, configured(places, stock))
    assert (found.feed, found.state, found.found) == ("places, stock", "wrong", "cloud places: HTTP 503")


def test_different_refusals_of_one_provider_are_told_each(polls: Polls) -> None:
    feeds = [
        ScriptedFeed(name=name, script=always(fails(AuthFailed(f"cloud {name}: NoRight: {name} is not allowed"))))
        for name in ("machines", "stock")
    ]
    assert [one.feed for one in _examined(polls, configured(*feeds))] == ["machines", "stock"]
    same = [
        ScriptedFeed(name=name, script=always(fails(AuthFailed(f"cloud {name}: BadKey: no such key"))))
        for name in ("machines", "stock")
    ]
    assert [one.feed for one in _examined(polls, configured(*same))] == ["machines, stock"]


def test_feeds_by_machine_are_not_checked_on_a_new_database_and_that_is_no_fault(shell: Shell, alibaba: Sim) -> None:
    status, found = shell.found(**alibaba.env())
    assert status == 0
    assert {feed: one["state"] for feed, one in found.items()} == {
        "alibaba: places": "answers",
        "alibaba: machines": "answers",
        "alibaba: scores": "answers",
        "alibaba: stock": "answers",
        "alibaba: prices": "unchecked",
        "alibaba: spot": "unchecked",
    }
    assert found["alibaba: prices"]["found"].startswith(
        "not checked: it is asked about each machine that `stock` names"
    )
    assert found["alibaba: prices"]["advice"] == "`gpufare sync alibaba` asks both"


# --- no provider hides another ----------------------------------------------------------------------------------------


def test_a_fault_of_ours_ends_the_examination_of_its_provider_alone(polls: Polls) -> None:
    broken = ScriptedFeed("broken", script=always(Says([cast("Exception", TypeError("no such thing"))])))
    found = _examined(polls, configured(broken), configured(ScriptedFeed("well")))
    assert [(one.provider, one.state) for one in found] == [("broken", "wrong"), ("well", "answers")]
    assert "a fault of this program, not of the provider: TypeError: no such thing" in found[0].found


def test_each_provider_is_told_of_as_soon_as_it_is_known(polls: Polls) -> None:
    """The slow one answers only after the quick one was told of."""
    told, heard = list[str](), threading.Event()

    def wait(_cell: Cell) -> None:
        assert heard.wait(60)

    def on_done(name: str) -> None:
        told.append(name)
        heard.set()

    slow, quick = configured(ScriptedFeed("slow", before=wait)), configured(ScriptedFeed("quick"))
    found = examine(polls, [slow, quick], (), on_done)
    assert told == ["quick", "slow"]
    assert [(one.provider, one.state) for one in found] == [("slow", "answers"), ("quick", "answers")]


def test_stderr_hears_of_each_provider(shell: Shell, tencent: Sim) -> None:
    asked = shell.doctor("--json", **tencent.env())
    assert "gpufare: examined tencent, 1 of 1\n" in asked.stderr


# --- the advice fits --------------------------------------------------------------------------------------------------


def test_a_missing_right_is_no_matter_of_the_place(shell: Shell, aws: Sim) -> None:
    aws.fault("aws", "error", code="UnauthorizedOperation", match={"action": "DescribeSpotPriceHistory"})
    status, found = shell.found(**aws.env())
    assert status == 1
    spot = found["aws: spot"]
    assert "lack the right ec2:DescribeSpotPriceHistory; add it" in spot["found"]
    assert spot["advice"] == ""


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (NotServed("aws ec2 DescribeX us-east-9: Unsupported: EC2 does not answer this here"), "leave the place out"),
        (NotServed("tencent DescribeX ap-xian: UnsupportedRegion: Unsupported region"), "leave the place out"),
        (NotServed("gcp: the credentials lack compute.zones.list; grant it, then run `gpufare sync gcp`"), ""),
        (NotServed("alibaba: Forbidden.RAM: no. Allow the action ecs:X in the RAM user's policy"), ""),
        (NotServed("ucloud: 299: no. Allow X to this key in IAM, then: gpufare sync ucloud"), ""),
        (NotServed("azure: the credentials lack the right X; add it to their role, then run `gpufare sync azure`"), ""),
        (NotServed("gcp: the API is not enabled for this project or key; enable it, then `gpufare sync gcp`"), ""),
        (NotServed("aws: aws-cn has no query API; set GPUFARE_PROVIDERS__AWS__PRICE_SOURCE=list"), ""),
        (NotServed("ucloud: CompShare names no zone in cn-sh2; asked again in a day"), ""),
        (AuthFailed("tencent: refused"), "check the key"),
        (Unavailable("timeout"), "check the network, a proxy (HTTPS_PROXY) and GPUFARE_PROVIDERS__X__ENDPOINTS"),
        (NotConfigured("set X"), ""),
    ],
)
def test_advice_fits_the_error_alone(error: ProviderError, advice: str) -> None:
    told = advice_for(error, "x", "stock")
    assert told.startswith(advice)
    assert bool(told) == bool(advice)


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ('FATAL: database "nope" does not exist', "make it (`createdb NAME`)"),
        ('FATAL: role "ada" does not exist', "look at the user in GPUFARE_DATABASE_URL"),
        ('FATAL: password authentication failed for user "ada"', "look at the user in GPUFARE_DATABASE_URL"),
        ("permission denied for schema public", "the user in GPUFARE_DATABASE_URL must own the database"),
        ("connection failed: Connection refused", "is the server running, and is GPUFARE_DATABASE_URL right?"),
        ("could not extend file: No space left on device", "is the server running and well, and its disk not full?"),
    ],
)
def test_advice_fits_what_the_database_says(why: str, advice: str) -> None:
    assert database_advice("postgresql+psycopg://ada@127.0.0.1/nope", why).startswith(advice)
    assert database_advice("/var/lib/gpufare.db", why).startswith("if the disk is well")


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("file is not a database", "name another in GPUFARE_DATABASE_URL, or move this one away"),
        ("attempt to write a readonly database", "make it writable"),
        ("unable to open database file", "make it writable"),
        ("database or disk is full", "make room on its disk"),
        ("database is locked", "another program holds it"),
        ("database disk image is malformed", "if the disk is well and not full, the file is damaged"),
        ("disk I/O error", "if the disk is well and not full, the file is damaged"),
    ],
)
def test_advice_fits_what_sqlite_says_of_a_file(why: str, advice: str) -> None:
    assert database_advice("/var/lib/gpufare.db", why).startswith(advice)


def test_a_file_that_is_gone_says_itself_what_to_do() -> None:
    assert database_advice("/var/lib/gpufare.db", GONE) == ""


def test_a_database_that_is_not_there_is_to_be_made(tmp_path: Path) -> None:
    """With whatever the server of the tests says of it; without a server, that it does not run."""
    ended = run(tmp_path, "migrate", GPUFARE_DATABASE_URL="postgresql+psycopg://postgres@127.0.0.1:5432/gpufare_none")
    assert ended.returncode == 2
    assert ("make it (`createdb NAME`)" in ended.stderr) == ("does not exist" in ended.stderr)
    assert "disk" not in ended.stderr
