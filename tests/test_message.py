"""An event in words: every type in both languages, what a person must understand, and what no name may do to it."""

import json
from dataclasses import fields
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.message import Message, message
from alerts.words import Words
from alerts.words_en import EN
from alerts.words_zh import ZH
from catalog.spec import Sort
from catalog.watches import Event, EventType, Lang
from catalog.words import Level, Purchase
from tests.support.events import (
    AT,
    BARE,
    EVERY_EVENT,
    GUANGZHOU,
    HOSTILE,
    NANJING,
    SINCE,
    STALE,
    WATCH,
    event,
    grouped,
    named,
)

PAGE = "https://gpufare.example"
NAMES = [f"{one.type}{' grouped' if one.data.get('provider') else ''}" for one in EVERY_EVENT]


def told(what: Event, lang: Lang = Lang.EN, page_url: str | None = PAGE) -> Message:
    return message(what, lang, page_url=page_url)


def whole(what: Message) -> str:
    return f"{what.title}\n{what.body}"


@pytest.mark.parametrize("lang", Lang)
@pytest.mark.parametrize("what", EVERY_EVENT, ids=NAMES)
def test_every_type_is_told_in_every_language(what: Event, lang: Lang) -> None:
    said = told(what, lang)
    assert said.title
    assert len(said.lines) >= 2
    assert all(line == line.strip() and line and "\n" not in line for line in (said.title, *said.lines))
    for no_word in ("None", "null", "{", "}", "True", "[]"):
        assert no_word not in whole(said)
    assert any("2026-11-30 08:0" in line and "UTC" in line for line in said.lines), "since when, or when"
    watch = what.data["watch"]
    assert watch is None or "v100 guangzhou" in said.lines[0]


@pytest.mark.parametrize("what", EVERY_EVENT, ids=NAMES)
def test_the_languages_differ_and_chinese_is_chinese(what: Event) -> None:
    english, chinese = told(what), told(what, Lang.ZH)
    assert whole(english).replace("•", "").isascii()
    assert english.title != chinese.title
    assert len(english.lines) == len(chinese.lines)
    assert sum("\u4e00" <= one <= "\u9fff" for one in chinese.title) >= 3


@pytest.mark.parametrize("words", [EN, ZH])
def test_a_language_has_a_word_for_everything(words: Words) -> None:
    assert words.headlines.keys() == set(EventType)
    assert words.grouped.keys() == {EventType.STOCK_OUT, EventType.STOCK_BACK}
    assert words.levels.keys() == set(Level)
    assert words.states.keys() == {"available", "out", "unknown"}
    assert words.purchases.keys() == set(Purchase)
    assert words.units.keys() == set(Sort)
    assert all(getattr(words, one.name) for one in fields(words))


def test_sold_out_in_english() -> None:
    said = told(event(EventType.STOCK_OUT))
    assert said.title == "Out of stock: 1 x NVIDIA V100, tencent ap-guangzhou (Guangzhou)"
    assert said.lines == (
        "Watch: v100 guangzhou",
        "Since: 2026-11-30 08:00 UTC",
        "• 1 x NVIDIA V100, GN10Xp.2XLARGE40, on demand, tencent ap-guangzhou (Guangzhou), zone ap-guangzhou-3, "
        "8.68 CNY (1.2057 USD) per machine-hour, out of stock",
        "Not known at the moment, and not counted as out: 1",
        "• 1 x NVIDIA V100, GN10Xp.2XLARGE40, on demand, tencent ap-guangzhou (Guangzhou), zone ap-guangzhou-4, "
        "price unknown, in stock when last seen 2026-11-29 23:59 UTC, stale",
        "Use instead: 1 x NVIDIA V100, GN10Xp.2XLARGE40, on demand, tencent ap-nanjing (Nanjing), "
        "zone ap-nanjing-1, 8.68 CNY (1.2057 USD) per machine-hour, in stock",
    )
    assert said.command is not None
    assert said.command.label == "Start GN10Xp.2XLARGE40:"
    assert said.command.value.startswith("tccli cvm RunInstances ")
    assert "--Placement.Zone ap-nanjing-1 " in said.command.value, "of the substitute, not of what is out"


