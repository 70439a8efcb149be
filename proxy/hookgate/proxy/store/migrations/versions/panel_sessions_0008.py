"""The tables of sessions in the panel."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """From a database of counters, the audit, sessions, keys, policy revisions, pins and interactions."""
    op.create_table(
        "panel_sessions",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("proof", sa.LargeBinary(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("ends", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_panel_sessions"),
    )
    op.create_index("ix_panel_sessions_subject", "panel_sessions", ["subject"])
    op.create_table(
        "panel_keys",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_panel_keys"),
    )
