"""What launch attempts taught: kept, and for a set time louder than what a provider states."""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from sqlalchemy import Engine, RowMapping, delete, insert, or_, select

from catalog.words import Level, Purchase
from store.engine import reading, writing
from store.offers import ShelfKey
from store.tables import LAUNCHES


@dataclass(frozen=True, slots=True)
class Launch:
    """A reported attempt. `level` and `until` are None where it changes nothing."""

    provider: str
    region: str
    zone_key: str
    instance_type: str
    purchase: Purchase
    outcome: str
    code: str | None
    level: Level | None
    until: datetime | None


def keep(engine: Engine, launch: Launch, now: datetime) -> str:
    """Keep a report; returns its id."""
    launch_id = uuid4().hex
    values = {
        "id": launch_id,
        "provider": launch.provider,
        "region": launch.region,
        "zone_key": launch.zone_key,
        "instance_type": launch.instance_type,
        "purchase": launch.purchase.value,
        "outcome": launch.outcome,
        "code": launch.code,
        "level": launch.level and launch.level.value,
        "at": now,
        "until": launch.until,
    }
    with writing(engine) as connection:
        connection.execute(insert(LAUNCHES).values(values))
    return launch_id


@dataclass(frozen=True, slots=True)
class Kept:
    """A report as it was kept."""

    id: str
    at: datetime
    launch: Launch


def reports(engine: Engine, limit: int) -> list[Kept]:
    """Reports, newest first."""
    query = select(LAUNCHES).order_by(LAUNCHES.c.at.desc(), LAUNCHES.c.id).limit(limit)
    with reading(engine) as connection:
        return [_kept(row) for row in connection.execute(query).mappings()]


def _kept(row: RowMapping) -> Kept:
    values = {name: value for name, value in row.items() if name not in ("id", "at", "purchase", "level")}
    level = None if row["level"] is None else Level(row["level"])
    return Kept(row["id"], row["at"], Launch(**values, purchase=Purchase(row["purchase"]), level=level))


def in_force(engine: Engine, now: datetime) -> dict[str, ShelfKey]:
    """Report id -> its region, for the reports that hold now."""
    query = select(LAUNCHES.c.id, LAUNCHES.c.provider, LAUNCHES.c.region).where(LAUNCHES.c.until >= now)
    with reading(engine) as connection:
        return {row.id: (row.provider, row.region) for row in connection.execute(query)}


def prune(engine: Engine, before: datetime) -> None:
    """Forget reports that were made, and expired, before a time."""
    expired = or_(LAUNCHES.c.until.is_(None), LAUNCHES.c.until < before)
    with writing(engine) as connection:
        connection.execute(delete(LAUNCHES).where(LAUNCHES.c.at < before, expired))
