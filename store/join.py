"""The join: facts of many cells become offers, each at the finest place known. Pure.

- A price or stock of a zone is that zone's; one of the region serves its zones that have none of their own. A score is
  no stock of one's own: the region's stated stock goes before it. Of a zone's score and its region's both are shown.
- A zone is known by its id, whether a fact names it by id or by name.
- A purchase that has prices or stock in some zones of a region is not offered in its other zones, unless the region
  itself states a price or stock for it. A score offers nothing where somebody states where the purchase is sold.
- That this account may not have a machine offers nothing, and goes before any score, the region's word before a zone's.
  Nor does what else a list says of a whole region's stock: how much of the account's quota is used.
- Of a machine's accelerators nothing is known that its current lists contradict each other in.
- Of two statements the stronger evidence wins, then the newer one. What a snapshot says of a purchase is used only
  until the region's own list of that purchase was read, and only if the live machine is listed for that purchase or
  for none in particular. What it says of stock, and of zones beside those that are named live, is used only of a
  machine that nothing live names: "sold there" is the stronger evidence.
- Where the whole stock of a purchase is reported and does not name a machine, a snapshot does not put it on offer.
- A window that has begun is not there to be booked: neither its price nor the stock that the same cell states with it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from catalog.facts import Machine
from catalog.offers import Offer, Place, PriceNow, StockNow
from catalog.words import EVIDENCES, Evidence, Level, Purchase
from store.agreement import agreed

SNAPSHOT_FEED = "snapshot"
AUTHORITY = ("machines", "stock")
"""Feeds whose whole answer says which accelerator machines there are: one that they do not list is gone. Where the
`machines` of a region were read, `stock` speaks for a machine only in an answer that is not older.
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stated(Generic[T]):
    """What a cell of a feed said of a machine, or of a machine under a purchase; where, and when."""

    cell_id: int
    feed: str
    seen_at: datetime
    fresh_for: timedelta
    value: T
    zone: str | None = None
    zone_id: str | None = None
    purchase: Purchase = Purchase.ON_DEMAND


@dataclass(frozen=True, slots=True)
class Shelf:
    """All that is stated of one region of one provider. The keys are machine names."""

    place: Place
    listed: bool
    """Whether a whole answer said which accelerator machines the region has."""
    zone_ids: Mapping[str, str]
    """Zone name -> zone id, where known."""
    machines: Mapping[str, Sequence[Stated[Machine]]]
    offered: Mapping[str, Sequence[Stated[None]]]
    prices: Mapping[str, Sequence[Stated[PriceNow]]]
    stocks: Mapping[str, Sequence[Stated[StockNow]]]
    launches: Mapping[tuple[str, str, Purchase], StockNow]
    """(zone key, machine, purchase) -> what a launch taught."""
    stock_lists: Collection[Purchase] = frozenset()
    """The purchases whose whole stock the provider reports, and has reported of the region."""
    machines_at: datetime | None = None
    """Since when the region's whole `machines` list stands; None where none was read."""


class _Zones:
    """The zones of a region: one key for each, the id where there is one, whether a fact names it by id or by name."""

    def __init__(self, shelf: Shelf) -> None:
        kinds = (shelf.offered, shelf.prices, shelf.stocks)
        stated = [(one.zone, one.zone_id) for kind in kinds for of_name in kind.values() for one in of_name]
        pairs = [*shelf.zone_ids.items(), *stated]
        self._ids = _only(pairs) | dict(shelf.zone_ids)
        self._names = _only((zone_id, zone) for zone, zone_id in pairs)
        self._is_id = {zone_id for _, zone_id in pairs if zone_id}
        keys = {"", *(self.key(*pair) for pair in set(stated))}
        self.places = {key: self._place(shelf.place, key) for key in keys}
        """Zone key -> place; "" is the region itself."""

    def key(self, zone: str | None, zone_id: str | None) -> str:
        """The key of a zone; "" for the region itself."""
        return zone_id or self._ids.get(zone or "") or zone or ""

    def _place(self, region: Place, key: str) -> Place:
        if not key:
            return region
        if key not in self._is_id:
            return replace(region, zone=key)
        return replace(region, zone=self._names.get(key), zone_id=key)


