"""Finding secrets and personal data in text, and replacing them in text that comes in chunks.

A configuration makes a `Scanner` of its detectors, once; each text gets a `Redactor` of its own, which tells
in pieces what became of what it was fed.
"""

from hookgate.hooks.policies.redact.detectors import DETECTORS
from hookgate.hooks.policies.redact.detectors.detector import Detector, pattern_detector, words_detector
from hookgate.hooks.policies.redact.held import AtCap, Redactor
from hookgate.hooks.policies.redact.pieces import Blocked, Dropped, Kept, Piece, Replaced
from hookgate.hooks.policies.redact.scanner import Scanner
from hookgate.hooks.policies.redact.tokens import make_token, token_detector

__all__ = [
    "DETECTORS",
    "AtCap",
    "Blocked",
    "Detector",
    "Dropped",
    "Kept",
    "Piece",
    "Redactor",
    "Replaced",
    "Scanner",
    "make_token",
    "pattern_detector",
    "token_detector",
    "words_detector",
]
