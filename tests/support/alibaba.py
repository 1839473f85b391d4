"""Rows as Alibaba sends them, and what the collector reads in them."""

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeVar

from catalog.facts import Fact, Machine, Note, Price, Stock
from catalog.words import Level
from collectors.base import Cell, Config, Feed, Page
from collectors.registry import provider
from tests.support.contract import SECRET
from tests.support.pages import NOW

T = TypeVar("T")
Json = dict[str, Any]
KEYS = {
    "ALIBABA_CLOUD_ACCESS_KEY_ID": f"id-{SECRET}",
    "ALIBABA_CLOUD_ACCESS_KEY_SECRET": f"key-{SECRET}",
    "ALIBABA_CLOUD_SECURITY_TOKEN": f"token-{SECRET}",
}
REGION, ZONE = "cn-test-1", "cn-test-1a"
TYPE = "ecs.gn7i-c8g1.2xlarge"
JSON = {"Content-Type": "application/json;charset=utf-8"}
FEEDS = ("places", "machines", "stock", "prices", "spot", "scores")


def config(site: str | None = "cn", **endpoints: str) -> Config:
    return Config(KEYS, (), site, endpoints, timeout=timedelta(seconds=5))


def feed(name: str, settings: Config | None = None) -> Feed:
    return {one.name: one for one in provider("alibaba", settings or config()).feeds()}[name]


def cell(name: str, region: str = REGION, part: str = "") -> Cell:
    """A cell of a feed as the planner makes it, of the machine `TYPE` where it is by machine."""
    parts = {"stock": "PostPaid", "prices": TYPE, "spot": TYPE}
    return Cell("alibaba", name, "" if name == "places" else region, part or parts.get(name, ""))


def read(name: str, body: object, *, part: str = "", site: str = "cn", title: str = "page") -> list[Fact | Note]:
    """What a feed reads in this JSON."""
    where = cell(name, part=part)
    return list(feed(name, config(site)).parse(Page(title, json.dumps(body).encode(), NOW, where.place, where.part)))


def of(what: type[T], items: Iterable[Fact | Note]) -> list[T]:
    return [item for item in items if isinstance(item, what)]


def words(status: object, category: object) -> Json:
    return {name: word for name, word in (("Status", status), ("StatusCategory", category)) if word is not ...}


def zone(*rows: Json, name: str = ZONE, status: object = "Available", category: object = "WithStock") -> Json:
    """A zone with these machines; `...` drops a word."""
    resource = {"Type": "InstanceType", "SupportedResources": {"SupportedResource": list(rows)}}
    where = {"RegionId": REGION, "ZoneId": name, **words(status, category)}
    return where | {"AvailableResources": {"AvailableResource": [resource]}}


def row(value: object = TYPE, status: object = "Available", category: object = "WithStock") -> Json:
    return {"Value": value, **words(status, category)}


def stock(*zones: Json, part: str = "PostPaid") -> list[Fact | Note]:
    return read("stock", {"RequestId": "r", "AvailableZones": {"AvailableZone": list(zones)}}, part=part)


def levels(*zones: Json) -> dict[tuple[str | None, str], Level]:
    return {(one.zone, one.instance_type): one.level for one in of(Stock, stock(*zones))}


def kind(name: str, **said: Any) -> Json:
    """A machine with one whole A10 of 24 GiB, unless something else is said of it; `...` drops a field."""
    usual = {
        "InstanceTypeId": name,
        "InstanceTypeFamily": f"ecs.{name.split('.')[1].split('-')[0]}",
        "InstanceCategory": "Compute-optimized with GPU",
        "CpuCoreCount": 8,
        "MemorySize": 30.0,
        "GPUAmount": 1,
        "GPUSpec": "NVIDIA A10",
        "GPUMemorySize": 24.0,
        "EriQuantity": 0,
    }
    return {field: value for field, value in (usual | said).items() if value is not ...}


def machine(name: str, **said: Any) -> Machine:
    (found,) = of(Machine, machines(kind(name, **said)))
    return found


def machines(*rows: Json) -> list[Fact | Note]:
    return read("machines", {"RequestId": "r", "NextToken": "", "InstanceTypes": {"InstanceType": list(rows)}})


def part(resource: str = "instanceType", **amounts: object) -> Json:
    return {"Resource": resource, "SubRules": {"Rule": []}, **amounts}


def price(*parts: Json, **said: Any) -> Json:
    """An answer of DescribePrice in CNY: the whole costs 9.815, with these parts; `...` drops a field."""
    usual: Json = {"Currency": "CNY", "OriginalPrice": 9.815, "DiscountPrice": 0.0, "TradePrice": 9.815}
    detail: Json = {"DetailInfos": {"DetailInfo": list(parts)}} if parts else {}
    whole = {field: value for field, value in (usual | detail | said).items() if value is not ...}
    return {"RequestId": "r", "PriceInfo": {"Price": whole, "Rules": {"Rule": []}}}


def priced(body: Json, *, unit: str = "Hour", site: str = "cn") -> list[Fact | Note]:
    return read("prices", body, site=site, title=f"DescribePrice {REGION} {TYPE} {unit}")


def spot_row(at: str, amount: object, **said: Any) -> Json:
    usual: Json = {"ZoneId": ZONE, "InstanceType": TYPE, "NetworkType": "vpc", "IoOptimized": "optimized"}
    usual |= {"Timestamp": at, "SpotPrice": amount, "OriginPrice": 80.0}
    return {field: value for field, value in (usual | said).items() if value is not ...}


def spot(*rows: Json, currency: object = "CNY", site: str = "cn") -> list[Fact | Note]:
    body = {"Currency": currency, "NextOffset": 0, "SpotPrices": {"SpotPriceType": list(rows)}}
    return read("spot", body, site=site)


def amounts(items: Iterable[Fact | Note]) -> list[tuple[str, int, str]]:
    """(purchase, nano-units an hour, currency) of each price."""
    return [(one.purchase.value, one.nanos, one.currency) for one in of(Price, items)]
