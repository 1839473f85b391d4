"""What a file says of targets and watches, written in one transaction: all of it, or nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select

from catalog.watches import Watch
from store.engine import in_turn, reading, writing
from store.watch_tables import TARGETS
from store.watches import (
    WATCHING,
    KeptTarget,
    add_watch_in,
    put_target_in,
    remove_target_in,
    remove_watch_in,
    replace_watch_in,
    targets_in,
    watches_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What there is."""

    targets: Sequence[KeptTarget]
    watches: Sequence[Watch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """What is to be written. Of a watch the first state stands beside it; None leaves the one that it has."""

    targets: Sequence[KeptTarget] = ()
    new: Sequence[tuple[Watch, str]] = ()
    changed: Sequence[tuple[Watch, str | None]] = ()
    gone_watches: Sequence[str] = ()
    """Ids."""
    gone_targets: Sequence[str] = ()


def kept(engine: Engine) -> Kept:
    """What there is now."""
    with reading(engine) as connection:
        names = connection.execute(select(TARGETS.c.name)).scalars().all()
        return Kept(targets=targets_in(connection, names), watches=watches_in(connection))


def rewrite(engine: Engine, decide: Callable[[Kept], Rewriting], now: datetime) -> None:
    """Write what `decide` makes of what there is, while nobody else writes any of it.

    Raises UnknownTargets where a watch names a target that there is none of then, and InUse where a target that is to
    go is named by a watch that stays.
    """
    with writing(engine) as connection:
        in_turn(connection, WATCHING)
        names = connection.execute(select(TARGETS.c.name)).scalars().all()
        wanted = decide(Kept(targets=targets_in(connection, names), watches=watches_in(connection)))
        for target in wanted.targets:
            put_target_in(connection, target)
        for watch, first in wanted.new:
            add_watch_in(connection, watch, first)
        for watch, memory in wanted.changed:
            replace_watch_in(connection, watch, memory)
        for watch_id in wanted.gone_watches:
            remove_watch_in(connection, watch_id, now)
        for name in wanted.gone_targets:
            remove_target_in(connection, name, now)
