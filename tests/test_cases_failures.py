"""What goes wrong between us and three clouds at once: the last good data stays and ages, nothing turns out.

Served by the simulated clouds. Each fault meets one region of each provider; the other cells of the same pass land.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import simcloud
from scheduler.poll import Patience
from simcloud import Sim
from tests.support.endtoend import Gpufare, JsonObject, gpufare, real

Key = tuple[Any, ...]
FEEDS = ("machines", "stock", "spot")
MEETS: Mapping[str, Mapping[str, str]] = {
    "tencent": {"region": "ap-nanjing", "action": "DescribeZoneInstanceConfigInfos"},
    "runpod": {"region": "*RO*"},
    "aws": {"region": "us-west-2", "action": "DescribeSpotPriceHistory"},
}
FAILED: Mapping[str, tuple[str, str]] = {
    "tencent": ("stock", "ap-nanjing"),
    "runpod": ("stock", "RO"),
    "aws": ("spot", "us-west-2"),
}
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "timeout": {"kind": "timeout"},
    "reset": {"kind": "reset"},
    "500": {"kind": "status", "status": 500},
    "429": {"kind": "status", "status": 429, "retry_after_s": 1},
    "html": {"kind": "html"},
    "empty200": {"kind": "empty200"},
    "truncate": {"kind": "truncate"},
    "error": {"kind": "error", "code": "InternalError"},
}


@contextmanager
def clouds(folder: Path, timeout_s: float = 10) -> Iterator[tuple[Sim, Gpufare]]:
    """Three simulated clouds, two regions of each, and gpufare over them."""
    with simcloud.start("demo") as sim:
        secrets = {name: value for name, value in sim.env().items() if not name.startswith(("GPUFARE", "RUNPOD"))}
        t, a = sim.tencent.url, sim.aws
        providers = (
            real(
                "tencent",
                "ap-guangzhou",
                "ap-nanjing",
                site="cn",
                environ=secrets,
                timeout_s=timeout_s,
                cvm=t,
                region=t,
            ),
            real("runpod", "US", "RO", timeout_s=timeout_s, api=sim.runpod.url),
            real("aws", "us-east-1", "us-west-2", environ=secrets, timeout_s=timeout_s, ec2=a.ec2_url),
        )
        with gpufare(folder, *providers) as app:
            yield sim, app


def polled(app: Gpufare) -> dict[str, str]:
    """One pass over all cells; the feeds that are off are left out."""
    return {cell: status for cell, status in app.statuses(*FEEDS).items() if status != "off"}


def times(app: Gpufare) -> dict[Key, tuple[str, str]]:
    """When stock and price of each offer were last seen."""
    return {
        _key(one): (one["stock"]["observed_at"], (one["native_price"] or one["stock"])["observed_at"])
        for one in app.offers()
    }


def levels(app: Gpufare) -> dict[Key, str]:
    return {_key(one): one["stock"]["level"] for one in app.offers()}


def _key(one: JsonObject) -> Key:
    return one["provider"], one["region"], one["zone"], one["instance_type"], one["purchase"]


AFTER_20_MINUTES = {"tencent": "stale", "runpod": "stale", "aws": "failing"}
"""How a feed does whose polls fail for so long: spot prices of AWS are fresh for 30."""


def failing(app: Gpufare) -> dict[str, set[str]]:
    """The places that `/providers` names as failing, of each provider's feed that is met."""
    shown = {name: app.feed(name, feed) for name, (feed, _) in FAILED.items()}
    assert {name: feed["status"] for name, feed in shown.items()} == AFTER_20_MINUTES
    return {name: {where.split(" ")[0] for where in feed["failing"]} for name, feed in shown.items()}


