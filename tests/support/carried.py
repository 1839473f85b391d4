"""States carried from one database to another."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from catalog.offers import Offer
from catalog.words import Evidence
from store.archive import FIRST_TIME
from store.archive_export import Used
from store.engine import migrate, reading
from store.offers import all_shelves, load
from tests.support.databases import engine_at

ALL = Used(frozenset({"aws", "runpod", "tencent", "azure", "gcp", "alibaba"}), {})


def engine_in(folder: Path) -> Engine:
    folder.mkdir(exist_ok=True)
    engine = engine_at(folder)
    migrate(engine)
    return engine


def offers_of(engine: Engine) -> list[Offer]:
    with reading(engine) as connection:
        shelves = all_shelves(connection)
    return [offer for shelf in shelves for offer in load(engine, shelf, FIRST_TIME)]


def as_snapshot(offer: Offer, now: datetime) -> Offer:
    """What an import makes of an offer."""
    never: Any = {"fresh_for": timedelta(0)}
    said = offer.price
    if said is not None:
        source = said.source if said.source.startswith("snapshot") else f"snapshot of {said.source}"
        said = replace(said, source=source, seen_at=min(said.seen_at, now), **never)
    stated = offer.stock_at(now)
    seen = replace(stated, evidence=Evidence.SNAPSHOT, seen_at=min(stated.seen_at, now), **never)
    return Offer(offer.place, offer.machine, offer.purchase, said, seen)


def same(before: list[Offer], after: list[Offer], now: datetime) -> None:
    wanted = {(one.sort_key(), one.place.zone_key): as_snapshot(one, now) for one in before}
    found = {(one.sort_key(), one.place.zone_key): one for one in after}
    assert [found.get(key) for key, offer in wanted.items() if found.get(key) != offer] == []
    assert len(after) == len(before)
