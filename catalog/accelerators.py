"""The accelerators and their names: what a person's question and a provider's own spelling stand for.

The table is `accelerators.csv`, where date and sources are. Names are compared whole, by their lower-cased letters and
digits, never by prefix: `H20` is not `H200`, `A100` is not in `A1000`.
"""

import csv
import difflib
import re
import unicodedata
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TypeVar

from catalog.units import MIB_PER_GIB

_MEMORY_TOLERANCE_PERCENT = 7  # EC2 says 22888 MiB for 24 GiB, Verda 268 GiB for the 288 of a B300
_LINKED_FORMS = ("SXM", "OAM", "superchip", "NVL72")

_COUNT = re.compile(r"^\s*\d+\s*[x×*]\s*", re.IGNORECASE)
_REMARK = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]")
_MEANT_REMARK = re.compile(
    r"\d\s*g(i?b)?\b|pci|sxm|oam|nvl|superchip|mig|slice|vgpu|shared|fraction|\d\s*/\s*\d"
    r"|\b(ada|ti|super|laptop|mobile|sff|max-?q|edition)\b",
    re.IGNORECASE,
)
"""Memory, a form, a part of a card, an edition: what changes which product is meant."""

_NAME_MARKS = frozenset("-_./()+*×")
"""What a name may hold beside letters, digits and blanks. Anything else (`80%`) says something not understood."""

_K = TypeVar("_K")

_MAX_SUGGESTIONS = 6
_MAX_WORDS = 12  # a name is a few words and a few letters; more is not searched
_MAX_KEY = 64


