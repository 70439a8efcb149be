"""The tokens of interactions, which count for those that continue them."""

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """From a database in which the tokens of interactions are not stored."""
    # In SQLite, the table is made again, as it would be in a new file.
    recreate: Literal["always", "never"] = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("interactions", recreate=recreate) as table:
        table.add_column(sa.Column("tokens", sa.BigInteger(), nullable=False, server_default="0"))
