"""Says in plain words what is wrong in a text that is not JSON, and where."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_BLANKS = " \t\r\n"
"""The white space of JSON."""

_TOKEN = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*"?)(?P<colon>[ \t\r\n]*:)?|[{}\[\]]', re.DOTALL)
"""Matches a string, which may be unclosed, and whether it is a key; or a bracket."""

_WORD = re.compile(r'[^\s"{}\[\],:]{,40}')
_WORD_BEFORE = re.compile(r'[^\s"{}\[\],:]{,40}\Z')
_CLOSING = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class JsonMistake:
    """A mistake in a text: what is wrong, with the remedy, and the offset of the place to correct."""

    message: str
    offset: int


def repeated_keys(text: str) -> Iterator[JsonMistake]:
    """Yield a mistake for each key that its object already has. `text` is JSON."""
    objects: list[dict[str, int]] = []
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            objects.append({})
        elif token[0] in "}]":
            objects.pop()
        elif token["colon"]:
            key = json.loads(token["string"])
            first = objects[-1].setdefault(key, token.start())
            if first != token.start():
                line = _line(text, first)
                message = (
                    f"the key {key!r} is given twice in one object, first in line {line}; keep one of them"
                )
                yield JsonMistake(message, token.start())


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def lone_surrogates(text: str) -> Iterator[JsonMistake]:
    """Yield a mistake for each string with half of a surrogate pair, which UTF-8 cannot encode.

    `text` is JSON.
    """
    if not _SURROGATE.search(text):
        return
    for token in _TOKEN.finditer(text):
        if token["string"] and _SURROGATE.search(token["string"]):
            try:
                json.loads(token["string"]).encode()
            except UnicodeEncodeError as error:
                escape = f"\\u{ord(error.object[error.start]):04x}"
                remedy = "write the whole pair, or the character itself"
                yield JsonMistake(
                    f"{escape} is only half of a character in this string; {remedy}", token.start()
                )


def syntax_mistake(text: str, error: json.JSONDecodeError) -> JsonMistake:
    """Describe the error that `json.loads` raised for a text. Comments that are allowed are blank in it."""
    for begin, describe in _IN_STRINGS.items():
        if error.msg.startswith(begin):
            return describe(text, error.pos)
    at = error.pos
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 and newer report the comma
        at = len(text) - len(text[at + 1 :].lstrip(_BLANKS))
    end = len(text.rstrip(_BLANKS))
    if at >= end:
        return JsonMistake(_describe_end(text), end)
    return _between_strings(text, at, _expected(error.msg))


# ---- in strings


def _unclosed_string(text: str, at: int) -> JsonMistake:
    start = [token.start() for token in _TOKEN.finditer(text, 0, at + 1) if token["string"]][-1]
    message = (
        "this string is not closed in its line; add the closing quotation mark, or write a line end as \\n"
    )
    return JsonMistake(message, start)


def _control_character(text: str, at: int) -> JsonMistake:
    if text[at] in "\r\n":
        return _unclosed_string(text, at)
    name = "a tab" if text[at] == "\t" else "a control character"
    return JsonMistake(f"there is {name} in a string; write it as {json.dumps(text[at])[1:-1]}", at)


def _escape(text: str, at: int) -> JsonMistake:
    start = text.rfind("\\", 0, at + 1)
    escape = text[start : start + 2].strip()
    reason = "must be followed by four hexadecimal digits" if escape == "\\u" else "is not an escape of JSON"
    return JsonMistake(f"{escape} {reason}; to write a backslash, double it: \\\\", start)


_IN_STRINGS: Mapping[str, Callable[[str, int], JsonMistake]] = {
    "Unterminated string": _unclosed_string,
    "Invalid control character": _control_character,
    "Invalid \\": _escape,
}
"""The mistakes in strings, by the beginning of the parser's message."""


# ---- between strings


@dataclass(frozen=True, slots=True)
class _Rule:
    """One kind of mistake, recognized by what the parser expected, and by the text around its place."""

    expected: str
    """The words of `_EXPECTED` to which the rule applies."""
    before: str
    """A pattern of the last character before the place, followed by a blank if there are any between."""
    after: str
    """A pattern of the beginning of the text at the place."""
    message: str
    """May contain the fields of `_between_strings`."""
    at_last: bool = False
    """Whether the place to correct is the last character of the text before."""


_EXPECTED = {
    "Expecting property name": "key",
    "Illegal trailing comma before end of object": "key",
    "Expecting value": "value",
    "Illegal trailing comma before end of array": "value",
    "Expecting ':'": "colon",
    "Expecting ','": "comma",
    "Extra data": "end",
}
"""What the parser expected, by the beginning of its message."""

