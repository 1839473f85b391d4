"""Sending: to receivers on this machine that do what receivers do, at least once, each event under one id."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import typer
from sqlalchemy import Engine
from standardwebhooks.webhooks import Webhook

from alerts.format_standard import new_secret
from alerts.mail import MailServer
from catalog.watches import Event, EventType, Format, Lang, Target, Watch
from commands import build
from scheduler.attempts import Pauses, SendingRules
from scheduler.poll import Polls
from scheduler.sending import Sending
from scheduler.worker import Worker
from settings import load
from store import delivering, outbox, watches
from store.clock import Clock, clock_of
from store.engine import is_postgresql, writing
from store.outbox import KeptDelivery
from store.times import utc_now
from store.watches import KeptTarget
from tests.support.databases import address
from tests.support.feeds import AT_ONCE, HandClock
from tests.support.hooks import CLOSE, HANG, HOLD, OK, Answer, Hooks, hooks
from tests.support.smtp import smtp
from tests.support.stored import MINUTE, T0, opened, rows

pytestmark = pytest.mark.both_databases
PATIENCE_S = 60.0
SECRET = new_secret()
KEY = "s3cret-key-of-a-path"
RARELY = Pauses(timedelta(hours=1), timedelta(hours=1))
RULES = SendingRules(
    allow_private=True, look_every=timedelta(seconds=0.01), timeout=timedelta(seconds=30), pauses=RARELY
)
HUNG = 300
ROOT = Path(__file__).parents[1]


def until(true: Callable[[], object]) -> None:
    """Wait for threads and servers to bring something about."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return opened(tmp_path)


@pytest.fixture
def receivers() -> Iterator[Hooks]:
    with hooks() as found:
        yield found


@contextmanager
def sending(engine: Engine, clock: Clock = utc_now, rules: SendingRules = RULES, **more: Any) -> Iterator[Sending]:
    one = Sending(engine, clock, rules, **more)
    one.start()
    try:
        yield one
    finally:
        one.stop()
        rest(one)


def rest(one: Sending) -> None:
    """Wait for what outlasts its end: the database's connections are the test's."""
    if one._thread is not None:
        one._thread.join()
        one._books.shutdown(wait=True)


def add(engine: Engine, name: str, url: str, form: Format = Format.STANDARD, **changes: Any) -> None:
    fields: dict[str, Any] = {"secret": SECRET if form is Format.STANDARD else None}
    watches.add_target(engine, KeptTarget(Target(name=name, format=form, url=url, **(fields | changes)), T0))


def put(engine: Engine, event_id: str, *targets: str, at: datetime | None = None) -> list[str]:
    at = at or utc_now()
    event = Event(event_id, EventType.STOCK_OUT, at, {"watch": {"name": event_id}, "offers": []})
    with writing(engine) as connection:
        return outbox.put(connection, event, None, targets, at)


def kept(engine: Engine, delivery_id: str) -> KeptDelivery:
    found = outbox.delivery(engine, delivery_id)
    assert found is not None
    return found


def idle(engine: Engine) -> bool:
    """Whether nothing is under way."""
    return all(row["token"] is None for row in rows(engine, "deliveries"))


def tried(engine: Engine, delivery_id: str, attempts: int) -> Callable[[], bool]:
    """Whether so many attempts were made, and what became of them is written."""
    return lambda: kept(engine, delivery_id).attempts == attempts and idle(engine)


def ended(engine: Engine, delivery_id: str) -> Callable[[], bool]:
    return lambda: kept(engine, delivery_id).next_at is None


# --- what becomes of a delivery


