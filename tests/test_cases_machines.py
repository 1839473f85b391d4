"""Field cases of what a machine is, end to end: models, counts, slices, names nobody knows, prices beside them."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from werkzeug import Response

from catalog.words import Hosting
from tests.support.endtoend import amount, gpufare, real, told
from tests.support.filled import sold
from tests.support.tencent import price, row
from tests.support.wires import (
    TencentSays,
    a_type,
    answering,
    as_json,
    pods,
    quotas,
    tencent,
)


def test_a_bid_is_per_gpu_and_a_price_is_the_whole_machines(tmp_path: Path) -> None:
    """B009: 0.16 for one GPU, 1.28 for eight, which are 0.16 each."""
    a4000 = {
        "id": "NVIDIA RTX A4000",
        "memoryInGb": 16,
        "securePrice": 0.32,
        "communityPrice": 0.17,
        "lowestPrice": {"minimumBidPrice": 0.16, "uninterruptablePrice": 0.32, "stockStatus": "High"},
    }
    with pods(tmp_path, a4000) as app:
        found = {
            one["gpu_count"]: (amount(one), one["price_per_hour"], one["price_per_gpu_hour"])
            for one in app.offers("gpu=a4000&spot=true&hosting=datacenter")
        }
    assert found["1"] == ("0.16", "0.16", "0.16")
    assert found["8"] == ("1.28", "1.28", "0.16")


def test_a_price_per_gpu_times_the_count_is_the_price(tmp_path: Path) -> None:
    """B010: over JSON and over CSV."""
    with told(tmp_path, *sold("r1", "n-4gpu", "8.00", gpu_count=Fraction(4))) as app:
        one = app.offer()
        assert (one["price_per_hour"], one["price_per_gpu_hour"], one["gpu_count"]) == ("8", "2", "4")
        text = app.client.get("/offers", headers={"Accept": "text/csv"}).text
        columns, values = (line.split(",") for line in text.splitlines())
        exported = dict(zip(columns, values, strict=True))
        assert (exported["price_per_hour"], exported["price_per_gpu_hour"]) == ("8", "2")


def test_the_machine_of_four_is_no_answer_for_one_gpu(tmp_path: Path) -> None:
    """B016: 0.80 in all for four, 0.30 for one."""
    shared: Any = {"gpu": "rtx3090", "hosting": Hosting.COMMUNITY}
    four = sold("r1", "4x RTX 3090", "0.80", gpu_count=Fraction(4), **shared)
    one = sold("r1", "1x RTX 3090", "0.30", **shared)
    with told(tmp_path, *four, *one) as app:
        assert app.best("gpu=rtx3090&count=1&hosting=any") == ("r1", "1x RTX 3090", "0.3")
        best = app.cheapest("gpu=rtx3090&count=4&hosting=any")["best"]
        assert (best["price_per_hour"], best["price_per_gpu_hour"]) == ("0.8", "0.2")


@pytest.mark.parametrize("case", ["B025", "T10"])
def test_the_two_clouds_of_one_machine_are_two_offers(tmp_path: Path, case: str) -> None:
    a6000 = a_type("NVIDIA RTX A6000", memoryInGb=48, communityCloud=True, securePrice=0.76, communityPrice=0.49)
    with pods(tmp_path, a6000) as app:
        found = {(one["hosting"], amount(one)) for one in app.offers("gpu=a6000&count=2")}
        assert found == {("community", "0.98"), ("datacenter", "1.52")}, case
        assert app.cheapest("gpu=a6000&count=2")["best"]["price_per_hour"] == "1.52"
        assert app.cheapest("gpu=a6000&count=2&hosting=community")["best"]["price_per_hour"] == "0.98"


def test_a_machine_without_a_price_stops_no_other(tmp_path: Path) -> None:
    """B032, by Tencent: the one without is unpriced, and the note says why."""
    p1 = row(InstanceType="GN10Xp.5XLARGE80", Price=price(UnitPrice=None))
    p2 = row(Price=price(UnitPrice=2.5, UnitPriceDiscount=2.5))
    with tencent(TencentSays(quotas(p1, p2)), site="intl") as provider, gpufare(tmp_path, provider) as app:
        assert app.statuses("stock")["tencent stock ap-test POSTPAID_BY_HOUR"] == "ok"
        assert app.native("purchase=on_demand") == {
            ("ap-test-1", "GN10Xp.5XLARGE80", "on_demand"): None,
            ("ap-test-1", "GN10Xp.2XLARGE40", "on_demand"): "2.5",
        }
        assert app.feed("tencent", "stock")["notes"] == {"no_price": 1}


def test_an_unknown_number_of_vcpus_meets_no_minimum(tmp_path: Path) -> None:
    """B036, by Tencent."""
    nameless = row(Cpu=...)
    with tencent(TencentSays(quotas(nameless)), site="intl") as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        assert app.cheapest("gpu=v100")["best"]["vcpus"] is None
        answer = app.cheapest("gpu=v100&min_vcpus=8")
        assert (answer["best"], answer["rejected"]) == (None, {"vcpus_unknown": 1})


def test_a_price_for_several_regions_is_had_in_each(tmp_path: Path) -> None:
    """B047, by RunPod's catalogue: one price, data centres in three countries."""
    centres = ("US-KS-2", "CA-MTL-1", "EU-RO-1")

    def answer(request: Any) -> Response:
        if request.path == "/v2/catalog/datacenters":
            return as_json({"dataCenters": [{"id": one} for one in centres]})
        where = [{"id": one, "availability": "HIGH"} for one in centres]
        gpu = {"id": "NVIDIA L4", "memory": 24, "secure": True, "community": False, "price": {"secure": 0.56}}
        return as_json({"gpus": [gpu | {"availability": "HIGH", "dataCenters": where}]})

    with answering(answer) as url:
        provider = real("runpod", "US", "CA", "RO", environ={"RUNPOD_API_KEY": "key"}, api=url)
        with gpufare(tmp_path, provider) as app:
            app.sync("stock")
            found = {(one["region"], amount(one)) for one in app.offers("gpu=l4&count=1")}
            assert found == {("US", "0.56"), ("CA", "0.56"), ("RO", "0.56")}


