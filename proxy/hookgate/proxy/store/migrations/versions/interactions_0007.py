"""The table of interactions."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """From a database of counters, the audit, sessions, issued keys, policy revisions and pinned tools."""
    op.create_table(
        "interactions",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text()),
        sa.Column("continues_known", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("counted", sa.Integer(), nullable=False),
        sa.Column("request", sa.LargeBinary()),
        sa.Column("answer", sa.LargeBinary()),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", "name", name="pk_interactions"),
    )
    op.create_index("ix_interactions_created", "interactions", ["created"])
