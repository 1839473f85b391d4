"""The outbox: what is put is claimed by one at a time, fairly, and what became of it is written once."""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert

from catalog.watches import Event, EventType, Format, Target, Watch
from store import delivering, outbox, watches
from store.delivering import Claimed, Settled
from store.engine import is_postgresql, reading, writing
from store.outbox import NotRetried
from store.watch_tables import DELIVERIES
from store.watches import KeptTarget
from tests.support.stored import MINUTE, T0, opened, rows

pytestmark = pytest.mark.both_databases
LEASE = timedelta(seconds=40)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
A_WHILE = timedelta(seconds=5)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


def target(name: str, url: str = "https://hooks.example/1", **changes: Any) -> Target:
    fields: dict[str, Any] = {"format": Format.STANDARD, "secret": SECRET}
    return Target(name=name, url=url, **(fields | changes))


def add(engine: Engine, *names: str, **changes: Any) -> None:
    for name in names:
        watches.add_target(engine, KeptTarget(target(name, **changes), T0))


def watch(engine: Engine, watch_id: str, *notify: str) -> Watch:
    one = Watch(id=watch_id, name=f"watch {watch_id}", spec={"gpu": ("t4",)}, notify=notify, created_at=T0)
    watches.add_watch(engine, one, "{}")
    return one


def event(event_id: str, at: datetime = T0, **data: object) -> Event:
    return Event(event_id, EventType.STOCK_OUT, at, data)


def put(engine: Engine, event_id: str, *targets: str, at: datetime = T0, watch_id: str | None = None) -> list[str]:
    with writing(engine) as connection:
        return outbox.put(connection, event(event_id, at), watch_id, targets, at)


def claim(engine: Engine, now: datetime = T0, most: int = 100, per_target: int = 4, **more: Any) -> list[Claimed]:
    return delivering.claim(engine, now, LEASE, most, per_target, **more)


def ids(claimed: Iterable[Claimed]) -> list[str]:
    return [one.event.id for one in claimed]


def told(engine: Engine) -> dict[tuple[str, str], tuple[str, int]]:
    """(event, target) -> (status, attempts)."""
    found = rows(engine, "deliveries")
    return {(one["event_id"], one["target"]): (one["status"], one["attempts"]) for one in found}


def notices(engine: Engine) -> list[dict[str, Any]]:
    return [one for one in rows(engine, "events") if one["type"] == EventType.TARGET_DEAD]


def settle(engine: Engine, *settled: Settled) -> list[str]:
    """The events of those whose lease was lost."""
    return [one.claimed.event.id for one in delivering.settle(engine, settled)]


def test_an_event_comes_out_as_it_was_put(engine: Engine) -> None:
    add(engine, "ops", "chat")
    at, data = T0 + timedelta(microseconds=7), {"a": [1, None, "\ud800\0价"], "b": {}}
    put_in = Event("evt_1", EventType.PRICE_BELOW, at, data)
    with writing(engine) as connection:
        ids = outbox.put(connection, put_in, "w_1", ["ops", "chat", "ops"], T0)
    assert len(set(ids)) == 2
    assert all(one.startswith("d_") for one in ids)
    first, second = claim(engine)
    assert (first.event, second.event) == (put_in, put_in)
    assert {first.target.target.name, second.target.target.name} == {"ops", "chat"}
    assert first.target.target.secret == SECRET
    assert first.attempts == 1
    assert {first.delivery_id, second.delivery_id} == set(ids)


def test_what_is_put_belongs_to_the_callers_transaction(engine: Engine) -> None:
    add(engine, "ops")
    with engine.connect() as connection:
        outbox.put(connection, event("evt_1"), None, ["ops"], T0)
        connection.rollback()
    assert (rows(engine, "events"), rows(engine, "deliveries")) == ([], [])


def test_a_delivery_is_leased_once_and_due_again_when_the_lease_ends(engine: Engine) -> None:
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    assert claim(engine, T0 - A_WHILE) == []
    (first,) = claim(engine)
    assert claim(engine, T0 + LEASE - A_WHILE) == []
    (second,) = claim(engine, T0 + LEASE)
    assert (second.delivery_id, second.attempts) == (first.delivery_id, 2)
    assert second.token != first.token


