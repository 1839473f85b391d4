"""What data sent to the internet costs: every tier's edge by hand, units, sites, and what is not known."""

import csv
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from importlib.resources import files
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.egress import Cost, egress_cost
from catalog.places import known_regions
from collectors.registry import PROVIDERS

TEXT = files("catalog").joinpath("egress.csv").read_text(encoding="utf-8")
ROWS = list(csv.DictReader(line for line in TEXT.splitlines() if not line.startswith("#")))
TARIFFS = list(dict.fromkeys((row["provider"], row["regions"], row["site"]) for row in ROWS))
GIB = Fraction(2**30, 10**9)
"""In GB."""
SITES = (None, "cn", "intl")
FOLLOWED = re.compile(r"https://\S+|(^|[ ,])[\w.-]+/[\w.-]+: \S*[./]\S+")
"""What a reader can follow: a URL, or a file as owner/repository: path."""
UNKNOWN: set[str] = set()
"""The polled providers of which no price of any region was found."""


def cost(provider: str, region: str, gb: Fraction | str, site: str | None = None) -> tuple[Decimal, str]:
    found = egress_cost(provider, region, site, Fraction(gb))
    assert found is not None
    return Decimal(found.nanos).scaleb(-9), found.currency


@pytest.mark.parametrize(
    ("gb", "usd"),
    [
        ("0", "0"),
        ("99.999", "0"),
        ("100", "0"),
        ("100.5", "0.045"),
        ("101", "0.09"),
        ("10339", "921.51"),
        ("10340", "921.6"),
        ("10341", "921.685"),
        ("51300", "4403.2"),
        ("51301", "4403.27"),
        ("153700", "11571.2"),
        ("153701", "11571.25"),
        ("1000000", "53886.2"),
    ],
)
def test_each_tier_of_aws_is_paid_for_its_own_part(gb: str, usd: str) -> None:
    assert cost("aws", "us-east-1", gb) == (Decimal(usd), "USD")


@pytest.mark.parametrize(
    ("gb", "usd"),
    [
        ("100", "0"),
        ("101", "0.181"),
        ("10335", "1852.535"),
        ("10336", "1852.71"),
        ("51295", "9020.535"),
        ("153695", "26428.535"),
        ("153696", "26428.695"),
    ],
)
def test_each_tier_of_azures_third_zone(gb: str, usd: str) -> None:
    assert cost("azure", "brazilsouth", gb) == (Decimal(usd), "USD")


@pytest.mark.parametrize(
    ("gib", "usd"),
    [("1/2", "0"), ("1", "0"), ("2", "0.12"), ("1024", "122.76"), ("1025", "122.87"), ("10241", "1136.6")],
)
def test_google_counts_gib(gib: str, usd: str) -> None:
    assert cost("gcp", "us-central1", Fraction(gib) * GIB) == (Decimal(usd), "USD")


def test_a_gb_is_less_than_a_gib() -> None:
    assert cost("gcp", "me-west1", "1") == (Decimal("0.139698386"), "USD"), "0.15 x 10^9 / 2^30, half to even"
    assert cost("tencent", "ap-tokyo", GIB * 10, "intl") == (Decimal("1.3"), "USD")


@pytest.mark.parametrize(
    ("provider", "region", "site", "expected"),
    [
        ("tencent", "ap-guangzhou", "cn", (Decimal(80), "CNY")),
        ("tencent_intl", "sa-saopaulo", "intl", (Decimal("13.969838619"), "USD")),
        ("alibaba", "cn-shenzhen", "cn", (Decimal(80), "CNY")),
        ("alibaba", "cn-shenzhen", "intl", (Decimal("12.3"), "USD")),
        ("alibaba", "cn-hongkong", "intl", (Decimal("15.3"), "USD")),
        ("ucloud", "cn-wlcb", None, (Decimal(80), "CNY")),
        ("ucloud", "us-ca", "cn", (Decimal(50), "CNY")),
    ],
)
def test_100_gb_of_the_chinese_providers(
    provider: str, region: str, site: str | None, expected: tuple[Decimal, str]
) -> None:
    assert cost(provider, region, "100", site) == expected


def test_where_the_source_says_that_nothing_is_taken_nothing_is() -> None:
    assert cost("runpod", "US", "1000000") == (Decimal(0), "USD")


