"""Facts as rows: which table, which key, which values, and a hash that tells whether the values changed."""

import marshal
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from catalog.facts import Fact, Machine, Note, Offered, Price, Region, Stock, Zone
from catalog.words import Evidence, Hosting, Level, Purchase
from store.times import micros

Value = str | int | bool | None
Key = tuple[str, ...]
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A table of facts: the columns of its key (after the cell) and of its values."""

    table: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    rows: Callable[[Any], Sequence[tuple[Key, Row]]]
    """The rows that a fact of this kind states."""
    stamped: bool = True
    """Whether a row keeps the time it was last seen by itself."""
    firm: frozenset[str] = frozenset()
    """The values that two statements of one answer must agree in: where they do not, neither stands."""
    logged: tuple[str, ...] = ()
    """The values whose changes are history."""


# `_value_` below is the plain attribute behind an enum member's `value`, whose property takes as long as half a row.


def _region(fact: Region) -> Sequence[tuple[Key, Row]]:
    return (((fact.region,), (fact.name, fact.country, fact.enabled)),)


def _zone(fact: Zone) -> Sequence[tuple[Key, Row]]:
    return (((fact.region, fact.zone), (fact.zone_id,)),)


def _machine(fact: Machine) -> Sequence[tuple[Key, Row]]:
    values = (
        fact.gpu,
        None if fact.gpu_count is None else str(fact.gpu_count),
        fact.gpu_raw,
        fact.vram_mib,
        fact.vcpus,
        fact.memory_mib,
        fact.nvlink,
        fact.rdma,
        fact.bare_metal,
        fact.hosting._value_,
        fact.upstream,
        words_text(fact.purchases),
    )
    return (((fact.region, fact.instance_type), values),)


def _offered(fact: Offered) -> Sequence[tuple[Key, Row]]:
    return (((fact.region, zone_key(fact), fact.instance_type), (fact.zone, fact.zone_id)),)


def _price(fact: Price) -> Sequence[tuple[Key, Row]]:
    window = fact.window
    values = (
        fact.zone,
        fact.zone_id,
        fact.nanos,
        fact.currency,
        fact.source,
        fact.list_nanos,
        fact.upfront_nanos,
        fact.term_months,
        None if window is None else micros(window.starts_at),
        None if window is None else micros(window.ends_at),
        fact.estimated,
        None if fact.as_of is None else micros(fact.as_of),
    )
    return (((fact.region, zone_key(fact), fact.instance_type, fact.purchase._value_), values),)


def _stock(fact: Stock) -> Sequence[tuple[Key, Row]]:
    zone = zone_key(fact)
    said = (fact.zone, fact.zone_id, fact.level._value_, fact.evidence._value_, fact.detail, fact.score, fact.quantity)
    return [((fact.region, zone, fact.instance_type, purchase._value_), said) for purchase in fact.purchases]


REGIONS = Kind("regions", ("region",), ("name", "country", "enabled"), _region, stamped=False)
ZONES = Kind("zones", ("region", "zone"), ("zone_id",), _zone, stamped=False)
MACHINES = Kind(
    "machines",
    ("region", "instance_type"),
    (
        "gpu",
        "gpu_count",
        "gpu_raw",
        "vram_mib",
        "vcpus",
        "memory_mib",
        "nvlink",
        "rdma",
        "bare_metal",
        "hosting",
        "upstream",
        "purchases",
    ),
    _machine,
)
OFFERED = Kind("offered", ("region", "zone_key", "instance_type"), ("zone", "zone_id"), _offered)
PRICES = Kind(
    "prices",
    ("region", "zone_key", "instance_type", "purchase"),
    (
        "zone",
        "zone_id",
        "nanos",
        "currency",
        "source",
        "list_nanos",
        "upfront_nanos",
        "term_months",
        "window_starts_at",
        "window_ends_at",
        "estimated",
        "as_of",
    ),
    _price,
    firm=frozenset({"nanos", "currency", "upfront_nanos", "term_months", "window_starts_at", "window_ends_at"}),
    logged=("nanos", "currency"),
)
STOCKS = Kind(
    "stocks",
    ("region", "zone_key", "instance_type", "purchase"),
    ("zone", "zone_id", "level", "evidence", "detail", "score", "quantity"),
    _stock,
    firm=frozenset({"level", "evidence"}),
    logged=("level", "evidence"),
)
KIND_OF: Mapping[type[Fact], Kind] = {
    Region: REGIONS,
    Zone: ZONES,
    Machine: MACHINES,
    Offered: OFFERED,
    Price: PRICES,
    Stock: STOCKS,
}
KINDS = tuple(KIND_OF.values())


def zone_key(fact: Offered | Price | Stock) -> str:
    """What a zone is kept by: its id where the provider has ids, else its name; "" for the region itself."""
    return fact.zone_id or fact.zone or ""


def words_text(words: Iterable[Purchase]) -> str:
    """Purchases as one text column."""
    return ",".join(sorted(words))


def purchases_of(text: object) -> frozenset[Purchase]:
    """The purchases of such a column."""
    return frozenset(Purchase(word) for word in str(text).split(",") if word)


def fraction_of(text: str | None) -> Fraction | None:
    """The exact fraction of a column."""
    return None if text is None else Fraction(text)


def hash_of(values: Row) -> int:
    """A signed 64-bit hash of a row's values: unequal hashes mean changed values."""
    return _hash(marshal.dumps(values, _PLAIN))


