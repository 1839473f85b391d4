"""What to look for and whom to tell of it: watches, and what was told."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, NoReturn

from fastapi import APIRouter, Path, Request, Response

from api import watch_file
from api.answers import time_or_none, time_text
from api.openapi import LIMITED, answers, body, no_answer
from api.problems import Problem, refused
from api.routes_targets import MANAGED
from api.serving import Serving, body_as, in_database, json_response, limit_of, only_parameters
from api.targets import near_names
from api.watch_rules import changed_watch, looks_anew
from api.watch_shapes import (
    Applied,
    ApplyRequest,
    DeliveriesShape,
    DeliveryShape,
    StartedTest,
    WatchChange,
    WatchesShape,
    WatchRequest,
    WatchShape,
)
from api.watching import Shown, first_look
from catalog.watches import Watch
from store import outbox, watches
from store.outbox import KeptDelivery, NotRetried
from store.watches import UnknownTargets

WatchId = Annotated[str, Path(alias="id", examples=["w_3f2a9c0d1e4b5a67"])]
DeliveryId = Annotated[str, Path(alias="id", examples=["d_0a1b2c3d4e5f60718293a4b5c6d7e8f9"])]
_TRIES = 5
"""Of a change, where others change the same watch at the same moment."""


def router(serving: Serving) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["watches"])
    created, accepted = HTTPStatus.CREATED, HTTPStatus.ACCEPTED
    unknown, conflict, unusable = HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE
    shown = Shown(serving)

    @routes.get("/watches", responses=answers(WatchesShape, unusable))
    async def every(request: Request) -> Response:
        """The watches, with what is known of each."""
        only_parameters(request)
        return json_response(await in_database(_every, serving, shown))

    @routes.post("/watches", openapi_extra=body(WatchRequest), responses=answers(WatchShape, created, unusable))
    async def make(request: Request) -> Response:
        """Watch. The first look happens before the answer, gives its `state`, and tells nothing."""
        only_parameters(request)
        asked = await body_as(request, WatchRequest)
        return json_response(await in_database(_make, serving, shown, asked), created)

    @routes.post("/watches/apply", openapi_extra=body(ApplyRequest), responses=answers(Applied, conflict, unusable))
    async def apply(request: Request) -> Response:
        """Make targets and watches as a file says: what it adds, changes and no longer has. All of it, or nothing."""
        only_parameters(request)
        asked = await body_as(request, ApplyRequest)
        return json_response(await in_database(watch_file.apply, serving, asked))

    @routes.get("/watches/{id}", responses=answers(WatchShape, unknown, unusable))
    async def one(request: Request, watch_id: WatchId) -> Response:
        """A watch, with what is known of it."""
        only_parameters(request)
        return json_response(await in_database(_shape, serving, shown, watch_id))

    @routes.patch(
        "/watches/{id}",
        openapi_extra=body(WatchChange),
        responses=answers(WatchShape, HTTPStatus.OK, unknown, conflict, unusable, bodies=True),
    )
    async def change(request: Request, watch_id: WatchId) -> Response:
        """Change a watch. What is not said stays as it is."""
        only_parameters(request)
        asked = await body_as(request, WatchChange)
        return json_response(await in_database(_change, serving, shown, watch_id, asked))

    @routes.delete("/watches/{id}", status_code=204, responses=no_answer(unknown, conflict, unusable))
    async def remove(request: Request, watch_id: WatchId) -> Response:
        """Forget a watch, and tell nothing more of it."""
        only_parameters(request)
        await in_database(_remove, serving, watch_id)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @routes.post("/watches/{id}/test", responses=answers(StartedTest, accepted, unknown, unusable))
    async def test(request: Request, watch_id: WatchId) -> Response:
        """Send all targets of a watch a `test` event."""
        only_parameters(request)
        return json_response(StartedTest(await in_database(_test, serving, watch_id)), accepted)

    @routes.get(
        "/watches/{id}/deliveries", openapi_extra=LIMITED, responses=answers(DeliveriesShape, unknown, unusable)
    )
    async def deliveries(request: Request, watch_id: WatchId) -> Response:
        """What was told of a watch, newest first, and what became of it."""
        limit = limit_of(request)
        kept = await in_database(_deliveries, serving, watch_id, limit)
        return json_response(DeliveriesShape([_delivery(one) for one in kept]))

    @routes.get("/deliveries/{id}", responses=answers(DeliveryShape, unknown, unusable))
    async def delivery(request: Request, delivery_id: DeliveryId) -> Response:
        """What became of a delivery."""
        only_parameters(request)
        kept = await in_database(outbox.delivery, serving.engine, delivery_id)
        return json_response(_delivery(kept or _no_delivery(delivery_id)))

    @routes.post("/deliveries/{id}/retry", responses=answers(DeliveryShape, accepted, unknown, conflict, unusable))
    async def retry(request: Request, delivery_id: DeliveryId) -> Response:
        """Try a delivery that failed, or that is dead, once more."""
        only_parameters(request)
        return json_response(await in_database(_retry, serving, delivery_id), accepted)

    return routes


def _every(serving: Serving, shown: Shown) -> WatchesShape:
    now, states = serving.now(), watches.states(serving.engine)
    targets = {kept.target.name: kept for kept in watches.targets(serving.engine)}
    every = watches.watches(serving.engine)
    shown.forget(all_but=[watch.id for watch in every])
    return WatchesShape([shown.shape(watch, states.get(watch.id), targets, now) for watch in every])


def _shape(serving: Serving, shown: Shown, watch_id: str) -> WatchShape:
    watch = known_watch(serving, watch_id)
    targets = {kept.target.name: kept for kept in watches.targets(serving.engine)}
    return shown.shape(watch, watches.state(serving.engine, watch_id), targets, serving.now())


def _make(serving: Serving, shown: Shown, asked: WatchRequest) -> WatchShape:
    now = serving.now()
    blank = Watch(id=watches.new_watch_id(), name="", spec={}, notify=(), created_at=now)
    watch = changed_watch(blank, asked, now)
    serving.board.refresh(now)
    memory = first_look(serving, watch, now)
    try:
        watches.add_watch(serving.engine, watch, memory.written())
    except UnknownTargets as error:
        raise unknown_targets(serving, error.names) from None
    return _shape(serving, shown, watch.id)


def _change(serving: Serving, shown: Shown, watch_id: str, asked: WatchChange) -> WatchShape:
    now = serving.now()
    serving.board.refresh(now)
    for _ in range(_TRIES):
        before = known_watch(serving, watch_id)
        _refuse_managed(before)
        after = changed_watch(before, asked, now)
        memory = first_look(serving, after, now).written() if looks_anew(before, after, now) else None
        try:
            if after == before or watches.replace_watch(serving.engine, after, memory, at=before.revision):
                return _shape(serving, shown, watch_id)
        except UnknownTargets as error:
            raise unknown_targets(serving, error.names) from None
    raise Problem(HTTPStatus.CONFLICT, "Others change this watch at the same moment: try again.")


def _remove(serving: Serving, watch_id: str) -> None:
    _refuse_managed(known_watch(serving, watch_id))
    if not watches.remove_watch(serving.engine, watch_id, serving.now()):
        raise _unknown(watch_id)


def _test(serving: Serving, watch_id: str) -> list[str]:
    watch, now = known_watch(serving, watch_id), serving.now()
    return [outbox.test(serving.engine, name, now, watch_id) for name in watch.notify]


def _deliveries(serving: Serving, watch_id: str, limit: int) -> list[KeptDelivery]:
    known_watch(serving, watch_id)
    return outbox.deliveries(serving.engine, watch_id, limit)


def _retry(serving: Serving, delivery_id: str) -> DeliveryShape:
    try:
        kept = outbox.retry(serving.engine, delivery_id, serving.now())
    except NotRetried as error:
        raise Problem(HTTPStatus.CONFLICT, str(error)) from None
    return _delivery(kept or _no_delivery(delivery_id))


def known_watch(serving: Serving, watch_id: str) -> Watch:
    """The watch of that id. Problem 404 where there is none."""
    watch = watches.watch(serving.engine, watch_id)
    if watch is None:
        raise _unknown(watch_id)
    return watch


def unknown_targets(serving: Serving, names: Sequence[str]) -> Problem:
    """422 for names of no target, with those that may have been meant."""
    known = [kept.target.name for kept in watches.targets(serving.engine)]
    said = ", ".join(name[:64] for name in names)
    hint = "" if known else " There is none yet: `POST /targets` makes one."
    near = list(dict.fromkeys(found for name in names for found in near_names(name, known)))
    return refused("notify", f"notify: there is no target {said}.{hint}", near)


def _refuse_managed(watch: Watch) -> None:
    if watch.managed:
        raise Problem(HTTPStatus.CONFLICT, f"The watch {watch.id} ({watch.name}) stands in a file: {MANAGED}.")


def _unknown(watch_id: str) -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, f"There is no watch {watch_id[:64]}. `GET /watches` lists them.")


def _no_delivery(delivery_id: str) -> NoReturn:
    said = f"There is no delivery {delivery_id[:64]}. `GET /watches/ID/deliveries` lists those of a watch."
    raise Problem(HTTPStatus.NOT_FOUND, said)


def _delivery(kept: KeptDelivery) -> DeliveryShape:
    return DeliveryShape(
        id=kept.id,
        event_id=kept.event_id,
        type=kept.type,
        target=kept.target,
        status=kept.status.value,
        attempts=kept.attempts,
        next_at=time_or_none(kept.next_at),
        last_status=kept.last_status,
        last_error=kept.last_error,
        at=time_text(kept.at),
    )
