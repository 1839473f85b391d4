"""Targets and watches as a file has them: what it adds, changes and no longer has, all of it or nothing.

What the file made is `managed`: it alone changes it. A target of the same name that was made by hand becomes the
file's; watches that were made by hand are left alone, whatever they are called.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace as with_fields

from api.problems import Problem, refused
from api.serving import Serving
from api.targets import check_reachable, near_names, new_target, warnings_of
from api.watch_rules import changed_watch, looks_anew, time_of
from api.watch_shapes import Applied, AppliedChange, ApplyRequest, TargetRequest, WatchRequest
from api.watching import Shown, first_look
from catalog.watches import Format, Target, Watch
from selector.values import BadQuestion
from store import watch_file
from store.watch_file import Kept, Rewriting
from store.watches import KeptTarget, new_watch_id

_NEVER_IN_A_FILE = frozenset({"id", "created_at", "revision", "managed"})
_SHOWN = {"expires_at": "expires"}


@dataclass(frozen=True, slots=True)
class _Entry:
    """Something of the file, and how it is called in a refusal."""

    where: str
    thing: Any


def apply(serving: Serving, asked: ApplyRequest) -> Applied:
    """Do it, or with `dry_run` only say what it would be. Problem names the entry that cannot be used."""
    now = serving.now()
    serving.board.refresh(now)
    applying = _Applying(serving, now, _targets(asked.targets), _watches(asked.watches, now))
    plan = applying.plan(watch_file.kept(serving.engine))  # what takes long is done before others have to wait for it
    if plan.changes and not asked.dry_run:

        def decide(kept: Kept) -> Rewriting:
            nonlocal plan
            plan = applying.plan(kept)
            return plan.rewriting

        watch_file.rewrite(serving.engine, decide, now)
    written = sum(change.change != "removed" for change in plan.changes)
    return Applied(
        dry_run=asked.dry_run,
        changes=plan.changes,
        unchanged=len(asked.targets) + len(asked.watches) - written,
        warnings=list(applying.warnings()),
    )


# --- what the file says


@contextmanager
def _in(where: str) -> Iterator[None]:
    """Names the entry in the refusals of the block."""
    try:
        yield
    except BadQuestion as error:
        raise refused(f"{where}.{error.parameter}", f"{where}: {error}", error.did_you_mean) from None
    except Problem as error:
        if error.parameter is None:
            raise
        raise refused(f"{where}.{error.parameter}", f"{where}: {error.detail}", error.near) from None


def _targets(asked: Sequence[TargetRequest]) -> list[_Entry]:
    found = []
    for number, one in enumerate(asked):
        where = f"targets[{number}]"
        with _in(where):
            if one.format in (UNSET, Format.STANDARD) and not one.secret:
                hint = f"{Format.STANDARD} needs one here, since one that is made would be shown to nobody"
                raise refused("secret", f"secret: {hint}: whsec_ and 24 to 64 random bytes in base64.")
            found.append(_Entry(where, new_target(one)))
    _refuse_twice(found)
    return found


def _watches(asked: Sequence[WatchRequest], now: datetime) -> list[_Entry]:
    found = []
    for number, one in enumerate(asked):
        where = f"watches[{number}]"
        made_at = now + timedelta(microseconds=number)  # so that they are listed as they stand in the file
        blank = Watch(id="", name="", spec={}, notify=(), created_at=made_at, managed=True)
        with _in(where):
            watch = changed_watch(blank, with_fields(one, expires=UNSET), now)
            found.append(_Entry(where, replace(watch, expires_at=_expires(one))))
    _refuse_twice(found)
    return found


def _expires(asked: WatchRequest) -> datetime | None:
    """A time, which may have passed: a file stays as it is."""
    if asked.expires is UNSET or asked.expires is None:
        return None
    at = time_of(asked.expires)
    if at is None:
        said = (
            "write a time with its zone, such as 2026-12-31T12:00:00Z: a file means the same each time that it is read"
        )
        raise refused("expires", f"expires={asked.expires[:64]}: {said}.")
    return at


def _refuse_twice(entries: Iterable[_Entry]) -> None:
    names = Counter(entry.thing.name for entry in entries)
    for entry in entries:
        if names[entry.thing.name] > 1:
            said = f"there are {names[entry.thing.name]} of the name {entry.thing.name}: give each its own."
            raise refused(f"{entry.where}.name", f"{entry.where}: {said}")


# --- what comes of it


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be written, and in words."""

    rewriting: Rewriting
    changes: list[AppliedChange]