_PLAIN = 2
"""The version of marshal's form that depends on the values alone: later ones also on which objects are shared. It is a
quarter of the time of JSON, and nothing is ever read back from it.
"""


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def series_of(key: Key) -> int:
    """The id, within its cell, of the history of a price or stock with this key."""
    return _hash("\0".join(key).encode())


@dataclass(frozen=True, slots=True)
class Sorted:
    """An answer's facts by table, each key once."""

    rows: dict[str, dict[Key, Row]]
    conflicts: Sequence[Note]

    @property
    def size(self) -> int:
        """How many rows the answer states."""
        return sum(len(rows) for rows in self.rows.values())

    @property
    def restrictions(self) -> int:
        """How many of those rows say what this account may have of a listed machine, which may change any day."""
        evidence = STOCKS.values.index("evidence")
        return sum(row[evidence] == Evidence.LISTED for row in self.rows[STOCKS.table].values())

    @property
    def offers(self) -> int:
        """How many offers it states a price or stock of; of a mere list, how many machines."""
        evidence, stocks = STOCKS.values.index("evidence"), self.rows[STOCKS.table]
        told = {key for key, row in stocks.items() if row[evidence] != Evidence.LISTED}
        return len(self.rows[PRICES.table].keys() | told) or len(self.rows[MACHINES.table]) or len(stocks)

    @property
    def digest(self) -> str:
        """Of all that the answer states, in the order in which it does: the same digest is the same answer."""
        return blake2b(marshal.dumps(dict(self.rows), _PLAIN), digest_size=16).hexdigest()

    @property
    def names_digest(self) -> str:
        """Of what the answer names, whatever it says of it."""
        names = sorted(f"{table}{key!r}" for table, rows in self.rows.items() for key in rows)
        return blake2b("\n".join(names).encode(), digest_size=16).hexdigest()


def sort_facts(facts: Iterable[Fact]) -> Sorted:
    """The facts by table and key. Two that contradict each other are never resolved by position.

    Of two statements of one thing the fuller stands, field by field, and a field that they contradict each other in is
    unknown. A contradicted price is left out and a contradicted stock level is unknown. Each contradiction is noted.
    """
    rows: dict[str, dict[Key, Row]] = {kind.table: {} for kind in KINDS}
    several: dict[tuple[str, Key], set[Row]] = {}
    for fact in facts:
        kind = KIND_OF[type(fact)]
        of_kind = rows[kind.table]
        for key, values in kind.rows(fact):
            known = of_kind.setdefault(key, values)
            if known is not values and known != values:
                several.setdefault((kind.table, key), {known}).add(values)
    return Sorted(rows, [note for kind in KINDS for note in _settle_contradictions(kind, rows[kind.table], several)])


