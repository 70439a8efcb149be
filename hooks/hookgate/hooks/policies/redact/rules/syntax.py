"""Go's syntax of patterns, rewritten as the part of RE2's syntax that streams support.

Both are RE2's, but streams read patterns with the parser of Python's `re`, which differs: its flags apply to
a whole group, and it knows neither `\\z` nor classes such as `[[:alnum:]]`. This module only rewrites. What
is left and still not supported is refused later, with a reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\x0b\x0c\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PART = re.compile(
    r"""
      \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | \\x(?P<code>\{[0-9A-Fa-f]{1,6}\}|[0-9A-Fa-f]{2})
    | \\(?:[pP](?:\{[^}]*\}|.)|.)
    | \[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\]\\])*\]
    | (?P<open>\((?:\?(?P<flags>[imsU-]*):|\?P?<[^>]*>)?)(?!\?)
    | \(\?(?P<rest>[imsU-]+)\)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_CLASS = re.compile(r"\\x(\{[0-9A-Fa-f]{1,6}\}|[0-9A-Fa-f]{2})|\\.|\[:(\^?)([a-z]+):\]|.", re.DOTALL)
_MEMBER = re.compile(r"\\(?:x..|.)|(.)-([^\\])|.", re.DOTALL)
_REPEAT = re.compile(r"(?:[*?]|\{0,\d+\})\??")
_CLASS = re.compile(r"\[.+\]|\\[dDwWsS]", re.DOTALL)
_OPENS = re.compile(r"\(\?[ms-]*:")
"""The beginning of a group whose text is not captured."""


class PatternError(ValueError):
    """A pattern uses syntax that cannot be rewritten."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A pattern that was rewritten. Case is ignored for letters of ASCII only."""

    pattern: str
    """It matches the same, except for the optional text at the beginning that is `lead`."""

    lead: str
    """A pattern of optional text with which the matches of the original begin, such as `[\\w.-]{0,50}?`."""


def rewrite_pattern(pattern: str) -> Rewritten:
    """Rewrite a pattern in Go's syntax. Raises PatternError if that is not possible.

    Optional text at the beginning is left out: the rest of the pattern matches in the same places without it,
    and a search for it would stop at every word.
    """
    parts = list(_parts(pattern))
    opened: list[str] = []
    lead = ""
    at = 0
    while at < len(parts):
        repeat = _REPEAT.match("".join(parts[at + 1 : at + 12]))
        if _OPENS.fullmatch(parts[at]):
            opened.append(parts[at])
            at += 1
        elif repeat and _CLASS.fullmatch(parts[at]):
            lead += parts[at] + repeat[0]
            at += 1 + len(repeat[0])
        else:
            break
    return Rewritten("".join([*opened, *parts[at:]]), lead)


@dataclass(slots=True)
class _Group:
    """An open group: whether it ignores case, and the groups that its flags have opened within it."""

    ignores_case: bool
    opened: list[str]


def _parts(pattern: str) -> Iterator[str]:
    """Yield the parts of a pattern. Flags for the rest of a group are written as a group of their own."""
    groups = [_Group(ignores_case=False, opened=[])]
    for match in _PART.finditer(pattern):
        part, group = match[0], groups[-1]
        if match["rest"]:
            begin, group.ignores_case = _with_flags(match["rest"], group.ignores_case)
            group.opened.append(begin)
            yield begin
        elif match["open"]:
            begin, ignores_case = ("(", group.ignores_case)
            if match["flags"] is not None:
                begin, ignores_case = _with_flags(match["flags"], group.ignores_case)
            groups.append(_Group(ignores_case, []))
            yield begin
        elif part == ")":
            yield from ")" * len(groups.pop().opened) + part
            if not groups:
                raise PatternError("a closing parenthesis is not opened")
        elif part == "|":
            yield from [*")" * len(group.opened), part, *group.opened]
        else:
            yield _rewritten(match, ignores_case=group.ignores_case)
    yield from ")" * len(groups[0].opened)


def _with_flags(flags: str, ignores_case: bool) -> tuple[str, bool]:
    """Return the beginning of a group with these flags but `i`, and whether it ignores case."""
    on, _, off = flags.partition("-")
    if "U" in flags:
        raise PatternError("(?U) is not supported in streams")
    ignores_case = (ignores_case or "i" in on) and "i" not in off
    on, off = on.replace("i", ""), off.replace("i", "")
    return f"(?{on}{'-' if off else ''}{off}:", ignores_case


def _rewritten(match: re.Match[str], *, ignores_case: bool) -> str:
    """Return a part that is neither a group nor flags."""
    part = match[0]
    if match["quoted"] is not None:
        return "".join(
            _folded(re.escape(each)) if ignores_case else re.escape(each) for each in match["quoted"]
        )
    if match["code"]:
        character = _escaped(match["code"])
        return _folded(character) if ignores_case else character
    if part == r"\z":
        return "(?-m:$)"
    if part[:2] in (r"\p", r"\P", r"\C", r"\K"):
        raise PatternError(f"{part} is not supported in streams")
    if part.startswith("[") and len(part) > 1:
        begin = 2 if part.startswith("[^") else 1
        members = _IN_CLASS.sub(_member, part[begin:-1])
        return f"{part[:begin]}{_other_case(members) if ignores_case else ''}{members}]"
    return _folded(part) if ignores_case else part


def _folded(part: str) -> str:
    """Return a letter in both cases, and any other part as it is."""
    if len(part) == 1 and part.isascii() and part.isalpha():
        return f"[{part}{part.swapcase()}]"
    return part


def _other_case(members: str) -> str:
    """Return the letters of a class of characters in the other case."""
    others = []
    for match in _MEMBER.finditer(members):
        first, last = (match[1], match[2]) if match[1] else (match[0], match[0])
        if len(first) > 1:
            continue
        for low, high in (("a", "z"), ("A", "Z")):
            begin, end = max(first, low), min(last, high)
            others += [f"{begin.swapcase()}-{end.swapcase()}"] if begin <= end else []
    return "".join(others)


def _member(match: re.Match[str]) -> str:
    """Return a member of a class of characters."""
    if match[1]:
        return _escaped(match[1])
    if match[3]:
        if match[2] or match[3] not in _POSIX:
            raise PatternError(f"{match[0]} is not supported in streams")
        return _POSIX[match[3]]
    if match[0] in (r"\p", r"\P"):
        raise PatternError(f"{match[0]} is not supported in streams")
    return f"\\{match[0]}" if match[0] in "[]&~|" else match[0]


def _escaped(code: str) -> str:
    """Return the character of a code in hexadecimal digits, escaped unless it is a letter."""
    number = int(code.strip("{}"), 16)
    if number > 0x10FFFF:
        raise PatternError(f"\\x{code} is not a character")
    is_letter = number >= 0x100 or chr(number).isalpha()
    return chr(number) if is_letter else f"\\x{number:02x}"
