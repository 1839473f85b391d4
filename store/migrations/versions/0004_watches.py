"""Watches, targets, and what is told of them."""

import sqlalchemy as sa
from alembic import op

import store.times

revision = "0004"
down_revision = "0003"
TABLES = ("targets", "watches", "watch_states", "seen_levels", "events", "event_watches", "deliveries", "duties")


def upgrade() -> None:
    op.create_table(
        "targets",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(), nullable=True),
        sa.Column("keyword", sa.String(), nullable=True),
        sa.Column("lang", sa.String(), nullable=False),
        sa.Column("managed", sa.Boolean(), nullable=False),
        sa.Column("created_at", store.times.Instant(), nullable=False),
        sa.Column("dead_at", store.times.Instant(), nullable=True),
        sa.Column("dead_why", sa.Text(), nullable=True),
        sa.Column("paused_until", store.times.Instant(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "watches",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("notify", sa.Text(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("price_below", sa.String(), nullable=True),
        sa.Column("change_percent", sa.String(), nullable=False),
        sa.Column("hold_s", sa.Float(), nullable=False),
        sa.Column("hold_back_s", sa.Float(), nullable=False),
        sa.Column("remind_s", sa.Float(), nullable=True),
        sa.Column("heartbeat_s", sa.Float(), nullable=True),
        sa.Column("daily_cap", sa.Integer(), nullable=True),
        sa.Column("expires_at", store.times.Instant(), nullable=True),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("managed", sa.Boolean(), nullable=False),
        sa.Column("created_at", store.times.Instant(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "watch_states",
        sa.Column("watch_id", sa.String(), nullable=False),
        sa.Column("memory", sa.Text(), nullable=False),
        sa.Column("last_event", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("watch_id"),
    )
    op.create_table(
        "seen_levels",
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("zone_key", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("purchase", sa.String(), nullable=False),
        sa.Column("upstream", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("at", store.times.Instant(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "region", "zone_key", "instance_type", "purchase", "upstream"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("watch_id", sa.String(), nullable=True),
        sa.Column("at", store.times.Instant(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_events_at", "events", ["at"])
    op.create_index("ix_events_watch_id", "events", ["watch_id"])
    op.create_table(
        "event_watches",
        sa.Column("watch_id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("watch_id", "event_id"),
    )
    op.create_index("ix_event_watches_event_id", "event_watches", ["event_id"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("watch_id", sa.String(), nullable=True),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", store.times.Instant(), nullable=False),
        sa.Column("token", sa.String(), nullable=True),
        sa.Column("lease_until", store.times.Instant(), nullable=True),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("at", store.times.Instant(), nullable=False),
        sa.Column("ended_at", store.times.Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("deliveries_due", "deliveries", ["status", "target", "next_at", "id"])
    op.create_index("deliveries_leased", "deliveries", ["lease_until"])
    op.create_index("deliveries_ended", "deliveries", ["ended_at"])
    op.create_index("deliveries_of", "deliveries", ["watch_id", "at"])
    op.create_index("ix_deliveries_event_id", "deliveries", ["event_id"])
    op.create_table(
        "duties",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("until", store.times.Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    for name in reversed(TABLES):
        op.drop_table(name)
