"""One poll of one cell: what each answer and each error of a provider leaves behind."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
import stamina.instrumentation
import structlog
from sqlalchemy import Engine, select
from sqlalchemy.exc import OperationalError

from catalog.facts import Fact, Note
from catalog.words import Level
from collectors import base
from collectors.base import (
    AuthFailed,
    Drift,
    Feed,
    NotConfigured,
    NotServed,
    ProviderError,
    Throttled,
    Unavailable,
    Unchanged,
)
from scheduler.plan import Configured, plan
from scheduler.poll import (
    JITTER,
    LEASE,
    LIMIT_PATIENCE,
    LONGEST_LEASE,
    LONGEST_POLL,
    NOT_SERVED_PAUSE,
    THROTTLED_PAUSE,
    Patience,
    Polls,
    _commit,
    broken,
    poll,
    try_out,
)
from scheduler.scrub import Scrubber
from store import record, schedule
from store.engine import reading
from store.record import Answer, Lease, LeaseLost, Result
from store.tables import CELLS, DRIFTS, PROVIDERS
from tests.support.feeds import (
    AT_ONCE,
    HandClock,
    OwnClocks,
    Says,
    Script,
    ScriptedFeed,
    Unreadable,
    always,
    as_feed,
    configured,
    fails,
    in_turn,
    says,
)
from tests.support.stored import MINUTE, T0, machine, opened, price, rows, stock

pytestmark = pytest.mark.both_databases

NO_SECRETS = Scrubber({})
Logs = list[Mapping[str, Any]]
Page = list[Fact | Note] | Exception


@pytest.fixture
def logs() -> Iterator[Logs]:
    with structlog.testing.capture_logs() as captured:
        yield captured  # type: ignore[misc]


@dataclass
class Bench:
    """A database with planned providers, polled by hand."""

    engine: Engine
    providers: list[Configured]
    clock: HandClock = field(default_factory=lambda: HandClock(T0))
    patience: Patience = AT_ONCE

    def __post_init__(self) -> None:
        plan(self.engine, self.providers, self.clock.now)

    @property
    def polls(self) -> Polls:
        return Polls(self.engine, self.clock, self.clock.sleep, self.patience)

    def feed(self, lease: Lease) -> Any:
        (one,) = [one for one in self.providers if one.name == lease.provider]
        return one.feeds()[lease.feed]

    def claim(self, at: datetime | None = None, most: int = 100) -> list[Lease]:
        self.clock.now = at or self.clock.now
        return schedule.claim(self.engine, self.clock.now, LEASE, most)

    def poll_due(self, at: datetime | None = None) -> list[Result]:
        """Claim all that is due, then poll it, one cell after the other."""
        return [self.poll(lease) for lease in self.claim(at)]

    def poll(self, lease: Lease) -> Result:
        return poll(self.polls, self.feed(lease), lease, self.scrub(lease))

    def scrub(self, lease: Lease) -> Scrubber:
        (one,) = [one for one in self.providers if one.name == lease.provider]
        return one.scrubber()

    def cells(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """(provider, place) -> the cell's row."""
        with reading(self.engine) as connection:
            found = connection.execute(select(CELLS)).mappings().all()
        return {(one["provider"], one["place"]): dict(one) for one in found}

    def cell(self, place: str = "r1", provider: str = "cloud") -> Mapping[str, Any]:
        return self.cells()[provider, place]


def bench(folder: Path, *feeds: ScriptedFeed, **changes: Any) -> Bench:
    """One provider for each feed."""
    return Bench(opened(folder), [configured(feed) for feed in feeds], **changes)


def cloud(script: Script, **changes: Any) -> ScriptedFeed:
    return ScriptedFeed(script=script, **changes)


