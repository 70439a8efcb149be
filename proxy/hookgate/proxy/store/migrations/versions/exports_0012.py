"""The tables of exports."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """From a database without exports."""
    op.create_table(
        "exports",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("begun", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("error_at", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_exports"),
    )
    op.create_table(
        "export_positions",
        sa.Column("export", sa.Text(), nullable=False),
        sa.Column("writer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("export", "writer", name="pk_export_positions"),
    )
    op.create_table(
        "export_refusals",
        sa.Column("export", sa.Text(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("export", "writer", "seq", name="pk_export_refusals"),
    )
