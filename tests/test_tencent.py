"""Tencent Cloud: its recorded answers, regions, stock and prices, and every trap that was seen in them."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from catalog.facts import Machine, Note, Price, Region, Stock
from catalog.words import Level, Purchase
from collectors.base import Config, Drift, Page
from tests.support.contract import CollectorContract
from tests.support.pages import NOW, cases, feed_of
from tests.support.tencent import (
    KEYS,
    ON_DEMAND,
    PREPAID,
    SPOT,
    config,
    feed,
    levels,
    machines,
    of,
    price,
    priced,
    row,
    stock,
)


class TestTencent(CollectorContract):
    name = "tencent"
    config = Config(environ=KEYS, site="cn")
    regions = ("ap-guangzhou", "ap-nanjing")
    services = ("cvm", "region")
    documented: ClassVar[Mapping[str, str]] = {
        "stock/StatusCategory": "Status alone then decides",
        "stock/Price": "an unpriced prepaid row covers the month alone; tested below",
        "stock/Price.UnitPriceDiscount": "by the hour UnitPrice is then payable; for spot tested below",
        "stock/Price.DiscountPrice": "OriginalPrice is then payable",
        "stock/Price.DiscountPriceOneYear": "OriginalPriceOneYear is then payable",
    }


def test_regions_of_the_account() -> None:
    (case,) = [case for case in cases("tencent") if case.feed == "places"]
    regions = of(Region, list(feed("places").parse(case.page)))
    assert len(regions) == 18
    assert Region(region="ap-nanjing", name="华东地区(南京)", enabled=True) in regions
    assert {"ap-hongkong", "ap-xian-ec", "na-ashburn"} < {region.region for region in regions}


@pytest.mark.parametrize(
    ("state", "enabled", "noted"),
    [("AVAILABLE", True, []), ("UNAVAILABLE", False, []), ("GREY", None, ["GREY"]), (None, None, [""])],
)
def test_whether_a_region_may_be_used_is_unknown_where_its_state_is(
    state: str | None, enabled: bool | None, noted: list[str]
) -> None:
    body = {"Response": {"RegionSet": [{"Region": "ap-shanghai-fsi", "RegionState": state}]}}
    items = list(feed("places").parse(Page("regions", json.dumps(body).encode(), NOW)))
    assert of(Region, items) == [Region(region="ap-shanghai-fsi", enabled=enabled)]
    assert of(Note, items) == [Note("unknown_region_state", value) for value in noted]


@pytest.mark.parametrize(
    ("status", "category", "level", "detail", "noted"),
    [
        ("SELL", "EnoughStock", Level.IN_STOCK, "EnoughStock", []),
        ("SELL", "NormalStock", Level.IN_STOCK, "NormalStock", []),
        ("SELL", "UnderStock", Level.LOW, "UnderStock", []),
        ("SOLD_OUT", "WithoutStock", Level.OUT, "WithoutStock", []),
        ("SELL", "WithoutStock", Level.OUT, "WithoutStock", [Note("status_contradicts_category", "SELL WithoutStock")]),
        (
            "SOLD_OUT",
            "EnoughStock",
            Level.OUT,
            "EnoughStock",
            [Note("status_contradicts_category", "SOLD_OUT EnoughStock")],
        ),
        ("SELL", None, Level.IN_STOCK, "SELL", []),
        ("SELL", ..., Level.IN_STOCK, "SELL", []),
        ("SOLD_OUT", None, Level.OUT, "SOLD_OUT", []),
        ("SELL", "SomethingNew", Level.IN_STOCK, "SomethingNew", [Note("unknown_stock_category", "SomethingNew")]),
        ("SOLD_OUT", "SomethingNew", Level.OUT, "SomethingNew", [Note("unknown_stock_category", "SomethingNew")]),
        ("ABANDON", "EnoughStock", Level.UNKNOWN, "EnoughStock", [Note("unknown_status", "ABANDON")]),
        (..., "WithoutStock", Level.UNKNOWN, "WithoutStock", [Note("unknown_status", "")]),
        (None, None, Level.UNKNOWN, "", [Note("unknown_status", "")]),
    ],
)
def test_stock_is_what_status_and_category_say(
    status: object, category: object, level: Level, detail: str, noted: list[Note]
) -> None:
    items = stock(row(Status=status, StatusCategory=category))
    (found,) = of(Stock, items)
    assert (found.level, found.detail) == (level, detail)
    assert found.purchases == {Purchase.ON_DEMAND}
    assert of(Note, items) == noted


def test_each_zone_has_its_own_stock_and_a_contradiction_is_out() -> None:
    """B077: zone 2 is the only one to go to."""
    rows = [
        row(Zone="ap-test-1", Status="SOLD_OUT", StatusCategory="WithoutStock"),
        row(Zone="ap-test-2", Status="SELL", StatusCategory="UnderStock"),
        row(Zone="ap-test-3", Status="SELL", StatusCategory="WithoutStock"),
    ]
    assert levels(*rows) == [("ap-test-1", Level.OUT), ("ap-test-2", Level.LOW), ("ap-test-3", Level.OUT)]


def test_no_charge_type_inherits_the_stock_of_another() -> None:
    """T13: sold out on demand, for sale as spot."""
    sold_out = row(Status="SOLD_OUT", StatusCategory="WithoutStock")
    for_sale = row(InstanceChargeType=SPOT, Status="SELL", StatusCategory="EnoughStock")
    (by_hour,), (as_spot,) = of(Stock, stock(sold_out)), of(Stock, stock(for_sale, part=SPOT))
    assert (set(by_hour.purchases), by_hour.level) == ({Purchase.ON_DEMAND}, Level.OUT)
    assert (set(as_spot.purchases), as_spot.level) == ({Purchase.SPOT}, Level.IN_STOCK)


def test_guangzhou_is_out_while_nanjing_is_dearer_than_chongqing() -> None:
    """T21, what the collector has to state for it: GT4.4XLARGE96 in the three regions."""
    found = {}
    for case in cases("tencent"):
        if case.name.endswith("_on_demand"):
            items = list(feed_of(case, config()).parse(case.page))
            prices = {one.instance_type: one.nanos for one in of(Price, items)}
            for one in of(Stock, items):
                if one.instance_type == "GT4.4XLARGE96":
                    found[one.region] = (one.level, prices[one.instance_type])
    assert found == {
        "ap-guangzhou": (Level.OUT, 28_260_000_000),
        "ap-shanghai": (Level.OUT, 28_260_000_000),
        "ap-nanjing": (Level.IN_STOCK, 28_260_000_000),
        "ap-chongqing": (Level.IN_STOCK, 27_000_000_000),
    }


@pytest.mark.parametrize("charge", ["CDHPAID", "CDCPAID", "UNDERWRITE", SPOT])
def test_a_charge_type_that_was_not_asked_for_is_noted_not_sold(charge: str) -> None:
    assert stock(row(InstanceChargeType=charge)) == [Note("other_charge_type", charge)]


@pytest.mark.parametrize(
    ("field", "kind_of_note", "value"),
    [
        ("Zone", "row_without_zone", "GN10Xp.2XLARGE40"),
        ("InstanceType", "row_without_machine", "GN10Xp"),
        ("InstanceChargeType", "other_charge_type", "GN10Xp.2XLARGE40"),
    ],
)
def test_a_row_that_lacks_what_it_is_about_is_left_out_by_name(field: str, kind_of_note: str, value: str) -> None:
    (note,) = of(Note, stock(row(**{field: ...})))
    assert (note.kind, note.value, note.record) == (kind_of_note, value, True)
    assert not of(Stock, stock(row(**{field: ...})))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (price(UnitPrice=15.0, UnitPriceDiscount=14.25), ("on_demand", 14_250_000_000, 15_000_000_000, "CNY")),
        (price(UnitPrice=8.68, UnitPriceDiscount=8.68), ("on_demand", 8_680_000_000, None, "CNY")),
        (
            price(UnitPrice=8.7, UnitPriceDiscount=None, Discount="100.000000"),
            ("on_demand", 8_700_000_000, None, "CNY"),
        ),
        (price(UnitPrice=0.1 + 0.2), ("on_demand", 300_000_000, None, "CNY")),
        (price(UnitPrice="16.67"), ("on_demand", 16_670_000_000, None, "CNY")),
    ],
)
def test_the_hourly_price_is_the_payable_one_and_the_list_price_where_none_is_stated(
    said: dict[str, Any], expected: tuple[str, int, int | None, str]
) -> None:
    assert priced(row(Price=said)) == [expected]


def test_groups_of_a_price_that_are_null_do_not_matter() -> None:
    """B096: UnitPriceDiscount absent, the prepaid fields null."""
    eight = row(Gpu=8, GpuCount=8.0, Price=price(UnitPrice=16.67))
    assert priced(eight) == [("on_demand", 16_670_000_000, None, "CNY")]


def test_an_amount_is_kept_in_the_currency_it_was_stated_in() -> None:
    """B089: 7.00 CNY, whatever the rate."""
    assert priced(row(Price=price(UnitPrice=7.0, UnitPriceDiscount=7.0))) == [("on_demand", 7_000_000_000, None, "CNY")]


@pytest.mark.parametrize(("site", "currency"), [("cn", "CNY"), ("intl", "USD")])
def test_the_currency_is_the_sites_in_every_region(site: str, currency: str) -> None:
    """T22: 10.0, and no currency in the answer."""
    assert priced(row(Price=price(UnitPrice=10.0)), site=site) == [("on_demand", 10_000_000_000, None, currency)]


def test_a_spot_price_is_the_discounted_one_and_its_list_price_is_not_the_one_on_demand() -> None:
    """11.88 is what the machine costs on demand; 2.376 is the market's price."""
    spot = row(InstanceChargeType=SPOT, Price=price(UnitPrice=11.88, UnitPriceDiscount=2.376, Discount=20.0))
    assert priced(spot, part=SPOT) == [("spot", 2_376_000_000, None, "CNY")]


