"""Watches over HTTP: what they see when they are made, what is warned of, what a change keeps, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alerts.memory import Memory
from api.guard import MAX_BODY_BYTES
from catalog.facts import Fact
from catalog.watches import CHOSEN
from catalog.words import Evidence, Level
from store import outbox, watches
from store.delivering import claim, failed, settle
from tests.support.filled import Server, machine, price, problem_of, served, sold, stock, v100_at_tencent
from tests.support.watched import Watched

URL = "https://93.184.215.14/hook"
V100 = {"name": "v100", "spec": {"gpu": "v100", "region": "ap-guangzhou"}, "notify": ["ops"]}
NEVER = "no provider here reports stock for this spec: stock.* cannot fire"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Tencent with a V100: out in Guangzhou, in stock in Nanjing; a target `ops`."""
    filled = v100_at_tencent(tmp_path)
    with served(filled) as running:
        running.get("/offers")
        running.post("/targets", {"name": "ops", "url": URL}, 201)
        yield running
    filled.engine.dispose()


def add(server: Server, status: int = 201, **changes: Any) -> Any:
    return server.post("/watches", V100 | changes, status)


def patch(server: Server, watch: Any, body: object, status: int = 200) -> Any:
    response = server.client.patch(f"/watches/{watch['id']}", json=body)
    assert response.status_code == status, response.text
    return response.json() if status < 400 else problem_of(response, status)


def memory(server: Server, watch: Any) -> Memory:
    kept = watches.state(server.filled.engine, watch["id"])
    assert kept is not None
    return Memory.read(kept.memory)


def v100s(server: Server, guangzhou: Level, nanjing: Level = Level.IN_STOCK) -> None:
    """A poll of both regions a minute later."""
    server.filled.later(minutes=1)
    for region, level in (("ap-guangzhou", guangzhou), ("ap-nanjing", nanjing)):
        facts = sold(region, "GN10Xp.2XLARGE40", "8.68", level, currency="CNY", zone=f"{region}-1", gpu="v100-sxm2-32g")
        server.filled.poll("tencent", "stock", region, facts)


# --- the first look ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "state"),
    [
        ({"gpu": "v100"}, "available"),
        ({"gpu": "v100", "region": "ap-nanjing"}, "available"),
        ({"gpu": "v100", "region": "ap-guangzhou"}, "out"),
        ({"gpu": "v100", "region": "ap-guangzhou", "fallback": "ap-nanjing"}, "out"),
        ({"gpu": "h100"}, "unknown"),
    ],
)
def test_the_first_look_gives_the_state_and_tells_nothing(server: Server, spec: dict[str, str], state: str) -> None:
    made = add(server, spec=spec, events=list(CHOSEN), price_below="1000")
    assert (made["state"], made["seen"], made["last_event"]) == (state, state, None)
    assert (made["since"] is None) is (state == "unknown")
    assert server.get(f"/watches/{made['id']}/deliveries") == {"items": []}
    assert server.get(f"/watches/{made['id']}") == made
    watching = evaluated(server)
    assert [watching.tick(), watching.tick(60)] == [[], []]


def evaluated(server: Server) -> Watched:
    return Watched(server.filled, "another")


def test_what_changes_between_the_first_look_and_the_first_evaluation_is_told(server: Server) -> None:
    made = add(server)
    v100s(server, Level.IN_STOCK)
    watching = evaluated(server)
    assert watching.tick() == ["stock.back"]
    shown = server.get(f"/watches/{made['id']}")
    assert (shown["state"], shown["last_event"]["type"]) == ("available", "stock.back")
    (told,) = server.get(f"/watches/{made['id']}/deliveries")["items"]
    assert (told["type"], told["target"], told["status"]) == ("stock.back", "ops", "pending")
    assert told["event_id"] == shown["last_event"]["id"]


def test_the_board_is_read_before_the_first_look(server: Server) -> None:
    v100s(server, Level.IN_STOCK)
    assert add(server)["state"] == "available", "though nobody asked for anything since the poll"


