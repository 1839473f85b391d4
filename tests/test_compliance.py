"""What providers state that they are certified for: scopes, hosts of other people, and rows that can be wrong."""

import csv
import re
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from importlib.resources import files

import pytest

from catalog.compliance import all_tags, tags_of
from catalog.places import known_regions
from catalog.words import Hosting
from collectors.registry import PROVIDERS

TEXT = files("catalog").joinpath("compliance.csv").read_text(encoding="utf-8")
ROWS = list(csv.DictReader(line for line in TEXT.splitlines() if not line.startswith("#")))
FOLLOWED = re.compile(r'https://\S+|(^|[ ,])[\w.-]+/[\w.-]+: \S*[./]\S+|"[^"]{20,}"')
"""What a reader can follow: a URL, a file as owner/repository: path, or the title of a document of the row's day."""
UNKNOWN = {"alibaba", "ucloud"}
"""The polled providers of which no statement was found that says where it holds."""


def tags(provider: str, region: str, hosting: Hosting = Hosting.DATACENTER) -> set[str]:
    return set(tags_of(provider, region, hosting))


GLOBAL = {"soc2", "iso27001", "pci_dss", "hipaa"}


@pytest.mark.parametrize(
    ("provider", "region", "expected"),
    [
        ("aws", "us-gov-west-1", GLOBAL | {"fedramp_high", "fedramp_moderate"}),
        ("aws", "us-east-1", GLOBAL | {"fedramp_moderate"}),
        ("aws", "eu-central-1", GLOBAL),
        ("aws", "eusc-de-east-1", {"soc2", "iso27001", "c5"}),
        ("azure", "westus3", GLOBAL | {"fedramp_high", "fedramp_moderate"}),
        ("azure", "westeurope", GLOBAL),
        ("gcp", "us-central1", GLOBAL),
        ("tencent", "ap-guangzhou", {"iso27001"}),
        ("tencent_intl", "na-ashburn", {"iso27001"}),
    ],
)
def test_tags_by_hand(provider: str, region: str, expected: set[str]) -> None:
    assert tags(provider, region) == expected


@pytest.mark.parametrize(
    ("provider", "region"),
    [
        ("aws", "cn-north-1"),
        ("aws", "cn-northwest-1"),
        ("aws", "ap-southeast-6"),
        ("azure", "chinaeast2"),
        ("azure", "usgovvirginia"),
        ("azure", "eastus2euap"),
        ("azure", "austriaeast"),
        ("gcp", "me-central2"),
        ("tencent", "ap-shanghai-fsi"),
        ("tencent", "ap-xian-ec"),
        ("alibaba", "cn-hangzhou"),
        ("ucloud", "cn-bj2"),
        ("vast", "US"),
        ("aws", "xx-nowhere-1"),
    ],
)
def test_what_no_source_states_has_no_tag(provider: str, region: str) -> None:
    assert tags(provider, region) == set()


def test_hosts_of_other_people_are_not_covered() -> None:
    assert tags("runpod", "US") == {"soc2"}
    assert tags("runpod", "US", Hosting.COMMUNITY) == set()


def test_fedramp_is_of_the_united_states_alone() -> None:
    places = {place for place in known_regions() if {"fedramp_high", "fedramp_moderate"} & tags(*place)}
    assert places
    assert {known_regions()[place].country for place in places} == {"US"}


def test_mainland_regions_of_foreign_clouds_have_no_tag_of_the_cloud() -> None:
    mainland = [place for place, known in known_regions().items() if known.mainland_china and place[0] != "tencent"]
    assert mainland
    assert not [place for place in mainland if tags(*place)]


def test_high_is_moderate_too() -> None:
    for place in known_regions():
        assert "fedramp_high" not in tags(*place) or "fedramp_moderate" in tags(*place), place


def test_all_tags_are_those_of_the_table_in_lower_case_words() -> None:
    assert all_tags() == {row["tag"] for row in ROWS}
    assert all_tags() == GLOBAL | {"fedramp_high", "fedramp_moderate", "c5"}
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", tag) for tag in all_tags())


def test_every_polled_provider_is_in_the_table_or_listed() -> None:
    assert {row["provider"] for row in ROWS} == PROVIDERS.keys() - UNKNOWN


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']} {row['tag']} {row['regions'][:20]}")
def test_every_row_has_a_hosting_a_source_and_a_day(row: dict[str, str]) -> None:
    assert row["hosting"] in {"datacenter", "*"}
    assert FOLLOWED.search(row["source"]), row["source"]
    assert date.fromisoformat(row["as_of"]) <= datetime.now(UTC).date()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']} {row['tag']} {row['regions'][:20]}")
def test_every_region_is_one_that_is_known_unless_the_source_speaks_of_all(row: dict[str, str]) -> None:
    """A glob would certify a region that opens tomorrow."""
    known = {region for provider, region in known_regions() if provider == row["provider"]}
    named = row["regions"].split()
    assert set(named) <= known or (named == ["*"] and "all regions" in row["source"]), set(named) - known
    assert len(set(named)) == len(named)


@pytest.mark.parametrize(
    ("provider", "region"),
    [
        ("aws", "us-east-3"),
        ("aws", "eu-west-4"),
        ("aws", "ca-central-2"),
        ("aws", "us-gov-central-1"),
        ("azure", "westus4"),
        ("azure", "ukcentral"),
        ("azure", "germanysouth"),
        ("gcp", "us-central2"),
        ("gcp", "europe-west14"),
        ("tencent", "na-toronto"),
    ],
)
def test_a_region_that_is_not_open_yet_is_not_certified(provider: str, region: str) -> None:
    assert tags(provider, region) == set()


def test_no_two_rows_state_one_thing() -> None:
    for provider, region in known_regions():
        stated = [
            row["tag"]
            for row in ROWS
            if row["provider"] == provider and any(fnmatchcase(region, glob) for glob in row["regions"].split())
        ]
        assert len(set(stated)) == len(stated), (provider, region, stated)
