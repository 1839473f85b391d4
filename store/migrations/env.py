"""How alembic reaches the database: over the connection that `store.engine.migrate` holds."""

from alembic import context
from sqlmodel import SQLModel

import store.tables
import store.watch_tables  # noqa: F401 - likewise

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    transactional_ddl=False,
    render_as_batch=True,
)
context.run_migrations()
