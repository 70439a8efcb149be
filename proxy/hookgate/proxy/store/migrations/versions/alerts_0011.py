"""The tables of alerts."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """From a database without alerts. No row is changed."""
    op.create_table(
        "alerts",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("calm", sa.BigInteger()),
        sa.Column("told", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "subject", "level", name="pk_alerts"),
    )
    op.create_table(
        "alert_deliveries",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.BigInteger()),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("delivered", sa.BigInteger()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_alert_deliveries"),
    )
    op.create_index("ix_alert_deliveries_created", "alert_deliveries", ["created"])
    op.create_index("ix_alert_deliveries_receiver", "alert_deliveries", ["receiver", "number"])
    op.create_table(
        "alert_silences",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("silenced_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rule", name="pk_alert_silences"),
    )
    op.create_table(
        "alert_lease",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_alert_lease"),
    )
