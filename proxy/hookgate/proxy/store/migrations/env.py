"""How alembic runs the steps: in the transaction of the connection that it is given."""

import sys
from typing import Any

from alembic import context

from hookgate.proxy.store.models import metadata


def _tell(ctx: Any, step: Any, heads: Any, run_args: Any) -> None:
    """Print each step if stderr is a terminal. The parameter names are alembic's."""
    if sys.stderr.isatty():
        print(f"hookgate: bringing the tables up to date: step {step.up_revision_id}", file=sys.stderr)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    on_version_apply=_tell,
    render_as_batch=True,  # SQLite cannot change most of a table in place
)
context.run_migrations()
