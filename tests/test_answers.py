"""What answers say: exact amounts, ages, and what is not known."""

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update

from catalog.words import Purchase
from store.engine import writing
from store.snapshot import load_bundled
from store.tables import CELLS
from tests.support.filled import Filled, Server, config_for, machine, price, served, sold, stock, v100_at_tencent

EVERY = frozenset({"alibaba", "aws", "azure", "gcp", "runpod", "tencent"})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    filled = v100_at_tencent(tmp_path)
    with served(filled) as server:
        yield server
    filled.engine.dispose()


def test_an_offer_says_what_its_provider_stated(server: Server) -> None:
    answer = server.get("/cheapest?gpu=v100&region=ap-guangzhou&fallback=ap-nanjing")
    price_in_usd = answer["best"].pop("price_per_hour")
    assert answer["best"].pop("price_per_gpu_hour") == price_in_usd
    assert answer["best"] == {
        "provider": "tencent",
        "account": True,
        "site": "cn",
        "upstream": None,
        "hosting": "datacenter",
        "region": "ap-nanjing",
        "region_name": "Nanjing",
        "country": "CN",
        "mainland_china": True,
        "zone": "ap-nanjing-1",
        "zone_id": None,
        "instance_type": "GN10Xp.2XLARGE40",
        "gpu": "v100-sxm2-32g",
        "gpu_name": "NVIDIA V100",
        "gpu_count": "1",
        "gpu_vram_gib": 32,
        "nvlink": True,
        "vcpus": 10,
        "memory_gib": "40",
        "purchase": "on_demand",
        "native_price": {
            "amount": "8.68",
            "list_amount": "8.68",
            "currency": "CNY",
            "upfront": None,
            "observed_at": "2026-11-30T08:00:00Z",
            "age_s": 40,
            "stale": False,
            "source": "a list",
            "estimated": False,
        },
        "currency": "USD",
        "job_cost": None,
        "billing": {"increment_s": 1, "minimum_s": 1},
        "stock": {
            "level": "in_stock",
            "evidence": "reported",
            "confirmed": True,
            "detail": None,
            "score": None,
            "quantity": None,
            "observed_at": "2026-11-30T08:00:00Z",
            "age_s": 40,
            "stale": False,
        },
        "tier": 1,
        "window": None,
    }
    assert (answer["verdict"], answer["fallback_used"]) == ("confirmed", True)
    assert answer["tiers"][0]["passed_over"] == "out_of_stock"
    assert answer["as_of"] == "2026-11-30T08:00:40Z"
    assert [rate["pair"] for rate in answer["fx"]] == ["CNY/USD"]


def test_a_failing_provider_is_a_source_with_the_time_of_its_last_good_data(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", "us-east-1"))
    filled.plan("runpod", ("stock", "US"))
    filled.poll("runpod", "stock", "US", sold("US", "1x H100", "1.00"))
    filled.later(minutes=10)
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "p5.4xlarge", "2.00"))
    filled.fail("runpod", "stock", "US", "HTTP 500 from the provider")
    with served(filled) as server:
        answer = server.get("/cheapest?gpu=h100")
    assert (answer["best"]["provider"], answer["best"]["price_per_hour"]) == ("aws", "2")
    assert answer["sources"][1] == {
        "provider": "runpod",
        "feed": "stock",
        "last_success": "2026-11-30T08:00:00Z",
        "age_s": 600,
        "status": "stale",
        "error": "HTTP 500 from the provider",
    }
    filled.engine.dispose()


def test_old_data_is_shown_as_stale_and_the_server_stays_ready(server: Server) -> None:
    server.filled.later(days=43)
    answer = server.get("/cheapest?gpu=v100&region=ap-nanjing")
    assert answer["verdict"] == "unconfirmed"
    assert answer["best"]["native_price"]["stale"] is True
    assert answer["best"]["native_price"]["observed_at"] == "2026-11-30T08:00:00Z"
    assert answer["best"]["stock"]["stale"] is True
    days = timedelta(days=43, seconds=40) // timedelta(seconds=1)
    assert [(source["status"], source["age_s"]) for source in answer["sources"]] == [("stale", days)]
    assert server.get("/providers")["items"][1]["feeds"][0]["age_s"] == days
    metrics = text_string_to_metric_families(server.client.get("/metrics").text)
    assert [family.samples[0].value for family in metrics if family.name == "gpufare_feed_age_seconds"] == [days]
    assert server.get("/readyz")["status"] == "ready"


