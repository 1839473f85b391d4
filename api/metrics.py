"""Prometheus metrics: what the board knows, read at each scrape, and how requests went. No secret, and no free text."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.board import Board
from api.config import ApiConfig
from catalog.instants import age_s

_STATES = ("ok", "stale", "failing", "off")
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """The metrics of one app, in a registry of their own."""

    def __init__(self, board: Board, config: ApiConfig) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_BoardCollector(board, config))
        self.requests = Counter(
            "gpufare_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "gpufare_http_request_duration_seconds",
            "Time from a request to the end of its answer.",
            ("route",),
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )


class Measured:
    """ASGI middleware that counts and times requests by route, so that no client can make up a label."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count what became of it; one that raised counts as 500."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = str(getattr(scope.get("route"), "path", "none"))
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - began)


class _BoardCollector(Collector):
    """Reads the board when Prometheus asks."""

    def __init__(self, board: Board, config: ApiConfig) -> None:
        self._board, self._config = board, config

    def collect(self) -> Iterator[Metric]:
        """Every metric of the board, at the clock's time."""
        now = self._config.clock()
        yield from self._board_metrics(now)
        yield from self._feed_metrics(now)

    def _board_metrics(self, now: datetime) -> Iterator[Metric]:
        view = self._board.view
        info = GaugeMetricFamily("gpufare_build_info", "The version that answers.", labels=("version",))
        info.add_metric((self._config.version,), 1)
        yield info
        yield GaugeMetricFamily("gpufare_offers", "Offers in memory.", value=len(self._board.index))
        yield GaugeMetricFamily("gpufare_board_revision", "Sum of the cells' revisions.", value=view.revision)
        yield GaugeMetricFamily("gpufare_ready", "Whether /readyz says so.", value=int(self._board.ready))
        if view.read_at is not None:
            age = max(timedelta(0), now - view.read_at) / timedelta(seconds=1)
            yield GaugeMetricFamily("gpufare_board_age_seconds", "Since the database was last read.", value=age)

    def _feed_metrics(self, now: datetime) -> Iterator[Metric]:
        feed = ("provider", "feed")
        age = GaugeMetricFamily("gpufare_feed_age_seconds", "Since the feed's oldest last success.", labels=feed)
        state = GaugeMetricFamily("gpufare_feed_status", "1 for the state it is in.", labels=(*feed, "status"))
        failing = GaugeMetricFamily("gpufare_feed_cells_failing", "Places whose last poll failed.", labels=feed)
        offers = GaugeMetricFamily(
            "gpufare_feed_offers", "Offers that the feed states a price or stock of.", labels=feed
        )
        notes = GaugeMetricFamily("gpufare_feed_notes", "Records left out or not understood.", labels=(*feed, "kind"))
        for provider in self._board.view.providers:
            for one in provider.feeds:
                name = (provider.name, one.feed)
                if one.last_success is not None:
                    age.add_metric(name, age_s(one.last_success, now))
                for known in _STATES:
                    state.add_metric((*name, known), int(one.status == known))
                failing.add_metric(name, len(one.failing))
                offers.add_metric(name, one.offers)
                for kind, count in one.notes.items():
                    notes.add_metric((*name, kind), count)
        yield from (age, state, failing, offers, notes)
