"""What is told to the server: poll now, and what a launch taught."""

from http import HTTPStatus

import structlog
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api.answers import time_text
from api.launches import Lesson, check_place, lesson, offer_meant
from api.openapi import LIMITED, answers, body
from api.problems import refused
from api.serving import Serving, body_as, json_response, limit_of, only_parameters
from api.shapes import LaunchesShape, LaunchRequest, LaunchShape, LaunchTaken, SyncRequest, SyncStarted
from selector.values import alike
from store import launches, offers, schedule
from store.launches import Kept, Launch


def router(serving: Serving) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["telling"])

    @routes.post("/sync", openapi_extra=body(SyncRequest), responses=answers(SyncStarted, HTTPStatus.ACCEPTED))
    async def sync(request: Request) -> Response:
        """Make cells due now, and end the pauses of their providers. `GET /syncs` shows what came of it."""
        only_parameters(request)
        wanted = await body_as(request, SyncRequest)
        _check(wanted, serving)
        cells = await run_in_threadpool(
            schedule.make_due, serving.engine, serving.now(), wanted.providers, wanted.feeds
        )
        return json_response(SyncStarted(len(cells)), HTTPStatus.ACCEPTED)

    @routes.post("/launches", openapi_extra=body(LaunchRequest), responses=answers(LaunchTaken, HTTPStatus.CREATED))
    async def launched(request: Request) -> Response:
        """Say what a launch attempt taught. A capacity error makes exactly that offer `out` for a set time."""
        only_parameters(request)
        report = await body_as(request, LaunchRequest)
        taken = await run_in_threadpool(_take, report, serving)
        return json_response(taken, HTTPStatus.CREATED)

    @routes.get("/launches", openapi_extra=LIMITED, responses=answers(LaunchesShape))
    async def reports(request: Request) -> Response:
        """What was reported, newest first, whether or not it changed anything."""
        limit = limit_of(request)
        kept = await run_in_threadpool(launches.reports, serving.engine, limit)
        return json_response(LaunchesShape([_kept(one) for one in kept]))

    return routes


def _check(wanted: SyncRequest, serving: Serving) -> None:
    """Raise Problem for a provider or feed that does not exist here."""
    view = serving.board.view
    feeds = {feed.feed for provider in view.providers for feed in provider.feeds}
    for parameter, names, known in (
        ("providers", wanted.providers, view.world.providers),
        ("feeds", wanted.feeds, feeds),
    ):
        for name in names:
            if name not in known:
                raise refused(parameter, f"{name[:64]} is not known here.", alike(name, known))


def _take(report: LaunchRequest, serving: Serving) -> LaunchTaken:
    """Keep a report and show what it changed at once. Raises Problem for an offer that is not known here."""
    check_place(report, serving.board.view.world)
    now = serving.now()
    offer = offer_meant(report, offers.load(serving.engine, (report.provider, report.region), now))
    taught = lesson(report)
    launch = Launch(
        provider=report.provider,
        region=report.region,
        zone_key=offer.place.zone_key,
        instance_type=offer.machine.instance_type,
        purchase=offer.purchase,
        outcome=report.outcome,
        code=report.code,
        level=taught.level,
        until=None if taught.level is None else now + serving.config.launch_hold,
    )
    launch_id = launches.keep(serving.engine, launch, now)
    _log_unless_understood(report, taught)
    serving.board.refresh(now)
    return LaunchTaken(launch_id, _effect(launch), taught.reason)


def _log_unless_understood(report: LaunchRequest, taught: Lesson) -> None:
    if taught.level is None:
        structlog.get_logger().info(
            "launch report changed nothing", provider=report.provider, code=report.code, reason=taught.reason
        )


def _effect(launch: Launch) -> str:
    if launch.level is None or launch.until is None:
        return "none"
    return f"{launch.level} until {time_text(launch.until)}"


def _kept(kept: Kept) -> LaunchShape:
    launch = kept.launch
    return LaunchShape(
        id=kept.id,
        provider=launch.provider,
        region=launch.region,
        zone=launch.zone_key or None,
        instance_type=launch.instance_type,
        purchase=launch.purchase.value,
        outcome=launch.outcome,
        code=launch.code,
        effect=_effect(launch),
        at=time_text(kept.at),
    )
