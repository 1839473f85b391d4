"""The server over a real database, asked as a client asks: fields, pages, lists and refusals."""

import csv
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from api.app import create_app
from catalog.accelerators import accelerators
from catalog.parameters import PARAMETERS
from catalog.words import Level
from tests.support.filled import Filled, Server, config_for, problem_of, served, sold, v100_at_tencent

pytestmark = pytest.mark.both_databases

# fmt: off
OFFER = [
    "provider", "account", "site", "upstream", "hosting", "region", "region_name", "country", "mainland_china",
    "zone", "zone_id", "instance_type", "gpu", "gpu_name", "gpu_count", "gpu_vram_gib", "nvlink", "vcpus",
    "memory_gib", "purchase", "native_price", "price_per_hour", "price_per_gpu_hour", "currency", "job_cost",
    "billing", "stock", "tier", "window",
]
NATIVE_PRICE = [
    "amount", "list_amount", "currency", "upfront", "observed_at", "age_s", "stale", "source", "estimated",
]
STOCK = ["level", "evidence", "confirmed", "detail", "score", "quantity", "observed_at", "age_s", "stale"]
CHEAPEST = [
    "verdict", "message", "best", "unconfirmed", "alternatives", "query", "fallback_used", "tiers", "rejected",
    "nearest_misses", "fix", "sources", "fx", "as_of",
]
TIER = [
    "tier", "regions", "matching", "confirmed", "out", "unknown", "stale", "passed_over", "estimated_rtt_ms",
    "estimate",
]
SOURCE = ["provider", "feed", "last_success", "age_s", "status", "error"]
FEED = ["feed", "status", "reason", "last_success", "age_s", "interval_s", "offers", "failing", "notes"]
SYNC = ["provider", "feed", "place", "part", "status", "facts", "notes", "seconds", "error", "started_at"]
# fmt: on


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    filled = v100_at_tencent(tmp_path)
    with served(filled) as server:
        yield server
    filled.engine.dispose()


def test_cheapest_has_the_fields_of_the_contract_in_its_order(server: Server) -> None:
    answer = server.get("/cheapest?gpu=v100&region=ap-guangzhou&fallback=ap-nanjing,ap-chongqing&explain=true")
    assert list(answer) == CHEAPEST
    assert list(answer["best"]) == OFFER
    assert list(answer["best"]["native_price"]) == NATIVE_PRICE
    assert list(answer["best"]["stock"]) == STOCK
    assert [list(tier) for tier in answer["tiers"]] == [TIER] * 3
    assert [list(source) for source in answer["sources"]] == [SOURCE]
    assert [list(rate) for rate in answer["fx"]] == [["pair", "rate", "date", "source"]]
    assert [list(miss) for miss in answer["nearest_misses"]] == [["offer", "reasons"]]
    assert set(answer["query"]) == PARAMETERS.keys() - {"spot"}


def test_a_sold_out_machine_is_the_nearest_miss_and_its_provider_a_source(server: Server) -> None:
    answer = server.get("/cheapest?gpu=v100&region=ap-guangzhou")
    assert (answer["verdict"], answer["best"]) == ("out_of_stock", None)
    assert answer["rejected"]["out_of_stock"] == 1
    assert answer["nearest_misses"][0]["reasons"] == ["out of stock"]
    assert answer["nearest_misses"][0]["offer"]["tier"] is None


@pytest.mark.parametrize(
    ("query", "parameter", "near"),
    [
        ("gpu=A100-8", "gpu", "a100-80g"),
        ("gpus=a100", "gpu", "gpu"),
        ("gpu=v100&region=ap-nanjin", "region", "ap-nanjing"),
        ("gpu=v100&provider=tencnt", "provider", "tencent"),
        ("gpu=v100&sort=prize", "sort", "price"),
        ("gpu=v100&country=XX", "country", None),
        ("gpu=v100&zone=ap-nanjing-9", "zone", "ap-nanjing-1"),
    ],
)
@pytest.mark.parametrize("endpoint", ["cheapest", "offers"])
def test_what_is_not_known_is_refused_with_what_may_be_meant(
    server: Server, endpoint: str, query: str, parameter: str, near: str | None
) -> None:
    problem = server.refused(f"/{endpoint}?{query}")
    assert problem["parameter"] == ("gpus" if query.startswith("gpus") else parameter)
    assert near is None or near in problem["did_you_mean"]


