"""What an account may have of something, as its provider states it: a limit, and how much of it is used. Pure.

A quota is the account's and says nothing of stock: where it has no room for one machine the machine is restricted, else
its figures are shown beside what else is known.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from catalog.facts import Note

RESTRICTED = "restricted: "
"""How the detail of a stock begins that this account cannot have: the selector never answers with one."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit by its provider's name for it. `used` is None where it is not stated."""

    name: str
    unit: str
    """What is counted, such as `vCPUs`."""
    limit: int
    used: int | None

    def lets(self, needed: int) -> bool:
        """Whether so many more may be used. Where use is not stated, only the limit forbids anything."""
        return self._most_free >= needed

    @property
    def words(self) -> str:
        """`quota standardNCADSA100v4Family: 48 of 96 vCPUs used`."""
        return f"quota {self.name}: {self._amount}"

    def refusal(self, needed: int) -> str:
        """`NO_QUOTA: standardNDSH100v5Family 0 of 0 vCPUs used`, and what one machine takes where some are left."""
        takes = f", one machine takes {needed}" if self._most_free > 0 else ""
        return f"NO_QUOTA: {self.name} {self._amount}{takes}"

    @property
    def _most_free(self) -> int:
        return self.limit if self.used is None else self.limit - self.used

    @property
    def _amount(self) -> str:
        known = f"limit of {self.limit} {self.unit}, use not stated"
        return known if self.used is None else f"{self.used} of {self.limit} {self.unit} used"


@dataclass(slots=True)
class Quotas:
    """The quotas of a region by name, whatever its case and blanks, and which of them were looked at."""

    _known: dict[str, Quota] = field(default_factory=dict)
    _contradicted: set[str] = field(default_factory=set)
    _looked_at: set[str] = field(default_factory=set)

    def read(self, stated: Iterable[Quota | Note]) -> Iterator[Note]:
        """Take them in; passes the notes on. One that is stated twice with other figures is unknown."""
        for one in stated:
            if isinstance(one, Note):
                yield one
                continue
            known = self._known.setdefault(folded(one.name), one)
            if (known.limit, known.used) != (one.limit, one.used):
                self._contradicted.add(folded(one.name))
                yield Note("contradicting_quotas", one.name)

    def of(self, name: str) -> Quota | None:
        """The quota; None where it is not known."""
        key = folded(name)
        self._looked_at.add(key)
        return None if key in self._contradicted else self._known.get(key)

    def others(self) -> Iterator[Note]:
        """A note for each that is of none of the machines that were looked at: they are counted together."""
        unused = self._known.keys() - self._looked_at if self._looked_at else ()
        yield from (Note("quota_of_no_machine", "", record=True) for _ in unused)


def folded(name: str) -> str:
    """Azure spells a family `Standard NCASv3_T4 Family` here and `standardNCASv3_T4Family` there."""
    return "".join(name.split()).casefold()
