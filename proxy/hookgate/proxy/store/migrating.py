"""Bringing the tables up to date, step by step, as alembic runs them."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection

_STEPS = Path(__file__).parent / "migrations"


class MigrationError(Exception):
    """A database whose tables this hookgate does not know."""


def upgrade(connection: Connection) -> None:
    """Run the steps that are missing, in the connection's transaction. Raises what a step raises."""
    config = Config()
    config.set_main_option("script_location", str(_STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError:
        raise MigrationError("a newer hookgate has made it; run that one") from None