def known(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """All that is known of machines, prices and stock."""
    return {table: rows(engine, table) for table in ("machines", "prices", "stocks")}


WHOLE = says(machine(), price(), stock())


def test_a_whole_answer_is_recorded_and_due_again_one_interval_after_it_began(tmp_path: Path) -> None:
    one = bench(tmp_path, cloud(always(WHOLE)))
    assert one.poll_due() == [Result("ok", 3)]
    cell = one.cell()
    assert (cell["status"], cell["seen_at"], cell["token"], cell["lease_until"]) == ("ok", T0, None, None)
    assert T0 + MINUTE <= cell["due_at"] <= T0 + MINUTE * 1.05
    assert [row["level"] for row in rows(one.engine, "stocks")] == ["in_stock"]


@pytest.mark.parametrize("error", [NotConfigured("set KEY"), NotServed("not sold here")], ids=lambda error: type(error))
def test_what_is_not_configured_or_not_served_is_off_and_asked_again_a_day_later(
    tmp_path: Path, error: ProviderError
) -> None:
    one = bench(tmp_path, cloud(always(fails(error))))
    assert one.poll_due() == [Result("off", error=str(error))]
    assert one.cell()["status"] == "off"
    assert one.cell()["due_at"] == T0 + NOT_SERVED_PAUSE == T0 + timedelta(days=1)
    assert one.poll_due(T0 + timedelta(hours=23)) == []
    assert len(one.poll_due(T0 + timedelta(days=1))) == 1


def test_what_is_off_is_told_once_for_each_reason_and_is_no_warning(tmp_path: Path, logs: Logs) -> None:
    no_key, not_sold = fails(NotConfigured("set KEY")), fails(NotServed("not sold here"))
    answers = (no_key, no_key, not_sold, not_sold, WHOLE, not_sold)
    one = bench(tmp_path, cloud(in_turn(*answers)))
    for day in range(len(answers)):
        assert len(one.poll_due(T0 + timedelta(days=day))) == 1
    told = [(entry["log_level"], entry["event"], entry.get("error")) for entry in logs]
    off = [("info", "off", "set KEY"), ("info", "off", "not sold here")]
    assert told == [*off, ("info", "polled", None), off[1]]


def test_refused_credentials_pause_that_provider_alone_and_are_told_once(tmp_path: Path, logs: Logs) -> None:
    refused = cloud(always(fails(AuthFailed("the key was refused"))), places=("r1", "r2", "r3", "r4", "r5"))
    other = cloud(always(WHOLE), provider="other")
    one = bench(tmp_path, refused, other)
    leases = one.claim(most=4) + one.claim(most=2)
    results = [one.poll(lease) for lease in leases]
    assert sorted(result.status for result in results) == ["failed"] * 5 + ["ok"]
    told = [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    assert [(entry["event"], entry["error"]) for entry in told] == [
        ("provider paused until its settings change", "the key was refused")
    ]
    assert [result.status for result in one.poll_due(T0 + timedelta(days=9))] == ["ok"], "only the other one goes on"
    assert len(refused.asked) == 5


def test_a_refusal_met_under_old_settings_does_not_pause_the_new_ones(tmp_path: Path) -> None:
    feed = cloud(always(fails(AuthFailed("the old key was refused"))))
    one = bench(tmp_path, feed)
    (lease,) = one.claim()
    plan(one.engine, [configured(feed, environ={"KEY": "a new one"})], T0)
    with pytest.raises(LeaseLost):
        one.poll(lease)
    with reading(one.engine) as connection:
        assert connection.execute(select(PROVIDERS.c.paused)).scalar_one() is None


@pytest.mark.parametrize(
    ("asked_for", "pause"),
    [(timedelta(minutes=7), timedelta(minutes=7)), (None, timedelta(minutes=1)), (timedelta(0), timedelta(minutes=1))],
)
def test_throttling_pauses_the_cells_under_that_limit_until_then_and_no_others(
    tmp_path: Path, asked_for: timedelta | None, pause: timedelta
) -> None:
    def script(cell: Any, _time: int) -> Says:
        return fails(Throttled("slow down", asked_for)) if cell.place == "r1" else WHOLE

    shared = cloud(script, places=("r1", "r2"), limit_key="shared")
    other = cloud(always(WHOLE), provider="other")
    one = bench(tmp_path, shared, other)
    (lease,) = one.claim(most=1)
    assert one.poll(lease).status == "failed"
    assert one.cell("r1")["paused_until"] == one.cell("r2")["paused_until"] == T0 + pause
    assert one.cell(provider="other")["paused_until"] is None
    assert len(one.poll_due(T0 + timedelta(seconds=1))) == 1, "only the other provider's"
    assert {cell.place for cell, _ in shared.asked} == {"r1"}
    assert len(one.poll_due(T0 + pause)) >= 2, "both are asked again"
    assert {cell.place for cell, _ in shared.asked} == {"r1", "r2"}


def test_a_throttled_place_pauses_alone_where_its_limit_says_so(tmp_path: Path) -> None:
    def script(cell: Any, _time: int) -> Says:
        return fails(Throttled("slow down", 5 * MINUTE)) if cell.place == "r1" else WHOLE

    clock = HandClock(T0)
    places = ("r1", "r2", "r3")
    feed = cloud(script, places=places, limit_key="shared", per_second=1.0, pauses_by_place=True, clock=clock)
    one = bench(tmp_path, feed, clock=clock, patience=Patience(first_pause=timedelta(0)))
    assert [result.status for result in one.poll_due()] == ["failed", "ok", "ok"]
    assert [one.cell(place)["paused_until"] for place in places] == [T0 + 5 * MINUTE, None, None]
    assert feed.calls == [T0 + timedelta(seconds=second) for second in range(3)], "the calls of all share the limit"
    assert len(one.poll_due(T0 + 2 * MINUTE)) == 2


def test_the_pause_without_a_word_from_the_provider_is_a_minute() -> None:
    assert timedelta(minutes=1) == THROTTLED_PAUSE


def test_a_throttled_call_is_asked_again_no_sooner_than_the_provider_wants(tmp_path: Path) -> None:
    waits: list[float] = []
    asked_for = timedelta(milliseconds=20)
    patient = Patience(first_pause=timedelta(0), longest_pause=asked_for)
    feed = cloud(in_turn(fails(Throttled("slow down", asked_for)), WHOLE))
    one = bench(tmp_path, feed, patience=patient)
    stamina.instrumentation.set_on_retry_hooks([lambda details: waits.append(details.wait_for)])
    try:
        assert one.poll_due() == [Result("ok", 3)]
    finally:
        stamina.instrumentation.set_on_retry_hooks(None)
    assert waits == [pytest.approx(0.02)]
    assert one.cell()["paused_until"] is None


@pytest.mark.parametrize(("every", "pause"), [(timedelta(seconds=15), 15), (timedelta(hours=1), 30)])
def test_a_short_pause_is_no_reason_to_ask_a_cell_sooner_than_after_any_failure(
    tmp_path: Path, every: timedelta, pause: int
) -> None:
    feed = cloud(always(fails(Throttled("slow down", timedelta(seconds=12)))), every=every)
    one = bench(tmp_path, feed, patience=Patience(first_pause=timedelta(0)))
    assert [result.status for result in one.poll_due()] == ["failed"]
    assert T0 + timedelta(seconds=pause) < one.cell()["due_at"] <= T0 + timedelta(seconds=pause) * (1 + JITTER)
    assert one.cell()["paused_until"] == T0 + timedelta(seconds=12), "the others under its limit wait no longer"


@pytest.mark.parametrize("days", [1, 400])
def test_a_long_pause_is_a_day_at_most_for_its_cell_and_an_hour_for_its_limit(tmp_path: Path, days: int) -> None:
    feed = cloud(always(fails(Throttled("blocked for long", timedelta(days=days)))))
    one = bench(tmp_path, feed, patience=Patience(first_pause=timedelta(0)))
    assert [result.status for result in one.poll_due()] == ["failed"]
    assert len(feed.asked) == 1
    assert one.cell()["due_at"] == T0 + timedelta(days=1)
    assert one.cell()["paused_until"] == T0 + timedelta(hours=1)
    assert one.poll_due(T0 + timedelta(hours=23)) == []
    assert len(one.poll_due(T0 + timedelta(days=1))) == 1


@pytest.mark.parametrize(("failures", "status", "asked"), [(1, "ok", 2), (2, "ok", 3), (3, "failed", 3)])
def test_an_unavailable_provider_is_asked_three_times(tmp_path: Path, failures: int, status: str, asked: int) -> None:
    feed = cloud(in_turn(*[fails(Unavailable("HTTP 502"))] * failures, WHOLE))
    one = bench(tmp_path, feed)
    assert [result.status for result in one.poll_due()] == [status]
    assert len(feed.asked) == asked


@pytest.mark.parametrize(
    "error", [NotConfigured("x"), NotServed("x"), AuthFailed("x"), Drift("x"), KeyError("x")], ids=lambda one: type(one)
)
def test_only_what_may_pass_is_asked_again_within_a_poll(tmp_path: Path, error: Exception) -> None:
    feed = cloud(always(fails(error)))
    one = bench(tmp_path, feed)
    (lease,) = one.claim()
    if isinstance(error, ProviderError):
        one.poll(lease)
    else:
        with pytest.raises(type(error)):
            one.poll(lease)
    assert len(feed.asked) == 1


def test_only_the_unavailable_cell_fails_and_what_is_known_of_it_stays(tmp_path: Path) -> None:
    def script(cell: Any, time: int) -> Says:
        return WHOLE if time == 1 or cell.place == "r2" else fails(Unavailable("connection reset"))

    one = bench(tmp_path, cloud(script, places=("r1", "r2")))
    one.poll_due()
    before = known(one.engine)
    assert sorted(result.status for result in one.poll_due(T0 + 2 * MINUTE)) == ["failed", "ok"]
    assert known(one.engine) == before
    assert (one.cell("r1")["seen_at"], one.cell("r2")["seen_at"]) == (T0, T0 + 2 * MINUTE)
    assert one.cell("r1")["error"] == "connection reset"


def test_the_pauses_of_a_cell_that_fails_grow_up_to_its_interval(tmp_path: Path) -> None:
    feed = cloud(always(fails(Unavailable("HTTP 500"))), every=timedelta(minutes=15))
    one = bench(tmp_path, feed)
    pauses = []
    for _ in range(8):
        assert len(one.poll_due(one.cell()["due_at"])) == 1
        pauses.append((one.cell()["due_at"] - one.clock.now).total_seconds())
    for pause, least in zip(pauses, [30, 60, 120, 240, 480, 900, 900, 900], strict=True):
        assert least <= pause <= least * 1.05


def test_a_success_ends_the_growth_of_the_pauses(tmp_path: Path) -> None:
    bad = fails(Drift("odd"))
    one = bench(tmp_path, cloud(in_turn(bad, bad, WHOLE, bad), every=timedelta(hours=1)))
    for _ in range(4):
        one.poll_due(one.cell()["due_at"])
    assert timedelta(seconds=30) <= one.cell()["due_at"] - one.clock.now <= timedelta(seconds=31.5)


@pytest.mark.parametrize("while_fetching", [False, True])
def test_an_answer_that_is_not_as_learnt_is_not_stored_and_its_page_is_kept(
    tmp_path: Path, while_fetching: bool
) -> None:
    page = base.Page("r1 2", b'{"Odd": 1}', T0)
    odd = fails(Drift("no `Items`", page)) if while_fetching else Unreadable(Drift("no `Items`"), page.body)
    one = bench(tmp_path, cloud(in_turn(WHOLE, odd)))
    one.poll_due()
    before = known(one.engine)
    assert one.poll_due(T0 + 2 * MINUTE) == [Result("failed", error="no `Items`")]
    assert known(one.engine) == before
    with reading(one.engine) as connection:
        kept = [(row.page, row.error, row.body) for row in connection.execute(select(DRIFTS))]
    assert kept == [("r1 2", "no `Items`", b'{"Odd": 1}')]


def test_unchanged_confirms_the_cell_as_it_stands(tmp_path: Path) -> None:
    one = bench(tmp_path, cloud(in_turn(WHOLE, fails(Unchanged()))))
    one.poll_due()
    before = known(one.engine)
    assert one.poll_due(T0 + 2 * MINUTE) == [Result("unchanged", 3)]
    assert known(one.engine) == before
    assert one.cell()["seen_at"] == T0 + 2 * MINUTE


def test_nothing_is_recorded_before_the_last_page_is_in(tmp_path: Path) -> None:
    pages: list[Page] = [[machine("m1"), price("m1")], [machine("m2")], Unavailable("HTTP 503 on page 3")]
    feed = cloud(always(Says(pages)))
    one = bench(tmp_path, feed)
    assert [result.status for result in one.poll_due()] == ["failed"]
    assert known(one.engine) == {"machines": [], "prices": [], "stocks": []}
    assert one.cell()["seen_at"] is None
    assert len(feed.asked) == 3, "each attempt begins with page 1"


def test_a_drift_on_a_later_page_leaves_nothing_of_the_earlier_ones(tmp_path: Path) -> None:
    one = bench(tmp_path, cloud(always(Says([[machine("m1")], Drift("odd")]))))
    assert [result.status for result in one.poll_due()] == ["failed"]
    assert known(one.engine)["machines"] == []


def test_all_pages_make_one_answer_with_its_notes_and_what_was_skipped(tmp_path: Path) -> None:
    pages: list[Page] = [[machine("m1"), Note("unknown_gpu", "ZZ1")], [], [machine("m2"), Note("unknown_gpu", "ZZ1")]]
    one = bench(tmp_path, cloud(always(Says(pages, skipped={"windows": 5}))))
    assert one.poll_due() == [Result("ok", 2, 17)]
    assert {(row["kind"], row["value"]): row["count"] for row in rows(one.engine, "notes")} == {
        ("unknown_gpu", "ZZ1"): 2,
        ("skipped", "windows"): 15,
    }


def test_an_answer_that_lacks_something_is_partial_and_settles_nothing(tmp_path: Path) -> None:
    both = says(machine("m1"), stock("m1"), machine("m2"), stock("m2"))
    half = says(machine("m1"), stock("m1", Level.LOW), missing="the offerings were not answered")
    one = bench(tmp_path, cloud(in_turn(both, half)))
    one.poll_due()
    assert one.poll_due(T0 + 2 * MINUTE) == [Result("partial", 2, 0, "the offerings were not answered")]
    assert {row["instance_type"]: row["level"] for row in rows(one.engine, "stocks")} == {"m1": "low", "m2": "in_stock"}
    assert one.cell()["seen_at"] == T0


def test_a_memo_is_kept_after_a_whole_answer_and_told_to_the_next_fetch(tmp_path: Path) -> None:
    feed = cloud(
        in_turn(
            says(machine(), memo={"etag": "a"}),
            fails(Unavailable("x")),
            fails(Unavailable("x")),
            fails(Unavailable("x")),
            says(machine(), memo={"etag": "b"}, missing="half"),
            says(machine(), memo={"etag": "c"}),
        )
    )
    one = bench(tmp_path, feed)
    memos = []
    for _ in range(4):
        one.poll_due(one.cell()["due_at"])
        memos.append(json.loads(one.cell()["memo"]))
    assert memos == [{"etag": "a"}, {"etag": "a"}, {}, {"etag": "c"}]
    assert [memo for _, memo in feed.asked] == [{}, *[{"etag": "a"}] * 4, {}]


def test_a_fault_of_our_own_is_recorded_as_one_and_changes_nothing_known(tmp_path: Path, logs: Logs) -> None:
    one = bench(tmp_path, cloud(in_turn(WHOLE, Unreadable(KeyError("gpus")))))
    one.poll_due()
    before = known(one.engine)
    (lease,) = one.claim(T0 + 2 * MINUTE)
    with pytest.raises(KeyError) as caught:
        one.poll(lease)
    result = broken(one.polls, lease, caught.value, NO_SECRETS)
    assert result.status == "failed"
    assert result.error == "a fault of this program, not of the provider: KeyError: 'gpus'"
    assert known(one.engine) == before
    cell = one.cell()
    assert (cell["token"], cell["lease_until"], cell["seen_at"]) == (None, None, T0)
    assert cell["due_at"] >= T0 + 3 * MINUTE
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["poll broke"]


SECRET = "S3cr3t-that/must show+nowhere"
ECHO = f"no such key {SECRET}\x1b[2J"
SHOWN = r"no such key ***\x1b[2J"


def echoing(folder: Path, *answers: Says | Unreadable) -> Bench:
    """A provider that repeats its credentials, one answer for each of its places."""
    feed = cloud(lambda cell, _time: answers["abcdef".index(cell.place)], places=tuple("abcdef"[: len(answers)]))
    return Bench(opened(folder), [configured(feed, environ={"CLOUD_KEY": SECRET})])


def everything(one: Bench) -> str:
    """All that is kept, pages included."""
    return repr([rows(one.engine, table) for table in CELLS.metadata.tables])


def test_no_credential_that_a_provider_echoes_is_logged_or_kept(tmp_path: Path, logs: Logs) -> None:
    kinds = [AuthFailed, Throttled, Unavailable, NotConfigured, NotServed]
    one = echoing(tmp_path, *(fails(kind(ECHO)) for kind in kinds), fails(Drift(ECHO, base.Page(SECRET, b"{}", T0))))
    assert {result.error for result in one.poll_due()} == {SHOWN}
    assert len([entry for entry in logs if entry.get("error") == SHOWN]) == len(kinds) + 1
    for kept in (repr(logs), everything(one)):
        assert SHOWN.replace("\\", "\\\\") in kept
        assert SECRET not in kept
        assert "\\x1b" not in kept.replace("\\\\x1b", "")


def test_no_credential_is_in_a_page_that_is_kept(tmp_path: Path) -> None:
    one = echoing(tmp_path, Unreadable(Drift(f"no `Items` in {SECRET}"), json.dumps({"key": SECRET}).encode()))
    one.poll_due()
    (kept,) = rows(one.engine, "drifts")
    assert (kept["body"], kept["error"]) == (b'{"key": "***"}', "no `Items` in ***")
    assert SECRET not in everything(one)


def test_no_credential_is_in_the_notes_of_an_answer_or_in_what_it_lacks(tmp_path: Path) -> None:
    answer = says(machine(), Note("unknown_word", ECHO), missing=f"page {SECRET}", skipped={SECRET: 1})
    one = echoing(tmp_path, answer)
    assert one.poll_due() == [Result("partial", 1, 2, "page ***")]
    assert {(row["kind"], row["value"]) for row in rows(one.engine, "notes")} == {
        ("unknown_word", SHOWN),
        ("skipped", "***"),
    }
    assert SECRET not in everything(one)


def test_no_credential_is_in_a_fault_of_our_own_or_its_traceback(tmp_path: Path, logs: Logs) -> None:
    one = echoing(tmp_path, Unreadable(KeyError(SECRET)))
    (lease,) = one.claim()
    with pytest.raises(KeyError) as caught:
        one.poll(lease)
    result = broken(one.polls, lease, caught.value, one.scrub(lease))
    assert result.error == "a fault of this program, not of the provider: KeyError: '***'"
    (entry,) = logs
    assert "Traceback" in entry["exception"]
    assert "KeyError: '***'" in entry["exception"]
    assert SECRET not in everything(one) + repr(logs)


def test_no_credential_is_in_what_trying_out_a_feed_met(tmp_path: Path) -> None:
    one = echoing(tmp_path, fails(Throttled(ECHO, MINUTE)))
    (provider,) = one.providers
    met = try_out(one.polls, (feed := provider.feeds()["stock"]), feed.cells(["a"]), provider.scrubber())
    assert isinstance(met, Throttled)
    assert (str(met), met.retry_after) == (SHOWN, MINUTE)


def test_a_poll_that_went_on_for_too_long_fails_before_its_lease_ends(tmp_path: Path) -> None:
    clock = HandClock(T0)
    feed = cloud(always(Says([[machine()]] * 20)))
    one = bench(tmp_path, feed, clock=clock)

    def a_minute_later() -> datetime:
        clock.sleep(60)
        return clock.now

    feed.clock = a_minute_later
    (result,) = one.poll_due()
    assert (result.status, result.error) == ("failed", "no whole answer within 8 minutes")
    assert clock.now < T0 + LONGEST_LEASE
    assert LONGEST_POLL + MINUTE < LONGEST_LEASE
    assert known(one.engine)["machines"] == []


def test_what_another_worker_fetched_meanwhile_stands(tmp_path: Path) -> None:
    feed = cloud(in_turn(says(stock(level=Level.OUT)), WHOLE))
    one = bench(tmp_path, feed)

    def overtaken(_cell: Any) -> None:
        feed.before = lambda _cell: None
        (new,) = one.claim(T0 + LEASE)
        assert one.poll(new).status == "ok"

    (old,) = one.claim()
    feed.before = overtaken
    with pytest.raises(LeaseLost):
        one.poll(old)
    assert [row["level"] for row in rows(one.engine, "stocks")] == ["in_stock"]
    assert len(rows(one.engine, "syncs")) == 1


def test_a_commit_that_nobody_heard_of_records_once(tmp_path: Path, logs: Logs) -> None:
    """The connection is lost after the commit and before its acknowledgement."""
    one = bench(tmp_path, cloud(always(WHOLE)))
    (lease,) = one.claim()

    def unheard() -> Result:
        record.record(one.engine, lease, Answer([stock()]), T0, T0 + MINUTE)
        lost = OperationalError("COMMIT", {}, psycopg.OperationalError("server closed the connection unexpectedly"))
        raise lost

    with pytest.raises(LeaseLost):
        _commit(one.polls, lease, unheard)
    assert len(rows(one.engine, "syncs")) == 1
    told = [entry["event"] for entry in logs if entry["log_level"] == "info"]
    assert told == ["recorded before the connection was lost, or taken by another worker since"]


def test_what_was_fetched_under_old_settings_is_not_recorded(tmp_path: Path) -> None:
    feed = cloud(always(WHOLE))
    one = bench(tmp_path, feed)
    (lease,) = one.claim()

    def changed(_cell: Any) -> None:
        plan(one.engine, [configured(feed, site="intl")], T0)

    feed.before = changed
    with pytest.raises(LeaseLost):
        one.poll(lease)
    assert known(one.engine)["machines"] == []
    assert len(one.claim()) == 1, "asked anew at once"


def test_pages_never_go_out_faster_than_the_limit_over_threads_and_feeds_that_share_it(tmp_path: Path) -> None:
    clocks = OwnClocks(T0)
    shared: dict[str, Any] = {"limit_key": "shared", "per_second": 20.0, "clock": clocks}
    places = tuple(f"z{number}" for number in range(30))
    first = cloud(lambda cell, _time: says(machine(region=cell.place)), places=places, **shared)
    second = cloud(always(Says([[machine()], [machine("m2")]])), provider="other", **shared)
    one = bench(tmp_path, first, second)
    polls = Polls(one.engine, clocks, clocks.sleep, AT_ONCE)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda lease: poll(polls, one.feed(lease), lease, NO_SECRETS), one.claim()))
    assert [result.status for result in results] == ["ok"] * 31
    calls = sorted(first.calls + second.calls)
    assert len(calls) == 32
    for index in range(len(calls) - 20):
        assert calls[index + 20] - calls[index] >= timedelta(seconds=1), "over 20 in a second"
    assert len(rows(one.engine, "machines")) == 32


