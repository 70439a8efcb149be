"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, settings

# A whole generated body takes its time to draw, and how long says nothing about the code under test.
settings.register_profile(
    "default",
    max_examples=200,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
