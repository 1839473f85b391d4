"""What a watch may ever see: whether anything that is known matches it, and whether anybody states its stock. Pure."""

from dataclasses import dataclass, replace

from catalog.spec import RegionKey, Spec
from selector.context import Context
from selector.index import Index
from selector.kinds import Kinds
from selector.ranking import OffPlace, Verdict
from selector.unread import silent_places
from selector.walk import Kind, Walk
from selector.why_not import Reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospects:
    """What is known of a spec's primary places, whatever the stock there is now."""

    matching: bool
    """Whether an offer meets every demand but those on stock and on a price limit."""
    too_dear: bool
    """Whether there are such offers, and all of them are dearer than the limit."""
    stated: bool
    """Whether somebody states the stock of one of them."""
    unread: tuple[str, ...]
    """Places whose source was not read yet: what is missing there may turn up."""
    off: tuple[OffPlace, ...]
    """Places asked for that nobody polls, beside what to set."""


def prospects(index: Index, spec: Spec, context: Context) -> Prospects:
    """What a watch over this spec may come to see."""
    primary = replace(spec, fallback=(), nearness=())
    candidates = index.candidates(primary.gpus)
    walk = Walk(candidates, primary, context, Reasons(primary, context), Kinds(candidates, primary, context))
    kinds = [kind for kind in walk.kinds() if kind.verdict is not None]
    known = index.regions() | context.read if context.off else frozenset[RegionKey]()
    silent = silent_places(primary, context, primary.primary_regions, known)
    return Prospects(
        matching=bool(kinds),
        too_dear=bool(kinds) and all(kind.verdict is Verdict.TOO_DEAR for kind in kinds),
        stated=any(_stated(kind, walk, context) for kind in kinds),
        unread=silent.unread,
        off=silent.off,
    )


def _stated(kind: Kind, walk: Walk, context: Context) -> bool:
    return any(offer.stock_at(context.now).evidence.is_stock for offer in walk.offers([kind]))