def test_offers_lists_sold_out_ones_too_page_by_page(server: Server) -> None:
    first = server.get("/offers?gpu=v100&limit=1")
    assert list(first) == ["items", "total", "next"]
    assert (first["total"], len(first["items"])) == (2, 1)
    assert list(first["items"][0]) == OFFER
    second = server.get(first["next"])
    assert (second["total"], second["next"]) == (2, None)
    assert {page["items"][0]["region"] for page in (first, second)} == {"ap-guangzhou", "ap-nanjing"}


def test_offers_come_as_csv_when_asked_for(server: Server) -> None:
    response = server.client.get("/offers?gpu=v100&limit=1", headers={"Accept": "text/csv"})
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["x-total-count"] == "2"
    assert 'rel="next"' in response.headers["link"]
    (row,) = csv.DictReader(io.StringIO(response.text))
    assert [name for name in row if not name.startswith(("native_price_", "billing_", "stock_", "window_"))] == [
        name for name in OFFER if name not in ("native_price", "billing", "stock", "window")
    ]
    assert (row["native_price_amount"], row["stock_confirmed"], row["zone_id"]) == ("8.68", "true", "")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/csv;q=0.5", "text/csv;q=0"])
def test_offers_come_as_json_unless_csv_is_preferred(server: Server, accept: str) -> None:
    response = server.client.get("/offers?gpu=v100", headers={"Accept": accept})
    assert response.headers["content-type"] == "application/json"


def test_gpus_lists_every_accelerator_with_its_offers_and_the_cheapest(server: Server) -> None:
    items = {item["id"]: item for item in server.get("/gpus")["items"]}
    assert list(items) == list(accelerators())
    assert (items["v100-sxm2-32g"]["offers"], items["v100-sxm2-32g"]["vram_gib"]) == (2, 32)
    assert items["v100-sxm2-32g"]["cheapest"]["region"] == "ap-nanjing"
    assert (items["h100-sxm5-80g"]["offers"], items["h100-sxm5-80g"]["cheapest"]) == (0, None)
    assert server.get("/gpus/v100-sxm2-32g") == items["v100-sxm2-32g"]


def test_an_accelerator_that_does_not_exist_is_not_found_with_what_may_be_meant(server: Server) -> None:
    problem = server.refused("/gpus/v100-sxm2-32", 404)
    assert "v100-sxm2-32g" in problem["did_you_mean"]


def test_regions_are_those_with_offers_and_those_that_are_known(server: Server) -> None:
    items = {(item["provider"], item["region"]): item for item in server.get("/regions")["items"]}
    assert items["tencent", "ap-nanjing"] == {
        "provider": "tencent",
        "region": "ap-nanjing",
        "region_name": "Nanjing",
        "country": "CN",
        "mainland_china": True,
        "zones": ["ap-nanjing-1"],
        "offers": 1,
    }
    assert items["aws", "us-east-1"]["offers"] == 0


def test_providers_say_how_each_feed_does_and_what_to_set(server: Server) -> None:
    aws, tencent = server.get("/providers")["items"]
    assert list(tencent) == ["provider", "account", "evidence", "feeds"]
    assert list(tencent["feeds"][0]) == FEED
    assert tencent["feeds"][0]["notes"] == {"unknown_gpu": 4}
    assert (tencent["feeds"][0]["status"], tencent["feeds"][0]["interval_s"]) == ("ok", 60)
    assert aws["account"] is False
    assert (aws["feeds"][0]["status"], aws["feeds"][0]["reason"]) == ("off", "set AWS_ACCESS_KEY_ID")
    assert (aws["feeds"][0]["last_success"], aws["feeds"][0]["age_s"]) == (None, None)


def test_past_polls_are_listed_newest_first(server: Server) -> None:
    items = server.get("/syncs")["items"]
    assert [list(item) for item in items] == [SYNC, SYNC]
    assert [item["place"] for item in items] == ["ap-nanjing", "ap-guangzhou"]
    assert [item["place"] for item in server.get("/syncs?limit=1")["items"]] == ["ap-nanjing"]


