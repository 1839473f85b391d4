"""A pod of RunPod's as machine, prices and stock: what its two APIs state in words of their own, in ours."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from catalog.accelerators import accelerators, resolve_offer
from catalog.facts import Fact, Machine, Note, Price, Stock
from catalog.money import price_nanos
from catalog.units import MIB_PER_GIB
from catalog.words import Evidence, Hosting, Level, Purchase
from collectors.reading import whole_or_none

UNSTATED = ""
"""A stock status that is not stated. None is another thing: null is GraphQL's word for "none to be had"."""
PodPlace: TypeAlias = tuple[str, str | None, str | None]
"""Region, zone, and the stock status there."""

_HOSTING = {"secure": Hosting.DATACENTER, "community": Hosting.COMMUNITY}
_LEVELS = {"high": Level.IN_STOCK, "medium": Level.IN_STOCK, "low": Level.LOW, "none": Level.OUT}
_MIG = re.compile(r"\bMIG\b", re.IGNORECASE)
_MIG_PROFILE = re.compile(r"(?P<whole>.+?) MIG \d+g\.(?P<gib>\d{1,4})gb", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pod:
    """So many GPUs of a type in a cloud, with the terms that an answer states for them."""

    gpu_type: str
    count: int
    cloud: str
    memory_gib: int | None
    is_sold: bool | None
    max_count: int | None
    usd_per_gpu: Mapping[Purchase, Decimal | None]
    source: str

    @property
    def instance_type(self) -> str:
        """The machine's name."""
        return f"{self.count}x {self.gpu_type} {self.cloud}"

    def left_out(self) -> Note | None:
        """Why this is no machine, where it is none. A cloud that is neither stated nor priced does not sell it."""
        priced = price_nanos(self.usd_per_gpu[Purchase.ON_DEMAND]) is not None
        if self.gpu_type.casefold() == "unknown":
            return Note("unknown_type", self.gpu_type, record=True)
        if not (priced if self.is_sold is None else self.is_sold):
            return Note(f"not_{self.cloud}", self.gpu_type, record=True)
        if self.max_count is not None and self.max_count < self.count:
            return Note("above_max_gpu_count", self.instance_type, record=True)
        return None


def pod_facts(pod: Pod, places: list[PodPlace], purchases: tuple[Purchase, ...]) -> Iterator[Fact | Note]:
    """Prices and stock for these purchases; with on demand the machine too, which has stock even without a price."""
    if note := pod.left_out():
        yield note
        return
    if Purchase.ON_DEMAND in purchases:
        yield from _machines(pod, sorted({region for region, _zone, _word in places}))
    for purchase in purchases:
        nanos = _nanos(pod, purchase)
        if nanos is None:
            yield _unpriced(pod, purchase, record=purchases == (Purchase.SPOT,))
        if nanos is not None or purchase is Purchase.ON_DEMAND:
            yield from _offers(pod, places, purchase, nanos)
    words = {word or "not stated" for _region, _zone, word in places if level_of(word) is Level.UNKNOWN}
    yield from (Note("unknown_stock_status", word) for word in sorted(words))


def level_of(word: str | None) -> Level:
    """The level of a stock status in any case; unknown for a word that is not known."""
    return Level.OUT if word is None else _LEVELS.get(word.strip().casefold(), Level.UNKNOWN)


def _nanos(pod: Pod, purchase: Purchase) -> int | None:
    """The whole pod's price: RunPod states one GPU's."""
    usd_per_gpu = pod.usd_per_gpu[purchase]
    return None if usd_per_gpu is None else price_nanos(usd_per_gpu * pod.count)


def _unpriced(pod: Pod, purchase: Purchase, *, record: bool) -> Note:
    kind = "no_price" if pod.usd_per_gpu[purchase] is None else "non_positive_price"
    return Note(kind, f"{pod.instance_type} {purchase}", record=record)


def _offers(pod: Pod, places: list[PodPlace], purchase: Purchase, nanos: int | None) -> Iterator[Fact]:
    """Spot is served from the same free GPUs, so that the status holds for it too."""
    machine, bought = pod.instance_type, frozenset({purchase})
    for region, zone, word in places:
        if nanos is not None:
            yield Price(
                region=region,
                zone=zone,
                instance_type=machine,
                purchase=purchase,
                nanos=nanos,
                currency="USD",
                source=pod.source,
            )
        yield Stock(
            region=region,
            zone=zone,
            instance_type=machine,
            purchases=bought,
            level=level_of(word),
            evidence=Evidence.REPORTED,
            detail="null" if word is None else word,
        )


def _machines(pod: Pod, regions: Iterable[str]) -> Iterator[Fact | Note]:
    """Several slices are no larger part of one GPU: their count is unknown, so that four quarters are never a whole."""
    gpu, share, vram_mib = _model(pod)
    count = pod.count * share if share is not None and (share == 1 or pod.count == 1) else None
    for region in regions:
        yield Machine(
            region=region,
            instance_type=pod.instance_type,
            gpu=gpu,
            gpu_count=count,
            gpu_raw=pod.gpu_type,
            vram_mib=vram_mib,
            hosting=_HOSTING[pod.cloud],
        )
    if gpu is None:
        yield Note("unknown_gpu", pod.gpu_type)
    if count is None:
        yield Note("unknown_gpu_count", pod.instance_type)


def _model(pod: Pod) -> tuple[str | None, Fraction | None, int | None]:
    """The accelerator, what part of one each GPU of the pod is, and that part's memory in MiB."""
    stated_mib = None if pod.memory_gib is None else whole_or_none(Decimal(pod.memory_gib * MIB_PER_GIB))
    if _MIG.search(pod.gpu_type):
        return _slice(pod.gpu_type, stated_mib)
    gpu = resolve_offer(pod.gpu_type, provider="runpod", vram_mib=stated_mib)
    return gpu, Fraction(1), stated_mib or (accelerators()[gpu].vram_mib if gpu else None)


def _slice(gpu_type: str, stated_mib: int | None) -> tuple[str | None, Fraction | None, int | None]:
    """A MIG slice: a part by memory, where the model and its profile are known and agree with the memory stated."""
    profile = _MIG_PROFILE.fullmatch(gpu_type)
    gpu = resolve_offer(profile["whole"], provider="runpod") if profile else None
    if profile is None or gpu is None:
        return None, None, stated_mib
    mib, whole_mib = int(profile["gib"]) * MIB_PER_GIB, accelerators()[gpu].vram_mib
    if whole_mib is None or not 0 < mib < whole_mib or stated_mib not in (None, mib):
        return gpu, None, stated_mib
    return gpu, Fraction(mib, whole_mib), mib
