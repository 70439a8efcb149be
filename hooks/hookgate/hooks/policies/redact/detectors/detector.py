"""The class Detector, the places where a secret may begin, and detectors of patterns."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hookgate.hooks.policies.options import compile_pattern
from hookgate.hooks.policies.redact.closure import language

WORD = r"\W"
"""The character before a word, for `Detector.preceded_by`."""

WORD_END = r"(?:\b|_{1,3}\b)"
"""The end of a word, with or without Markdown emphasis: `_word_`."""

_ESCAPE = (
    r"\\[nrtbfv0]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}"  # in strings of JSON and programming languages
    r"|%(?:25)?[0-9A-Fa-f]{2}"  # in URLs and forms, encoded once or twice
    r"|\[[0-9;]{0,12}[mK]"  # the end of a terminal's color sequence
)
CONTEXT = 256
"""The bytes before a match that `Detector.fits` is given."""

BEGINS_ESCAPE = frozenset(b"\\%[_")
LONGEST_ESCAPE = 15

ESCAPE = f"(?:{_ESCAPE})"
EMPHASIS = r"(?:^|\W)_{1,3}"
LEAD = f"{ESCAPE}|{EMPHASIS}"
"""A pattern in RE2's syntax: escapes and emphasis, after which a secret may begin as at a word boundary."""

_AT = re.compile(_ESCAPE.encode())
_SIGN = re.compile(rb"[\\%\[]")
_EMPHASIS = re.compile(rb"\W?(_{1,3})")
_LEAD_BEFORE = re.compile(rb"(?:%s|(?:^|\W)_{1,3})\Z" % _ESCAPE.encode())


def ends_of_leads(data: bytes, at: int) -> list[int]:
    """Return where secrets may begin after an escape or emphasis at `at`."""
    ends = [] if (escape := _AT.match(data, at)) is None else [escape.end()]
    if emphasis := _EMPHASIS.match(data, at):
        ends += range(emphasis.end(), emphasis.start(1), -1)
    return ends


def follows_lead(data: bytes, at: int) -> bool:
    """Return whether an escape or emphasis ends right before `at`."""
    return start_of_lead(data, at) < at


def start_of_lead(data: bytes, at: int) -> int:
    """Return the start of the escape or emphasis that ends right before `at`; or else `at`."""
    begin = max(at - LONGEST_ESCAPE, 0)
    lead = _LEAD_BEFORE.search(data[begin:at])
    return at if lead is None else begin + lead.start()


def start_of_escape(data: bytes, start: int, at: int) -> int:
    """Return the start of the escape around `at`, if it begins at `start` or later; or else `at`."""
    begin = max(start, at - LONGEST_ESCAPE)
    while sign := _SIGN.search(data, begin, at):
        begin = sign.start()
        if (escape := _AT.match(data, begin)) and escape.end() > at:
            return begin
        begin += 1
    return at


KIND = re.compile(r"[A-Z][A-Z0-9_]{1,23}")
"""Matches the kind of a detector's findings."""


class Extent(Protocol):
    """Finds the end of a secret whose beginning a pattern has matched. Pure: called again with more text."""

    head: bytes
    """The bytes with which every such secret begins."""

    def end(self, data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
        """Return where the secret ends in the data up to `end`, and whether more text cannot change that.

        `begin` is the end of the match; it is returned if there is no secret. It is 0 if the data begins
        inside a secret. If `final` is true, no text follows, so the result is always decided.
        """

    def first_open(self, data: bytes, start: int) -> int | None:
        """Return the beginning of the first secret, at `start` or later, whose end is undecided; or None."""


HIGHEST_RANK = 2
"""See `Detector.rank`."""


@dataclass(frozen=True, slots=True)
class Detector:
    """One way to recognize a secret or personal data. Several detectors may have the same kind."""

    kind: str
    """The kind of its findings: 2 to 24 capitals, digits and underscores."""

    pattern: str
    """A pattern in RE2's syntax. The first group that matched is replaced, or all if there is no group."""

    check: Callable[[str], bool] | None = None
    """Returns whether the text to replace is genuine, for example by check digits or entropy."""

    group: str = "own"
    """`credentials`, `personal`, `network`, or `own` for detectors of a configuration."""

    country: str = ""
    """The country that issues such numbers (ISO 3166), or an empty string."""

    preceded_by: str = ""
    """A class of characters, one of which must precede a match, unless it is at the start of the text.

    An escape such as `\\n` or `%20` may precede it as well, whatever its last character is.
    """

    within: Callable[[str], tuple[int, int] | None] | None = None
    """Returns the part of the text to replace that is the secret, or None."""

    extent: Extent | None = None
    """Finds the end of a secret that begins with the match, if no pattern can; all of it is replaced."""

    note: str = ""
    """Who issues what it finds, for the documentation."""

    rule: str = ""
    """The rule of others or of the settings that it is made of, or an empty string."""

    secret_group: int = 0
    """The group that is replaced, unless it is the first one that matched."""

    fits: Callable[[str, str, str], bool] | None = None
    """Returns whether a match counts: of the text before it, the match, and the text to replace.

    The text before a match has up to `CONTEXT` bytes. Unless it is that of a rule, it may have only
    `LONGEST_ESCAPE` of them, and its result depends on no others.
    """

    @property
    def rank(self) -> int:
        """The rank of its findings: they give way to overlapping ones of a higher rank.

        Those of rules give way to all others, and personal data to credentials: `+4930123456` may be the
        beginning of a key, and `me@hooks.example.com` that of a secret address.
        """
        if self.rule:
            return 0
        return 1 if self.group in ("personal", "network") else HIGHEST_RANK

    @property
    def source(self) -> str:
        """Where it comes from: `built-in`, `settings`, or a file and the name of the rule."""
        return self.rule or ("settings" if self.group == "own" else "built-in")

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which options select it: its kind, its group, and its country."""
        return (self.kind, self.group, self.country) if self.country else (self.kind, self.group)


def pattern_detector(kind: str, pattern: str, preceded_by: str = "") -> Detector:
    """Return a detector of a pattern. Raises ValueError if the kind or the pattern is invalid."""
    return Detector(_checked_kind(kind), _checked_pattern(kind, pattern), preceded_by=preceded_by)


def _checked_kind(kind: str) -> str:
    if not KIND.fullmatch(kind):
        raise ValueError(
            f"{kind!r} is not a valid kind: use 2 to 24 capitals, digits and underscores, a capital first"
        )
    return kind


def _checked_pattern(kind: str, pattern: str) -> str:
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"the pattern of {kind} {error}") from None
    if compiled.groups > 1:
        raise ValueError(f"the pattern of {kind} has {compiled.groups} groups: write (?:…) for all but one")
    try:
        language(pattern)
    except ValueError as error:
        raise ValueError(f"{kind}: {error}") from None
    return pattern
