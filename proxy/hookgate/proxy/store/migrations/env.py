"""How alembic runs the steps: in the transaction of the connection that it is given."""

import sys
import time
from typing import Any

from alembic import context

from hookgate.proxy.store.models import NEWEST, metadata

_began = time.monotonic()


def _tell(ctx: Any, step: Any, heads: Any, run_args: Any) -> None:
    """Print each step if stderr is a terminal, and how long all have taken. Alembic names the parameters.

    How long the next one takes is not known: a database tells no progress of the few statements in it.
    """
    if sys.stderr.isatty():
        done = f"step {int(step.up_revision_id)} of {int(NEWEST)}, {time.monotonic() - _began:.0f} s"
        print(f"hookgate: bringing the tables up to date: {done}", file=sys.stderr)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    on_version_apply=_tell,
    render_as_batch=True,  # SQLite cannot change most of a table in place
)
context.run_migrations()
