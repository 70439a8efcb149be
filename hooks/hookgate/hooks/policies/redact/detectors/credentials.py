"""Detectors of keys, tokens and passwords: the tables of all of them, in order of precedence."""

from hookgate.hooks.policies.redact.detectors.assignments import ASSIGNMENTS
from hookgate.hooks.policies.redact.detectors.issued import ISSUED
from hookgate.hooks.policies.redact.detectors.private_keys import PRIVATE_KEYS

CREDENTIALS = (*PRIVATE_KEYS, *ISSUED, *ASSIGNMENTS)
"""In order of precedence: at one place the first that matches, and whose check passes, wins."""
