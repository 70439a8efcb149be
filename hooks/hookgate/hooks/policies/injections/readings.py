"""How a model may read a text: in plain spelling, without its tags, what it hides, and what it encodes.

Every function takes a time proportional to the text.
"""

import binascii
import codecs
import html
import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import unquote

from hookgate.hooks.policies.options import compile_pattern
from hookgate.hooks.policies.spelling import normalized, same_spelling

_DEEPEST = 3
"""How often what is decoded is decoded again."""

# ---- the plain spelling

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrt])|([\"'/\\]))")
_LONG_REFERENCE = re.compile(r"&#[xX]?[0-9a-fA-F]{9,};?")
"""References to no character. `html` would take a quadratic time for them, or fail."""
_PERCENT = r"%[2-7][0-9a-fA-F]"
_ACCENTS = re.compile("[\u0300-\u036f]")
_OTHER_LETTERS = re.compile("[\u0370-\u052fıɡɑ]")
_WORD = re.compile(r"\w+")
_SLICE = 64 * 1024
"""The characters that are read at once: what C does with them keeps the GIL."""
_BLANK = re.compile(r"\s")
_LATIN = re.compile("[a-z]")
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝвкмнтгпьзαβεηικμνορτυχωγıɡɑ", "aeopcyxijshdqwbkmhtrnb3abenikmvoptuxwyiga"
)
"""Letters of other alphabets that look like Latin ones, in lower case."""
_QUOTES = (("‘", "'"), ("’", "'"), ("“", '"'), ("”", '"'), ("„", '"'), ("«", '"'), ("»", '"'))
"""Quotation marks, each with the one of ASCII."""
_EMPHASIS = (
    ("**", ""),
    ("`", ""),
    ("~~", ""),
    ("__", ""),
    (" _", " "),
    ("_ ", " "),
    (" *", " "),
    ("* ", " "),
)
_LEADS = " \t>|;%*/"
"""Characters before the first word of a line: marks of quotations, comments and lists."""


def plain(text: str) -> str:
    """Return a text in the spelling in which it is searched. It begins with a line feed, as each line does.

    Escapes of HTML, JSON and URLs are read. Case, accents, emphasis, compatibility forms, and what is
    invisible do not count. In words that mix alphabets, letters that look like Latin ones are these.
    """
    return "".join(map(_plain_slice, _slices(text)))


def _slices(text: str) -> Iterator[str]:
    """Yield a text in slices that end before a blank, where a line may end as well."""
    start = 0
    while start < len(text):
        blank = _BLANK.search(text, start + _SLICE, start + 2 * _SLICE)
        end = blank.start() if blank else start + 2 * _SLICE
        yield text[start:end]
        start = end


def _plain_slice(text: str) -> str:
    for _ in range(_DEEPEST):
        if (unescaped := _unescaped(text)) == text:
            break
        text = unescaped
    text = same_spelling(text)
    if not text.isascii():
        text = _without_accents(text)
        if _OTHER_LETTERS.search(text):
            text = _WORD.sub(_latin, text)
    for mark, instead in (*_EMPHASIS, *_QUOTES):
        text = text.replace(mark, instead)
    return "\n" + "\n".join(plain_line for line in text.splitlines() if (plain_line := _plain_line(line)))


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")


def _unescaped(text: str) -> str:
    if "\\" in text:
        text = _ESCAPE.sub(_character, text)
    if "&" in text:
        text = html.unescape(_LONG_REFERENCE.sub("", text))
    if "%" in text and compile_pattern(_PERCENT).search(_bytes(text)):
        text = unquote(text, errors="replace")
    return text


def _character(match: re.Match[str]) -> str:
    if code := match[1] or match[2]:
        return chr(int(code, 16))
    return "\n" if match[3] else match[4]


def _without_accents(text: str) -> str:
    parts = normalized("NFD", text)
    return text if parts == text else normalized("NFC", _ACCENTS.sub("", parts))


def _latin(word: re.Match[str]) -> str:
    is_mixed = _OTHER_LETTERS.search(word[0]) and _LATIN.search(word[0])
    return word[0].translate(_LOOKALIKES) if is_mixed else word[0]


def _plain_line(line: str) -> str:
    return " ".join(line.lstrip(_LEADS).removeprefix("# ").split())


