"""The history of prices and stock; on PostgreSQL partitions, and a call to whoever listens for changes."""

import sqlalchemy as sa
from alembic import op

import store.times
from store.bulk import upsert
from store.rows import series_of

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
    _begin_history()


def _begin_history() -> None:
    """What is stated now is what the history begins with, at the time when it was last seen."""
    stated = (("prices", "price_log", "nanos, currency"), ("stocks", "stock_log", "level, evidence"))
    for facts, log, logged in stated:
        rows = op.get_bind().exec_driver_sql(
            "SELECT cell_id, region, zone_key, instance_type, purchase, zone, zone_id, "  # noqa: S608 - our own names
            f"coalesce(facts.seen_at, cells.seen_at), {logged} FROM {facts} AS facts "
            "JOIN cells ON cells.id = cell_id WHERE feed <> 'snapshot' AND cells.seen_at IS NOT NULL"
        )
        of_series, points = [], []
        for cell_id, *key, zone, zone_id, seen_at, first, second in rows.fetchall():
            series = series_of(tuple(key))
            of_series.append((cell_id, series, *key, zone, zone_id))
            points.append((cell_id, series, seen_at, first, second))
        columns = ("region", "zone_key", "instance_type", "purchase", "zone", "zone_id")
        upsert(op.get_bind(), "series", ("cell_id", "id"), columns, of_series)
        upsert(op.get_bind(), log, ("cell_id", "series", "at"), logged.split(", "), points)
    op.execute(
        "INSERT INTO beats SELECT id, seen_at, seen_at + CAST(fresh_s * 1000000 AS BIGINT) FROM cells "
        "WHERE feed <> 'snapshot' AND seen_at IS NOT NULL"
    )


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
