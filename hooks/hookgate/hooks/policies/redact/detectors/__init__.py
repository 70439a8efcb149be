"""The detectors that come with hookgate."""

from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.detectors.personal import NATIONAL, PERSONAL

DETECTORS = (*CREDENTIALS, *PERSONAL, *NATIONAL)
"""All built-in detectors, in order of precedence. Several detectors may have the same kind."""

__all__ = ["DETECTORS"]