def _settle_contradictions(
    kind: Kind, rows: dict[Key, Row], several: Mapping[tuple[str, Key], set[Row]]
) -> Iterator[Note]:
    for key in sorted(key for table, key in several if table == kind.table):
        columns = dict(zip(kind.values, zip(*several[kind.table, key], strict=True), strict=True))
        contradicted = {name for name, values in columns.items() if len(_stated(name, values)) > 1}
        if contradicted & kind.firm and kind is PRICES:
            del rows[key]
        else:
            rows[key] = tuple(_settled(kind, columns, contradicted).values())
        if contradicted:
            yield Note(
                f"contradicting_{kind.table}", f"{' '.join(filter(None, key))}: {', '.join(sorted(contradicted))}"
            )


_WIDE = frozenset({"nanos", "list_nanos", "upfront_nanos", "window_starts_at", "window_ends_at", "as_of"})
"""Columns of 64 bits; other numbers have 32."""


def storable(stated: Sorted) -> tuple[Sorted, list[Note]]:
    """What is stated as any database can hold it, with a note for each row that had to be changed: signs that cannot
    be written (a NUL, half a surrogate pair) are spelt out, and a number that there is no room for is unknown.

    Left out are a price that there is no room for, and a row whose key cannot be written, of which none was ever kept.
    No other row is: its silence would say that the machine is gone.
    """
    kept: dict[str, dict[Key, Row]] = {}
    notes = []
    for kind in KINDS:
        of_kind = stated.rows[kind.table]
        kept[kind.table] = dict(_held(kind, of_kind))
        changed = (key for key, values in of_kind.items() if kept[kind.table].get(key) != values)
        notes += [Note("unstorable", " ".join(filter(None, (kind.table, *key)))) for key in changed]
    return replace(stated, rows=kept), notes


def _held(kind: Kind, rows: Mapping[Key, Row]) -> Iterator[tuple[Key, Row]]:
    for key, values in rows.items():
        held = {name: _mended(name, value) for name, value in zip(kind.values, values, strict=True)}
        if not any(map(_UNWRITABLE.search, key)) and held.get("nanos", 0) is not None:
            yield key, tuple(held.values())


_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def written(text: str) -> str:
    """A text with what no database can hold spelt out."""
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _mended(name: str, value: Value) -> Value:
    if isinstance(value, str):
        return written(value)
    has_room = not isinstance(value, int) or abs(value) < (2**63 if name in _WIDE else 2**31)
    return value if has_room else None


def _stated(name: str, values: Iterable[Value]) -> set[Value]:
    """What is said for a column, silence aside. What adds up or is a mere remark contradicts nothing."""
    return set() if name in ("purchases", *REMARKS) else {value for value in values if value not in (None, "")}


REMARKS = ("source", "detail", "gpu_raw", "estimated")
"""Columns beside the matter: of two, the greater is shown."""


def _settled(kind: Kind, columns: Mapping[str, tuple[Value, ...]], contradicted: set[str]) -> dict[str, Value]:
    settled: dict[str, Value] = {name: None if name in contradicted else _one(v) for name, v in columns.items()}
    if kind is MACHINES:
        settled["purchases"] = words_text(purchase for text in columns["purchases"] for purchase in purchases_of(text))
        settled["hosting"] = settled["hosting"] or Hosting.COMMUNITY.value  # no promise of a data centre
        if settled["gpu"] and settled["gpu_count"] == "0":
            settled["gpu_count"] = None
    if kind is STOCKS and contradicted & kind.firm:
        said = {"level": Level.UNKNOWN.value, "evidence": Evidence.REPORTED.value, "detail": "contradicting answers"}
        settled |= said | {"score": None, "quantity": None}
    return settled


def _one(values: Iterable[Value]) -> Value:
    """The one thing stated, or the greatest of several remarks."""
    return max(values, key=lambda value: (value is not None, value not in (None, ""), str(value)))