def test_a_watch_shows_what_it_was_given_and_what_it_means(server: Server) -> None:
    given: dict[str, Any] = {
        "name": "both",
        "spec": {"gpu": ["v100", "t4"], "count": 1, "min_vcpus": 1.5, "bare_metal": False, "region": "ap-guangzhou"},
        "events": ["price.below", "stock.out"],
        "price_below": "1.80",
        "hold": "120s",
        "hold_back": "0s",
        "remind": "6h",
        "heartbeat": "1d",
        "change_percent": "2.5",
        "daily_cap": 20,
        "expires": "7d",
        "paused": True,
    }
    made = add(server, **given)
    assert made["id"].startswith("w_")
    assert made["spec"] == {
        "gpu": "v100,t4",
        "count": "1",
        "min_vcpus": "1.5",
        "bare_metal": "false",
        "region": "ap-guangzhou",
    }
    assert made["query"]["region"] == ["tencent:ap-guangzhou"]
    assert made["query"]["currency"] == "USD"
    for name, shown in (
        ("notify", ["ops"]),
        ("events", ["stock.out", "price.below"]),
        ("price_below", "1.80"),
        ("hold", "2m"),
        ("hold_back", "0s"),
        ("remind", "6h"),
        ("heartbeat", "1d"),
        ("change_percent", "2.5"),
        ("daily_cap", 20),
        ("expires_at", "2026-12-07T08:00:40Z"),
        ("paused", True),
        ("managed", False),
        ("created_at", "2026-11-30T08:00:40Z"),
    ):
        assert made[name] == shown, name


def test_what_is_not_said_has_its_default(server: Server) -> None:
    made = add(server)
    assert made["events"] == ["stock.out", "stock.back"]
    assert (made["hold"], made["hold_back"], made["change_percent"], made["paused"]) == ("0s", "0s", "1", False)
    for name in ("price_below", "remind", "heartbeat", "daily_cap", "expires_at"):
        assert made[name] is None, name


def test_a_time_to_expire_at_is_taken_in_any_zone(server: Server) -> None:
    assert add(server, expires="2026-12-31T20:00:00+08:00")["expires_at"] == "2026-12-31T12:00:00Z"


def test_names_may_repeat_since_ids_tell_watches_apart(server: Server) -> None:
    first, second = add(server), add(server)
    assert first["id"] != second["id"]
    server.filled.later(seconds=1)
    third = add(server)
    ids = [one["id"] for one in server.get("/watches")["items"]]
    assert (set(ids[:2]), ids[2:]) == ({first["id"], second["id"]}, [third["id"]])


def test_a_watch_over_two_models_means_either(server: Server) -> None:
    filled = server.filled
    filled.plan("aws", ("stock", "us-east-1"), ("stock", "us-west-2"))
    for region, gpu, level in (
        ("us-east-1", "a100-sxm4-80g", Level.OUT),
        ("us-west-2", "h100-sxm5-80g", Level.IN_STOCK),
    ):
        filled.poll("aws", "stock", region, sold(region, "P", "4", level, gpu=gpu))
    made = add(server, spec={"gpu": "a100-80g,h100-80g"})
    assert made["state"] == "available", "one of the two is"
    assert {"a100-sxm4-80g", "h100-sxm5-80g"} <= set(made["query"]["gpu"])
    watching = evaluated(server)
    filled.later(minutes=1)
    filled.fail("aws", "stock", "us-east-1", "timed out")
    assert watching.tick() == [], "a failed poll is no change"
    filled.poll("aws", "stock", "us-west-2", sold("us-west-2", "P", "4", Level.OUT, gpu="h100-sxm5-80g"))
    assert watching.tick() == ["stock.out"]
    filled.poll("aws", "stock", "us-east-1", sold("us-east-1", "P", "4", gpu="a100-sxm4-80g"))
    assert watching.tick() == ["stock.back"], "the other one is by now"


# --- warnings ---------------------------------------------------------------------------------------------------------


def listed(server: Server, **more: Any) -> None:
    """A machine of AWS of which nobody states the stock."""
    server.filled.plan("aws", ("stock", "us-east-1"))
    facts: list[Fact] = [
        machine("us-east-1", "p5"),
        price("us-east-1", "p5", "4"),
        stock("us-east-1", "p5", Level.UNKNOWN, **({"evidence": Evidence.LISTED} | more)),
    ]
    server.filled.poll("aws", "stock", "us-east-1", facts)


def test_a_watch_of_stock_that_nobody_reports_says_so(server: Server) -> None:
    listed(server)
    made = add(server, spec={"gpu": "h100"})
    assert (made["state"], made["warnings"]) == ("unknown", [NEVER])
    assert server.get(f"/watches/{made['id']}")["warnings"] == [NEVER]
    assert add(server, spec={"gpu": "h100"}, events=["price.changed"])["warnings"] == []


