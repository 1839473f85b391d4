"""From what the selector found to the JSON of the answers. Pure: the time is an argument."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import msgspec

from api.shapes import (
    Billing,
    CheapestShape,
    EstimateShape,
    FixShape,
    FxShape,
    MissShape,
    NativePrice,
    OfferShape,
    SourceShape,
    StockShape,
    TierShape,
    Upfront,
    WindowShape,
)
from catalog import instants
from catalog.billing import billing_of
from catalog.facts import Machine, Window
from catalog.fx import Rate
from catalog.instants import age_s
from catalog.money import money_text, nanos_text
from catalog.offers import SNAPSHOT, Offer, PriceNow
from catalog.partitions import holds
from catalog.spec import Accounts, Nearness, Spec, number_text
from catalog.words import Purchase
from selector import measures
from selector.context import Context
from selector.job import JobCosts
from selector.message import message
from selector.nearness import FORMULA, estimated_rtt_ms
from selector.ranking import Fix, Match, Miss, Ranking, Tier, Verdict
from store.status import FeedStatus, ProviderStatus

SHOWN_DECIMALS = 4
"""Of a converted price. The provider's own is shown exact, and prices are compared exact."""
_KEPT = 8192
"""How many texts of each kind are kept: what is shown again and again is written once."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What every offer of an answer is shown against: the spec, and the time, rates and accounts."""

    spec: Spec
    context: Context


def cheapest_shape(ranking: Ranking, asked: Asked, providers: Sequence[ProviderStatus]) -> CheapestShape:
    """The answer of `/cheapest`."""
    shown = [match for match in (ranking.best, ranking.unconfirmed, *ranking.alternatives) if match is not None]
    return CheapestShape(
        verdict=ranking.verdict.value,
        message=message(ranking, asked.spec, asked.context),
        best=_match_or_none(ranking.best, asked),
        unconfirmed=_match_or_none(ranking.unconfirmed, asked),
        alternatives=[match_shape(match, asked) for match in ranking.alternatives],
        query=asked.spec.described(),
        fallback_used=ranking.fallback_used,
        tiers=[_tier(tier) for tier in ranking.tiers],
        rejected=dict(ranking.rejected),
        nearest_misses=[_miss(miss, asked) for miss in ranking.nearest_misses],
        fix=None if ranking.fix is None else _fix(ranking.fix, asked),
        sources=sources(providers, asked, shown, ranking),
        fx=[_fx(rate) for rate in ranking.rates],
        as_of=time_text(asked.context.now),
    )


def match_shape(match: Match, asked: Asked) -> OfferShape:
    """OFFER of a match."""
    return offer_shape(match.offer, match.nanos, match.tier, asked)


def offer_json(match: Match, spec: Spec, context: Context) -> dict[str, object]:
    """OFFER of a match as an event holds it."""
    shown: dict[str, object] = msgspec.to_builtins(match_shape(match, Asked(spec, context)))
    return shown


def offer_shape(offer: Offer, nanos: int | None, tier: int | None, asked: Asked) -> OfferShape:
    """OFFER; `nanos` is its price in the question's currency."""
    place, machine, now = offer.place, offer.machine, asked.context.now
    words = _machine_words(machine)
    return OfferShape(
        provider=place.provider,
        account=holds(asked.context.accounts, place.provider, place.region),
        site=place.site,
        upstream=machine.upstream,
        hosting=machine.hosting.value,
        region=place.region,
        region_name=place.region_name,
        country=place.country,
        mainland_china=place.mainland_china,
        zone=place.zone,
        zone_id=place.zone_id,
        instance_type=machine.instance_type,
        gpu=machine.gpu,
        gpu_name=words.gpu_name,
        gpu_count=words.gpu_count,
        gpu_vram_gib=words.gpu_vram_gib,
        nvlink=words.nvlink,
        vcpus=machine.vcpus,
        memory_gib=words.memory_gib,
        purchase=offer.purchase.value,
        native_price=None if offer.price is None else _native(offer.price, now),
        price_per_hour=_money(nanos),
        price_per_gpu_hour=_money(_per_gpu(nanos, machine.gpu_count)),
        currency=asked.spec.currency,
        job_cost=_money(_job_nanos(offer, asked)),
        billing=_billing(place.provider, offer.purchase),
        stock=_stock(offer, now, asked.spec.max_age),
        tier=tier,
        window=None if offer.price is None else _window(offer.price.window),
    )


