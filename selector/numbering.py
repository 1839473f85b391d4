"""Numbers for things that many offers share, so that arrays can name them."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Numbering(Generic[_T]):
    """Gives each distinct thing a small number for as long as somebody holds it; then the number is free again."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []
        self._things: list[_T] = []
        self._holders: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many things are held."""
        return len(self._numbers)

    def __getitem__(self, number: int) -> _T:
        """The thing of a number that is held."""
        return self._things[number]

    def hold(self, things: Mapping[Hashable, _T]) -> dict[Hashable, int]:
        """Key -> the number of its thing. Things of one key are taken for the same; each call is one more holder."""
        held = {key: self._number(key, thing) for key, thing in things.items()}
        for number in held.values():
            self._holders[number] += 1
        return held

    def release(self, numbers: Iterable[int]) -> None:
        """One holder less for each."""
        for number in numbers:
            self._holders[number] -= 1
            if not self._holders[number]:
                del self._numbers[self._keys[number]]
                self._free.append(number)

    def _number(self, key: Hashable, thing: _T) -> int:
        number = self._numbers.get(key)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
            self._keys[number], self._things[number] = key, thing
        else:
            number = len(self._keys)
            self._keys.append(key)
            self._things.append(thing)
            self._holders.append(0)
        self._numbers[key] = number
        return number


class Numbered(dict[_T, int]):
    """Numbers whatever it is asked for, from 0 on."""

    def __missing__(self, key: _T) -> int:
        self[key] = len(self)
        return self[key]