def test_stock_that_is_reported_is_not_warned_of_whatever_its_level(server: Server) -> None:
    assert add(server)["warnings"] == [], "out"
    server.filled.later(hours=5)
    made = add(server)
    assert (made["state"], made["warnings"]) == ("unknown", []), "stale"
    listed(server, evidence=Evidence.REPORTED)
    assert add(server, spec={"gpu": "h100"})["warnings"] == []


def test_a_watch_that_nothing_can_meet_says_so_then_and_later(server: Server) -> None:
    nothing = "no known offer matches this spec: nothing can be told until one does"
    spec = {"gpu": "v100", "region": "ap-guangzhou", "instance_type": "GN10Xp.*"}
    made = add(server, spec=spec)
    assert made["warnings"] == []
    server.filled.later(minutes=1)
    renamed = sold("ap-guangzhou", "GN11.BIG", "8.68", currency="CNY", zone="ap-guangzhou-1", gpu="v100-sxm2-32g")
    server.filled.poll("tencent", "stock", "ap-guangzhou", renamed)
    server.get("/offers")
    shown = server.get(f"/watches/{made['id']}")
    assert shown["warnings"] == [nothing]
    assert server.get("/watches")["items"] == [shown]
    assert add(server, spec=spec)["warnings"] == [nothing]


def test_a_price_limit_that_nothing_keeps_is_no_want_of_offers(server: Server) -> None:
    made = add(server, spec=V100["spec"] | {"max_price": "0.01"})  # type: ignore[operator]
    assert made["warnings"] == ["every offer that matches is dearer than the price limit of the spec now"]


def test_a_spec_that_is_no_longer_understood_says_so(server: Server) -> None:
    made = add(server, spec={"instance_type": "GN10Xp.2XLARGE40"})
    assert made["warnings"] == []
    for region in ("ap-guangzhou", "ap-nanjing"):
        server.filled.later(minutes=1)
        facts = sold(region, "GN11.BIG", "8.68", currency="CNY", zone=f"{region}-1", gpu="v100-sxm2-32g")
        server.filled.poll("tencent", "stock", region, facts)
    server.get("/offers")
    shown = server.get(f"/watches/{made['id']}")
    assert (shown["query"], shown["state"]) == (None, "available")
    (warning,) = shown["warnings"]
    assert warning.startswith("the spec is no longer understood, so nothing is seen: instance_type=GN10Xp.2XLARGE40")


def test_places_that_were_not_read_are_named_and_nothing_is_claimed_of_them(server: Server) -> None:
    server.filled.plan("aws", ("stock", "us-east-1"))
    server.get("/offers")
    made = add(server, spec={"gpu": "h100", "region": "us-east-1"})
    assert made["warnings"] == [
        "not read yet: us-east-1",
        "no known offer matches this spec: nothing can be told until one does",
    ]


def test_a_provider_that_is_off_is_said_with_what_to_set(server: Server) -> None:
    made = add(server, spec={"gpu": "h100", "provider": "aws"})
    assert made["warnings"][0] == "aws is off: set AWS_ACCESS_KEY_ID"


def test_targets_that_cannot_be_told_are_warned_of(server: Server) -> None:
    server.post("/targets", {"name": "mail", "format": "email", "url": "mailto:ops@example.com"}, 201)
    made = add(server, notify=["ops", "mail"])
    assert ["no mail server" in one for one in made["warnings"]] == [True]
    kept = watches.target(server.filled.engine, "ops")
    assert kept is not None
    outbox.target_gone(server.filled.engine, kept.target, "HTTP 410", server.filled.now)
    dead, _ = server.get(f"/watches/{made['id']}")["warnings"]
    assert dead.startswith("target ops is dead since 2026-11-30T08:00:40Z: HTTP 410")


def test_a_limit_that_is_not_told_of_and_an_end_are_warned_of(server: Server) -> None:
    made = add(server, price_below="1", expires="1h")
    assert made["warnings"] == ["price_below is set, and events has no price.below: it is not told"]
    server.filled.later(hours=2)
    assert server.get(f"/watches/{made['id']}")["warnings"][-1].startswith("it expired at 2026-11-30T09:00:40Z")


# --- what is refused --------------------------------------------------------------------------------------------------