def sources(
    providers: Iterable[ProviderStatus], asked: Asked, shown: Iterable[Match], ranking: Ranking
) -> list[SourceShape]:
    """The feeds that the answer rests on, and those that are unhealthy among the providers that it may come from.

    A feed that is off is told of where its provider is shown or asked for, by name or by its regions, or where nothing
    is asked for so and nothing is known at all.
    A provider shown with what the shipped price list says of it has that list as its feed `snapshot`, always stale.
    """
    offers = [match.offer for match in shown]
    rests_on = {offer.place.provider for offer in offers}
    named, placed = asked.spec.providers, _providers_of_places(asked, ranking.tiers)
    nothing = ranking.verdict is Verdict.NO_SOURCE and placed is None
    feeds = [
        _source(provider.name, feed, asked.context.now)
        for provider in providers
        for feed in provider.feeds
        if provider.name in rests_on
        or (named is not None and provider.name in named)
        or (named is None and placed is not None and provider.name in placed)
        or (named is None and (feed.status in ("stale", "failing") or nothing))
    ]
    return sorted([*feeds, *_snapshots(offers, asked.context.now)], key=lambda one: (one.provider, one.feed))


def _providers_of_places(asked: Asked, tiers: Iterable[Tier]) -> frozenset[str] | None:
    """Those that may answer at the places asked for, or could were they not off; None where no place is asked for."""
    spec, accounts = asked.spec, asked.context.accounts
    if spec.primary_regions is None:
        return None
    keys = spec.primary_regions.union(*spec.fallback)
    may = {key[0] for key in keys if spec.accounts is Accounts.ALL or holds(accounts, *key)}
    return frozenset(may | {place.provider for tier in tiers for place in tier.off})


def _snapshots(offers: Iterable[Offer], now: datetime) -> Iterator[SourceShape]:
    """The shipped list as a source of each provider of these offers that it says anything of, with its oldest date."""
    dates: dict[str, list[datetime]] = defaultdict(list)
    for offer in offers:
        dates[offer.place.provider] += offer.snapshot_dates(now)
    for provider, stated in dates.items():
        if stated:
            oldest = min(stated)
            yield SourceShape(provider, SNAPSHOT, time_text(oldest), age_s(oldest, now), "stale", None)


def _source(provider: str, feed: FeedStatus, now: datetime) -> SourceShape:
    last = feed.last_success
    return SourceShape(
        provider=provider,
        feed=feed.feed,
        last_success=time_or_none(last),
        age_s=None if last is None else age_s(last, now),
        status=feed.status,
        error=feed.reason,
    )


class _MachineWords(NamedTuple):
    """What is shown of a machine that has to be worked out: once for each, not for each answer."""

    gpu_name: str | None
    gpu_count: str | None
    gpu_vram_gib: int | float | None
    nvlink: bool | None
    memory_gib: str | None


@lru_cache(maxsize=_KEPT)
def _machine_words(machine: Machine) -> _MachineWords:
    return _MachineWords(
        _gpu_name(machine),
        _text(machine.gpu_count),
        figure(measures.vram_gib(machine)),
        measures.nvlink(machine),
        _text(measures.memory_gib(machine)),
    )


time_text = lru_cache(maxsize=_KEPT)(instants.time_text)
"""As `catalog.instants` writes it."""


def time_or_none(at: datetime | None) -> str | None:
    """The time, if there is one."""
    return None if at is None else time_text(at)


def figure(number: Fraction | None) -> int | float | None:
    """A figure that is not money, as a JSON number of at most two decimals."""
    if number is None:
        return None
    return int(number) if number.denominator == 1 else float(round(number, 2))


