"""The SKUs of Google's price list, read: what part of a machine each prices, under which purchase. Pure.

A SKU says what it is in its description alone, and nearly the same one is there for sole tenancy, custom machines,
suspended ones and reservations: one is taken where its whole description is understood, and left out otherwise.
Descriptions: gpuhunt, SkyPilot's catalogue, Cyclenerd's mapping.csv, 2026.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from catalog.facts import Note
from catalog.money import HOURS_PER_MONTH
from catalog.units import MIB_PER_GIB
from catalog.words import Purchase
from collectors.gcp_machine import Shape, family, series
from collectors.reading import Record

CURRENCY = "USD"
USAGES = {
    "OnDemand": Purchase.ON_DEMAND,
    "Preemptible": Purchase.SPOT,
    "Commit1Yr": Purchase.RESERVED_1Y,
    "Commit3Yr": Purchase.RESERVED_3Y,
}
COMMITMENTS = frozenset({Purchase.RESERVED_1Y, Purchase.RESERVED_3Y})
NANOS_PER_UNIT = 10**9
CORE, RAM, GPU, SSD, SLICE = "core", "ram", "gpu", "local ssd", "gpu slice"
UNITS = {CORE: "h", RAM: "GiBy.h", GPU: "h", SSD: "GiBy.mo", SLICE: "h"}

_RELEVANT = re.compile(
    r"Instance (Core|Ram)\b|GPU|\bRTX\b|Local Storage|Local SSD|^Commitment v1: .*\b(Cpu|Ram)\b", re.IGNORECASE
)
_CORES = re.compile(r"(?:(.*) )?Instance (?:Core|Ram)\b|Commitment v1: (?:(.*) )?(?:Cpu|Ram)\b", re.IGNORECASE)
"""Cores and memory, after the words that name whose they are."""
_OTHER = re.compile(
    r"Sole.?Tenancy|Reserved|Premium|Custom|suspended|Upgrade|Virtual Workstation|Extended|Confidential|preserved"
    r"|DWS Defined|DWS Flex|Windows|Licens",
    re.IGNORECASE,
)
"""What makes a SKU another product, though the rest of its description is the same."""
_SOLD = r"(?:Spot Preemptible |DWS Calendar Mode |Commitment v1: )?"
_WHERE = r"(?: running)?(?: in .+)?"
_SPOT = r"(?: attached to (?:Spot )?Preemptible VMs)?"
_TERM = r"(?: in .+)? for [13] Years?"
_GRAMMAR = (
    (CORE, rf"(?:Spot Preemptible )?(?P<family>\S+(?: Predefined)?) Instance Core{_WHERE}"),
    (RAM, rf"(?:Spot Preemptible )?(?P<family>\S+(?: Predefined)?) Instance Ram{_WHERE}"),
    (SLICE, rf"{_SOLD}(?P<family>\S+) (?P<gpu>.+) \(1 gpu slice\)(?:{_TERM}|{_WHERE})"),
    (SSD, rf"SSD backed Local Storage{_SPOT}{_WHERE}"),
    (SSD, rf"Commitment v1: Local SSD{_TERM}"),
    (CORE, rf"Commitment v1: (?:(?P<family>\S+) )?Cpu{_TERM}"),
    (RAM, rf"Commitment v1: (?:(?P<family>\S+) )?Ram{_TERM}"),
    (GPU, rf"(?:Commitment v1: )?(?P<gpu>.+?) GPU{_SPOT}(?: running)?(?:{_TERM}| in .+)?"),
    (GPU, rf"(?:Commitment v1: )?(?P<gpu>(?:Nvidia )?RTX .+?){_SPOT}(?: running)?(?:{_TERM}| in .+)?"),
)  # fmt: skip
GRAMMAR = tuple((part, re.compile(pattern, re.IGNORECASE)) for part, pattern in _GRAMMAR)
"""The first that a whole description fits says what it prices."""

_OWN_SKUS = {
    "a3-highgpu": "a3",
    "a3-megagpu": "a3plus",
    "a3-ultragpu": "a3ultra",
    "a4x-highgpu": "a4x",
    "a4x-maxgpu": "a4xmax",
}
"""Machine families of one series whose cores have SKUs of their own. Others go by their series: `A2 Instance Core`."""
_SAME_FAMILY = {"n1 predefined": "n1", "": "n1", "a3mega": "a3plus"}
"""A commitment to N1 names no family: it was the only one."""
_SAME_WORD = {"plus": "mega"}
"""`H100 80GB Plus` and `H100 80GB Mega` are one card; which it is called depends on the region."""
_NO_WORDS = frozenset({"nvidia", "tesla", "gpu"})

Key = tuple[Purchase, str, str]
"""Purchase, part, and whose: a family's, an accelerator's, or "" for the SSD that all share."""


def is_relevant(description: object) -> bool:
    """Whether a description may price a part of a machine: a byte test, which lets far too much through."""
    return isinstance(description, str) and _RELEVANT.search(description) is not None


def core_families(names: Iterable[str]) -> frozenset[str]:
    """Whose cores and memory machines of these names may have."""
    of_series = {series(name) for name in names}
    return frozenset(of_series | {own for other, own in _OWN_SKUS.items() if series(other) in of_series})


def is_of_others(description: str, families: frozenset[str]) -> bool:
    """Whether it prices cores or memory, and none of these families': most SKUs of Compute Engine do."""
    found = _CORES.match(description)
    if found is None:
        return False
    words = (found[1] or found[2] or "n1").casefold().split()
    return families.isdisjoint(_SAME_FAMILY.get(word, word) for word in words)