@pytest.mark.parametrize("discounted", [..., None, 0, -1])
def test_a_spot_row_without_its_market_price_has_no_price(discounted: object) -> None:
    said = {name: value for name, value in price(UnitPrice=11.88, UnitPriceDiscount=discounted).items() if value != ...}
    assert priced(row(InstanceChargeType=SPOT, Price=said), part=SPOT) == []


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        (None, "no_price"),
        (..., "no_price"),
        (price(), "no_price"),
        (price(UnitPrice=None, UnitPriceDiscount=None), "no_price"),
        (price(UnitPrice=0, UnitPriceDiscount=0), "non_positive_price"),
        (price(UnitPrice=-3.0, UnitPriceDiscount=0), "non_positive_price"),
        (price(UnitPrice=16.67, UnitPriceDiscount=0), "non_positive_price"),
        (price(UnitPrice=16.67, UnitPriceDiscount=-1), "non_positive_price"),
        (price(UnitPrice=0, UnitPriceDiscount=0, OriginalPrice=59, DiscountPrice=59), "non_positive_price"),
    ],
)
def test_what_is_no_price_is_noted_and_the_stock_stays(said: object, noted: str) -> None:
    """The last is Tencent's own example: by the hour, UnitPrice 0 beside a DiscountPrice of 59."""
    items = stock(row(Price=said))
    assert of(Price, items) == []
    assert of(Note, items) == [Note(noted, "GN10Xp.2XLARGE40")]
    assert [one.level for one in of(Stock, items)] == [Level.IN_STOCK]


