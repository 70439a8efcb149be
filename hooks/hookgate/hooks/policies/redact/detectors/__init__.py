"""The detectors that come with hookgate."""

from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.detectors.national import NATIONAL
from hookgate.hooks.policies.redact.detectors.personal import NETWORK, PERSONAL

DETECTORS = (*CREDENTIALS, *PERSONAL, *NETWORK, *NATIONAL)
"""All built-in detectors, in order of precedence. Several detectors may have the same kind."""

SENSITIVE = (*CREDENTIALS, *PERSONAL, *NATIONAL)
"""The detectors of credentials and personal data, which mask stored content."""

__all__ = ["DETECTORS", "SENSITIVE"]
