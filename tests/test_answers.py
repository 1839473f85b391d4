"""What answers say: exact amounts, ages, and what is not known."""

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog.words import Purchase
from tests.support.filled import Filled, Server, config_for, machine, price, served, sold, stock, v100_at_tencent


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
        "billing": None,
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
        "status": "failing",
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
    assert offer["native_price"]["upfront"] == {"amount": "35040", "months": 12}
