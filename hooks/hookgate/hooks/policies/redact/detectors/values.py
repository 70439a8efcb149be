"""The value of an assignment: where it begins and ends in what stands behind the name.

It is written in many ways: quoted or not, its quotes escaped once or twice or as references, emphasised, as
one field of many in an address or a connection string. What stands behind a name up to the next blank is
looked through here, since no pattern can tell a quote from its like at the other end.
"""

import re

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact.detectors.entropy import is_bare_secret, is_quoted_secret

_PLAIN, _PLAIN_LETTER = "[A-Za-z0-9_.+/~-]", "[A-Za-z_.+/~-]"
_SIGN = r"[^\sA-Za-z0-9_.+/~-]"
VALUE = rf"{_PLAIN_LETTER}*(?:{_SIGN}{_PLAIN_LETTER}*){{0,30}}[0-9]{_PLAIN}*(?:{_SIGN}{_PLAIN}*){{0,40}}"
"""In RE2's syntax: what has a digit and no blank. Letters and digits may be many, signs are counted."""

QUOTE = r"(?:\\{0,7}[\"'`]|&quot;|&apos;|&#(?:3[49]|x2[27]);|%2[27]|\\{1,7}u002[27])"
"""In RE2's syntax: a quote, as it is or as an escape."""

MARK = rf"(?:{QUOTE}|[*_~\]]|</?[a-z]{{1,6}}>)"
"""In RE2's syntax: what stands around a name or a value without being a part of it."""

_OPENING = re.compile(rf"(?:[*~]{{1,3}}|<[a-z]{{1,6}}>)*(?:((?:[bBfFrRuU]{{1,2}}|[(\[]{{1,2}})?)({QUOTE}))?")
_ENDS = re.compile(
    r"\\{1,7}[nrt\"']|[\"'`](?=[\s,;:)\]}<>&+|.\\]|$)"
    r"|</|<br|&(?:quot|apos|lt|gt|amp|nbsp|#[0-9]+|#x[0-9a-fA-F]+);|%(?:0[AaDd9]|2[0267])"
    r"|\\{1,7}u00(?:0[aAdD9]|2[0267]|3[cCeE])|\x1b|\\{1,7}(?:u001[bB]|x1[bB]|033|e)\[|[\u00a0\u2018-\u201f]|-----BEGIN"
    r"|[&;,][\"'\\]*[A-Za-z_][\w.-]*[\"'\\]*[=:]"  # the next field
)
_TRAILING = ",;.:!?*~\\"
_CLOSING = {")": "(", "]": "[", "}": "{", ">": "<"}
# Of RE2, as these could take long otherwise.
_CALL = re2.compile(
    r"\[?([a-z_][a-z0-9_.]{3,}|_?(?:[A-Z]{0,4}[0-9]{0,3}[a-z]+[0-9]{0,5}[_.]?){2,}"
    r"|_?[A-Z][A-Za-z]{3,}|[A-Z_]{4,}[0-9]{0,2}|_?[A-Z][0-9]*[A-Z][a-z]{3,}\w*)[(\[]"
)
_INDEX = re2.compile(r"[\w.$]{1,3}[(\[].*[)\]]$")
_CODE = re2.compile(r".*\b(?:null|function|else|return|void|typeof|throw|undefined|length)\b")
_NAME = re.compile("[a-z]{3}|[A-Z]{4}")


def secret_in(value: str) -> tuple[int, int] | None:
    """From where to where the secret goes that begins the value, if it is one."""
    opening = _OPENING.match(value)
    start, quote = (opening.end(), opening[2]) if opening else (0, None)
    if quote and (end := _closing(value, start, quote)) is not None:
        is_whole = opening is not None and not opening[1]  # code has names in lists and in literals of bytes
        return (start, end) if _is_secret(value[start:end], quoted=is_whole) else None
    end = _end_of_bare(value, start)
    secret = value[start:end]
    return (start, end) if _is_secret(secret, quoted=False) and not _is_code(secret) else None


def _is_code(text: str) -> bool:
    """Whether it calls something, or takes an item of it, as code does that handles secrets."""
    call = _CALL.match(text)
    named = call is not None and _NAME.search(call[1]) is not None
    return named or _INDEX.match(text) is not None or _CODE.match(text) is not None


def _is_secret(text: str, *, quoted: bool) -> bool:
    if "-----BEGIN" in text or not re.search("[0-9]", text):
        return False
    return is_quoted_secret(text) if quoted else is_bare_secret(text)


def _closing(value: str, start: int, quote: str) -> int | None:
    """Where the same quote stands again that is no part of the value."""
    if len(quote) == 1:
        match = re.compile(rf"(?:[^{quote}\\]|\\.)*(?={quote})").match(value, start)
    else:  # one that is escaped itself: with more backslashes before it, it stands in the value
        match = re.compile(rf".*?(?=(?<!\\){re.escape(quote)})").match(value, start)
    return match.end() if match else None


def _end_of_bare(value: str, start: int) -> int:
    ends = _ENDS.search(value, start)
    end = ends.start() if ends else len(value)
    while end > start:
        last = value[end - 1]
        opened = _CLOSING.get(last)
        unbalanced = opened and value.count(last, start, end) > value.count(opened, start, end)
        if last not in _TRAILING and not unbalanced:
            break
        end -= 1
    return end
