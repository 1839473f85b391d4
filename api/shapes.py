"""The answers' JSON, field by field in order. What is published here keeps its names; the OpenAPI schemas come from it.

Money is a decimal string without exponent, per whole machine and hour unless the name says otherwise. Times are
RFC 3339 in UTC with `Z`; ages are whole seconds. Null is what is not known, or does not apply.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

FeedState = Annotated[str, Meta(extra_json_schema={"enum": ["ok", "stale", "failing", "off"]})]


class Upfront(Struct, frozen=True):
    """What a prepaid term of so many months, or a window of so many hours, costs at once."""

    amount: str
    months: int | None
    hours: int | float | None


class WindowShape(Struct, frozen=True):
    """The time that an offer is for, to be booked before it begins."""

    start: str = field(name="from")
    until: str = field(name="to")


class NativePrice(Struct, frozen=True):
    """The price as its provider states it, exact; `list_amount` is before discounts."""

    amount: str
    list_amount: str
    currency: str
    upfront: Upfront | None
    observed_at: str
    age_s: int
    stale: bool
    source: str
    estimated: bool


class Billing(Struct, frozen=True):
    """How a provider rounds up what was used."""

    increment_s: int
    minimum_s: int


class StockShape(Struct, frozen=True):
    """The stock level that counts now, and why it is believed."""

    level: Literal["in_stock", "low", "unknown", "out"]
    evidence: Literal["observed", "reported", "scored", "listed", "snapshot"]
    confirmed: bool
    detail: str | None
    score: str | None
    quantity: int | None
    observed_at: str
    age_s: int
    stale: bool


class OfferShape(Struct, frozen=True):
    """OFFER: a machine at the finest place known, under one purchase, with its price and stock."""

    provider: str
    account: bool
    site: str | None
    upstream: str | None
    hosting: Literal["datacenter", "community"]
    region: str
    region_name: str | None
    country: str | None
    mainland_china: bool | None
    zone: str | None
    zone_id: str | None
    instance_type: str
    gpu: str | None
    gpu_name: str | None
    gpu_count: str | None
    gpu_vram_gib: int | float | None
    nvlink: bool | None
    vcpus: int | None
    memory_gib: str | None
    purchase: Literal[
        "on_demand", "spot", "month", "reserved_1y", "reserved_3y", "savings_1y", "savings_3y", "capacity_block"
    ]
    native_price: NativePrice | None
    price_per_hour: str | None
    price_per_gpu_hour: str | None
    currency: str
    job_cost: str | None
    billing: Billing | None
    stock: StockShape
    tier: int | None
    window: WindowShape | None


class EstimateShape(Struct, frozen=True):
    """How far the region that `fallback=auto` found is from the nearest primary one, `from`; null: not known."""

    rtt_ms: int | None
    distance_km: int | None
    origin: str | None = field(name="from")
    formula: str


class TierShape(Struct, frozen=True):
    """A tier's offers that meet every demand but those on stock; tier 0 holds the primary places."""

    tier: int
    regions: list[str]
    matching: int
    confirmed: int
    out: int
    unknown: int
    stale: int
    passed_over: str | None
    estimated_rtt_ms: int | None
    estimate: EstimateShape | None


class FixShape(Struct, frozen=True):
    """The one change of the question that gives the cheapest answer per GPU. `value` null: leave it out."""

    parameter: str
    value: str | None
    offer: OfferShape


class MissShape(Struct, frozen=True):
    """An offer that is not the answer, and every reason why."""

    offer: OfferShape
    reasons: list[str]


class SourceShape(Struct, frozen=True):
    """A feed and how it does; `last_success` is the oldest of its places' last whole answers."""

    provider: str
    feed: str
    last_success: str | None
    age_s: int | None
    status: FeedState
    error: str | None


class FxShape(Struct, frozen=True):
    """A rate that prices were converted at: CNY/USD 0.14 is 0.14 USD for 1 CNY."""

    pair: str
    rate: str
    date: str
    source: str


class CheapestShape(Struct, frozen=True):
    """The answer of `/cheapest`."""

    verdict: Literal[
        "confirmed",
        "unconfirmed",
        "out_of_stock",
        "stale",
        "too_dear",
        "not_offered_here",
        "no_such_machine",
        "no_source",
    ]
    message: str
    best: OfferShape | None
    unconfirmed: OfferShape | None
    alternatives: list[OfferShape]
    query: dict[str, Any]
    fallback_used: bool
    tiers: list[TierShape]
    rejected: dict[str, int]
    nearest_misses: list[MissShape]
    fix: FixShape | None
    sources: list[SourceShape]
    fx: list[FxShape]
    as_of: str


class OffersShape(Struct, frozen=True):
    """A page of offers; `total` counts all that meet the question, `next` is the next page's URL."""

    items: list[OfferShape]
    total: int
    next: str | None


class GpuShape(Struct, frozen=True):
    """An accelerator: what it is called, what it has, how many offers have it, and the cheapest per GPU now."""

    id: str
    group: str
    family: str
    vendor: str
    architecture: str
    name: str
    kind: str
    form: str | None
    unstated: list[str]
    vram_gib: int | float | None
    bandwidth_gbs: int | None
    fp16_dense_tflops: str | None
    fp8_dense_tflops: str | None
    nvlink: bool | None
    mig_max: int | None
    export_sku: str | None
    aliases: list[str]
    offers: int
    cheapest: OfferShape | None


class GpusShape(Struct, frozen=True):
    """The answer of `/gpus`."""

    items: list[GpuShape]


