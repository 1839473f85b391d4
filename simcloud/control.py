"""The control API, `/_sim/...` on every simulated server; any of them steers the whole scenario."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from simcloud.scenario import ScenarioError, read_fault
from simcloud.world import World

Answer = dict[str, Any]


def handle(world: World, method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[int, Answer]:
    """Carry out one control request; returns the HTTP status and the JSON to answer."""
    name = path.removeprefix("/_sim/")
    if method == "GET" and name in READS:
        return 200, READS[name](world, query)
    if method != "POST" or name not in WRITES:
        known = [f"GET /_sim/{read}" for read in READS] + [f"POST /_sim/{write}" for write in WRITES]
        return 404, {"error": f"no {method} {path}", "known": known}
    try:
        return 200, WRITES[name](world, json.loads(body or b"{}", parse_float=Decimal))
    except KeyError as error:
        return 400, {"error": f"{path}: {error.args[0]!r} is missing"}
    except (ValueError, TypeError) as error:
        return 400, {"error": f"{path}: {error}"}


def _clock(world: World, _query: Mapping[str, str]) -> Answer:
    elapsed_s, clock = world.clock.elapsed_s(), world.clock
    return {
        "elapsed_s": elapsed_s,
        "at": clock.wall_time(elapsed_s).isoformat(),
        "speed": clock.speed,
        "loop_s": world.scenario.loop_s,
        "scenario": world.scenario.name,
    }


def _log(world: World, query: Mapping[str, str]) -> Answer:
    items = [seen.as_json() for seen in world.requests(query.get("provider"))]
    return {"items": items, "total": len(items)}


def _advance(world: World, asked: Mapping[str, Any]) -> Answer:
    return {"elapsed_s": world.clock.advance(float(asked["seconds"]))}


def _set(world: World, asked: Mapping[str, Any]) -> Answer:
    if "options" in asked:
        world.set_options(asked["provider"], asked["options"])
        return {"options": sorted(asked["options"])}
    return {"changed": world.set(asked["provider"], asked.get("match", {}), asked["set"])}


def _fault(world: World, asked: Mapping[str, Any]) -> Answer:
    if asked == {"clear": True}:
        world.clear_faults()
        return {"faults": 0}
    if "provider" not in asked or "kind" not in asked:
        raise ScenarioError('a fault needs `provider` and `kind`; {"clear": true} ends all')
    world.add_fault(read_fault(asked, world.clock.elapsed_s()))
    return {"fault": asked["kind"]}


READS: dict[str, Callable[[World, Mapping[str, str]], Answer]] = {"clock": _clock, "log": _log}
WRITES: dict[str, Callable[[World, Mapping[str, Any]], Answer]] = {"advance": _advance, "set": _set, "fault": _fault}
