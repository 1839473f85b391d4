"""The questions: `/cheapest` and `/offers`. From memory alone, so no provider and no database can slow them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api import csv_text
from api.answers import Asked, cheapest_shape, match_shape
from api.kept import MOST_KEPT
from api.openapi import QUESTION, answers
from api.serving import Serving, asked_of, json_of, json_response
from api.shapes import CheapestShape, OffersShape
from catalog.spec import Spec
from selector.question import Endpoint, asking
from selector.rank import browse, rank

AT_ONCE = 20_000
"""A question over more offers than that is answered in a thread, so that it keeps no other, and no probe, waiting. One
over fewer takes a few milliseconds at the most, and the handing over would take longer than most answers.
"""


def router(serving: Serving) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["questions"])

    @routes.get("/cheapest", openapi_extra=QUESTION, responses=answers(CheapestShape))
    async def cheapest(request: Request) -> Response:
        """The cheapest offer in stock, the next ones, and why not another. 200 whenever the question is valid."""
        now, question = serving.now(), request.scope["query_string"]
        kept = serving.kept.at(serving.board.view.version, now.replace(microsecond=0))
        body = kept.get(question)
        if body is None:
            asked = _asked(serving, request, "cheapest", now)
            few = serving.board.index.few(asked.spec.gpus, AT_ONCE)
            answer = partial(_cheapest, serving, asked, asked_of(request))
            body = answer() if few else await run_in_threadpool(answer)
            if len(kept) < MOST_KEPT:
                kept[question] = body
        return json_of(body)

    @routes.get("/offers", openapi_extra=QUESTION, responses=answers(OffersShape, csv=True))
    async def offers(request: Request) -> Response:
        """Every offer that meets the question, a page at a time; sold-out and unpriced ones too unless `stock` says."""
        return await run_in_threadpool(_offers, serving, request)

    return routes


def _cheapest(serving: Serving, asked: Asked, params: Mapping[str, Sequence[str]]) -> bytes:
    changed = asking(params, serving.board.view.world, serving.config.defaults)
    ranking = rank(serving.board.index, asked.spec, asked.context, changed)
    return msgspec.json.encode(cheapest_shape(ranking, asked, serving.board.view.providers))


def _offers(serving: Serving, request: Request) -> Response:
    page = _page(serving, _asked(serving, request, "offers", serving.now()), request)
    return _csv(page) if csv_text.wants_csv(request.headers.get("accept", "")) else json_response(page)


def _asked(serving: Serving, request: Request, endpoint: Endpoint, now: datetime) -> Asked:
    world = serving.board.view.world
    spec = serving.understood.spec(request, world, serving.config.defaults, endpoint)
    return Asked(spec, serving.board.context(now))


def _page(serving: Serving, asked: Asked, request: Request) -> OffersShape:
    matches, total = browse(serving.board.index, asked.spec, asked.context)
    return OffersShape([match_shape(match, asked) for match in matches], total, _next(request, asked.spec, total))


def _next(request: Request, spec: Spec, total: int) -> str | None:
    after = spec.offset + spec.limit
    return str(request.url.include_query_params(offset=after, limit=spec.limit)) if after < total else None


def _csv(page: OffersShape) -> Response:
    headers = {"X-Total-Count": str(page.total), "Cache-Control": "no-store"}
    if page.next:
        headers["Link"] = f'<{page.next}>; rel="next"'
    return Response(csv_text.offers_csv(page.items), headers=headers, media_type=csv_text.MEDIA_TYPE)
