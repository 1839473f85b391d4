"""What a reported launch attempt means: which offer it was about, and what it teaches. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from api.problems import refused
from api.shapes import LaunchRequest
from catalog.launch_codes import CodeKind, code_kind
from catalog.offers import Offer, Place
from catalog.words import Level, Purchase
from selector.question import World
from selector.values import alike, has_control, member

_MOST_LETTERS = 300
_MEANINGS = {
    CodeKind.CAPACITY: "a capacity error: nothing was free there",
    CodeKind.QUOTA: "a quota error: a limit of this account, which says nothing of stock",
    CodeKind.RIGHTS: "a rights error: this account may not, which says nothing of stock",
    CodeKind.CONFIG: "an error of the request itself, which says nothing of stock",
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an attempt teaches: a level, or None where it changes nothing; and why."""

    level: Level | None
    reason: str


def lesson(report: LaunchRequest) -> Lesson:
    """What the outcome says. An unknown code changes nothing. Raises Problem for a code too many or too few."""
    if report.outcome == "ok":
        if report.code:
            raise refused("code", "A launch that went well has no error code: leave code out, or say outcome error.")
        return Lesson(Level.IN_STOCK, "the launch went well")
    if not report.code or len(report.code) > _MOST_LETTERS:
        raise refused("code", f"Outcome error needs the provider's error code, of at most {_MOST_LETTERS} letters.")
    if has_control(report.code):
        raise refused("code", "code holds a control character: leave line ends and the like out.")
    kind = code_kind(report.provider, report.code)
    if kind is None:
        return Lesson(None, f"{report.code} is not known here: the report is kept, and nothing changes")
    return Lesson(Level.OUT if kind is CodeKind.CAPACITY else None, f"{report.code} is {_MEANINGS[kind]}")


def check_place(report: LaunchRequest, world: World) -> None:
    """Raise Problem unless the provider and the region are known here."""
    if report.provider not in world.providers:
        raise _unknown("provider", report.provider, world.providers)
    regions = {region for provider, region in world.regions if provider == report.provider}
    if report.region not in regions:
        raise _unknown("region", report.region, regions)


def offer_meant(report: LaunchRequest, offers: Sequence[Offer]) -> Offer:
    """The one offer, of those of its region, that the report is about. Raises Problem where there is none."""
    named = [offer for offer in offers if offer.machine.instance_type == report.instance_type]
    if not named:
        raise _unknown("instance_type", report.instance_type, {offer.machine.instance_type for offer in offers})
    purchase = member("purchase", report.purchase, Purchase)
    sold = [offer for offer in named if offer.purchase is purchase]
    if not sold:
        raise _unknown("purchase", report.purchase, {offer.purchase.value for offer in named})
    return _in_zone(report, sold)


def _in_zone(report: LaunchRequest, offers: Sequence[Offer]) -> Offer:
    zones = sorted({_zone_name(offer.place) for offer in offers} - {""})
    if not report.zone:
        whole = [offer for offer in offers if not offer.place.zone_key]
        if whole:
            return whole[0]
        raise refused("zone", f"{report.instance_type} is sold by zone: say in which, {' or '.join(zones)}.", zones)
    wanted = report.zone.casefold()
    here = [offer for offer in offers if wanted in _zone_words(offer.place)]
    if not here:
        if not zones:
            raise refused("zone", f"{report.instance_type} is sold by region there: leave zone out.")
        raise refused("zone", f"zone={report.zone} is not known for it.", alike(report.zone, zones) or zones)
    return here[0]


def _zone_words(place: Place) -> set[str]:
    return {word.casefold() for word in (place.zone, place.zone_id) if word}


def _zone_name(place: Place) -> str:
    return place.zone or place.zone_id or ""


def _unknown(parameter: str, said: str, known: Iterable[str]) -> Exception:
    return refused(parameter, f"{parameter}={said[:100]} is not known here.", alike(said, known))