def test_back_in_stock_in_chinese() -> None:
    said = told(event(EventType.STOCK_BACK), Lang.ZH)
    assert said.title == "恢复有货：1 x NVIDIA V100，tencent ap-nanjing（南京）"
    assert said.lines == (
        "监控：v100 guangzhou",
        "开始时间：2026-11-30 08:00 UTC",
        "• 1 x NVIDIA V100，GN10Xp.2XLARGE40，按量付费，tencent ap-nanjing（南京），可用区 ap-nanjing-1，"
        "每台每小时 8.68 CNY (1.2057 USD)，有货",
    )
    assert said.command is not None
    assert said.command.label == "启动 GN10Xp.2XLARGE40 的命令："
    assert said.body.endswith(f"\n在 gpufare 中查看 {said.links[0].value}")


def test_the_link_asks_for_what_the_watch_looks_for() -> None:
    spec = {"gpu": ["a100-80g", "h100"], "nvlink": True, "min_vram": 24, "zone": None, "region": [], "spot": False}
    (link,) = told(event(EventType.STOCK_OUT, watch={**WATCH, "spec": spec})).links
    parts = urlsplit(link.value)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{PAGE}/"
    assert parse_qs(parts.query) == {
        "gpu": ["a100-80g,h100"],
        "nvlink": ["true"],
        "min_vram": ["24"],
        "spot": ["false"],
    }


def test_a_link_holds_any_parameter_and_no_page_gives_no_link() -> None:
    spec = {"instance_type": "a&b=c d#e/../<>|)\ud800"}
    (link,) = told(event(EventType.STOCK_OUT, watch={**WATCH, "spec": spec}), page_url=f"{PAGE}/gpu/").links
    assert parse_qs(urlsplit(link.value).query) == {"instance_type": ["a&b=c d#e/../<>|)?"]}
    assert link.value.startswith(f"{PAGE}/gpu/?instance_type=")
    assert not set(link.value) & set("<>|) ")
    assert told(event(EventType.TEST)).links[0].value == f"{PAGE}/"
    without = told(event(EventType.STOCK_OUT), page_url=None)
    assert without.links == ()
    assert "http" not in without.body


def test_one_currency_is_told_once_and_a_price_without_a_rate_in_its_own() -> None:
    price = {**NANJING["native_price"], "currency": "USD", "amount": "1.5"}
    same = {**NANJING, "native_price": price, "price_per_hour": "1.5"}
    assert ", 1.5 USD per machine-hour, " in told(event(EventType.STOCK_BACK, offers=[same])).lines[2]
    unconverted = {**NANJING, "price_per_hour": None}
    assert ", 8.68 CNY per machine-hour, " in told(event(EventType.STOCK_BACK, offers=[unconverted])).lines[2]


def test_a_price_says_what_is_paid_at_once_for_which_time_and_how_sure_it_is() -> None:
    price = {**NANJING["native_price"], "stale": True, "estimated": True, "upfront": {"amount": "900", "hours": 24}}
    window = {"from": "2026-12-01T11:30:00Z", "to": "2026-12-02T11:30:00Z"}
    block = {**NANJING, "native_price": price, "window": window, "purchase": "capacity_block"}
    line = told(event(EventType.STOCK_BACK, offers=[block])).lines[2]
    assert ", capacity block, from 2026-12-01 11:30 UTC to 2026-12-02 11:30 UTC, " in line
    assert " per machine-hour, 900 CNY to pay at once, estimated, price stale, in stock" in line


