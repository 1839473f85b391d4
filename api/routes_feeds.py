"""How the data comes in: providers and their feeds, what was not understood, past polls."""

from datetime import datetime, timedelta

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api.answers import time_or_none, time_text
from api.openapi import LIMITED, answers
from api.serving import Serving, json_response, limit_of, only_parameters
from api.shapes import FeedShape, NoteShape, NotesShape, ProviderShape, ProvidersShape, SyncShape, SyncsShape
from catalog.instants import age_s
from store import status
from store.status import FeedStatus, NoteSeen, ProviderStatus, Sync


def router(serving: Serving) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["what there is"])

    @routes.get("/providers", responses=answers(ProvidersShape))
    async def providers(request: Request) -> Response:
        """Every provider and its feeds: how they do, and what to set where one is off."""
        only_parameters(request)
        now = serving.now()
        view = serving.board.view
        found = sorted([*view.providers, *view.listed], key=lambda one: one.name)
        return json_response(ProvidersShape([_provider(one, now) for one in found]))

    @routes.get("/notes", openapi_extra=LIMITED, responses=answers(NotesShape))
    async def notes(request: Request) -> Response:
        """What the last answers held that was left out or not understood, most frequent first."""
        limit = limit_of(request)
        found = await run_in_threadpool(status.notes, serving.engine, limit)
        return json_response(NotesShape([_note(one) for one in found]))

    @routes.get("/syncs", openapi_extra=LIMITED, responses=answers(SyncsShape))
    async def syncs(request: Request) -> Response:
        """Past polls, newest first."""
        limit = limit_of(request)
        past = await run_in_threadpool(status.syncs, serving.engine, limit)
        return json_response(SyncsShape([_sync(one) for one in past]))

    return routes


def _provider(provider: ProviderStatus, now: datetime) -> ProviderShape:
    feeds = [_feed(feed, now) for feed in provider.feeds]
    return ProviderShape(provider.name, provider.account, [word for word in provider.evidence if word], feeds)


def _feed(feed: FeedStatus, now: datetime) -> FeedShape:
    return FeedShape(
        feed=feed.feed,
        status=feed.status,
        reason=feed.reason,
        last_success=time_or_none(feed.last_success),
        age_s=None if feed.last_success is None else age_s(feed.last_success, now),
        interval_s=None if feed.interval is None else round(feed.interval / timedelta(seconds=1)),
        offers=feed.offers,
        failing=list(feed.failing),
        notes=dict(feed.notes),
    )


def _note(note: NoteSeen) -> NoteShape:
    return NoteShape(
        provider=note.provider,
        feed=note.feed,
        place=note.place,
        kind=note.kind,
        value=note.value,
        count=note.count,
        first_at=time_text(note.first_at),
    )


def _sync(poll: Sync) -> SyncShape:
    return SyncShape(
        provider=poll.provider,
        feed=poll.feed,
        place=poll.place,
        part=poll.part,
        status=poll.status,
        facts=poll.facts,
        notes=poll.notes,
        seconds=round(poll.seconds, 3),
        error=poll.error,
        started_at=time_text(poll.started_at),
    )
