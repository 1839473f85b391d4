"""The exchange rates, fetched once a day by one of all workers. What fails changes nothing: the rates before stand."""

from threading import Thread

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from collectors import ecb
from collectors.base import ProviderError
from scheduler.outages import tell
from scheduler.poll import met
from store import exchange
from store.clock import Clock

log = structlog.get_logger()


class Exchange:
    """Keeps the rates of a database up to date. `endpoint` is asked instead of the ECB: scheme, host and port."""

    def __init__(self, engine: Engine, clock: Clock, endpoint: str | None = None) -> None:
        self._engine, self._clock, self._endpoint = engine, clock, endpoint
        self._failing = False

    def look(self) -> None:
        """Fetch them where it is this worker's turn, in a thread of its own: neither ticks nor an end wait for it."""
        if exchange.claim(self._engine, self._clock()):
            Thread(target=self._refresh_safely, name="exchange-rates", daemon=True).start()

    def _refresh_safely(self) -> None:
        try:
            self.refresh()
        except SQLAlchemyError as error:
            tell("the database did not answer; the exchange rates are fetched again in an hour", error)

    def refresh(self) -> None:
        """Fetch them now."""
        told = met(lambda: ecb.parse(ecb.fetch(self._clock(), self._endpoint)))
        if isinstance(told, ProviderError):
            self._tell_of(told)
            return
        held = exchange.keep(self._engine, told, self._clock())
        log.info("exchange rates fetched", day=str(told[0].date), rates=len(told))
        for rate in held:
            said = "an exchange rate moved too far to be believed of one day's list; the one before stands"
            log.warning(said, pair=f"{rate.base}/{rate.quote}", rate=str(rate.rate), day=str(rate.date))
        self._failing = False

    def _tell_of(self, error: ProviderError) -> None:
        """Once, until they are had again: a machine without a network need not hear of it each hour."""
        if not self._failing:
            log.warning("the exchange rates could not be fetched; those before stand", error=str(error))
        self._failing = True