def test_an_attempt_is_counted_before_it_is_made(engine: Engine) -> None:
    """Whoever dies in each attempt has made as many as whoever fails in each."""
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    for number in range(5):
        claim(engine, T0 + number * LEASE)
    assert told(engine) == {("evt_1", "ops"): ("pending", 5)}


def test_who_lost_the_lease_changes_nothing_and_is_told_so(engine: Engine) -> None:
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    (late,) = claim(engine)
    (mine,) = claim(engine, T0 + LEASE)
    now = T0 + LEASE + A_WHILE
    for settled in (
        delivering.sent(late, now, 200),
        delivering.again(late, now, MINUTE, "down"),
        delivering.failed(late, now, "no"),
        delivering.dead(late, now, "no"),
    ):
        before = rows(engine, "deliveries")
        assert settle(engine, settled) == ["evt_1"]
        assert rows(engine, "deliveries") == before
    assert settle(engine, delivering.sent(mine, now, 204)) == []
    assert settle(engine, delivering.sent(mine, now, 204)) == ["evt_1"], "it is settled already"
    assert told(engine) == {("evt_1", "ops"): ("sent", 2)}


def test_several_are_settled_each_by_its_own_lease(engine: Engine) -> None:
    add(engine, "a", "b")
    put(engine, "evt_1", "a")
    put(engine, "evt_2", "b", at=T0 + LEASE)
    (late,) = claim(engine)
    first, second = claim(engine, T0 + LEASE)
    now = T0 + LEASE
    lost = settle(engine, delivering.sent(late, now), delivering.sent(first, now), delivering.failed(second, now, "no"))
    assert lost == ["evt_1"]
    assert told(engine) == {("evt_1", "a"): ("sent", 2), ("evt_2", "b"): ("failed", 1)}


def test_each_status_is_shown_as_it_is(engine: Engine) -> None:
    add(engine, *"abcde")
    for number, name in enumerate("abcde"):
        put(engine, f"evt_{number}", name, at=T0 + number * A_WHILE, watch_id="w_1")
    now = T0 + MINUTE
    a, b, c, d, _ = sorted(claim(engine, now), key=lambda one: one.event.id)
    settle(
        engine,
        delivering.sent(a, now, 200),
        delivering.again(b, now, MINUTE, "HTTP 503: \0\ud800" + "x" * 5000, 503),
        delivering.failed(c, now, "HTTP 404", 404),
        delivering.dead(d, now, "given up"),
    )
    shown = {one.event_id: one for one in outbox.deliveries(engine, "w_1", 10)}
    assert list(shown) == ["evt_4", "evt_3", "evt_2", "evt_1", "evt_0"], "newest first"
    assert [shown[f"evt_{n}"].status for n in range(5)] == ["sent", "pending", "failed", "dead", "pending"]
    assert [shown[f"evt_{n}"].last_status for n in range(5)] == [200, 503, 404, None, None]
    assert (shown["evt_0"].last_error, shown["evt_2"].last_error) == (None, "HTTP 404")
    error = shown["evt_1"].last_error
    assert error is not None
    assert error.startswith("HTTP 503:  ?x")
    assert len(error) == 500
    assert [shown[f"evt_{n}"].next_at for n in range(5)] == [None, now + MINUTE, None, None, T0 + 4 * A_WHILE]
    assert shown["evt_0"].type == "stock.out"
    assert len(outbox.deliveries(engine, "w_1", 2)) == 2
    assert outbox.deliveries(engine, "w_2", 10) == []
    assert outbox.delivery(engine, a.delivery_id) == shown["evt_0"]
    assert outbox.delivery(engine, "d_none") is None


def test_a_pause_is_waited_for(engine: Engine) -> None:
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    settle(engine, delivering.again(claim(engine)[0], T0, MINUTE, "down", 503))
    assert claim(engine, T0 + MINUTE - A_WHILE) == []
    assert [one.attempts for one in claim(engine, T0 + MINUTE)] == [2]


# --- who is served


