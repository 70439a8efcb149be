"""The table of counters."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """From an empty database."""
    op.create_table(
        "counters",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("total", sa.Double(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_counters"),
    )
    op.create_index("ix_counters_expires", "counters", ["expires"])
