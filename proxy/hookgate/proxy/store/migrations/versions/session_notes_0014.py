"""The notes of policies on sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """From a database without notes on sessions."""
    op.create_table(
        "session_notes",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("note", sa.LargeBinary(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key", "session"],
            ["sessions.key", "sessions.id"],
            name="fk_session_notes_key",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("key", "session", "version", name="pk_session_notes"),
    )
