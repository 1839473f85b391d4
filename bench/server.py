"""The server of the bench `serving`: gpufare's own application over a filled database, and one route beside.

`python -m bench.server DATABASE_URL` listens as `gpufare api` does, and says on stderr where. `/ready-made` answers
each stored question with the bytes that `/cheapest` gave for it before the server began to listen.
"""

import sys

from fastapi import Request, Response
from sqlalchemy import select
from starlette.testclient import TestClient

from api.app import create_app
from api.config import ApiConfig
from bench.selector import questions
from catalog.fx import ecb_rates
from commands.listening import bound, end_on_signal, run
from store.engine import open_engine, reading
from store.tables import PROVIDERS


def main(url: str) -> None:
    """Serve until told to stop."""
    end_on_signal()
    engine = open_engine(url)
    with reading(engine) as connection:
        providers = frozenset(connection.execute(select(PROVIDERS.c.name)).scalars())
    config = ApiConfig(rates=ecb_rates(), providers=providers)
    app = create_app(engine, config)
    app.state.board.refresh(config.clock())
    client = TestClient(app, base_url="http://127.0.0.1")
    ready = {question: client.get(f"/cheapest?{question}").content for question in questions()}

    @app.get("/ready-made")
    async def ready_made(request: Request) -> Response:
        body = ready[request.scope["query_string"].decode()]
        return Response(body, headers={"Cache-Control": "no-store"}, media_type="application/json")

    app.router.routes.insert(0, app.router.routes.pop())  # no other route's pattern is tried before it
    run(app, bound("127.0.0.1", 0))


if __name__ == "__main__":
    main(sys.argv[1])
