"""Answers for a person: tables that fit the terminal, whole lines in a pipe. Nothing is ever cut off."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from commands.output import say, visible, write
from selector.ages import ago_text

Json = Mapping[str, Any]
Row = Sequence[str]


def table(columns: Row, rows: Iterable[Row], title: str | None = None) -> None:
    """Print a table; where it is wider than the terminal, long cells go on in the next line."""
    _print(_table(columns, list(rows)), title)


def paired_table(columns: Row, rows: Iterable[Row], title: str | None = None) -> None:
    """Print a table; where it is wider than the terminal, every second column goes below the one before it."""
    every = list(rows)
    wide = _table(columns, every)
    console = _console()
    fits = not console.is_terminal or _width(wide) <= console.width
    _print(wide if fits else _table(_pairs(columns), [_pairs(row) for row in every]), title)


def _pairs(row: Row) -> list[str]:
    return ["\n".join(row[at : at + 2]) for at in range(0, len(row), 2)]


def _table(columns: Row, rows: Iterable[Row]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*map(visible, row))
    return made


def _print(made: Table, title: str | None) -> None:
    if title:
        say(title)
    console = _console()
    if not console.is_terminal:
        console.width = max(console.width, _width(made))
    with console.capture() as printed:
        console.print(made, markup=False)
    write(printed.get())


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _width(made: Table) -> int:
    console = _console()
    return console.measure(made, options=console.options.update(max_width=10_000)).maximum


OFFER_COLUMNS = ("provider", "place", "machine", "GPU", "per hour", "per GPU", "purchase", "stock")


def offers(items: Iterable[Json], title: str | None = None) -> None:
    """Offers as a table, with what the job costs where that was asked."""
    every = list(items)
    of_job = [each["job_cost"] for each in every]
    if not any(of_job):
        paired_table(OFFER_COLUMNS, map(offer_row, every), title)
        return
    costs = (_price(each["job_cost"], each["currency"]) for each in every)
    rows = [(*row[:6], cost, *row[6:]) for row, cost in zip(map(offer_row, every), costs, strict=True)]
    paired_table((*OFFER_COLUMNS[:6], "the job", *OFFER_COLUMNS[6:]), rows, title)


def offer_row(offer: Json) -> tuple[str, ...]:
    """An offer as a row: place, machine, price and stock with its evidence and age."""
    currency = offer["currency"]
    return (
        offer["provider"],
        place(offer),
        offer["instance_type"],
        f"{offer['gpu_count'] or '?'}x {offer['gpu'] or offer['gpu_name'] or 'unknown'}",
        _price(offer["price_per_hour"], currency),
        _price(offer["price_per_gpu_hour"], currency),
        _purchase(offer),
        stock_text(offer["stock"]),
    )


def place(offer: Json) -> str:
    """The finest place, with its region where its name does not hold it: Azure's zones are called 1, 2 and 3."""
    region, zone = str(offer["region"]), offer["zone"] or offer["zone_id"]
    return region if zone is None else zone if region in zone else f"{region} {zone}"


def _price(amount: str | None, currency: str) -> str:
    return f"{amount} {currency}" if amount else "unknown"


def _purchase(offer: Json) -> str:
    window = offer["window"]
    price = offer["native_price"]
    upfront = price and price["upfront"]
    at_once = f", {upfront['amount']} {price['currency']} at once" if upfront else ""
    when = f" from {window['from']} to {window['to']}" if window else ""
    return f"{offer['purchase']}{when}{at_once}"


def stock_text(stock: Json) -> str:
    """A stock level with why it is believed and how old that is."""
    stale = ", stale" if stock["stale"] else ""
    return f"{stock['level']}: {stock['evidence']} {_ago(stock['age_s'])}{stale}"


def _ago(seconds: int | None) -> str:
    """An age; None is never."""
    return "never" if seconds is None else ago_text(timedelta(seconds=seconds))


def cheapest(answer: Json, *, explain: bool) -> None:
    """The answer to `cheapest`: the sentence, the offers, and on request why not the others."""
    say(answer["message"])
    best = [answer["best"]] if answer["best"] else []
    if best:
        offers([*best, *answer["alternatives"]], title="\nthe answer, and what to try next")
    if answer["unconfirmed"]:
        offers([answer["unconfirmed"]], title="\ncheapest unconfirmed")
    if explain or not best:
        _why(answer)


