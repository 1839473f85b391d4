"""A price may be of a window that is booked."""

import sqlalchemy as sa
from alembic import op

import store.times

revision = "0003"
down_revision = "0002"
COLUMNS = ("window_starts_at", "window_ends_at")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("prices", sa.Column(name, store.times.Instant(), nullable=True))


def downgrade() -> None:
    for name in reversed(COLUMNS):
        op.drop_column("prices", name)