def test_a_cell_whose_slot_is_far_goes_back_and_others_go_first(tmp_path: Path) -> None:
    slow = cloud(always(WHOLE), limit_key="slow", per_second=0.01)
    other = cloud(always(WHOLE), provider="other")
    one = bench(tmp_path, slow, other)
    taken = schedule.reserve(one.engine, "slow", 0.01, T0, LIMIT_PATIENCE)
    assert taken == T0
    assert sorted(result.status for result in one.poll_due()) == ["ok", "waiting"]
    cell = one.cell()
    assert (cell["status"], cell["token"], cell["due_at"]) == ("new", None, T0 + timedelta(seconds=100))
    assert slow.asked == []
    assert one.clock.slept == [], "nobody waited"


def test_a_near_slot_is_waited_for(tmp_path: Path) -> None:
    clock = HandClock(T0)
    feed = cloud(always(WHOLE), limit_key="slow", per_second=0.1, clock=clock)
    one = bench(tmp_path, feed, clock=clock)
    schedule.reserve(one.engine, "slow", 0.1, T0, LIMIT_PATIENCE)
    assert [result.status for result in one.poll_due()] == ["ok"]
    assert feed.calls == [T0 + timedelta(seconds=10)]


@pytest.mark.parametrize("pages", [1, 3])
def test_a_poll_takes_a_slot_for_each_call_and_none_after_the_last(tmp_path: Path, pages: int) -> None:
    clock = HandClock(T0)
    whole = Says([[machine(f"m{number}")] for number in range(pages)])
    feed = cloud(always(whole), limit_key="slow", per_second=1 / 60, clock=clock)
    one = bench(tmp_path, feed, clock=clock)
    assert one.poll_due() == [Result("ok", pages)]
    assert feed.calls == [T0 + number * MINUTE for number in range(pages)]
    assert clock.now == feed.calls[-1], "nobody waits for a call that is not made"
    next_at = schedule.reserve(one.engine, "slow", 1 / 60, clock.now, timedelta(days=1))
    assert next_at == T0 + pages * MINUTE, "the slot after the last call is free"