def _job_nanos(offer: Offer, asked: Asked) -> int | None:
    job, context = asked.spec.job, asked.context
    return None if job is None else JobCosts(job, asked.spec.currency, context.rates).nanos(offer)


@lru_cache(maxsize=_KEPT)
def _billing(provider: str, purchase: Purchase) -> Billing | None:
    billing = billing_of(provider, purchase)
    return None if billing is None else Billing(billing.increment_s, billing.minimum_s)


def _match_or_none(match: Match | None, asked: Asked) -> OfferShape | None:
    return None if match is None else match_shape(match, asked)


def _miss(miss: Miss, asked: Asked) -> MissShape:
    return MissShape(offer_shape(miss.offer, miss.nanos, None, asked), [str(reason) for reason in miss.reasons])


def _fix(fix: Fix, asked: Asked) -> FixShape:
    return FixShape(fix.change.parameter, fix.change.value, match_shape(fix.match, replace(asked, spec=fix.spec)))


def _tier(tier: Tier) -> TierShape:
    return TierShape(
        tier=tier.tier,
        regions=list(tier.regions),
        matching=tier.matching,
        confirmed=tier.confirmed,
        out=tier.out,
        unknown=tier.unknown,
        stale=tier.stale,
        passed_over=tier.passed_over and tier.passed_over.value,
        estimated_rtt_ms=None if tier.nearness is None else estimated_rtt_ms(tier.nearness.distance_m),
        estimate=None if tier.nearness is None else _estimate(tier.nearness),
    )


def _estimate(near: Nearness) -> EstimateShape:
    return EstimateShape(
        rtt_ms=estimated_rtt_ms(near.distance_m),
        distance_km=None if near.distance_m is None else round(near.distance_m / 1000),
        origin=None if near.origin is None else ":".join(near.origin),
        formula=FORMULA,
    )


def _fx(rate: Rate) -> FxShape:
    return FxShape(f"{rate.base}/{rate.quote}", format(rate.rate, "f"), rate.date.isoformat(), rate.source)


def _native(price: PriceNow, now: datetime) -> NativePrice:
    amount = _exact(price.nanos)
    upfront = price.upfront_nanos
    return NativePrice(
        amount=amount,
        list_amount=amount if price.list_nanos is None else _exact(price.list_nanos),
        currency=price.currency,
        upfront=None if upfront is None else _upfront(upfront, price),
        observed_at=time_text(price.seen_at),
        age_s=age_s(price.seen_at, now),
        stale=price.stale(now),
        source=price.source,
        estimated=price.estimated,
    )


def _upfront(nanos: int, price: PriceNow) -> Upfront:
    return Upfront(nanos_text(nanos), price.term_months, figure(None if price.window is None else price.window.hours))


def _window(window: Window | None) -> WindowShape | None:
    return None if window is None else WindowShape(time_text(window.starts_at), time_text(window.ends_at))


def _stock(offer: Offer, now: datetime, max_age: timedelta | None) -> StockShape:
    stock = offer.stock_at(now)
    return StockShape(
        level=stock.level.value,
        evidence=stock.evidence.value,
        confirmed=offer.confirmed(now, max_age),
        detail=stock.detail or None,
        score=stock.score,
        quantity=stock.quantity,
        observed_at=time_text(stock.seen_at),
        age_s=age_s(stock.seen_at, now),
        stale=stock.stale(now, max_age),
    )


_exact = lru_cache(maxsize=_KEPT)(nanos_text)


def _gpu_name(machine: Machine) -> str | None:
    """The provider's own spelling; the model's name where it has none."""
    row = measures.accelerator_of(machine)
    return machine.gpu_raw or (None if row is None else row.name)


@lru_cache(maxsize=_KEPT)
def _per_gpu(nanos: int | None, count: Fraction | None) -> int | None:
    return round(nanos / count) if nanos is not None and count else None


@lru_cache(maxsize=_KEPT)
def _money(nanos: int | None) -> str | None:
    return money_text(nanos, SHOWN_DECIMALS) if nanos else None


def _text(number: Fraction | None) -> str | None:
    return None if number is None else number_text(number)