REFUSED: list[tuple[dict[str, Any], str, list[str] | None]] = [
    ({"spec": {"gpu": "a100-8"}}, "spec.gpu", ["a100-80g", "a100-40g"]),
    ({"spec": {"gpu": "v100", "regoin": "ap-guangzhou"}}, "spec.regoin", ["region"]),
    ({"spec": {"gpu": "v100", "region": "ap-guangzho"}}, "spec.region", None),
    ({"spec": {"gpu": "v100", "limit": 5}}, "spec.limit", []),
    ({"spec": {"gpu": "v100", "offset": "5"}}, "spec.offset", []),
    ({"spec": {"gpu": "v100", "explain": True}}, "spec.explain", []),
    ({"spec": {"gpu": "v100", "stock": "all"}}, "spec.stock", None),
    ({"spec": {"gpu": "v100", "max_price": 0}}, "spec.max_price", []),
    ({"spec": {"gpu": ""}}, "spec.gpu", []),
    ({"spec": {"gpu": []}}, "spec.gpu", []),
    ({"spec": {"gpu": "v100", "zone": "z" * 9000}}, "spec", []),
    ({"spec": {"gpu": None}}, "spec", []),
    ({"spec": {"gpu": {"id": "v100"}}}, "spec", []),
    ({"spec": {"gpu": [["v100"]]}}, "spec", []),
    ({"spec": "gpu=v100"}, "spec", []),
    ({"notify": []}, "notify", []),
    ({"notify": ["opps"]}, "notify", ["ops"]),
    ({"notify": ["ops", "zzz"]}, "notify", []),
    ({"notify": "ops"}, "notify", []),
    ({"events": []}, "events", []),
    ({"events": ["stock.gone"]}, "events", None),
    ({"events": ["watch.heartbeat"]}, "events", None),
    ({"events": ["price.below"]}, "price_below", []),
    ({"price_below": "0"}, "price_below", []),
    ({"price_below": "-1"}, "price_below", []),
    ({"price_below": "1e3"}, "price_below", []),
    ({"price_below": "NaN"}, "price_below", []),
    ({"price_below": True}, "price_below", []),
    ({"hold": "2"}, "hold", []),
    ({"hold": 120}, "hold", []),
    ({"hold": None}, "hold", []),
    ({"hold": "25h"}, "hold", []),
    ({"hold": "-1m"}, "hold", []),
    ({"hold_back": "2 m"}, "hold_back", []),
    ({"remind": "59s"}, "remind", []),
    ({"remind": "0s"}, "remind", []),
    ({"heartbeat": "10s"}, "heartbeat", []),
    ({"change_percent": "-1"}, "change_percent", []),
    ({"change_percent": "1001"}, "change_percent", []),
    ({"daily_cap": 0}, "daily_cap", []),
    ({"daily_cap": 1.5}, "daily_cap", []),
    ({"expires": "2026-11-30T08:00:40Z"}, "expires", []),
    ({"expires": "2026-12-31"}, "expires", []),
    ({"expires": "2026-12-31T12:00:00"}, "expires", []),
    ({"expires": "9999-12-31T23:59:59-23:59"}, "expires", []),
    ({"expires": "soon"}, "expires", []),
    ({"paused": "yes"}, "paused", []),
    ({"name": ""}, "name", []),
    ({"name": "n" * 65}, "name", []),
    ({"name": "a\u202eb"}, "name", []),
    ({"holdd": "2m"}, "holdd", ["hold", "hold_back"]),
    ({"id": "w_1"}, "id", None),
    ({"managed": True}, "managed", None),
]
"""What is said, the parameter that is named, and what may have been meant; None is any."""


def test_what_cannot_be_understood_is_refused_by_name(server: Server) -> None:
    made = add(server)
    for changes, parameter, near in REFUSED:
        for refused in (add(server, 422, **changes), patch(server, made, changes, 422)):
            assert refused["parameter"] == parameter, changes
            assert near is None or refused["did_you_mean"] == near, changes
    assert server.get("/watches")["items"] == [made]


def test_a_watch_needs_a_name_a_spec_and_a_target(server: Server) -> None:
    for name in V100:
        body = {field: value for field, value in V100.items() if field != name}
        assert server.post("/watches", body, 422)["parameter"] == name