@pytest.mark.parametrize("lang", Lang)
@pytest.mark.parametrize("kind", EventType)
def test_what_is_not_known_is_said_or_left_out(kind: EventType, lang: Lang) -> None:
    bare = event(kind, offers=[BARE], unknown=[BARE], fallback=BARE, before=BARE, after=BARE, since=None)
    said = whole(told(bare, lang))
    assert "None" not in said
    assert ", ," not in said
    assert "， ，" not in said
    assert "()" not in said
    nothing = Event("evt", kind, AT, {})
    assert "None" not in whole(told(nothing, lang))
    assert told(nothing, lang).command is None


def test_an_unknown_gpu_price_and_stock_have_words() -> None:
    line = told(event(EventType.STOCK_BACK, offers=[BARE])).lines[2]
    assert line == "• GPU not known, p5.48xlarge, on demand, aws us-east-1, price unknown, stock unknown"


def test_a_long_list_is_cut_and_counted() -> None:
    said = told(event(EventType.STOCK_OUT, offers=[GUANGZHOU] * 40, unknown=[STALE] * 9))
    bullets = [line for line in said.lines if line.startswith("• ")]
    assert len(bullets) == 5 + 1 + 3 + 1
    assert [line for line in bullets if "more" in line] == ["• and 35 more", "• and 6 more"]
    assert "not counted as out: 9" in said.body


def test_a_title_names_what_is_one_thing_else_the_watch() -> None:
    elsewhere = {**GUANGZHOU, "region": "ap-shanghai"}
    other = {**GUANGZHOU, "gpu_name": "NVIDIA A100"}
    titles = [
        told(event(EventType.STOCK_OUT, offers=offers)).title
        for offers in ([GUANGZHOU, elsewhere], [GUANGZHOU, other], [])
    ]
    assert titles == [
        "Out of stock: 1 x NVIDIA V100",
        "Out of stock: v100 guangzhou",
        "Out of stock: v100 guangzhou",
    ]


@pytest.mark.parametrize("kind", [EventType.STOCK_OUT, EventType.REMINDER])
def test_nothing_to_use_instead_is_said_only_where_it_was_looked_for(kind: EventType) -> None:
    looked = told(event(kind, fallback=None))
    assert "Nothing to use instead is known." in looked.lines
    assert looked.command is None
    data = {name: value for name, value in event(kind).data.items() if name != "fallback"}
    assert "instead" not in told(Event("evt", kind, AT, data)).body


def test_a_machine_that_is_out_is_not_started() -> None:
    said = told(event(EventType.STOCK_BACK, offers=[GUANGZHOU, NANJING]))
    assert said.command is not None
    assert "ap-nanjing-1" in said.command.value
    assert told(event(EventType.HEARTBEAT, offers=[NANJING])).command is None
    assert told(event(EventType.STOCK_BACK, offers=[{**NANJING, "provider": "vast"}])).command is None


def test_prices_and_their_limit_have_unit_and_currency() -> None:
    assert "Limit: 1.80 USD per machine-hour" in told(event(EventType.PRICE_BELOW)).lines
    per_gpu = {**WATCH, "spec": {"sort": "price_per_gpu", "currency": "CNY"}}
    assert "Limit: 1.80 CNY per GPU-hour" in told(event(EventType.PRICE_BELOW, watch=per_gpu)).lines
    assert "设定值：每卡每小时 1.80 CNY" in told(event(EventType.PRICE_BELOW, watch=per_gpu), Lang.ZH).lines
    changed = told(event(EventType.PRICE_CHANGED)).lines
    assert "Before: 1.31 USD per machine-hour" in changed
    assert "Now: 1.2057 USD per machine-hour" in changed
    objects = {"before": {"amount": "9.1", "currency": "CNY"}, "after": {"amount": "8.68", "currency": "CNY"}}
    assert "Before: 9.1 CNY" in told(event(EventType.PRICE_CHANGED, **objects)).lines
    assert "available" not in told(event(EventType.PRICE_BELOW)).body, "a state is no price"


