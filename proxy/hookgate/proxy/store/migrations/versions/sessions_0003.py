"""The tables of sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """From a database of counters and the audit."""
    op.create_table(
        "sessions",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", "id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_used", "sessions", ["used"])
    op.create_table(
        "session_effects",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", "session", "identity", name="pk_session_effects"),
        sa.ForeignKeyConstraint(
            ["key", "session"],
            ["sessions.key", "sessions.id"],
            name="fk_session_effects_key",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_session_effects_version", "session_effects", ["key", "session", "version"])
    op.create_table(
        "session_names",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", "name", name="pk_session_names"),
    )
    op.create_index("ix_session_names_used", "session_names", ["used"])
    op.create_table(
        "accepted_keys",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_accepted_keys"),
    )
    op.create_index("ix_accepted_keys_used", "accepted_keys", ["used"])
