"""A file of targets and watches: what it makes, changes and removes, what it leaves alone, and what it refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alerts.format_standard import new_secret
from catalog.words import Level
from store import outbox, watches
from tests.support.filled import Server, problem_of, served, sold, v100_at_tencent
from tests.support.watched import Watched

URL = "https://93.184.215.14/hook"
OPS = {"name": "ops", "url": URL, "secret": new_secret()}
ROOM = {"name": "room", "format": "slack", "url": URL}
V100 = {"name": "v100", "spec": {"gpu": "v100", "region": "ap-guangzhou"}, "notify": ["ops", "room"], "hold": "2m"}
ANY = {"name": "anywhere", "spec": {"gpu": "v100"}, "notify": ["room"]}
FILE = {"targets": [OPS, ROOM], "watches": [V100, ANY]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Tencent with a V100: out in Guangzhou, in stock in Nanjing."""
    filled = v100_at_tencent(tmp_path)
    with served(filled) as running:
        running.get("/offers")
        yield running
    filled.engine.dispose()


def apply(server: Server, status: int = 200, **changes: Any) -> Any:
    return server.post("/watches/apply", FILE | changes, status)


def words(applied: Any) -> list[tuple[str, str, str, list[str]]]:
    return [(one["kind"], one["name"], one["change"], one["fields"]) for one in applied["changes"]]


def shown(server: Server) -> dict[str, Any]:
    """All that there is, by name."""
    items = server.get("/targets")["items"] + server.get("/watches")["items"]
    return {item["name"]: item for item in items}


def test_a_file_makes_what_it_has_and_a_second_time_changes_nothing(server: Server) -> None:
    made = apply(server)
    assert words(made) == [
        ("target", "ops", "added", []),
        ("target", "room", "added", []),
        ("watch", "v100", "added", []),
        ("watch", "anywhere", "added", []),
    ]
    assert (made["unchanged"], made["warnings"], made["dry_run"]) == (0, [], False)
    before = shown(server)
    assert [before[name]["managed"] for name in ("ops", "room", "v100", "anywhere")] == [True] * 4
    assert (before["v100"]["state"], before["anywhere"]["state"]) == ("out", "available")
    assert {one["id"] for one in made["changes"]} == {None, before["v100"]["id"], before["anywhere"]["id"]}
    again = apply(server)
    assert (again["changes"], again["unchanged"]) == ([], 4)
    assert shown(server) == before
    assert [watch.revision for watch in watches.watches(server.filled.engine)] == [0, 0]


def test_a_dry_run_says_the_same_and_changes_nothing(server: Server) -> None:
    assert len(apply(server, dry_run=True)["changes"]) == 4
    assert shown(server) == {}
    apply(server)
    told = apply(server, watches=[V100 | {"hold": "5m"}], dry_run=True)
    assert words(told) == [("watch", "v100", "changed", ["hold"]), ("watch", "anywhere", "removed", [])]
    assert shown(server)["v100"]["hold"] == "2m"


def test_what_the_file_says_otherwise_is_changed_under_the_same_id(server: Server) -> None:
    apply(server)
    before = shown(server)
    changed = apply(
        server,
        targets=[OPS, ROOM | {"lang": "zh"}],
        watches=[V100 | {"hold": "5m", "expires": "2027-01-01T00:00:00Z"}, ANY | {"paused": True}],
    )
    assert words(changed) == [
        ("target", "room", "changed", ["lang"]),
        ("watch", "v100", "changed", ["hold", "expires"]),
        ("watch", "anywhere", "changed", ["paused"]),
    ]
    after = shown(server)
    assert (after["room"]["lang"], after["v100"]["hold"], after["anywhere"]["paused"]) == ("zh", "5m", True)
    for name in ("v100", "anywhere"):
        assert (after[name]["id"], after[name]["created_at"]) == (before[name]["id"], before[name]["created_at"])


def test_what_the_file_made_and_no_longer_has_is_removed(server: Server) -> None:
    apply(server)
    gone = apply(server, targets=[ROOM], watches=[ANY])
    assert words(gone) == [("watch", "v100", "removed", []), ("target", "ops", "removed", [])]
    assert shown(server).keys() == {"room", "anywhere"}
    assert len(apply(server, targets=[], watches=[])["changes"]) == 2
    assert shown(server) == {}


def test_what_was_made_by_hand_is_left_alone_but_for_a_targets_name(server: Server) -> None:
    server.post("/targets", OPS | {"url": "https://8.8.8.8/"}, 201)
    server.post("/targets", {"name": "mine", "url": URL}, 201)
    by_hand = server.post("/watches", V100 | {"notify": ["mine"]}, 201)
    made = apply(server)
    assert words(made)[0] == ("target", "ops", "changed", ["url", "managed"])
    assert ("watch", "v100", "added", []) in words(made)
    assert len(server.get("/watches")["items"]) == 3
    assert server.get(f"/watches/{by_hand['id']}") == by_hand
    apply(server, targets=[], watches=[])
    assert shown(server).keys() == {"mine", "v100"}


def test_a_target_that_a_watch_made_by_hand_names_is_not_removed_and_nor_is_anything_else(server: Server) -> None:
    apply(server)
    server.post("/watches", V100 | {"name": "by hand"}, 201)
    before = shown(server)
    assert "by hand" in apply(server, 409, targets=[ROOM], watches=[])["detail"]
    assert "by hand" in apply(server, 409, targets=[ROOM], watches=[], dry_run=True)["detail"]
    assert shown(server) == before