class UnknownAccelerator(ValueError):
    """No accelerator has this name, or it names models of several families. `did_you_mean`: names that resolve."""

    def __init__(self, text: str, did_you_mean: list[str]) -> None:
        self.text = text
        self.did_you_mean = did_you_mean
        hint = f"did you mean {' or '.join(did_you_mean)}?" if did_you_mean else "`GET /gpus` lists all."
        super().__init__(f"{text!r} names no single accelerator: {hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One model as sold, or with `unstated` a model whose provider leaves something out. None is unknown, never 0."""

    id: str
    group: str
    """Same model and memory, any form."""
    family: str
    vendor: str
    architecture: str
    name: str
    form: str | None
    unstated: frozenset[str]
    """What the provider leaves out: `form`, `memory`, `edition`. Figures are then the lowest of the variants."""
    kind: str
    """`gpu`, `tpu`, `asic`, or `media` for a video transcoder."""
    vram_mib: int | None
    bandwidth_gbs: int | None
    fp16_dense_tflops: Decimal | None
    """Of the matrix units, without sparsity; None where there are none."""
    fp16_is_tensor: bool | None
    fp8_dense_tflops: Decimal | None
    nvlink_gbs_per_gpu: Decimal | None
    """Link to its peers, of any make; on a PCIe card only where a bridge joins a pair."""
    mig_max: int | None
    export_sku: str | None
    """`china`: made for export there."""
    aliases: tuple[str, ...]
    ambiguous_aliases: tuple[str, ...]
    provider_aliases: tuple[tuple[str, str], ...]
    """(provider, name): true in that provider's own answers only."""
    instance_families: tuple[tuple[str, str], ...]
    """(provider, what precedes the dot of an instance type)."""

    @property
    def nvlink(self) -> bool | None:
        """Whether every machine with this form links its accelerators, whatever their count; None where unknown.

        False for PCIe cards, as a bridge joins only pairs: a provider that says otherwise is believed elsewhere.
        Unknown of TPUs: chips of one machine are linked, but not by NVLink, and which machine has several is not said.
        """
        if self.form is None or self.kind == "tpu":
            return None
        if not self.form.startswith(_LINKED_FORMS):
            return False
        return None if self.nvlink_gbs_per_gpu is None else self.nvlink_gbs_per_gpu > 0


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every accelerator by its id, in the order of the table."""
    text = resources.files("catalog").joinpath("accelerators.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return MappingProxyType({row["id"]: _accelerator(row) for row in rows})


def same_memory(a_mib: int, nominal_mib: int) -> bool:
    """Whether a stated memory is that nominal size: providers round and reserve, up to 7 % of the nominal."""
    return abs(a_mib - nominal_mib) * 100 <= _MEMORY_TOLERANCE_PERCENT * nominal_mib


def resolve_question(text: str) -> frozenset[str]:
    """The ids a person's words stand for: an id, else a group, else a family, else an alias.

    A name that several models of one family share means any of them. Raises `UnknownAccelerator` for a name that
    nothing bears, that spans families, or that holds marks which no name has; never the nearest match.
    """
    hit = _first(_meanings(), _spellings(text)) if _is_a_name(text) else None
    if hit is None or len({accelerators()[i].family for i in hit}) > 1:
        raise UnknownAccelerator(text, _suggestions(text))
    return hit


def _is_a_name(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text)
    return all(character.isalnum() or character.isspace() or character in _NAME_MARKS for character in plain)


def resolve_offer(
    raw: str, *, provider: str, instance_type: str | None = None, vram_mib: int | None = None
) -> str | None:
    """The id a provider means by its own spelling; an `unstated` row's id where it leaves something open, else None.

    `vram_mib` is what the provider states for ONE WHOLE accelerator: pass none for a slice, or for a machine's total.
    The instance family is believed first, then the provider's own alias, then names that hold everywhere. A slice's
    name (`… MIG 1g.24gb`) is no accelerator's.
    """
    meant = _meant(raw, provider, instance_type)
    if meant is None or vram_mib is None:
        return _only(meant) if meant else None
    if fitting := _with_memory(meant, vram_mib):
        return _only(fitting)
    siblings = _of_families(meant)
    # Name and memory contradict each other where a sibling has that memory: then neither is taken at its word. Where
    # none has it, the card was converted (RTX 4090 48 GB) or the figure is wrong (EC2 bundle: Trainium2 512 GiB).
    return _only(siblings) if _with_memory(siblings, vram_mib) else _only(meant)


def _meant(raw: str, provider: str, instance_type: str | None) -> frozenset[str] | None:
    if instance_type and (known := _instance_families().get((provider, instance_type.partition(".")[0].casefold()))):
        return known
    keys = list(_spellings(raw))
    return _first(_provider_names(), ((provider, key) for key in keys)) or _first(_meanings(), keys)


def _first(names: Mapping[_K, frozenset[str]], keys: Iterable[_K]) -> frozenset[str] | None:
    return next((names[key] for key in keys if key in names), None)


def _only(ids: frozenset[str]) -> str | None:
    """The one model among these, or the narrowest row that leaves open what they differ in, or None."""
    table = accelerators()
    stated = [i for i in ids if not table[i].unstated]
    if len(stated) == 1:
        return stated[0]
    covering = [i for i, row in table.items() if row.unstated and ids <= _stands_for(i)]
    return min(covering, key=lambda i: len(_stands_for(i)), default=None)


def _with_memory(ids: frozenset[str], mib: int) -> frozenset[str]:
    nominal = {i: accelerators()[i].vram_mib for i in ids}
    return frozenset(i for i, vram_mib in nominal.items() if vram_mib is not None and same_memory(mib, vram_mib))


def _of_families(ids: frozenset[str]) -> frozenset[str]:
    families = {accelerators()[i].family for i in ids}
    return frozenset(row.id for row in accelerators().values() if row.family in families)


@cache
def _stands_for(accelerator_id: str) -> frozenset[str]:
    """The model itself; for an `unstated` row its whole group, or its family where the memory is open too."""
    row = accelerators()[accelerator_id]
    if not row.unstated:
        return frozenset({row.id})
    if "memory" in row.unstated:
        return _of_families(frozenset({row.id}))
    return frozenset(other.id for other in accelerators().values() if other.group == row.group)


def _spellings(text: str) -> Iterator[str]:
    """What to look up: the whole text, then without its leading count, then without its remarks too."""
    plain = unicodedata.normalize("NFKC", text)
    counted = _COUNT.sub("", plain)
    yield _key(plain)
    yield _key(counted)
    yield _key(_REMARK.sub(_unless_meant, counted))


def _unless_meant(remark: re.Match[str]) -> str:
    return remark[0] if _MEANT_REMARK.search(remark[0]) or _key(remark[0]) in _meanings() else " "


def _key(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


@cache
def _meanings() -> Mapping[str, frozenset[str]]:
    """What each name means wherever it is said: ids before groups, families, aliases, ambiguous aliases."""
    rows = list(accelerators().values())
    return ChainMap(
        _index((row.id, frozenset({row.id})) for row in rows),
        _index((row.group, frozenset({row.id})) for row in rows),
        _index((row.family, frozenset({row.id})) for row in rows),
        _index((name, _stands_for(row.id)) for row in rows for name in (row.name, *row.aliases)),
        _index((name, _stands_for(row.id)) for row in rows for name in row.ambiguous_aliases),
    )


def _index(pairs: Iterable[tuple[str, frozenset[str]]]) -> dict[str, frozenset[str]]:
    index: dict[str, frozenset[str]] = {}
    for name, ids in pairs:
        index[_key(name)] = index.get(_key(name), frozenset()) | ids
    return index


@cache
def _provider_names() -> Mapping[tuple[str, str], frozenset[str]]:
    rows = accelerators().values()
    return {(provider, _key(name)): _stands_for(row.id) for row in rows for provider, name in row.provider_aliases}


@cache
def _instance_families() -> Mapping[tuple[str, str], frozenset[str]]:
    return {family: frozenset({row.id}) for row in accelerators().values() for family in row.instance_families}


def _suggestions(text: str) -> list[str]:
    """Names that resolve, the likeliest first: of the longest name said inside the text, else of names like it."""
    key = _key(text)[:_MAX_KEY]
    if said := [run for run in _runs(text) if run in _meanings()]:
        groups = _groups(_meanings()[max(said, key=len)])
        return sorted(groups, key=lambda group: _likeness(key, group), reverse=True)[:_MAX_SUGGESTIONS]
    like = difflib.get_close_matches(key, list(_meanings()), n=_MAX_SUGGESTIONS)
    like.sort(key=lambda near: not near.endswith(key))  # who leaves out how it begins (`4090`) means its whole end
    names = (name for near in like for name in _family_or_groups(_meanings()[near]))
    return list(dict.fromkeys(names))[:_MAX_SUGGESTIONS]


def _runs(text: str) -> Iterator[str]:
    words = re.findall(r"[^\W_]+", text.casefold())[:_MAX_WORDS]
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            yield "".join(words[start:end])


def _groups(ids: frozenset[str]) -> list[str]:
    rows = (row for row in accelerators().values() if row.id in ids and "memory" not in row.unstated)
    return list(dict.fromkeys(row.group for row in rows))


def _family_or_groups(ids: frozenset[str]) -> list[str]:
    families = {accelerators()[i].family for i in ids}
    return list(families) if len(families) == 1 and ids == _of_families(ids) else _groups(ids)


def _likeness(key: str, name: str) -> float:
    return difflib.SequenceMatcher(None, key, _key(name)).ratio()


def _accelerator(row: Mapping[str, str]) -> Accelerator:
    is_tensor = {"yes": True, "no": False, "": None}[row["fp16_is_tensor"]]
    vram_gib = _whole(row["vram_gib"])
    return Accelerator(
        id=row["id"],
        group=row["group"],
        family=row["family"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        name=row["name"],
        form=row["form_factor"] or None,
        unstated=frozenset(filter(None, row["unstated"].split("+"))),
        kind=row["kind"],
        vram_mib=None if vram_gib is None else vram_gib * MIB_PER_GIB,
        bandwidth_gbs=_whole(row["bandwidth_gbs"]),
        fp16_dense_tflops=_exact(row["fp16_dense_tflops"]) if is_tensor else None,
        fp16_is_tensor=is_tensor,
        fp8_dense_tflops=_exact(row["fp8_dense_tflops"]),
        nvlink_gbs_per_gpu=_exact(row["nvlink_gbs_per_gpu"]),
        mig_max=_whole(row["mig_max"]),
        export_sku=row["export_sku"] or None,
        aliases=_names(row["aliases"]),
        ambiguous_aliases=_names(row["ambiguous_aliases"]),
        provider_aliases=_provider_pairs(row["provider_aliases"]),
        instance_families=_provider_pairs(row["instance_families"]),
    )


def _whole(cell: str) -> int | None:
    return int(cell) if cell else None


def _exact(cell: str) -> Decimal | None:
    return Decimal(cell) if cell else None


def _names(cell: str) -> tuple[str, ...]:
    return tuple(filter(None, cell.split("|")))


def _provider_pairs(cell: str) -> tuple[tuple[str, str], ...]:
    return tuple((provider, name) for provider, _, name in (pair.partition(":") for pair in _names(cell)))
