"""Values of assignments: where they end, and whether they look like secrets."""

import re

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.redact.detectors.randomness import bits_per_character, strangeness

_MARK = re.compile(r"HG_[A-Z][A-Z0-9_]{1,23}_[0-9a-f]{16}|\[[A-Z][A-Z0-9_]{1,23}\]")
_LETTER = re.compile(r"[A-Za-z]")

_ADDRESS = (
    r"[A-Za-z][A-Za-z0-9+.-]*:\\*/\\*/|\.{0,2}/[A-Za-z._-]+(?:/(?=[\w.*<{$-]|$)|$)|\.{1,2}/|\$[A-Za-z_]+$|[$%]\{(?:[A-Za-z_]|[^}]*\})|\{[\"'{%\\\[]|\{[A-Za-z_][\w.]*(?:![ars])?(?::[^}]*)?\}"
    r"|%[A-Za-z_]+%$|<[^<>]*>$"
)
_NAMED = re.compile(
    r"[A-Za-z_$]\w*(?:(?:\.|::|->)[A-Za-z_$]\w*)+"  # self.token2, os.environ
    r"|[A-Za-z][a-z-]*(?:/[A-Za-z][a-z0-9-]*)+"  # a path
    # such as urn:ietf:params:oauth:token-type:saml2
    r"|urn(?::(?:[A-Za-z][A-Za-z._-]*(?:[0-9]{1,2}(?:_[a-z]+)?)?|[0-9](?:\.[0-9])*))+"
    rf"|(?:{_ADDRESS}).*",
    re.DOTALL,
)
_WORDS = re.compile(r"[A-Za-z]+\d{0,4}(?:[-_.:/][A-Za-z]*\d{0,4})*")
_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3,}|^(?:your|my)[-_]|example|placeholder|change[-_]?me|redacted", re.IGNORECASE
)
_PATTERN = re.compile(r"\[\^?[^\]\s]*(?:[Aa]-[Zz]|0-9)[^\]\s]*\]")
"""A class of characters in a regular expression, such as `[A-Za-z0-9_]`."""

_NO_PASSWORD = re.compile(rf"[*.xX]+|password|pass|pw|(?:{_ADDRESS}).*", re.DOTALL)


def is_marked(text: str) -> bool:
    """Return whether part of the text has already been redacted."""
    return _MARK.search(text) is not None


def is_quoted_secret(text: str) -> bool:
    """Return whether a quoted value with a digit looks like a secret.

    It has at least eight characters and is not a name, path, address, placeholder or regular expression.
    """
    if len(text) < 8 or not _LETTER.search(text) or bits_per_character(text) < 2.5:
        return False
    if is_marked(text) or _NAMED.fullmatch(text):
        return False
    return not (_PLACEHOLDER.search(text) or _PATTERN.search(text))


def is_bare_secret(text: str) -> bool:
    """Return whether a value without quotes looks like a secret, and not like words with a few digits."""
    return is_quoted_secret(text) and not _WORDS.fullmatch(text) and bits_per_character(text) >= 2.75


def is_opaque(text: str) -> bool:
    """Return whether the text after a word such as `Bearer` is random letters and digits."""
    return is_quoted_secret(text) and any("0" <= c <= "9" for c in text) and bits_per_character(text) >= 3


def is_password(text: str) -> bool:
    """Return whether the password in an address is one, even a weak one, and not a placeholder or a mask."""
    return not is_marked(text) and not _NO_PASSWORD.fullmatch(text)


_PLAIN, _PLAIN_LETTER = "[A-Za-z0-9_.+/~-]", "[A-Za-z_.+/~-]"
_SIGN = r"[^\sA-Za-z0-9_.+/~-]"
VALUE = rf"{_PLAIN_LETTER}*(?:{_SIGN}{_PLAIN_LETTER}*){{0,30}}[0-9]{_PLAIN}*(?:{_SIGN}{_PLAIN}*){{0,40}}"
"""A pattern in RE2's syntax: text with a digit and without blanks. The number of signs is limited."""