def test_without_any_target_the_refusal_says_what_makes_one(server: Server) -> None:
    assert server.client.delete("/targets/ops").status_code == 204
    assert "`POST /targets` makes one" in add(server, 422)["detail"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"[]", 422),
        (b'{"spec": {"gpu": "v100", "gpu": "t4"}, "name": "w", "notify": ["ops"]}', 422),
        (b'{"spec": {"gpu": "\\ud800"}, "name": "w", "notify": ["ops"]}', 422),
        (b'{"spec": {"gpu": "v100", "count": ' + b"9" * 5000 + b'}, "name": "w", "notify": ["ops"]}', 422),
        (b'{"spec": {"gpu": "v100", "count": 1e400}, "name": "w", "notify": ["ops"]}', 422),
        (b'{"spec": {"gpu": ' + b"[" * 20_000 + b"]" * 20_000 + b'}, "name": "w", "notify": ["ops"]}', 422),
        (b'{"spec": {"gpu": "v100\\u0000"}, "name": "w", "notify": ["ops"]}', 422),
        (b'{"spec": {"gpu": "v100"}, "name": "w", "notify": [' + b'"x",' * 9000 + b'"x"]}', 422),
        (b'{"spec": {"gpu": "' + b"v" * MAX_BODY_BYTES + b'"}, "name": "w", "notify": ["ops"]}', 413),
    ],
)
def test_a_hostile_body_is_a_problem(server: Server, content: bytes, status: int) -> None:
    problem = problem_of(server.client.post("/watches", content=content, headers=JSON), status)
    assert len(problem["detail"]) < 500
    assert server.get("/watches")["items"] == []


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_change_leaves_what_it_does_not_say_and_what_is_remembered(server: Server) -> None:
    made = add(server, hold="2m")
    v100s(server, Level.IN_STOCK)
    watching = evaluated(server)
    assert watching.tick() == ["stock.back"]
    before = memory(server, made)
    changed = patch(server, made, {"name": "another", "hold": "5m", "events": ["stock.out"], "remind": "1h"})
    assert changed == server.get(f"/watches/{made['id']}")
    assert (changed["name"], changed["hold"], changed["remind"]) == ("another", "5m", "1h")
    assert (changed["spec"], changed["created_at"]) == (made["spec"], made["created_at"])
    assert memory(server, made) == before
    assert watching.tick() == []
    assert patch(server, made, {"remind": None})["remind"] is None


@pytest.mark.parametrize(
    "change", [{"spec": {"gpu": "v100", "region": "ap-nanjing"}}, {"price_below": "2"}], ids=["spec", "price_below"]
)
def test_another_spec_or_limit_looks_anew_and_tells_nothing(server: Server, change: dict[str, Any]) -> None:
    made = add(server, events=list(CHOSEN), price_below="1000")
    watching = evaluated(server)
    assert watching.tick() == []
    changed = patch(server, made, change)
    assert changed["state"] == ("available" if "spec" in change else "out")
    assert [watching.tick(), watching.tick(60)] == [[], []]


def test_what_changed_during_a_pause_is_not_told_and_what_changes_after_it_is(server: Server) -> None:
    made = add(server)
    watching = evaluated(server)
    assert patch(server, made, {"paused": True})["paused"] is True
    v100s(server, Level.IN_STOCK)
    assert watching.tick() == []
    assert patch(server, made, {"paused": False})["state"] == "available"
    assert watching.tick() == []
    v100s(server, Level.OUT)
    assert watching.tick() == ["stock.out"]


def test_a_watch_that_expired_looks_anew_when_its_end_is_moved(server: Server) -> None:
    made = add(server, expires="1m")
    watching = evaluated(server)
    assert watching.tick(61) == ["watch.expired"]
    v100s(server, Level.IN_STOCK)
    assert watching.tick() == []
    renewed = patch(server, made, {"expires": None})
    assert (renewed["state"], renewed["expires_at"], renewed["warnings"]) == ("available", None, [])
    v100s(server, Level.OUT)
    assert watching.tick() == ["stock.out"]


def test_a_change_that_says_nothing_changes_nothing(server: Server) -> None:
    made = add(server)
    assert patch(server, made, {}) == made
    assert watches.watches(server.filled.engine)[0].revision == 0


def test_a_change_of_what_another_changed_meanwhile_is_not_kept(server: Server) -> None:
    made = add(server)
    engine = server.filled.engine
    before = watches.watch(engine, made["id"])
    assert before is not None
    patch(server, made, {"hold": "5m"})
    assert not watches.replace_watch(engine, replace(before, name="late"), None, at=before.revision)
    assert (server.get(f"/watches/{made['id']}")["name"], before.revision) == ("v100", 0)


def test_a_watch_of_a_file_is_left_to_the_file(server: Server) -> None:
    watching = evaluated(server)
    watch = watching.add(managed=True)
    for response in (
        server.client.patch(f"/watches/{watch.id}", json={"paused": True}),
        server.client.delete(f"/watches/{watch.id}"),
    ):
        assert "stands in a file" in problem_of(response, 409)["detail"]
    assert server.get(f"/watches/{watch.id}")["managed"] is True


