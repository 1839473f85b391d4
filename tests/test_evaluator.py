"""Watches over a polled database: told once, told truly, and neither lost nor repeated whoever evaluates."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, event, update
from sqlalchemy.exc import OperationalError

from catalog.facts import Fact
from catalog.watches import EventType
from catalog.words import Level, Purchase
from store import launches, outbox, watches
from store.launches import Launch
from store.watch_tables import DUTIES
from tests.support.filled import Filled, machine, price, stock
from tests.support.watched import Watched

pytestmark = pytest.mark.both_databases
MINUTE = timedelta(minutes=1)


def states(*levels: Level | None, region: str = "us-east-1", amount: str = "2") -> list[Fact]:
    """A machine for each level: M0, M1 …; None is not listed."""
    facts: list[Fact] = []
    for number, level in enumerate(levels):
        if level is not None:
            name = f"M{number}"
            facts += [machine(region, name), price(region, name, amount), stock(region, name, level)]
    return facts


IN, LOW, OUT = Level.IN_STOCK, Level.LOW, Level.OUT
OF_STOCK = frozenset({EventType.STOCK_OUT, EventType.STOCK_BACK})


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    filled = Filled(tmp_path)
    filled.plan("aws", ("stock", "us-east-1"), ("stock", "us-west-2"))
    filled.plan("tencent", ("stock", "ap-guangzhou"))
    yield filled
    filled.engine.dispose()


@pytest.fixture
def watched(filled: Filled) -> Watched:
    filled.poll("aws", "stock", "us-east-1", states(IN))
    return Watched(filled)


def poll(watched: Watched, *levels: Level | None, region: str = "us-east-1", amount: str = "2") -> None:
    provider = "tencent" if region.startswith("ap-") else "aws"
    watched.filled.poll(provider, "stock", region, states(*levels, region=region, amount=amount))


def test_sold_out_and_back_are_told_once_each_with_what_to_use_instead(watched: Watched) -> None:
    poll(watched, IN, region="us-west-2")
    watch = watched.add(spec={"gpu": "h100", "region": "us-east-1", "fallback": "us-west-2"})
    assert [watched.tick(), watched.tick()] == [[], []]
    poll(watched, OUT)
    assert [watched.tick(), watched.tick(60), watched.tick()] == [["stock.out"], [], []]
    (out,) = watched.told(EventType.STOCK_OUT)
    assert (out["before"], out["after"], out["unknown"]) == ("available", "out", [])
    assert out["watch"]["spec"] == {"gpu": "h100", "region": "us-east-1", "fallback": "us-west-2"}
    (offer,) = out["offers"]
    assert (offer["region"], offer["stock"]["level"], offer["tier"]) == ("us-east-1", "out", 0)
    assert offer["native_price"] | {"amount": "2", "currency": "USD"} == offer["native_price"]
    assert (out["fallback"]["region"], out["fallback"]["tier"], out["fallback"]["stock"]["confirmed"]) == (
        "us-west-2",
        1,
        True,
    )
    poll(watched, IN)
    assert [watched.tick(), watched.tick()] == [["stock.back"], []]
    (back,) = watched.told(EventType.STOCK_BACK)
    assert (back["before"], back["after"], back["offers"][0]["stock"]["level"]) == ("out", "available", "in_stock")
    last = watches.states(watched.filled.engine)[watch.id].last_event
    assert last is not None
    assert '"stock.back"' in last


def test_a_failed_poll_and_time_tell_of_the_source_and_never_of_stock(watched: Watched) -> None:
    watched.add()
    watched.tick()
    for _ in range(60):
        watched.filled.fail("aws", "stock", "us-east-1", "no answer in time")
        watched.tick(60)
    poll(watched, IN)
    watched.tick()
    assert [one["type"] for one in watched.events()] == ["source.stale", "source.back"]
    (stale,) = watched.told(EventType.SOURCE_STALE)
    assert [(one["provider"], one["feed"], one["status"]) for one in stale["sources"]] == [("aws", "stock", "stale")]
    assert "no answer in time" in stale["sources"][0]["error"]


def test_a_machine_that_is_no_longer_listed_and_a_price_that_rises_tell_nothing(watched: Watched) -> None:
    poll(watched, IN, OUT)
    watch = watched.add(spec={"gpu": "h100", "max_price": "3"}, events=frozenset({EventType.STOCK_OUT}))
    watched.tick()
    watched.filled.later(minutes=1)
    watched.filled.poll(
        "aws",
        "stock",
        "us-east-1",
        [
            *(machine("us-east-1", name) for name in ("M0", "M1")),
            price("us-east-1", "M0", "9"),
            price("us-east-1", "M1", "2"),
            stock("us-east-1", "M0", IN),
            stock("us-east-1", "M1", OUT),
        ],
    )
    assert watched.tick() == []
    assert watched.memory(watch).state == "out", "no confirmed match remains, and one is seen to be out"
    poll(watched, IN, OUT)
    assert watched.tick() == []
    assert watched.memory(watch).state == "available"


def test_two_providers_that_sell_out_one_after_the_other_are_one_event(watched: Watched) -> None:
    poll(watched, IN, region="ap-guangzhou")
    watched.add(spec={"gpu": "h100"})
    watched.tick()
    poll(watched, OUT)
    assert watched.tick() == ["best.changed"]
    poll(watched, OUT, region="ap-guangzhou")
    assert watched.tick() == ["stock.out"]
    assert {one["provider"] for one in watched.told(EventType.STOCK_OUT)[0]["offers"]} == {"aws", "tencent"}


def test_both_at_the_same_moment_are_one_event_too(watched: Watched) -> None:
    poll(watched, IN, region="ap-guangzhou")
    watched.add(spec={"gpu": "h100"})
    watched.tick()
    poll(watched, OUT)
    poll(watched, OUT, region="ap-guangzhou")
    assert watched.tick() == ["stock.out"]


def test_another_process_goes_on_where_one_left_off(watched: Watched) -> None:
    """Neither lost, though nobody evaluated while it changed, nor told again."""
    watched.add(hold=MINUTE * 2)
    watched.tick()
    poll(watched, OUT)
    assert watched.tick() == []
    watched.filled.later(minutes=2)
    poll(watched, OUT)
    watched.evaluator = watched.another()
    assert watched.tick(40) == ["stock.out"], "the lease of the one before is over"
    watched.evaluator.leave()
    poll(watched, IN)
    watched.evaluator = watched.another()
    assert watched.tick() == ["stock.back"]
    watched.evaluator.leave()
    watched.evaluator = watched.another()
    assert watched.tick() == []


def test_one_process_at_a_time_evaluates(watched: Watched) -> None:
    watched.add()
    other = watched.another()
    watched.tick()
    poll(watched, OUT)
    assert other.tick() == 0
    assert watched.events() == []
    assert watched.tick() == ["stock.out"]


def test_whoever_lost_the_duty_keeps_nothing(watched: Watched) -> None:
    watched.add()
    watched.tick()
    with watched.filled.engine.begin() as connection:
        connection.execute(update(DUTIES).values(token="another's"))
    poll(watched, OUT)
    assert watched.tick() == []
    watched.filled.later(minutes=1)
    poll(watched, OUT)
    assert watched.tick() == ["stock.out"], "once the other's lease is over"


def test_what_fails_to_be_kept_is_neither_lost_nor_told_twice(watched: Watched) -> None:
    watched.add()
    watched.tick()
    poll(watched, OUT)
    failing = _failing(watched.filled.engine)
    with pytest.raises(OperationalError):
        watched.tick()
    assert watched.events() == []
    failing.clear()
    assert [watched.tick(), watched.tick()] == [["stock.out"], []]


def _failing(engine: Engine) -> list[str]:
    """A database that refuses to take events while this holds something."""
    failing = ["INSERT INTO events"]

    @event.listens_for(engine, "before_cursor_execute")
    def refuse(*args: object) -> None:
        if any(str(args[2]).startswith(one) for one in failing):
            raise OperationalError(str(args[2]), {}, Exception("disk full"))

    return failing


def test_what_changed_between_the_first_look_and_the_first_evaluation_is_told(watched: Watched) -> None:
    other = watched.add("other")
    watched.tick()
    watched.add("new")
    poll(watched, OUT)
    watched.tick()
    assert sorted(one["watch"]["name"] for one in watched.told(EventType.STOCK_OUT)) == ["new", "other"]
    assert watched.memory(other).told == "out"


def test_the_first_sync_of_an_empty_database_tells_nothing(filled: Filled) -> None:
    watched = Watched(filled)
    watched.add(spec={"gpu": "h100"})
    watched.tick()
    poll(watched, OUT, OUT)
    assert watched.tick() == []
    poll(watched, IN, IN, region="us-west-2")
    assert watched.tick() == []
    poll(watched, IN, IN, region="ap-guangzhou")
    assert watched.tick() == []
    poll(watched, IN, OUT)
    assert watched.tick() == ["stock.back", "best.changed"]


def test_a_machine_that_is_new_where_others_are_known_brings_stock_back(watched: Watched) -> None:
    poll(watched, OUT)
    watched.add()
    watched.tick()
    poll(watched, OUT, IN)
    assert watched.tick() == ["stock.back"]


def test_a_hold_runs_out_by_the_clock_and_flapping_tells_nothing(watched: Watched) -> None:
    watched.add(hold=MINUTE * 2, spec={"gpu": "h100"}, events=frozenset({EventType.STOCK_OUT, EventType.STOCK_BACK}))
    watched.tick()
    for level in (OUT, IN, OUT, IN):
        poll(watched, level)
        assert watched.tick(15) == []
    poll(watched, OUT)
    assert watched.tick(1) == []
    watched.filled.later(seconds=60)
    poll(watched, OUT)
    assert watched.tick(58) == []
    assert watched.tick(3) == ["stock.out"]


def test_a_paused_watch_is_told_nothing(watched: Watched) -> None:
    watch = watched.add()
    watched.tick()
    watched.change(watch, paused=True)
    poll(watched, OUT)
    assert watched.tick() == []


def test_a_removed_watch_is_told_nothing_and_no_watch_needs_no_evaluator(watched: Watched) -> None:
    watch = watched.add()
    watched.tick()
    watches.remove_watch(watched.filled.engine, watch.id, watched.filled.now)
    poll(watched, OUT)
    assert watched.tick() == []


def test_a_launch_that_failed_is_seen_to_be_out_until_it_is_over(watched: Watched) -> None:
    watched.add(events=frozenset({EventType.STOCK_OUT, EventType.STOCK_BACK}))
    watched.tick()
    now = watched.filled.now
    machine_, until = "M0", now + timedelta(seconds=90)
    launch = Launch("aws", "us-east-1", "", machine_, Purchase.ON_DEMAND, "error", "X", OUT, until)
    launches.keep(watched.filled.engine, launch, now)
    assert watched.tick() == ["stock.out"]
    watched.filled.later(seconds=60)
    poll(watched, IN)
    assert watched.tick() == []
    assert watched.tick(40) == ["stock.back"]


def test_a_whole_provider_at_once_is_one_event_for_each_target_and_told_with_doubt(filled: Filled) -> None:
    names = [IN] * 12
    filled.poll("aws", "stock", "us-east-1", states(*names))
    filled.poll("tencent", "stock", "ap-guangzhou", states(*names, region="ap-guangzhou"))
    watched = Watched(filled, "ops", "team", "lone")
    only = frozenset({EventType.STOCK_OUT})
    added = []
    for number in range(12):
        to = ("ops", "team") if number else ("ops", "team", "lone")
        spec = {"instance_type": f"M{number}", "region": "us-east-1"}
        added.append(watched.add(f"w{number}", to, spec=spec, events=only))
    watched.add("elsewhere", ("ops",), spec={"region": "ap-guangzhou"}, events=only)
    watched.tick()
    poll(watched, *[OUT] * 12)
    assert watched.tick() == [], "it is doubted, and waits for a full minute"
    watched.filled.later(seconds=30)
    poll(watched, *[OUT] * 12)
    assert watched.tick(60) == ["stock.out"] * 3
    found = {tuple(one["targets"]): one["data"] for one in watched.events()}
    assert found.keys() == {("ops",), ("team",), ("lone",)}
    ops, lone = found["ops",], found["lone",]
    assert (ops["watch"], ops["suspicious"], ops["provider"], len(ops["watches"])) == (None, True, "aws", 12)
    assert (lone["watch"]["name"], lone["suspicious"], len(lone["offers"])) == ("w0", True, 1)
    for number, targets in ((0, ["lone", "ops", "team"]), (1, ["ops", "team"])):
        found_of = outbox.deliveries(filled.engine, added[number].id, 10)
        assert sorted(one.target for one in found_of) == targets, "each watch shows what was told of it"
    outbox.prune(filled.engine, filled.now + timedelta(days=1))
    assert len(outbox.deliveries(filled.engine, added[0].id, 10)) == 3, "what is pending is not forgotten"


def test_fewer_than_nearly_all_are_told_each_by_itself(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", states(*[IN] * 12))
    watched = Watched(filled)
    for number in range(2):
        watched.add(f"w{number}", spec={"instance_type": f"M{number}"}, events=frozenset({EventType.STOCK_OUT}))
    watched.tick()
    poll(watched, *[OUT] * 10, IN, IN)
    watched.tick()
    assert ["suspicious" in one for one in watched.told(EventType.STOCK_OUT)] == [False, False]


def test_prices_are_told_in_the_watchs_unit_and_the_providers_currency(watched: Watched) -> None:
    watched.add(price_below=Decimal("1.8"), events=frozenset({EventType.PRICE_BELOW, EventType.PRICE_CHANGED}))
    watched.tick()
    poll(watched, IN, amount="1.7")
    assert watched.tick() == ["price.below", "price.changed"]
    (below,), (changed,) = watched.told(EventType.PRICE_BELOW), watched.told(EventType.PRICE_CHANGED)
    assert (below["price_below"], below["currency"], below["offers"][0]["price_per_hour"]) == ("1.8", "USD", "1.7")
    assert (changed["before"], changed["after"]) == (
        {"amount": "2", "currency": "USD"},
        {"amount": "1.7", "currency": "USD"},
    )


def test_another_best_offer_is_told_with_the_one_before(watched: Watched) -> None:
    watched.add(events=frozenset({EventType.BEST_CHANGED}))
    watched.tick()
    poll(watched, IN, region="us-west-2", amount="1")
    assert watched.tick() == ["best.changed"]
    (changed,) = watched.told(EventType.BEST_CHANGED)
    assert (changed["before"]["region"], changed["after"]["region"]) == ("us-east-1", "us-west-2")


def test_a_watch_whose_names_mean_nothing_any_more_keeps_its_state_and_says_why(watched: Watched) -> None:
    watch = watched.add(spec={"instance_type": "M0"})
    watched.tick()
    watched.filled.later(minutes=1)
    watched.filled.poll("aws", "stock", "us-east-1", states(None, IN))
    watched.filled.poll("aws", "stock", "us-west-2", states(None, IN, region="us-west-2"))
    watched.filled.poll("tencent", "stock", "ap-guangzhou", states(None, IN, region="ap-guangzhou"))
    assert watched.tick() == []
    memory = watched.memory(watch)
    assert memory.state == "available"
    assert memory.problem is not None
    assert "M0" in memory.problem


# --- what must neither be repeated nor lost


def test_whoever_comes_back_after_another_was_on_duty_begins_from_what_is_kept(watched: Watched) -> None:
    """Suspended for longer than its lease, while another process told, and ended: it tells nothing again."""
    watched.add(hold=MINUTE, events=OF_STOCK)
    watched.tick()
    poll(watched, OUT)
    watched.tick()
    other = watched.another()
    watched.filled.later(seconds=61)
    poll(watched, OUT)
    other.tick()
    assert [one["type"] for one in watched.events()] == ["stock.out"]
    other.leave()
    watched.filled.later(seconds=30)
    poll(watched, OUT)
    assert [watched.tick(), watched.tick()] == [[], []]


def test_a_duty_that_lapsed_is_not_gone_on_with_by_renewing_it(watched: Watched) -> None:
    watched.add(events=OF_STOCK)
    watched.tick()
    watched.filled.later(minutes=1)
    watched.evaluator.renew()
    other = watched.another()
    poll(watched, OUT)
    assert other.tick() == 1


def test_a_commit_that_was_heard_and_not_answered_is_not_made_again(watched: Watched) -> None:
    watched.add(events=OF_STOCK)
    watched.tick()
    poll(watched, OUT)
    failing = ["COMMIT"]

    @event.listens_for(watched.filled.engine, "commit")
    def lose(connection: Connection) -> None:
        written = connection.info.pop("events", False)
        if failing and written:
            failing.clear()
            driver: Any = connection.connection.driver_connection
            driver.commit()
            raise OperationalError("COMMIT", {}, Exception("the connection was lost"))

    @event.listens_for(watched.filled.engine, "before_cursor_execute")
    def note(connection: Connection, *args: object) -> None:
        if str(args[1]).startswith("INSERT INTO events"):
            connection.info["events"] = True

    with pytest.raises(OperationalError):
        watched.tick()
    assert [watched.tick(), watched.tick()] == [[], []]
    assert [one["type"] for one in watched.events()] == ["stock.out"]


def test_stock_that_came_back_while_its_price_was_stale_is_told_once_the_price_is_known(filled: Filled) -> None:
    filled.plan("aws", ("stock", "us-east-1"), ("prices", "us-east-1"))

    def said(level: Level) -> None:
        filled.poll("aws", "stock", "us-east-1", [machine("us-east-1", "M0"), stock("us-east-1", "M0", level)])

    said(OUT)
    filled.poll("aws", "prices", "us-east-1", [price("us-east-1", "M0", "2")])
    watched = Watched(filled)
    watched.add(events=OF_STOCK)
    watched.tick()
    filled.later(minutes=5)
    said(IN)
    assert watched.tick() == []
    filled.poll("aws", "prices", "us-east-1", [price("us-east-1", "M0", "2")])
    assert watched.tick() == ["stock.back"]


def test_what_is_listed_again_brings_stock_back(watched: Watched) -> None:
    poll(watched, IN, IN, IN, IN)
    watched.add(events=OF_STOCK, spec={"instance_type": "M0,M1"})
    watched.tick()
    poll(watched, None, IN, IN, IN)
    assert watched.tick() == []
    poll(watched, None, OUT, IN, IN)
    assert watched.tick() == ["stock.out"]
    poll(watched, IN, OUT, IN, IN)
    assert watched.tick() == ["stock.back"]


def test_a_provider_that_flips_region_by_region_is_one_event_told_with_doubt(filled: Filled) -> None:
    regions = ("us-east-1", "us-west-2")
    for region in regions:
        filled.poll("aws", "stock", region, states(*[IN] * 12, region=region))
    watched = Watched(filled)
    for number in range(12):
        for region in regions:
            spec = {"instance_type": f"M{number}", "region": region}
            watched.add(f"w{number} {region}", spec=spec, events=frozenset({EventType.STOCK_OUT}))
    watched.tick()
    for region in regions:
        filled.poll("aws", "stock", region, states(*[OUT] * 12, region=region))
        assert watched.tick(3) == []
    assert watched.tick(90) == ["stock.out"]
    (told,) = watched.told(EventType.STOCK_OUT)
    assert (told["suspicious"], told["provider"], len(told["watches"])) == (True, "aws", 24)


def test_what_is_taken_back_before_the_minute_is_not_told(filled: Filled) -> None:
    filled.poll("aws", "stock", "us-east-1", states(*[IN] * 12))
    watched = Watched(filled)
    watched.add(events=OF_STOCK)
    watched.tick()
    for level in (OUT, IN):
        poll(watched, *[level] * 12)
        assert watched.tick(3) == []
    assert watched.tick(90) == []


def test_a_watch_that_is_changed_all_the_time_delays_no_other_and_misses_nothing(watched: Watched) -> None:
    other, changing = watched.add("other", events=OF_STOCK), watched.add("changing", events=OF_STOCK)
    watched.tick()
    poll(watched, OUT)
    changed = [watched.change(changing, name="changed")]

    @event.listens_for(watched.filled.engine, "before_cursor_execute")
    def change(*args: object) -> None:
        """Just before the evaluation is kept, once."""
        if changed and "UPDATE duties SET token" in str(args[2]):
            changed.clear()
            cursor: Any = args[1]
            cursor.execute("UPDATE watches SET revision = revision + 1 WHERE name = 'changed'")

    watched.tick()
    assert [one["watch"]["id"] for one in watched.told(EventType.STOCK_OUT)] == [other.id]
    watched.tick()
    assert [one["watch"]["id"] for one in watched.told(EventType.STOCK_OUT)] == [other.id, changing.id]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("poll"), st.sampled_from([IN, LOW, OUT])),
            st.tuples(st.sampled_from(["fail", "restart", "wait", "suspend"]), st.just(IN)),
        ),
        max_size=14,
    )
)
def test_whatever_happens_each_change_that_a_poll_saw_is_told_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Level]]
) -> None:
    """Polls, failures, time, and evaluators that are killed or suspended: the sequence of what was told is that of what
    successive good polls said.
    """
    filled = Filled(tmp_path_factory.mktemp("life"))
    filled.plan("aws", ("stock", "us-east-1"))
    filled.poll("aws", "stock", "us-east-1", states(IN))
    watched = Watched(filled)
    watched.add(events=OF_STOCK)
    said, expected = IN, []
    watched.tick()
    for step, level in steps:
        if step == "poll":
            poll(watched, level)
            if (level is OUT) is not (said is OUT):
                expected.append("stock.out" if level is OUT else "stock.back")
            said = level
            watched.tick(40)  # whoever was killed has lost its lease
        elif step == "fail":
            filled.fail("aws", "stock", "us-east-1", "no answer in time")
        elif step == "restart":
            watched.evaluator = watched.another()
        filled.later(seconds={"wait": 600, "suspend": 45}.get(step, 1))
        watched.tick()
        watched.tick(31)
    assert [one["type"] for one in watched.events()] == expected
    filled.engine.dispose()
