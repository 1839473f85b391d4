"""AWS's prices by the query API: the file's facts, its rules for what is no price, and what goes wrong on the way."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

import simcloud
from catalog.facts import Fact, Machine, Note, Price
from catalog.words import Purchase
from collectors.aws import Aws
from collectors.aws_query import HOMES
from collectors.base import (
    PAGE_BYTES,
    AuthFailed,
    Cell,
    Config,
    Drift,
    Feed,
    NotServed,
    Page,
    ProviderError,
    Throttled,
    Unavailable,
)
from tests.support.canned import Canned, canned
from tests.support.contract import counted_calls
from tests.support.pages import NOW, cases, feed_of, weaker

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "invented"}
US = Cell("aws", "prices", "us-east-1")


def prices_feed(config: Config) -> Feed:
    (found,) = (one for one in Aws(config).feeds() if one.name == "prices")
    return found


def products() -> list[dict[str, Any]]:
    (case,) = (case for case in cases("aws") if case.name == "products")
    return [json.loads(text) for text in json.loads(case.page.body)["PriceList"]]


def read(items: list[dict[str, Any]]) -> list[Fact | Note]:
    (case,) = (case for case in cases("aws") if case.name == "products")
    body = json.dumps({"PriceList": list(map(json.dumps, items))}).encode()
    return list(feed_of(case, Config(KEYS)).parse(case.with_body(body)))


def priced(items: list[Fact | Note]) -> dict[tuple[str, str], int]:
    return {(one.instance_type, one.purchase.value): one.nanos for one in items if isinstance(one, Price)}


def notes(items: list[Fact | Note]) -> list[tuple[str, str]]:
    return [(item.kind, item.value) for item in items if isinstance(item, Note)]


def test_a_product_gives_the_price_of_an_hour_on_demand_and_of_each_term() -> None:
    assert priced(read(products())) == {
        ("p5.48xlarge", "on_demand"): 55_040_000_000,
        ("p5.48xlarge", "reserved_1y"): 32_876_712_329,
        ("p5.48xlarge", "reserved_3y"): 22_016_000_000,
        ("g6f.large", "on_demand"): 202_000_000,
        ("inf2.48xlarge", "on_demand"): 12_981_270_000,
        ("x1.32xlarge", "on_demand"): 13_338_000_000,
        ("c7i.metal-24xl", "on_demand"): 4_712_400_000,
    }
    year = next(one for one in read(products()) if isinstance(one, Price) and one.purchase is Purchase.RESERVED_1Y)
    assert (year.upfront_nanos, year.term_months, year.source) == (288_000_000_000_000, 12, "GetProducts")


def test_what_is_no_price_in_the_file_is_none_here() -> None:
    """B002: a capacity block at 0 or at a fee; Windows, a reservation at 0, another currency, another unit."""
    found = notes(read(products()))
    for note in (
        ("non_positive_price", "p5.48xlarge capacity_block"),
        ("fee_is_no_price", "p5e.48xlarge capacity_block"),
        ("another_product", "Operating System 'Windows'"),
        ("another_product", "CapacityStatus 'AllocatedCapacityReservation'"),
        ("unknown_currency", "g5.xlarge on_demand CNY"),
        ("unknown_unit", "g5.2xlarge on_demand"),
        ("no_terms", "g5.4xlarge"),
        ("reserved_without_accelerator", "x1.32xlarge"),
        ("other_reservation", "1yr convertible No Upfront"),
    ):
        assert note in found
    blocks = next(one for one in read(products()) if isinstance(one, Machine) and one.instance_type == "p5e.48xlarge")
    assert blocks.purchases == {Purchase.CAPACITY_BLOCK}


def test_the_api_and_the_file_of_the_simulated_cloud_state_the_same() -> None:
    with simcloud.start("demo", providers=("aws",)) as sim:
        keys = {name: value for name, value in sim.env().items() if name.startswith("AWS_")}
        endpoints = {"pricing": sim.aws.pricing_url, "price_list": sim.aws.price_list_url}
        stated = []
        for source in ("list", "api"):
            feed = prices_feed(Config(keys, endpoints=endpoints, price_source=source))
            found = [one for page in feed.fetch(US, NOW, {}) for one in feed.parse(page)]
            stated.append({_sourceless(one) for one in found if not isinstance(one, Note)})
    assert len(stated[0]) > 50
    assert stated[0] == stated[1]


def _sourceless(fact: Fact) -> object:
    if not isinstance(fact, Price):
        return fact
    return (fact.instance_type, fact.purchase, fact.nanos, fact.currency, fact.upfront_nanos, fact.term_months)


def paths(value: object, here: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*here, key)
            yield from paths(inner, (*here, key))


def without(product: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(product))
    holder = found
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return found


def says_less(one: Fact, known: Fact) -> bool:
    """A product that is not understood takes the purchases along that it alone lists its machine for."""
    if isinstance(one, Machine) and isinstance(known, Machine) and one.purchases <= known.purchases:
        one = replace(one, purchases=known.purchases)
    return one == known or weaker(one, known)


CHEAPER_LEFT = ("terms.Reserved.", "terms.Reserved")
"""Where a reserved option is not whole without a field, the next one is the cheapest that is; and without any term of a
product, a machine is not listed for it.
"""


def test_a_dropped_field_never_makes_a_wrong_fact() -> None:
    every = products()
    whole = [one for one in read(every) if not isinstance(one, Note)]
    swept = 0
    for number, product in enumerate(every):
        for path in paths(product):
            if ".".join(path).startswith(CHEAPER_LEFT):
                continue
            swept += 1
            try:
                found = read([*every[:number], without(product, path), *every[number + 1 :]])
            except Drift:
                continue
            facts = [one for one in found if not isinstance(one, Note)]
            assert all(any(says_less(one, known) for known in whole) for one in facts), (number, path)
    assert swept > 200


@pytest.mark.parametrize("text", ["17", "[]", "null", "{", "", '{"product": []}', '{"product": {"attributes": 3}}'])
def test_a_product_that_is_none_is_drift(text: str) -> None:
    (case,) = (case for case in cases("aws") if case.name == "products")
    body = json.dumps({"PriceList": [text]}).encode()
    with pytest.raises(Drift):
        list(feed_of(case, Config(KEYS)).parse(case.with_body(body)))


# --- over the wire


def asked(answer: Canned, cell: Cell = US, environ: Mapping[str, str] = KEYS, **more: Any) -> list[Page]:
    with canned(answer) as server:
        feed = prices_feed(Config(environ, endpoints={"pricing": server.url}, price_source="api", **more))
        return list(feed.fetch(cell, NOW, {}))


def test_linux_machines_of_the_region_are_asked_for_page_by_page() -> None:
    with simcloud.start("demo", providers=("aws",)) as sim, counted_calls() as calls:
        keys = {name: value for name, value in sim.env().items() if name.startswith("AWS_")}
        feed = prices_feed(Config(keys, endpoints={"pricing": sim.aws.pricing_url}, price_source="api"))
        found = list(feed.fetch(US, NOW, {}))
        seen = sim.requests("aws", "GetProducts")
    assert {one.region for one in seen} == {"us-east-1"}
    assert len(calls) == len(seen) >= 2, "a question for shared machines, one for bare metal"
    assert all(len(page.body) <= PAGE_BYTES for page in found)


def test_the_question_names_the_region_and_leaves_other_systems_out() -> None:
    product = json.dumps(products()[0])
    body = json.dumps({"PriceList": [product]}).encode()
    with canned(Canned(200, body, {"Content-Type": "application/x-amz-json-1.1"})) as server:
        feed = prices_feed(Config(KEYS, endpoints={"pricing": server.url}, price_source="api"))
        (page,) = feed.fetch(Cell("aws", "prices", "eu-west-1"), NOW, {})
    questions = [json.loads(sent) for _, _, sent in server.requests]
    assert [one["ServiceCode"] for one in questions] == ["AmazonEC2"] * 2
    filters = [{one["Field"]: one["Value"] for one in question["Filters"]} for question in questions]
    common = {
        "regionCode": "eu-west-1",
        "locationType": "AWS Region",
        "operatingSystem": "Linux",
        "licenseModel": "No License required",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
    }
    assert filters == [
        common | {"productFamily": "Compute Instance", "tenancy": "Shared"},
        common | {"productFamily": "Compute Instance (bare metal)"},
    ]
    assert json.loads(page.body)["PriceList"] == [product, product]
    headers = {name.lower(): value for name, value in server.requests[0][1].items()}
    assert headers["x-amz-target"] == "AWSPriceListService.GetProducts"
    assert "/us-east-1/pricing/" in headers["authorization"], "wherever the prices are of"


def refusal(code: str, status: int = 400) -> Canned:
    said = json.dumps({"__type": code, "message": f"{code} it is"}).encode()
    return Canned(status, said, {"Content-Type": "application/x-amz-json-1.1"})


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [
        ("ThrottlingException", Throttled, "ThrottlingException"),
        ("AccessDeniedException", NotServed, "the right pricing:GetProducts"),
        ("UnrecognizedClientException", AuthFailed, "the credentials were refused"),
        ("ExpiredNextTokenException", Unavailable, "page tokens"),
        ("InvalidNextTokenException", Unavailable, "page tokens"),
        ("InvalidParameterException", Drift, "InvalidParameterException"),
        ("NotFoundException", Drift, "NotFoundException"),
    ],
)
def test_each_error_of_the_api_has_its_meaning(code: str, expected: type[ProviderError], said: str) -> None:
    with pytest.raises(expected, match=said) as caught:
        asked(refusal(code))
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    "body", [b'{"FormatVersion": "aws_v1"}', b'{"PriceList": []}', b"<html></html>", b""], ids=repr
)
def test_an_answer_without_products_is_none(body: bytes) -> None:
    with pytest.raises(Drift):
        asked(Canned(200, body, {"Content-Type": "application/x-amz-json-1.1"}))


def test_a_page_token_that_comes_twice_is_no_whole_list() -> None:
    body = json.dumps({"PriceList": [json.dumps(products()[0])], "NextToken": "again"}).encode()
    with pytest.raises(Drift, match="twice"):
        asked(Canned(200, body, {"Content-Type": "application/x-amz-json-1.1"}))


def test_many_products_are_cut_into_pages_between_types() -> None:
    """A type's rows are read together, be it sold in two ways."""
    many = []
    for number in range(3000):
        for product in (products()[0], products()[1]):
            product["product"]["attributes"]["instanceType"] = f"p5.{number}xlarge"
            many.append(json.dumps(product))
    body = json.dumps({"PriceList": many[::-1]}).encode()
    found = asked(Canned(200, body, {"Content-Type": "application/x-amz-json-1.1"}))
    types = [
        {json.loads(text)["product"]["attributes"]["instanceType"] for text in json.loads(page.body)["PriceList"]}
        for page in found
    ]
    assert len(found) > 1
    assert sum(map(len, types)) == len(set().union(*types)) == 3000
    assert all(len(page.body) <= PAGE_BYTES for page in found)


