"""Demands that nothing could meet together are refused by name, and what may yet be met is not."""

import pytest

from selector.question import BadQuestion
from tests.support.offers import Here, offer

HERE = Here(
    offers=[
        offer("tencent", "ap-guangzhou"),
        offer("tencent", "ap-hongkong", country="HK"),
        offer("aws", "us-east-1", country="US"),
        offer("aws", "eu-central-1", "eu-central-1a", country="DE"),
        offer("runpod", "somewhere", country=None),
    ]
)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gpu": "mi300x", "vendor": "nvidia"}, "vendor=nvidia and gpu=mi300x contradict"),
        ({"country": "US", "mainland_china": "true"}, "country=US and mainland_china=true contradict"),
        ({"country": "CN", "mainland_china": "false"}, "country=CN and mainland_china=false contradict"),
        ({"region": "us-east-1", "provider": "tencent"}, "region=us-east-1 and provider=tencent contradict"),
        ({"zone": "eu-central-1a", "provider": "tencent"}, "zone=eu-central-1a and provider=tencent contradict"),
        ({"region": "us-east-1", "country": "DE"}, "region=us-east-1 and country=DE contradict"),
        ({"region": "us-east-1", "country": "!US"}, "region=us-east-1 and country=!US contradict"),
    ],
)
def test_what_nothing_can_meet_is_refused_with_both(asked: dict[str, str], said: str) -> None:
    with pytest.raises(BadQuestion, match=said):
        HERE.cheapest(**asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"gpu": "mi300x,a100", "vendor": "nvidia"},
        {"country": "CN,HK", "mainland_china": "false"},
        {"region": "us-east-1,ap-guangzhou", "provider": "tencent"},
        {"region": "us-east-1", "fallback": "ap-guangzhou", "provider": "tencent"},
        {"region": "us-east-1", "fallback": "eu-central-1", "country": "DE"},
        {"region": "runpod:somewhere", "country": "DE"},
    ],
    ids=[
        "one of the models",
        "Hong Kong",
        "one of the regions",
        "a fallback",
        "a fallback's country",
        "unknown country",
    ],
)
def test_what_something_may_meet_is_asked(asked: dict[str, str]) -> None:
    HERE.cheapest(**asked)