@dataclass(frozen=True, slots=True)
class Sku:
    """A part's price in USD: for an hour, for a GiB and hour, or for a GiB and month."""

    key: Key
    amount: Fraction
    effective: str
    """Since when, as Google writes it; "" where it is not said."""


def sku_of(record: Record, region: str) -> Iterator[Sku | Note]:
    """What a SKU states: a Sku, or a note that it is left out; then notes on fields that are not known."""
    description, category = record.text("description"), record.record("category")
    usage, kind = category.text("usageType"), category.text("resourceFamily")
    regions, infos = record.items("serviceRegions"), record.list_or_none("pricingInfo") or []
    key = _key(description, usage)
    if region not in regions:
        yield Note("sku_of_another_region", region, record=True)
    elif key is None or kind not in ("Compute", "Storage"):
        yield Note("another_product", _why(description, usage), record=True)
    else:
        yield _priced(key, [record.inside(one, "pricingInfo") for one in infos])
    yield from record.leftovers(frozenset({"name", "skuId", "serviceProviderName", "geoTaxonomy"}))


def _why(description: str, usage: str) -> str:
    """In what a SKU differs: the word, where it is one that is known to; the usage, where that is not."""
    if found := _OTHER.search(description):
        return found[0].lower()
    return "description not understood" if usage in USAGES else f"usageType {usage}"


def _key(description: str, usage: str) -> Key | None:
    """What is priced. The description decides on spot too: Google calls some spot SKUs of SSD `OnDemand`."""
    purchase = USAGES.get(usage)
    said = description.casefold()
    if purchase is None or _OTHER.search(description):
        return None
    if (purchase in COMMITMENTS) is not said.startswith("commitment"):
        return None
    if said.startswith("dws calendar mode"):
        purchase = Purchase.CAPACITY_BLOCK if purchase is Purchase.ON_DEMAND else None
    elif "preemptible" in said:
        purchase = Purchase.SPOT if purchase in (Purchase.SPOT, Purchase.ON_DEMAND) else None
    return None if purchase is None else _part(description, purchase)


def _part(description: str, purchase: Purchase) -> Key | None:
    for part, pattern in GRAMMAR:
        if found := pattern.fullmatch(description.strip()):
            named = found.groupdict()
            name = (named.get("family") or "").casefold()
            whose = _SAME_FAMILY.get(name, name) if "family" in named else ""
            words = _words(named.get("gpu") or "", whole=part != SLICE)
            return purchase, part, f"{whose} {words}".strip()
    return None


def _words(name: str, *, whole: bool) -> str:
    """An accelerator's name, however it is written. A slice's is told by its family, and leaves the memory out."""
    words = {_SAME_WORD.get(word, word) for word in re.split(r"[\s_-]+", name.casefold())} - _NO_WORDS
    if "rtx" in words:
        words -= {"pro", "96gb"}
    kept = words if whole else {word for word in words if not re.fullmatch(r"\d+gb", word)}
    return " ".join(sorted(filter(None, kept)))


