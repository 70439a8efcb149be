"""Rows of the tables of issued keys."""

import re
from collections.abc import Callable

from hookgate.hooks.policies.redact.detectors.detector import WORD, WORD_END, Detector
from hookgate.hooks.policies.redact.detectors.randomness import is_genuine

_END = r"\b"


def key(
    kind: str,
    issuer: str,
    pattern: str,
    check: Callable[[str], bool] | None = is_genuine,
    *,
    preceded_by: str = WORD,
) -> Detector:
    """Return a detector of the keys of an issuer.

    Args:
        kind: The kind of its findings.
        issuer: Who issues such keys, and what they are for, if their kind does not say it.
        pattern: The format as the issuer documents it, in RE2's syntax. Group 1 is replaced, or else all of
            it. If it ends with `\\b`, a key also ends before Markdown's emphasis.
        check: Returns whether text in this format is genuine.
        preceded_by: See `Detector`.
    """
    if pattern.endswith(_END):
        whole = pattern.removesuffix(_END)
        pattern = (whole if re.compile(whole).groups else f"({whole})") + WORD_END
    return Detector(kind, pattern, check, "credentials", preceded_by=preceded_by, note=issuer)