# ---- what is not shown

_TAG = r"(?s)<!--.*?(?:-->|\z)|</?[a-zA-Z][^<>]*>"
_HIDDEN = (
    r"(?s)<!--(.*?)(?:-->|\z)",
    r"\[//\]: ?# ?[(\"'](.*)[)\"']",
    r"(?s)\{#(.*?)#\}",
    r"(?i)\s(?:alt|title|aria-label|aria-description|placeholder|content|summary|"
    r"data-[\w-]{1,40})\s?=\s?\"([^\"]{12,})\"",
    r"(?i)\s(?:alt|title|aria-label|aria-description|placeholder|content|summary|"
    r"data-[\w-]{1,40})\s?=\s?'([^']{12,})'",
    r"\]\([^()\s]+\s+[\"'(]([^\"'()]{12,})[\"')]\)",
    r"!\[([^\]\n]{40,})\]\(",
)
"""Comments, attributes, titles of links and descriptions of pictures."""

_UNSEEN = (
    r"(?i)<[a-z][^<>]*(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*[01](?:px|pt|em|"
    r"%)?\s*[;\"']"
    r"|opacity\s*:\s*0(?:\.0[0-9]*)?\s*[;\"']|[\s\"';]color\s*[:=]\s*[\"']?(?:white|#fff|transparent|"
    r"rgba?\(255,\s*255,"
    r"\s*255)|text-indent\s*:\s*-[0-9]{3}|(?:left|top)\s*:\s*-[0-9]{3}|[^-](?:height|"
    r"width)\s*:\s*[01](?:px)?\s*[;\"']"
    r"|\shidden\b|\ssize=[\"']?[01]\b)[^<>]*>?"
)
_LONGEST_UNSEEN = 4000
_MAY_HIDE = ("<", "](", "{#", "]:")


def without_tags(text: str) -> str:
    """Return a text without its HTML tags and comments, as it is displayed."""
    return compile_pattern(_TAG).sub("", text) if "<" in text else text


def hidden_texts(text: str) -> Iterator[str]:
    """Yield what a text contains that people do not see: comments, attributes, titles, invisible elements."""
    if not any(mark in text for mark in _MAY_HIDE):
        return
    data = _bytes(text)
    for pattern in _HIDDEN:
        for match in compile_pattern(pattern).finditer(data):
            yield match[1].decode(errors="replace")
    starts = [match.end() for match in compile_pattern(_UNSEEN).finditer(data)]
    for start, following in pairwise([*starts, len(data)]):
        limit = min(following, start + _LONGEST_UNSEEN)  # no part is read twice
        end = data.find(b"</", start, limit)
        yield data[start : end if end >= 0 else limit].decode(errors="replace")


# ---- characters that carry data

_CARRIERS = (
    r"[\x{E0020}-\x{E007E}]{4,}|[\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}]{4,}|"
    r"[\x{200B}-\x{200D}\x{2060}-\x{2064}\x{FEFF}]{8,}"
)
_FLAG = "\U0001f3f4".encode()
_OVERRIDDEN = r"[\x{202D}\x{202E}]([^\x{202C}-\x{202E}]*)"


def invisible_texts(text: str) -> Iterator[str]:
    """Yield what invisible characters in a text encode. People do not write such characters for people."""
    if text.isascii():
        return
    data = _bytes(text)
    for match in compile_pattern(_CARRIERS).finditer(data):
        run = match[0].decode()
        if ord(run[0]) >= 0xE0100 or 0xFE00 <= ord(run[0]) <= 0xFE0F:
            yield _from_selectors(run)
        elif ord(run[0]) < 0xE0000:
            yield _from_two_kinds(run)
        elif data[match.start() - len(_FLAG) : match.start()] != _FLAG:  # the flag of a region is spelled so
            yield "".join(chr(ord(each) - 0xE0000) for each in run)
    for match in compile_pattern(_OVERRIDDEN).finditer(data):
        yield match[1].decode()[::-1]


def _from_selectors(run: str) -> str:
    codes = (ord(each) for each in run)
    data = bytes(code - 0xFE00 if code < 0xE0000 else code - 0xE0100 + 16 for code in codes)
    return data.decode(errors="replace")


