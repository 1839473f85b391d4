"""A real database, filled as polls fill it, and the server over it with a clock that stands until it is moved."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select
from starlette.testclient import TestClient

from api.app import create_app
from api.board import Board
from api.config import ApiConfig
from catalog.facts import Fact, Machine, Note, Price, Stock
from catalog.fx import ecb_rates
from catalog.money import price_nanos
from catalog.words import Evidence, Level, Purchase
from store.engine import migrate
from store.planning import PlannedCell, PlannedProvider, plan
from store.record import Answer, Lease, Result, failed, record
from store.schedule import claim, make_due
from store.tables import CELLS
from tests.support.databases import engine_at

START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
LOCAL = "http://127.0.0.1:8000"


class Filled:
    """A database with its providers. `now` is the time that polls, board and server go by."""

    def __init__(self, folder: Path) -> None:
        self.engine: Engine = engine_at(folder)
        migrate(self.engine)
        self.now = START

    def plan(
        self,
        name: str,
        *cells: tuple[str, str],
        account: bool = True,
        site: str | None = None,
        off: Mapping[str, str] | None = None,
        fresh_for: timedelta = timedelta(minutes=3),
    ) -> None:
        """Configure a provider with cells (feed, place), polled once a minute."""
        planned = [
            PlannedCell(name, feed, place, "", timedelta(minutes=1), fresh_for, Level.OUT.value, name, 10.0)
            for feed, place in cells
        ]
        provider = PlannedProvider(name, account, site, ["reported"], dict(off or {}), fingerprint="1")
        plan(self.engine, provider, planned, self.now)

    def poll(self, name: str, feed: str, place: str, facts: Iterable[Fact], notes: Iterable[Note] = ()) -> Result:
        """A whole answer of a cell."""
        answer = Answer(list(facts), list(notes))
        return record(self.engine, self._lease(name, feed, place), answer, self.now, self.now + timedelta(minutes=1))

    def fail(self, name: str, feed: str, place: str, error: str) -> None:
        """A failed poll of a cell."""
        result = Result("failed", error=error)
        failed(self.engine, self._lease(name, feed, place), result, self.now, self.now + timedelta(minutes=1))

    def later(self, **step: float) -> None:
        """Move the clock."""
        self.now += timedelta(**step)

    def _lease(self, name: str, feed: str, place: str) -> Lease:
        with self.engine.connect() as connection:
            here = (CELLS.c.provider == name) & (CELLS.c.feed == feed) & (CELLS.c.place == place)
            cell = connection.execute(select(CELLS.c.id).where(here)).scalar_one()
        make_due(self.engine, self.now, [name], [feed])
        return claim(self.engine, self.now, timedelta(minutes=2), 1, only=[cell])[0]


class Server:
    """The server in this process, asked as a client asks."""

    def __init__(self, filled: Filled, client: TestClient, board: Board) -> None:
        self.filled, self.client, self.board = filled, client, board

    def get(self, path: str) -> Any:
        """The JSON of a 200, once the board has read what changed."""
        self.board.refresh(self.filled.now)
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, path: str, status: int = 422) -> Any:
        """The problem that this is answered with."""
        return problem_of(self.client.get(path), status)

    def post(self, path: str, body: object, status: int) -> Any:
        """The JSON of a write with this status; a problem where it is an error."""
        response = self.client.post(path, json=body)
        assert response.status_code == status, response.text
        return response.json() if status < 400 else problem_of(response, status)


def problem_of(response: Any, status: int) -> Any:
    """The body of an answer that is a problem, as RFC 9457 wants it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert list(body)[:4] == ["type", "title", "status", "detail"]
    assert (body["type"], body["status"]) == ("about:blank", status)
    assert "Traceback" not in response.text
    if status == 422:
        assert list(body) == ["type", "title", "status", "detail", "parameter", "did_you_mean"]
    return body


def config_for(filled: Filled) -> ApiConfig:
    """Settings whose clock is the database's, and whose board is refreshed by hand."""
    return ApiConfig(
        rates=ecb_rates(),
        providers=frozenset({"aws", "runpod", "tencent"}),
        refresh_every=timedelta(hours=1),
        version="0.1.0",
        clock=lambda: filled.now,
    )


@contextmanager
def served(filled: Filled, base_url: str = LOCAL, **changes: Any) -> Iterator[Server]:
    """The server, started and stopped; `changes` are to its settings."""
    app = create_app(filled.engine, replace(config_for(filled), **changes))
    with TestClient(app, base_url=base_url, raise_server_exceptions=False) as client:
        yield Server(filled, client, app.state.board)


def machine(region: str, name: str, **more: Any) -> Machine:
    """A machine of a region: one H100, 16 vCPUs and 64 GiB, on demand, unless more is said."""
    known: dict[str, Any] = {
        "gpu": "h100-sxm5-80g",
        "gpu_count": Fraction(1),
        "vcpus": 16,
        "memory_mib": 64 * 1024,
        "purchases": frozenset({Purchase.ON_DEMAND}),
    }
    return Machine(region=region, instance_type=name, **(known | more))


def price(region: str, name: str, amount: str, currency: str = "USD", **more: Any) -> Price:
    """A price, on demand unless more is said."""
    nanos = price_nanos(amount)
    assert nanos is not None
    known: dict[str, Any] = {"purchase": Purchase.ON_DEMAND, "source": "a list"}
    return Price(region=region, instance_type=name, nanos=nanos, currency=currency, **(known | more))


def stock(region: str, name: str, level: Level = Level.IN_STOCK, **more: Any) -> Stock:
    """A reported stock level, on demand unless more is said."""
    known: dict[str, Any] = {"purchases": frozenset({Purchase.ON_DEMAND}), "evidence": Evidence.REPORTED}
    return Stock(region=region, instance_type=name, level=level, **(known | more))


def sold(
    region: str,
    name: str,
    amount: str,
    level: Level = Level.IN_STOCK,
    *,
    currency: str = "USD",
    zone: str | None = None,
    zone_id: str | None = None,
    **more: Any,
) -> list[Fact]:
    """A machine with an on-demand price and a stock level, in one zone or in the region."""
    where = {"zone": zone, "zone_id": zone_id}
    return [
        machine(region, name, **more),
        price(region, name, amount, currency, **where),
        stock(region, name, level, **where),
    ]


def v100_at_tencent(folder: Path) -> Filled:
    """Tencent with a V100 in Nanjing, in stock 40 s ago, and the same sold out in Guangzhou; AWS off."""
    filled = Filled(folder)
    filled.plan("aws", account=False, off={"prices": "set AWS_ACCESS_KEY_ID"})
    filled.plan("tencent", ("stock", "ap-guangzhou"), ("stock", "ap-nanjing"), site="cn")
    v100: dict[str, Any] = {"gpu": "v100-sxm2-32g", "vcpus": 10, "memory_mib": 40960, "gpu_raw": "NVIDIA V100"}
    for region, level in (("ap-guangzhou", Level.OUT), ("ap-nanjing", Level.IN_STOCK)):
        facts = sold(region, "GN10Xp.2XLARGE40", "8.68", level, currency="CNY", zone=f"{region}-1", **v100)
        filled.poll("tencent", "stock", region, facts, [Note("unknown_gpu", "X"), Note("unknown_gpu", "Y")])
    filled.later(seconds=40)
    return filled
