"""The estimates that were counted for interactions in the background, which are not counted again."""

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """From a database in which no estimates of interactions are stored."""
    # In SQLite, the table is made again, as it would be in a new file.
    recreate: Literal["always", "never"] = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("interactions", recreate=recreate) as table:
        for name in ("estimated_input", "estimated_output"):
            table.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
