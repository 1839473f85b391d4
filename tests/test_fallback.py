"""`fallback=auto`: alone, among names, configured and as a default; what is answered with it, and what is shown."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from catalog.spec import Spec
from commands import checking, showing
from selector.nearness import FORMULA
from selector.question import BadQuestion, Endpoint, understand
from selector.ranking import Ranking, Verdict
from settings import Settings
from tests.support.filled import served, v100_at_tencent
from tests.support.offers import Here, best_of, offer

ROOT = Path(__file__).parent.parent
WORLD = replace(
    Here(offers=[]).world(),
    zones=frozenset(
        {
            ("tencent", "ap-nanjing", "ap-nanjing-1", None),
            ("tencent", "ap-nanjing", "ap-nanjing-2", None),
            ("aws", "ap-northeast-1", "ap-northeast-1a", "apne1-az4"),
        }
    ),
)
GUANGZHOU_OTHERS = [
    *("ap-shenzhen-fsi", "ap-guiyang", "ap-chongqing", "ap-nanjing", "ap-shanghai", "ap-shanghai-fsi"),
    *("ap-chengdu", "ap-xian-ec", "ap-beijing", "ap-beijing-fsi"),
]


def asked(
    defaults: Mapping[str, str] | None = None,
    lists: Mapping[str, Sequence[str]] | None = None,
    endpoint: Endpoint = "cheapest",
    **params: str,
) -> Spec:
    return spec_of(params, defaults or {}, lists or {}, endpoint)


def spec_of(
    params: Mapping[str, str],
    defaults: Mapping[str, str],
    lists: Mapping[str, Sequence[str]],
    endpoint: Endpoint = "cheapest",
) -> Spec:
    world = replace(WORLD, fallback=lists)
    return understand({name: [text] for name, text in params.items()}, world, defaults, endpoint=endpoint)


def tiers(spec: Spec) -> list[str]:
    """The regions of the fallback tiers, one of each."""
    assert all(len(tier) == 1 for tier in spec.fallback), spec.fallback
    return [region for tier in spec.fallback for _, region in tier]


def refused(**params: str) -> BadQuestion:
    with pytest.raises(BadQuestion) as caught:
        spec_of(params, {}, {})
    return caught.value


# --- the question -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["auto", "AUTO", "auto,auto", " auto ,"])
def test_auto_makes_a_tier_of_each_other_region_nearest_first(text: str) -> None:
    spec = asked(region="ap-guangzhou", fallback=text)
    assert tiers(spec) == GUANGZHOU_OTHERS
    assert [near.region[1] for near in spec.nearness] == GUANGZHOU_OTHERS
    assert spec.described()["fallback"] == [[f"tencent:{name}"] for name in GUANGZHOU_OTHERS]


def test_what_is_named_beside_auto_keeps_its_place() -> None:
    others = [name for name in GUANGZHOU_OTHERS if name != "ap-nanjing"]
    first = asked(region="ap-guangzhou", fallback="ap-nanjing,auto")
    assert tiers(first) == ["ap-nanjing", *others]
    assert [first.nearness_of(number) is None for number in (0, 1, 2)] == [True, True, False]
    last = asked(region="ap-guangzhou", fallback="auto,na-ashburn,ap-nanjing")
    assert tiers(last) == [*GUANGZHOU_OTHERS, "na-ashburn"]
    assert last.nearness_of(len(last.fallback)) is None


@pytest.mark.parametrize("params", [{}, {"region": "!ap-guangzhou"}, {"zone": "!ap-nanjing-1"}, {"country": "CN"}])
@pytest.mark.parametrize("text", ["auto", "ap-nanjing,auto"])
def test_without_a_primary_place_auto_is_refused_and_told_what_to_name(params: dict[str, str], text: str) -> None:
    error = refused(fallback=text, **params)
    assert error.parameter == "fallback"
    assert "name a primary region or zone, such as region=ap-guangzhou" in error.message


@pytest.mark.parametrize("text", ["none,auto", "!auto", "tencent:auto"])
def test_auto_is_a_word_and_no_region(text: str) -> None:
    assert refused(region="ap-guangzhou", fallback=text).parameter == "fallback"


def test_the_others_of_a_zone_are_those_of_its_region() -> None:
    assert tiers(asked(zone="ap-northeast-1a", fallback="auto")) == ["ap-northeast-3"]
    spec = asked(zone="ap-nanjing-1", fallback="auto,ap-nanjing")
    assert tiers(spec)[0] == "ap-shanghai"
    assert tiers(spec)[-1] == "ap-nanjing"


def test_the_question_s_countries_and_exclusions_hold() -> None:
    assert "ap-hongkong" in tiers(asked(region="ap-guangzhou", country="CN,HK", fallback="auto"))
    assert "ap-hongkong" not in tiers(asked(region="ap-guangzhou", country="CN", fallback="auto"))
    found = tiers(asked(region="ap-guangzhou,!ap-nanjing", fallback="auto"))
    assert found == [name for name in GUANGZHOU_OTHERS if name != "ap-nanjing"]


def test_none_is_still_none() -> None:
    assert asked(region="ap-guangzhou", fallback="none").fallback == ()


def test_a_region_without_others_has_no_fallback() -> None:
    assert asked(region="eu-frankfurt", fallback="auto").fallback == ()


# --- configured, and as a default -------------------------------------------------------------------------------------


def test_auto_may_be_configured_alone_and_among_names() -> None:
    assert tiers(asked(lists={"ap-guangzhou": ["auto"]}, region="ap-guangzhou")) == GUANGZHOU_OTHERS
    mixed = asked(lists={"AP_GUANGZHOU": ["ap-beijing", "Auto"]}, region="ap-guangzhou")
    assert tiers(mixed) == ["ap-beijing", *(name for name in GUANGZHOU_OTHERS if name != "ap-beijing")]


def test_configured_auto_means_the_others_of_the_regions_whose_lists_have_it() -> None:
    lists = {"ap-guangzhou": ["auto"], "us-east-1": ["us-west-2"]}
    spec = asked(lists=lists, region="tencent:ap-guangzhou,aws:us-east-1")
    assert tiers(spec) == [*["us-west-2"], *GUANGZHOU_OTHERS]
    assert tiers(asked(lists={"ap-guangzhou": ["auto"]}, region="ap-guangzhou,ap-nanjing")) == [
        name for name in GUANGZHOU_OTHERS if name != "ap-nanjing"
    ]


def test_a_default_of_auto_counts_where_there_is_a_primary_place_and_no_list() -> None:
    defaults = {"FALLBACK": "auto"}
    assert tiers(asked(defaults, region="ap-guangzhou")) == GUANGZHOU_OTHERS
    assert tiers(asked(defaults, region="ap-guangzhou", fallback="ap-nanjing")) == ["ap-nanjing"]
    assert asked(defaults, region="ap-guangzhou", fallback="none").fallback == ()
    assert tiers(asked(defaults, {"ap-guangzhou": ["ap-nanjing"]}, region="ap-guangzhou")) == ["ap-nanjing"]
    assert tiers(asked(defaults, {"ap-guangzhou": ["ap-nanjing"]}, region="ap-nanjing"))[0] == "ap-shanghai"


@pytest.mark.parametrize("text", ["auto", "ap-nanjing,auto"])
@pytest.mark.parametrize("params", [{}, {"gpu": "v100"}, {"region": "!ap-nanjing", "country": "CN"}])
def test_a_default_of_auto_refuses_no_question(params: dict[str, str], text: str) -> None:
    spec = spec_of(params, {"fallback": text}, {})
    assert (spec.fallback, spec.nearness) == ((), ())


def test_a_default_is_checked_though_no_region_is_asked_for() -> None:
    with pytest.raises(BadQuestion):
        asked({"fallback": "auto,ap-nanjin"})


def test_offers_lists_the_others_only_where_the_question_says_so() -> None:
    lists = {"ap-guangzhou": ["auto"]}
    assert asked({"fallback": "auto"}, lists, endpoint="offers", region="ap-guangzhou").fallback == ()
    assert tiers(asked(endpoint="offers", region="ap-guangzhou", fallback="auto")) == GUANGZHOU_OTHERS


@pytest.mark.parametrize("fallback", [{"ap-guangzhou": ("auto",)}, {"us-east-1": ("us-west-2", "AUTO")}])
def test_settings_with_auto_are_found_well(fallback: dict[str, tuple[str, ...]]) -> None:
    loaded = Settings(database_url="sqlite:///x.db", fallback=fallback, defaults={"fallback": "auto"})
    assert checking.problems(loaded, WORLD) == []


def test_the_lists_of_the_example_name_regions_that_there_are() -> None:
    text = (ROOT / "gpufare.toml.example").read_text(encoding="utf-8")
    (group,) = re.findall(r"^# \[fallback\]\n(?:# .*\n)+", text, re.MULTILINE)
    lists = tomllib.loads(group.replace("# ", ""))["fallback"]
    loaded = Settings(database_url="sqlite:///x.db", fallback={name: tuple(names) for name, names in lists.items()})
    assert checking.problems(loaded, WORLD) == []
    assert tiers(asked(lists=lists, region="ap-beijing")) == ["ap-nanjing", "ap-chongqing", "ap-chengdu"]
    assert tiers(asked(lists=lists, region="aws:us-east-1"))[0] == "us-east-2"


# --- the answer -------------------------------------------------------------------------------------------------------

GUANGZHOU = offer(region="ap-guangzhou", level="out", price="1.00")
NANJING = offer(region="ap-nanjing", price="1.50")
BEIJING = offer(region="ap-beijing", price="0.50")
HONG_KONG = offer(region="ap-hongkong", country="HK", price="0.10")
AUTO = {"region": "ap-guangzhou", "fallback": "auto"}


def answer(*offers: Any, **params: str) -> Ranking:
    return Here(offers=offers).cheapest(**params)


def test_the_nearest_region_that_qualifies_answers_not_the_cheapest() -> None:
    ranking = answer(GUANGZHOU, NANJING, BEIJING, HONG_KONG, **AUTO)
    assert (best_of(ranking), ranking.fallback_used) == (NANJING, True)
    number = ranking.best.tier if ranking.best else 0
    assert ranking.tiers[number].regions == ("ap-nanjing",)
    assert [tier.passed_over for tier in ranking.tiers[:2]] == [Verdict.OUT_OF_STOCK, Verdict.NOT_OFFERED_HERE]


def test_the_order_of_the_offers_makes_no_difference() -> None:
    offers = [GUANGZHOU, NANJING, BEIJING, HONG_KONG]
    assert {answer(*some, **AUTO) == answer(*offers, **AUTO) for some in permutations(offers)} == {True}


def test_a_primary_place_that_qualifies_keeps_the_others_out() -> None:
    here = offer(region="ap-guangzhou", price="9")
    ranking = answer(here, NANJING, BEIJING, **AUTO)
    assert (best_of(ranking), ranking.fallback_used, ranking.alternatives) == (here, False, ())


def test_the_mainland_is_left_only_where_that_is_asked_for() -> None:
    assert answer(GUANGZHOU, HONG_KONG, **AUTO).best is None
    assert best_of(answer(GUANGZHOU, HONG_KONG, **AUTO, country="CN,HK")) == HONG_KONG


def test_the_sentence_says_about_how_far_it_is_and_each_reason_once() -> None:
    said = Here(offers=[GUANGZHOU, NANJING]).said(**AUTO)
    assert said.endswith(
        "; fallback (about 23 ms from ap-guangzhou, estimated), because ap-guangzhou is out of stock; "
        "ap-shenzhen-fsi, ap-guiyang, ap-chongqing do not offer it."
    )
    said = Here(offers=[GUANGZHOU, NANJING, BEIJING]).said(**AUTO, max_price="0.6")
    assert said.endswith(
        "; fallback (about 35 ms from ap-guangzhou, estimated), because ap-guangzhou is above the price limit; "
        "ap-shenzhen-fsi, ap-guiyang, ap-chongqing and 4 more do not offer it; ap-nanjing is above the price limit."
    )


def test_the_sentence_says_nothing_of_how_far_a_named_region_is() -> None:
    said = Here(offers=[GUANGZHOU, NANJING]).said(region="ap-guangzhou", fallback="ap-nanjing,auto")
    assert said.endswith("; fallback, because ap-guangzhou is out of stock.")


def test_the_sentence_says_that_it_is_not_known_how_far() -> None:
    north = offer("azure", "chinanorth", level="out")
    unplaced = offer("azure", "chinaeast3", price="2")
    said = Here(offers=[north, unplaced]).said(region="azure:chinanorth", fallback="auto")
    assert "; fallback (how far is not known), because chinanorth is out of stock; " in said


def test_the_answer_shows_the_estimate_with_its_formula(tmp_path: Path) -> None:
    filled = v100_at_tencent(tmp_path)
    with served(filled) as server:
        shown = server.get("/cheapest?gpu=v100&region=ap-guangzhou&fallback=auto")
        plain = server.get("/cheapest?gpu=v100&region=ap-guangzhou&fallback=ap-nanjing")
        server.refused("/cheapest?gpu=v100&fallback=auto")
    filled.engine.dispose()
    assert [tier["regions"] for tier in shown["tiers"]] == [["ap-guangzhou"], *([name] for name in GUANGZHOU_OTHERS)]
    nanjing = shown["tiers"][shown["best"]["tier"]]
    assert (nanjing["regions"], nanjing["estimated_rtt_ms"]) == (["ap-nanjing"], 23)
    assert nanjing["estimate"] == {
        "rtt_ms": 23,
        "distance_km": 1133,
        "from": "tencent:ap-guangzhou",
        "formula": FORMULA,
    }
    assert shown["query"]["fallback"] == [[f"tencent:{name}"] for name in GUANGZHOU_OTHERS]
    assert "(about 23 ms from ap-guangzhou, estimated)" in shown["message"]
    for tier in (shown["tiers"][0], *plain["tiers"]):
        assert (tier["estimated_rtt_ms"], tier["estimate"]) == (None, None)


def test_a_default_and_a_list_of_auto_are_answered_too(tmp_path: Path) -> None:
    filled = v100_at_tencent(tmp_path)
    with served(filled, defaults={"fallback": "auto"}) as server:
        assert server.get("/cheapest?gpu=v100&region=ap-guangzhou")["best"]["region"] == "ap-nanjing"
        assert server.get("/cheapest?gpu=v100")["query"]["fallback"] == []
        assert server.get("/offers?gpu=v100&region=ap-guangzhou")["total"] == 1
        assert server.get("/history/stock?gpu=v100&region=ap-guangzhou")["total"] == 1
        assert server.get("/gpus/v100-sxm2-32g")["cheapest"]["region"] == "ap-nanjing"
    with served(filled, fallback={"ap-guangzhou": ["auto"]}) as server:
        assert server.get("/cheapest?gpu=v100&region=ap-guangzhou")["best"]["tier"] == 4
    filled.engine.dispose()


def test_the_tiers_are_printed_with_the_estimate_where_there_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = v100_at_tencent(tmp_path)
    with served(filled) as server:
        shown = server.get("/cheapest?gpu=v100&region=ap-guangzhou&fallback=auto&explain=true")
        plain = server.get("/cheapest?gpu=v100&region=ap-guangzhou&fallback=ap-nanjing&explain=true")
    filled.engine.dispose()
    showing.cheapest(shown, explain=True)
    printed = capsys.readouterr().out
    assert "round trip, estimated" in printed
    assert re.search(r"^4 +ap-nanjing .* about 23 ms from tencent:ap-guangzhou *$", printed, re.MULTILINE)
    showing.cheapest(plain, explain=True)
    assert "round trip" not in capsys.readouterr().out