def test_what_the_file_made_it_alone_changes(server: Server) -> None:
    apply(server)
    watch = shown(server)["v100"]["id"]
    client = server.client
    for response in (
        client.patch("/targets/ops", json={"lang": "zh"}),
        client.delete("/targets/ops"),
        client.patch(f"/watches/{watch}", json={"hold": "5m"}),
        client.delete(f"/watches/{watch}"),
    ):
        assert "stands in a file" in problem_of(response, 409)["detail"]


def test_a_dead_target_of_a_file_is_left_dead_until_somebody_revives_it(server: Server) -> None:
    apply(server)
    kept = watches.target(server.filled.engine, "ops")
    assert kept is not None
    outbox.target_gone(server.filled.engine, kept.target, "HTTP 410", server.filled.now)
    assert apply(server)["changes"] == []
    assert shown(server)["ops"]["status"] == "dead"
    assert server.client.patch("/targets/ops", json={}).json()["status"] == "ok"
    assert apply(server)["changes"] == []


def test_a_change_keeps_what_is_remembered_unless_it_looks_anew(server: Server) -> None:
    apply(server, watches=[V100 | {"hold": "0s"}])
    watching = Watched(server.filled, "another")
    server.filled.later(minutes=1)
    facts = sold("ap-guangzhou", "GN10Xp.2XLARGE40", "8", currency="CNY", zone="ap-guangzhou-1", gpu="v100-sxm2-32g")
    server.filled.poll("tencent", "stock", "ap-guangzhou", facts)
    apply(server, watches=[V100 | {"hold": "0s", "remind": "1h"}])
    assert watching.tick() == ["stock.back"], "a change of another rule does not mute it"
    server.filled.later(minutes=1)
    gone = sold(
        "ap-guangzhou", "GN10Xp.2XLARGE40", "8", Level.OUT, currency="CNY", zone="ap-guangzhou-1", gpu="v100-sxm2-32g"
    )
    server.filled.poll("tencent", "stock", "ap-guangzhou", gone)
    apply(server, watches=[V100 | {"hold": "0s", "spec": {"gpu": "v100", "region": "ap-guangzhou", "count": 1}}])
    assert watching.tick() == [], "another spec looks anew, and tells nothing"


def test_an_entry_that_is_as_it_was_is_not_asked_for_again(server: Server) -> None:
    named: dict[str, Any] = {"watches": [ANY | {"spec": {"instance_type": "GN10Xp.2XLARGE40"}}]}
    apply(server, **named)
    for region in ("ap-guangzhou", "ap-nanjing"):
        server.filled.later(minutes=1)
        renamed = sold(region, "GN11", "8", currency="CNY", zone=f"{region}-1", gpu="v100-sxm2-32g")
        server.filled.poll("tencent", "stock", region, renamed)
    assert apply(server, **named)["changes"] == []
    assert "no longer understood" in shown(server)["anywhere"]["warnings"][0]
    refused = apply(server, 422, watches=[ANY | {"spec": {"instance_type": "GN10Xp.2XLARGE40", "count": 2}}])
    assert refused["parameter"] == "watches[0].spec.instance_type"


def test_an_end_that_has_passed_is_no_reason_to_refuse_a_file(server: Server) -> None:
    ended: dict[str, Any] = {"watches": [ANY | {"expires": "2026-01-01T00:00:00Z"}]}
    made = apply(server, **ended)
    assert len(made["changes"]) == 3
    assert made["warnings"] == ["watch anywhere: it expired at 2026-01-01T00:00:00Z: set expires anew to watch on"]
    assert apply(server, **ended)["changes"] == []
    assert shown(server)["anywhere"]["warnings"][0].startswith("it expired at 2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("changes", "parameter", "near"),
    [
        ({"targets": [OPS, ROOM | {"url": "http://127.0.0.1/"}]}, "targets[1].url", []),
        ({"targets": [OPS, ROOM | {"format": "slak"}]}, "targets[1].format", ["slack"]),
        ({"targets": [OPS, OPS]}, "targets[0].name", []),
        ({"targets": [{"name": "ops", "url": URL}, ROOM]}, "targets[0].secret", []),
        ({"targets": [{"name": "ops", "url": URL, "formt": "slack"}]}, "formt", ["format"]),
        ({"targets": [OPS | {"secret": "hush"}, ROOM]}, "targets[0].secret", []),
        ({"watches": [V100, ANY | {"name": "v100"}]}, "watches[0].name", []),
        ({"watches": [ANY, V100 | {"spec": {"gpu": "a100-8"}}]}, "watches[1].spec.gpu", ["a100-80g", "a100-40g"]),
        ({"watches": [ANY, V100 | {"notify": ["rooms"]}]}, "watches[1].notify", ["room", "ops"]),
        ({"watches": [ANY, V100 | {"holdd": "2m"}]}, "holdd", ["hold", "hold_back"]),
        ({"watches": [V100 | {"hold": "2"}]}, "watches[0].hold", []),
        ({"watches": [V100 | {"expires": "7d"}]}, "watches[0].expires", []),
        ({"watches": [V100 | {"events": ["stock.gone"]}]}, "watches[0].events", None),
        ({"watch": [V100]}, "watch", ["watches"]),
        ({"targets": {}}, "targets", []),
        ({"watches": ["v100"]}, "watches", []),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_whole(
    server: Server, changes: dict[str, Any], parameter: str, near: list[str] | None
) -> None:
    refused = apply(server, 422, **changes)
    assert refused["parameter"] == parameter
    assert near is None or refused["did_you_mean"] == near
    assert "hush" not in refused["detail"]
    assert shown(server) == {}
