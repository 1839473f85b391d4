"""English."""

from types import MappingProxyType

from alerts.words import Words
from catalog.spec import Sort
from catalog.watches import EventType
from catalog.words import Level, Purchase

EN = Words(
    headlines=MappingProxyType(
        {
            EventType.STOCK_OUT: "Out of stock",
            EventType.STOCK_LOW: "Low stock",
            EventType.STOCK_BACK: "Back in stock",
            EventType.PRICE_BELOW: "Price below your limit",
            EventType.PRICE_CHANGED: "Price changed",
            EventType.BEST_CHANGED: "Another offer is best now",
            EventType.SOURCE_STALE: "Data is stale",
            EventType.SOURCE_BACK: "Data is fresh again",
            EventType.REMINDER: "Still out of stock",
            EventType.SUMMARY: "Held back by the daily cap",
            EventType.HEARTBEAT: "The watch works",
            EventType.EXPIRED: "The watch has expired",
            EventType.TARGET_DEAD: "A target is dead",
            EventType.TEST: "Test",
        }
    ),
    grouped=MappingProxyType(
        {
            EventType.STOCK_OUT: "{provider} suddenly says that everything is out of stock",
            EventType.STOCK_BACK: "{provider} suddenly says that everything is in stock",
        }
    ),
    notes=MappingProxyType(
        {
            EventType.SOURCE_STALE: "This does not mean sold out. The last known state is kept until there is news.",
            EventType.SUMMARY: "Raise the watch's daily cap to be told of each at once.",
            EventType.HEARTBEAT: "No news: nothing that it watches for has happened.",
            EventType.EXPIRED: "It tells nothing any more. Renew it if you still need it.",
            EventType.TARGET_DEAD: "Nothing is sent to it any more. Give it a new address, or delete it.",
            EventType.TEST: "If you can read this, the target works.",
        }
    ),
    levels=MappingProxyType(
        {
            Level.IN_STOCK: "in stock",
            Level.LOW: "low stock",
            Level.UNKNOWN: "stock unknown",
            Level.OUT: "out of stock",
        }
    ),
    states=MappingProxyType({"available": "available", "out": "out of stock", "unknown": "unknown"}),
    purchases=MappingProxyType(
        {
            Purchase.ON_DEMAND: "on demand",
            Purchase.SPOT: "spot",
            Purchase.MONTH: "prepaid by the month",
            Purchase.RESERVED_1Y: "reserved for 1 year",
            Purchase.RESERVED_3Y: "reserved for 3 years",
            Purchase.SAVINGS_1Y: "savings plan for 1 year",
            Purchase.SAVINGS_3Y: "savings plan for 3 years",
            Purchase.CAPACITY_BLOCK: "capacity block",
        }
    ),
    units=MappingProxyType(
        {
            Sort.PRICE: "{amount} per machine-hour",
            Sort.PRICE_PER_GPU: "{amount} per GPU-hour",
            Sort.PRICE_PER_VRAM: "{amount} per GiB of VRAM and hour",
            Sort.PRICE_PER_TFLOP: "{amount} per TFLOPS and hour",
            Sort.JOB_COST: "{amount} for the whole job",
        }
    ),
    separator=", ",
    titled="{headline}: {subject}",
    labelled="{label}: {value}",
    named="{code} ({name})",
    zone="zone {zone}",
    gpus="{count} x {gpu}",
    gpu_unknown="GPU not known",
    price_unknown="price unknown",
    price_stale="price stale",
    estimated="estimated",
    at_once="{price} to pay at once",
    window="from {start} to {end}",
    last_seen="{level} when last seen {at}, stale",
    watch="Watch",
    watches="Watches",
    since="Since",
    at="At",
    state="State",
    target="Target",
    reason="Reason",
    limit="Limit",
    before="Before",
    now="Now",
    last_success="last success {at}",
    suspicious="This is unlikely to be true. Check with the provider before you act on it.",
    unknown="Not known at the moment, and not counted as out",
    use_instead="Use instead",
    nothing_instead="Nothing to use instead is known.",
    more="and {count} more",
    start="Start {machine}:",
    page="Open in gpufare",
)
