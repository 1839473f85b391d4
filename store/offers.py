"""Reading the offers of a region, and knowing which regions changed."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, RowMapping, Table, select

from catalog.facts import Machine, Window
from catalog.offers import Offer, Place, PriceNow, StockNow
from catalog.places import known_region, mainland_of
from catalog.words import Evidence, Hosting, Level, Purchase
from store import join
from store.engine import reading
from store.join import Stated
from store.rows import fraction_of, purchases_of
from store.tables import CELLS, FACTS, LAUNCHES, MACHINES, OFFERED, PRICES, PROVIDERS, REGIONS, STOCKS, ZONES

StoredRow = Mapping[str, Any] | RowMapping
"""A row's values by column."""
_PURCHASES = {purchase.value: purchase for purchase in Purchase}
_LEVELS = {level.value: level for level in Level}
_EVIDENCES = {evidence.value: evidence for evidence in Evidence}
ShelfKey = tuple[str, str]
"""(provider, region): what is loaded and replaced as one."""


def revisions(engine: Engine) -> dict[int, int]:
    """Cell -> revision: a cell whose revision differs from the one read has changed."""
    with reading(engine) as connection:
        return {row.id: row.revision for row in connection.execute(select(CELLS.c.id, CELLS.c.revision))}


def shelves_of(engine: Engine, cells: Iterable[int]) -> dict[int, set[ShelfKey]]:
    """Cell -> the regions that its answer is about: those it states anything of now, and its own place.

    A whole answer may say that nothing is there. One about no place is about every region of its provider.
    """
    found: dict[int, set[ShelfKey]] = {}
    with reading(engine) as connection:
        for chunk in _chunks(list(cells)):
            columns = select(CELLS.c.id, CELLS.c.provider, CELLS.c.place)
            for row in connection.execute(columns.where(CELLS.c.id.in_(chunk))).all():
                found[row.id] = {(row.provider, row.place)} if row.place else _shelves(connection, row.provider)
            for table in FACTS:
                stated = select(CELLS.c.id, CELLS.c.provider, table.c.region).join(table, table.c.cell_id == CELLS.c.id)
                for row in connection.execute(stated.where(CELLS.c.id.in_(chunk)).distinct()):
                    found[row.id].add((row.provider, row.region))
    return found


def _shelves(connection: Connection, provider: str) -> set[ShelfKey]:
    """Every region of a provider that anything is stated of, or that a cell is at."""
    of_provider = CELLS.c.provider == provider
    queries = [select(CELLS.c.place.label("region")).where(of_provider, CELLS.c.place != "")]
    queries += [select(table.c.region).join(CELLS, CELLS.c.id == table.c.cell_id).where(of_provider) for table in FACTS]
    return {(provider, row.region) for query in queries for row in connection.execute(query.distinct())}