def _from_two_kinds(run: str) -> str:
    kinds = sorted(set(run))
    return _from_bits("".join("01"[kinds.index(each)] for each in run)) if len(kinds) == 2 else ""


# ---- encodings

_BASE64 = r"[A-Za-z0-9+/_-]{24,}={0,2}(?:\s{1,2}[A-Za-z0-9+/_-]{24,}={0,2})*"
_HEX = r"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[\s:,]?){16,}"
_BITS = r"(?:[01]{8}\s?){8,}"
_SPACED = r"(?:^|[\s\"':;,!?(>])(?:\pL[ .\-_*|]{1,3}){4,}\pL(?:$|[\s\"'.:;,!?)<])"
_ROT13 = r"(?i)\b(?:vafgehpgvbaf?|vtaber|qvfertneq|cebzcgf?|cerivbhf|nffvfgnag)\b"
_REVERSED = r"(?i)\b(?:snoitcurtsni|erongi|dragersid|stpmorp|suoiverp|tnatsissa)\b"
_DIGITS = (
    r"(?i)\b(?:[i1!|l][g96]n[o0]r[e3]|[i1!|]n[s5$][t7]ru[c(][t7][i1!|][o0]n[s5$]?|pr[e3]v[i1!|"
    r"][o0]u[s5$]|[a@4]ss[i1!|]s[t7]an[t7])\b"
)
_LETTERS = str.maketrans("01345678@$!|(9", "oieasgtbasiicg")

_GAPS = re.compile(r"[ .\-_*|]{2,}")
_GAP = re.compile(r"[.\-_*|]")
_READABLE = 0.9
_SHORTEST = 12


def decoded_texts(text: str, depth: int = 1) -> Iterator[str]:
    """Yield what a text encodes: in base64, hex, bits, rot13, reversed, or with gaps or digits in its words.

    What is in base64, hex or bits may encode something in turn, down to the third level.
    """
    data = _bytes(text)
    for pattern, decode in _DECODERS:
        for match in compile_pattern(pattern).finditer(data):
            decoded = decode(match[0].decode(errors="replace"))
            if decoded:
                yield decoded
                if depth < _DEEPEST:
                    yield from decoded_texts(decoded, depth + 1)
    if compile_pattern(_SPACED).search(data):
        yield compile_pattern(_SPACED).sub(_joined, text)
    if compile_pattern(_ROT13).search(data):
        yield codecs.decode(text, "rot13")
    if compile_pattern(_REVERSED).search(data):
        yield text[::-1]
    if any(not match[0].isalpha() for match in compile_pattern(_DIGITS).finditer(data)):
        yield text.translate(_LETTERS).replace("aii", "all")


def _joined(run: re.Match[str]) -> str:
    """Return letters without their gaps; larger gaps, or blanks among other marks, are between words."""
    letters = run[0]
    if _GAP.search(letters):
        return _GAP.sub("", letters)
    return " ".join(word.replace(" ", "") for word in _GAPS.split(letters))


def _as_text(data: bytes) -> str:
    """Return bytes as a text, or an empty string if they are none."""
    text = data.decode(errors="replace")
    most = (1 - _READABLE) * len(text)
    if len(text) < _SHORTEST or text.count("\ufffd") > most:
        return ""
    unreadable = sum(not (each.isprintable() or each.isspace()) for each in text)
    return text if unreadable + text.count("\ufffd") <= most else ""


def _from_base64(run: str) -> str:
    joined = "".join(run.split()).rstrip("=")
    padded = joined[: len(joined) - (len(joined) % 4 == 1)]
    padded += "=" * (-len(padded) % 4)
    try:
        return _as_text(urlsafe_b64decode(padded) if "-" in run or "_" in run else b64decode(padded))
    except (ValueError, binascii.Error):
        return ""


def _from_hex(run: str) -> str:
    digits = re.sub(r"0x|\\x|[\s:,]", "", run)
    return _as_text(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _from_bits(run: str) -> str:
    digits = "".join(run.split())
    return _as_text(bytes(int(digits[at : at + 8], 2) for at in range(0, len(digits) - 7, 8)))


_DECODERS = ((_BASE64, _from_base64), (_HEX, _from_hex), (_BITS, _from_bits))
