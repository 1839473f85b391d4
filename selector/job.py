"""What a whole job costs on an offer: the hours that are billed for, and the data that it sends out. Pure."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from catalog.billing import billing_of
from catalog.egress import egress_cost
from catalog.facts import Window
from catalog.fx import Rates
from catalog.money import HOURS_PER_MONTH
from catalog.offers import Offer, Place, PriceNow
from catalog.spec import Job
from catalog.words import Purchase
from selector.columns import PLACE, TRAITS, Candidates, Picked, Rows
from selector.numbering import Numbered

_Floats = npt.NDArray[np.float64]
WINDOWED = frozenset({Purchase.CAPACITY_BLOCK})
"""The purchases that are sold by the window, whose length is each offer's own."""


class JobCosts:
    """What a job costs on one offer after another. What those of a provider or place share is worked out once."""

    def __init__(self, job: Job, currency: str, rates: Rates) -> None:
        self._job, self._currency, self._rates = job, currency, rates
        self._hours: dict[tuple[str, Purchase], Fraction | None] = {}
        self._egress: dict[tuple[str, str, str | None], int | None] = {}

    def nanos(self, offer: Offer) -> int | None:
        """What the job costs in all, in nano-units of the currency.

        None where anything of it is not known: the price, how the provider bills, what it takes for data, a rate. None
        too for a job that is longer than the window that is sold.
        """
        price = offer.price
        hours = None if price is None else self._billed(offer.place.provider, offer.purchase, price.window)
        if price is None or hours is None:
            return None
        machine = self._rates.convert_nanos(_total_nanos(price, hours), price.currency, self._currency)
        egress = self.egress_nanos(offer.place)
        return None if machine is None or egress is None else machine + egress

    def hours(self, provider: str, purchase: Purchase) -> Fraction | None:
        """The hours that are paid for; None where it is not known how the provider bills that purchase."""
        key = (provider, purchase)
        if key not in self._hours:
            billing = billing_of(provider, purchase)
            self._hours[key] = None if billing is None else billing.billed_hours(self._job.hours)
        return self._hours[key]

    def egress_nanos(self, place: Place) -> int | None:
        """What the data costs that is sent out, in nano-units of the currency; None where it is not known."""
        if not self._job.egress_gb:
            return 0
        key = (place.provider, place.region, place.site)
        if key not in self._egress:
            cost = egress_cost(*key, self._job.egress_gb)
            converted = None if cost is None else self._rates.convert_nanos(cost.nanos, cost.currency, self._currency)
            self._egress[key] = converted
        return self._egress[key]

    def _billed(self, provider: str, purchase: Purchase, window: Window | None) -> Fraction | None:
        if window is None:
            return self.hours(provider, purchase)
        whole = Fraction(window.hours)
        return whole if self._job.hours <= whole else None


def _total_nanos(price: PriceNow, hours: Fraction) -> int:
    """What so many hours cost. Of a term or window that is paid at once, exactly that amount for each of it.

    The price of an hour is that amount divided, and rounded. What is paid at once may be a part of it alone, and is not
    taken for the whole then.
    """
    total, upfront = round(price.nanos * hours), price.upfront_nanos
    length = Fraction(price.window.hours) if price.window else Fraction(HOURS_PER_MONTH * (price.term_months or 0))
    if not upfront or not length or abs(price.nanos * length - upfront) > length:
        return total
    return round(upfront * hours / length)


class JobColumns:
    """The same of many offers, nearly: as floats, infinite where it is not known."""

    def __init__(self, candidates: Candidates, costs: JobCosts) -> None:
        self._costs = costs
        purchases = Numbered[Purchase]()
        self._purchase = candidates.lookup(TRAITS, lambda offer: purchases[offer.purchase], np.int32)
        self._window = candidates.lookup(TRAITS, lambda offer: offer.purchase in WINDOWED, np.bool_)
        self._hours = np.stack([candidates.lookup(PLACE, self._hours_of(each), np.float64) for each in purchases])
        self._egress = candidates.lookup(PLACE, lambda place: _float(costs.egress_nanos(place)), np.float64)

    def _hours_of(self, purchase: Purchase) -> Callable[[Place], float]:
        return lambda place: _float(self._costs.hours(place.provider, purchase))

    def costs(self, rows: Rows, group: Picked, hourly: _Floats) -> _Floats:
        """The cost on each row, of which `hourly` is the price in the currency."""
        places, traits = rows.numbers_of(PLACE)[group], rows.numbers_of(TRAITS)[group]
        costs: _Floats = hourly * self._hours[self._purchase[traits], places]
        costs += self._egress[places]
        for at in self._window[traits].nonzero()[0].tolist():
            costs[at] = _float(self._costs.nanos(rows.offer(int(group[at]))))
        return costs


def _float(value: Fraction | int | None) -> float:
    return np.inf if value is None else float(value)