def test_no_allowance_where_the_source_states_none() -> None:
    assert cost("aws", "us-gov-west-1", "100") == (Decimal("15.5"), "USD")
    assert cost("gcp", "southamerica-east1", GIB) == (Decimal("0.19"), "USD")


@pytest.mark.parametrize(
    ("provider", "region", "site"),
    [
        ("vast", "US", None),
        ("aws", "xx-nowhere-1", None),
        ("aws", "cn-north-1", None),
        ("aws", "eu-central-2", None),
        ("azure", "israelcentral", None),
        ("azure", "chinaeast2", None),
        ("gcp", "asia-northeast1", None),
        ("gcp", "australia-southeast1", None),
        ("alibaba", "cn-hangzhou", "cn"),
        ("alibaba", "cn-shenzhen", None),
        ("tencent", "ap-hongkong", "cn"),
        ("tencent", "ap-guangzhou", None),
        ("ucloud", "cn-bj1", None),
    ],
)
@pytest.mark.parametrize("gb", [0, 1, 10**6])
def test_what_no_source_states_is_not_known(provider: str, region: str, site: str | None, gb: int) -> None:
    assert egress_cost(provider, region, site, Fraction(gb)) is None


def test_beyond_the_last_known_tier_nothing_is_known() -> None:
    assert egress_cost("aws", "ap-southeast-3", None, Fraction(10340)) == Cost(1_351_680_000_000, "USD")
    assert egress_cost("aws", "ap-southeast-3", None, Fraction("10340.001")) is None
    assert egress_cost("alibaba", "cn-beijing", "cn", Fraction(10241)) is None


def test_less_than_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        egress_cost("aws", "us-east-1", None, Fraction(-1))


def test_every_polled_provider_has_prices_or_is_listed() -> None:
    assert {provider for provider, _, _ in TARIFFS} == PROVIDERS.keys() - UNKNOWN


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']} {row['regions'][:20]} {row['up_to']}")
def test_every_row_states_a_price_a_source_and_a_day(row: dict[str, str]) -> None:
    assert Decimal(row["amount"]) >= 0
    assert row["currency"] in {"USD", "CNY"}
    assert row["unit"] in {"gb", "gib"}
    assert row["site"] in {"", "cn", "intl"}
    assert FOLLOWED.search(row["source"]), row["source"]
    assert date.fromisoformat(row["as_of"]) <= datetime.now(UTC).date()


@pytest.mark.parametrize("tariff", TARIFFS, ids=str)
def test_the_tiers_of_a_tariff_stand_together_rise_and_are_of_one_unit(tariff: tuple[str, str, str]) -> None:
    at = [number for number, row in enumerate(ROWS) if (row["provider"], row["regions"], row["site"]) == tariff]
    assert at == list(range(at[0], at[-1] + 1))
    assert len({(ROWS[number]["currency"], ROWS[number]["unit"], ROWS[number]["source"]) for number in at}) == 1
    ends = [Fraction(ROWS[number]["up_to"] or 10**9) for number in at]
    assert all(0 < end < later for end, later in pairwise([*ends, Fraction(10**9 + 1)]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']} {row['regions'][:20]} {row['up_to']}")
def test_every_region_is_one_that_is_known_unless_the_source_speaks_of_all(row: dict[str, str]) -> None:
    known = {region for of, region in known_regions() if of == row["provider"]}
    named = row["regions"].split()
    assert set(named) <= known or (named == ["*"] and "all regions" in row["source"]), set(named) - known
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("site", SITES)
def test_no_two_tariffs_hold_for_one_region(site: str | None) -> None:
    for provider, region in known_regions():
        held = [
            globs
            for of, globs, at in TARIFFS
            if of == provider and at in ("", site) and any(fnmatchcase(region, glob) for glob in globs.split())
        ]
        assert len(held) <= 1, (provider, region, held)


GB = st.fractions(min_value=0, max_value=300_000)


@given(st.sampled_from(sorted({*known_regions(), ("runpod", "US")})), st.sampled_from(SITES), GB, GB)
def test_more_never_costs_less(place: tuple[str, str], site: str | None, one: Fraction, other: Fraction) -> None:
    less, more = (egress_cost(*place, site, gb) for gb in sorted((one, other)))
    if more is None:
        return
    assert less is not None
    assert less.currency == more.currency
    assert 0 <= less.nanos <= more.nanos
