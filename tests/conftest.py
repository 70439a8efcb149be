"""Settings that every test shares."""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from support.captured import require_shared

# A whole generated body takes its time to draw, and how long says nothing about the code under test.
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Commands that run in a test's own process set up the log, for a stderr that is the test's alone."""
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture(scope="session")
def shared() -> None:
    """What was captured, and the vectors, are there: for every test that reads them."""
    require_shared()
