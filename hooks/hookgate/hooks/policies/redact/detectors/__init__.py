"""The detectors that come with hookgate."""

from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.detectors.national import NATIONAL
from hookgate.hooks.policies.redact.detectors.personal import PERSONAL

DETECTORS = (*CREDENTIALS, *PERSONAL, *NATIONAL)
"""All of them, in order of precedence. Several may be of one kind."""

__all__ = ["DETECTORS"]