def test_calls_that_make_one_page_are_each_under_the_limit(tmp_path: Path) -> None:
    clock = HandClock(T0)
    feed = cloud(always(WHOLE), limit_key="slow", per_second=0.1, before=lambda _cell: base.calling(), clock=clock)
    one = bench(tmp_path, feed, clock=clock)
    assert [result.status for result in one.poll_due()] == ["ok"]
    assert feed.calls == [T0 + timedelta(seconds=10)], "the second of two calls"


def test_a_later_call_waits_longer_than_the_first_and_its_poll_is_recorded(tmp_path: Path) -> None:
    one = bench(tmp_path, cloud(always(Says([[machine("m1")], [machine("m2")]])), limit_key="s", per_second=1 / 300))
    assert one.poll_due() == [Result("ok", 2)]
    assert one.clock.slept == [300.0]


def test_a_later_call_that_would_come_after_the_polls_end_fails_it_at_once(tmp_path: Path) -> None:
    one = bench(tmp_path, cloud(always(Says([[machine("m1")], [machine("m2")]])), limit_key="s", per_second=1 / 600))
    assert one.poll_due() == [Result("failed", error="no whole answer within 8 minutes")]
    assert one.clock.slept == []


def test_a_second_attempt_without_a_near_slot_does_not_hide_that_the_first_failed(tmp_path: Path) -> None:
    one = bench(tmp_path, cloud(always(fails(Unavailable("HTTP 500"))), limit_key="s", per_second=1 / 600))
    assert [result.status for result in one.poll_due()] == ["failed"]
    assert one.cell()["failures"] == 1