def test_an_unpriced_machine_is_null_and_never_zero(server: Server) -> None:
    server.filled.plan("runpod", ("stock", "US"))
    server.filled.poll("runpod", "stock", "US", [machine("US", "1x H100"), stock("US", "1x H100")])
    (offer,) = server.get("/offers?gpu=h100")["items"]
    assert (offer["native_price"], offer["price_per_hour"], offer["price_per_gpu_hour"]) == (None, None, None)
    answer = server.get("/cheapest?gpu=h100")
    assert (answer["best"], answer["rejected"]["no_price"]) == (None, 1)


def test_a_question_for_spot_is_never_answered_on_demand(server: Server) -> None:
    answer = server.get("/cheapest?gpu=v100&spot=true")
    assert answer["best"] is None
    assert "no_spot_market" in answer["rejected"]
    both = server.get("/cheapest?gpu=v100&purchase=spot,on_demand")
    assert both["best"]["purchase"] == "on_demand"


def test_another_rate_changes_what_is_converted_and_not_what_is_stored(server: Server) -> None:
    filled = server.filled
    shown = []
    for rate in ("0.14", "0.15"):
        rates = config_for(filled).rates.with_override("CNY/USD", Decimal(rate), date(2026, 11, 28), "settings")
        with served(filled, rates=rates) as other:
            answer = other.get("/cheapest?gpu=v100")
            shown.append((answer["best"]["native_price"]["amount"], answer["best"]["price_per_hour"]))
            assert answer["fx"] == [{"pair": "CNY/USD", "rate": rate, "date": "2026-11-28", "source": "settings"}]
    assert shown == [("8.68", "1.2152"), ("8.68", "1.302")]


def test_prices_are_compared_exact_and_shown_without_rounding_away(server: Server) -> None:
    server.filled.plan("runpod", ("stock", "US"))
    facts = [
        *sold("US", "a", "0.0349"),
        *sold("US", "b", "0.03460000"),
        *sold("US", "c", "3.5E-2"),
        *sold("US", "d", "0.034600001"),
    ]
    server.filled.poll("runpod", "stock", "US", facts)
    answer = server.get("/cheapest?gpu=h100")
    names = [offer["instance_type"] for offer in (answer["best"], *answer["alternatives"])]
    assert names == ["b", "d", "a", "c"]
    amounts = [offer["native_price"]["amount"] for offer in (answer["best"], *answer["alternatives"])]
    assert amounts == ["0.0346", "0.034600001", "0.0349", "0.035"]


def test_a_fraction_of_a_card_is_shown_exactly_with_its_own_memory(server: Server) -> None:
    server.filled.plan("aws", ("stock", "us-east-1"))
    facts = [
        *sold("us-east-1", "quarter", "0.5", gpu="t4", gpu_count=Fraction(1, 4)),
        *sold("us-east-1", "sixth", "0.5", gpu="a10", gpu_count=Fraction(1, 6), memory_mib=55 * 1024 + 512),
    ]
    server.filled.poll("aws", "stock", "us-east-1", facts)
    quarter, sixth = (server.get(f"/offers?instance_type={name}")["items"][0] for name in ("quarter", "sixth"))
    assert (quarter["gpu_count"], quarter["gpu_vram_gib"], quarter["price_per_gpu_hour"]) == ("0.25", 4, "2")
    assert (sixth["gpu_count"], sixth["gpu_vram_gib"], sixth["memory_gib"]) == ("0.1667", 4, "55.5")
    assert (sixth["price_per_hour"], sixth["price_per_gpu_hour"]) == ("0.5", "3")


def test_a_prepaid_price_shows_its_upfront_amount(server: Server) -> None:
    server.filled.plan("aws", ("stock", "us-east-1"))
    upfront = price("us-east-1", "m", "4", purchase=Purchase.RESERVED_1Y, upfront_nanos=35_040 * 10**9, term_months=12)
    server.filled.poll("aws", "stock", "us-east-1", [machine("us-east-1", "m"), upfront])
    (offer,) = server.get("/offers?purchase=reserved_1y")["items"]
    assert offer["native_price"]["upfront"] == {"amount": "35040", "months": 12, "hours": None}