# --- where it is asked


def test_the_limit_is_the_apis_own() -> None:
    api, file = (prices_feed(Config(KEYS, price_source=source)) for source in ("api", "list"))
    assert (api.limit(US).key, api.limit(US).per_second) == ("aws:pricing", 5.0)
    assert file.limit(US).key == "aws:price_list"


def test_without_credentials_the_api_is_off_and_the_list_is_named() -> None:
    built = Aws(Config(price_source="api"))
    assert [feed.name for feed in built.feeds()] == ["scores"]
    assert built.off()["prices"] == (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or GPUFARE_PROVIDERS__AWS__PRICE_SOURCE=list"
    )


def test_china_has_an_api_of_its_own_and_govcloud_none() -> None:
    assert HOMES == {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}
    product = products()[0]
    product["product"]["attributes"]["regionCode"] = "cn-north-1"
    body = json.dumps({"PriceList": [json.dumps(product)]}).encode()
    with canned(Canned(200, body, {"Content-Type": "application/x-amz-json-1.1"})) as server:
        config = Config(KEYS, ("cn-north-1",), endpoints={"pricing": server.url}, price_source="api")
        assert list(prices_feed(config).fetch(Cell("aws", "prices", "cn-north-1"), NOW, {}))
    signed = {name.lower(): value for name, value in server.requests[0][1].items()}["authorization"]
    assert "/cn-northwest-1/pricing/" in signed
    with canned(Canned(200, body)) as server:
        config = Config(KEYS, ("us-gov-west-1",), endpoints={"pricing": server.url}, price_source="api")
        with pytest.raises(NotServed, match="PRICE_SOURCE=list"):
            list(prices_feed(config).fetch(Cell("aws", "prices", "us-gov-west-1"), NOW, {}))
    assert not server.requests