def test_a_whole_answer_that_was_long_in_coming_is_recorded(tmp_path: Path) -> None:
    clock = HandClock(T0)
    one = bench(tmp_path, cloud(always(WHOLE), before=lambda _cell: clock.sleep(540)), clock=clock)
    assert one.poll_due() == [Result("ok", 3)]


def runs(one: Bench, span: timedelta, step_back: Mapping[int, timedelta]) -> list[datetime]:
    """The true times at which the cell is polled, ticking each 10 s, while the clock steps back at some seconds."""
    found = []
    behind = timedelta(0)
    for second in range(0, int(span.total_seconds()), 10):
        behind += step_back.get(second, timedelta(0))
        true = T0 + timedelta(seconds=second)
        found += [true] * len(one.poll_due(true - behind))
    return found


def test_a_clock_that_steps_back_each_hour_neither_skips_nor_doubles_a_poll(tmp_path: Path) -> None:
    every = timedelta(seconds=900)
    one = bench(tmp_path, cloud(always(WHOLE), every=every))
    back = {hour * 3600: timedelta(seconds=2) for hour in (1, 2)}
    found = runs(one, timedelta(hours=3), back)
    assert 11 <= len(found) <= 13
    gaps = [after - before for before, after in pairwise(found)]
    assert all(every <= gap <= every * 1.05 + timedelta(seconds=12) for gap in gaps)


