"""Settings that every test shares."""

import gc
import logging
import os
from collections.abc import Generator, Iterator, Sequence

import pytest
import trustme
from cachetools import LRUCache
from hypothesis import HealthCheck, settings
from support.upstream.captured import require_shared

from hookgate.hooks.policies.redact import scanner

pytest_plugins = ["support.clients.table"]

# A whole generated body takes its time to draw, and how long says nothing about the code under test.
settings.register_profile(
    "default",
    max_examples=20,  # of each law, in each run; `make fuzz` draws many more
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# Hundreds of tests use the policy `redact`, one after another. So its scanners outlive who uses them.
scanner._shared = LRUCache(64)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: the search for garbage need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Tests in these folders need no mark of their own: all of them are what `make e2e` runs."""
    for item in items:
        if item.nodeid.startswith(("tests/e2e/", "tests/team/")):
            item.add_marker("e2e")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Leave the log as it was: commands in a test's own process set it up for a stderr that is the test's.

    A fixture would take a tenth of the time of most tests.
    """
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    try:
        return (yield)
    finally:
        root.handlers[:], root.level = handlers, level


@pytest.fixture(scope="session", autouse=True)
def _one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each client of an SDK reads the system's authorities, even for http: 40 ms for what no test asks.

    Tests of TLS name the authorities that they trust.
    """
    folder = tmp_path_factory.mktemp("authorities")
    trustme.CA().cert_pem.write_to_path(folder / "ca.pem")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
        patch.setenv("SSL_CERT_DIR", str(folder / "none"))
        yield


@pytest.fixture(scope="session")
def shared() -> None:
    """What was captured, and the vectors, are there: for every test that reads them."""
    require_shared()
