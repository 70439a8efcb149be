"""One scanner for all tests: it keeps no state."""

import pytest

from hookgate.hooks.policies.redact import SENSITIVE, Scanner, shared_scanner


@pytest.fixture(scope="session")
def scanner() -> Scanner:
    return shared_scanner(SENSITIVE)
