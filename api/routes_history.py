"""What was: `/history/prices` and `/history/stock`. Which series are meant is known from memory, the rest is read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from api.answers import time_text
from api.history_items import Item, items_of, machines_of, world_of_the_past
from api.history_question import HistoryQuestion, history_question
from api.openapi import HISTORY, answers
from api.problems import Problem
from api.serving import Serving, asked_of, json_response
from api.shapes import (
    PriceHistoryShape,
    PricePoint,
    PriceSeries,
    SharesShape,
    SpanShape,
    StockHistoryShape,
    StockPoint,
    StockSeries,
)
from catalog.money import nanos_text
from catalog.spec import number_text
from selector.question import understand
from selector.why_not import Reasons
from store import history
from store.history import MOST_POINTS, PRICE_POINTS, STOCK_POINTS, Log, TooManyPoints
from store.timeline import (
    Piece,
    Point,
    PriceSaid,
    S,
    StockSaid,
    by_second,
    changes,
    durations,
    observed,
    pieces,
    shares,
)


def router(serving: Serving) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/history", tags=["history"])
    unread = HTTPStatus.SERVICE_UNAVAILABLE

    @routes.get("/prices", openapi_extra=HISTORY, responses=answers(PriceHistoryShape, unread))
    async def prices(request: Request) -> Response:
        """What offers cost in a window of time, each as a list of changes."""
        return await run_in_threadpool(_answer, serving, request, PRICE_POINTS, PriceHistoryShape, _price_series)

    @routes.get("/stock", openapi_extra=HISTORY, responses=answers(StockHistoryShape, unread))
    async def stock(request: Request) -> Response:
        """Whether offers were in stock in a window of time: changes, and the shares of the time at each level."""
        return await run_in_threadpool(_answer, serving, request, STOCK_POINTS, StockHistoryShape, _stock_series)

    return routes


@dataclass(frozen=True, slots=True)
class _Page:
    """The items of a page, and how many there are on all."""

    question: HistoryQuestion
    items: Sequence[Item]
    total: int


def _answer(
    serving: Serving,
    request: Request,
    log: Log[S],
    shape: Callable[..., msgspec.Struct],
    series: Callable[[Item, Sequence[Piece[S]]], msgspec.Struct],
) -> Response:
    now = serving.now()
    question = history_question(asked_of(request), serving.config.defaults, now)
    window = question.window
    try:
        page = _page(serving, question, log)
        sources = [source for item in page.items for source in item.sources]
        tracks = history.tracks(serving.engine, log, sources, window)
    except TooManyPoints:
        said = f"There are over {MOST_POINTS} changes: ask for a shorter window, or a smaller limit."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, said, "limit") from None
    except SQLAlchemyError as error:
        said = (
            f"The database cannot be read ({type(error).__name__}), and history is only there. /cheapest still answers."
        )
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, said) from error
    items = [series(item, pieces([tracks[one] for one in item.sources], window, now)) for item in page.items]
    ends = {"start": time_text(window.start), "until": time_text(window.until)}
    return json_response(shape(items=items, total=page.total, next=_next(request, page), **ends))


def _page(serving: Serving, question: HistoryQuestion, log: Log[Any]) -> _Page:
    """Understand the question over what is and what was, and find the items that it means."""
    board, engine, window = serving.board, serving.engine, question.window
    used = board.view.world.providers
    past = history.past_machines(engine, used)
    zones = history.zones(engine, used) if "zone" in question.offers or "zone" in question.defaults else frozenset()
    world = world_of_the_past(board.view.world, past, zones)
    spec = understand(question.offers, world, question.defaults, endpoint="offers")
    reasons = Reasons(spec, board.context(window.until))
    in_window = [one for one in past if one.gone_at > window.start]
    machines = machines_of(board.index.candidates(spec.gpus), in_window, spec, reasons)
    found = history.series(engine, log, machines.known.keys(), window.until)
    items = items_of(found, machines, world.zones, spec, reasons)
    return _Page(question, items[question.offset : question.offset + question.limit], len(items))


def _next(request: Request, page: _Page) -> str | None:
    """The next page of the same window: what was an age in the question is a time here."""
    question = page.question
    after = question.offset + question.limit
    if after >= page.total:
        return None
    ends = {"from": question.window.start.isoformat(), "to": question.window.until.isoformat()}
    return str(request.url.include_query_params(offset=after, limit=question.limit, **ends))


def _common(item: Item, parts: Iterable[Piece[Any]]) -> dict[str, Any]:
    """The fields of any series but what was said."""
    place, machine = item.place, item.machine
    return {
        "provider": place.provider,
        "region": place.region,
        "zone": place.zone,
        "instance_type": machine.instance_type,
        "purchase": item.purchase.value,
        "zone_id": place.zone_id,
        "gpu": machine.gpu,
        "gpu_count": None if machine.gpu_count is None else number_text(machine.gpu_count),
        "observed": [SpanShape(time_text(span.start), time_text(span.until)) for span in observed(parts)],
    }


def _points(parts: Sequence[Piece[S]]) -> Sequence[Point[S]]:
    """What changed, at most once at each time that `time_text` shows."""
    return by_second(changes(parts))


def _price_series(item: Item, parts: Sequence[Piece[PriceSaid]]) -> PriceSeries:
    points = [PricePoint(time_text(point.at), _amount(point.said), point.said.currency) for point in _points(parts)]
    return PriceSeries(**_common(item, parts), points=points, shares=None)


def _amount(said: PriceSaid) -> str | None:
    return None if said.nanos is None else nanos_text(said.nanos)


def _stock_series(item: Item, parts: Sequence[Piece[StockSaid]]) -> StockSeries:
    points = [
        StockPoint(time_text(point.at), point.said.level.value, point.said.evidence.value) for point in _points(parts)
    ]
    return StockSeries(**_common(item, parts), points=points, shares=SharesShape(**shares(durations(parts))))
