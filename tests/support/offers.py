"""Offers for tests of the selector: whatever a test does not say is ordinary, fresh and confirmed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from api.answers import Asked, cheapest_shape
from api.shapes import CheapestShape
from catalog.facts import Machine
from catalog.fx import Rate, Rates
from catalog.money import price_nanos
from catalog.offers import Offer, Place, PriceNow, StockNow
from catalog.partitions import Account
from catalog.words import Evidence, Hosting, Level, Purchase
from selector.context import Context
from selector.index import Index
from selector.message import message
from selector.question import World, asking, understand
from selector.rank import browse, rank
from selector.ranking import Change, Match, Ranking

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FRESH_FOR = timedelta(minutes=3)
PRICE_FRESH_FOR = timedelta(days=3)
RATES = Rates([Rate("CNY", "USD", Decimal("0.14084507"), date(2026, 11, 28), "test")])


def offer(
    provider: str = "tencent",
    region: str = "ap-guangzhou",
    zone: str | None = None,
    *,
    zone_id: str | None = None,
    country: str | None = "CN",
    mainland_china: bool | None = None,
    instance_type: str = "M1",
    gpu: str | None = "a100-sxm4-80g",
    count: Fraction | int | None = 1,
    vram_mib: int | None = None,
    vcpus: int | None = 8,
    memory_gib: int | None = 64,
    nvlink: bool | None = None,
    rdma: bool | None = None,
    hosting: str = "datacenter",
    sold_as: Iterable[str] = (),
    purchase: str = "on_demand",
    price: str | None = "1.00",
    currency: str = "USD",
    price_age: timedelta = timedelta(minutes=1),
    level: str = "in_stock",
    evidence: str = "reported",
    age: timedelta = timedelta(seconds=40),
    detail: str = "",
    observed: StockNow | None = None,
) -> Offer:
    """One offer, confirmed and fresh unless told otherwise."""
    nanos = price_nanos(price)
    return Offer(
        Place(
            provider=provider,
            region=region,
            zone=zone,
            zone_id=zone_id,
            country=country,
            mainland_china=mainland_china,
        ),
        Machine(
            region=region,
            instance_type=instance_type,
            gpu=gpu,
            gpu_count=None if count is None else Fraction(count),
            vram_mib=vram_mib,
            vcpus=vcpus,
            memory_mib=None if memory_gib is None else memory_gib * 1024,
            nvlink=nvlink,
            rdma=rdma,
            hosting=Hosting(hosting),
            purchases=frozenset(map(Purchase, sold_as)),
        ),
        Purchase(purchase),
        None
        if nanos is None
        else PriceNow(
            nanos=nanos, currency=currency, source="test", seen_at=NOW - price_age, fresh_for=PRICE_FRESH_FOR
        ),
        StockNow(
            level=Level(level), evidence=Evidence(evidence), seen_at=NOW - age, fresh_for=FRESH_FOR, detail=detail
        ),
        observed,
    )


def index_of(offers: Iterable[Offer], rates: Rates = RATES) -> Index:
    """The offers, each on its own (provider, region) shelf."""
    shelves: dict[tuple[str, str], list[Offer]] = defaultdict(list)
    for each in offers:
        shelves[each.place.provider, each.place.region].append(each)
    index = Index(rates)
    for shelf, some in shelves.items():
        index.replace(shelf, some)
    return index


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """An installation: its offers, and what is configured."""

    offers: Sequence[Offer]
    rates: Rates = RATES
    accounts: frozenset[Account] = frozenset()
    unread: frozenset[tuple[str, str]] = frozenset()
    """(provider, place) of which no source was read yet; "" is all of the provider."""
    read: frozenset[tuple[str, str]] = frozenset()
    off: Mapping[str, str] = field(default_factory=dict)
    """Provider -> what to set so that its places are asked."""
    fallback: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    providers: frozenset[str] = frozenset({"aws", "azure", "gcp", "tencent", "alibaba", "runpod", "vast"})

    def cheapest(self, **params: str) -> Ranking:
        """The answer to a question."""
        index, context = self._index(), self._context()
        spec = understand(_lists(params), self.world(index), self.defaults, endpoint="cheapest")
        return rank(index, spec, context, asking(_lists(params), self.world(index), self.defaults))

    def shown(self, **params: str) -> CheapestShape:
        """The answer as JSON has it."""
        spec = understand(_lists(params), self.world(), self.defaults, endpoint="cheapest")
        return cheapest_shape(self.cheapest(**params), Asked(spec, self._context()), ())

    def said(self, **params: str) -> str:
        """The answer's sentence."""
        spec = understand(_lists(params), self.world(), self.defaults, endpoint="cheapest")
        return message(self.cheapest(**params), spec, self._context())

    def listed(self, **params: str) -> tuple[list[Match], int]:
        """The page of `/offers`."""
        index = self._index()
        spec = understand(_lists(params), self.world(index), self.defaults, endpoint="offers")
        return browse(index, spec, self._context())

    def world(self, index: Index | None = None) -> World:
        """What exists here."""
        index = self._index() if index is None else index
        return World(
            providers=self.providers | {provider for provider, _ in index.regions()},
            accounts=self.accounts,
            regions=index.regions(),
            zones=index.zones(),
            countries=index.countries(),
            region_countries={key: place.country for key, place, _ in index.shelves() if place.country is not None},
            machines=index.machines(),
            unread=self.unread,
            currencies=self.rates.currencies(),
            fallback=self.fallback,
        )

    def _index(self) -> Index:
        return index_of(self.offers, self.rates)

    def _context(self) -> Context:
        return Context(
            now=NOW, rates=self.rates, accounts=self.accounts, unread=self.unread, read=self.read, off=self.off
        )


def unasked(_change: Change) -> None:
    """For tests that do not look at what a changed question would give."""


def cheapest(*offers: Offer, **params: str) -> Ranking:
    """The answer where these offers are all there is."""
    return Here(offers=offers).cheapest(**params)


def listed(*offers: Offer, **params: str) -> list[Offer]:
    """The offers that `/offers` shows where these are all there is."""
    return [match.offer for match in Here(offers=offers).listed(**params)[0]]


def best_of(ranking: Ranking) -> Offer:
    """The best offer, which there is."""
    assert ranking.best is not None, ranking
    return ranking.best.offer


def _lists(params: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: [text] for name, text in params.items()}


__all__ = ["FRESH_FOR", "NOW", "RATES", "Here", "best_of", "cheapest", "index_of", "listed", "offer"]
