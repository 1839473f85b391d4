"""What an answer depends on beside the question and the offers: the time, the rates, whose accounts are here."""

from dataclasses import dataclass, field
from datetime import datetime

from catalog.fx import Rates
from catalog.offers import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`now` is an aware UTC time; `accounts` are the providers with credentials here."""

    now: datetime
    rates: Rates
    accounts: frozenset[str] = field(default_factory=frozenset)

    def nanos(self, offer: Offer, currency: str) -> int | None:
        """The price of the whole machine for one hour in a currency; None without a price or a rate."""
        return nanos_in(currency, offer, self.rates)


def nanos_in(currency: str, offer: Offer, rates: Rates) -> int | None:
    """The price of the whole machine for one hour in nano-units of a currency; None without a price or a rate."""
    price = offer.price
    if price is None:
        return None
    if price.currency == currency:
        return price.nanos
    return rates.convert_nanos(price.nanos, price.currency, currency)
