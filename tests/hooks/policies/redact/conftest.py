"""One scanner for all tests: it keeps no state."""

import pytest

from hookgate.hooks.policies.redact import SENSITIVE, Scanner


@pytest.fixture(scope="session")
def scanner() -> Scanner:
    return Scanner(SENSITIVE)