@pytest.mark.parametrize(
    ("body", "cells"),
    [({}, 2), ({"providers": ["tencent"]}, 2), ({"feeds": ["stock"]}, 2), ({"providers": ["aws"]}, 0)],
)
def test_sync_makes_cells_due(server: Server, body: object, cells: int) -> None:
    assert server.post("/sync", body, 202) == {"cells": cells}


@pytest.mark.parametrize(
    ("body", "parameter", "near"),
    [
        ({"providers": ["tencnt"]}, "providers", ["tencent"]),
        ({"feeds": ["stok"]}, "feeds", ["stock"]),
        ({"feed": ["stock"]}, "feed", ["feeds"]),
        ({"feeds": "stock"}, "feeds", []),
    ],
)
def test_sync_refuses_what_it_does_not_know(server: Server, body: object, parameter: str, near: list[str]) -> None:
    problem = server.post("/sync", body, 422)
    assert (problem["parameter"], problem["did_you_mean"]) == (parameter, near)


def test_a_body_that_is_no_json_is_a_problem(server: Server) -> None:
    response = server.client.post("/sync", content=b"{", headers={"Content-Type": "application/json"})
    assert "not JSON" in problem_of(response, 400)["detail"]


@pytest.mark.parametrize("path", ["/gpus", "/gpus/t4", "/regions", "/providers", "/syncs", "/launches"])
def test_lists_refuse_parameters_that_they_do_not_have(server: Server, path: str) -> None:
    assert server.refused(f"{path}?colour=red")["parameter"] == "colour"


@pytest.mark.parametrize("limit", ["0", "x", "100000"])
def test_a_limit_out_of_range_is_refused(server: Server, limit: str) -> None:
    assert server.refused(f"/syncs?limit={limit}")["parameter"] == "limit"


def test_an_unknown_address_and_an_unknown_method_are_problems(server: Server) -> None:
    server.refused("/nothing-here", 404)
    problem_of(server.client.post("/cheapest", json={}), 405)


def test_a_fault_of_ours_tells_no_traceback(server: Server) -> None:
    app = create_app(server.filled.engine, config_for(server.filled))

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("secret of the inside")

    @app.get("/typed")
    def typed(count: int) -> int:
        return count

    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        response = client.get("/broken")
        assert "secret" not in response.text
        problem_of(response, 500)
        assert problem_of(client.get("/typed?count=many"), 422)["parameter"] == "count"


@pytest.mark.parametrize("path", ["/cheapest?gpu=v100", "/offers?gpu=v100"])
def test_a_question_that_takes_long_keeps_nobody_waiting(server: Server, path: str) -> None:
    """The question goes over many offers, and stands still in its walk until the probe was answered."""
    server.board.index.few = lambda gpus, most: False  # type: ignore[method-assign]  # noqa: ARG005
    walking, answered = threading.Event(), threading.Event()
    candidates = server.board.index.candidates

    def slow(gpus: frozenset[str] | None) -> Any:
        walking.set()
        assert answered.wait(20)
        return candidates(gpus)

    server.board.index.candidates = slow  # type: ignore[method-assign]
    statuses: list[int] = []
    asking = threading.Thread(target=lambda: statuses.append(server.client.get(path).status_code))
    asking.start()
    try:
        assert walking.wait(20)
        assert server.client.get("/healthz").status_code == 200
    finally:
        answered.set()
        asking.join(20)
    assert statuses == [200]


def test_within_a_second_the_same_question_is_worked_out_once_and_never_from_what_the_board_held_before(
    server: Server,
) -> None:
    asked: list[object] = []
    candidates = server.board.index.candidates

    def counted(gpus: frozenset[str] | None) -> Any:
        asked.append(gpus)
        return candidates(gpus)

    server.board.index.candidates = counted  # type: ignore[method-assign]
    path, filled = "/cheapest?gpu=v100", server.filled
    first = server.client.get(path)
    filled.later(milliseconds=300)
    assert server.client.get(path).content == first.content
    assert len(asked) == 1
    filled.later(seconds=1)
    second = server.client.get(path).json()
    assert (len(asked), second["as_of"] > first.json()["as_of"]) == (2, True)
    assert second["best"]["region"] == "ap-nanjing"
    filled.poll(
        "tencent",
        "stock",
        "ap-nanjing",
        sold("ap-nanjing", "GN10Xp.2XLARGE40", "8.68", Level.OUT, currency="CNY", gpu="v100-sxm2-32g"),
    )
    third = server.get(path)
    assert (len(asked), third["as_of"]) == (3, second["as_of"])
    assert third["verdict"] == "out_of_stock"
    server.refused(f"{path}&nonsense=1")
    server.refused(f"{path}&nonsense=1")