def test_each_target_gets_as_many_as_it_may_and_the_oldest_first(engine: Engine) -> None:
    add(engine, "busy", "calm")
    for number in range(10):
        put(engine, f"busy_{number}", "busy", at=T0 + number * A_WHILE)
    put(engine, "calm_1", "calm", at=T0 + 100 * A_WHILE)
    now = T0 + MINUTE * 20
    found = claim(engine, now, per_target=3)
    assert sorted(ids(found)) == ["busy_0", "busy_1", "busy_2", "calm_1"]
    assert claim(engine, now, per_target=3) == [], "those under way count, whoever has them"
    assert ids(claim(engine, now, per_target=4)) == ["busy_3"]
    by_id = {one.event.id: one for one in found}
    settle(engine, delivering.sent(by_id["busy_1"], now))
    assert ids(claim(engine, now, per_target=4)) == ["busy_4"]


def test_the_first_of_each_goes_before_the_second_of_any(engine: Engine) -> None:
    names = [f"t{number:02}" for number in range(20)]
    add(engine, *names)
    for number in range(4):
        put(engine, f"evt_{number}", *names, at=T0 + number * A_WHILE)
    found = claim(engine, T0 + MINUTE, most=25)
    assert len(found) == 25
    served = Counter(one.target.target.name for one in found)
    assert set(served) == set(names)
    assert max(served.values()) == 2
    assert sum(one.beside for one in found) == 5


def test_room_is_left_for_targets_that_have_none_under_way(engine: Engine) -> None:
    names = [f"t{number:02}" for number in range(10)]
    add(engine, *names, "new")
    for number in range(4):
        put(engine, f"evt_{number}", *names)
    assert len(claim(engine, most=16, beside=3)) == 13
    put(engine, "late", "new")
    assert ids(claim(engine, most=3, beside=0)) == ["late"]


def test_formats_are_claimed_apart(engine: Engine) -> None:
    add(engine, "ops")
    add(engine, "mail", format=Format.EMAIL, url="mailto:ops@example.com")
    put(engine, "evt_1", "ops", "mail")
    (mail,) = claim(engine, formats=[Format.EMAIL])
    assert mail.target.target.name == "mail"
    (ops,) = claim(engine)
    assert ops.target.target.name == "ops"


def test_a_receiver_that_asks_for_a_pause_has_it_from_all_that_is_sent_to_it(engine: Engine) -> None:
    add(engine, "ops", "calm")
    put(engine, "evt_1", "ops")
    limited = delivering.paused(delivering.again(claim(engine)[0], T0, MINUTE, "slow down", 429), MINUTE)
    settle(engine, limited)
    put(engine, "evt_2", "ops", "calm")
    assert [one.target.target.name for one in claim(engine, T0 + MINUTE - A_WHILE)] == ["calm"]
    assert sorted(ids(claim(engine, T0 + MINUTE))) == ["evt_1", "evt_2"]


def test_a_shorter_pause_ends_no_longer_one(engine: Engine) -> None:
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    put(engine, "evt_2", "ops")
    first, second = claim(engine)
    for one, pause in ((first, MINUTE), (second, A_WHILE)):
        settle(engine, delivering.paused(delivering.again(one, T0, pause, "slow"), pause))
    assert claim(engine, T0 + A_WHILE) == []
    assert len(claim(engine, T0 + MINUTE)) == 2


def test_ten_senders_at_once_take_each_delivery_once_and_no_target_too_often(engine: Engine) -> None:
    names = [f"t{number}" for number in range(5)]
    add(engine, *names)
    for number in range(20):
        put(engine, f"evt_{number}", *names)
    found: list[Claimed] = []
    barrier = threading.Barrier(10)

    def take() -> None:
        barrier.wait()
        found.extend(claim(engine, most=7))

    threads = [threading.Thread(target=take) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.delivery_id for one in found}) == len(found) == 20
    assert set(Counter(one.target.target.name for one in found).values()) == {4}


def test_a_claim_waits_for_nobody_who_holds_a_delivery(engine: Engine) -> None:
    if not is_postgresql(engine):
        pytest.skip("SQLite has one writer")
    add(engine, "a", "b")
    (held,) = put(engine, "evt_1", "a")
    put(engine, "evt_2", "b")
    with writing(engine) as other:
        other.exec_driver_sql("SELECT id FROM deliveries WHERE id = %s FOR UPDATE", (held,))
        assert ids(claim(engine)) == ["evt_2"]
    assert ids(claim(engine)) == ["evt_1"]


