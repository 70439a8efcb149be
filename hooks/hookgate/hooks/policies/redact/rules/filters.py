"""The filters of betterleaks, as far as they say what entropy and allowlists say; others cannot be read."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

_LONGEST = 16 * 1024
_STRING = r"""(?:`[^`]*`|"(?:\\.|[^"\\])*")"""
_ITEM = re.compile(_STRING)
_TERM = re.compile(
    rf"""
    \s*(?:filter\.)?
    (?:
        entropy\(finding\["secret"\]\)\s*(?P<comparison><=?)\s*(?P<entropy>[0-9]+(?:\.[0-9]+)?)
      | (?P<function>matchesAny|containsAny)\(
            \s*(?:
                finding\["(?P<target>secret|match|line)"\]
              | \(attributes\["path"\]\s*\?\?\s*""\)
              | get\(attributes,\s*"path",\s*""\)
            )\s*,
            \s*\[\s*(?P<items>{_STRING}(?:\s*,\s*{_STRING})*)\s*,?\s*\]\s*
        \)
    )\s*(?P<more>\|\||\Z)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Filter:
    """What a filter says."""

    entropy: float
    """The entropy that a secret exceeds."""

    allowlists: list[dict[str, Any]]


def read_filter(text: str) -> Filter:
    """Read a filter: conditions joined by `||`, of which one is enough to leave a finding out.

    Raises ValueError if there is a condition other than a comparison of the entropy, `matchesAny` and
    `containsAny`.
    """
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    found = Filter(0, [])
    at = 0
    while len(text) <= _LONGEST and (term := _TERM.match(text, at)):
        if term["entropy"]:
            entropy = float(term["entropy"])
            least = entropy if term["comparison"] == "<=" else math.nextafter(entropy, 0)
            found = Filter(max(found.entropy, least), found.allowlists)
        else:
            found.allowlists.append(_allowlist(term))
        if not term["more"]:
            return found
        at = term.end()
    raise ValueError("it has a filter that is not supported: only entropy, matchesAny and containsAny are")


def _allowlist(term: re.Match[str]) -> dict[str, Any]:
    items = [_unquoted(item) for item in _ITEM.findall(term["items"])]
    patterns = items if term["function"] == "matchesAny" else list(map(re.escape, items))
    return {"regexTarget": term["target"], "regexes": patterns} if term["target"] else {"paths": patterns}


def _unquoted(item: str) -> str:
    """Return the text of a string in quotes. Raises ValueError for an escape that JSON does not have."""
    return item[1:-1] if item.startswith("`") else str(json.loads(item, strict=False))
