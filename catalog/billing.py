"""How long one pays for a machine: the steps that its time is billed in, and the least that is billed.

billing.csv has, with its source, what each provider does with purchases that end whenever one wants. A term paid in
advance is paid whole at every provider, so it stands here. A capacity block is paid for its whole window, which is a
part of its price (`Window.hours`), and a savings plan by what one committed to: of neither is there a row.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from catalog.accounts import kind_of
from catalog.money import HOURS_PER_MONTH
from catalog.words import TERM_MONTHS, Purchase

SECONDS_PER_HOUR = 3600
EVERY_PURCHASE = "*"


@dataclass(frozen=True, slots=True)
class Billing:
    """Time is billed in whole steps of `increment_s` seconds, and `minimum_s` of them at least."""

    increment_s: int
    minimum_s: int

    def billed_hours(self, hours: Fraction) -> Fraction:
        """The hours that are paid for when the machine runs for `hours` without a stop: exact, never fewer."""
        steps = -(-hours * SECONDS_PER_HOUR // self.increment_s)
        return Fraction(max(steps * self.increment_s, self.minimum_s), SECONDS_PER_HOUR)


def billing_of(provider: str, purchase: Purchase) -> Billing | None:
    """How a provider, or an account of it, bills a purchase; None where no source was found that states it."""
    rules = _table().get(kind_of(provider))
    if rules is None:
        return None
    if purchase in TERM_MONTHS:
        return _whole(TERM_MONTHS[purchase])
    return rules.get(purchase) or rules.get(EVERY_PURCHASE)


def _whole(months: int) -> Billing:
    seconds = months * HOURS_PER_MONTH * SECONDS_PER_HOUR
    return Billing(seconds, seconds)


@cache
def _table() -> Mapping[str, Mapping[str, Billing]]:
    text = files("catalog").joinpath("billing.csv").read_text(encoding="utf-8")
    table: dict[str, dict[str, Billing]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        rule = Billing(increment_s=int(row["increment_s"]), minimum_s=int(row["minimum_s"]))
        table.setdefault(row["provider"], {})[row["purchase"]] = rule
    return MappingProxyType(table)
