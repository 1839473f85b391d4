"""The places table: what is mainland China, which regions a city has, and that every row is well formed."""

import pytest

from catalog.places import known_regions, mainland_of, regions_of_city
from catalog.snapshot_data import snapshot_rows

REGIONS = {"alibaba": 39, "aws": 41, "azure": 69, "gcp": 43, "tencent": 22, "ucloud": 34}
EVERY = frozenset(REGIONS)


@pytest.mark.parametrize(("provider", "count"), REGIONS.items())
def test_each_main_cloud_has_its_regions(provider: str, count: int) -> None:
    assert sum(known_provider == provider for known_provider, _ in known_regions()) == count


def test_no_other_provider_is_in_the_table() -> None:
    assert {provider for provider, _ in known_regions()} == set(REGIONS)


def test_every_region_of_the_bundled_prices_is_known() -> None:
    priced = {(row.provider, row.region) for row in snapshot_rows()}
    assert len(priced) == 105
    assert priced <= known_regions().keys()


@pytest.mark.parametrize(
    "place",
    [
        ("aws", "cn-north-1"),
        ("aws", "cn-northwest-1"),
        ("azure", "chinaeast2"),
        ("azure", "chinanorth3"),
        ("tencent", "ap-guangzhou"),
        ("tencent", "ap-xian-ec"),
        ("tencent", "ap-shanghai-fsi"),
        ("alibaba", "cn-hangzhou-finance"),
        ("alibaba", "cn-north-2-gov-1"),
    ],
)
def test_mainland_regions_are_mainland(place: tuple[str, str]) -> None:
    region = known_regions()[place]
    assert (region.country, region.mainland_china) == ("CN", True)


@pytest.mark.parametrize(
    ("place", "country"),
    [
        (("tencent", "ap-hongkong"), "HK"),
        (("alibaba", "cn-hongkong"), "HK"),
        (("azure", "eastasia"), "HK"),
        (("aws", "ap-east-2"), "TW"),
        (("gcp", "asia-east1"), "TW"),
        (("tencent", "ap-singapore"), "SG"),
        (("alibaba", "ap-southeast-1"), "SG"),
        (("aws", "us-gov-west-1"), "US"),
    ],
)
def test_a_prefix_does_not_make_a_region_mainland(place: tuple[str, str], country: str) -> None:
    region = known_regions()[place]
    assert (region.country, region.mainland_china) == (country, False)


def test_the_mainland_flag_and_the_country_agree_in_every_row() -> None:
    regions = known_regions().values()
    assert [region for region in regions if region.mainland_china != (region.country == "CN")] == []


def test_every_row_has_a_country_a_name_and_coordinates_on_earth() -> None:
    for region in known_regions().values():
        assert len(region.country) == 2
        assert region.country.isupper()
        assert region.name
        if region.city_en is None:
            assert (region.city_zh, region.latitude, region.longitude) == (None, None, None)
        else:
            assert region.city_zh
            assert region.latitude is not None
            assert region.longitude is not None
            assert -90 < region.latitude < 90
            assert -180 < region.longitude < 180


def test_a_city_nobody_publishes_is_unknown() -> None:
    without_city = {place for place, region in known_regions().items() if region.city_en is None}
    assert without_city == {("azure", "chinaeast3"), ("azure", "chinanorth3")}


@pytest.mark.parametrize("text", ["nanjing", "Nanjing", " NAN JING ", "南京"])
def test_a_city_is_found_in_english_and_chinese_whatever_its_case_and_spaces(text: str) -> None:
    assert regions_of_city(text, EVERY) == [("alibaba", "cn-nanjing"), ("tencent", "ap-nanjing")]


@pytest.mark.parametrize("text", ["São Paulo", "sao paulo", "saopaulo", "圣保罗"])
def test_a_city_is_found_with_and_without_accents(text: str) -> None:
    assert regions_of_city(text, EVERY) == [
        ("aws", "sa-east-1"),
        ("azure", "brazilsouth"),
        ("gcp", "southamerica-east1"),
        ("tencent", "sa-saopaulo"),
        ("ucloud", "bra-saopaulo"),
    ]


def test_a_display_name_finds_its_region() -> None:
    assert regions_of_city("us east (n. virginia)", EVERY) == [("aws", "us-east-1")]


@pytest.mark.parametrize("text", ["", " ", "nan", "nanjing1", "ap-nanjing", "atlantis"])
def test_a_part_of_a_name_finds_nothing(text: str) -> None:
    assert regions_of_city(text, EVERY) == []


def test_every_main_cloud_is_in_hong_kong() -> None:
    assert {provider for provider, _ in regions_of_city("香港", EVERY)} == set(EVERY)


@pytest.mark.parametrize(
    ("country", "mainland"), [("CN", True), ("cn", True), ("HK", False), ("TW", False), ("US", False), (None, None)]
)
def test_without_a_known_region_the_iso_country_decides(country: str | None, mainland: bool | None) -> None:
    assert mainland_of(country, None) is mainland


@pytest.mark.parametrize("country", ["CN", None])
def test_a_known_region_decides_before_the_country_a_provider_states(country: str | None) -> None:
    assert mainland_of(country, known_regions()["alibaba", "cn-hongkong"]) is False
    assert mainland_of(country, known_regions()["alibaba", "cn-nanjing"]) is True
