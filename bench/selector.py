"""How long the selector takes for a question, by the number of offers; and gpuhunt for the same questions.

No response is kept anywhere: each question is ranked anew. The questions are those of questions.txt, understood before
the clock runs. Neither side waits for anything, so the clock is the process's own processor time, which is what passes
where nobody else wants the processor. gpuhunt is asked for what it can express (no places, no stock), of the same
on-demand and spot offers.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from api.collecting import Sparing
from bench.offers import NOW, Market, market
from bench.rounds import no_collection, percentile, processor_seconds_of
from bench.table import Line, at_least, figure_at_most, skipped
from catalog.accelerators import accelerators
from catalog.fx import Rates, ecb_rates
from catalog.money import NANOS
from catalog.offers import Offer
from catalog.spec import Spec
from catalog.units import MIB_PER_GIB
from catalog.words import Purchase
from selector.context import Context
from selector.index import Index
from selector.question import World, asking, understand
from selector.rank import Asking, rank

NAME = "selector"
SIZES = (10_000, 100_000, 1_000_000)
COMPARED_AT = 100_000
PASSES = 5
COMPARED_PASSES = 3
ENOUGH_S = 20.0
"""No further pass is begun after so long."""


def lines(*, quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    for size in SIZES[:1] if quick else SIZES:
        with no_collection():
            sold = market(size)
            offers = {key: [sale.offer() for sale in sales] for key, sales in sold.items()}
            index = filled(offers)
        context = Context(now=NOW, rates=index.rates)
        asked = list(understood(index, sold))
        yield from _ours(size, index, asked, context)
        if quick or size == COMPARED_AT:
            yield from _beside_gpuhunt(size, offers, index, asked, context)


def questions() -> list[str]:
    """The stored questions, query strings as people write them."""
    return files("bench").joinpath("questions.txt").read_text(encoding="utf-8").split()


def filled(offers: Mapping[tuple[str, str], Sequence[Offer]]) -> Index:
    """An index with these offers."""
    index, sparing = Index(ecb_rates()), Sparing()
    for key, some in offers.items():
        index.replace(key, some)
    sparing.replaced(len(index), len(index))  # as the server does
    return index


class Question(NamedTuple):
    """A stored question as it is understood, and what understands it changed."""

    spec: Spec
    asking: Asking


def understood(index: Index, sold: Market) -> Iterator[Question]:
    """The stored questions, in a world where all the market's providers are in use."""
    world = World(
        providers=frozenset(provider for provider, _ in sold),
        regions=index.regions(),
        zones=index.zones(),
        countries=index.countries(),
        machines=index.machines(),
        currencies=ecb_rates().currencies(),
    )
    for question in questions():
        params = parse_qs(question)
        yield Question(understand(params, world, {}, endpoint="cheapest"), asking(params, world, {}))


def _ours(size: int, index: Index, asked: Sequence[Question], context: Context) -> Iterator[Line]:
    first = [_seconds(index, each, context) for each in asked]
    passes = list(_passes(index, asked, context))
    typical = [median(of_spec) for of_spec in zip(*passes, strict=True)]
    nothing = sum(rank(index, spec, context, changed).best is None for spec, changed in asked)
    held = figure_at_most(20, "ms") if size == max(SIZES) else None
    about = f"{len(asked)} questions, {nothing} of them without an answer"
    named = [seconds for seconds, each in zip(typical, asked, strict=True) if each.spec.gpus is not None]
    yield _ms(f"selector, {size:,} offers, p50", percentile(typical, 50), note=about)
    yield _ms(f"selector, {size:,} offers, p99", percentile(typical, 99), limit=held)
    yield _ms(f"selector, {size:,} offers, p99 of {len(named)}", percentile(named, 99), note="that name an accelerator")
    yield _ms(f"selector, {size:,} offers, slowest", max(max(one) for one in passes), note="of all passes")
    yield _ms(f"selector, {size:,} offers, slowest first time", max(first), note="with what is put in order once")


def _passes(index: Index, asked: Sequence[Question], context: Context) -> Iterator[list[float]]:
    """The seconds of each question, pass after pass."""
    end = time.perf_counter() + ENOUGH_S
    for number in range(PASSES):
        if number and time.perf_counter() > end:
            return
        yield [_seconds(index, each, context) for each in asked]


def _seconds(index: Index, each: Question, context: Context) -> float:
    return processor_seconds_of(partial(rank, index, each.spec, context, each.asking))


def _ms(name: str, seconds: float, **more: Any) -> Line:
    return Line(name=name, figure=seconds * 1000, unit="ms", **more)