class RegionShape(Struct, frozen=True):
    """A region that is polled or that the table of places knows, its zones with offers, and how many offers it has."""

    provider: str
    region: str
    region_name: str | None
    country: str | None
    mainland_china: bool | None
    zones: list[str]
    offers: int


class RegionsShape(Struct, frozen=True):
    """The answer of `/regions`."""

    items: list[RegionShape]


class FeedShape(Struct, frozen=True):
    """A feed over all its places.

    `offers` is how many offers it states a price or stock of, `failing` where its last poll failed.
    """

    feed: str
    status: FeedState
    reason: str | None
    last_success: str | None
    age_s: int | None
    interval_s: int | None
    offers: int
    failing: list[str]
    notes: dict[str, int]


class ProviderShape(Struct, frozen=True):
    """A provider as configured here; `evidence` is what its stock levels can rest on."""

    provider: str
    account: bool
    evidence: list[str]
    feeds: list[FeedShape]


class ProvidersShape(Struct, frozen=True):
    """The answer of `/providers`."""

    items: list[ProviderShape]


class SpanShape(Struct, frozen=True):
    """From a time on, until before another."""

    start: str = field(name="from")
    until: str = field(name="to")


class PricePoint(Struct, frozen=True):
    """What was asked from a time on; null where no price was stated any more."""

    at: str
    amount: str | None
    currency: str | None


class StockPoint(Struct, frozen=True):
    """The level from a time on; `unknown` also where it was stated no longer."""

    at: str
    level: Literal["in_stock", "low", "unknown", "out"]
    evidence: Literal["observed", "reported", "scored", "listed", "snapshot"]


class SharesShape(Struct, frozen=True):
    """Parts of a window, as decimals that add up to exactly 1."""

    in_stock: str
    low: str
    out: str
    unknown: str
    unobserved: str


class PriceSeries(Struct, frozen=True):
    """A machine's price at a place under one purchase: what changed, and when it was observed at all."""

    provider: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    points: list[PricePoint]
    shares: None
    zone_id: str | None
    gpu: str | None
    gpu_count: str | None
    observed: list[SpanShape]


class StockSeries(Struct, frozen=True):
    """A machine's stock at a place under one purchase: what changed, its shares, and when it was observed at all."""

    provider: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    points: list[StockPoint]
    shares: SharesShape
    zone_id: str | None
    gpu: str | None
    gpu_count: str | None
    observed: list[SpanShape]


class PriceHistoryShape(Struct, frozen=True):
    """A page of the history of prices in a window; `total` counts all that meet the question, `next` is a URL."""

    items: list[PriceSeries]
    total: int
    next: str | None
    start: str = field(name="from")
    until: str = field(name="to")


class StockHistoryShape(Struct, frozen=True):
    """A page of the history of stock in a window; `total` counts all that meet the question, `next` is a URL."""

    items: list[StockSeries]
    total: int
    next: str | None
    start: str = field(name="from")
    until: str = field(name="to")


class NoteShape(Struct, frozen=True):
    """A record left out or a value not understood, in the last answers of a feed at a place."""

    provider: str
    feed: str
    place: str
    kind: str
    value: str
    count: int
    first_at: str


class NotesShape(Struct, frozen=True):
    """Notes, most frequent first."""

    items: list[NoteShape]


class SyncShape(Struct, frozen=True):
    """A past poll of one cell."""

    provider: str
    feed: str
    place: str
    part: str
    status: str
    facts: int
    notes: int
    seconds: float
    error: str | None
    started_at: str


class SyncsShape(Struct, frozen=True):
    """Past polls, newest first."""

    items: list[SyncShape]


class SyncRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What to poll now; empty is all."""

    providers: list[str] = []
    feeds: list[str] = []


class SyncStarted(Struct, frozen=True):
    """How many cells were made due."""

    cells: int


class LaunchRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a launch attempt taught. `zone` is its name or id; `code` is the provider's, with outcome `error`."""

    provider: str
    region: str
    instance_type: str
    purchase: str
    outcome: Literal["ok", "error"]
    zone: str | None = None
    code: str | None = None


class LaunchTaken(Struct, frozen=True):
    """A report that was kept, and what it changed."""

    id: str
    effect: str
    reason: str


class LaunchShape(Struct, frozen=True):
    """A report as it was kept. `zone` is the zone's id where the provider has ids."""

    id: str
    provider: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    outcome: str
    code: str | None
    effect: str
    at: str


class LaunchesShape(Struct, frozen=True):
    """Reports, newest first."""

    items: list[LaunchShape]


class Welcome(Struct, frozen=True):
    """Where to begin."""

    version: str
    name: str = "gpufare"
    answers: str = "Where can I get this GPU, in stock, cheapest, right now?"
    docs: str = "/docs"
    openapi: str = "/openapi.json"
    examples: tuple[str, ...] = (
        "/cheapest?gpu=a100-80g",
        "/cheapest?gpu=v100&region=ap-guangzhou&fallback=ap-nanjing,ap-chongqing",
        "/offers?gpu=h100&purchase=on_demand,spot",
    )


class Health(Struct, frozen=True):
    """Whether the server lives, or is ready, and with how much."""

    status: str
    detail: str
    offers: int


class ProblemShape(Struct, frozen=True, omit_defaults=True):
    """RFC 9457 problem details; `parameter` and `did_you_mean` come with what is not understood."""

    type: str
    title: str
    status: int
    detail: str
    parameter: str | None = None
    did_you_mean: list[str] = []
