"""The tables of the audit."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ENDED_CALLS = sa.text("outcome IS NOT NULL")
_FOUND_BY = ("session", "key", "model", "outcome")


def upgrade() -> None:
    """Upgrade a database that has only counters."""
    op.create_table(
        "audit_writers",
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("ended", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit_writers"),
    )
    _create_records()
    op.create_table(
        "audit_content",
        sa.Column("writer", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("seq", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("writer", "seq", name="pk_audit_content"),
    )
    op.create_table(
        "audit_open",
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("writer", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_open"),
    )


def _create_records() -> None:
    op.create_table(
        "audit_records",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("writer", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("id", sa.LargeBinary(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=True) for name in _FOUND_BY),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("position", name="pk_audit_records"),
    )
    op.create_index("ix_audit_records_id", "audit_records", ["id"])
    for name in _FOUND_BY:
        op.create_index(
            f"ix_audit_records_{name}",
            "audit_records",
            [name, "position"],
            sqlite_where=_ENDED_CALLS,
            postgresql_where=_ENDED_CALLS,
        )
