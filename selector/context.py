"""What an answer depends on beside the question and the offers: the time, the rates, whose accounts are here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

from catalog.fx import Rates
from catalog.offers import Offer
from catalog.partitions import Account
from catalog.spec import RegionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`now` is an aware UTC time; `accounts` are those with credentials here.

    `unread` is where a source has not given its first whole answer, so that nothing is known to be missing there:
    (provider, place), the place "" being all of the provider. `read` is where one has, be it that nothing is there;
    `off` are the providers whose places are not asked, beside what to set so that they are.
    """

    now: datetime
    rates: Rates
    accounts: frozenset[Account] = field(default_factory=frozenset)
    unread: frozenset[RegionKey] = field(default_factory=frozenset)
    read: frozenset[RegionKey] = field(default_factory=frozenset)
    off: Mapping[str, str] = field(default_factory=dict)

    def nanos(self, offer: Offer, currency: str) -> int | None:
        """The price of the whole machine for one hour in a currency; None without a price or a rate."""
        return nanos_in(currency, offer, self.rates)

    def exact(self, offer: Offer, currency: str) -> int | Fraction | None:
        """The same without rounding, to compare by: so the order of two prices is the same in each currency."""
        price = offer.price
        return None if price is None else self.rates.exact(price.nanos, price.currency, currency)


def nanos_in(currency: str, offer: Offer, rates: Rates) -> int | None:
    """The price of the whole machine for one hour in nano-units of a currency; None without a price or a rate."""
    price = offer.price
    if price is None:
        return None
    if price.currency == currency:
        return price.nanos
    return rates.convert_nanos(price.nanos, price.currency, currency)
