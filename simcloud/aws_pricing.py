"""The query API of AWS's price list, JSON 1.1: the products of the bulk file, each as JSON within a string."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from simcloud.wire import Reply, Request

TARGET = "AWSPriceListService."
_MEDIA_TYPE = "application/x-amz-json-1.1"
_ATTRIBUTES = {
    "Location": "location",
    "Location Type": "locationType",
    "Instance Type": "instanceType",
    "Current Generation": "currentGeneration",
    "Instance Family": "instanceFamily",
    "vCPU": "vcpu",
    "Physical Processor": "physicalProcessor",
    "Memory": "memory",
    "Processor Architecture": "processorArchitecture",
    "Tenancy": "tenancy",
    "Operating System": "operatingSystem",
    "License Model": "licenseModel",
    "usageType": "usagetype",
    "operation": "operation",
    "CapacityStatus": "capacitystatus",
    "GPU": "gpu",
    "MarketOption": "marketoption",
    "Pre Installed S/W": "preInstalledSw",
    "Region Code": "regionCode",
    "serviceName": "servicename",
}
_MOST = 100


class PricingError(Exception):
    """An error the API answers, with its HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def action(request: Request) -> str:
    """Return the operation that a request names; "" where it is none of this service."""
    target = request.headers.get("x-amz-target", "")
    return target.removeprefix(TARGET) if target.startswith(TARGET) else ""


def answer(request: Request, lines: Iterable[Mapping[str, str]], published: str) -> Reply:
    """Answer GetProducts from lines of the bulk file."""
    try:
        return _reply(200, _products(json.loads(request.body), lines, published))
    except PricingError as refusal:
        return error(refusal.code, str(refusal), refusal.status)


def error(code: str, message: str, status: int) -> Reply:
    """Return the service's JSON error."""
    return _reply(status, {"__type": code, "message": message})


def _products(asked: Mapping[str, Any], lines: Iterable[Mapping[str, str]], published: str) -> dict[str, Any]:
    if asked.get("ServiceCode") != "AmazonEC2":
        raise PricingError("NotFoundException", f"Service {asked.get('ServiceCode')} not found")
    by_sku: dict[str, list[Mapping[str, str]]] = {}
    for line in lines:
        by_sku.setdefault(line["SKU"], []).append(line)
    products = [_product(of_sku, published) for of_sku in by_sku.values()]
    wanted = [product for product in products if all(_meets(product, one) for one in asked.get("Filters", ()))]
    token = asked.get("NextToken", "page-0").removeprefix("page-")
    if not token.isdecimal() or int(token) > len(wanted):
        raise PricingError("InvalidNextTokenException", "Invalid next token")
    end = int(token) + min(int(asked.get("MaxResults", _MOST)), _MOST)
    found = {"FormatVersion": "aws_v1", "PriceList": list(map(json.dumps, wanted[int(token) : end]))}
    return found | ({"NextToken": f"page-{end}"} if end < len(wanted) else {})


def _meets(product: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    if wanted.get("Type") != "TERM_MATCH":
        raise PricingError("InvalidParameterException", f"Filter type {wanted.get('Type')} is not simulated")
    said = product["product"]
    return bool({"productFamily": said["productFamily"], **said["attributes"]}.get(wanted["Field"]) == wanted["Value"])


def _product(lines: Iterable[Mapping[str, str]], published: str) -> dict[str, Any]:
    every = list(lines)
    first = every[0]
    terms: dict[str, dict[str, Any]] = {}
    for line in every:
        code = f"{line['SKU']}.{line['OfferTermCode']}"
        term = terms.setdefault(line["TermType"], {}).setdefault(code, _term(line))
        term["priceDimensions"][line["RateCode"]] = {
            "rateCode": line["RateCode"],
            "description": line["PriceDescription"],
            "unit": line["Unit"],
            "pricePerUnit": {line["Currency"]: line["PricePerUnit"]},
            "appliesTo": [],
        }
    attributes = {"servicecode": "AmazonEC2"} | {name: first[column] for column, name in _ATTRIBUTES.items()}
    product = {"sku": first["SKU"], "productFamily": first["Product Family"], "attributes": attributes}
    stamped = {"version": "".join(filter(str.isdigit, published)), "publicationDate": published}
    return {"product": product, "serviceCode": "AmazonEC2", "terms": terms, **stamped}


def _term(line: Mapping[str, str]) -> dict[str, Any]:
    lease = ("LeaseContractLength", "PurchaseOption", "OfferingClass")
    return {
        "offerTermCode": line["OfferTermCode"],
        "sku": line["SKU"],
        "effectiveDate": f"{line['EffectiveDate']}T00:00:00Z",
        "priceDimensions": {},
        "termAttributes": {name: line[name] for name in lease if line.get(name)},
    }


def _reply(status: int, content: Mapping[str, Any]) -> Reply:
    return Reply(status, json.dumps(content).encode(), _MEDIA_TYPE)
