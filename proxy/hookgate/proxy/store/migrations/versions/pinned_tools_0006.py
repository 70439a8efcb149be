"""The table of pinned tools."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """From a database of counters, the audit, sessions, issued keys and policy revisions."""
    op.create_table(
        "pinned_tools",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_pinned_tools"),
    )
