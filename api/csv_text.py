"""Offers as CSV: one row each, nested fields joined by `_`."""

import csv
import io
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import fields

from api.shapes import Billing, NativePrice, OfferShape, StockShape, Upfront, WindowShape

MEDIA_TYPE = "text/csv"
_NESTED: dict[str, type[Struct]] = {
    "native_price": NativePrice,
    "upfront": Upfront,
    "billing": Billing,
    "window": WindowShape,
    "stock": StockShape,
}


def offers_csv(offers: Iterable[OfferShape]) -> str:
    """The offers under a header; null is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_columns(OfferShape))
    writer.writerows(list(_cells(OfferShape, offer)) for offer in offers)
    return text.getvalue()


def wants_csv(accept: str) -> bool:
    """Whether an `Accept` header prefers CSV to JSON."""
    quality = dict(map(_range, accept.split(",")))
    csv_quality = quality.get(MEDIA_TYPE, 0.0)
    return csv_quality > 0 and csv_quality >= quality.get("application/json", 0.0)


def _range(text: str) -> tuple[str, float]:
    media_type, *parameters = (part.strip().casefold() for part in text.split(";"))
    stated = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    return media_type, float(stated) if stated.replace(".", "", 1).isdecimal() else 0.0


def _columns(shape: type[Struct], prefix: str = "") -> Iterator[str]:
    for field in fields(shape):
        nested = _NESTED.get(field.name)
        if nested is None:
            yield prefix + field.encode_name
        else:
            yield from _columns(nested, f"{prefix}{field.name}_")


def _cells(shape: type[Struct], value: Struct | None) -> Iterator[str]:
    for field in fields(shape):
        cell = getattr(value, field.name, None)
        nested = _NESTED.get(field.name)
        if nested is None:
            yield _cell(cell)
        else:
            yield from _cells(nested, cell)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