def _chunks(items: list[int], size: int = 500) -> Iterable[list[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def load(engine: Engine, shelf: ShelfKey, now: datetime) -> list[Offer]:
    """The offers of a region as they stand."""
    with reading(engine) as connection:
        return load_from(connection, shelf, now)


def load_from(connection: Connection, shelf: ShelfKey, now: datetime) -> list[Offer]:
    """The offers of a region as this transaction sees them, without what can no longer be booked."""
    return join.offers(join.bookable(_shelf(connection, *shelf), now))


def all_shelves(connection: Connection) -> list[ShelfKey]:
    """Every region that anything is stated of, in order."""
    providers = connection.execute(select(CELLS.c.provider).distinct()).scalars().all()
    return sorted(shelf for provider in providers for shelf in _shelves(connection, provider))


def _shelf(connection: Connection, provider: str, region: str) -> join.Shelf:
    site = connection.execute(select(PROVIDERS.c.site).where(PROVIDERS.c.name == provider)).scalar_one_or_none()
    # In the order of their last whole answers, so that of two names for one zone the newer stands.
    ordered = select(CELLS).where(CELLS.c.provider == provider).order_by(CELLS.c.seen_at, CELLS.c.id)
    found = {row["id"]: row for row in connection.execute(ordered).mappings()}
    cells = {key: row for key, row in found.items() if site is None or _site_of(row) in (None, site)}
    sites = {stated for row in cells.values() if row["place"] == region and (stated := _site_of(row))}
    rows = {table.name: _rows(connection, table, cells, region) for table in FACTS}
    about = _about(cells, rows, region)
    read = {feed: at for feed, of_feed in about.items() if (at := _all_seen(of_feed)) is not None}
    return join.Shelf(
        place=place_of(provider, region, site or min(sites, default=None), rows[REGIONS.name]),
        listed="machines" in read or ("stock" in read and _names_machines(connection, cells, "stock")),
        stock_lists=_stock_lists(connection, cells, about.get("stock", ()))
        if _in_snapshot(cells, rows)
        else frozenset(),
        machines_at=read.get("machines"),
        zone_ids={row["zone"]: row["zone_id"] for row in rows[ZONES.name] if row["zone_id"]},
        machines=_grouped(rows[MACHINES.name], cells, lambda row, _seen, _fresh: machine_of(row)),
        offered=_grouped(rows[OFFERED.name], cells, lambda _row, _seen, _fresh: None),
        prices=_grouped(rows[PRICES.name], cells, _price),
        stocks=_grouped(rows[STOCKS.name], cells, _stock),
        launches=_launches(connection, provider, region),
    )


def _about(
    cells: Mapping[int, RowMapping], rows: Mapping[str, list[StoredRow]], region: str
) -> Mapping[str, list[RowMapping]]:
    """Each feed that says which machines there are -> its cells about the region.

    Those are the ones at that place, those at no place (the whole provider), and those that state anything of it. All
    that are polled must have answered before it was said of the whole region; one that is not served here has nothing
    to say. The list stands since the oldest of their answers.
    """
    stating = {row["cell_id"] for table in rows.values() for row in table}
    about = defaultdict(list)
    for cell in cells.values():
        here = cell["place"] in (region, "") or cell["id"] in stating
        if here and cell["feed"] in join.AUTHORITY and cell["status"] != "off":
            about[cell["feed"]].append(cell)
    return about


def _in_snapshot(cells: Mapping[int, RowMapping], rows: Mapping[str, list[StoredRow]]) -> bool:
    """Whether a snapshot states any machine of the region."""
    return any(cells[row["cell_id"]]["feed"] == join.SNAPSHOT_FEED for row in rows[MACHINES.name])


def _stock_lists(
    connection: Connection, cells: Mapping[int, RowMapping], about: Sequence[RowMapping]
) -> frozenset[Purchase]:
    """The purchases whose whole stock was reported of the region: by every cell `about` it that has to do with them.

    Which those are, the provider's answers of all regions show: the part that states spot has nothing to say of what is
    on demand, and an answer that names no machine is one about the same purchases as its like elsewhere.
    """
    stock = {key: cell["part"] for key, cell in cells.items() if cell["feed"] == "stock"}
    reported = STOCKS.c.evidence.in_([evidence.value for evidence in Evidence if evidence.is_stock])
    stated = select(STOCKS.c.cell_id, STOCKS.c.purchase).where(STOCKS.c.cell_id.in_(list(stock)), reported).distinct()
    parts: dict[str, set[str]] = defaultdict(set)
    for row in connection.execute(stated):
        parts[row.purchase].add(stock[row.cell_id])
    seen = {purchase: _all_seen(cell for cell in about if cell["part"] in those) for purchase, those in parts.items()}
    return frozenset(_PURCHASES[purchase] for purchase, at in seen.items() if at is not None)


def _all_seen(cells: Iterable[RowMapping]) -> datetime | None:
    """The oldest of the last whole answers of those that are polled, else of all; None where one has none."""
    seen = [(cell["seen_at"], cell["planned"]) for cell in cells]
    times = [at for at, planned in seen if planned] or [at for at, _ in seen if at is not None]
    return min(times) if times and None not in times else None


def _names_machines(connection: Connection, cells: Mapping[int, RowMapping], feed: str) -> bool:
    """Whether a feed names machines at all: some stock feeds state nothing but stock."""
    ids = [cell["id"] for cell in cells.values() if cell["feed"] == feed]
    return (
        connection.execute(select(MACHINES.c.cell_id).where(MACHINES.c.cell_id.in_(ids)).limit(1)).first() is not None
    )


def _rows(connection: Connection, table: Table, cells: Mapping[int, RowMapping], region: str) -> list[StoredRow]:
    """The rows of a region in the order of their cells. Plain dicts: a region may have thousands."""
    names = table.columns.keys()
    stated = connection.execute(select(table).where(table.c.region == region)).all()
    found = [dict(zip(names, row, strict=True)) for row in stated]
    order = {cell_id: position for position, cell_id in enumerate(cells)}
    return sorted((row for row in found if row["cell_id"] in order), key=lambda row: order[row["cell_id"]])


def _site_of(cell: RowMapping) -> str | None:
    """The site whose prices a cell of a snapshot states; of any other cell it is the provider's own."""
    return json.loads(cell["memo"]).get("site") if cell["feed"] == join.SNAPSHOT_FEED else None


def place_of(provider: str, region: str, site: str | None, rows: Sequence[StoredRow]) -> Place:
    """A region as the table of places knows it, else as its rows of `regions` say."""
    known = known_region(provider, region)
    stated: dict[str, Any] = dict(max(rows, key=lambda row: (row["country"] or "", row["name"] or ""))) if rows else {}
    country = known.country if known else stated.get("country")
    return Place(
        provider=provider,
        region=region,
        site=site,
        region_name=known.name if known else stated.get("name"),
        country=country,
        mainland_china=mainland_of(country, known),
    )


def _grouped(rows: list[StoredRow], cells: Mapping[int, RowMapping], value_of: Any) -> dict[str, list[Stated[Any]]]:
    found: dict[str, list[Stated[Any]]] = defaultdict(list)
    said = {key: (cell["feed"], cell["seen_at"], timedelta(seconds=cell["fresh_s"])) for key, cell in cells.items()}
    for row in rows:
        feed, cell_seen_at, fresh_for = said[row["cell_id"]]
        seen_at = row.get("as_of") or row["seen_at"] or cell_seen_at
        purchase = _PURCHASES[row.get("purchase", Purchase.ON_DEMAND)]
        value = value_of(row, seen_at, fresh_for)
        zone, zone_id = row.get("zone"), row.get("zone_id")
        stated = Stated(row["cell_id"], feed, seen_at, fresh_for, value, zone, zone_id, purchase)
        found[row["instance_type"]].append(stated)
    return found


def machine_of(row: StoredRow) -> Machine:
    """The machine of a row."""
    return Machine(
        region=row["region"],
        instance_type=row["instance_type"],
        gpu=row["gpu"],
        gpu_count=fraction_of(row["gpu_count"]),
        gpu_raw=row["gpu_raw"],
        vram_mib=row["vram_mib"],
        vcpus=row["vcpus"],
        memory_mib=row["memory_mib"],
        nvlink=row["nvlink"],
        rdma=row["rdma"],
        bare_metal=row["bare_metal"],
        hosting=Hosting(row["hosting"]),
        upstream=row["upstream"],
        purchases=purchases_of(row["purchases"]),
    )


def _price(row: StoredRow, seen_at: datetime, fresh_for: timedelta) -> PriceNow:
    return PriceNow(
        nanos=row["nanos"],
        currency=row["currency"],
        source=row["source"],
        seen_at=seen_at,
        fresh_for=fresh_for,
        list_nanos=row["list_nanos"],
        upfront_nanos=row["upfront_nanos"],
        term_months=row["term_months"],
        window=_window(row),
        estimated=row["estimated"],
    )


def _window(row: StoredRow) -> Window | None:
    starts_at, ends_at = row["window_starts_at"], row["window_ends_at"]
    return None if starts_at is None or ends_at is None else Window(starts_at, ends_at)


def _stock(row: StoredRow, seen_at: datetime, fresh_for: timedelta) -> StockNow:
    return StockNow(
        level=_LEVELS[row["level"]],
        evidence=_EVIDENCES[row["evidence"]],
        seen_at=seen_at,
        fresh_for=fresh_for,
        detail=row["detail"],
        score=row["score"],
        quantity=row["quantity"],
    )


def _launches(connection: Connection, provider: str, region: str) -> dict[tuple[str, str, Purchase], StockNow]:
    """The newest lesson for each place, machine and purchase; an expired one is skipped when it is used."""
    here = (LAUNCHES.c.provider == provider) & (LAUNCHES.c.region == region) & LAUNCHES.c.until.is_not(None)
    rows = connection.execute(select(LAUNCHES).where(here).order_by(LAUNCHES.c.at, LAUNCHES.c.id))
    return {
        (row.zone_key, row.instance_type, Purchase(row.purchase)): StockNow(
            level=Level(row.level),
            evidence=Evidence.OBSERVED,
            seen_at=row.at,
            fresh_for=row.until - row.at,
            detail=row.code or row.outcome,
        )
        for row in rows
    }