def test_observation_times_never_go_back_when_the_clock_does(tmp_path: Path) -> None:
    one = bench(tmp_path, cloud(always(WHOLE)))
    one.poll_due(T0 + MINUTE)
    schedule.make_due(one.engine, T0)
    one.poll_due(T0 + timedelta(seconds=58))
    assert one.cell()["seen_at"] == T0 + MINUTE


@pytest.mark.parametrize("late", [timedelta(seconds=5), timedelta(minutes=30), timedelta(days=3)])
def test_a_late_poll_is_caught_up_once(tmp_path: Path, late: timedelta) -> None:
    every = timedelta(hours=6)
    feed = cloud(always(WHOLE), every=every)
    one = bench(tmp_path, feed)
    one.poll_due()
    due = one.cell()["due_at"]
    assert due - T0 >= every
    assert len(one.poll_due(due + late)) == 1
    assert one.poll_due(due + late) == []
    assert one.cell()["due_at"] - (due + late) >= every


def test_jitter_only_makes_later(tmp_path: Path) -> None:
    places = tuple(f"r{number}" for number in range(50))
    one = bench(tmp_path, cloud(lambda cell, _time: says(machine(region=cell.place)), places=places))
    one.poll_due()
    dues = {cell["due_at"] - T0 for cell in one.cells().values()}
    assert len(dues) > 10, "cells are spread"
    assert all(MINUTE <= due <= MINUTE * 1.05 for due in dues)


