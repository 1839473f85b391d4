"""AWS's prices by the query API of its price list, for who cannot reach the file host: the same facts as from the file.

Call (AWSPriceListService 2017-10-15, through boto3): GetProducts. Its shape: botocore 1.44.8; that of a product, which
is JSON within a string: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
The products become rows with the names of the file's columns, which `aws_prices.py` reads.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import ClassVar

from catalog.facts import Fact, Note
from collectors.aws_ec2 import Client, partition
from collectors.aws_feed import require_ours
from collectors.aws_machine import is_accelerated
from collectors.aws_prices import LINUX, Row, facts_of_rows
from collectors.base import PAGE_BYTES, AuthFailed, Cell, Config, Drift, Limit, NotServed, Page, ProviderError
from collectors.http import MAX_BODY_BYTES
from collectors.reading import JsonValue, Record, record_of, shown

SOURCE = "GetProducts"
HOMES = {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}
"""The region of each partition that answers for all of its own."""
LIMIT = Limit("aws:pricing", 5.0)
"""What AWS lets through an account: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-list-quotas.html"""
ATTRIBUTES = {
    "Location Type": "locationType",
    "Operating System": "operatingSystem",
    "License Model": "licenseModel",
    "CapacityStatus": "capacitystatus",
    "Tenancy": "tenancy",
    "Instance Type": "instanceType",
    "Instance Family": "instanceFamily",
    "Region Code": "regionCode",
    "operation": "operation",
    "MarketOption": "marketoption",
    "Pre Installed S/W": "preInstalledSw",
    "vCPU": "vcpu",
    "Memory": "memory",
    "GPU": "gpu",
}
"""The file's columns, and what the API calls the same."""
TERM = ("LeaseContractLength", "PurchaseOption", "OfferingClass")
ASKED: tuple[Mapping[str, str], ...] = (
    {"productFamily": "Compute Instance", "tenancy": "Shared"},
    {"productFamily": "Compute Instance (bare metal)"},
)
"""A question's filters must all be met, so that each way in which a machine is sold is a question of its own."""


class Pricing(Client):
    """The query API, in the one region of a partition that has it."""

    service: ClassVar[str] = "pricing"
    title: ClassVar[str] = "the price list's query API"
    form: ClassVar[str] = "JSON"

    def _refused(self, said: AuthFailed) -> ProviderError:
        """No region of it has to be enabled first."""
        return said


def queried(config: Config, cell: Cell, now: datetime) -> Iterator[Page]:
    """The products of a region that may be Linux machines, sorted by type, all of a type in one page."""
    require_ours(config, cell.place)
    home = HOMES.get(partition(cell.place))
    if home is None:
        told = f"aws: {partition(cell.place)} has no query API of prices, so that {cell.place} is not read"
        raise NotServed(f"{told}; set GPUFARE_PROVIDERS__AWS__PRICE_SOURCE=list")
    name = f"{SOURCE} {cell.place}"
    pricing = Pricing(config, home, now)
    products = [product for asked in ASKED for product in _products(pricing, cell.place, asked)]
    if not products:
        said = f"aws {name}: no product at all, which no region has; is its name right?"
        raise Drift(said, Page(name, b"[]", now, cell.place))
    if sum(map(len, products)) > MAX_BODY_BYTES:
        raise Drift(f"aws {name}: {len(products)} products are far more than a region has")
    for body in _cut(sorted((_type_of(text), text) for text in products)):
        yield Page(name, body, now, cell.place)


def _products(pricing: Pricing, region: str, asked: Mapping[str, str]) -> list[str]:
    wanted = {ATTRIBUTES[column]: value for column, value in LINUX.items()}
    wanted |= {"regionCode": region, "preInstalledSw": "NA", **asked}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    found = pricing.listing(
        "get_products",
        "PriceList",
        ServiceCode="AmazonEC2",
        FormatVersion="aws_v1",
        MaxResults=100,
        Filters=filters,
    )
    return [text for text in found if isinstance(text, str)]