@pytest.mark.parametrize(
    ("answer", "status", "last_status", "said"),
    [
        (Answer(200), "sent", 200, None),
        (Answer(204), "sent", 204, None),
        (Answer(400, body="no such hook"), "failed", 400, "HTTP 400: refused (no such hook)"),
        (Answer(404), "failed", 404, "HTTP 404: refused"),
        (Answer(302, {"Location": "/elsewhere"}), "failed", 302, "HTTP 302: redirects are not followed"),
        (Answer(410), "dead", 410, "HTTP 410: the address is dead"),
        (Answer(429), "pending", 429, "HTTP 429: to be tried again"),
        (Answer(500, body=f"no /{KEY} here"), "pending", 500, "HTTP 500: to be tried again (no /*** here)"),
        (Answer(503), "pending", 503, "HTTP 503: to be tried again"),
        (CLOSE, "pending", None, "127.0.0.1: the connection ended before a whole answer in HTTP had come"),
    ],
)
def test_each_answer_makes_of_a_delivery_what_it_means(
    engine: Engine, receivers: Hooks, answer: Answer | str, status: str, last_status: int | None, said: str | None
) -> None:
    receivers.behave[f"/{KEY}"] = lambda _: answer
    add(engine, "ops", receivers.url(f"/{KEY}"))
    (delivery_id,) = put(engine, "evt_1", "ops")
    with sending(engine):
        until(tried(engine, delivery_id, 1))
    found = kept(engine, delivery_id)
    assert (found.status, found.last_status) == (status, last_status)
    assert found.last_error is None if said is None else str(found.last_error).startswith(said)
    assert KEY not in str(found.last_error)
    (got,) = receivers.got()
    assert Webhook(SECRET).verify(got.body, dict(got.headers)) == got.told
    assert (got.id, got.told["type"]) == ("evt_1", "stock.out")


