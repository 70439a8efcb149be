"""One scanner for all tests: it keeps no state."""

import pytest

from hookgate.hooks.policies.redact import DETECTORS, Scanner


@pytest.fixture(scope="session")
def scanner() -> Scanner:
    return Scanner([detector for detector in DETECTORS if detector.default])
