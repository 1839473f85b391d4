"""A whole gpufare in one process: collectors, a real pass of polls, a database, and the server over it.

Providers are served by local servers or scripted; the clock moves by hand. The answers are the server's own.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine
from starlette.testclient import TestClient

from api.app import create_app
from api.board import Board
from api.config import ApiConfig
from catalog.accounts import kind_of
from catalog.facts import Fact
from catalog.fx import Rates, ecb_rates
from collectors.aws_ec2 import partition_of
from collectors.base import Config
from collectors.registry import PROVIDERS, provider
from scheduler.plan import Configured, plan
from scheduler.poll import Polls
from scheduler.sync import Synced, sync
from store.engine import migrate
from tests.support.databases import engine_at
from tests.support.feeds import AT_ONCE, HandClock, ScriptedFeed, always, configured, says

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ENVIRON: Mapping[str, Mapping[str, str]] = {
    "aws": {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "key"},
    "runpod": {},
    "tencent": {"TENCENTCLOUD_SECRET_ID": "id", "TENCENTCLOUD_SECRET_KEY": "key"},
}
JsonObject = dict[str, Any]


def real(
    name: str,
    *regions: str,
    site: str | None = None,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = 10,
    scores: bool = False,
    **endpoints: str,
) -> Configured:
    """A provider of the registry, its services at these addresses."""
    known = ENVIRON[name] if environ is None else environ
    config = Config(known, regions, site, endpoints, scores=scores, timeout=timedelta(seconds=timeout_s))
    return Configured(provider(name, config), config)


class Gpufare:
    """The parts put together. Each pass is one of `gpufare sync`; each question is put to the server."""

    def __init__(self, engine: Engine, clock: HandClock, providers: Iterable[Configured], rates: Rates) -> None:
        self.engine, self.clock = engine, clock
        self.configured = list(providers)
        self.polls = Polls(engine, clock, clock.sleep, AT_ONCE)
        self.config = ApiConfig(
            rates=rates,
            providers=frozenset(PROVIDERS) | {one.name for one in self.configured},
            sites={one.name: site for one in self.configured if (site := one.config.site) is not None},
            partitions={one.name: partition_of(one.config) for one in self.configured if kind_of(one.name) == "aws"},
            refresh_every=timedelta(hours=1),
            version="0.1.0",
            clock=clock,
        )
        self.client: TestClient
        self.board: Board

    def sync(self, *feeds: str, only: str = "") -> list[Synced]:
        """One pass over all cells of all providers, or of the feeds or the provider that are named."""
        return sync(self.polls, [one for one in self.configured if only in ("", one.name)], feeds)

    def statuses(self, *feeds: str, only: str = "") -> dict[str, str]:
        """One pass, as `provider feed place part` -> status."""
        return {_cell(row): row.result.status for row in self.sync(*feeds, only=only)}

    def plan(self) -> int:
        """Plan the cells, as a worker does; returns how many are new."""
        return plan(self.engine, self.configured, self.clock())

    def later(self, **step: float) -> None:
        """Move the clock."""
        self.clock.now += timedelta(**step)

    def get(self, path: str, status: int = 200) -> Any:
        """The JSON of an answer, once the server has read what changed."""
        self.board.refresh(self.clock())
        response = self.client.get(path)
        assert response.status_code == status, response.text
        return response.json()

    def post(self, path: str, body: object, status: int = 201) -> Any:
        """The JSON of an answer to what is told."""
        self.board.refresh(self.clock())
        response = self.client.post(path, json=body)
        assert response.status_code == status, response.text
        return response.json()

    def cheapest(self, query: str) -> Any:
        """The answer of `/cheapest`."""
        return self.get(f"/cheapest?{query}")

    def best(self, query: str) -> tuple[str, str, str] | None:
        """(zone or else region, machine, price an hour) of the best offer; None where there is none."""
        found = self.cheapest(query)["best"]
        return None if found is None else (found["zone"] or found["region"], found["instance_type"], priced(found))

    def offers(self, query: str = "") -> list[JsonObject]:
        """The items of `/offers`, all of them."""
        found: JsonObject = self.get(f"/offers?limit=10000&{query}")
        items: list[JsonObject] = found["items"]
        assert len(items) == found["total"]
        return items

    def offer(self, query: str = "") -> JsonObject:
        """The only offer that meets the query."""
        (one,) = self.offers(query)
        return one

    def native(self, query: str = "") -> dict[tuple[str, str, str], str | None]:
        """(zone or else region, machine, purchase) -> the provider's own price."""
        return {
            (one["zone"] or one["region"], one["instance_type"], one["purchase"]): amount(one)
            for one in self.offers(query)
        }

    def levels(self, query: str = "") -> dict[tuple[str, str, str], str]:
        """(zone or else region, machine, purchase) -> stock level."""
        return {
            (one["zone"] or one["region"], one["instance_type"], one["purchase"]): one["stock"]["level"]
            for one in self.offers(query)
        }

    def feed(self, name: str, feed: str) -> JsonObject:
        """A feed as `/providers` shows it."""
        (found,) = [one for one in self.get("/providers")["items"] if one["provider"] == name]
        (shown,) = [one for one in found["feeds"] if one["feed"] == feed]
        return dict(shown)

    def notes(self) -> set[tuple[str, str]]:
        """(kind, raw value) of all that was left out or not understood."""
        return {(one["kind"], one["value"]) for one in self.get("/notes?limit=1000")["items"]}

    def past(self, name: str, feed: str, place: str = "", part: str = "") -> JsonObject:
        """A cell's newest poll as `/syncs` shows it."""
        wanted = (name, feed, place, part)
        items = self.get("/syncs?limit=1000")["items"]
        return next(one for one in items if (one["provider"], one["feed"], one["place"], one["part"]) == wanted)

    def metric(self, name: str, **labels: str) -> float:
        """A gauge of `/metrics`."""
        self.board.refresh(self.clock())
        families = {one.name: one for one in text_string_to_metric_families(self.client.get("/metrics").text)}
        (value,) = [sample.value for sample in families[name].samples if sample.labels == labels]
        return float(value)


@contextmanager
def gpufare(folder: Path, *providers: Configured, rates: Rates | None = None, **config: Any) -> Iterator[Gpufare]:
    """It, over a new database in the folder, or over the one that is there; `config` changes the server's settings."""
    engine = engine_at(folder)
    migrate(engine)
    whole = Gpufare(engine, HandClock(config.pop("now", START)), providers, rates or ecb_rates())
    app = create_app(engine, replace(whole.config, **config))
    with TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        whole.client, whole.board = client, app.state.board
        yield whole
    engine.dispose()


@contextmanager
def told(folder: Path, *facts: Fact) -> Iterator[Gpufare]:
    """It, after a pass over a provider `cloud` that states these facts."""
    with gpufare(folder, configured(ScriptedFeed(script=always(says(*facts))))) as app:
        app.sync()
        yield app


def priced(offer: JsonObject) -> str:
    """The price of an offer that has one, in the question's currency."""
    return str(offer["price_per_hour"])


def amount(offer: JsonObject) -> str | None:
    """The price in the provider's own currency, None where there is none."""
    return None if offer["native_price"] is None else str(offer["native_price"]["amount"])


def source_of(answer: JsonObject, name: str, feed: str) -> JsonObject:
    """What an answer says of a feed."""
    (found,) = [one for one in answer["sources"] if (one["provider"], one["feed"]) == (name, feed)]
    return dict(found)


def _cell(row: Synced) -> str:
    return " ".join(filter(None, (row.provider, row.feed, row.place, row.part)))