def test_settling_waits_for_one_at_a_time(engine: Engine) -> None:
    """Who ends all deliveries of a target, in whatever order, is never waited for with others in hand."""
    if not is_postgresql(engine):
        pytest.skip("SQLite has one writer")
    add(engine, "a", "b")
    put(engine, "evt_1", "a")
    put(engine, "evt_2", "b")
    first, second = sorted(claim(engine), key=lambda one: one.delivery_id)
    with writing(engine) as other:
        other.exec_driver_sql("SELECT id FROM deliveries WHERE id = %s FOR UPDATE", (second.delivery_id,))
        thread = threading.Thread(target=settle, args=(engine, delivering.sent(first, T0), delivering.sent(second, T0)))
        thread.start()
        deadline = time.monotonic() + 20
        while "sent" not in {status for status, _ in told(engine).values()} and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sorted(status for status, _ in told(engine).values()) == ["pending", "sent"]
        other.exec_driver_sql("SELECT id FROM deliveries WHERE id = %s FOR UPDATE", (first.delivery_id,))
    thread.join()
    assert {status for status, _ in told(engine).values()} == {"sent"}


def test_a_claim_reads_what_is_due_and_not_what_is_kept(engine: Engine) -> None:
    add(engine, "ops", "other")
    ended = {
        "event_id": "evt_0",
        "target": "ops",
        "status": "sent",
        "attempts": 1,
        "next_at": T0,
        "at": T0,
        "ended_at": T0,
    }
    past = [{"id": f"d_{number}", **ended} for number in range(20_000)]
    with writing(engine) as connection:
        connection.execute(insert(DELIVERIES), past)
        connection.exec_driver_sql("ANALYZE")
    put(engine, "evt_1", "ops", "other")
    with reading(engine) as connection:
        plans = _plans(connection, lambda: delivering._waiting(connection, T0, 4, list(Format)))
    assert len(plans) == 2
    for plan in plans:
        assert "deliveries_due" in plan or "deliveries_leased" in plan
        assert "SCAN deliveries" not in plan
        assert "Seq Scan on deliveries" not in plan
    assert len(claim(engine)) == 2


