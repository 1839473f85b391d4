"""One event of each type, as the evaluator may write them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from api.examples import ANSWERS
from api.shapes import OffersShape
from catalog.watches import Event, EventType

AT = datetime(2026, 11, 30, 8, 2, 31, tzinfo=UTC)
SINCE = "2026-11-30T08:00:31Z"
NANJING: Mapping[str, Any] = ANSWERS[OffersShape]["items"][0]
GUANGZHOU = {
    **NANJING,
    "region": "ap-guangzhou",
    "region_name": "Guangzhou",
    "zone": "ap-guangzhou-3",
    "stock": NANJING["stock"] | {"level": "out", "confirmed": False, "detail": "SoldOut"},
    "tier": 0,
}
STALE = {
    **GUANGZHOU,
    "zone": "ap-guangzhou-4",
    "native_price": None,
    "price_per_hour": None,
    "price_per_gpu_hour": None,
    "stock": NANJING["stock"] | {"confirmed": False, "stale": True, "observed_at": "2026-11-29T23:59:59Z"},
}
WATCH = {
    "id": "w1",
    "name": "v100 guangzhou",
    "spec": {"gpu": "v100", "region": "ap-guangzhou", "fallback": "ap-nanjing,ap-chongqing", "currency": "USD"},
    "price_below": "1.80",
}
BARE: Mapping[str, Any] = {
    "provider": "aws",
    "region": "us-east-1",
    "instance_type": "p5.48xlarge",
    "purchase": "on_demand",
    **dict.fromkeys(("site", "upstream", "region_name", "country", "mainland_china", "zone", "zone_id", "gpu")),
    **dict.fromkeys(("gpu_name", "gpu_count", "gpu_vram_gib", "nvlink", "vcpus", "memory_gib", "native_price")),
    **dict.fromkeys(("price_per_hour", "price_per_gpu_hour", "job_cost", "billing", "tier", "window")),
    "currency": "USD",
    "stock": {"level": "unknown", "evidence": "listed", "confirmed": False, "detail": None, "observed_at": SINCE},
}
"""An offer of which as little is known as there can be."""


def _stock(before: str, after: str, offers: list[object], fallback: object = None) -> dict[str, object]:
    facts = {"before": before, "after": after, "since": SINCE}
    return {"watch": WATCH, **facts, "offers": offers, "unknown": [], "fallback": fallback}


_SOURCE = {"provider": "tencent", "feed": "stock", "last_success": "2026-11-30T07:00:00Z", "age_s": 3751}
DATA: Mapping[EventType, Mapping[str, object]] = {
    EventType.STOCK_OUT: _stock("available", "out", [GUANGZHOU], NANJING) | {"unknown": [STALE]},
    EventType.STOCK_LOW: _stock("available", "available", [{**NANJING, "stock": NANJING["stock"] | {"level": "low"}}]),
    EventType.STOCK_BACK: _stock("out", "available", [NANJING]),
    EventType.PRICE_BELOW: _stock("available", "available", [NANJING]),
    EventType.PRICE_CHANGED: _stock("1.31", "1.2057", [NANJING]),
    EventType.BEST_CHANGED: _stock("", "", [NANJING]) | {"before": GUANGZHOU, "after": NANJING},
    EventType.SOURCE_STALE: {"watch": WATCH, "since": SINCE, "sources": [{**_SOURCE, "error": "no answer in time"}]},
    EventType.SOURCE_BACK: {"watch": WATCH, "since": SINCE, "sources": [{**_SOURCE, "error": None}]},
    EventType.REMINDER: _stock("out", "out", [GUANGZHOU], NANJING),
    EventType.SUMMARY: {"watch": WATCH, "held": [{"type": "stock.out"}, {"type": "stock.back"}, {"type": "stock.out"}]},
    EventType.HEARTBEAT: {"watch": WATCH, "state": "available", "since": SINCE},
    EventType.EXPIRED: {"watch": WATCH},
    EventType.TARGET_DEAD: {"watch": None, "target": "ops", "why": "HTTP 410: the address is dead"},
    EventType.TEST: {"watch": None},
}


def event(kind: EventType, **more: object) -> Event:
    """The event of a type, with more or other data."""
    return Event(f"evt_{kind}", kind, AT, {**DATA[kind], **more})


def grouped(kind: EventType) -> Event:
    """A provider suddenly says all in, or all out."""
    watches = [{"id": f"w{n}", "name": f"watch {n}"} for n in range(14)]
    data = {"watch": None, "suspicious": True, "provider": "tencent", "watches": watches, "since": SINCE}
    return Event("evt_grouped", kind, AT, data)


EVERY_EVENT = [*map(event, EventType), grouped(EventType.STOCK_OUT), grouped(EventType.STOCK_BACK)]
HOSTILE = (
    '@everyone <@all> <!channel> <at user_id="all"></at> *b* `c` [l](http://evil.example) &amp;'
    "\n# h\x00\x1b[31m\u202e```"
)
"""A name that tries everything."""


def named(kind: EventType, name: str) -> Event:
    """An event in which every name is this one."""
    offer = {**NANJING, "gpu_name": name, "region_name": name, "zone": name, "instance_type": name}
    return event(kind, watch={**WATCH, "name": name}, offers=[offer], unknown=[offer], fallback=offer, why=name)


def longest(kind: EventType, text: str) -> Event:
    """An event that says more than any chat room takes, all of it in this text."""
    offer = {**NANJING, "gpu_name": text * 200, "region_name": text * 200, "zone": text * 200}
    sources = [{"provider": text * 200, "feed": text * 200, "error": text * 200}] * 300
    held = {f"{text * 8}{n}": n for n in range(4000)}
    return event(kind, offers=[offer] * 300, unknown=[offer] * 300, fallback=offer, sources=sources, held=held)
