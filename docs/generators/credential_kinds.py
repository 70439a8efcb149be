"""Generate docs/credential-kinds.md from the tables of credentials.

python docs/generators/credential_kinds.py > docs/credential-kinds.md
"""

import re
from collections.abc import Callable

from hookgate.hooks.key_checksums import is_hookgate_key
from hookgate.hooks.policies.redact.detectors.assignments import (
    is_encoded_password,
    is_typed_password,
    is_unknown_key,
    is_user_and_password,
)
from hookgate.hooks.policies.redact.detectors.checks import is_base58
from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.detectors.detector import WORD_END, Detector
from hookgate.hooks.policies.redact.detectors.issued import PUBLIC
from hookgate.hooks.policies.redact.detectors.randomness import is_genuine, is_prefixed_key, is_random
from hookgate.hooks.policies.redact.detectors.values import is_opaque, is_password
from hookgate.hooks.policies.redact.detectors.vendors import VENDORS

_INTRODUCTION = """\
# Kinds of credentials

<!-- Made by: python docs/generators/credential_kinds.py > docs/credential-kinds.md -->

The policy [redact](redaction.md) finds these {kinds} kinds of credentials in {rows} formats. A format is a
pattern in RE2's syntax; if it has a group, only the group is replaced. At one place, the first row that
matches wins.

Checks: *genuine* excludes placeholders such as `your_key` and `xxxxxxxx`. *Random* text has at least 16
letters and digits (20 if it is hexadecimal) or is a UUID, and at least a quarter of its neighboring
characters are unusual in words: a letter next to a digit, or pairs of letters such as `xq`.
"""

_CHECKS: dict[Callable[[str], bool] | None, str] = {
    None: "",
    is_genuine: "genuine",
    is_random: "random",
    is_unknown_key: "random, and in no other format of this table",
    is_prefixed_key: "random; three kinds of characters, or a word for a secret",
    is_base58: "checksum",
    is_hookgate_key: "checksum",
    is_password: "no variable, mask or placeholder",
    is_encoded_password: "no variable, mask or placeholder",
    is_typed_password: "has a digit; no word, path or address",
    is_opaque: "looks random",
    is_user_and_password: "a name and a password",
}

_LONGEST = 110


def credential_kinds() -> str:
    """Return the page as Markdown."""
    kinds = {row.kind for row in CREDENTIALS}
    return "\n".join(
        [
            _INTRODUCTION.format(kinds=len(kinds), rows=len(CREDENTIALS)),
            "## Formats\n",
            table(["kind", "of", "format", "check"], [_row(detector) for detector in CREDENTIALS]),
            "## Services without a format\n",
            "VENDOR_KEY is a random value after one of these names and `=`, `:`, `,` or blanks. A dash in a\n"
            "name may also be a blank, an underscore, or nothing:\n",
            f"{', '.join(VENDORS)}.\n",
            "## What stays\n",
            "Some keys are public by design: they are part of pages and apps. These have no row:\n",
            table(["issuer", "begins with"], [list(row) for row in PUBLIC]).rstrip("\n"),
            "",
        ]
    )


def _row(detector: Detector) -> list[str]:
    check = "looks random" if detector.within else _CHECKS[detector.check]
    if detector.extent:
        check = "lines of base64 follow"
    return [detector.kind, detector.note, code(shown_pattern(detector.pattern)), check]


def shown_pattern(pattern: str) -> str:
    """Return a pattern as it is written in a table, without its end if it is long."""
    if pattern.endswith(WORD_END):
        pattern = pattern.removesuffix(WORD_END) + r"\b"
        if pattern.startswith("(") and pattern.endswith(r")\b"):
            pattern = _without_group(pattern)
    return pattern if len(pattern) <= _LONGEST else pattern[:_LONGEST] + "…"


def _without_group(pattern: str) -> str:
    """Return a pattern without the group around all of it but the boundary at its end, if it has one."""
    inner = pattern[1:].removesuffix(r")\b")
    try:
        re.compile(inner)
    except re.error:  # its first and its last parenthesis belong to different groups
        return pattern
    return rf"{inner}\b"


def code(text: str) -> str:
    """Return code in a cell of a table."""
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows]) + "\n"


if __name__ == "__main__":
    print(credential_kinds(), end="")