def _type_of(text: str) -> str:
    """The instance type by which a product is put with the others of it; "" for what is none."""
    try:
        return str(json.loads(text)["product"]["attributes"]["instanceType"]).strip()
    except (ValueError, RecursionError, LookupError, TypeError):
        return ""  # what it is, or that it is nothing, is said where it is read


def _cut(products: list[tuple[str, str]]) -> Iterator[bytes]:
    """Bodies of about a page's size, cut between instance types."""
    some: list[str] = []
    size = 0
    for _, of_type in groupby(products, key=itemgetter(0)):
        texts = [text for _, text in of_type]
        more = sum(map(len, map(json.dumps, texts)))
        if some and size + more > PAGE_BYTES:
            yield _body(some)
            some, size = [], 0
        some += texts
        size += more
    yield _body(some)


def _body(products: list[str]) -> bytes:
    return json.dumps({"PriceList": products}).encode()


def facts_of_products(page: Page) -> Iterator[Fact | Note]:
    """What the file's rows of the same products state."""
    found = list(_rows(page))
    yield from (one for one in found if isinstance(one, Note))
    yield from facts_of_rows(page, [one for one in found if not isinstance(one, Note)], SOURCE)


def _rows(page: Page) -> Iterator[Row | Note]:
    """A row for each price of a product. A reserved one of a machine without an accelerator is of no interest."""
    for number, text in enumerate(record_of(page).items("PriceList")):
        if not isinstance(text, str):
            raise Drift(f"{page.name}: product {number} is not text but {shown(text)}", page)
        product = record_of(replace(page, name=f"{page.name} product {number}", body=text.encode()))
        attributes, terms = _attributes(product.record("product")), product.record_or_none("terms")
        rows = list(_of_terms(attributes, terms)) if terms else []
        instance_type = attributes["Instance Type"]
        if not rows:
            yield Note("no_terms", instance_type, record=True)
        for row in rows:
            accelerated = is_accelerated(instance_type) or attributes["Instance Family"] == "GPU instance"
            without = row["TermType"] == "Reserved" and not accelerated
            yield Note("reserved_without_accelerator", instance_type, record=True) if without else row


def _attributes(product: Record) -> dict[str, str]:
    attributes = product.record("attributes")
    said = {column: attributes.text_or_none(name) or "" for column, name in ATTRIBUTES.items()}
    return said | {"Product Family": product.text_or_none("productFamily") or ""}


def _of_terms(attributes: Mapping[str, str], terms: Record) -> Iterator[Row]:
    for kind in ("OnDemand", "Reserved"):
        for term in _members(terms, kind):
            told = term.record_or_none("termAttributes")
            lease = {name: (told.text_or_none(name) if told else None) or "" for name in TERM}
            for dimension in _members(term, "priceDimensions"):
                unit, amounts = dimension.text_or_none("unit") or "", dimension.raw("pricePerUnit", {})
                for currency, amount in _amounts(amounts, dimension):
                    priced = {"TermType": kind, "Unit": unit, "PricePerUnit": amount, "Currency": currency}
                    yield {**attributes, **lease, **priced}


def _members(record: Record, name: str) -> Iterator[Record]:
    """The objects of an object whose names are codes."""
    holder = record.raw(name, {})
    if not isinstance(holder, dict):
        raise record.drift(f"{name} is not an object but {shown(holder)}")
    return (record.inside(value, f"{name}.{code:.60}") for code, value in holder.items())


def _amounts(amounts: JsonValue, dimension: Record) -> Iterator[tuple[str, str]]:
    """(currency, amount) as stated; nothing of either is a row all the same, which is noted as none."""
    if not isinstance(amounts, dict):
        raise dimension.drift(f"pricePerUnit is not an object but {shown(amounts)}")
    for currency, amount in amounts.items() or [("", "")]:
        yield currency, amount if isinstance(amount, str) else ""
