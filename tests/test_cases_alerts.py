"""Field cases of alerts: told once for each change that was seen, never for a failure, and delivered all the same."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from catalog.facts import Fact
from catalog.watches import EventType
from catalog.words import Level
from scheduler.attempts import Pauses
from tests.support.feeds import HandClock
from tests.support.filled import Filled, machine, price, served, sold, stock
from tests.support.hooks import CLOSE, HANG, OK, Answer, Hooks, hooks
from tests.support.stored import MINUTE, T0, opened
from tests.support.watched import Watched
from tests.test_sending import RULES, add, ended, kept, put, sending, tried, until

IN, OUT = Level.IN_STOCK, Level.OUT
OF_STOCK = frozenset({EventType.STOCK_OUT, EventType.STOCK_BACK})
REGION = "us-east-1"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", REGION), ("stock", "us-west-2"))
    yield filled
    filled.engine.dispose()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


@pytest.fixture
def receivers() -> Iterator[Hooks]:
    with hooks() as found:
        yield found


def states(*levels: Level, gpu: str = "h100-sxm5-80g") -> list[Fact]:
    found: list[Fact] = []
    for number, level in enumerate(levels):
        name = f"{gpu}-{number}"
        found += [machine(REGION, name, gpu=gpu), price(REGION, name, "8.00"), stock(REGION, name, level)]
    return found


def samples(filled: Filled, watched: Watched, levels: Sequence[Level], every_s: float) -> list[tuple[int, str]]:
    """Polls at this interval, each evaluated; what is told, with the number of the sample that it is told at."""
    found = []
    for number, level in enumerate(levels, start=1):
        filled.poll("aws", "stock", REGION, states(level))
        found += [(number, kind) for kind in watched.tick(0)]
        filled.later(seconds=every_s)
    return found


def test_flapping_inside_the_hold_is_silent_and_what_lasts_is_told_once(filled: Filled) -> None:
    """B114: out, in, out, in, out, in, in, in, a minute apart, both holds a minute: back at the seventh alone."""
    filled.poll("aws", "stock", REGION, states(OUT))
    watched = Watched(filled)
    watched.add(hold=MINUTE, hold_back=MINUTE, events=OF_STOCK)
    assert samples(filled, watched, [OUT, IN, OUT, IN, OUT, IN, IN, IN], 60) == [(7, "stock.back")]


def test_each_change_is_told_and_a_repeated_state_is_not(filled: Filled) -> None:
    """B115: out, in, in, out, in without holds: back, out, back."""
    filled.poll("aws", "stock", REGION, states(OUT))
    watched = Watched(filled)
    watched.add(events=OF_STOCK)
    told = samples(filled, watched, [OUT, IN, IN, OUT, IN], 60)
    assert told == [(2, "stock.back"), (4, "stock.out"), (5, "stock.back")]


def test_in_out_in_out_within_a_minute_then_out_for_good_then_back(filled: Filled) -> None:
    """T18: hold 2m."""
    filled.poll("aws", "stock", REGION, states(IN))
    watched = Watched(filled)
    watched.add(hold=2 * MINUTE, events=OF_STOCK)
    assert samples(filled, watched, [IN, OUT, IN, OUT], 20) == []
    assert samples(filled, watched, [OUT] * 8, 60) == [(3, "stock.out")]
    assert samples(filled, watched, [IN, IN], 60) == [(1, "stock.back")]


def test_a_watch_over_two_models_means_either_and_failed_polls_are_no_change(filled: Filled) -> None:
    """B118: `a100-80g,h100-80g`; two failed polls, then in stock: one source.stale at the most, one source.back."""
    filled.poll("aws", "stock", REGION, [*states(IN, gpu="a100-sxm4-80g"), *states(OUT)])
    watched = Watched(filled)
    watch = watched.add(spec={"gpu": "a100-80g,h100-80g"})
    assert watched.memory(watch).state == "available"
    told: list[str] = []
    for _ in range(2):
        filled.later(minutes=3)
        filled.fail("aws", "stock", REGION, "no answer in time")
        told += watched.tick()
    for _ in range(60):
        filled.poll("aws", "stock", REGION, [*states(IN, gpu="a100-sxm4-80g"), *states(OUT)])
        told += watched.tick(60)
    assert told == ["source.stale", "source.back"]


def test_a_watch_that_nothing_can_meet_says_so_when_it_is_made_and_later(filled: Filled) -> None:
    """B119: the region has other GPUs only."""
    filled.poll("aws", "stock", REGION, states(IN, gpu="a100-sxm4-80g"))
    filled.poll("aws", "stock", "us-west-2", sold("us-west-2", "M", "1"))
    with served(filled) as server:
        server.get("/offers")
        server.post("/targets", {"name": "ops", "url": "https://93.184.215.14/hook"}, 201)
        asked = {"name": "w", "spec": {"gpu": "v100-32g", "region": REGION}, "notify": ["ops"]}
        made = server.post("/watches", asked, 201)
        none = "no known offer matches this spec: nothing can be told until one does"
        assert (made["state"], made["warnings"]) == ("unknown", [none])
        for _ in range(3):
            filled.later(minutes=1)
            filled.poll("aws", "stock", REGION, states(IN, gpu="a100-sxm4-80g"))
        assert server.get(f"/watches/{made['id']}")["warnings"] == [none]


def test_what_comes_back_is_told_of_with_all_that_is_known_of_it(filled: Filled) -> None:
    """B120: out before the first evaluation, then in."""
    filled.poll("aws", "stock", REGION, states(OUT))
    watched = Watched(filled)
    watched.add(events=OF_STOCK)
    filled.later(minutes=1)
    filled.poll("aws", "stock", REGION, states(IN))
    assert watched.tick() == ["stock.back"]
    (offer,) = watched.told(EventType.STOCK_BACK)[0]["offers"]
    may_be_null = {"site", "upstream", "zone", "zone_id", "job_cost", "window", "nvlink"}
    assert {name for name, value in offer.items() if value is None} <= may_be_null
    assert (offer["provider"], offer["region"], offer["gpu"]) == ("aws", REGION, "h100-sxm5-80g")
    assert (offer["native_price"]["amount"], offer["native_price"]["currency"]) == ("8", "USD")
    assert offer["stock"]["observed_at"] == offer["native_price"]["observed_at"] == "2026-11-30T08:01:00Z"


def test_the_first_look_at_a_place_is_a_baseline(filled: Filled) -> None:
    """B121: an empty database, a watch for everything, 300 in and 200 out; from the second answer on only changes."""
    watched = Watched(filled)
    watched.add(spec={"provider": "aws"}, events=OF_STOCK)
    watched.tick()
    filled.poll("aws", "stock", REGION, states(*[IN] * 300, *[OUT] * 200))
    assert watched.tick() == []
    filled.poll("aws", "stock", REGION, states(*[OUT] * 500))
    assert watched.tick() == ["stock.out"]


def test_a_storm_of_changes_is_one_message_marked_as_suspicious(filled: Filled) -> None:
    """B082: the provider says available for everything at once."""
    filled.poll("aws", "stock", REGION, states(*[OUT] * 20))
    watched = Watched(filled)
    for number in range(20):
        watched.add(f"w{number}", spec={"instance_type": f"h100-sxm5-80g-{number}"}, events=OF_STOCK)
    watched.tick()
    filled.poll("aws", "stock", REGION, states(*[IN] * 20))
    assert watched.tick() == [], "it is doubted"
    assert watched.tick(90) == ["stock.back"]
    (told,) = watched.told(EventType.STOCK_BACK)
    assert (told["suspicious"], told["provider"], len(told["watches"])) == (True, "aws", 20)


def test_a_failed_poll_tells_nothing_of_stock(filled: Filled) -> None:
    """T19: the last good poll four minutes ago: stale, unconfirmed, no stock.out."""
    filled.poll("aws", "stock", REGION, states(IN))
    watched = Watched(filled)
    watch = watched.add()
    watched.tick()
    filled.later(minutes=4)
    filled.fail("aws", "stock", REGION, "no answer in time")
    assert watched.tick() == ["source.stale"]
    assert (watched.memory(watch).state, watched.memory(watch).seen) == ("available", "unknown")


def test_the_price_per_gpu_times_the_count_is_the_price_in_an_event_too(filled: Filled) -> None:
    """B010, in the payload of an alert."""
    four: list[Fact] = [
        machine(REGION, "n-4gpu", gpu_count=4),
        price(REGION, "n-4gpu", "8.00"),
        stock(REGION, "n-4gpu", OUT),
    ]
    filled.poll("aws", "stock", REGION, four)
    watched = Watched(filled)
    watched.add(spec={"gpu": "h100", "count": "4"}, events=OF_STOCK)
    filled.poll("aws", "stock", REGION, [*four[:2], stock(REGION, "n-4gpu", IN)])
    assert watched.tick() == ["stock.back"]
    (offer,) = watched.told(EventType.STOCK_BACK)[0]["offers"]
    assert (offer["price_per_hour"], offer["price_per_gpu_hour"], offer["gpu_count"]) == ("8", "2", "4")


# --- deliveries


@pytest.mark.both_databases
def test_a_receiver_that_is_down_for_ten_minutes_gets_few_attempts(engine: Engine, receivers: Hooks) -> None:
    """B122: HTTP 503 for ten minutes, then 200: at most 12 attempts, with one id."""
    clock = HandClock(T0)
    receivers.behave["/"] = lambda _: OK if clock() >= T0 + 10 * MINUTE else Answer(503)
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops", at=T0)
    with sending(engine, clock, replace(RULES, pauses=Pauses())):
        attempts = 1
        until(tried(engine, delivery_id, attempts))
        while (at := kept(engine, delivery_id).next_at) is not None:
            clock.now, attempts = at, attempts + 1
            until(tried(engine, delivery_id, attempts))
    assert kept(engine, delivery_id).status == "sent"
    assert len(receivers.got()) <= 12
    assert set(receivers.ids()) == {"evt_1"}


@pytest.mark.both_databases
def test_a_repeated_delivery_has_the_same_id_and_body_and_the_next_change_another(
    engine: Engine, receivers: Hooks
) -> None:
    """B124: the receiver takes it, and closes without an answer."""
    receivers.behave["/"] = lambda number: CLOSE if number == 0 else OK
    add(engine, "ops", receivers.url("/"))
    (first,) = put(engine, "evt_1", "ops")
    with sending(engine, rules=replace(RULES, pauses=Pauses(timedelta(0), timedelta(0)))):
        until(ended(engine, first))
        (second,) = put(engine, "evt_2", "ops")
        until(ended(engine, second))
    assert receivers.ids() == ["evt_1", "evt_1", "evt_2"]
    assert receivers.got()[0].body == receivers.got()[1].body


@pytest.mark.both_databases
def test_a_slow_or_broken_receiver_delays_and_loses_nothing_of_the_others(engine: Engine, receivers: Hooks) -> None:
    """B125: 410, one that hangs, 429 with Retry-After 30, and one that is well; restarted in between."""
    clock = HandClock(T0)
    receivers.behave |= {
        "/gone": lambda _: Answer(410),
        "/hangs": lambda _: HANG,
        "/limits": lambda number: Answer(429, {"Retry-After": "30"}) if number == 0 else OK,
    }
    names = ("gone", "hangs", "limits", "well")
    for name in names:
        add(engine, name, receivers.url(f"/{name}"))
    found: dict[str, Any] = dict(zip(names, put(engine, "evt_1", *names, at=T0), strict=True))
    rules = replace(RULES, pauses=Pauses(), timeout=timedelta(seconds=1))
    with sending(engine, clock, rules):
        until(ended(engine, found["well"]))
        until(ended(engine, found["gone"]))
        until(lambda: kept(engine, found["limits"]).last_status == 429)
        until(lambda: kept(engine, found["hangs"]).last_error)
    clock.now = T0 + timedelta(seconds=30)
    with sending(engine, clock, rules):
        until(ended(engine, found["limits"]))
        until(tried(engine, found["hangs"], 2))
    assert receivers.ids("/gone") == ["evt_1"]
    assert kept(engine, found["gone"]).last_error == "HTTP 410: the address is dead"
    assert {name: kept(engine, one).status for name, one in found.items()} == {
        "gone": "dead",
        "hangs": "pending",
        "limits": "sent",
        "well": "sent",
    }