AN_INSTANT = timedelta(milliseconds=1)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_leaves_the_last_good_data_to_age_and_the_other_cells_land(tmp_path: Path, name: str) -> None:
    with clouds(tmp_path, timeout_s=3 if name == "timeout" else 20) as (sim, app):
        assert set(polled(app).values()) == {"ok"}
        before, seen = levels(app), times(app)
        assert set(before.values()) == {"in_stock", "low", "out", "unknown"}
        for provider, match in MEETS.items():
            sim.fault(provider, match=match, **FAULTS[name])
        # By the hand clock the pauses of all threads add up: with longer ones what was polled first would be stale.
        app.polls = replace(
            app.polls, patience=Patience(attempts=1 if name == "timeout" else 3, longest_pause=AN_INSTANT)
        )
        app.later(minutes=20)
        statuses = polled(app)
        met = {
            cell for cell in statuses if cell.startswith(tuple(f"{one} {' '.join(at)}" for one, at in FAILED.items()))
        }
        assert {cell.split(" ")[0] for cell in met} == set(FAILED)
        assert {cell for cell, status in statuses.items() if status == "failed"} == met
        assert {cell for cell, status in statuses.items() if status == "ok"} == statuses.keys() - met

        assert levels(app) == before, "no level changes, so nothing turns out"
        after = times(app)
        old = {key[:2] for key in after if after[key] == seen[key]}
        new = {key[:2] for key in after if after[key] != seen[key]}
        assert old == {("tencent", "ap-nanjing"), ("runpod", "RO")}
        assert new >= {("tencent", "ap-guangzhou"), ("runpod", "US"), ("aws", "us-east-1"), ("aws", "us-west-2")}
        for one in app.offers("provider=tencent,runpod&purchase=on_demand"):
            lost = (one["provider"], one["region"]) in old
            assert (one["stock"]["age_s"] >= 1200, one["stock"]["stale"]) == (lost, lost)
            assert not (lost and one["stock"]["confirmed"])
        for region, lost in (("us-east-1", False), ("us-west-2", True)):
            (spot, *_) = app.offers(f"provider=aws&region={region}&purchase=spot&stock=any")
            assert (spot["native_price"]["age_s"] >= 1200) is lost
        assert failing(app) == {one: {place} for one, (_, place) in FAILED.items()}
        for one in app.get("/syncs?limit=1000")["items"][: len(statuses)]:
            hit = FAILED[one["provider"]] == (one["feed"], one["place"])
            assert (one["status"], bool(one["error"])) == (("failed", True) if hit else ("ok", False))


@pytest.mark.parametrize("refused", ["tencent", "runpod", "aws"])
def test_refused_credentials_stop_one_provider_and_take_nothing_out(tmp_path: Path, refused: str) -> None:
    with clouds(tmp_path) as (sim, app):
        polled(app)
        before = levels(app)
        sim.fault(refused, "status", status=401)
        app.later(minutes=20)
        statuses = polled(app)
        assert {status for cell, status in statuses.items() if cell.startswith(refused)} == {"failed"}
        assert {status for cell, status in statuses.items() if not cell.startswith(refused)} == {"ok"}
        assert levels(app) == before
        shown = app.feed(refused, FAILED[refused][0])
        assert (shown["status"], "401" in shown["reason"]) == (AFTER_20_MINUTES[refused], refused != "aws"), shown
        by_hour = [one for one in app.offers(f"provider={refused}") if one["purchase"] != "capacity_block"]
        reported = [one["stock"] for one in by_hour if one["stock"]["evidence"] == "reported"]
        assert bool(reported) is (refused != "aws"), "which states the stock of capacity blocks alone, for two hours"
        assert all(one["stale"] and not one["confirmed"] for one in reported)


def test_once_the_faults_are_over_the_same_data_is_fresh_again(tmp_path: Path) -> None:
    with clouds(tmp_path) as (sim, app):
        polled(app)
        before = levels(app)
        for provider in MEETS:
            sim.fault(provider, "reset")
        app.later(minutes=20)
        assert set(polled(app).values()) == {"failed"}
        assert app.cheapest("gpu=v100&provider=tencent")["verdict"] == "unconfirmed"
        sim.clear_faults()
        app.later(minutes=20)
        assert set(polled(app).values()) == {"ok"}
        assert levels(app) == before
        assert app.cheapest("gpu=v100&provider=tencent")["verdict"] == "confirmed"
