"""`/history/prices` and `/history/stock`: over a real database, asked as a client asks."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from catalog.facts import Fact
from catalog.parameters import HISTORY_PARAMETERS, PARAMETERS
from catalog.words import Evidence, Level, Purchase
from store.engine import is_postgresql, writing
from tests.support.filled import START, Filled, Server, machine, price, served, sold, stock

pytestmark = pytest.mark.both_databases

MINUTE = timedelta(minutes=1)
SERIES = ["provider", "region", "zone", "instance_type", "purchase", "points", "shares"]
MORE = ["zone_id", "gpu", "gpu_count", "observed"]
SHARES = ["in_stock", "low", "out", "unknown", "unobserved"]
ZERO = dict.fromkeys(SHARES, "0")
HOUR = "from=2026-11-30T08:00:00Z&to=2026-11-30T09:00:00Z"


@pytest.fixture
def filled(tmp_path: Path, database: str) -> Iterator[Filled]:
    filled = Filled(tmp_path)
    assert is_postgresql(filled.engine) == (database == "postgresql")
    filled.plan("tencent", ("stock", "ap-nanjing"), ("stock", "ap-guangzhou"), ("prices", "ap-nanjing"), site="cn")
    yield filled
    filled.engine.dispose()


@pytest.fixture
def server(filled: Filled) -> Iterator[Server]:
    with served(filled) as server:
        yield server


def nanjing(name: str = "m1", level: Level = Level.IN_STOCK, amount: str = "8.68", **more: Any) -> list[Any]:
    return sold("ap-nanjing", name, amount, level, currency="CNY", zone="ap-nanjing-1", **more)


def poll(filled: Filled, minutes: int, level: Level = Level.IN_STOCK, every: int = 1) -> None:
    """Polls of Nanjing with this level, each minute from now until before so many minutes."""
    for _ in range(0, minutes, every):
        filled.poll("tencent", "stock", "ap-nanjing", nanjing(level=level))
        filled.later(minutes=every)


def only(answer: Any) -> Any:
    (item,) = answer["items"]
    return item


def text(minutes: float) -> str:
    return f"{START + minutes * MINUTE:%Y-%m-%dT%H:%M:%SZ}"


# --- what is answered


def test_stock_has_the_fields_of_the_contract_and_the_shares_of_the_window(filled: Filled, server: Server) -> None:
    poll(filled, 30, Level.IN_STOCK)
    poll(filled, 15, Level.OUT)
    poll(filled, 15, Level.LOW)
    answer = server.get(f"/history/stock?gpu=h100&{HOUR}")
    assert list(answer) == ["items", "total", "next", "from", "to"]
    assert (answer["total"], answer["next"]) == (1, None)
    assert (answer["from"], answer["to"]) == ("2026-11-30T08:00:00Z", "2026-11-30T09:00:00Z")
    item = only(answer)
    assert list(item) == [*SERIES, *MORE]
    assert [item[name] for name in SERIES[:5]] == ["tencent", "ap-nanjing", "ap-nanjing-1", "m1", "on_demand"]
    assert item["points"] == [
        {"at": text(0), "level": "in_stock", "evidence": "reported"},
        {"at": text(30), "level": "out", "evidence": "reported"},
        {"at": text(45), "level": "low", "evidence": "reported"},
    ]
    assert item["shares"] == {"in_stock": "0.5", "low": "0.25", "out": "0.25", "unknown": "0", "unobserved": "0"}
    assert item["observed"] == [{"from": text(0), "to": text(60)}]
    assert (item["gpu"], item["gpu_count"], item["zone_id"]) == ("h100-sxm5-80g", "1", None)


def test_prices_are_exact_in_their_own_currency_and_null_where_withdrawn(filled: Filled, server: Server) -> None:
    filled.poll("tencent", "stock", "ap-nanjing", nanjing(amount="8.68"))
    filled.later(minutes=10)
    filled.poll("tencent", "stock", "ap-nanjing", nanjing(amount="9.123456789"))
    for _ in range(3):  # withdrawn by the third answer in a row without it
        filled.later(minutes=1)
        facts: list[Fact] = [machine("ap-nanjing", "m1"), stock("ap-nanjing", "m1", zone="ap-nanjing-1")]
        filled.poll("tencent", "stock", "ap-nanjing", facts)
    item = only(server.get(f"/history/prices?gpu=h100&{HOUR}"))
    assert list(item) == [*SERIES, *MORE]
    assert item["points"] == [
        {"at": text(0), "amount": "8.68", "currency": "CNY"},
        {"at": text(10), "amount": "9.123456789", "currency": "CNY"},
        {"at": text(13), "amount": None, "currency": None},
    ]
    assert item["shares"] is None


def test_of_changes_in_one_second_the_last_is_told(filled: Filled, server: Server) -> None:
    told = [(0, "8.1", Level.IN_STOCK), (100, "8.2", Level.OUT), (650, "8.3", Level.LOW), (400, "8.4", Level.OUT)]
    for pause_ms, amount, level in told:
        filled.later(milliseconds=pause_ms)
        filled.poll("tencent", "stock", "ap-nanjing", nanjing(amount=amount, level=level))
    prices = only(server.get(f"/history/prices?gpu=h100&{HOUR}"))["points"]
    assert [(point["at"][-3:], point["amount"]) for point in prices] == [("00Z", "8.3"), ("01Z", "8.4")]
    levels = only(server.get(f"/history/stock?gpu=h100&{HOUR}"))["points"]
    assert [(point["at"][-3:], point["level"]) for point in levels] == [("00Z", "low"), ("01Z", "out")]


def test_what_was_in_force_before_the_window_comes_first_with_its_own_time(filled: Filled, server: Server) -> None:
    poll(filled, 20)
    poll(filled, 20, Level.OUT)
    item = only(server.get(f"/history/stock?gpu=h100&from={text(30)}&to={text(40)}"))
    assert item["points"] == [{"at": text(20), "level": "out", "evidence": "reported"}]
    assert item["shares"] == ZERO | {"out": "1"}


def test_the_window_is_the_last_seven_days_unless_said_otherwise(filled: Filled, server: Server) -> None:
    filled.poll("tencent", "stock", "ap-nanjing", nanjing())
    filled.later(days=14)
    filled.poll("tencent", "stock", "ap-nanjing", nanjing(level=Level.OUT))
    filled.later(seconds=1)
    answer = server.get("/history/stock?gpu=h100")
    assert answer["from"] == f"{filled.now - timedelta(days=7):%Y-%m-%dT%H:%M:%SZ}"
    assert answer["to"] == f"{filled.now:%Y-%m-%dT%H:%M:%SZ}"
    assert [point["level"] for point in only(answer)["points"]] == ["in_stock", "out"]


def test_a_poll_that_failed_is_a_gap_and_never_out(filled: Filled, server: Server) -> None:
    poll(filled, 30)
    for _ in range(20):
        filled.fail("tencent", "stock", "ap-nanjing", "timed out")
        filled.later(minutes=1)
    poll(filled, 10)
    item = only(server.get(f"/history/stock?gpu=h100&{HOUR}"))
    assert [point["level"] for point in item["points"]] == ["in_stock"]
    # The last answer counts for 3 minutes, and was at 08:29.
    assert item["observed"] == [{"from": text(0), "to": text(32)}, {"from": text(50), "to": text(60)}]
    assert item["shares"] == ZERO | {"in_stock": "0.7", "unobserved": "0.3"}


def test_the_time_after_now_is_unobserved(filled: Filled, server: Server) -> None:
    poll(filled, 15)
    item = only(server.get(f"/history/stock?gpu=h100&{HOUR}"))
    assert item["shares"] == ZERO | {"in_stock": "0.25", "unobserved": "0.75"}


def test_what_is_no_longer_listed_is_what_the_feed_says_of_it(filled: Filled, server: Server) -> None:
    facts = [*nanjing("m1"), *nanjing("m2")]
    filled.poll("tencent", "stock", "ap-nanjing", facts)
    filled.later(minutes=1)
    filled.poll("tencent", "stock", "ap-nanjing", nanjing("m2"))
    filled.later(minutes=1)
    items = {item["instance_type"]: item for item in server.get(f"/history/stock?gpu=h100&{HOUR}")["items"]}
    assert [point["level"] for point in items["m1"]["points"]] == ["in_stock", "out"]
    assert [point["level"] for point in items["m2"]["points"]] == ["in_stock"]


def test_several_cells_that_state_one_thing_are_one_item(filled: Filled, server: Server) -> None:
    filled.plan("tencent", ("stock", "ap-nanjing"), ("scores", "ap-nanjing"), site="cn")
    scored = stock("ap-nanjing", "m1", Level.UNKNOWN, zone="ap-nanjing-1", evidence=Evidence.SCORED, score="3")
    filled.poll("tencent", "scores", "ap-nanjing", [scored])
    filled.later(minutes=1)
    poll(filled, 9)
    item = only(server.get(f"/history/stock?gpu=h100&from={text(0)}&to={text(10)}"))
    assert [(point["level"], point["evidence"]) for point in item["points"]] == [
        ("unknown", "scored"),
        ("in_stock", "reported"),
    ]
    assert item["shares"] == ZERO | {"unknown": "0.1", "in_stock": "0.9"}


def test_a_zone_named_by_name_here_and_by_id_there_is_one(filled: Filled, server: Server) -> None:
    filled.plan("aws", ("stock", "us-east-1"), ("prices", "us-east-1"))
    both: dict[str, Any] = {"zone": "us-east-1a", "zone_id": "use1-az6"}
    filled.poll("aws", "stock", "us-east-1", [machine("us-east-1", "p5"), stock("us-east-1", "p5", **both)])
    filled.later(minutes=1)
    by_name = stock("us-east-1", "p5", Level.LOW, zone="us-east-1a")
    filled.poll("aws", "prices", "us-east-1", [by_name])
    filled.later(minutes=1)
    item = only(server.get(f"/history/stock?provider=aws&{HOUR}"))
    assert (item["zone"], item["zone_id"]) == ("us-east-1a", "use1-az6")
    assert [point["level"] for point in item["points"]] == ["in_stock", "low"]


# --- which series


def test_a_machine_that_is_gone_keeps_its_history(filled: Filled, server: Server) -> None:
    filled.plan("aws", ("machines", "us-east-1"), ("prices", "us-east-1"))
    facts = [machine("us-east-1", "old"), machine("us-east-1", "new")]
    filled.poll("aws", "machines", "us-east-1", facts)
    filled.poll("aws", "prices", "us-east-1", [price("us-east-1", name, "2") for name in ("old", "new")])
    filled.later(days=2)
    filled.poll("aws", "machines", "us-east-1", facts[1:])
    for _ in range(3):
        filled.later(minutes=1)
        filled.poll("aws", "prices", "us-east-1", [price("us-east-1", "new", "2")])
    filled.later(days=3)
    items = server.get("/history/prices?gpu=h100")["items"]
    assert {item["instance_type"]: [point["amount"] for point in item["points"]] for item in items} == {
        "new": ["2"],
        "old": ["2", None],
    }
    assert [item["instance_type"] for item in server.get("/offers?gpu=h100")["items"]] == ["new"]
    assert only(server.get("/history/prices?instance_type=old"))["gpu"] == "h100-sxm5-80g"
    filled.later(days=30)
    assert [item["instance_type"] for item in server.get("/history/prices?gpu=h100")["items"]] == ["new"]
    assert server.get("/history/prices?instance_type=old")["items"] == []


def test_a_region_s_history_is_shown_for_a_zone_that_has_none_of_its_own(filled: Filled, server: Server) -> None:
    filled.plan("aws", ("stock", "us-east-1"), ("prices", "us-east-1"))
    both: dict[str, Any] = {"zone": "us-east-1a", "zone_id": "use1-az6"}
    other: dict[str, Any] = {"zone": "us-east-1b", "zone_id": "use1-az1"}
    facts: list[Fact] = [
        machine("us-east-1", "p5"),
        stock("us-east-1", "p5", **both),
        stock("us-east-1", "p5", **other),
    ]
    filled.poll("aws", "stock", "us-east-1", facts)
    prices = [price("us-east-1", "p5", "2"), price("us-east-1", "p5", "3", **other)]
    filled.poll("aws", "prices", "us-east-1", prices)
    filled.later(minutes=1)

    def found(query: str) -> list[tuple[str | None, str]]:
        items = server.get(f"/history/prices?provider=aws&{query}{HOUR}")["items"]
        return [(item["zone"], item["points"][0]["amount"]) for item in items]

    assert found("") == [(None, "2"), ("us-east-1b", "3")]
    assert found("zone=us-east-1a&") == [(None, "2")]
    assert found("zone=use1-az1&") == [("us-east-1b", "3")]
    assert found("zone=us-east-1a,us-east-1b&") == [(None, "2"), ("us-east-1b", "3")]
    assert found("zone=!us-east-1b&") == [(None, "2")]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("gpu=h100", {"m1", "spot"}),
        ("gpu=t4", {"small"}),
        ("purchase=spot", {"spot"}),
        ("spot=true", {"spot"}),
        ("count=1", {"m1", "small", "spot"}),
        ("min_vcpus=16", {"m1", "spot"}),
        ("instance_type=sm*", {"small"}),
        ("region=ap-nanjing", {"m1", "spot"}),
        ("region=!ap-nanjing", {"small"}),
        ("zone=ap-nanjing-1", {"m1"}),
        ("provider=tencent", {"m1", "small", "spot"}),
        ("country=US", set()),
        ("mainland_china=true", {"m1", "small", "spot"}),
        ("compliance=iso27001", {"m1", "small", "spot"}),
        ("compliance=soc2", set()),
        ("compliance=!iso27001", set()),
        ("accounts=mine", {"m1", "small", "spot"}),
        ("hosting=community", set()),
        ("vendor=amd", set()),
        ("min_vram=24", {"m1", "spot"}),
    ],
)
def test_the_parameters_say_which_offers_are_meant(filled: Filled, server: Server, query: str, found: set[str]) -> None:
    spot: dict[str, Any] = {"purchases": frozenset({Purchase.SPOT})}
    facts = [*nanjing("m1"), machine("ap-nanjing", "spot", **spot), stock("ap-nanjing", "spot", **spot)]
    filled.poll("tencent", "stock", "ap-nanjing", facts)
    small = sold("ap-guangzhou", "small", "1", currency="CNY", gpu="t4", vcpus=4)
    filled.poll("tencent", "stock", "ap-guangzhou", small)
    filled.later(minutes=1)
    answer = server.get(f"/history/stock?{query}&{HOUR}")
    assert {item["instance_type"] for item in answer["items"]} == found
    assert answer["total"] == len(found)


def test_pages_are_of_one_window_and_hold_each_series_once(filled: Filled, server: Server) -> None:
    filled.poll("tencent", "stock", "ap-nanjing", [fact for name in "abcde" for fact in nanjing(name)])
    filled.later(minutes=1)
    seen, url = [], "/history/stock?gpu=h100&from=1h&limit=2"
    ends = set()
    while url:
        page = server.get(url)
        seen += [item["instance_type"] for item in page["items"]]
        ends.add((page["from"], page["to"]))
        url = page["next"]
        filled.later(seconds=10)
    assert seen == list("abcde")
    assert page["total"] == 5
    assert len(ends) == 1


def test_the_operator_s_defaults_hold_as_far_as_they_say_which_offers(filled: Filled) -> None:
    filled.poll("tencent", "stock", "ap-nanjing", nanjing("m1"))
    filled.poll("tencent", "stock", "ap-guangzhou", sold("ap-guangzhou", "m2", "1", currency="CNY"))
    filled.later(minutes=1)
    defaults = {"region": "ap-guangzhou", "purchase": "spot", "max_price": "0.01", "limit": "1", "currency": "CNY"}
    with served(filled, defaults=defaults) as server:
        assert only(server.get(f"/history/stock?{HOUR}"))["instance_type"] == "m2"


# --- what is refused


@pytest.mark.parametrize("kind", ["prices", "stock"])
@pytest.mark.parametrize("name", sorted(name for name in PARAMETERS if name not in HISTORY_PARAMETERS))
def test_what_speaks_of_now_or_compares_money_is_refused(server: Server, kind: str, name: str) -> None:
    problem = server.refused(f"/history/{kind}?{name}=1")
    assert problem["parameter"] == name
    assert name in problem["detail"]


@pytest.mark.parametrize(
    ("query", "parameter", "near"),
    [
        ("gpu=h10", "gpu", "h100"),
        ("gpus=h100", "gpus", "gpu"),
        ("form=7d", "form", "from"),
        ("region=ap-nanjin", "region", "ap-nanjing"),
        ("from=yesterday", "from", None),
        ("from=2026-02-30", "from", None),
        ("from=2026-11-30T08:00:00", "from", None),
        ("from=2026-11-30T25:00:00Z", "from", None),
        ("from=", "from", None),
        ("from=7d&from=8d", "from", None),
        ("to=0d", "to", None),
        ("from=1d&to=2d", "from", None),
        ("from=2026-11-29&to=2026-11-29", "from", None),
        ("from=0001-01-01T00:00:00%2B14:00", "from", None),
        ("limit=1001", "limit", None),
        ("limit=0", "limit", None),
        ("offset=-1", "offset", None),
    ],
)
def test_what_is_not_understood_is_refused(server: Server, query: str, parameter: str, near: str | None) -> None:
    problem = server.refused(f"/history/stock?{query}")
    assert problem["parameter"] == parameter
    assert near is None or near in problem["did_you_mean"]


@pytest.mark.parametrize(
    ("query", "start", "until"),
    [
        ("from=2026-11-01", "2026-11-01T00:00:00Z", None),
        ("from=2026-11-01T08:00:00%2B08:00", "2026-11-01T00:00:00Z", None),
        ("from=2026-11-01T08:00:00+08:00", "2026-11-01T00:00:00Z", None),
        ("from=2026-10-31T19:30:00-04:30&to=2026-11-02T08:00:00+08:00", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"),
        ("from=2026-11-01t00:00:00.5z&to=2026-11-02", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"),
        ("from=48h&to=24h", "2026-11-28T08:00:00Z", "2026-11-29T08:00:00Z"),
        ("from=2026-11-01&to=2027-01-01", "2026-11-01T00:00:00Z", "2027-01-01T00:00:00Z"),
    ],
)
def test_times_are_moments_days_or_ages(server: Server, query: str, start: str, until: str | None) -> None:
    answer = server.get(f"/history/prices?{query}")
    assert (answer["from"], answer["to"]) == (start, until or "2026-11-30T08:00:00Z")
    assert answer["items"] == []


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("text", ["2026-11-01T08:00+08:00", "2026-11-01T08:00:00+0800", "2026-11-01T08:00:00 +08:00"])
def test_a_time_that_may_have_lost_its_plus_sign_is_told_how_to_write_it(server: Server, name: str, text: str) -> None:
    detail = server.refused(f"/history/prices?{name}={text}")["detail"]
    assert detail.endswith(" In an address + is written %2B: as it stands it is a blank.")
    escaped = server.refused(f"/history/prices?{name}={text.replace('+', '%2B').replace(' ', '')}x")["detail"]
    assert "%2B" not in escaped


def test_a_database_that_fails_is_a_problem_of_its_own(filled: Filled, server: Server) -> None:
    filled.poll("tencent", "stock", "ap-nanjing", nanjing())
    assert server.get("/offers?gpu=h100")["total"] == 1
    with writing(filled.engine) as connection:
        connection.exec_driver_sql("ALTER TABLE series RENAME TO away")
    try:
        problem = server.refused("/history/stock?gpu=h100", 503)
        assert "cannot be read" in problem["detail"]
        assert server.client.get("/offers?gpu=h100").status_code == 200
    finally:
        with writing(filled.engine) as connection:
            connection.exec_driver_sql("ALTER TABLE away RENAME TO series")


def test_openapi_describes_the_parameters_and_the_fields(server: Server) -> None:
    schema = server.get("/openapi.json")
    for kind in ("prices", "stock"):
        told = schema["paths"][f"/history/{kind}"]["get"]
        assert [one["name"] for one in told["parameters"]] == list(HISTORY_PARAMETERS)
        assert {"200", "422", "503"} <= told["responses"].keys()
    assert list(schema["components"]["schemas"]["StockSeries"]["properties"]) == [*SERIES, *MORE]


# --- what it costs


def test_a_thousand_series_take_a_handful_of_statements(filled: Filled, server: Server) -> None:
    names = [f"m{number:04}" for number in range(1000)]
    filled.poll("tencent", "stock", "ap-nanjing", [fact for name in names for fact in nanjing(name)])
    filled.later(minutes=1)
    server.get("/offers?gpu=h100&limit=1")
    said: list[str] = []

    @event.listens_for(filled.engine, "before_cursor_execute")
    def note(_c: object, _cursor: object, statement: str, *_more: object) -> None:
        if statement.startswith(("SELECT", "WITH")):
            said.append(statement)

    response = server.client.get(f"/history/stock?gpu=h100&limit=1000&{HOUR}")
    answer = response.json()
    assert (len(answer["items"]), answer["total"]) == (1000, 1000)
    assert len(said) < 10
    assert all(sum(map(Decimal, item["shares"].values())) == 1 for item in answer["items"])