def test_too_many_values_of_a_parameter_are_refused(server: Server) -> None:
    problem = server.refused(f"/cheapest?gpu={'v100,' * 101}")
    assert (problem["parameter"], "at most 100" in problem["detail"]) == ("gpu", True)


def test_a_server_without_data_is_alive_and_not_ready(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    with served(filled) as server:
        assert server.get("/healthz")["status"] == "ok"
        response = server.client.get("/readyz")
        assert (response.status_code, response.json()["status"]) == (503, "not ready")
        answer = server.get("/cheapest?gpu=v100")
        assert (answer["verdict"], answer["best"], answer["sources"]) == ("no_source", None, [])
    filled.engine.dispose()


def test_metrics_are_what_prometheus_reads(server: Server) -> None:
    server.get("/cheapest?gpu=v100")
    server.client.get("/made-up-by-a-client")
    families = {family.name: family for family in text_string_to_metric_families(server.client.get("/metrics").text)}
    assert families["gpufare_offers"].samples[0].value == 2
    (age,) = families["gpufare_feed_age_seconds"].samples
    assert (age.labels, age.value) == ({"provider": "tencent", "feed": "stock"}, 40)
    assert families["gpufare_board_revision"].samples[0].value == 2
    routes = {sample.labels["route"] for sample in families["gpufare_http_requests"].samples}
    assert routes == {"/cheapest", "none"}
    assert "gpufare_http_request_duration_seconds" in families


@pytest.mark.parametrize("name", ["v100", "V100-32g", "Tesla V100"])
def test_a_name_that_is_no_id_is_not_found_with_the_ids_that_it_stands_for(server: Server, name: str) -> None:
    near = server.refused(f"/gpus/{name}", 404)["did_you_mean"]
    assert "v100-sxm2-32g" in near
    assert set(near) <= accelerators().keys()
    assert all(one.startswith("v100-") for one in near)


@pytest.mark.parametrize("path", ["/sync", "/launches"])
def test_a_body_that_is_no_object_suggests_no_field(server: Server, path: str) -> None:
    problem = server.post(path, [], 422)
    assert (problem["parameter"], problem["did_you_mean"]) == ("body", [])


def test_a_control_character_in_a_question_is_refused(server: Server) -> None:
    assert server.refused("/cheapest?gpu=v100%00")["parameter"] == "gpu"


def test_a_machine_that_nobody_has_is_refused(server: Server) -> None:
    problem = server.refused("/offers?instance_type=GN10Xp.2XLARGE4")
    assert problem["did_you_mean"] == ["GN10Xp.2XLARGE40"]


def test_head_is_answered_as_get_is_without_the_body(server: Server) -> None:
    paths = [path for path, methods in server.get("/openapi.json")["paths"].items() if "get" in methods]
    assert {"/", "/healthz", "/readyz", "/metrics", "/cheapest", "/providers"} <= set(paths)
    asked = {"/recommend": "/recommend?params=8b&task=lora"}
    for path in (*(asked.get(path, path.format(id="t4")) for path in paths), "/docs", "/openapi.json"):
        got, head = server.client.get(path), server.client.head(path)
        none_of_it = path.startswith(("/watches/", "/deliveries/"))
        assert (head.status_code, head.content) == (404 if none_of_it else 200, b""), path
        assert got.status_code == head.status_code
        assert head.headers["content-type"] == got.headers["content-type"]
    assert server.client.head("/nothing-here").status_code == 404
    assert server.client.head("/sync").status_code == 405
    assert 'method="HEAD",route="/healthz",status="200"' in server.client.get("/metrics").text