def _priced(key: Key, infos: Sequence[Record]) -> Sku | Note:
    """The rate that is in force: of several the latest, where all say since when."""
    what = " ".join(key)
    told = [(info.text_or_none("effectiveTime") or "", info.record_or_none("pricingExpression")) for info in infos]
    if not told:
        return Note("no_price", what, record=True)
    if len(told) > 1 and (not all(at for at, _ in told) or len({at for at, _ in told}) < len(told)):
        return Note("ambiguous_price", what, record=True)
    effective, expression = max(told, key=lambda one: one[0])
    unit = expression.text_or_none("usageUnit") if expression else None
    if expression is None or unit != UNITS[key[1]]:
        return Note("unknown_unit", f"{what}: {unit}", record=True)
    rate = _rate(expression)
    return Note(rate, what, record=True) if isinstance(rate, str) else Sku(key, rate, effective)


def _rate(expression: Record) -> Fraction | str:
    """The first rate above 0, as a first tier may be free; else the kind of note that says why there is none."""
    for value in expression.list_or_none("tieredRates") or ():
        money = expression.inside(value, "tieredRates").record_or_none("unitPrice")
        amount = _amount(money) if money else None
        if money is None or amount is None:
            return "no_price"
        if amount:
            stated = money.text_or_none("currencyCode")
            return "non_positive_price" if amount < 0 else amount if stated == CURRENCY else "unknown_currency"
    return "non_positive_price"


def _amount(money: Record) -> Fraction | None:
    """Whole units and nano-units together. Google's JSON may leave out one that is 0; without both it says nothing."""
    units, nanos = money.number_or_none("units"), money.number_or_none("nanos")
    if units is None and nanos is None:
        return None
    return Fraction(units or Decimal(0)) + Fraction(nanos or Decimal(0)) / NANOS_PER_UNIT


def one_for_each(skus: Iterable[Sku]) -> Iterator[tuple[Key, Sku] | Note]:
    """The SKU of each part. Of several with other prices the latest; where nothing says which that is, none."""
    by_key: dict[Key, list[Sku]] = {}
    for sku in skus:
        by_key.setdefault(sku.key, []).append(sku)
    for key, found in by_key.items():
        what = " ".join(key)
        latest = [one for one in found if one.effective == max(other.effective for other in found)]
        alike = len({one.amount for one in found}) == 1
        if alike or (len(latest) == 1 and all(one.effective for one in found)):
            yield key, latest[0]
            kind = "same_price_again" if alike else "superseded_price"
            yield from (Note(kind, what, record=True) for _ in found[1:])
        else:
            yield from (Note("ambiguous_price", what, record=True) for _ in found)


@dataclass(frozen=True, slots=True)
class Part:
    """So much of what a SKU prices."""

    key: Key
    quantity: Fraction


def slice_of(shape: Shape, purchase: Purchase) -> list[Part]:
    """The machine as slices, each a GPU with its share of all else; none where that cannot be said."""
    words = _words(shape.model, whole=False)
    if not (shape.gpu_count and words):
        return []
    return [Part((purchase, SLICE, f"{_family(shape)} {words}"), shape.gpu_count)]


def parts_of(shape: Shape, purchase: Purchase) -> list[Part]:
    """All parts of the machine; none where one of them is not known."""
    words, whose = _words(shape.model, whole=True), _family(shape)
    if None in (shape.vcpus, shape.memory_mib, shape.ssd_gib) or not (shape.gpu_count and words and whose):
        return []
    sizes = {
        (CORE, whose): Fraction(shape.vcpus or 0),
        (RAM, whose): Fraction(shape.memory_mib or 0, MIB_PER_GIB),
        (GPU, words): shape.gpu_count,
        (SSD, ""): (shape.ssd_gib or Fraction(0)) / HOURS_PER_MONTH,
    }
    return [Part((purchase, *named), size) for named, size in sizes.items() if size]


def _family(shape: Shape) -> str:
    """Whose cores and memory it has; "" where its series has several and this one is not known."""
    of_shape = family(shape.name)
    of_series = series(shape.name)
    if any(series(other) == of_series for other in _OWN_SKUS):
        return _OWN_SKUS.get(of_shape, "")
    return of_series
