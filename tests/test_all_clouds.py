"""The clouds that have an SDK, polled together through it: nothing of one harms another, and no limit is passed."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import simcloud
from collectors.registry import provider
from scheduler.plan import Configured
from scheduler.poll import Polls
from scheduler.sync import sync
from settings import load
from simcloud import Seen
from store.engine import migrate
from store.times import utc_now
from tests.support.databases import engine_at
from tests.support.endtoend import Gpufare, gpufare

CLOUDS = ("alibaba", "aws", "azure", "gcp", "tencent", "ucloud")


def of_sim(sim: simcloud.Sim, folder: Path, **more: str) -> list[Configured]:
    """The clouds as the settings of a simulation make them."""
    environ = {
        "HOME": str(folder),
        "GPUFARE_PROVIDERS__ALIBABA__REGIONS": "cn-hangzhou,cn-wulanchabu",
        **more,
    } | sim.env()
    loaded = load(environ, folder)
    made = []
    for name in CLOUDS:
        config = loaded.config_of(name, environ)
        made.append(Configured(provider(name, config), config, loaded.provider(name).intervals))
    return made


@pytest.fixture(scope="module")
def sim() -> Iterator[simcloud.Sim]:
    with simcloud.start("demo", providers=CLOUDS) as running:
        yield running


@pytest.fixture(scope="module")
def app(sim: simcloud.Sim, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpufare]:
    folder = tmp_path_factory.mktemp("clouds")
    with gpufare(folder, *of_sim(sim, folder)) as running:
        running.sync()
        running.sync("stock", "spot")  # the hand clock adds up what all threads waited for slots
        yield running


def feeds_of(app: Gpufare, name: str) -> dict[str, Any]:
    (found,) = [one for one in app.get("/providers")["items"] if one["provider"] == name]
    return {feed["feed"]: feed for feed in found["feeds"]}


@pytest.mark.parametrize("name", CLOUDS)
def test_every_feed_is_on_does_well_and_has_something(app: Gpufare, name: str) -> None:
    feeds = feeds_of(app, name)
    assert {feed: row["reason"] for feed, row in feeds.items() if row["status"] != "ok"} == {}
    assert sum(row["offers"] for row in feeds.values()) > 0
    assert app.offers(f"provider={name}")


QUICK = ("machines", "stock")


def quick_statuses(app: Gpufare, name: str) -> set[str]:
    return {row["status"] for feed, row in feeds_of(app, name).items() if feed in QUICK and row["status"] != "off"}


def test_one_cloud_that_is_down_fails_and_grows_stale_alone_and_recovers_by_itself(
    app: Gpufare, sim: simcloud.Sim
) -> None:
    before = {name: len(app.offers(f"provider={name}")) for name in CLOUDS}
    with sim.down("ucloud"):
        app.later(minutes=1)
        app.sync(*QUICK)
        assert quick_statuses(app, "ucloud") == {"failing"}
        left = app.offers("provider=ucloud")
        assert len(left) == before["ucloud"], "a failed poll says nothing of stock"
        assert [one for one in left if one["stock"]["confirmed"]]
        app.later(days=1)
        app.sync(*QUICK)
        assert quick_statuses(app, "ucloud") == {"stale"}, "what it said last is no longer fresh, whatever fails"
        assert all(one["stock"]["stale"] for one in app.offers("provider=ucloud"))
        assert not [one for one in app.offers("provider=ucloud") if one["stock"]["confirmed"]]
        for name in set(CLOUDS) - {"ucloud"}:
            assert quick_statuses(app, name) == {"ok"}, name
            assert len(app.offers(f"provider={name}")) == before[name]
    app.later(minutes=1)
    app.sync("stock", only="ucloud")
    assert quick_statuses(app, "ucloud") == {"ok"}
    assert len(app.offers("provider=ucloud")) == before["ucloud"]


QUOTAS: dict[str, tuple[Callable[[Seen], tuple[str, ...]], float]] = {
    "alibaba": (lambda seen: (seen.action, seen.region), 1.0),  # some 60 a minute for each action and region
    "aws": (lambda seen: (seen.region,), 20.0),  # EC2 refills a region's bucket at 20 a second
    "azure": (lambda seen: ("retail",) if seen.action == "retail_prices" else ("management",), 25.0),
    "gcp": (lambda _seen: ("project",), 25.0),  # 1,500 a minute
    "tencent": (lambda seen: (seen.action,), 20.0),  # 40 are published, a public report was throttled above 20
    "ucloud": (lambda _seen: ("account",), 2.0),  # none is published, nor what is counted together
}
"""What each provider lets through a second, as docs/providers.md has it, and which calls it counts together."""
WINDOW_S = 5.0
LATE = 3
"""Calls that may fall into a window beside its own: one at its edge, and those that left late, while the SDKs of other
clouds had the processor.
"""


def test_no_more_calls_come_than_each_provider_lets_through(sim: simcloud.Sim, tmp_path: Path) -> None:
    """By the times at which the simulated clouds were asked, in a pass by the real clock with many threads."""
    engine = engine_at(tmp_path)
    migrate(engine)
    before = len(sim.requests())
    sync(Polls(engine, utc_now), of_sim(sim, tmp_path), ("places", "machines", "stock", "spot"))
    asked = sim.requests()[before:]
    assert {seen.provider for seen in asked} == set(CLOUDS)
    for name in CLOUDS:
        keeps_to_quota(name, asked)
    engine.dispose()


def keeps_to_quota(name: str, asked: Sequence[Seen]) -> None:
    together, per_second = QUOTAS[name]
    counted: dict[tuple[str, ...], list[float]] = {}
    for seen in asked:
        if seen.provider == name:
            counted.setdefault(together(seen), []).append(seen.at.timestamp())
    for scope, times in counted.items():
        most = max(bisect_left(times, at + WINDOW_S) - number for number, at in enumerate(times))
        assert most <= WINDOW_S * per_second + LATE, f"{name} {scope}: {most} calls within {WINDOW_S:g} s"


def test_what_ucloud_is_asked_of_stock_and_of_prices_is_one_accounts(sim: simcloud.Sim, tmp_path: Path) -> None:
    """By the real clock, in a region of four machines: two calls for each price beside those for stock."""
    engine = engine_at(tmp_path)
    migrate(engine)
    before = len(sim.requests())
    clouds = of_sim(sim, tmp_path, GPUFARE_PROVIDERS__UCLOUD__REGIONS="cn-gd")
    (ucloud,) = (one for one in clouds if one.name == "ucloud")
    sync(Polls(engine, utc_now), [ucloud], ("stock",))
    sync(Polls(engine, utc_now), [ucloud], ("stock", "prices"))
    asked = sim.requests()[before:]
    assert sum(seen.action == "GetUHostInstancePrice" for seen in asked) == 8
    assert sum(seen.action == "DescribeAvailableInstanceTypes" for seen in asked) == 2
    keeps_to_quota("ucloud", asked)
    engine.dispose()