def test_what_a_whole_answer_leaves_out_is_out(tmp_path: Path) -> None:
    """T20, by RunPod's catalogue: to be had in one data centre of eleven."""
    centres = [f"US-KS-{number}" for number in range(1, 12)]

    def answer(request: Any) -> Response:
        if request.path == "/v2/catalog/datacenters":
            return as_json({"dataCenters": [{"id": one} for one in centres]})
        where = [{"id": "US-KS-1", "availability": "HIGH"}]
        gpu = {"id": "NVIDIA L4", "memory": 24, "secure": True, "community": False, "price": {"secure": 0.56}}
        return as_json({"gpus": [gpu | {"availability": "HIGH", "dataCenters": where}]})

    with answering(answer) as url:
        provider = real("runpod", "US", environ={"RUNPOD_API_KEY": "key"}, api=url)
        with gpufare(tmp_path, provider) as app:
            app.sync("stock")
            levels = {zone: level for (zone, _, _), level in app.levels("gpu=l4&count=1").items()}
            assert levels == {one: "in_stock" if one == "US-KS-1" else "out" for one in centres}


def test_white_space_around_a_name_is_no_part_of_it(tmp_path: Path) -> None:
    """B051, by Tencent."""
    stray = row(
        Zone=" ap-test-1 ",
        InstanceType="GN7.2XLARGE32 ",
        InstanceFamily=" GN7",
        Price=price(UnitPrice=0.526, UnitPriceDiscount=0.526),
    )
    with tencent(TencentSays(quotas(stray)), site="intl") as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        assert app.native("gpu=t4") == {("ap-test-1", "GN7.2XLARGE32", "on_demand"): "0.526"}
        assert app.best("gpu=t4&zone=ap-test-1") == ("ap-test-1", "GN7.2XLARGE32", "0.526")


def test_prices_below_a_cent_are_compared_exactly(tmp_path: Path) -> None:
    """B100, by Tencent: 0.0346 before 0.0349 before 3.5E-2; and three at 0.1 are 0.3."""
    rows = [
        row(InstanceType=f"GN7.{name}", InstanceFamily="GN7", Gpu=count, GpuCount=count, Price=price(UnitPrice=usd))
        for name, count, usd in (("A", 1, 0.0349), ("B", 1, 0.0346), ("C", 1, 0.035), ("D", 3, 0.3))
    ]
    body = json.dumps({"Response": {"InstanceTypeQuotaSet": rows, "RequestId": "r"}})
    text = body.replace(": 0.035}", ": 3.5E-2}")
    assert text != body
    raw = TencentSays(
        lambda _region, charge: Response(text, content_type="application/json") if charge == "POSTPAID_BY_HOUR" else ()
    )
    with tencent(raw, site="intl") as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        assert app.best("gpu=t4") == ("ap-test-1", "GN7.B", "0.0346")
        shown = {one["instance_type"]: one["price_per_hour"] for one in app.offers("gpu=t4&count=1")}
        assert shown == {"GN7.A": "0.0349", "GN7.B": "0.0346", "GN7.C": "0.035"}
        three = app.cheapest("gpu=t4&count=3")["best"]
        assert (three["price_per_gpu_hour"], three["price_per_hour"]) == ("0.1", "0.3")


def test_an_hour_of_a_gpu_above_any_plausible_price_is_noted(tmp_path: Path) -> None:
    """B098: fen read as yuan would be such a price."""
    fen = row(Price=price(UnitPrice=1667.0, UnitPriceDiscount=1667.0))
    with tencent(TencentSays(quotas(fen)), site="intl") as provider, gpufare(tmp_path, provider) as app:
        app.sync("stock")
        assert app.feed("tencent", "stock")["notes"]["implausible_price"] == 1