def test_a_price_for_another_unit_than_an_hour_is_no_price() -> None:
    items = stock(row(Price=price(UnitPrice=10.0, ChargeUnit="GB")))
    assert of(Price, items) == []
    assert of(Note, items) == [Note("unknown_charge_unit", "GB")]


@pytest.mark.parametrize("part", [ON_DEMAND, SPOT])
@pytest.mark.parametrize("unit", [..., None, "", "hour", "MONTH"])
def test_an_hourly_row_that_does_not_say_per_hour_has_no_price(unit: object, part: str) -> None:
    said = {
        name: value
        for name, value in price(UnitPrice=80, UnitPriceDiscount=80, ChargeUnit=unit).items()
        if value != ...
    }
    items = stock(row(InstanceChargeType=part, Price=said), part=part)
    assert of(Price, items) == []
    assert of(Note, items) == [Note("unknown_charge_unit", unit if isinstance(unit, str) else "")]
    assert [one.level for one in of(Stock, items)] == [Level.IN_STOCK]


@pytest.mark.parametrize("amount", ["1e400", "1e99999999", "1_5", " 15 ", "0x10", "1" * 5000])
def test_an_amount_that_is_no_number_is_drift_not_the_list_price(amount: str) -> None:
    with pytest.raises(Drift, match="UnitPriceDiscount"):
        stock(row(Price=price(UnitPrice=80.0, UnitPriceDiscount=amount)))


def test_what_later_hours_cost_is_not_the_price() -> None:
    steps = {"UnitPriceDiscountSecondStep": 9.0, "UnitPriceDiscountThirdStep": 7.5}
    items = stock(row(Price=price(UnitPrice=12.0, UnitPriceDiscount=12.0, **steps)))
    assert [one.nanos for one in of(Price, items)] == [12_000_000_000]
    assert of(Note, items) == []


V100_TERMS = {
    "UnitPrice": 0,
    "UnitPriceDiscount": 0,
    "OriginalPrice": 4590.0,
    "DiscountPrice": 4131.0,
    "OriginalPriceOneYear": 55080.0,
    "DiscountPriceOneYear": 41144.76,
    "OriginalPriceThreeYear": 0,
    "DiscountPriceThreeYear": None,
}