def test_nobody_there_is_tried_again(engine: Engine) -> None:
    with hooks() as gone:
        add(engine, "ops", gone.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops")
    with sending(engine):
        until(tried(engine, delivery_id, 1))
    assert (kept(engine, delivery_id).status, kept(engine, delivery_id).last_error) == (
        "pending",
        "127.0.0.1: no connection",
    )


def test_what_may_not_be_connected_to_is_refused_and_not_connected_to(engine: Engine, receivers: Hooks) -> None:
    add(engine, "ops", receivers.url("/"))
    add(engine, "name", receivers.url("/").replace("127.0.0.1", "hooks.example"))
    delivered = put(engine, "evt_1", "ops", "name")
    rules = replace(RULES, allow_private=False)
    with sending(engine, rules=rules, resolve=lambda _: ["127.0.0.1"]):
        until(lambda: all(ended(engine, one)() for one in delivered))
    for one, host in zip(delivered, ("127.0.0.1", "hooks.example"), strict=True):
        found = kept(engine, one)
        assert found.status == "failed"
        assert str(found.last_error).startswith(f"{host} is not on the public internet")
    assert receivers.got() == []


def test_a_secret_that_cannot_sign_is_said_and_not_tried_again(engine: Engine, receivers: Hooks) -> None:
    add(engine, "ops", receivers.url("/"), secret="")
    (delivery_id,) = put(engine, "evt_1", "ops")
    with sending(engine):
        until(ended(engine, delivery_id))
    found = kept(engine, delivery_id)
    assert (found.status, found.attempts) == ("failed", 1)
    assert "its secret cannot sign" in str(found.last_error)
    assert receivers.got() == []


def test_people_are_told_in_their_language_with_a_link(engine: Engine, receivers: Hooks) -> None:
    add(engine, "room", receivers.url("/slack"), Format.SLACK, lang=Lang.ZH)
    receivers.behave["/slack"] = lambda _: Answer(200, body="ok")
    (delivery_id,) = put(engine, "evt_1", "room")
    with sending(engine, rules=replace(RULES, page_url="https://gpufare.example")):
        until(ended(engine, delivery_id))
    assert kept(engine, delivery_id).status == "sent"
    (got,) = receivers.got()
    assert "https://gpufare.example/" in got.body.decode()
    assert "缺货" in str(got.told) or "售罄" in str(got.told)


def test_a_room_that_answers_an_error_in_http_200_has_not_taken_it(engine: Engine, receivers: Hooks) -> None:
    error = '{"errcode": 310000, "errmsg": "keywords not in content"}'
    receivers.behave["/dingtalk"] = lambda _: Answer(200, body=error)
    add(engine, "room", receivers.url("/dingtalk"), Format.DINGTALK)
    (delivery_id,) = put(engine, "evt_1", "room")
    with sending(engine):
        until(ended(engine, delivery_id))
    found = kept(engine, delivery_id)
    assert (found.status, found.last_status) == ("failed", 200)
    assert "its security settings refuse it" in str(found.last_error)


# --- tried again


def test_the_pause_doubles_up_to_the_longest_and_is_no_shorter_than_was_asked() -> None:
    pauses = Pauses(timedelta(seconds=5), timedelta(hours=1))
    assert [pauses.after(attempts).total_seconds() for attempts in (1, 2, 3, 10, 11, 99)] == [
        5,
        10,
        20,
        2560,
        3600,
        3600,
    ]
    assert [pauses.after(1, lot=lot).total_seconds() for lot in (-1, 1)] == [4, 6]
    assert pauses.after(1, MINUTE, lot=-1) == MINUTE
    assert pauses.after(10, MINUTE).total_seconds() == 2560
    assert Pauses(timedelta(days=3650), timedelta(days=3650)).after(100) == timedelta(days=3650)


def test_a_receiver_that_fails_for_ten_minutes_is_tried_ever_more_rarely(engine: Engine, receivers: Hooks) -> None:
    """K10."""
    clock = HandClock(T0)
    receivers.behave["/"] = lambda _: OK if clock() >= T0 + 10 * MINUTE else Answer(503)
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops", at=T0)
    waits: list[timedelta] = []
    with sending(engine, clock, replace(RULES, pauses=Pauses())):
        attempts = 1
        until(tried(engine, delivery_id, attempts))
        while (at := kept(engine, delivery_id).next_at) is not None:
            waits.append(at - clock())
            clock.now, attempts = at, attempts + 1
            until(tried(engine, delivery_id, attempts))
    assert kept(engine, delivery_id).status == "sent"
    assert len(receivers.got()) <= 12
    for number, wait in enumerate(waits):
        assert 0.8 * 5 * 2**number <= wait.total_seconds() <= 1.2 * 5 * 2**number
    assert len({(one.id, one.body) for one in receivers.got()}) == 1
    assert len({one.headers["webhook-timestamp"] for one in receivers.got()}) == len(receivers.got())


def test_what_a_receiver_asks_for_is_waited_for(engine: Engine, receivers: Hooks) -> None:
    clock = HandClock(T0)
    receivers.behave["/"] = lambda number: Answer(429, {"Retry-After": "30"}) if number == 0 else OK
    add(engine, "ops", receivers.url("/"))
    (first,) = put(engine, "evt_1", "ops", at=T0)
    with sending(engine, clock, replace(RULES, pauses=Pauses())):
        until(tried(engine, first, 1))
        assert kept(engine, first).next_at == T0 + timedelta(seconds=30)
        (second,) = put(engine, "evt_2", "ops", at=T0)
        add(engine, "calm", receivers.url("/calm"))
        (calm,) = put(engine, "evt_3", "calm", at=T0)
        until(ended(engine, calm))
        clock.now = T0 + timedelta(seconds=29)
        (later,) = put(engine, "evt_4", "calm", at=T0)
        until(ended(engine, later))
        assert receivers.ids("/") == ["evt_1"], "nothing else goes to it in the meantime either"
        clock.now = T0 + timedelta(seconds=30)
        until(lambda: ended(engine, first)() and ended(engine, second)())
    assert Counter(receivers.ids("/")) == {"evt_1": 2, "evt_2": 1}


def test_attempts_are_bounded_and_what_is_dead_can_be_retried(engine: Engine, receivers: Hooks) -> None:
    receivers.behave["/"] = lambda number: Answer(503) if number < 3 else OK
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops")
    nothing = Pauses(timedelta(0), timedelta(0))
    with sending(engine, rules=replace(RULES, attempts=3, pauses=nothing)):
        until(ended(engine, delivery_id))
        found = kept(engine, delivery_id)
        assert (found.status, found.attempts, found.last_status) == ("dead", 3, 503)
        assert found.last_error == "given up after 3 attempts: HTTP 503: to be tried again"
        outbox.retry(engine, delivery_id, utc_now())
        until(ended(engine, delivery_id))
    assert (kept(engine, delivery_id).status, kept(engine, delivery_id).attempts) == ("sent", 1)
    assert receivers.ids() == ["evt_1"] * 4


def test_attempts_that_nobody_saw_the_end_of_are_bounded_too(engine: Engine, receivers: Hooks) -> None:
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops", at=T0)
    for number in range(3):
        assert delivering.claim(engine, T0 + number * MINUTE, MINUTE, 1, 1)
    with sending(engine, HandClock(T0 + 3 * MINUTE), replace(RULES, attempts=3)):
        until(ended(engine, delivery_id))
    assert kept(engine, delivery_id).status == "dead"
    assert "the last was not seen to end" in str(kept(engine, delivery_id).last_error)
    assert receivers.got() == []


def test_a_receiver_that_takes_it_and_says_nothing_gets_the_same_again(engine: Engine, receivers: Hooks) -> None:
    receivers.behave["/"] = lambda number: CLOSE if number < 2 else OK
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops")
    with sending(engine, rules=replace(RULES, pauses=Pauses(timedelta(0), timedelta(0)))):
        until(ended(engine, delivery_id))
    assert [(one.id, one.body) for one in receivers.got()] == [("evt_1", receivers.got()[0].body)] * 3
    for one in receivers.got():
        Webhook(SECRET).verify(one.body, dict(one.headers))


# --- one receiver and the others


def test_a_target_that_is_gone_is_told_of_once_though_two_senders_find_it(engine: Engine, receivers: Hooks) -> None:
    receivers.behave["/gone"] = lambda _: Answer(410)
    add(engine, "gone", receivers.url("/gone"))
    add(engine, "ops", receivers.url("/ops"))
    add(engine, "other", receivers.url("/other"))
    watch = Watch(id="w_1", name="v100", spec={"gpu": ("v100",)}, notify=("gone", "ops"), created_at=T0)
    watches.add_watch(engine, watch, "{}")
    delivered = [one for number in range(20) for one in put(engine, f"evt_{number}", "gone")]
    with sending(engine), sending(engine):
        until(lambda: all(ended(engine, one)() for one in delivered))
        until(lambda: receivers.got("/ops"))
        (late,) = put(engine, "evt_late", "gone")
        (well,) = put(engine, "evt_well", "ops")
        until(ended(engine, well))
    (notice,) = [one for one in receivers.got("/ops") if one.id != "evt_well"]
    assert notice.told["type"] == "target.dead"
    assert notice.told["data"] == {
        "target": "gone",
        "why": "HTTP 410: the address is dead",
        "watches": [{"id": "w_1", "name": "v100"}],
    }
    assert receivers.got("/other") == []
    assert {kept(engine, one).status for one in [*delivered, late]} == {"dead"}
    assert len(receivers.got("/gone")) <= 2 * RULES.per_target


def test_hundreds_that_hang_delay_no_other(engine: Engine, receivers: Hooks) -> None:
    rules = replace(RULES, timeout=timedelta(seconds=240), beside=20, at_once=HUNG + 40)
    names = [f"slow{number}" for number in range(HUNG)]
    for name in names:
        receivers.behave[f"/{name}"] = lambda _: HANG
        add(engine, name, receivers.url(f"/{name}"))
    add(engine, "well", receivers.url("/well"))
    for number in range(3):
        put(engine, f"evt_{number}", *names)
    with sending(engine, rules=rules):
        until(lambda: receivers.hanging == HUNG + 20)
        for number in range(5):
            (delivery_id,) = put(engine, f"well_{number}", "well")
            until(ended(engine, delivery_id))
        assert receivers.hanging == HUNG + 20
    assert receivers.ids("/well") == [f"well_{number}" for number in range(5)]


def test_two_senders_share_the_work(engine: Engine, receivers: Hooks) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        add(engine, name, receivers.url(f"/{name}"))
    delivered = [one for number in range(40) for one in put(engine, f"evt_{number}", *names)]
    with sending(engine), sending(engine):
        until(lambda: all(row["status"] == "sent" for row in rows(engine, "deliveries")))
    assert len(receivers.got()) == len(delivered) == 200
    assert len({(one.path, one.id) for one in receivers.got()}) == 200


# --- what breaks in the midst


def test_whoever_lost_the_lease_leaves_what_became_of_it(engine: Engine, receivers: Hooks) -> None:
    clock = HandClock(T0)
    receivers.behave["/"] = lambda _: HOLD
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops", at=T0)
    with structlog.testing.capture_logs() as logs, sending(engine, clock):
        until(lambda: receivers.got())
        after = T0 + RULES.lease
        (mine,) = delivering.claim(engine, after, RULES.lease, 1, 8)
        delivering.settle(engine, [delivering.failed(mine, after, "mine says no", 404)])
        receivers.release()
        until(lambda: any("another's" in one["event"] for one in logs))
    found = kept(engine, delivery_id)
    assert (found.status, found.attempts, found.last_error) == ("failed", 2, "mine says no")


@contextmanager
def hidden(engine: Engine) -> Iterator[None]:
    """A database that answers no question about deliveries."""
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE deliveries RENAME TO hidden")
    try:
        yield
    finally:
        with writing(engine) as connection:
            connection.exec_driver_sql("ALTER TABLE hidden RENAME TO deliveries")


def test_while_the_database_is_away_nothing_is_lost(engine: Engine, receivers: Hooks) -> None:
    receivers.behave["/"] = lambda number: HOLD if number == 0 else OK
    add(engine, "ops", receivers.url("/"))
    (first,) = put(engine, "evt_1", "ops")
    with structlog.testing.capture_logs() as logs, sending(engine):
        until(lambda: receivers.got())
        with hidden(engine):
            receivers.release()
            until(lambda: any("did not answer" in one["event"] for one in logs))
        until(ended(engine, first))
        (second,) = put(engine, "evt_2", "ops")
        until(ended(engine, second))
    assert receivers.ids() == ["evt_1", "evt_2"], "what was taken is written once it can be, and not sent again"
    assert not [one for one in logs if "another's" in one["event"]], "each is written once"
    assert Counter(one["event"] for one in logs if "the database" in one["event"]) == {
        "the database did not answer; trying again until it does": 1,
        "the database answers again": 1,
    }


def test_a_fault_of_ours_in_one_delivery_harms_no_other(engine: Engine, receivers: Hooks) -> None:
    def resolve(host: str) -> list[str]:
        raise ZeroDivisionError(f"https://{host}/{KEY}")

    add(engine, "broken", f"http://broken.example/{KEY}")
    add(engine, "ops", receivers.url("/"))
    broken, well = put(engine, "evt_1", "broken", "ops")
    with structlog.testing.capture_logs() as logs, sending(engine, resolve=resolve):
        until(tried(engine, broken, 1))
        until(ended(engine, well))
    found = kept(engine, broken)
    assert (found.status, found.last_error) == ("pending", "a fault of gpufare (ZeroDivisionError)")
    assert any(one["event"] == "an attempt to send broke" for one in logs)
    assert KEY not in str(logs)


def test_sending_stops_though_a_receiver_hangs_and_what_it_had_is_due_again(engine: Engine, receivers: Hooks) -> None:
    receivers.behave["/"] = lambda number: HANG if number == 0 else OK
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops", at=T0)
    one = Sending(engine, HandClock(T0), RULES)
    one.start()
    until(lambda: receivers.hanging)
    one.stop()
    assert one._thread is not None
    assert not one._thread.is_alive()
    rest(one)
    assert kept(engine, delivery_id).status == "pending"
    with sending(engine, HandClock(T0 + RULES.lease)):
        until(ended(engine, delivery_id))
    assert receivers.ids() == ["evt_1", "evt_1"]


def test_sending_stops_though_the_database_hangs(engine: Engine, receivers: Hooks) -> None:
    add(engine, "ops", receivers.url("/"))
    put(engine, "evt_1", "ops")
    one = Sending(engine, utc_now, RULES)
    with writing(engine) as connection:
        if is_postgresql(engine):
            connection.exec_driver_sql("LOCK TABLE deliveries")
        one.start()
        time.sleep(0.1)
        one.stop()
        assert one._thread is not None
        assert not one._thread.is_alive()
    rest(one)
    assert receivers.got() == []


def test_an_answer_that_comes_while_it_stops_is_written(engine: Engine, receivers: Hooks) -> None:
    receivers.behave["/"] = lambda _: HOLD
    add(engine, "ops", receivers.url("/"))
    (delivery_id,) = put(engine, "evt_1", "ops")
    one = Sending(engine, utc_now, RULES)
    one.start()
    until(lambda: receivers.got())
    one.end_soon()
    receivers.release()
    one.stop()
    rest(one)
    assert kept(engine, delivery_id).status == "sent"


def test_it_can_be_stopped_before_it_began_and_twice(engine: Engine) -> None:
    one = Sending(engine, utc_now, RULES)
    one.stop()
    one.start()
    one.stop()
    one.stop()
    rest(one)


def test_all_arrive_though_the_sender_is_killed_again_and_again(
    tmp_path: Path, engine: Engine, receivers: Hooks
) -> None:
    """Half of the requests fail besides."""
    receivers.behave["/"] = lambda number: OK if number % 2 else Answer(503)
    add(engine, "ops", receivers.url("/"))
    wanted = [f"evt_{number}" for number in range(200)]
    at = utc_now()
    for one in wanted:
        put(engine, one, "ops", at=at)
    killed = 0
    command = [sys.executable, "-m", "tests.support.sending_process", address(tmp_path)]
    while not all(row["status"] == "sent" for row in rows(engine, "deliveries")):
        before = len(receivers.got())
        process = subprocess.Popen(command, cwd=ROOT)  # noqa: S603
        until(lambda: len(receivers.got()) >= before + 50 or not any_pending(engine))  # noqa: B023
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        if killed > 3:
            process = subprocess.Popen(command, cwd=ROOT)  # noqa: S603
            until(lambda: not any_pending(engine))
            process.terminate()
            process.wait()
    assert killed > 3
    assert set(receivers.ids()) == set(wanted)
    bodies: dict[str, set[bytes]] = {}
    for got in receivers.got():
        bodies.setdefault(got.id, set()).add(got.body)
    assert {len(found) for found in bodies.values()} == {1}


def any_pending(engine: Engine) -> bool:
    return any(row["status"] == "pending" for row in rows(engine, "deliveries"))


# --- what is told of it


def test_neither_addresses_nor_secrets_stand_in_logs_or_errors(
    engine: Engine, receivers: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Answer | str] = [Answer(503, body=f"/{KEY}"), Answer(404, body=KEY), Answer(410, body=SECRET), CLOSE]
    answers.append(Answer(302, {"Location": f"/{KEY}"}))
    for number, answer in enumerate(answers):
        receivers.behave[f"/{number}/{KEY}"] = lambda _, answer=answer: answer  # type: ignore[misc]
        add(engine, f"t{number}", receivers.url(f"/{number}/{KEY}"))
    add(engine, "refused", f"http://10.0.0.1/{KEY}\\")
    names = [*(f"t{number}" for number in range(len(answers))), "refused"]
    delivered = put(engine, "evt_1", *names)
    with caplog.at_level(logging.DEBUG), structlog.testing.capture_logs() as logs, sending(engine):
        until(lambda: all(kept(engine, one).attempts == 1 for one in delivered) and idle(engine))
    assert any(kept(engine, one).last_error for one in delivered)
    said = f"{logs} {caplog.text} {[kept(engine, one).last_error for one in delivered]}"
    assert "a target is dead" in said
    for secret in (KEY, SECRET, SECRET.removeprefix("whsec_")):
        assert secret not in said


# --- e-mail


def test_a_person_is_told_by_mail(engine: Engine) -> None:
    add(engine, "mail", "mailto:ops@example.com", Format.EMAIL)
    (delivery_id,) = put(engine, "evt_1", "mail")
    with smtp() as server:
        known = MailServer("127.0.0.1", server.server_address[1], "none", None, None, "gpufare@sender.example")
        with sending(engine, rules=replace(RULES, mail=known)):
            until(ended(engine, delivery_id))
        mail = server.mail
    assert kept(engine, delivery_id).status == "sent"
    assert (mail["To"], mail["Message-ID"]) == ("ops@example.com", "<evt_1@sender.example>")
    assert "evt_1" in mail["Subject"]


@pytest.mark.parametrize(
    ("answers", "status", "said"),
    [
        ({"RCPT": "450 come back"}, "pending", "does not take mail for the recipient (450 come back)"),
        (
            {"RCPT": "550 <ops@example.com> unknown"},
            "failed",
            "does not take mail for the recipient (550 <***> unknown)",
        ),
    ],
)
def test_what_a_mail_server_says_is_judged(engine: Engine, answers: dict[str, str], status: str, said: str) -> None:
    add(engine, "mail", "mailto:ops@example.com", Format.EMAIL)
    (delivery_id,) = put(engine, "evt_1", "mail")
    with smtp(answers=answers) as server:
        known = MailServer("127.0.0.1", server.server_address[1], "none", None, None, "gpufare@sender.example")
        with sending(engine, rules=replace(RULES, mail=known)):
            until(tried(engine, delivery_id, 1))
    assert kept(engine, delivery_id).status == status
    assert said in str(kept(engine, delivery_id).last_error)


def test_without_a_mail_server_a_mail_fails_and_says_what_to_set(engine: Engine) -> None:
    add(engine, "mail", "mailto:ops@example.com", Format.EMAIL)
    (delivery_id,) = put(engine, "evt_1", "mail")
    with sending(engine):
        until(ended(engine, delivery_id))
    found = kept(engine, delivery_id)
    assert (found.status, found.last_error) == ("failed", "no mail server is set: GPUFARE_SMTP__HOST names it")


def test_a_mail_server_that_hangs_delays_no_webhook_and_no_mail_is_tried_unsent(
    engine: Engine, receivers: Hooks
) -> None:
    add(engine, "ops", receivers.url("/"))
    mails = [f"mail{number}" for number in range(8)]
    for name in mails:
        add(engine, name, f"mailto:{name}@example.com", Format.EMAIL)
    put(engine, "evt_1", *mails)
    with smtp(answers={"EHLO": "trickle"}) as server:
        known = MailServer("127.0.0.1", server.server_address[1], "none", None, None, "gpufare@sender.example")
        rules = replace(RULES, mail=known, mails_at_once=3, timeout=timedelta(seconds=3))
        with sending(engine, rules=rules):
            until(lambda: len(server.commands) == 3)
            (delivery_id,) = put(engine, "evt_2", "ops")
            until(ended(engine, delivery_id))
            assert sum(row["attempts"] for row in rows(engine, "deliveries") if row["event_id"] == "evt_1") == 3


# --- in a worker


def test_a_worker_sends_and_forgets(engine: Engine, receivers: Hooks) -> None:
    clock = clock_of(engine)
    add(engine, "ops", receivers.url("/"))
    (old,) = put(engine, "evt_old", "ops", at=clock() - timedelta(days=40))
    polls = Polls(engine, clock, time.sleep, AT_ONCE)
    one = Sending(engine, clock, replace(RULES, keep=timedelta(days=30)))
    worker = Worker(polls, [], sending=one)
    thread = threading.Thread(target=worker.run)
    thread.start()
    until(lambda: receivers.ids() == ["evt_old"])
    worker.stop()
    thread.join()
    assert one._thread is not None
    assert not one._thread.is_alive()
    rest(one)
    assert kept(engine, old).status == "sent"
    one.keep_house(clock())
    assert kept(engine, old).status == "sent"
    one.keep_house(clock() + timedelta(days=31))
    assert outbox.delivery(engine, old) is None


def test_sending_that_ended_by_a_fault_is_begun_anew(
    engine: Engine, receivers: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    add(engine, "ops", receivers.url("/"))
    put(engine, "evt_1", "ops")
    with sending(engine) as one:
        until(lambda: one._thread and not one._thread.is_alive())
        assert broken
        monkeypatch.delenv("SSL_CERT_FILE")
        one.keep_house(utc_now())
        until(lambda: receivers.ids() == ["evt_1"])


def test_the_settings_say_how_it_is_sent(tmp_path: Path, engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    polls = Polls(engine, utc_now)

    def rules(**environ: str) -> SendingRules:
        return build.sending(load({"HOME": str(tmp_path), **environ}, tmp_path), polls)._rules

    assert rules() == SendingRules()
    smtp = {"GPUFARE_SMTP__HOST": "smtp.example.com", "GPUFARE_SMTP__SENDER": "gpufare@example.com"}
    assert rules(
        GPUFARE_WEBHOOKS__ALLOW_PRIVATE="true",
        GPUFARE_WEBHOOKS__TIMEOUT="3s",
        GPUFARE_WEBHOOKS__ATTEMPTS="7",
        GPUFARE_WEBHOOKS__FIRST_PAUSE="1s",
        GPUFARE_WEBHOOKS__LONGEST_PAUSE="2m",
        GPUFARE_WEBHOOKS__KEEP="7d",
        GPUFARE_WEBHOOKS__PAGE_URL="https://gpufare.example.com",
        GPUFARE_SMTP__USER="ada",
        GPUFARE_SMTP__PASSWORD="invented",
        **smtp,
    ) == SendingRules(
        allow_private=True,
        timeout=timedelta(seconds=3),
        attempts=7,
        pauses=Pauses(timedelta(seconds=1), timedelta(minutes=2)),
        keep=timedelta(days=7),
        page_url="https://gpufare.example.com",
        mail=MailServer("smtp.example.com", 587, "starttls", "ada", "invented", "gpufare@example.com"),
    )
    ports = [rules(GPUFARE_SMTP__SECURITY=one, **smtp).mail for one in ("starttls", "tls", "none")]
    assert [one.port for one in ports if one] == [587, 465, 25]
    for wrong in ({"GPUFARE_SMTP__SENDER": ""}, {"GPUFARE_SMTP__PASSWORD": "invented"}):
        with pytest.raises(typer.Exit):
            rules(**(smtp | wrong))
        said = capsys.readouterr().err
        assert "GPUFARE_SMTP" in said
        assert "invented" not in said