QUOTE = r"(?:\\{0,7}[\"'`]|&quot;|&apos;|&#(?:3[49]|x2[27]);|%2[27]|\\{1,7}u002[27])"
"""A pattern in RE2's syntax: a quote, escaped or not."""

MARK = rf"(?:{QUOTE}|[*_~\]]|</?[a-z]{{1,6}}>)"
"""A pattern in RE2's syntax: quotes and markup around a name or a value."""

_OPENING = re.compile(rf"(?:[*~]{{1,3}}|<[a-z]{{1,6}}>)*(?:((?:[bBfFrRuU]{{1,2}}|[(\[]{{1,2}})?)({QUOTE}))?")
_ENDS = re.compile(
    r"\\{1,7}[nrt\"']|[\"'`](?=[\s,;:)\]}<>&+|.\\]|$)"
    r"|</|<br|&(?:quot|apos|lt|gt|amp|nbsp|#[0-9]+|#x[0-9a-fA-F]+);|%(?:0[AaDd9]|2[0267])"
    r"|\\{1,7}u00(?:0[aAdD9]|2[0267]|3[cCeE])|\x1b|\\{1,7}(?:u001[bB]|x1[bB]|033|e)\[|[\u00a0\u2018-\u201f]|-----BEGIN"
    # the next field; a colon directly before a value is part of a password such as x;y:z
    r"|[&;,][\"'\\]*[A-Za-z_][A-Za-z_.-]+\d{0,3}(?:[\"'\\]*=|[\"'\\]+:|:(?=\s|$))"
)
_TRAILING = ",;.:!?*~\\"
_CLOSING = {")": "(", "]": "[", "}": "{", ">": "<"}
# These use RE2, because they could take too long with `re`.
_CALL = re2.compile(
    r"\[?([a-z_][a-z0-9_.]{3,}|_?(?:[A-Z]{0,4}[0-9]{0,3}[a-z]+[0-9]{0,5}[_.]?){2,}"
    r"|_?[A-Z][A-Za-z]{3,}|[A-Z_]{4,}[0-9]{0,2}|_?[A-Z][0-9]*[A-Z][a-z]{3,}\w*)[(\[](?:[^=|^~!?<>%;@#]|$)"
)
_INDEX = re2.compile(r"[\w.$]{1,3}[(\[].*[)\]]$")
_CODE = re2.compile(r".*\b(?:null|function|else|return|void|typeof|throw|undefined|length)\b")
_NAME = re.compile("[a-z]{3}|[A-Z]{4}")
_TELLING, _STRANGE = 64, 0.35
"""How many characters of what looks like a call are read, and from which strangeness it is a password."""


def secret_in(value: str) -> tuple[int, int] | None:
    """Return the begin and end of the secret at the start of a value. Returns None if it is not a secret."""
    opening = _OPENING.match(value)
    start, quote = (opening.end(), opening[2]) if opening else (0, None)
    if quote and (end := _closing_quote(value, start, quote)) is not None:
        is_whole = (
            opening is not None and not opening[1]
        )  # lists and bytes literals in code may contain names
        return (start, end) if _is_secret(value[start:end], quoted=is_whole) else None
    end = _end_of_bare(value, start)
    secret = value[start:end]
    return (start, end) if _is_secret(secret, quoted=False) and not _is_code(secret) else None


def _is_code(text: str) -> bool:
    """Return whether the text is a call or a subscript, as in code that handles secrets."""
    if strangeness(text[:_TELLING]) >= _STRANGE:
        return False
    call = _CALL.match(text)
    named = call is not None and not call[1][0].isdigit() and _NAME.search(call[1]) is not None
    return named or _INDEX.match(text) is not None or _CODE.match(text) is not None


def _is_secret(text: str, *, quoted: bool) -> bool:
    if "-----BEGIN" in text or not re.search("[0-9]", text):
        return False
    return is_quoted_secret(text) if quoted else is_bare_secret(text)


def _closing_quote(value: str, start: int, quote: str) -> int | None:
    """Return the position of the closing quote. Returns None if there is none."""
    if len(quote) == 1:
        match = re.compile(rf"(?:[^{quote}\\]|\\.)*(?={quote})").match(value, start)
    else:  # an escaped quote; one with more backslashes is part of the value
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