def _only(pairs: Iterable[tuple[str | None, str | None]]) -> dict[str, str]:
    """What each first one is paired with, where that is a single thing."""
    found: dict[str, set[str]] = {}
    for first, second in pairs:
        if first and second:
            found.setdefault(first, set()).add(second)
    return {first: seconds.pop() for first, seconds in found.items() if len(seconds) == 1}


def _launches(shelf: Shelf, zones: _Zones) -> dict[tuple[str, str, Purchase], StockNow]:
    """(zone key, machine, purchase) -> what the newest launch taught, its zone told by name or by id."""
    found: dict[tuple[str, str, Purchase], StockNow] = {}
    for (zone, name, purchase), taught in sorted(shelf.launches.items(), key=lambda item: item[1].seen_at):
        found[zones.key(zone, None), name, purchase] = taught
    return found


@dataclass(frozen=True, slots=True)
class _Named:
    """What is said of one machine, by (zone key, purchase)."""

    machine: Machine
    listed: Stated[Machine]
    places: Sequence[tuple[str, Place]]
    prices: Mapping[tuple[str, Purchase], PriceNow]
    stocks: Mapping[tuple[str, Purchase], StockNow]


def offers(shelf: Shelf) -> list[Offer]:
    """The offers of a region: one for each machine, finest place known and purchase."""
    replaced = _lists_read(shelf)
    live = any(one.feed != SNAPSHOT_FEED for stated in shelf.machines.values() for one in stated)
    zones = _Zones(shelf)
    launches = _launches(shelf, zones)
    found: list[Offer] = []
    for name, machines in shelf.machines.items():
        living = _living(machines, shelf, live=live)
        if living:
            found.extend(_offers_of(_named(shelf, zones, name, living, replaced), launches))
    return found


def bookable(shelf: Shelf, now: datetime) -> Shelf:
    """The shelf without prices of windows that have begun, and without the stock stated beside them."""
    over = {_what(name, one) for name, stated in shelf.prices.items() for one in stated if one.value.begun(now)}
    if not over:
        return shelf
    return replace(shelf, prices=_without(over, shelf.prices), stocks=_without(over, shelf.stocks))


def _what(name: str, one: Stated[T]) -> tuple[object, ...]:
    return (name, one.cell_id, one.zone, one.zone_id, one.purchase)


def _without(
    over: Collection[tuple[object, ...]], stated: Mapping[str, Sequence[Stated[T]]]
) -> dict[str, list[Stated[T]]]:
    return {name: [one for one in of_name if _what(name, one) not in over] for name, of_name in stated.items()}


def _lists_read(shelf: Shelf) -> set[Purchase]:
    """The purchases whose own list of the region was read: a cell that prices several machines is such a list."""
    priced: dict[tuple[int, Purchase], set[str]] = {}
    for name, stated in shelf.prices.items():
        for one in stated:
            if one.feed != SNAPSHOT_FEED:
                priced.setdefault((one.cell_id, one.purchase), set()).add(name)
    return {purchase for (_, purchase), names in priced.items() if len(names) > 1}


def _living(machines: Sequence[Stated[Machine]], shelf: Shelf, *, live: bool) -> list[Stated[Machine]]:
    """The statements that still hold, best first; none where the machine is gone. `live`: the region has live ones."""
    ordered = sorted(machines, key=lambda one: (_rank(one.feed), one.seen_at, repr(one.value)), reverse=True)
    if any(_is_list(one, shelf.machines_at) for one in ordered):
        return ordered
    if shelf.listed and any(one.value.gpu_count != 0 for one in ordered):
        return []
    return [one for one in ordered if one.feed != SNAPSHOT_FEED] if live else ordered


def _is_list(one: Stated[Machine], machines_at: datetime | None) -> bool:
    """Whether a statement comes from a list that says which machines there are, as things stand."""
    return one.feed == "machines" or (one.feed == "stock" and (machines_at is None or one.seen_at >= machines_at))


