"""The first tables."""

import sqlalchemy as sa
from alembic import op

import store.times

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "cells",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("feed", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("part", sa.String(), nullable=False),
        sa.Column("every_s", sa.Float(), nullable=False),
        sa.Column("fresh_s", sa.Float(), nullable=False),
        sa.Column("absent", sa.String(), nullable=False),
        sa.Column("limit_key", sa.String(), nullable=False),
        sa.Column("limit_per_s", sa.Float(), nullable=False),
        sa.Column("planned", sa.Boolean(), nullable=False),
        sa.Column("due_at", store.times.Instant(), nullable=False),
        sa.Column("lease_until", store.times.Instant(), nullable=True),
        sa.Column("token", sa.String(), nullable=True),
        sa.Column("paused_until", store.times.Instant(), nullable=True),
        sa.Column("memo", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("seen_at", store.times.Instant(), nullable=True),
        sa.Column("tried_at", store.times.Instant(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("facts", sa.Integer(), nullable=False),
        sa.Column("offers", sa.Integer(), nullable=False),
        sa.Column("held", sa.String(), nullable=True),
        sa.Column("held_at", store.times.Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("provider", "feed", "place", "part"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("cells", schema=None) as batch_op:
        batch_op.create_index("cells_due", ["planned", "due_at"], unique=False)

    op.create_table(
        "drifts",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("at", store.times.Instant(), nullable=False),
        sa.Column("page", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cell_id"),
    )
    op.create_table(
        "flags",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "launches",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("zone_key", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("purchase", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=True),
        sa.Column("level", sa.String(), nullable=True),
        sa.Column("at", store.times.Instant(), nullable=False),
        sa.Column("until", store.times.Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("launches", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_launches_until"), ["until"], unique=False)

    op.create_table(
        "limits",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("next_at", store.times.Instant(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "machines",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("gpu", sa.String(), nullable=True),
        sa.Column("gpu_count", sa.String(), nullable=True),
        sa.Column("gpu_raw", sa.String(), nullable=False),
        sa.Column("vram_mib", sa.Integer(), nullable=True),
        sa.Column("vcpus", sa.Integer(), nullable=True),
        sa.Column("memory_mib", sa.Integer(), nullable=True),
        sa.Column("nvlink", sa.Boolean(), nullable=True),
        sa.Column("rdma", sa.Boolean(), nullable=True),
        sa.Column("bare_metal", sa.Boolean(), nullable=True),
        sa.Column("hosting", sa.String(), nullable=False),
        sa.Column("upstream", sa.String(), nullable=True),
        sa.Column("purchases", sa.String(), nullable=False),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", store.times.Instant(), nullable=True),
        sa.PrimaryKeyConstraint("cell_id", "region", "instance_type"),
    )
    with op.batch_alter_table("machines", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_machines_region"), ["region"], unique=False)

    op.create_table(
        "notes",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_at", store.times.Instant(), nullable=False),
        sa.PrimaryKeyConstraint("cell_id", "kind", "value"),
    )
    op.create_table(
        "offered",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("zone_key", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", store.times.Instant(), nullable=True),
        sa.PrimaryKeyConstraint("cell_id", "region", "zone_key", "instance_type"),
    )
    with op.batch_alter_table("offered", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_offered_region"), ["region"], unique=False)

    op.create_table(
        "prices",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("zone_key", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("purchase", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("nanos", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("list_nanos", sa.BigInteger(), nullable=True),
        sa.Column("upfront_nanos", sa.BigInteger(), nullable=True),
        sa.Column("term_months", sa.Integer(), nullable=True),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("as_of", store.times.Instant(), nullable=True),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", store.times.Instant(), nullable=True),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("cell_id", "region", "zone_key", "instance_type", "purchase"),
    )
    with op.batch_alter_table("prices", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_prices_region"), ["region"], unique=False)

    op.create_table(
        "providers",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("account", sa.Boolean(), nullable=False),
        sa.Column("site", sa.String(), nullable=True),
        sa.Column("evidence", sa.String(), nullable=False),
        sa.Column("off", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("paused", sa.String(), nullable=True),
        sa.Column("configured", sa.Boolean(), nullable=False),
        sa.Column("feeds", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "regions",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("country", sa.String(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=True),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cell_id", "region"),
    )
    op.create_table(
        "stocks",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("zone_key", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("purchase", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("evidence", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("score", sa.String(), nullable=True),
        sa.Column("quantity", sa.Integer(), nullable=True),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", store.times.Instant(), nullable=True),
        sa.PrimaryKeyConstraint("cell_id", "region", "zone_key", "instance_type", "purchase"),
    )
    with op.batch_alter_table("stocks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_stocks_region"), ["region"], unique=False)

    op.create_table(
        "syncs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("feed", sa.String(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("part", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("facts", sa.Integer(), nullable=False),
        sa.Column("notes", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", store.times.Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("syncs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_syncs_started_at"), ["started_at"], unique=False)

    op.create_table(
        "zones",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cell_id", "region", "zone"),
    )


def downgrade() -> None:
    op.drop_table("zones")
    with op.batch_alter_table("syncs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_syncs_started_at"))

    op.drop_table("syncs")
    with op.batch_alter_table("stocks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_stocks_region"))

    op.drop_table("stocks")
    op.drop_table("regions")
    op.drop_table("providers")
    with op.batch_alter_table("prices", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_prices_region"))

    op.drop_table("prices")
    with op.batch_alter_table("offered", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_offered_region"))

    op.drop_table("offered")
    op.drop_table("notes")
    with op.batch_alter_table("machines", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_machines_region"))

    op.drop_table("machines")
    op.drop_table("limits")
    with op.batch_alter_table("launches", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_launches_until"))

    op.drop_table("launches")
    op.drop_table("flags")
    op.drop_table("drifts")
    with op.batch_alter_table("cells", schema=None) as batch_op:
        batch_op.drop_index("cells_due")

    op.drop_table("cells")