def tried(one: Any, feed: Feed, regions: list[str]) -> ProviderError | None:
    return try_out(one.polls, feed, feed.cells(regions), NO_SECRETS)


def test_trying_out_a_feed_asks_one_page_and_records_nothing(tmp_path: Path) -> None:
    feed = cloud(always(Says([[machine()], Unavailable("page 2 is never asked for")])))
    one = bench(tmp_path, feed)
    assert tried(one, as_feed(feed), ["r1"]) is None
    assert known(one.engine)["machines"] == []
    refused = AuthFailed("refused")
    assert tried(one, as_feed(cloud(always(fails(refused)))), ["r1"]) is refused
    assert tried(one, as_feed(cloud(always(fails(Unchanged())))), ["r1"]) is None
    slow = as_feed(cloud(always(WHOLE), limit_key="slow", per_second=0.1))
    assert tried(one, slow, ["r1"]) is None
    assert tried(one, slow, ["r1"]) is None
    assert one.clock.slept == [10.0], "its calls are under the limit like any other's"
    far = as_feed(cloud(always(WHOLE), limit_key="far", per_second=1 / 600))
    assert tried(one, far, ["r1"]) is None
    busy = tried(one, far, ["r1"])
    assert isinstance(busy, Throttled)
    assert "the next call may go out at 12:10:10" in str(busy)
    nowhere = tried(one, as_feed(cloud(always(WHOLE), places=None)), [])
    assert isinstance(nowhere, NotConfigured)