def _rank(feed: str) -> int:
    """The higher goes first."""
    if feed in AUTHORITY:
        return len(AUTHORITY) - AUTHORITY.index(feed) + 1
    return int(feed != SNAPSHOT_FEED)


def _named(
    shelf: Shelf, zones: _Zones, name: str, living: Sequence[Stated[Machine]], replaced: set[Purchase]
) -> _Named:
    unsold = _unsold(shelf, name)
    machine = _merged([_without_purchases(one, unsold) for one in living])
    stated = shelf.prices.get(name, ())
    own = replaced | {one.purchase for one in stated if one.feed != SNAPSHOT_FEED}
    sold = machine.purchases if any(_says_purchases(one) for one in living) else frozenset(Purchase)
    prices = [one for one in stated if one.feed != SNAPSHOT_FEED or one.purchase in sold - own - unsold]
    listed_live = any(one.feed != SNAPSHOT_FEED for one in living)
    stocks = [
        one
        for one in shelf.stocks.get(name, ())
        if one.feed != SNAPSHOT_FEED or not (listed_live or one.purchase in unsold)
    ]
    of_zones: list[Stated[None] | Stated[PriceNow] | Stated[StockNow]] = [
        *shelf.offered.get(name, ()),
        *prices,
        *stocks,
    ]
    named = {zones.key(one.zone, one.zone_id) for one in of_zones} - {""}
    live = {zones.key(one.zone, one.zone_id) for one in of_zones if one.feed != SNAPSHOT_FEED} - {""}
    if listed_live and live and live != named:
        named = live
        prices = [one for one in prices if zones.key(one.zone, one.zone_id) in {"", *live}]
    return _Named(
        machine=machine,
        listed=living[0],
        places=[(key, zones.places[key]) for key in sorted(named or {""})],
        prices=_best(prices, zones),
        stocks=_best(stocks, zones),
    )


def _unsold(shelf: Shelf, name: str) -> frozenset[Purchase]:
    """The purchases whose whole stock was reported without this machine."""
    reported = {
        one.purchase for one in shelf.stocks.get(name, ()) if one.feed == "stock" and one.value.evidence.is_stock
    }
    return frozenset(shelf.stock_lists) - reported


def _without_purchases(one: Stated[Machine], unsold: frozenset[Purchase]) -> Stated[Machine]:
    """A snapshot's statement without the purchases that are not for sale."""
    if one.feed != SNAPSHOT_FEED or not one.value.purchases & unsold:
        return one
    return replace(one, value=replace(one.value, purchases=one.value.purchases - unsold))


def _says_purchases(listed: Stated[Machine]) -> bool:
    return listed.feed != SNAPSHOT_FEED and bool(listed.value.purchases)


def _merged(living: Sequence[Stated[Machine]]) -> Machine:
    """The best statement, its unknown fields filled from the next ones; purchases are what any of them lists."""
    machine = _named_model(living)
    for one in living[1:]:
        machine = _filled(machine, one.value)
    machine = agreed(machine, [one.value for one in _current_lists(living)])
    saying = [one for one in living if _says_purchases(one)] or living
    purchases = frozenset().union(*(one.value.purchases for one in saying))
    return machine if purchases == machine.purchases else replace(machine, purchases=purchases)


def _named_model(living: Sequence[Stated[Machine]]) -> Machine:
    """The best statement; its model from the best one that names a model, where itself it knows it by family alone."""
    best = living[0].value
    naming = next((one.value for one in living if one.value.gpu_raw), best)
    if best.gpu_raw or naming.gpu == best.gpu:
        return best
    return replace(best, gpu=naming.gpu, gpu_raw=naming.gpu_raw, vram_mib=naming.vram_mib)


def _current_lists(living: Sequence[Stated[Machine]]) -> list[Stated[Machine]]:
    """The best list's statement, and those of the others but what was no longer fresh when the newest came."""
    lists = [one for one in living if one.feed in AUTHORITY]
    newest = max((one.seen_at for one in lists), default=None)
    return [one for one in lists if one is lists[0] or newest is None or newest - one.seen_at <= one.fresh_for]