@dataclass(frozen=True, slots=True)
class _Applying:
    """A file over what there is. What takes long is remembered."""

    serving: Serving
    now: datetime
    targets: Sequence[_Entry]
    watches: Sequence[_Entry]
    _reachable: set[tuple[Format, str]] = field(default_factory=set)
    _firsts: dict[str, str] = field(default_factory=dict)

    def plan(self, kept: Kept) -> _Plan:
        """What the file changes of this. Problem for what cannot be."""
        before = {one.target.name: one for one in kept.targets}
        own = {watch.name: watch for watch in kept.watches if watch.managed}
        wanted, names = {one.thing.name for one in self.targets}, {one.thing.name for one in self.watches}
        gone_targets = [name for name, one in before.items() if one.managed and name not in wanted]
        gone_watches = [watch for watch in own.values() if watch.name not in names]
        targets = [(one, before.get(one.thing.name)) for one in self.targets]
        targets = [(one, was) for one, was in targets if was is None or not was.managed or was.target != one.thing]
        pairs = [(one, own.get(one.thing.name)) for one in self.watches]
        watches = [(one, was) for one, was in pairs if was is None or _differing(was, one.thing)]
        self._refuse_unknown(wanted | before.keys() - set(gone_targets))
        _refuse_in_use(gone_targets, [watch for watch in kept.watches if not watch.managed])
        new = [(one.where, replace(one.thing, id=new_watch_id())) for one, was in watches if was is None]
        changed = [(one.where, _over(was, one.thing), was) for one, was in watches if was is not None]
        rewriting = Rewriting(
            targets=[self._target(one, was) for one, was in targets],
            new=[(watch, self._first(where, watch)) for where, watch in new],
            changed=[
                (after, self._first(where, after) if looks_anew(was, after, self.now) else None)
                for where, after, was in changed
            ],
            gone_watches=[watch.id for watch in gone_watches],
            gone_targets=gone_targets,
        )
        changes = [
            *(_target_change(one.thing, was) for one, was in targets),
            *(AppliedChange("watch", watch.name, "added", [], watch.id) for _, watch in new),
            *(AppliedChange("watch", was.name, "changed", _differing(was, after), was.id) for _, after, was in changed),
            *(AppliedChange("watch", watch.name, "removed", [], watch.id) for watch in gone_watches),
            *(AppliedChange("target", name, "removed", [], None) for name in gone_targets),
        ]
        return _Plan(rewriting, changes)

    def _target(self, entry: _Entry, was: KeptTarget | None) -> KeptTarget:
        target: Target = entry.thing
        address = (target.format, target.url)
        if address not in self._reachable and (was is None or (was.target.format, was.target.url) != address):
            with _in(entry.where):
                check_reachable(target, self.serving.config)
            self._reachable.add(address)
        return KeptTarget(target, self.now if was is None else was.created_at, managed=True)

    def _first(self, where: str, watch: Watch) -> str:
        """The first state of a watch."""
        if watch.name not in self._firsts:
            with _in(where):
                self._firsts[watch.name] = first_look(self.serving, watch, self.now).written()
        return self._firsts[watch.name]

    def warnings(self) -> Iterator[str]:
        """What is wrong with what the file has."""
        for entry in self.targets:
            yield from warnings_of(KeptTarget(entry.thing, self.now), self.serving.config)
        shown = Shown(self.serving)
        for entry in self.watches:
            yield from (f"watch {entry.thing.name}: {said}" for said in shown.warnings(entry.thing, self.now))

    def _refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse names of targets that there will be none of."""
        names = set(known)
        for entry in self.watches:
            for name in entry.thing.notify:
                if name not in names:
                    said = f"{entry.where}: there is no target {name[:64]}, here or in the file."
                    raise refused(f"{entry.where}.notify", said, near_names(name, names))


def _over(was: Watch, said: Watch) -> Watch:
    return replace(said, id=was.id, created_at=was.created_at, revision=was.revision)


def _differing(was: Watch, said: Watch) -> list[str]:
    """The fields that are others than before, as a request names them."""
    every = (one.name for one in fields(Watch) if one.name not in _NEVER_IN_A_FILE)
    return [_SHOWN.get(name, name) for name in every if getattr(was, name) != getattr(said, name)]


def _target_change(said: Target, was: KeptTarget | None) -> AppliedChange:
    if was is None:
        return AppliedChange("target", said.name, "added", [], None)
    differing = [one.name for one in fields(Target) if getattr(was.target, one.name) != getattr(said, one.name)]
    return AppliedChange("target", said.name, "changed", [*differing, *([] if was.managed else ["managed"])], None)


def _refuse_in_use(gone: Sequence[str], staying: Iterable[Watch]) -> None:
    using: Mapping[str, list[str]] = {name: [] for name in gone}
    for watch in staying:
        for name in watch.notify:
            if name in using:
                using[name].append(watch.name)
    for name, watches in using.items():
        if watches:
            said = f"The file no longer has the target {name}, and the watches {', '.join(watches)} name it."
            raise Problem(HTTPStatus.CONFLICT, said)
