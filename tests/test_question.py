"""What a question's parameters mean, and what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import pytest

from catalog.parameters import PARAMETERS
from catalog.spec import Accounts, CountRange, Sort, Spec, StockWish
from catalog.words import Hosting, Purchase
from selector.question import BadQuestion, Endpoint, World, understand
from selector.ranking import Verdict

_T = TypeVar("_T")

WORLD = World(
    providers=frozenset({"aws", "azure", "tencent", "alibaba", "runpod", "vast"}),
    regions=frozenset(
        {
            ("aws", "us-east-1"),
            ("aws", "us-west-2"),
            ("azure", "eastus"),
            ("tencent", "ap-guangzhou"),
            ("tencent", "ap-nanjing"),
            ("tencent", "ap-chongqing"),
            ("vast", "US"),
        }
    ),
    zones=frozenset(
        {
            ("aws", "us-east-1", "us-east-1a", "use1-az6"),
            ("azure", "eastus", "1", None),
            ("azure", "eastus", "2", None),
            ("tencent", "ap-nanjing", "ap-nanjing-1", None),
        }
    ),
    countries=frozenset({"US", "CN"}),
    currencies=frozenset({"USD", "EUR", "CNY"}),
    fallback={"ap-guangzhou": ["ap-nanjing", "ap-chongqing"]},
)


def spec_of(
    params: Mapping[str, str | list[str]],
    defaults: Mapping[str, str] | None = None,
    *,
    world: World = WORLD,
    endpoint: Endpoint = "cheapest",
) -> Spec:
    lists = {name: [text] if isinstance(text, str) else text for name, text in params.items()}
    return understand(lists, world, defaults or {}, endpoint=endpoint)


def members(found: frozenset[_T] | None) -> set[_T]:
    assert found is not None
    return set(found)


def refused(params: Mapping[str, str | list[str]]) -> BadQuestion:
    with pytest.raises(BadQuestion) as caught:
        spec_of(params)
    return caught.value


def test_a_question_without_parameters_has_the_documented_defaults() -> None:
    spec = spec_of({})
    assert members(spec.purchases) == {Purchase.ON_DEMAND}
    assert spec.counts == (CountRange(Fraction(1), Fraction(1)),)
    assert spec.hosting == {Hosting.DATACENTER}
    assert (spec.currency, spec.stock, spec.sort) == ("USD", StockWish.PREFER, Sort.PRICE)
    assert (spec.limit, spec.offset, spec.explain) == (5, 0, False)
    assert (spec.gpus, spec.regions, spec.max_age, spec.max_price_nanos) == (None, None, None, None)


def test_offers_has_no_default_for_purchase_count_accounts_and_hosting() -> None:
    spec = spec_of(
        {},
        {"purchase": "spot", "count": "8", "hosting": "community", "stock": "confirmed", "currency": "CNY"},
        endpoint="offers",
    )
    assert (spec.purchases, spec.counts, spec.accounts) == (None, (), Accounts.ALL)
    assert (spec.hosting, spec.stock) == (frozenset(Hosting), StockWish.ALL)
    assert spec.currency == "CNY"


@pytest.mark.parametrize(("endpoint", "most"), [("cheapest", 100), ("offers", 10_000)])
def test_limit_has_an_upper_end(endpoint: Endpoint, most: int) -> None:
    assert spec_of({"limit": str(most)}, endpoint=endpoint).limit == most
    with pytest.raises(BadQuestion):
        spec_of({"limit": str(most + 1)}, endpoint=endpoint)


@pytest.mark.parametrize(
    ("text", "low", "high", "inside", "outside"),
    [
        ("8", 8, 8, [8], [4, 16]),
        ("4..", 4, None, [4, 5, 16], [1, Fraction(9, 2)]),
        ("2..8", 2, 8, [2, 5, 8], [1, 9, Fraction(5, 2)]),
        ("0.25", Fraction(1, 4), Fraction(1, 4), [Fraction(1, 4)], [1, Fraction(1, 2)]),
        ("0.1667", Fraction(1, 6), Fraction(1, 6), [Fraction(1, 6)], [1, Fraction(1, 7)]),
        ("1/3", Fraction(1, 3), Fraction(1, 3), [Fraction(1, 3)], [1]),
        ("0.25..1", Fraction(1, 4), 1, [Fraction(1, 4), Fraction(1, 2), 1], [2, Fraction(1, 6)]),
        ("1..", 1, None, [1, 2], [0, Fraction(1, 2)]),
    ],
)
def test_count_is_exact_a_range_or_a_fraction(
    text: str, low: Fraction, high: Fraction | None, inside: list[Fraction], outside: list[Fraction]
) -> None:
    (counts,) = spec_of({"count": text}).counts
    assert (counts.low, counts.high) == (low, high)
    assert all(counts.holds(Fraction(count)) for count in inside)
    assert not any(counts.holds(Fraction(count)) for count in outside)


def test_several_counts_mean_any_of_them() -> None:
    assert [str(each) for each in spec_of({"count": ["1,2", "8.."]}).counts] == ["1", "2", "8.."]


def test_amounts_are_exact() -> None:
    spec = spec_of({"min_vram": "0.3", "max_price": "0.0408", "max_age": "10m", "min_memory_per_vram": "1.5"})
    assert spec.min_vram_mib == Fraction(3072, 10)
    assert spec.max_price_nanos == 40_800_000
    assert spec.max_age == timedelta(minutes=10)
    assert spec.min_memory_per_vram == Fraction(3, 2)


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        ("count", "0"),
        ("count", "8..2"),
        ("count", "all"),
        ("count", "1/0"),
        ("min_vram", "-1"),
        ("min_vram", "0"),
        ("min_vram", "24GB"),
        ("min_vram", "NaN"),
        ("min_vram", "1e9"),
        ("min_vram", "24,48"),
        ("min_vram", "0.00001"),
        ("min_vram", "24.00001"),
        ("min_memory_per_vram", "0.00001"),
        ("min_vcpus", "0.00001"),
        ("count", "0.00001"),
        ("count", "0.16667"),
        ("max_price", "1.0000000001"),
        ("max_price", "0"),
        ("max_price", "0.00000000001"),
        ("max_age", "10"),
        ("max_age", "0s"),
        ("nvlink", "yes"),
        ("nvlink", "true,false"),
        ("currency", "XXX"),
        ("country", "ZZ"),
        ("vendor", "nvidea"),
        ("provider", "awz"),
        ("purchase", "on-demand"),
        ("hosting", "home"),
        ("accounts", "yours"),
        ("stock", "some"),
        ("stock", "all"),
        ("sort", "cheapness"),
        ("sort", "job_cost"),
        ("limit", "0"),
        ("offset", "-1"),
        ("explain", "1"),
        ("zone", "ap-nanjing-99"),
        ("region", "!"),
        ("fallback", "auto"),
        ("fallback", "ap-nanjing,auto"),
        ("fallback", "none,ap-nanjing"),
        ("fallback", "!ap-nanjing"),
        ("compliance", "soc"),
        ("hours", "0"),
        ("hours", "-3"),
        ("hours", "2,3"),
        ("egress_gb", "3"),
    ],
)
def test_a_value_that_is_not_known_is_refused_by_name(parameter: str, text: str) -> None:
    error = refused({parameter: text})
    assert error.parameter == parameter
    assert parameter in error.message


def test_a_number_is_shown_as_it_was_asked_for() -> None:
    shown = spec_of({"min_vram": "0.0001", "min_memory": "1.50000", "count": "0.0625", "max_price": "0.000000001"})
    described = shown.described()
    assert [described[name] for name in ("min_vram", "min_memory", "count", "max_price")] == [
        "0.0001",
        "1.5",
        ["0.0625"],
        "0.000000001",
    ]


def test_a_list_has_an_upper_end() -> None:
    spec_of({"count": ",".join(["1"] * 100)})
    assert "at most 100 values" in refused({"count": ["1", ",".join(["1"] * 100)]}).message


def test_an_unknown_parameter_is_refused_with_its_likes() -> None:
    """B134: max_vcpus_per_gpu is not a parameter."""
    error = refused({"gpu": "t4", "max_vcpus_per_gpu": "8"})
    assert error.parameter == "max_vcpus_per_gpu"
    assert "min_vcpus_per_gpu" in error.did_you_mean


def test_a_misspelt_region_is_refused_with_its_likes() -> None:
    """B050: us-east-99 is never an empty success."""
    error = refused({"region": "us-east-99"})
    assert error.parameter == "region"
    assert "us-east-1" in error.did_you_mean
    assert "us-east-99" in error.message


def test_blanks_and_trailing_commas_are_harmless() -> None:
    """B050: exactly us-east-1 and us-west-2."""
    spec = spec_of({"region": " aws:us-east-1, aws:us-west-2,"})
    assert members(spec.regions) == {("aws", "us-east-1"), ("aws", "us-west-2")}


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_an_empty_value_is_refused_so_that_a_lost_limit_costs_nothing(text: str) -> None:
    assert refused({"max_price": text}).parameter == "max_price"


def test_a_gpu_that_names_no_single_model_is_refused_with_the_choices() -> None:
    """T6: never a silent match."""
    error = refused({"gpu": "A100-8"})
    assert error.parameter == "gpu"
    assert set(error.did_you_mean) >= {"a100-80g", "a100-40g"}


def test_a_count_inside_the_gpu_is_never_dropped() -> None:
    error = refused({"gpu": "8x A100"})
    assert error.did_you_mean == ["a100"]


def test_gpu_names_are_united_and_excluded() -> None:
    both = spec_of({"gpu": "t4, a100-80g"}).gpus
    assert both is not None
    assert {"t4", "a100-pcie-80g", "a100-sxm4-80g"} <= both
    assert members(spec_of({"gpu": "a100-80g,!a100-pcie-80g"}).gpus) == {"a100-sxm4-80g", "a100-unstated-80g"}
    assert "t4" not in (spec_of({"gpu": "!t4"}).gpus or ())


def test_the_family_means_all_its_models() -> None:
    gpus = spec_of({"gpu": "a100"}).gpus
    assert gpus is not None
    assert {"a100-pcie-40g", "a100-sxm4-80g"} <= gpus


@pytest.mark.parametrize(
    ("text", "regions"),
    [
        ("ap-guangzhou", {("tencent", "ap-guangzhou")}),
        ("AP-Guangzhou", {("tencent", "ap-guangzhou")}),
        ("tencent:ap-nanjing", {("tencent", "ap-nanjing")}),
        ("tencent:nanjing", {("tencent", "ap-nanjing")}),
        ("tencent:南京", {("tencent", "ap-nanjing")}),
        ("tencent:ap-nan*", {("tencent", "ap-nanjing")}),
        ("tencent:ap-nan*,!ap-nanjing,azure:eastus", {("azure", "eastus")}),
    ],
)
def test_a_region_is_a_code_a_glob_a_provider_s_or_a_city(text: str, regions: set[tuple[str, str]]) -> None:
    assert members(spec_of({"region": text}).regions) == regions


def test_a_city_means_every_provider_s_region_there() -> None:
    found = spec_of({"region": "南京"}).regions
    assert found == spec_of({"region": "nanjing"}).regions
    assert {("tencent", "ap-nanjing"), ("alibaba", "cn-nanjing")} <= (found or set())


@pytest.mark.parametrize(
    ("params", "zones"),
    [
        ({"zone": "us-east-1a"}, {("aws", "us-east-1", "use1-az6")}),
        ({"zone": "use1-az6"}, {("aws", "us-east-1", "use1-az6")}),
        ({"zone": "azure:1", "region": "eastus"}, {("azure", "eastus", "1")}),
        ({"zone": "南京"}, {("tencent", "ap-nanjing", "ap-nanjing-1")}),
        ({"zone": "ap-chongqing-1"}, {("tencent", "ap-chongqing", "ap-chongqing-1")}),
    ],
)
def test_a_zone_is_a_name_or_an_id_and_taken_at_its_word_where_none_is_known(
    params: dict[str, str | list[str]], zones: set[tuple[str, str, str]]
) -> None:
    assert members(spec_of(params).zones) == zones


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"spot": "true", "purchase": "on_demand"}, "purchase"),
        ({"spot": "true", "purchase": "on_demand,spot"}, "purchase"),
        ({"spot": "false", "purchase": "spot"}, "purchase"),
        ({"region": "ap-nanjing", "zone": "us-east-1a"}, "zone"),
        ({"region": "ap-nanjing,!ap-nanjing"}, "region"),
        ({"provider": "aws,!aws"}, "provider"),
        ({"gpu": "t4,!t4"}, "gpu"),
        ({"region": "!ap-nanjing", "fallback": "ap-nanjing"}, "fallback"),
    ],
)
def test_contradictions_are_refused(params: dict[str, str | list[str]], parameter: str) -> None:
    assert refused(params).parameter == parameter


@pytest.mark.parametrize(
    ("params", "purchases"),
    [
        ({"spot": "true"}, {Purchase.SPOT}),
        ({"spot": "true", "purchase": "spot"}, {Purchase.SPOT}),
        ({"spot": "false"}, {Purchase.ON_DEMAND}),
        ({"spot": "false", "purchase": "month"}, {Purchase.MONTH}),
        ({"purchase": "on_demand,spot"}, {Purchase.ON_DEMAND, Purchase.SPOT}),
        ({"purchase": ["on_demand", "spot"]}, {Purchase.ON_DEMAND, Purchase.SPOT}),
        ({"purchase": "!spot"}, set(Purchase) - {Purchase.SPOT}),
    ],
)
def test_spot_is_short_for_a_purchase(params: dict[str, str | list[str]], purchases: set[Purchase]) -> None:
    assert members(spec_of(params).purchases) == purchases


def test_a_default_gives_way_to_the_question() -> None:
    defaults = {"CURRENCY": "cny", "spot": "true", "region": ""}
    assert spec_of({}, defaults).currency == "CNY"
    assert spec_of({"currency": "EUR"}, defaults).currency == "EUR"
    assert members(spec_of({}, defaults).purchases) == {Purchase.SPOT}
    assert members(spec_of({"purchase": "on_demand"}, defaults).purchases) == {Purchase.ON_DEMAND}


def test_a_zone_in_the_question_silences_the_default_region() -> None:
    spec = spec_of({"zone": "us-east-1a"}, {"region": "ap-guangzhou"})
    assert (spec.regions, members(spec.zones)) == (None, {("aws", "us-east-1", "use1-az6")})


def test_accounts_are_mine_once_there_are_any() -> None:
    with_account = World(providers=WORLD.providers, accounts=frozenset({("aws", "aws")}))
    assert spec_of({}).accounts is Accounts.ALL
    assert spec_of({}, world=with_account).accounts is Accounts.MINE
    assert spec_of({"accounts": "all"}, world=with_account).accounts is Accounts.ALL


@pytest.mark.parametrize(
    ("params", "tiers"),
    [
        ({"region": "ap-guangzhou"}, [{"ap-nanjing"}, {"ap-chongqing"}]),
        ({"region": "ap-guangzhou", "fallback": "none"}, []),
        ({"region": "ap-guangzhou", "fallback": "ap-chongqing,ap-nanjing"}, [{"ap-chongqing"}, {"ap-nanjing"}]),
        ({"region": "ap-guangzhou", "fallback": "ap-chongqing,ap-c*"}, [{"ap-chongqing"}, {"ap-chengdu"}]),
        ({"region": "ap-guangzhou,!ap-nanjing"}, [{"ap-chongqing"}]),
        ({"region": "ap-nanjing"}, []),
        ({}, []),
    ],
)
def test_fallback_is_an_ordered_list_configured_for_the_primary_region(
    params: dict[str, str | list[str]], tiers: list[set[str]]
) -> None:
    found = [{region for provider, region in tier if provider == "tencent"} for tier in spec_of(params).fallback]
    assert found == tiers


def test_a_configured_region_may_be_written_as_environment_variables_write_it() -> None:
    world = World(providers=WORLD.providers, fallback={"AP_GUANGZHOU": ["ap-nanjing"]})
    assert spec_of({"region": "ap-guangzhou"}, world=world).fallback == (frozenset({("tencent", "ap-nanjing")}),)


def test_the_spec_describes_itself_with_everything_filled_in() -> None:
    described = spec_of(
        {"gpu": "v100-sxm2-32g", "region": "ap-guangzhou", "min_vram": "24.5", "count": "2..8", "max_price": "3.50"}
    ).described()
    assert (
        described
        | {
            "gpu": ["v100-sxm2-32g"],
            "region": ["tencent:ap-guangzhou"],
            "fallback": [["tencent:ap-nanjing"], ["tencent:ap-chongqing"]],
            "min_vram": "24.5",
            "count": ["2..8"],
            "max_price": "3.5",
            "purchase": ["on_demand"],
            "currency": "USD",
            "stock": "prefer",
            "accounts": "all",
            "hosting": ["datacenter"],
            "limit": 5,
            "max_age": None,
            "zone": None,
        }
        == described
    )


def test_every_parameter_is_understood_described_and_documented() -> None:
    assert set(spec_of({}).described()) == PARAMETERS.keys() - {"spot"}
    text = (Path(__file__).parent.parent / "docs" / "selection.md").read_text(encoding="utf-8")
    words = [*PARAMETERS, *Verdict]
    assert [word for word in words if f"`{word}" not in text] == []


@pytest.mark.parametrize("text", ["v\x00100", "a100\x0080g", "ap-\x1bnanjing", "a\tb", "a\nb"])
@pytest.mark.parametrize("parameter", ["gpu", "region", "instance_type", "currency", "max_price"])
def test_a_control_character_is_refused_in_any_value(parameter: str, text: str) -> None:
    error = refused({parameter: text})
    assert (error.parameter, "control character" in error.message) == (parameter, True)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"gpu": "FooBar 9"}, "gpu=FooBar 9 names"),
        ({"region": "US-East-99"}, "region=US-East-99: "),
        ({"provider": "AWZ"}, "provider=AWZ is"),
        ({"vendor": "NVidea"}, "vendor=NVidea is"),
        ({"country": "zZ"}, "country=zZ: "),
        ({"hosting": "Home"}, "hosting=Home: "),
        ({"region": "!US-East-99"}, "region=US-East-99: "),
    ],
)
def test_a_refusal_repeats_the_value_as_it_was_written(params: dict[str, str | list[str]], said: str) -> None:
    assert refused(params).message.startswith(said)


@pytest.mark.parametrize(
    ("params", "near"),
    [
        ({"hosting": "x"}, ["datacenter", "community", "any"]),
        ({"stock": "foo"}, ["prefer", "confirmed", "any"]),
        ({"gpu": "4090"}, ["rtx4090", "rtx4090d"]),
        ({"gpu": "5090"}, ["rtx5090", "rtx5090d"]),
    ],
)
def test_a_refusal_offers_what_would_be_taken(params: dict[str, str | list[str]], near: list[str]) -> None:
    assert refused(params).did_you_mean[: max(2, len(near))] == near


def test_stock_all_is_offered_where_it_is_taken() -> None:
    with pytest.raises(BadQuestion) as caught:
        spec_of({"stock": "foo"}, endpoint="offers")
    assert caught.value.did_you_mean == ["prefer", "confirmed", "any", "all"]


@pytest.mark.parametrize("text", ["a100 100%", "a100#", "a100 [80GB]", "a100=80g", "a100?"])
def test_marks_that_no_accelerator_has_are_refused(text: str) -> None:
    assert refused({"gpu": text}).parameter == "gpu"


def test_an_unknown_gpu_that_is_like_none_points_to_the_list_in_whole_sentences() -> None:
    assert str(refused({"gpu": "qqqqqqqq"})) == "gpu=qqqqqqqq names no single accelerator. `GET /gpus` lists all."


KNOWN = replace(WORLD, machines={"gn10xp.2xlarge40": "GN10Xp.2XLARGE40", "p5.48xlarge": "p5.48xlarge"})


@pytest.mark.parametrize("text", ["GN10Xp.2XLARGE4", "!GN10Xp.2XLARGE4"])
def test_a_machine_that_nobody_has_is_refused_with_its_likes(text: str) -> None:
    with pytest.raises(BadQuestion) as caught:
        spec_of({"instance_type": text}, world=KNOWN)
    assert (caught.value.parameter, caught.value.did_you_mean[0]) == ("instance_type", "GN10Xp.2XLARGE40")


@pytest.mark.parametrize("text", ["gn10xp.2XLARGE40", "p6.*", "p6.48xlarg?", "p[67].48xlarge"])
def test_a_known_machine_and_any_glob_are_taken(text: str) -> None:
    assert spec_of({"instance_type": text}, world=KNOWN).instance_types == (text.casefold(),)


@pytest.mark.parametrize("world", [WORLD, replace(KNOWN, unread=frozenset({("aws", "")}))])
def test_a_machine_is_taken_at_its_word_until_all_was_read(world: World) -> None:
    assert spec_of({"instance_type": "p6.48xlarge"}, world=world).instance_types == ("p6.48xlarge",)


def test_a_region_that_is_still_to_be_read_is_known_and_a_refusal_says_what_is_missing() -> None:
    world = replace(WORLD, unread=frozenset({("runpod", "CZ"), ("aws", "")}))
    assert members(spec_of({"region": "cz"}, world=world).regions) == {("runpod", "CZ")}
    with pytest.raises(BadQuestion, match="so far; not every source was read yet"):
        spec_of({"region": "atlantis"}, world=world)


def test_a_misspelt_region_to_poll_is_no_region() -> None:
    world = replace(WORLD, unread=frozenset({("aws", "us-east-99")}))
    with pytest.raises(BadQuestion):
        spec_of({"region": "us-east-99"}, world=world)


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"provider": "gcp"}, "provider"),
        ({"region": "us-central1"}, "region"),
        ({"region": "gcp:us-central1"}, "region"),
        ({"region": "iowa"}, "region"),
        ({"country": "NO"}, "country"),
    ],
)
def test_a_provider_that_is_not_in_use_has_no_place_here(params: dict[str, str | list[str]], parameter: str) -> None:
    few = World(providers=frozenset({"tencent"}))
    with pytest.raises(BadQuestion) as caught:
        spec_of(params, world=few)
    assert caught.value.parameter == parameter


def test_a_price_limit_that_is_a_default_keeps_its_currency() -> None:
    defaults = {"max_price": "20", "currency": "CNY"}
    assert spec_of({}, defaults).currency == "CNY"
    assert spec_of({"currency": "cny"}, defaults).max_price_nanos == 20 * 10**9
    assert spec_of({"currency": "USD", "max_price": "3"}, defaults).max_price_nanos == 3 * 10**9
    with pytest.raises(BadQuestion, match="max_price=20 is a default in CNY: say the limit too"):
        spec_of({"currency": "USD"}, defaults)


@pytest.mark.parametrize("written", ["rmb", "RMB", "yuan", "人民币"])
def test_other_words_for_the_chinese_currency_suggest_its_code(written: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        spec_of({"currency": written})
    assert refused.value.did_you_mean == ["CNY"]
