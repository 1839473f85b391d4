"""What a person should know of a recommendation's question: what it left out, raised, or could have cheaper. Pure."""

from collections.abc import Iterator, Sequence

from catalog.money import money_text
from catalog.precisions import Computes
from catalog.spec import number_text
from selector.measures import accelerator_of
from selector.message import place_text
from selector.ranking import Match
from selector.sizing import Precision
from selector.sizing_demands import device_need_gib
from selector.sizing_hardware import DEVICES, Lack, device_gib, families_of, lacks
from selector.sizing_options import Option, Recommendation
from selector.sizing_words import gib_text

_DECIMALS = 4
_MEANING = {
    Computes.VECTOR: "it runs without matrix units, many times slower",
    Computes.WEIGHTS: "weights are held in it, as sized here, and computed with in 16 bits",
    Computes.NONE: "software refuses it, or emulates it slowly",
}


def lacking(found: Recommendation) -> tuple[Lack, ...]:
    """What the accelerators lack of the precision that nothing was left out of, since they were asked for.

    Those asked for by the name of a machine are that of the answer.
    """
    option = found.chosen
    if option.left_out:
        return ()
    by_machine = option.spec.instance_types and not option.spec.gpu_names
    ids = _answered(found) if by_machine else option.allowed
    return lacks(ids, option.sizing.workload.precision)


def answer_lacks(found: Recommendation) -> Iterator[str]:
    """The same of the answer alone, each in a sentence for the end of the message."""
    for lack in lacks(_answered(found), found.chosen.sizing.workload.precision):
        yield f"{_short(lack)}."


def _answered(found: Recommendation) -> frozenset[str]:
    """The accelerator of the answer; none where there is no answer or nobody knows which it is."""
    best = found.ranking.best
    known = None if best is None else accelerator_of(best.offer.machine)
    return frozenset() if known is None else frozenset({known.id})


def lack_text(lack: Lack, precision: Precision) -> str:
    """What they lack, what they have, and what that means."""
    families, one = listed(lack.families), len(lack.families) == 1
    if lack.architecture is None:
        return f"{families} {'is no GPU' if one else 'are no GPUs'}: other software is needed than these figures are of"
    who = f"{families} ({lack.architecture})"
    held = "" if lack.precision is precision else f", which weights in {precision} are computed with in"
    has = listed(lack.instead)
    if lack.how is Computes.VECTOR:
        return f"{who} {'has' if one else 'have'} no matrix units for {lack.precision}{held}: {_MEANING[lack.how]}"
    return f"{who} {'does' if one else 'do'} not compute in {lack.precision}{held}, but in {has}: {_MEANING[lack.how]}"


def lacks_text(found: Recommendation) -> str:
    """Of the accelerators that were asked for, for the end of a reason; nothing where all compute in the precision."""
    told = [_short(lack) for lack in lacking(found)]
    return "".join(f"; {text}" for text in told)


def _short(lack: Lack) -> str:
    families, one = listed(lack.families), len(lack.families) == 1
    if lack.architecture is None:
        return f"{families} {'is no GPU' if one else 'are no GPUs'}"
    return f"{families} {'has' if one else 'have'} no matrix units for {lack.precision}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def notes(found: Recommendation) -> Iterator[str]:
    """What the question takes for granted beside the arithmetic, each in a sentence."""
    option, sized = found.chosen, found.chosen.sizing
    for lack in lacking(found):
        yield lack_text(lack, sized.workload.precision)
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


def unlinked_reason(option: Option) -> str | None:
    """Why the option has no NVLink though it should; None where it has it or needs none."""
    if not option.unlinked:
        return None
    if option.never_linked:
        families = families_of(option.allowed)
        return f"{listed(families)} {'has' if len(families) == 1 else 'have'} none"
    return "no machine that has it is an answer"


def cheaper_text(option: Option, match: Match) -> str:
    """The offer without NVLink, for the end of the message."""
    offer, currency = match.offer, option.spec.currency
    price = "price unknown" if match.nanos is None else f"{money_text(match.nanos, _DECIMALS)} {currency} per hour"
    doubt = "" if match.confirmed else ", unconfirmed"
    machine = f"{option.gpus_text} GPUs, at least {gib_text(option.sizing.vram_gib)} GiB each"
    what = f"{offer.machine.instance_type} at {place_text(offer)}"
    return f"Without NVLink, which is slower: {machine}: {what}, {price}{doubt}."
