"""Whether a text has the format of an issued key."""

from collections import defaultdict
from functools import cache
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact.detectors.detector import Detector
from hookgate.hooks.policies.redact.detectors.issued import ISSUED
from hookgate.hooks.policies.redact.opening import HEAD, opening


def has_issued_format(text: str) -> bool:
    """Return whether an issued key begins with the text, or is part of it from the first character on."""
    return any(_matches(detector, text) for detector in _by_head().get(text[:HEAD].encode(), ()))


def _matches(detector: Detector, text: str) -> bool:
    match = _compiled(detector.pattern).match(text)
    return match is not None and (detector.check is None or detector.check(match[match.re.groups]))


@cache
def _by_head() -> dict[bytes, list[Detector]]:
    found: dict[bytes, list[Detector]] = defaultdict(list)
    for detector in ISSUED:
        begins = opening(detector.pattern)
        for head in begins.heads if begins else ():
            found[head].append(detector)
    return found


@cache
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)
