"""What was found in a body, as receipts show it: kinds, sources, places and hashes, but never the text."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hookgate.hooks.policies.redact.streaming import ReplacedFragment
from hookgate.translator.fields import JsonObject

MAX_REPORTED = 20
"""The maximum number of findings of one body that are reported. All of them are counted."""

Key = str | int
"""The name of a field, or the index of an item."""

_LONGEST_PLACE = 200
_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,39}")
"""Names of fields that are shown. Others may be content, such as the path of a file."""


@dataclass(slots=True)
class _Finding:
    kind: str
    source: str
    hash: str
    path: list[Key] = field(default_factory=list)
    """The keys from the innermost to the outermost one."""


class FindingsReport:
    """The first findings of one body.

    A finding is noted where its text is. The functions that have gone from the body to that text add its path
    on their way back, so a body without findings has no paths to follow.
    """

    def __init__(self, hash_of: Callable[[str, str], str] | None = None) -> None:
        """`hash_of` returns a finding's hash, which may be empty. Without it, nothing is noted."""
        self._hash_of = hash_of
        self._findings: list[_Finding] = []

    def note(self, fragment: ReplacedFragment, *path: Key) -> None:
        """Add a finding at the end of this path, unless it was not replaced, or there are too many."""
        if self._hash_of and len(self._findings) < MAX_REPORTED and fragment.output != fragment.original:
            found = _Finding(fragment.kind, fragment.source, self._hash_of(fragment.kind, fragment.original))
            found.path += reversed(path)
            self._findings.append(found)

    def __len__(self) -> int:
        return len(self._findings)

    def within(self, begin: int, *path: Key) -> None:
        """Note that all findings but the first `begin` are in the value at the end of this path."""
        for found in self._findings[begin:] if begin < len(self._findings) else ():
            found.path += reversed(path)

    def output(self) -> JsonObject:
        """Return the field `found` of a hook's output; empty if nothing was found."""
        found = [
            {
                "kind": found.kind,
                "source": found.source,
                "place": _written(found.path),
                **({"hash": found.hash} if found.hash else {}),
            }
            for found in self._findings
        ]
        return {"found": found} if found else {}


def _written(path: list[Key]) -> str:
    """Return a path as text, such as `contents[0].parts[1].text`, without its end if it is long."""
    text = ""
    for key in reversed(path):
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += ("." if text else "") + (key if _PLAIN_NAME.fullmatch(key) else "…")
        if len(text) > _LONGEST_PLACE:
            return f"{text[:_LONGEST_PLACE]}…"
    return text
