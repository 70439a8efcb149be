"""Tokens that stand for what was found, such as `HG_EMAIL_0123456789abcdef`, so that it can be put back."""

import re

from hookgate.hooks.policies.redact.detectors.detector import Detector

_DIGITS = re.compile(r"[0-9a-f]{16}")
_KIND = re.compile(r"[A-Z][A-Z0-9_]{1,23}")


def make_token(kind: str, digits: str) -> str:
    """The token of a kind with 16 hexadecimal digits. Raises ValueError for another form of either."""
    if not _KIND.fullmatch(kind) or not _DIGITS.fullmatch(digits):
        raise ValueError("a token takes a kind of 2 to 24 capitals and 16 hexadecimal digits in lower case")
    return f"HG_{kind}_{digits}"


def token_detector() -> Detector:
    """Finds tokens, to put back what they stand for, whatever stands next to them.

    No built-in detector takes a token for anything else.
    """
    return Detector("TOKEN", r"HG_[A-Z][A-Z0-9_]{1,23}_[0-9a-f]{16}", group="tokens")
