"""How alembic runs the steps: in the transaction of the connection that it is given."""

from alembic import context

from hookgate.proxy.store.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot change most of a table in place
)
context.run_migrations()
