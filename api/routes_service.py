"""The server about itself: alive, ready, metrics, and what there is to ask."""

from http import HTTPStatus

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool

from api.docs_page import docs_page
from api.refreshing import Refreshing
from api.serving import Serving, json_response
from api.shapes import Health, Welcome

_STRICT_PAGE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


def router(serving: Serving, refreshing: Refreshing, app: FastAPI) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["service"])

    @routes.get("/")
    async def welcome(_request: Request) -> Response:
        """Where to begin."""
        return json_response(Welcome(version=serving.config.version))

    @routes.get("/docs", include_in_schema=False)
    async def docs(_request: Request) -> Response:
        """Every endpoint with its parameters and an example, on one page without scripts."""
        return Response(docs_page(app.openapi()), headers=_STRICT_PAGE, media_type="text/html")

    @routes.get("/healthz")
    async def healthz(_request: Request) -> Response:
        """200 while the process works; 503 if it no longer looks for changes, and should be started anew."""
        if refreshing.died:
            return _health("failing", "the loop that reads changes has ended; the log says why", serving, ok=False)
        return _health("ok", "alive", serving, ok=True)

    @routes.get("/readyz")
    async def readyz(_request: Request) -> Response:
        """200 once the database could be read and holds data, however old; 503 until then, and while it cannot be."""
        view = serving.board.view
        if refreshing.died or not serving.board.ready:
            detail = view.error or ("nothing was polled or imported yet" if view.read_at else "still loading")
            return _health("not ready", detail, serving, ok=False)
        return _health("ready", "answering", serving, ok=True)

    @routes.get("/metrics")
    async def metrics(_request: Request) -> Response:
        """Prometheus metrics."""
        text = await run_in_threadpool(generate_latest, serving.metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return routes


def _health(status: str, detail: str, serving: Serving, *, ok: bool) -> Response:
    answer = Health(status, detail, len(serving.board.index))
    return json_response(answer, HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE)