def test_a_prepaid_term_is_spread_over_its_hours_with_the_whole_amount_beside() -> None:
    month, year = of(Price, stock(row(InstanceChargeType=PREPAID, Price=price(**V100_TERMS)), part=PREPAID))
    assert (month.purchase, month.term_months, month.upfront_nanos) == (Purchase.MONTH, 1, 4_131_000_000_000)
    assert month.nanos == round(Decimal(4131) / 730 * 10**9) == 5_658_904_110
    assert month.list_nanos == round(Decimal(4590) / 730 * 10**9) == 6_287_671_233
    assert (year.purchase, year.term_months, year.upfront_nanos) == (Purchase.RESERVED_1Y, 12, 41_144_760_000_000)
    assert year.nanos == round(Decimal("41144.76") / 8760 * 10**9) == 4_696_890_411


def test_three_prepaid_years_are_a_price_where_they_are_sold() -> None:
    terms = V100_TERMS | {"OriginalPriceThreeYear": 165240.0, "DiscountPriceThreeYear": None}
    *_, longest = of(Price, stock(row(InstanceChargeType=PREPAID, Price=price(**terms)), part=PREPAID))
    assert (longest.purchase, longest.term_months) == (Purchase.RESERVED_3Y, 36)
    assert longest.nanos == round(Decimal(165240) / 26280 * 10**9) == 6_287_671_233


def prepaid(**said: Any) -> list[Any]:
    return list(stock(row(InstanceChargeType=PREPAID, Price=price(**said)), part=PREPAID))


@pytest.mark.parametrize(("unit", "priced"), [("HOUR", True), ("MONTH", True), (None, True), ("", True), ("GB", False)])
def test_a_term_is_priced_in_the_units_that_prepaid_rows_have(unit: str | None, priced: bool) -> None:
    """Every prepaid row that was seen says HOUR, the unit of its UnitPrice, which is 0."""
    items = prepaid(**V100_TERMS, ChargeUnit=unit)
    assert bool(of(Price, items)) is priced
    assert (Note("unknown_charge_unit", "GB") in items) is not priced


def test_a_term_whose_payable_amount_is_stated_as_zero_is_missed_not_sold_at_the_list_price() -> None:
    items = prepaid(**V100_TERMS | {"DiscountPriceOneYear": 0})
    assert [one.purchase for one in of(Price, items)] == [Purchase.MONTH]
    assert of(Note, items) == [Note("non_positive_price", "GN10Xp.2XLARGE40")]


def test_an_empty_list_of_regions_is_no_answer() -> None:
    with pytest.raises(Drift, match="RegionSet is empty"):
        list(feed("places").parse(Page("regions", b'{"Response": {"RegionSet": []}}', NOW)))


@pytest.mark.parametrize(("field", "said"), [("Cpu", -4), ("Memory", -1), ("Cpu", 0), ("Memory", 10**12)])
def test_a_size_that_cannot_be_is_unknown_and_noted(field: str, said: int) -> None:
    items = stock(row(**{field: said}))
    (machine,) = of(Machine, items)
    assert (machine.vcpus, machine.memory_mib) == ((None, 40960) if field == "Cpu" else (10, None))
    assert of(Note, items) == [Note("impossible_size", f"{field} {said}")]


def test_a_zone_of_another_region_is_left_out_by_name() -> None:
    """An answer out of a wrong cache: what it holds is neither there nor here."""
    own, other = row(), row(Zone="ap-other-1")
    assert stock(own, other) == [*stock(own), Note("other_region", "ap-other-1")]
    assert stock(row(Zone="ap-test-finance-1")) == [Note("other_region", "ap-test-finance-1")]
    types = {"GPU": 1, "CPU": 10, "Gpu": ..., "Cpu": ...}
    assert of(Machine, machines(row(**types))) != []
    assert machines(row(Zone="ap-other-1", **types)) == [Note("other_region", "ap-other-1")]


def test_prepaid_stock_covers_the_terms_that_have_a_price_and_the_month_at_least() -> None:
    (with_year,) = of(Stock, stock(row(InstanceChargeType=PREPAID, Price=price(**V100_TERMS)), part=PREPAID))
    unpriced = stock(row(InstanceChargeType=PREPAID, Price=None), part=PREPAID)
    assert with_year.purchases == {Purchase.MONTH, Purchase.RESERVED_1Y}
    assert [one.purchases for one in of(Stock, unpriced)] == [{Purchase.MONTH}]
    assert of(Price, unpriced) == []
