"""Examples for the documentation. The values are invented; their shapes are checked by a test."""

from typing import Any

import msgspec

from api import recommend_example, watch_examples
from api.recommend_shapes import RecommendShape
from api.shapes import (
    CheapestShape,
    LaunchRequest,
    LaunchTaken,
    OffersShape,
    PriceHistoryShape,
    ProvidersShape,
    StockHistoryShape,
    SyncRequest,
    SyncStarted,
)
from selector.nearness import FORMULA

_OFFER: dict[str, Any] = {
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
        "source": "DescribeZoneInstanceConfigInfos",
        "estimated": False,
    },
    "price_per_hour": "1.2057",
    "price_per_gpu_hour": "1.2057",
    "currency": "USD",
    "job_cost": None,
    "billing": None,
    "stock": {
        "level": "in_stock",
        "evidence": "reported",
        "confirmed": True,
        "detail": "EnoughStock",
        "score": None,
        "quantity": None,
        "observed_at": "2026-11-30T08:00:00Z",
        "age_s": 40,
        "stale": False,
    },
    "tier": 1,
    "window": None,
}
_TIER = {"tier": 0, "regions": ["ap-guangzhou"], "matching": 4, "confirmed": 0, "out": 4, "unknown": 0, "stale": 0}
_NEAR = _TIER | {
    "tier": 1,
    "regions": ["ap-nanjing"],
    "matching": 1,
    "confirmed": 1,
    "out": 0,
    "passed_over": None,
    "estimated_rtt_ms": 23,
    "estimate": {"rtt_ms": 23, "distance_km": 1133, "from": "tencent:ap-guangzhou", "formula": FORMULA},
}
_FEED = {"feed": "stock", "last_success": "2026-11-30T08:00:00Z", "age_s": 40, "status": "ok"}
_SERIES = {"provider": "tencent", "region": "ap-nanjing", "zone": "ap-nanjing-1", "instance_type": "GN10Xp.2XLARGE40"}
_OF_SERIES = {
    "zone_id": None,
    "gpu": "v100-sxm2-32g",
    "gpu_count": "1",
    "observed": [{"from": "2026-11-23T08:00:00Z", "to": "2026-11-30T08:00:00Z"}],
}
_PAGE = {"total": 1, "next": None, "from": "2026-11-23T08:00:00Z", "to": "2026-11-30T08:00:00Z"}

ANSWERS: dict[type[msgspec.Struct], dict[str, Any]] = {
    CheapestShape: {
        "verdict": "confirmed",
        "message": "1 x NVIDIA Tesla V100 SXM2 32GB, GN10Xp.2XLARGE40 at tencent ap-nanjing-1: 1.2057 USD (8.68 CNY) "
        "per hour, on-demand, in stock (reported 40 s ago); fallback (about 23 ms from ap-guangzhou, estimated), "
        "because ap-guangzhou is out of stock.",
        "best": _OFFER,
        "unconfirmed": None,
        "alternatives": [],
        "query": {"gpu": ["v100-sxm2-32g"], "region": ["tencent:ap-guangzhou"], "fallback": [["tencent:ap-nanjing"]]},
        "fallback_used": True,
        "tiers": [_TIER | {"passed_over": "out_of_stock", "estimated_rtt_ms": None, "estimate": None}, _NEAR],
        "rejected": {},
        "nearest_misses": [],
        "fix": None,
        "sources": [{"provider": "tencent"} | _FEED | {"error": None}],
        "fx": [{"pair": "CNY/USD", "rate": "0.1389", "date": "2026-11-28", "source": "ECB"}],
        "as_of": "2026-11-30T08:00:40Z",
    },
    OffersShape: {"items": [_OFFER], "total": 1, "next": None},
    ProvidersShape: {
        "items": [
            {
                "provider": "tencent",
                "account": True,
                "evidence": ["reported"],
                "feeds": [_FEED | {"reason": None, "interval_s": 60, "offers": 812, "failing": [], "notes": {}}],
            }
        ]
    },
    PriceHistoryShape: {
        "items": [
            _SERIES
            | {
                "purchase": "on_demand",
                "points": [
                    {"at": "2026-10-02T04:11:00Z", "amount": "9.1", "currency": "CNY"},
                    {"at": "2026-11-27T00:00:30Z", "amount": "8.68", "currency": "CNY"},
                ],
                "shares": None,
            }
            | _OF_SERIES
        ]
    }
    | _PAGE,
    StockHistoryShape: {
        "items": [
            _SERIES
            | {
                "purchase": "on_demand",
                "points": [
                    {"at": "2026-11-22T23:10:00Z", "level": "in_stock", "evidence": "reported"},
                    {"at": "2026-11-28T08:00:00Z", "level": "out", "evidence": "reported"},
                ],
                "shares": {"in_stock": "0.7143", "low": "0", "out": "0.2857", "unknown": "0", "unobserved": "0"},
            }
            | _OF_SERIES
        ]
    }
    | _PAGE,
    SyncStarted: {"cells": 12},
    LaunchTaken: {
        "id": "4f0c2a6de7c14f0f8a55b3a1f4c0f9b2",
        "effect": "out until 2026-11-30T08:30:40Z",
        "reason": "InsufficientInstanceCapacity is a capacity error: nothing was free there",
    },
}
ANSWERS[RecommendShape] = recommend_example.example(ANSWERS[CheapestShape])
ANSWERS |= watch_examples.ANSWERS

BODIES: dict[type[msgspec.Struct], dict[str, Any]] = {
    SyncRequest: {"providers": ["tencent"], "feeds": ["stock"]},
    LaunchRequest: {
        "provider": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_type": "p5.48xlarge",
        "purchase": "on_demand",
        "outcome": "error",
        "code": "InsufficientInstanceCapacity",
    },
}
BODIES |= watch_examples.BODIES
