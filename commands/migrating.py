"""`gpufare migrate`: tables and partitions as this version needs them, made before the processes that use them."""

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine

from commands import build
from commands.output import say
from store.clock import clock_of
from store.engine import reading, shown
from store.partitions import prepare


def run_migrate() -> None:
    """Migrate, and say in a line what was done."""
    engine = build.opened(build.settings())
    before = _version(engine)
    build.migrate(engine)
    prepare(engine, clock_of(engine)())
    after = _version(engine)
    done = "nothing was to be done" if before == after else f"it was {f'at {before}' if before else 'empty'}"
    say(f"the database {shown(engine)} is at version {after}: {done}")


def _version(engine: Engine) -> str | None:
    """The version of the tables; None where there are none."""
    with reading(engine) as connection:
        return MigrationContext.configure(connection).get_current_revision()
