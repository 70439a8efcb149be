"""The table of the pushed policy's revisions."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """From a database of counters, the audit, sessions and issued keys."""
    op.create_table(
        "policy_revisions",
        sa.Column("number", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("parent", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("pushed", sa.BigInteger(), nullable=False),
        sa.Column("pushed_by", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("restores", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_policy_revisions"),
    )
