"""What was said of each parameter: lists split, exclusions told apart, defaults where nothing was said."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeVar

from catalog.parameters import PARAMETERS
from catalog.units import MIB_PER_GIB
from selector import values
from selector.values import BadQuestion, alike, has_control

Endpoint = Literal["cheapest", "offers"]
_T = TypeVar("_T")

MOST_ITEMS = 100
"""Values of one parameter: each may mean many models or places, and is looked up among all of them."""

_NO_DEFAULT_ON_OFFERS = frozenset(
    {"purchase", "spot", "count", "accounts", "hosting", "stock", "fallback", "limit", "offset"}
)
_SAID_TOGETHER = (frozenset({"purchase", "spot"}), frozenset({"region", "zone"}))
"""A question that says one of these silences the defaults of both, which could contradict it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was said of each parameter: blanks and empty items dropped, lists split."""

    items: Mapping[str, tuple[str, ...]]
    said: frozenset[str] = frozenset()
    """Those that the question itself says; the others are the operator's defaults."""
    defaulted: frozenset[str] = frozenset()
    """Those that the operator has a default of."""

    @classmethod
    def of(cls, params: Mapping[str, Sequence[str]], defaults: Mapping[str, str], endpoint: Endpoint) -> "Asked":
        """Read the texts. Raises `BadQuestion` for a name that is not known and for an empty value."""
        said = {name: _items(name, texts) for name, texts in params.items()}
        defaulted = frozenset(name.casefold() for name, text in defaults.items() if text.strip())
        return cls(_with_defaults(said, defaults, endpoint), frozenset(said), defaulted)

    def included(self, name: str) -> tuple[str, ...]:
        """What is named, as it was written."""
        return tuple(item for item in self.items.get(name, ()) if not item.startswith("!"))

    def excluded(self, name: str) -> tuple[str, ...]:
        """What is named after a `!`, as it was written."""
        bare = (item[1:].strip() for item in self.items.get(name, ()) if item.startswith("!"))
        return tuple(map(_not_empty(name), bare))

    def excluding(self) -> frozenset[str]:
        """The parameters that exclude something."""
        return frozenset(name for name, items in self.items.items() if any(item.startswith("!") for item in items))

    def one(self, name: str, read: Callable[[str, str], _T]) -> _T | None:
        """The one value, None where nothing is said; several different ones contradict each other."""
        items = self.items.get(name, ())
        if len({item.casefold() for item in items}) > 1:
            raise BadQuestion(name, f"{name}: one value, please, not {len(items)} ({', '.join(items)}).")
        return read(name, items[0]) if items else None

    def gib(self, name: str) -> Fraction | None:
        """MiB where GiB are said."""
        stated = self.one(name, values.number)
        return None if stated is None else stated * MIB_PER_GIB

    def sets(self, name: str, read: Callable[[str], frozenset[_T]]) -> tuple[frozenset[_T] | None, frozenset[_T]]:
        """What is included, less what is excluded (None: nothing named), and what is excluded."""
        included, excluded = self.included(name), self.excluded(name)
        out = frozenset[_T]().union(*map(read, excluded))
        if not included:
            return None, out
        return frozenset[_T]().union(*map(read, included)) - out or contradiction(name, self), out

    def subset(self, name: str, known: Iterable[str]) -> frozenset[str] | None:
        """What is left of the known names; None where nothing is said."""
        names = frozenset(known)
        if name not in self.items:
            return None
        included, out = self.sets(name, lambda text: frozenset({known_name(name, text, names)}))
        return (names if included is None else included) - out or contradiction(name, self)


def _items(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    if name not in PARAMETERS:
        raise BadQuestion(name, f"There is no parameter {name}.", alike(name, PARAMETERS))
    items = tuple(item.strip() for text in texts for item in text.split(",") if item.strip())
    if not items:
        raise BadQuestion(name, f"{name} is empty: give it a value or leave it out.")
    if len(items) > MOST_ITEMS:
        raise BadQuestion(name, f"{name}: at most {MOST_ITEMS} values, please, not {len(items)}.")
    if (odd := next(filter(has_control, items), None)) is not None:
        raise BadQuestion(name, f"{name}={odd!r} holds a control character, which no value has.")
    return items


def _with_defaults(
    said: dict[str, tuple[str, ...]], defaults: Mapping[str, str], endpoint: Endpoint
) -> dict[str, tuple[str, ...]]:
    silent = {name for pair in _SAID_TOGETHER if pair & said.keys() for name in pair}
    skipped = said.keys() | silent | (_NO_DEFAULT_ON_OFFERS if endpoint == "offers" else frozenset())
    chosen = {name.casefold(): text for name, text in defaults.items() if text.strip()}
    filled = {name: _items(name, [text]) for name, text in chosen.items() if name not in skipped}
    return {name: items for name, items in filled.items() if not _idle(name, items, filled | said)} | said


def _idle(name: str, items: tuple[str, ...], every: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a default has no meaning in this question: what a job sends out and costs, where there is no job."""
    of_job = name == "egress_gb" or (name == "sort" and items == ("job_cost",))
    return of_job and "hours" not in every


def _not_empty(name: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not text:
            raise BadQuestion(name, f"{name}=!: say what is excluded, such as {name}=!name.")
        return text

    return check


def contradiction(name: str, asked: Asked, other: str | None = None) -> frozenset[_T]:
    """Refuse what leaves nothing; the type is that of what would have been left."""
    said = ",".join(asked.items[name])
    against = f" and {other}={','.join(asked.items[other])}" if other else ""
    raise BadQuestion(name, f"{name}={said}{against} contradict: nothing is left.")


def known_name(name: str, text: str, names: frozenset[str]) -> str:
    """The name, case folded, if it is one of these. Raises `BadQuestion` otherwise, with those that are like it."""
    if text.casefold() not in names:
        raise BadQuestion(name, f"{name}={text} is not known here, or not in use.", alike(text, names))
    return text.casefold()