def test_a_time_ahead_of_the_clock_is_stale_and_has_no_negative_age(server: Server) -> None:
    server.filled.later(hours=-2)
    best = server.get("/cheapest?gpu=v100&region=ap-nanjing")["best"]
    assert (best["native_price"]["stale"], best["native_price"]["age_s"]) == (True, 0)
    assert (best["stock"]["stale"], best["stock"]["confirmed"], best["stock"]["age_s"]) == (True, False, 0)
    assert "-" not in server.client.get("/metrics").text.split("gpufare_board_age_seconds ")[1].split()[0]


def test_a_machine_whose_gpu_is_not_known_shows_the_provider_s_own_word(server: Server) -> None:
    server.filled.plan("aws", ("stock", "us-east-1"))
    facts = sold("us-east-1", "x1.large", "1", gpu=None, gpu_raw="NVIDIA X9000")
    server.filled.poll("aws", "stock", "us-east-1", facts)
    (offer,) = server.get("/offers?instance_type=x1.large")["items"]
    assert (offer["gpu"], offer["gpu_name"], offer["gpu_count"]) == (None, "NVIDIA X9000", "1")
    assert (offer["gpu_vram_gib"], offer["nvlink"], offer["stock"]["detail"]) == (None, None, None)


def test_the_shipped_price_list_is_a_source_of_the_answers_that_rest_on_it(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    filled.plan("azure", account=False, off={"prices": "not in this version"})
    load_bundled(filled.engine)
    with served(filled, providers=EVERY) as server:
        answer = server.get("/cheapest?gpu=a100-80g&provider=azure")
        native = answer["best"]["native_price"]
        assert native["source"].startswith("snapshot")
        off, listed = answer["sources"]
        assert (off["feed"], off["status"]) == ("prices", "off")
        assert listed | {"last_success": None, "age_s": None} == {
            "provider": "azure",
            "feed": "snapshot",
            "last_success": None,
            "age_s": None,
            "status": "stale",
            "error": None,
        }
        shown = [answer["best"], *answer["alternatives"]]
        assert listed["last_success"] == min(one["native_price"]["observed_at"] for one in shown)
        assert listed["age_s"] == max(one["native_price"]["age_s"] for one in shown)
        every = server.get("/cheapest?gpu=a100-80g&count=1..")
        shown_of = {one["provider"] for one in (every["best"], *every["alternatives"])}
        assert {one["provider"] for one in every["sources"] if one["feed"] == "snapshot"} == shown_of
    filled.engine.dispose()


def test_an_answer_of_polled_data_alone_names_no_price_list(server: Server) -> None:
    load_bundled(server.filled.engine)
    answer = server.get("/cheapest?gpu=v100&region=ap-nanjing")
    assert answer["best"]["native_price"]["source"] == "a list"
    assert [one["feed"] for one in answer["sources"]] == ["stock"]


def test_what_was_not_polled_yet_is_never_reported_as_not_offered(tmp_path: Path) -> None:
    """The first seconds of a server: nothing read; one place read; all read, and sold in neither."""
    filled = Filled(tmp_path)
    v100: dict[str, Any] = {"gpu": "v100-sxm2-32g"}
    ask = "/cheapest?gpu=v100&region=ap-guangzhou&fallback=ap-chongqing"
    filled.plan("tencent", ("places", ""))
    with served(filled) as server:
        answer = server.get(ask)
        assert answer["verdict"] == "no_source"
        assert [tier["passed_over"] for tier in answer["tiers"]] == ["no_source", "no_source"]
        assert answer["message"].startswith("v100: ap-chongqing, ap-guangzhou were not read yet, so nothing is known")
        (source,) = answer["sources"]
        assert (source["feed"], source["last_success"], source["status"]) == ("places", None, "stale")
        assert source["error"] is not None

        filled.plan("tencent", ("places", ""), ("stock", "ap-guangzhou"), ("stock", "ap-chongqing"))
        filled.poll("tencent", "places", "", [])
        filled.poll("tencent", "stock", "ap-chongqing", sold("ap-chongqing", "GN10", "2", **v100))
        answer = server.get(ask)
        assert (answer["verdict"], answer["best"]["region"]) == ("confirmed", "ap-chongqing")
        assert answer["tiers"][0]["passed_over"] == "no_source"
        assert answer["message"].endswith("; fallback, because ap-guangzhou was not read yet.")
        assert [(one["feed"], one["status"]) for one in answer["sources"]] == [("places", "ok"), ("stock", "stale")]
        assert server.get("/cheapest?gpu=t4&region=ap-guangzhou")["verdict"] == "no_source"
        assert server.get("/cheapest?gpu=t4&region=ap-chongqing")["verdict"] == "no_such_machine"

        filled.poll("tencent", "stock", "ap-guangzhou", sold("ap-guangzhou", "GT4", "1", gpu="t4"))
        answer = server.get(ask)
        assert answer["tiers"][0]["passed_over"] == "not_offered_here"
        assert answer["message"].endswith("; fallback, because no primary place offers it.")
        assert server.get("/cheapest?gpu=v100&region=ap-guangzhou")["verdict"] == "not_offered_here"
        assert [(one["feed"], one["error"]) for one in answer["sources"]] == [("places", None), ("stock", None)]
    filled.engine.dispose()


def test_what_is_not_served_or_states_no_offer_is_not_waited_for(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    filled.plan("tencent", ("stock", "ap-guangzhou"), ("spot", "ap-guangzhou"), ("scores", "ap-guangzhou"))
    filled.poll("tencent", "stock", "ap-guangzhou", sold("ap-guangzhou", "GT4", "1", gpu="t4"))
    ask = "/cheapest?gpu=v100&region=ap-guangzhou"
    with served(filled) as server:
        assert server.get(ask)["verdict"] == "no_source"
        with writing(filled.engine) as connection:
            connection.execute(update(CELLS).where(CELLS.c.feed == "spot").values(status="off"))
        assert server.get(ask)["verdict"] == "no_such_machine"
    filled.engine.dispose()


def test_a_provider_known_by_the_shipped_list_alone_is_listed_with_its_date(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    filled.plan("aws", account=False, off={"prices": "set AWS_ACCESS_KEY_ID"})
    load_bundled(filled.engine)
    with served(filled, providers=EVERY) as server:
        found = {one["provider"]: one for one in server.get("/providers")["items"]}
        assert list(found) == ["alibaba", "aws", "azure", "gcp"]
        for name in ("alibaba", "azure", "gcp"):
            assert (found[name]["account"], found[name]["evidence"]) == (False, ["snapshot"])
            (feed,) = found[name]["feeds"]
            offers = server.get(f"/offers?provider={name}&limit=10000")["items"]
            dates = {one["native_price"]["observed_at"] for one in offers}
            assert feed.pop("last_success") == min(dates)
            assert feed.pop("age_s") > 0
            assert feed == {
                "feed": "snapshot",
                "status": "stale",
                "reason": "list prices shipped with this version; it does not poll this provider",
                "interval_s": None,
                "offers": len(offers),
                "failing": [],
                "notes": {},
            }
        assert [one["feed"] for one in found["aws"]["feeds"]] == ["prices"]
    filled.engine.dispose()


def test_a_provider_that_is_not_in_use_is_answered_nowhere(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    filled.plan("runpod", ("stock", "US"))
    filled.plan("aws", ("stock", "us-east-1"))
    filled.poll("runpod", "stock", "US", sold("US", "1x H100", "1.00"))
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "p5.4xlarge", "2.00"))
    load_bundled(filled.engine)
    with served(filled, providers=frozenset({"aws"})) as server:
        assert server.get("/cheapest?gpu=h100")["best"]["provider"] == "aws"
        assert {one["provider"] for one in server.get("/offers?limit=10000")["items"]} == {"aws"}
        assert [one["provider"] for one in server.get("/providers")["items"]] == ["aws"]
        assert {one["provider"] for one in server.get("/regions")["items"]} == {"aws"}
        for query in ("provider=runpod", "provider=!runpod", "region=runpod:US", "region=eastus"):
            problem = server.refused(f"/cheapest?gpu=h100&{query}")
            assert problem["parameter"] == query.partition("=")[0]
        assert "not in use" in server.refused("/offers?provider=runpod")["detail"]
        assert server.post("/sync", {"providers": ["runpod"]}, 422)["parameter"] == "providers"
    filled.engine.dispose()
