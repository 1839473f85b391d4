"""Whom to tell: targets."""

import asyncio
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from msgspec import UNSET

from api.openapi import answers, body, no_answer
from api.problems import Problem
from api.serving import Serving, body_as, in_database, json_response, only_parameters
from api.targets import changed_target, check_reachable, made_shape, new_target, target_shape
from api.watch_shapes import StartedTest, TargetChange, TargetMade, TargetRequest, TargetsShape
from store import outbox, watches
from store.watches import InUse, KeptTarget, Taken

Name = Annotated[str, Path(examples=["ops"])]
MOST_LOOKUPS = 4
"""Names that are looked up at once: one that hangs holds a thread that the other endpoints share."""
MANAGED = "a file decides what becomes of it (`gpufare watch apply`): change it there"


def router(serving: Serving) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/targets", tags=["watches"])
    created, accepted = HTTPStatus.CREATED, HTTPStatus.ACCEPTED
    lookups = asyncio.Semaphore(MOST_LOOKUPS)
    unknown, conflict, unusable = HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE

    @routes.get("", responses=answers(TargetsShape, unusable))
    async def targets(request: Request) -> Response:
        """Whom to tell. Secrets and whole URLs are not shown."""
        only_parameters(request)
        kept = await in_database(watches.targets, serving.engine)
        return json_response(TargetsShape([target_shape(one, serving.config) for one in kept]))

    @routes.post("", openapi_extra=body(TargetRequest), responses=answers(TargetMade, created, conflict, unusable))
    async def make(request: Request) -> Response:
        """Make a target. Its secret is shown here, and never again."""
        only_parameters(request)
        asked = await body_as(request, TargetRequest)
        async with lookups:
            return json_response(await in_database(_make, serving, asked), created)

    @routes.patch(
        "/{name}",
        openapi_extra=body(TargetChange),
        responses=answers(TargetMade, HTTPStatus.OK, unknown, conflict, unusable, bodies=True),
    )
    async def change(request: Request, name: Name) -> Response:
        """Change a target, and revive it if it was dead. What is not said stays as it is."""
        only_parameters(request)
        asked = await body_as(request, TargetChange)
        async with lookups:
            return json_response(await in_database(_change, serving, name, asked))

    @routes.delete("/{name}", status_code=204, responses=no_answer(unknown, conflict, unusable))
    async def remove(request: Request, name: Name) -> Response:
        """Forget a target that no watch names."""
        only_parameters(request)
        await in_database(_remove, serving, name)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @routes.post("/{name}/test", responses=answers(StartedTest, accepted, unknown, conflict, unusable))
    async def test(request: Request, name: Name) -> Response:
        """Send a target a `test` event."""
        only_parameters(request)
        delivery_id = await in_database(_test, serving, name)
        return json_response(StartedTest([delivery_id]), accepted)

    return routes


def _make(serving: Serving, asked: TargetRequest) -> TargetMade:
    target = new_target(asked)
    check_reachable(target, serving.config)
    kept = KeptTarget(target, serving.now())
    try:
        watches.add_target(serving.engine, kept)
    except Taken:
        said = f"There is a target named {target.name} already: change it, or choose another name."
        raise Problem(HTTPStatus.CONFLICT, said) from None
    return made_shape(kept, target.secret, serving.config)


def _change(serving: Serving, name: str, asked: TargetChange) -> TargetMade:
    if asked.url is not UNSET or asked.format is not UNSET:
        check_reachable(changed_target(known_target(serving, name).target, asked), serving.config)

    def changed(kept: KeptTarget) -> KeptTarget:
        if kept.managed and asked != TargetChange():  # to revive it changes nothing that the file says
            raise Problem(HTTPStatus.CONFLICT, f"The target {name} stands in a file: {MANAGED}.")
        return KeptTarget(changed_target(kept.target, asked), kept.created_at, kept.managed)

    before = known_target(serving, name)
    after = watches.change_target(serving.engine, name, changed)
    if after is None:
        raise _unknown(name)
    secret = after.target.secret
    shown = secret if asked.secret is not UNSET or secret != before.target.secret else None
    return made_shape(after, shown, serving.config)


def _remove(serving: Serving, name: str) -> None:
    if known_target(serving, name).managed:
        raise Problem(HTTPStatus.CONFLICT, f"The target {name} stands in a file: {MANAGED}.")
    try:
        removed = watches.remove_target(serving.engine, name, serving.now())
    except InUse as error:
        naming = ", ".join(error.watches)
        said = f"The target {name} is named by the watches {naming}: change or remove those first."
        raise Problem(HTTPStatus.CONFLICT, said) from None
    if not removed:
        raise _unknown(name)


def _test(serving: Serving, name: str) -> str:
    kept = known_target(serving, name)
    if kept.dead_at is not None:
        said = f"The target {name} is dead: {kept.dead_why}. `PATCH /targets/{name}` revives it."
        raise Problem(HTTPStatus.CONFLICT, said)
    return outbox.test(serving.engine, name, serving.now())


def known_target(serving: Serving, name: str) -> KeptTarget:
    """The target of that name. Problem 404 where there is none."""
    kept = watches.target(serving.engine, name)
    if kept is None:
        raise _unknown(name)
    return kept


def _unknown(name: str) -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, f"There is no target named {name[:64]}. `GET /targets` lists them.")