def _why(answer: Json) -> None:
    _tiers(answer["tiers"])
    if answer["rejected"]:
        counted = sorted(answer["rejected"].items(), key=lambda item: (-item[1], item[0]))
        table(("rejected because", "offers"), ((reason, str(count)) for reason, count in counted), title="")
    misses = answer["nearest_misses"]
    if misses:
        rows = [(*offer_row(miss["offer"])[:5], "; ".join(miss["reasons"])) for miss in misses]
        paired_table((*OFFER_COLUMNS[:5], "why not"), rows, title="\nnearest misses")
    if fix := answer["fix"]:
        offers([fix["offer"]], title=f"\nan answer {_change(fix)}")


def _tiers(tiers: Sequence[Json]) -> None:
    """The tiers; how far they are only where `fallback=auto` made one."""
    columns = ["tier", "regions", "matching", "confirmed", "out", "unknown", "stale", "passed over"]
    rows = [_tier_row(tier) for tier in tiers]
    if any(tier["estimate"] for tier in tiers):
        columns.append("round trip, estimated")
        rows = [(*row, _round_trip(tier)) for row, tier in zip(rows, tiers, strict=True)]
    table(columns, rows, title="\ntiers")


def _round_trip(tier: Json) -> str:
    if not tier["estimate"]:
        return ""
    milliseconds, start = tier["estimated_rtt_ms"], tier["estimate"]["from"]
    return "unknown" if milliseconds is None else f"about {milliseconds} ms from {start}"


def _change(fix: Json) -> str:
    name, value = fix["parameter"], fix["value"]
    return f"without {name}" if value is None else f"with {name}={value}"


def _tier_row(tier: Json) -> tuple[str, ...]:
    regions = ", ".join(tier["regions"]) or "everywhere"
    counts = (tier[name] for name in ("matching", "confirmed", "out", "unknown", "stale"))
    return (
        str(tier["tier"]),
        regions,
        *map(str, counts),
        tier["passed_over"] or "",
    )


def providers(items: Iterable[Json]) -> None:
    """Providers and their feeds."""
    columns = ("provider", "feed", "status", "last success", "offers", "reason, failing, notes")
    table(columns, (row for item in items for row in _feed_rows(item)))


def _feed_rows(provider: Json) -> Iterable[tuple[str, ...]]:
    account = "with an account" if provider["account"] else "no account"
    about = "\n".join((provider["provider"], account, *provider["evidence"]))
    for feed in provider["feeds"]:
        yield (about, feed["feed"], feed["status"], _ago(feed["age_s"]), str(feed["offers"]), _said(feed))
        about = ""


def _said(feed: Json) -> str:
    failing = "failing: " + ", ".join(feed["failing"]) if feed["failing"] else None
    notes = ", ".join(f"{kind} {count}" for kind, count in feed["notes"].items())
    return "; ".join(filter(None, (feed["reason"], failing, notes)))


def syncs(items: Sequence[Json]) -> None:
    """Polls: a row for each cell, then why some failed."""
    columns = ("cell", "status", "facts", "notes", "seconds")
    table(columns, (_sync_row(item) for item in items))
    for item in items:
        if item["error"]:
            say(f"{_cell(item)}: {item['status']}: {item['error']}")


def _sync_row(item: Json) -> tuple[str, ...]:
    return (_cell(item), item["status"], str(item["facts"]), str(item["notes"]), f"{item['seconds']:.1f}")


def _cell(item: Json) -> str:
    return " ".join(filter(None, (item["provider"], item["feed"], item["place"], item["part"])))


def gpus(items: Iterable[Json]) -> None:
    """Accelerators that somebody offers."""
    columns = ("GPU", "name", "GiB", "offers", "cheapest per GPU", "where")
    paired_table(columns, (_gpu_row(item) for item in items if item["offers"]))


def _gpu_row(item: Json) -> tuple[str, ...]:
    cheapest = item["cheapest"]
    price = _price(cheapest["price_per_gpu_hour"], cheapest["currency"]) if cheapest else ""
    where = f"{cheapest['provider']} {cheapest['region']} {cheapest['instance_type']}" if cheapest else ""
    return (item["id"], item["name"], str(item["vram_gib"] or "?"), str(item["offers"]), price, where)


def regions(items: Iterable[Json]) -> None:
    """Places."""
    columns = ("provider", "region", "name", "country", "mainland", "offers", "zones")
    table(columns, (_region_row(item) for item in items))


def _region_row(item: Json) -> tuple[str, ...]:
    mainland = {True: "yes", False: "no", None: "unknown"}[item["mainland_china"]]
    about = (item["provider"], item["region"], item["region_name"] or "", item["country"] or "", mainland)
    return (*about, str(item["offers"]), " ".join(item["zones"]))