def _beside_gpuhunt(
    size: int,
    offers: Mapping[tuple[str, str], Sequence[Offer]],
    index: Index,
    asked: Sequence[Question],
    context: Context,
) -> Iterator[Line]:
    name = f"selector beside gpuhunt, {size:,} offers"
    if find_spec("gpuhunt") is None:
        yield skipped(name, "gpuhunt is not installed")
        return
    with no_collection():
        catalog = gpuhunt_catalog((offer for some in offers.values() for offer in some), index.rates)
    both = [(each, terms) for each in asked if (terms := gpuhunt_terms(each.spec)) is not None]
    # Pass by pass, as every bench goes in turns: question by question, ours would be told after each tenth of a second
    # of theirs how long the processor's caches take to fill. The same passes and the same median for both.
    passes = [
        (
            [processor_seconds_of(partial(catalog.query, **terms)) for _, terms in both],
            [_seconds(index, each, context) for each, _ in both],
        )
        for _ in range(COMPARED_PASSES)
    ]
    theirs = [median(of_spec) for of_spec in zip(*(one for one, _ in passes), strict=True)]
    ours = [median(of_spec) for of_spec in zip(*(one for _, one in passes), strict=True)]
    yield Line(
        name=name,
        figure=len(asked) / sum(ours),
        unit="questions/s",
        peer="gpuhunt's query",
        peer_figure=len(asked) / sum(theirs),
        limit=at_least(50),
        note=f"{len(asked)} questions that both understand",
    )
    yield Line(
        name=f"{name}, the middle one",
        figure=1 / median(ours),
        unit="questions/s",
        peer="gpuhunt's query",
        peer_figure=1 / median(theirs),
    )


GPUHUNT_NAMES = {
    **{name: name for name in ("aws", "azure", "gcp", "verda", "nebius", "oci", "runpod")},
    "lambda": "lambdalabs",
}
"""Providers that gpuhunt has a catalogue of. Offers of all others stand in the one of `OTHERS`."""
OTHERS = "cloudrift"
GPUHUNT_PURCHASES = {Purchase.ON_DEMAND: False, Purchase.SPOT: True}


def gpuhunt_catalog(offers: Iterator[Offer], rates: Rates) -> Any:
    """The on-demand and spot offers as a catalogue that gpuhunt holds in memory, as after a download."""
    inside = import_module("gpuhunt._internal.catalog")
    items: dict[str, list[Any]] = {name: [] for name in inside.OFFLINE_PROVIDERS}
    for offer in offers:
        if offer.purchase in GPUHUNT_PURCHASES:
            items[GPUHUNT_NAMES.get(offer.place.provider, OTHERS)].append(_item(offer, rates))
    catalog = inside.Catalog(balance_resources=False, auto_reload=False)
    for name, of_provider in items.items():
        catalog.catalog[name] = inside.ProviderCatalog("bench", sorted(of_provider, key=lambda item: item.price))
    catalog.loaded_at = time.monotonic()
    return catalog


def _item(offer: Offer, rates: Rates) -> Any:
    gpuhunt = import_module("gpuhunt")
    machine, price = offer.machine, offer.price
    row = accelerators()[machine.gpu or ""]
    nanos = None if price is None else rates.convert_nanos(price.nanos, price.currency, "USD")
    vendors = {vendor.value: vendor for vendor in gpuhunt.AcceleratorVendor}
    return gpuhunt.CatalogItem(
        provider=GPUHUNT_NAMES.get(offer.place.provider, OTHERS),
        instance_name=machine.instance_type,
        location=offer.place.zone or offer.place.region,
        price=(nanos or 0) / NANOS,
        cpu=machine.vcpus or 0,
        memory=(machine.memory_mib or 0) / MIB_PER_GIB,
        gpu_count=int(machine.gpu_count or 0),
        gpu_name=machine.gpu,
        gpu_memory=None if row.vram_mib is None else row.vram_mib / MIB_PER_GIB,
        spot=GPUHUNT_PURCHASES[offer.purchase],
        disk_size=None,
        # its list of vendors is short, and a vendor must be named: another's stands for one that it lacks
        gpu_vendor=vendors.get(row.vendor, gpuhunt.AcceleratorVendor.TENSTORRENT),
    )


def gpuhunt_terms(spec: Spec) -> dict[str, Any] | None:
    """What gpuhunt is asked for a spec; None where it cannot express that."""
    providers = {GPUHUNT_NAMES.get(name, OTHERS) for name in spec.providers or ()}
    if not _expressible(spec) or OTHERS in providers:
        return None
    count, (purchase,) = spec.counts[0], spec.purchases or (Purchase.MONTH,)
    return {
        "provider": sorted(providers) or None,
        "gpu_name": None if spec.gpus is None else sorted(spec.gpus),
        "min_gpu_count": int(count.low),
        "max_gpu_count": None if count.high is None else int(count.high),
        "min_gpu_memory": _gib(spec.min_vram_mib),
        "min_total_gpu_memory": _gib(spec.min_total_vram_mib),
        "min_cpu": None if spec.min_vcpus is None else int(spec.min_vcpus),
        "min_memory": _gib(spec.min_memory_mib),
        "max_price": None if spec.max_price_nanos is None else spec.max_price_nanos / NANOS,
        "spot": GPUHUNT_PURCHASES[purchase],
    }


_ASKED_NOTHING: dict[str, Any] = {
    "gpus": None, "gpu_names": (), "counts": (), "min_vram_mib": None, "min_total_vram_mib": None, "providers": None,
    "min_vcpus": None, "min_memory_mib": None, "max_price_nanos": None, "purchases": None, "limit": 5,
}  # fmt: skip


def _expressible(spec: Spec) -> bool:
    """Whether nothing is asked beside what gpuhunt has a filter for; how many are shown does not matter to it."""
    rest = replace(spec, **_ASKED_NOTHING)
    sold_so = spec.purchases is not None and len(spec.purchases) == 1 and spec.purchases <= GPUHUNT_PURCHASES.keys()
    return sold_so and len(spec.counts) == 1 and rest == Spec(hosting=spec.hosting)


def _gib(mib: Any) -> float | None:
    return None if mib is None else float(mib / MIB_PER_GIB)