_EACH = "key value colon comma end"
_ANY = r"(?s:.?) ?"
_BLANK = "there is a special blank, {after!a}; replace it with an ordinary one"
_COMMENT = "{after} does not begin a comment; write // before a comment, or remove it"
_TRAILING_COMMA = "there is a comma before the closing {after}; remove the comma"
_UNCLOSED = "the {opening} of line {line} is not closed before this {after}; add {closing}"
_QUOTED_OTHERWISE = 'strings and keys begin and end with a double quotation mark ("), not with {after}'
_NO_KEY = "there is no key in double quotation marks here; write one, or write a list in [ and ]"
_NO_VALUE = (
    "{word!r} is not a value of JSON; write text in double quotation marks, a number such as 0.5, or true, "
    "false or null in lower case"
)
_NO_COLON = "the colon after this key is missing; write the key, a colon and the value"
_COLON = "this colon follows no key; write keys with their values in {{ and }}"
_QUOTE = (
    'the string ends at the quotation mark before {word!r}; write a quotation mark in a string as \\", or '
    "close the string earlier"
)
_TEXT_AFTER = "there is text after the end in line {last_line}; remove it, or a bracket that closes too early"

_RULES = (
    _Rule(_EACH, _ANY, r"[^\S \t\r\n]", _BLANK),
    _Rule(_EACH, _ANY, r"[#/]", _COMMENT),
    _Rule("key value", r", ?", r"[}\]]", _TRAILING_COMMA, at_last=True),
    _Rule("key value", _ANY, r",[ \t\r\n]*[}\]]", _TRAILING_COMMA),
    _Rule("key value", r", ?", r",", "there are two commas in a row; remove one of them"),
    _Rule("key value", r"[{\[] ?", r",", "there is a comma after the opening {before}; remove the comma"),
    _Rule("value", r": ?", r"[,}\]]", "the value after the colon is missing; add it"),
    _Rule("value", r" ?", r"[}\]]", "there is a {after} without an opening bracket; remove it"),
    _Rule("key value comma", _ANY, r"[}\]]", _UNCLOSED),
    _Rule("key value", _ANY, r"['`‘’“”„]", _QUOTED_OTHERWISE),
    _Rule("key", _ANY, r"[\w$.-]", 'the key {word} is not in double quotation marks; write "{word}"'),
    _Rule("key", _ANY, r"", _NO_KEY),
    _Rule("value comma", _ANY, r":", _COLON),
    _Rule("value", _ANY, r"", _NO_VALUE),
    _Rule("colon", _ANY, r"=", "a key is followed by a colon; replace the = with it"),
    _Rule("colon comma", r'"', r"[^\s\"{\[}\]:,]", _QUOTE),
    _Rule("comma", r'" ', r"(?!true|false|null)[^\"{\[}\]:,;\d-]", _QUOTE),
    _Rule("colon", _ANY, r"", _NO_COLON, at_last=True),
    _Rule("comma", _ANY, r";", "members are separated by commas; replace the semicolon with one"),
    _Rule("comma", r"[^\"}\]]", r"[^\"{\[]", _NO_VALUE),
    _Rule("comma", _ANY, r"", "a comma is missing after this value; add it", at_last=True),
    _Rule("end", _ANY, r"[}\]]", "there is a {after} too many; remove it, or one of those before it"),
    _Rule("end", _ANY, r"", _TEXT_AFTER),
)
"""The first rule that applies describes the mistake. The last rule of each kind applies to any text."""


def _expected(message: str) -> str:
    return next((expected for begin, expected in _EXPECTED.items() if message.startswith(begin)), "value")


def _between_strings(text: str, at: int, expected: str) -> JsonMistake:
    before = text[:at].rstrip(_BLANKS)
    last = before[-1:] + " " * (len(before) < at)
    bracket = next(reversed(_open_brackets(text, at)), 0)
    rule, after = next(
        (rule, after)
        for rule in _RULES
        if expected in rule.expected
        and re.fullmatch(rule.before, last)
        and (after := re.compile(rule.after).match(text, at))
    )
    message = rule.message.format(
        before=last[:1],
        after=after[0][-1:],
        word=_word(text, at),
        opening=text[bracket],
        closing=_CLOSING.get(text[bracket]),
        line=_line(text, bracket),
        last_line=_line(text, len(before)),
    )
    return JsonMistake(message, len(before) - 1 if rule.at_last else at)


def _describe_end(text: str) -> str:
    """Describe a text that ends too early."""
    opened = _open_brackets(text, len(text))
    if not opened:
        return "the file is empty"
    line = _line(text, opened[-1])
    closings = "".join(_CLOSING[text[at]] for at in reversed(opened))
    return f"the {text[opened[-1]]} of line {line} is not closed; end the file with {closings}"


def _open_brackets(text: str, end: int) -> list[int]:
    """Return the offsets of the brackets that are open at the offset `end`, the innermost last."""
    opened: list[int] = []
    for token in _TOKEN.finditer(text, 0, end):
        if token[0] in _CLOSING:
            opened.append(token.start())
        elif token[0] in _CLOSING.values() and opened:
            opened.pop()
    return opened


def _word(text: str, at: int) -> str:
    """Return the word around an offset, in full up to 40 characters on each side."""
    before, after = _WORD_BEFORE.search(text[:at][-40:]), _WORD.match(text, at)
    return f"{before[0] if before else ''}{after[0] if after else ''}"


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
