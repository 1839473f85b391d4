"""What an account may have of something, as its provider states it: a limit, and how much of it is used. Pure.

A quota is the account's and says nothing of stock: where its limit is below what one machine takes the machine is
restricted, else its figures are shown beside what else is known. How much is used never restricts anything: it is read
every few hours, and a machine that is deleted a minute later gives its part back.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from catalog.facts import Note
from catalog.offers import RESTRICTED


def restricted(why: str) -> str:
    """The detail of a stock that this account cannot have: the selector never answers with one."""
    return f"{RESTRICTED}: {why}"


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit by its provider's name for it. `used` is None where it is not stated."""

    name: str
    unit: str
    """What is counted, such as `vCPUs`."""
    limit: int
    used: int | None

    def lets(self, needed: int) -> bool:
        """Whether the limit is as high as that, whatever of it is used now."""
        return self.limit >= needed

    @property
    def words(self) -> str:
        """`quota standardNCADSA100v4Family: 48 of 96 vCPUs used`."""
        return f"quota {self.name}: {self._amount}"

    def refusal(self, needed: int) -> str:
        """`NO_QUOTA: standardNDSH100v5Family 0 of 0 vCPUs used`, and what a machine takes where the limit is not 0."""
        takes = f", one machine takes {needed}" if self.limit > 0 else ""
        return f"NO_QUOTA: {self.name} {self._amount}{takes}"

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
