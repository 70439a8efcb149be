"""The kinds of databases with which stores are tested."""

from collections.abc import Iterator

import pytest
from support.gateway.databases import postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Each kind of database, empty."""
    if request.param == "sqlite":
        yield None
    else:
        with postgres() as server:
            yield server
