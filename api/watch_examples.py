"""Examples of watches and targets for the documentation. The values are invented."""

from typing import Any

import msgspec

from api.watch_shapes import (
    Applied,
    ApplyRequest,
    DeliveriesShape,
    DeliveryShape,
    StartedTest,
    TargetChange,
    TargetMade,
    TargetRequest,
    TargetsShape,
    WatchChange,
    WatchesShape,
    WatchRequest,
    WatchShape,
)

_WATCH_ID = "w_3f2a9c0d1e4b5a67"
_DELIVERY_ID = "d_0a1b2c3d4e5f60718293a4b5c6d7e8f9"
_SPEC = {"gpu": "v100", "region": "ap-guangzhou", "fallback": "ap-nanjing,ap-chongqing"}
_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - the one of the specification
_TARGET: dict[str, Any] = {
    "name": "ops",
    "format": "standard",
    "url": "https://example.com/…masked",
    "has_secret": True,
    "keyword": None,
    "lang": "en",
    "status": "ok",
    "why": None,
    "managed": False,
    "created_at": "2026-11-30T08:00:00Z",
    "warnings": [],
}
_WATCH: dict[str, Any] = {
    "id": _WATCH_ID,
    "name": "v100 guangzhou",
    "spec": _SPEC,
    "query": {"gpu": ["v100-sxm2-32g"], "region": ["tencent:ap-guangzhou"], "fallback": [["tencent:ap-nanjing"]]},
    "notify": ["ops"],
    "events": ["stock.out", "stock.back", "price.below"],
    "price_below": "1.80",
    "hold": "2m",
    "hold_back": "0s",
    "remind": "6h",
    "heartbeat": None,
    "change_percent": "1",
    "daily_cap": None,
    "expires_at": None,
    "paused": False,
    "managed": False,
    "created_at": "2026-11-30T08:00:00Z",
    "state": "out",
    "seen": "out",
    "since": "2026-11-30T08:02:10Z",
    "last_event": {"id": "evt_5d1c0b9a8f7e4d3c2b1a09f8e7d6c5b4", "type": "stock.out", "at": "2026-11-30T08:04:10Z"},
    "warnings": [],
}
_DELIVERY: dict[str, Any] = {
    "id": _DELIVERY_ID,
    "event_id": "evt_5d1c0b9a8f7e4d3c2b1a09f8e7d6c5b4",
    "type": "stock.out",
    "target": "ops",
    "status": "pending",
    "attempts": 2,
    "next_at": "2026-11-30T08:04:25Z",
    "last_status": 503,
    "last_error": "HTTP 503: to be tried again",
    "at": "2026-11-30T08:04:10Z",
}

ANSWERS: dict[type[msgspec.Struct], dict[str, Any]] = {
    TargetsShape: {"items": [_TARGET]},
    TargetMade: _TARGET | {"secret": _SECRET},
    StartedTest: {"deliveries": [_DELIVERY_ID]},
    WatchShape: _WATCH,
    WatchesShape: {"items": [_WATCH]},
    DeliveryShape: _DELIVERY,
    DeliveriesShape: {"items": [_DELIVERY]},
    Applied: {
        "dry_run": False,
        "changes": [
            {"kind": "watch", "name": "v100 guangzhou", "change": "changed", "fields": ["hold"], "id": _WATCH_ID},
        ],
        "unchanged": 1,
        "warnings": [],
    },
}
_NEW_TARGET = {"name": "ops", "format": "standard", "url": "https://example.com/hook", "lang": "en"}
_NEW_WATCH = {
    "name": "v100 guangzhou",
    "spec": _SPEC,
    "notify": ["ops"],
    "events": ["stock.out", "stock.back", "price.below"],
    "price_below": "1.80",
    "hold": "2m",
    "remind": "6h",
}

BODIES: dict[type[msgspec.Struct], dict[str, Any]] = {
    TargetRequest: _NEW_TARGET,
    TargetChange: {"url": "https://example.com/another"},
    WatchRequest: _NEW_WATCH,
    WatchChange: {"hold": "5m", "events": ["stock.out", "stock.back"]},
    ApplyRequest: {"targets": [_NEW_TARGET | {"secret": _SECRET}], "watches": [_NEW_WATCH], "dry_run": True},
}
