"""An offer in words, and the words of whatever else stands in an event's JSON.

Names come from providers and from users: a name is one line without control characters, and of a bounded length, so
that none can look like more of the message or push it out. What is null, or not of the expected shape, gives no words.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from alerts.words import Words
from catalog.places import known_region
from catalog.spec import Sort
from catalog.watches import Lang
from catalog.words import Level, Purchase

Json = Mapping[str, object]
_LONGEST = 120
"""In characters."""


def object_of(value: object) -> Json:
    """The JSON object; an empty one for whatever is none."""
    return value if isinstance(value, Mapping) else {}


def objects_of(value: object) -> list[Json]:
    """The objects of a JSON list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def printable(text: str) -> str:
    """One line: whatever cannot be seen, or moves other text about, and every run of blanks is one blank."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def text_of(value: object) -> str:
    """Text or a number as one short line; "" for whatever is neither."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    line = printable(str(value))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def time_of(value: object) -> str:
    """A time of RFC 3339 to the minute, in UTC; "" for whatever is none."""
    if not isinstance(value, str):
        return ""
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return ""
    return minute(at if at.tzinfo else at.replace(tzinfo=UTC))


def minute(at: datetime) -> str:
    """A time to the minute, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def money(amount: object, currency: object) -> str:
    """An amount and its currency; "" where the amount is not known."""
    stated = text_of(amount)
    return f"{stated} {text_of(currency)}".strip() if stated else ""


def gpus(offer: Json, words: Words) -> str:
    """How many of which GPU."""
    gpu = text_of(offer.get("gpu_name")) or text_of(offer.get("gpu")) or words.gpu_unknown
    count = text_of(offer.get("gpu_count"))
    return words.gpus.format(count=count, gpu=gpu) if count else gpu


def region(offer: Json, words: Words, lang: Lang) -> str:
    """Provider, region and the region's name."""
    provider, code = text_of(offer.get("provider")), text_of(offer.get("region"))
    name = _region_name(provider, code, lang) or text_of(offer.get("region_name"))
    return f"{provider} {words.named.format(code=code, name=name) if name else code}".strip()


def _region_name(provider: str, code: str, lang: Lang) -> str | None:
    known = known_region(provider, code) if lang is Lang.ZH else None
    return known.city_zh if known else None


def short(offer: Json, words: Words, lang: Lang) -> str:
    """What and where, without price and stock."""
    zone = text_of(offer.get("zone")) or text_of(offer.get("zone_id"))
    parts = [gpus(offer, words), text_of(offer.get("instance_type")), _purchase(offer, words), _window(offer, words)]
    where = [region(offer, words, lang), words.zone.format(zone=zone) if zone else ""]
    return _joined([*parts, *where], words)


def whole(offer: Json, words: Words, lang: Lang) -> str:
    """All that is told of an offer, in one line."""
    return _joined([short(offer, words, lang), *_price(offer, words), _stock(offer, words)], words)


def _purchase(offer: Json, words: Words) -> str:
    said = text_of(offer.get("purchase"))
    return words.purchases[Purchase(said)] if said in set(Purchase) else said


def _window(offer: Json, words: Words) -> str:
    window = object_of(offer.get("window"))
    start, end = time_of(window.get("from")), time_of(window.get("to"))
    return words.window.format(start=start, end=end) if start and end else ""


def _price(offer: Json, words: Words) -> Iterator[str]:
    """In the provider's currency, and in the one that was asked for."""
    native = object_of(offer.get("native_price"))
    own = money(native.get("amount"), native.get("currency"))
    asked = money(offer.get("price_per_hour"), offer.get("currency"))
    same = native.get("currency") == offer.get("currency")
    price = f"{own} ({asked})" if own and asked and not same else own or asked
    yield words.units[Sort.PRICE].format(amount=price) if price else words.price_unknown
    upfront = money(object_of(native.get("upfront")).get("amount"), native.get("currency"))
    yield words.at_once.format(price=upfront) if upfront else ""
    yield words.estimated if native.get("estimated") is True else ""
    yield words.price_stale if native.get("stale") is True else ""


def _stock(offer: Json, words: Words) -> str:
    stock = object_of(offer.get("stock"))
    level = text_of(stock.get("level"))
    said = words.levels[Level(level) if level in set(Level) else Level.UNKNOWN]
    seen_at = time_of(stock.get("observed_at"))
    return words.last_seen.format(level=said, at=seen_at) if seen_at and stock.get("stale") is True else said


def _joined(parts: Iterable[str], words: Words) -> str:
    return words.separator.join(filter(None, parts))
