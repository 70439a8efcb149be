"""Telling values that somebody keeps secret from names, paths and placeholders in the same place."""

import math
import re
from collections import Counter

_MARK = re.compile(r"HG_[A-Z][A-Z0-9_]{1,23}_[0-9a-f]{16}|\[[A-Z][A-Z0-9_]{1,23}\]")
_LETTER = re.compile(r"[A-Za-z]")

_ADDRESS = (
    r"[A-Za-z][A-Za-z0-9+.-]*:\\*/|\.{0,2}/[A-Za-z._-]+(?:/|$)|\.{1,2}/|\$[A-Za-z_]+$|[$%]\{|\{[\"'{%\\\[]|\{[A-Za-z_][\w.]*[}:!]"
    r"|%[A-Za-z_]+%$|<[^<>]*>$"
)
_NAMED = re.compile(
    r"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)+"  # self.token2, os.environ
    r"|[A-Za-z][a-z-]*(?:/[A-Za-z][a-z0-9-]*)+"  # a path
    rf"|(?:{_ADDRESS}).*",
    re.DOTALL,
)
_WORDS = re.compile(r"[A-Za-z]+\d{0,4}(?:[-_.:/][A-Za-z]*\d{0,4})*")
_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3,}|^(?:your|my)[-_]|example|placeholder|change[-_]?me|redacted", re.IGNORECASE
)
_NO_PASSWORD = re.compile(rf"[*.xX]+|password|pass|pw|(?:{_ADDRESS}).*", re.DOTALL)


def bits_per_character(text: str) -> float:
    """Shannon's entropy of the characters in the text, 0 for one that repeats."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


def is_marked(text: str) -> bool:
    """Whether something in it was redacted before."""
    return _MARK.search(text) is not None


def is_quoted_secret(text: str) -> bool:
    """For quoted values with a digit: eight characters or more, no name, path, address or placeholder."""
    if len(text) < 8 or not _LETTER.search(text) or bits_per_character(text) < 2.5:
        return False
    return not (is_marked(text) or _NAMED.fullmatch(text) or _PLACEHOLDER.search(text))


def is_bare_secret(text: str) -> bool:
    """For values without quotes, where code has names: also no words with a few digits behind."""
    return is_quoted_secret(text) and not _WORDS.fullmatch(text) and bits_per_character(text) >= 2.75


def is_opaque(text: str) -> bool:
    """For what follows a word such as `Bearer`: letters and digits in no order that words have."""
    return is_quoted_secret(text) and any("0" <= c <= "9" for c in text) and bits_per_character(text) >= 3


def is_password(text: str) -> bool:
    """For the password in an address, which may be a weak one: no placeholder and nothing redacted before."""
    return not is_marked(text) and not _NO_PASSWORD.fullmatch(text)
