"""Rows as Tencent sends them, and what the collector reads in them."""

import json
from datetime import timedelta
from typing import Any, TypeVar

from catalog.facts import Fact, Machine, Note, Price, Stock
from catalog.words import Level
from collectors.base import Config, Feed, Page
from collectors.registry import provider
from tests.support.contract import SECRET
from tests.support.pages import NOW

T = TypeVar("T")
KEYS = {
    "TENCENTCLOUD_SECRET_ID": f"id-{SECRET}",
    "TENCENTCLOUD_SECRET_KEY": f"key-{SECRET}",
    "TENCENTCLOUD_TOKEN": f"token-{SECRET}",
}
REGION = "ap-test"
ON_DEMAND, SPOT, PREPAID = "POSTPAID_BY_HOUR", "SPOTPAID", "PREPAID"
JSON = {"Content-Type": "application/json"}
JSON_UTF8 = {"Content-Type": "application/json; charset=utf-8"}


def config(site: str | None = "cn", **endpoints: str) -> Config:
    return Config(KEYS, (), site, endpoints, timeout=timedelta(seconds=5))


def feed(name: str, settings: Config | None = None) -> Feed:
    return {one.name: one for one in provider("tencent", settings or config()).feeds()}[name]


def row(**said: Any) -> dict[str, Any]:
    """A whole V100 that is for sale at 80 an hour, and what is said otherwise of it; `...` drops a field."""
    usual = {
        "Zone": "ap-test-1",
        "InstanceType": "GN10Xp.2XLARGE40",
        "InstanceFamily": "GN10Xp",
        "InstanceChargeType": ON_DEMAND,
        "Cpu": 10,
        "Memory": 40,
        "Gpu": 1,
        "GpuCount": 1.0,
        "Status": "SELL",
        "StatusCategory": "NormalStock",
        "SoldOutReason": "",
        "Price": price(UnitPrice=80.0, UnitPriceDiscount=80.0),
    }
    return {name: value for name, value in (usual | said).items() if value is not ...}


def price(**said: Any) -> dict[str, Any]:
    return {"ChargeUnit": "HOUR", "OriginalPrice": None, "DiscountPrice": None, **said}


def stock(*rows: dict[str, Any], part: str = ON_DEMAND, site: str = "cn") -> list[Fact | Note]:
    """What the stock feed reads in these rows of one charge type."""
    body = {"Response": {"InstanceTypeQuotaSet": list(rows), "RequestId": "r"}}
    page = Page("quotas", json.dumps(body).encode(), NOW, REGION, part)
    return list(feed("stock", config(site)).parse(page))


def machines(*rows: dict[str, Any]) -> list[Fact | Note]:
    body = {"Response": {"InstanceTypeConfigSet": list(rows), "RequestId": "r"}}
    return list(feed("machines").parse(Page("types", json.dumps(body).encode(), NOW, REGION)))


def kind(**said: Any) -> dict[str, Any]:
    """A row of DescribeInstanceTypeConfigs: one whole GPU, and what else is said of it."""
    return {"Zone": "ap-test-1", "CPU": 8, "Memory": 32, "GPU": 1, "GpuCount": 1, **said}


def of(what: type[T], items: list[Fact | Note]) -> list[T]:
    return [item for item in items if isinstance(item, what)]


def priced(*rows: dict[str, Any], part: str = ON_DEMAND, site: str = "cn") -> list[tuple[str, int, int | None, str]]:
    """(purchase, nano-units an hour, the same before discounts, currency) of each price."""
    prices = of(Price, stock(*rows, part=part, site=site))
    return [(one.purchase.value, one.nanos, one.list_nanos, one.currency) for one in prices]


def levels(*rows: dict[str, Any], part: str = ON_DEMAND) -> list[tuple[str | None, Level]]:
    return [(one.zone, one.level) for one in of(Stock, stock(*rows, part=part))]


def models(*rows: dict[str, Any]) -> list[tuple[str | None, int | None]]:
    """(accelerator, MiB of each) of each machine in the list of machines."""
    return [(one.gpu, one.vram_mib) for one in of(Machine, machines(*rows))]
