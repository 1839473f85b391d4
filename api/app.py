"""Building the server."""

from fastapi import FastAPI
from sqlalchemy import Engine

from api import (
    openapi,
    problems,
    routes_answers,
    routes_catalog,
    routes_feeds,
    routes_history,
    routes_recommend,
    routes_service,
    routes_targets,
    routes_watches,
    routes_writes,
)
from api.board import Board
from api.config import ApiConfig, check_listen
from api.guard import Guard, Heads
from api.metrics import Measured, Metrics
from api.refreshing import Refreshing
from api.serving import Serving
from store.waking import waker_of

_DESCRIPTION = (
    "Where can I get this GPU, in stock, cheapest, right now? Money is a decimal string, per whole machine and hour; "
    "times are RFC 3339 in UTC; errors are RFC 9457 problems. A parameter or value that is not known is refused."
)


def create_app(engine: Engine, config: ApiConfig) -> FastAPI:
    """The server over a database that has its tables. Raises ListenError for a host that needs a token.

    Nothing is read before the app starts (its lifespan); then everything is, before the first request. The board is at
    `app.state.board`, what the routes are built with at `app.state.serving`.
    """
    check_listen(config.host, config.token)
    board = Board(engine, config)
    serving = Serving(engine, config, board, Metrics(board, config))
    refreshing = Refreshing(board, config, waker_of(engine, config.refresh_every))
    app = FastAPI(
        title="gpufare",
        version=config.version,
        description=_DESCRIPTION,
        docs_url=None,  # FastAPI's own pages load scripts from a CDN: /docs is a page of ours
        redoc_url=None,
        lifespan=refreshing.lifespan,
    )
    app.state.board, app.state.serving = board, serving
    problems.install(app)
    openapi.install(app)
    for made in (
        routes_answers.router(serving),
        routes_recommend.router(serving),
        routes_history.router(serving),
        routes_catalog.router(serving),
        routes_feeds.router(serving),
        routes_writes.router(serving),
        routes_watches.router(serving),
        routes_targets.router(serving),
        routes_service.router(serving, refreshing, app),
    ):
        app.include_router(made)
    app.add_middleware(Heads)
    app.add_middleware(Guard, config=config)
    app.add_middleware(Measured, metrics=serving.metrics)
    return app
