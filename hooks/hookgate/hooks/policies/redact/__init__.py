"""Finds secrets and personal data in text, and replaces them, even in text that arrives in chunks.

A `Scanner` is created once from the configured detectors. Each text has its own `TextRedactor`, which is fed
with chunks and returns fragments: text that is kept, replaced, dropped or blocked.
"""

from hookgate.hooks.policies.redact.detectors import DETECTORS, SENSITIVE
from hookgate.hooks.policies.redact.detectors.detector import Detector, pattern_detector
from hookgate.hooks.policies.redact.detectors.phrases import words_detectors
from hookgate.hooks.policies.redact.policy import make_pseudonym, pseudonym_detector
from hookgate.hooks.policies.redact.scanner import Scanner, shared_scanner
from hookgate.hooks.policies.redact.streaming import (
    AtCap,
    BlockedFragment,
    DroppedFragment,
    Fragment,
    KeptFragment,
    ReplacedFragment,
    TextRedactor,
)

__all__ = [
    "DETECTORS",
    "SENSITIVE",
    "AtCap",
    "BlockedFragment",
    "Detector",
    "DroppedFragment",
    "Fragment",
    "KeptFragment",
    "ReplacedFragment",
    "Scanner",
    "TextRedactor",
    "make_pseudonym",
    "pattern_detector",
    "pseudonym_detector",
    "shared_scanner",
    "words_detectors",
]