def _filled(machine: Machine, other: Machine) -> Machine:
    """The machine with its unknown fields taken from another statement, as far as the two go together."""
    unknown = {f.name: getattr(other, f.name) for f in fields(machine) if getattr(machine, f.name) in (None, "")}
    if machine.gpu_count == 0:
        unknown.pop("gpu", None)
    if machine.gpu is None and machine.gpu_raw:  # a name that nobody knows is not overruled by a lesser list's guess
        unknown = {name: value for name, value in unknown.items() if name not in ("gpu", "vram_mib")}
    if machine.gpu is not None and other.gpu_count == 0:
        unknown.pop("gpu_count", None)
    return replace(machine, **unknown)


def _best(stated: Iterable[Stated[T]], zones: _Zones) -> dict[tuple[str, Purchase], T]:
    """The winner for each zone and purchase: stronger evidence, then newer."""
    found: dict[tuple[str, Purchase], Stated[T]] = {}
    for one in stated:
        key = (zones.key(one.zone, one.zone_id), one.purchase)
        if key not in found or _weight(one) > _weight(found[key]):
            found[key] = one
    return {key: one.value for key, one in found.items()}


def _weight(one: Stated[T]) -> tuple[int, datetime, str]:
    return (_strength(one.value), one.seen_at, repr(one.value))


def _strength(value: object) -> int:
    if not isinstance(value, StockNow):
        return 0
    first = value.restricted and value.evidence is Evidence.LISTED
    return -EVIDENCES.index(Evidence.SCORED if first else value.evidence) * 2 + first


def _offers_of(named: _Named, launches: Mapping[tuple[str, str, Purchase], StockNow]) -> Iterator[Offer]:
    stocks = (purchase for (key, purchase), stock in named.stocks.items() if not _of_account(key, stock))
    purchases = named.machine.purchases | {*stocks, *(purchase for _, purchase in named.prices)}
    for purchase in sorted(purchases):
        for key, place in named.places:
            if _sold(named, key, purchase):
                price = named.prices.get((key, purchase)) or named.prices.get(("", purchase))
                observed = launches.get((key, named.machine.instance_type, purchase))
                yield Offer(place, named.machine, purchase, price, _stock(named, key, purchase), observed)


def _sold(named: _Named, key: str, purchase: Purchase) -> bool:
    """Whether a purchase exists at a zone: stated there, stated for the region, or stated for no zone at all."""
    stocks = {
        at
        for at, stock in named.stocks.items()
        if stock.evidence is not Evidence.SCORED and not _of_account(at[0], stock)
    }
    stated = {zone for zone, what in (*named.prices, *stocks) if what == purchase}
    return not stated or key in stated or "" in stated


def _of_account(key: str, stock: StockNow) -> bool:
    """Whether it says only what this account may have, and not where or how a machine is sold."""
    return stock.restricted or (not key and stock.evidence is Evidence.LISTED)


def _stock(named: _Named, key: str, purchase: Purchase) -> StockNow:
    """The zone's own stock, else the region's; where nobody states any, unknown by the list that names the machine."""
    stated = [named.stocks[at, purchase] for at in dict.fromkeys((key, "")) if (at, purchase) in named.stocks]
    if len(stated) > 1 and all(one.evidence is Evidence.SCORED and not one.restricted for one in stated):
        return _both_scores(*stated)
    if stated:
        return max(stated, key=lambda one: (one.evidence.is_stock, one.restricted))
    listed = named.listed
    evidence = Evidence.SNAPSHOT if listed.feed == SNAPSHOT_FEED else Evidence.LISTED
    return StockNow(level=Level.UNKNOWN, evidence=evidence, seen_at=listed.seen_at, fresh_for=listed.fresh_for)


def _both_scores(zone: StockNow, region: StockNow) -> StockNow:
    """A zone's score and its region's are of different things, and both are shown; the time is the zone's."""
    score = ", ".join(filter(None, (zone.score, region.score)))
    detail = "; ".join(filter(None, (zone.detail, region.detail)))
    return replace(zone, score=score or None, detail=detail)
