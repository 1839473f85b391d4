"""A new installation without credentials: what is asked of a cloud that is off is answered with what to set."""

from collections.abc import Iterator
from typing import Any

import pytest

from collectors.registry import PROVIDERS
from store.snapshot import load_bundled
from tests.support.endtoend import Gpufare, gpufare, real


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpufare]:
    """Every provider as it is without any setting, beside the shipped price list; nothing was polled."""
    made = [real(name, environ={}) for name in sorted(PROVIDERS)]
    with gpufare(tmp_path_factory.mktemp("off"), *made) as running:
        load_bundled(running.engine)
        running.plan()
        yield running


def off(answer: Any) -> set[str]:
    return {source["provider"] for source in answer["sources"] if source["status"] == "off"}


@pytest.mark.parametrize(
    ("query", "provider", "told"),
    [
        (
            "gpu=v100&region=ap-guangzhou",
            "tencent",
            "nothing is known of ap-guangzhou: tencent is off there (set TENCENT",
        ),
        ("gpu=v100&provider=tencent", "tencent", "nothing is known of tencent: it is off (set TENCENTCLOUD_SECRET_ID"),
        ("gpu=v100&provider=ucloud", "ucloud", "nothing is known of ucloud: it is off (set UCLOUD_PUBLIC_KEY"),
        (
            "gpu=h100&region=aws:eu-west-1",
            "aws",
            "nothing is known of eu-west-1: aws is off there (set AWS_ACCESS_KEY_",
        ),
    ],
)
def test_what_is_asked_of_a_cloud_that_is_off_is_not_known(app: Gpufare, query: str, provider: str, told: str) -> None:
    answer = app.cheapest(query)
    assert (answer["verdict"], answer["tiers"][0]["passed_over"]) == ("no_source", "no_source")
    assert told in answer["message"]
    assert off(answer) == {provider}
    reasons = {source["error"] for source in answer["sources"] if source["status"] == "off"}
    assert all(reason.startswith("set ") for reason in reasons)


def test_a_place_of_which_the_shipped_list_tells_is_known(app: Gpufare) -> None:
    assert app.cheapest("gpu=h100&region=aws:us-east-1")["verdict"] == "unconfirmed"
    assert app.cheapest("gpu=l4&region=alibaba:cn-wulanchabu")["verdict"] == "not_offered_here"


def test_the_fleet_answers_where_no_place_is_asked_for(app: Gpufare) -> None:
    answer = app.cheapest("gpu=v100")
    assert answer["verdict"] == "unconfirmed"
    assert "tencent" not in off(answer)


def test_a_feed_that_is_not_needed_makes_no_provider_one_that_is_off(app: Gpufare) -> None:
    answer = app.cheapest("gpu=gb300&provider=runpod")
    assert "runpod was not read yet" in answer["message"]
    assert "off" not in answer["message"]