# --- what is told -----------------------------------------------------------------------------------------------------


def test_a_test_goes_to_every_target(server: Server) -> None:
    server.post("/targets", {"name": "dev", "format": "slack", "url": URL}, 201)
    made = add(server, notify=["ops", "dev"])
    ids = server.post(f"/watches/{made['id']}/test", {}, 202)["deliveries"]
    items = server.get(f"/watches/{made['id']}/deliveries")["items"]
    assert {one["id"] for one in items} == set(ids)
    assert {(one["type"], one["target"], one["status"]) for one in items} == {
        ("test", "ops", "pending"),
        ("test", "dev", "pending"),
    }
    assert server.get(f"/deliveries/{ids[0]}") in items
    assert len(server.get(f"/watches/{made['id']}/deliveries?limit=1")["items"]) == 1
    assert list(items[0]) == [
        *("id", "event_id", "type", "target", "status", "attempts", "next_at", "last_status", "last_error", "at")
    ]


def test_a_delivery_that_failed_is_tried_once_more_and_no_other(server: Server) -> None:
    made = add(server)
    (delivery_id,) = server.post(f"/watches/{made['id']}/test", {}, 202)["deliveries"]
    assert "pending" in server.post(f"/deliveries/{delivery_id}/retry", {}, 409)["detail"]
    claimed = claim(server.filled.engine, server.filled.now, timedelta(minutes=1), 1, 1)
    settle(server.filled.engine, [failed(one, server.filled.now, "HTTP 404: refused", 404) for one in claimed])
    (told,) = server.get(f"/watches/{made['id']}/deliveries")["items"]
    assert (told["status"], told["last_status"], told["last_error"]) == ("failed", 404, "HTTP 404: refused")
    again = server.post(f"/deliveries/{delivery_id}/retry", {}, 202)
    assert (again["id"], again["status"], again["attempts"]) == (delivery_id, "pending", 0)


def test_an_id_of_none_is_404(server: Server) -> None:
    client = server.client
    for response in (
        client.get("/watches/w_0"),
        client.patch("/watches/w_0", json={}),
        client.delete("/watches/w_0"),
        client.post("/watches/w_0/test"),
        client.get("/watches/w_0/deliveries"),
    ):
        assert problem_of(response, 404)["detail"] == "There is no watch w_0. `GET /watches` lists them."
    for response in (client.get("/deliveries/d_0"), client.post("/deliveries/d_0/retry")):
        assert "There is no delivery d_0" in problem_of(response, 404)["detail"]


def test_a_watch_that_was_removed_is_gone_with_what_was_to_be_told(server: Server) -> None:
    made = add(server)
    (delivery_id,) = server.post(f"/watches/{made['id']}/test", {}, 202)["deliveries"]
    assert server.client.delete(f"/watches/{made['id']}").content == b""
    assert server.get("/watches")["items"] == []
    assert server.get(f"/deliveries/{delivery_id}")["status"] == "dead"


def test_the_levels_of_a_first_look_are_remembered_until_the_first_evaluation(server: Server) -> None:
    made = add(server, spec={"gpu": "v100"})
    begun = {key[1]: level for key, level in memory(server, made).begun}
    assert begun == {"ap-guangzhou": Level.OUT, "ap-nanjing": Level.IN_STOCK}
    assert msgspec.structs.replace(memory(server, made), begun=()).told == "available"


# --- who may ----------------------------------------------------------------------------------------------------------


def test_writes_need_the_token_and_reads_on_loopback_do_not(server: Server) -> None:
    made = add(server)
    with served(server.filled, token="t0ken") as another:
        client = another.client
        for response in (
            client.post("/watches", json=V100),
            client.post("/watches/apply", json={}),
            client.patch(f"/watches/{made['id']}", json={}),
            client.delete(f"/watches/{made['id']}"),
            client.post(f"/watches/{made['id']}/test"),
            client.post("/deliveries/d_0/retry"),
        ):
            problem_of(response, 401)
        assert [one["id"] for one in client.get("/watches").json()["items"]] == [made["id"]]


def test_a_database_that_is_gone_is_503(server: Server) -> None:
    with server.filled.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE watches RENAME TO hidden")
    try:
        for response in (server.client.get("/watches"), server.client.post("/watches", json=V100)):
            problem_of(response, 503)
    finally:
        with server.filled.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE hidden RENAME TO watches")
