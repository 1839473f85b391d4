"""The history of prices and stock; on PostgreSQL partitions, and a call to whoever listens for changes."""

import sqlalchemy as sa
from alembic import op

import store.times

revision = "0002"
down_revision = "0001"

CALLS = {"cells": "INSERT OR UPDATE OF revision", "launches": "INSERT", "providers": "INSERT OR UPDATE"}
"""What a reader keeps in memory changes with these."""


def upgrade() -> None:
    op.add_column("cells", sa.Column("digest", sa.String(), nullable=False, server_default=""))
    op.create_table(
        "series",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("zone_key", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("purchase", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("cell_id", "id"),
    )
    op.create_table(
        "price_log",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("series", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", store.times.Instant(), nullable=False),
        sa.Column("nanos", sa.BigInteger(), nullable=True),
        sa.Column("currency", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("cell_id", "series", "at"),
        sqlite_with_rowid=False,
        postgresql_partition_by="RANGE (at)",
    )
    op.create_table(
        "stock_log",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("series", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", store.times.Instant(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("evidence", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("cell_id", "series", "at"),
        sqlite_with_rowid=False,
        postgresql_partition_by="RANGE (at)",
    )
    op.create_table(
        "beats",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("start_at", store.times.Instant(), nullable=False),
        sa.Column("until_at", store.times.Instant(), nullable=False),
        sa.PrimaryKeyConstraint("cell_id", "start_at"),
    )
    op.create_table(
        "past_machines",
        sa.Column("provider", sa.String(), nullable=False),
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
        sa.Column("gone_at", store.times.Instant(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "region", "instance_type"),
    )
    op.create_index(op.f("ix_past_machines_gone_at"), "past_machines", ["gone_at"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        _postgresql()


def _postgresql() -> None:
    op.alter_column("syncs", "id", type_=sa.BigInteger(), existing_type=sa.Integer(), existing_nullable=False)
    op.execute("ALTER SEQUENCE syncs_id_seq AS bigint")
    for log in ("price_log", "stock_log"):
        op.execute(f"CREATE TABLE {log}_rest PARTITION OF {log} DEFAULT")
    op.execute(
        "CREATE FUNCTION gpufare_call() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN PERFORM pg_notify('gpufare', ''); RETURN NULL; END$$"
    )
    for table, changes in CALLS.items():
        op.execute(
            f"CREATE TRIGGER gpufare_call AFTER {changes} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION gpufare_call()"
        )


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table in CALLS:
            op.execute(f"DROP TRIGGER gpufare_call ON {table}")
        op.execute("DROP FUNCTION gpufare_call()")
        op.alter_column("syncs", "id", type_=sa.Integer(), existing_type=sa.BigInteger(), existing_nullable=False)
        op.execute("ALTER SEQUENCE syncs_id_seq AS integer")
    for table in ("past_machines", "beats", "stock_log", "price_log", "series"):
        op.drop_table(table)
    op.drop_column("cells", "digest")