def _plans(connection: Any, work: Any) -> list[str]:
    """How the database goes about the statements of some work."""
    from sqlalchemy import event

    seen: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    event.listen(connection.engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(connection.engine, "before_cursor_execute", note)
    explain = "EXPLAIN" if is_postgresql(connection) else "EXPLAIN QUERY PLAN"
    return [
        "\n".join(str(row[-1]) for row in connection.exec_driver_sql(f"{explain} {statement}", parameters))
        for statement, parameters in seen
    ]


def test_what_a_newer_version_tells_is_left_to_it(engine: Engine) -> None:
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    put(engine, "evt_2", "ops")
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE events SET type = 'moon.full' WHERE id = 'evt_1'")
    assert ids(claim(engine)) == ["evt_2"]


# --- clocks that were wrong


def test_a_lease_or_a_pause_by_a_wrong_clock_ends(engine: Engine) -> None:
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    day = timedelta(days=1)
    (claimed,) = claim(engine, T0 + day)
    assert len(claim(engine)) == 1
    (claimed,) = claim(engine, T0 + LEASE)
    later = T0 + 2 * day
    settle(engine, delivering.paused(delivering.again(claimed, later, MINUTE, "slow"), MINUTE))
    now = T0 + 2 * LEASE
    assert claim(engine, now) == []
    delivering.tidy(engine, now, 2 * day)
    assert claim(engine, now) == []
    delivering.tidy(engine, now, day)
    assert len(claim(engine, now)) == 1


# --- targets that are gone


def test_a_target_that_is_gone_is_told_nothing_more_and_the_others_once(engine: Engine) -> None:
    add(engine, "ops", "chat", "other", "gone")
    watch(engine, "w_1", "gone", "chat", "ops")
    watch(engine, "w_2", "other")
    put(engine, "evt_1", "gone", "chat", watch_id="w_1")
    put(engine, "evt_2", "gone", watch_id="w_1")
    assert outbox.target_gone(engine, target("gone"), "HTTP 410", T0)
    assert not outbox.target_gone(engine, target("gone"), "HTTP 410", T0)
    kept = watches.target(engine, "gone")
    assert kept is not None
    assert (kept.dead_at, kept.dead_why) == (T0, "HTTP 410")
    (notice,) = notices(engine)
    now = told(engine)
    assert now.pop(("evt_1", "gone")) == now.pop(("evt_2", "gone")) == ("dead", 0)
    assert now.pop(("evt_1", "chat")) == ("pending", 0)
    assert now == {(notice["id"], "chat"): ("pending", 0), (notice["id"], "ops"): ("pending", 0)}
    (said,) = {str(one.event.data) for one in claim(engine) if one.event.id == notice["id"]}
    assert said == str({"target": "gone", "why": "HTTP 410", "watches": [{"id": "w_1", "name": "watch w_1"}]})


@pytest.mark.parametrize("notify", [(), ("gone",)])
def test_where_no_watch_has_another_target_all_others_are_told(engine: Engine, notify: tuple[str, ...]) -> None:
    add(engine, "ops", "chat", "gone", "dead")
    if notify:
        watch(engine, "w_1", *notify)
    outbox.target_gone(engine, target("dead"), "HTTP 410", T0)
    outbox.target_gone(engine, target("gone"), "HTTP 410", T0)
    last = max(notices(engine), key=lambda one: '"gone"' in one["data"])
    assert sorted(name for event_id, name in told(engine) if event_id == last["id"]) == ["chat", "ops"]


def test_two_that_see_it_gone_at_once_tell_of_it_once(engine: Engine) -> None:
    add(engine, "ops", "gone", "lost")
    for number in range(8):
        put(engine, f"evt_{number}", "gone", "lost")
    taken = claim(engine)
    barrier = threading.Barrier(len(taken))

    def see(claimed: Claimed) -> None:
        barrier.wait()
        settle(engine, delivering.dead(claimed, T0, "HTTP 410", 410, gone=True))

    threads = [threading.Thread(target=see, args=(one,)) for one in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(notices(engine)) == 2
    assert {told(engine)[f"evt_{number}", name][0] for number in range(8) for name in ("gone", "lost")} == {"dead"}


def test_the_delivery_that_met_it_says_what_it_met(engine: Engine) -> None:
    add(engine, "gone")
    (delivery_id,) = put(engine, "evt_1", "gone")
    settle(engine, delivering.dead(claim(engine)[0], T0, "HTTP 410: the address is dead", 410, gone=True))
    kept = outbox.delivery(engine, delivery_id)
    assert kept is not None
    assert (kept.status, kept.last_status, kept.last_error) == ("dead", 410, "HTTP 410: the address is dead")
    assert claim(engine, T0 + LEASE) == []


def test_a_target_that_has_another_address_by_now_is_not_gone(engine: Engine) -> None:
    add(engine, "ops")
    put(engine, "evt_1", "ops")
    (claimed,) = claim(engine)
    watches.replace_target(engine, KeptTarget(target("ops", "https://hooks.example/2"), T0))
    settle(engine, delivering.dead(claimed, T0, "HTTP 410", 410, gone=True))
    kept = watches.target(engine, "ops")
    assert kept is not None
    assert kept.dead_at is None
    assert notices(engine) == []
    put(engine, "evt_2", "ops")
    assert ids(claim(engine)) == ["evt_2"]


def test_what_is_put_for_a_dead_target_or_none_is_dead_at_once(engine: Engine) -> None:
    add(engine, "gone")
    outbox.target_gone(engine, target("gone"), "HTTP 410", T0)
    (to_dead, to_none) = put(engine, "evt_1", "gone", "nobody")
    found = [outbox.delivery(engine, one) for one in (to_dead, to_none)]
    assert [(one.status, one.last_error) for one in found if one] == [
        ("dead", "the target is dead: HTTP 410"),
        ("dead", "there is no target of this name any more"),
    ]
    assert claim(engine) == []


def test_what_waits_for_a_target_that_was_removed_ends(engine: Engine) -> None:
    add(engine, "ops", "old")
    put(engine, "evt_1", "ops", "old")
    watches.remove_target(engine, "old", T0)
    assert len(claim(engine)) == 1
    delivering.tidy(engine, T0, timedelta(hours=2))
    assert told(engine) == {("evt_1", "ops"): ("pending", 1), ("evt_1", "old"): ("dead", 0)}


def test_what_is_told_of_a_watch_ends_with_it(engine: Engine) -> None:
    add(engine, "ops")
    watch(engine, "w_1", "ops")
    put(engine, "evt_1", "ops", watch_id="w_1")
    put(engine, "evt_2", "ops", watch_id="w_1")
    (claimed,) = claim(engine, most=1)
    watches.remove_watch(engine, "w_1", T0)
    assert settle(engine, delivering.sent(claimed, T0)) == [claimed.event.id]
    assert {status for status, _ in told(engine).values()} == {"dead"}
    assert claim(engine, T0 + LEASE) == []


# --- what a person does


def test_a_failed_or_dead_delivery_is_retried_with_its_attempts_counted_anew(engine: Engine) -> None:
    add(engine, "a", "b")
    put(engine, "evt_1", "a", "b")
    first, second = claim(engine)
    settle(engine, delivering.failed(first, T0, "no", 404), delivering.dead(second, T0, "given up"))
    now = T0 + MINUTE
    for one in (first, second):
        kept = outbox.retry(engine, one.delivery_id, now)
        assert kept == outbox.delivery(engine, one.delivery_id)
        assert kept is not None
        assert (kept.status, kept.attempts, kept.next_at) == ("pending", 0, now)
    assert [one.attempts for one in claim(engine, now)] == [1, 1]


def test_what_was_sent_is_pending_or_cannot_be_sent_is_not_retried(engine: Engine) -> None:
    add(engine, "ops", "gone", "old")
    put(engine, "evt_1", "ops", "gone", "old")
    taken = {one.target.target.name: one for one in claim(engine)}
    for one in taken.values():
        with pytest.raises(NotRetried, match="pending"):
            outbox.retry(engine, one.delivery_id, T0)
    settle(engine, delivering.sent(taken["ops"], T0), delivering.failed(taken["old"], T0, "no"))
    outbox.target_gone(engine, target("gone"), "HTTP 410", T0)
    watches.remove_target(engine, "old", T0)
    before = rows(engine, "deliveries")
    for name, why in (("ops", "was sent"), ("gone", "dead: HTTP 410"), ("old", "no target")):
        with pytest.raises(NotRetried, match=why):
            outbox.retry(engine, taken[name].delivery_id, T0)
    assert outbox.retry(engine, "d_none", T0) is None
    assert rows(engine, "deliveries") == before


def test_a_test_is_an_event_like_any_other(engine: Engine) -> None:
    add(engine, "ops")
    watch(engine, "w_1", "ops")
    alone = outbox.test(engine, "ops", T0)
    of_watch = outbox.test(engine, "ops", T0, "w_1")
    taken = {one.delivery_id: one.event for one in claim(engine)}
    assert taken[alone].type is taken[of_watch].type is EventType.TEST
    assert taken[alone].data == {"target": "ops"}
    assert taken[of_watch].data == {"target": "ops", "watch": {"id": "w_1", "name": "watch w_1"}}
    assert taken[alone].id != taken[of_watch].id
    assert [one.id for one in outbox.deliveries(engine, "w_1", 10)] == [of_watch]


def test_what_ended_long_ago_is_forgotten_and_no_event_that_is_still_told(engine: Engine) -> None:
    add(engine, "a", "b", "c")
    put(engine, "old", "a")
    put(engine, "half", "a", "b")
    put(engine, "waits", "c")
    put(engine, "nobody")
    day = timedelta(days=1)
    put(engine, "new", at=T0 + day)
    for one in claim(engine):
        if one.event.id != "waits" and one.target.target.name == "a":
            settle(engine, delivering.sent(one, T0))
        elif one.target.target.name == "b":
            settle(engine, delivering.failed(one, T0 + day, "no"))
    outbox.prune(engine, T0)
    assert len(rows(engine, "events")) == 5
    outbox.prune(engine, T0 + A_WHILE)
    assert [one["id"] for one in rows(engine, "events")] == ["half", "new", "waits"]
    assert set(told(engine)) == {("half", "b"), ("waits", "c")}
    outbox.prune(engine, T0 + 2 * day)
    assert [one["id"] for one in rows(engine, "events")] == ["waits"]
