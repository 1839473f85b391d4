"""What a person should know of a recommendation's question: what it left out, raised, or could have cheaper. Pure."""

from collections.abc import Iterator

from catalog.money import money_text
from catalog.spec import number_text
from selector.message import place_text
from selector.ranking import Match
from selector.sizing_demands import device_need_gib
from selector.sizing_hardware import DEVICES, device_gib
from selector.sizing_options import Option
from selector.sizing_words import gib_text

_DECIMALS = 4


def notes(option: Option) -> Iterator[str]:
    """What the question takes for granted beside the arithmetic, each in a sentence."""
    sized = option.sizing
    said = option.min_vram_said_gib
    if 0 < said < sized.vram_gib:
        needed = f"the model needs {gib_text(sized.vram_gib)} GiB of each GPU, which is asked for in its place"
        yield f"min_vram {number_text(said)} is too small: {needed}"
    fewest = min(count.low for count in option.counts)
    if fewest > sized.gpus:
        yield f"heads are split over a power of two: of {number_text(fewest)} GPUs {sized.gpus} share the model"
    for name in option.small:
        devices = f"it is {DEVICES[name]} devices of {gib_text(device_gib(name))} GiB"
        yield f"{name} is no answer: {devices}, and each needs {gib_text(device_need_gib(sized, name))} GiB"


def cheaper_text(option: Option, match: Match) -> str:
    """The offer without NVLink, for the end of the message."""
    offer, currency = match.offer, option.spec.currency
    price = "price unknown" if match.nanos is None else f"{money_text(match.nanos, _DECIMALS)} {currency} per hour"
    doubt = "" if match.confirmed else ", unconfirmed"
    machine = f"{option.gpus_text} GPUs, at least {gib_text(option.sizing.vram_gib)} GiB each"
    what = f"{offer.machine.instance_type} at {place_text(offer)}"
    return f"Without NVLink, which is slower: {machine}: {what}, {price}{doubt}."