def test_another_best_offer_is_told_beside_the_one_before() -> None:
    lines = told(event(EventType.BEST_CHANGED)).lines
    assert any(line.startswith("Before: ") and "zone ap-guangzhou-3" in line for line in lines)
    assert any(line.startswith("Now: ") and "zone ap-nanjing-1" in line for line in lines)


def test_stale_data_is_not_told_as_sold_out() -> None:
    said = told(event(EventType.SOURCE_STALE))
    assert "• tencent stock, last success 2026-11-30 07:00 UTC, no answer in time" in said.lines
    assert said.lines[-1].startswith("This does not mean sold out.")
    assert "不代表已售罄" in told(event(EventType.SOURCE_STALE), Lang.ZH).lines[-1]
    assert said.title == "Data is stale: v100 guangzhou"


@pytest.mark.parametrize(
    "held", [[{"type": "stock.out"}] * 2 + [{"type": "stock.back"}], {"stock.out": 2, "stock.back": 1}]
)
def test_a_summary_counts_what_was_held_back(held: object) -> None:
    lines = told(event(EventType.SUMMARY, held=held)).lines
    assert lines[2:4] == ("Out of stock: 2", "Back in stock: 1")


def test_the_others_say_what_they_are_and_what_to_do() -> None:
    assert "State: available" in told(event(EventType.HEARTBEAT)).lines
    dead = told(event(EventType.TARGET_DEAD))
    assert dead.title == "A target is dead: ops"
    assert "Reason: HTTP 410: the address is dead" in dead.lines
    assert "Give it a new address" in dead.lines[-1]
    assert told(event(EventType.TARGET_DEAD, target={"name": "ops"})).title == dead.title
    assert told(event(EventType.TEST)).title == "Test"


def test_a_whole_provider_at_once_is_told_with_doubt() -> None:
    said = told(grouped(EventType.STOCK_OUT))
    assert said.title == "tencent suddenly says that everything is out of stock"
    assert said.lines[0].startswith("Watches: watch 0, watch 1, ")
    assert said.lines[0].endswith(", watch 9, and 4 more")
    assert "unlikely to be true" in said.lines[-1]
    assert told(grouped(EventType.STOCK_BACK), Lang.ZH).title == "tencent 突然显示全部有货"


def test_an_account_is_named_and_its_provider_is_started() -> None:
    said = told(event(EventType.STOCK_BACK, offers=[{**NANJING, "provider": "tencent_intl"}]), Lang.ZH)
    assert "tencent_intl ap-nanjing（南京）" in said.title
    assert said.command is not None


@pytest.mark.parametrize("lang", Lang)
@pytest.mark.parametrize("kind", EventType)
def test_no_name_makes_a_line_hides_one_or_pushes_the_rest_out(kind: EventType, lang: Lang) -> None:
    said, usual = told(named(kind, HOSTILE), lang), told(named(kind, "x"), lang)
    assert len(said.lines) == len(usual.lines)
    assert all(one.isprintable() for one in whole(said).replace("\n", ""))
    assert "\n" not in f"{said.title}{said.lines}{said.command}{said.links}"
    far = told(event(kind, watch={**WATCH, "name": "長" * 100_000}), lang)
    assert len(whole(far)) < 3000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats() | st.text(max_size=20) | st.just(SINCE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("watch", "offers", "unknown", "fallback", "before", "after", "since", "sources", "held", "target", "watches")
OFFERS = st.fixed_dictionaries({}, optional=dict.fromkeys(NANJING, JSON))
VALUES = JSON | OFFERS | st.lists(OFFERS, max_size=2)


@given(st.sampled_from(EventType), st.sampled_from(Lang), st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_whatever_the_json_is_there_is_a_message_of_printable_lines(
    kind: EventType, lang: Lang, data: dict[str, Any]
) -> None:
    said = told(Event("evt", kind, AT, data), lang)
    assert all(line.isprintable() and line for line in (said.title, *said.lines))
    json.dumps(said.body).encode()
